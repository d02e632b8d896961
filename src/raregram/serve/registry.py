"""The models of a service by name, reloaded when their files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from raregram.errors import FileError, ParameterError, RaregramError, printable
from raregram.models.model import Model
from raregram.serve.errors import RequestError
from raregram.serve.metrics import Metrics
from raregram.show.describe import file_facts, model_facts, strongest_by_position
from raregram.show.heatmap import model_names

log = logging.getLogger("raregram.serve")


class ForgetfulModel(Model):
    """A model that keeps no words of the texts that it scores."""

    noun = "context"
    remember = False


@dataclass(frozen=True)
class ServedModel:
    """A model with its name, as it was read from its file."""

    name: str
    path: Path
    model: Model
    file_facts: dict[str, Any]  # of the file that was read; it may have been replaced since

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The full description of the model."""
        return {
            "name": self.name,
            **model_facts(self.model, self.path, self.file_facts),
            "file": self.path.name,  # without the folder, which is private
            "pad": self.model.settings.pad,
            "strongest_by_position": strongest_by_position(self.model),
        }


class Registry:
    """The models of a service. A request keeps the model that it started with, even if its file is replaced."""

    def __init__(self, files: Sequence[str | Path], metrics: Metrics) -> None:
        if not files:
            raise ParameterError("name at least one model file to serve")
        paths = [Path(file) for file in files]
        stamps = [_stamp(path) for path in paths]  # before reading, so that no change is missed
        read = [_read(path) for path in paths]
        names = _names(paths, [model for model, _ in read])
        self._models = {
            name: ServedModel(name, path, *found) for name, path, found in zip(names, paths, read, strict=True)
        }
        self._stamps = dict(zip(names, stamps, strict=True))
        self.metrics = metrics
        metrics.models.set(len(names))

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    @property
    def names(self) -> list[str]:
        """The names of all models, in the order of their files."""
        return list(self._models)

    def get(self, name: str) -> ServedModel:
        """Return a model; an unknown name is an error that lists the known ones."""
        if name not in self._models:
            known = ", ".join(map(repr, self.names))
            raise RequestError(404, "unknown_model", f"there is no model {name!r}; there is {known}")
        return self._models[name]

    def select(self, names: Sequence[str] | None) -> list[ServedModel]:
        """Return some models, each once; all of them for None."""
        return list(self) if names is None else [self.get(name) for name in dict.fromkeys(names)]

    def refresh(self) -> None:
        """Reload files that have changed; where that fails, the model stays as it was."""
        for served in self:
            stamp = _stamp(served.path)
            if stamp == self._stamps[served.name]:
                continue
            self._stamps[served.name] = stamp
            try:
                self._models = self._with_new(served)
            except Exception as error:  # whatever is wrong with a file, the service continues
                self.metrics.reload_failures.inc()
                message = error if isinstance(error, RaregramError) else f"{served.path}: {type(error).__name__}"
                log.warning("%s; the model %s stays as it was", printable(str(message)), printable(served.name))
            else:
                self.metrics.reloads.inc()
                log.info("the model %s was read again", printable(served.name))

    def _with_new(self, served: ServedModel) -> dict[str, ServedModel]:
        """Return the models with one read again; raise if it goes by another name now, as that of another target."""
        found = ServedModel(served.name, served.path, *_read(served.path))
        models = {**self._models, served.name: found}
        names = _names([each.path for each in models.values()], [each.model for each in models.values()])
        if names != list(models):
            name = names[self.names.index(served.name)]
            raise FileError(f"{served.path} holds the model {name} now: start the service again to serve it")
        return models

    async def watch(self, seconds: float) -> None:
        """Look for changed files again and again."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return time, size and inode of a file, which change with it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[Model, dict[str, Any]]:
    model = ForgetfulModel.load(path)
    model.prepare()
    return model, file_facts(path)


def _names(paths: Sequence[Path], models: Sequence[Model]) -> list[str]:
    """Name models by their targets; those of the same target also by their files."""
    targets = [model.settings.target for model in models]
    names = [
        target if targets.count(target) == 1 else f"{target} ({path.stem})"
        for target, path in zip(targets, paths, strict=True)
    ]
    return names if len(set(names)) == len(names) else model_names([model.settings for model in models])

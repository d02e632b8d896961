"""The models of a service by name, reloaded when their files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
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


class ContextModel(Model):
    """A model whose errors speak of contexts, as the service does."""

    noun = "context"


@dataclass(frozen=True)
class ServedModel:
    """A model as it was read from its file."""

    path: Path
    model: Model
    file_facts: dict[str, Any]  # of the file that was read; it may have been replaced since

    @classmethod
    def read(cls, path: Path) -> ServedModel:
        """Read a model file."""
        model = ContextModel.load(path)
        model.prepare()
        return cls(path, model, file_facts(path))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The full description of the model."""
        return {
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
        stamps = [_stamp(Path(file)) for file in files]  # before reading, so that no change is missed
        self._models = _by_name([ServedModel.read(Path(file)) for file in files])
        self._stamps = dict(zip(self._models, stamps, strict=True))
        self._metrics = metrics
        metrics.models.set(len(files))

    @property
    def names(self) -> list[str]:
        """The names of all models, in the order of their files."""
        return list(self._models)

    def get(self, name: str) -> ServedModel:
        """Return a model; an unknown name is an error that lists the known ones."""
        if name not in self._models:
            known = ", ".join(map(repr, self._models))
            raise RequestError(404, "unknown_model", f"there is no model {name!r}; there is {known}")
        return self._models[name]

    def select(self, names: Sequence[str] | None = None) -> dict[str, Model]:
        """Return some models by name; all of them for None."""
        return {name: self.get(name).model for name in (self._models if names is None else names)}

    async def watch(self, seconds: float) -> None:
        """Look for changed files again and again."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read files again that have changed, each once, even if it cannot be read."""
        for name, served in self._models.items():
            stamp = _stamp(served.path)
            if stamp != self._stamps[name]:
                self._stamps[name] = stamp
                self._reload(name, served.path)

    def _reload(self, name: str, path: Path) -> None:
        """Read a model again; where that fails, or it would have another name, it stays as it was."""
        try:
            models = {**self._models, name: ServedModel.read(path)}
            renamed = dict(zip(models, _by_name(models.values()), strict=True))
            if renamed[name] != name:
                raise FileError(f"{path} holds the model {renamed[name]} now: start the service again to serve it")
        except Exception as error:  # whatever is wrong with a file, the service continues
            self._metrics.reload_failures.inc()
            message = error if isinstance(error, RaregramError) else f"{path}: {type(error).__name__}"
            log.warning("%s; the model %s stays as it was", printable(str(message)), printable(name))
        else:
            self._models = models
            self._metrics.reloads.inc()
            log.info("the model %s was read again", printable(name))


def _stamp(path: Path) -> tuple[int, ...]:
    """Return time, size and inode of a file, which change with it; nothing if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _by_name(models: Collection[ServedModel]) -> dict[str, ServedModel]:
    """Name models by their targets; those of the same target also by their files."""
    settings = [served.model.settings for served in models]
    targets = [s.target for s in settings]
    names = [
        target if targets.count(target) == 1 else f"{target} ({served.path.stem})"
        for target, served in zip(targets, models, strict=True)
    ]
    if len(set(names)) < len(names):
        names = model_names(settings)
    return dict(zip(names, models, strict=True))

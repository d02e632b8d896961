"""The models of a service: prepared for small questions, and read again when their files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.errors import ParameterError, RaregramError, printable
from raregram.models.model import Model
from raregram.show.describe import file_facts, model_facts, strongest_by_position
from raregram.show.heatmap import model_names
from raregram.text.ngrams import ABSENT, PAD, NGramsLike, Numbers

log = logging.getLogger("raregram.serve")
Stamp = tuple[int, int, int]  # tells one state of a file from another


class ReadyModel(Model):
    """A model that answers small questions fast, since its tables are kept; it keeps nothing of texts.

    The answers are those of `Model`, bit for bit.
    """

    noun = "context"

    @classmethod
    def of(cls, model: Model) -> ReadyModel:
        """Prepare a model."""
        ready = cls(model.estimator.prepared())
        ready.single([PAD] * model.settings.n)  # builds all that is kept
        return ready

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {item: code for code, item in enumerate(self.items.to_pylist())}

    def single(self, items: Sequence[str]) -> float:
        """Return the log ratio of one context of n items."""
        get = self._code_of.get
        codes = [get(item, ABSENT) for item in items]
        if ABSENT in codes and self.estimator.uses_shapes:
            unknown = [position for position, code in enumerate(codes) if code == ABSENT]
            pairs = self.estimator.encode_unknown([items[position] for position in unknown], remember=False)
            nearest, elsewhere = (pair.tolist() for pair in pairs)
            for row, position in enumerate(unknown):
                codes[position] = (nearest if position == self.settings.nearest else elsewhere)[row]
        return self.estimator.score_one(codes)

    def _encode_items(self, items: pa.Array) -> tuple[Numbers, Numbers]:
        names = items.to_pylist()
        codes = np.array([self._code_of.get(name, ABSENT) for name in names], dtype=np.int32)
        unknown = np.flatnonzero(codes < 0)
        nearest = codes.copy()
        others = [names[place] for place in unknown.tolist()]
        nearest[unknown], codes[unknown] = self.estimator.encode_unknown(others, remember=False)
        return nearest, codes

    def _encode(self, ngrams: NGramsLike, first: int, count: int) -> Numbers:
        return super()._encode(ngrams, first, 0)  # few at a time, whatever their number


@dataclass(frozen=True)
class Served:
    """A model with its name, as it was read from a file at some time."""

    name: str
    path: Path
    stamp: Stamp
    model: ReadyModel
    of_file: dict[str, Any]  # as it was then: another may have taken its place

    @cached_property
    def facts(self) -> dict[str, Any]:
        """All that there is to say about the model; its file only by its last name."""
        return {
            "name": self.name,
            **model_facts(self.model, self.path, self.of_file),
            "file": self.path.name,
            "pad": self.model.settings.pad,
            "strongest_by_position": strongest_by_position(self.model),
        }


class Shelf:
    """The models of a service by their names. A question keeps the model that it began with, whatever comes after."""

    def __init__(self, paths: Iterable[str]) -> None:
        found = [Path(path) for path in paths]
        if not found:
            raise ParameterError("name at least one model file to serve")
        read = [(path, *_read(path)) for path in found]
        names = _names(found, [model for _, _, model, _ in read])
        self._served = {name: Served(name, *of_path) for name, of_path in zip(names, read, strict=True)}
        self.reloads = self.failures = 0
        self._refused: dict[str, Stamp | None] = {}  # files that changed to something that is no model

    def __iter__(self) -> Any:
        return iter(self._served.values())

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __contains__(self, name: str) -> bool:
        return name in self._served

    @property
    def names(self) -> list[str]:
        """The names of all models, in the order in which their files were named."""
        return list(self._served)

    def refresh(self) -> None:
        """Read again what has changed; where that fails, the model that is there goes on."""
        for served in list(self):
            stamp = _stamp(served.path)
            if stamp == served.stamp or (served.name in self._refused and stamp == self._refused[served.name]):
                continue
            try:
                found = _read(served.path)
            except Exception as error:  # whatever is wrong with one file, the service and the other models go on
                self._refused[served.name] = stamp
                self.failures += 1
                said = error if isinstance(error, RaregramError) else f"{served.path}: {type(error).__name__}"
                log.warning("%s; the model %s goes on as it was", printable(str(said)), printable(served.name))
                continue
            self._refused.pop(served.name, None)
            self._served = {**self._served, served.name: Served(served.name, served.path, *found)}
            self.reloads += 1
            log.info("the model %s was read again", printable(served.name))

    async def watch(self, seconds: float) -> None:
        """Look at the files now and then, for ever; reading is done in another thread."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[Stamp, ReadyModel, dict[str, Any]]:
    """Read a model; the stamp is taken first, so that a change while reading is seen afterwards."""
    stamp = _stamp(path)
    model = ReadyModel.of(Model.load(path))
    assert stamp is not None
    return stamp, model, file_facts(path)


def _names(paths: Sequence[Path], models: Sequence[Model]) -> list[str]:
    """Name models by their targets; those of the same target also by their files."""
    targets = [model.settings.target for model in models]
    names = [
        target if targets.count(target) == 1 else f"{target} ({path.stem})"
        for target, path in zip(targets, paths, strict=True)
    ]
    return names if len(set(names)) == len(names) else model_names([model.settings for model in models])

"""Models prepared for small requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.models.backoff import Backoff
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.serve.single import Single, single_scorer
from raregram.text.ngrams import ABSENT, PAD, NGramsLike, Numbers


class ReadyModel(Model):
    """A model that scores a few contexts fast, since what it needs for each is kept; it keeps nothing of texts.

    The log ratios are those of `Model`, bit for bit.
    """

    @classmethod
    def of(cls, model: Model) -> ReadyModel:
        """Prepare a model."""
        ready = cls(model.settings, model.items, model.cells, model.table)
        ready.single([PAD] * model.settings.n)  # builds all that is kept
        return ready

    @cached_property
    def _index(self) -> dict[str, int]:
        return {item: number for number, item in enumerate(self.items.to_pylist())}

    @cached_property
    def _unit_values(self) -> Floats | None:
        return self.table.unit_values() if isinstance(self.table, Backoff) else None

    @cached_property
    def _single(self) -> Single:
        return single_scorer(self, self._unit_values)

    def single(self, items: Sequence[str]) -> float:
        """Return the log ratio of one context of n items."""
        get = self._index.get
        numbers = [get(item, ABSENT) for item in items]
        if isinstance(self.table, Backoff) and ABSENT in numbers:
            nearest = self.table.layout.outwards[0]
            for place, number in enumerate(numbers):
                if number == ABSENT:
                    near, far = self._by_shape(items[place])
                    numbers[place] = near if place == nearest else far
        return self._single(numbers)

    def _by_shape(self, item: str) -> tuple[int, int]:
        """Return the numbers of an item that the model does not hold, next to the boundary and further away."""
        assert isinstance(self.table, Backoff)
        if not self.table.layout.longest_shapes:
            return ABSENT, ABSENT
        code = self.table.number_shape(item)
        return code >> 32, code & 0xFFFFFFFF

    def number_rows(self, items: pa.Array, keys: Numbers) -> Numbers:
        """Number contexts that are given as indices into some items."""
        names = items.to_pylist()
        far = np.array([self._index.get(name, ABSENT) for name in names], dtype=np.int32)
        if not isinstance(self.table, Backoff) or not (far < 0).any():
            return far[keys]
        near = far.copy()
        for place in np.flatnonzero(far < 0).tolist():
            near[place], far[place] = self._by_shape(names[place])
        numbers, nearest = far[keys], self.table.layout.outwards[0]
        numbers[:, nearest] = near[keys[:, nearest]]
        return numbers

    def _numbers(self, ngrams: NGramsLike, first: int, vocabulary: pa.Array | None) -> Numbers:
        encoded = self.parse(ngrams, lambda row: f"context {first + row + 1}").items.dictionary_encode()
        return self.number_rows(encoded.dictionary, np.asarray(encoded.indices).reshape(-1, self.settings.n))

    def _scorer(self, count: int) -> Any:
        if isinstance(self.table, Backoff):
            table, unit_values = self.table, self._unit_values
            return lambda numbers: table.sums(numbers, unit_values)
        return super()._scorer(count)

"""Estimators that multiply the ratios of single items, each at its position: of all items, or of selected ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span, unit_spans
from raregram.counts.table import Counts, Ints
from raregram.models import intervals, ratios, selection
from raregram.models.base import BLOCK, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.frequencies import Index, pool
from raregram.models.lookup import LookupEstimator
from raregram.models.ratios import Floats
from raregram.options import CRITERION, LAM, SEED, SIZE, UNSEEN, Option
from raregram.text.vocabulary import ABSENT, MISSING, Codes


@dataclass(frozen=True, kw_only=True)
class ProductParameters(Parameters):
    """The ridge, and the factor of an item that was never seen at its position."""

    options: ClassVar[tuple[Option[Any], ...]] = (LAM, UNSEEN)

    unseen: str = UNSEEN.default


@dataclass(frozen=True, eq=False)
class Product(LookupEstimator):
    """(15) with all weights 1: the product of the ratios (16) of all items."""

    # index is (n, items + 1): the last column, code -1, is for any other item

    name = "product"
    Params: ClassVar[type[Parameters]] = ProductParameters

    @classmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return one span per position."""
        return unit_spans(settings.n)

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Product:
        """Make an estimator from its rows."""
        parts = [rows[span] for span in cls.required_spans(settings)]
        frequencies, index = pool(np.concatenate([part.values for part in parts]))
        table = np.zeros((len(parts), len(items) + 1), dtype=index.dtype)
        position = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        table[position, np.concatenate([part.keys[:, 0] for part in parts])] = index
        return cls(settings, items, frequencies, table)

    @cached_property
    def values(self) -> Floats:
        """The log ratio of each of the distinct frequencies; what is not selected has the factor 1."""
        s, f = self.settings, self.frequencies
        values = ratios.log_on_grid(ratios.unit(f.f_nu, s.n_nu, f.f_de, s.n_de, s.params.lam))
        used = f.selected.copy()
        used[0] = s.params.unseen == "formula"
        values[~used] = 0.0
        return values

    def find(self, codes: Codes) -> Index:
        """Return the index of the frequencies of each item: (contexts, n)."""
        return self.index[np.arange(len(self.index)), np.maximum(codes, ABSENT)]

    @cached_property
    def _unit_terms(self) -> Floats:
        """The terms of all items, (n, items + 2); code -1, any other item, is the last one, -2 the one before."""
        return np.insert(self.values[self.index], len(self.items), 0.0, axis=1)

    def unit_scores(self, codes: Codes) -> Floats:
        """Return the term of each item: (contexts, n)."""
        return np.where(codes == MISSING, 0.0, self.values[self.find(codes)])

    def score(self, codes: Codes) -> Floats:
        """Return the sum of the terms of each context."""
        total, term = np.zeros(len(codes)), np.empty(BLOCK)
        for first in range(0, len(codes), BLOCK):
            block = total[first : first + BLOCK]
            columns = np.ascontiguousarray(codes[first : first + BLOCK].T, dtype=np.intp)
            for terms, column in zip(self._unit_terms, columns, strict=True):
                block += np.take(terms, column, out=term[: len(block)], mode="wrap")
        return total

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        f, s = self.frequencies, self.settings
        # Also of items that are not selected: their factor of 1 is not certain, and may stand for one never seen.
        found = intervals.unit_variance(f.f_nu, f.f_de, s.n_de, s.params.lam)[self.find(codes)]
        return np.asarray(np.where(codes == MISSING, 0.0, found).sum(axis=1))

    def expected_count(self, codes: Codes) -> Floats | None:
        """Return the expected sightings of contexts of one item; of others, a product has not seen the whole."""
        there = codes != MISSING
        single = there.sum(axis=1) == 1
        return np.where(single, (self.expected(self.find(codes)) * there).sum(axis=1), 0.0) if single.any() else None

    def rows(self) -> Iterator[ModelRows]:
        """Yield the items of each position."""
        for span, index in zip(self.required_spans(self.settings), self.index, strict=True):
            items = np.flatnonzero(index).astype(np.int32)
            yield self.span_rows(span, items[:, None], index[items])


@dataclass(frozen=True, kw_only=True)
class SelectiveParameters(ProductParameters):
    """Which items are selected, too."""

    options: ClassVar[tuple[Option[Any], ...]] = (LAM, UNSEEN, CRITERION, SIZE, SEED)

    criterion: str
    size: int  # items per position
    seed: int = SEED.default  # of the criterion "random"

    def label(self) -> str:
        """Return the parameters in a few words."""
        return f" {self.criterion} {self.size:,}{super().label()}"


@dataclass(frozen=True, eq=False)
class Selective(Product):
    """(15) The paper's estimator: the product of the ratios of the selected items."""

    name = "selective"
    Params: ClassVar[type[Parameters]] = SelectiveParameters
    defaults = {"criterion": CRITERION.default, "size": SIZE.default}  # noqa: RUF012 - never changed

    @classmethod
    def choose(cls, counts: Counts, sizes: tuple[int, int], options: Options) -> Parameters:
        """Return the parameters; what is not selected is stored where it has to be told from what was never seen."""
        return super().choose(counts, sizes, {**options, "keeps_seen": options["unseen"] == "formula"})

    @classmethod
    def select(cls, f_nu: Ints, f_de: Ints, position: int, settings: Settings) -> npt.NDArray[np.bool_]:
        """Return which items of a position are in Theta_k."""
        s, p = settings, settings.params
        score = selection.scores(p.criterion, f_nu, f_de, s.n_nu, s.n_de, seed=(p.seed, position))
        selected = np.zeros(len(score), dtype=bool)
        selected[selection.top(score, f_nu + f_de, p.size)] = True
        return selected

    def knows_nothing(self, codes: Codes, score: Floats) -> npt.NDArray[np.bool_]:
        """Return which contexts the model knows nothing of.

        Where items were left out, a context that has none of the selected ones is known by that.
        """
        return np.asarray((codes == MISSING).all(axis=1)) if self._left_out else super().knows_nothing(codes, score)

    @cached_property
    def _left_out(self) -> bool:
        """Whether there may be items that were seen and are not stored."""
        p = self.settings.params
        return not p.keeps_seen and bool((np.count_nonzero(self.index, axis=1) >= p.size).any())

    def facts(self) -> Facts:
        """Return the parameters that `info` shows."""
        p = self.settings.params
        seed = {"seed": p.seed} if p.criterion == "random" else {}
        return {"criterion": p.criterion, "size": p.size, **seed, **super().facts()}

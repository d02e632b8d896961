"""Estimators with one term for each of their spans, which depends on the frequencies of that span alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span
from raregram.counts.table import Counts, Ints, compact
from raregram.models.base import Estimator, ModelRows, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index
from raregram.models.ratios import Floats
from raregram.text.vocabulary import Codes


@dataclass(frozen=True, eq=False)
class LookupEstimator(Estimator):
    """Looks up the frequencies of each span, and adds up their terms."""

    index: Index  # of the frequencies of all rows

    @classmethod
    def select(cls, f_nu: Ints, f_de: Ints, position: int, settings: Settings) -> npt.NDArray[np.bool_]:
        """Return which rows of a position are used."""
        return np.ones(len(f_nu), dtype=bool)

    @classmethod
    def fit(cls, counts: Counts, settings: Settings, memory_limit: int) -> Estimator:
        """Store the frequencies of all rows, or of the selected ones."""
        rows = []
        for span in cls.required_spans(settings):
            f_nu, f_de = counts.frequencies(span, settings.target, settings.denominator)
            selected = cls.select(f_nu, f_de, span.start, settings)
            kept = np.flatnonzero(selected | settings.params.keeps_seen)
            values = np.column_stack([f_nu, f_de, selected])[kept]
            rows.append(SpanRows(span, counts.rows[span].keys[kept], values))
        items, rows = compact(counts.items, rows)
        return cls.build(settings, items, {part.span: part for part in rows})

    @cached_property
    @abstractmethod
    def values(self) -> Floats:
        """The term of each of the distinct frequencies."""

    @abstractmethod
    def find(self, codes: Codes) -> Index:
        """Return the index of the frequencies of each span of each context: (contexts, spans)."""

    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context from its codes, (contexts, n)."""
        return np.asarray(self.values[self.find(codes)].sum(axis=1))

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return one term per span."""
        found = zip(self.required_spans(self.settings), self.find(codes[None, :])[0].tolist(), strict=True)
        return [self.term(span, items, index, float(self.values[index])) for span, index in found]

    def span_rows(self, span: Span, keys: Codes, index: Index) -> ModelRows:
        """Return the rows of one span."""
        return ModelRows(span, keys, self.frequencies.columns(index), self.values[index])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        return sum(int(table.nbytes) for table in (self.items, self.frequencies, self.index, self.values))

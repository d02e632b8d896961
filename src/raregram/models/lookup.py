"""Estimators with one term for each of their spans, which depends on the frequencies of that span alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from raregram.counts.storage import Span
from raregram.models.base import Estimator, ModelRows
from raregram.models.explain import Term
from raregram.models.frequencies import Index
from raregram.models.ratios import Floats
from raregram.text.vocabulary import Codes


@dataclass(frozen=True, eq=False)
class LookupEstimator(Estimator):
    """Looks up the frequencies of each span, and adds up their terms."""

    index: Index  # of the frequencies of all rows

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

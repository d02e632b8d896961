"""Estimators that look at the whole N-gram: one ratio of its two frequencies."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, row_bytes
from raregram.counts.spans import Span
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, RaregramWarning
from raregram.models import ratios
from raregram.models.base import Estimator, ModelRows, Options, Parameters, Settings
from raregram.models.frequencies import Index, pool
from raregram.models.lookup import LookupEstimator
from raregram.models.ratios import Floats
from raregram.text.vocabulary import Codes


@dataclass(frozen=True, eq=False)
class Whole(LookupEstimator):
    """A table of all whole N-grams; a subclass says what ratio their frequencies give."""

    keys: npt.NDArray[Any]  # (rows,) sorted: the codes of each N-gram as one value

    has_variance = False

    @abstractmethod
    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the likelihood ratio of each pair of frequencies."""

    @classmethod
    def spans_to_count(cls, longest: int | None = None, shapes: bool | None = None) -> list[str]:
        """Return the whole N-grams; units are in every table."""
        return ["units", "whole"]

    @classmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return the one span."""
        return [Span("item", 0, settings.n)]

    @classmethod
    def fit(cls, counts: Counts, settings: Settings, memory_limit: int) -> Estimator:
        """Store the frequencies of all N-grams."""
        if counts.whole not in counts.rows:
            raise ParameterError(
                f"the estimator {cls.name!r} needs whole N-grams, and this table counts none: "
                "count again with the spans 'units' and 'whole'"
            )
        if not len(counts.rows[counts.whole]):
            raise InputError(
                f"this table holds no whole N-grams any more: min_count {counts.min_count} dropped them all"
            )
        if counts.min_count > 1:
            warnings.warn(
                f"this table holds no N-grams that were seen less than {counts.min_count} times: {cls.name!r} takes "
                "them for never seen. Count without min_count to know them",
                RaregramWarning,
                stacklevel=3,
            )
        return super().fit(counts, settings, memory_limit)

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Whole:
        """Make an estimator from its rows."""
        (part,) = (rows[span] for span in cls.required_spans(settings))
        frequencies, index = pool(part.values)
        return cls(settings, items, frequencies, index, row_bytes(from_boundary(part.keys, settings.side)))

    @cached_property
    def values(self) -> Floats:
        """The log ratio of each of the distinct frequencies."""
        return ratios.log_on_grid(self.ratio(self.frequencies.f_nu, self.frequencies.f_de))

    def find(self, codes: Codes) -> Index:
        """Return the index of the frequencies of each context; 0 where it was never seen."""
        wanted = row_bytes(from_boundary(codes.astype(np.int32, copy=False), self.settings.side))
        row = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = (self._codes(self.keys[row]) == codes).all(axis=1)
        return np.where(found, self.index[row], self.index.dtype.type(0))[:, None]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        return super().nbytes + self.keys.nbytes

    def _codes(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the codes of N-grams in the order of the text."""
        codes = keys.view(">i4" if self.settings.n > 1 else keys.dtype).reshape(-1, self.settings.n)
        return from_boundary(codes, self.settings.side)

    def rows(self) -> Iterator[ModelRows]:
        """Yield the one span."""
        yield self.span_rows(Span("item", 0, self.settings.n), self._codes(self.keys).astype(np.int32), self.index)


@dataclass(frozen=True, kw_only=True)
class NoParameters(Parameters):
    """No parameters; the lam in the header of a file is 0."""

    def label(self) -> str:
        """Return nothing to follow the name of the estimator."""
        return ""


@dataclass(frozen=True, eq=False)
class MLE(Whole):
    """(1) The observed ratio: infinite or undefined where the denominator saw nothing."""

    name = "mle"
    Params = NoParameters

    @classmethod
    def choose(cls, counts: Counts, sizes: tuple[int, int], options: Options) -> Parameters:
        """Return no parameters."""
        return NoParameters()

    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the observed ratio."""
        return ratios.mle(f_nu, self.settings.n_nu, f_de, self.settings.n_de)


@dataclass(frozen=True, eq=False)
class Direct(Whole):
    """(2) The ridge estimate, which pulls rare N-grams towards 0."""

    name = "direct"

    @classmethod
    def default_lam(cls, n_nu: int, n_de: int) -> float:
        """Return the usual ridge, or at least the weight of one context: without any, ratios may be infinite."""
        return max(super().default_lam(n_nu, n_de), 1 / n_de)

    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the ridge estimate."""
        return ratios.direct(f_nu, self.settings.n_nu, f_de, self.settings.n_de, self.settings.params.lam)


@dataclass(frozen=True, eq=False)
class Smoothed(Whole):
    """The ratio of two additively smoothed relative frequencies; `lam` is alpha, the frequency that is added.

    V is the number of distinct N-grams seen, and one more for all that were not. The classical rival of a direct
    estimate of the ratio, against which section II of the paper argues.
    """

    name = "smoothed"
    defaults = {"lam": 1.0}  # noqa: RUF012 - never changed

    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the ratio of the smoothed frequencies."""
        s = self.settings
        return ratios.smoothed(f_nu, s.n_nu, f_de, s.n_de, s.params.lam, types=len(self.keys) + 1)

"""Estimators that look at the whole N-gram: one ratio of its two frequencies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.storage import Span, SpanRows, row_bytes
from raregram.counts.table import Counts, compact
from raregram.errors import InputError, ParameterError
from raregram.models import ratios
from raregram.models.base import Estimator, ModelRows, Options, Parameters, Settings, or_default
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.text.ngrams import Numbers


@dataclass(frozen=True, eq=False)
class Whole(Estimator):
    """A table of all whole N-grams; a subclass says what ratio their frequencies give."""

    keys: npt.NDArray[Any]  # (rows,) sorted: the codes of each N-gram as one value
    index: Index  # (rows,)

    has_variance = False

    @abstractmethod
    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the likelihood ratio of each pair of frequencies."""

    @classmethod
    def choose(cls, counts: Counts, n_de: int, options: Options) -> Parameters:
        """Return the ridge; 1e-5 where none is given."""
        return cls.Params(lam=or_default(options["lam"], 1e-5))

    @classmethod
    def spans_to_count(cls, longest: int | None = None, shapes: bool | None = None) -> list[str]:
        """Return the whole N-grams; units are in every table."""
        return ["units", "whole"]

    @classmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return the one span."""
        return [(0, settings.n)]

    @classmethod
    def fit(cls, counts: Counts, settings: Settings) -> Whole:
        """Store the frequencies of all N-grams."""
        (span,) = cls.required_spans(settings)
        if span not in counts.rows:
            raise ParameterError(
                f"the estimator {cls.name!r} needs whole N-grams, and this table counts none: "
                "count again with the spans 'units' and 'whole'"
            )
        f_nu, f_de = counts.frequencies(span, settings.target, settings.denominator)
        if not len(f_nu):
            raise InputError(
                f"this table holds no whole N-grams any more: min_count {counts.min_count} dropped them all"
            )
        values = np.column_stack([f_nu, f_de, np.ones_like(f_nu)])
        items, (rows,) = compact(counts.items, [SpanRows(span, counts.rows[span].keys, values)])
        return cls.build(settings, items, {span: rows})

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Whole:
        """Make an estimator from its rows."""
        (span,) = cls.required_spans(settings)
        frequencies, index = pool(rows[span].values)
        return cls(settings, items, frequencies, row_bytes(rows[span].keys), index)

    @cached_property
    def values(self) -> Floats:
        """The log ratio of each of the distinct frequencies."""
        return ratios.log_on_grid(self.ratio(self.frequencies.f_nu, self.frequencies.f_de))

    def _find(self, codes: Numbers) -> Index:
        """Return the index of the frequencies of each context; 0 where it was never seen."""
        if not len(codes):
            return self.index[:0]
        wanted = row_bytes(codes.astype(np.int32, copy=False))
        row = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = (_bytes(self.keys[row]) == _bytes(wanted)).all(axis=1)
        return np.where(found, self.index[row], self.index.dtype.type(0))

    def score(self, codes: Numbers) -> Floats:
        """Return the log ratio of each context."""
        return np.asarray(self.values[self._find(codes)])

    def terms(self, items: tuple[str, ...], codes: Numbers) -> list[Term]:
        """Return the one term."""
        index = int(self._find(codes[None, :])[0])
        return [self.term((0, self.settings.n), items, index, float(self.values[index]))]

    def rows(self) -> Iterator[ModelRows]:
        """Yield the one span."""
        codes = self.keys.view(">i4") if self.settings.n > 1 else self.keys
        keys = codes.reshape(-1, self.settings.n).astype(np.int32)
        yield ModelRows((0, self.settings.n), keys, self.frequencies.columns(self.index), self.values[self.index])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        arrays = (self.items, self.frequencies, self.keys, self.index, self.values)
        return sum(int(array.nbytes) for array in arrays)


def _bytes(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)


@dataclass(frozen=True, kw_only=True)
class NoParameters(Parameters):
    """Nothing to choose."""

    def label(self) -> str:
        """Say nothing."""
        return ""


@dataclass(frozen=True, eq=False)
class MLE(Whole):
    """(1) The observed ratio: infinite or undefined where the denominator saw nothing."""

    name = "mle"
    Params = NoParameters

    @classmethod
    def choose(cls, counts: Counts, n_de: int, options: Options) -> Parameters:
        """Return no parameters."""
        return NoParameters()

    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the observed ratio."""
        return ratios.mle(f_nu, self.settings.n_nu, f_de, self.settings.n_de)


@dataclass(frozen=True, eq=False)
class Direct(Whole):
    """(2) The ridge estimate, which pulls rare N-grams towards 0."""

    name = "direct"

    def ratio(self, f_nu: npt.ArrayLike, f_de: npt.ArrayLike) -> Floats:
        """Return the ridge estimate."""
        return ratios.direct(f_nu, self.settings.n_nu, f_de, self.settings.n_de, self.settings.params.lam)

"""The fitted model: log ratios of N-grams, each with its explanation.

It keeps the frequencies of the spans that it holds (the sufficient statistics) and derives the rest from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram import ratios, storage
from raregram.contexts import (
    ABSENT,
    KINDS,
    NGrams,
    NGramsLike,
    Numbers,
    Where,
    chunks,
    nth_ngram,
    number_items,
    parse_ngrams,
)
from raregram.counts import DENOMINATORS, SIDES
from raregram.errors import InputError, check_choice, check_count, check_lam
from raregram.explanation import Explanation, Term
from raregram.ratios import Floats
from raregram.selection import CRITERIA
from raregram.storage import PathLike, Span, SpanRows, SpanTable
from raregram.tables import Cells, Table, UnitTable, WholeTable, make_cells

UNSEEN = ("neutral", "formula")
COLUMNS = ("f_nu", "f_de", "selected")


class Equation(Protocol):
    """Frequencies of spans in, likelihood ratios out."""

    def __call__(  # noqa: D102 - described by its class
        self, f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike, lam: float
    ) -> Floats: ...


@dataclass(frozen=True)
class Estimator:
    """What tells one estimator from another."""

    spans: str  # "units": a factor for every item; "whole": one for the N-gram
    ratio: Equation
    selects: bool = False


ESTIMATORS = {
    "mle": Estimator("whole", lambda f_nu, n_nu, f_de, n_de, lam: ratios.mle(f_nu, n_nu, f_de, n_de)),
    "direct": Estimator("whole", ratios.direct),
    "product": Estimator("units", ratios.unit),
    "selective": Estimator("units", ratios.unit, selects=True),
}


@dataclass(frozen=True)
class Settings:
    """How a model was fitted, and on how much."""

    target: str
    estimator: str
    n: int
    side: str
    kind: str
    denominator: str
    n_nu: int
    n_de: int
    lam: float
    criterion: str | None  # None unless the estimator selects, like `size` and `seed`
    size: int | None
    seed: int | None
    unseen: str
    pad: bool  # whether an N-gram may have fewer items: it is filled up with pads
    keeps_seen: bool  # whether all seen spans are held, selected or not: what is not held was never seen

    def __post_init__(self) -> None:
        """Raise `ParameterError` for whatever is out of its range."""
        check_choice("estimator", "fit", self.estimator, ESTIMATORS)
        check_choice("side", "fit", self.side, SIDES)
        check_choice("kind", "fit", self.kind, KINDS)
        check_choice("denominator", "fit", self.denominator, DENOMINATORS)
        check_choice("unseen", "fit", self.unseen, UNSEEN)
        check_lam(self.lam, "fit")
        if ESTIMATORS[self.estimator].selects:
            check_choice("criterion", "fit", self.criterion, CRITERIA)
            check_count("size", "fit", self.size)
            check_count("seed", "fit", self.seed, at_least=0)
        for name, kind in (("lam", float), ("size", int), ("seed", int)):  # of NumPy's numbers, which JSON lacks
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))

    @property
    def spans(self) -> list[Span]:
        """The spans that a log ratio has a term for."""
        units = ESTIMATORS[self.estimator].spans == "units"
        return [(k, k + 1) for k in range(self.n)] if units else [(0, self.n)]

    def __str__(self) -> str:
        """Name the estimator and its settings."""
        chosen = f" {self.criterion} {self.size:,}" if self.criterion else ""
        lam = "" if self.estimator == "mle" else f", lam {self.lam:g}"
        return f"{self.estimator}{chosen}{lam}"


@dataclass(frozen=True, eq=False)
class Model:
    """Log ratios of N-grams for one target. Made by `fit`, or read by `load`."""

    settings: Settings
    items: pa.Array  # string, distinct, in byte order; an item number is an index into it
    cells: Cells
    table: Table

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, parts: Sequence[SpanRows]) -> Model:
        """Make a model from the spans that it is to hold, with the values f_nu, f_de and selected."""
        cells, numbers = make_cells(np.concatenate([part.values for part in parts]))
        table: Table
        if ESTIMATORS[settings.estimator].spans == "units":
            table = UnitTable.build(parts, numbers, len(items))
        else:
            table = WholeTable(parts[0].keys, numbers)
        return cls(settings, items, cells, table)

    @classmethod
    def load(cls, path: PathLike) -> Model:
        """Read a model file; raise `FileError` if it is not a whole one."""
        table = storage.read(path, "model")
        with storage.damage_named(path):
            settings = Settings(**table.header)
            by_span = {part.span: part for part in table.parts}
            return cls.build(settings, table.items, [by_span[span] for span in settings.spans])

    def save(self, path: PathLike) -> None:
        """Write a model file, under its final name only when it is whole."""
        parts = tuple(SpanRows(span, keys, self.cells.values(cells)) for span, keys, cells in self.table.rows())
        storage.write(path, SpanTable("model", asdict(self.settings), COLUMNS, self.items, parts))

    @cached_property
    def values(self) -> Floats:
        """The log ratio of every cell: (cells,) float64."""
        s = self.settings
        ratio = ESTIMATORS[s.estimator].ratio(self.cells.f_nu, s.n_nu, self.cells.f_de, s.n_de, s.lam)
        values = ratios.log_on_grid(ratio)
        if isinstance(self.table, UnitTable):  # a product: what is not selected has the factor 1
            first = 1 if s.unseen == "formula" else 0
            values[first:][~self.cells.selected[first:]] = 0.0
        return values

    def log_ratio(self, ngrams: NGramsLike) -> Floats:
        """Return the natural logarithm of each N-gram's likelihood ratio: one float64 an N-gram.

        Args:
            ngrams: strings, lists of items, or an integer array (N-grams, n) of item numbers: indices into
                `items`, -1 for any other item.

        For `mle` and `direct` it is minus infinity where f_nu is 0; for `mle`, infinite where f_de is 0, and
        NaN where both are 0.
        """
        if isinstance(ngrams, np.ndarray) and np.issubdtype(ngrams.dtype, np.integer):
            self._check_numbers(ngrams)
            return self.table.sums(ngrams, self.values)
        ngrams = _as_sequence(ngrams)
        parts = [self.table.sums(self._numbers(part, first), self.values) for first, part in chunks(ngrams)]
        return np.concatenate(parts) if parts else np.empty(0)

    def numbers(self, ngrams: NGramsLike) -> Numbers:
        """Return the item numbers of N-grams, (N-grams, n), with -1 for items that the model does not hold."""
        parts = [self._numbers(part, first) for first, part in chunks(_as_sequence(ngrams))]
        return np.concatenate(parts) if parts else np.empty((0, self.settings.n), np.int32)

    def explain(self, ngram: str | Sequence[str]) -> Explanation:
        """Return the terms of one N-gram's log ratio, one an item; for `mle` and `direct` just one."""
        parsed = self.parse([ngram], lambda _: "the N-gram")
        items = tuple(parsed.items.to_pylist())
        cells = self.table.cells_of(number_items(parsed.items, self.items)[None, :])[0]
        terms = (self._term(span, items, int(cell)) for span, cell in zip(self.table.spans, cells, strict=True))
        total = float(self.log_ratio([list(items)])[0])
        return Explanation(items, self.settings.target, str(self.settings), total, tuple(terms))

    def parse(self, ngrams: NGramsLike, where: Where = nth_ngram) -> NGrams:
        """Split N-grams into items as this model wants them."""
        s = self.settings
        return parse_ngrams(ngrams, s.n, s.kind, where, s.side if s.pad else None)

    @property
    def lam0(self) -> float:
        """The lam at which an item that was never seen has the ratio 1 by the unit formula."""
        return ratios.neutral_lam(self.settings.n_nu, self.settings.n_de)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of selected spans, one number a position (or one for the whole N-grams)."""
        return tuple(int(self.cells.selected[cells].sum()) for _, _, cells in self.table.rows())

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        return int(self.items.nbytes) + self.cells.nbytes + self.table.nbytes + int(self.values.nbytes)

    def __repr__(self) -> str:
        """Say what the model is in a line."""
        s = self.settings
        return (
            f"Model({s.target!r}: {s}, n={s.n} {s.side} {s.kind}, n_nu={s.n_nu:,}, n_de={s.n_de:,}, "
            f"{len(self.items):,} items, {self.nbytes / 1e6:.2f} MB)"
        )

    def _numbers(self, ngrams: NGramsLike, first: int) -> Numbers:
        """Number the items of N-grams of which the first is the caller's row `first`."""
        parsed = self.parse(ngrams, lambda row: f"N-gram {first + row + 1}")
        return number_items(parsed.items, self.items).reshape(-1, self.settings.n)

    def _check_numbers(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Raise unless these are item numbers of N-grams of this model."""
        if numbers.ndim != 2 or numbers.shape[1] != self.settings.n:
            raise InputError(f"item numbers must have the shape (N-grams, {self.settings.n}), got {numbers.shape}")
        if numbers.size and (numbers.min() < ABSENT or numbers.max() >= len(self.items)):
            raise InputError(f"item numbers must be from {ABSENT} to {len(self.items) - 1}")

    def _term(self, span: tuple[int, int], items: tuple[str, ...], cell: int) -> Term:
        """Describe what one span adds."""
        known = cell > 0 or self.settings.keeps_seen
        return Term(
            start=span[0],
            end=span[1],
            items=items[span[0] : span[1]],
            f_nu=int(self.cells.f_nu[cell]) if known else None,
            f_de=int(self.cells.f_de[cell]) if known else None,
            selected=bool(self.cells.selected[cell]),
            value=float(self.values[cell]),
        )


def _as_sequence(ngrams: NGramsLike) -> NGramsLike:
    """Return something that can be cut into parts: a lone string is a sequence of one."""
    if isinstance(ngrams, str):
        return [ngrams]
    return ngrams if hasattr(ngrams, "__getitem__") and hasattr(ngrams, "__len__") else list(ngrams)

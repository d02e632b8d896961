"""The fitted model: log ratios of N-grams, each with its explanation.

It keeps the frequencies of the spans that it holds (the sufficient statistics) and derives the rest from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.atomic import PathLike
from raregram.counts import storage
from raregram.counts.storage import Span, SpanRows, SpanTable
from raregram.counts.table import DENOMINATORS, LARGEST_TOTAL, SIDES, suffix
from raregram.errors import InputError, ParameterError, check_choice, check_count, check_lam, must_be, shorten
from raregram.models import intervals, ratios
from raregram.models.backoff import Backoff, Layout
from raregram.models.explain import Explanation, Term
from raregram.models.ratios import Floats
from raregram.models.selection import CRITERIA
from raregram.models.tables import CellNumbers, Cells, Table, UnitTable, WholeTable, make_cells
from raregram.text.ngrams import (
    ABSENT,
    KINDS,
    LONGEST_NGRAM,
    KnownWords,
    NGrams,
    NGramsLike,
    Numbers,
    Where,
    as_sequence,
    chunks,
    nth_ngram,
    number_items,
    parse_ngrams,
    spaced,
    split_spaced,
    unspaced,
)
from raregram.text.shapes import shape_function

UNSEEN = ("neutral", "formula")
CRITERIA_OF_SPANS = ("gain", *CRITERIA)  # "gain": what a span adds to a simpler estimate
COLUMNS = ("f_nu", "f_de", "selected")
LEAST_LAM, LARGEST_LAM = 1e-30, 1e30  # of a back-off: beyond them ratios leave the range of doubles
MANY = 1000  # N-grams that are worth some preparation


class Equation(Protocol):
    """Frequencies of spans in, likelihood ratios out."""

    def __call__(  # noqa: D102 - described by its class
        self, f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike, lam: float
    ) -> Floats: ...


@dataclass(frozen=True)
class Estimator:
    """What tells one estimator from another."""

    spans: str  # "units": a factor for every item; "whole": one for the N-gram; "suffixes": what backs off
    ratio: Equation
    selects: bool = False  # whether it needs a criterion and a size


ESTIMATORS = {
    "mle": Estimator("whole", lambda f_nu, n_nu, f_de, n_de, lam: ratios.mle(f_nu, n_nu, f_de, n_de)),
    "direct": Estimator("whole", ratios.direct),
    "product": Estimator("units", ratios.unit),
    "selective": Estimator("units", ratios.unit, selects=True),
    "backoff": Estimator("suffixes", ratios.unit),
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
    unit_lam: float | None = None  # from here on for "backoff" alone
    tau: float | None = None
    longest: int | None = None  # suffix of items
    longest_shapes: int | None = None  # 0: shapes are off
    shape: str | None = None
    max_bytes: int | None = None
    corpus: str | None = None  # the digest of the count file that the model was fitted from

    def __post_init__(self) -> None:
        """Raise `ParameterError` for whatever is out of its range."""
        check_choice("estimator", "fit", self.estimator, ESTIMATORS)
        check_choice("side", "fit", self.side, SIDES)
        check_choice("kind", "fit", self.kind, KINDS)
        check_choice("denominator", "fit", self.denominator, DENOMINATORS)
        check_choice("unseen", "fit", self.unseen, UNSEEN)
        for name in ("target", "shape", "corpus"):
            if not isinstance(getattr(self, name), str if name == "target" else str | None):
                raise must_be(name, "fit", "a string", getattr(self, name))
        check_count("n", "fit", self.n, at_most=LONGEST_NGRAM)
        for name in ("n_nu", "n_de"):
            check_count(name, "fit", getattr(self, name), at_least=0, at_most=LARGEST_TOTAL)
        check_lam(self.lam, "fit")
        if ESTIMATORS[self.estimator].selects:
            check_choice("criterion", "fit", self.criterion, CRITERIA)
            check_count("size", "fit", self.size)
            check_count("seed", "fit", self.seed, at_least=0)
        if self.estimator == "backoff":
            self._check_backoff()
        whole = ("n", "n_nu", "n_de", "size", "seed", "longest", "longest_shapes", "max_bytes")
        kinds = {**dict.fromkeys(("lam", "unit_lam", "tau"), float), **dict.fromkeys(whole, int)}
        for name, kind in {**kinds, "pad": bool, "keeps_seen": bool}.items():  # of NumPy's numbers, which JSON lacks
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))

    def _check_backoff(self) -> None:
        for name in ("lam", "unit_lam"):
            value = getattr(self, name)
            check_lam(value, "fit", name)
            if not LEAST_LAM <= value <= LARGEST_LAM:
                raise must_be(name, "fit", f"from {LEAST_LAM:g} to {LARGEST_LAM:g} for the back-off estimator", value)
        if not isinstance(self.tau, int | float) or not 0 <= self.tau <= 1:
            raise must_be("tau", "fit", "a number from 0 to 1", self.tau)
        check_choice("criterion", "fit", self.criterion, CRITERIA_OF_SPANS)
        for name in ("longest", "longest_shapes"):
            check_count(name, "fit", getattr(self, name), at_least=0, at_most=self.n)
        if self.size is not None:
            check_count("size", "fit", self.size)
        if self.max_bytes is not None:
            check_count("max_bytes", "fit", self.max_bytes)

    @property
    def spans(self) -> list[Span]:
        """The spans that a model holds."""
        if self.estimator == "backoff":
            return self.layout.spans
        units = ESTIMATORS[self.estimator].spans == "units"
        return [(k, k + 1) for k in range(self.n)] if units else [(0, self.n)]

    @property
    def layout(self) -> Layout:
        """The parameters of the back-off estimator."""
        names = ("n", "side", "n_nu", "n_de", "lam", "unit_lam", "tau", "longest", "longest_shapes", "shape")
        return Layout(**{name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        """Name the estimator and its settings."""
        chosen = f" {self.criterion} {self.size:,}" if self.criterion and self.size else ""
        lam = "" if self.estimator == "mle" else f", lam {self.lam:.4g}"
        tau = "" if self.tau is None else f", tau {self.tau:g}"
        return f"{self.estimator}{chosen}{lam}{tau}"


@dataclass(frozen=True, eq=False)
class Model:
    """Log ratios of N-grams for one target. Made by `fit`, or read by `load`."""

    settings: Settings
    items: pa.Array  # string, distinct, in byte order; an item number is an index into it
    cells: Cells
    table: Table | Backoff

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, parts: Sequence[SpanRows]) -> Model:
        """Make a model from the spans that it is to hold, with the values f_nu, f_de and selected."""
        if settings.estimator == "backoff":
            by_span = {part.span: part for part in parts}
            backoff, steps = Backoff.build(settings.layout, items, by_span)
            kept = backoff.reachable(by_span, steps)
            if any(len(kept[span]) < len(part) for span, part in by_span.items()):
                backoff, _ = Backoff.build(settings.layout, items, kept)
            return cls(settings, backoff.words.names, backoff.cells, backoff)
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
        if settings.longest_shapes and settings.shape is not None:
            _check_shape(settings.shape, path)
        with storage.damage_named(path):
            by_span = {part.span: part for part in table.parts}
            _check_sound(settings, by_span)
            if settings.estimator == "backoff":  # it may hold nothing of some spans
                return cls.build(settings, table.items, list(by_span.values()))
            return cls.build(settings, table.items, [by_span[span] for span in settings.spans])

    def save(self, path: PathLike) -> None:
        """Write a model file, under its final name only when it is whole."""
        parts = tuple(SpanRows(span, keys, self.cells.values(cells)) for span, keys, cells, _ in self.rows())
        storage.write(path, SpanTable("model", asdict(self.settings), COLUMNS, self.vocabulary, parts))

    def rows(self) -> Iterator[tuple[Span, Numbers, CellNumbers, Floats]]:
        """Yield each span with its keys by the numbers of `vocabulary`, their cells, and what each row adds."""
        if isinstance(self.table, Backoff):
            yield from self.table.rows()
        else:
            for span, keys, cells in self.table.rows():
                yield span, keys, cells, self.values[cells]

    @property
    def vocabulary(self) -> pa.Array:
        """All strings that rows name: the items, and for "backoff" shapes too."""
        return self.table.vocabulary if isinstance(self.table, Backoff) else self.items

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
            return self._scorer(len(ngrams))(ngrams)
        ngrams = _as_sequence(ngrams)
        score, vocabulary = self._scorer(len(ngrams)), self._spaced_items(len(ngrams))
        parts = [score(self._numbers(part, first, vocabulary)) for first, part in chunks(ngrams)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _scorer(self, count: int) -> Callable[[Numbers], Floats]:
        """Return what turns item numbers into log ratios; many N-grams are worth a table of units first."""
        table = self.table
        if isinstance(table, Backoff):
            unit_values = table.unit_values() if count > len(self.items) else None
            return lambda numbers: table.sums(numbers, unit_values)
        return lambda numbers: table.sums(numbers, self.values)

    def interval(self, ngrams: NGramsLike, level: Any = 0.95) -> Floats:
        """Return an interval for the log ratio of each N-gram, (N-grams, 2): its lower and its upper end.

        It comes from the posterior of the frequencies, so it is narrow where much was seen and wide where little was;
        the log ratio is in its middle.

        Args:
            ngrams: as for `log_ratio`.
            level: the probability that the interval is meant to cover.
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:  # type: ignore[operator]
            raise must_be("level", "interval", "a number between 0 and 1", level)
        if isinstance(self.table, WholeTable):
            raise ParameterError(
                f"the estimator {self.settings.estimator!r} has no interval: an N-gram never seen would have none. "
                "Fit 'backoff', 'product' or 'selective'"
            )
        numbers = ngrams if isinstance(ngrams, np.ndarray) and np.issubdtype(ngrams.dtype, np.integer) else None
        numbers = self.numbers(ngrams) if numbers is None else numbers
        self._check_numbers(numbers)
        parts = [self._interval(part, float(level)) for _, part in chunks(numbers)]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def _interval(self, numbers: Numbers, level: float) -> Floats:
        middle = self._scorer(0)(numbers)
        if isinstance(self.table, Backoff):
            variance = intervals.backoff_variance(self.table, self.table.trace(numbers))
        else:
            cells = self.table.cells_of(numbers)
            s = self.settings
            terms = intervals.unit_variance(self.cells.f_nu, self.cells.f_de, s.n_de, s.lam)
            counted = self.cells.selected.copy()  # what was left out on purpose has the factor 1 for sure
            counted[0] = s.keeps_seen  # what was never seen has not
            variance = np.where(counted, terms, 0.0)[cells].sum(axis=1)
        reach = intervals.half_width(variance, level)
        return np.column_stack([middle - reach, middle + reach])

    def numbers(self, ngrams: NGramsLike) -> Numbers:
        """Return the item numbers of N-grams, (N-grams, n), with -1 for items that the model does not hold."""
        ngrams = _as_sequence(ngrams)
        vocabulary = self._spaced_items(len(ngrams))
        parts = [self._numbers(part, first, vocabulary) for first, part in chunks(ngrams)]
        return np.concatenate(parts) if parts else np.empty((0, self.settings.n), np.int32)

    def explain(self, ngram: str | Sequence[str]) -> Explanation:
        """Return the terms of one N-gram's log ratio, one an item; for `mle` and `direct` just one."""
        parsed = self.parse([ngram], lambda _: "the N-gram")
        items = tuple(parsed.items.to_pylist())
        if isinstance(self.table, Backoff):
            return self._explain_backoff(items)
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
        return tuple(int(self.cells.selected[cells].sum()) for _, _, cells, _ in self.rows())

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        if isinstance(self.table, Backoff):
            return self.table.nbytes
        return int(self.items.nbytes) + self.cells.nbytes + self.table.nbytes + int(self.values.nbytes)

    def __repr__(self) -> str:
        """Say what the model is in a line."""
        s = self.settings
        return (
            f"Model({shorten(s.target)}: {s}, n={s.n} {s.side} {s.kind}, n_nu={s.n_nu:,}, n_de={s.n_de:,}, "
            f"{len(self.items):,} items, {self.nbytes / 1e6:.2f} MB)"
        )

    def _spaced_items(self, count: int) -> pa.Array | None:
        """Return the items as the fast way of reading many N-grams needs them."""
        return spaced(self.items) if self.settings.kind == "words" and count > MANY else None

    def _numbers(self, ngrams: NGramsLike, first: int, vocabulary: pa.Array | None) -> Numbers:
        """Number the items of N-grams of which the first is the caller's row `first`."""
        n = self.settings.n
        compiled = self._known_words.number(ngrams) if vocabulary is not None else None
        if compiled is not None and (compiled[1] == n).all():
            numbers, _, others = compiled
            unknown = np.flatnonzero(numbers >= len(self.items))
            which = numbers[unknown] - len(self.items)
            numbers[unknown] = ABSENT
        else:
            words = split_spaced(ngrams, n) if vocabulary is not None else None
            if words is None:
                words = self.parse(ngrams, lambda row: f"N-gram {first + row + 1}").items
                vocabulary = None
            numbers = number_items(words, self.items if vocabulary is None else vocabulary)
            if not isinstance(self.table, Backoff):
                return numbers.reshape(-1, n)
            unknown = np.flatnonzero(numbers < 0)
            found = words.take(pa.array(unknown)).dictionary_encode()
            others = found.dictionary if vocabulary is None else unspaced(found.dictionary)
            which = np.asarray(found.indices)
        if isinstance(self.table, Backoff):
            numbers = self.table.number_others(numbers, unknown, others, which)
        return numbers.reshape(-1, n)

    @cached_property
    def _known_words(self) -> KnownWords:
        return KnownWords(self.items)

    def number_rows(self, items: pa.Array, keys: Numbers) -> Numbers:
        """Return the item numbers of N-grams that are given as indices into some items: (N-grams, n)."""
        if not isinstance(self.table, Backoff):
            return number_items(items, self.items)[keys]
        near, far = self.table.number(items)
        numbers, nearest = far[keys], self.table.layout.outwards[0]
        numbers[:, nearest] = near[keys[:, nearest]]
        return numbers

    def _check_numbers(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Raise unless these are item numbers of N-grams of this model."""
        if numbers.ndim != 2 or numbers.shape[1] != self.settings.n:
            raise InputError(f"item numbers must have the shape (N-grams, {self.settings.n}), got {numbers.shape}")
        last = (self.table.size if isinstance(self.table, Backoff) else len(self.items)) - 1
        if numbers.size and (numbers.min() < ABSENT or numbers.max() > last):
            raise InputError(f"item numbers must be from {ABSENT} to {last}")

    def _explain_backoff(self, items: tuple[str, ...]) -> Explanation:
        """Return the units, then the suffixes of shapes and of items that the model holds."""
        assert isinstance(self.table, Backoff)
        layout, n = self.table.layout, self.settings.n
        numbers = self.numbers([list(items)])
        trace = self.table.trace(numbers)
        anywhere = self.table.anywhere[np.minimum(numbers[0], len(self.items))]  # -1 is the last one, too
        shapes = []
        if layout.longest_shapes and layout.shape is not None:
            shapes = list(map(shape_function(layout.shape, remember=False), items))
        names = [*items, *(near if k == layout.outwards[0] else far for k, (near, far) in enumerate(shapes))]
        terms = []
        for distance in sorted(range(n), key=lambda distance: layout.outwards[distance]):
            own, value = layout.unit(distance), float(trace.units[distance, 0])
            finest = (  # what is held of the item, or else of its shape
                ("item", own, int(trace.cells[distance, 0])),
                ("anywhere", own, int(anywhere[own[0]])),
                ("shape", layout.unit(distance, n), int(trace.shape_cells[distance, 0])),
            )
            kind, span, cell = next((found for found in finest if found[2]), ("none", own, 0))
            terms.append(self._step(kind, span, names, cell, value))
        for kind, first, followed in (("shapes", n, trace.shapes), ("items", 0, trace.words)):
            for length, cell in enumerate(followed.cells[:, 0].tolist(), 1):
                if cell:
                    span = suffix(length, n, layout.side, first)
                    prior, value = float(followed.prior[length - 1, 0]), float(followed.correction[length - 1, 0])
                    terms.append(self._step(kind, span, names, cell, value, prior))
        total = float(self.log_ratio([list(items)])[0])
        lower, upper = self.interval([list(items)])[0].tolist()
        return Explanation(items, self.settings.target, str(self.settings), total, tuple(terms), (lower, upper))

    def _step(
        self, kind: str, span: Span, names: Sequence[str], cell: int, value: float, prior: float | None = None
    ) -> Term:
        """Describe a unit, or a suffix with its prior."""
        first = self.settings.n if span[0] >= self.settings.n else 0
        return Term(
            start=span[0] - first,
            end=span[1] - first,
            items=tuple(names[span[0] : span[1]]),
            f_nu=int(self.cells.f_nu[cell]) if cell else None,
            f_de=int(self.cells.f_de[cell]) if cell else None,
            selected=cell > 0,
            value=value,
            kind=kind,
            prior=prior,
        )

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


def _check_shape(name: str, path: PathLike) -> None:
    """Raise if there is no such shape function, which is no fault of the file."""
    try:
        shape_function(name)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from error


def _check_sound(settings: Settings, parts: Mapping[Span, SpanRows]) -> None:
    """Raise `ValueError` for what no fit gives, in a file that someone made by hand."""
    if not set(parts) <= set(settings.spans):
        raise ValueError("there are spans that the estimator does not have")
    for (start, _), part in parts.items():
        times = settings.n if start >= 2 * settings.n else 1  # an item at whatever position may be everywhere
        if (part.values > np.array([settings.n_nu, settings.n_de, 1]) * [times, times, 1]).any():
            raise ValueError("a frequency is above its total")


def _as_sequence(ngrams: NGramsLike) -> NGramsLike:
    """Return something that can be cut into parts: a lone string is a sequence of one."""
    return [ngrams] if isinstance(ngrams, str) else as_sequence(ngrams)

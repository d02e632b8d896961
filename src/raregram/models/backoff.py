"""The back-off estimator: from the items outwards to ever longer suffixes, each pulled towards a simpler estimate.

The estimate of a context is a sum of logarithms:

    log r(x) = tempered units + corrections by suffixes of shapes + corrections by suffixes of items

A unit is the ratio of one item at its position, pulled towards that of the item anywhere and that of its shape, to
the power tau**sqrt(d), where d is the distance from the boundary. The correction by a suffix is log(r / r0): r is its
ridge estimate (E5) and r0 everything simpler: the estimate of the suffix that is one item shorter, the unit of the
further item and, for items, the correction by the shapes of the same suffix. A suffix that was never seen corrects
nothing.

Frequencies are all that a model stores, and what it does not hold counts as frequency 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.storage import Span, SpanRows, row_bytes, span_order
from raregram.counts.table import Ints, compact, suffix
from raregram.models import ratios
from raregram.models.pairs import PairTable
from raregram.models.ratios import Floats
from raregram.models.tables import BLOCK, CellNumbers, Cells, make_cells
from raregram.models.tries import Suffixes, Trie, Units
from raregram.text.ngrams import ABSENT, Numbers, build_vocabulary, number_items
from raregram.text.shapes import LONGEST_REMEMBERED, shape_function, shapes_of

Parts = Mapping[Span, SpanRows]

LARGEST_LOG = 500.0  # of a ratio: far from what doubles hold, and further from any that is meant
REMEMBERED = 1 << 20  # items that a model does not hold, but whose shapes it was asked for


@dataclass(frozen=True)
class Layout:
    """The parameters of the estimator, and where its spans are."""

    n: int
    side: str
    n_nu: int
    n_de: int
    lam: float  # the ridge of suffixes of items
    unit_lam: float  # the ridge of units, and of all shapes
    tau: float
    longest: int  # suffix of items
    longest_shapes: int  # 0: shapes are off
    shape: str | None  # the name of the shape function

    @property
    def outwards(self) -> range:
        """Positions from the boundary outwards; the index is the distance."""
        return range(self.n - 1, -1, -1) if self.side == "left" else range(self.n)

    def temper(self, distance: int) -> float:
        """Return the exponent of a unit."""
        return float(self.tau ** np.sqrt(distance))

    def unit(self, distance: int, first: int = 0) -> Span:
        """Return the span of a unit; `first` is 0 for items and n for shapes."""
        position = first + self.outwards[distance]
        return (position, position + 1)

    @property
    def anywhere(self) -> Span:
        """The span that stands for an item at whatever position."""
        return (2 * self.n, 2 * self.n + 1)

    def suffixes(self, first: int = 0) -> list[Span]:
        """Return the spans of two and more items next to the boundary, shorter ones first."""
        longest = self.longest_shapes if first else self.longest
        return [suffix(length, self.n, self.side, first) for length in range(2, longest + 1)]

    @property
    def spans(self) -> list[Span]:
        """All spans."""
        found = [self.unit(distance) for distance in range(self.n)] + self.suffixes()
        if self.longest_shapes:
            found += [self.unit(distance, self.n) for distance in range(self.n)] + self.suffixes(self.n)
            found.append(self.anywhere)
        return sorted(found, key=span_order)


@dataclass(frozen=True)
class Step:
    """How the rows of one span change the estimate, in the order of the rows."""

    parent: Ints  # the row of the suffix that is one item shorter; -1: it is not there, and so this row does nothing
    prior: Floats  # log r0
    correction: Floats  # log(r / r0)


@dataclass(frozen=True)
class Followed:
    """The suffixes of some contexts, (lengths, contexts); one that is not held has cell 0 and correction 0."""

    cells: CellNumbers
    prior: Floats  # log r0
    correction: Floats  # log(r / r0)


@dataclass(frozen=True)
class Trace:
    """What the log ratios of some contexts are made of: units (n, contexts) by distance, and suffixes."""

    units: Floats
    cells: CellNumbers
    shape_units: Floats
    shape_cells: CellNumbers
    shapes: Followed
    words: Followed


@dataclass(frozen=True)
class Backoff:
    """The estimator over the frequencies that it holds.

    Numbers of items are indices into `words.names`; then follow numbers for other items of a known shape, one for
    each of `shapes.names`; the last one is for the rest.
    """

    layout: Layout
    cells: Cells
    words: Trie
    shapes: Trie
    anywhere: CellNumbers  # (names + 1,) the cell of each item at whatever position
    near: npt.NDArray[np.unsignedinteger[Any]]  # (numbers,) the shape of an item next to the boundary
    far: npt.NDArray[np.unsignedinteger[Any]]  # (numbers,) and further away

    @classmethod
    def build(cls, layout: Layout, items: pa.Array, parts: Parts) -> tuple[Backoff, dict[Span, Step]]:
        """Make an estimator from rows with the values f_nu, f_de and selected; return also what each row does."""
        n = layout.n
        of_words = [part for span, part in parts.items() if span[0] < n or span[0] >= 2 * n]
        of_shapes = [part for span, part in parts.items() if n <= span[0] < 2 * n]
        none = np.empty((0, 3), dtype=np.int64)
        cells, numbers = make_cells(np.concatenate([none, *(part.values for part in (*of_words, *of_shapes))]))
        bounds = np.cumsum([0, *(len(part) for part in (*of_words, *of_shapes))])
        codes = {
            part.span: numbers[first:last]
            for part, first, last in zip((*of_words, *of_shapes), bounds[:-1], bounds[1:], strict=True)
        }
        words, of_words = compact(items, of_words)
        shapes, of_shapes = compact(items, of_shapes)
        rows = {part.span: part for part in (*of_words, *of_shapes)}
        near, far = _shape_numbers(words, shapes, layout.shape)
        anywhere = np.zeros(len(words) + 1, dtype=numbers.dtype)
        if layout.anywhere in rows:
            anywhere[rows[layout.anywhere].keys[:, 0]] = codes[layout.anywhere]
        bare = cls(
            layout,
            cells,
            Trie(words, _lay_out_units(layout, rows, codes, numbers[:0], len(words), 0), ()),
            Trie(shapes, _lay_out_units(layout, rows, codes, numbers[:0], len(shapes), n), ()),
            anywhere,
            near,
            far,
        )
        return bare._with_suffixes(rows, codes)

    def reachable(self, parts: Parts, steps: Mapping[Span, Step]) -> dict[Span, SpanRows]:
        """Return the rows that take part: a suffix without the one that is an item shorter does not."""
        suffixes = {*self.layout.suffixes(), *self.layout.suffixes(self.layout.n)}
        kept = {}
        for span, part in parts.items():
            rows = np.flatnonzero(steps[span].parent >= 0) if span in steps else np.empty(0, dtype=np.int64)
            kept[span] = SpanRows(span, part.keys[rows], part.values[rows]) if span in suffixes else part
        return kept

    def _with_suffixes(self, rows: Parts, codes: Mapping[Span, CellNumbers]) -> tuple[Backoff, dict[Span, Step]]:
        """Add the suffixes, shorter ones first, shapes before items."""
        steps: dict[Span, Step] = {}
        shapes = self._grow(self.shapes, self.layout.n, rows, codes, steps, None)
        words = self._grow(self.words, 0, rows, codes, steps, shapes)
        whole = Backoff(self.layout, self.cells, words, shapes, self.anywhere, self.near, self.far)
        for distance in range(self.layout.n):
            for first in (0, self.layout.n):
                span = self.layout.unit(distance, first)
                if span in rows:
                    steps[span] = whole._unit_step(distance, first, rows[span].keys[:, 0])
        if self.layout.anywhere in rows:
            steps[self.layout.anywhere] = whole._anywhere_step(rows[self.layout.anywhere].keys[:, 0])
        return whole, steps

    def _grow(
        self,
        row: Trie,
        first: int,
        rows: Parts,
        codes: Mapping[Span, CellNumbers],
        steps: dict[Span, Step],
        shapes: Trie | None,
    ) -> Trie:
        """Return items or shapes with their suffixes; `shapes` are the finished shapes that items are pulled to."""
        lam = self.layout.unit_lam if first else self.layout.lam
        estimate = self._first_estimates(first)
        row_of_place: Ints = np.arange(len(row.names))
        total = np.zeros(len(row.names))
        for span in self.layout.suffixes(first):
            if span not in rows:
                break
            distance = span[1] - span[0] - 1
            columns = self._columns(rows[span].keys)
            parent = columns[0].astype(np.int64) if distance == 1 else np.full(len(columns[0]), -1, dtype=np.int64)
            for length, some, number in row.walk(columns[:-1]):
                if length == distance:
                    parent[some] = number
            there = np.flatnonzero(parent >= 0)
            if not len(there):
                break
            columns = [column[there] for column in columns]
            prior = estimate[parent[there]] + self._units(first, distance, columns[-1])
            if shapes is not None:
                prior += _last_corrections(shapes, self._shape_columns(columns))
            f_nu, f_de = rows[span].values[there, 0], rows[span].values[there, 1]
            correction = self._correction(prior, f_nu, f_de, lam)
            steps[span] = _spread(len(parent), there, row_of_place[parent[there]], prior, correction)
            pairs, order = PairTable.build(parent[there], columns[-1], len(row.names))
            estimate = (prior + correction)[order]
            total = (total[parent[there]] + correction)[order]
            row_of_place = there[order]
            suffixes = Suffixes(pairs, codes[span][there][order], total.astype(np.float32))
            row = Trie(row.names, row.units, (*row.suffixes, suffixes))
        return row

    def _correction(self, prior: Floats, f_nu: npt.ArrayLike, f_de: npt.ArrayLike, lam: float) -> Floats:
        """Return log(r / r0) of frequencies, given log r0."""
        r0 = ratio_of(prior)
        ratio = ratios.ridge(r0, np.asarray(f_nu) / self.layout.n_nu, np.asarray(f_de) / self.layout.n_de, lam) / r0
        return ratios.log_on_grid(ratio, grid=ratios.COARSE_GRID)

    def _first_estimates(self, first: int) -> Floats:
        """Return the log ratio of every suffix of one item, or of one shape."""
        names = self.shapes.names if first else self.words.names
        numbers = np.arange(len(names)) + (len(self.words.names) if first else 0)
        return np.asarray(self._units(0, 0, numbers) + self._first_corrections(numbers).sum(axis=0))

    def _first_corrections(self, numbers: npt.NDArray[Any]) -> Floats:
        """Return the corrections by the suffixes of one shape and of one item: (2, numbers)."""
        layout = self.layout
        shape_cell = self.shapes.units[0].cells_of(self.near[numbers])
        of_shape = np.zeros(len(numbers))
        if layout.longest_shapes:
            prior = self._units(layout.n, 0, self.near[numbers])
            of_shape = self._correction(prior, *self.cells.frequencies(shape_cell), layout.unit_lam)
        cell = self.words.units[0].cells_of(np.minimum(numbers, len(self.words.names)))
        prior = self._units(0, 0, numbers) + of_shape
        of_item = np.zeros(len(numbers))
        if layout.longest:
            of_item = self._correction(prior, *self.cells.frequencies(cell), layout.lam)
        return np.stack([of_shape, of_item])

    def _units(
        self, first: int, distance: int, numbers: npt.NDArray[Any], *, own: bool = True, anywhere: bool = True
    ) -> Floats:
        """Return the tempered log ratios of units: of numbers of items, or (`first` is n) of numbers of shapes.

        Those of items may be asked for without the evidence of the item at its own position, or anywhere.
        """
        layout, cells = self.layout, self.cells
        absent = len(self.words.names)
        words = np.full(len(numbers), absent) if first else np.minimum(numbers, absent)
        cell = self.words.units[distance].cells_of(words) if own else np.zeros(len(numbers), dtype=np.int64)
        power = layout.temper(distance)
        if not layout.longest_shapes:
            f_nu, f_de = cells.frequencies(cell)
            ratio = ratios.unit(f_nu, layout.n_nu, f_de, layout.n_de, layout.unit_lam)
            return np.where(cell > 0, ratios.log_on_grid(ratio, power), 0.0)
        shapes = numbers if first else (self.far if distance else self.near)[numbers]
        ratio = self._towards(1.0, self.shapes.units[distance].cells_of(shapes), layout.unit_lam)
        if not first and anywhere:
            ratio = self._towards(ratio, self.anywhere[words], layout.lam, positions=layout.n)
        if not first and own:
            ratio = self._towards(ratio, cell, layout.unit_lam)
        return ratios.log_on_grid(ratio, power)

    def _towards(self, r0: npt.ArrayLike, cell: npt.NDArray[Any], lam: float, positions: int = 1) -> Floats:
        """Return the ridge estimate (E5) of the frequencies of cells, which were counted at so many positions."""
        p_nu = self.cells.f_nu / (self.layout.n_nu * positions)  # of every cell, which are few
        p_de = self.cells.f_de / (self.layout.n_de * positions)
        return ratios.ridge(r0, p_nu[cell], p_de[cell], lam)

    @property
    def size(self) -> int:
        """How many numbers there are: items, other items by shape, the rest."""
        return len(self.words.names) + len(self.shapes.names) + 1

    def _known(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give items that are unknown altogether the last number."""
        return np.where(numbers < 0, self.size - 1, numbers)

    def _columns(self, keys: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the columns of rows of numbers by distance from the boundary."""
        columns = list(np.ascontiguousarray(keys.T, dtype=np.intp))  # what NumPy looks up with
        return columns[::-1] if self.layout.side == "left" else columns

    def _shape_columns(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return the numbers of the shapes of items, by distance."""
        return [(self.far if distance else self.near)[column] for distance, column in enumerate(columns)]

    def unit_values(self) -> Floats:
        """Return what an item adds by itself at every distance: (n, numbers)."""
        numbers = np.arange(self.size)
        values = np.stack([self._units(0, distance, numbers) for distance in range(self.layout.n)])
        values[0] += self._first_corrections(numbers).sum(axis=0)
        return values

    def sums(self, numbers: Numbers, unit_values: Floats | None = None) -> Floats:
        """Return the log ratio of contexts; many are worth a table of `unit_values` first."""
        total = np.empty(len(numbers))
        for begin in range(0, len(numbers), BLOCK):
            columns = self._columns(self._known(numbers[begin : begin + BLOCK]))
            if unit_values is None:
                block = self._first_corrections(columns[0]).sum(axis=0)
                for distance, column in enumerate(columns):
                    block += self._units(0, distance, column)
            else:
                block = np.zeros(len(columns[0]))
                for values, column in zip(unit_values, columns, strict=True):
                    block += values.take(column, mode="clip")  # nothing is out of range, and this skips the check
            if self.layout.longest > 1:
                block += self.words.totals(columns[: self.layout.longest])
            if self.layout.longest_shapes > 1:
                block += self.shapes.totals(columns[: self.layout.longest_shapes], (self.near, self.far))
            total[begin : begin + BLOCK] = block
        return total

    def _unit_step(self, distance: int, first: int, numbers: npt.NDArray[Any]) -> Step:
        """Return what the units of one position do."""
        if first:
            prior = np.zeros(len(numbers))
            after = self._units(first, distance, numbers)
            numbers = numbers + len(self.words.names)
        else:
            prior = self._units(0, distance, numbers, own=False)
            after = self._units(0, distance, numbers)
        if distance == 0:
            after = after + self._first_corrections(numbers)[0 if first else 1]
        return Step(np.arange(len(numbers)), prior, after - prior)

    def _anywhere_step(self, numbers: npt.NDArray[Any]) -> Step:
        """Return what items at whatever position do, at a middling distance."""
        distance = self.layout.n // 2
        prior = self._units(0, distance, numbers, own=False, anywhere=False)
        after = self._units(0, distance, numbers, own=False)
        return Step(np.arange(len(numbers)), prior, after - prior)

    def rows(self) -> Iterator[tuple[Span, Numbers, CellNumbers, Floats]]:
        """Yield each span with its rows by the numbers of `vocabulary`, sorted, their cells and what they add."""
        layout = self.layout
        _, numbers = build_vocabulary(pa.concat_arrays([self.words.names, self.shapes.names]))
        found = []
        for row, first in ((self.words, 0), (self.shapes, layout.n)):
            into = numbers[len(self.words.names) :] if first else numbers
            for distance, units in enumerate(row.units):
                step = self._unit_step(distance, first, units.items.astype(np.int64))
                found.append((layout.unit(distance, first), into[units.items][:, None], units.cells, step.correction))
            keys = np.arange(len(row.names), dtype=np.int32)[:, None]
            before = np.zeros(len(row.names))
            for span, suffixes in zip(layout.suffixes(first), row.suffixes, strict=False):
                parent, item = suffixes.pairs.split()
                nearer, further = keys[parent], item.astype(np.int32)[:, None]
                keys = np.hstack([further, nearer] if layout.side == "left" else [nearer, further])
                found.append((span, into[keys], suffixes.cells, suffixes.total - before[parent]))
                before = suffixes.total.astype(np.float64)
        items = np.flatnonzero(self.anywhere)
        found.append(
            (layout.anywhere, numbers[items][:, None], self.anywhere[items], self._anywhere_step(items).correction)
        )
        wanted = set(layout.spans)
        for span, keys, cells, values in sorted(found, key=lambda entry: span_order(entry[0])):
            if span in wanted:
                order = np.argsort(row_bytes(keys), kind="stable")
                yield span, keys[order], cells[order], values[order]

    @property
    def vocabulary(self) -> pa.Array:
        """Items and shapes together, distinct and in byte order."""
        return build_vocabulary(pa.concat_arrays([self.words.names, self.shapes.names]))[0]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = self.anywhere.nbytes + self.near.nbytes + self.far.nbytes
        return self.cells.nbytes + self.words.nbytes + self.shapes.nbytes + arrays

    def trace(self, numbers: Numbers) -> Trace:
        """Return all that the log ratios of contexts are made of."""
        layout = self.layout
        columns = self._columns(self._known(numbers))
        shape_columns = self._shape_columns(columns)
        first = self._first_corrections(columns[0])
        units = np.stack([self._units(0, distance, column) for distance, column in enumerate(columns)])
        shape_units = np.stack(
            [self._units(layout.n, distance, column) for distance, column in enumerate(shape_columns)]
        )
        words = _followed(self.words, columns[: layout.longest], first[1], layout.longest)
        shapes = _followed(self.shapes, shape_columns[: layout.longest_shapes], first[0], layout.longest_shapes)
        known = [np.minimum(column, len(self.words.names)) for column in columns]
        cells = np.stack([units.cells_of(column) for units, column in zip(self.words.units, known, strict=True)])
        shape_cells = np.stack(
            [units.cells_of(column) for units, column in zip(self.shapes.units, shape_columns, strict=True)]
        )
        shapes[0][:1], words[0][:1] = shape_cells[:1], cells[:1]
        prior = _priors(shape_units, shapes[1], np.zeros_like(shapes[1]))
        of_shapes = Followed(shapes[0], prior, shapes[1])
        added = np.zeros_like(words[1])
        common = min(len(words[1]), len(shapes[1]))
        added[:common] = shapes[1][:common]
        of_words = Followed(words[0], _priors(units, words[1], added), words[1])
        return Trace(units, cells, shape_units, shape_cells, of_shapes, of_words)

    def number(self, items: pa.Array) -> tuple[Numbers, Numbers]:
        """Return the numbers of items next to the boundary, and further away."""
        numbers = number_items(items, self.words.names)
        unknown = np.flatnonzero(numbers < 0)
        near, far = numbers.copy(), numbers.copy()
        near[unknown], far[unknown] = self._number_shapes(items.take(pa.array(unknown)))
        return near, far

    def number_others(self, numbers: Numbers, unknown: Ints, others: pa.Array, which: npt.NDArray[Any]) -> Numbers:
        """Give the unknown among the items of contexts, one context after the other, a number by their shape.

        Args:
            numbers: the numbers of all items.
            unknown: where they are negative.
            others: what stands there, each once.
            which: and where each of them stands.
        """
        near, far = self._number_shapes(others)
        nearest = unknown % self.layout.n == self.layout.outwards[0]
        numbers = numbers.copy()
        numbers[unknown] = np.where(nearest, near[which], far[which])
        return numbers

    def _number_shapes(self, items: pa.Array) -> tuple[Numbers, Numbers]:
        """Return the numbers of items that have none of their own: those of their shapes, or that for the rest."""
        if self.layout.shape is None or not self.layout.longest_shapes:
            return (np.full(len(items), ABSENT, dtype=np.int32),) * 2
        names, known = items.to_pylist(), self._others
        codes = list(map(known.get, names))
        new = {name: self.number_shape(name) for name, code in zip(names, codes, strict=True) if code is None}
        if new:
            if len(known) > REMEMBERED:
                known.clear()
            known.update((name, code) for name, code in new.items() if len(name) <= LONGEST_REMEMBERED)
            codes = [new[name] if code is None else code for name, code in zip(names, codes, strict=True)]
        pairs = np.array(codes, dtype=np.int64)
        return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)

    @cached_property
    def _others(self) -> dict[str, int]:
        """Numbers that were given by shape, near << 32 | far, so that they need not be found again."""
        return {}

    @cached_property
    def _number_of_shape(self) -> dict[str, int]:
        """The number of other items of a shape."""
        return {name: number for number, name in enumerate(self.shapes.names.to_pylist(), len(self.words.names))}

    def number_shape(self, item: str) -> int:
        """Return near << 32 | far: the numbers of an item that is known by its shape alone."""
        assert self.layout.shape is not None
        near, far = shape_function(self.layout.shape, remember=False)(item)
        rest = self.size - 1
        return self._number_of_shape.get(near, rest) << 32 | self._number_of_shape.get(far, rest)


def ratio_of(log_ratio: Floats) -> Floats:
    """Return exp(log_ratio), finite and above 0."""
    return np.exp(np.clip(log_ratio, -LARGEST_LOG, LARGEST_LOG))


def gains(step: Step, f_nu: Ints, f_de: Ints, layout: Layout) -> Floats:
    """Return what rows are worth: how much likelier they make the contexts that hold them, in nats.

    The frequency in the numerator is taken as Poisson with the mean r * n_nu * f_de / n_de; the gain is the log
    likelihood of r over that of r0.
    """
    expected = layout.n_nu * (f_de / layout.n_de) * ratio_of(step.prior)
    return np.asarray(f_nu * step.correction - expected * np.expm1(step.correction))


def _lay_out_units(
    layout: Layout, rows: Parts, codes: Mapping[Span, CellNumbers], none: CellNumbers, names: int, first: int
) -> tuple[Units, ...]:
    """Return all units by distance."""
    found = []
    for distance in range(layout.n):
        span = layout.unit(distance, first)
        items, cells = (rows[span].keys[:, 0], codes[span]) if span in rows else (np.empty(0, dtype=np.int32), none)
        found.append(Units.build(items, cells, names))
    return tuple(found)


def _shape_numbers(words: pa.Array, shapes: pa.Array, shape: str | None) -> tuple[Any, Any]:
    """Return the shape of every number, next to the boundary and further away."""
    dtype = np.min_scalar_type(len(shapes))
    others = np.arange(len(shapes) + 1)
    if shape is None:
        return (np.zeros(len(words) + 1, dtype=dtype),) * 2
    known = (number_items(names, shapes) for names in shapes_of(words, shape))
    near, far = (np.concatenate([np.where(some < 0, len(shapes), some), others]).astype(dtype) for some in known)
    return near, far


def _last_corrections(shapes: Trie, columns: Sequence[npt.NDArray[Any]]) -> Floats:
    """Return the correction by the suffix of shapes that is as long as there are columns; 0 where it is not held."""
    before, last = np.zeros(len(columns[0])), np.zeros(len(columns[0]))
    for length, rows, number in shapes.walk(columns):
        total = shapes.suffixes[length - 2].total[number]
        if length == len(columns):
            last[rows] = total - before[rows]
        before[rows] = total
    return last


def _followed(
    row: Trie, columns: Sequence[npt.NDArray[Any]], first: Floats, longest: int
) -> tuple[CellNumbers, Floats]:
    """Return the cell and the correction of every suffix of contexts: (lengths, contexts)."""
    cells = np.zeros((longest, len(first)), dtype=row.units[0].cells.dtype)
    corrections = np.zeros((longest, len(first)))
    if longest:
        corrections[0] = first
        before = np.zeros(len(first))
        for length, rows, number in row.walk(columns):
            suffixes = row.suffixes[length - 2]
            cells[length - 1, rows] = suffixes.cells[number]
            corrections[length - 1, rows] = suffixes.total[number] - before[rows]
            before[rows] = suffixes.total[number]
    return cells, corrections


def _priors(units: Floats, corrections: Floats, added: Floats) -> Floats:
    """Return log r0 of every suffix: the shorter one's estimate, the further unit, and what is added."""
    steps = units[: len(corrections)] + added
    return np.cumsum(steps + corrections, axis=0) - corrections


def _spread(size: int, there: Ints, parent: Ints, prior: Floats, correction: Floats) -> Step:
    """Put what some rows do into the order of all rows."""
    step = Step(np.full(size, -1, dtype=np.int64), np.zeros(size), np.zeros(size))
    step.parent[there], step.prior[there], step.correction[there] = parent, prior, correction
    return step

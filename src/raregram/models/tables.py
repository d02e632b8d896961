"""Look-up tables: item numbers of contexts -> the frequencies of their spans.

Most spans share their frequencies with thousands of others, so a table does not hold frequencies but cells: small
numbers that point to the distinct (f_nu, f_de, selected). Cell 0 stands for whatever a model does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from raregram.counts.storage import Span, SpanRows, find_rows
from raregram.models.ratios import Floats
from raregram.text.ngrams import Numbers

CellNumbers = npt.NDArray[np.unsignedinteger[Any]]
SMALL = 1 << 22  # a whole number below it is looked up in a table
BLOCK = 8192  # contexts summed up at a time: their numbers and sums stay in the cache


@dataclass(frozen=True)
class Cells:
    """The distinct frequencies of a model."""

    f_nu: npt.NDArray[np.signedinteger[Any]]  # (cells,)
    f_de: npt.NDArray[np.signedinteger[Any]]
    selected: npt.NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.f_nu.nbytes + self.f_de.nbytes + self.selected.nbytes

    def frequencies(self, cells: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return f_nu and f_de of each cell."""
        return self.f_nu[cells], self.f_de[cells]

    def values(self, cells: CellNumbers) -> npt.NDArray[np.int64]:
        """Return (f_nu, f_de, selected) of each cell as columns, the way a file holds them."""
        return np.column_stack([self.f_nu[cells], self.f_de[cells], self.selected[cells]]).astype(np.int64)


def make_cells(values: npt.NDArray[np.int64]) -> tuple[Cells, CellNumbers]:
    """Return the distinct rows of (f_nu, f_de, selected), and for each row its cell.

    >>> cells, numbers = make_cells(np.array([[5, 1, 1], [0, 2, 1], [5, 1, 1]]))
    >>> numbers, cells.f_nu.tolist()
    (array([2, 1, 2], dtype=uint8), [0, 0, 5])
    """
    f_nu, f_de, selected = values.T
    largest = int(f_de.max(initial=0))
    if (int(f_nu.max(initial=0)) + 1) * (largest + 1) >= 2**62:  # too large for one whole number: take their ranks
        f_nu, f_de = (np.unique(f, return_inverse=True)[1] for f in (f_nu, f_de))
        largest = int(f_de.max(initial=0))
    distinct, key = _rank((f_nu * (largest + 1) + f_de) * 2 + (selected != 0))
    first = np.empty(len(distinct), dtype=np.int64)
    first[key] = np.arange(len(key))
    held = np.concatenate([np.zeros((1, 3), np.int64), values[first]])
    numbers = (key + 1).astype(np.min_scalar_type(len(held)))
    size = np.int32 if held.max() < 2**31 else np.int64
    return Cells(held[:, 0].astype(size), held[:, 1].astype(size), held[:, 2].astype(bool)), numbers


def _rank(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct values from 0 on in order, and the place of each value; most of them should be small."""
    large = np.flatnonzero(values >= SMALL)
    place = np.zeros(SMALL + 1, dtype=np.int64)
    cut = np.minimum(values, SMALL)
    place[cut] = 1
    place[SMALL] = 0
    small, (others, rank) = np.flatnonzero(place), np.unique(values[large], return_inverse=True)
    place[small] = np.arange(len(small))
    places = place.take(cut)
    places[large] = len(small) + rank
    return np.concatenate([small, others]), places


class Table(Protocol):
    """What a model asks of its look-up table."""

    @property
    def spans(self) -> Sequence[Span]:
        """The spans that a log ratio has a term for."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""

    def cells_of(self, numbers: Numbers) -> CellNumbers:
        """Return the cell of every term of every context: (contexts, terms)."""

    def sums(self, numbers: Numbers, values: Floats) -> Floats:
        """Add up the values of the cells of every context."""

    def rows(self) -> Iterator[tuple[Span, Numbers, CellNumbers]]:
        """Yield each span with the keys that the table holds and their cells."""


@dataclass(frozen=True)
class UnitTable:
    """One cell for every item at every position."""

    cells: CellNumbers  # (n, items + 1): the last column, number -1, is for absent items

    @classmethod
    def build(cls, parts: Sequence[SpanRows], cells: CellNumbers, num_items: int) -> UnitTable:
        """Lay out the cells of all units, which follow each other in the order of `parts`."""
        table = np.zeros((len(parts), num_items + 1), dtype=cells.dtype)
        position = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        table[position, np.concatenate([part.keys[:, 0] for part in parts])] = cells
        return cls(table)

    @property
    def spans(self) -> Sequence[Span]:
        """One span an item."""
        return [(k, k + 1) for k in range(len(self.cells))]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.cells.nbytes

    def cells_of(self, numbers: Numbers) -> CellNumbers:
        """Return the cell of each item of each context: (contexts, n)."""
        return self.cells[np.arange(len(self.cells)), numbers]

    def sums(self, numbers: Numbers, values: Floats) -> Floats:
        """Add up the values of each context's items; many contexts are worth a table of values first."""
        if len(numbers) <= self.cells.shape[1]:
            return np.asarray(values[self.cells_of(numbers)].sum(axis=1))
        dense = values[self.cells]
        total, term = np.zeros(len(numbers)), np.empty(BLOCK)
        for first in range(0, len(numbers), BLOCK):
            block = total[first : first + BLOCK]
            for k, items in enumerate(np.ascontiguousarray(numbers[first : first + BLOCK].T, dtype=np.intp)):
                block += np.take(dense[k], items, out=term[: len(block)], mode="wrap")  # -1 is the last column
        return total

    def rows(self) -> Iterator[tuple[Span, Numbers, CellNumbers]]:
        """Yield each position with the items that it holds."""
        for span, cells in zip(self.spans, self.cells, strict=True):
            items = np.flatnonzero(cells).astype(np.int32)
            yield span, items[:, None], cells[items]


@dataclass(frozen=True)
class WholeTable:
    """One cell for every whole N-gram."""

    keys: Numbers  # (rows, n), sorted
    cells: CellNumbers  # (rows,)

    @property
    def spans(self) -> Sequence[Span]:
        """One span, the N-gram itself."""
        return [(0, self.keys.shape[1])]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.cells.nbytes

    def cells_of(self, numbers: Numbers) -> CellNumbers:
        """Return the cell of each context: (contexts, 1)."""
        place, found = find_rows(self.keys, numbers)
        return np.where(found, self.cells[place], self.cells.dtype.type(0))[:, None]

    def sums(self, numbers: Numbers, values: Floats) -> Floats:
        """Return the value of each context's one cell."""
        return np.asarray(values[self.cells_of(numbers)[:, 0]])

    def rows(self) -> Iterator[tuple[Span, Numbers, CellNumbers]]:
        """Yield the one span."""
        yield self.spans[0], self.keys, self.cells

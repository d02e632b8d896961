"""Tries: what a back-off model holds of items, or of shapes, and how contexts walk outwards along their suffixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.models.pairs import Ints, PairTable
from raregram.models.tables import CellNumbers
from raregram.text.ngrams import ABSENT, METER, Numbers


@dataclass(frozen=True)
class Suffixes:
    """The suffixes of one length, as steps from those that are one item shorter."""

    pairs: PairTable  # (number of the shorter suffix, further item); a suffix of one item has the item's number
    cells: CellNumbers
    total: npt.NDArray[np.float32]  # the corrections by this one and by all shorter ones from two items on

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.pairs.nbytes + self.cells.nbytes + self.total.nbytes


@dataclass(frozen=True)
class Units:
    """The units at one distance, which are few far from the boundary."""

    items: npt.NDArray[np.unsignedinteger[Any]]  # sorted
    cells: CellNumbers
    names: int  # how many items there could be

    @classmethod
    def build(cls, items: Numbers, cells: CellNumbers, names: int) -> Units:
        """Keep items in as few bytes as they need."""
        return cls(items.astype(np.min_scalar_type(names)), cells, names)

    def cells_of(self, items: npt.NDArray[Any]) -> CellNumbers:
        """Return the cell of each item; it is 0 where there is none, and for item number `names`."""
        table = np.zeros(self.names + 1, dtype=self.cells.dtype)
        table[self.items] = self.cells
        return np.asarray(table[items])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.items.nbytes + self.cells.nbytes


@dataclass(frozen=True)
class Trie:
    """Items, or shapes: their strings, units and suffixes."""

    names: pa.Array  # distinct, in byte order
    units: tuple[Units, ...]  # by distance
    suffixes: tuple[Suffixes, ...]  # of two items and more

    def walk(
        self, columns: Sequence[npt.NDArray[Any]], name_of: Sequence[npt.NDArray[Any]] | None = None
    ) -> Iterator[tuple[int, Ints, Ints]]:
        """Follow contexts outwards as far as their suffixes are held.

        Args:
            columns: the numbers of the names of each context, by distance; `len(names)` and more are absent.
            name_of: instead, columns are numbers of something else, and these are the numbers of their names, next to
                the boundary and further away.

        Yields:
            The length, which contexts have a suffix of this length, and its number.
        """
        nearest = columns[0] if name_of is None else name_of[0].take(columns[0])
        rows = np.flatnonzero(nearest < len(self.names))
        number = nearest.take(rows).astype(np.int64)
        for length, (suffixes, column) in enumerate(zip(self.suffixes, columns[1:], strict=False), 2):
            item = column.take(rows, mode="clip")
            if name_of is not None:
                item = name_of[1].take(item, mode="clip")
            found = suffixes.pairs.find(number, item)
            held = np.flatnonzero((found >= 0) & (item < len(self.names)))
            rows, number = rows.take(held, mode="clip"), found.take(held, mode="clip")
            if not len(rows):
                return
            yield length, rows, number

    def totals(
        self, columns: Sequence[npt.NDArray[Any]], name_of: Sequence[npt.NDArray[Any]] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return what the longest suffix held adds to each context."""
        total = np.zeros(len(columns[0]), dtype=np.float32)
        loops = METER.loaded
        if loops is not None:
            near, far = (None, None) if name_of is None else name_of
            nearest = _taken(near, columns[0])
            number = np.where(nearest < len(self.names), nearest, ABSENT)
            for suffixes, column in zip(self.suffixes, columns[1:], strict=False):
                pairs, items = suffixes.pairs, _taken(far, column)
                loops.follow(
                    number, items, len(self.names), pairs.keys, pairs.begins, pairs.shift, suffixes.total, total
                )
            return total
        for length, rows, number in self.walk(columns, name_of):
            total[rows] = self.suffixes[length - 2].total.take(number, mode="clip")
        return total

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = sum(part.nbytes for part in self.units) + sum(part.nbytes for part in self.suffixes)
        return int(self.names.nbytes) + arrays


def _taken(table: npt.NDArray[Any] | None, column: npt.NDArray[Any]) -> Ints:
    """Look numbers up in a table, if there is one."""
    return np.asarray(column if table is None else table.take(column, mode="clip"), dtype=np.int64)

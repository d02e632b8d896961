"""The trie of a back-off: the units and suffixes that it stores of items, or of shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.models.backoff.pairs import Ints, PairTable
from raregram.models.frequencies import Index
from raregram.models.ratios import Floats
from raregram.text.vocabulary import ABSENT, Codes

Columns: TypeAlias = Sequence[npt.NDArray[Any]]  # the codes of contexts, one array per distance from the boundary


@dataclass(frozen=True)
class Units:
    """The single items at one distance from the boundary."""

    items: npt.NDArray[np.unsignedinteger[Any]]  # sorted codes
    index: Index
    size: int  # of the vocabulary

    @classmethod
    def build(cls, items: Codes, index: Index, size: int) -> Units:
        """Store the codes in as few bytes as they need."""
        return cls(items.astype(np.min_scalar_type(size)), index, size)

    def table(self) -> Index:
        """Return the index of the frequencies of all codes and of a last one; 0 where it is not stored."""
        table = np.zeros(self.size + 1, dtype=self.index.dtype)
        table[self.items] = self.index
        return table

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.items.nbytes + self.index.nbytes


@dataclass(frozen=True)
class Suffixes:
    """The suffixes of one length: the nodes of one level of the trie."""

    pairs: PairTable  # (node of the suffix without its first item, that item); a suffix of one item is its code
    index: Index
    total: npt.NDArray[np.float32]  # the corrections by this suffix and by all shorter ones from two items on

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.pairs.nbytes + self.index.nbytes + self.total.nbytes


@dataclass(frozen=True)
class Trace:
    """The units, (n, contexts), and the suffixes, (lengths, contexts), that the log ratios of contexts are made of.

    A suffix that is not stored has index 0 and correction 0.
    """

    units: Floats
    index: Index  # of the frequencies of suffixes
    prior: Floats  # log r0
    correction: Floats  # log(r / r0)


@dataclass(frozen=True)
class Trie:
    """Items, or shapes: their strings, units and suffixes."""

    names: pa.Array  # distinct, in byte order
    units: tuple[Units, ...]  # one per distance
    suffixes: list[Suffixes] = field(default_factory=list)  # of two items and more; see `Backoff.assemble`

    def walk(self, columns: Columns) -> Iterator[tuple[int, Ints, Ints]]:
        """Follow contexts from the boundary as far as their suffixes are stored.

        Args:
            columns: the codes of contexts; `len(names)` and more are not in the vocabulary.

        Yields:
            A length from 1 on, the contexts that have a suffix of this length, and its node.
        """
        rows = np.flatnonzero(columns[0] < len(self.names))
        node = columns[0].take(rows).astype(np.int64)
        yield 1, rows, node
        for length, (suffixes, column) in enumerate(zip(self.suffixes, columns[1:], strict=False), 2):
            if not len(rows):
                return
            code = column.take(rows, mode="clip")
            found = suffixes.pairs.find(node, code)
            stored = np.flatnonzero((found >= 0) & (code < len(self.names)))
            rows, node = rows.take(stored, mode="clip"), found.take(stored, mode="clip")
            yield length, rows, node

    def nodes(self, columns: Columns) -> Ints:
        """Return the node of each context's suffix of all these columns; `ABSENT` where it is not stored."""
        nodes = np.full(len(columns[0]), ABSENT, dtype=np.int64)
        for length, rows, node in self.walk(columns):
            if length == len(columns):
                nodes[rows] = node
        return nodes

    def totals(self, columns: Columns) -> npt.NDArray[np.float32]:
        """Return the total of each context's longest suffix that is stored."""
        total = np.zeros(len(columns[0]), dtype=np.float32)
        for length, rows, node in self.walk(columns):
            if length > 1:
                total[rows] = self.suffixes[length - 2].total.take(node, mode="clip")
        return total

    def corrections(self, columns: Columns, longest: int) -> tuple[Index, Floats]:
        """Return the index and the correction of suffixes from two items on: (longest, contexts), 0 for length 1."""
        shape = longest, len(columns[0])
        index, corrections = np.zeros(shape, dtype=self.units[0].index.dtype), np.zeros(shape)
        shorter = np.zeros(shape[1])  # the total of the suffix that is one item shorter
        for length, rows, node in self.walk(columns[: max(longest, 1)]):
            if length > 1:
                level = self.suffixes[length - 2]
                total = level.total.take(node, mode="clip")
                index[length - 1, rows] = level.index.take(node, mode="clip")
                corrections[length - 1, rows] = total - shorter[rows]
                shorter[rows] = total
        return index, corrections

    def trace(
        self, columns: Columns, units: Floats, first: tuple[Index, Floats], longest: int, added: Floats | float = 0.0
    ) -> Trace:
        """Follow contexts along their suffixes, given their units and what is added to these in the priors.

        The suffix of length 1 is a unit; `first` has its index and its correction.
        """
        index, correction = self.corrections(columns, longest)
        index[:1], correction[:1] = first
        prior = np.cumsum((units + added)[:longest] + correction, axis=0) - correction
        return Trace(units, index, prior, correction)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = sum(part.nbytes for part in self.units) + sum(part.nbytes for part in self.suffixes)
        return int(self.names.nbytes) + arrays


def look_up(table: Floats, columns: Columns) -> Floats:
    """Return the entries of a table, (n, codes), for the codes of contexts: (n, contexts)."""
    found = np.empty((len(columns), len(columns[0])))
    for row, column, out in zip(table, columns, found, strict=True):
        row.take(column, mode="clip", out=out)  # no code is out of range, and "clip" skips the check
    return found

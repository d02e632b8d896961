"""The suffixes that a back-off stores of items, or of shapes: looked up from the boundary outwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from raregram.models.backoff.pairs import PairTable
from raregram.models.frequencies import Index
from raregram.models.ratios import Floats
from raregram.text.vocabulary import ABSENT

Columns: TypeAlias = Sequence[npt.NDArray[Any]]  # the codes of contexts, one array per distance from the boundary


class Level(NamedTuple):
    """The suffixes of one length, in the order of their rows; the last entry, at `ABSENT`, is 0."""

    evidence: Index  # of their frequencies
    correction: npt.NDArray[np.float32]  # log(r / r0), exact on the coarse grid


class Trace(NamedTuple):
    """What suffixes say of contexts, (lengths, contexts); one that is not stored has evidence 0 and correction 0."""

    evidence: Index  # the index of the frequencies
    prior: Floats  # log r0
    correction: Floats


@dataclass(frozen=True, eq=False)
class Suffixes:
    """All suffixes by their lengths. The node of a single item is its code, that of a longer suffix its row."""

    size: int  # the number of codes
    levels: list[Level] = field(default_factory=list)
    tables: list[PairTable] = field(default_factory=list)  # from two items on

    def append(self, parent: npt.NDArray[Any], item: npt.NDArray[Any], index: Index, correction: Floats) -> None:
        """Add the suffixes that are one item longer, given the nodes of the shorter ones."""
        if self.levels:
            self.tables.append(PairTable(parent, item, self.size))
        nothing = index.dtype.type(0)
        self.levels.append(Level(np.append(index, nothing), np.append(correction, 0.0).astype(np.float32)))

    @property
    def first(self) -> npt.NDArray[np.float32]:
        """The corrections by single items next to the boundary: (codes,)."""
        return self.levels[0].correction[:-1] if self.levels else np.zeros(self.size, np.float32)

    def nodes(self, columns: Columns) -> npt.NDArray[np.integer[Any]]:
        """Return the node of each suffix of all these columns, or `ABSENT`."""
        node = columns[0]
        for table, column in zip(self.tables, columns[1:], strict=False):
            node = table.find(node, column)
        return node

    def walk(self, columns: Columns) -> Iterator[tuple[Level, npt.NDArray[np.intp], npt.NDArray[Any]]]:
        """Follow contexts outwards for as long as their suffixes are stored.

        Yields:
            The level of each length, the contexts that have a suffix of this length, and its node.
        """
        for length, (level, column) in enumerate(zip(self.levels, columns, strict=False), 1):
            if length == 1:
                contexts, node = np.arange(len(column)), column
            else:
                node = self.tables[length - 2].find(node, column.take(contexts, mode="clip"))
                found = np.flatnonzero(node != ABSENT)
                contexts, node = contexts.take(found, mode="clip"), node.take(found, mode="clip")
            yield level, contexts, node

    def trace(self, columns: Columns, units: Floats) -> Trace:
        """Return what the suffixes of contexts say, given what comes to the prior with each item: (n, contexts)."""
        shape = len(self.levels), len(columns[0])
        index = np.zeros(shape, dtype=self.levels[0].evidence.dtype if self.levels else np.uint8)
        correction = np.zeros(shape)
        for row, (level, contexts, node) in enumerate(self.walk(columns)):
            index[row, contexts] = level.evidence.take(node)
            correction[row, contexts] = level.correction.take(node)
        return Trace(index, np.cumsum(units[: len(index)] + correction, axis=0) - correction, correction)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = [array for level in self.levels for array in level]
        return sum(array.nbytes for array in arrays) + sum(table.nbytes for table in self.tables)

"""What a back-off stores of items, or of shapes: units, and suffixes by which contexts are followed outwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from raregram.counts.spans import LayerName
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

    evidence: Index
    prior: Floats  # log r0
    correction: Floats


@dataclass(frozen=True, eq=False)
class Layer:
    """Units and suffixes. The node of a suffix of one item is the code of that item, of a longer one its row."""

    name: LayerName
    units: Index  # (n, codes) of the frequencies at each distance
    levels: list[Level] = field(default_factory=list)  # by length
    tables: list[PairTable] = field(default_factory=list)  # the same from two items on

    @property
    def first(self) -> npt.NDArray[np.float32]:
        """The corrections by suffixes of one item: (codes,)."""
        return self.levels[0].correction[:-1] if self.levels else np.zeros(self.units.shape[1], np.float32)

    def append(self, parent: npt.NDArray[Any], item: npt.NDArray[Any], evidence: Index, correction: Floats) -> None:
        """Add the suffixes that are one item longer, given the nodes of the shorter ones."""
        if self.levels:
            size = len(self.levels[-1].evidence) - 1, self.units.shape[1]
            self.tables.append(PairTable(parent, item, size))
        nothing = evidence.dtype.type(0)
        self.levels.append(Level(np.append(evidence, nothing), np.append(correction, 0.0).astype(np.float32)))

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
            if not len(node):
                return
            yield level, contexts, node

    def trace(self, columns: Columns, units: Floats) -> Trace:
        """Return the terms of the suffixes of contexts, given what each item adds to the prior: (n, contexts)."""
        shape = len(self.levels), len(columns[0])
        evidence, correction = np.zeros(shape, dtype=self.units.dtype), np.zeros(shape)
        for row, (level, contexts, node) in enumerate(self.walk(columns)):
            evidence[row, contexts] = level.evidence.take(node)
            correction[row, contexts] = level.correction.take(node)
        return Trace(evidence, np.cumsum(units[: len(self.levels)] + correction, axis=0) - correction, correction)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        of_levels = sum(array.nbytes for level in self.levels for array in level)
        return self.units.nbytes + of_levels + sum(table.nbytes for table in self.tables)

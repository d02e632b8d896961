"""Exact look-up of pairs of whole numbers: the steps from a suffix to those that are one item longer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.text.vocabulary import ABSENT

Ints = npt.NDArray[np.int64]

ODD = 0x9E3779B97F4A7C15  # the golden ratio: neighbours end up far apart
INVERSE = np.uint64(pow(ODD, -1, 2**64))
LAST = np.uint64(2**64 - 1)


class PairTable:
    """Finds the rows of distinct pairs (parent, item), many at a time; rows whose parent is `ABSENT` are left out.

    Multiplication by an odd number permutes the numbers of 64 bits, so a hash stands for one pair only. It also
    spreads them evenly, so a pair is where the first bits of its hash point to, or a few entries further on.

    >>> table = PairTable(np.array([7, 7, 9]), np.array([0, 1, 1]), width=2)
    >>> table.find(np.array([7, 9, 9]), np.array([1, 1, 0])).tolist()
    [1, 2, -1]
    """

    def __init__(self, parent: npt.NDArray[Any], item: npt.NDArray[Any], width: int) -> None:
        self.width = width  # above all items
        hashes = self._hash(parent, item)
        order = np.argsort(hashes)
        order = order[parent[order] != ABSENT]
        bits = max(len(order).bit_length(), 1)
        self.hashes = np.append(hashes[order], LAST)  # the end, which stops a search
        self.rows = np.append(order, ABSENT).astype(np.int32)
        self.shift = np.uint64(64 - bits)
        first = np.arange(1 << bits, dtype=np.uint64) << self.shift
        self.begins = np.searchsorted(self.hashes, first).astype(np.int32)

    def __len__(self) -> int:
        return len(self.rows) - 1

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.hashes.nbytes + self.rows.nbytes + self.begins.nbytes

    def _hash(self, parent: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        codes = parent.astype(np.int64) * self.width + item
        hashes: npt.NDArray[np.uint64] = codes.view(np.uint64) * np.uint64(ODD)
        return hashes

    def pairs(self) -> tuple[Ints, Ints]:
        """Return the parents and the items of all rows, in order, if none was left out."""
        codes = np.empty(len(self), dtype=np.uint64)
        codes[self.rows[:-1]] = self.hashes[:-1] * INVERSE
        parent, item = np.divmod(codes.view(np.int64), self.width)
        return parent, item

    def find(self, parent: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Return the row of each pair; `ABSENT` where there is none, and so where the parent is `ABSENT`."""
        hashes = self._hash(parent, item)
        at = self.begins.take((hashes >> self.shift).view(np.int64), mode="clip")  # which skips a check
        found = self.hashes.take(at, mode="clip")
        before = np.flatnonzero(found < hashes)
        while len(before):
            at[before] += 1
            found[before] = self.hashes.take(at[before], mode="clip")
            before = before[found[before] < hashes[before]]
        rows = self.rows.take(at, mode="clip")
        rows[found != hashes] = ABSENT
        return rows

"""Exact look-up of pairs of whole numbers: the steps from a suffix to those that are one item longer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.text.vocabulary import ABSENT

Ints = npt.NDArray[np.int64]

ODD = 0x9E3779B97F4A7C15  # the golden ratio: neighbours end up far apart


class PairTable:
    """Finds the rows of distinct pairs (parent, item), many at a time; rows whose parent is `ABSENT` are left out.

    Multiplication by an odd number permutes the numbers of 32 or 64 bits, so a hash stands for one pair only. It also
    spreads them evenly, so a pair is where the first bits of its hash point to, or a few entries further on.

    >>> table = PairTable(np.array([7, 7, 9]), np.array([0, 1, 1]), size=(10, 2))
    >>> table.find(np.array([7, 9, 9]), np.array([1, 1, 0])).tolist()
    [1, 2, -1]
    """

    def __init__(self, parent: npt.NDArray[Any], item: npt.NDArray[Any], size: tuple[int, int]) -> None:
        self.width = size[1]
        # A pair is a number from -width on, as `ABSENT` is a parent, too.
        self.number: Any = np.uint32 if (size[0] + 1) * size[1] <= 2**32 else np.uint64
        self.bits = 8 * self.number().itemsize
        self.factor = self.number(ODD % 2**self.bits)
        hashes = self._hash(parent, item)
        order = np.argsort(hashes)
        order = order[parent[order] != ABSENT]
        bits = max(len(order).bit_length(), 1)
        self.shift = self.number(self.bits - bits)
        end = ~self.number(0)  # where every search stops
        self.hashes: npt.NDArray[Any] = np.append(hashes[order], end)
        self.rows: npt.NDArray[np.int32] = np.append(order, ABSENT).astype(np.int32)
        first: npt.NDArray[Any] = np.arange(1 << bits, dtype=self.number)
        self.begins: npt.NDArray[np.int32] = np.searchsorted(self.hashes, first << self.shift).astype(np.int32)

    def __len__(self) -> int:
        return len(self.rows) - 1

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.hashes.nbytes + self.rows.nbytes + self.begins.nbytes

    def _hash(self, parent: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[Any]:
        codes = parent.astype(np.int64) * self.width + item
        hashes: npt.NDArray[Any] = codes.astype(self.number) * self.factor
        return hashes

    def pairs(self) -> tuple[Ints, Ints]:
        """Return the parents and the items of all rows, in order, if none was left out."""
        inverse = self.number(pow(ODD, -1, 2**self.bits))
        codes = np.empty(len(self), dtype=np.int64)
        codes[self.rows[:-1]] = self.hashes[:-1] * inverse
        parent, item = np.divmod(codes, self.width)
        return parent, item

    def find(self, parent: npt.NDArray[Any], item: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Return the row of each pair; `ABSENT` where there is none, and so where the parent is `ABSENT`."""
        hashes = self._hash(parent, item)
        at = self.begins.take(hashes >> self.shift, mode="clip")  # no index is out of range, and this skips a check
        found = self.hashes.take(at, mode="clip")
        before = np.flatnonzero(found < hashes)
        while len(before):
            at[before] += 1
            found[before] = self.hashes.take(at[before], mode="clip")
            before = before[found[before] < hashes[before]]
        rows = self.rows.take(at, mode="clip")
        rows[found != hashes] = ABSENT
        return rows

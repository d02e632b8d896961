"""Exact look-up of pairs of codes, many at a time: the steps of a trie.

A pair (parent, item) is one key. Keys are sorted by a hash into buckets without gaps, so a look-up mostly reads two
entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.counts.sorting import group_rows
from raregram.text.vocabulary import ABSENT

Ints = npt.NDArray[np.int64]

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbours end up far apart


@dataclass(frozen=True)
class PairTable:
    """A set of distinct pairs; its order is that of `keys`."""

    keys: npt.NDArray[np.unsignedinteger[Any]]  # (pairs,) parent * width + item, bucket by bucket
    begins: npt.NDArray[np.int32]  # (buckets + 1,) where each bucket begins
    width: int  # items

    @classmethod
    def build(cls, parents: npt.NDArray[Any], items: npt.NDArray[Any], width: int) -> tuple[PairTable, Ints]:
        """Make a table; return also the order in which it keeps the pairs.

        >>> table, order = PairTable.build(np.array([7, 7, 9]), np.array([0, 1, 1]), width=2)
        >>> found = table.find(np.array([7, 9, 9]), np.array([1, 1, 0]))
        >>> [int(order[row]) if row >= 0 else None for row in found]
        [1, 2, None]
        """
        codes = parents.astype(np.uint64) * np.uint64(width) + items.astype(np.uint64)
        bits = max(len(codes).bit_length(), 1)
        bucket = _bucket(codes, bits)
        order, *_ = group_rows(bucket[None])
        begins = np.zeros((1 << bits) + 1, dtype=np.int32)
        np.cumsum(np.bincount(bucket, minlength=1 << bits), out=begins[1:])
        small = not len(codes) or int(codes.max()) < 2**32
        return cls(codes[order].astype(np.uint32 if small else np.uint64), begins, width), order

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.begins.nbytes

    def split(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return the parents and the items of all pairs."""
        parents, items = np.divmod(self.keys, self.keys.dtype.type(self.width))
        return parents.astype(np.intp), items.astype(np.intp)

    def find(self, parents: Ints, items: npt.NDArray[Any]) -> Ints:
        """Return the row of each pair, `ABSENT` where it is not there; `parents` are of 64 bits."""
        if not len(self):
            return np.full(len(parents), ABSENT, dtype=np.int64)
        codes = (parents * self.width + items).view(np.uint64)
        bucket = _bucket(codes, (len(self.begins) - 1).bit_length() - 1)
        if self.keys.dtype == np.uint32 and codes.max(initial=0) >= 1 << 32:  # none of the large ones is there
            found, small = np.full(len(parents), ABSENT, dtype=np.int64), codes < 1 << 32
            found[small] = self.find(parents[small], items[small])
            return found
        codes = codes.astype(self.keys.dtype, copy=False)
        row = self.begins.take(bucket, mode="clip")
        pending = np.flatnonzero(self.keys.take(row, mode="clip") != codes)
        bucket += 1
        end, codes = self.begins.take(bucket.take(pending)), codes.take(pending)
        at = row.take(pending)
        while len(pending):  # look at the next one of the bucket
            at += 1
            gone = at >= end
            row[pending[gone]] = ABSENT
            more = np.flatnonzero(~gone)
            pending, end, codes, at = pending.take(more), end.take(more), codes.take(more), at.take(more)
            hit = self.keys.take(at) == codes
            row[pending[hit]] = at[hit]
            more = np.flatnonzero(~hit)
            pending, end, codes, at = pending.take(more), end.take(more), codes.take(more), at.take(more)
        return row.astype(np.int64)


def _bucket(codes: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    return ((codes * MULTIPLIER) >> np.uint64(64 - bits)).view(np.int64)

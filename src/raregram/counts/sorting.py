"""Sort rows of whole numbers from 0 on, and find those that are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[np.intp]


def sort_further(values: npt.NDArray[np.signedinteger[Any]], order: Order | None = None) -> Order:
    """Sort rows by whole numbers from 0 on; rows with equal ones stay as they were in `order`.

    >>> sort_further(np.array([2, 1, 2, 0], dtype=np.int32), np.array([2, 0, 3, 1]))
    array([3, 1, 2, 0])
    """
    order = np.arange(len(values)) if order is None else order
    for shift in (0, 16):  # numbers of 16 bits are sorted in a time that does not grow with their logarithm
        if shift == 0 or values.max(initial=0) >> shift:
            digits = (values >> shift).astype(np.uint16)
            order = order[np.argsort(digits[order], kind="stable")]
    return order


def group_rows(columns: npt.NDArray[np.int32]) -> tuple[Order, Order, npt.NDArray[np.int32]]:
    """Sort rows by their columns (width, rows).

    Returns their order, where in it each group of equal rows begins, and the distinct rows (groups, width).

    >>> order, heads, distinct = group_rows(np.array([[1, 0, 1, 0], [5, 7, 5, 6]], dtype=np.int32))
    >>> order, heads, distinct.tolist()
    (array([3, 1, 0, 2]), array([0, 1, 2]), [[0, 6], [0, 7], [1, 5]])
    """
    width, rows = columns.shape
    bits, index_bits = max(int(columns.max(initial=0)).bit_length(), 1), rows.bit_length()
    # An array of 64-bit numbers that end in their index is sorted several times as fast as argsort would sort it. So
    # many columns fit into one beside the index; the last ones are sorted first.
    at_a_time = max((63 - index_bits) // bits, 1)
    parts = [columns[max(stop - at_a_time, 0) : stop] for stop in range(width, 0, -at_a_time)]
    packed = [_pack(part, bits) for part in parts]
    order: Order | None = None
    for codes in packed:
        keys = (codes if order is None else codes[order]) << index_bits
        keys |= np.arange(rows)
        keys.sort()
        in_order = keys >> index_bits
        keys &= (1 << index_bits) - 1
        order = keys if order is None else order[keys]
    assert order is not None
    sorted_codes = [*(codes[order] for codes in packed[:-1]), in_order]
    heads = find_heads(*sorted_codes)
    distinct = np.empty((len(heads), width), dtype=np.int32)
    for stop, codes in zip(range(width, 0, -at_a_time), sorted_codes, strict=True):
        rest = codes[heads]
        for column in range(stop - 1, max(stop - at_a_time, 0) - 1, -1):
            distinct[:, column] = rest & ((1 << bits) - 1)
            rest >>= bits
    return order, heads, distinct


def _pack(columns: npt.NDArray[np.int32], bits: int) -> npt.NDArray[np.int64]:
    """Put several numbers of so many bits into one, the first column first."""
    packed: npt.NDArray[np.int64] = columns[0].astype(np.int64)
    for column in columns[1:]:
        packed <<= bits
        packed |= column
    return packed


def find_heads(*columns: npt.NDArray[Any]) -> Order:
    """Return where rows that are sorted differ from the one before; the first does.

    >>> find_heads(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 6]))
    array([0, 2, 3])
    """
    differs = np.zeros(len(columns[0]), dtype=bool)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)

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


def sort_rows(columns: npt.NDArray[np.int32]) -> tuple[Order, Order]:
    """Return the order of rows by their columns (width, rows), and where in it each group of equal rows begins.

    >>> sort_rows(np.array([[1, 0, 1, 0], [5, 7, 5, 6]], dtype=np.int32))
    (array([3, 1, 0, 2]), array([0, 1, 2]))
    """
    width, rows = columns.shape
    bits = max(int(columns.max(initial=0)).bit_length(), 1)
    index_bits = rows.bit_length()
    # To sort one array of 64-bit numbers that end in their index is several times as fast as argsort.
    at_a_time = max((63 - index_bits) // bits, 1)
    index = np.arange(rows)
    order, differs = index, np.zeros(rows, dtype=bool)
    differs[:1] = True
    packed = []
    for stop in range(width, 0, -at_a_time):
        some = columns[max(stop - at_a_time, 0) : stop]
        packed.append(some[0].astype(np.int64))
        for column in some[1:]:
            packed[-1] <<= bits
            packed[-1] |= column
        keys = (packed[-1] << index_bits if order is index else packed[-1][order] << index_bits) | index
        keys.sort()
        keys &= (1 << index_bits) - 1
        order = keys if order is index else order[keys]
    for part in packed:
        in_order = part[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    return order, np.flatnonzero(differs)


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

"""Sort rows of whole numbers from 0 on, and find those that are equal."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[np.intp]
Integer = TypeVar("Integer", np.int32, np.int64)


def group_rows(columns: npt.NDArray[Integer]) -> tuple[Order, Order, npt.NDArray[Integer]]:
    """Sort rows by their columns (width, rows); equal rows stay in their order.

    Returns the order, where in it each group of equal rows begins, and the distinct rows (groups, width).

    >>> order, heads, distinct = group_rows(np.array([[1, 0, 1, 0], [5, 7, 5, 6]], dtype=np.int32))
    >>> order, heads, distinct.tolist()
    (array([3, 1, 0, 2]), array([0, 1, 2]), [[0, 6], [0, 7], [1, 5]])
    """
    width, rows = columns.shape
    order, head = np.arange(rows), np.zeros(rows, dtype=bool)
    head[:1] = True
    bits = [int(column.max(initial=0)).bit_length() for column in columns]  # of each column, those not sorted by yet
    index_bits = rows.bit_length()
    # A row that is alone in its group is in its place, so only the other ones, `live`, are sorted by further columns.
    # The group, the next bits of the columns and an index make a number of 63 bits: an array of such numbers is
    # sorted several times as fast as argsort would sort it.
    live, column = np.arange(rows), 0
    while column < width and len(live):
        at = order[live]
        keys = np.cumsum(head[live]) - 1
        free = 63 - index_bits - int(keys[-1]).bit_length()
        while column < width and free:
            taken = min(free, bits[column])
            bits[column] -= taken
            free -= taken
            keys <<= taken
            keys |= (columns[column].take(at) >> bits[column]) & ((1 << taken) - 1)
            column += bits[column] == 0
        keys <<= index_bits
        keys |= np.arange(len(live))
        keys.sort()
        order[live] = at.take(keys & ((1 << index_bits) - 1))
        keys >>= index_bits
        head[live[1:]] |= keys[1:] != keys[:-1]
        alone = head.copy()
        alone[:-1] &= head[1:]
        live = np.flatnonzero(~alone)
    heads = np.flatnonzero(head)
    return order, heads, np.ascontiguousarray(columns[:, order[heads]].T)


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

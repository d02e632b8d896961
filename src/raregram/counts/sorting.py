"""Rows of whole numbers from 0 on: sort them, and find those that are equal, in linear time."""

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


def number_groups(order: Order, heads: Order) -> npt.NDArray[np.int32]:
    """Return the group of each row, given the rows in order and where in it each group begins.

    >>> number_groups(np.array([2, 0, 1]), np.array([0, 2]))
    array([0, 1, 0], dtype=int32)
    """
    numbers = np.empty(len(order), dtype=np.int32)
    numbers[order] = np.repeat(np.arange(len(heads), dtype=np.int32), np.diff(heads, append=len(order)))
    return numbers

"""The frequencies of a model: each distinct (f_nu, f_de, selected) once, and an index into them for every span.

Most spans share their frequencies with thousands of others, so the index takes a byte or two where the frequencies
would take many. Index 0 stands for whatever a model does not store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Index: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Frequencies:
    """The distinct frequencies of a model."""

    f_nu: npt.NDArray[np.signedinteger[Any]]  # (distinct,)
    f_de: npt.NDArray[np.signedinteger[Any]]
    selected: npt.NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.f_nu.nbytes + self.f_de.nbytes + self.selected.nbytes

    def of(self, index: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return f_nu and f_de."""
        return self.f_nu[index], self.f_de[index]

    def columns(self, index: Index) -> npt.NDArray[np.int64]:
        """Return f_nu, f_de and selected as the columns of a file."""
        return np.column_stack([self.f_nu[index], self.f_de[index], self.selected[index]]).astype(np.int64)


def pool(values: npt.NDArray[np.int64]) -> tuple[Frequencies, Index]:
    """Return the distinct rows of (f_nu, f_de, selected), and the index of each row.

    >>> frequencies, index = pool(np.array([[5, 1, 1], [0, 2, 1], [5, 1, 1]]))
    >>> index, frequencies.f_nu.tolist()
    (array([2, 1, 2], dtype=uint8), [0, 0, 5])
    """
    f_nu, f_de, selected = values.T
    largest = int(f_de.max(initial=0))
    if (int(f_nu.max(initial=0)) + 1) * (largest + 1) >= 2**62:  # their product overflows: take their ranks
        f_nu, f_de = (np.unique(f, return_inverse=True)[1] for f in (f_nu, f_de))
        largest = int(f_de.max(initial=0))
    keys, rank = np.unique((f_nu * (largest + 1) + f_de) * 2 + (selected != 0), return_inverse=True)
    first = np.empty(len(keys), dtype=np.int64)
    first[rank] = np.arange(len(rank))
    distinct = np.concatenate([np.zeros((1, 3), np.int64), values[first]])
    index = (rank + 1).astype(np.min_scalar_type(len(distinct)))
    kind = np.int32 if distinct.max() < 2**31 else np.int64
    return Frequencies(distinct[:, 0].astype(kind), distinct[:, 1].astype(kind), distinct[:, 2].astype(bool)), index

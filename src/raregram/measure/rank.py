"""The best N-grams of a stream: each once, best first, ties in byte order of their text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import check_count
from raregram.models.ratios import Floats


@dataclass(frozen=True)
class Ranking:
    """Distinct N-grams in order of the first of their values."""

    texts: pa.Array  # string
    values: Floats  # (N-grams, columns)


class Top:
    """Keeps the best `size` distinct N-grams of all that it is shown, in memory for about that many.

    An N-gram always has the same values, so whatever has fallen off the list can never come back.

    >>> top = Top(2)
    >>> top.add(pa.array(["b", "a", "c", "b"]), np.array([[1.0], [1.0], [0.5], [1.0]]))
    >>> top.ranking().texts.to_pylist()
    ['a', 'b']
    """

    def __init__(self, size: int) -> None:
        check_count("size", "Top", size)
        self.size = size
        self._best: Ranking | None = None

    def add(self, texts: pa.Array, values: Floats) -> None:
        """Show it more N-grams with their values, (N-grams, columns); the first column tells which are the best."""
        best = self._best
        if best is not None:
            if len(best.texts) == self.size:
                hopeful = ~(values[:, 0] < best.values[-1, 0])  # NaN, "no evidence", only ever fills up a short list
                texts, values = texts.filter(pa.array(hopeful)), values[hopeful]
            texts, values = pa.concat_arrays([best.texts, texts]), np.concatenate([best.values, values])
        self._best = _rank(texts, values, self.size)

    def ranking(self) -> Ranking:
        """Return the list as it stands."""
        return self._best or Ranking(pa.array([], pa.string()), np.empty((0, 1)))


def _rank(texts: pa.Array, values: Floats, size: int) -> Ranking:
    """Sort by the first value, NaN last, then by text; keep each text once."""
    encoded = texts.dictionary_encode()
    _, first = np.unique(np.asarray(encoded.indices), return_index=True)
    texts, values = encoded.dictionary, values[first]
    table = pa.table({"value": values[:, 0], "text": texts})
    order = pc.sort_indices(table, sort_keys=[("value", "descending"), ("text", "ascending")])[:size]
    return Ranking(texts.take(order), values[np.asarray(order)])

"""The best N-grams of a stream: each once, best first, ties in byte order of their text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import check_count
from raregram.ratios import Floats


@dataclass(frozen=True)
class Ranking:
    """Distinct N-grams in order of their log ratio."""

    texts: pa.Array  # string
    log_ratio: Floats


class Top:
    """Keeps the best `size` distinct N-grams of all that it is shown, in memory for about that many.

    An N-gram always has the same log ratio, so whatever has fallen off the list can never come back.

    >>> top = Top(2)
    >>> top.add(pa.array(["b", "a", "c", "b"]), np.array([1.0, 1.0, 0.5, 1.0]))
    >>> top.ranking().texts.to_pylist()
    ['a', 'b']
    """

    def __init__(self, size: int) -> None:
        check_count("size", "Top", size)
        self.size = size
        self._best = Ranking(pa.array([], pa.string()), np.empty(0))

    def add(self, texts: pa.Array, log_ratio: Floats) -> None:
        """Show it more N-grams."""
        best = self._best
        if len(best.texts) == self.size:
            hopeful = ~(log_ratio < best.log_ratio[-1])  # NaN, "no evidence", only ever fills up a short list
            texts, log_ratio = texts.filter(pa.array(hopeful)), log_ratio[hopeful]
        self._best = _rank(
            pa.concat_arrays([best.texts, texts]), np.concatenate([best.log_ratio, log_ratio]), self.size
        )

    def ranking(self) -> Ranking:
        """Return the list as it stands."""
        return self._best


def _rank(texts: pa.Array, log_ratio: Floats, size: int) -> Ranking:
    """Sort by log ratio, NaN last, then by text; keep each text once."""
    encoded = texts.dictionary_encode()
    _, first = np.unique(np.asarray(encoded.indices), return_index=True)
    texts, log_ratio = encoded.dictionary, log_ratio[first]
    table = pa.table({"log_ratio": log_ratio, "text": texts})
    order = pc.sort_indices(table, sort_keys=[("log_ratio", "descending"), ("text", "ascending")])[:size]
    return Ranking(texts.take(order), log_ratio[np.asarray(order)])

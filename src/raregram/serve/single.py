"""The log ratio of one context in a few microseconds.

NumPy takes a microsecond or more for every call, however little it is called for, and a walk along suffixes has a
hundred calls. For one context plain Python is faster: here are the same look-ups in the same tables as in
`tables.UnitTable.sums`, `tables.WholeTable.sums` and `backoff.Backoff.sums`, one number at a time. Nothing is
estimated here, and a test compares every sum with theirs, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raregram.counts.storage import row_bytes
from raregram.models.backoff import Backoff
from raregram.models.model import Model
from raregram.models.pairs import MULTIPLIER
from raregram.models.ratios import Floats
from raregram.models.tables import UnitTable, WholeTable
from raregram.models.tries import Suffixes, Trie

Single = Callable[[Sequence[int]], float]  # item numbers of a context, as the model gives them -> its log ratio
WORD = (1 << 64) - 1


def single_scorer(model: Model, unit_values: Floats | None) -> Single:
    """Return what scores one context; `unit_values` are those of a back-off."""
    if isinstance(model.table, Backoff):
        assert unit_values is not None
        return _backoff_scorer(model.table, unit_values)
    if isinstance(model.table, UnitTable):
        return _unit_scorer(model.table, model.values)
    assert isinstance(model.table, WholeTable)
    return _whole_scorer(model.table, model.values)


def _unit_scorer(table: UnitTable, values: Floats) -> Single:
    rows = [_view(row) for row in table.cells]
    value = _view(values)
    return lambda numbers: sum(value[row[number]] for row, number in zip(rows, numbers, strict=True))


def _whole_scorer(table: WholeTable, values: Floats) -> Single:
    sorted_keys = row_bytes(table.keys)

    def score(numbers: Sequence[int]) -> float:
        wanted = np.array([numbers], dtype=np.int32)
        place = int(np.searchsorted(sorted_keys, row_bytes(wanted))[0])
        there = place < len(table.keys) and bool((table.keys[place] == wanted[0]).all())
        return float(values[table.cells[place] if there else 0])

    return score


def _backoff_scorer(table: Backoff, unit_values: Floats) -> Single:
    layout = table.layout
    units = [_view(row) for row in unit_values]
    near, far = _view(table.near), _view(table.far)
    words = _walker(table.words, layout.longest)
    shapes = _walker(table.shapes, layout.longest_shapes)
    last, leftwards = table.size - 1, layout.side == "left"

    def score(numbers: Sequence[int]) -> float:
        outwards = [number if number >= 0 else last for number in (reversed(numbers) if leftwards else numbers)]
        total = 0.0
        for row, number in zip(units, outwards, strict=True):
            total += row[number]
        total += words(outwards)
        return total + shapes([near[outwards[0]], *(far[number] for number in outwards[1:])])

    return score


def _walker(trie: Trie, longest: int) -> Callable[[Sequence[int]], float]:
    """Return what follows a context outwards along its suffixes, and returns what the longest one adds."""
    names = len(trie.names)
    steps = [_finder(suffixes) for suffixes in trie.suffixes[: max(longest - 1, 0)]]

    def walk(outwards: Sequence[int]) -> float:
        number, total = outwards[0], 0.0
        if number >= names:
            return total
        for step, item in zip(steps, outwards[1:], strict=False):
            if item >= names:
                return total
            number, value = step(number, item)
            if number < 0:
                return total
            total = value
        return total

    return walk


def _finder(suffixes: Suffixes) -> Callable[[int, int], tuple[int, float]]:
    """Return what finds a longer suffix: its number, -1 where it is not held, and what it adds."""
    pairs = suffixes.pairs
    if not len(pairs):
        return lambda number, item: (-1, 0.0)
    keys, begins, totals = _view(pairs.keys), _view(pairs.begins), _view(suffixes.total)
    width, shift, multiplier = pairs.width, pairs.shift, int(MULTIPLIER)

    def find(number: int, item: int) -> tuple[int, float]:
        code = number * width + item
        bucket = ((code * multiplier) & WORD) >> shift
        for place in range(begins[bucket], begins[bucket + 1]):
            if keys[place] == code:
                return place, totals[place]
        return -1, 0.0

    return find


def _view(array: Any) -> Any:
    """Return an array as Python's own numbers, which are looked up faster than NumPy's; nothing is copied."""
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous)

"""The log ratio of one context in a few microseconds, for the service.

NumPy takes a microsecond or more per call, and a walk along suffixes has a hundred calls, so for one context plain
Python is faster. These are the look-ups of `Backoff.score`, one code at a time; a test compares them bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from raregram.models.backoff.pairs import MULTIPLIER
from raregram.models.backoff.trie import Suffixes, Trie
from raregram.models.ratios import Floats

Scorer: TypeAlias = Callable[[Sequence[int]], float]
WORD = (1 << 64) - 1


def scorer(
    unit_terms: Floats, words: Scorer, shapes: Scorer, shape_codes: npt.NDArray[Any], leftwards: bool
) -> Scorer:
    """Return a function that scores the codes of one context."""
    terms: list[Any] = [memoryview(row) for row in unit_terms]
    nearest, others = (memoryview(codes) for codes in shape_codes)
    last = unit_terms.shape[1] - 1

    def score(codes: Sequence[int]) -> float:
        ordered = [code if code >= 0 else last for code in (reversed(codes) if leftwards else codes)]
        total = 0.0
        for row, code in zip(terms, ordered, strict=True):
            total += row[code]
        total += words(ordered)
        return total + shapes([nearest[ordered[0]], *(others[code] for code in ordered[1:])])

    return score


def walker(trie: Trie, longest: int) -> Scorer:
    """Return a function that follows one context along its suffixes, and returns the total of the longest."""
    size = len(trie.names)
    steps = [_finder(suffixes) for suffixes in trie.suffixes[: max(longest - 1, 0)]]

    def walk(codes: Sequence[int]) -> float:
        node, total = codes[0], 0.0
        if node >= size:
            return total
        for step, code in zip(steps, codes[1:], strict=False):
            if code >= size:
                return total
            node, value = step(node, code)
            if node < 0:
                return total
            total = value
        return total

    return walk


def _finder(suffixes: Suffixes) -> Callable[[int, int], tuple[int, float]]:
    """Return a function that finds a longer suffix: its node, -1 where it is not stored, and its total."""
    pairs = suffixes.pairs
    arrays: tuple[Any, ...] = (pairs.keys, pairs.begins, suffixes.total)
    keys, begins, totals = (memoryview(array) for array in arrays)
    width, shift, multiplier = pairs.width, pairs.shift, int(MULTIPLIER)

    def find(node: int, item: int) -> tuple[int, float]:
        key = node * width + item
        bucket = ((key * multiplier) & WORD) >> shift
        for at in range(begins[bucket], begins[bucket + 1]):
            if keys[at] == key:
                return at, totals[at]
        return -1, 0.0

    return find

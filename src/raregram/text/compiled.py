"""Compiled loops for much text: split it at white space and number its words in one go.

This needs Numba (the extra `fast`), takes a third of Arrow's time, and gives the same. Only `raregram.text.ngrams`
calls it, when it is worth the half second that Numba takes to load. Strings are bytes, one after the other, and the
bounds between them, as in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
Bounds = npt.NDArray[np.int32]
Table = npt.NDArray[np.uint64]  # an open hash table (slots, 2): hash << 32 | number + 1, or 0; start << 32 | length
Loop = TypeVar("Loop", bound=Callable[..., Any])

SMALLEST = 1 << 12  # slots
PLACE = np.uintp  # the type of all indices: Numba looks at each signed one whether it counts from the end
ONE = PLACE(1)
START, PRIME = np.uint64(1469598103934665603), np.uint64(1099511628211)  # FNV-1a
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # that of `raregram.models.pairs`
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)

SPACES = [chr(code) for code in range(0x3001) if chr(code).isspace()]  # where `str.split` splits
FIRST_BYTE = np.zeros(256, dtype=np.uint8)  # 0: of no white space, 1: white space by itself, 2: maybe of white space
FIRST_BYTE[[ord(space) for space in SPACES if space.isascii()]] = 1
FIRST_BYTE[[space.encode()[0] for space in SPACES if not space.isascii()]] = 2


def compiled(function: Loop) -> Loop:
    """Compile a function when it is first called, and keep the result for other processes."""
    loop: Loop = njit(cache=True, nogil=True)(function)
    return loop


@compiled
def hash_words(data: Bytes, bounds: Bounds) -> Table:
    """Return a table of distinct words, with room for as many others."""
    size = SMALLEST
    while size < 4 * len(bounds):
        size *= 2
    table = np.zeros((size, 2), np.uint64)
    for number in range(len(bounds) - 1):
        hashed = START
        for place in range(bounds[number], bounds[number + 1]):
            hashed = (hashed ^ np.uint64(data[place])) * PRIME
        hashed = (hashed ^ (hashed >> HALF)) & LOW
        start, length = np.uint64(bounds[number]), np.uint64(bounds[number + 1] - bounds[number])
        _insert(table, (hashed << HALF) | np.uint64(number + 1), (start << HALF) | length)
    return table


@compiled
def number_words(
    data: Bytes, bounds: Bounds, num_known: int, known: Table
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Bounds, Bounds]:
    """Number the words of texts: those that are known by their numbers, others from there on as they come.

    Args:
        data: the known words, then the texts.
        bounds: those of the texts.
        num_known: how many words are known.
        known: their table.

    Returns:
        The numbers, how many words each text has, and where each of the others first begins in the data and how long
        it is.
    """
    table, mask, size = known.copy(), PLACE(len(known) - 1), PLACE(num_known)
    others = np.empty(len(table), np.uint64)
    numbers = np.empty((bounds[-1] - bounds[0] + len(bounds)) // 2 + 1, np.int32)
    lengths = np.empty(len(bounds) - 1, np.int64)
    words = PLACE(0)
    for text in range(len(bounds) - 1):
        before, place, stop = words, PLACE(bounds[text]), PLACE(bounds[text + 1])
        while True:
            while place < stop and FIRST_BYTE[data[place]] == 1:
                place += ONE
            if place < stop and FIRST_BYTE[data[place]] == 2 and _space(data, place, stop):
                place += _space(data, place, stop)
                continue
            if place >= stop:
                break
            first, hashed = place, START
            while place < stop:
                byte = data[place]
                first_byte = FIRST_BYTE[byte]
                if first_byte == 1 or (first_byte == 2 and _space(data, place, stop)):
                    break
                hashed = (hashed ^ np.uint64(byte)) * PRIME
                place += ONE
            hashed = (hashed ^ (hashed >> HALF)) & LOW
            slot, number = PLACE(hashed) & mask, size
            while table[slot, 0]:
                if table[slot, 0] >> HALF == hashed and table[slot, 1] & LOW == place - first:
                    here, there = first, PLACE(table[slot, 1] >> HALF)
                    while here < place and data[here] == data[there]:
                        here += ONE
                        there += ONE
                    if here == place:
                        number = PLACE(table[slot, 0] & LOW) - ONE
                        break
                slot = (slot + ONE) & mask
            if number == size:
                extent = (np.uint64(first) << HALF) | np.uint64(place - first)
                table[slot, 0], table[slot, 1] = (hashed << HALF) | np.uint64(number + ONE), extent
                others[number - PLACE(num_known)] = extent
                size += ONE
                if size + size > mask:
                    table, others = _grown(table), _longer(others)
                    mask = PLACE(len(table) - 1)
            numbers[words] = number
            words += ONE
        lengths[text] = words - before
    others = others[: size - PLACE(num_known)]
    return numbers[:words], lengths, (others >> HALF).astype(np.int32), (others & LOW).astype(np.int32)


@compiled
def follow(
    numbers: npt.NDArray[np.int64],
    items: npt.NDArray[np.int64],
    num_items: int,
    keys: npt.NDArray[np.unsignedinteger[Any]],
    begins: npt.NDArray[np.int32],
    shift: int,
    values: npt.NDArray[np.float32],
    total: npt.NDArray[np.float32],
) -> None:
    """Step from suffixes to those that are one item longer, as `raregram.models.pairs` keeps them.

    Args:
        numbers: of the suffix of each context, -1 for none; replaced by those of the longer ones.
        items: the further item of each context.
        num_items: items from this number on are in no suffix.
        keys: the pairs, bucket by bucket,
        begins: where each bucket begins,
        shift: and how many bits of a hash do not count.
        values: of each longer suffix.
        total: of each context, replaced where there is a longer suffix.
    """
    width, bits = np.uint64(num_items), np.uint64(shift)
    for context in range(len(numbers)):
        number, item = numbers[context], items[context]
        if number >= 0:
            numbers[context] = -1
            if item < num_items:
                key = np.uint64(number) * width + np.uint64(item)
                bucket = PLACE((key * MULTIPLIER) >> bits)
                place, end = PLACE(begins[bucket]), PLACE(begins[bucket + ONE])
                while place < end and keys[place] != key:
                    place += ONE
                if place < end:
                    numbers[context] = place
                    total[context] = values[place]


@compiled
def _space(data: Bytes, place: np.uintp, stop: np.uintp) -> np.uintp:
    """Return how many bytes the white space takes that begins here; 0 for none."""
    a = data[place]
    b = data[place + ONE] if place + ONE < stop else np.uint8(0)
    c = data[place + ONE + ONE] if place + ONE + ONE < stop else np.uint8(0)
    if a < 0x80:
        return PLACE(FIRST_BYTE[a])
    if a == 0xC2:
        return PLACE(2) if b in (0x85, 0xA0) else PLACE(0)
    if (
        (a == 0xE1 and b == 0x9A and c == 0x80)
        or (a == 0xE2 and b == 0x80 and (c <= 0x8A or c in (0xA8, 0xA9, 0xAF)))
        or (a == 0xE2 and b == 0x81 and c == 0x9F)
        or (a == 0xE3 and b == 0x80 and c == 0x80)
    ):
        return PLACE(3)
    return PLACE(0)


@compiled
def _insert(table: Table, entry: np.uint64, extent: np.uint64) -> None:
    mask = PLACE(len(table) - 1)
    slot = PLACE(entry >> HALF) & mask
    while table[slot, 0]:
        slot = (slot + ONE) & mask
    table[slot, 0], table[slot, 1] = entry, extent


@compiled
def _grown(table: Table) -> Table:
    """Return a table with twice as many slots."""
    larger = np.zeros((2 * len(table), 2), np.uint64)
    for slot in range(len(table)):
        if table[slot, 0]:
            _insert(larger, table[slot, 0], table[slot, 1])
    return larger


@compiled
def _longer(array: Table) -> Table:
    """Return an array with room for twice as much."""
    longer = np.empty(2 * len(array), np.uint64)
    longer[: len(array)] = array
    return longer

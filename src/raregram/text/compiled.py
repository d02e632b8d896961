"""Compiled loops for much text: split it at white space and encode its words in one go.

This needs Numba (the extra `fast`), takes a third of Arrow's time, and gives the same. `raregram.text.vocabulary`
loads it when a job is large enough for the half second that this takes. Strings are bytes, one after the other, and
the bounds between them, as in Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
Bounds = npt.NDArray[np.int32]
Table = npt.NDArray[np.uint64]  # an open hash table (slots, 2): hash << 32 | code + 1, or 0; start << 32 | length
Loop = TypeVar("Loop", bound=Callable[..., Any])

SMALLEST = 1 << 12  # slots
INDEX = np.uintp  # the type of all indices: Numba checks whether a signed one counts from the end
ONE = INDEX(1)
START, PRIME = np.uint64(1469598103934665603), np.uint64(1099511628211)  # FNV-1a
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # that of `raregram.models.pairs`
MINUS, POINT, ZERO, TAB, NEWLINE = (np.uint8(ord(letter)) for letter in "-.0\t\n")
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
    """Return a hash table of distinct words, at most half full."""
    size = SMALLEST
    while size < 4 * len(bounds):
        size *= 2
    table = np.zeros((size, 2), np.uint64)
    for code in range(len(bounds) - 1):
        hashed = START
        for offset in range(bounds[code], bounds[code + 1]):
            hashed = (hashed ^ np.uint64(data[offset])) * PRIME
        hashed = (hashed ^ (hashed >> HALF)) & LOW
        start, length = np.uint64(bounds[code]), np.uint64(bounds[code + 1] - bounds[code])
        _insert(table, (hashed << HALF) | np.uint64(code + 1), (start << HALF) | length)
    return table


@compiled
def encode_words(
    data: Bytes, bounds: Bounds, num_known: int, known: Table
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Bounds, Bounds]:
    """Return the codes of the words of texts, how many words each text has, and the new words: starts and lengths.

    Args:
        data: the known words, then the texts.
        bounds: those of the texts.
        num_known: how many words are known; new ones have the codes from there on, in the order in which they come.
        known: the table of the known words.
    """
    table, mask, size = known.copy(), INDEX(len(known) - 1), INDEX(num_known)
    new = np.empty(len(table), np.uint64)
    codes = np.empty((bounds[-1] - bounds[0] + len(bounds)) // 2 + 1, np.int32)
    lengths = np.empty(len(bounds) - 1, np.int64)
    words = INDEX(0)
    for text in range(len(bounds) - 1):
        before, offset, stop = words, INDEX(bounds[text]), INDEX(bounds[text + 1])
        while True:
            while offset < stop and FIRST_BYTE[data[offset]] == 1:
                offset += ONE
            if offset < stop and FIRST_BYTE[data[offset]] == 2 and _space(data, offset, stop):
                offset += _space(data, offset, stop)
                continue
            if offset >= stop:
                break
            first, hashed = offset, START
            while offset < stop:
                byte = data[offset]
                first_byte = FIRST_BYTE[byte]
                if first_byte == 1 or (first_byte == 2 and _space(data, offset, stop)):
                    break
                hashed = (hashed ^ np.uint64(byte)) * PRIME
                offset += ONE
            hashed = (hashed ^ (hashed >> HALF)) & LOW
            slot, code = INDEX(hashed) & mask, size
            while table[slot, 0]:
                if table[slot, 0] >> HALF == hashed and table[slot, 1] & LOW == offset - first:
                    here, there = first, INDEX(table[slot, 1] >> HALF)
                    while here < offset and data[here] == data[there]:
                        here += ONE
                        there += ONE
                    if here == offset:
                        code = INDEX(table[slot, 0] & LOW) - ONE
                        break
                slot = (slot + ONE) & mask
            if code == size:
                extent = (np.uint64(first) << HALF) | np.uint64(offset - first)
                table[slot, 0], table[slot, 1] = (hashed << HALF) | np.uint64(code + ONE), extent
                new[code - INDEX(num_known)] = extent
                size += ONE
                if size + size > mask:
                    table, new = _grown(table), np.append(new, np.empty_like(new))
                    mask = INDEX(len(table) - 1)
            codes[words] = code
            words += ONE
        lengths[text] = words - before
    new = new[: size - INDEX(num_known)]
    return codes[:words], lengths, (new >> HALF).astype(np.int32), (new & LOW).astype(np.int32)


@compiled
def follow(
    nodes: npt.NDArray[np.int64],
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
        nodes: the suffix of each context, -1 for none; replaced by the longer ones.
        items: the code of the further item of each context.
        num_items: items from this code on are in no suffix.
        keys: the pairs, bucket by bucket,
        begins: where each bucket begins,
        shift: and how many bits of a hash do not count.
        values: of each longer suffix.
        total: of each context, replaced where there is a longer suffix.
    """
    width, bits = np.uint64(num_items), np.uint64(shift)
    for context in range(len(nodes)):
        node, item = nodes[context], items[context]
        if node >= 0:
            nodes[context] = -1
            if item < num_items:
                key = np.uint64(node) * width + np.uint64(item)
                bucket = INDEX((key * MULTIPLIER) >> bits)
                index, end = INDEX(begins[bucket]), INDEX(begins[bucket + ONE])
                while index < end and keys[index] != key:
                    index += ONE
                if index < end:
                    nodes[context] = index
                    total[context] = values[index]


@compiled
def join_lines(numbers: npt.NDArray[np.float64], digits: int, data: Bytes, bounds: Bounds) -> Bytes:
    """Return lines of text: some numbers and a text, with tabs between them.

    Args:
        numbers: whole ones, (columns, lines), that are shown as so many tenths, hundredths, ...
        digits: how many digits stand behind the point; zeros at the end are left out.
        data: the texts,
        bounds: and the bounds between them.
    """
    columns, lines = INDEX(numbers.shape[0]), INDEX(numbers.shape[1])
    unit = INDEX(10**digits)
    out = np.empty(len(data) + (columns * INDEX(24) + ONE) * lines, np.uint8)
    size = INDEX(0)
    for line in range(lines):
        for column in range(columns):
            number = numbers[column, line]
            if math.copysign(1.0, number) < 0:
                out[size] = MINUS
                size += ONE
            whole = INDEX(abs(number))
            rest, whole = whole % unit, whole // unit
            tens = INDEX(1)
            while tens * INDEX(10) <= whole:
                tens *= INDEX(10)
            while tens:
                out[size] = ZERO + (whole // tens) % INDEX(10)
                tens //= INDEX(10)
                size += ONE
            if rest:
                out[size] = POINT
                size += ONE
            while rest:
                rest *= INDEX(10)
                out[size] = ZERO + rest // unit
                rest %= unit
                size += ONE
            out[size] = TAB
            size += ONE
        for offset in range(INDEX(bounds[line]), INDEX(bounds[line + ONE])):
            out[size] = data[offset]
            size += ONE
        out[size] = NEWLINE
        size += ONE
    return out[:size]


@compiled
def _space(data: Bytes, offset: np.uintp, stop: np.uintp) -> np.uintp:
    """Return how many bytes the white space takes that begins here; 0 for none."""
    a = data[offset]
    b = data[offset + ONE] if offset + ONE < stop else np.uint8(0)
    c = data[offset + ONE + ONE] if offset + ONE + ONE < stop else np.uint8(0)
    if a < 0x80:
        return INDEX(FIRST_BYTE[a])
    if a == 0xC2:
        return INDEX(2) if b in (0x85, 0xA0) else INDEX(0)
    if (
        (a == 0xE1 and b == 0x9A and c == 0x80)
        or (a == 0xE2 and b == 0x80 and (c <= 0x8A or c in (0xA8, 0xA9, 0xAF)))
        or (a == 0xE2 and b == 0x81 and c == 0x9F)
        or (a == 0xE3 and b == 0x80 and c == 0x80)
    ):
        return INDEX(3)
    return INDEX(0)


@compiled
def _insert(table: Table, entry: np.uint64, extent: np.uint64) -> None:
    mask = INDEX(len(table) - 1)
    slot = INDEX(entry >> HALF) & mask
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

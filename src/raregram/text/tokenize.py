"""Texts into items: words as `str.split` finds them, words with punctuation apart, or letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import ParameterError, must_be
from raregram.options import KIND, TOKENIZE
from raregram.text.words import split_strings, words_in

PAD = ""  # stands beyond the ends of a document; no item of a text is empty
SPACE, DELETE = 0x20, 0x7F

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


PICTOGRAM = "Ⓜ"


@dataclass(frozen=True)
class Tokenizer:
    """How texts are split into items: first at white space, or into letters, and then what is found once more."""

    kind: str = KIND.default
    tokenize: str = "whitespace"  # "words": by Unicode's rules for word boundaries
    lower: bool = False  # whether items are in small letters

    def check(self, owner: str) -> None:
        """Raise `ParameterError` unless `owner`, a function or a file, can split texts like this."""
        KIND.check(self.kind, owner)
        TOKENIZE.check(self.tokenize, owner)
        if not isinstance(self.lower, bool):
            raise must_be("lower", owner, "true or false", self.lower)
        if self.kind == "letters" and self.tokenize != "whitespace":
            raise ParameterError(f"tokenize={self.tokenize!r} is for words; letters are split at every character")

    @property
    def is_plain(self) -> bool:
        """Whether items are the strings between white space, or letters, as they are."""
        return self.tokenize == "whitespace" and not self.lower

    def __str__(self) -> str:
        """Name the kind of items."""
        split = " by Unicode's rules" if self.tokenize == "words" else ""
        return f"{self.kind}{split}{', lower case' if self.lower else ''}"

    def header(self) -> dict[str, Any]:
        """Return the fields of a file's header beside the kind of items: none for plain ones, as ever."""
        return {} if self.is_plain else {"tokenize": self.tokenize, "lower": self.lower}

    def items(self, text: str | Sequence[str]) -> list[str]:
        """Return the items of a text, or of a list of strings.

        >>> Tokenizer(tokenize="words", lower=True).items(["in", "Paris,"])
        ['in', 'paris', ',']
        """
        if isinstance(text, str):
            text = list(text) if self.kind == "letters" else text.split()
        if self.tokenize == "words":
            text = [word for string in text for word in (words_in(string) if string else [PAD])]
        return [self._lower(item) for item in text] if self.lower else list(text)

    def refine(self, strings: pa.Array) -> tuple[pa.Array, Ints]:
        """Return the items of distinct strings or letters, one after the other, and how many each has.

        The empty string, a pad, stays what it is.
        """
        items, sizes = strings, np.ones(len(strings), dtype=np.int64)
        if self.tokenize == "words" and len(strings):
            items, sizes = split_strings(strings)
        if self.lower and buffers_of(items)[0].max(initial=0) < 0x80:
            items = pc.ascii_lower(items)
        elif self.lower:
            items = pa.array(map(self._lower, items.to_pylist()), pa.string())
        return items, sizes

    def _lower(self, item: str) -> str:
        """Return an item in small letters; a letter stays one, though that of a Turkish capital İ has two."""
        # Ⓜ is also a pictogram and ⓜ is not, so an item with the small one might be split once more.
        lowered = PICTOGRAM.join(map(str.lower, item.split(PICTOGRAM))) if PICTOGRAM in item else item.lower()
        return lowered[:1] if self.kind == "letters" and len(item) == 1 else lowered


def expand(codes: npt.NDArray[np.int32], lengths: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Replace each string of several rows, which follow each other, by its items.

    Args:
        codes: of the strings.
        lengths: how many each row has.
        sizes: how many items the string of each code has, which stand one after the other in a list.

    Returns the indices of all items in that list, and how many each row has.
    """
    if (sizes == 1).all():
        return codes.astype(np.int64), lengths
    size = sizes[codes]
    ends = np.cumsum(size)
    begins = np.cumsum(sizes) - sizes
    index = np.repeat(begins[codes] - ends + size, size)
    index += np.arange(len(index))
    return index, np.diff(np.append(0, ends)[np.append(0, np.cumsum(lengths))])


def split_texts(texts: pa.Array, kind: str) -> tuple[pa.Array, Ints]:
    """Return the items of all texts, one after the other, and how many each has."""
    data, _ = buffers_of(texts)
    if kind == "letters":  # one begins at each byte that is not 10xxxxxx
        offsets = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data)).astype(np.int32)
        letters = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        return letters, np.asarray(pc.utf8_length(texts), dtype=np.int64)
    # Arrow's ASCII kernels see the same white space as `str.split`, but for 0x1c to 0x1f.
    if data.max(initial=0) < 0x80 and not ((data >= 0x1C) & (data <= 0x1F)).any():
        trimmed = pc.ascii_trim_whitespace(texts)
        lists = pc.ascii_split_whitespace(trimmed)
    else:
        trimmed = pc.utf8_trim_whitespace(texts)
        lists = pc.utf8_split_whitespace(trimmed)
    lengths = np.array(pc.list_value_length(lists), dtype=np.int64)
    empty = np.asarray(pc.binary_length(trimmed)) == 0
    if empty.any():  # Arrow splits "" into one empty string
        lengths[empty] = 0
        lists = lists.filter(pa.array(~empty))
    return lists.flatten(), lengths


def split_behind_spaces(texts: pa.Array) -> tuple[pa.Array, Ints] | None:
    """Return the words of texts, each with a space behind it, and how many each text has.

    That needs no copy of every word. None where texts are not plain ASCII with single spaces between words.
    """
    data, bounds = buffers_of(add_space(texts))
    if not len(data) or (data - np.uint8(SPACE)).max() >= DELETE - SPACE:
        return None
    offsets = np.append(np.zeros(1, dtype=np.int32), np.flatnonzero(data == SPACE).astype(np.int32) + 1)
    if (offsets[1:] - offsets[:-1]).min() < 2:  # two spaces in a row, or one at an end of a text
        return None
    words = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return words, np.diff(np.searchsorted(offsets, bounds))


def add_space(items: pa.Array) -> pa.Array:
    """Return items with a space behind each."""
    return pc.binary_join_element_wise(items, "", " ")


def insert_fill(codes: Codes, lengths: Ints, added: Ints, side: str, fill: int) -> Codes:
    """Put `added[i]` times the code `fill` to the left or right of the i-th of several rows, which follow each other.

    >>> insert_fill(np.array([3, 1, 2]), np.array([1, 2]), np.array([2, 1]), "left", -9).tolist()
    [-9, -9, 3, -9, 1, 2]
    """
    ends = np.cumsum(lengths)
    return np.insert(codes, np.repeat(ends - lengths if side == "left" else ends, added), fill)


def window_starts(lengths: npt.NDArray[np.signedinteger[Any]], n: int) -> Ints:
    """Return where each window of n items begins in documents of so many items, which follow each other.

    >>> window_starts(np.array([3, 1, 2]), 2)
    array([0, 1, 4])
    """
    windows = np.maximum(lengths - (n - 1), 0)
    skipped = np.cumsum(lengths - windows) - (lengths - windows)  # by the documents before: their ends begin none
    return np.asarray(np.arange(windows.sum(dtype=np.int64)) + np.repeat(skipped, windows))


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's lists, but no view of one: their casts are broken (pyarrow 26)."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def buffers_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the bytes of all strings of an array, one after the other, as a view, and the bounds between them."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
    return content[bounds[0] : bounds[-1]], bounds - bounds[0]

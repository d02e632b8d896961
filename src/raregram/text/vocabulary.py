"""Items into codes: the index of an item in a vocabulary, which is sorted in byte order."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.text.tokenize import (
    Ints,
    Tokenizer,
    add_space,
    buffers_of,
    expand,
    split_behind_spaces,
    split_texts,
    strings_at,
)

Codes: TypeAlias = npt.NDArray[np.int32]

ABSENT = -1  # the code of an item that a vocabulary does not have,
MISSING = -2  # and of none: a context may have fewer than n items
COMPILED_FROM = 1 << 26  # bytes of text: Arrow takes about as long for them as Numba takes to load
SMALL = 1 << 16  # bytes of text, for which a call of the compiled loops costs more than it saves
LARGEST_TEXT = (1 << 31) - 1  # bytes at a time: offsets have 32 bits


class Encoder:
    """Turns texts into codes of a vocabulary; one serves a whole job, such as a count or the scores of a model.

    When the job has become large, loops that Numba compiles take over, where it is installed (extra `fast`). They do
    the same in a third of the time, and Numba takes half a second to load.
    """

    def __init__(self, vocabulary: pa.Array, tokenizer: Tokenizer = Tokenizer()) -> None:  # noqa: B008 - frozen
        self.vocabulary = vocabulary
        self.tokenizer = tokenizer
        self._known = vocabulary if tokenizer.is_plain else vocabulary[:0]  # strings that need no code of their own
        self.bytes = 0  # of text so far, or that are known to come
        self._table: Any = None  # of the compiled loops
        self._spaced: Any = None  # the vocabulary with a space behind each item

    def encode(self, texts: pa.Array) -> tuple[Codes, Ints, pa.Array]:
        """Return the codes of all items, how many items each text has, and the items that the vocabulary lacks.

        The codes of those follow the codes of the vocabulary.
        """
        codes, lengths, strings = self.encode_strings(texts)
        if self.tokenizer.is_plain:
            return codes, lengths, strings
        found = encode_items(strings, self.vocabulary)  # an item of the vocabulary is not split any further
        others = found == ABSENT
        items, sizes = self.tokenizer.refine(strings.filter(pa.array(others)))
        of_items, new = _look_up(items, self.vocabulary)
        all_sizes = np.ones(len(strings), dtype=np.int64)
        all_sizes[others] = sizes
        of_strings = np.repeat(found, all_sizes)
        of_strings[np.repeat(others, all_sizes)] = of_items
        index, lengths = expand(codes, lengths, all_sizes)
        return of_strings[index], lengths, new

    def encode_strings(self, texts: pa.Array) -> tuple[Codes, Ints, pa.Array]:
        """Return the same for the strings between white space, or letters, in the order in which they come.

        If these are split once more, all of them count as new: what is distinct is looked up later.
        """
        self.bytes += texts.nbytes
        loops = self._loops(texts)
        if loops is not None:
            data, bounds = buffers_of(self._known)
            text_data, text_bounds = buffers_of(texts)
            if len(data) + len(text_data) <= LARGEST_TEXT:
                if self._table is None:
                    self._table = loops.hash_words(data, bounds)
                both = np.concatenate([data, text_data]) if len(data) else text_data
                moved = text_bounds + np.int32(len(data))
                codes, lengths, starts, sizes = loops.encode_words(both, moved, len(self._known), self._table)
                return codes, lengths, strings_at(both, starts, sizes)
        spaced = split_behind_spaces(texts) if self.tokenizer.kind == "words" else None
        items, lengths = spaced or split_texts(texts, self.tokenizer.kind)
        if spaced is None:
            codes, new = _look_up(items, self._known)
            return codes, lengths, new
        if self._spaced is None:
            self._spaced = add_space(self._known)
        codes, new = _look_up(items, self._spaced)
        return codes, lengths, pc.utf8_slice_codeunits(new, 0, -1)

    def _loops(self, texts: pa.Array) -> ModuleType | None:
        """Return the compiled loops where they pay: they copy the table of the vocabulary, and have to be loaded."""
        if self.tokenizer.kind != "words" or texts.nbytes < SMALL:
            return None
        return _compiled() if self.bytes > COMPILED_FROM else loaded_loops()


def loaded_loops() -> ModuleType | None:
    """Return the compiled loops where they were loaded before, for a text that was long enough."""
    return sys.modules.get("raregram.text.compiled")


@cache
def _compiled() -> ModuleType | None:
    try:
        from raregram.text import compiled
    except (ImportError, RuntimeError, SystemError):  # there is no Numba, or none that works here
        return None
    return compiled


def _look_up(items: pa.Array, vocabulary: pa.Array) -> tuple[Codes, pa.Array]:
    """Return the code of each item, and the items that a vocabulary lacks, whose codes follow."""
    if not len(vocabulary):  # all are new, so there is nothing to look up
        encoded = items.dictionary_encode()
        return np.asarray(encoded.indices), encoded.dictionary
    codes = encode_items(items, vocabulary)
    unknown = np.flatnonzero(codes == ABSENT)
    encoded = items.take(pa.array(unknown)).dictionary_encode()
    codes[unknown] = len(vocabulary) + np.asarray(encoded.indices)
    return codes, encoded.dictionary


def encode_items(items: pa.Array, vocabulary: pa.Array) -> Codes:
    """Return the code of each item, `ABSENT` where a vocabulary does not have it."""
    if not len(vocabulary):
        return np.full(len(items), ABSENT, dtype=np.int32)
    found = pc.index_in(items, value_set=vocabulary)
    return np.array(found.fill_null(ABSENT), dtype=np.int32)


def build_vocabulary(items: pa.Array) -> tuple[pa.Array, Codes]:
    """Return the distinct items in byte order, and the code of each item among them."""
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return encoded.dictionary.take(pa.array(order)), rank[np.asarray(encoded.indices)]

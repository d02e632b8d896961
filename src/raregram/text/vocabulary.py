"""Items into codes: the index of an item in a vocabulary, which is sorted in byte order."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.text.tokenize import (
    Ints,
    Tokenizer,
    add_space,
    expand,
    split_behind_spaces,
    split_texts,
)

Codes: TypeAlias = npt.NDArray[np.int32]

ABSENT = -1  # the code of an item that a vocabulary does not have,
MISSING = -2  # and of none: a context may have fewer than n items


class Encoder:
    """Turns texts into codes of a vocabulary; one serves a whole job, such as a count or the scores of a model."""

    def __init__(self, vocabulary: pa.Array, tokenizer: Tokenizer = Tokenizer()) -> None:  # noqa: B008 - frozen
        self.vocabulary = vocabulary
        self.tokenizer = tokenizer
        self._known = vocabulary if tokenizer.is_plain else vocabulary[:0]  # strings that need no code of their own

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
        spaced = split_behind_spaces(texts) if self.tokenizer.kind == "words" else None
        items, lengths = spaced or split_texts(texts, self.tokenizer.kind)
        if spaced is None:
            codes, new = _look_up(items, self._known)
            return codes, lengths, new
        codes, new = _look_up(items, self._spaced)
        return codes, lengths, pc.utf8_slice_codeunits(new, 0, -1)

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of each item. For a few items this is faster than Arrow, which hashes the vocabulary anew."""
        return {item: code for code, item in enumerate(self.vocabulary.to_pylist())}

    @cached_property
    def _spaced(self) -> pa.Array:
        """The known strings, each with a space after it, as `split_behind_spaces` gives them."""
        return add_space(self._known)


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

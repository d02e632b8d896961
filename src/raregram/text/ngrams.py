"""N-grams as people write them, a string ("the meeting was held in") or a list of items, split into items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import CONTROLS, InputError, check_count, is_unicode, printable, shorten
from raregram.options import N
from raregram.text.tokenize import (
    DELETE,
    SPACE,
    Ints,
    Tokenizer,
    buffers_of,
    expand,
    is_list,
    is_text,
    split_texts,
)

NGramsLike: TypeAlias = Any  # sequence of strings or of sequences of items, NumPy or Arrow array of either
Where: TypeAlias = Callable[[int], str]

CHUNK = 1 << 16  # N-grams handled at a time: small enough for the cache, large enough to forget Python
LONGEST_NGRAM = int(N.at_most)  # items
PLAIN = Tokenizer()
WITHIN_LINE = rf"[{CONTROLS}]|\\(?=[xu])"  # what is escaped in a line of text; what looks like an escape, too
WITHIN_WORD = rf"\s|{WITHIN_LINE}"  # and in a word of it


def as_sequence(values: Any) -> Any:
    """Return rows that have the indices 0, 1, ...: those of a pandas Series may be others."""
    if isinstance(values, str | list | tuple | np.ndarray | pa.Array | pa.ChunkedArray):
        return values
    return np.asarray(values) if hasattr(values, "__array__") else list(values)


def nth_ngram(row: int) -> str:
    """Name an N-gram in an error message by its index in the caller's sequence."""
    return f"N-gram {row + 1}"


@dataclass(frozen=True)
class NGrams:
    """Contexts, one after the other."""

    items: pa.Array  # string
    lengths: Ints  # (contexts,) how many items each has

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of_length(cls, items: pa.Array, n: int) -> NGrams:
        """Return contexts of n items each."""
        return cls(items, np.full(len(items) // n, n))

    def nearest(self, n: int, side: str) -> NGrams:
        """Return contexts without the items that are further from the boundary than n."""
        if (self.lengths <= n).all():
            return self
        index, there = nearest_items(self.lengths, n, side)
        return NGrams(self.items.take(pa.array(index[there])), np.minimum(self.lengths, n))

    def lists(self) -> pa.Array:
        """Return each N-gram as a list of items."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), self.items)

    def texts(self, kind: str) -> pa.Array:
        """Return each N-gram as one string: words with a space between them, letters without."""
        return pc.binary_join(self.lists(), " " if kind == "words" else "")

    def lines(self, kind: str) -> pa.Array:
        """Return each N-gram as one string that fits into a line; different N-grams have different ones.

        Control characters and line breaks are escaped, and so is white space within a word.
        """
        if _is_printable(self.items, spaces=kind == "letters"):
            return self.texts(kind)
        pattern = WITHIN_WORD if kind == "words" else WITHIN_LINE
        encoded = self.items.dictionary_encode() if kind == "words" else self.texts(kind).dictionary_encode()
        shown = pa.array([printable(text, pattern) for text in encoded.dictionary.to_pylist()], pa.string())
        shown = shown.take(encoded.indices)
        return NGrams(shown, self.lengths).texts(kind) if kind == "words" else shown


def are_lines(texts: pa.Array, tokenizer: Tokenizer) -> bool:
    """Whether N-grams as strings are already as `NGrams.lines` gives them, which holds for most."""
    if not tokenizer.is_plain or not _is_printable(texts, spaces=True):
        return False
    data, bounds = buffers_of(texts)
    starts, ends = bounds[:-1], bounds[1:]
    if tokenizer.kind == "letters" or not len(texts):
        return True
    one_space = (starts < ends).all() and not (data[starts] == SPACE).any() and not (data[ends - 1] == SPACE).any()
    is_space = data == SPACE
    return bool(one_space and not (is_space[1:] & is_space[:-1]).any())


def _is_printable(texts: pa.Array, spaces: bool) -> bool:
    """Whether strings have no control characters, backslashes or white space, spaces aside."""
    data, least = buffers_of(texts)[0], SPACE if spaces else SPACE + 1
    if data.min(initial=least) < least or any((data == byte).any() for byte in (ord("\\"), DELETE)):
        return False
    return bool(data.max(initial=0) < DELETE or data[data > DELETE].tobytes().decode().isprintable())


def printable_texts(texts: pa.Array) -> pa.Array:
    """Return texts with escapes in place of control characters and line breaks."""
    whole = buffers_of(texts)[0].tobytes().decode()
    if whole.isprintable() or not re.search(f"[{CONTROLS}]", whole):
        return texts
    return pa.array(map(printable, texts.to_pylist()), pa.string())


def chunks(ngrams: NGramsLike, size: int = CHUNK) -> Iterator[tuple[int, NGramsLike]]:
    """Yield (first row, part) for a long sequence, so that memory stays flat; the parts have about the same size."""
    even = -(-len(ngrams) // max(-(-len(ngrams) // size), 1)) or 1
    for first in range(0, len(ngrams), even):
        yield first, ngrams[first : first + even]


def nearest_items(lengths: Ints, n: int, side: str) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the indices of the n items of each row that are nearest to its boundary, and which of them there are.

    >>> index, there = nearest_items(np.array([1, 3]), 2, "left")
    >>> index[there].tolist(), there.tolist()
    ([0, 2, 3], [[False, True], [True, True]])
    """
    ends = np.cumsum(lengths)[:, None]
    starts = ends - lengths[:, None]
    index = (ends - n if side == "left" else starts) + np.arange(n)
    return index, (index >= starts) & (index < ends)


def split_ngrams(ngrams: NGramsLike, tokenizer: Tokenizer = PLAIN, where: Where = nth_ngram) -> NGrams:
    """Split N-grams of any length into items; `where` names a row in an error message."""
    strings, lengths = _split_any(as_sequence(ngrams), tokenizer.kind, where)
    if tokenizer.is_plain:
        return NGrams(strings, lengths)
    encoded = strings.dictionary_encode()
    items, sizes = tokenizer.refine(encoded.dictionary)
    index, lengths = expand(np.asarray(encoded.indices), lengths, sizes)
    return NGrams(items.take(pa.array(index)), lengths)


def split_few(ngrams: NGramsLike, tokenizer: Tokenizer = PLAIN) -> list[list[str]] | None:
    """Split a few N-grams without Arrow, whose calls would take longer than the work.

    None for anything but a list of strings or of lists of strings, and for what `split_ngrams` raises an error of.

    >>> split_few(["to be", "or not"]), split_few([["to", None]])
    ([['to', 'be'], ['or', 'not']], None)
    """
    if not isinstance(ngrams, list | tuple) or not all(type(ngram) is type(ngrams[0]) for ngram in ngrams):
        return None
    if not isinstance(ngrams[0], str):
        items = [item for ngram in ngrams if isinstance(ngram, list | tuple) for item in ngram]
        if not items or not all(type(item) is str for item in items):
            return None
        if tokenizer.kind == "letters" and max(map(len, items)) > 1:
            return None
    if not all(is_unicode("".join(ngram)) for ngram in ngrams):
        return None
    return [tokenizer.items(ngram) for ngram in ngrams]


def parse_ngrams(
    ngrams: NGramsLike, n: int | None = None, tokenizer: Tokenizer = PLAIN, where: Where = nth_ngram
) -> NGrams:
    """Split N-grams into items and check that each has `n` of them (None: as many as the first).

    Args:
        ngrams: a sequence of strings, or of sequences of items, as list, NumPy or Arrow array.
        n: the number of items each must have.
        tokenizer: how strings are split; also those of a list.
        where: names a row in an error message.

    >>> parse_ngrams(["to be or", "not to be"]).items.to_pylist()
    ['to', 'be', 'or', 'not', 'to', 'be']
    """
    ngrams = as_sequence(ngrams)
    if n is not None:
        check_count("n", "a count", n)
    found = split_ngrams(ngrams, tokenizer, where)
    lengths, kind = found.lengths, tokenizer.kind
    if not len(lengths):
        raise InputError("there is no N-gram in the input")
    if n is None:
        n = int(lengths[0])
        if n > LONGEST_NGRAM:
            raise InputError(f"{where(0)} has {n:,} {kind}; an N-gram has at most {LONGEST_NGRAM:,}", 0)
    wrong = np.flatnonzero((lengths != n) | (lengths == 0))
    if len(wrong):
        row = int(wrong[0])
        shown = ngrams[row].as_py() if isinstance(ngrams[row], pa.Scalar) else ngrams[row]
        raise InputError(
            f"{where(row)} has {lengths[row]} {kind if isinstance(shown, str) else 'items'}, "
            f"expected {max(n, 1)}: {shorten(shown)}",
            row,
        )
    return found


def one_string_array(texts: NGramsLike) -> pa.Array | None:
    """Return texts as one Arrow array of strings, or None where they are anything else."""
    try:
        array = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts)
    except (pa.ArrowException, TypeError, UnicodeEncodeError):
        return None
    array = _one_chunk(array)
    return array if pa.types.is_string(array.type) and not array.null_count and len(array) else None


def _one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def _split_any(ngrams: NGramsLike, kind: str, where: Where) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the items of all N-grams, one after the other, and how many each has."""
    if isinstance(ngrams, str):
        raise InputError("N-grams come as a sequence; put the one string into a list")
    if isinstance(ngrams, np.ndarray) and ngrams.ndim == 2:
        items, lengths = _as_strings(ngrams.ravel(), where), np.full(len(ngrams), ngrams.shape[1])
    else:
        array = _one_chunk(_as_arrow(ngrams, where))
        if array.null_count:
            row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
            raise InputError(f"{where(row)} is missing", row)
        if not is_list(array.type):
            return split_texts(_as_strings(array, where), kind)
        items, lengths = array.flatten(), np.asarray(pc.list_value_length(array), dtype=np.int64)
        if items.null_count:
            row = _row_of(lengths, np.asarray(items.is_null()))
            raise InputError(f"{where(row)}: an item is missing (null) in a list of items", row)
        items = _as_strings(items, where)
    long = np.asarray(pc.utf8_length(items)) > 1 if kind == "letters" else np.zeros(0, bool)
    if long.any():
        row, item = _row_of(lengths, long), items[int(np.argmax(long))].as_py()
        raise InputError(f"{where(row)}: {shorten(item)} is not a letter; a list has one letter an item", row)
    return items, lengths


def _row_of(lengths: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> int:
    """Return the row in which the first of some chosen items stands."""
    return int(np.searchsorted(np.cumsum(lengths), int(np.argmax(chosen)), side="right"))


def _as_arrow(values: Any, where: Where) -> Any:
    """Convert a Python or NumPy sequence; the error names the first row that is not text."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, from_pandas=isinstance(values, np.ndarray))  # in which NaN is missing
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if not is_unicode("".join(value)))
        raise InputError(f"{where(row)} is not valid Unicode") from None
    except (pa.ArrowException, TypeError):
        raise InputError("N-grams must be strings or sequences of strings, all of the same kind") from None


def _as_strings(values: Any, where: Where) -> pa.Array:
    """Return an Arrow string array, or say that these are no strings."""
    array = _as_arrow(values, where)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not is_text(array.type) and not (pa.types.is_null(array.type) and not len(array)):
        raise InputError(f"items must be strings; found {array.type}")
    if array.null_count:
        raise InputError("an item is missing (null)")
    return array.cast(pa.string())

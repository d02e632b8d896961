"""N-grams as people write them -> items -> item numbers.

An N-gram is a string ("the meeting was held in"), a list of items, or a row of item numbers. Everything after
this file knows item numbers alone: the rank of an item in a vocabulary sorted in byte order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import CONTROLS, InputError, check_count, is_unicode, must_be, name_some, printable, shorten

Numbers: TypeAlias = npt.NDArray[np.int32]
NGramsLike: TypeAlias = Any  # sequence of strings or of sequences of items, NumPy or Arrow array of either
Where: TypeAlias = Callable[[int], str]

KINDS = ("words", "letters")
NO_TARGET: set[Any] = {None, "", "O"}  # labels of contexts that belong to no target; O as in BIO tags
ABSENT = -1  # the number of an item that a vocabulary does not hold
PAD = ""  # stands beyond the ends of a document; no item of a text is empty
CHUNK = 1 << 16  # N-grams handled at a time: small enough for the cache, large enough to forget Python
LARGEST_TEXT = (1 << 31) - 1  # bytes at a time: places in them are numbers of 32 bits
LONGEST_NGRAM = 1000  # items
MOST_LABELS = 1000  # that become targets without being named: a count table has a column for each
WITHIN_LINE = rf"[{CONTROLS}]|\\(?=[xu])"  # what is escaped in a line of text; what looks like an escape, too
WITHIN_WORD = rf"\s|{WITHIN_LINE}"  # and in a word of it
WORTH_COMPILING = 1 << 26  # bytes of text: Arrow takes about as long for them as Numba takes to load


def as_sequence(values: Any) -> Any:
    """Return rows that can be called by their numbers, 0, 1, ...: those of a pandas Series may have other names."""
    if isinstance(values, str | list | tuple | np.ndarray | pa.Array | pa.ChunkedArray):
        return values
    return np.asarray(values) if hasattr(values, "__array__") else list(values)


def nth_ngram(row: int) -> str:
    """Name an N-gram in an error message by its place in the caller's sequence."""
    return f"N-gram {row + 1}"


@dataclass(frozen=True)
class NGrams:
    """Contexts of `n` items each, one after the other."""

    items: pa.Array  # (rows * n,) string
    n: int

    def __len__(self) -> int:
        return len(self.items) // self.n

    def lists(self) -> pa.Array:
        """Return each N-gram as a list of items."""
        return pa.ListArray.from_arrays(pa.array(np.arange(len(self) + 1, dtype=np.int32) * self.n), self.items)

    def texts(self, kind: str) -> pa.Array:
        """Return each N-gram as one string: words with a space between them, letters without."""
        return pc.binary_join(self.lists(), " " if kind == "words" else "")

    def lines(self, kind: str) -> pa.Array:
        """Return each N-gram as one string that fits into a line; different N-grams have different ones.

        Control characters and line breaks are escaped, and so is white space within a word.
        """
        if not _may_need_escapes(self.items, kind):
            return self.texts(kind)
        pattern = WITHIN_WORD if kind == "words" else WITHIN_LINE
        encoded = self.items.dictionary_encode() if kind == "words" else self.texts(kind).dictionary_encode()
        shown = pa.array([printable(text, pattern) for text in encoded.dictionary.to_pylist()], pa.string())
        shown = shown.take(encoded.indices)
        return NGrams(shown, self.n).texts(kind) if kind == "words" else shown


def _may_need_escapes(items: pa.Array, kind: str) -> bool:
    """Whether items hold anything but printable ASCII without a backslash, and for letters blanks."""
    data = _bytes_of(items)
    least = 0x21 if kind == "words" else 0x20
    return bool(len(data)) and bool(((data < least) | (data > 0x7E) | (data == ord("\\"))).any())


def chunks(ngrams: NGramsLike, size: int = CHUNK) -> Iterator[tuple[int, NGramsLike]]:
    """Yield (first row, part) for a long sequence, so that memory stays flat."""
    for first in range(0, len(ngrams), size):
        yield first, ngrams[first : first + size]


def parse_ngrams(
    ngrams: NGramsLike,
    n: int | None = None,
    kind: str = "words",
    where: Where = nth_ngram,
    pad: str | None = None,
) -> NGrams:
    """Split N-grams into items and check that each has `n` of them (None: as many as the first).

    Args:
        ngrams: a sequence of strings, or of sequences of items, as list, NumPy or Arrow array.
        n: the number of items each must have.
        kind: how a string is split: "words" at white space, "letters" at every character.
        where: names a row in an error message.
        pad: the side, "left" or "right", on which an N-gram of fewer items is filled up with pads; None: an error.

    >>> parse_ngrams(["to be or", "not to be"]).items.to_pylist()
    ['to', 'be', 'or', 'not', 'to', 'be']
    """
    ngrams = as_sequence(ngrams)
    if n is not None:
        check_count("n", "a count", n)
    items, lengths = _split_any(ngrams, kind, where)
    if not len(lengths):
        raise InputError("there is no N-gram in the input")
    if n is None:
        n = int(lengths[0])
        if n > LONGEST_NGRAM:
            raise InputError(f"{where(0)} has {n:,} {kind}; an N-gram has at most {LONGEST_NGRAM:,}", 0)
    if pad is not None:
        missing = np.maximum(n - lengths, 0)
        items, lengths = insert_pads(items, lengths, missing, pad), lengths + missing
    wrong = np.flatnonzero((lengths != n) | (lengths == 0))
    if len(wrong):
        row = int(wrong[0])
        shown = ngrams[row].as_py() if isinstance(ngrams[row], pa.Scalar) else ngrams[row]
        raise InputError(
            f"{where(row)} has {lengths[row]} {kind if isinstance(shown, str) else 'items'}, "
            f"expected {max(n, 1)}: {shorten(shown)}",
            row,
        )
    return NGrams(items, int(n))


class Meter:
    """Counts the bytes that this process has read, and tells when compiled loops pay."""

    def __init__(self) -> None:
        self.bytes = 0

    def loops(self, texts: pa.Array) -> ModuleType | None:
        """Return `raregram.text.compiled` where it pays and Numba is installed."""
        self.bytes += texts.nbytes
        return self.loaded

    @property
    def loaded(self) -> ModuleType | None:
        """The same, when nothing more is read."""
        return _kernels() if self.bytes > WORTH_COMPILING else None


METER = Meter()


@cache
def _kernels() -> ModuleType | None:
    try:
        from raregram.text import compiled as kernels
    except (ImportError, RuntimeError, SystemError):  # there is no Numba, or none that works here
        return None
    return kernels


class KnownWords:
    """A vocabulary, ready for compiled loops."""

    def __init__(self, words: pa.Array) -> None:
        self.words = words
        self._table: Any = None

    def number(self, texts: NGramsLike) -> tuple[Numbers, npt.NDArray[np.int64], pa.Array] | None:
        """Number all words of texts: known ones by the vocabulary, others from there on in order of appearance.

        Returns the numbers, how many words each text has, and the others; None where Arrow is to be asked, since
        this does not pay or is no array of strings.
        """
        array = one_string_array(texts)
        loops = None if array is None else METER.loops(array)
        if array is None or loops is None:
            return None
        data, bounds = _buffers_of(self.words)
        if self._table is None:
            self._table = loops.hash_words(data, bounds)
        text_data, text_bounds = _buffers_of(array)
        if len(data) + len(text_data) > LARGEST_TEXT:
            return None
        both = np.concatenate([data, text_data]) if len(data) else text_data
        moved = text_bounds + np.int32(len(data))
        numbers, lengths, starts, sizes = loops.number_words(both, moved, len(self.words), self._table)
        return numbers, lengths, _cut_out(both, starts, sizes)


def _buffers_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers]:
    """Return the bytes of strings, one after the other, and the bounds between them."""
    if not len(texts):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    return _bytes_of(texts), np.concatenate([np.zeros(1, dtype=np.int32), _ends_of(texts)])


def _cut_out(data: npt.NDArray[np.uint8], starts: Numbers, sizes: Numbers) -> pa.Array:
    """Return the strings that begin at these places."""
    bounds = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    places = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes)
    return pa.StringArray.from_buffers(len(starts), pa.py_buffer(bounds), pa.py_buffer(data[places]))


def one_string_array(texts: NGramsLike) -> pa.Array | None:
    """Return texts as one Arrow array of strings, or None where they are anything else."""
    array = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else _all_strings(texts)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if array is None or not pa.types.is_string(array.type) or array.null_count or not len(array):
        return None
    return array


def spaced(items: pa.Array) -> pa.Array:
    """Return items with a space behind each, as `split_spaced` cuts them."""
    return pc.binary_join_element_wise(items, "", " ")


def unspaced(items: pa.Array) -> pa.Array:
    """Undo `spaced`."""
    return pc.utf8_slice_codeunits(items, 0, -1)


def split_spaced(texts: NGramsLike, n: int) -> pa.Array | None:
    """Cut N-grams of n words, with single spaces between them, into words that keep the space behind them.

    That needs no copy of every word, so it takes a third of the time of `parse_ngrams`. Returns None where the
    N-grams are anything else; then `parse_ngrams` is to find out what.
    """
    array = one_string_array(texts)
    if array is None:
        return None
    ended = spaced(array)
    data = _bytes_of(ended)
    cuts = np.flatnonzero(data == 0x20)
    if len(cuts) != n * len(array) or (data - np.uint8(0x20)).max() >= 0x60:  # other white space, or not plain ASCII
        return None
    offsets = np.zeros(len(cuts) + 1, dtype=np.int32)
    np.add(cuts, 1, out=offsets[1:], casting="unsafe")
    lengths = offsets[1:] - offsets[:-1]
    if lengths.min() < 2 or (offsets[n::n] != _ends_of(ended)).any():  # two spaces in a row, or one at an end
        return None
    return pa.StringArray.from_buffers(len(cuts), pa.py_buffer(offsets), pa.py_buffer(data))


def _all_strings(texts: NGramsLike) -> pa.Array | None:
    try:
        return pa.array(texts)
    except (pa.ArrowException, TypeError, UnicodeEncodeError):
        return None


def insert_pads(items: pa.Array, lengths: npt.NDArray[np.int64], pads: npt.NDArray[np.int64], side: str) -> pa.Array:
    """Put `pads[i]` pads to the left or right of the i-th of several rows of items, which follow each other."""
    padded = lengths + pads
    row = np.repeat(np.arange(len(padded)), padded)
    place = np.arange(len(row)) - np.repeat(np.cumsum(padded) - padded, padded)
    is_pad = place < pads[row] if side == "left" else place >= lengths[row]
    source = np.cumsum(~is_pad) - 1
    source[is_pad] = len(items)
    return pa.concat_arrays([items, pa.array([PAD], pa.string())]).take(pa.array(source))


def number_items(items: pa.Array, vocabulary: pa.Array) -> Numbers:
    """Return the number of each item in a vocabulary, `ABSENT` where it is not there."""
    found = pc.index_in(items, value_set=vocabulary)
    return np.asarray(found.fill_null(ABSENT), dtype=np.int32)


def build_vocabulary(items: pa.Array) -> tuple[pa.Array, Numbers]:
    """Return the distinct items in byte order, and the number of each item among them."""
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return encoded.dictionary.take(pa.array(order)), rank[np.asarray(encoded.indices)]


def label_matrix(
    labels: Sequence[Any] | npt.NDArray[Any], targets: Sequence[str] | None
) -> tuple[tuple[str, ...], npt.NDArray[np.bool_]]:
    """Return the targets and, for every context, which of them it belongs to: (rows, targets) bool.

    A label is a target's name, a collection of names, or nothing (see `NO_TARGET`). Where `targets` is given,
    other labels count as nothing; else every label is a target.

    >>> label_matrix(["LOC", "O", ("LOC", "PER")], None)[1].astype(int)
    array([[1, 0],
           [0, 0],
           [1, 1]])
    """
    sets, codes = distinct_labels(labels)
    names = target_names(check_labels(set().union(*sets)) if targets is None else targets)
    member = np.array([[name in names_of for name in names] for names_of in sets], dtype=bool)
    return names, member.reshape(len(sets), len(names))[codes]


def target_names(targets: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of targets in order, each once; a string is one name."""
    given = [targets] if isinstance(targets, str) else as_sequence(targets)
    names = given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else list(given)
    for name in names:
        if not isinstance(name, str) or not is_unicode(name):
            raise must_be("targets", "a count", "names, which are strings of valid Unicode", name)
    return tuple(sorted({str(name) for name in names}))


def check_labels(labels: set[str]) -> set[str]:
    """Return labels that are all to be targets, unless they are far too many."""
    if len(labels) > MOST_LABELS:
        some = name_some(sorted(labels)[:3])
        raise InputError(
            f"there are {len(labels):,} labels, such as {some}: more than {MOST_LABELS:,} are counted only if they "
            "are named (--targets)"
        )
    return labels


def distinct_labels(labels: Sequence[Any] | npt.NDArray[Any]) -> tuple[list[set[str]], npt.NDArray[np.intp]]:
    """Return the targets that each distinct label names, and for each label its index among the distinct ones."""
    distinct, codes = _distinct_labels(labels)
    return [_label_set(label) for label in distinct], codes


def _distinct_labels(labels: Sequence[Any] | npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Return the distinct labels, which are few, and for each label its place among them."""
    if isinstance(labels, pa.Array) and pa.types.is_string(labels.type):
        encoded = labels.dictionary_encode(null_encoding="encode")
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    labels = labels.to_pylist() if isinstance(labels, pa.Array | pa.ChunkedArray) else labels
    try:
        encoded = pa.array(labels, pa.string(), from_pandas=True).dictionary_encode(null_encoding="encode")
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    except UnicodeEncodeError:
        raise InputError("a label is not valid Unicode") from None
    except (pa.ArrowException, TypeError):  # some are collections of names
        index: dict[Any, int] = {}
        codes = [index.setdefault(_hashable(label), len(index)) for label in labels]
        return list(index), np.array(codes, dtype=np.intp)


def _hashable(label: Any) -> Any:
    """Return a label that can be a key: collections of names become sets of names."""
    if label is None or isinstance(label, str):
        return label
    if not _is_names(label):
        raise InputError(f"a label must be a string, None or a collection of strings; found {shorten(label)}")
    return frozenset(label)


def _is_names(label: Any) -> bool:
    """Whether a label is a collection of strings."""
    return isinstance(label, Collection) and all(isinstance(name, str) for name in label)


def _label_set(label: Any) -> set[str]:
    """Return the target names in one label."""
    if label in NO_TARGET:
        return set()
    return {label} if isinstance(label, str) else set(label) - NO_TARGET


def _split_any(ngrams: NGramsLike, kind: str, where: Where) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the items of all N-grams, one after the other, and how many each has."""
    if isinstance(ngrams, str):
        raise InputError("N-grams come as a sequence; put the one string into a list")
    if isinstance(ngrams, np.ndarray) and ngrams.ndim == 2:
        lengths = np.full(len(ngrams), ngrams.shape[1])
        return _whole_items(_as_strings(ngrams.ravel(), where), lengths, kind, where), lengths
    array = ngrams if isinstance(ngrams, pa.Array | pa.ChunkedArray) else _as_arrow(ngrams, where)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise InputError(f"{where(row)} is missing", row)
    if is_list(array.type):
        items, lengths = array.flatten(), np.asarray(pc.list_value_length(array), dtype=np.int64)
        if items.null_count:
            row = _row_of(lengths, np.asarray(items.is_null()))
            raise InputError(f"{where(row)}: an item is missing (null) in a list of items", row)
        return _whole_items(_as_strings(items, where), lengths, kind, where), lengths
    return split_texts(_as_strings(array, where), kind)


def _whole_items(items: pa.Array, lengths: npt.NDArray[np.int64], kind: str, where: Where) -> pa.Array:
    """Return items that came in lists, or say which of them is not a letter where items are letters."""
    long = np.asarray(pc.utf8_length(items)) > 1 if kind == "letters" else np.zeros(0, bool)
    if long.any():
        row, item = _row_of(lengths, long), items[int(np.argmax(long))].as_py()
        raise InputError(f"{where(row)}: {shorten(item)} is not a letter; a list has one letter an item", row)
    return items


def _row_of(lengths: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> int:
    """Return the row in which the first of some chosen items stands."""
    return int(np.searchsorted(np.cumsum(lengths), int(np.argmax(chosen)), side="right"))


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's lists, but no view of one: their casts are broken (pyarrow 26)."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def split_texts(texts: pa.Array, kind: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the items of all texts, one after the other, and how many each has."""
    return _split_words(texts) if kind == "words" else _split_letters(texts)


def _as_arrow(values: Sequence[Any], where: Where) -> pa.Array:
    """Convert a Python or NumPy sequence; the error names the first row that is not text."""
    try:
        return pa.array(values)
    except UnicodeEncodeError:
        raise InputError(f"{where(_first_broken(values))} is not valid Unicode") from None
    except (pa.ArrowException, TypeError):
        raise InputError("N-grams must be strings or sequences of strings, all of the same kind") from None


def _first_broken(values: Sequence[Any]) -> int:
    """Return the index of the first string with a lone surrogate."""
    for row, value in enumerate(values):
        try:
            "".join(value).encode()
        except UnicodeEncodeError:
            return row
    return 0


def _as_strings(values: Any, where: Where) -> pa.Array:
    """Return an Arrow string array, or say that these are no strings."""
    array = values if isinstance(values, pa.Array) else _as_arrow(values, where)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type) and not len(array):
        array = array.cast(pa.string())
    if is_text(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_string(array.type):
        raise InputError(f"items must be strings; found {array.type}")
    if array.null_count:
        raise InputError("an item is missing (null)")
    return array


def _split_words(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Split at white space exactly as `str.split` does."""
    if _is_plain_ascii(texts):
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


def _split_letters(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Split at every code point, without copying: a letter begins at each byte that is not 10xxxxxx."""
    data = _bytes_of(texts)
    starts = np.flatnonzero((data & 0xC0) != 0x80)
    offsets = np.append(starts, len(data)).astype(np.int32)
    letters = pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data))
    return letters, np.asarray(pc.utf8_length(texts), dtype=np.int64)


def _is_plain_ascii(texts: pa.Array) -> bool:
    """Whether Arrow's ASCII kernels see the same white space as `str.split`: not so for 0x1c to 0x1f."""
    data = _bytes_of(texts)
    return not len(data) or (data.max() < 0x80 and not ((data >= 0x1C) & (data <= 0x1F)).any())


def _bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all strings of an array, one after the other, as a view."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]


def _ends_of(texts: pa.Array) -> Numbers:
    """Return where each string ends in the bytes of `_bytes_of`."""
    bounds = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.asarray(bounds[1:] - bounds[0])

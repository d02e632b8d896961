"""Concordance lines: where N-grams occur in documents, with the text around them.

One pass finds all occurrences of thousands of N-grams. They make a trie whose steps are looked up for all items of a
batch at once; after one step, few places are left that can go on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import Documents, Options, string_bounds
from raregram.corpus.formats import read_documents
from raregram.errors import must_be
from raregram.options import LINES, WIDTH, LineOrder
from raregram.text.ngrams import split_ngrams
from raregram.text.tokenize import Ints, Tokenizer, expand
from raregram.text.vocabulary import Codes, Encoder, build_vocabulary, encode_items
from raregram.text.words import words_in

PLAIN = Tokenizer()
SPACE, WORD = re.compile(r"\s"), re.compile(r"\w+")


@dataclass(frozen=True)
class Line:
    """An occurrence of an N-gram. The text is as in the document, but with single spaces between words."""

    document: str
    position: int  # how many items of the document stand before it
    left: str
    match: str
    right: str


@dataclass(frozen=True)
class Concordance:
    """Some occurrences of an N-gram, in order of documents and positions, and how many each document has."""

    lines: tuple[Line, ...] = ()
    documents: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Concordance) -> Concordance:
        """Return the concordance of two parts of a corpus, with lines from both in turn."""
        pairs = zip_longest(self.lines, other.lines)
        lines = tuple(line for pair in pairs for line in pair if line is not None)
        return Concordance(lines, dict(Counter(self.documents) + Counter(other.documents)))

    @property
    def occurrences(self) -> int:
        """How many there are in all, also those without a line."""
        return sum(self.documents.values())


def concordance(
    source: Any,
    ngrams: Sequence[str],
    *,
    tokenizer: Tokenizer = PLAIN,
    lines: int = LINES.default,
    width: int = WIDTH.default,
    options: Options | None = None,
    progress: Callable[[int], None] = lambda documents: None,
) -> dict[str, Concordance]:
    r"""Return the concordance of each N-gram in documents.

    Args:
        source: whatever `raregram.count` reads as documents.
        ngrams: strings, which are split as texts are; of any lengths.
        tokenizer: how texts are split into items.
        lines: how many to keep of each N-gram: the first occurrence in each of the first documents, then the second
            ones if there is room, and so on.
        width: characters of text to the left and to the right of an occurrence; words are not cut.
        options: how to read documents.
        progress: called with the number of documents of each batch.

    >>> found = concordance([{"text": "To be,\nor not to be."}], ["to be."], width=8)
    >>> found["to be."].lines
    (Line(document='document 1', position=4, left='or not ', match='to be.', right=''),)
    """
    settings: dict[str, Any] = {"tokenizer": tokenizer, "lines": lines, "width": width, "progress": progress}
    found = sample_concordances(source, ngrams, options=replace(options or Options(), by=None), **settings)
    return found.get("") or dict.fromkeys(ngrams, Concordance())


def sample_concordances(  # noqa: PLR0913 - every option has its name
    source: Any,
    ngrams: Sequence[str],
    *,
    options: Options,
    tokenizer: Tokenizer = PLAIN,
    lines: int = LINES.default,
    width: int = WIDTH.default,
    samples: Collection[str] | None = None,
    progress: Callable[[int], None] = lambda documents: None,
) -> dict[str, dict[str, Concordance]]:
    """Return the concordance of each N-gram in each sample, into which `options.by` cuts the corpus, in one pass.

    `samples` names some of them, if not all are wanted.
    """
    LINES.check(lines, "concordance")
    WIDTH.check(width, "concordance")
    tokenizer.check("concordance")
    trie = Trie(ngrams, tokenizer)
    encoder, overlap = Encoder(trie.vocabulary, tokenizer), trie.longest - 1
    options = replace(options, cut=(trie.longest, tokenizer))
    kept: dict[str, Kept] = {}
    before = 0
    for documents in read_documents(source, options):
        codes, lengths = _encode(documents, encoder)
        offsets, before = _offsets(documents, lengths, overlap, before)
        found = trie.find(codes, lengths).without(offsets > 0, overlap)
        of_row = np.array([""] * len(documents) if documents.sample is None else documents.sample.to_pylist())
        here = set(of_row.tolist())
        for sample in sorted(here if samples is None else here.intersection(samples)):
            inside = found.take(of_row[found.row] == sample)
            of_sample = kept.setdefault(sample, Kept(trie.size, lines))
            of_sample.add(inside, documents.names(), partial(_lines, documents, offsets, tokenizer, width))
        ended = len(documents) if documents.ends is None else int(documents.ends.sum())
        options.log.see(ended)
        progress(ended)
    options.log.check_read()
    concordances = {sample: of_sample.concordances() for sample, of_sample in kept.items()}
    return {
        sample: {text: some[which] for text, which in zip(ngrams, trie.which, strict=True)}
        for sample, some in concordances.items()
    }


def sort_lines(lines: Iterable[Line], order: LineOrder) -> list[Line]:
    """Return lines by the words on the left of the match, the nearest first, on its right, or as they come.

    Neither capitals nor punctuation count.
    """
    if order == "document":
        return list(lines)
    if order == "left":
        return sorted(lines, key=lambda line: WORD.findall(line.left.casefold())[::-1])
    return sorted(lines, key=lambda line: WORD.findall(line.right.casefold()))


@dataclass(frozen=True)
class Occurrences:
    """Where N-grams occur in a batch, in order of N-gram and place."""

    ngram: Ints  # as they are numbered
    row: Ints  # the document in its batch
    position: Ints  # of the first item in this row
    length: Ints

    def take(self, rows: npt.NDArray[Any]) -> Occurrences:
        """Return some of them."""
        return Occurrences(self.ngram[rows], self.row[rows], self.position[rows], self.length[rows])

    def without(self, continued: npt.NDArray[np.bool_], overlap: int) -> Occurrences:
        """Leave out what was in the piece of a long text before, whose last items some rows begin with."""
        return self.take(~continued[self.row] | (self.position + self.length > overlap))


class Trie:
    """N-grams by their first item, second item and so on; each distinct one has a number."""

    def __init__(self, ngrams: Sequence[str], tokenizer: Tokenizer) -> None:
        split = split_ngrams(ngrams, tokenizer)
        if not len(split) or not split.lengths.all():
            raise must_be("ngrams", "concordance", "N-grams of one item or more", list(ngrams))
        self.vocabulary, codes = build_vocabulary(split.items)
        self.longest = int(split.lengths.max())
        steps: list[dict[int, int]] = [{} for _ in range(self.longest)]  # (node, code) -> next node
        numbers: dict[tuple[int, int], int] = {}  # (length, node) -> N-gram
        self.which = []  # the number of each N-gram
        for items in np.split(codes, np.cumsum(split.lengths)[:-1]):
            node = 0
            for step, code in zip(steps, items.tolist(), strict=False):
                node = step.setdefault(node * len(self.vocabulary) + code, len(step))
            self.which.append(numbers.setdefault((len(items), node), len(numbers)))
        self.size = len(numbers)
        self.steps = [np.array(list(step), dtype=np.int64) for step in steps]  # the keys of nodes
        self.orders = [np.argsort(keys) for keys in self.steps]
        self.ends = [np.full(len(keys), -1) for keys in self.steps]  # the number of the N-gram that ends at a node
        for (length, node), number in numbers.items():
            self.ends[length - 1][node] = number

    def find(self, codes: Codes, lengths: Ints) -> Occurrences:
        """Return all occurrences in documents that follow each other, each of so many items."""
        ends, size = np.cumsum(lengths), len(self.vocabulary)
        start = np.flatnonzero((codes >= 0) & (codes < size))
        row = np.searchsorted(ends, start, side="right")
        node, found = np.zeros(len(start), dtype=np.int64), []
        for depth, (keys, order) in enumerate(zip(self.steps, self.orders, strict=True)):
            inside = start + depth < ends[row]
            start, row, node = start[inside], row[inside], node[inside]
            code = codes[start + depth].astype(np.int64)
            place = np.searchsorted(keys, node * size + code, sorter=order)
            next_node = order[np.minimum(place, len(keys) - 1)]
            goes_on = (keys[next_node] == node * size + code) & (code >= 0) & (code < size)
            start, row, node = start[goes_on], row[goes_on], next_node[goes_on]
            ended = self.ends[depth][node] >= 0
            position = start - (ends - lengths)[row]
            length = np.full(int(ended.sum()), depth + 1)
            found.append((self.ends[depth][node][ended], row[ended], position[ended], length))
        ngram, row, position, length = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Occurrences(ngram, row, position, length).take(np.lexsort([position, row, ngram]))


class Kept:
    """The lines that are kept of each N-gram, `most` at most, and how often it occurs in each document.

    The first occurrence in a document comes before the second ones of all documents, and so on.
    """

    def __init__(self, size: int, most: int) -> None:
        self.most = most
        self.documents: list[Counter[str]] = [Counter() for _ in range(size)]
        self.lines: list[Line] = []
        self.keys = np.empty((4, 0), dtype=np.int64)  # of each line: position, document, rank in it, N-gram
        self.limit = np.full(size, most)  # the rank from which on an N-gram needs no more lines
        self.rows = 0

    def add(self, found: Occurrences, names: Sequence[str], lines_of: Callable[[Occurrences], list[Line]]) -> None:
        """Count the occurrences in a batch, and keep the lines of the best."""
        pairs = found.ngram * len(names) + found.row
        _, heads, sizes = np.unique(pairs, return_index=True, return_counts=True)
        ngrams, rows = found.ngram[heads].tolist(), found.row[heads].tolist()
        for ngram, row, times in zip(ngrams, rows, sizes.tolist(), strict=True):
            self.documents[ngram][names[row]] += times
        rank = np.arange(len(found.row)) - np.repeat(heads, sizes)
        keys = np.stack([found.position, self.rows + found.row, rank, found.ngram])
        hopeful = np.flatnonzero(rank < self.limit[found.ngram])
        best = hopeful[self._best(keys[:, hopeful])]
        self.rows += len(names)
        lines, keys = [*self.lines, *lines_of(found.take(best))], np.concatenate([self.keys, keys[:, best]], axis=1)
        order = self._best(keys)
        self.keys, self.lines = keys[:, order], [lines[index] for index in order.tolist()]
        last = np.flatnonzero(_index_in_group(self.keys[-1]) == self.most - 1)
        self.limit[self.keys[-1, last]] = self.keys[-2, last]

    def _best(self, keys: Ints) -> Ints:
        """Return the indices of the best of each N-gram."""
        order = np.lexsort(keys)
        return order[_index_in_group(keys[-1, order]) < self.most]

    def concordances(self) -> list[Concordance]:
        """Return the concordance of each N-gram."""
        order = np.lexsort(self.keys[[0, 1, 3]])
        bounds = np.searchsorted(self.keys[3, order], np.arange(len(self.documents) + 1))
        lines = [self.lines[index] for index in order.tolist()]
        return [
            Concordance(tuple(lines[first:last]), dict(documents))
            for first, last, documents in zip(bounds[:-1], bounds[1:], self.documents, strict=True)
        ]


def _index_in_group(values: Ints) -> Ints:
    """Return for each of sorted values how many equal ones stand before it."""
    return np.arange(len(values)) - np.searchsorted(values, values, side="left")


def _encode(documents: Documents, encoder: Encoder) -> tuple[Codes, Ints]:
    """Return the codes of all items, one document after the other, and how many each has; others have no code."""
    texts = documents.texts
    if documents.items is not None and encoder.tokenizer.kind == "letters":
        texts = pc.binary_join(documents.items, " ")
    if texts is not None:
        return encoder.encode(texts)[:2]
    assert documents.items is not None
    strings = documents.items.flatten().dictionary_encode()
    items, sizes = encoder.tokenizer.refine(strings.dictionary)
    lengths = np.asarray(pc.list_value_length(documents.items), dtype=np.int64)
    index, lengths = expand(np.asarray(strings.indices), lengths, sizes)
    return encode_items(items, encoder.vocabulary)[index], lengths


def _offsets(documents: Documents, lengths: Ints, overlap: int, before: int) -> tuple[Ints, int]:
    """Return how many items of its document stand before each row, which may be a piece, and before the next one.

    `before` is the latter of the batch before.
    """
    offsets = np.zeros(len(documents), dtype=np.int64)
    for row in [] if documents.begins is None else np.flatnonzero(~documents.begins).tolist():
        offsets[row] = (offsets[row - 1] + lengths[row - 1] if row else before) - overlap
    return offsets, int(offsets[-1] + lengths[-1])


def _lines(documents: Documents, offsets: Ints, tokenizer: Tokenizer, width: int, found: Occurrences) -> list[Line]:
    """Return occurrences with the text around them."""
    names, lines = documents.names(), [Line("", 0, "", "", "")] * len(found.row)
    order = np.argsort(found.row, kind="stable")
    rows, heads = np.unique(found.row[order], return_index=True)
    for row, which in zip(rows.tolist(), np.split(order, heads)[1:], strict=True):
        text, bounds = text_and_bounds(documents.content[row].as_py(), tokenizer)
        first = bounds[found.position[which], 0].tolist()
        last = bounds[found.position[which] + found.length[which] - 1, 1].tolist()
        position = (found.position[which] + offsets[row]).tolist()
        for index, at, begin, end in zip(which.tolist(), position, first, last, strict=True):
            left, right = text_before(text, begin, width), text_behind(text, end, width)
            lines[index] = Line(names[row], at, left, text[begin:end], right)
    return lines


def text_and_bounds(content: str | list[str], tokenizer: Tokenizer) -> tuple[str, Ints]:
    r"""Return a text with single spaces, and where its items begin and end in it: (items, 2).

    Among letters, all white space becomes spaces, but none is left out.

    >>> text, bounds = text_and_bounds("He said:\n no.", Tokenizer(tokenize="words"))
    >>> text, bounds.tolist()
    ('He said: no.', [[0, 2], [3, 7], [7, 8], [9, 11], [11, 12]])
    """
    if tokenizer.kind == "letters":
        letters = SPACE.sub(" ", content if isinstance(content, str) else " ".join(content))
        starts = np.arange(len(letters))
        return letters, np.column_stack([starts, starts + 1])
    strings = content.split() if isinstance(content, str) else content
    text, bounds = " ".join(strings), string_bounds(strings)
    if tokenizer.tokenize == "whitespace" or not strings:
        return text, bounds
    encoded = pa.array(strings, pa.string()).dictionary_encode()
    inside = [_word_bounds(string) for string in encoded.dictionary.to_pylist()]
    codes, sizes = np.asarray(encoded.indices), np.array([len(words) for words in inside])
    index, _ = expand(codes, np.array([len(codes)]), sizes)
    return text, np.concatenate(inside)[index] + np.repeat(bounds[:, :1], sizes[codes], axis=0)


@lru_cache(1 << 16)
def _word_bounds(string: str) -> Ints:
    """Return the bounds of the words of a string; an empty one, a pad, is a word."""
    bounds, end = [], 0
    for word in words_in(string) or [""]:
        start = string.index(word, end)
        end = start + len(word)
        bounds.append((start, end))
    return np.array(bounds, dtype=np.int64)


def text_before(text: str, end: int, width: int) -> str:
    """Return the text before a place, without a word that would be cut."""
    start = max(end - width, 0)
    shown = text[start:end]
    if start and text[start - 1] != " ":
        shown = shown.partition(" ")[2] or shown
    return shown.lstrip()


def text_behind(text: str, start: int, width: int) -> str:
    """Return the text behind a place, without a word that would be cut."""
    shown = text[start : start + width]
    if text[start + width : start + width + 1] not in ("", " "):
        shown = shown.rpartition(" ")[0] or shown
    return shown.rstrip()

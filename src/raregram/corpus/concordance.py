"""Concordance lines: where N-grams occur in documents, with the text around them; thousands of them in one pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from heapq import heappush, heapreplace
from itertools import count, zip_longest
from typing import Any

import numpy as np
import pyarrow.compute as pc

from raregram.corpus.documents import Documents, Options, string_bounds
from raregram.corpus.formats import read_documents
from raregram.errors import must_be
from raregram.options import LINES, WIDTH, LineOrder
from raregram.text.ngrams import split_ngrams
from raregram.text.tokenize import Ints, Tokenizer, expand
from raregram.text.vocabulary import ABSENT, Codes, Encoder, build_vocabulary, encode_items
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
    matcher = PhraseMatcher(ngrams, tokenizer)
    encoder, overlap = Encoder(matcher.vocabulary, tokenizer), matcher.longest - 1
    samplers: dict[str, list[LineSampler]] = {}
    order, before = count(), 0
    for documents in read_documents(source, replace(options, cut=(matcher.longest, tokenizer))):
        codes, lengths = _encode(documents, encoder)
        offsets, before = _offsets(documents, lengths, overlap, before)
        sample_of = [""] * len(documents) if documents.sample is None else documents.sample.to_pylist()
        for sample in sorted(set(sample_of) if samples is None else set(sample_of).intersection(samples)):
            samplers.setdefault(sample, [LineSampler(lines) for _ in matcher.phrases])
        wanted = np.array([sample in samplers for sample in sample_of])
        codes = np.where(np.repeat(wanted, lengths), codes, ABSENT)
        names, line_at = documents.names(), _line_maker(documents, offsets, tokenizer, width)
        for row, position, length, phrase in matcher.find(codes, lengths):
            # A piece of a long text begins with the last items of the piece before, in which they were found.
            if not offsets[row] or position + length > overlap:
                make_line = partial(line_at, names[row], row, position, length)
                samplers[sample_of[row]][phrase].add(names[row], next(order), make_line)
        ended = len(documents) if documents.ends is None else int(documents.ends.sum())
        options.log.see(ended)
        progress(ended)
    options.log.check_read()
    return {
        sample: {text: of_sample[phrase].concordance() for text, phrase in zip(ngrams, matcher.which, strict=True)}
        for sample, of_sample in samplers.items()
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


class PhraseMatcher:
    """Finds N-grams in encoded documents by a dictionary of their codes; each distinct one has a number."""

    def __init__(self, ngrams: Sequence[str], tokenizer: Tokenizer) -> None:
        split = split_ngrams(ngrams, tokenizer)
        if not len(split) or not split.lengths.all():
            raise must_be("ngrams", "concordance", "N-grams of one item or more", list(ngrams))
        self.vocabulary, codes = build_vocabulary(split.items)
        keys = [tuple(key.tolist()) for key in np.split(codes, np.cumsum(split.lengths)[:-1])]
        self.phrases = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.which = [self.phrases[key] for key in keys]  # the number of each N-gram
        self.longest = max(map(len, keys))
        self.lengths: dict[int, list[int]] = {}  # of the N-grams that begin with an item
        for first, length in sorted({(key[0], len(key)) for key in keys}):
            self.lengths.setdefault(first, []).append(length)

    def find(self, codes: Codes, lengths: Ints) -> Iterator[tuple[int, int, int, int]]:
        """Yield row, position, length and number of each occurrence in documents that follow each other."""
        ends = np.cumsum(lengths)
        starts = np.flatnonzero(np.isin(codes, list(self.lengths)))
        rows, heads = np.unique(np.searchsorted(ends, starts, side="right"), return_index=True)
        for row, some in zip(rows.tolist(), np.split(starts, heads)[1:], strict=True):
            begin, end = ends[row] - lengths[row], ends[row]
            items = codes[begin:end].tolist()
            for position in (some - begin).tolist():
                for length in self.lengths[items[position]]:
                    phrase = self.phrases.get(tuple(items[position : position + length]))
                    if phrase is not None and position + length <= len(items):
                        yield row, position, length, phrase


class LineSampler:
    """The lines of an N-gram, `most` at most, and how often it occurs in each document.

    The first occurrence in a document comes before the second ones of all documents, and so on.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.documents: Counter[str] = Counter()
        self.kept: list[tuple[int, int, Line]] = []  # heap of (-rank in the document, -order, line): the worst first

    def add(self, document: str, order: int, make_line: Callable[[], Line]) -> None:
        """Count an occurrence, which comes after all others, and keep its line if it is among the best."""
        rank = self.documents[document]
        self.documents[document] += 1
        if len(self.kept) < self.most:
            heappush(self.kept, (-rank, -order, make_line()))
        elif rank < -self.kept[0][0]:
            heapreplace(self.kept, (-rank, -order, make_line()))

    def concordance(self) -> Concordance:
        """Return the lines in the order of the text."""
        in_order = sorted(self.kept, key=lambda kept: -kept[1])
        return Concordance(tuple(line for *_, line in in_order), dict(self.documents))


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


def _line_maker(
    documents: Documents, offsets: Ints, tokenizer: Tokenizer, width: int
) -> Callable[[str, int, int, int], Line]:
    """Return a function that makes the line of an occurrence; rows come in order, so one text is kept at a time."""

    @lru_cache(1)
    def layout(row: int) -> tuple[str, Ints]:
        return text_and_bounds(documents.content[row].as_py(), tokenizer)

    def line_at(name: str, row: int, position: int, length: int) -> Line:
        text, bounds = layout(row)
        begin, end = int(bounds[position, 0]), int(bounds[position + length - 1, 1])
        left, right = text_before(text, begin, width), text_behind(text, end, width)
        return Line(name, int(offsets[row]) + position, left, text[begin:end], right)

    return line_at


def text_and_bounds(content: str | list[str], tokenizer: Tokenizer) -> tuple[str, Ints]:
    r"""Return a text with single spaces, and where its items begin and end in it: (items, 2).

    Among letters, all white space becomes spaces, but none is left out.

    >>> text, bounds = text_and_bounds("He said:\n no.", Tokenizer(tokenize="words"))
    >>> text, bounds.tolist()
    ('He said: no.', [[0, 2], [3, 7], [7, 8], [9, 11], [11, 12]])
    """
    if tokenizer.kind == "letters":
        letters = SPACE.sub(" ", content if isinstance(content, str) else " ".join(content))
        return letters, np.arange(len(letters))[:, None] + np.arange(2)
    strings = content.split() if isinstance(content, str) else content
    starts = string_bounds(strings)[:, 0].tolist()
    inside = _words_inside if tokenizer.tokenize == "words" else lambda string: [(0, len(string))]
    bounds = [(s + a, s + b) for s, string in zip(starts, strings, strict=True) for a, b in inside(string)]
    return " ".join(strings), np.array(bounds, dtype=np.int64).reshape(-1, 2)


@lru_cache(1 << 16)
def _words_inside(string: str) -> list[tuple[int, int]]:
    """Return the bounds of the words of a string; an empty one, a pad, is a word."""
    bounds, end = [], 0
    for word in words_in(string) or [""]:
        start = string.index(word, end)
        end = start + len(word)
        bounds.append((start, end))
    return bounds


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

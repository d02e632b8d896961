"""One item a line: CoNLL columns (BIO, IOB1, BIOES) and Stanford NER's tab-separated output."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from raregram.corpus.documents import (
    LARGEST_DOCUMENT,
    Documents,
    Options,
    Row,
    batches,
    byte_lines,
    decode_line,
    hold,
    open_bytes,
    too_large,
)
from raregram.errors import InputError, shorten

DOCUMENT_MARK = "-DOCSTART-"
NEW_DOCUMENT = "# newdoc"  # the mark of CoNLL-U
SAMPLE = 1 << 20  # bytes looked at at a time for marks
COMMENT = re.compile(r"# ?(?:newpar\b|[\w.:-]+ ?= ?)")  # of CoNLL-U: "# text = ..."; a lone "#" may be an item


def read_conll(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a file of columns: up to a mark, or to a blank line if the file has no marks."""
    path = path if options.sentences else hold(path)
    sentences = options.sentences or not _has_marks(path)
    with open_bytes(path) as stream:
        rows = _rows(byte_lines(stream, path), path, options, sentences, None)
        yield from batches(rows, options.batch_bytes)


def read_stanford_tsv(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of Stanford NER's output with one item and its tag a line."""
    with open_bytes(path) as stream:
        rows = _rows(byte_lines(stream, path), path, options, True, "\t")
        yield from batches(rows, options.batch_bytes)


def decode_tags(tags: Iterable[str]) -> list[tuple[int, int, str]]:
    """Return the spans that a document's tags stand for.

    B-, S- and U- begin a span; I-, E- and L- go on with one of the same label, or begin one (as in IOB1). Equal tags
    without a prefix (Stanford's) that follow each other are one span.

    >>> decode_tags(["I-LOC", "I-LOC", "B-LOC", "O", "LOCATION", "LOCATION"])
    [(0, 2, 'LOC'), (2, 3, 'LOC'), (4, 6, 'LOCATION')]
    """
    spans: list[tuple[int, int, str]] = []
    start, open_label = 0, ""
    place = 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, label = tag.split("-", 1) if tag[1:2] == "-" and tag[:1] in "BIESLU" else ("I", tag)
        label = "" if tag == "O" else label
        if open_label and (label != open_label or prefix in "BSU"):
            spans.append((start, place, open_label))
            open_label = ""
        if label and not open_label:
            start, open_label = place, label
        if label and prefix in "ESLU":
            spans.append((start, place + 1, label))
            open_label = ""
    return spans


def _has_marks(path: str) -> bool:
    """Whether a file has document marks."""
    marks = tuple(f"\n{mark}".encode() for mark in (DOCUMENT_MARK, NEW_DOCUMENT))
    with open_bytes(path) as stream:
        end = b"\n" + stream.read(SAMPLE).removeprefix(b"\xef\xbb\xbf")
        while not any(mark in end for mark in marks):
            data = stream.read(SAMPLE)
            if not data:
                return False
            end = end[-max(map(len, marks)) :] + data
    return True


def _rows(
    lines: Iterable[tuple[int, bytes]], path: str, options: Options, sentences: bool, separator: str | None
) -> Iterator[Row]:
    """Gather items and tags up to the end of each document."""
    document = _Document(path)
    for number, data in lines:
        line = data.decode(errors="replace")
        blank = not line.strip()
        if blank or line.startswith((DOCUMENT_MARK, NEW_DOCUMENT)):
            document.end_sentence()
            if (sentences or not blank) and document.items:
                yield from document.row()
                document = _Document(path)
            continue
        if "\t" not in line and COMMENT.match(line):
            continue
        place = f"{path}, line {number}"
        document.grow(len(data), number)
        try:
            line = decode_line(data, place) if "\ufffd" in line else line
            document.add(*_columns(line, options, place, separator))
        except InputError as error:
            if not document.broken:  # a document counts as skipped once, however many of its lines are broken
                options.policy.bad(error)
            document.add("?", "O")
            document.broken = True
    document.end_sentence()
    yield from document.row()


class _Document:
    """A document as its lines come."""

    def __init__(self, path: str) -> None:
        self.path, self.first, self.broken, self.size = path, 1, False, 0
        self.items: list[str] = []
        self.tags: list[str] = []  # of the sentence that is being read
        self.spans: list[tuple[int, int, str]] = []

    def grow(self, size: int, number: int) -> None:
        """Refuse to take in more lines than a document may have."""
        self.first = self.first if self.items else number
        self.size += size
        if self.size > LARGEST_DOCUMENT:
            advice = f"A blank line (--sentences) or {DOCUMENT_MARK} ends a document"
            raise too_large(f"{self.path}, line {self.first}", advice)

    def add(self, item: str, tag: str) -> None:
        """Take in a line."""
        self.items.append(item)
        self.tags.append(sys.intern(tag))  # there are few, each very often

    def end_sentence(self) -> None:
        """Decode the tags of a sentence: no span goes beyond it."""
        before = len(self.items) - len(self.tags)
        self.spans += [(before + start, before + end, label) for start, end, label in decode_tags(self.tags)]
        self.tags = []

    def row(self) -> Iterator[Row]:
        """Yield the document, if it has any items and all its lines could be read."""
        if self.items and not self.broken:
            yield None, self.items, self.spans, f"{self.path}, line {self.first}"


def _columns(line: str, options: Options, place: str, separator: str | None) -> tuple[str, str]:
    """Return the item and the tag of a line."""
    columns = line.split("\t") if separator or "\t" in line else re.split(" +", line.strip(" "))
    try:
        item, tag = columns[options.item_column], columns[options.tag_column].strip()
    except IndexError:
        wanted = max(options.item_column, options.tag_column)
        raise InputError(f"{place} has {len(columns)} columns, but column {wanted + 1} was asked for") from None
    if len(columns) < 2:
        raise InputError(f"{place} has only one column: {shorten(line)}")
    if not item or not tag:
        raise InputError(f"{place} has an empty item or tag: {shorten(line)}")
    return item, tag

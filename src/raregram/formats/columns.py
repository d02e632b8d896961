"""One item a line: CoNLL columns (BIO, IOB1, BIOES) and Stanford NER's tab-separated output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from raregram.corpus import STANDARD_INPUT, Documents, Options, Row, batches, open_bytes, text_lines
from raregram.errors import InputError

DOCUMENT_MARK = "-DOCSTART-"
NEW_DOCUMENT = "# newdoc"  # the mark of CoNLL-U
COMMENT = re.compile(r"# ?(?:newpar\b|[\w.:-]+ ?= ?)")  # of CoNLL-U: "# text = ..."; a lone "#" may be an item


def read_conll(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a file of columns: up to a mark, or to a blank line if the file has no marks."""
    sentences = options.sentences or not _has_marks(path)
    with open_bytes(path) as stream:
        yield from batches(
            _rows(text_lines(stream, path, options.policy), path, options, sentences, None), options.batch_bytes
        )


def read_stanford_tsv(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of Stanford NER's output with one item and its tag a line."""
    with open_bytes(path) as stream:
        yield from batches(
            _rows(text_lines(stream, path, options.policy), path, options, True, "\t"), options.batch_bytes
        )


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
    """Whether a file has document marks; standard input is taken to have them."""
    if path == STANDARD_INPUT:
        return True
    with open_bytes(path) as stream:
        return any(line.startswith((DOCUMENT_MARK.encode(), NEW_DOCUMENT.encode())) for line in stream)


def _rows(
    lines: Iterable[tuple[int, str]], path: str, options: Options, sentences: bool, separator: str | None
) -> Iterator[Row]:
    """Gather items and tags up to the end of each document."""
    document = _Document(path)
    for number, line in lines:
        blank = not line.strip()
        if blank or line.startswith((DOCUMENT_MARK, NEW_DOCUMENT)):
            document.end_sentence()
            if (sentences or not blank) and document.items:
                yield from document.row()
                document = _Document(path)
            continue
        if COMMENT.match(line):
            continue
        try:
            document.add(number, *_columns(line, options, f"{path}, line {number}", separator))
        except InputError as error:
            if not document.broken:  # a document counts as skipped once, however many of its lines are broken
                options.policy.bad(error)
            document.add(number, "?", "O")
            document.broken = True
    document.end_sentence()
    yield from document.row()


class _Document:
    """A document as its lines come."""

    def __init__(self, path: str) -> None:
        self.path, self.first, self.broken = path, 1, False
        self.items: list[str] = []
        self.tags: list[str] = []  # of the sentence that is being read
        self.spans: list[tuple[int, int, str]] = []

    def add(self, number: int, item: str, tag: str) -> None:
        """Take in a line."""
        self.first = self.first if self.items else number
        self.items.append(item)
        self.tags.append(tag)

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
    columns = line.split(separator)
    try:
        item, tag = columns[options.item_column], columns[options.tag_column].strip()
    except IndexError:
        wanted = max(options.item_column, options.tag_column)
        raise InputError(f"{place} has {len(columns)} columns, but column {wanted + 1} was asked for") from None
    if len(columns) < 2:
        raise InputError(f"{place} has only one column: {line!r}")
    if not item or not tag:
        raise InputError(f"{place} has an empty item or tag: {line!r}")
    return item, tag

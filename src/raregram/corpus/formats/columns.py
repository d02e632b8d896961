"""One item a line: CoNLL columns (BIO, IOB1, BIOES) and Stanford NER's tab-separated output."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator

from raregram.corpus.documents import (
    LARGEST_DOCUMENT,
    Location,
    Options,
    Row,
    Spans,
    buffered,
    byte_lines,
    open_bytes,
    too_large,
)
from raregram.corpus.encoding import not_utf8
from raregram.errors import InputError, shorten

DOCUMENT_MARK = "-DOCSTART-"
NEW_DOCUMENT = "# newdoc"  # the mark of CoNLL-U
SAMPLE = 1 << 20  # bytes looked at at a time for marks
COMMENT = re.compile(r"# ?(?:newpar\b|[\w.:-]+ ?= ?)")  # of CoNLL-U: "# text = ..."; a lone "#" may be an item


def read_conll(path: str, options: Options) -> Iterator[Row]:
    """Yield the documents of a file of columns: up to a mark, or to a blank line if the file has no marks."""
    path = path if options.sentences else buffered(path)
    return _read_columns(path, options, options.sentences or not _has_marks(path), None)


def read_stanford_tsv(path: str, options: Options) -> Iterator[Row]:
    """Yield the documents of Stanford NER's output with one item and its tag a line."""
    return _read_columns(path, options, True, "\t")


def decode_tags(tags: Iterable[str]) -> list[tuple[int, int, str]]:
    """Return the spans that a document's tags stand for.

    B-, S- and U- begin a span; I-, E- and L- go on with one of the same label, or begin one (as in IOB1). Equal tags
    without a prefix (Stanford's) that follow each other are one span.

    >>> decode_tags(["I-LOC", "I-LOC", "B-LOC", "O", "LOCATION", "LOCATION"])
    [(0, 2, 'LOC'), (2, 3, 'LOC'), (4, 6, 'LOCATION')]
    """
    spans: list[tuple[int, int, str]] = []
    start, open_label = 0, ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, label = tag.split("-", 1) if tag[1:2] == "-" and tag[:1] in "BIESLU" else ("I", tag)
        label = "" if tag == "O" else label
        if open_label and (label != open_label or prefix in "BSU"):
            spans.append((start, index, open_label))
            open_label = ""
        if label and not open_label:
            start, open_label = index, label
        if label and prefix in "ESLU":
            spans.append((start, index + 1, label))
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


def _read_columns(path: str, options: Options, sentences: bool, separator: str | None) -> Iterator[Row]:
    """Gather items and tags up to the end of each document; no span goes beyond a sentence."""
    items: list[str] = []
    spans: Spans = []
    tags: list[str] = []  # of the sentence that is being read
    first, size, broken = 1, 0, False
    with open_bytes(path) as stream:
        for number, data in itertools.chain(byte_lines(stream, path), [(0, DOCUMENT_MARK.encode())]):
            line = data.decode(errors="replace")
            blank = not line.strip()
            if blank or line.startswith((DOCUMENT_MARK, NEW_DOCUMENT)):
                before = len(items) - len(tags)
                spans += [(before + start, before + end, label) for start, end, label in decode_tags(tags)]
                tags = []
                if (sentences or not blank) and items:
                    if not broken:
                        yield Row(None, items, spans, Location(path, "line", first))
                    items, spans, size, broken = [], [], 0, False
                continue
            if "\t" not in line and COMMENT.match(line):
                continue
            first = first if items else number
            size += len(data)
            if size > LARGEST_DOCUMENT:
                advice = f"A blank line (--sentences) or {DOCUMENT_MARK} ends a document"
                raise too_large(Location(path, "line", first), advice)
            try:
                if "\ufffd" in line:
                    data.decode()
                item, tag = _columns(line, options, separator)
            except (InputError, UnicodeDecodeError) as error:
                where = Location(path, "line", number)
                if not broken:  # a document counts as skipped once, however many of its lines are broken
                    of_columns = isinstance(error, InputError)
                    options.log.skip_or_raise(
                        InputError(f"{where} {error}") if of_columns else not_utf8(where, data, path)
                    )
                item, tag, broken = "?", "O", True
            items.append(item)
            tags.append(sys.intern(tag))  # there are few, each very often


def _columns(line: str, options: Options, separator: str | None) -> tuple[str, str]:
    """Return the item and the tag of a line."""
    columns = line.split("\t") if separator or "\t" in line else re.split(" +", line.strip(" "))
    wanted = max(options.item_column, options.tag_column)
    if not -len(columns) <= min(options.item_column, options.tag_column) <= wanted < len(columns):
        raise InputError(f"has {len(columns)} columns, but column {wanted + 1} was asked for")
    item, tag = columns[options.item_column], columns[options.tag_column].strip()
    if len(columns) < 2:
        raise InputError(f"has only one column: {shorten(line)}")
    if not item or not tag:
        raise InputError(f"has an empty item or tag: {shorten(line)}")
    return item, tag

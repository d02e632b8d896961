"""What can be combined: the readers of contexts and of documents, the writers of scores, and how each looks on disk.

The tests of `test_combinations.py` draw from these lists, so a new reader or writer is covered by being listed here.
Files are written and read by other means than the library's own wherever there are any.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from raregram import cli


def run(*arguments: object, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run `raregram ...` in this process; return the exit code, standard output and standard error."""
    given, out, error = (io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (stdin, b"", b""))
    called = patch.multiple(sys, argv=["raregram", *map(str, arguments)], stdin=given)
    with called, redirect_stdout(out), redirect_stderr(error):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    out.flush()
    error.flush()
    return int(code or 0), out.buffer.getvalue(), error.buffer.getvalue().decode()


# --- contexts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A context with its label and other columns of its table."""

    items: tuple[str, ...]
    label: str | None = None
    more: dict[str, Any] = field(default_factory=dict)


def text_of(items: Sequence[str], kind: str) -> str:
    return (" " if kind == "words" else "").join(items)


def line_of(items: Sequence[str], kind: str) -> str:
    """The N-gram on one line: what would break it, or make two N-grams look the same, is escaped."""
    return (
        text_of([_escaped(item, kind) for item in items], kind) if kind == "words" else _escaped("".join(items), kind)
    )


def _escaped(text: str, kind: str) -> str:
    shown = ""
    for place, letter in enumerate(text):
        breaks = ord(letter) < 32 or 127 <= ord(letter) < 160 or letter in "\u2028\u2029"
        blank = kind == "words" and letter.isspace()
        like_escape = letter == "\\" and text[place + 1 : place + 2] in ("x", "u")
        code = f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"
        shown += code if breaks or blank or like_escape else letter
    return shown


@dataclass(frozen=True)
class Reader:
    """A kind of file."""

    name: str
    write: Callable[..., Any]
    lists: bool = False  # holds lists of items, in which an item may be anything
    columns: bool = True  # holds columns with names
    any_text: bool = True  # holds line breaks and tabs


def _columns(rows: Sequence[Row], kind: str, order: Sequence[str], lists: bool) -> dict[str, list[Any]]:
    known = {
        "ngram": [list(row.items) if lists else text_of(row.items, kind) for row in rows],
        "label": [row.label for row in rows],
    }
    return {name: known[name] if name in known else [row.more[name] for row in rows] for name in order}


def write_lines(path: Path, rows: Sequence[Row], kind: str, order: Sequence[str]) -> None:
    labelled = "label" in order
    lines = (f"{row.label or ''}\t" * labelled + text_of(row.items, kind) + "\n" for row in rows)
    path.write_bytes(_packed(path, "".join(lines)))


def write_csv(path: Path, rows: Sequence[Row], kind: str, order: Sequence[str]) -> None:
    columns = _columns(rows, kind, order, lists=False)
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(order)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_bytes(_packed(path, sink.getvalue()))


def _packed(path: Path, text: str) -> bytes:
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, lambda data: data)
    return pack(text.encode())


def write_parquet(path: Path, rows: Sequence[Row], kind: str, order: Sequence[str], ngram: Any) -> None:
    lists = not (pa.types.is_string(ngram) or pa.types.is_dictionary(ngram) or pa.types.is_string_view(ngram))
    if ngram is FIXED:
        ngram = pa.list_(pa.string(), len(rows[0].items))
    arrays = {}
    for name, values in _columns(rows, kind, order, lists).items():
        plain = pa.array(values, pa.list_(pa.string()) if lists else pa.string()) if name == "ngram" else None
        kinds = {"label": pa.string(), "year": pa.int64()}
        arrays[name] = plain.cast(ngram) if plain is not None else pa.array(values, kinds.get(name, pa.string()))
    pq.write_table(pa.table(arrays), path, row_group_size=3)


FIXED = pa.list_(pa.string(), 1)  # of as many items as the N-grams have
CONTEXT_READERS = [
    Reader("txt", write_lines, columns=False, any_text=False),
    Reader("txt.gz", write_lines, columns=False, any_text=False),
    Reader("txt.bz2", write_lines, columns=False, any_text=False),
    Reader("csv", write_csv),
    Reader("csv.gz", write_csv),
    Reader("csv.bz2", write_csv),
    *(
        Reader(f"{name}.parquet", lambda *arguments, kind=kind: write_parquet(*arguments, kind), lists=lists)
        for name, kind, lists in [
            ("text", pa.string(), False),
            ("dictionary", pa.dictionary(pa.int32(), pa.string()), False),
            ("view", pa.string_view(), False),
            ("list", pa.list_(pa.string()), True),
            ("large", pa.large_list(pa.large_string()), True),
            ("fixed", FIXED, True),
        ]
    ),
]


@dataclass(frozen=True)
class Writer:
    """A way to write scores: options of the command, and how to read back what it wrote."""

    name: str
    options: tuple[str, ...]
    read: Callable[[bytes], list[dict[str, Any]]]


def read_csv(data: bytes) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def read_json(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def read_lines(data: bytes) -> list[dict[str, Any]]:
    return [{"fields": line.split("\t")} for line in data.decode().split("\n")[:-1]]


def read_parquet(data: bytes) -> list[dict[str, Any]]:
    return pq.read_table(io.BytesIO(data)).to_pylist()


SCORE_WRITERS = [
    Writer("standard output", (), read_lines),
    Writer("JSON on standard output", ("--json",), read_json),
    Writer("text", ("--out", "out.txt"), read_lines),
    Writer("an open file", (), read_lines),  # that is appended to
    Writer("csv", ("--out", "out.csv"), read_csv),
    Writer("jsonl", ("--out", "out.jsonl"), read_json),
    Writer("parquet", ("--out", "out.parquet"), read_parquet),
]


# --- documents ---------------------------------------------------------------------------------------------------

SPANS = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]))


@dataclass(frozen=True)
class Document:
    """Items with labelled spans that neither meet nor overlap."""

    items: tuple[str, ...]
    spans: tuple[tuple[int, int, str], ...] = ()

    @property
    def text(self) -> str:
        return " ".join(self.items)

    def mapping(self, content: str) -> dict[str, Any]:
        """As an object with items or text."""
        named = [{"start": start, "end": end, "label": label} for start, end, label in self.spans]
        return {content: list(self.items) if content == "items" else self.text, "spans": named}

    def tags(self, prefix: bool = True) -> list[str]:
        """A tag for each item: B- and I-, or the plain label."""
        tags = ["O"] * len(self.items)
        for start, end, label in self.spans:
            tags[start:end] = [f"{'B' if at == start else 'I'}-{label}" * prefix or label for at in range(start, end)]
        return tags


def _jsonl(path: Path, documents: Sequence[Document], content: str) -> None:
    path.write_bytes(_packed(path, "".join(json.dumps(each.mapping(content)) + "\n" for each in documents)))


def document_table(documents: Sequence[Document], content: pa.DataType) -> pa.Table:
    name = "items" if pa.types.is_list(content) or pa.types.is_large_list(content) else "text"
    rows = [each.mapping(name) for each in documents]
    column = pa.array([row[name] for row in rows])
    column = column.dictionary_encode() if pa.types.is_dictionary(content) else column.cast(content)
    return pa.table({name: column, "spans": pa.array([row["spans"] for row in rows], SPANS)})


def _parquet_documents(path: Path, documents: Sequence[Document], content: pa.DataType) -> None:
    pq.write_table(document_table(documents, content), path)


def _by_line(path: Path, documents: Sequence[Document], separator: str, prefix: bool) -> None:
    """An item and its tag a line, a blank line after each document."""
    shown = (
        "".join(f"{item}{separator}{tag}\n" for item, tag in zip(each.items, each.tags(prefix), strict=True))
        for each in documents
    )
    path.write_bytes(_packed(path, "\n".join(shown)))


def _running(path: Path, documents: Sequence[Document], show: Callable[[Document], str]) -> None:
    """A folder with a file for each document."""
    path.mkdir()
    for number, each in enumerate(documents):
        (path / f"{number:03}.txt").write_text(show(each), encoding="utf-8")


def _slashes(document: Document) -> str:
    return " ".join(f"{item}/{tag}" for item, tag in zip(document.items, document.tags(False), strict=True))


def _elements(document: Document) -> str:
    shown = list(document.items)
    for start, end, label in document.spans:
        shown[start] = f"<{label}>{shown[start]}"
        shown[end - 1] += f"</{label}>"
    return " ".join(shown)


def _docbin(path: Path, documents: Sequence[Document]) -> None:
    import spacy
    from spacy.tokens import Doc, DocBin, Span

    box, vocabulary = DocBin(), spacy.blank("xx").vocab
    for each in documents:
        doc = Doc(vocabulary, words=list(each.items), spaces=[True] * (len(each.items) - 1) + [False])
        doc.ents = [Span(doc, start, end, label=label) for start, end, label in each.spans]
        box.add(doc)
    path.write_bytes(box.to_bytes())


# `lists` here: an item may hold white space.
DOCUMENT_READERS = [
    Reader("text.jsonl", lambda path, documents: _jsonl(path, documents, "text")),
    Reader("items.jsonl", lambda path, documents: _jsonl(path, documents, "items"), lists=True),
    Reader("items.jsonl.gz", lambda path, documents: _jsonl(path, documents, "items"), lists=True),
    *(
        Reader(f"{name}.parquet", lambda *arguments, kind=kind: _parquet_documents(*arguments, kind), lists=lists)
        for name, kind, lists in [
            ("text", pa.string(), False),
            ("dictionary", pa.dictionary(pa.int32(), pa.string()), False),
            ("items", pa.list_(pa.string()), True),
            ("large", pa.large_list(pa.large_string()), True),
        ]
    ),
    Reader("spaces.conll", lambda path, documents: _by_line(path, documents, " ", True)),
    Reader("tabs.conll", lambda path, documents: _by_line(path, documents, "\t", True), lists=True),
    Reader("stanford.tsv", lambda path, documents: _by_line(path, documents, "\t", False)),
    Reader("slashes", lambda path, documents: _running(path, documents, _slashes)),
    Reader("elements", lambda path, documents: _running(path, documents, _elements)),
    Reader("docs.spacy", _docbin),
]  # fmt: skip

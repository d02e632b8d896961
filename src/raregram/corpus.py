"""Documents in: every format -> batches of one shape.

A document is a sequence of items with labelled spans (`start`, `end` in items, `label`). A batch holds many, as Arrow
arrays, and knows where each comes from, so that an error can name the file and the line. Every reader streams.
"""

from __future__ import annotations

import glob
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.errors import FileError, InputError, check_choice

Row: TypeAlias = tuple[str | None, Any, list[tuple[int, int, str]], str]  # id, text or items, spans, place

STANDARD_INPUT = "-"
LONGEST_LINE = 1 << 26  # bytes; beyond it a file is not lines of text
BATCH_BYTES = 1 << 25  # about so many bytes of text make a batch
ITEM_BYTES = 8  # what an item of a list counts as
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
ON_ERROR = ("stop", "skip")
SPLITS = ("file", "lines", "paragraphs")


@dataclass(frozen=True)
class Documents:
    """A batch of documents: as texts or as items, with all their spans one after the other."""

    places: Sequence[str]  # of each document
    texts: pa.Array | None  # string, to be split into items
    items: pa.Array | None  # list of strings; one of the two is None
    span_document: npt.NDArray[np.int64]  # (spans,) index into this batch
    span_start: npt.NDArray[np.int64]
    span_end: npt.NDArray[np.int64]
    span_label: pa.Array  # string
    ids: pa.Array | None = None
    begins: npt.NDArray[np.bool_] | None = None  # whether each is the beginning of its document; None: all are
    ends: npt.NDArray[np.bool_] | None = None  # whether each is the end; a document may come in pieces

    def __len__(self) -> int:
        return len(self.content)

    @property
    def content(self) -> pa.Array:
        """The texts, or the items."""
        return self.texts if self.texts is not None else self.items

    def where(self, row: int) -> str:
        """Name a document in an error message."""
        return self.places[row]


@dataclass
class Policy:
    """What to do with a document that cannot be read: stop, or skip it and remember."""

    on_error: str = "stop"
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        check_choice("on_error", "a count", self.on_error, ON_ERROR)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process go by the same rule, with notes of its own."""
        return Policy, (self.on_error,)

    def bad(self, error: InputError) -> None:
        """Raise, or note that one document was skipped."""
        if self.on_error == "stop":
            raise error
        with self.lock:
            self.skipped += 1
            if len(self.examples) < 5:
                self.examples.append(str(error))


@dataclass(frozen=True)
class Options:
    """How to read documents."""

    format: str | None = None  # None: recognise it
    split: str = "file"  # what a document is in plain text
    cut: tuple[int, str] | None = None  # (n, kind): long plain texts may come in pieces that overlap by n - 1 items
    item_column: int = 0  # of CoNLL columns
    tag_column: int = -1
    sentences: bool = False  # a blank line ends a document, whatever the file has
    batch_bytes: int = BATCH_BYTES
    policy: Policy = field(default_factory=Policy)
    seen: set[bytes] = field(default_factory=set)  # digests of texts that are to be taken once

    def __post_init__(self) -> None:
        check_choice("split", "a count", self.split, SPLITS)


def expand(sources: Any) -> list[str]:
    """Return the files that paths, folders and globs stand for, in order of their names."""
    found: list[str] = []
    for source in [sources] if isinstance(sources, str | os.PathLike) else sources:
        name = os.fspath(source)
        if name == STANDARD_INPUT or Path(name).is_file():
            found.append(name)
        elif Path(name).is_dir():
            found += _visible_files(Path(name))
        elif matches := sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - `Path.glob` needs a folder
            found += [match for match in matches if Path(match).is_file()]
        else:
            raise FileError(f"{name} does not exist")
    return found


def _visible_files(folder: Path) -> list[str]:
    """Return all files below a folder but hidden ones."""
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [str(path) for path in inside if not any(p.startswith(".") for p in path.relative_to(folder).parts)]
    if not visible:
        raise FileError(f"there is no file in the folder {folder}")
    return visible


class HeldFile(str):
    """The name of a file whose content is in memory already."""

    content: bytes

    @classmethod
    def hold(cls, name: str, content: bytes) -> HeldFile:
        """Put a name and a content together."""
        file = cls(name)
        file.content = content
        return file


@contextmanager
def open_bytes(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed by the end of its name; errors name the file."""
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    held = isinstance(path, HeldFile)
    source = pa.BufferReader(path.content) if isinstance(path, HeldFile) else path
    compression = COMPRESSIONS.get(Path(path).suffix) if held else "detect"
    with naming(path), pa.input_stream(source, compression=compression) as stream:
        yield cast(BinaryIO, io.BufferedReader(stream, 1 << 20))


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn what Arrow or the system says of a broken file into an error that names it."""
    try:
        yield
    except FileError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it cannot be read"
        raise FileError(f"{path}: {reason}") from error


def byte_lines(stream: BinaryIO, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line without its end) of a stream; a line that never ends is refused."""
    lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise InputError(f"{path}, line {number} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")
        yield number, line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n") if number == 1 else line.rstrip(b"\r\n")


def text_lines(stream: BinaryIO, path: str, policy: Policy) -> Iterator[tuple[int, str]]:
    """Yield (number, line) as text; a line that is not UTF-8 is left to the policy."""
    for number, line in byte_lines(stream, path):
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            policy.bad(InputError(f"{path}, line {number} is not valid UTF-8"))


def batches(rows: Iterable[Row], batch_bytes: int = BATCH_BYTES) -> Iterator[Documents]:
    """Gather documents into batches of about the same size, each of texts or of lists of items."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        is_text = isinstance(row[1], str)
        if waiting and (size >= batch_bytes or is_text != isinstance(waiting[-1][1], str)):
            yield make_batch(waiting)
            waiting, size = [], 0
        waiting.append(row)
        size += len(row[1]) if is_text else ITEM_BYTES * len(row[1])
    if waiting:
        yield make_batch(waiting)


def gather(small: Iterable[Documents], batch_bytes: int) -> Iterator[Documents]:
    """Put plain texts of many small files together into batches of a useful size."""
    waiting: list[Documents] = []
    size = 0
    for batch in small:
        plain = batch.texts is not None and not len(batch.span_document) and isinstance(batch.places, list)
        if waiting and (not plain or size >= batch_bytes):
            yield _joined(waiting)
            waiting, size = [], 0
        if plain:
            waiting.append(batch)
            size += batch.content.nbytes
        else:
            yield batch
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Documents]) -> Documents:
    """Make one batch of several that have texts and no spans."""
    if len(parts) == 1:
        return parts[0]
    ids = [part.ids if part.ids is not None else pa.nulls(len(part), pa.string()) for part in parts]
    begins, ends = (
        np.concatenate([np.ones(len(part), bool) if flag is None else flag for part, flag in flags])
        for flags in ([(part, part.begins) for part in parts], [(part, part.ends) for part in parts])
    )
    return replace(
        parts[0],
        places=[part.where(row) for part in parts for row in range(len(part))],
        texts=pa.concat_arrays([part.texts for part in parts]),
        ids=pa.concat_arrays(ids),
        begins=begins,
        ends=ends,
    )


def make_batch(rows: Sequence[Row]) -> Documents:
    """Lay documents of one kind, all texts or all items, out as arrays."""
    ids, contents, spans, places = zip(*rows, strict=True)
    as_text = isinstance(contents[0], str)
    flat = [(row, *span) for row, of_row in enumerate(spans) for span in of_row]
    document, start, end, label = zip(*flat, strict=True) if flat else ((), (), (), ())
    return Documents(
        places=list(places),
        texts=pa.array(contents, pa.string()) if as_text else None,
        items=None if as_text else pa.array(contents, pa.list_(pa.string())),
        span_document=np.array(document, dtype=np.int64),
        span_start=np.array(start, dtype=np.int64),
        span_end=np.array(end, dtype=np.int64),
        span_label=pa.array(label, pa.string()),
        ids=pa.array(ids, pa.string()) if any(name is not None for name in ids) else None,
    )


def spans_from_offsets(text: str, offsets: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Turn spans of characters into spans of items, the strings between white space.

    A span begins at the item that contains its first character and ends after the one that contains its last.

    >>> spans_from_offsets('He met  "Ann Lee", then left.', [(9, 16, "PER")])
    [(2, 4, 'PER')]
    """
    bounds = np.array([match.span() for match in re.finditer(r"\S+", text)], dtype=np.int64).reshape(-1, 2)
    spans = []
    for first, last, label in offsets:
        start = int(np.searchsorted(bounds[:, 1], first, side="right"))
        end = int(np.searchsorted(bounds[:, 0], last, side="left"))
        if start < end:
            spans.append((start, end, label))
    return spans


def parse_document(document: Any, place: str) -> Row:
    """Check a document that came as a mapping: `items` or `text`, and `id` and `spans` where they are."""
    if not hasattr(document, "get"):
        raise InputError(f"{place}: a document is an object with items or text, got {type(document).__name__}")
    content = document.get("items")
    if content is None:
        content = document.get("text")
    if isinstance(content, str):
        fine = document.get("items") is None
    else:
        fine = isinstance(content, list | tuple) and all(isinstance(item, str) for item in content)
    if not fine:
        raise InputError(f"{place}: a document needs items (a list of strings) or text (a string)")
    given = document.get("spans")
    if not isinstance(given, list | tuple | None):
        raise InputError(f"{place}: spans must be a list, got {given!r}")
    spans = [_parse_span(span, place) for span in given or []]
    name = None if document.get("id") is None else str(document.get("id"))
    for text in (name or "", *([content] if isinstance(content, str) else content), *(span[2] for span in spans)):
        if not text.isascii() and not _is_unicode(text):
            raise InputError(f"{place} is not valid Unicode")
    return name, content, spans, place


def _is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_span(span: Any, place: str) -> tuple[int, int, str]:
    """Read a span given as an object or as a list of three."""
    try:
        start, end, label = (span["start"], span["end"], span["label"]) if hasattr(span, "get") else span
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{place}: a span needs start, end and label, got {span!r}") from None
    whole = all(
        isinstance(bound, int) and not isinstance(bound, bool) and abs(bound) < 2**62 for bound in (start, end)
    )
    if not whole or not isinstance(label, str):
        raise InputError(f"{place}: a span needs whole numbers start and end and a label, got {span!r}")
    return start, end, label


Reader: TypeAlias = Callable[[str, Options], Iterator[Documents]]

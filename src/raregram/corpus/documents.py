"""Documents in: every format -> batches of one shape.

A document is a sequence of items with labelled spans (`start`, `end` in items, `label`). A batch holds many, as Arrow
arrays, and knows where each comes from, so that an error can name the file and the line. Every reader streams.
"""

from __future__ import annotations

import glob
import io
import os
import re
import stat
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

from raregram.errors import FileError, InputError, is_unicode, shorten, system_reason
from raregram.options import ITEM_COLUMN, ON_ERROR, SPLIT, TAG_COLUMN

Row: TypeAlias = tuple[str | None, Any, list[tuple[int, int, str]], str]  # id, text or items, spans, place

STANDARD_INPUT = "-"
LONGEST_LINE = 1 << 26  # bytes; beyond it a file is not lines of text
LARGEST_DOCUMENT = 1 << 26  # bytes of a document that stands on several lines and must be known as a whole
LARGEST_WHOLE = 1 << 30  # bytes, unpacked, of a file that can only be read as a whole
BATCH_BYTES = 1 << 25  # about so many bytes of text make a batch
ITEM_BYTES = 8  # what an item of a list counts as beside its letters,
SPAN_BYTES = 64  # what a span counts as,
DOCUMENT_BYTES = 128  # and what a document does, however short it is
FILE_BYTES = 1 << 11  # what a file that is a batch of its own counts as
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def bare_name(path: str) -> str:
    """Return a file's name without the end that tells how it is compressed."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in COMPRESSIONS else path


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

    on_error: str = ON_ERROR.default
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        ON_ERROR.check(self.on_error, "a count")

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
    split: str = SPLIT.default  # what a document is in plain text
    cut: tuple[int, str] | None = None  # (n, kind): long plain texts may come in pieces that overlap by n - 1 items
    item_column: int = ITEM_COLUMN.default  # of CoNLL columns
    tag_column: int = TAG_COLUMN.default
    sentences: bool = False  # a blank line ends a document, whatever the file has
    batch_bytes: int = BATCH_BYTES
    policy: Policy = field(default_factory=Policy)
    seen: set[bytes] = field(default_factory=set)  # digests of texts that are to be taken once

    def __post_init__(self) -> None:
        SPLIT.check(self.split, "a count")


def expand(sources: Any) -> list[str]:
    """Return the files that paths, folders and globs stand for, in order of their names."""
    found: list[str] = []
    for source in [sources] if isinstance(sources, str | os.PathLike) else sources:
        name = os.fspath(source)
        with naming(name):
            if Path(name).is_dir():
                found += _visible_files(Path(name))
            elif name == STANDARD_INPUT or Path(name).exists():
                found.append(name)
            elif matches := _matching_files(name):
                found += matches
            else:
                raise FileError(f"{name} does not exist")
    return found


def _matching_files(pattern: str) -> list[str]:
    """Return the files that match a pattern; `**` stands for folders within folders, but not behind links."""
    parts = Path(pattern).parts
    if "**" not in parts:
        return sorted(name for name in glob.glob(pattern) if Path(name).is_file())  # noqa: PTH207 - no folder
    first = next(place for place, part in enumerate(parts) if re.search(r"[*?\[]", part))
    rest = [*parts[first:], "*"] if parts[-1] == "**" else list(parts[first:])
    base = Path(*parts[:first])
    hidden = any(part.startswith(".") for part in rest)
    found = [path for path in base.glob("/".join(rest)) if hidden or not _is_hidden(path, base)]
    return sorted(str(path) for path in found if path.is_file())


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether a file, or a folder on the way to it, begins with a dot."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def reads_once(path: str) -> bool:
    """Whether this is standard input, a pipe or a device, from which nothing can be read a second time."""
    if isinstance(path, HeldFile):
        return False
    if path == STANDARD_INPUT:
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _visible_files(folder: Path) -> list[str]:
    """Return all files below a folder but hidden ones."""
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [str(path) for path in inside if not _is_hidden(path, folder)]
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


def hold(path: str) -> str:
    """Return a path that can be read again: what comes through a pipe is held in memory."""
    if not reads_once(path):
        return path
    if path == STANDARD_INPUT:
        return HeldFile.hold(path, read_whole(sys.stdin.buffer, "standard input"))
    with naming(path), Path(path).open("rb") as stream:
        return HeldFile.hold(path, read_whole(stream, path))


@contextmanager
def open_bytes(path: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed by the end of its name; errors name the file."""
    if path == STANDARD_INPUT and not isinstance(path, HeldFile):
        with naming("standard input"):
            yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    with naming(path), pa.input_stream(arrow_source(path), compression=COMPRESSIONS.get(Path(path).suffix)) as stream:
        yield io.BufferedReader(stream, 1 << 20)


def arrow_source(path: str) -> Any:
    """Return what Arrow is to open for a file: it takes no names that are not UTF-8, and cannot seek in pipes."""
    if isinstance(path, HeldFile):
        return pa.BufferReader(path.content)
    if path == STANDARD_INPUT:
        return sys.stdin.buffer
    if reads_once(path) or not is_unicode(path):
        return Path(path).open("rb")
    return str(Path(path).absolute())  # Arrow would take a "~" at the beginning for somebody's folder


def read_whole(stream: BinaryIO, path: str, most: int = LARGEST_WHOLE) -> bytes:
    """Read all of a stream, or refuse it: so much can only be read where it comes in parts."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path} holds more than {most >> 20:,} MiB, too much to be read as a whole: split it")
    return content


def printable_name(path: str) -> str:
    """Return a file's name as text, whatever its bytes."""
    return os.fsencode(path).decode(errors="replace") if not is_unicode(path) else str(path)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn what Arrow or the system says of a broken file into an error that names it."""
    try:
        yield
    except FileError:
        raise
    except UnicodeDecodeError as error:  # Arrow leaves the names of columns as they are
        raise FileError(f"{path}: it holds names that are not valid UTF-8") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        said = system_reason(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{path}: {said.splitlines()[0][:500] if said else 'it cannot be read'}") from error


def byte_lines(stream: BinaryIO, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line without its end) of a stream; a line that never ends is refused."""
    lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise InputError(f"{path}, line {number} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")
        yield number, line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n") if number == 1 else line.rstrip(b"\r\n")


def decode_line(line: bytes, place: str) -> str:
    """Return a line as text."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise InputError(f"{place} is not valid UTF-8") from None


def too_large(place: str, advice: str) -> InputError:
    """Return the error for a document that grows and grows, ready to raise."""
    return InputError(f"{place}: the document is larger than {LARGEST_DOCUMENT >> 20} MiB. {advice}")


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
        size += _size_of(row)
    if waiting:
        yield make_batch(waiting)


def _size_of(row: Row) -> int:
    """Return about how many bytes a document takes."""
    content, spans = row[1], row[2]
    size = len(content) if isinstance(content, str) else sum(map(len, content)) + ITEM_BYTES * len(content)
    return size + SPAN_BYTES * len(spans) + DOCUMENT_BYTES


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
            size += batch.content.nbytes + DOCUMENT_BYTES * len(batch) + FILE_BYTES
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
    bounds = word_bounds(text)
    spans = []
    for first, last, label in offsets:
        start = int(np.searchsorted(bounds[:, 1], first, side="right"))
        end = int(np.searchsorted(bounds[:, 0], last, side="left"))
        if start < end:
            spans.append((start, end, label))
    return spans


def word_bounds(text: str) -> npt.NDArray[np.int64]:
    """Return where each string between white space begins and ends: (words, 2)."""
    places = (place for match in re.finditer(r"\S+", text) for place in match.span())
    return np.fromiter(places, dtype=np.int64).reshape(-1, 2)


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
        raise InputError(f"{place}: spans must be a list, got {shorten(given)}")
    spans = [_parse_span(span, place) for span in given or []]
    name = None if document.get("id") is None else str(document.get("id"))
    for text in (name or "", *([content] if isinstance(content, str) else content), *(span[2] for span in spans)):
        if not text.isascii() and not is_unicode(text):
            raise InputError(f"{place} is not valid Unicode")
    return name, content, spans, place


def _parse_span(span: Any, place: str) -> tuple[int, int, str]:
    """Read a span given as an object or as a list of three."""
    try:
        start, end, label = (span["start"], span["end"], span["label"]) if hasattr(span, "get") else span
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{place}: a span needs start, end and label, got {shorten(span)}") from None
    whole = all(
        isinstance(bound, int) and not isinstance(bound, bool) and abs(bound) < 2**62 for bound in (start, end)
    )
    if not whole or not isinstance(label, str):
        raise InputError(f"{place}: a span needs whole numbers start and end and a label, got {shorten(span)}")
    return start, end, label


Reader: TypeAlias = Callable[[str, Options], Iterator[Documents]]

"""Documents in: every format -> batches of one shape.

A document is a sequence of items with labelled spans (`start`, `end` in items, `label`). A batch holds many, as Arrow
arrays, and the location of each, so that an error can name the file and the line. Every reader streams.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.corpus.encoding import check_encoding
from raregram.corpus.log import ReadingLog
from raregram.corpus.samples import check_by
from raregram.errors import FileError, InputError, is_unicode, shorten, system_reason
from raregram.options import ITEM_COLUMN, SPLIT, TAG_COLUMN
from raregram.remote import LOCAL, RemotePath, as_path, is_remote, local_path, matching_files
from raregram.text.tokenize import Tokenizer

Spans: TypeAlias = list[tuple[int, int, str]]  # (start, end, label)

STANDARD_INPUT = "-"
LONGEST_LINE = 1 << 26  # bytes; beyond it a file is not lines of text
LARGEST_DOCUMENT = 1 << 26  # bytes of a document that stands on several lines and must be known as a whole
LARGEST_WHOLE = 1 << 30  # bytes, unpacked, of a file that can only be read as a whole
BATCH_BYTES = 1 << 25  # about so many bytes of text make a batch
ITEM_BYTES = 8  # what an item of a list counts as beside its letters,
SPAN_BYTES = 64  # what a span counts as,
DOCUMENT_BYTES = 128  # and what a document does, however short it is
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
LONGEST_NAME = 255  # characters of a path in a message that it may be a text
WRAP_TEXTS = (
    "If it is a text and not a path, wrap it: [{'text': text} for text in texts], "
    "or give a pandas Series or an Arrow array of texts"
)
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # how packed files begin, and no text does


class Location(NamedTuple):  # which takes half the time of a dataclass to make, and each line has one
    """Where rows come from, for error messages: "FILE, line 12"; without a unit, the file alone."""

    source: str
    unit: str = ""  # "line", "row" or "document"
    first: int = 1  # the number of the first row

    def __str__(self) -> str:
        return f"{self.source}, {self.unit} {self.first}" if self.unit else str(self.source)  # without its content

    def at(self, row: int) -> Location:
        """Return the location of one of the rows that follow each other from here."""
        return self._replace(first=self.first + row)

    def name(self, row: int) -> str:
        """Name a row in an error message."""
        return str(self.at(row))


class Row(NamedTuple):
    """A document as most readers yield it."""

    id: str | None
    content: str | list[str]  # text, or items
    spans: Spans | None  # None: it has no field of spans, not even an empty one
    location: Location
    begins: bool = True  # whether this is the beginning of a document,
    ends: bool = True  # and its end: a long text comes in pieces
    sample: str | None = None  # to which it belongs by one of its fields


@dataclass(frozen=True)
class Documents:
    """A batch of documents: as texts or as items, with all their spans one after the other."""

    locations: Sequence[Any]  # one Location for each document, or one for all of them, which follow each other
    texts: pa.Array | None  # string, to be split into items
    items: pa.Array | None  # list of strings; one of the two is None
    span_document: npt.NDArray[np.int64]  # (spans,) index into this batch
    span_start: npt.NDArray[np.int64]
    span_end: npt.NDArray[np.int64]
    span_label: pa.Array  # string
    ids: pa.Array | None = None
    begins: npt.NDArray[np.bool_] | None = None  # whether each is the beginning of its document; None: all are
    ends: npt.NDArray[np.bool_] | None = None  # whether each is the end; a document may come in pieces
    untagged: npt.NDArray[np.bool_] | None = None  # whether each lacks a field of spans; None: no document does
    sample: pa.Array | None = None  # string, the sample to which each belongs where a corpus is cut into some

    def __len__(self) -> int:
        return len(self.content)

    @property
    def content(self) -> pa.Array:
        """The texts, or the items."""
        return self.texts if self.texts is not None else self.items

    def location(self, row: int) -> Location:
        """Return where a document comes from."""
        found: Location = self.locations[0].at(row) if len(self.locations) == 1 else self.locations[row]
        return found

    def select(self, keep: npt.NDArray[np.bool_]) -> Documents:
        """Return the documents that are marked in a mask."""
        spans, mask = keep[self.span_document], pa.array(keep)
        return Documents(
            locations=[self.location(row) for row in np.flatnonzero(keep).tolist()],
            texts=None if self.texts is None else self.texts.filter(mask),
            items=None if self.items is None else self.items.filter(mask),
            span_document=(np.cumsum(keep) - 1)[self.span_document[spans]],
            span_start=self.span_start[spans],
            span_end=self.span_end[spans],
            span_label=self.span_label.filter(pa.array(spans)),
            ids=None if self.ids is None else self.ids.filter(mask),
            begins=None if self.begins is None else self.begins[keep],
            ends=None if self.ends is None else self.ends[keep],
            untagged=None if self.untagged is None else self.untagged[keep],
            sample=None if self.sample is None else self.sample.filter(mask),
        )

    def names(self) -> list[str]:
        """Return the id of each document, or where it comes from."""
        ids = [None] * len(self) if self.ids is None else self.ids.to_pylist()
        return [str(self.location(row)) if name is None else name for row, name in enumerate(ids)]


@dataclass(frozen=True)
class Options:
    """How to read documents."""

    format: str | None = None  # None: recognise it
    split: str = SPLIT.default  # what a document is in plain text
    cut: tuple[int, Tokenizer] | None = None  # (n, ...): long plain texts come in pieces with n - 1 items in common
    item_column: int = ITEM_COLUMN.default  # of CoNLL columns
    tag_column: int = TAG_COLUMN.default
    sentences: bool = False  # a blank line ends a document, whatever the file has
    by: str | None = None  # what cuts the corpus into samples; see `raregram.corpus.samples`
    batch_bytes: int = BATCH_BYTES
    log: ReadingLog = field(default_factory=ReadingLog)
    seen: set[bytes] = field(default_factory=set)  # digests of texts that are to be taken once

    def __post_init__(self) -> None:
        SPLIT.check(self.split, "a count")
        check_by(self.by)


def bare_name(path: str) -> str:
    """Return a file's name without the ending of its compression."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in COMPRESSIONS else path


def compression_of(path: str) -> str | None:
    """Return how a file is compressed, by the end of its name or else by its first bytes."""
    by_name = COMPRESSIONS.get(Path(path).suffix)
    if by_name or reads_once(path):
        return by_name
    start = path.content[:4] if isinstance(path, BufferedFile) else b""
    if not isinstance(path, BufferedFile):
        with as_path(path).open("rb", buffering=0) as file:
            start = file.read(4)
    return next((name for magic, name in PACKED.items() if start.startswith(magic)), None)


def expand(sources: Any) -> list[str]:
    """Return the files that paths, folders and globs stand for, in order of their names."""
    found: list[str] = []
    for source in [sources] if isinstance(sources, str | os.PathLike) else sources:
        name = os.fspath(source)
        if name.startswith(LOCAL):
            name = str(local_path(name))
        with naming(name):
            if isinstance(name, BufferedFile):
                found.append(name)
            elif not name:
                raise missing(name)  # which would be the current folder
            elif is_remote(name):
                found += matching_files(name)
            elif Path(name).is_dir():
                inside = sorted(_visible_files(Path(name), "**/*"), key=lambda path: path.parts)
                if not inside:
                    raise FileError(f"there is no file in the folder {name}")
                found += map(str, inside)
            elif name == STANDARD_INPUT or Path(name).exists():
                found.append(name)
            elif matches := _matching_files(name):
                found += matches
            else:
                raise missing(name)
    return found


def missing(name: str) -> FileError:
    """Return the error for a path that does not exist, ready to raise: it may be a text that was taken for one."""
    if name and not re.search(r"\s", name):
        return FileError(f"{name} does not exist")
    return FileError(f"{shorten(name, LONGEST_NAME)} does not exist. {WRAP_TEXTS}")


def _matching_files(pattern: str) -> list[str]:
    """Return the files that match a pattern; `**` stands for folders within folders, but not behind links."""
    parts = Path(pattern).parts
    if "**" not in parts:
        names = [name for name in glob.glob(pattern) if Path(name).is_file()]  # noqa: PTH207 - no folder
        return sorted(names, key=_portable)
    first = next(index for index, part in enumerate(parts) if re.search(r"[*?\[]", part))
    rest = [*parts[first:], "*"] if parts[-1] == "**" else parts[first:]
    return sorted(map(str, _visible_files(Path(*parts[:first]), "/".join(rest))), key=_portable)


def _portable(name: str) -> str:
    """Return the sort key of a file: the same order on every system."""
    return name.replace(os.sep, "/")


def _visible_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that match a pattern; hidden ones only if it names such."""
    hidden = re.search(r"(?:^|/)\.", pattern)
    found = [path for path in folder.glob(pattern) if path.is_file()]
    return [path for path in found if hidden or not re.search(r"(?:^|/)\.", path.relative_to(folder).as_posix())]


def reads_once(path: str) -> bool:
    """Whether this is standard input, a pipe or a device, from which nothing can be read a second time."""
    if isinstance(path, BufferedFile) or is_remote(path):
        return False
    if path == STANDARD_INPUT:
        return True
    try:
        mode = local_path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class BufferedFile(str):
    """The name of a file whose content is in memory already."""

    content: bytes

    def __new__(cls, name: str, content: bytes) -> BufferedFile:
        """Put a name and a content together."""
        file = super().__new__(cls, name)
        file.content = content
        return file


def buffered(path: str) -> str:
    """Return a path that can be read again: what comes through a pipe is kept in memory."""
    if not reads_once(path):
        return path
    with (
        naming(path),
        nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else local_path(path).open("rb") as stream,
    ):
        return BufferedFile(path, read_whole(stream, "standard input" if path == STANDARD_INPUT else path))


@contextmanager
def open_bytes(path: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed; errors name the file."""
    if path == STANDARD_INPUT and not isinstance(path, BufferedFile):
        with naming("standard input"):
            yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    with naming(path), pa.input_stream(arrow_source(path), compression=compression_of(path)) as stream:
        yield io.BufferedReader(stream, 1 << 20)


def arrow_source(path: str) -> Any:
    """Return a path or stream for Arrow, which takes no names that are not UTF-8 and cannot seek in pipes."""
    if isinstance(path, BufferedFile):
        return pa.BufferReader(path.content)
    if path == STANDARD_INPUT:
        return sys.stdin.buffer
    if is_remote(path):
        return RemotePath(path).open()
    if reads_once(path) or not is_unicode(path):
        return local_path(path).open("rb")
    return str(local_path(path).absolute())  # Arrow would take a "~" at the beginning for somebody's folder


def read_whole(stream: BinaryIO, path: str, most: int = LARGEST_WHOLE) -> bytes:
    """Read all of a stream, or refuse it: so much can only be read where it comes in parts."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path} holds more than {most >> 20:,} MiB, too much to be read as a whole: split it")
    return content


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
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise FileError(f"{shorten(path, LONGEST_NAME)}: {system_reason(error)}. {WRAP_TEXTS}") from error
        said = system_reason(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{path}: {said.splitlines()[0][:500] if said else 'it cannot be read'}") from error


def byte_lines(stream: BinaryIO, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line without its end) of a stream; a line that never ends is refused."""
    check_encoding(stream, path)
    lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise InputError(f"{path}, line {number} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")
        yield number, line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n") if number == 1 else line.rstrip(b"\r\n")


def too_large(location: Location, advice: str) -> InputError:
    """Return the error for a document that grows and grows, ready to raise."""
    return InputError(f"{location}: the document is larger than {LARGEST_DOCUMENT >> 20} MiB. {advice}")


def batches(found: Iterable[Row | Documents], batch_bytes: int = BATCH_BYTES) -> Iterator[Documents]:
    """Gather documents into batches of about the same size, each of texts or of lists of items."""
    waiting: list[Row] = []
    size, texts = 0, False
    for row in found:
        if isinstance(row, Documents):
            yield from [make_batch(waiting)] if waiting else []
            yield row
            waiting, size = [], 0
            continue
        content = row.content
        is_text = isinstance(content, str)
        if waiting and (size >= batch_bytes or is_text != texts):
            yield make_batch(waiting)
            waiting, size = [], 0
        waiting.append(row)
        texts = is_text
        size += len(content) if is_text else sum(map(len, content)) + ITEM_BYTES * len(content)
        size += SPAN_BYTES * len(row.spans or ()) + DOCUMENT_BYTES
    if waiting:
        yield make_batch(waiting)


def make_batch(rows: Sequence[Row]) -> Documents:
    """Lay documents of one kind, all texts or all items, out as arrays."""
    ids, contents, spans, locations, begins, ends, samples = zip(*rows, strict=True)
    as_text = isinstance(contents[0], str)
    flat = [(row, *span) for row, of_row in enumerate(spans) for span in of_row or ()]
    document, start, end, label = zip(*flat, strict=True) if flat else ((), (), (), ())
    return Documents(
        locations=locations,
        texts=pa.array(contents, pa.string()) if as_text else None,
        items=None if as_text else pa.array(contents, pa.list_(pa.string())),
        span_document=np.array(document, dtype=np.int64),
        span_start=np.array(start, dtype=np.int64),
        span_end=np.array(end, dtype=np.int64),
        span_label=pa.array(label, pa.string()),
        ids=pa.array(ids, pa.string()) if any(name is not None for name in ids) else None,
        begins=None if all(begins) else np.array(begins),
        ends=None if all(ends) else np.array(ends),
        untagged=np.array([of_row is None for of_row in spans]) if None in spans else None,
        sample=None if samples[0] is None else pa.array(samples, pa.string()),
    )


def spans_from_offsets(
    text: str, offsets: Iterable[tuple[int, int, str]], bounds: npt.NDArray[np.int64] | None = None
) -> list[tuple[int, int, str]]:
    """Turn spans of characters into spans of items: the strings between white space, or those with other bounds.

    A span begins at the item that contains its first character and ends after the one that contains its last.

    >>> spans_from_offsets('He met  "Ann Lee", then left.', [(9, 16, "PER")])
    [(2, 4, 'PER')]
    """
    bounds = word_bounds(text) if bounds is None else bounds
    spans = []
    for first, last, label in offsets:
        start = int(np.searchsorted(bounds[:, 1], first, side="right"))
        end = int(np.searchsorted(bounds[:, 0], last, side="left"))
        if start < end:
            spans.append((start, end, label))
    return spans


def string_bounds(content: str | list[str]) -> npt.NDArray[np.int64]:
    """Return where each word of a text, or string of a list joined by spaces, begins and ends: (words, 2)."""
    if isinstance(content, str):
        return word_bounds(content)
    lengths = np.fromiter(map(len, content), dtype=np.int64, count=len(content))
    ends = np.cumsum(lengths + 1) - 1
    return np.column_stack([ends - lengths, ends])


def word_bounds(text: str) -> npt.NDArray[np.int64]:
    """Return where each string between white space begins and ends: (words, 2)."""
    bounds = (bound for match in re.finditer(r"\S+", text) for bound in match.span())
    return np.fromiter(bounds, dtype=np.int64).reshape(-1, 2)

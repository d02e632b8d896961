"""Count and model files, written atomically and checked when read.

A row is one span of one N-gram: `start` and `end` (positions), `items` (strings) and whole-number columns.

- Files are Arrow files (IPC): `items` is dictionary-encoded, so that a file holds one vocabulary and codes. A record
  batch has sorted rows of one span and a checksum. The rows of a span are read when they are needed.
- The parts of count tables that Spark tasks write, and exported tables, are Parquet with the strings themselves.
- A count file has the rows of units and of the longest suffixes: see `raregram.counts.rows`.
- Of a table in folds, a row is one span in one fold. In Parquet the column `fold` has its number; in Arrow files its
  name stands beyond the last item.

Either way a JSON header says the kind of file, the format version and a digest of everything else. Files are data:
nothing in them is executed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from raregram.counts.rows import (
    BATCH,
    RowsInMemory,
    SpanRows,
    from_boundary,
    join_rows,
    row_bytes,
    stored_spans,
    with_fold,
)
from raregram.counts.spans import Span, span_order
from raregram.errors import FileError
from raregram.files import atomic_path
from raregram.remote import PathLike, RemotePath, as_path, is_remote, local_path
from raregram.text.tokenize import buffers_of
from raregram.text.vocabulary import Codes, build_vocabulary

FORMAT_VERSION = 4
ROW_GROUP = 1 << 20  # values written at a time
ROW_BYTES = 32  # that a row takes in memory, at least
MOST_PACKED = 1000  # bytes in memory for one on disk: rows differ from each other, so they cannot be packed so well
SMALL_FILE = 1 << 26  # bytes in memory that are always allowed
READ_WHOLE = 1 << 30  # bytes; on Windows, smaller files are closed as soon as they are open
METADATA_KEY = b"raregram"
DAMAGE = (
    pa.ArrowException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)  # what a file that is not what it says can make the readers raise
ARROW = b"ARROW1"  # the first bytes of an Arrow file
HEADER_DIGEST = b"raregram.sha256"
FACTOR = np.uint64(0xD1342543DE82EF95)  # of polynomials modulo 2**64
COMMON = "_common_metadata"  # where a folder of Parquet files has its header


@dataclass(frozen=True)
class SpanTable:
    """What a file holds: a header, the names of the value columns, the items and the rows of every span."""

    kind: str  # "counts" or "model"
    header: dict[str, Any]
    columns: tuple[str, ...]
    items: pa.Array  # string, distinct, in byte order
    parts: Iterable[SpanRows]  # in order of their spans; a stream may cut a span into several
    stored: StoredRows | None = None  # the same by their spans, if they are read from a file when they are needed
    file_digest: str | None = None  # what a file says that its digest is, and was checked

    @property
    def n(self) -> int:
        """The number of items of an N-gram."""
        return int(self.header["n"])

    @property
    def stored_spans(self) -> list[Span]:
        """The spans whose rows a count table stores, and which its digest is made of."""
        spans = [Span.from_columns(start, end, self.n) for start, end in self.header["spans"]]
        return stored_spans(spans, int(self.header["min_count"]), "documents" in self.header)

    def digest(self) -> str:
        """Return a hexadecimal digest of the content, whatever the order of the rows."""
        hasher = Hasher(self)
        for part in self.parts:
            hasher.add(part)
        return digest_of(self, hasher.total)


class Hasher:
    """Hashes rows one by one and adds the hashes, so that parts of a table can be digested in any order."""

    def __init__(self, table: SpanTable) -> None:
        self.n, self.item_hash = table.n, hash_items(table.items)
        self.total = np.zeros(2, dtype=np.uint64)

    def add(self, part: SpanRows) -> None:
        """Take in some rows."""
        self.total = self.total + add_hashes(
            hash_keys(part.span.columns(self.n), part.keys, self.item_hash), part.values
        )


def digest_of(table: SpanTable, row_hashes: npt.NDArray[np.uint64]) -> str:
    """Return the digest of a table from its header and the sum of its rows' hashes."""
    head = json.dumps([table.kind, table.header, table.columns], sort_keys=True)
    return hashlib.sha256(head.encode() + row_hashes.tobytes()).hexdigest()


def write(path: PathLike, table: SpanTable) -> None:
    """Write a table, some rows at a time, under its final name only when it is whole."""
    hasher, batches = Hasher(table), []
    schema = _coded_schema(table)
    # Count tables are large, and written again and again; models are small, and sent around.
    codec = "lz4" if table.kind == "counts" else pa.Codec("zstd", 3)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, schema, options=options) as writer,
    ):
        for part in _row_groups(table.parts, BATCH):
            hasher.add(part)
            columns = [column.astype(schema.field(3).type.to_pandas_dtype()) for column in part.values.T]
            batches.append([*part.span.columns(table.n), len(part), _checksum(part.keys, columns)])
            writer.write_batch(_to_batch(part, columns, table, schema))
        head = file_header(table, hasher.total)
        text = json.dumps({**head, "batches": batches, "vocabulary": _checksum_of_items(table.items)})
        metadata = {METADATA_KEY: text, HEADER_DIGEST: hashlib.sha256(text.encode()).hexdigest()}
        # The header is known only now, so it stands with an empty batch at the end.
        empty = SpanRows(Span("item", 0, 1), np.empty((0, 1), np.int32), np.empty((0, len(table.columns)), np.int64))
        writer.write_batch(_to_batch(empty, empty.values.T, table, schema), custom_metadata=metadata)


def _to_batch(part: SpanRows, columns: Any, table: SpanTable, schema: pa.Schema) -> pa.RecordBatch:
    """Lay rows of one span out as a record batch whose items are codes."""
    start, end = part.span.columns(table.n)
    offsets = pa.array(np.arange(len(part) + 1, dtype=np.int32) * part.keys.shape[1])
    codes = pa.DictionaryArray.from_arrays(pa.array(part.keys.ravel()), table.items)
    positions = (pa.array(np.full(len(part), place, dtype=np.int16)) for place in (start, end))
    values = (pa.array(column, schema.field(3).type) for column in columns)
    arrays = [*positions, pa.ListArray.from_arrays(offsets, codes), *values]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _checksum(keys: Codes, columns: Sequence[npt.NDArray[Any]]) -> int:
    """Return a checksum of rows as a file has them."""
    found = zlib.crc32(np.ascontiguousarray(keys).data)
    for column in columns:
        found = zlib.crc32(np.ascontiguousarray(column).data, found)
    return found


def _checksum_of_items(items: pa.Array) -> int:
    data, bounds = buffers_of(items)
    return zlib.crc32(np.ascontiguousarray(bounds).data, zlib.crc32(np.ascontiguousarray(data).data))


class StoredRows(Mapping[Span, SpanRows]):
    """The rows of an Arrow file by their spans; a span is read and checked when it is asked for."""

    def __init__(
        self, path: PathLike, reader: pa.RecordBatchFileReader, head: dict[str, Any], spans: list[Span]
    ) -> None:
        self.path, self.reader, self.head = path, reader, head
        n, self._folded = int(head["header"]["n"]), "folds" in head["header"]
        every = {*spans, *(Span.from_columns(start, end, n) for start, end, _, _ in head["batches"])}
        self._batches: dict[Span, list[int]] = {span: [] for span in sorted(every, key=span_order)}
        for number, (start, end, _, _) in enumerate(head["batches"]):
            self._batches[Span.from_columns(start, end, n)].append(number)
        self._read: dict[Span, SpanRows] = {}

    def __getitem__(self, span: Span) -> SpanRows:
        """Return the rows of a span."""
        if span not in self._read:
            numbers = self._batches[span]
            with damage_named(self.path):
                self._read[span] = self._read_span(span, numbers)
        return self._read[span]

    def __contains__(self, span: object) -> bool:
        """Whether there is such a span, without reading it."""
        return span in self._batches

    def _read_span(self, span: Span, numbers: Sequence[int]) -> SpanRows:
        """Read and check batches, which are all of a span."""
        sizes = [self.head["batches"][number][2] for number in numbers]
        # Filled batch by batch: memory that is new to a process costs more than copying.
        keys = np.empty((sum(sizes), span.width + self._folded), dtype=np.int32)
        values = np.empty((sum(sizes), len(self.head["columns"])), dtype=np.int64)
        for number, size, end in zip(numbers, sizes, np.cumsum(sizes).tolist(), strict=True):
            keys[end - size : end], columns = self._read_batch(span, number)
            for place, column in enumerate(columns):
                values[end - size : end, place] = column
        return SpanRows(span, keys, values)

    def stream(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a span batch by batch, without keeping them."""
        if span in self._read:
            rows = self._read[span]
            yield from (rows[first : first + BATCH] for first in range(0, len(rows), BATCH))
            return
        for number in self._batches[span]:
            with damage_named(self.path):
                keys, columns = self._read_batch(span, number)
            yield SpanRows(span, keys, np.column_stack(columns).astype(np.int64, copy=False))

    def _read_batch(self, span: Span, number: int) -> tuple[Codes, list[npt.NDArray[Any]]]:
        """Read and check one batch; return its keys and columns as the file has them."""
        size, checksum = self.head["batches"][number][2:]
        batch = self.reader.get_batch(number)
        batch.validate()
        items = batch.column("items").values
        keys = np.asarray(items.indices).reshape(size, span.width + self._folded)
        columns = [np.asarray(batch.column(name)) for name in self.head["columns"]]
        if _checksum(keys, columns) != checksum:
            raise FileError(f"{self.path} is damaged or was altered: its content does not match its checksum")
        if size and not 0 <= keys.min() <= keys.max() < len(items.dictionary):
            raise ValueError("a code is not in the vocabulary")
        if "totals" in self.head["header"]:
            check_rows(columns, self.head["header"])
        return keys, columns

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans, shorter ones first."""
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows themselves: another process may not have the file."""
        return RowsInMemory, (list(self.values()), list(self))

    def num_rows(self) -> int:
        """Return the number of rows of all spans, without reading them."""
        return sum(rows for *_, rows, _ in self.head["batches"])


def check_rows(columns: Sequence[npt.NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Raise `ValueError` for frequencies that no counting gives, in a file that someone made by hand."""
    if not are_within(columns, header["totals"], 1 + len(header["targets"])):
        raise ValueError("a row cannot be in this table")


def are_within(columns: Sequence[npt.NDArray[Any]], totals: Sequence[int], width: int) -> bool:
    """Whether frequencies, in all and at each target, can be those of so many contexts.

    `width` columns are a group: frequencies and, where there are any, numbers of documents, sums of squares and of
    products with the documents' sizes.
    """
    of_all, groups = columns[0], [columns[first : first + width] for first in range(0, len(columns), width)]
    return (
        all(
            column.min(initial=0) >= 0 and column.max(initial=0) <= total
            for column, total in zip(columns, totals, strict=True)
        )
        and all(_is_below(column, group[0]) for group in groups for column in group)
        and all(
            (of_all - column).max(initial=0) <= totals[0] - total
            for column, total in zip(groups[0], totals, strict=False)
        )
        and all(_is_below(less, more) for k in range(width) for less, more in pairwise(_ordered(groups, k)))
    )


def _ordered(groups: Sequence[Sequence[npt.NDArray[Any]]], column: int) -> list[npt.NDArray[Any]]:
    """Return the columns of the groups in their order: a span is in at most so many documents as it was seen."""
    f, *others = (group[column] for group in groups)
    return [others[0], f, *others[1:]] if others else [f]


def _is_below(less: npt.NDArray[Any], more: npt.NDArray[Any]) -> bool:
    return bool((more - less).min(initial=0) >= 0)


def _open_arrow(path: PathLike) -> pa.RecordBatchFileReader:
    # Not mapped into memory: where somebody shortens a file that is, the process ends.
    if is_remote(path):
        return pa.ipc.open_file(RemotePath(str(path)).open())
    if (
        sys.platform == "win32" and local_path(path).stat().st_size < READ_WHOLE
    ):  # a file that is open cannot be replaced
        return pa.ipc.open_file(pa.py_buffer(local_path(path).read_bytes()))
    return pa.ipc.open_file(pa.OSFile(str(local_path(path).absolute())))


def write_parquet(path: PathLike, table: SpanTable) -> None:
    """Write a table, with the rows of any spans, as Parquet with the strings themselves, which SQL engines read."""
    import pyarrow.parquet as pq

    hasher, hashed = Hasher(table), set(table.stored_spans)
    schema = row_schema(table.columns, "folds" in table.header)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        rows = max(ROW_GROUP // (3 + len(table.columns)), 1)
        for part in _row_groups(table.parts, rows):
            if part.span in hashed:
                hasher.add(part)
            writer.write_table(to_arrow(table, [part]), row_group_size=rows)
        writer.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(file_header(table, hasher.total))})


def file_header(table: SpanTable, row_hashes: npt.NDArray[np.uint64]) -> dict[str, Any]:
    """Return the header of a table whose rows' hashes add up to this."""
    return {
        "kind": table.kind,
        "version": FORMAT_VERSION,
        "columns": table.columns,
        "digest": digest_of(table, row_hashes),
        "header": table.header,
    }


def common_metadata(table: SpanTable, row_hashes: npt.NDArray[np.uint64]) -> bytes:
    """Return the file that makes a folder of Parquet files a table, once all of them are there."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    schema = row_schema(table.columns, "folds" in table.header)
    pq.write_metadata(schema.with_metadata({METADATA_KEY: json.dumps(file_header(table, row_hashes))}), sink)
    return bytes(sink.getvalue())


def _row_groups(parts: Iterable[SpanRows], size: int) -> Iterator[SpanRows]:
    """Cut the rows of each span anew into groups of a fixed size, so that a file does not depend on how they came."""
    waiting: dict[Span, list[SpanRows]] = {}
    for part in parts:
        group = waiting.setdefault(part.span, [])
        rest, free = part, size - sum(map(len, group))
        while len(rest) >= free:
            yield join_rows(part.span, [*group, rest[:free]], 0)
            rest, free = rest[free:], size
            group.clear()
        if len(rest):  # copied, so that the rows that were written need no memory any more
            group.append(rest if rest is part else SpanRows(rest.span, rest.keys.copy(), rest.values.copy()))
    for span, group in waiting.items():
        if group:
            yield join_rows(span, group, 0)


def read(path: PathLike, kind: str) -> SpanTable:
    """Read and check a table; raise `FileError` for anything but a whole file of this kind.

    Of an Arrow file the rows are read and checked later, span by span.
    """
    with damage_named(path):
        reader = _open_arrow(path) if as_path(path).is_file() and is_arrow(path) else None
    head = read_header(path, reader)
    if head["kind"] != kind:
        raise FileError(f"{path} is a raregram {head['kind']} file, expected a {kind} file")
    with damage_named(path):
        if reader is not None:
            items = _vocabulary(reader)
            if _checksum_of_items(items) != head["vocabulary"]:
                raise FileError(f"{path} is damaged or was altered: its vocabulary does not match its checksum")
            table = SpanTable(kind, head["header"], tuple(head["columns"]), items, (), file_digest=head["digest"])
            rows = StoredRows(path, reader, head, table.stored_spans if kind == "counts" else [])
            return replace(table, parts=rows.values(), stored=rows)
        rows_in_parquet = _read_rows(as_path(path), row_schema(head["columns"], "folds" in head["header"]))
        table = from_arrow(rows_in_parquet, SpanTable(kind, head["header"], tuple(head["columns"]), None, ()))
        table = replace(table, file_digest=head["digest"])
        if table.digest() != head["digest"]:
            raise FileError(f"{path} is damaged or was altered: its content does not match its digest")
    return table


def _vocabulary(reader: pa.RecordBatchFileReader) -> pa.Array:
    """Return the items of an Arrow file, which all of its batches share."""
    items = reader.get_batch(reader.num_record_batches - 1).column("items").values.dictionary
    items.validate(full=True)
    if items.null_count:
        raise ValueError("an item is missing")
    return items.take(pa.array(np.arange(len(items))))  # with a bitmap of missing ones, as all other arrays of items


def _read_rows(path: Path | RemotePath, schema: pa.Schema) -> pa.Table:
    """Read the rows of a file, or of all files of a folder."""
    tables = []
    for part in part_files(path) if path.is_dir() else [path]:
        with _open(part) as file:
            tables.append(file.read().select(schema.names).cast(schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


@contextmanager
def _open(path: Path | RemotePath) -> Iterator[Any]:
    """Open a Parquet file whose rows can be believed to be in it."""
    import pyarrow.parquet as pq  # which most commands do not need

    # A whole path, since Arrow takes "~name" for somebody's folder and "http:" for an address.
    source = path.open() if isinstance(path, RemotePath) else str(path.absolute())
    with pq.ParquetFile(source, memory_map=True) as file:
        rows, size = file.metadata.num_rows, path.stat().st_size
        if rows * ROW_BYTES > max(SMALL_FILE, MOST_PACKED * size):
            raise FileError(f"{path} claims {rows:,} rows in {size:,} bytes: it is damaged, or made to fill memory")
        yield file


def part_files(folder: Path | RemotePath) -> list[Any]:
    """Return the files of rows of a folder."""
    return sorted((file for file in folder.glob("*.parquet") if not file.name.startswith(("_", "."))), key=str)


def bytes_on_disk(path: PathLike) -> int:
    """Return the size of a file, or of all files of a folder."""
    files = part_files(as_path(path)) if as_path(path).is_dir() else [as_path(path)]
    return sum(file.stat().st_size for file in files)


def read_header(path: PathLike, reader: pa.RecordBatchFileReader | None = None) -> dict[str, Any]:
    """Return the JSON header of a raregram file without reading its rows; an Arrow file may be open already."""
    if not as_path(path).exists():
        raise FileError(f"{path} does not exist")
    with damage_named(path):
        return parse_header(_file_metadata(path) if reader is None else _arrow_metadata(reader), path)


def parse_header(metadata: Mapping[bytes, bytes], path: PathLike) -> dict[str, Any]:
    """Return the JSON header that is among the metadata of a file."""
    if METADATA_KEY not in metadata:
        raise FileError(f"{path} is a Parquet or Arrow file, but not one that raregram wrote")
    text = metadata[METADATA_KEY]
    head = json.loads(text)
    if "batches" in head and metadata.get(HEADER_DIGEST) != hashlib.sha256(text).hexdigest().encode():
        raise FileError(f"{path} is damaged or was altered: its header does not match its digest")
    if head["version"] > FORMAT_VERSION:
        raise FileError(
            f"{path} has format version {head['version']}; this raregram reads up to {FORMAT_VERSION}. "
            "Install a newer raregram"
        )
    if head["version"] < FORMAT_VERSION:
        command = "fit" if head["kind"] == "model" else "count"
        raise FileError(
            f"{path} has format version {head['version']}, which this raregram no longer reads. "
            f"Make it anew with `raregram {command}`"
        )
    optional = {name: head[name] for name in ("batches", "vocabulary") if name in head}
    return {**{name: head[name] for name in ("kind", "version", "columns", "digest", "header")}, **optional}


def is_raregram_file(path: PathLike) -> bool:
    """Whether a file is Arrow or Parquet with raregram's header."""
    try:
        return METADATA_KEY in _file_metadata(path)
    except (pa.ArrowException, OSError, ValueError):  # ValueError: of a name that is not UTF-8
        return False


def _file_metadata(path: PathLike) -> dict[bytes, bytes]:
    file_path = as_path(path) / COMMON if as_path(path).is_dir() else as_path(path)
    if is_arrow(str(file_path)):
        return _arrow_metadata(_open_arrow(str(file_path)))
    with _open(file_path) as file:
        return dict(file.metadata.metadata or {})


def _arrow_metadata(reader: pa.RecordBatchFileReader) -> dict[bytes, bytes]:
    """Return the metadata of an Arrow file, which stand with its last batch."""
    last = reader.num_record_batches - 1
    return dict(reader.get_batch_with_custom_metadata(last).custom_metadata or {}) if last >= 0 else {}


def is_arrow(path: PathLike) -> bool:
    """Whether a file begins as Arrow files do."""
    with as_path(path).open("rb") as file:
        return bool(file.read(len(ARROW)) == ARROW)


@contextmanager
def damage_named(path: PathLike) -> Iterator[None]:
    """Turn whatever a broken file makes a reader raise into one error that names the file."""
    try:
        yield
    except FileError:
        raise
    except PermissionError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except DAMAGE as error:
        raise FileError(f"{path} is not a raregram file, or it is truncated or damaged") from error


def row_schema(columns: Sequence[str], folded: bool = False) -> pa.Schema:
    """Return the schema of the rows of a table with these value columns; `folded`: the fold has a column."""
    keys = [("start", pa.int16()), ("end", pa.int16()), ("items", pa.list_(pa.string()))]
    keys += [("fold", pa.int16())] if folded else []
    return pa.schema([*keys, *((name, pa.int64()) for name in columns)])


def _coded_schema(table: SpanTable) -> pa.Schema:
    """Return the schema of an Arrow file: codes instead of strings, and numbers no wider than the totals need."""
    plain, head = row_schema(table.columns), table.header
    # In a model, an item at whatever position counts at all of them.
    largest = max(head["totals"]) if "totals" in head else table.n * max(head["n_nu"], head["n_de"])
    value = pa.int32() if largest < 2**31 else pa.int64()
    items = pa.field("items", pa.list_(pa.dictionary(pa.int32(), pa.string())))
    return pa.schema([*list(plain)[:2], items, *(pa.field(name, value) for name in table.columns)])


def to_arrow(table: SpanTable, parts: Sequence[SpanRows]) -> pa.Table:
    """Lay rows of several spans out as one Arrow table, in which the fold has a column."""
    folded = "folds" in table.header
    schema = row_schema(table.columns, folded)
    if not parts:
        return schema.empty_table()
    spans = np.array([part.span.columns(table.n) for part in parts], dtype=np.int16).reshape(-1, 2)
    start, end = np.repeat(spans, [len(part) for part in parts], axis=0).T
    widths = (end - start).astype(np.int32) + folded
    keys = np.concatenate([part.keys.ravel() for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(widths, dtype=np.int32)])
    lists = pa.ListArray.from_arrays(pa.array(offsets), table.items.take(pa.array(keys)))
    values = np.concatenate([part.values for part in parts])
    named = split_fold(lists, table.header["side"]) if folded else [lists]
    return pa.table([pa.array(start), pa.array(end), *named, *map(pa.array, values.T)], schema=schema)


def split_fold(lists: pa.Array, side: str) -> tuple[pa.Array, pa.Array]:
    """Return the items of rows in folds, and the folds, whose names stand beyond the last item.

    >>> [part.to_pylist() for part in split_fold(pa.array([["0", "a"], ["12", "b", "a"]]), "left")]
    [[['a'], ['b', 'a']], [0, 12]]
    """
    offsets, names = np.asarray(lists.offsets), lists.values
    at = offsets[:-1] if side == "left" else offsets[1:] - 1
    is_item = np.ones(len(names), dtype=bool)
    is_item[at] = False
    rest = pa.array((offsets - np.arange(len(offsets))).astype(np.int32))
    return pa.ListArray.from_arrays(rest, names.filter(pa.array(is_item))), names.take(pa.array(at)).cast(pa.int16())


def from_arrow(arrow: pa.Table, table: SpanTable) -> SpanTable:
    """Return a count table with the rows of an Arrow table, in whatever order they come; undoes `to_arrow`."""
    if any(column.null_count for column in arrow.columns):
        raise ValueError("a value is missing")
    lists = arrow["items"].combine_chunks()
    named = fold_names(len(table.header.get("folds", ())))  # also of those that have no rows
    items, keys = build_vocabulary(pa.concat_arrays([lists.flatten(), named]))
    firsts = np.asarray(lists.offsets)[:-1]
    start, end = (np.asarray(arrow[name], dtype=np.int64) for name in ("start", "end"))
    values = np.column_stack([np.asarray(arrow[name], dtype=np.int64) for name in table.columns])
    if (np.asarray(lists.value_lengths()) != end - start).any() or (start < 0).any() or (end <= start).any():
        raise ValueError("a span has another number of items than its positions say")
    if (values < 0).any() or table.n < 1:
        raise ValueError("a frequency is negative")
    span_code, parts = start << 32 | end, []
    if not np.isin(span_code, [first << 32 | last for first, last in table.header["spans"]]).all():
        raise ValueError("the header does not fit the rows")
    for span in table.stored_spans:
        first, last = span.columns(table.n)
        rows = np.flatnonzero(span_code == (first << 32 | last))
        span_keys = keys[firsts[rows, None] + np.arange(span.width)]
        if len(named):
            fold = keys[len(keys) - len(named) :][np.asarray(arrow["fold"])[rows]]
            span_keys = with_fold(span_keys, fold, table.header["side"])
        order = np.argsort(row_bytes(from_boundary(span_keys, table.header["side"])), kind="stable")
        if (span_keys[order[1:]] == span_keys[order[:-1]]).all(axis=1).any():
            raise ValueError("a row stands twice")
        parts.append(SpanRows(span, span_keys[order], values[rows[order]]))
    return replace(table, items=items, parts=tuple(parts))


def fold_names(folds: int) -> pa.Array:
    """Return the items by which folds are named in keys; they are among the items of a table in folds."""
    return pa.array([str(fold) for fold in range(folds)], pa.string())


def hash_items(items: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each item: a polynomial of its bytes, scrambled.

    >>> len(set(hash_items(pa.array(["", "a", "b", "ab", "ba", "aa"])).tolist()))
    6
    """
    data, bounds = buffers_of(items)
    lengths = np.diff(bounds)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, FACTOR))
    place = np.arange(len(data)) - np.repeat(bounds[:-1], lengths)  # of each byte in its item
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[place], out=sums[1:])
    return mix(np.diff(sums[bounds]))


def hash_keys(span: tuple[int, int], keys: Codes, item_hash: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each row's span and items."""
    hashes = np.full(len(keys), span[0] * 65_536 + span[1], dtype=np.uint64)
    for codes in keys.T:
        hashes *= FACTOR
        hashes += item_hash.take(codes)
    return mix(hashes)


def add_hashes(hashes: npt.NDArray[np.uint64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Go on from the hashes of rows to their values, and return two sums over the rows."""
    for column in values.T:
        hashes = hashes * FACTOR + column.view(np.uint64)
    hashes = mix(hashes)
    return np.array([hashes.sum(), mix(hashes).sum()], dtype=np.uint64)


def mix(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit numbers one to one (the finaliser of splitmix64)."""
    hashes = hashes + np.uint64(0x9E3779B97F4A7C15)
    shifted = np.empty_like(hashes)  # one array for all steps: new memory takes longer than the arithmetic
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        np.right_shift(hashes, np.uint64(shift), out=shifted)
        hashes ^= shifted
        if factor > 1:
            hashes *= np.uint64(factor)
    return hashes

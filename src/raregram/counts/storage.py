"""Count and model files, written atomically and checked when read.

A row is one span of one N-gram: `start` and `end` (positions), `items` (strings) and whole-number columns.

- Files are Arrow files (IPC): `items` is dictionary-encoded, so that a file holds one vocabulary and codes. A record
  batch has sorted rows of one span. The rows of a span are read when they are needed.
- The parts of count tables that Spark tasks write, and exported tables, are Parquet with the strings themselves.
- A count file has the rows of units and of the longest suffixes: see `raregram.counts.rows`.
- Of a table in folds, a row is one span in one fold. In Parquet the column `fold` has its number; in Arrow files its
  name stands beyond the last item.

Either way a JSON header says the kind of file, the format version and the digest of the content. The digest is made
of the header and the sum of a hash of each row. An Arrow file's header has that sum for each batch, and rows are used
only if theirs is the same. Files are data: nothing in them is executed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
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
    StoredSpans,
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

FORMAT_VERSION = 5
ROW_GROUP = 1 << 20  # values written at a time
ITEMS_AT_A_TIME = 1 << 16  # that are hashed
READ_WHOLE = 1 << 30  # bytes; on Windows, smaller files are closed as soon as they are open
METADATA_KEY = b"raregram"
HEADER = ("kind", "version", "columns", "digest", "header")  # what every header has
HEADER_DIGEST = b"raregram.sha256"  # of the header's text
ARROW = b"ARROW1"  # the first bytes of an Arrow file
COMMON = "_common_metadata"  # where a folder of Parquet files has its header
FACTOR = np.uint64(0xD1342543DE82EF95)  # of polynomials modulo 2**64
# What a file that is not what it says can make the readers raise.
DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError)

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class SpanTable:
    """What a file holds: a header, the names of the value columns, the items and the rows of every span."""

    kind: str  # "counts" or "model"
    header: dict[str, Any]
    columns: tuple[str, ...]
    items: pa.Array  # string, distinct, in byte order
    parts: Iterable[SpanRows]  # in order of their spans; a stream may cut a span into several
    stored: StoredRows | None = None  # the same by their spans, if they are read from a file when they are needed
    file_digest: str | None = None  # of the file that it was read from

    @property
    def n(self) -> int:
        """The number of items of an N-gram."""
        return int(self.header["n"])

    @property
    def stored_spans(self) -> list[Span]:
        """The spans whose rows a count table stores, and which its digest is made of."""
        spans = [Span.from_columns(start, end, self.n) for start, end in self.header["spans"]]
        return stored_spans(spans, int(self.header["min_count"]), "documents" in self.header)

    @cached_property
    def item_hash(self) -> Hashes:
        """A hash of each item."""
        return hash_items(self.items)

    def row_hashes(self, part: SpanRows) -> Hashes:
        """Return the sums of the hashes of some rows; those of several parts add up."""
        return add_hashes(hash_keys(part.span.columns(self.n), part.keys, self.item_hash), part.values)

    def digest(self) -> str:
        """Return a hexadecimal digest of the content, whatever the order of the rows."""
        return digest_of(self, sum(map(self.row_hashes, self.parts), start=np.zeros(2, np.uint64)))


def digest_of(table: SpanTable, row_hashes: Hashes) -> str:
    """Return the digest of a table from its header and the sum of its rows' hashes."""
    head = json.dumps([table.kind, table.header, table.columns], sort_keys=True)
    return hashlib.sha256(head.encode() + row_hashes.tobytes()).hexdigest()


# --- writing -----------------------------------------------------------------------------------------------------


def write(path: PathLike, table: SpanTable) -> None:
    """Write a table, some rows at a time, under its final name only when it is whole."""
    batches, total = [], np.zeros(2, np.uint64)
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
            hashes = table.row_hashes(part)
            batches.append([*part.span.columns(table.n), len(part), *hashes.tolist()])
            total += hashes
            writer.write_batch(_to_batch(part, table, schema))
        text = json.dumps({**file_header(table, total), "batches": batches})
        metadata = {METADATA_KEY: text, HEADER_DIGEST: hashlib.sha256(text.encode()).hexdigest()}
        # The header is known only now, so it stands with an empty batch at the end.
        empty = SpanRows(Span("item", 0, 1), np.empty((0, 1), np.int32), np.empty((0, len(table.columns)), np.int64))
        writer.write_batch(_to_batch(empty, table, schema), custom_metadata=metadata)


def write_parquet(path: PathLike, table: SpanTable) -> None:
    """Write a table, with the rows of any spans, as Parquet with the strings themselves, which SQL engines read."""
    import pyarrow.parquet as pq

    hashed, total = set(table.stored_spans), np.zeros(2, np.uint64)
    schema = row_schema(table.columns, "folds" in table.header)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        rows = max(ROW_GROUP // (3 + len(table.columns)), 1)
        for part in _row_groups(table.parts, rows):
            if part.span in hashed:
                total += table.row_hashes(part)
            writer.write_table(to_arrow(table, [part]), row_group_size=rows)
        writer.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(file_header(table, total))})


def file_header(table: SpanTable, row_hashes: Hashes) -> dict[str, Any]:
    """Return the header of a table whose rows' hashes add up to this."""
    return {
        "kind": table.kind,
        "version": FORMAT_VERSION,
        "columns": table.columns,
        "digest": digest_of(table, row_hashes),
        "header": table.header,
    }


def common_metadata(table: SpanTable, row_hashes: Hashes) -> bytes:
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


def _to_batch(part: SpanRows, table: SpanTable, schema: pa.Schema) -> pa.RecordBatch:
    """Lay rows of one span out as a record batch whose items are codes."""
    offsets = pa.array(np.arange(len(part) + 1, dtype=np.int32) * part.keys.shape[1])
    codes = pa.DictionaryArray.from_arrays(pa.array(part.keys.ravel()), table.items)
    positions = (pa.array(np.full(len(part), at, dtype=np.int16)) for at in part.span.columns(table.n))
    number = schema.field(3).type.to_pandas_dtype()
    values = (pa.array(column.astype(number)) for column in part.values.T)
    return pa.RecordBatch.from_arrays([*positions, pa.ListArray.from_arrays(offsets, codes), *values], schema=schema)


# --- reading -----------------------------------------------------------------------------------------------------


def read(path: PathLike, kind: str) -> SpanTable:
    """Read a table; raise `FileError` for anything but a whole file of this kind.

    Of an Arrow file the rows are read and checked later, span by span.
    """
    with damage_named(path):
        reader = _open_arrow(path) if as_path(path).is_file() and is_arrow(path) else None
    head = read_header(path, reader)
    if head["kind"] != kind:
        raise FileError(f"{path} is a raregram {head['kind']} file, expected a {kind} file")
    table = SpanTable(kind, head["header"], tuple(head["columns"]), None, (), file_digest=head["digest"])
    with damage_named(path):
        if reader is not None:
            table = replace(table, items=_vocabulary(reader))
            rows = StoredRows(path, reader, head["batches"], table)
            return replace(table, parts=rows.values(), stored=rows)
        table = from_arrow(_read_parquet(as_path(path), table), table)
        if table.digest() != head["digest"]:
            raise altered(path)
    return table


class StoredRows(StoredSpans):
    """The rows of an Arrow file by their spans; a span is read and checked when it is asked for."""

    def __init__(
        self, path: PathLike, reader: pa.RecordBatchFileReader, batches: Sequence[Sequence[int]], table: SpanTable
    ) -> None:
        self.path, self.reader, self.batches, self.table = path, reader, batches, table
        spans = [Span.from_columns(start, end, table.n) for start, end, *_ in batches]
        expected = table.stored_spans if table.kind == "counts" else []
        self.parts: dict[Span, list[int]] = {span: [] for span in sorted({*expected, *spans}, key=span_order)}
        for number, span in enumerate(spans):
            self.parts[span].append(number)
        self._read: dict[Span, SpanRows] = {}

    def __getitem__(self, span: Span) -> SpanRows:
        """Return the rows of a span."""
        if span not in self._read:
            self._read[span] = self._read_batches(span, self.parts[span])
        return self._read[span]

    def stream(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a span batch by batch, without keeping them."""
        if span in self._read:
            yield from self._read[span].cut(BATCH)
        else:
            yield from (self._read_batches(span, [number]) for number in self.parts[span])

    def _read_batches(self, span: Span, numbers: Sequence[int]) -> SpanRows:
        """Read batches of a span, and check that their rows are those that were written."""
        table, sizes = self.table, [self.batches[number][2] for number in numbers]
        rows = SpanRows(
            span,
            np.empty((sum(sizes), span.width + ("folds" in table.header)), dtype=np.int32),
            np.empty((sum(sizes), len(table.columns)), dtype=np.int64),
        )
        with damage_named(self.path):
            for number, part in zip(numbers, rows.split(sizes), strict=True):
                batch = self.reader.get_batch(number)
                batch.validate()
                part.keys[:] = batch.column("items").values.indices.to_numpy().reshape(part.keys.shape)
                for index, name in enumerate(table.columns):
                    part.values[:, index] = batch.column(name).to_numpy()
                if table.row_hashes(part).tolist() != self.batches[number][3:]:
                    raise altered(self.path)
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows themselves: another process may not have the file."""
        return RowsInMemory, (list(self.values()), list(self))

    def num_rows(self) -> int:
        """Return the number of rows of all spans, without reading them."""
        return sum(rows for _, _, rows, *_ in self.batches)


def _vocabulary(reader: pa.RecordBatchFileReader) -> pa.Array:
    """Return the items of an Arrow file, which all of its batches share."""
    items = reader.get_batch(reader.num_record_batches - 1).column("items").values.dictionary
    items.validate(full=True)
    return items.take(pa.array(np.arange(len(items))))  # with a bitmap of missing ones, as all other arrays of items


def _open_arrow(path: PathLike) -> pa.RecordBatchFileReader:
    # Not mapped into memory: where somebody shortens a file that is, the process ends.
    if is_remote(path):
        return pa.ipc.open_file(RemotePath(str(path)).open())
    local = local_path(path)
    if sys.platform == "win32" and local.stat().st_size < READ_WHOLE:  # a file that is open cannot be replaced
        return pa.ipc.open_file(pa.py_buffer(local.read_bytes()))
    return pa.ipc.open_file(pa.OSFile(str(local.absolute())))


def _open_parquet(path: Path | RemotePath) -> Any:
    import pyarrow.parquet as pq  # which most commands do not need

    # A whole path, since Arrow takes "~name" for somebody's folder and "http:" for an address.
    return pq.ParquetFile(path.open() if isinstance(path, RemotePath) else str(path.absolute()))


def _read_parquet(path: Path | RemotePath, table: SpanTable) -> pa.Table:
    """Read the rows of a file, or of all files of a folder."""
    schema = row_schema(table.columns, "folds" in table.header)
    tables = [schema.empty_table()]
    for part in part_files(path) if path.is_dir() else [path]:
        with _open_parquet(part) as file:
            tables.append(file.read(schema.names).select(schema.names).cast(schema))
    rows = pa.concat_tables(tables)
    rows.validate(full=True)
    return rows


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
    if "batches" in head and metadata.get(HEADER_DIGEST) != hashlib.sha256(text).hexdigest().encode():
        raise altered(path)
    return {name: head[name] for name in HEADER} | {"batches": head.get("batches")}


def altered(path: PathLike) -> FileError:
    """Return the error for content that is not what was written, ready to raise."""
    return FileError(f"{path} is damaged or was altered: its content does not match its digest")


def is_raregram_file(path: PathLike) -> bool:
    """Whether a file is Arrow or Parquet with raregram's header."""
    try:
        return METADATA_KEY in _file_metadata(path)
    except (pa.ArrowException, OSError, ValueError):  # ValueError: of a name that is not UTF-8
        return False


def _file_metadata(path: PathLike) -> Mapping[bytes, bytes]:
    file_path = as_path(path) / COMMON if as_path(path).is_dir() else as_path(path)
    if is_arrow(str(file_path)):
        return _arrow_metadata(_open_arrow(str(file_path)))
    with _open_parquet(file_path) as file:
        return file.metadata.metadata or {}


def _arrow_metadata(reader: pa.RecordBatchFileReader) -> Mapping[bytes, bytes]:
    """Return the metadata of an Arrow file, which stand with its last batch."""
    last = reader.num_record_batches - 1
    return (reader.get_batch_with_custom_metadata(last).custom_metadata or {}) if last >= 0 else {}


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


# --- rows as Arrow tables ----------------------------------------------------------------------------------------


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
    lists, side = arrow["items"].combine_chunks(), table.header["side"]
    named = fold_names(len(table.header.get("folds", ())))  # also of those that have no rows
    items, keys = build_vocabulary(pa.concat_arrays([lists.flatten(), named]))
    firsts = np.asarray(lists.offsets)[:-1]
    start, end = (np.asarray(arrow[name], dtype=np.int64) for name in ("start", "end"))
    values = np.column_stack([np.asarray(arrow[name], dtype=np.int64) for name in table.columns])
    parts = []
    for span in table.stored_spans:
        first, last = span.columns(table.n)
        rows = np.flatnonzero((start == first) & (end == last))
        span_keys = keys[firsts[rows, None] + np.arange(span.width)]
        if len(named):
            fold = keys[len(keys) - len(named) :][np.asarray(arrow["fold"])[rows]]
            span_keys = with_fold(span_keys, fold, side)
        order = np.argsort(row_bytes(from_boundary(span_keys, side)), kind="stable")
        parts.append(SpanRows(span, span_keys[order], values[rows[order]]))
    return replace(table, items=items, parts=tuple(parts))


def fold_names(folds: int) -> pa.Array:
    """Return the items by which folds are named in keys; they are among the items of a table in folds."""
    return pa.array([str(fold) for fold in range(folds)], pa.string())


# --- hashing ------------------------------------------------------------------------------------------------------


def hash_items(items: pa.Array) -> Hashes:
    """Return a 64-bit hash of each item: a polynomial of its bytes, scrambled.

    >>> len(set(hash_items(pa.array(["", "a", "b", "ab", "ba", "aa"])).tolist()))
    6
    """
    firsts = range(0, len(items), ITEMS_AT_A_TIME)  # since each byte takes tens of bytes on the way
    return np.concatenate([np.empty(0, np.uint64), *(_hash_items(items[at : at + ITEMS_AT_A_TIME]) for at in firsts)])


def _hash_items(items: pa.Array) -> Hashes:
    data, bounds = buffers_of(items)
    lengths = np.diff(bounds)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, FACTOR))
    place = np.arange(len(data)) - np.repeat(bounds[:-1], lengths)  # of each byte in its item
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[place], out=sums[1:])
    return mix(np.diff(sums[bounds]))


def hash_keys(span: tuple[int, int], keys: Codes, item_hash: Hashes) -> Hashes:
    """Return a 64-bit hash of each row's span and items."""
    hashes = np.full(len(keys), span[0] * 65_536 + span[1], dtype=np.uint64)
    of_items = np.empty_like(hashes)  # one array for all columns: new memory takes longer than the arithmetic
    for codes in keys.T:
        hashes *= FACTOR
        hashes += item_hash.take(codes, out=of_items, mode="clip")
    return mix(hashes)


def add_hashes(hashes: Hashes, values: npt.NDArray[np.int64]) -> Hashes:
    """Go on from the hashes of rows to their values, and return two sums over the rows."""
    hashes = hashes.copy()
    for column in values.T:
        hashes *= FACTOR
        hashes += column.view(np.uint64)
    hashes = mix(hashes)
    return np.array([hashes.sum(), mix(hashes).sum()], dtype=np.uint64)


def mix(hashes: Hashes) -> Hashes:
    """Scramble 64-bit numbers one to one (the finaliser of splitmix64)."""
    hashes = hashes + np.uint64(0x9E3779B97F4A7C15)
    shifted = np.empty_like(hashes)  # one array for all steps, too
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        np.right_shift(hashes, np.uint64(shift), out=shifted)
        hashes ^= shifted
        if factor > 1:
            hashes *= np.uint64(factor)
    return hashes

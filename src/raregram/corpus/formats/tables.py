"""Documents in Parquet, Arrow tables and JSON lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import (
    Documents,
    Options,
    Policy,
    Row,
    batches,
    byte_lines,
    decode_line,
    open_bytes,
    parse_document,
)
from raregram.corpus.formats.parquet import check_sound, parquet_batches
from raregram.errors import InputError, name_some, shorten
from raregram.text.tokenize import is_list, is_text

FILE, ROW = "_file", "_row"  # columns of a table that say from which file and row of it a document was read
ROWS = 1024  # documents of a table at a time
MOST_ITEMS, LARGEST_TEXT = 1 << 27, 1 << 28  # items, or bytes of text, of a document: to count them takes some 5 GB


def read_parquet(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a Parquet file."""
    yield from from_batches(parquet_batches(path, ROWS, options.batch_bytes), path, options)


def read_table(table: pa.Table | pa.RecordBatch | pa.RecordBatchReader, options: Options) -> Iterator[Documents]:
    """Yield the documents of an Arrow table."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    record_batches = table.to_batches(ROWS) if isinstance(table, pa.Table) else table
    return from_batches(check_sound(record_batches, "the table"), "the table", options)


def read_jsonl(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of JSON lines."""
    with open_bytes(path) as stream:
        lines = ((f"{path}, line {number}", line) for number, line in byte_lines(stream, path))
        yield from batches(json_rows(lines, options.policy), options.batch_bytes)


def json_rows(lines: Iterable[tuple[str, bytes]], policy: Policy) -> Iterator[Row]:
    """Yield the documents of (place, JSON) pairs; one that is none is left to the policy."""
    for place, line in lines:
        if not line.strip():
            continue
        try:
            yield _parse_json(line, place)
        except InputError as error:
            policy.bad(error)


def _parse_json(line: bytes, place: str) -> Row:
    text = decode_line(line, place)
    try:
        return parse_document(DECODER.decode(text), place)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, or a number that is too long
        raise InputError(f"{place} is not valid JSON: {error}") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that says two things under one name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {shorten(max(names, key=names.count))} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_distinct_keys, parse_constant=_no_constant)


class RowPlaces(Sequence[str]):
    """Names the rows of a table, by the file and row in the columns `FILE` and `ROW` where it has them."""

    def __init__(self, table: pa.Table, source: str, first: int) -> None:
        self.rows, self.source, self.first = table.num_rows, source, first
        self.read_from = [table[FILE], table[ROW]] if FILE in table.column_names else []

    def __len__(self) -> int:
        return int(self.rows)

    def __getitem__(self, row: Any) -> Any:
        """Name one row."""
        if not self.read_from:
            return f"{self.source}, row {self.first + row}"
        file, number = (column[int(row)].as_py() for column in self.read_from)
        return f"{file.removeprefix('file://')}, row {number + 1}"


def from_batches(
    record_batches: Iterable[pa.RecordBatch], source: str, options: Options, first: int = 1
) -> Iterator[Documents]:
    """Gather small record batches, cut large ones, and number their rows, beginning with `first`."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for part, bytes_ in itertools.chain.from_iterable(_cut(each, options.batch_bytes) for each in record_batches):
        waiting.append(part)
        size += bytes_
        if size >= options.batch_bytes:
            yield _from_records(waiting, source, first, options)
            first, waiting, size = first + sum(map(len, waiting)), [], 0
    if waiting:
        yield _from_records(waiting, source, first, options)


def _cut(record_batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Halve a record batch until each part has at most so many bytes, or is one row; yield parts and their bytes."""
    size = _unpacked_size(record_batch.columns)
    if len(record_batch) < 2 or size <= most:
        yield record_batch, size
    else:
        half = len(record_batch) // 2
        yield from _cut(record_batch.slice(0, half), most)
        yield from _cut(record_batch.slice(half), most)


def _unpacked_size(columns: Iterable[pa.Array]) -> int:
    """Return how many bytes columns have when words are written out that stand as numbers in a dictionary."""
    size = 0
    for column in columns:
        kind = column.type
        if is_list(kind):
            size += _unpacked_size([column.flatten()])
        elif pa.types.is_struct(kind):
            size += _unpacked_size(column.flatten())
        elif pa.types.is_dictionary(kind) and kind.value_type in (pa.string(), pa.large_string()):
            size += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
        else:
            size += column.nbytes
    return size


def _from_records(record_batches: list[pa.RecordBatch], source: str, first: int, options: Options) -> Documents:
    """Turn rows of a table into documents; those that lack something are left to the policy."""
    table = pa.Table.from_batches(record_batches)
    column = next((name for name in CONTENT if name in table.column_names), None)
    if column is None:
        raise InputError(f"{source} has no column items or text; it has {name_some(table.column_names)}")
    for name in (column, "spans", "id"):
        if table.column_names.count(name) > 1:
            raise InputError(f"{source} has several columns called {name!r}")
    columns = {name: _typed(table, name, source) for name in (column, "spans", "id") if name in table.column_names}
    places = RowPlaces(table, source, first)
    whole = np.ones(len(table), dtype=bool)
    for name in (column, "spans"):
        if name in columns:
            for row in np.flatnonzero(_lacking(columns[name], nullable=name == "spans")).tolist():
                options.policy.bad(InputError(f"{places[row]}: {name} is missing, or a part of it", row))
                whole[row] = False
    for row in np.flatnonzero(_too_large(columns[column])).tolist():
        most = f"{LARGEST_TEXT >> 20} MiB" if column == "text" else f"{MOST_ITEMS:,} items"
        options.policy.bad(InputError(f"{places[row]}: the document has more than {most}: split it", row))
        whole[row] = False
    kept = np.flatnonzero(whole)
    columns = {name: values.filter(pa.array(whole)) for name, values in columns.items()}
    texts, items = (columns[column], None) if column == "text" else (None, columns[column])
    lists = columns.get("spans", pa.nulls(len(kept), SPANS))
    spans = lists.flatten()
    return Documents(
        places if whole.all() else [places[row] for row in kept],
        texts,
        items,
        np.repeat(np.arange(len(kept)), np.asarray(pc.list_value_length(lists).fill_null(0))),
        np.asarray(pc.struct_field(spans, "start")),
        np.asarray(pc.struct_field(spans, "end")),
        pc.struct_field(spans, "label"),
        columns.get("id"),
    )


def _typed(table: pa.Table, name: str, source: str) -> pa.Array:
    """Return a column as the type that it must have."""
    column = table[name].combine_chunks() if table[name].num_chunks != 1 else table[name].chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if not TYPES[name][1](column.type):
            raise pa.ArrowInvalid("another kind of column")
        return column.cast(TYPES[name][0])
    except pa.ArrowException:
        raise InputError(f"{source}: the column {name} must hold {TYPES[name][2]}, not {column.type}") from None


def _lacking(column: pa.Array, nullable: bool) -> npt.NDArray[np.bool_]:
    """Return which rows are null, or lists with something null in them."""
    lacking = np.zeros(len(column), bool) if nullable else np.asarray(column.is_null())
    if pa.types.is_list(column.type):
        inside = column.flatten()
        parts = inside.flatten() if pa.types.is_struct(inside.type) else [inside]
        null = np.any([np.asarray(part.is_null()) for part in parts], axis=0)
        lacking[np.repeat(np.arange(len(column)), np.asarray(pc.list_value_length(column).fill_null(0)))[null]] = True
    return lacking


def _too_large(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which rows hold a document that would take too much memory."""
    is_text = pa.types.is_string(column.type)
    sizes = pc.binary_length(column) if is_text else pc.list_value_length(column)
    return np.asarray(sizes.fill_null(0)) > (LARGEST_TEXT if is_text else MOST_ITEMS)


def _may_be_text(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind) or bool(pa.types.is_null(kind))


def _holds_spans(kind: pa.DataType) -> bool:
    """Whether a type is lists of start, end and label; empty lists may have no type."""
    if pa.types.is_null(kind) or (is_list(kind) and pa.types.is_null(kind.value_type)):
        return True
    if not is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    inside = {field.name: field.type for field in kind.value_type}
    bounds = all(pa.types.is_integer(inside.get(name, pa.null())) or pa.types.is_null(inside.get(name, pa.null()))
                 for name in ("start", "end"))  # fmt: skip
    return {"start", "end", "label"} <= set(inside) and bounds


CONTENT = ("items", "text")
SPANS = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]))
TYPES: dict[str, tuple[pa.DataType, Callable[[pa.DataType], bool], str]] = {
    "text": (pa.string(), is_text, "strings"),
    "items": (
        pa.list_(pa.string()),
        lambda kind: is_list(kind) and _may_be_text(kind.value_type),
        "lists of strings",
    ),
    "spans": (SPANS, _holds_spans, "lists of start, end (whole numbers) and label"),
    "id": (pa.string(), lambda kind: True, "names"),
}


def documents_table(documents: Documents) -> pa.Table:
    """Return a batch of documents as an Arrow table, as `read_table` takes it."""
    order = np.argsort(documents.span_document, kind="stable")
    counts = np.bincount(documents.span_document, minlength=len(documents))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    spans = pa.StructArray.from_arrays(
        [documents.span_start[order], documents.span_end[order], documents.span_label.take(pa.array(order))],
        names=["start", "end", "label"],
    )
    name = "text" if documents.texts is not None else "items"
    return pa.table({name: documents.content, "spans": pa.ListArray.from_arrays(offsets, spans)})

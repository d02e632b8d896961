"""Documents in Parquet, Arrow tables and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raregram.corpus import (
    Documents,
    Options,
    Row,
    batches,
    byte_lines,
    naming,
    open_bytes,
    parse_document,
    text_batch,
)
from raregram.errors import InputError

ROWS = 1024  # documents of a table at a time


def read_parquet(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a Parquet file."""
    with naming(path), pq.ParquetFile(path) as file:
        yield from _from_batches(file.iter_batches(batch_size=ROWS), path, options)


def read_table(table: pa.Table | pa.RecordBatch | pa.RecordBatchReader, options: Options) -> Iterator[Documents]:
    """Yield the documents of an Arrow table."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    return _from_batches(table.to_batches(ROWS) if isinstance(table, pa.Table) else table, "the table", options)


def read_jsonl(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of JSON lines."""
    with open_bytes(path) as stream:
        yield from batches(_jsonl_rows(byte_lines(stream, path), path, options), options.batch_bytes)


def _jsonl_rows(lines: Iterable[tuple[int, bytes]], path: str, options: Options) -> Iterator[Row]:
    for number, line in lines:
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            yield parse_document(_parse_json(line, place), place)
        except InputError as error:
            options.policy.bad(error)


def _parse_json(line: bytes, place: str) -> object:
    try:
        return json.loads(line)
    except UnicodeDecodeError:
        raise InputError(f"{place} is not valid UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{place} is not valid JSON: {error}") from None


def _from_batches(record_batches: Iterable[pa.RecordBatch], source: str, options: Options) -> Iterator[Documents]:
    """Gather small record batches, and number their rows."""
    first, waiting, size = 1, [], 0
    for record_batch in record_batches:
        waiting.append(record_batch)
        size += record_batch.nbytes
        if size >= options.batch_bytes:
            yield (made := _from_records(waiting, source, first))
            first, waiting, size = first + len(made), [], 0
    if waiting:
        yield _from_records(waiting, source, first)


def _from_records(record_batches: list[pa.RecordBatch], source: str, first: int) -> Documents:
    """Turn rows of a table into documents."""
    table = pa.Table.from_batches(record_batches).combine_chunks()
    column = next((name for name in ("items", "text") if name in table.column_names), None)
    if column is None:
        raise InputError(f"{source} has no column items or text; it has {', '.join(table.column_names)}")
    content = _one_chunk(table[column])
    if content.null_count:
        row = int(np.flatnonzero(np.asarray(content.is_null()))[0])
        raise InputError(f"{source}, row {first + row}: {column} is missing")
    if column == "items" and content.flatten().null_count:
        raise InputError(f"{source}, rows {first} to {first + len(content) - 1}: an item is missing (null)")
    texts, items = (content, None) if column == "text" else (None, content)
    bare = text_batch(texts, source, "row", first)
    ids = _one_chunk(table["id"]).cast(pa.string()) if "id" in table.column_names else None
    if "spans" not in table.column_names:
        return Documents(
            bare.places, texts, items, bare.span_document, bare.span_start, bare.span_end, bare.span_label, ids
        )
    lists = _one_chunk(table["spans"])
    spans = lists.flatten()
    if not pa.types.is_struct(spans.type) or not {"start", "end", "label"} <= set(spans.type.names):
        raise InputError(f"{source}: the column spans must hold lists of start, end and label, not {lists.type}")
    if any(pc.struct_field(spans, name).null_count for name in ("start", "end", "label")):
        raise InputError(f"{source}, rows {first} to {first + len(content) - 1}: a span lacks start, end or label")
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0))
    start, end = (np.asarray(pc.struct_field(spans, name), dtype=np.int64) for name in ("start", "end"))
    label = pc.struct_field(spans, "label").cast(pa.string())
    return Documents(bare.places, texts, items, np.repeat(np.arange(len(table)), lengths), start, end, label, ids)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


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

"""Documents in Parquet, Arrow tables and JSON lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import (
    Documents,
    Location,
    Options,
    Row,
    batches,
    byte_lines,
    open_bytes,
)
from raregram.corpus.encoding import not_utf8
from raregram.corpus.formats.objects import MORE, ignored, parse_document
from raregram.corpus.formats.parquet import check_sound, parquet_batches
from raregram.corpus.samples import check_field, in_no_sample, is_field
from raregram.errors import InputError, name_some
from raregram.text.tokenize import is_list, is_text

FILE, ROW = "_file", "_row"  # columns of a table that say from which file and row of it a document was read
ROWS = 1024  # documents of a table at a time
Name: TypeAlias = Callable[[dict[str, Any]], str]
MOST_ITEMS, LARGEST_TEXT = 1 << 27, 1 << 28  # items, or bytes of text, of a document: to count them takes some 5 GB


def read_parquet(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a Parquet file."""
    yield from from_batches(parquet_batches(path, ROWS, options.batch_bytes), Location(path, "row"), options)


def read_table(table: pa.RecordBatchReader, options: Options) -> Iterator[Documents]:
    """Yield the documents of an Arrow table."""
    location = Location("the table", "row")
    return from_batches(check_sound(table, location), location, options)


def read_jsonl(path: str, options: Options, name: Name | None = None) -> Iterator[Row]:
    """Yield the documents of JSON lines; `name` gives an id to those of a corpus that has none."""
    with open_bytes(path) as stream:
        lines = ((Location(path, "line", number), line) for number, line in byte_lines(stream, path))
        yield from json_rows(lines, options, name)


def read_sotu(path: str, options: Options) -> Iterator[Row]:
    """Yield the State of the Union address of a file, an object with `year`, `name`, `party` and `text`."""
    return read_jsonl(path, options, lambda address: f"{address.get('year')} {address.get('name')}")


def json_rows(lines: Iterable[tuple[Location, bytes]], options: Options, name: Name | None = None) -> Iterator[Row]:
    """Yield the documents of lines of JSON."""
    for location, line in lines:
        if not line.strip():
            continue
        try:
            try:
                document = json.loads(line.decode())
            except UnicodeDecodeError:
                raise not_utf8(location, line, location.source) from None
            except (ValueError, RecursionError) as error:  # not JSON, or a number that is too long
                raise InputError(f"{location} is not valid JSON: {error}") from None
            if name is not None and isinstance(document, dict):
                document.setdefault("id", name(document))
            yield parse_document(document, location, options.log, by=options.by)
        except InputError as error:
            options.log.skip_or_raise(error)


def from_batches(
    record_batches: Iterable[pa.RecordBatch], location: Location, options: Options
) -> Iterator[Documents]:
    """Gather small record batches and cut large ones; `location` is that of their first row."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for part, bytes_ in itertools.chain.from_iterable(_cut(each, options.batch_bytes) for each in record_batches):
        waiting.append(part)
        size += bytes_
        if size >= options.batch_bytes:
            yield from _from_records(waiting, location, options)
            location, waiting, size = location.at(sum(map(len, waiting))), [], 0
    if waiting:
        yield from _from_records(waiting, location, options)


def _cut(record_batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Halve a record batch until each part has at most so many bytes, or is one row; yield parts and their bytes."""
    size, half = _unpacked_size(record_batch.columns), len(record_batch) // 2
    if not half or size <= most:
        yield record_batch, size
    else:
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


def _from_records(record_batches: list[pa.RecordBatch], location: Location, options: Options) -> Iterator[Documents]:
    """Turn rows of a table into documents, without those that lack something."""
    table, source = pa.Table.from_batches(record_batches), location.source
    for name in (*CONTENT, "spans", "id", *MORE, *([options.by] if options.by else [])):
        if table.column_names.count(name) > 1:
            raise InputError(f"{source} has several columns called {name!r}")
    check_field(options.by, (name for name in table.column_names if name not in (FILE, ROW)), source)
    locations = [location]
    if FILE in table.column_names:
        read_from = zip(table[FILE].to_pylist(), table[ROW].to_pylist(), strict=True)
        locations = [Location(file, "row", row + 1) for file, row in read_from]
    if have_other_fields(table.schema):
        yield from batches(_from_objects(table, locations, options), options.batch_bytes)
    else:
        yield _from_columns(table, locations, source, options)


def have_other_fields(schema: pa.Schema) -> bool:
    """Whether rows have fields of other tools, and so are read one by one: entities, tags, or tokens with offsets."""
    inside = {field.name: field.type.value_type for field in schema if is_list(field.type)}
    structs = {name: kind for name, kind in inside.items() if pa.types.is_struct(kind)}
    by_tokens = "spans" in structs and structs["spans"].get_field_index("token_start") >= 0
    return by_tokens or "tokens" in structs or "entities" in inside or "ner_tags" in inside


def _from_objects(table: pa.Table, locations: list[Location], options: Options) -> Iterator[Row]:
    """Yield rows of a table that are documents with fields of other tools."""
    names, tag_names = table.column_names, _tag_names(table.schema)
    wanted = [name for name in names if name in ("id", *CONTENT, "spans", *MORE, options.by)]
    for row, document in enumerate(table.select(wanted).to_pylist()):
        location = locations[0].at(row) if len(locations) == 1 else locations[row]
        try:
            yield parse_document(document, location, options.log, tag_names, options.by)
        except InputError as error:
            options.log.skip_or_raise(InputError(str(error), row))


def _tag_names(schema: pa.Schema) -> list[str] | None:
    """Return the names of the numbers in `ner_tags`, as the library `datasets` writes them into a schema."""
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]["ner_tags"]
        while "names" not in feature:
            feature = feature[0] if isinstance(feature, list) else feature["feature"]
        return [str(name) for name in feature["names"]]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return None


def _from_columns(table: pa.Table, locations: list[Location], source: str, options: Options) -> Documents:
    """Turn columns of a table into documents; tokens are items."""
    names = table.column_names
    if "tokens" in names and "items" not in names and _holds_items(table.schema.field("tokens").type):
        table = table.rename_columns(["items" if name == "tokens" else name for name in names])
    column = next((name for name in CONTENT if name in table.column_names), None)
    if column is None:
        there = [name for name in table.column_names if name not in (FILE, ROW)]
        raise InputError(
            f"{source} has no column items or text; it has {name_some(there)}: rename the one that holds the text"
        )
    columns = {name: _typed(table, name, source) for name in (column, "spans", "id") if name in table.column_names}
    in_texts = column == "text"
    if "spans" not in columns:
        for field in table.schema:
            if field.name not in columns and is_list(field.type) and _holds_spans(field.type):
                options.log.note(field.name, ignored(source, field.name, "column"))
    lists = columns.setdefault("spans", pa.nulls(len(table), SPANS))
    spans = lists.flatten()
    documents = Documents(
        locations,
        columns[column] if in_texts else None,
        None if in_texts else columns[column],
        np.repeat(np.arange(len(table)), np.asarray(pc.list_value_length(lists).fill_null(0))),
        np.asarray(pc.struct_field(spans, "start").fill_null(0)),
        np.asarray(pc.struct_field(spans, "end").fill_null(0)),
        pc.struct_field(spans, "label"),
        columns.get("id"),
        untagged=np.asarray(lists.is_null()) if lists.null_count else None,
        sample=_sample_column(table, options.by, source) if is_field(options.by) else None,
    )
    sizes = pc.binary_length(columns[column]) if in_texts else pc.list_value_length(columns[column])
    most = f"{LARGEST_TEXT >> 20} MiB" if in_texts else f"{MOST_ITEMS:,} items"
    problems = {
        f"{column} is missing, or a part of it": np.asarray(columns[column].is_null()) | _have_nulls(columns[column]),
        "spans is missing, or a part of it": _have_nulls(lists),
        f"the document has more than {most}: split it": np.asarray(sizes.fill_null(0))
        > (LARGEST_TEXT if in_texts else MOST_ITEMS),
    }
    if documents.sample is not None:
        empty = pc.equal(pc.binary_length(documents.sample), 0).fill_null(True)
        problems[in_no_sample(options.by)] = np.asarray(empty)
    whole = np.ones(len(table), dtype=bool)
    for problem, rows in problems.items():
        for row in np.flatnonzero(rows & whole).tolist():
            options.log.skip_or_raise(InputError(f"{documents.location(row)}: {problem}", row))
            whole[row] = False
    return documents if whole.all() else documents.select(whole)


def _typed(table: pa.Table, name: str, source: str) -> pa.Array:
    """Return a column as the type that it must have."""
    column = _plain_column(table, name)
    try:
        if not TYPES[name][1](column.type):
            raise pa.ArrowInvalid("another kind of column")
        return column.cast(TYPES[name][0])
    except pa.ArrowException:
        raise InputError(f"{source}: the column {name} must hold {TYPES[name][2]}, not {column.type}") from None


def _plain_column(table: pa.Table, name: str | None) -> pa.Array:
    """Return a column as one array, without a dictionary."""
    column = table[name].combine_chunks() if table[name].num_chunks != 1 else table[name].chunk(0)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _sample_column(table: pa.Table, name: str | None, source: str) -> pa.Array:
    """Return the column that says the sample of each document."""
    column = _plain_column(table, name)
    kinds = (is_text, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InputError(f"{source}: the column {name} must hold names or whole numbers, not {column.type}")
    return column.cast(pa.string())


def _have_nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which rows are lists with something null in them."""
    found = np.zeros(len(column), dtype=bool)
    if pa.types.is_list(column.type):
        inside = column.flatten()
        parts = inside.flatten() if pa.types.is_struct(inside.type) else [inside]
        null = np.any([np.asarray(part.is_null()) for part in parts], axis=0)
        found[np.repeat(np.arange(len(column)), np.asarray(pc.list_value_length(column).fill_null(0)))[null]] = True
    return found


def _holds_items(kind: pa.DataType) -> bool:
    """Whether a type is lists of strings, plain or as a dictionary; empty lists may have no type."""
    inside = kind.value_type if is_list(kind) else kind
    inside = inside.value_type if pa.types.is_dictionary(inside) else inside
    return is_list(kind) and (is_text(inside) or bool(pa.types.is_null(inside)))


def _holds_spans(kind: pa.DataType) -> bool:
    """Whether a type is lists of start, end and label; empty lists may have no type."""
    inside = kind.value_type if is_list(kind) else kind
    if not is_list(kind) or not pa.types.is_struct(inside):
        return bool(pa.types.is_null(inside))
    types = {field.name: field.type for field in inside}
    bounds = [types.get(name, pa.string()) for name in ("start", "end")]
    return "label" in types and all(pa.types.is_integer(bound) or pa.types.is_null(bound) for bound in bounds)


CONTENT = ("items", "text")
SPANS = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]))
TYPES: dict[str, tuple[pa.DataType, Callable[[pa.DataType], bool], str]] = {
    "text": (pa.string(), is_text, "strings"),
    "items": (pa.list_(pa.string()), _holds_items, "lists of strings"),
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
    mask = None if documents.untagged is None else pa.array(documents.untagged)
    return pa.table({name: documents.content, "spans": pa.ListArray.from_arrays(offsets, spans, mask=mask)})

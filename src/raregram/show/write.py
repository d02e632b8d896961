"""Writers of scores: a line, a JSON object or a table row for each context.

Tables of several files become one: columns are matched by name, and those that a file lacks are empty. Columns that
do not fit together, or into the format, raise an error before anything is written.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from raregram.corpus.contexts import Batch
from raregram.corpus.documents import COMPRESSIONS, Location
from raregram.errors import CONTROLS, InputError, ParameterError, must_be, printable
from raregram.files import atomic_path
from raregram.measure.results import Results, show_value
from raregram.measure.score import BOUNDARY, VISIBLE_SPACE
from raregram.remote import local_path
from raregram.text.tokenize import buffers_of, is_list, is_text

Columns = Mapping[str, pa.Array]
Scores = Columns  # those that scoring adds
Lines = Callable[[], pa.Array]  # returns contexts as lines of text
Write = Callable[[Batch, Lines | None, Scores], None]

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}
TEXT_ENDINGS = ("", ".txt", ".tsv")
SIMPLE = (pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)  # in text formats
DIGITS = 4  # behind the point of a score in text
UNESCAPED = re.compile(f"[{CONTROLS}]")  # JSON itself leaves some of these unescaped
IN_JSON_ESCAPED = '["\\\\' + re.sub(r"\\u(\w{4})", r"\\x{\1}", CONTROLS) + "]"  # in Arrow's syntax


def output_format(out: str | None, as_json: bool) -> str:
    """Return the format of scores: of a file by the ending of its name, on standard output JSON lines or text."""
    if out is None:
        return "json" if as_json else "text"
    ending = Path(out).suffix
    if ending in COMPRESSIONS:
        raise ParameterError(f"scores are not compressed: write {out.removesuffix(ending)} instead")
    if ending.lower() in TEXT_ENDINGS:
        return "text"
    if ending.lower() not in FORMATS:
        texts = f"{', '.join(filter(None, TEXT_ENDINGS))} or no ending for text"
        raise must_be("out", "this command", f"a name that ends in {', '.join(FORMATS)}; {texts}", out)
    return FORMATS[ending.lower()]


def table_format(out: str) -> str | None:
    """Return the format of a table by the ending of its file's name; None for a folder."""
    ending = Path(out).suffix.lower()
    if ending in FORMATS:
        return FORMATS[ending]
    if ending and not out.endswith(("/", os.sep)) and not local_path(out).is_dir():
        known = f"a folder, with a slash where its name has a dot, or a name that ends in {', '.join(FORMATS)}"
        raise must_be("out", "this command", known, out)
    return None


@contextmanager
def score_writer(out: str | None, form: str, heads: Sequence[Batch], added: pa.Schema, kind: str) -> Iterator[Write]:
    """Give a function that writes scores to a file, which gets its name only when it is complete.

    Args:
        out: the file; None for standard output.
        form: "parquet", "csv", "json" or "text".
        heads: a batch of each source, with or without rows, for its columns.
        added: the columns that scoring adds.
        kind: "words" or "letters": how N-grams are shown as text.
    """
    for head in heads if form != "text" else ():
        for name in filter(head.all_columns.__contains__, added.names):
            raise ParameterError(f"{head.source} has a column {name!r} already: name the new one with --as")
    with ExitStack() as stack:
        sink: BinaryIO = sys.stdout.buffer
        if out is not None:
            sink = stack.enter_context(stack.enter_context(atomic_path(out)).open("wb"))
        yield stack.enter_context(WRITERS[form](sink, heads, added, kind))


@contextmanager
def _text_writer(sink: BinaryIO, heads: Sequence[Batch], _: pa.Schema, kind: str) -> Iterator[Write]:
    """Lines: the scores, the label where some source has labels, the items; tabs between them."""
    labelled = any("label" in head.columns for head in heads)
    for head in heads:
        _label_texts(head)  # raises where they cannot be written

    def write(batch: Batch, lines: Lines | None, scores: Scores) -> None:
        assert lines is not None
        columns = [pc.round(values, DIGITS).cast(pa.string()) for values in scores.values()]
        columns += [_label_texts(batch)] if labelled else []
        tabbed = chain.from_iterable((column, "\t") for column in columns)
        sink.write(buffers_of(pc.binary_join_element_wise(*tabbed, lines(), "\n", ""))[0].data)
        sink.flush()

    yield write


def write_results(results: Results, out: str | None, form: str, kind: str) -> None:
    """Write a ranking to a file or to standard output; as text, boundaries stand below each other."""
    if form == "json" and out is None:
        print(to_json(results.table.to_pylist(), sys.stdout.encoding))
        return

    def lines() -> pa.Array:
        shown = {name: list(map(show_value, results[name].to_pylist())) for name in results.columns}
        for name in {"ngram", "left", "right"} & shown.keys() if kind == "letters" else ():
            shown[name] = [text.replace(" ", VISIBLE_SPACE) for text in shown[name]]
        columns = list(shown.values())
        if "left" in results.columns:
            *columns, left, right = columns
            width = max(map(len, left), default=0)
            columns.append(
                [f"{before:>{width}} {BOUNDARY} {after}" for before, after in zip(left, right, strict=True)]
            )
        return pa.array(map("\t".join, zip(*columns, strict=True)), pa.string())

    table = results.table.combine_chunks()
    columns = dict(zip(table.column_names, (column.chunk(0) for column in table.columns), strict=True))
    last = table.column_names[-1]
    batch = Batch(Location("the ranking", "row"), columns[last], {}, columns, last)
    with score_writer(out, form, [batch.head(0)], pa.schema([]), kind) as write:
        write(batch, lines, {})


def _label_texts(batch: Batch) -> pa.Array:
    """Return labels as text on one line; several labels of a context are separated by commas."""
    labels = batch.columns.get("label", pa.nulls(len(batch), pa.string()))
    try:
        if is_list(labels.type):
            names = labels.cast(pa.list_(pa.string())).to_pylist()
            labels = pa.array([",".join(filter(None, some or [])) for some in names], pa.string())
        encoded = labels.cast(pa.string()).fill_null("").dictionary_encode()
    except pa.ArrowException:
        raise InputError(f"{batch.source}: labels of the type {labels.type} cannot be written as text") from None
    return pa.array(map(printable, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)


@contextmanager
def _json_writer(sink: BinaryIO, heads: Sequence[Batch], added: pa.Schema, _: str) -> Iterator[Write]:
    """JSON lines: an object for each context, with all columns."""
    names = list(dict.fromkeys([*(name for head in heads for name in head.all_columns), *added.names]))
    for head in heads:
        _plain(head.all_columns, head.source, "JSON")  # raises where they cannot be written

    def write(batch: Batch, _: Lines | None, scores: Scores) -> None:
        plain = _plain({**batch.all_columns, **scores}, batch.source, "JSON")
        empty = pa.nulls(len(batch), pa.string())
        texts = ((f", {to_json(name)}: ", _json_texts(plain.get(name, empty))) for name in names)
        first, *rest = chain.from_iterable(texts)
        if len(batch):
            rows = pc.binary_join_element_wise("{" + first.removeprefix(", "), *rest, "}\n", "")
            sink.write(buffers_of(rows)[0].data)
        sink.flush()

    yield write


def _json_texts(column: pa.Array) -> pa.Array:
    """Return each value of a column as JSON."""
    if is_text(column.type):
        texts = column.cast(pa.string())
        quoted = pc.binary_join_element_wise('"', texts, '"', "")
        rare = pc.match_substring_regex(texts, IN_JSON_ESCAPED).fill_null(False)
        escaped = [to_json(text) for text in texts.filter(rare).to_pylist()]
        return pc.replace_with_mask(quoted, rare, pa.array(escaped, pa.string())).fill_null("null")
    floats = pa.types.is_floating(column.type)
    if any(is_kind(column.type) for is_kind in SIMPLE) and not (floats and not pc.all(pc.is_finite(column)).as_py()):
        texts = column.cast(pa.string()).fill_null("null")
        return pc.replace_substring_regex(texts, r"^(-?\d+)$", r"\1.0") if floats else texts  # 0.0, not 0
    return pa.array(map(to_json, column.to_pylist()), pa.string())


@contextmanager
def _csv_writer(sink: BinaryIO, heads: Sequence[Batch], added: pa.Schema, kind: str) -> Iterator[Write]:
    """CSV: lists of items are written as text, and so are columns whose types differ between files."""

    def columns(batch: Batch, lines: Lines | None, scores: Scores) -> Columns:
        found = {**batch.all_columns, **scores}
        if is_list(found[batch.name].type):
            found[batch.name] = pa.array([], pa.string()) if lines is None else lines()
        return _plain(found, batch.source, "CSV")

    schema = _common_schema({head.source: columns(head.head(0), None, {}) for head in heads}, added, pa.string())
    with pyarrow.csv.CSVWriter(sink, schema) as writer:
        yield lambda batch, lines, scores: _write_rows(writer, schema, batch, columns(batch, lines, scores))


@contextmanager
def _parquet_writer(sink: BinaryIO, heads: Sequence[Batch], added: pa.Schema, _: str) -> Iterator[Write]:
    """Parquet: all columns as they are."""
    import pyarrow.parquet as pq

    schema = _common_schema({head.source: head.all_columns for head in heads}, added)
    with pq.ParquetWriter(sink, schema) as writer:
        yield lambda batch, _, scores: _write_rows(writer, schema, batch, {**batch.all_columns, **scores})


WRITERS = {"text": _text_writer, "json": _json_writer, "csv": _csv_writer, "parquet": _parquet_writer}


def _write_rows(writer: Any, schema: pa.Schema, batch: Batch, columns: Columns) -> None:
    """Write a batch as rows of a table; columns that it lacks are empty."""
    empty = pa.nulls(len(batch))
    try:
        arrays = [columns.get(field.name, empty).cast(field.type) for field in schema]
    except pa.ArrowException as error:
        raise InputError(f"{batch.source} does not fit into one table with the others: {error}") from error
    writer.write_table(pa.table(arrays, schema=schema))


def _common_schema(tables: Mapping[str, Columns], added: pa.Schema, fallback: pa.DataType | None = None) -> pa.Schema:
    """Return the columns of one table for several, and those added; where types differ too much, it is `fallback`."""
    types: dict[str, dict[pa.DataType, str]] = {}  # by name, each with a source that has it
    for source, columns in tables.items():
        for name, column in columns.items():
            types.setdefault(name, {}).setdefault(column.type, source)
    return pa.schema([*((name, _common_type(name, found, fallback)) for name, found in types.items()), *added])


def _common_type(name: str, found: Mapping[pa.DataType, str], fallback: pa.DataType | None) -> pa.DataType:
    """Return a type that holds all values of some types exactly: whole numbers, floats or strings of another size."""
    if len(found) == 1:
        return next(iter(found))
    kinds = {kind.value_type if pa.types.is_dictionary(kind) else kind for kind in found} - {pa.null()}
    if len(kinds) == 1:
        return kinds.pop()
    if all(map(is_text, kinds)):
        return pa.large_string()
    alike = any(all(map(is_kind, kinds)) for is_kind in (pa.types.is_integer, pa.types.is_floating))
    if alike and not (pa.uint64() in kinds and any(map(pa.types.is_signed_integer, kinds))):
        schemas = [pa.schema([(name, kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    if fallback is not None:
        return fallback
    (first, in_first), (second, in_second), *_ = found.items()
    raise InputError(
        f"the column {name!r} holds {first} in {in_first} and {second} in {in_second}, which do not fit into one "
        "table: write .csv or .jsonl, or score the files one by one"
    )


def _plain(columns: Columns, source: str, form: str) -> dict[str, pa.Array]:
    """Return columns in the types that a text format has: numbers, truth values, strings; in JSON also nested."""
    plain = {}
    for name, column in columns.items():
        try:
            plain[name] = column.cast(_plain_type(column.type, nested=form == "JSON"))
        except (pa.ArrowException, TypeError):
            raise InputError(
                f"{source}: the column {name!r} holds {column.type}, which {form} cannot: write .parquet instead"
            ) from None
    return plain


def _plain_type(kind: pa.DataType, nested: bool) -> pa.DataType:
    """Return the type as which a text format shows values; raise `TypeError` where it shows none."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        return _plain_type(getattr(kind, "storage_type", None) or kind.value_type, nested)
    if any(is_kind(kind) for is_kind in SIMPLE):
        return kind
    if nested and is_list(kind):
        return pa.list_(_plain_type(kind.value_type, nested))
    if nested and pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type, nested), _plain_type(kind.item_type, nested))
    if nested and pa.types.is_struct(kind) and len({field.name for field in kind}) == kind.num_fields:
        return pa.struct([(field.name, _plain_type(field.type, nested)) for field in kind])
    if is_text(kind) or pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        return pa.string()
    raise TypeError(f"{kind} cannot be shown as text")


def to_json(value: Any, encoding: str = "utf-8") -> str:
    """Return JSON on one line; characters that an encoding lacks, and control characters, are escaped."""
    plain = finite(value)
    text = json.dumps(plain, ensure_ascii=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(plain)
    return UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def finite(value: Any) -> Any:
    """Return a value as JSON can have it: infinity and NaN become the strings "inf", "-inf" and "nan"."""
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value

"""Scores out: a line, a JSON object or a table row for each context, as they come.

Tables of several files become one: columns are matched by their names, and those that a file lacks are empty. What
does not fit together, or into the format, is refused before anything is written.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from raregram.atomic import atomic_path
from raregram.corpus.contexts import Batch
from raregram.corpus.documents import COMPRESSIONS
from raregram.errors import CONTROLS, InputError, ParameterError, printable
from raregram.text.ngrams import NGrams
from raregram.text.tokenize import is_list, is_text

Scores = Mapping[str, pa.Array]  # the columns that scoring adds
Write = Callable[[Batch, NGrams | None, Scores], None]  # contexts, the same as items, their scores
Opener = Callable[[BinaryIO], AbstractContextManager[Write]]

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}
SIMPLE = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
)  # as text formats have them
UNESCAPED = re.compile(f"[{CONTROLS}]")  # JSON itself leaves some of them as they are


def output_format(out: str | None, as_json: bool) -> str:
    """Return how scores are written: to a file by the end of its name, else as JSON lines or as text."""
    if out is None:
        return "json" if as_json else "text"
    ending = Path(out).suffix
    if ending in COMPRESSIONS:
        raise ParameterError(f"scores are not compressed: write {out.removesuffix(ending)} instead")
    return ENDINGS.get(ending.lower(), "text")


@contextmanager
def score_writer(out: str | None, form: str, heads: Sequence[Batch], added: pa.Schema, kind: str) -> Iterator[Write]:
    """Give a function that writes scores to a file, which has its name only when it is whole, or to standard output.

    Args:
        out: the file; None for standard output.
        form: "parquet", "csv", "json" or "text".
        heads: a batch of each source, with or without rows: its columns are what counts.
        added: the columns that scoring adds.
        kind: "words" or "letters": how N-grams are shown as text.
    """
    for head in heads if form != "text" else ():
        for name in filter(head.all_columns.__contains__, added.names):
            raise ParameterError(f"{head.source} has a column {name!r} already: name the new one with --as")
    opener = OPENERS[form](heads, added, kind)
    with ExitStack() as stack:
        if out is None:
            sink: Any = sys.stdout.buffer
        else:
            sink = stack.enter_context(stack.enter_context(atomic_path(out)).open("wb"))
        yield stack.enter_context(opener(sink))


def _open_text(heads: Sequence[Batch], _: pa.Schema, kind: str) -> Opener:
    """Lines: the scores, the label where some source has labels, the items; tabs between them."""
    labelled = any("label" in head.columns for head in heads)
    for head in heads:
        _label_texts(head)  # raises where they cannot be written

    def show(batch: Batch, ngrams: NGrams | None, scores: Scores) -> bytes:
        assert ngrams is not None
        columns = [values.cast(pa.string()) for values in scores.values()]
        columns += [_label_texts(batch)] if labelled else []
        lines = pc.binary_join_element_wise(*columns, ngrams.lines(kind), "\t")
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        return bytes(joined[0].as_buffer()) + b"\n"

    return lambda sink: _stream(sink, show)


def _label_texts(batch: Batch) -> pa.Array:
    """Return labels as text on one line; several labels of a context have commas between them."""
    labels = batch.columns.get("label", pa.nulls(len(batch), pa.string()))
    try:
        if is_list(labels.type):
            names = labels.cast(pa.list_(pa.string())).to_pylist()
            labels = pa.array([",".join(filter(None, some or [])) for some in names], pa.string())
        encoded = labels.cast(pa.string()).fill_null("").dictionary_encode()
    except pa.ArrowException:
        raise InputError(f"{batch.source}: labels of the type {labels.type} cannot be written as text") from None
    return pa.array(map(printable, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)


def _open_json(heads: Sequence[Batch], added: pa.Schema, _: str) -> Opener:
    """JSON lines: an object for each context, with all columns."""
    names = list(dict.fromkeys([*(name for head in heads for name in head.all_columns), *added.names]))
    for head in heads:
        for name, column in head.all_columns.items():
            _plain(column, name, head.source, "JSON")

    def show(batch: Batch, _: NGrams | None, scores: Scores) -> bytes:
        columns = {**batch.all_columns, **scores}
        plain = {name: _plain(column, name, batch.source, "JSON") for name, column in columns.items()}
        empty = pa.nulls(len(batch))
        rows = pa.table({name: plain.get(name, empty) for name in names}).to_pylist()
        return "".join(to_json(row) + "\n" for row in rows).encode()

    return lambda sink: _stream(sink, show)


def _open_csv(heads: Sequence[Batch], added: pa.Schema, kind: str) -> Opener:
    """CSV: a list of items is written as text; types that differ between files are, too."""

    def columns(batch: Batch, ngrams: NGrams | None, scores: Scores) -> dict[str, pa.Array]:
        found = {**batch.all_columns, **scores}
        if is_list(found[batch.name].type):
            found[batch.name] = pa.array([], pa.string()) if ngrams is None else ngrams.lines(kind)
        return {name: _plain(column, name, batch.source, "CSV") for name, column in found.items()}

    schema = _common_schema({head.source: columns(head.head(0), None, {}) for head in heads}, added, pa.string())
    return lambda sink: _table(sink, schema, pyarrow.csv.CSVWriter, columns)


def _open_parquet(heads: Sequence[Batch], added: pa.Schema, _: str) -> Opener:
    """Parquet: all columns as they are."""
    schema = _common_schema({head.source: head.all_columns for head in heads}, added)
    return lambda sink: _table(
        sink, schema, pq.ParquetWriter, lambda batch, _, scores: {**batch.all_columns, **scores}
    )


OPENERS = {"text": _open_text, "json": _open_json, "csv": _open_csv, "parquet": _open_parquet}


def _common_schema(
    tables: Mapping[str, Mapping[str, pa.Array]], added: pa.Schema, fallback: pa.DataType | None = None
) -> pa.Schema:
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


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _plain(column: pa.Array, name: str, source: str, form: str) -> pa.Array:
    """Return a column in the types that a text format has: numbers, truth values, strings; in JSON also nested."""
    try:
        return column.cast(_plain_type(column.type, nested=form == "JSON"))
    except (pa.ArrowException, TypeError):
        raise InputError(
            f"{source}: the column {name!r} holds {column.type}, which {form} cannot: write .parquet instead"
        ) from None


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


@contextmanager
def _stream(sink: BinaryIO, show: Callable[[Batch, NGrams | None, Scores], bytes]) -> Iterator[Write]:
    """Give a function that shows each batch and hands it on at once."""

    def write(batch: Batch, ngrams: NGrams | None, scores: Scores) -> None:
        if len(batch):
            sink.write(show(batch, ngrams, scores))
            sink.flush()

    yield write


@contextmanager
def _table(
    sink: BinaryIO,
    schema: pa.Schema,
    open_writer: Callable[[BinaryIO, pa.Schema], Any],
    columns: Callable[[Batch, NGrams | None, Scores], Mapping[str, pa.Array]],
) -> Iterator[Write]:
    """Give a function that writes batches as rows of one table."""
    with open_writer(sink, schema) as writer:

        def write(batch: Batch, ngrams: NGrams | None, scores: Scores) -> None:
            found = columns(batch, ngrams, scores)
            empty = pa.nulls(len(batch))
            try:
                arrays = [_cast(found.get(field.name, empty), field.type) for field in schema]
            except pa.ArrowException as error:
                raise InputError(f"{batch.source} does not fit into one table with the others: {error}") from error
            writer.write_table(pa.table(arrays, schema=schema))

        yield write


def to_json(value: Any, encoding: str = "utf-8") -> str:
    """Return JSON on one line; infinity and NaN, which JSON lacks, become the strings "inf", "-inf" and "nan".

    Characters that an encoding lacks, and those that could command a terminal, are escaped.
    """
    plain = _finite(value)
    text = json.dumps(plain, ensure_ascii=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(plain)
    return UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value

"""Scores out: a line, a JSON object or a table row for each context, as they come."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from raregram.drafts import atomic_path
from raregram.ratios import Floats
from raregram.reading import Batch

Write = Callable[[Batch, Floats], None]


@contextmanager
def score_file(path: str) -> Iterator[Write]:
    """Give a function that writes scores to a file: Parquet, CSV, JSON lines or text, by the end of its name.

    The file has its name only when it is whole.
    """
    with atomic_path(path) as draft:
        if path.endswith((".parquet", ".pq")):
            with _table_writer(lambda schema: pq.ParquetWriter(draft, schema)) as write:
                yield write
        elif path.endswith(".csv"):
            with _table_writer(lambda schema: pyarrow.csv.CSVWriter(draft, schema)) as write:
                yield write
        else:
            with draft.open("wb") as stream:
                yield score_stream(stream, as_json=path.endswith((".jsonl", ".ndjson")))


def score_stream(stream: BinaryIO, as_json: bool) -> Write:
    """Return a function that writes scores to an open stream and flushes it."""
    show = json_lines if as_json else text_lines

    def write(batch: Batch, log_ratio: Floats) -> None:
        stream.write(show(batch, log_ratio))
        stream.flush()

    return write


def text_lines(batch: Batch, log_ratio: Floats) -> bytes:
    """Return `log_ratio<TAB>items` or `log_ratio<TAB>label<TAB>items`, a line a context."""
    if not len(batch):
        return b""
    columns = [pa.array(log_ratio).cast(pa.string())]
    if "label" in batch.columns:
        columns.append(batch.columns["label"].cast(pa.string()).fill_null(""))
    lines = pc.binary_join_element_wise(*columns, batch.ngrams, "\t")
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    return bytes(joined[0].as_buffer()) + b"\n"


def json_lines(batch: Batch, log_ratio: Floats) -> bytes:
    """Return a JSON object a context, with all columns of its table."""
    rows = score_table(batch, log_ratio).to_pylist()
    return "".join(to_json(row) + "\n" for row in rows).encode()


def score_table(batch: Batch, log_ratio: Floats) -> pa.Table:
    """Return the columns of a batch with one more, `log_ratio`."""
    columns = batch.table or {"ngram": batch.ngrams, **batch.columns}
    return pa.table({**columns, batch.name: batch.ngrams, "log_ratio": log_ratio})


def to_json(value: Any) -> str:
    """Return JSON on one line; infinity and NaN, which JSON lacks, become the strings "inf", "-inf" and "nan"."""
    return json.dumps(_finite(value), ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


@contextmanager
def _table_writer(open_writer: Callable[[pa.Schema], Any]) -> Iterator[Write]:
    """Write batches to one table, opened when the first one tells the columns."""
    writers: list[Any] = []

    def write(batch: Batch, log_ratio: Floats) -> None:
        table = score_table(batch, log_ratio)
        if not writers:
            writers.append(open_writer(table.schema))
        writers[0].write_table(table)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()

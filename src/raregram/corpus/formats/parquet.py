"""Parquet files that may have been made by anyone: opened with care, read in batches of a bounded size."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raregram.corpus.documents import (
    BATCH_BYTES,
    LARGEST_WHOLE,
    HeldFile,
    arrow_source,
    bare_name,
    naming,
    open_bytes,
    read_whole,
    reads_once,
)
from raregram.corpus.formats.footer import RowGroup, dictionary_sizes, read_footer
from raregram.errors import FileError, InputError

LARGEST_DICTIONARY = 1 << 26  # bytes, unpacked, of a dictionary page; writers stop at one or two MB
BUFFER = 1 << 20  # bytes of a column read at a time: else all that a row group has of it


def parquet_batches(path: str, most_rows: int, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, about as many at a time as make a batch, each of them sound."""
    with naming(path), _opened(path) as (raw, file):
        groups = read_footer(raw, path)
        rows = min(most_rows, _rows_of_a_batch(groups, batch_bytes), _rows_by_dictionaries(groups, raw, path))
        found = Counter[str]()
        for record_batch in check_sound(file.iter_batches(max(rows, 1)), path):
            yield record_batch
            found.update(_num_values(record_batch))
        _check_complete(file.metadata.schema, groups, found, path)


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file."""
    with _opened(path) as (_, file):
        yield file


@contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, pq.ParquetFile]]:
    """Open the bytes of a file, and Parquet in them; what is packed as a whole, or a pipe, is held in memory."""
    careful = {"buffer_size": BUFFER, "pre_buffer": False, "page_checksum_verification": True}
    if isinstance(path, HeldFile) or bare_name(path) != path or reads_once(path):
        with open_bytes(path) as stream:
            content = read_whole(stream, path)
        with pq.ParquetFile(pa.BufferReader(content), **careful) as file:
            yield io.BytesIO(content), file
        return
    with Path(path).open("rb") as raw:
        source = arrow_source(path)  # a name, or a file where Arrow could not take the name
        with nullcontext() if isinstance(source, str) else source, pq.ParquetFile(source, **careful) as file:
            yield raw, file


def _rows_of_a_batch(groups: list[RowGroup], batch_bytes: int) -> int:
    """Return how many rows make about a batch, in the row group that has the largest rows."""
    return min((batch_bytes * group.rows // max(group.size, 1) for group in groups), default=1)


def _rows_by_dictionaries(groups: list[RowGroup], raw: BinaryIO, path: str) -> int:
    """Return how many rows cannot grow beyond all bounds, even if each is the whole dictionary of its row group."""
    largest = max(dictionary_sizes(groups, raw), default=1)
    if largest > LARGEST_DICTIONARY:
        raise FileError(
            f"{path}: a dictionary page unpacks to {largest >> 20:,} MiB, more than {LARGEST_DICTIONARY >> 20}: "
            "write the file without dictionaries"
        )
    return LARGEST_WHOLE // max(largest, 1)


def _num_values(record_batch: pa.RecordBatch) -> dict[str, int]:
    """Return the number of rows, and how many values columns have as Parquet counts: an empty list is one."""
    found = {"": len(record_batch)}
    for name, column in zip(record_batch.schema.names, record_batch.columns, strict=True):
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = np.asarray(pc.list_value_length(column).fill_null(0))
            found[name] = int(np.maximum(lengths, 1).sum())
    return found


def _check_complete(schema: Any, groups: list[RowGroup], found: Mapping[str, int], path: str) -> None:
    """Raise unless all came that the file says it has: where a column breaks off, Arrow takes that for its end."""
    rows = sum(group.rows for group in groups)
    if found.get("", 0) != rows:
        raise FileError(f"{path}: of {rows:,} rows only {found.get('', 0):,} are there")
    for place in range(len(schema)):
        name = schema.column(place).path.split(".")[0]
        if name in found and schema.column(place).max_repetition_level == 1:
            values = sum(group.chunks[place].values for group in groups)
            if found[name] != values:
                raise FileError(f"{path}: of {values:,} values of {name} only {found[name]:,} are there")


def check_sound(record_batches: Iterable[Any], source: str) -> Iterator[pa.RecordBatch]:
    """Yield batches in which there is nothing that Arrow takes on trust: strings that are none, places outside."""
    first = 1
    for record_batch in record_batches:
        try:
            record_batch.validate(full=True)
        except pa.ArrowException as error:
            for column in record_batch.columns:
                _name_unsound_row(column, source, first)
            raise FileError(f"{source}: {str(error).splitlines()[0]}") from error
        yield record_batch
        first += len(record_batch)


def _name_unsound_row(column: pa.Array, source: str, first: int) -> None:
    """Raise for the first row of a column that cannot be read, if there is one."""
    for row in range(len(column)):
        try:
            column[row].as_py()
        except (pa.ArrowException, ValueError):
            raise InputError(f"{source}, row {first + row} is damaged or not valid UTF-8", row) from None

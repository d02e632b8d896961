"""Parquet files that may have been made by anyone: opened with care, read in batches of a bounded size.

Of the footer only what it says of row groups is asked: to ask what it says of a column can end the process in Arrow
if the footer is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from raregram.corpus.documents import (
    BATCH_BYTES,
    LARGEST_WHOLE,
    BufferedFile,
    Location,
    arrow_source,
    bare_name,
    compression_of,
    naming,
    open_bytes,
    read_whole,
    reads_once,
)
from raregram.errors import FileError, InputError
from raregram.remote import as_path

SMALL_GROUP = 1 << 26  # bytes of a row group that may be packed as well as it likes
MOST_PACKED = 1000  # bytes of a larger one for one byte of the file: text cannot be packed so well
BUFFER = 1 << 20  # bytes of a column read at a time: else all that a row group has of it


def parquet_batches(path: str, most_rows: int, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, about as many at a time as make a batch, each of them sound."""
    with naming(path):
        source = _seekable(path)
        rows = _rows_of_a_batch(source, path, most_rows, batch_bytes)
        with open_parquet(source) as file:
            found = 0
            for record_batch in check_sound(file.iter_batches(rows), Location(path, "row")):
                yield record_batch
                found += len(record_batch)
            if found != file.metadata.num_rows:  # where a column breaks off, Arrow takes that for its end
                raise FileError(f"{path}: of {file.metadata.num_rows:,} rows only {found:,} are there")


@contextmanager
def open_parquet(path: str, **options: Any) -> Iterator[Any]:
    """Open a Parquet file."""
    import pyarrow.parquet as pq  # which most commands do not need

    with ExitStack() as stack:
        source = arrow_source(_seekable(path))
        if not isinstance(source, str):
            stack.enter_context(source)
        yield stack.enter_context(
            pq.ParquetFile(source, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True, **options)
        )


def _seekable(path: str) -> str:
    """Return a path in which Arrow can seek: what is compressed as a whole, or a pipe, is read into memory."""
    if not reads_once(path) and compression_of(path) is None:
        return path
    with open_bytes(path) as stream:
        return BufferedFile(bare_name(path), read_whole(stream, path))


def _rows_of_a_batch(source: str, path: str, most_rows: int, batch_bytes: int) -> int:
    """Return how many rows make a batch, such that it is bounded even if each row is a whole dictionary."""
    with open_parquet(source) as file:
        columns = [file.metadata.schema.column(index) for index in range(file.metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    size = len(source.content) if isinstance(source, BufferedFile) else as_path(source).stat().st_size
    most = most_rows
    with open_parquet(source, read_dictionary=texts) as file:
        for index in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(index)
            if group.total_byte_size > max(SMALL_GROUP, MOST_PACKED * size):
                raise FileError(f"{path}: {group.total_byte_size:,} bytes are packed into {size:,}, which is no text")
            most = max(min(most, batch_bytes * group.num_rows // max(group.total_byte_size, 1)), 1)
            if most * group.total_byte_size > LARGEST_WHOLE:  # else it cannot grow beyond all bounds
                first = next(file.iter_batches(1, row_groups=[index]))
                most = max(min(most, LARGEST_WHOLE // first.get_total_buffer_size()), 1)
    return most


def check_sound(record_batches: Iterable[Any], location: Location) -> Iterator[pa.RecordBatch]:
    """Yield batches in which there is nothing that Arrow takes on trust: strings that are none, offsets outside."""
    for record_batch in record_batches:
        try:
            record_batch.validate(full=True)
        except pa.ArrowException as error:
            for column in record_batch.columns:
                for row in range(len(column)):
                    try:
                        column[row].as_py()
                    except (pa.ArrowException, ValueError):
                        raise InputError(f"{location.at(row)} is damaged or not valid UTF-8", row) from None
            raise FileError(f"{location.source}: {str(error).splitlines()[0]}") from error
        yield record_batch
        location = location.at(len(record_batch))

"""Parquet files, read in batches of a bounded size.

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

BUFFER = 1 << 20  # bytes of a column read at a time: else all that a row group has of it


def parquet_batches(path: str, most_rows: int, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, about as many at a time as make a batch, each of them sound."""
    with naming(path), open_parquet(path) as file:
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
        found, rows = 0, max(min(most_rows, batch_bytes // max(row_bytes, 1)), 1)
        for record_batch in check_sound(file.iter_batches(rows), Location(path, "row")):
            yield record_batch
            found += len(record_batch)
        if found != file.metadata.num_rows:  # where a column breaks off, Arrow takes that for its end
            raise FileError(f"{path}: of {file.metadata.num_rows:,} rows only {found:,} are there")


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Open a Parquet file; what is compressed as a whole, or a pipe, is read into memory, since Arrow must seek."""
    import pyarrow.parquet as pq  # which most commands do not need

    if reads_once(path) or compression_of(path) is not None:
        with open_bytes(path) as stream:
            path = BufferedFile(bare_name(path), read_whole(stream, path))
    with ExitStack() as stack:
        source = arrow_source(path)
        if not isinstance(source, str):
            stack.enter_context(source)
        yield stack.enter_context(
            pq.ParquetFile(source, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True)
        )


def check_sound(record_batches: Iterable[Any], location: Location) -> Iterator[pa.RecordBatch]:
    """Yield batches that Arrow has validated; a row with a string that is none is named."""
    for record_batch in record_batches:
        try:
            record_batch.validate(full=True)
        except pa.ArrowException as error:
            for row in range(len(record_batch)):
                try:
                    record_batch.slice(row, 1).to_pylist()
                except (pa.ArrowException, ValueError):
                    raise InputError(f"{location.at(row)} is damaged or not valid UTF-8", row) from None
            raise FileError(f"{location.source}: {str(error).splitlines()[0]}") from error
        yield record_batch
        location = location.at(len(record_batch))

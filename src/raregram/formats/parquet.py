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

from raregram.corpus import BATCH_BYTES, LARGEST_WHOLE, arrow_source, naming, open_bytes, read_whole, reads_once
from raregram.errors import FileError, InputError

LARGEST_DICTIONARY = 1 << 26  # bytes, unpacked, of a dictionary page; writers stop at one or two MB
PAGE_HEADER = 32  # bytes that hold the first fields of a page's header
BUFFER = 1 << 20  # bytes of a column read at a time: else all that a row group has of it


def parquet_batches(path: str, most_rows: int, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, about as many at a time as make a batch, each of them sound."""
    with naming(path), open_parquet(path) as file:
        about = file.metadata
        rows = min(most_rows, _rows_of_a_batch(about, batch_bytes), _rows_by_dictionaries(about, path))
        found = Counter[str]()
        for record_batch in check_sound(file.iter_batches(max(rows, 1)), path):
            yield record_batch
            found.update(_num_values(record_batch))
        _check_complete(about, found, path)


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; one that is compressed as a whole, or comes from a pipe, is first read into memory."""
    if _is_seekable(path):
        source = arrow_source(path)
    else:
        with open_bytes(path) as stream:
            source = pa.BufferReader(read_whole(stream, path))
    careful = {"buffer_size": BUFFER, "pre_buffer": False, "page_checksum_verification": True}
    with nullcontext() if isinstance(source, str) else source, pq.ParquetFile(source, **careful) as file:
        yield file


def _is_seekable(path: str) -> bool:
    """Whether Parquet can be read from a file as it is."""
    return not path.endswith((".gz", ".zst")) and not reads_once(path)


def _rows_of_a_batch(metadata: pq.FileMetaData, batch_bytes: int) -> int:
    """Return how many rows make about a batch, in the row group that has the largest rows."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return min((batch_bytes * group.num_rows // max(group.total_byte_size, 1) for group in groups), default=1)


def _rows_by_dictionaries(metadata: pq.FileMetaData, path: str) -> int:
    """Return how many rows cannot grow beyond all bounds, even if each is the whole dictionary of its row group."""
    if not _is_seekable(path):
        return LARGEST_WHOLE // LARGEST_DICTIONARY
    largest = 1
    with open_raw(path) as file:
        for offset in _dictionary_offsets(metadata):
            file.seek(max(offset, 0))
            largest = max(largest, _unpacked_size(file.read(PAGE_HEADER)))
    if largest > LARGEST_DICTIONARY:
        raise FileError(
            f"{path}: a dictionary page unpacks to {largest >> 20:,} MiB, more than {LARGEST_DICTIONARY >> 20}: "
            "write the file without dictionaries"
        )
    return LARGEST_WHOLE // largest


def open_raw(path: str) -> BinaryIO:
    """Open the bytes of a file as they are."""
    content = getattr(path, "content", None)  # of a file that is held in memory
    return Path(path).open("rb") if content is None else io.BytesIO(content)


def _dictionary_offsets(metadata: pq.FileMetaData) -> Iterator[int]:
    """Yield where each dictionary page begins."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(place) for place in range(group.num_columns))
        yield from (column.dictionary_page_offset for column in columns if column.has_dictionary_page)


def _unpacked_size(header: bytes) -> int:
    """Return the second field of a page's header, its size when it is unpacked.

    Both fields are whole numbers as Thrift's compact protocol has them: a byte for the type, then seven bits a byte.

    >>> _unpacked_size(bytes([0x15, 0x04, 0x15, 0x80, 0x10]))
    1024
    """
    place = number = 0
    for _ in range(2):
        number, shift = 0, 0
        for byte in header[place + 1 :]:
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        place += 1
    return number >> 1


def _num_values(record_batch: pa.RecordBatch) -> dict[str, int]:
    """Return the number of rows, and how many values columns have as Parquet counts: an empty list is one."""
    found = {"": len(record_batch)}
    for name, column in zip(record_batch.schema.names, record_batch.columns, strict=True):
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = np.asarray(pc.list_value_length(column).fill_null(0))
            found[name] = int(np.maximum(lengths, 1).sum())
    return found


def _check_complete(metadata: pq.FileMetaData, found: Mapping[str, int], path: str) -> None:
    """Raise unless all came that the file says it has: where a column breaks off, Arrow takes that for its end."""
    if found.get("", 0) != metadata.num_rows:
        raise FileError(f"{path}: of {metadata.num_rows:,} rows only {found.get('', 0):,} are there")
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        name = column.path.split(".")[0]
        if name in found and column.max_repetition_level == 1:
            groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
            claimed = sum(group.column(place).num_values for group in groups)
            if found[name] != claimed:
                raise FileError(f"{path}: of {claimed:,} values of {name} only {found[name]:,} are there")


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

"""CSV: tables of contexts, or of documents without spans."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv

from raregram.corpus.documents import Documents, Location, Options, buffered, open_bytes
from raregram.corpus.formats.tables import from_batches
from raregram.errors import FileError

LONGEST_ROW = 1 << 22  # bytes of a row; as much is read at a time


def read_csv(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a CSV file with the column `text`."""
    return from_batches(csv_batches(path), Location(path, "row"), options)


def csv_columns(sample: str) -> list[str]:
    r"""Return the names of the columns, which the first row of a CSV file has.

    >>> csv_columns('id,"text"\n1,so it goes\n')
    ['id', 'text']
    """
    rows = csv.reader([sample.removeprefix("\ufeff").split("\n", 1)[0].rstrip("\r")])
    try:
        return next(rows, [])
    except csv.Error:  # a field of megabytes
        return []


def csv_batches(source: str) -> Iterator[pa.RecordBatch]:
    """Yield batches of text columns: what is a number is decided by what the column is for."""
    path = buffered(source)  # since it is opened twice
    block = pyarrow.csv.ReadOptions(block_size=LONGEST_ROW)
    quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
    try:  # `raw` is Arrow's own stream, since the threads that read ahead must not call Python
        with open_bytes(path) as stream, pyarrow.csv.open_csv(stream.raw, block, quoted) as reader:
            as_text = dict.fromkeys(reader.schema.names, pa.string())
        convert = pyarrow.csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
        with open_bytes(path) as stream, pyarrow.csv.open_csv(stream.raw, block, quoted, convert) as reader:
            yield from reader
    except FileError as error:
        if not re.search("straddles two block|cannot infer number of columns", str(error)):
            raise
        most = f"no row may have more than {LONGEST_ROW >> 20} MiB"
        raise FileError(f"{source}: the first row must name the columns, and {most}") from error

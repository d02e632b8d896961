"""Files of contexts: text lines, CSV and Parquet -> batches of N-grams with their labels or frequencies.

Every reader streams. A batch has the location of its rows, so that an error can name the file and the line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from raregram.corpus.documents import (
    LONGEST_LINE,
    STANDARD_INPUT,
    Location,
    SkipLog,
    bare_name,
    buffered,
    naming,
    open_bytes,
    reads_once,
)
from raregram.corpus.formats import BY_SUFFIX, CONTEXTS
from raregram.corpus.formats.parquet import parquet_batches
from raregram.errors import FileError, InputError, name_some, shorten
from raregram.text.tokenize import is_list, is_text

READ_BYTES = 1 << 22  # of text at a time; a pipe gives what it has
ROWS = 1 << 16  # of a table at a time
LONGEST_ROW = 1 << 22  # bytes of a row of CSV; as much is read at a time
COLUMNS = ("ngram", "label", "f_nu", "f_de")


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, in order."""

    location: Location  # of the first row
    ngrams: pa.Array  # string, or list of strings
    columns: Mapping[str, pa.Array] = field(default_factory=dict)  # label, f_nu and f_de where they are
    table: Mapping[str, pa.Array] = field(default_factory=dict)  # all columns of a table, under its own names
    name: str = "ngram"  # of the column of N-grams

    def __len__(self) -> int:
        return len(self.ngrams)

    @property
    def source(self) -> str:
        """The name of the file."""
        return self.location.source

    @property
    def has_frequencies(self) -> bool:
        """Whether N-grams come with two frequencies, and not with labels."""
        return "f_nu" in self.columns and "f_de" in self.columns

    @property
    def all_columns(self) -> dict[str, pa.Array]:
        """The columns of a table under its own names; those of lines are `ngram` and `label`."""
        return dict(self.table) or {"ngram": self.ngrams, **self.columns}

    def head(self, rows: int) -> Batch:
        """Return the batch's first rows."""
        return self._some(slice(rows))

    def tail(self, first: int) -> Batch:
        """Return the rows from the first of them on."""
        return replace(self._some(slice(first, None)), location=self.location.at(first))

    def _some(self, rows: slice) -> Batch:
        columns, table = (
            {name: column[rows] for name, column in some.items()} for some in (self.columns, self.table)
        )
        return replace(self, ngrams=self.ngrams[rows], columns=columns, table=table)


def read_contexts(
    source: str, rename: Mapping[str, str] | None = None, skip_log: SkipLog | None = None
) -> Iterator[Batch]:
    """Yield the contexts of a file in batches.

    Args:
        source: a path, or "-" for standard input. A name that ends in .parquet or .csv is a table with the column
            `ngram` and, where they are, `label`, `f_nu` and `f_de`. Anything else is text, plain or compressed, one
            context a line: `label<TAB>items`, or just the items.
        rename: what a table calls those columns, where it uses other names.
        skip_log: counts lines that are skipped; None: a line that cannot be read raises.
    """
    form = BY_SUFFIX.get(Path(bare_name(source)).suffix.lower())
    with naming(source):
        if source != STANDARD_INPUT and not Path(source).exists():
            raise FileError(f"{source} does not exist")
        if source != STANDARD_INPUT and Path(source).is_dir():
            raise FileError(f"{source} is a folder; name the files in it")
        if form not in ("parquet", CONTEXTS) and not reads_once(source):
            with Path(source).open("rb") as file:
                if file.read(4) == b"PAR1":
                    raise FileError(f"{source} is not a raregram file, or it is truncated or damaged")
    if form == "parquet":
        return read_table(parquet_batches(source, ROWS), source, rename or {})
    if form == CONTEXTS:
        return read_table(_csv_batches(source), source, rename or {})
    return _read_text(source, skip_log or SkipLog())


def labels_of(column: pa.Array, source: str) -> Any:
    """Return the labels of a batch: strings, or lists of them."""
    kind = column.type
    while is_list(kind) or pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not is_text(kind) and not pa.types.is_null(kind):
        raise InputError(f"{source}: the column label must hold strings, or lists of them, not {column.type}")
    return column if pa.types.is_string(column.type) else column.to_pylist()


def frequencies_of(batch: Batch, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers, also from text; the error names the row that is none."""
    column = batch.columns[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if not numeric and not is_text(kind) and not pa.types.is_decimal(kind) and not pa.types.is_null(kind):
        raise InputError(f"{batch.source}: the column {name} must hold whole numbers, not {kind}")
    column = column.cast(kind).cast(kind if numeric else pa.string())
    if not numeric:
        plain = pc.match_substring_regex(column, r"^\s*-?\d+(\.\d*)?([eE]\+?\d+)?\s*$")
        for row in np.flatnonzero(~np.asarray(plain.fill_null(True)))[:1].tolist():
            found = shorten(column[row].as_py())
            raise InputError(f"{batch.location.at(row)}: {name} must be a whole number, got {found}", row)
        column = pc.utf8_trim_whitespace(column)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InputError(f"{batch.location.at(row)}: {name} is missing", row)
    if numeric:
        return np.asarray(column)
    whole = pc.all(pc.match_substring_regex(column, r"^-?\d{1,18}$")).as_py()  # which doubles may round
    return np.asarray(column.cast(pa.int64() if whole else pa.float64()))


def _read_text(path: str, skip_log: SkipLog) -> Iterator[Batch]:
    """Yield the lines of a text file, compressed or not, each batch as many as one read brings."""
    location = Location("standard input" if path == STANDARD_INPUT else path, "line")
    pieces: list[bytes] = []
    more, waiting, labelled = True, 0, None
    with open_bytes(path) as stream:
        while more:
            data = stream.read1(READ_BYTES)
            more, cut = bool(data), data.rfind(b"\n") + 1
            if cut or not more:
                whole = b"".join([*pieces, data[:cut]])
                for batch in _parse_lines(whole, location, skip_log):
                    if labelled not in (None, "label" in batch.columns):
                        raise InputError(f"{batch.location}: some lines have a label and some have none")
                    labelled = "label" in batch.columns
                    yield batch
                location = location.at(whole.count(b"\n"))
                pieces, waiting = [], 0
            pieces.append(data[cut:])
            waiting += len(data) - cut
            if waiting > LONGEST_LINE:
                raise InputError(f"{location} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")


def _parse_lines(data: bytes, location: Location, skip_log: SkipLog) -> Iterator[Batch]:
    """Yield the lines as batches; a line with invalid bytes is skipped, or raises behind those before it."""
    while data:
        try:
            valid, bad = data.decode(), False
        except UnicodeDecodeError as error:
            cut = data.rfind(b"\n", 0, error.start) + 1
            valid, bad = data[:cut].decode(), True
        if location.first == 1:
            valid = valid.removeprefix("\ufeff")  # the byte order mark that some editors write
        if valid:
            lines = pc.split_pattern(pa.array([valid.removesuffix("\n")]), "\n")[0].values
            columns = split_labels(lines, location.name)
            yield Batch(location, columns.pop("ngram"), columns)
        if not bad:
            return
        location = location.at(data.count(b"\n", 0, cut))
        skip_log.skip_or_raise(InputError(f"{location} is not valid UTF-8"))
        _, _, data = data[cut:].partition(b"\n")
        location = location.at(1)


def split_labels(lines: pa.Array, where: Callable[[int], str]) -> dict[str, pa.Array]:
    """Cut lines into `ngram` and, where they have a tab, `label`; `where` names a line in an error message."""
    lines = pc.utf8_rtrim(lines, characters="\r\n")
    tabs = np.asarray(pc.find_substring(lines, "\t")) >= 0
    if not tabs.any():
        return {"ngram": lines}
    if not tabs.all():
        row = int(np.flatnonzero(~tabs)[0])
        raise InputError(f"{where(row)} has no label, but others have: expected label<TAB>items", row)
    halves = pc.split_pattern(lines, "\t", max_splits=1)
    return {"ngram": pc.list_element(halves, 1), "label": pc.list_element(halves, 0)}


def read_table(batches: Iterable[pa.RecordBatch], source: str, rename: Mapping[str, str]) -> Iterator[Batch]:
    """Yield the rows of a table, its columns sorted by their meaning."""
    location = Location(source, "row")
    for records in batches:
        yield table_batch(records, location, rename)
        location = location.at(len(records))


def table_batch(records: pa.RecordBatch, location: Location, rename: Mapping[str, str]) -> Batch:
    """Return rows of a table as contexts."""
    table = dict(zip(records.schema.names, records.columns, strict=True))
    if len(table) < records.num_columns:
        twice = Counter(records.schema.names).most_common(1)[0][0]
        raise InputError(f"{location.source} has several columns called {twice!r}")
    wanted = {name: rename.get(name, name) for name in COLUMNS}
    for name, theirs in wanted.items():
        if theirs not in table and (name == "ngram" or name in rename):
            raise InputError(
                f"{location.source} has no column {theirs!r}; it has {name_some(table)}. "
                f"Say which one is meant with --columns {name}=NAME"
            )
    known = {name: table[theirs] for name, theirs in wanted.items() if theirs in table}
    return Batch(location, known.pop("ngram"), known, table, wanted["ngram"])


def _csv_batches(source: str) -> Iterator[pa.RecordBatch]:
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

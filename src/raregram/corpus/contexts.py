"""Files of contexts: text lines, CSV and Parquet -> batches of N-grams with their labels or frequencies.

Every reader streams. A batch knows where its rows come from, so that an error can name the file and the line.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    bare_name,
    expand,
    hold,
    naming,
    open_bytes,
    reads_once,
)
from raregram.corpus.formats import CONTEXTS, recognise
from raregram.corpus.formats.parquet import parquet_batches
from raregram.corpus.formats.tables import CONTENT
from raregram.counts.storage import is_raregram_file
from raregram.counts.table import Counts
from raregram.errors import FileError, InputError, name_some, shorten
from raregram.text.tokenize import is_list, is_text

READ_BYTES = 1 << 22  # of text at a time; a pipe gives what it has
ROWS = 1 << 16  # of a table at a time
LONGEST_ROW = 1 << 22  # bytes of a row of CSV; as much is read at a time
COLUMNS = ("ngram", "label", "f_nu", "f_de")


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, in order."""

    source: str
    unit: str  # what a row is called in messages: "line" or "row"
    first: int  # the number of the first row, counted from 1
    ngrams: pa.Array  # string, or list of strings
    columns: Mapping[str, pa.Array] = field(default_factory=dict)  # label, f_nu and f_de where they are
    table: Mapping[str, pa.Array] = field(default_factory=dict)  # all columns of a table, under its own names
    name: str = "ngram"  # of the column of N-grams
    documents: bool = False  # whether that column holds documents instead, with many N-grams each

    def where(self, row: int) -> str:
        """Name a row in an error message."""
        return f"{self.source}, {self.unit} {self.first + row}"

    def __len__(self) -> int:
        return len(self.ngrams)

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
        columns, table = (
            {name: column[:rows] for name, column in some.items()} for some in (self.columns, self.table)
        )
        return replace(self, ngrams=self.ngrams[:rows], columns=columns, table=table)


def read_contexts(source: str, rename: Mapping[str, str] | None = None, documents: bool = False) -> Iterator[Batch]:
    """Yield the contexts of a file in batches.

    Args:
        source: a path, or "-" for standard input. A name that ends in .parquet or .csv is a table with the column
            `ngram` and, where they are, `label`, `f_nu` and `f_de`. A count file gives its whole N-grams. Anything
            else is text, plain or compressed, one context a line: `label<TAB>items`, or just the items.
        rename: what a table calls those columns, where it uses other names.
        documents: take also tables of documents, with the column `items` or `text`.
    """
    if source == STANDARD_INPUT:
        return _read_text(source, "standard input")
    path = Path(source)
    with naming(source):
        if not path.exists():
            raise FileError(f"{source} does not exist")
        once = reads_once(source)
        if not once and is_raregram_file(path):
            return (batch for batch in [_whole_ngrams(Counts.load(path), source)] if len(batch))
        if path.is_dir():
            raise FileError(f"{source} is a folder; name the files in it")
    suffix = Path(bare_name(source)).suffix.lower()
    if suffix in (".parquet", ".pq"):
        return _read_table(parquet_batches(source, ROWS), source, rename or {}, documents)
    if suffix == ".csv":
        return _read_table(_csv_batches(source), source, rename or {})
    if not once:
        with naming(source), path.open("rb") as file:
            if file.read(4) == b"PAR1":
                raise FileError(f"{source} is not a raregram file, or it is truncated or damaged")
    return _read_text(source, source)


def open_contexts(
    sources: Sequence[str], rename: Mapping[str, str] | None = None, documents: bool = False
) -> tuple[list[Batch], Iterator[Batch]]:
    """Return a batch without rows of each source that has any, and the batches of all of them.

    The first ones tell whether the sources fit together before anything is done with them; see `read_contexts`.
    """
    sources = context_files(sources)
    heads: list[Batch] = []
    begun: dict[int, Iterator[Batch]] = {}  # what cannot be read again, and the first source: it may be the only one
    for place, source in enumerate(sources):
        batches = read_contexts(source, rename, documents)
        first = list(itertools.islice(batches, 1))
        heads += [batch.head(0) for batch in first]
        if place == 0 or reads_once(source):
            begun[place] = itertools.chain(first, batches)
    read = (begun[i] if i in begun else read_contexts(source, rename, documents) for i, source in enumerate(sources))
    return heads, itertools.chain.from_iterable(read)


def documents_alone(heads: Sequence[Batch]) -> bool:
    """Whether sources hold documents; raise where some do and some hold contexts."""
    by_kind = {head.documents: head.source for head in heads}
    if len(by_kind) > 1:
        raise InputError(f"{by_kind[True]} holds documents and {by_kind[False]} contexts: score them one by one")
    return True in by_kind


def are_contexts(sources: Sequence[str]) -> bool:
    """Whether sources hold contexts rather than documents; raise where some do and some do not."""
    kinds = {}
    for path in context_files(sources):
        if not reads_once(path) and is_raregram_file(path):
            kinds[True] = path
        elif reads_once(path) or Path(path).stat().st_size:  # an empty file is neither
            kinds[recognise(path) == CONTEXTS] = path
    if len(kinds) > 1:
        raise InputError(
            f"{kinds[True]} holds contexts and {kinds[False]} documents: count them one by one, then merge"
        )
    return True in kinds


def context_files(sources: Sequence[str]) -> list[str]:
    """Return the files of folders and globs; a count table may be a folder, and stays one."""
    found: list[str] = []
    for source in sources:
        whole = reads_once(source) or is_raregram_file(source)
        found += [source] if whole else expand(source)
    return found


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
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not any(is_kind(column.type) for is_kind in NUMBERS):
        raise InputError(f"{batch.source}: the column {name} must hold whole numbers, not {column.type}")
    if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type):
        plain = pc.match_substring_regex(column, r"^\s*-?\d+(\.\d*)?([eE]\+?\d+)?\s*$")
        for row in np.flatnonzero(~np.asarray(plain.fill_null(True)))[:1].tolist():
            found = column[row].as_py()
            raise InputError(f"{batch.where(row)}: {name} must be a whole number, got {shorten(found)}", row)
        column = pc.utf8_trim_whitespace(column)
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InputError(f"{batch.where(row)}: {name} is missing", row)
    if not pa.types.is_string(column.type):
        return np.asarray(column)
    whole = pc.all(pc.match_substring_regex(column, r"^-?\d{1,18}$")).as_py()  # which doubles may round
    return np.asarray(column.cast(pa.int64() if whole else pa.float64()))


def _whole_ngrams(counts: Counts, source: str) -> Batch:
    """Return the whole N-grams of a count table as contexts."""
    if counts.whole not in counts.rows:
        raise InputError(f"{source} holds no whole N-grams; count with the spans 'units' and 'whole'")
    return Batch(source, "row", 1, counts.whole_ngrams().lists())


def _read_text(path: str, source: str) -> Iterator[Batch]:
    """Yield the lines of a text file, compressed or not, as they come."""
    with open_bytes(path) as stream:
        yield from _read_lines(stream.read1, source)


def _read_lines(read: Callable[[int], bytes], source: str) -> Iterator[Batch]:
    """Yield whole lines as they come, each batch as many as one `read` brings."""
    pieces: list[bytes] = []
    line, waiting, labelled = 1, 0, None
    for data in itertools.chain(iter(lambda: read(READ_BYTES), b""), [b""]):
        cut = data.rfind(b"\n") + 1 if data else 0
        whole = b"".join([*pieces, data[:cut]]) if cut or not data else b""
        if whole:
            for batch in _valid_batches(whole, source, line):
                has_label = "label" in batch.columns
                if labelled not in (None, has_label):
                    raise InputError(f"{batch.where(0)}: some lines have a label and some have none")
                labelled = has_label
                yield batch
                line += len(batch)
            pieces, waiting = [], 0
        pieces.append(data[cut:])
        waiting += len(data) - cut
        if waiting > LONGEST_LINE:
            raise InputError(f"{source}, line {line} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")


def _valid_batches(data: bytes, source: str, first: int) -> Iterator[Batch]:
    """Yield the lines as a batch; of invalid bytes, yield what comes before their line and then raise."""
    row = _first_invalid(data)
    if row is None:
        yield _parse_lines(data, source, first)
        return
    before = b"\n".join(data.split(b"\n")[:row]) + b"\n" if row else b""
    if before:
        yield _parse_lines(before, source, first)
    raise InputError(f"{source}, line {first + row} is not valid UTF-8")


def _parse_lines(data: bytes, source: str, first: int) -> Batch:
    """Cut bytes into lines, and lines into label and items where they have a tab."""
    if first == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors write
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    lines = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))
    columns = split_labels(lines, lambda row: f"{source}, line {first + row}")
    return Batch(source, "line", first, columns.pop("ngram"), columns)


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


def _first_invalid(data: bytes) -> int | None:
    """Return the index of the first line that is not UTF-8, None if all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start)
    return None


def _read_table(
    batches: Iterator[pa.RecordBatch], source: str, rename: Mapping[str, str], documents: bool = False
) -> Iterator[Batch]:
    """Yield the rows of a table as contexts."""
    first = 1
    for record_batch in batches:
        twice = [name for name, times in Counter(record_batch.schema.names).items() if times > 1]
        if twice:
            raise InputError(f"{source} has several columns called {twice[0]!r}")
        content = next((name for name in CONTENT if name in record_batch.schema.names), None)
        if documents and content and "ngram" not in (*rename, *record_batch.schema.names):
            table = {name: record_batch.column(name) for name in record_batch.schema.names}
            yield Batch(source, "row", first, table[content], {}, table, content, documents=True)
        else:
            yield _table_batch(record_batch, source, first, rename)
        first += len(record_batch)


def _table_batch(records: pa.RecordBatch, source: str, first: int, rename: Mapping[str, str]) -> Batch:
    """Sort the columns of a table by their meaning."""
    names = {name: rename.get(name, name) for name in COLUMNS}
    for name, theirs in names.items():
        if theirs not in records.schema.names and (name == "ngram" or name in rename):
            raise InputError(
                f"{source} has no column {theirs!r}; it has {name_some(records.schema.names)}. "
                f"Say which one is meant with --columns {name}=NAME"
            )
    known = {name: records.column(theirs) for name, theirs in names.items() if theirs in records.schema.names}
    table = {name: records.column(name) for name in records.schema.names}
    return Batch(source, "row", first, known.pop("ngram"), known, table, names["ngram"])


def _csv_batches(source: str) -> Iterator[pa.RecordBatch]:
    """Yield batches of text columns: what is a number is decided by what the column is for."""
    path = hold(source)  # since it is opened twice
    with _open_csv(path) as reader:
        as_text = {name: pa.string() for name in reader.schema.names}
    with _open_csv(path, pyarrow.csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)) as reader:
        yield from reader


@contextmanager
def _open_csv(path: str, options: pyarrow.csv.ConvertOptions | None = None) -> Iterator[Any]:
    block = pyarrow.csv.ReadOptions(block_size=LONGEST_ROW)
    quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with (
        open_bytes(path) as stream,
        _long_rows_named(path),
        pyarrow.csv.open_csv(stream.raw, block, quoted, options) as reader,  # its threads must not call Python
    ):
        yield reader


@contextmanager
def _long_rows_named(source: str) -> Iterator[None]:
    """Say in other words what Arrow says of a row, or of a header, that is longer than a block."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if not re.search("straddles two block|cannot infer number of columns", str(error)):
            raise
        most = f"no row may have more than {LONGEST_ROW >> 20} MiB"
        raise FileError(f"{source}: the first row must name the columns, and {most}") from error


NUMBERS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_null,
    is_text,
)

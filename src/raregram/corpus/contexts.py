"""Files of contexts: text lines, CSV and Parquet -> batches of N-grams with their labels or frequencies.

Every reader streams. A batch has the location of its rows, so that an error can name the file and the line.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import (
    LONGEST_LINE,
    STANDARD_INPUT,
    Location,
    bare_name,
    naming,
    open_bytes,
    reads_once,
)
from raregram.corpus.encoding import check_encoding, not_utf8
from raregram.corpus.formats import BY_SUFFIX, CONTEXTS, FASTTEXT, recognise
from raregram.corpus.formats.csv import csv_batches
from raregram.corpus.formats.parquet import parquet_batches
from raregram.corpus.log import ReadingLog
from raregram.errors import FileError, InputError, name_some, shorten
from raregram.remote import as_path
from raregram.text.tokenize import buffers_of, is_list, is_text

READ_BYTES = 1 << 22  # of text at a time; a pipe gives what it has
ROWS = 1 << 16  # of a table at a time
OR_DOCUMENTS = "; or, if these are documents, rename the one that holds their text to text"
COLUMNS = ("ngram", "label", "f_nu", "f_de")
HEADINGS = frozenset({*COLUMNS, "id", "text", "items"})


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
    source: str, rename: Mapping[str, str] | None = None, log: ReadingLog | None = None
) -> Iterator[Batch]:
    """Yield the contexts of a file in batches.

    Args:
        source: a path, or "-" for standard input. Parquet, and a name that ends in .csv, is a table with the column
            `ngram` and, where they are, `label`, `f_nu` and `f_de`. Anything else is text, plain or compressed, one
            context a line: `label<TAB>items`, fastText's `__label__x items`, or just the items.
        rename: what a table calls those columns, where it uses other names.
        log: counts lines that are skipped; None: a line that cannot be read raises.
    """
    form = BY_SUFFIX.get(Path(bare_name(source)).suffix.lower())
    with naming(source):
        if source != STANDARD_INPUT and not as_path(source).exists():
            raise FileError(f"{source} does not exist")
        if source != STANDARD_INPUT and as_path(source).is_dir():
            raise FileError(f"{source} is a folder; name the files in it")
        if not reads_once(source):
            with open_bytes(source) as file:
                start = file.peek(4)[:4]
            if start == b"ARRO" or (start == b"PAR1" and form is None):
                raise FileError(f"{source} is not a raregram file, or it is truncated or damaged")
            form = "parquet" if start == b"PAR1" else form  # whatever its name says
    if form == "parquet":
        return read_table(parquet_batches(source, ROWS), source, rename or {})
    if form == CONTEXTS:
        return read_table(csv_batches(source), source, rename or {})
    if rename and source != STANDARD_INPUT and not reads_once(source) and recognise(source) == "jsonl":
        raise InputError(
            f"{source} has JSON lines, which are documents: contexts with columns come as CSV or Parquet"
        )
    return _read_text(source, log or ReadingLog())


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


def _read_text(path: str, log: ReadingLog) -> Iterator[Batch]:
    """Yield the lines of a text file, compressed or not, each batch as many as one read brings."""
    location = Location("standard input" if path == STANDARD_INPUT else path, "line")
    pieces: list[bytes] = []
    more, waiting, labelled = True, 0, None
    with open_bytes(path) as stream:
        check_encoding(stream, location.source)
        while more:
            data = stream.read1(READ_BYTES)
            more, cut = bool(data), data.rfind(b"\n") + 1
            if cut or not more:
                whole = b"".join([*pieces, data[:cut]])
                for batch in _parse_lines(whole, location, log):
                    if labelled not in (None, "label" in batch.columns):
                        raise InputError(f"{batch.location}: some lines have a label and some have none")
                    labelled = "label" in batch.columns
                    yield batch
                location = location.at(int(np.count_nonzero(np.frombuffer(whole, np.uint8) == ord("\n"))))
                pieces, waiting = [], 0
            pieces.append(data[cut:])
            waiting += len(data) - cut
            if waiting > LONGEST_LINE:
                raise InputError(f"{location} is longer than {LONGEST_LINE >> 20} MiB: is this a text file?")


def _parse_lines(data: bytes, location: Location, log: ReadingLog) -> Iterator[Batch]:
    """Yield the lines as batches; a line with invalid bytes is skipped, or raises behind those before it."""
    while data:
        valid, bad = data, False
        try:
            if not data.isascii():
                data.decode()
        except UnicodeDecodeError as error:
            cut = data.rfind(b"\n", 0, error.start) + 1
            valid, bad = data[:cut], True
        if location.first == 1:
            valid = valid.removeprefix(codecs.BOM_UTF8)  # the byte order mark that some editors write
        if valid:
            valid = valid.removesuffix(b"\n")
            whole = pa.StringArray.from_buffers(
                1, pa.array([0, len(valid)], pa.int32()).buffers()[1], pa.py_buffer(valid)
            )
            lines = pc.split_pattern(whole, "\n")[0].values
            heading = lines[0].as_py().strip().split("\t") if location.first == 1 else []
            if len(heading) > 1 and HEADINGS.issuperset(heading):
                raise InputError(
                    f"{location} is the heading of a table ({', '.join(heading)}), but lines are label<TAB>items: "
                    "tables are read from .csv, with commas, and .parquet"
                )
            columns = split_labels(lines, location.name)
            yield Batch(location, columns.pop("ngram"), columns)
        if not bad:
            return
        location = location.at(data.count(b"\n", 0, cut))
        line, _, data = data[cut:].partition(b"\n")
        log.skip_or_raise(not_utf8(location, line, location.source))
        location = location.at(1)


def split_labels(lines: pa.Array, where: Callable[[int], str]) -> dict[str, pa.Array]:
    """Cut lines into `ngram` and, where they have a tab, `label`; `where` names a line in an error message.

    Lines of fastText begin with their labels, which may be several.
    """
    lines = pc.utf8_rtrim(lines, characters="\r\n")
    if len(lines) and pc.all(pc.starts_with(lines, FASTTEXT)).as_py():
        return _split_fasttext(lines)
    if not (buffers_of(lines)[0] == ord("\t")).any():
        return {"ngram": lines}
    tabs = np.asarray(pc.find_substring(lines, "\t")) >= 0
    if not tabs.all():
        row = int(np.flatnonzero(~tabs)[0])
        raise InputError(f"{where(row)} has no label, but others have: expected label<TAB>items", row)
    halves = pc.split_pattern(lines, "\t", max_splits=1)
    return {"ngram": pc.list_element(halves, 1), "label": pc.list_element(halves, 0)}


def _split_fasttext(lines: pa.Array) -> dict[str, pa.Array]:
    """Cut lines into the labels at their beginning and the rest."""
    halves = pc.extract_regex(lines, rf"^(?P<label>{FASTTEXT}\S*(?:\s+{FASTTEXT}\S*)*)\s*(?P<ngram>[\s\S]*)$")
    labels = pc.replace_substring(pc.struct_field(halves, "label"), FASTTEXT, "")
    if pc.any(pc.match_substring_regex(labels, r"\s")).as_py():
        labels = pc.utf8_split_whitespace(labels)
    return {"ngram": pc.struct_field(halves, "ngram"), "label": labels}


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
                f"Say which one is meant with --columns {name}=NAME{OR_DOCUMENTS if name == 'ngram' else ''}"
            )
    known = {name: table[theirs] for name, theirs in wanted.items() if theirs in table}
    return Batch(location, known.pop("ngram"), known, table, wanted["ngram"])

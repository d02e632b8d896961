"""Documents that Spark reads: a DataFrame on the driver, batches of documents in its tasks.

Rows are documents (Parquet, or a DataFrame of the user's), lines (JSON lines, or text by lines) or whole files (all
other formats, whose files cannot be cut). A file that comes whole is read by the same reader as on one machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import (
    STANDARD_INPUT,
    BufferedFile,
    Documents,
    Location,
    Options,
    Row,
    bare_name,
    batches,
)
from raregram.corpus.formats import BY_SUFFIX, CONTEXTS, FORMATS, recognise
from raregram.corpus.formats.tables import CONTENT, FILE, ROW, SPANS, from_batches, json_rows
from raregram.counts.count import is_frame
from raregram.errors import FileError, InputError, ParameterError, check_choice
from raregram.spark.session import Cluster, Frame

TABLE, LINES, FILES = "table", "lines", "files"  # what a row is part of
SHOWN = 40  # characters of a line by which it is named


@dataclass(frozen=True)
class Source:
    """Documents as Spark reads them."""

    frame: Frame
    rows: str  # TABLE, LINES or FILES
    format: str

    @property
    def has_spans(self) -> bool:
        """Whether documents can have labels."""
        return self.format != "text" and (self.rows != TABLE or "spans" in self.frame.columns)


def open_source(cluster: Cluster, sources: Any, options: Options) -> Source:
    """Return the documents of paths, or of a DataFrame with the columns items or text, and spans."""
    if is_frame(sources):
        return Source(_document_columns(sources, "the DataFrame"), TABLE, "parquet")
    names = path_names(sources)
    name = options.format or _recognise(cluster, names)
    check_choice("format", "a count on Spark", name, [known for known in FORMATS if not known.startswith("reuters")])
    if name == "parquet":
        frame = read_parquet(cluster, names)
        kept = _document_columns(frame, ", ".join(names)).columns
        place = [f"_metadata.file_path as {FILE}", f"_metadata.row_index as {ROW}"]
        return Source(frame.selectExpr(*kept, *place), TABLE, name)
    if name == "jsonl" or (name == "text" and options.split == "lines"):
        frame = reader(cluster).option("lineSep", "\n").text(names)
        place = [f"_metadata.file_path as {FILE}"] if name == "jsonl" else []
        return Source(frame.selectExpr("value", *place), LINES, name)
    return Source(reader(cluster).format("binaryFile").load(names).select("path", "content"), FILES, name)


def reader(cluster: Cluster) -> Any:
    """Return what reads files, those of folders in folders too."""
    return cluster.session.read.option("recursiveFileLookup", "true")


def read_parquet(cluster: Cluster, names: Sequence[str]) -> Frame:
    """Return the rows of Parquet files with the columns of all of them, not only of the one that Spark looks at."""
    return reader(cluster).option("mergeSchema", "true").parquet(*names)


def path_names(sources: Any) -> list[str]:
    """Return paths as Spark takes them."""
    given = [sources] if isinstance(sources, str | os.PathLike) else sources
    if not isinstance(given, list | tuple) or not all(isinstance(name, str | os.PathLike) for name in given):
        raise ParameterError("Spark counts files, folders, globs or a DataFrame, not Python objects")
    if STANDARD_INPUT in given:
        raise ParameterError("Spark cannot read standard input: name files")
    return [os.fspath(name) for name in given]


def first_file(cluster: Cluster, names: Sequence[str]) -> str:
    """Return the path of one of the files that names stand for."""
    found = cluster.run(lambda: reader(cluster).format("binaryFile").load(list(names)).select("path").first())
    if found is None:
        raise FileError(f"there is no file in {', '.join(names)}")
    return str(found["path"])


def _recognise(cluster: Cluster, names: Sequence[str]) -> str:
    """Return the format of files, by the end of a name, or by its first lines if it is on this machine."""
    path = first_file(cluster, names)
    local = Path(path.removeprefix("file:"))
    if path.startswith("file:") and local.is_file():
        found = recognise(str(local))
    else:
        found = BY_SUFFIX.get(Path(bare_name(path)).suffix.lower(), "")
    if not found:
        raise ParameterError(f"cannot tell what {path} is: name the format")
    if found == CONTEXTS:
        raise InputError(f"{path} holds contexts, which the local engine counts; Spark counts documents")
    return found


def _document_columns(frame: Frame, source: str) -> Frame:
    """Leave only the columns that make a document."""
    content = next((name for name in CONTENT if name in frame.columns), None)
    if content is None:
        raise InputError(f"{source} has no column items or text; it has {', '.join(frame.columns)}")
    return frame.select(content, *(["spans"] if "spans" in frame.columns else []))


def read_partition(
    rows: Iterable[pa.RecordBatch], kind: str, format_name: str, options: Options
) -> Iterator[Documents]:
    """Yield the documents of a partition, in a task."""
    if kind == TABLE:
        return from_batches(rows, Location("a partition of the DataFrame", "row"), options)
    if kind == FILES:
        return batches(_of_files(rows, format_name, options), options.batch_bytes)
    if format_name == "jsonl":
        return batches(json_rows(_locations(rows), options.skip_log), options.batch_bytes)
    return _of_lines(rows, options)


def _of_files(rows: Iterable[pa.RecordBatch], format_name: str, options: Options) -> Iterator[Row | Documents]:
    for batch in rows:
        for path, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from FORMATS[format_name](BufferedFile(path.removeprefix("file:"), content), options)


def _locations(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[Location, bytes]]:
    """Yield each line with its location: Spark does not tell its number."""
    for batch in rows:
        lines, files = batch.column(0).cast(pa.binary()).to_pylist(), batch.column(1).to_pylist()
        for line, file in zip(lines, files, strict=True):
            yield Location(f"{file.removeprefix('file://')}, {_name_line(line)}"), line.rstrip(b"\r")


def _name_line(line: bytes) -> str:
    return f"the line that begins with {line.decode(errors='replace')[:SHOWN]!r}"


def _of_lines(rows: Iterable[pa.RecordBatch], options: Options) -> Iterator[Documents]:
    """Yield lines of text as documents, but blank ones."""
    waiting: list[pa.Array] = []
    for batch in rows:
        waiting.append(batch.column(0))
        if sum(lines.nbytes for lines in waiting) >= options.batch_bytes:
            yield _line_documents(waiting, options)
            waiting = []
    if waiting:
        yield _line_documents(waiting, options)


def _line_documents(parts: list[pa.Array], options: Options) -> Documents:
    lines = valid_texts(pa.concat_arrays(parts), options)
    lines = pc.utf8_rtrim(lines, characters="\r")
    texts = lines.filter(pc.greater(pc.binary_length(pc.utf8_trim_whitespace(lines)), 0))
    none = np.empty(0, np.int64)
    labels = pa.array([], SPANS.value_type["label"].type)
    return Documents([LineLocations(texts)], texts, None, none, none, none, labels)


@dataclass(frozen=True)
class LineLocations:
    """Names lines by how they begin."""

    texts: pa.Array

    def at(self, row: int) -> Location:
        """Return the location of one line."""
        return Location(_name_line(self.texts[row].as_py().encode()))


def valid_texts(texts: pa.Array, options: Options) -> pa.Array:
    """Return strings as they came from Spark, which does not check that they are UTF-8; others are skipped."""
    raw = texts.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        valid = np.array([_is_valid(line, options) for line in raw.to_pylist()])
        return raw.filter(pa.array(valid)).cast(pa.string())


def _is_valid(line: bytes, options: Options) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        options.skip_log.skip_or_raise(InputError(f"{_name_line(line)} is not valid UTF-8"))
        return False
    return True

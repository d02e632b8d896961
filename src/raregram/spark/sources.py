"""What Spark reads: a DataFrame on the driver, and in its tasks batches of documents or contexts.

Rows are those of a table (Parquet, CSV, or a DataFrame of the user's), lines (JSON lines, or text by lines) or whole
files (all other formats, whose files cannot be cut). A file that comes whole is read by the same reader as on one
machine.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.contexts import OR_DOCUMENTS, split_labels, table_batch
from raregram.corpus.documents import (
    STANDARD_INPUT,
    BufferedFile,
    Documents,
    Location,
    Options,
    Row,
    bare_name,
    batches,
    compression_of,
)
from raregram.corpus.encoding import not_utf8
from raregram.corpus.formats import BY_SUFFIX, CONTEXTS, FASTTEXT, FORMATS, read_file, recognise
from raregram.corpus.formats.objects import MORE
from raregram.corpus.formats.running import read_part
from raregram.corpus.formats.tables import CONTENT, FILE, ROW, from_batches, json_rows
from raregram.corpus.samples import check_field, is_field, with_samples
from raregram.corpus.spacy import import_spacy
from raregram.counts.count import ContextOptions, encode_contexts, is_frame
from raregram.counts.encode import Encoded, encode_documents
from raregram.counts.kernel import CountSettings
from raregram.errors import FileError, InputError, ParameterError, check_choice, name_some
from raregram.options import SPLIT
from raregram.remote import is_remote
from raregram.spark.session import Cluster, Frame, quote
from raregram.text.ngrams import parse_ngrams
from raregram.text.tokenize import Tokenizer

Block: TypeAlias = tuple[str, int]  # a file, and the byte of it at which a part begins that Spark reads in one go

TABLE, LINES, FILES = "table", "lines", "files"  # what a row is part of
DATA_FRAME = "the DataFrame"  # how messages call it
PART_BYTES = 1 << 27  # of a plain text that is longer; each part is read by a task
BLOCK = "_block"  # the column of lines that says in which part of its file a line stands
SHOWN = 40  # characters of a line by which it is named
BATCH_ROWS, BATCH_BYTES = 1 << 17, 1 << 25  # of contexts at a time
CSV = {
    "header": "true",
    "escape": '"',
    "multiLine": "true",
    "inferSchema": "false",
    "mode": "FAILFAST",  # a row with too few or too many values is an error, as it is on one machine
    "enforceSchema": "false",  # and so is a file of a folder with other columns
}


@dataclass(frozen=True)
class Source:
    """Documents or contexts, as Spark reads them."""

    frame: Frame  # None in a task
    rows: str  # TABLE, LINES or FILES
    format: str
    name: str = DATA_FRAME
    contexts: ContextOptions | None = None  # how contexts are read; None for documents
    split: str = SPLIT.default  # what a document is in plain text
    by: str | None = None  # what cuts documents into samples
    folder: str = ""  # from which paths are named that were given so; "": they were given as a whole
    lines_before: Mapping[Block, int] | None = None  # of each part of a file; None: lines have no numbers

    @property
    def column(self) -> str:
        """The column of contexts."""
        return _renamed(self.contexts)

    @property
    def has_labels(self) -> bool:
        """Whether there can be labels."""
        return self.by is not None or (
            self.format != "text"
            and (self.rows != TABLE or self.contexts is not None or bool({"spans", *MORE} & set(self.frame.columns)))
        )

    def context_length(self, cluster: Cluster, tokenizer: Tokenizer) -> int:
        """Return the number of items of a context: the one that was asked for, or else that of the first."""
        assert self.contexts is not None
        first = cluster.run(self.frame.select(quote(self.column)).first)
        if first is None:
            raise InputError(f"there is no context in {self.name}")
        found = parse_ngrams([first[0]], self.contexts.n, tokenizer, lambda row: f"{self.name}, row 1")
        return int(found.lengths[0])

    def encode(self, rows: Iterator[pa.RecordBatch], settings: CountSettings, options: Options) -> Iterator[Encoded]:
        """Yield what a partition holds, encoded; in a task."""
        if self.contexts is None:
            for documents in read_partition(rows, self, options):
                yield encode_documents(documents, settings, options.log)
            return
        location = Location(f"a partition of {self.name}", "row")
        for batch in gathered(rows):
            contexts = table_batch(batch, location, self.contexts.rename or {})
            yield encode_contexts(contexts, self.contexts, settings, options.log)


def open_source(
    cluster: Cluster,
    sources: Any,
    options: Options,
    contexts: ContextOptions,
    may_cut: bool = True,
    keys: bool = False,
) -> Source:
    """Return the documents or contexts of paths, or of a DataFrame with such columns; see `rg.count`.

    A large text may be cut into parts that several tasks read, if it may. With `keys`, documents without ids are
    called as on one machine; for that, lines are counted first.
    """
    folder = ""
    if is_frame(sources):
        frame, name, found = sources, DATA_FRAME, "parquet"
    else:
        names = path_names(sources)
        folder = str(Path.cwd()) if keys and not any(map(os.path.isabs, names)) else ""
        name, found = ", ".join(names), options.format or recognise_files(cluster, names)
        if not found:
            raise ParameterError(f"cannot tell what {name} is: name the format")
        if found == "spacy":
            import_spacy()  # raises before the cluster has work
        known = [known for known in (*FORMATS, CONTEXTS) if not known.startswith("reuters")]
        check_choice("format", "a count on Spark", found, known)
        if found == "parquet":
            frame = read_parquet(cluster, names)
    if found == CONTEXTS or (found == "parquet" and _renamed(contexts) in frame.columns):
        opened = open_contexts(cluster, sources, None, contexts.rename)
        assert opened.contexts is not None
        return replace(opened, contexts=replace(contexts, rename=opened.contexts.rename))
    rows, before = FILES, None
    if found == "parquet":
        rows, kept = TABLE, _document_columns(frame, name, options.by)
        origin = ["_metadata.file_path", "_metadata.row_index"]
        file, row = [f"'{name}'", "monotonically_increasing_id()"] if is_frame(sources) else origin
        frame = frame.selectExpr(*kept, f"{file} as {FILE}", f"{row} as {ROW}")
    elif found == "jsonl" or (found == "text" and options.split == "lines"):
        if options.by is not None and not is_field(options.by):
            raise ParameterError("on Spark, lines are cut by a field, not by folder or file")
        rows, columns = LINES, ["cast(value as binary) as value", f"_metadata.file_path as {FILE}"]
        frame = _read_lines(cluster, names).selectExpr(*columns, f"_metadata.file_block_start as {BLOCK}")
        if keys:
            frame, before = _numbered(cluster, frame)
    else:
        cut = may_cut and (found, options.split, options.log.on_error) == ("text", "file", "stop")
        frame = _files(cluster, names, cut and options.cut is not None)
    return Source(frame, rows, found, name, split=options.split, by=options.by, folder=folder, lines_before=before)


def _numbered(cluster: Cluster, lines: Frame) -> tuple[Frame, dict[Block, int]]:
    """Count the lines of each part of a file, and return how many stand before it.

    The lines are returned as they were counted: else a file might be cut at other places when it is read again.
    """
    with cluster.planning():
        lines = cluster.fixed(lines)
        counted = cluster.run(lines.groupBy(FILE, BLOCK).count().collect)
    before, lines_of = {}, Counter[str]()
    for file, start, size in sorted(map(tuple, counted)):
        before[file, start] = lines_of[file]
        lines_of[file] += size
    return lines, before


def _files(cluster: Cluster, names: Sequence[str], cut: bool) -> Frame:
    """Return files with their content or, of large ones if they may be cut, parts that tasks read themselves."""
    found = read_files(cluster, names)
    whole = ["path", "content", "cast(null as bigint) as start", f"{PART_BYTES}L as part_bytes"]
    is_large = f"length > {PART_BYTES}"
    large = found.where(is_large)
    sizes = {row["path"]: row["length"] for row in cluster.run(large.select("path", "length").collect)} if cut else {}
    if not sizes or not all(map(_can_be_cut, sizes)):
        return found.selectExpr(*whole)
    starts = f"explode(sequence(0L, length - 1, {PART_BYTES}L)) as start"
    parts = large.selectExpr(whole[0], "cast(null as binary) as content", starts, whole[3])
    number = sum(-(-size // PART_BYTES) for size in sizes.values())
    return found.where(f"not {is_large}").selectExpr(*whole).union(parts.repartition(number))


def _can_be_cut(path: str) -> bool:
    """Whether tasks can read a file themselves, from any byte on."""
    try:
        return bool(path.startswith("file:") or is_remote(path)) and compression_of(_local_name(path)) is None
    except FileError:  # Arrow lacks what it needs
        return False


def open_contexts(cluster: Cluster, sources: Any, n: int | None, rename: Mapping[str, str] | None = None) -> Source:
    """Return the contexts of paths or of a DataFrame.

    Args:
        cluster: where they are read.
        sources: Parquet or CSV tables with the column `ngram`, count tables with whole N-grams, or text, one context
            a line; or a DataFrame with such columns.
        n: the number of items of whole N-grams; None: count tables are not taken.
        rename: what a table calls its columns, where it uses other names.
    """
    options = ContextOptions(rename)
    wanted = _renamed(options)
    if is_frame(sources):
        frame, name = sources, DATA_FRAME
    else:
        names = path_names(sources)
        name, bare = ", ".join(names), bare_name(first_file(cluster, names))
        if bare.endswith((".parquet", ".pq")):
            frame = read_parquet(cluster, names)
        elif bare.endswith(".csv"):
            tables = [reader(cluster).options(**CSV).csv(path).na.fill("") for path in names]
            frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tables)
        else:
            frame = _split_lines(cluster, _read_lines(cluster, names).select("value"), name)
            return Source(frame, TABLE, CONTEXTS, name, ContextOptions())
    if wanted not in frame.columns:
        if n is None or not {"start", "end", "items", "total"} <= set(frame.columns):
            raise InputError(
                f"{name} has no column {wanted!r}; it has {', '.join(frame.columns)}. "
                f"Say which one is meant with --columns ngram=NAME{OR_DOCUMENTS}"
            )
        frame = whole_ngrams(frame, n, name).selectExpr(f"items as {quote(wanted)}")  # of a count table
    return Source(frame, TABLE, CONTEXTS, name, options)


def _renamed(contexts: ContextOptions | None) -> str:
    """Return the name of the column of contexts."""
    return ((contexts and contexts.rename) or {}).get("ngram", "ngram")


def whole_ngrams(frame: Frame, n: int, source: str) -> Frame:
    """Return the whole N-grams of a count table; raise if they are in folds, since each has a row in each of them."""
    if "fold" in frame.columns:
        raise InputError(f"{source} is a count table in folds: read it with the local engine, or count without folds")
    return frame.where(f"start = 0 and end = {n}")


def _split_lines(cluster: Cluster, lines: Frame, source: str) -> Frame:
    """Cut lines into label and items, where the first of them has a label."""
    first = cluster.run(lines.first)
    start = "" if first is None else first["value"]
    columns = {"ngram": "string"}
    if "\t" in start or start.startswith(FASTTEXT):
        columns["label"] = "array<string>" if start.startswith(FASTTEXT) else "string"

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = split_labels(valid_texts(batch.column(0)), lambda row: f"a line of {source}")
            if list(found) != list(columns):
                raise InputError(f"{source}: some lines have a label and some have none")
            if columns.get("label", "string") != "string" and pa.types.is_string(found["label"].type):
                found["label"] = pc.utf8_split_whitespace(found["label"])
            yield pa.record_batch(found)

    return cluster.map(lines, work, columns)


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the small batches of Spark together: larger ones are encoded and scored faster."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= BATCH_ROWS or sum(some.nbytes for some in waiting) >= BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting = []
    if any(map(len, waiting)):
        yield pa.concat_batches(waiting)


def reader(cluster: Cluster) -> Any:
    """Return Spark's reader of files, those of folders in folders too."""
    return cluster.session.read.option("recursiveFileLookup", "true")


def read_files(cluster: Cluster, names: Sequence[str]) -> Frame:
    """Return whole files."""
    return reader(cluster).format("binaryFile").load(list(names))


def _read_lines(cluster: Cluster, names: Sequence[str]) -> Frame:
    return reader(cluster).option("lineSep", "\n").text(names)


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
    found = cluster.run(lambda: read_files(cluster, names).select("path").first())
    if found is None:
        raise FileError(f"there is no file in {', '.join(names)}")
    return str(found["path"])


def recognise_files(cluster: Cluster, names: Sequence[str], look: Callable[[str], str | None] = recognise) -> str:
    """Return the format of files, by a look at the first one if it is on this machine, or else by its name."""
    path = first_file(cluster, names)
    local = path.removeprefix("file:")
    if path.startswith("file:") and Path(local).is_file():
        return look(local) or ""
    return BY_SUFFIX.get(Path(bare_name(path)).suffix.lower(), "")


def _document_columns(frame: Frame, source: str, by: str | None) -> list[str]:
    """Return the columns that make a document, and the one that says its sample."""
    check_field(by, frame.columns, source)
    kept = [name for name in frame.columns if name in ("id", *CONTENT, "spans", *MORE, by)]
    if not {*CONTENT, "tokens"} & set(kept):
        there = name_some(frame.columns)
        raise InputError(f"{source} has no column items or text; it has {there}: rename the one that holds the text")
    return list(map(quote, kept))


def read_partition(rows: Iterable[pa.RecordBatch], source: Source, options: Options) -> Iterator[Documents]:
    """Yield the documents of a partition, in a task."""
    return with_samples(_read_partition(rows, source, options), options.by)


def _read_partition(rows: Iterable[pa.RecordBatch], source: Source, options: Options) -> Iterator[Documents]:
    if source.rows == TABLE:
        named = (_name_files(batch, source.folder) for batch in rows)
        return from_batches(named, Location(source.name, "row"), options)
    if source.rows == FILES:
        documents = _of_files(rows, source, options)
    elif source.format == "jsonl":
        documents = json_rows(_lines(rows, source), options)
    else:
        documents = _text_rows(_lines(rows, source), options)
    return batches(documents, options.batch_bytes)


def _name_files(batch: pa.RecordBatch, folder: str) -> pa.RecordBatch:
    """Let the rows of a table name their files as they are called on one machine."""
    column = batch.schema.get_field_index(FILE)
    files = batch.column(column).dictionary_encode()
    names = pa.array([_file_name(file, folder) for file in files.dictionary.to_pylist()], pa.string())
    return batch.set_column(column, FILE, names.take(files.indices))


def _of_files(rows: Iterable[pa.RecordBatch], source: Source, options: Options) -> Iterator[Row | Documents]:
    for batch in rows:
        for path, content, start, size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if content is None:
                yield from read_part(_local_name(path), start, size, options)
            else:
                yield from read_file(BufferedFile(_local_name(path, source.folder), content), source.format, options)


def _local_name(path: str, folder: str = "") -> str:
    """Return a path as Python takes it; with a folder, as it is called from there."""
    name = re.sub("^file:/+", "/", path)
    return os.path.relpath(name, folder) if folder and name.startswith("/") else name


@cache
def _file_name(address: str, folder: str) -> str:
    """Return the same of the address that Spark tells of a row's file, in which some characters are escaped."""
    return _local_name(unquote(address), folder)


def _lines(rows: Iterable[pa.RecordBatch], source: Source) -> Iterator[tuple[Location, bytes]]:
    """Yield each line with its location: by its number, or by how it begins, since Spark does not tell its number."""
    before = None if source.lines_before is None else dict(source.lines_before)
    for batch in rows:
        for line, file, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            name = _file_name(file, source.folder)
            if before is None:
                location = Location(f"{name}, {_name_line(line)}")
            else:
                before[file, block] += 1
                location = Location(name, "line", before[file, block])
            yield location, line.rstrip(b"\r")


def _name_line(line: bytes) -> str:
    return f"the line that begins with {line.decode(errors='replace')[:SHOWN]!r}"


def _text_rows(lines: Iterable[tuple[Location, bytes]], options: Options) -> Iterator[Row]:
    """Yield lines of text as documents, but blank ones."""
    for location, line in lines:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            options.log.skip_or_raise(not_utf8(location, line, location.source))
            continue
        if text.strip():
            yield Row(None, text, None, location)


def valid_texts(texts: pa.Array) -> pa.Array:
    """Return strings as they came from Spark, which does not check that they are UTF-8."""
    raw = texts.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        for line in raw.drop_null().to_pylist():
            try:
                line.decode()
            except UnicodeDecodeError:
                raise not_utf8(_name_line(line), line, "FILE") from None
        raise

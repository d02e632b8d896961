"""Named entities: documents in, the same documents with labelled spans out.

Documents are tagged in chunks of a fixed size. Each finished chunk is a file in a hidden folder beside the output,
under a name that has a digest of its documents and of all settings, and is written atomically. So a run that was
stopped, however it was stopped, goes on with the first chunk that has no file, and its result is the same. In the end
the chunks become one file, and the folder goes away.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from raregram import options as choices
from raregram.atomic import atomic_path, check_target, sole_use, write_errors_named
from raregram.corpus.documents import Documents, Options, spans_from_offsets
from raregram.corpus.formats import read_documents
from raregram.corpus.taggers import PIECE_CHARACTERS, Offsets, Tagger, load_tagger
from raregram.errors import InputError, ParameterError
from raregram.remote import PathLike, local_path

DEFAULT_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "GPE": "LOC",
        "LOC": "LOC",
        "LOCATION": "LOC",
        "PERSON": "PER",
        "PER": "PER",
        "ORG": "ORG",
        "ORGANIZATION": "ORG",
    }
)
Chunk: TypeAlias = list[tuple[str | None, str]]  # (id, text) of documents in a row

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
    pipeline: str  # what found them
    version: str


def tag(  # noqa: PLR0913 - every option has its name
    sources: Any,
    out: PathLike,
    *,
    tagger: choices.Tagger | Tagger = choices.TAGGER.default,
    pipeline: str | None = None,
    stanford: str | None = None,
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
        tagger: "spacy", "stanford" (Stanford NER, the tagger of the paper), or any object that is a
            `raregram.corpus.taggers.Tagger`, which then has all settings but `labels`.
        pipeline: an installed spaCy pipeline or the folder of one, by default en_core_web_sm; for Stanford NER a
            classifier, by default english.all.3class.distsim.
        stanford: a folder or jars with Stanford NER; None for what CORENLP_HOME names or else what
            `raregram fetch stanford-ner` brought.
        labels: the tagger's labels to keep, and what to call them; None keeps all as they are.
        processes: how many to use, for Stanford NER threads of one Java; None for one per core. The result is
            the same.
        batch_size: how many texts a spaCy pipeline is given at once, at most.
        progress: called with the number of documents of each chunk when it is tagged.
        options: how to read the documents.
    """
    out = local_path(out)  # parts of it are kept, so that a tagging can be resumed
    check_target(out)
    if not isinstance(tagger, str):
        return _tag(tagger, sources, out, labels, progress, options)
    with closing(load_tagger(tagger, pipeline, processes, batch_size, stanford)) as loaded:
        return _tag(loaded, sources, out, labels, progress, options)


def _tag(
    tagger: Tagger,
    sources: Any,
    out: Path,
    labels: Mapping[str, str] | None,
    progress: Callable[[int], None],
    options: Options | None,
) -> TagResult:
    """Tag documents in chunks, and join them."""
    _check_labels(labels, tagger)
    about = {**tagger.facts, "labels": None if labels is None else dict(sorted(labels.items()))}
    settings = {**about, "chunk": [CHUNK_DOCUMENTS, CHUNK_CHARACTERS, PIECE_CHARACTERS]}
    with _parts_folder(out, settings) as folder:
        parts: list[Path] = []
        resumed = 0
        waiting: deque[Future[int]] = deque()
        with _threads(tagger.threads) as pool:
            for chunk in _chunks(read_documents(sources, options)):
                content = json.dumps([settings, *zip(*chunk, strict=True)]).encode()
                parts.append(folder / f"{len(parts):06}-{hashlib.sha256(content).hexdigest()[:32]}.parquet")
                if parts[-1].exists():
                    resumed += len(chunk)
                    continue
                waiting.append(pool.submit(_tag_chunk, chunk, parts[-1], tagger.find, labels))
                if len(waiting) >= 2 * tagger.threads:
                    progress(waiting.popleft().result())
            for done in waiting:
                progress(done.result())
        if parts:
            documents, spans = _join(parts, out, about)
        shutil.rmtree(folder, ignore_errors=True)
    if not parts:
        raise InputError("there is no document to tag")
    return TagResult(out, documents, resumed, spans, tagger.facts["pipeline"], tagger.facts["version"])


def _check_labels(labels: Mapping[str, str] | None, tagger: Tagger) -> None:
    """Raise if no label that is asked for can ever come."""
    if labels is not None and tagger.labels and not tagger.labels & set(labels):
        raise ParameterError(
            f"{tagger.facts['pipeline']} has none of the labels {', '.join(sorted(labels))}; "
            f"it has {', '.join(sorted(tagger.labels))}"
        )


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
    """Gather documents into chunks, which depend on the documents alone and not on their batches."""
    chunk: Chunk = []
    characters = 0
    for batch in batches:
        ids = batch.ids.to_pylist() if batch.ids is not None else [None] * len(batch)
        for row, name in enumerate(ids):
            chunk.append((name, _text(batch, row)))
            characters += len(chunk[-1][1])
            if len(chunk) >= CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS:
                yield chunk
                chunk, characters = [], 0
    if chunk:
        yield chunk


def _text(batch: Documents, row: int) -> str:
    """Return a document as text, whose items are those between white space."""
    content = batch.content[row].as_py()
    if batch.texts is not None:
        return str(content)
    text = " ".join(content)
    if text.split() != content:
        raise InputError(f"{batch.location(row)} has an item that is empty or has white space in it", row)
    return text


def _tag_chunk(
    chunk: Chunk, path: Path, find: Callable[[Sequence[str]], list[Offsets]], labels: Mapping[str, str] | None
) -> int:
    """Tag documents, write them to a file of their own, and return how many they are."""
    ids, texts = zip(*chunk, strict=True)
    spans = []
    for text, entities in zip(texts, find(texts), strict=True):
        names = {label: label for _, _, label in entities} if labels is None else labels
        wanted = [(start, end, names[label]) for start, end, label in entities if label in names]
        distinct = dict.fromkeys(spans_from_offsets(text, wanted))
        spans.append([dict(zip(("start", "end", "label"), span, strict=True)) for span in distinct])
    with atomic_path(path) as temporary:
        pq.write_table(pa.table([ids, [text.split() for text in texts], spans], schema=SCHEMA), temporary)
    return len(chunk)


@contextmanager
def _parts_folder(out: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Give the folder of finished chunks, without those of other settings."""
    folder = out.with_name(f".{out.name}.parts")
    manifest = folder / "manifest.json"
    with write_errors_named(folder):
        folder.mkdir(exist_ok=True)
    with sole_use(folder):
        try:
            known = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = None
        if known != settings:
            for path in folder.glob("[!.]*"):
                path.unlink()
            with atomic_path(manifest) as temporary:
                temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        yield folder


def _join(parts: Iterable[Path], out: Path, about: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """Write the rows of all parts to one file; return the number of documents and of spans by label."""
    documents, spans = 0, Counter[str]()
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(about)})
    tables: list[pa.Table] = []
    with atomic_path(out) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for part in (*parts, None):
            if part is not None:
                tables.append(pq.ParquetFile(part).read().replace_schema_metadata(schema.metadata))
                documents += len(tables[-1])
                spans.update(tables[-1]["spans"].combine_chunks().flatten().field("label").to_pylist())
            rows, size = sum(map(len, tables)), sum(table.nbytes for table in tables)
            if rows >= ROW_GROUP or size >= ROW_GROUP_BYTES or (part is None and tables):
                writer.write_table(pa.concat_tables(tables), row_group_size=rows)
                tables = []
    return documents, dict(sorted(spans.items()))

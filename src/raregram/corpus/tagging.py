"""Named entities: documents in, the same documents with labelled spans out.

A tagger is a class with the members of `Tagger` in a module of its own, and one line in `load_tagger`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from raregram import options as choices
from raregram.corpus.documents import Documents, Options, spans_from_offsets
from raregram.corpus.formats import read_documents
from raregram.errors import InputError, ParameterError, RaregramWarning, check_count
from raregram.files import atomic_path, check_target
from raregram.remote import PathLike, local_path

DEFAULT_LABELS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("GPE", "LOC", "LOCATION"), "LOC")
    | dict.fromkeys(("PERSON", "PER"), "PER")
    | dict.fromkeys(("ORG", "ORGANIZATION"), "ORG")
)
METADATA_KEY = b"raregram.tagged"
SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("items", pa.list_(pa.string())), ("spans", pa.list_(SPAN))])

# Documents are tagged and written in chunks, each of which becomes a row group: this bounds the memory.
CHUNK_DOCUMENTS, CHUNK_CHARACTERS = 8192, 1 << 24
# Longer texts are tagged in pieces: taggers need memory by the length of what they get.
PIECE_CHARACTERS = 100_000


class Tagger(Protocol):
    """Finds named entities."""

    facts: dict[str, str]  # everything that the result depends on; `pipeline` and `version` are shown to people
    labels: frozenset[str]  # all that it can find; empty if unknown

    def find(self, texts: Sequence[str]) -> Iterable[list[tuple[int, int, str]]]:
        """Return the entities of each text as (first character, after the last one, label)."""


@dataclass(frozen=True)
class TagResult:
    """What was tagged."""

    out: Path
    documents: int
    spans: Mapping[str, int]  # label -> number of spans
    pipeline: str  # what found them
    version: str


def load_tagger(
    name: choices.Tagger = "spacy",
    pipeline: str | None = None,
    processes: int | None = None,
    batch_size: int = 64,
    stanford: str | None = None,
) -> Tagger:
    """Load a tagger; raises if it, or what it needs, is not installed. For the arguments see `tag`."""
    choices.TAGGER.check(name, "tag")
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    check_count("processes", "tag", processes)
    check_count("batch_size", "tag", batch_size)
    if name == "stanford":
        from raregram.corpus.stanford import StanfordTagger

        return StanfordTagger(pipeline, processes, stanford)

    from raregram.corpus.spacy import SpacyTagger

    return SpacyTagger(pipeline, processes, batch_size)


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

    Its columns are `id`, `items` and `spans` (`start` and `end` in items, `label`). Spans that the documents had are
    not kept.

    Args:
        sources: paths, folders, globs or documents; see `raregram.corpus.formats.read_documents`.
        out: the file to write.
        tagger: "spacy", "stanford" (Stanford NER, the tagger of the paper), or any object that is a
            `raregram.corpus.tagging.Tagger`, which then has all settings but `labels`. It is given the pieces of
            texts of more than 100,000 characters one by one.
        pipeline: an installed spaCy pipeline or the folder of one, by default en_core_web_sm; for Stanford NER a
            classifier, by default english.all.3class.distsim.
        stanford: a folder or jars with Stanford NER; None for what CORENLP_HOME names or else what
            `raregram fetch stanford-ner` brought.
        labels: the tagger's labels to keep, and what to call them; None keeps all as they are.
        processes: how many to use, for Stanford NER threads of one Java; None for one per core. The result is
            the same.
        batch_size: how many texts a spaCy pipeline is given at once, at most.
        progress: called with the number of documents that were tagged since the last call.
        options: how to read the documents.
    """
    out = local_path(out)
    check_target(out)
    if isinstance(tagger, str):
        tagger = load_tagger(tagger, pipeline, processes, batch_size, stanford)
    if labels is not None and tagger.labels and not tagger.labels & set(labels):
        raise ParameterError(
            f"{tagger.facts['pipeline']} has none of the labels {', '.join(sorted(labels))}; "
            f"it has {', '.join(sorted(tagger.labels))}"
        )
    about = {**tagger.facts, "labels": None if labels is None else dict(sorted(labels.items()))}
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(about)})
    documents, found, kept = 0, Counter[str](), Counter[str]()  # labels of the tagger, and of the output
    with atomic_path(out) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for ids, texts in _chunks(read_documents(sources, options)):
            spans = []
            for text, entities in zip(texts, _find(tagger, texts), strict=True):
                found.update(label for _, _, label in entities)
                spans.append(_spans(text, entities, labels))
                kept.update(str(span["label"]) for span in spans[-1])
                progress(1)
            table = pa.table([ids, [text.split() for text in texts], spans], schema=schema)
            writer.write_table(table, row_group_size=len(table))
            documents += len(table)
        if not documents:
            raise InputError("there is no document to tag")
    if found and not kept:
        names = ", ".join(sorted(found))
        warnings.warn(f"no entity has a label that is kept; those found are {names}", RaregramWarning, stacklevel=2)
    return TagResult(out, documents, dict(sorted(kept.items())), tagger.facts["pipeline"], tagger.facts["version"])


def _chunks(batches: Iterable[Documents]) -> Iterator[tuple[list[str | None], list[str]]]:
    """Gather ids and texts of documents, whose items are those between white space."""
    ids: list[str | None] = []
    texts: list[str] = []
    for batch in batches:
        ids += [None] * len(batch) if batch.ids is None else batch.ids.to_pylist()
        for row, content in enumerate(batch.content.to_pylist()):
            texts.append(content if batch.texts is not None else " ".join(content))
            if batch.items is not None and texts[-1].split() != content:
                raise InputError(f"{batch.location(row)} has an item that is empty or has white space in it", row)
        while len(texts) >= CHUNK_DOCUMENTS or sum(map(len, texts)) >= CHUNK_CHARACTERS:
            yield ids[:CHUNK_DOCUMENTS], texts[:CHUNK_DOCUMENTS]
            ids, texts = ids[CHUNK_DOCUMENTS:], texts[CHUNK_DOCUMENTS:]
    if texts:
        yield ids, texts


def _find(tagger: Tagger, texts: Sequence[str]) -> Iterator[list[tuple[int, int, str]]]:
    """Yield the entities of each text, which the tagger finds piece by piece."""
    pieces = [list(cut_text(text, PIECE_CHARACTERS)) for text in texts]
    found = iter(tagger.find([piece for of_text in pieces for _, piece in of_text]))
    for of_text in pieces:
        yield [(at + start, at + end, label) for at, _ in of_text for start, end, label in next(found)]
    assert next(found, None) is None, "a tagger returns one list for each text"


def cut_text(text: str, longest: int) -> Iterator[tuple[int, str]]:
    r"""Yield the pieces of a text and where they begin.

    >>> list(cut_text("one two\nthree four. Five", 13))
    [(0, 'one two\n'), (8, 'three four. '), (20, 'Five')]
    """
    start = 0
    while len(text) - start > longest:
        end = start + longest
        marks = ((text.rfind(mark, start + longest // 2, end), len(mark)) for mark in ("\n", ". "))
        cut = next((at + size for at, size in marks if at >= 0), None)  # after a line or a sentence,
        if cut is None:  # or else at white space, if there is any
            cut = next((at + 1 for at in range(end - 1, start, -1) if text[at].isspace()), end)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]


def _spans(
    text: str, entities: Iterable[tuple[int, int, str]], labels: Mapping[str, str] | None
) -> list[dict[str, int | str]]:
    """Return the distinct spans of items of the entities with a label that is kept."""
    if labels is not None:
        entities = [(start, end, labels[label]) for start, end, label in entities if label in labels]
    distinct = dict.fromkeys(spans_from_offsets(text, list(entities)))
    return [{"start": start, "end": end, "label": label} for start, end, label in distinct]

"""Scoring and ranking on Spark: the model is sent to every executor once, and each task scores its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from raregram.corpus.documents import Options
from raregram.corpus.formats import CONTEXTS
from raregram.corpus.formats.tables import CONTENT
from raregram.counts.count import ContextOptions, is_frame
from raregram.errors import InputError, ParameterError, check_count
from raregram.measure.rank import Top, best_boundaries, by_first, numbered, value_names
from raregram.measure.results import Results
from raregram.measure.score import LOG_RATIO, Boundaries, boundaries, kind_of, ngram_lines, score_columns, scores_of
from raregram.models.model import Model
from raregram.spark.parts import write_parts
from raregram.spark.session import Cluster, Frame, Work, quote
from raregram.spark.sources import (
    Source,
    gathered,
    open_contexts,
    open_source,
    path_names,
    read_parquet,
    read_partition,
    recognise_files,
    valid_texts,
)
from raregram.text.vocabulary import Codes

BOUNDARY_COLUMNS = {"document": "string", "position": "bigint", "left": "string", "right": "string"}
OUT_ROWS = 1 << 16  # rows of a record batch


def open_input(
    cluster: Cluster, sources: Any, model: Model, options: Options, rename: Mapping[str, str] | None = None
) -> Source:
    """Return the contexts or the documents of paths or of a DataFrame, as `raregram.score` would take them."""
    if is_frame(sources):
        found = options.format or "parquet"
    else:
        names = path_names(sources)
        found = recognise_files(cluster, names, lambda path: kind_of(path, options, model.settings))
        found = options.format or found or CONTEXTS
    if found == "parquet":
        columns = set((sources if is_frame(sources) else read_parquet(cluster, names)).columns)
        others = {(rename or {}).get("ngram", "ngram"), "start"}  # of a table of contexts, and of a count table
        found = "parquet" if columns & set(CONTENT) and not columns & others else CONTEXTS
    if found == CONTEXTS:
        return open_contexts(cluster, sources, model.settings.n, rename)
    return open_source(cluster, sources, replace(options, format=found), ContextOptions(), keys=True)


def score(cluster: Cluster, model: Model, found: Source, level: float | None = None, name: str = LOG_RATIO) -> Frame:
    """Return a table of contexts with one more column, `log_ratio`; with a level, also `lower` and `upper`.

    Documents give a row for each boundary: document, position and the items on both sides of it, and the scores. With
    another name for the new column, the ends of the interval are called NAME_lower and NAME_upper.
    """
    return cluster.map(*_scoring(cluster, model, found, level, name))


def _scoring(
    cluster: Cluster, model: Model, found: Source, level: float | None, name: str
) -> tuple[Frame, Work, dict[str, str], Frame | None]:
    """Return what `Cluster.map` needs to score contexts or documents."""
    if level is not None:
        model.interval([], level)  # raises where it is out of range
    names = score_columns(name, level is not None).names
    get = cluster.broadcast(model)
    if found.contexts is None:
        kept = replace(found, frame=None)

        def score_documents(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for piece in _boundaries(get(), kept, rows):
                scores = dict(zip(names, scores_of(get(), piece.codes, level), strict=True))
                yield pa.record_batch({**piece.batch().table, **scores})

        return found.frame, score_documents, BOUNDARY_COLUMNS | dict.fromkeys(names, "double"), None
    for there in filter(found.frame.columns.__contains__, names):
        raise ParameterError(f"{found.name} has a column {there!r} already: name the new one with --as")
    column, source = found.column, found.name

    def score_contexts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in gathered(batches):
            there = {name: batch.column(name) for name in batch.schema.names}
            scores = scores_of(get(), _encode(get(), batch.column(column), source), level)
            yield pa.record_batch({**there, **dict(zip(names, scores, strict=True))})

    return found.frame, score_contexts, dict.fromkeys(names, "double"), found.frame


def _boundaries(model: Model, source: Source, rows: Iterator[pa.RecordBatch]) -> Iterator[Boundaries]:
    """Yield the boundaries of the documents of a partition, in a task."""
    for documents in read_partition(rows, source, Options(split=source.split)):
        yield from boundaries(model, documents)


def _encode(model: Model, ngrams: pa.Array, source: str) -> Codes:
    return model.encode(_valid(ngrams), lambda row: f"a row of {source}")


def _valid(ngrams: pa.Array) -> pa.Array:
    return valid_texts(ngrams) if pa.types.is_string(ngrams.type) else ngrams


def write_scores(
    cluster: Cluster,
    model: Model,
    found: Source,
    out: str,
    level: float | None = None,
    name: str = LOG_RATIO,
) -> None:
    """Write the rows of `score` as a folder of Parquet files, under its final name only when it is whole."""
    rows = _scoring(cluster, model, found, level, name)
    with cluster.planning(), cluster.temporary_folder(out) as temporary:
        if not cluster.run(lambda: write_parts(cluster, *rows, temporary)):
            raise InputError(f"there is nothing to score in {found.name}")


def rank(cluster: Cluster, model: Model, found: Source, size: int, level: float | None = None) -> Results:
    """Return the best boundaries of documents, or the best distinct contexts; with a level by their lower ends.

    Each task keeps its best, and Spark the best of those: nothing is sorted as a whole.
    """
    check_count("top", "rank", size)
    get, names = cluster.broadcast(model), value_names(level)
    in_task = replace(found, frame=None)
    best_of_task: Callable[[Iterator[pa.RecordBatch]], pa.Table | None]
    if found.contexts is None:
        frame, columns, ties = found.frame, BOUNDARY_COLUMNS, ["document", "position"]
        best_of_task = partial(_best_boundaries, get, in_task, size, level)
    else:
        frame, columns, ties = found.frame.select(quote(found.column)), {"ngram": "string"}, ["ngram"]
        best_of_task = partial(_best_contexts, get, in_task, size, level)

    def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        best = best_of_task(rows)
        yield from best.to_batches(OUT_ROWS) if best is not None else ()

    with cluster.planning():
        best = cluster.map(frame, work, dict.fromkeys(names, "double") | columns)
        best = best if found.contexts is None else best.distinct()
        value = best[names[0]]
        table = cluster.run(best.orderBy(value.isNaN(), value.desc(), *ties).limit(size).toArrow)
    if not len(table):
        raise InputError(f"there is nothing to rank in {found.name}")
    return numbered(table)


def _best_boundaries(
    get: Callable[[], Model], source: Source, size: int, level: float | None, rows: Iterator[pa.RecordBatch]
) -> pa.Table | None:
    best = None
    for piece in _boundaries(get(), source, rows):
        best = best_boundaries(get(), piece, size, level, best)
    return best


def _best_contexts(
    get: Callable[[], Model], source: Source, size: int, level: float | None, rows: Iterator[pa.RecordBatch]
) -> pa.Table | None:
    best, model = Top(size), get()
    for batch in gathered(rows):
        ngrams = batch.column(source.column)
        codes = _encode(model, ngrams, source.name)
        best.add(ngram_lines(model, _valid(ngrams)), by_first(scores_of(model, codes, level)))
    return best.ranking().table(level) if len(best.ranking().texts) else None

"""Scoring and ranking on Spark: the model is sent to every executor once, and each task scores its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.corpus.documents import Location, Options
from raregram.errors import InputError, ParameterError
from raregram.measure.rank import Ranking, Top
from raregram.measure.score import LOG_RATIO, score_columns, score_contexts, score_rows
from raregram.models.model import Model
from raregram.spark.session import Cluster, Frame
from raregram.spark.sources import Contexts, gathered, valid_texts
from raregram.text.ngrams import NGrams

OUT_ROWS = 1 << 16  # rows of a record batch


def score(
    cluster: Cluster, model: Model, contexts: Contexts, level: float | None = None, name: str = LOG_RATIO
) -> Frame:
    """Return the table with one more column, `log_ratio`; with a level, also `lower` and `upper`.

    Documents get a list, with the log ratio of each of their contexts. With another name for the new column, the ends
    of the interval are called NAME_lower and NAME_upper.
    """
    if level is not None:
        if contexts.are_documents:
            raise InputError("intervals are for contexts; these are documents")
        model.interval([], level)  # raises where it is out of range
    names = score_columns(name, level is not None, contexts.are_documents).names
    for there in filter(contexts.frame.columns.__contains__, names):
        raise ParameterError(f"{contexts.source} has a column {there!r} already: name the new one with --as")
    kind = "array<double>" if contexts.are_documents else "double"
    get = cluster.broadcast(model)
    add = _add_lists(get, contexts) if contexts.are_documents else _add_numbers(get, contexts, level)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in gathered(batches):
            kept = {name: batch.column(name) for name in batch.schema.names}
            added = dict(zip(names, add(batch), strict=True))
            yield pa.record_batch({**kept, **added})

    return cluster.map(contexts.frame, work, dict.fromkeys(names, kind), like=contexts.frame)


def _add_numbers(
    get: Callable[[], Model], contexts: Contexts, level: float | None
) -> Callable[[pa.RecordBatch], list[pa.Array]]:
    column, source = contexts.column, contexts.source

    def add(batch: pa.RecordBatch) -> list[pa.Array]:
        ngrams = _valid(batch.column(column))
        try:
            return score_contexts(get(), ngrams, level)
        except InputError:  # parsed as a whole to name the bad one
            return score_contexts(get(), _parse(get(), ngrams, source).lists(), level)

    return add


def _add_lists(get: Callable[[], Model], contexts: Contexts) -> Callable[[pa.RecordBatch], list[pa.Array]]:
    column, source = contexts.column, contexts.source

    def add(batch: pa.RecordBatch) -> list[pa.Array]:
        return [score_rows(get(), column, batch.column(column), Location(source, "row"))]

    return add


def _valid(ngrams: pa.Array) -> pa.Array:
    return valid_texts(ngrams, Options()) if pa.types.is_string(ngrams.type) else ngrams


def _parse(model: Model, ngrams: pa.Array, source: str) -> NGrams:
    return model.parse(_valid(ngrams), lambda row: f"a row of {source}")


def write_scores(cluster: Cluster, frame: Frame, out: str) -> None:
    """Compute scores and write them as a folder of Parquet files, under its final name only when it is whole."""
    with cluster.planning(), cluster.temporary_folder(out) as temporary:
        cluster.run(lambda: frame.write.parquet(temporary))


def rank(cluster: Cluster, model: Model, contexts: Contexts, size: int, level: float | None = None) -> Ranking:
    """Return the best distinct N-grams; with a level by the lower end of their interval.

    Each task keeps its best, and a few tasks the best of those: nothing is sorted as a whole.
    """
    if contexts.are_documents:
        raise InputError(f"{contexts.source} holds documents; rank takes contexts, or a count table of whole N-grams")
    get = cluster.broadcast(model)
    column, source = contexts.column, contexts.source
    width = 1 if level is None else 3

    def best_of_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        best, model = Top(size), get()
        for batch in gathered(batches):
            ngrams = _parse(model, batch.column(column), source)
            log_ratio, *ends = score_contexts(model, ngrams.lists(), level)
            values = [log_ratio] if level is None else [ends[0], log_ratio, ends[1]]
            best.add(ngrams.lines(model.settings.kind), np.column_stack(values))
        yield from _as_batches(best.ranking())

    def best_of_best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _as_batches(_best(batches, size))

    columns = {"ngram": "string", **{f"value{index}": "double" for index in range(width)}}
    with cluster.planning():
        first = cluster.map(contexts.frame.select(column), best_of_task, columns)
        few = max(isqrt(contexts.frame.rdd.getNumPartitions()), 1)
        table = cluster.run(cluster.map(first.repartition(few), best_of_best, columns).toArrow)
    return _best(table.to_batches(), size)


def _best(batches: Any, size: int) -> Ranking:
    best = Top(size)
    for batch in batches:
        values = np.column_stack([np.asarray(column) for column in batch.columns[1:]])
        best.add(batch.column(0), values)
    return best.ranking()


def _as_batches(ranking: Ranking) -> Iterator[pa.RecordBatch]:
    """Lay a ranking out as record batches."""
    values = {f"value{index}": pa.array(column.copy()) for index, column in enumerate(ranking.values.T)}
    yield from pa.table({"ngram": ranking.texts, **values}).to_batches(OUT_ROWS) if len(ranking.texts) else ()

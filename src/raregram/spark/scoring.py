"""Scoring and ranking on Spark: the model is sent to every executor once, and each task scores its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.corpus.contexts import split_labels
from raregram.corpus.documents import Location, Options, bare_name
from raregram.corpus.formats.tables import CONTENT
from raregram.counts.count import is_frame
from raregram.errors import InputError, ParameterError
from raregram.measure.rank import Ranking, Top
from raregram.measure.score import LOG_RATIO, score_columns, score_contexts, score_rows
from raregram.models.model import Model
from raregram.spark.session import Cluster, Frame
from raregram.spark.sources import first_file, path_names, read_parquet, reader, valid_texts
from raregram.text.ngrams import NGrams

OUT_ROWS = 1 << 16  # rows of a record batch
CSV = {
    "header": "true",
    "escape": '"',
    "multiLine": "true",
    "inferSchema": "false",
    "mode": "FAILFAST",  # a row with too few or too many values is an error, as it is on one machine
    "enforceSchema": "false",  # and so is a file of a folder with other columns
}
BATCH_ROWS, BATCH_BYTES = 1 << 17, 1 << 25  # scored at a time


@dataclass(frozen=True)
class Contexts:
    """A table of contexts or of documents as Spark reads it."""

    frame: Frame
    column: str  # of the N-grams, or of the content of documents
    source: str  # what it is called in messages

    @property
    def are_documents(self) -> bool:
        """Whether each row is a document, with many contexts."""
        return self.column in CONTENT


def open_contexts(cluster: Cluster, sources: Any, model: Model, rename: Mapping[str, str] | None = None) -> Contexts:
    """Return the contexts of paths or of a DataFrame.

    Args:
        cluster: where they are read.
        sources: Parquet or CSV tables with the column `ngram`, count tables with whole N-grams, Parquet tables of
            documents, or text, one context a line; or a DataFrame with such columns.
        model: what they will be scored with.
        rename: what a table calls its columns, where it uses other names.
    """
    if is_frame(sources):
        return _table(sources, "the DataFrame", model, rename or {})
    names = path_names(sources)
    source, first = ", ".join(names), first_file(cluster, names)
    bare = bare_name(first)
    if bare.endswith((".parquet", ".pq")):
        return _table(read_parquet(cluster, names), source, model, rename or {})
    if bare.endswith(".csv"):
        tables = [reader(cluster).options(**CSV).csv(name).na.fill("") for name in names]
        joined = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tables)
        return _table(joined, source, model, rename or {})
    return _lines(cluster, reader(cluster).option("lineSep", "\n").text(names).select("value"), source)


def _table(frame: Frame, source: str, model: Model, rename: Mapping[str, str]) -> Contexts:
    """Find the column of a table that is to be scored."""
    wanted = rename.get("ngram", "ngram")
    if wanted in frame.columns:
        return Contexts(frame, wanted, source)
    if {"start", "end", "items", "total"} <= set(frame.columns):  # a count table
        whole = frame.where(f"start = 0 and end = {model.settings.n}")
        return Contexts(whole.selectExpr("items as ngram"), "ngram", source)
    content = next((name for name in CONTENT if name in frame.columns), None)
    if content is None or "ngram" in rename:
        raise InputError(
            f"{source} has no column {wanted!r}; it has {', '.join(frame.columns)}. "
            "Say which one is meant with --columns ngram=NAME"
        )
    return Contexts(frame, content, source)


def _lines(cluster: Cluster, lines: Frame, source: str) -> Contexts:
    """Cut lines into label and items, where the first of them has a label."""
    first = cluster.run(lines.first)
    names = ["ngram", "label"] if first is not None and "\t" in first["value"] else ["ngram"]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = split_labels(valid_texts(batch.column(0), Options()), lambda row: f"a line of {source}")
            if list(columns) != names:
                raise InputError(f"{source}: some lines have a label and some have none")
            yield pa.record_batch(list(columns.values()), names=names)

    return Contexts(cluster.map(lines, work, dict.fromkeys(names, "string")), "ngram", source)


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
        for batch in _gathered(batches):
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


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the small batches of Spark together: a model has tables to make before it scores many contexts fast."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= BATCH_ROWS or sum(some.nbytes for some in waiting) >= BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting = []
    if any(map(len, waiting)):
        yield pa.concat_batches(waiting)


def _valid(ngrams: pa.Array) -> pa.Array:
    return valid_texts(ngrams, Options()) if pa.types.is_string(ngrams.type) else ngrams


def _parse(model: Model, ngrams: pa.Array, source: str) -> NGrams:
    return model.parse(_valid(ngrams), lambda row: f"a row of {source}")


def write_scores(cluster: Cluster, frame: Frame, out: str) -> None:
    """Compute scores and write them as a folder of Parquet files, under its final name only when it is whole."""
    with cluster.planning(), cluster.draft(out) as draft:
        cluster.run(lambda: frame.write.parquet(draft))


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
        for batch in _gathered(batches):
            ngrams = _parse(model, batch.column(column), source)
            log_ratio, *ends = score_contexts(model, ngrams.lists(), level)
            values = [log_ratio] if level is None else [ends[0], log_ratio, ends[1]]
            best.add(ngrams.lines(model.settings.kind), np.column_stack(values))
        yield from _as_batches(best.ranking())

    def best_of_best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _as_batches(_best(batches, size))

    columns = {"ngram": "string", **{f"value{place}": "double" for place in range(width)}}
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
    values = {f"value{place}": pa.array(column.copy()) for place, column in enumerate(ranking.values.T)}
    yield from pa.table({"ngram": ranking.texts, **values}).to_batches(OUT_ROWS) if len(ranking.texts) else ()

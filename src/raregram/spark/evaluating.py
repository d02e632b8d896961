"""Evaluation on Spark: the N-grams of documents are counted and scored there, and measured on the driver.

A log ratio and three frequencies of each distinct N-gram come to the driver, 32 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from raregram.corpus.documents import Options
from raregram.counts.count import CountJob, is_frame
from raregram.counts.kernel import CountSettings
from raregram.counts.spans import Span
from raregram.counts.storage import is_arrow, read_header, to_arrow
from raregram.counts.table import Counts, counts_columns
from raregram.errors import InputError, ParameterError, check_count
from raregram.measure.evaluate import Evaluation, evaluate_scores
from raregram.models.base import Settings
from raregram.models.model import Model
from raregram.options import K
from raregram.spark.counting import Count
from raregram.spark.session import Cluster, Frame, errors_explained, quote
from raregram.spark.sources import first_file, path_names, reader, whole_ngrams

SCORED = {"items": "array<string>", "log_ratio": "double", "f_nu": "bigint", "f_de": "bigint", "seen": "bigint"}


def evaluate(
    cluster: Cluster,
    model: Model,
    sources: Any,
    options: Options,
    *,
    k: int | None = K.default,
    training: str | None = None,
    memory_limit: int | None = None,
) -> Evaluation:
    """Rank the N-grams of documents by a model and compare with where they occur; as `measure.evaluate`.

    Args:
        cluster: where the work is done.
        model: a fitted model.
        sources: documents, or a DataFrame of them.
        options: how to read them.
        k: how many N-grams are returned; None: as many as are relevant.
        training: the path of the count table that the model was fitted on, with whole N-grams; gives the bands.
        memory_limit: bytes that a task takes for its tables.
    """
    if k is not None:
        check_count("k", "evaluate", k)
    s = model.settings
    with errors_explained():
        types = _count_table(cluster, sources, s)
        counted = _count(cluster, sources, options, s, memory_limit) if types is None else None
        seen = _with_training(cluster, types if counted is None else counted.rows, training, s.n)
        in_order = _scored(cluster, seen, model).orderBy("items").drop("items")
        run = cluster.run if counted is None else counted.compute
        scored = run(in_order.toArrow)
    if counted is not None:
        counted.finish()  # raises where there was nothing to count
    scores, f_nu, f_de, seen_before = (column.to_numpy() for column in scored.columns)
    return evaluate_scores(scores, (f_nu, f_de), k, s.target, None if training is None else seen_before)


def _count_table(cluster: Cluster, sources: Any, s: Settings) -> Frame | None:
    """Return the whole N-grams of a count table; None if the sources are documents."""
    if is_frame(sources) or not first_file(cluster, path_names(sources)).endswith((".parquet", ".counts")):
        return None
    frame = _table_rows(cluster, path_names(sources), s.n)
    if not {"start", "end", "items", "total"} <= set(frame.columns):
        return None
    column = counts_columns([s.target])[1]
    if column not in frame.columns:
        raise InputError(f"{sources} does not count the target {s.target!r}; it has {', '.join(frame.columns)}")
    return whole_ngrams(frame, s.n, str(sources))


def _table_rows(cluster: Cluster, names: Sequence[str], n: int) -> Frame:
    """Return the rows of Parquet files, or the whole N-grams of an Arrow file, which Spark does not read itself."""
    if not (len(names) == 1 and Path(names[0]).is_file() and is_arrow(names[0])):
        return reader(cluster).parquet(*names)
    counts = Counts.load(names[0]).of_folds()
    rows = [counts.rows[counts.whole]] if counts.whole in counts.rows and counts.n == n else []
    return cluster.session.createDataFrame(to_arrow(counts.as_table(), rows))


def _count(cluster: Cluster, sources: Any, options: Options, s: Settings, memory_limit: int | None) -> Count:
    """Prepare to count the whole N-grams of documents."""
    settings = CountSettings(
        s.n, s.side, s.kind, (s.target,), ("whole",), pad=s.pad, tokenize=s.tokenize, lower=s.lower
    )
    job = CountJob((sources, None, None), settings, options, memory_limit=memory_limit)
    return job.on_spark(cluster, only=Span("item", 0, s.n))


def _with_training(cluster: Cluster, types: Frame, training: str | None, n: int) -> Frame:
    """Add how often each N-gram was seen in training."""
    if training is None:
        return types.selectExpr("*", "cast(0 as bigint) as seen")
    if Path(training).exists():  # elsewhere, its header cannot be read from here
        head = read_header(training)["header"]
        if (head["n"], head["min_count"]) != (n, 1):
            raise ParameterError(f"the bands need a training table with all N-grams of {n} items")
    rows = whole_ngrams(_table_rows(cluster, [training], n), n, training)
    known = rows.selectExpr("items", "total as seen")
    return types.join(known, "items", "left").na.fill(0, ["seen"])


def _scored(cluster: Cluster, types: Frame, model: Model) -> Frame:
    """Score each N-gram."""
    get = cluster.broadcast(model)
    column, s = quote(counts_columns([model.settings.target])[1]), model.settings

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                scores = pa.array(get().log_ratio(batch.column("items")))
                columns = [batch.column(name) for name in ("f_nu", "f_de", "seen")]
                yield pa.record_batch([batch.column("items"), scores, *columns], names=list(SCORED))

    f_de = "total" if s.denominator == "all" else f"total - {column}"
    return cluster.map(types.selectExpr("items", f"{column} as f_nu", f"{f_de} as f_de", "seen"), work, SCORED)

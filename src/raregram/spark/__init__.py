"""The Spark engine: the same kernel and the same results on a cluster. Extra `spark`.

In a program of your own, with a session of your own:

    from raregram import spark

    spark.count("hdfs:///news/*.parquet", "hdfs:///news.counts", n=10, targets=("LOC",), spans=("suffixes:5",))
    model = spark.fit("hdfs:///news.counts", "LOC")
    scored = spark.score(frame, model)          # a DataFrame with one more column, log_ratio
    best = spark.rank(frame, model, top=100)    # a table
    result = spark.evaluate(tagged, model, k=8000)
"""

from __future__ import annotations

from typing import Any

from raregram.corpus.documents import Options
from raregram.corpus.log import ReadingLog
from raregram.counts.count import CountJob, is_frame
from raregram.counts.kernel import CountSettings
from raregram.errors import ParameterError, check_choice
from raregram.measure.evaluate import Evaluation
from raregram.measure.results import Results
from raregram.models.fit import FitOptions
from raregram.models.model import Model
from raregram.options import DENOMINATOR, ESTIMATOR, Denominator, EstimatorName
from raregram.spark import evaluating, fitting, scoring
from raregram.spark.counting import write_counts
from raregram.spark.session import Cluster, Frame, connect, quote
from raregram.spark.sources import Source


def count(
    source: Any, out: str, *, on_error: str = "stop", memory_limit: int | None = None, **settings: Any
) -> dict[str, Any]:
    """Count documents into a folder of Parquet files, which is a count table, and return its header.

    Args:
        source: paths, or a DataFrame with the columns items or text, and spans.
        out: the folder.
        on_error: "stop" at a document that cannot be counted, or "skip" it.
        memory_limit: bytes that a task takes for its tables.
        settings: see `raregram.counts.kernel.CountSettings`; also `format` and `split`, see
            `raregram.corpus.documents.Options`.
    """
    reading = {name: settings.pop(name) for name in ("format", "split") if name in settings}
    options = Options(**reading, log=ReadingLog(on_error))
    job = CountJob((source, None, None), CountSettings(**settings), options, memory_limit=memory_limit)
    header = write_counts(job.on_spark(_cluster(source)), out).header
    options.log.warn(stacklevel=2)
    return header


def fit(
    path: str,
    target: str | None = None,
    estimator: EstimatorName = ESTIMATOR.default,
    *,
    denominator: Denominator = DENOMINATOR.default,
    memory_limit: int | None = None,
    **parameters: Any,
) -> Model:
    """Fit a model to a count table where it is, without bringing it to one machine.

    Args:
        path: the folder of a count table that `count` wrote.
        target: the numerator; may be left out where the table has only one target.
        estimator: "backoff", or one over single items.
        denominator: as in `raregram.fit`, and so are all parameters.
        memory_limit: bytes that a task takes.
        parameters: of the estimator.
    """
    options = FitOptions(target, estimator, denominator, parameters)
    return fitting.fit(_cluster(path), path, options, memory_limit)


def score(
    frame: Frame,
    model: Model,
    *,
    column: str | None = None,
    id_column: str | None = None,
    level: float | None = None,
) -> Frame:
    """Return a DataFrame of contexts with one more column, `log_ratio`; nothing is computed yet.

    Args:
        frame: contexts in the column `ngram`, as strings or lists; or documents in `items` or `text`, which give a
            row for each of their boundaries.
        model: a fitted model.
        column: another name of that column.
        id_column: of documents, the column that names them in the column `document`; None for `id`. Without either,
            each row has a number of its own, which may be another when Spark computes the frame again.
        level: of intervals; adds the columns `lower` and `upper`.
    """
    return scoring.score(_cluster(frame), model, _input(frame, model, column, id_column), level)


def rank(
    frame: Frame,
    model: Model,
    top: int = 20,
    *,
    column: str | None = None,
    id_column: str | None = None,
    level: float | None = None,
) -> Results:
    """Return the best boundaries or distinct contexts of a DataFrame; with a level by their lower ends."""
    return scoring.rank(_cluster(frame), model, _input(frame, model, column, id_column), top, level)


def evaluate(source: Any, model: Model, *, k: int | None = None, training: str | None = None) -> Evaluation:
    """Measure a model on documents; as `raregram.measure.evaluate.evaluate`."""
    return evaluating.evaluate(_cluster(source), model, source, Options(), k=k, training=training)


def _input(frame: Frame, model: Model, column: str | None, id_column: str | None) -> Source:
    if id_column is not None:
        if not is_frame(frame):
            raise ParameterError("id_column is for a DataFrame; documents of files are named by their field id")
        check_choice("id_column", "the DataFrame", id_column, frame.columns)
        frame = frame.withColumn("id", frame[quote(id_column)])
    rename = {} if column is None else {"ngram": column}
    found = scoring.open_input(_cluster(frame), frame, model, Options(), rename)
    if id_column is not None and found.contexts is not None:
        raise ParameterError("id_column is for documents; contexts keep all their columns")
    return found


def _cluster(source: Any) -> Cluster:
    """Return the cluster of a DataFrame, or else of the active session."""
    return Cluster(source.sparkSession if is_frame(source) else connect())

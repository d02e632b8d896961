"""Evaluation on Spark: the N-grams of documents counted, scored and sorted there.

Only the ranks of correct N-grams come to the driver, and how often each log ratio occurs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.corpus.documents import Options
from raregram.counts.count import CountJob, is_frame
from raregram.counts.kernel import CountSettings
from raregram.counts.spans import Span
from raregram.counts.storage import is_arrow, read_header, to_arrow
from raregram.counts.table import Counts, Ints, counts_columns
from raregram.errors import InputError, ParameterError, check_count
from raregram.measure.cllr import calibrations, evidence
from raregram.measure.evaluate import BANDS, Evaluation, bands_of, metrics, recall_curve, sortable
from raregram.models.base import Settings
from raregram.models.model import Model
from raregram.options import K
from raregram.spark.counting import Count
from raregram.spark.session import Cluster, Frame, errors_explained, partition_number, quote
from raregram.spark.sources import first_file, path_names, reader, without_folds

MOST_RATIOS = 1 << 22  # that come to the driver as they are; where there are more, they are rounded
STEPS = 4096  # in which a log ratio is rounded; it changes Cllr by less than 0.0002
REPORT = {
    "partition": "int",
    "band": "int",
    "types": "bigint",
    "leading": "binary",
    "index": "bigint",
    "inside": "bigint",
}


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

    The results are the same to the last bit, but for the calibration of more than four million distinct ratios: these
    are rounded to 1/4096 in the logarithm.

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
        table = _count_table(cluster, sources, s)
        counted = None if table is not None else _count(cluster, sources, options, s, memory_limit)
        types = _with_training(cluster, table if counted is None else counted.rows, training, s.n)
        scored = _scored(cluster, types, model).persist()
        try:
            run = cluster.run if counted is None else counted.compute
            if k is None:
                k = int(run(scored.where("correct").count))
            ranked = scored.orderBy(scored.rank_by.desc(), scored["items"].asc())
            reported = run(cluster.map(ranked, _report(k), REPORT).toArrow)
            occurrences = run(lambda: _occurrences(scored).toArrow())
        finally:
            scored.unpersist()
    if counted is not None:
        counted.finish()  # raises where there was nothing to count
    return _evaluation(reported, occurrences, s.target, k, with_bands=training is not None)


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
    return without_folds(frame, str(sources)).where(f"start = 0 and end = {s.n}")


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
    rows = without_folds(_table_rows(cluster, [training], n), training).where(f"start = 0 and end = {n}")
    known = rows.selectExpr("items", "total as seen")
    return types.join(known, "items", "left").na.fill(0, ["seen"])


def _scored(cluster: Cluster, types: Frame, model: Model) -> Frame:
    """Score each N-gram: `rank_by` is the value by which it is ranked."""
    get = cluster.broadcast(model)
    column, s = quote(counts_columns([model.settings.target])[1]), model.settings

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                scores = get().log_ratio(batch.column("items"))
                rank_by = sortable(scores) + 0.0  # one zero, not two
                band = bands_of(np.asarray(batch.column("seen"))).astype(np.int32)
                f_nu, f_de = batch.column("f_nu"), batch.column("f_de")
                correct = pa.array(np.asarray(f_nu) > 0)
                values = [batch.column("items"), rank_by, band, correct, evidence(scores), f_nu, f_de]
                yield pa.record_batch(values, names=list(columns))

    columns = {
        "items": "array<string>", "rank_by": "double", "band": "int", "correct": "boolean", "log_ratio": "double",
        "f_nu": "bigint", "f_de": "bigint",
    }  # fmt: skip
    f_de = "total" if s.denominator == "all" else f"total - {column}"
    return cluster.map(types.selectExpr("items", "seen", f"{column} as f_nu", f"{f_de} as f_de"), work, columns)


def _occurrences(scored: Frame) -> Frame:
    """Return how often each log ratio occurs at the target and elsewhere, by band."""
    distinct = scored.selectExpr("approx_count_distinct(log_ratio)").first()[0]
    if distinct > MOST_RATIOS:
        scored = scored.selectExpr(f"rint(log_ratio * {STEPS}) / {STEPS} as log_ratio", "band", "f_nu", "f_de")
    return scored.groupBy("log_ratio", "band").sum("f_nu", "f_de").toDF("log_ratio", "band", "f_nu", "f_de")


def _report(k: int) -> Any:
    """Return a function that reports a partition of the ranking.

    One row for each band, with its number of types; one with the bands of the first k types; and one for each correct
    type with its index in the partition and among those of its band.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, done, leading = partition_number(), 0, b""
        of_band = np.zeros(len(BANDS), dtype=np.int64)
        for batch in batches:
            band, correct = np.asarray(batch.column("band")), np.asarray(batch.column("correct"))
            inside = np.zeros(len(band), dtype=np.int64)
            for number in range(len(BANDS)):
                here = band == number
                inside[here] = of_band[number] + np.arange(here.sum())
                of_band[number] += here.sum()
            leading += band[: max(k - done, 0)].astype(np.uint8).tobytes()
            right = np.flatnonzero(correct)
            yield _rows(part, band[right], index=right + done, inside=inside[right])
            done += len(band)
        yield _rows(part, np.arange(len(BANDS)), types=of_band)
        yield _rows(part, np.array([-1]), leading=[leading])

    return work


def _rows(part: int, band: npt.NDArray[Any], **columns: Any) -> pa.RecordBatch:
    """Lay out rows that have some of the columns of `REPORT`."""
    kinds = {"types": pa.int64(), "leading": pa.binary(), "index": pa.int64(), "inside": pa.int64()}
    given = [
        pa.array(columns[name], kind) if name in columns else pa.nulls(len(band), kind)
        for name, kind in kinds.items()
    ]
    first = [pa.array(np.full(len(band), part, np.int32)), pa.array(band.astype(np.int32))]
    return pa.record_batch([*first, *given], names=list(REPORT))


def _evaluation(reported: pa.Table, occurrences: pa.Table, target: str, k: int, with_bands: bool) -> Evaluation:
    """Put together the reports of all partitions of a ranking."""
    rows = {name: reported[name].combine_chunks() for name in REPORT}
    part, band = np.asarray(rows["partition"]), np.asarray(rows["band"])
    parts = int(part.max(initial=-1)) + 1
    sizes = np.zeros((len(BANDS), parts), dtype=np.int64)
    has_types = np.asarray(rows["types"].is_valid())
    sizes[band[has_types], part[has_types]] = np.asarray(rows["types"].drop_null())
    before = np.cumsum(sizes, axis=1) - sizes  # of each band, in the parts before
    right = np.asarray(rows["index"].is_valid())
    rank = np.asarray(rows["index"].drop_null()) + before.sum(axis=0)[part[right]] + 1
    inside = np.asarray(rows["inside"].drop_null()) + before[band[right], part[right]] + 1
    types = int(sizes.sum())
    overall = metrics(np.sort(rank), types, min(k, types), int((rank <= k).sum()))
    returned = _returned_bands(rows, part, sizes.sum(axis=0), k)
    bands = {}
    for number, name in enumerate(BANDS if with_bands else ()):
        here = band[right] == number
        found_at, hits = np.sort(inside[here]), int((rank[here] <= k).sum())
        bands[name] = metrics(found_at, int(sizes[number].sum()), int(returned[number]), hits)
    scores, band, f_nu, f_de = (np.asarray(column.combine_chunks()) for column in occurrences.columns)
    calibration = calibrations(scores, f_nu, f_de, band if with_bands else None, tuple(BANDS))
    return Evaluation(target, k, overall, bands, *recall_curve(np.sort(rank), types), calibration)


def _returned_bands(rows: dict[str, pa.Array], part: npt.NDArray[Any], sizes: Ints, k: int) -> Ints:
    """Return how many of the first k types are of each band."""
    returned, left = np.zeros(len(BANDS), dtype=np.int64), k
    leading = np.flatnonzero(np.asarray(rows["leading"].is_valid()))
    for row in leading[np.argsort(part[leading])]:
        taken = rows["leading"][int(row)].as_py()[: max(left, 0)]
        returned += np.bincount(np.frombuffer(taken, np.uint8), minlength=len(BANDS))
        left -= int(sizes[part[row]])
    return returned

"""Fitting on Spark, where the count table is: no machine holds more than a part of it.

The rows of all suffixes with the same item, or shape, next to the boundary come together in one task, which selects
those that the model stores. The driver holds the units, and what was selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raregram.counts.rows import SpanRows
from raregram.counts.storage import COMMON, SpanTable, damage_named, from_arrow, parse_header, to_arrow
from raregram.counts.table import Counts
from raregram.errors import ParameterError
from raregram.models.backoff.estimate import Backoff
from raregram.models.backoff.prune import ROW_BYTES, Selected, join
from raregram.models.base import COLUMNS, Settings
from raregram.models.fit import FitOptions, choose_settings
from raregram.models.model import Model
from raregram.models.registry import find_estimator
from raregram.spark.session import Cluster, Frame, Work
from raregram.spark.sources import reader
from raregram.text.shapes import shapes_of
from raregram.text.vocabulary import encode_items

MEMORY_LIMIT = 1 << 30  # bytes a task
UNIT = "end - start = 1"


def fit(cluster: Cluster, path: str, options: FitOptions, memory_limit: int | None = None) -> Model:
    """Fit a model to a count table in a folder of Parquet files; it is the same as by the local engine."""
    found, memory_limit = find_estimator(options.estimator), memory_limit or MEMORY_LIMIT
    with damage_named(path):
        footer = pq.ParquetFile(pa.BufferReader(cluster.read_bytes(f"{path.rstrip('/')}/{COMMON}")))
        head = parse_header(footer.metadata.metadata or {}, path)
    if "folds" in head["header"]:
        raise ParameterError(f"{path} is in folds: fit it with the local engine, or count without folds")
    table = SpanTable("counts", head["header"], tuple(head["columns"]), None, ())
    rows = reader(cluster).parquet(path)
    counts = Counts.from_table(from_arrow(cluster.run(rows.where(UNIT).toArrow), table))
    settings = choose_settings(counts, options, corpus=head["digest"])
    if found is not Backoff:
        if any(span.width > 1 for span in found.required_spans(settings)):
            raise ParameterError(f"the estimator {found.name!r} is not fitted on Spark: fit it with the local engine")
        return Model(found.fit(counts, settings, memory_limit))
    suffixes = rows.where(f"not {UNIT}")
    tasks = cluster.run(suffixes.count) * ROW_BYTES // memory_limit + 1
    with_nearest = cluster.map(suffixes, _nearest(settings), {"nearest": "string"}, like=suffixes)
    of_units = [counts.rows[span] for span in counts.spans if span.width == 1]
    units = cluster.broadcast(to_arrow(counts.as_table(), of_units))
    columns = {"start": "smallint", "end": "smallint", "items": "array<string>"}
    columns |= {**dict.fromkeys(COLUMNS, "bigint"), "score": "double"}
    selected = cluster.map(
        with_nearest.repartition(tasks, "nearest").drop("nearest"), _select(table, units, settings), columns
    )
    parts = [Backoff.fit_part(counts, settings, None), _collected(cluster, selected, counts)]
    return Model(Backoff.build(settings, counts.items, join(parts, settings)))


def _nearest(settings: Settings) -> Work:
    """Return a function that adds to each row the shape of the item next to the boundary, or that item."""
    n, shape = settings.n, settings.params.shape

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lists, first = batch["items"], np.asarray(batch["start"])
            offsets = np.asarray(lists.offsets)
            at = offsets[1:] - 1 if settings.side == "left" else offsets[:-1]
            names = lists.values.take(pa.array(at))
            if shape is not None:
                distinct = names.dictionary_encode()
                of_shapes = shapes_of(distinct.dictionary, shape)[0].take(distinct.indices)
                names = pc.if_else(pa.array(first < n), of_shapes, names)
            yield pa.record_batch([*batch.columns, names], names=[*batch.schema.names, "nearest"])

    return work


def _select(table: SpanTable, units: Any, settings: Settings) -> Work:
    """Return a function that selects the suffixes that the model stores, of those that a task gets."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = list(batches)
        if not some:
            return
        rows = pa.concat_tables([units(), pa.Table.from_batches(some).cast(units().schema)])
        counts = Counts.from_table(from_arrow(rows, table))
        selected, scores = Backoff.fit_part(counts, settings, None)
        kept = SpanTable("model", table.header, COLUMNS, counts.items, ())
        for span, part in selected.items():
            if span.width > 1 and len(part):
                arrow = to_arrow(kept, [part]).append_column("score", pa.array(scores[span]))
                yield from arrow.to_batches()

    return work


def _collected(cluster: Cluster, selected: Frame, counts: Counts) -> Selected:
    """Bring selected rows to the driver, by the codes of a table."""
    arrow = cluster.run(selected.toArrow)
    lists = arrow["items"].combine_chunks()
    codes, firsts = encode_items(lists.flatten(), counts.items), np.asarray(lists.offsets)[:-1]
    start, end = (np.asarray(arrow[name]) for name in ("start", "end"))
    values = np.column_stack([np.asarray(arrow[name]) for name in COLUMNS])
    score = np.asarray(arrow["score"])
    rows, scores = {}, {}
    for span in counts.spans:
        here = np.flatnonzero((start == span.columns(counts.n)[0]) & (end == span.columns(counts.n)[1]))
        rows[span] = SpanRows(span, codes[firsts[here, None] + np.arange(span.width)], values[here])
        scores[span] = score[here]
    return rows, scores

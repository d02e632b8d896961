"""Counting on Spark: the local engine's kernel in every task, and partial tables added up by hash.

A task counts its documents as the local engine does, and cuts its partial table into blocks of rows by a hash of
their key. Spark brings the blocks of one hash together in one task, where Arrow adds up the rows of equal key. A
shuffle of rows one by one, with or without Spark's own sums, takes a third to a half more processor time.

A row is a key and its sums so far, never an occurrence, so a frequent word is no more than one row a task. The driver
holds no row at all: only totals, and sums of hashes for the digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import Options
from raregram.corpus.formats.objects import MORE
from raregram.corpus.labels import check_labels
from raregram.corpus.log import ReadingLog
from raregram.counts.engine import Corpus, check_counted
from raregram.counts.kernel import CountSettings
from raregram.counts.sorting import find_heads
from raregram.counts.spans import Span
from raregram.counts.storage import (
    COMMON,
    SpanTable,
    add_hashes,
    common_metadata,
    digest_of,
    from_arrow,
    hash_keys,
    row_schema,
    split_fold,
)
from raregram.counts.table import Counts, Ints, check_total, counts_columns
from raregram.spark.parts import write_parts
from raregram.spark.session import Cluster, TaskReports
from raregram.spark.sources import TABLE, Source

MEMORY_LIMIT = 1 << 30  # bytes a task
BLOCK_ROWS = 1 << 20  # rows cut into blocks at a time
BUCKETS = 4  # at least, a partition of the shuffle; they are added up one after the other
BUCKET_BYTES = 1 << 27  # of partial rows that a bucket is to hold, about
MOST_PARTITIONS = 20_000  # Spark keeps a number for each pair of tasks before and after the shuffle
ROW_BYTES = 64  # of a partial row, about
ITEM_BYTES = 4  # of a compressed file, about
OUT_ROWS = 1 << 17  # rows given to Spark at a time
SEPARATOR = b"\xff"  # between the items of a key: no byte of UTF-8
KEY = ("hash", "span", "key")  # columns of a block; a span is a number of two halves, its start and its end

Hashes = npt.NDArray[np.uint64]


@dataclass
class TaskTotals:
    """What a task reports of the documents that it has counted."""

    totals: Ints  # (folds, columns)
    documents: int = 0
    longest: int = 0
    log: ReadingLog = field(default_factory=ReadingLog)


@dataclass(frozen=True)
class Counted:
    """A count that is done: its table without the rows, and the sums of their hashes."""

    table: SpanTable
    row_hashes: Hashes

    @property
    def header(self) -> dict[str, Any]:
        """The header of the table."""
        return self.table.header

    @property
    def digest(self) -> str:
        """The digest of the table."""
        return digest_of(self.table, self.row_hashes)


class Count:
    """A count on Spark: `rows` are its rows as a DataFrame, and `finish` returns the rest once they were computed."""

    def __init__(
        self,
        cluster: Cluster,
        samples: Sequence[tuple[Source, CountSettings]],
        options: Options,
        memory_limit: int | None = None,
        only: Span | None = None,
    ) -> None:
        self.cluster, self.reports = cluster, TaskReports(cluster.context)
        (self.source, self.settings), self.log = samples[0], options.log
        self.targets = _all_targets(cluster, samples, options)
        self.columns = counts_columns(self.targets, self.settings.documents)
        self.partitions, buckets = _buckets(cluster, samples)
        frames = []
        for number, (source, settings) in enumerate(samples):
            known = settings if settings.targets is not None else replace(settings, targets=self.targets)
            report = partial(self.reports.add_of_task, ("counted", number))
            in_task = replace(source, frame=None)
            limit = memory_limit or MEMORY_LIMIT
            counter = Counter(in_task, known, options, limit, self.columns, buckets, only, report)
            frames.append(cluster.map(source.frame, counter.count, {"bucket": "int", "block": "binary"}))
        blocks = reduce(lambda one, other: one.union(other), frames)
        self.blocks = blocks.repartition("bucket").sortWithinPartitions("bucket")
        add = partial(self.reports.add_of_task, "added")
        self.add_up = partial(_add_up, self.columns, self.settings, add)
        self.rows = cluster.map(self.blocks, self.add_up, self.row_columns)

    @property
    def row_columns(self) -> dict[str, str]:
        """The columns of the count table as Spark calls them."""
        keys = {"start": "smallint", "end": "smallint", "items": "array<string>"}
        keys |= {"fold": "smallint"} if self.settings.folds else {}
        return keys | dict.fromkeys(self.columns, "bigint")

    def compute(self, action: Callable[[], Any]) -> Any:
        """Run an action on `rows`."""
        with self.cluster.planning({"spark.sql.shuffle.partitions": str(self.partitions)}):
            return self.cluster.run(action)

    def finish(self) -> Counted:
        """Return the sums of all tasks' reports; raise if there was nothing to count."""
        hashes: list[Hashes] = []
        counted: list[TaskTotals] = []
        for value in self.reports.values:
            (counted if isinstance(value, TaskTotals) else hashes).append(value)
        totals = np.zeros((max(self.settings.folds, 1), len(self.columns)), np.int64)
        for of_task in counted:
            totals += of_task.totals
        folds, totals = totals if self.settings.folds else (), totals.sum(axis=0)
        documents = sum(of_task.documents for of_task in counted)
        longest = max((of_task.longest for of_task in counted), default=0)
        for of_task in counted:
            self.log.add(of_task.log)
        self.log.check_read()
        check_counted(documents, int(totals[0]), longest, self.settings)
        check_total(int(totals[0]))
        if self.settings.everything is None:
            self.log.check_targets(self.settings.targets, "document" if self.source.contexts is None else "context")
        header = self.settings.header(self.targets, totals.tolist(), [fold.tolist() for fold in folds])
        table = SpanTable("counts", header, self.columns, None, ())
        return Counted(table, sum(hashes, start=np.zeros(2, np.uint64)))


def write_counts(count: Count, out: str) -> Counted:
    """Compute a count and write it as a folder of Parquet files, under its final name only when it is whole."""
    cluster = count.cluster
    with cluster.temporary_folder(out) as temporary:
        count.compute(lambda: write_parts(cluster, count.blocks, count.add_up, count.row_columns, None, temporary))
        counted = count.finish()
        cluster.write_bytes(f"{temporary}/{COMMON}", common_metadata(counted.table, counted.row_hashes))
    return counted


def collect_counts(count: Count) -> Counts:
    """Compute a count and bring it to the driver as a count table in memory."""
    rows = count.compute(count.rows.toArrow)
    counted = count.finish()
    return Counts.from_table(from_arrow(rows, counted.table))


def _buckets(cluster: Cluster, samples: Sequence[tuple[Source, CountSettings]]) -> tuple[int, int]:
    """Return into how many partitions the partial tables are shuffled, and into how many buckets."""
    needed = 0
    for source, settings in samples:
        size = int(source.frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        if size < 1 << 60:  # Spark takes what it does not know for very large
            rows = size // ITEM_BYTES * sum(span.width > 1 for span in settings.stored)
            needed += rows * ROW_BYTES // BUCKET_BYTES
    wanted = int(cluster.session.conf.get("spark.sql.shuffle.partitions"))
    partitions = max(wanted, min(needed // BUCKETS, MOST_PARTITIONS))
    return partitions, max(needed, BUCKETS * partitions)


def _all_targets(
    cluster: Cluster, samples: Sequence[tuple[Source, CountSettings]], options: Options
) -> tuple[str, ...]:
    """Return the targets of all samples: those that are asked for, or every label that the documents have."""
    found: set[str] = set()
    for source, settings in samples:
        found |= {settings.everything} if settings.everything else set(settings.targets or ())
        if settings.targets is None and source.has_labels:
            found |= check_labels(_labels(cluster, source, settings, options))
    return tuple(sorted(found))


def _labels(cluster: Cluster, source: Source, settings: CountSettings, options: Options) -> set[str]:
    """Return every label, by the names that the settings gives them."""
    plain = source.rows == TABLE and source.contexts is None and not set(MORE) & set(source.frame.columns)
    if plain and source.by is None and options.log.on_error == "stop":
        with cluster.planning():
            distinct = source.frame.selectExpr("explode(spans.label) as label").distinct()
            found = {row["label"] for row in cluster.run(distinct.collect)} - {None}
        return {(settings.labels or {}).get(label, label) for label in found}

    in_task = replace(source, frame=None)

    def look(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = set[str]().union(*(encoded.labels for encoded in in_task.encode(rows, settings, options)))
        yield pa.record_batch([pa.array(sorted(labels), pa.string())], names=["label"])

    with cluster.planning():
        distinct = cluster.map(source.frame, look, {"label": "string"}).distinct()
        return {row["label"] for row in cluster.run(distinct.collect)}


@dataclass(frozen=True)
class Counter:
    """Counts the documents or contexts of a partition, in a task."""

    source: Source
    settings: CountSettings
    options: Options
    memory_limit: int
    columns: tuple[str, ...]  # of the whole table; a task may have fewer targets
    buckets: int
    only: Span | None  # the one span whose rows are wanted; None: all
    report: Callable[[TaskTotals], None]

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the partial table of a partition, cut into blocks."""
        settings, columns = self.settings, self.columns
        corpus = Corpus(settings, self.memory_limit)
        for encoded in self.source.encode(batches, settings, self.options):
            corpus.add(encoded)
        of_task = [columns.index(name) for name in counts_columns(corpus.targets, settings.documents)]
        totals = np.zeros((max(settings.folds, 1), len(columns)), np.int64)
        totals[:, of_task] = corpus.fold_totals
        table = corpus.table(self.only, keep_rare=True)
        items = table.items.cast(pa.binary())
        for part in table.parts:
            start, end = part.span.columns(settings.n)
            for rows in part.cut(BLOCK_ROWS):
                hashes = hash_keys((start, end), rows.keys, table.item_hash)
                span = np.full(len(rows), start << 16 | end, np.int32)
                values = np.zeros((len(columns), len(rows)), np.int64)
                values[of_task] = rows.values.T
                arrays = [pa.array(hashes), pa.array(span), join_items(items, rows.keys), *map(pa.array, values)]
                yield _cut(pa.record_batch(arrays, schema=_block_schema(len(columns))), self.buckets)
        corpus.spool.close()
        self.report(TaskTotals(totals, corpus.documents, corpus.longest, self.options.log))


def _block_schema(columns: int) -> pa.Schema:
    kinds = (pa.uint64(), pa.int32(), pa.binary())
    return pa.schema([*zip(KEY, kinds, strict=True), *((f"f{column}", pa.int64()) for column in range(columns))])


def _cut(rows: pa.RecordBatch, buckets: int) -> pa.RecordBatch:
    """Sort rows by the bucket of their hash, and write those of each bucket as one block."""
    bucket = ((np.asarray(rows["hash"]) >> np.uint64(32)) % np.uint64(buckets)).astype(np.int32)
    order = np.argsort(bucket.astype(np.uint16) if buckets <= 1 << 16 else bucket, kind="stable")
    bucket, rows = bucket[order], rows.take(pa.array(order))
    bounds = np.append(find_heads(bucket), len(rows)).tolist()
    blocks = [rows.slice(a, b - a).serialize().to_pybytes() for a, b in pairwise(bounds)]
    return pa.record_batch({"bucket": pa.array(bucket[bounds[:-1]]), "block": pa.array(blocks, pa.binary())})


def _add_up(
    columns: Sequence[str],
    settings: CountSettings,
    report: Callable[[Hashes], None],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Add up the blocks of a partition, in a task, bucket by bucket, and yield rows as the count table has them."""
    schema, total = _block_schema(len(columns)), np.zeros(2, np.uint64)
    out_schema = row_schema(columns, bool(settings.folds))
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for _, blocks in groupby(rows, key=itemgetter(0)):
        read = [pa.ipc.read_record_batch(pa.py_buffer(block), schema) for _, block in blocks]
        sums = [(name, "sum") for name in schema.names[len(KEY) :]]
        table = pa.Table.from_batches(read).group_by(list(KEY), use_threads=False).aggregate(sums)
        for some in table.to_batches(OUT_ROWS):
            start, end = np.divmod(np.asarray(some["span"]), 1 << 16)
            kept = (end - start == 1) | (np.asarray(some["f0_sum"]) >= settings.min_count)
            hashes, _, keys, *values = some.filter(pa.array(kept)).columns
            total += add_hashes(np.asarray(hashes), np.column_stack(values))
            positions = (pa.array(column[kept].astype(np.int16)) for column in (start, end))
            items = split_items(keys)
            named = split_fold(items, settings.side) if settings.folds else [items]
            yield pa.record_batch([*positions, *named, *values], schema=out_schema)
    report(total)


def join_items(items: pa.Array, keys: npt.NDArray[np.int32]) -> pa.Array:
    """Return the items of each row as one string of bytes."""
    flat = items.take(pa.array(keys.ravel()))
    offsets = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * keys.shape[1])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, flat), SEPARATOR)


def split_items(keys: pa.Array) -> pa.Array:
    """Undo `join_items`."""
    return pc.split_pattern(keys, SEPARATOR).cast(pa.list_(pa.string()))

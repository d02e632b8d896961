"""Counting on Spark: the local engine's kernel in every task, and partial tables added up by hash.

A task counts its documents as the local engine does, and cuts its partial table into blocks of rows by a hash of
their key. The shuffle carries such blocks, many rows each, so it costs little; each row is a key and its sums so
far, never an occurrence, so a frequent word is no more than one row a task. The blocks of one hash come together in
one task, which adds their rows up. So a task holds one part in many of the table, and the driver no row at all: only
totals, and sums of hashes for the digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
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
    hash_items,
    hash_keys,
    row_schema,
    split_fold,
)
from raregram.counts.table import Counts, Ints, check_total, counts_columns
from raregram.spark.parts import write_parts
from raregram.spark.session import Cluster, TaskReports, Work, partition_number
from raregram.spark.sources import TABLE, Source

MEMORY_LIMIT = 1 << 30  # bytes a task
BLOCK_ROWS = 1 << 20  # rows cut into blocks at a time
BUCKETS = 4  # at least, a partition of the shuffle; they are added up one after the other
MOST_PARTITIONS = 20_000  # Spark keeps a number for each pair of tasks before and after the shuffle
BUCKET_BYTES = 1 << 27  # of partial rows that a bucket is to hold, about
ROW_BYTES = 64  # of a partial row, about
ITEM_BYTES = 4  # of a compressed file, about
OUT_ROWS = 1 << 17  # rows given to Spark at a time
SEPARATOR = b"\xff"  # between the items of a key: no byte of UTF-8

Hashes = npt.NDArray[np.uint64]
BLOCKS = {"bucket": "int", "block": "binary"}


@dataclass
class TaskTotals:
    """What a task reports of the documents that it has counted."""

    totals: Ints  # (folds, columns)
    documents: int = 0
    longest: int = 0
    log: ReadingLog = field(default_factory=ReadingLog)


@dataclass(frozen=True)
class Counted:
    """What tasks reported of a count that is done."""

    header: dict[str, Any]
    columns: tuple[str, ...]
    row_hashes: Hashes

    def table(self) -> SpanTable:
        """Return the table without its rows."""
        return SpanTable("counts", self.header, self.columns, None, ())

    @property
    def digest(self) -> str:
        """The digest of the table."""
        return digest_of(self.table(), self.row_hashes)


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
        self.cluster, self.reports = cluster, cluster.reports()
        memory_limit = memory_limit or MEMORY_LIMIT
        (self.source, self.settings), self.log = samples[0], options.log
        self.targets = _all_targets(cluster, samples, options)
        self.partitions, buckets = _buckets(cluster, samples)
        frames = []
        for number, (source, settings) in enumerate(samples):
            known = settings if settings.targets is not None else replace(settings, targets=self.targets)
            in_task = replace(source, frame=None)
            task = Counter(in_task, known, options, self.targets, memory_limit, buckets, only)
            frames.append(cluster.map(source.frame, task.work(self.reports, number), BLOCKS))
        blocks = frames[0] if len(frames) == 1 else frames[0].union(frames[1])
        self.blocks = blocks.repartition("bucket").sortWithinPartitions("bucket")
        self.columns = counts_columns(self.targets, self.settings.documents)
        self.adder = Adder(self.columns, self.settings)
        self.rows = cluster.map(self.blocks, self.adder.work(self.reports), self.row_columns)

    @property
    def row_columns(self) -> dict[str, str]:
        """The columns of the count table as Spark calls them."""
        keys = {"start": "smallint", "end": "smallint", "items": "array<string>"}
        return {
            **keys,
            **({"fold": "smallint"} if self.settings.folds else {}),
            **dict.fromkeys(self.columns, "bigint"),
        }

    def compute(self, action: Callable[[], Any]) -> Any:
        """Run an action on `rows`."""
        with self.cluster.planning({"spark.sql.shuffle.partitions": str(self.partitions)}):
            return self.cluster.run(action)

    def finish(self) -> Counted:
        """Return the sums of all tasks' reports; raise if there was nothing to count."""
        reported = self.reports.values
        counted = [value for (what, *_), value in reported.items() if what == "counted"]
        hashes = [np.array(value, np.uint64) for (what, *_), value in reported.items() if what == "added"]
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
        return Counted(
            self.settings.header(self.targets, totals.tolist(), [fold.tolist() for fold in folds]),
            self.columns,
            np.sum(hashes, axis=0, dtype=np.uint64),
        )


def write_counts(count: Count, out: str) -> Counted:
    """Compute a count and write it as a folder of Parquet files, under its final name only when it is whole."""
    cluster = count.cluster
    with cluster.temporary_folder(out) as temporary:
        rows = (count.blocks, count.adder.work(count.reports), count.row_columns, None)
        count.compute(lambda: write_parts(cluster, *rows, temporary))
        counted = count.finish()
        cluster.write_bytes(f"{temporary}/{COMMON}", common_metadata(counted.table(), counted.row_hashes))
    return counted


def collect_counts(count: Count) -> Counts:
    """Compute a count and bring it to the driver as a count table in memory."""
    rows = count.compute(count.rows.toArrow)
    counted = count.finish()
    return Counts.from_table(from_arrow(rows, counted.table()))


def _buckets(cluster: Cluster, samples: Sequence[tuple[Source, CountSettings]]) -> tuple[int, int]:
    """Return into how many partitions the table is shuffled, and into how many buckets, each added up in memory."""
    needed = 0
    for source, settings in samples:
        size = int(source.frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        if size < 1 << 60:  # Spark takes what it does not know for very large
            needed += (
                size // ITEM_BYTES * sum(span.width > 1 for span in settings.stored) * ROW_BYTES // BUCKET_BYTES
            )  # one row an item and length
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
    """Counts the documents or contexts of a partition, and cuts the partial table into blocks."""

    source: Source
    settings: CountSettings
    options: Options
    targets: tuple[str, ...]
    memory_limit: int
    buckets: int
    only: Span | None  # the one span whose rows are wanted; None: all

    def work(self, reports: TaskReports, sample: int) -> Work:
        """Return the function that a task runs."""

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            corpus = Corpus(self.settings, self.memory_limit)
            for encoded in self.source.encode(batches, corpus.settings, self.options):
                corpus.add(encoded)
            every = counts_columns(self.targets, self.settings.documents)
            columns = [every.index(name) for name in counts_columns(corpus.targets, self.settings.documents)]
            totals = np.zeros((max(self.settings.folds, 1), len(every)), np.int64)
            totals[:, columns] = corpus.fold_totals
            yield from self._blocks(corpus.table(self.only, keep_rare=True), columns, len(every))
            corpus.spool.close()
            report = TaskTotals(totals, corpus.documents, corpus.longest, self.options.log)
            reports.add(("counted", sample, partition_number()), report)

        return work

    def _blocks(self, table: SpanTable, columns: list[int], width: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partial table as blocks, each of one bucket; `columns` are those it has, of `width`."""
        items, item_hash = table.items.cast(pa.binary()), hash_items(table.items)
        for part in table.parts:
            for first in range(0, len(part), BLOCK_ROWS):
                keys, values = part.keys[first : first + BLOCK_ROWS], part.values[first : first + BLOCK_ROWS]
                sums = np.zeros((width, len(keys)), dtype=np.int64)
                sums[columns] = values.T
                span = part.span.columns(self.settings.n)
                hashes = hash_keys(span, keys, item_hash)
                yield _cut(span, hashes, join_items(items, keys), sums, self.buckets)


def join_items(items: pa.Array, keys: npt.NDArray[np.int32]) -> pa.Array:
    """Return the items of each row as one string of bytes."""
    flat = items.take(pa.array(keys.ravel()))
    if keys.shape[1] == 1:
        return flat
    offsets = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * keys.shape[1])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, flat), SEPARATOR)


def _block_schema(columns: int) -> pa.Schema:
    keys = [("hash", pa.uint64()), ("span", pa.int32()), ("key", pa.binary())]
    return pa.schema([*keys, *((f"f{column}", pa.int64()) for column in range(columns))])


def _cut(span: tuple[int, int], hashes: Hashes, keys: pa.Array, sums: Ints, buckets: int) -> pa.RecordBatch:
    """Sort rows by the bucket of their hash, and write those of each bucket as one block."""
    bucket = ((hashes >> np.uint64(32)) % np.uint64(buckets)).astype(np.int32)
    order = np.argsort(bucket.astype(np.uint16) if buckets <= 1 << 16 else bucket, kind="stable")
    spans = np.full(len(keys), span[0] << 16 | span[1], dtype=np.int32)
    sorted_sums = [pa.array(column.take(order)) for column in sums]
    columns = [pa.array(hashes[order]), pa.array(spans), keys.take(pa.array(order)), *sorted_sums]
    rows = pa.record_batch(columns, schema=_block_schema(len(sums)))
    bounds = np.append(find_heads(bucket[order]), len(order)).tolist()
    blocks = [rows.slice(a, b - a).serialize() for a, b in pairwise(bounds)]
    return pa.record_batch([pa.array(bucket[order[bounds[:-1]]]), _as_binary(blocks)], names=list(BLOCKS))


def _as_binary(buffers: Sequence[pa.Buffer]) -> pa.Array:
    """Return buffers as an array of strings of bytes; Arrow's own way, value by value, takes ten times as long."""
    offsets = np.zeros(len(buffers) + 1, dtype=np.int32)
    np.cumsum([buffer.size for buffer in buffers], out=offsets[1:])
    joined = pa.py_buffer(b"".join(buffers))
    return pa.Array.from_buffers(pa.binary(), len(buffers), [None, pa.py_buffer(offsets), joined])


@dataclass(frozen=True)
class Adder:
    """Adds up the blocks of a partition, bucket by bucket."""

    columns: tuple[str, ...]
    settings: CountSettings

    def work(self, reports: TaskReports) -> Work:
        """Return the function that a task runs."""

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = (
                row
                for batch in batches
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            )
            for bucket, blocks in groupby(rows, key=lambda row: row[0]):
                hashes, spans, keys, values = add_blocks([block for _, block in blocks], len(self.columns))
                width = (spans & 0xFFFF) - (spans >> 16)
                kept = np.flatnonzero((width == 1) | (values[:, 0] >= self.settings.min_count))
                kept = kept[np.argsort(spans[kept], kind="stable")]
                reports.add(("added", bucket), add_hashes(hashes[kept], values[kept]).tolist())
                yield from self._rows(spans[kept], keys.take(pa.array(kept)), values[kept])

        return work

    def _rows(self, spans: npt.NDArray[np.int32], keys: pa.Array, values: Ints) -> Iterator[pa.RecordBatch]:
        """Yield rows as the count table has them."""
        for first in range(0, len(spans), OUT_ROWS):
            some = slice(first, first + OUT_ROWS)
            start, end = (spans[some] >> 16).astype(np.int16), (spans[some] & 0xFFFF).astype(np.int16)
            items = split_items(keys[some])
            named = split_fold(items, self.settings.side) if self.settings.folds else [items]
            numbers = [pa.array(np.ascontiguousarray(column)) for column in values[some].T]
            schema = row_schema(self.columns, bool(self.settings.folds))
            yield pa.record_batch([pa.array(start), pa.array(end), *named, *numbers], schema=schema)


def split_items(keys: pa.Array) -> pa.Array:
    """Undo `join_items`."""
    return pc.split_pattern(keys, SEPARATOR).cast(pa.list_(pa.string()))


def add_blocks(blocks: Sequence[bytes], columns: int) -> tuple[Hashes, npt.NDArray[np.int32], pa.Array, Ints]:
    """Add up the rows of equal key: their hashes, spans, keys and values (rows, columns).

    Rows are sorted by hash. Keys that differ in spite of equal hashes stay separate rows.
    """
    schema = _block_schema(columns)
    table = pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(block), schema) for block in blocks])
    hashes, spans, keys, *sums = (column.combine_chunks() for column in table.columns)
    hashes, spans = np.asarray(hashes), np.asarray(spans)
    order = np.argsort(hashes, kind="stable")
    heads = find_heads(hashes[order])
    first = order[heads]  # the row that speaks for each group
    group = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(order)))
    speaker = first[group]
    same = np.asarray(pc.equal(keys.take(pa.array(order)), keys.take(pa.array(speaker)))) & (
        spans[order] == spans[speaker]
    )
    if not same.all():  # one pair in 2**64 has equal hashes
        group, first = _by_key(hashes[order], spans[order], keys.take(pa.array(order)), order)
    values = np.column_stack(
        [
            np.bincount(group, weights=np.asarray(column)[order], minlength=len(first)).astype(np.int64)
            for column in sums
        ]
    )
    return hashes[first], spans[first], keys.take(pa.array(first)), values


def _by_key(hashes: Hashes, spans: Any, keys: pa.Array, order: Any) -> tuple[Any, Any]:
    """Group sorted rows by their whole key instead: the group of each row, and the row that speaks for each group."""
    code: dict[Any, int] = {}
    whole = zip(hashes.tolist(), spans.tolist(), keys.to_pylist(), strict=True)
    group = np.array([code.setdefault(key, len(code)) for key in whole])
    _, first_rows = np.unique(group, return_index=True)
    return group, order[first_rows]

"""The local engine: batches through the kernel in threads, partial tables added up in memory or by DuckDB.

Items get numbers as they come, and their final numbers, in byte order, when all have been seen. Frequencies of units
are added up in memory, and longer spans kept as the batches gave them. Batches are in order, so to merge them in the
end takes little. When all that takes a quarter of the memory limit, it is written to Parquet files, and in the end
DuckDB groups, adds and sorts them within half of the limit. Sums do not depend on the order of their terms, so the
result is the same to the last bit whatever the batches, threads and limit.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raregram.atomic import spill_folder, write_errors_named
from raregram.corpus.documents import Documents, Policy
from raregram.counts.kernel import Level, Partial, Plan, count_batch, lengthen
from raregram.counts.sorting import find_heads, number_groups, sort_further
from raregram.counts.storage import Span, SpanRows, SpanTable
from raregram.counts.table import Ints, counts_columns, suffix
from raregram.errors import FileError, InputError, check_count
from raregram.text.ngrams import Numbers, check_labels

MEMORY_LIMIT = 4 << 30  # bytes
CHUNK = 1 << 18  # rows of a span at a time
WAITING_BYTES = 1 << 23  # of frequencies that wait to be added up


@dataclass(frozen=True)
class HeldRows:
    """Rows of one span, by provisional item numbers and columns."""

    keys: Numbers  # (rows, width)
    values: Ints  # (rows, columns)
    columns: list[int]


@dataclass(frozen=True)
class HeldBatch:
    """The longer spans of one batch."""

    numbers: Numbers  # the provisional numbers of its items
    columns: list[int]  # and its columns
    levels: dict[int, list[Level]]  # by the first position of their track

    def rows(self, side: str) -> Iterator[tuple[int, int, HeldRows]]:
        """Yield the rows of all spans that are asked for: first position of the track, width, rows."""
        for first, levels in self.levels.items():
            keys = self.numbers[:, None]
            for level in levels:
                keys = lengthen(keys, level, self.numbers, side)
                if level.total is not None:
                    values = np.zeros((len(keys), len(self.columns)), dtype=np.int64)
                    values[:, 0] = level.total
                    for place, (rows, counts) in enumerate(level.at_target, 1):
                        values[rows, place] = counts
                    yield first, keys.shape[1], HeldRows(keys, values, self.columns)


class SparseCounts:
    """Frequencies by a whole number; what comes is kept as it is until there is much of it, then added up."""

    def __init__(self) -> None:
        self.codes, self.counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self.waiting: list[tuple[Ints, Ints]] = []
        self.nbytes = 0

    def add(self, codes: Ints, counts: Ints) -> None:
        """Add frequencies."""
        self.waiting.append((codes, counts))
        self.nbytes += codes.nbytes + counts.nbytes
        if self.nbytes > 3 * max(self.codes.nbytes, WAITING_BYTES):
            self.added_up()

    def added_up(self) -> tuple[Ints, Ints]:
        """Return the distinct numbers, sorted, and their frequencies."""
        if self.waiting:
            codes = np.concatenate([self.codes, *(codes for codes, _ in self.waiting)])
            counts = np.concatenate([self.counts, *(counts for _, counts in self.waiting)])
            self.codes, row = np.unique(codes, return_inverse=True)
            self.counts = np.bincount(row, weights=counts, minlength=len(self.codes)).astype(np.int64)
            self.waiting, self.nbytes = [], self.codes.nbytes + self.counts.nbytes
        return self.codes, self.counts


class Accumulator:
    """Adds up partial tables, and gives the whole in the end."""

    def __init__(self, plan: Plan, memory_limit: int, folder: Callable[[], Path], threads: int) -> None:
        self.plan, self.memory_limit, self.folder, self.threads = plan, memory_limit, folder, threads
        self.number: dict[str, int] = {}  # of each item, as they come
        self.column: dict[str, int] = {}  # of each target, as they come; column 0 is the total
        self.totals = np.zeros(1, dtype=np.int64)
        self.units: list[SparseCounts] = []  # of each column, by item * positions + position
        self.dense: Ints | None = np.zeros((plan.positions, 0), dtype=np.int64)  # totals while few
        self.used = np.zeros(0, dtype=bool)  # (items,) whether some window holds it; documents may be too short
        self.held: list[HeldBatch] = []
        self.spilled: dict[Span, list[Path]] = {}
        self.held_bytes = self.documents = self.longest = 0

    def add(self, partial: Partial) -> None:
        """Add the counts of one batch."""
        numbers = self._provisional_numbers(partial.items.to_pylist())
        columns = [0, *(self.column.setdefault(target, len(self.column) + 1) for target in partial.targets)]
        if self.plan.targets is None:
            check_labels(set(self.column))
        self._make_room()
        self.totals[columns] += partial.totals
        self.used[numbers[partial.units[0][1]]] = True
        for column, (position, item, counts) in zip(columns, partial.units, strict=True):
            if column == 0 and self.dense is not None:
                self.dense[position, numbers[item]] += counts
            else:
                self.units[column].add(numbers[item].astype(np.int64) * self.plan.positions + position, counts)
        self.held.append(HeldBatch(numbers, columns, partial.longer))
        self.held_bytes += sum(level.nbytes for levels in partial.longer.values() for level in levels)
        self.documents += partial.documents
        self.longest = max(self.longest, partial.longest)

    @property
    def full(self) -> bool:
        """Whether what is held takes more than its share of the memory limit."""
        return self.held_bytes + sum(units.nbytes for units in self.units) > self.memory_limit // 4

    def _provisional_numbers(self, names: list[str]) -> Numbers:
        """Return the numbers of items, giving one to each that is new."""
        if not self.number:
            self.number = dict(zip(names, range(len(names)), strict=True))
            return np.arange(len(names), dtype=np.int32)
        return np.array([self.number.setdefault(name, len(self.number)) for name in names], dtype=np.int32)

    def table(self) -> SpanTable:
        """Return what was counted; its rows come as a stream."""
        items, parts = self._parts()
        header = self.plan.header(self.targets, self.totals[self.target_columns].tolist())
        return SpanTable("counts", header, counts_columns(self.targets), items, parts)

    def _parts(self) -> tuple[pa.Array, Iterator[SpanRows]]:
        """Return the items in byte order, and the rows of all spans by their numbers in that order."""
        names = pa.array(list(self.number), pa.string())
        used = np.flatnonzero(self.used[: len(names)])
        order = used[np.asarray(pc.array_sort_indices(names.take(pa.array(used))))]
        final = np.full(len(names), -1, dtype=np.int32)
        final[order] = np.arange(len(order), dtype=np.int32)
        return names.take(pa.array(order)), self._rows(final)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets in order of their names."""
        return tuple(sorted(self.column))

    @property
    def target_columns(self) -> list[int]:
        """The columns of the total and of the targets, in order of their names."""
        return [0, *(self.column[target] for target in self.targets)]

    @property
    def reordered(self) -> bool:
        """Whether targets did not come in order of their names."""
        return self.target_columns != list(range(len(self.units)))

    def _rows(self, final: Numbers) -> Iterator[SpanRows]:
        """Yield the rows of every span, sorted."""
        for k in range(self.plan.positions):
            if (k, k + 1) in self.spilled:
                yield from self._added_up((k, k + 1), final)
                continue
            rows = self._unit_rows(k)
            numbers = final[rows.keys[:, 0]]
            order = sort_further(numbers)
            values = rows.values[:, self.target_columns] if self.reordered else rows.values
            yield SpanRows((k, k + 1), numbers[order, None], values[order])
        if any(span in self.spilled for span in self.plan.longer):
            self.spill()
            for span in self.plan.longer:
                yield from self._added_up(span, final)
        elif self.held:
            tracks = [self._merged(first, final) for first in self.held[0].levels]
            for of_width in zip_longest(*tracks):
                yield from (rows for rows in of_width if rows is not None)

    def _merged(self, first: int, final: Numbers) -> Iterator[SpanRows | None]:
        """Merge the longer spans of all batches, shorter ones first; None for those that were not asked for."""
        items = [final[batch.numbers] for batch in self.held]
        places = items  # those of the batches' shorter spans among the merged ones
        size = num_items = int(final.max(initial=-1)) + 1
        numbers = np.arange(num_items, dtype=np.int32)
        keys = numbers[:, None]
        for levels in zip(*(batch.levels[first] for batch in self.held), strict=True):
            parents = np.concatenate([place[level.parents] for place, level in zip(places, levels, strict=True)])
            further = np.concatenate([item[level.items] for item, level in zip(items, levels, strict=True)])
            left = self.plan.side == "left"
            major, minor, width = (further, parents, size) if left else (parents, further, num_items)
            codes = major.astype(np.int64) * width + minor
            order = np.argsort(codes, kind="stable")  # those of each batch are sorted already
            heads = find_heads(codes[order])
            size = len(heads)
            places = np.split(number_groups(order, heads), np.cumsum([len(level.items) for level in levels])[:-1])
            keys = lengthen(keys, Level(parents[order[heads]], further[order[heads]]), numbers, self.plan.side)
            if levels[0].total is None:
                yield None
                continue
            values = self._added_columns(levels, places, size)
            enough = values[:, 0] >= self.plan.min_count
            span = suffix(keys.shape[1], self.plan.n, self.plan.side, first)
            yield SpanRows(span, keys, values) if enough.all() else SpanRows(span, keys[enough], values[enough])

    def _added_columns(self, levels: Sequence[Level], places: Sequence[Numbers], size: int) -> Ints:
        """Add up the frequencies of all batches' spans at their places: (size, columns by the targets' names)."""
        added = np.zeros((size, len(self.target_columns)), dtype=np.int64)
        into = {column: place for place, column in enumerate(self.target_columns)}
        for batch, level, place in zip(self.held, levels, places, strict=True):
            if level.total is not None:
                added[place, 0] += level.total  # a batch has each span once
                for column, (rows, counts) in zip(batch.columns[1:], level.at_target, strict=True):
                    added[place[rows], into[column]] += counts
        return added

    def _unit_rows(self, k: int) -> HeldRows:
        """Return the units of one position that are in memory, with a value for every column."""
        codes, counts = self._totals_at(k)
        values = np.zeros((len(codes), len(self.units)), dtype=np.int64)
        values[:, 0] = counts
        for column, units in enumerate(self.units[1:], 1):
            of_target, counts = units.added_up()
            here = of_target % self.plan.positions == k
            values[np.searchsorted(codes, of_target[here]), column] = counts[here]
        items = (codes // self.plan.positions).astype(np.int32)
        return HeldRows(items[:, None], values, list(range(len(self.units))))

    def _totals_at(self, k: int) -> tuple[Ints, Ints]:
        """Return the numbers and frequencies of all units of one position."""
        if self.dense is not None:
            items = np.flatnonzero(self.dense[k])
            return items * self.plan.positions + k, self.dense[k, items]
        codes, counts = self.units[0].added_up()
        here = codes % self.plan.positions == k
        return codes[here], counts[here]

    def _make_room(self) -> None:
        """Let the arrays grow with the number of targets and items."""
        while len(self.units) <= len(self.column):
            self.units.append(SparseCounts())
        self.totals = np.pad(self.totals, (0, len(self.units) - len(self.totals)))
        if len(self.number) > len(self.used):
            room = len(self.number) + len(self.number) // 2
            self.used = np.pad(self.used, (0, room - len(self.used)))
            if self.dense is not None and 8 * self.plan.positions * room > self.memory_limit // 8:
                position, item = np.nonzero(self.dense)
                self.units[0].add(item * self.plan.positions + position, self.dense[position, item])
                self.dense = None
            elif self.dense is not None:
                self.dense = np.pad(self.dense, ((0, 0), (0, room - self.dense.shape[1])))

    def spill(self) -> None:
        """Write the rows held to files; the units too, if they take much of the room."""
        if sum(units.nbytes for units in self.units) > self.memory_limit // 8:
            for k in range(self.plan.positions):
                self._spill_rows((k, k + 1), [self._unit_rows(k)])
            self.units = [SparseCounts() for _ in self.units]
            if self.dense is not None:
                self.dense[:] = 0
        for batch in self.held:
            for first, width, rows in batch.rows(self.plan.side):
                self._spill_rows(suffix(width, self.plan.n, self.plan.side, first), [rows])
        self.held, self.held_bytes = [], 0

    def _spill_rows(self, span: Span, held: list[HeldRows]) -> None:
        """Write rows of a span to one more file."""
        files = self.spilled.setdefault(span, [])
        path = self.folder() / f"{span[0]}-{span[1]}-{len(files)}.parquet"
        schema = _schema(span[1] - span[0], len(self.totals))
        with write_errors_named(path), pq.ParquetWriter(path, schema, compression="lz4") as writer:
            for rows in held:
                writer.write_batch(_record_batch(rows.keys, rows.values, rows.columns, schema))
        files.append(path)

    def _provisional(self, span: Span) -> Iterator[HeldRows]:
        """Yield all rows of a span, from files and from memory, as they came."""
        width = span[1] - span[0]
        if width == 1:
            yield self._unit_rows(span[0])
        for path in self.spilled.get(span, []):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(CHUNK):
                    arrays = [np.asarray(column) for column in batch.columns]
                    values = np.column_stack(arrays[width:])
                    yield HeldRows(np.column_stack(arrays[:width]), values, list(range(values.shape[1])))

    def _added_up(self, span: Span, final: Numbers) -> Iterator[SpanRows]:
        """Let DuckDB group, add up and sort the rows of a span, within half of the memory limit."""
        width = span[1] - span[0]
        schema = _schema(width, len(self.totals))
        batches = (
            _record_batch(final[rows.keys], rows.values, rows.columns, schema) for rows in self._provisional(span)
        )
        keys = ", ".join(f"k{place}" for place in range(width))
        sums = ", ".join(f"sum(f{column})::BIGINT" for column in self.target_columns)
        least = self.plan.min_count if width > 1 else 1
        with _duckdb(self._duckdb_settings()) as connection:
            connection.register("rows", pa.RecordBatchReader.from_batches(schema, batches))
            query = f"SELECT {keys}, {sums} FROM rows GROUP BY {keys} HAVING sum(f0) >= {least} ORDER BY {keys}"
            for batch in connection.sql(query).to_arrow_reader(CHUNK):
                arrays = [np.asarray(column) for column in batch.columns]
                yield SpanRows(span, np.column_stack(arrays[:width]), np.column_stack(arrays[width:]))

    def _duckdb_settings(self) -> dict[str, Any]:
        return {
            "memory_limit": f"{max(self.memory_limit // 2, 64 << 20)}B",
            "temp_directory": str(self.folder() / "duckdb"),
            "threads": self.threads,
            "preserve_insertion_order": False,
        }


def _schema(width: int, columns: int) -> pa.Schema:
    """The columns of rows that wait to be added up: items k0, k1, ... and frequencies f0, f1, ..."""
    keys = [(f"k{place}", pa.int32()) for place in range(width)]
    return pa.schema([*keys, *((f"f{column}", pa.int64()) for column in range(columns))])


def _record_batch(keys: Numbers, values: Ints, columns: list[int], schema: pa.Schema) -> pa.RecordBatch:
    """Lay rows out under a schema; a target that was not known yet has the frequency 0."""
    arrays: dict[str, Any] = {f"k{place}": keys[:, place] for place in range(keys.shape[1])}
    arrays.update({f"f{column}": values[:, place] for place, column in enumerate(columns)})
    zeros = np.zeros(len(keys), dtype=np.int64)
    return pa.record_batch([pa.array(arrays.get(name, zeros)) for name in schema.names], schema=schema)


@contextmanager
def count_table(
    samples: Sequence[tuple[Iterable[Documents], Plan]],
    policy: Policy,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    beside: Path | None = None,
    progress: Callable[[int], None] = lambda documents: None,
) -> Iterator[SpanTable]:
    """Count samples into one table, whose rows come as a stream while the context is open.

    Args:
        samples: documents and what to count of them: one sample, or two whose plans differ in their targets.
        policy: what to do with documents that cannot be counted.
        threads: how many batches are counted at a time; None: one for each processor.
        memory_limit: bytes, a guide for the tables; None: `MEMORY_LIMIT`.
        beside: the file beside which a folder is made when memory is short; None: where the system keeps such.
        progress: told how many documents were counted.
    """
    if threads is not None:
        check_count("threads", "a count", threads)
    threads = threads or os.cpu_count() or 1
    with ExitStack() as stack:

        @cache
        def folder() -> Path:  # made when it is first needed, if ever
            return stack.enter_context(spill_folder(beside or Path(tempfile.gettempdir(), "raregram")))

        total = Accumulator(samples[0][1], memory_limit or MEMORY_LIMIT, folder, threads)
        total.column = {plan.everything: 1 for _, plan in samples if plan.everything is not None}
        for partial in _count_in_threads(samples, policy, threads):
            total.add(partial)
            if total.full:
                total.spill()
            progress(partial.documents)
        check_counted(total.documents, int(total.totals[0]), total.longest, total.plan)
        yield total.table()


@contextmanager
def _duckdb(settings: dict[str, Any]) -> Iterator[Any]:
    """Open DuckDB, which is loaded only where memory was short."""
    import duckdb

    try:
        with duckdb.connect(":memory:", config=settings) as connection:
            yield connection
    except duckdb.Error as error:
        raise FileError(f"cannot add up the counts: {str(error).splitlines()[0]}") from error


def _count_in_threads(
    samples: Sequence[tuple[Iterable[Documents], Plan]], policy: Policy, threads: int
) -> Iterator[Partial]:
    """Yield the partial tables of all batches; never more than a few batches are in memory."""
    waiting: deque[Future[Partial]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for documents, plan in samples:
            for batch in documents:
                waiting.append(pool.submit(count_batch, batch, plan, policy))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def check_counted(documents: int, contexts: int, longest: int, plan: Plan) -> None:
    """Raise where there was nothing to count; `longest` is the number of items of the longest document."""
    if not documents:
        raise InputError("there is no document in the input")
    if not contexts:
        raise InputError(f"no document is long enough: the longest has {longest} {plan.kind}, and n is {plan.n}")

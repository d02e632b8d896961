"""The local engine: encode everything once, then count range by range, in memory or beyond it.

Codes are kept in memory while they are few, and else in a temporary file. When all has been read, the vocabulary is
put into byte order. The windows are then cut into ranges of the item next to the boundary, each small enough to be
sorted in memory. Ranges share no row, and their rows come out in the final order: nothing is merged or added up
afterwards.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from raregram.corpus.labels import check_labels
from raregram.counts.encode import Encoded, WindowClass
from raregram.counts.kernel import (
    Batch,
    CountSettings,
    Layer,
    add_windows,
    count_span,
    count_units,
    most_frequent,
    window_columns,
)
from raregram.counts.rows import SpanRows, add_up_suffixes, from_boundary, with_document_frequencies
from raregram.counts.spans import Span, unit_spans
from raregram.counts.storage import SpanTable, fold_names
from raregram.counts.table import Ints, check_total, counts_columns
from raregram.errors import InputError, check_count
from raregram.files import temporary_base, write_errors_named
from raregram.remote import PathLike
from raregram.text.shapes import shapes_of
from raregram.text.vocabulary import Codes, build_vocabulary

MEMORY_LIMIT = 4 << 30  # bytes
SMALLEST_RANGE = 1 << 8  # windows
RANGE = 1 << 17  # windows that are sorted at a time, where memory allows: so many stay in the processor's cache
MOST_RANGES = 1 << 14

Job: TypeAlias = Callable[[], Encoded]
Counting: TypeAlias = Callable[[], SpanRows]
Pieces: TypeAlias = Callable[[], Iterable[Codes]]  # columns of windows as from `window_columns`
T = TypeVar("T")


class Spool:
    """Arrays of 32-bit numbers: the first ones in memory, those beyond a limit in a temporary file without a name."""

    def __init__(self, limit: int, beside: Path) -> None:
        self.limit, self.beside = limit, beside
        self.file: Any = None
        self.arrays: list[Codes | tuple[int, tuple[int, ...]]] = []  # in memory, or (offset, shape) in the file

    def append(self, array: Codes) -> None:
        """Add an array."""
        if array.nbytes <= self.limit:
            self.limit -= array.nbytes
            self.arrays.append(array)
            return
        with write_errors_named(self.beside):
            if self.file is None:
                self.file = tempfile.TemporaryFile(dir=self.beside.parent, buffering=0)  # noqa: SIM115
            self.arrays.append((self.file.seek(0, os.SEEK_END), array.shape))
            left = memoryview(np.ascontiguousarray(array).view(np.uint8).ravel().data)
            while left:  # a disk that becomes full takes a part
                left = left[self.file.write(left) :]

    def read(self, which: int, start: int = 0, stop: int | None = None) -> Codes:
        """Return a part of an array along its last axis."""
        kept = self.arrays[which]
        if isinstance(kept, np.ndarray):
            return kept[..., start:stop]
        offset, (*rows, length) = kept
        found = np.empty((*rows, (length if stop is None else stop) - start), dtype=np.int32)
        for row, part in enumerate(found.reshape(-1, found.shape[-1])):
            self.file.seek(offset + 4 * (row * length + start))
            self.file.readinto(part.data)
        return found

    def close(self) -> None:
        """Give memory and disk back."""
        self.arrays = []
        if self.file is not None:
            self.file.close()


class Corpus:
    """All that is to be counted, encoded."""

    def __init__(
        self, settings: CountSettings, memory_limit: int | None = None, beside: Path | None = None, threads: int = 1
    ) -> None:
        self.settings, self.threads = settings, threads
        self.memory_limit = memory_limit or MEMORY_LIMIT
        self.beside = beside or Path(tempfile.gettempdir(), "a temporary file")
        self.vocabulary = {name: code for code, name in enumerate(fold_names(settings.folds).to_pylist())}
        self.labels = {name for name in (settings.everything, *(settings.targets or ())) if name is not None}
        self.classes: dict[WindowClass, int] = {}
        self.spool = Spool(self.memory_limit // 16, self.beside)
        self.batches: list[tuple[list[int], int]] = []  # where the arrays of each end in the spool, the default class
        self.documents = self.longest = self.begun = self.windows = self.last_fold = 0

    def add(self, encoded: Encoded) -> None:
        """Add a batch."""
        self.documents += encoded.documents
        self.longest = max(self.longest, encoded.longest)
        self.labels |= encoded.labels
        if self.settings.targets is None:
            check_labels(self.labels)
        if len(encoded.lengths):
            known, names = self.vocabulary, encoded.items.to_pylist()
            codes = np.array([known.setdefault(name, len(known)) for name in names])[encoded.codes]
            classes = [self.classes.setdefault(each, len(self.classes)) for each in encoded.classes]
            window_class = np.array(classes, dtype=np.int32)[encoded.window_class]
            # Nearly all windows have one class, so only the others are kept.
            default, marked = most_frequent(window_class)
            document, fold = self.begun + encoded.number, self._folds_of(encoded)
            arrays = [codes, encoded.lengths, document, fold, marked, window_class[marked]]
            self.spool.append(np.concatenate(arrays, dtype=np.int32, casting="unsafe"))
            self.batches.append((list(accumulate(map(len, arrays))), default))
            self.windows += len(window_class)
        self.begun += encoded.begun

    def _folds_of(self, encoded: Encoded) -> Ints:
        """Return the fold of each document: by how it begins, or of a context by its place among all."""
        folds = max(self.settings.folds, 1)
        if encoded.hashes is None:
            return np.asarray((self.begun + encoded.number) % folds)
        fold_of = (encoded.hashes % np.uint64(folds)).astype(np.int64)
        fold_of[encoded.number < 0] = self.last_fold  # it goes on from the batch before
        self.last_fold = int(fold_of[-1])
        return fold_of

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets in order of their names."""
        return tuple(sorted(self.labels))

    @property
    def totals(self) -> list[int]:
        """How many contexts there are, in all and at each target, and their document frequencies."""
        return list(map(int, self.fold_totals.sum(axis=0)))

    @cached_property
    def fold_totals(self) -> Ints:
        """The same for each fold; for one, if there are none."""
        totals = np.zeros((max(self.settings.folds, 1), 1 + len(self.targets)), dtype=np.int64)
        for batch in self._batches():
            add_windows(totals, batch.per_window(batch.fold), batch.window_class(), self.increments)
        if not self.settings.documents:
            return totals
        spread = np.zeros((3, *totals.shape), dtype=np.int64)
        fold_of = np.zeros(self.begun, dtype=np.int8)
        for batch in self._batches():
            fold_of[batch.document] = batch.fold
        for column in range(totals.shape[1]):  # one by one, since there may be many documents
            f, times = np.zeros((self.begun, 1), dtype=np.int64), self.increments[:, [column]]
            for batch in self._batches():
                add_windows(f, batch.per_window(batch.document), batch.window_class(), times)
            for group, sums in zip(spread, (f > 0, f * f, f * self.document_sizes[:, None]), strict=True):
                np.add.at(group[:, column], fold_of, sums[:, 0])
        return np.hstack([totals, *spread])

    @cached_property
    def document_sizes(self) -> Ints:
        """The number of contexts of each document."""
        sizes = np.zeros(self.begun, dtype=np.int64)
        for batch in self._batches():
            np.add.at(sizes, batch.document, batch.lengths - (self.settings.n - 1))
        return sizes

    @cached_property
    def increments(self) -> Ints:
        """What a window of each class adds, in all and at each target (classes, values)."""
        column = {target: place for place, target in enumerate(self.targets, 1)}
        increments = np.zeros((len(self.classes), 1 + len(column)), dtype=np.int64)
        for row, (of_all, at_targets) in enumerate(self.classes):
            increments[row, 0] = of_all
            for target, times in at_targets:
                increments[row, column[target]] = times
        return increments

    def _batches(self) -> Iterator[Batch]:
        for which, (ends, default) in enumerate(self.batches):
            codes, lengths, document, fold, marked, marked_class = np.split(self.spool.read(which), ends[:-1])
            yield Batch(codes, lengths, document, fold, marked, marked_class, default, self.settings.n)

    def table(self, only: Span | None = None, keep_rare: bool = False) -> SpanTable:
        """Count all spans that a table stores, or only one; the rows come as a stream.

        Rare ones are left out, if the settings say so, unless they are to be added to those of other tables.
        """
        totals, folds = self.totals, self.fold_totals.tolist() if self.settings.folds else []
        check_total(totals[0])
        items, parts = self._count(only)
        if self.settings.min_count > 1 and not keep_rare:
            parts = (part if part.span.width == 1 else part.at_least(self.settings.min_count) for part in parts)
        columns = counts_columns(self.targets, self.settings.documents)
        return SpanTable("counts", self.settings.header(self.targets, totals, folds), columns, items, parts)

    def _count(self, only: Span | None) -> tuple[pa.Array, Iterator[SpanRows]]:
        """Return the items in byte order, shapes among them, and the rows of all spans."""
        if not self.batches:
            return pa.array([], pa.string()), iter(())
        names = pa.array(list(self.vocabulary), pa.string())
        items, codes = build_vocabulary(names)
        layers, folds = [Layer("item", items, codes, codes)], codes[: self.settings.folds]
        units, final = [self._units(layers[0])], {"item": np.arange(len(items), dtype=np.int32)}
        if self.settings.shape is not None:
            shapes, of_shapes = build_vocabulary(pa.concat_arrays(shapes_of(names, self.settings.shape)))
            layers.append(Layer("shape", shapes, of_shapes[len(names) :], of_shapes[: len(names)]))
            counted = list(self._units(layers[1]))
            units.append(iter(counted))
            nearest = 0 if self.settings.side == "right" else -1
            used = np.unique(np.concatenate([part.keys[:, nearest] for part in counted]))
            items, into = build_vocabulary(pa.concat_arrays([items, shapes.take(pa.array(used))]))
            final = {"item": into, "shape": np.zeros(len(shapes), dtype=np.int32)}
            final["shape"][used] = into[-len(used) :]
            folds = into[folds]
        wanted = (part for part in chain(*units) if only in (None, part.span) and len(part))
        longer = chain.from_iterable(self._suffixes(layer, only) for layer in layers)
        return items, _recode(chain(wanted, longer), final, folds, self.settings.side)

    def _units(self, layer: Layer) -> Iterator[SpanRows]:
        """Count the units, by tables of the values of all codes where these are small enough, else by ranges."""
        spans, folds = unit_spans(self.settings.n, layer.name), max(self.settings.folds, 1)
        size = 8 * len(layer.names) * folds * (self.increments.shape[1] + 2)
        at_a_time = self.memory_limit // 6 // size
        if self.settings.documents or not at_a_time:
            return chain.from_iterable(self._by_ranges(layer, span, [1]) for span in spans)
        parts = (spans[first : first + at_a_time] for first in range(0, len(spans), at_a_time))
        return chain.from_iterable(
            count_units(some, self.settings, self._batches(), layer, self.increments) for some in parts
        )

    def _suffixes(self, layer: Layer, only: Span | None) -> Iterator[SpanRows]:
        """Count the suffixes of two and more items or shapes, or only one of them."""
        spans = [span for span in self.settings.stored if span.layer == layer.name and span.width > 1]
        wanted = [span for span in spans if only in (None, span)]
        if self.settings.documents:  # a document of a shorter suffix may be one of several longer ones
            return chain.from_iterable(self._by_ranges(layer, span, [span.width]) for span in wanted)
        return self._by_ranges(layer, wanted[-1], [span.width for span in wanted]) if wanted else iter(())

    def _by_ranges(self, layer: Layer, span: Span, widths: Iterable[int]) -> Iterator[SpanRows]:
        """Count a span range by range of the nearest item, and add up its rows to those of shorter suffixes."""
        nearest = span.stop - 1 if self.settings.side == "left" else span.start
        sizes = np.zeros(len(layer.names), dtype=np.int64)
        for columns in self._pieces(layer, Span(layer.name, nearest, nearest + 1)):
            np.add.at(sizes, columns[0], 1)
        values = self.increments.shape[1] * (4 if self.settings.documents else 1)
        needed = 20 * span.width + 8 * values + 48
        capacity = max(self.memory_limit // 8 // self.threads // needed, SMALLEST_RANGE, self.windows // MOST_RANGES)
        jobs = self._cut(span, partial(self._pieces, layer, span), sizes, 0, capacity)
        rows = in_threads(jobs, self.threads)
        if self.settings.documents:
            rows = (with_document_frequencies(part, self.document_sizes, self.settings.side) for part in rows)
        lengths = {width + bool(self.settings.folds) for width in widths}
        return add_up_suffixes(rows, lengths, self.settings.n, self.settings.side)

    def _pieces(self, layer: Layer, span: Span) -> Iterator[Codes]:
        """Yield the columns of all windows, batch by batch."""
        return (window_columns(batch, layer, self.settings, span) for batch in self._batches())

    def _cut(self, span: Span, pieces: Pieces, sizes: Ints, column: int, capacity: int) -> Iterator[Counting]:
        """Cut windows into ranges of a column's codes, of `sizes` windows; a frequent code by the next column.

        Yields a job for each range, which counts its rows.
        """
        bounds = _bounds(sizes, min(capacity, max(RANGE, int(sizes.sum()) // MOST_RANGES)))
        range_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint16), np.diff(bounds))
        spool = Spool(self.memory_limit // 16, self.beside)
        cuts = []
        for piece in pieces():
            of_window = range_of[piece[column]]
            order = np.argsort(of_window, kind="stable")
            spool.append(piece.take(order, axis=1))
            cuts.append(np.searchsorted(of_window[order], np.arange(len(bounds))))
        count = partial(count_span, span, self.settings.side, increments=self.increments)
        ends = np.cumsum(sizes)[bounds[1:] - 1]
        for which, windows in enumerate(np.diff(ends, prepend=0).tolist()):
            parts = [(piece, cut[which], cut[which + 1]) for piece, cut in enumerate(cuts)]
            in_range = partial(map, lambda part: spool.read(*part), [part for part in parts if part[1] < part[2]])
            if 0 < windows <= capacity:
                yield partial(count, np.concatenate(list(in_range()), axis=1))
            elif windows and column + 2 < len(piece):  # the last one is the class
                further = np.bincount(np.concatenate([part[column + 1] for part in in_range()]))
                yield from self._cut(span, in_range, further, column + 1, capacity)
            elif windows:  # all of them are equal
                rows = [count(part) for part in in_range()]
                yield partial(SpanRows, span, rows[0].keys, np.sum([part.values for part in rows], axis=0))
        spool.close()


def _recode(parts: Iterable[SpanRows], codes: Mapping[str, Codes], folds: Codes, side: str) -> Iterator[SpanRows]:
    """Yield rows with other codes, of the items or shapes and of the folds after them."""
    for part in parts:
        keys, width = from_boundary(part.keys, side), part.span.width
        after = np.hstack([codes[part.span.layer][keys[:, :width]], folds[keys[:, width:]]])
        yield SpanRows(part.span, np.ascontiguousarray(from_boundary(after, side)), part.values)


def _bounds(sizes: Ints, capacity: int) -> Ints:
    """Cut codes into ranges of at most so many windows, or of one code: where each begins, and the end."""
    ends = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(ends, before + capacity, side="right")), bounds[-1] + 1))
    return np.array(bounds)


def in_threads(jobs: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Do jobs side by side and yield the results in order; only a few are in memory at a time."""
    if threads == 1:
        yield from (job() for job in jobs)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) >= threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def encode_all(
    jobs: Iterable[Job],
    settings: CountSettings,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    beside: PathLike | None = None,
    progress: Callable[[int], None] = lambda documents: None,
) -> Iterator[Corpus]:
    """Encode documents or contexts; they can be counted while the context is open.

    Args:
        jobs: each encodes some.
        settings: what to count of them.
        threads: how many jobs are done and ranges counted at a time; None: one for each processor.
        memory_limit: bytes, a guide; None: `MEMORY_LIMIT`.
        beside: the file beside which temporary files are kept; None: where the system keeps such.
        progress: called with the number of documents of each batch.
    """
    if threads is not None:
        check_count("threads", "a count", threads)
    threads = threads or os.cpu_count() or 1
    corpus = Corpus(settings, memory_limit, None if beside is None else temporary_base(beside), threads)
    before = resident_bytes()
    try:
        for encoded in in_threads(jobs, threads):
            corpus.add(encoded)
            progress(encoded.documents)
        pa.default_memory_pool().release_unused()  # of the input, so that the tables get it
        kept = max(resident_bytes() - before, 0)  # the vocabulary and all that stays in memory
        corpus.memory_limit = max(corpus.memory_limit - kept, corpus.memory_limit // 4)
        yield corpus
    finally:
        corpus.spool.close()


def resident_bytes() -> int:
    """Return how much memory this process has; 0 where the system does not say."""
    if sys.platform == "darwin":  # which tells the peak
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_counted(documents: int, contexts: int, longest: int, settings: CountSettings) -> None:
    """Raise where there was nothing to count; `longest` is the number of items of the longest document."""
    if not documents:
        raise InputError("there is no document in the input")
    if not contexts:
        raise InputError(
            f"no document is long enough: the longest has {longest} {settings.kind}, and n is {settings.n}. "
            "Labelled contexts have a line each: label<TAB>items"
        )

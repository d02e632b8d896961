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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from raregram.corpus.labels import check_labels
from raregram.counts.encode import ONCE, Encoded, Weight
from raregram.counts.kernel import Batch, CountSettings, Layer, count_units, count_windows, windows_of
from raregram.counts.rows import SpanRows, add_up_suffixes, from_boundary, join_rows, with_document_frequencies
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
Pieces: TypeAlias = Callable[[], Iterable[Codes]]  # windows as from `windows_of`, some at a time
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
        self.weights: dict[Weight, int] = {ONCE: 0}
        self.windows: Counter[tuple[int, int]] = Counter()  # how many there are of each fold and weight
        self.spool = Spool(self.memory_limit // 16, self.beside)
        # Of each batch: the numbers of items, documents and special windows, the usual weight, and the fold.
        self.sizes: list[tuple[int, int, int, int, int]] = []
        self.documents = self.longest = self.begun = self.last_fold = 0

    def add(self, encoded: Encoded) -> None:
        """Add a batch."""
        self.documents += encoded.documents
        self.longest = max(self.longest, encoded.longest)
        self.labels |= encoded.labels
        if self.settings.targets is None:
            check_labels(self.labels)
        fold_of = self._folds_of(encoded)
        for fold in np.unique(fold_of).tolist():
            self._add(encoded if self.settings.folds == 0 else encoded.some(fold_of == fold), fold)
        self.begun += encoded.begun

    def _folds_of(self, encoded: Encoded) -> Ints:
        """Return the fold of each document: by how it begins, or of a context by its place among all."""
        folds = max(self.settings.folds, 1)
        if encoded.hashes is None:
            return np.asarray((self.begun + encoded.number) % folds)
        fold_of = (encoded.hashes % np.uint64(folds)).astype(np.int64)
        fold_of[encoded.number < 0] = self.last_fold  # it goes on from the batch before
        self.last_fold = int(fold_of[-1]) if len(fold_of) else self.last_fold
        return fold_of

    def _add(self, encoded: Encoded, fold: int) -> None:
        """Add documents of one fold."""
        known, names = self.vocabulary, encoded.items.to_pylist()
        codes = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int32)[encoded.codes]
        usual, *weights = (
            self.weights.setdefault(kind, len(self.weights)) for kind in (encoded.usual, *encoded.weights)
        )
        weight = np.array(weights, dtype=np.int32)[encoded.weight]
        others = int((encoded.lengths - (self.settings.n - 1)).sum()) - len(weight)
        self.windows[fold, usual] += others
        for kind, times in enumerate(np.bincount(weight).tolist()):
            self.windows[fold, kind] += times
        document = (encoded.number + self.begun).astype(np.int32)
        lengths, special = encoded.lengths.astype(np.int32), encoded.special.astype(np.int32)
        self.spool.append(np.concatenate([codes, lengths, special, weight, document]))
        self.sizes.append((len(codes), len(lengths), len(special), usual, fold))

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
        matrix = self._matrix() + np.eye(1, totals.shape[1], dtype=np.int64)
        for (fold, kind), windows in self.windows.items():
            totals[fold] += windows * matrix[kind]
        if not self.settings.documents:
            return totals
        groups = np.zeros((3, *totals.shape), dtype=np.int64)
        fold_of = np.zeros(self.begun, dtype=np.int8)
        for batch in self._batches():
            fold_of[batch.document] = batch.fold or 0
        for column, times in enumerate(matrix.T):  # one by one, since there may be many documents
            frequency = self._document_totals(times) if column else self.document_sizes
            for fold in range(len(totals)):
                f, sizes = frequency[fold_of == fold], self.document_sizes[fold_of == fold]
                groups[:, fold, column] = np.count_nonzero(f), f @ f, f @ sizes
        return np.hstack([totals, *groups])

    @cached_property
    def document_sizes(self) -> Ints:
        """The number of contexts of each document."""
        return self._document_totals(self._matrix()[:, 0] + 1)

    def _document_totals(self, times: Ints) -> Ints:
        """Return the number of contexts of each document, given how often a window of each weight counts."""
        total = np.zeros(self.begun, dtype=np.int64)
        for batch in self._batches():
            first = int(batch.document[0])
            found = np.bincount(batch.documents() - first, times[batch.weights(batch.starts())])
            total[first : first + len(found)] += found.astype(np.int64)
        return total

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
        if not self.sizes:
            return pa.array([], pa.string()), iter(())
        names = pa.array(list(self.vocabulary), pa.string())
        distinct, codes = build_vocabulary(names)
        layer = Layer("item", distinct, codes, codes)
        of_folds = codes[: self.settings.folds]  # the codes of their names, which stand first in the vocabulary
        recode = partial(_recode, side=self.settings.side, folds=of_folds)
        if self.settings.shape is None:
            rows = chain(_only(self._units(layer), only), self._suffixes(layer, only))
            return distinct, recode(rows, np.arange(len(distinct), dtype=np.int32)) if self.settings.folds else rows
        shapes, codes = build_vocabulary(pa.concat_arrays(shapes_of(names, self.settings.shape)))
        of_shapes = Layer("shape", shapes, codes[len(names) :], codes[: len(names)])
        shape_units = list(self._units(of_shapes))
        nearest = 0 if self.settings.side == "right" else -1
        used = np.unique(np.concatenate([part.keys[:, nearest] for part in shape_units]))
        items, into = build_vocabulary(pa.concat_arrays([distinct, shapes.take(pa.array(used))]))
        final = np.zeros(len(shapes), dtype=np.int32)  # of every shape among the items
        final[used] = into[len(distinct) :]
        recode = partial(recode, folds=into[of_folds])
        units = chain(recode(self._units(layer), into), recode(shape_units, final))
        longer = chain(recode(self._suffixes(layer, only), into), recode(self._suffixes(of_shapes, only), final))
        return items, chain(_only(units, only), longer)

    def _matrix(self) -> Ints:
        """Return for each weight how often its windows count more than once, and how often at each target."""
        column = {target: place for place, target in enumerate(self.targets, 1)}
        matrix = np.zeros((len(self.weights), 1 + len(column)), dtype=np.int64)
        for row, (of_all, at_targets) in enumerate(self.weights):
            matrix[row, 0] = of_all - 1
            for target, times in at_targets:
                matrix[row, column[target]] = times
        return matrix

    def _batches(self) -> Iterator[Batch]:
        for which, (items, documents, special, usual, fold) in enumerate(self.sizes):
            parts = np.split(self.spool.read(which), np.cumsum([items, documents, special, special]))
            codes, lengths, special_windows, weight, document = parts
            named = fold if self.settings.folds else None
            yield Batch(codes, lengths, special_windows, weight, document, usual, self.settings.n, named)

    def _units(self, layer: Layer) -> Iterator[SpanRows]:
        """Count the units, as much of the vocabulary at a time as memory allows."""
        if self.settings.documents:
            return self._spread(layer, unit_spans(self.settings.n, layer.name))
        weights, folds = self._matrix(), max(self.settings.folds, 1)
        most_codes = max(self.memory_limit // 6 // (8 * folds * (weights.shape[1] + 2)), SMALLEST_RANGE)
        if not self.settings.folds:
            return count_units(self._batches, layer, self.settings, weights, most_codes)

        def of_fold(fold: int) -> Iterator[Batch]:
            return (batch for batch in self._batches() if batch.fold == fold)

        counted = (
            count_units(partial(of_fold, fold), layer, self.settings, weights, most_codes) for fold in range(folds)
        )
        return (_with_folds(parts, self.settings.side) for parts in zip(*counted, strict=True))

    def _suffixes(self, layer: Layer, only: Span | None) -> Iterator[SpanRows]:
        """Count the suffixes of two and more items or shapes, or only one of them."""
        spans = [span for span in self.settings.stored if span.layer == layer.name and span.width > 1]
        wanted = [span for span in spans if only in (None, span)]
        if not wanted:
            return iter(())
        if self.settings.documents:
            return self._spread(layer, wanted)
        longest = max(wanted, key=lambda span: span.width)
        lengths = {span.width + bool(self.settings.folds) for span in wanted}
        return add_up_suffixes(self._count_ranges(layer, longest), lengths, self.settings.n, self.settings.side)

    def _spread(self, layer: Layer, spans: Iterable[Span]) -> Iterator[SpanRows]:
        """Count spans with their document frequencies; a document is one more part of a key, and then added up."""
        for span in spans:
            add_sums = partial(with_document_frequencies, sizes=self.document_sizes, side=self.settings.side)
            of_documents = map(add_sums, self._count_ranges(layer, span))
            lengths = {span.width + bool(self.settings.folds)}
            yield from add_up_suffixes(of_documents, lengths, self.settings.n, self.settings.side)

    def _count_ranges(self, layer: Layer, span: Span) -> Iterator[SpanRows]:
        """Count a span range by range."""
        ranges = (
            partial(count_windows, span, self.settings.side, *windows)
            for windows in self._ranges(layer, span, self._matrix())
        )
        return in_threads(ranges, self.threads)

    def _ranges(self, layer: Layer, span: Span, weights: Ints) -> Iterator[tuple[Codes, Ints]]:
        """Yield the windows of a span range by range, and what they weigh."""

        def pieces() -> Iterator[Codes]:
            return (windows_of(batch, layer, self.settings, span) for batch in self._batches())

        first = span.stop - 1 if self.settings.side == "left" else span.start
        codes = layer.nearest_codes if first == self.settings.nearest else layer.codes
        sizes = np.zeros(len(layer.names), dtype=np.int64)
        for batch in self._batches():
            sizes += np.bincount(codes[batch.codes[batch.starts() + first]], minlength=len(sizes))
        columns = int(weights.shape[1]) * (4 if self.settings.documents else 1)
        windows, needed = sum(self.windows.values()), 20 * span.width + 8 * columns + 48
        capacity = max(self.memory_limit // 8 // self.threads // needed, SMALLEST_RANGE, windows // MOST_RANGES)
        return self._cut(pieces, sizes, 0, capacity, weights)

    def _cut(
        self, pieces: Pieces, sizes: Ints, column: int, capacity: int, weights: Ints
    ) -> Iterator[tuple[Codes, Ints]]:
        """Cut windows into ranges of a column's codes, of `sizes` windows; a frequent code by the next column."""
        bounds = _bounds(sizes, min(capacity, max(RANGE, int(sizes.sum()) // MOST_RANGES)))
        range_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint16), np.diff(bounds))
        spool = Spool(self.memory_limit // 16, self.beside)
        cuts = []
        for piece in pieces():
            of_window = range_of[piece[column]]
            order = np.argsort(of_window, kind="stable")
            spool.append(piece.take(order, axis=1))
            cuts.append(np.searchsorted(of_window[order], np.arange(len(bounds))))
        ends = np.cumsum(sizes)[bounds[1:] - 1]
        for which, windows in enumerate(np.diff(ends, prepend=0).tolist()):
            parts = [(piece, cut[which], cut[which + 1]) for piece, cut in enumerate(cuts)]
            in_range = partial(_read_parts, spool, [part for part in parts if part[1] < part[2]])
            if windows <= capacity:
                if windows:
                    yield np.concatenate(list(in_range()), axis=1), weights
            elif column + 1 < len(piece) - 1:
                further = np.concatenate([part[column + 1] for part in in_range()])
                further_sizes = np.bincount(further, minlength=len(sizes))
                yield from self._cut(in_range, further_sizes, column + 1, capacity, weights)
            else:
                yield _joined(in_range(), weights)
        spool.close()


def _only(parts: Iterable[SpanRows], only: Span | None) -> Iterator[SpanRows]:
    """Yield the rows of all spans, or only of one."""
    return (part for part in parts if only in (None, part.span) and len(part))


def _recode(parts: Iterable[SpanRows], codes: Codes, side: str, folds: Codes) -> Iterator[SpanRows]:
    """Yield rows with other codes, of items and of folds."""
    for part in parts:
        if not len(folds):
            yield SpanRows(part.span, codes[part.keys], part.values)
            continue
        keys = np.empty_like(part.keys)
        before, after = from_boundary(part.keys, side), from_boundary(keys, side)
        after[:, :-1], after[:, -1] = codes[before[:, :-1]], folds[before[:, -1]]
        yield SpanRows(part.span, keys, part.values)


def _with_folds(parts: Sequence[SpanRows], side: str) -> SpanRows:
    """Put the rows of one span in all folds together."""
    fold = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    rows = join_rows(parts[0].span, parts, 0)
    order = np.argsort(rows.keys[:, 0], kind="stable")
    keys = from_boundary(np.column_stack([rows.keys[:, 0], fold]), side)
    return SpanRows(rows.span, np.ascontiguousarray(keys[order]), rows.values[order])


def _read_parts(spool: Spool, parts: Sequence[tuple[int, int, int]]) -> Iterator[Codes]:
    return (spool.read(*part) for part in parts)


def _joined(pieces: Iterable[Codes], weights: Ints) -> tuple[Codes, Ints]:
    """Make one window of many that are the same, with what all of them weigh."""
    total = np.zeros(weights.shape[1], dtype=np.int64)
    for piece in pieces:
        total += np.bincount(piece[-1], minlength=len(weights)) @ weights
        total[0] += piece.shape[1]
        window = piece[:, :1].copy()
    total[0] -= 1
    window[-1] = 1
    return window, np.stack([np.zeros_like(total), total])


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

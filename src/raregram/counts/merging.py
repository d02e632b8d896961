"""Count tables added up and subtracted: a merge of sorted rows, some at a time.

Vocabularies are sorted, so the codes of a common one leave the rows of every table in order. Of tables in files only
a batch of each is in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.counts.rows import SpanRows, add_up_suffixes, from_boundary, join_rows, row_bytes, stored_spans
from raregram.counts.sorting import find_heads
from raregram.counts.spans import Span, span_names
from raregram.counts.storage import SpanTable, fold_names
from raregram.counts.table import (
    DROP_FOLDS,
    Counts,
    Ints,
    check_total,
    check_without_folds,
    counts_columns,
    counts_header,
)
from raregram.errors import InputError, ParameterError, check_count
from raregram.text.vocabulary import Codes, build_vocabulary, encode_items

NONE = np.empty((0, 1), dtype=np.int32)


class Combined:
    """Several count tables, each added or subtracted."""

    def __init__(self, tables: Sequence[Counts], signs: Sequence[int]) -> None:
        for other in tables[1:]:
            check_mergeable(tables[0], other)
        self.tables, self.signs, self.subtracts = tables, signs, min(signs) < 0
        self.spans = list(tables[0].rows.stored)
        self.totals = np.sum([sign * table.totals for table, sign in zip(tables, signs, strict=True)], axis=0)
        check_total(int(self.totals[0]))
        folds = [sign * np.array(table.folds) for table, sign in zip(tables, signs, strict=True)]
        self.folds = tuple(tuple(totals) for totals in np.sum(folds, axis=0).tolist())
        self.items, codes = build_vocabulary(pa.concat_arrays([table.items for table in tables]))
        self._codes = np.split(codes, np.cumsum([len(table.items) for table in tables])[:-1])
        self._kept = np.arange(len(self.items), dtype=np.int32)
        if self.subtracts or any(table.rows.chosen for table in tables):
            # Some items may be gone, with their rows or their fold; all that are left are in units.
            self._union, used = self.items, np.zeros(len(self.items), dtype=bool)
            width = 1 + len(tables[0].targets)
            fits = can_be_counted(self.totals[None], self.totals, width)
            for span in self.spans:
                for part in self.stream(span) if span.width == 1 else ():
                    used[part.keys] = True
                    fits &= can_be_counted(part.values, self.totals, width)
            used[encode_items(fold_names(len(self.folds)), self.items)] = True
            if not fits:
                raise InputError("cannot subtract what was never added: the other table has more contexts")
            self.items = self.items.filter(pa.array(used))
            self._kept = (np.cumsum(used) - 1).astype(np.int32)

    def counts(self) -> Counts:
        """Return the result as a table in memory."""
        rows = (join_rows(span, list(self.stream(span)), len(self.totals)) for span in self.spans)
        return replace(self.tables[0], totals=self.totals, folds=self.folds).with_rows(rows, self.items)

    def table(self, min_count: int = 1) -> SpanTable:
        """Return the result as a stream of rows, without spans of two and more items that are rarer than this."""
        check_count("min_count", "merge", min_count)
        first = self.tables[0]
        if min_count > 1:
            check_without_folds(first)
        min_count = max(min_count, first.min_count)
        spans = stored_spans(first.spans, min_count, first.documents)
        header = counts_header(
            replace(first, min_count=min_count), first.spans, first.targets, self.totals.tolist(), self.folds
        )
        rows = (
            part if part.span.width == 1 else part.at_least(min_count)
            for source in self.spans
            for part in add_up_suffixes(
                self.stream(source),
                {span.width + bool(self.folds) for span in spans if first.rows.sources[span] == source},
                first.n,
                first.side,
            )
        )
        return SpanTable("counts", header, counts_columns(first.targets, first.documents), self.items, rows)

    def stream(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a span in order, some at a time."""

        def rows(table: Counts, codes: Codes, sign: int) -> Iterator[SpanRows]:
            for part in table.rows.stream_stored(span):
                yield SpanRows(span, codes[part.keys], part.values if sign > 0 else -part.values)

        streams = list(map(rows, self.tables, self._codes, self.signs))
        for part in merge_rows(span, streams, self.tables[0].side):
            if self.subtracts:
                self._check_contained(part)
            left = part.at_least(int(self.subtracts))
            yield SpanRows(span, self._kept[left.keys], left.values)

    def _check_contained(self, part: SpanRows) -> None:
        """Raise if a subtraction took away what was never there."""
        # A target's contexts are among all contexts, before and after.
        names = ("all", *self.tables[0].targets)
        groups = part.values.reshape(len(part), -1, len(names))  # frequencies, documents, squares, products
        bad = np.argwhere((groups < 0) | (groups > groups[:, :, :1]))
        if len(bad):
            row, group, column = bad[0]
            key = from_boundary(part.keys[row][None], self.tables[0].side)[:, : part.span.width]  # without the fold
            items = " ".join(self._union.take(pa.array(from_boundary(key, self.tables[0].side)[0])).to_pylist())
            raise InputError(
                f"cannot subtract what was never added: {items!r} at {part.span.describe()} "
                f"({names[column]}) would have the frequency {groups[row, group, column]}"
            )


def can_be_counted(values: Ints, totals: Ints, width: int) -> bool:
    """Whether rows (rows, columns) can be those of contexts with these totals (columns,).

    `width` columns are a group: frequencies in all and at each target, and, where there are document frequencies,
    numbers of documents, sums of squares and of products with the documents' sizes.
    """
    limits = totals.reshape(-1, width)
    groups = values.reshape(len(values), *limits.shape)
    elsewhere = groups[:, :, :1] - groups  # than at each target
    fits = (groups >= 0) & (groups <= limits) & (elsewhere >= 0)
    fits[:, 0] &= elsewhere[:, 0] <= limits[0, 0] - limits[0]
    # A span is in at most as many documents as it was seen.
    growing = groups[:, [1, 0, 2, 3]] if len(limits) > 1 else groups
    return bool(fits.all() and (np.diff(growing, axis=1) >= 0).all())


class RowsAsTuples(Sequence[tuple[int, ...]]):
    """The rows of an array as tuples, which Python compares."""

    def __init__(self, keys: Codes) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: Any) -> Any:
        """Return one row."""
        return tuple(self.keys[row].tolist())


def merge_rows(span: Span, streams: Sequence[Iterator[SpanRows]], side: str) -> Iterator[SpanRows]:
    """Yield the sorted rows of several streams of sorted rows, with the values of equal keys added up."""
    pending = [next(stream, None) for stream in streams]
    while any(part is not None for part in pending):
        tuples = [RowsAsTuples(from_boundary(NONE if part is None else part.keys, side)) for part in pending]
        last = min(rows[-1] for rows in tuples if len(rows))  # up to here, nothing more can come
        ready = []
        for number, part in enumerate(pending):
            if part is None:
                continue
            cut = bisect_right(tuples[number], last)
            ready.append(part[:cut])
            pending[number] = part[cut:] if cut < len(part) else next(streams[number], None)
        yield _add_up_sorted(span, [part for part in ready if len(part)], side)


def _add_up_sorted(span: Span, parts: Sequence[SpanRows], side: str) -> SpanRows:
    """Add up the values of equal keys of several parts, each of which is sorted."""
    joined = join_rows(span, parts, 0)
    if len(parts) == 1:
        return joined
    order = np.argsort(row_bytes(from_boundary(joined.keys, side)), kind="stable")  # it only merges sorted parts
    keys, values = joined.keys.take(order, axis=0), joined.values.take(order, axis=0)
    heads = find_heads(*keys.T)
    times, sums = np.diff(heads, append=len(keys)), values.take(heads, axis=0)
    for more in range(1, int(times.max())):  # at most once in each part
        again = np.flatnonzero(times > more)
        sums[again] += values[heads[again] + more]
    return SpanRows(span, keys.take(heads, axis=0), sums)


def check_mergeable(a: Counts, b: Counts) -> None:
    """Raise unless two tables count the same things."""
    if len(a.folds) != len(b.folds):
        folds = " and ".join(str(len(each.folds) or "none") for each in (a, b))
        raise ParameterError(
            f"count tables with different folds cannot be combined: {folds}. Count again with as many (--folds), "
            f"or {DROP_FOLDS}"
        )
    for name in (
        "n",
        "side",
        "kind",
        "tokenize",
        "lower",
        "pad",
        "samples",
        "targets",
        "spans",
        "shape",
        "documents",
    ):
        if getattr(a, name) != getattr(b, name):
            shown = [
                span_names(each.spans, each.n) if name == "spans" else repr(getattr(each, name)) for each in (a, b)
            ]
            raise ParameterError(f"count tables with different {name} cannot be combined: {' and '.join(shown)}")
    if a.min_count > 1 or b.min_count > 1:
        raise ParameterError(
            "a count table whose rare spans were dropped (min_count) cannot be combined exactly: "
            "combine the whole tables first, then drop"
        )

"""The rows of a count table, span by span.

Rows are sorted from the boundary on: by the item next to it, then by the one beyond that, and so on. So all rows of a
suffix that share a shorter suffix are neighbours, and the frequencies of the shorter one are their sums. A table
stores units and the longest suffixes; the suffixes between them are added up when they are asked for.

A table may be counted in folds: then documents belong to one of a few folds, and a stored row tells how often a span
was seen in one of them. The fold stands beyond the last item of its key, so that the rows of all folds are neighbours
and add up as those of longer suffixes do.

With document frequencies, a row has three groups of columns (`spread`): how often a span was seen, in how many
documents, and the sum of its squared frequencies in them. All three add up as long as a document is counted as a
whole. Those of a shorter suffix are not the sums of longer ones, so all spans are stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.counts.spans import Span, suffix
from raregram.text.vocabulary import Codes

BATCH = 1 << 16  # rows


@dataclass(frozen=True)
class SpanRows:
    """The rows of one span, sorted by `keys` from the boundary on; these are distinct."""

    span: Span
    keys: Codes  # (rows, width) in the order of the text; (rows, width + 1) with a fold
    values: npt.NDArray[np.int64]  # (rows, columns)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, which: Any) -> SpanRows:
        """Return some of the rows."""
        return SpanRows(self.span, self.keys[which], self.values[which])

    def cut(self, size: int) -> Iterator[SpanRows]:
        """Yield the rows, `size` at a time."""
        return (self[first : first + size] for first in range(0, len(self), size))

    def split(self, sizes: Sequence[int]) -> list[SpanRows]:
        """Return the rows in parts of these sizes, which are views."""
        return [self[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def at_least(self, least: int) -> SpanRows:
        """Return the rows that were seen so often."""
        keep = self.values[:, 0] >= least
        return self if keep.all() else self[keep]


class StoredSpans(Mapping[Span, SpanRows]):
    """The rows of the spans that a table stores, each span in one or several parts, in memory or in a file."""

    parts: Mapping[Span, Sequence[Any]]

    def __contains__(self, span: object) -> bool:
        """Whether there is such a span, without reading it."""
        return span in self.parts

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans."""
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @abstractmethod
    def stream(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a span, some at a time, without keeping them."""

    @abstractmethod
    def num_rows(self) -> int:
        """Return the number of rows of all spans, without reading them."""


class RowsInMemory(StoredSpans):
    """The parts of a span are joined when it is asked for."""

    def __init__(self, parts: Iterable[SpanRows], spans: Iterable[Span] = (), columns: int = 0) -> None:
        self.parts: dict[Span, list[SpanRows]] = {span: [] for span in spans}
        self.columns = columns
        for part in parts:
            self.parts.setdefault(part.span, []).append(part)

    def __getitem__(self, span: Span) -> SpanRows:
        """Return the rows of a span."""
        self.parts[span] = [join_rows(span, self.parts[span], self.columns)]
        return self.parts[span][0]

    def stream(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a span, some at a time."""
        for part in self.parts[span]:
            yield from part.cut(BATCH)

    def num_rows(self) -> int:
        """Return the number of rows of all spans."""
        return sum(len(part) for parts in self.parts.values() for part in parts)


class CountRows(Mapping[Span, SpanRows]):
    """The rows of all spans: those that are stored, and the shorter suffixes, which add them up."""

    def __init__(
        self,
        stored: StoredSpans,
        spans: Iterable[Span],
        n: int,
        side: str,
        columns: int,
        folded: bool = False,  # whether what is stored is in folds
        chosen: Sequence[int] | None = None,  # the codes of those folds that this table is of; None: of all
    ) -> None:
        self.stored, self.n, self.side, self.columns = stored, n, side, columns
        self.folded, self.chosen = folded, chosen
        self.sources = {span: self._source(span) for span in spans}

    def _source(self, span: Span) -> Span:
        """Return the stored span from which the rows of a span come; raise `ValueError` if there is none."""
        if span in self.stored:
            return span
        for length in range(span.width + 1, self.n + 1):
            longer = suffix(length, self.n, self.side, span.layer)
            if longer in self.stored and span == suffix(span.width, self.n, self.side, span.layer):
                return longer
        raise ValueError("a span has no rows")

    def __getitem__(self, span: Span) -> SpanRows:
        """Return the rows of a span."""
        if self.sources[span] == span and not self.folded:
            return self.stored[span]
        return join_rows(span, list(self.stream([span])), self.columns)

    def __contains__(self, span: object) -> bool:
        """Whether there is such a span, without reading it."""
        return span in self.sources

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans, shorter ones first."""
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)

    def stream(self, spans: Iterable[Span]) -> Iterator[SpanRows]:
        """Yield the rows of some spans, a part of one at a time; those of each span are in order.

        What is in a file is read once, and not kept in memory.
        """
        lengths: dict[Span, set[int]] = {}
        for span in spans:
            lengths.setdefault(self.sources[span], set()).add(span.width)
        for source, wanted in lengths.items():
            yield from add_up_suffixes(self._read(source), wanted, self.n, self.side)

    def stream_stored(self, span: Span) -> Iterator[SpanRows]:
        """Yield the rows of a stored span as a file of this table has them: in folds, if it is of all of them."""
        return self.stored.stream(span) if self.chosen is None else self.stream([span])

    def _read(self, span: Span) -> Iterator[SpanRows]:
        for part in self.stored.stream(span):
            if self.chosen is None:
                yield part
            else:
                yield part[np.isin(from_boundary(part.keys, self.side)[:, -1], self.chosen)]


def with_document_frequencies(rows: SpanRows, sizes: npt.NDArray[np.int64], side: str) -> SpanRows:
    """Return rows of single documents, whose index is the last of a key, with what is added up over documents.

    These are the frequencies, whether there are any, their squares, and their products with the number of contexts
    of the document, `sizes`.

    >>> rows = SpanRows(Span("item", 0, 1), np.array([[5, 1]]), np.array([[3, 0]]))  # the item 5 in the document 1
    >>> with_document_frequencies(rows, np.array([8, 20]), "right").values
    array([[ 3,  0,  1,  0,  9,  0, 60,  0]])
    """
    f = rows.values
    size = sizes[from_boundary(rows.keys, side)[:, -1:]]
    return SpanRows(rows.span, rows.keys, np.hstack([f, f > 0, f * f, f * size]))


def stored_spans(spans: Sequence[Span], min_count: int, documents: bool = False) -> list[Span]:
    """Return the spans whose rows a table stores: units and the longest suffixes, if the others are their sums."""
    if min_count > 1 or documents:
        return list(spans)
    longest = {span.layer: span for span in sorted(spans, key=lambda span: span.width)}
    return [span for span in spans if span.width == 1 or span == longest[span.layer]]


def add_up_suffixes(parts: Iterable[SpanRows], lengths: Collection[int], n: int, side: str) -> Iterator[SpanRows]:
    """Yield the rows of suffixes of some lengths, given those of the longest; the rows of each length are in order.

    >>> keys = np.array([[5, 0], [7, 0], [5, 1]], np.int32)
    >>> rows = SpanRows(Span("item", 0, 2), keys, np.array([[1, 0], [2, 2], [3, 0]]))
    >>> [(part.keys.tolist(), part.values.tolist()) for part in add_up_suffixes([rows], [1], n=2, side="left")]
    [([[0]], [[3, 2]]), ([[1]], [[3, 0]])]
    """
    last: dict[int, SpanRows] = {}  # of each length, the last row: it may go on in the next part
    for part in parts:
        width = part.keys.shape[1]
        if width in lengths:
            yield part
        shorter = sorted((length for length in lengths if length < width), reverse=True)
        if not shorter or not len(part):
            continue
        shared, rows = shared_items(part.keys, side), part
        for length in shorter:
            heads = np.flatnonzero(shared < length)
            keys = rows.keys[:, -length:] if side == "left" else rows.keys[:, :length]
            span = part.span if length >= part.span.width else suffix(length, n, side, part.span.layer)
            shared, rows = shared[heads], SpanRows(span, keys[heads], _sums(rows.values, heads))
            before, rest = last.get(length), rows
            if before is not None and (before.keys == rows.keys[:1]).all():
                before, rest = SpanRows(span, before.keys, before.values + rows.values[:1]), rows[1:]
            ready = [part for part in (before, rest) if part is not None and len(part)]
            last[length] = ready[-1][-1:]
            yield from ready[:-1]
            if len(ready[-1]) > 1:
                yield ready[-1][:-1]
    yield from last.values()


def _sums(values: npt.NDArray[np.int64], heads: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Add up the values of groups of rows, given where each begins."""
    totals = np.cumsum(values, axis=0)
    sums: npt.NDArray[np.int64] = np.diff(totals[np.append(heads[1:], len(values)) - 1], axis=0, prepend=0)
    return sums


def shared_items(keys: Codes, side: str) -> npt.NDArray[np.uint16]:
    """Return of each row how many items, from the boundary on, are those of the row before; 0 for the first.

    >>> shared_items(np.array([[5, 0], [7, 0], [5, 1]], np.int32), "left").tolist()
    [0, 1, 0]
    """
    shared, same = np.zeros(len(keys), dtype=np.uint16), np.ones(max(len(keys) - 1, 0), dtype=bool)
    for column in from_boundary(keys, side).T:
        same &= column[1:] == column[:-1]
        shared[1:] += same
    return shared


def from_boundary(keys: npt.NDArray[Any], side: str) -> npt.NDArray[Any]:
    """Return rows with the item next to the boundary first."""
    return keys[:, ::-1] if side == "left" else keys


def with_fold(keys: Codes, fold: npt.ArrayLike, side: str) -> Codes:
    """Return keys with the code of their fold beyond the last item.

    >>> with_fold(np.array([[5, 6], [7, 6]]), 0, "left").tolist()
    [[0, 5, 6], [0, 7, 6]]
    """
    return np.insert(keys, 0 if side == "left" else keys.shape[1], fold, axis=1)


def row_bytes(keys: Codes) -> npt.NDArray[Any]:
    """View rows of codes as single values that compare like the rows do, item by item.

    Codes are not negative, so their big-endian bytes sort as they do.
    """
    width = keys.shape[1]
    if width == 1:
        return keys[:, 0]
    return np.ascontiguousarray(keys, dtype=">i4").view(f"V{4 * width}").ravel()


def join_rows(span: Span, parts: Sequence[SpanRows], columns: int) -> SpanRows:
    """Put parts of a span's rows together; there may be none."""
    if len(parts) == 1:
        return parts[0]
    keys = [part.keys for part in parts] or [np.empty((0, span.width), np.int32)]
    values = [part.values for part in parts] or [np.empty((0, columns), np.int64)]
    return SpanRows(span, np.concatenate(keys), np.concatenate(values))

"""The counting kernel: encoded windows -> rows of a count table. Pure: no state, no files.

A window is n items of a document. Its columns are the codes of the items of a span, from the boundary outwards, then
its fold and its document where these are counted, and last its class. The class says what a window adds to the values
of its row: `increments[class]` (classes, values), whose first column is 1 for all windows of a text.

Windows are sorted by all columns but the class, so that equal ones are neighbours. For single items that is not
needed, as long as there is memory for the values of all codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, stored_spans
from raregram.counts.sorting import group_rows
from raregram.counts.spans import LayerName, Span, parse_spans, shape_name
from raregram.counts.table import Ints, counts_header
from raregram.errors import ParameterError, must_be
from raregram.options import DOCUMENTS, FOLDS, KIND, LOWER, MIN_COUNT, SIDE, SPANS, TOKENIZE, N
from raregram.text.tokenize import Tokenizer, window_starts
from raregram.text.vocabulary import Codes, Encoder


@dataclass(frozen=True)
class CountSettings:
    """What is to be counted."""

    n: int = N.default
    side: str = SIDE.default
    kind: str = KIND.default
    targets: tuple[str, ...] | None = None  # None: every label
    spans: tuple[str, ...] = SPANS.default
    pad: bool = False
    shape: str | None = None  # the name of a shape function; None: that of the kind of items
    min_count: int = MIN_COUNT.default  # spans of two and more items seen less often are dropped in the end
    labels: Mapping[str, str] | None = None  # what labels are called in the count; None: as they are
    everything: str | None = None  # a target to which all contexts belong: one of two plain samples
    tokenize: str = TOKENIZE.default
    lower: bool = LOWER.default
    folds: int = FOLDS.default  # in how many folds documents are counted, which needs the whole N-grams; 0: in none
    documents: bool = DOCUMENTS.default  # whether document frequencies are counted
    samples: str | None = None  # which of `SAMPLES` the targets are; None: labels

    def __post_init__(self) -> None:
        """Raise `ParameterError` for whatever is out of its range."""
        N.check(self.n, "a count")
        SIDE.check(self.side, "a count")
        self.tokenizer.check("a count")
        MIN_COUNT.check(self.min_count, "a count")
        FOLDS.check(self.folds, "a count")
        if self.folds == 1:
            raise must_be("folds", "a count", "0, or from 2 on", self.folds)
        if self.folds and self.min_count > 1:
            raise ParameterError("a table in folds has all spans: leave min_count out, or folds")
        object.__setattr__(self, "shape", shape_name(self.all_spans, self.kind, self.shape))

    @cached_property
    def encoder(self) -> Encoder:
        """What turns the texts of this count into codes of vocabularies of their own."""
        return Encoder(pa.array([], pa.string()), self.tokenizer)

    @property
    def tokenizer(self) -> Tokenizer:
        """How texts are split into items."""
        return Tokenizer(self.kind, self.tokenize, self.lower)

    @property
    def all_spans(self) -> list[Span]:
        """All spans, shorter ones first."""
        return parse_spans((*self.spans, "whole") if self.folds else self.spans, self.n, self.side)

    @property
    def stored(self) -> list[Span]:
        """The spans whose rows the table stores."""
        return stored_spans(self.all_spans, self.min_count, self.documents)

    @property
    def nearest(self) -> int:
        """The position next to the boundary."""
        return self.n - 1 if self.side == "left" else 0

    def header(
        self, targets: Sequence[str], totals: Sequence[int], folds: Sequence[Sequence[int]] = ()
    ) -> dict[str, Any]:
        """Return the header of the count table with these targets and totals, in all and of each fold."""
        return counts_header(self, self.all_spans, targets, totals, folds)


@dataclass(frozen=True)
class Batch:
    """Some encoded documents, each long enough for a window."""

    codes: Codes  # (items of all documents, one after the other)
    lengths: Codes  # (documents,)
    document: Codes  # (documents,) which document each is, since a long one comes in pieces
    fold: Codes  # (documents,) 0 if there are no folds
    marked: Codes  # windows of another class than the default one, in order,
    marked_class: Codes  # and their classes
    default_class: int
    n: int

    def per_window(self, of_document: Codes) -> Codes:
        """Return the value of every window, given that of each document."""
        return np.repeat(of_document, self.lengths - (self.n - 1))

    def window_class(self) -> Codes:
        """Return the class of every window."""
        windows = int(self.lengths.sum(dtype=np.int64)) - len(self.lengths) * (self.n - 1)
        window_class = np.full(windows, self.default_class, dtype=np.int32)
        window_class[self.marked] = self.marked_class
        return window_class


@dataclass(frozen=True)
class Layer:
    """What is counted of every context, its items or their shapes, by codes in byte order."""

    name: LayerName
    names: pa.Array  # string, distinct, in byte order
    codes: Codes  # (items,) the code of each item of the corpus
    nearest_codes: Codes  # (items,) the same next to the boundary, where a shape has more detail


def window_columns(batch: Batch, layer: Layer, settings: CountSettings, span: Span) -> Codes:
    """Return the columns of all windows: items from the boundary outwards, fold and document if counted, class."""
    starts = window_starts(batch.lengths, settings.n)
    further = [batch.per_window(batch.fold)] if settings.folds else []
    further += [batch.per_window(batch.document)] if settings.documents else []
    further.append(batch.window_class())
    columns = np.empty((span.width + len(further), len(starts)), dtype=np.int32)
    positions = range(span.start, span.stop)
    for column, position in enumerate(reversed(positions) if settings.side == "left" else positions):
        codes = layer.nearest_codes if position == settings.nearest else layer.codes
        columns[column] = codes[batch.codes[starts + position]]
    columns[span.width :] = further
    return columns


def count_span(span: Span, side: str, columns: Codes, increments: Ints) -> SpanRows:
    """Return the rows of a span from the columns of its windows."""
    order, heads, keys = group_rows(columns[:-1])
    values = np.zeros((len(heads), increments.shape[1]), dtype=np.int64)
    row = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(order)))
    add_windows(values, row, columns[-1].take(order), increments)
    return SpanRows(span, np.ascontiguousarray(from_boundary(keys, side)), values)


def count_units(
    spans: Sequence[Span], settings: CountSettings, batches: Iterable[Batch], layer: Layer, increments: Ints
) -> Iterator[SpanRows]:
    """Yield the rows of spans of one item, with or without a fold, by tables of the values of all codes."""
    folds = max(settings.folds, 1)
    values = np.zeros((len(spans), len(layer.names) * folds, increments.shape[1]), dtype=np.int64)
    for batch in batches:
        fold, starts = np.repeat(batch.fold, batch.lengths), window_starts(batch.lengths, settings.n)
        rows = layer.codes[batch.codes].astype(np.int64) * folds + fold
        nearest_rows = layer.nearest_codes[batch.codes].astype(np.int64) * folds + fold
        of_default, of_marked = np.delete(starts, batch.marked), starts[batch.marked]
        for span, sums in zip(spans, values, strict=True):
            row = (nearest_rows if span.start == settings.nearest else rows)[span.start :]
            _add_same(sums, row.take(of_default), increments[batch.default_class])
            np.add.at(sums, row.take(of_marked), increments[batch.marked_class])
    for span, sums in zip(spans, values, strict=True):
        seen = np.flatnonzero(sums[:, 0])
        keys = np.column_stack([seen // folds, seen % folds] if settings.folds else [seen]).astype(np.int32)
        yield SpanRows(span, np.ascontiguousarray(from_boundary(keys, settings.side)), sums[seen])


def add_windows(values: Ints, row: npt.NDArray[Any], window_class: Codes, increments: Ints) -> None:
    """Add the increments of windows to the values (rows, columns), given the row and the class of each window.

    >>> values = np.zeros((2, 2), np.int64)
    >>> add_windows(values, np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([[1, 0], [1, 1]]))
    >>> values.tolist()
    [[1, 0], [2, 1]]
    """
    most, others = most_frequent(window_class)
    _add_same(values, np.delete(row, others), increments[most])
    np.add.at(values, row[others], increments[window_class[others]])


def most_frequent(window_class: Codes) -> tuple[int, npt.NDArray[np.intp]]:
    """Return the class that most windows have, and the windows of other classes.

    >>> most_frequent(np.array([2, 2, 0, 2]))
    (2, array([2]))
    """
    most = int(np.bincount(window_class).argmax())
    return most, np.flatnonzero(window_class != most)


def _add_same(values: Ints, row: npt.NDArray[Any], increment: Ints) -> None:
    """Add windows of one class, which nearly all are: one number at many places is added ten times as fast."""
    for column in np.flatnonzero(increment).tolist():
        np.add.at(values[:, column], row, increment[column])

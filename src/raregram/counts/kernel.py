"""The counting kernel: encoded windows -> rows of a count table. Pure: no state, no files.

Units need no work window by window: from one position to the next, a document loses its first item and gains the one
after its last, so one frequency count and the ends of the documents give all positions. The windows of a longer span
are sorted by its items, so that equal ones are neighbours; the rows come out in their final order. Only the longest
suffixes are counted, since the others add them up.

A window counts once unless its weight says otherwise: `weights[w, 0]` is how often a window of the weight w counts
beyond that, and `weights[w, 1:]` how often at each target. Weight 0 is that of most windows: once, and at no target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, stored_spans
from raregram.counts.sorting import Order, group_rows
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
    special: Codes  # (windows with another weight than most,) where each begins in `codes`, in order
    weight: Codes  # (windows with another weight than most,)
    document: Codes  # (documents,) which document each is, since a long one comes in pieces
    usual: int  # the weight of all other windows
    n: int
    fold: int | None = None  # of all documents; None: there are no folds

    def starts(self) -> Ints:
        """Return where each window begins in `codes`."""
        return window_starts(self.lengths, self.n)

    def weights(self, starts: Ints) -> Codes:
        """Return the weight of every window."""
        weight = np.full(len(starts), self.usual, dtype=np.int32)
        weight[np.searchsorted(starts, self.special)] = self.weight
        return weight

    def documents(self) -> Codes:
        """Return the document of every window."""
        return np.repeat(self.document, self.lengths - (self.n - 1))


@dataclass(frozen=True)
class Layer:
    """What is counted of every context, its items or their shapes, by codes in byte order."""

    name: LayerName
    names: pa.Array  # string, distinct, in byte order
    codes: Codes  # (items,) the code of each item of the corpus
    nearest_codes: Codes  # (items,) the same next to the boundary, where a shape has more detail


def count_units(
    batches: Callable[[], Iterable[Batch]], layer: Layer, settings: CountSettings, weights: Ints, most_codes: int
) -> Iterator[SpanRows]:
    """Yield the rows of the units, position by position; `most_codes` of the items or shapes at a time."""
    usual = sorted({batch.usual for batch in batches()}) or [0]  # a fold may have no documents
    totals = {weight: np.zeros(len(layer.names), dtype=np.int64) for weight in usual}  # at the position k
    for k in range(settings.n):
        for batch in batches():
            if k == 0:
                _tally(totals[batch.usual], layer.codes[batch.codes[batch.starts()]], 1)
                continue
            first = np.cumsum(batch.lengths, dtype=np.int64) - batch.lengths
            _tally(totals[batch.usual], layer.codes[batch.codes[first + (k - 1)]], -1)
            _tally(totals[batch.usual], layer.codes[batch.codes[first + batch.lengths - settings.n + k]], 1)
        codes, sums = layer.codes, totals
        if k == settings.nearest and layer.nearest_codes is not layer.codes:
            codes, sums = layer.nearest_codes, {weight: np.zeros_like(total) for weight, total in totals.items()}
            for batch in batches():
                _tally(sums[batch.usual], codes[batch.codes[batch.starts() + k]], 1)
        for start in range(0, len(layer.names), most_codes):
            some = {weight: total[start : start + most_codes] for weight, total in sums.items()}
            seen, values = _unit_values(batches(), k, codes, start, some, weights)
            yield SpanRows(Span(layer.name, k, k + 1), (seen + start).astype(np.int32)[:, None], values)


def _unit_values(
    batches: Iterable[Batch], k: int, codes: Codes, start: int, totals: Mapping[int, Ints], weights: Ints
) -> tuple[Ints, Ints]:
    """Return which items or shapes from a code on are at a position, and their frequencies.

    `totals` has how often each is there in all windows of the batches with one usual weight.
    """
    once = np.eye(1, weights.shape[1], dtype=np.int64)
    values = sum(total[:, None] * (once + weights[weight]) for weight, total in totals.items())
    assert isinstance(values, np.ndarray)
    for batch in batches:
        more = weights[batch.weight] - weights[batch.usual]
        rows, columns = np.nonzero(more)
        code = codes[batch.codes[batch.special[rows] + k]].astype(np.int64) - start
        inside = (code >= 0) & (code < len(values))
        np.add.at(values.reshape(-1), (code * weights.shape[1] + columns)[inside], more[rows, columns][inside])
    seen = np.flatnonzero(values[:, 0])
    return seen, values[seen]


def _tally(counts: Ints, found: Codes, times: int) -> None:
    """Count codes, `times` each."""
    if 4 * len(found) < len(counts):
        np.add.at(counts, found, times)
    else:
        counts += times * np.bincount(found, minlength=len(counts))


def windows_of(batch: Batch, layer: Layer, settings: CountSettings, span: Span) -> Codes:
    """Return the codes of a span, from the boundary on, in all windows, and the weights of these.

    The result is (width + 1, windows). With folds, the fold comes between codes and weights, and with document
    frequencies the document does, too.
    """
    starts, codes = batch.starts(), layer.codes[batch.codes]
    further = (batch.fold is not None) + settings.documents
    found = np.empty((span.width + further + 1, len(starts)), dtype=np.int32)
    positions = range(span.start, span.stop)
    for row, position in enumerate(reversed(positions) if settings.side == "left" else positions):
        of_layer = layer.nearest_codes[batch.codes] if position == settings.nearest else codes
        of_layer.take(starts + position, out=found[row])
    if batch.fold is not None:
        found[span.width] = batch.fold
    if settings.documents:
        found[-2] = batch.documents()
    found[-1] = batch.weights(starts)
    return found


def count_windows(span: Span, side: str, windows: Codes, weights: Ints) -> SpanRows:
    """Return the rows of a span from its windows, which come as from `windows_of`."""
    order, heads, keys = group_rows(windows[:-1])
    weight = windows[-1].take(order)
    special = np.flatnonzero(weight)
    group = np.searchsorted(heads, special, side="right") - 1
    sizes = np.diff(heads, append=len(order))
    in_text_order = np.ascontiguousarray(from_boundary(keys, side))
    return SpanRows(span, in_text_order, _frequencies(sizes, group, weights[weight[special]]))


def _frequencies(sizes: Order, group: npt.NDArray[Any], more: Ints) -> Ints:
    """Return the frequencies of groups of windows, in all and at each target: (groups, 1 + targets).

    Args:
        sizes: how many windows each group has.
        group: of each window with a weight,
        more: and what it counts beyond once.
    """
    values = np.zeros((len(sizes), more.shape[1]), dtype=np.int64)
    values[:, 0] = sizes
    np.add.at(values, group, more)
    return values

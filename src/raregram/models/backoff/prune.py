"""Which spans a back-off model stores: all that say something, or the best of each length.

A suffix is reached over the shorter ones, so a shorter suffix scores at least as high as the longer ones behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from raregram.counts.rows import SpanRows, from_boundary, join_rows, row_bytes
from raregram.counts.spans import LayerName, Span
from raregram.counts.table import Counts, Ints, add_up
from raregram.models import selection
from raregram.models.backoff.parameters import Spans
from raregram.models.base import Settings
from raregram.models.ratios import Floats, from_log
from raregram.text.shapes import shapes_of
from raregram.text.vocabulary import encode_items

if TYPE_CHECKING:
    pass

LEAST_GAIN = 0.02  # nats: what says less is left out, unless a size is asked for
ROW_BYTES = 128  # that a stored row of a count table takes while a model is fitted, about
MOST_PASSES = 256

Rows: TypeAlias = dict[Span, SpanRows]
Selected: TypeAlias = tuple[Rows, dict[Span, Floats]]  # rows to store, and their scores
Nearest: TypeAlias = Mapping[LayerName, npt.NDArray[np.bool_]]  # which items and shapes are next to the boundary


@dataclass(frozen=True)
class Step:
    """How the rows of one span change the estimate, in the order of the rows."""

    parent: Ints  # the row of the suffix that is one item shorter; -1: it is not there, and so this row does nothing
    prior: Floats  # log r0
    correction: Floats  # log(r / r0)

    def gains(self, f_nu: Ints, f_de: Ints, settings: Settings) -> Floats:
        """Return how much likelier rows make the contexts that have them, in nats.

        The frequency in the numerator is taken as Poisson with the mean r * n_nu * f_de / n_de; the gain is the log
        likelihood of r over that of r0.
        """
        expected = settings.n_nu * (f_de / settings.n_de) * from_log(self.prior)
        gains = f_nu * self.correction - expected * np.expm1(self.correction)
        return np.where(self.parent >= 0, gains, -np.inf)


def partitions(counts: Counts, settings: Settings, memory_limit: int) -> list[Nearest | None]:
    """Cut what may be next to the boundary, so that the suffixes of each part fit into memory; None is all of it.

    A suffix is judged by shorter ones and by those of its shapes, so items go with their shapes.
    """
    number = min(counts.rows.stored.num_rows() * ROW_BYTES // memory_limit + 1, MOST_PASSES)
    if number == 1 or settings.params.criterion == "random":  # whose scores depend on the number of rows
        return [None]
    shapes = items = np.arange(len(counts.items), dtype=np.int32)
    if settings.params.longest_shapes:
        items = encode_items(shapes_of(counts.items, settings.params.shape)[0], counts.items)
    return [{"item": items % number == part, "shape": shapes % number == part} for part in range(number)]


def evidence(counts: Counts, settings: Settings, nearest: Nearest | None = None) -> Rows:
    """Return the rows of all spans with f_nu, f_de and 1; suffixes seen once, and not at the target, say nothing.

    Of suffixes there may be only those of one part of `partitions`.
    """
    spans = Spans.of(settings)
    parts: dict[Span, list[SpanRows]] = {span: [] for span in spans.all() if span != spans.anywhere}
    for part in counts.rows.stream(parts):
        f_nu, f_de = counts.frequencies(part, settings.target, settings.denominator)
        telling = (f_nu > 0) | (f_de > 1) | (part.span.width == 1)
        if nearest is not None and part.span.width > 1:
            telling &= nearest[part.span.layer][from_boundary(part.keys, settings.side)[:, 0]]
        values = np.column_stack([f_nu[telling], f_de[telling], np.ones(telling.sum(), np.int64)])
        parts[part.span].append(SpanRows(part.span, part.keys[telling], values))
    rows = {span: join_rows(span, some, columns=3) for span, some in parts.items()}
    if spans.longest_shapes:
        units = [rows[spans.unit(distance)] for distance in range(spans.n)]
        keys, values = np.concatenate([part.keys for part in units]), np.concatenate([part.values for part in units])
        rows[spans.anywhere] = anywhere = add_up(spans.anywhere, keys, values)
        anywhere.values[:, 2] = 1
    return rows


def join(parts: Sequence[Selected], settings: Settings) -> Rows:
    """Return the rows that were selected of all parts of `partitions`, in order."""
    rows = dict(parts[0][0])
    if len(parts) == 1:
        return rows
    for span in [span for span in rows if span.width > 1]:
        joined = join_rows(span, [some[span] for some, _ in parts], columns=3)
        score = np.concatenate([some[span] for _, some in parts])
        order = np.argsort(row_bytes(from_boundary(joined.keys, settings.side)), kind="stable")
        rows[span] = joined[order]
        if settings.params.size is not None:
            rows[span] = rows[span][selection.top(score[order], _frequency(rows[span]), settings.params.size)]
    return rows


def select(rows: Rows, steps: Mapping[Span, Step], settings: Settings) -> Selected:
    """Return the rows to store, and their scores."""
    p, scores = settings.params, _scores(rows, steps, settings)
    if p.size is None and p.criterion != "gain":
        return rows, scores
    if p.size is not None:
        kept = {span: selection.top(scores[span], _frequency(part), p.size) for span, part in rows.items()}
    else:
        kept = {span: np.flatnonzero(scores[span] >= LEAST_GAIN) for span in rows}
    scores = {span: scores[span][kept[span]] for span in rows}
    return {span: part[kept[span]] for span, part in rows.items()}, scores


def _scores(rows: Rows, steps: Mapping[Span, Step], settings: Settings) -> dict[Span, Floats]:
    """Score all rows; a suffix has at least the score of each longer one behind it."""
    p, spans, scores = settings.params, Spans.of(settings), {}
    for number, (span, part) in enumerate(rows.items()):
        f_nu, f_de = part.values[:, 0], part.values[:, 1]
        if p.criterion == "gain":
            scores[span] = steps[span].gains(f_nu, f_de, settings)
        else:
            positions = spans.n if span == spans.anywhere else 1
            totals = settings.n_nu * positions, settings.n_de * positions
            seed = (p.seed, number)
            scores[span] = selection.scores(p.criterion, f_nu, f_de, *totals, seed=seed)
    layers: tuple[LayerName, ...] = ("item", "shape")
    for layer in layers:
        suffixes = [span for span in spans.suffixes(layer) if span in rows]
        for longer, shorter in zip(suffixes[:0:-1], suffixes[-2::-1], strict=True):
            parent = steps[longer].parent
            reached = parent >= 0
            np.maximum.at(scores[shorter], parent[reached], scores[longer][reached])
    return scores


def _frequency(part: SpanRows) -> Ints:
    return np.asarray(part.values[:, :2].sum(axis=1))

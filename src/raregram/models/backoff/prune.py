"""Which spans a back-off model stores: all that say something, or the best of each length.

A suffix is reached over the shorter ones, so a shorter suffix scores at least as high as the longer ones beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from raregram.counts.rows import SpanRows, from_boundary, join_rows, row_bytes
from raregram.counts.spans import LayerName, Span
from raregram.counts.table import Counts, Ints, add_up
from raregram.models import selection
from raregram.models.backoff.parameters import ANYWHERE, LAYERS, Spans
from raregram.models.base import Settings
from raregram.models.ratios import Floats, from_log
from raregram.text.shapes import shapes_of
from raregram.text.vocabulary import ABSENT, encode_items

LEAST_GAIN = 0.02  # nats: what says less is left out, unless a size is asked for
ROW_BYTES = 128  # that a stored row of a count table takes while a model is fitted, about
MOST_PASSES = 256

Rows: TypeAlias = dict[Span, SpanRows]
Selected: TypeAlias = tuple[Rows, dict[Span, Floats]]  # rows to store, and their scores
Nearest: TypeAlias = Mapping[LayerName, npt.NDArray[np.bool_]]  # which items and shapes are next to the boundary


class Step(NamedTuple):
    """What the rows of a span say, in their order."""

    log_r0: Floats  # without their own frequencies
    correction: Floats  # log(r / r0)
    parent: npt.NDArray[np.integer[Any]] | None = None  # of suffixes: the row of the shorter one, or `ABSENT`


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
    parts: dict[Span, list[SpanRows]] = {span: [] for span in spans.all() if span != ANYWHERE}
    for part in counts.rows.stream(parts):
        f_nu, f_de = counts.frequencies(part, settings.target, settings.denominator)
        telling = (f_nu > 0) | (f_de > 1) | (part.span.width == 1)
        if nearest is not None and part.span.width > 1:
            telling &= nearest[part.span.layer][from_boundary(part.keys, settings.side)[:, 0]]
        values = np.column_stack([f_nu, f_de, np.ones(len(part), np.int64)])[telling]
        parts[part.span].append(SpanRows(part.span, part.keys[telling], values))
    rows = {span: join_rows(span, some, columns=3) for span, some in parts.items()}
    if spans.longest_shapes:
        units = [rows[spans.unit(distance)] for distance in range(spans.n)]
        keys, values = np.concatenate([part.keys for part in units]), np.concatenate([part.values for part in units])
        rows[ANYWHERE] = anywhere = add_up(ANYWHERE, keys, values)
        anywhere.values[:, 2] = 1
    return rows


def select(rows: Rows, steps: Mapping[Span, Step], settings: Settings) -> Selected:
    """Return the rows to store, and their scores."""
    scores = _scores(rows, steps, settings)
    kept = {span: _best(score, rows[span], settings) for span, score in scores.items()}
    return {span: rows[span][kept[span]] for span in rows}, {span: scores[span][kept[span]] for span in rows}


def join(parts: Sequence[Selected], settings: Settings) -> Rows:
    """Return the rows that were selected of all parts of `partitions`, in order."""
    rows = dict(parts[0][0])
    for span in [span for span in rows if span.width > 1 and len(parts) > 1]:
        joined = join_rows(span, [some[span] for some, _ in parts], columns=3)
        order = np.argsort(row_bytes(from_boundary(joined.keys, settings.side)), kind="stable")
        joined, score = joined[order], np.concatenate([some[span] for _, some in parts])[order]
        rows[span] = joined[_best(score, joined, settings)]
    return rows


def _best(score: Floats, part: SpanRows, settings: Settings) -> Ints:
    """Return which rows of a span are stored."""
    if settings.params.size is not None:
        return selection.top(score, part.values[:, :2].sum(axis=1), settings.params.size)
    return np.flatnonzero(score >= LEAST_GAIN) if settings.params.criterion == "gain" else np.arange(len(score))


def _scores(rows: Rows, steps: Mapping[Span, Step], settings: Settings) -> dict[Span, Floats]:
    """Score all rows; a suffix has at least the score of each longer one beyond it."""
    s, p, spans, scores = settings, settings.params, Spans.of(settings), {}
    for number, (span, part) in enumerate(rows.items()):
        f_nu, f_de = part.values[:, 0], part.values[:, 1]
        positions = spans.n if span == ANYWHERE else 1
        if p.criterion == "gain":
            scores[span] = _gains(f_nu, s.n_nu * (f_de / s.n_de), steps[span])
        else:
            totals, seed = (s.n_nu * positions, s.n_de * positions), (p.seed, number)
            scores[span] = selection.scores(p.criterion, f_nu, f_de, *totals, seed=seed)
    for layer in LAYERS:
        for longer, shorter in pairwise(reversed(spans.suffixes(layer))):
            parent = steps[longer].parent
            assert parent is not None
            reached = parent != ABSENT
            np.maximum.at(scores[shorter], parent[reached], scores[longer][reached])
    return scores


def _gains(f_nu: Ints, expected: Floats, step: Step) -> Floats:
    """Return how much likelier rows make the contexts that have them, in nats.

    f_nu is taken as Poisson with the mean r * expected; the gain is the log likelihood of r over that of r0.
    """
    gains = f_nu * step.correction - expected * from_log(step.log_r0) * np.expm1(step.correction)
    return gains if step.parent is None else np.where(step.parent != ABSENT, gains, -np.inf)

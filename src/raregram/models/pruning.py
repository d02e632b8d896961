"""Which spans a back-off model holds: all that say something, the best of each length, or as many as fit.

A suffix is reached over the shorter ones, so a shorter suffix is worth at least what the longer ones behind it are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from raregram.counts.storage import Span, SpanRows
from raregram.counts.table import Counts, add_up
from raregram.errors import ParameterError
from raregram.models import selection
from raregram.models.backoff import Backoff, Step, gains
from raregram.models.model import Model, Settings
from raregram.models.ratios import Floats

LEAST_GAIN = 0.02  # nats: what says less is left out, unless a size is asked for

Parts = dict[Span, SpanRows]


def fit_backoff(counts: Counts, settings: Settings) -> Model:
    """Fit the back-off estimator to the frequencies of a count table."""
    parts = _evidence(counts, settings)
    if settings.size is None and settings.max_bytes is None and settings.criterion != "gain":
        return Model.build(settings, counts.items, list(parts.values()))
    _, steps = Backoff.build(settings.layout, counts.items, parts)
    scores = _scores(parts, steps, settings)
    if settings.size is not None:
        keep = {
            span: selection.top(scores[span], parts[span].values[:, :2].sum(axis=1), settings.size) for span in parts
        }
    elif settings.criterion == "gain":
        keep = {span: np.flatnonzero(scores[span] >= LEAST_GAIN) for span in parts}
    else:
        keep = {span: np.arange(len(part)) for span, part in parts.items()}
    parts = {span: _some(part, keep[span]) for span, part in parts.items()}
    scores = {span: scores[span][keep[span]] for span in parts}
    if settings.max_bytes is not None:
        return _as_many_as_fit(counts, settings, parts, scores)
    return Model.build(settings, counts.items, list(parts.values()))


def _evidence(counts: Counts, settings: Settings) -> Parts:
    """Return the rows of all spans with f_nu, f_de and 1; suffixes seen once, and not at the target, say nothing."""
    layout = settings.layout
    parts: Parts = {}
    for span in layout.spans:
        if span == layout.anywhere:
            continue
        f_nu, f_de = counts.frequencies(span, settings.target, settings.denominator)
        keys, values = counts.rows[span].keys, np.column_stack([f_nu, f_de, np.ones_like(f_nu)])
        if span[1] - span[0] > 1:
            said = (f_nu > 0) | (f_de > 1)
            keys, values = keys[said], values[said]
        parts[span] = SpanRows(span, keys, values)
    if layout.longest_shapes:
        units = [parts[layout.unit(distance)] for distance in range(layout.n)]
        keys, values = np.concatenate([part.keys for part in units]), np.concatenate([part.values for part in units])
        anywhere = add_up(layout.anywhere, keys, values)
        anywhere.values[:, 2] = 1
        parts[layout.anywhere] = anywhere
    return parts


def _scores(parts: Parts, steps: Mapping[Span, Step], settings: Settings) -> dict[Span, Floats]:
    """Score all rows; a suffix has at least the score of what is behind it."""
    layout = settings.layout
    scores = {
        span: _score(part, steps.get(span), settings, place) for place, (span, part) in enumerate(parts.items())
    }
    for first in (0, layout.n):
        spans = [span for span in layout.suffixes(first) if span in steps]
        for longer, shorter in zip(spans[:0:-1], spans[-2::-1], strict=True):
            parent = steps[longer].parent
            reached = parent >= 0
            np.maximum.at(scores[shorter], parent[reached], scores[longer][reached])
    return scores


def _score(part: SpanRows, step: Step | None, settings: Settings, place: int) -> Floats:
    f_nu, f_de = part.values[:, 0], part.values[:, 1]
    layout = settings.layout
    assert settings.criterion is not None
    if settings.criterion != "gain":
        positions = layout.n if part.span == layout.anywhere else 1
        seed = (settings.seed or 0, place)
        sizes = settings.n_nu * positions, settings.n_de * positions
        return selection.scores(settings.criterion, f_nu, f_de, *sizes, seed=seed).astype(np.float64)
    if step is None:
        return np.zeros(len(part))
    return np.where(step.parent >= 0, gains(step, f_nu, f_de, layout), -np.inf)


def _as_many_as_fit(counts: Counts, settings: Settings, parts: Parts, scores: Mapping[Span, Floats]) -> Model:
    """Return the model of the best rows of all spans together that keeps to `max_bytes`."""
    assert settings.max_bytes is not None
    joined = np.concatenate(list(scores.values()))
    frequency = np.concatenate([part.values[:, :2].sum(axis=1) for part in parts.values()])
    rank = np.empty(len(joined), dtype=np.int64)
    rank[np.lexsort((-frequency, -joined))] = np.arange(len(joined))
    bounds = np.cumsum([len(part) for part in parts.values()])[:-1]
    ranks = dict(zip(parts, np.split(rank, bounds), strict=True))
    # Sizes in steps of a hundredth, so that more room never gives a smaller model.
    sizes = np.unique(np.minimum(np.ceil(1.01 ** np.arange(np.log(len(joined) + 1) / np.log(1.01) + 2)), len(joined)))
    fitting, too_many = -1, len(sizes)
    best: Model | None = None
    guess = int(np.searchsorted(sizes, settings.max_bytes // 20))  # a row takes some twenty bytes
    while too_many - fitting > 1:
        place = min(max(guess, fitting + 1), too_many - 1) if guess >= 0 else (fitting + too_many) // 2
        some = {span: _some(part, np.flatnonzero(ranks[span] < sizes[place])) for span, part in parts.items()}
        model = Model.build(settings, counts.items, list(some.values()))
        if model.nbytes <= settings.max_bytes:
            best, fitting = model, place
        else:
            too_many = place
        guess = -1
    if best is None:
        raise ParameterError(f"no back-off model fits into {settings.max_bytes} bytes; allow more")
    return best


def _some(part: SpanRows, rows: npt.NDArray[np.int64]) -> SpanRows:
    return SpanRows(part.span, part.keys[rows], part.values[rows])

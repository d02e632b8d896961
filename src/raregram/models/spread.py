"""How sure a calibrated ratio is, and where it needs no calibration; learned from short contexts that recur.

A long context hardly ever occurs twice, so nothing shows how far its ratio is from the truth. The same model scores
shorter contexts, the few items next to the boundary, and these recur in documents that were not in the fit. From them
come two numbers:

- `evidence`: the map of `raregram.models.calibration` is for contexts that are put together from what was seen. One
  that was itself seen often has a ratio that is right as it is. With e sightings expected of it in the numerator, the
  map counts for evidence / (evidence + e) of the log ratio, and the estimate itself for the rest.
- `spread`: the factor of the estimator's variances, with which held-out frequencies vary as much as they should.
  Items of one document are alike, so real frequencies vary more than the estimator believes.

They maximise the likelihood of the held-out frequencies, which are beta-binomial: the ratio varies as its interval
says, and the frequency varies around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from raregram.counts.rows import add_up_suffixes
from raregram.counts.table import Counts
from raregram.models.calibration import Calibration
from raregram.models.intervals import standard_deviation
from raregram.models.model import NO_KEY, Model
from raregram.models.ratios import Floats

LONGEST = 5  # items of a short context
LEAST_SEEN = 5  # sightings of a short context from which something is learned
MOST_CONTEXTS = 5_000  # of a fold; of more, some that are spread over all
# What is believed before anything was seen: logarithms of `evidence` and `spread`, and how far off they may be.
PRIOR = np.log([16.0, 4.0])
PRIOR_DEVIATION = np.array([1.5, 1.0])
BOUNDS = np.log([[0.25, 1 / 16], [4096.0, 64.0]])
STEPS = (1.0, 0.5, 0.25, 0.125)  # of the search, in logarithms


@dataclass(frozen=True)
class ShortContexts:
    """Short contexts in documents that were not in the fit of the model that scored them."""

    log_ratio: Floats  # before calibration
    variance: Floats
    evidence: Floats  # how many sightings in the numerator the model expects of what it has seen
    f_nu: npt.NDArray[np.int64]  # held-out frequencies, at the target
    f_all: npt.NDArray[np.int64]  # and in all
    log_odds: Floats  # of the target, before anything is known


def short_contexts(model: Model, held_out: Counts) -> ShortContexts:
    """Score the contexts of a few items next to the boundary that recur in held-out documents.

    Args:
        model: without a calibration.
        held_out: the count table of the documents, with whole N-grams.
    """
    s, estimator, found = model.settings, model.estimator, []
    lengths = range(1, min(LONGEST, s.n) + 1)
    for rows in add_up_suffixes(held_out.rows.stream([held_out.whole]), lengths, s.n, s.side):
        part = rows.at_least(LEAST_SEEN)
        keys = np.full((len(part), s.n), NO_KEY, dtype=np.int32)
        keys[:, part.span.start : part.span.stop] = part.keys
        found.append((keys, held_out.frequencies(part, s.target)[0], part.values[:, 0]))
    none = np.empty((0, s.n), dtype=np.int32), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    keys, f_nu, f_all = (np.concatenate(column) for column in zip(none, *found, strict=True))
    some = slice(None, None, -(-len(keys) // MOST_CONTEXTS) or 1)
    codes = model.encode_rows(held_out.items, keys[some])
    evidence = estimator.evidence(codes)
    return ShortContexts(
        estimator.score(codes),
        estimator.variance(codes),
        np.zeros(len(codes)) if evidence is None else evidence,
        f_nu[some],
        f_all[some],
        np.full(len(codes), math.log(s.n_nu / s.n_de)),
    )


def join(parts: Sequence[ShortContexts]) -> ShortContexts:
    """Put contexts of several folds together."""
    columns = ([getattr(part, field.name) for part in parts] for field in fields(ShortContexts))
    return ShortContexts(*map(np.concatenate, columns))


def learn_spread(calibration: Calibration, contexts: ShortContexts) -> Calibration:
    """Return a calibration that knows where it is not needed, and how sure its ratios are."""

    def loss(theta: Floats) -> float:
        tried = _with_numbers(calibration, theta)
        return 0.5 * float((((theta - PRIOR) / PRIOR_DEVIATION) ** 2).sum()) - log_likelihood(tried, contexts)

    theta, best = PRIOR, loss(PRIOR)
    for step in STEPS:
        better = True
        while better:
            found = [(loss(tried), tuple(tried)) for tried in _neighbours(theta, step)]
            better = min(found)[0] < best
            if better:
                best, theta = min(found)[0], np.array(min(found)[1])
    return _with_numbers(calibration, theta)


def _with_numbers(calibration: Calibration, theta: Floats) -> Calibration:
    evidence, spread = np.exp(theta).tolist()
    return replace(calibration, evidence=evidence, spread=spread)


def _neighbours(theta: Floats, step: float) -> Iterator[Floats]:
    for move in product((-step, 0.0, step), repeat=2):
        if any(move):
            yield np.clip(theta + move, *BOUNDS)


def log_likelihood(calibration: Calibration, contexts: ShortContexts) -> float:
    """Return the log likelihood of held-out frequencies."""
    from scipy.special import gammaln

    c = contexts
    deviation = standard_deviation(calibration.spread * c.variance)
    middle, low, high = (calibration.apply(c.log_ratio + sign * deviation, c.evidence) for sign in (0, -1, 1))
    p = np.clip(1 / (1 + np.exp(-(middle + c.log_odds))), 1e-12, 1 - 1e-12)
    # A beta distribution whose odds vary as much as the ratio does.
    strength = 1 / (np.expm1(np.clip((high - low) / 2, 0.01, 5.0) ** 2) * np.minimum(p, 1 - p))
    a, b, f_de = strength * p, strength * (1 - p), c.f_all - c.f_nu
    chosen = gammaln(c.f_nu + a) - gammaln(a) + gammaln(f_de + b) - gammaln(b)
    return float((chosen - gammaln(c.f_all + strength) + gammaln(strength)).sum())

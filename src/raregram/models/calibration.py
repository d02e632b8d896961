"""Ratios that mean what they say: a map from a model's log ratios to calibrated ones, learned from held-out contexts.

The calibrated ratio is

    (floor + s) / (1 + s / ceiling),    s = factor * (1 + r)**power_above / (1 + 1/r)**power_below

It grows with r and lies between the floor and the ceiling. For ratios far above 1, s is about
factor * r**power_above, and far below 1 factor * r**power_below. The powers take back that items which tell the
same thing were counted as independent. They do so more against the target than for it: few items speak for it, and
nearly all others a little against it. The floor is there since an unlikely place for the target is a possible one.

The five numbers minimise Cllr over the held-out contexts and two more, the most misleading ones there could be: a
context of the target with the lowest ratio, and another with the highest. So no ratio is stronger than the number of
contexts can support. A normal prior pulls the numbers towards a map that changes nothing but the bounds, so few
contexts change little, and where no held-out context is near the ratio 1, it stays about 1.

Two kinds of contexts need no map, so among these the order may change: one of which nothing was seen, whose ratio is
1, and one that was itself seen often, whose ratio is right as it is. With e sightings expected of it in the
numerator, the map counts for half_count / (half_count + e) of the log ratio, and the estimate itself for the rest.

A long context hardly ever occurs twice, so nothing shows how far its ratio is from the truth. But the same model
scores short contexts, the few items next to the boundary, and these recur in documents that were not in the fit. From
them come `half_count` and `variance_factor`, by which the estimator's variances are multiplied: items of one document
are alike, so real frequencies vary more than the estimator believes. Both maximise the likelihood of the held-out
frequencies, which are beta-binomial: the ratio varies as its interval says, and the frequency varies around it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from raregram.counts.rows import add_up_suffixes
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, RaregramWarning
from raregram.models.base import NO_KEY
from raregram.models.intervals import standard_deviation
from raregram.models.ratios import LARGEST_LOG, Floats, log_on_grid

if TYPE_CHECKING:
    from raregram.models.model import Model

CALIBRATION = "calibration"  # in the header of a model file that has one
STEP = 2.0**-6  # to which log ratios are rounded while the map is learned
FEW_TARGETS = 20  # held-out contexts of the target, below which a calibration is mostly its prior
# The map is searched in the log of the floor, the log of s at the ratio 1, both powers, and the log of 1 / ceiling.
START = [math.log(0.02), 0.0, 0.8, 0.5]
# How far each may be off its prior. Chosen by Cllr on Reuters and Brown (30 to 1,000 documents); half or twice as
# much makes no difference there.
PRIOR_DEVIATION = np.array([3.0, 0.5, 1.0, 1.0, 5.0])
# 1 is between the floor and the ceiling, and no step is so steep that contexts which are told apart without a fault
# would all come to have the same ratio.
BOUNDS = [(-40.0, 0.0), (-7.0, 7.0), (0.0, 2.0), (0.0, 2.0), (-40.0, 0.0)]
# Of few numbers, SLSQP is as good as L-BFGS-B, whose many small products wake up all threads of BLAS.
SEARCH, PRECISION = "SLSQP", {"ftol": 1e-15, "maxiter": 500}
LONGEST_SHORT = 5  # items of a short context
LEAST_SEEN = 5  # sightings of a short context from which something is learned
MOST_SHORT = 5_000  # short contexts of a fold; of more, some that are evenly chosen
# Logarithms of `half_count` and `variance_factor`: what is believed before anything was seen, and how firmly.
SHORT_PRIOR, SHORT_DEVIATION = np.log([16.0, 4.0]), np.array([1.5, 1.0])
# Sightings in documents never vary less than independent ones, so the factor is 1 or more.
SHORT_BOUNDS = [(math.log(0.25), math.log(4096)), (0.0, math.log(64))]


@dataclass(frozen=True)
class Calibration:
    """A monotone map of log ratios, and the factor of their variances."""

    floor: float  # the lowest ratio
    factor: float
    power_above: float  # of ratios far above 1,
    power_below: float  # and far below
    ceiling: float | None  # the highest ratio; None: there is none
    targets: int  # held-out contexts from which it was learned, at the target
    others: int  # and elsewhere
    half_count: float | None = None  # expected sightings for which a context's own ratio counts for half; None: never
    variance_factor: float = 1.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for numbers that no contexts give, in a file that someone made by hand."""
        least = {field.name: 0.0 for field in fields(self)} | {"targets": 1, "others": 1, "ceiling": self.floor}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is None and name in ("ceiling", "half_count"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not bound <= value < math.inf:
                raise ValueError(f"the {name} of a calibration is {value}")

    def apply(self, log_ratio: npt.ArrayLike, expected_count: npt.ArrayLike | None = None) -> Floats:
        """Return calibrated log ratios, rounded as log ratios are; NaN ("no evidence") stays.

        `expected_count` is how often each context is expected in the numerator by what was seen of it as a whole.
        """
        x = np.clip(np.asarray(log_ratio, dtype=np.float64), -LARGEST_LOG, LARGEST_LOG)
        above = np.log1p(np.exp(x))
        log_s = np.minimum(self.power_above * above + self.power_below * (x - above), LARGEST_LOG)
        s = self.factor * np.exp(log_s)
        ratio = (self.floor + s) / (1 + (0.0 if self.ceiling is None else s / self.ceiling))
        if self.half_count is None or expected_count is None:
            return log_on_grid(ratio)
        own = np.asarray(expected_count) / (self.half_count + np.asarray(expected_count))
        if self.ceiling is not None:  # what so many contexts can support
            x = np.clip(x, -math.log(self.targets + 1), math.log(self.others + 1))
        return log_on_grid(np.where(own > 0, np.exp((1 - own) * np.log(ratio) + own * x), ratio))


class ShortContexts(NamedTuple):
    """Short contexts that recur in documents which were not in the fit of the model that scored them."""

    log_ratio: Floats  # before calibration
    variance: Floats
    expected_count: Floats  # sightings in the numerator that the model expects by what it has seen
    f_nu: Ints  # held-out frequencies, at the target
    f_all: Ints  # and in all
    log_odds: Floats  # of the target, before anything is known


class HeldOut(NamedTuple):
    """Contexts that were not in the fit of the model that scored them."""

    log_ratio: Floats  # before calibration
    f_nu: Ints  # frequencies at the target
    f_de: Ints  # and elsewhere
    short: ShortContexts | None = None


def held_out(model: Model, counts: Counts, short: bool = True) -> HeldOut:
    """Score the whole N-grams of a count table that was not in the fit of a model; the model has no calibration."""
    s, rows = model.settings, counts.rows[counts.whole]
    log_ratio = model.log_ratio(model.encode_rows(counts.items, rows.keys))
    f_nu, f_de = counts.frequencies(rows, s.target, s.denominator)
    return HeldOut(log_ratio, f_nu, f_de, short_contexts(model, counts) if short else None)


def learn(folds: Iterable[HeldOut], bounded: bool = True) -> Calibration:
    """Learn the map, and from short contexts, where there are any, how sure its ratios are.

    Args:
        folds: the held-out contexts of each fold.
        bounded: whether ratios are to be no stronger than the number of contexts can support.
    """
    parts = list(folds)
    log_ratio, f_nu, f_de = (np.concatenate([part[column] for part in parts]) for column in range(3))
    calibration = learn_map(log_ratio, f_nu, f_de, bounded)
    short = [part.short for part in parts if part.short is not None]
    if not short:
        return calibration
    return learn_variance(calibration, ShortContexts(*map(np.concatenate, zip(*short, strict=True))))


def learn_map(log_ratio: Floats, f_nu: npt.ArrayLike, f_de: npt.ArrayLike, bounded: bool = True) -> Calibration:
    """Learn the map from held-out contexts; see `HeldOut` and `learn`.

    >>> scores = np.repeat([-4.0, -2.0, 0.0, 2.0, 4.0], 100)
    >>> odds = np.exp(scores / 2)  # the ratios themselves are too strong
    >>> learn_map(scores, 1000 * odds / (1 + odds), 1000 / (1 + odds)).apply([-2, 2]).round(1)
    array([-1.,  1.])
    """
    from scipy.optimize import minimize

    nu, de = np.asarray(f_nu, dtype=np.float64), np.asarray(f_de, dtype=np.float64)
    targets, others = float(nu.sum()), float(de.sum())
    if not targets or not others:
        missing = "at the target" if not targets else "elsewhere"
        raise InputError(f"no held-out context is {missing}: a model cannot be calibrated with these")
    rounded, group = np.unique(np.rint(np.nan_to_num(log_ratio) / STEP), return_inverse=True)
    x = np.clip(rounded * STEP, -LARGEST_LOG, LARGEST_LOG)
    # After the contexts come the two misleading ones: at the floor and at the ceiling.
    w_nu = np.append(np.bincount(group, nu), [bounded, 0]) / (targets + bounded)
    w_de = np.append(np.bincount(group, de), [0, bounded]) / (others + bounded)
    log_bound = -math.log(others + 1) if bounded else -LARGEST_LOG
    prior = np.array([-math.log(targets + 1), 0.0, 1.0, 1.0, log_bound]), 1 / (targets + 1)
    bounds = BOUNDS if bounded else [*BOUNDS[:-1], (log_bound, log_bound)]
    found = minimize(
        _cllr, [*START, log_bound], (x, w_nu, w_de, *prior), SEARCH, jac=True, bounds=bounds, options=PRECISION
    )
    log_floor, log_at_one, above, below, log_bound = found.x.tolist()
    return Calibration(
        floor=_ten_digits(math.exp(log_floor)),
        factor=_ten_digits(math.exp(log_at_one) * 2 ** (below - above)),
        power_above=_ten_digits(above),
        power_below=_ten_digits(below),
        ceiling=_ten_digits(math.exp(-log_bound)) if bounded else None,
        targets=round(targets),
        others=round(others),
    )


def _cllr(
    theta: Floats, x: Floats, w_nu: Floats, w_de: Floats, prior: Floats, prior_weight: float
) -> tuple[float, Floats]:
    """Return Cllr, in nats, plus minus the log density of the prior, and the gradient of both."""
    log_floor, log_at_one, power_above, power_below, log_bound = theta
    up = np.logaddexp(0, x) - math.log(2)
    down = x - up
    log_s = np.clip(log_at_one + power_above * up + power_below * down, -LARGEST_LOG, LARGEST_LOG)
    log_sum, log_bent = np.logaddexp(log_floor, log_s), np.logaddexp(0, log_bound + log_s)
    y = np.append(log_sum - log_bent, [log_floor, -log_bound])
    of_floor, of_ceiling = np.exp(log_floor - log_sum), np.exp(log_bound + log_s - log_bent)
    of_s = 1 - of_floor - of_ceiling
    slopes = np.stack([of_floor, of_s, of_s * up, of_s * down, -of_ceiling])
    slopes = np.hstack([slopes, [[1, 0], [0, 0], [0, 0], [0, 0], [0, -1]]])  # (5, contexts + 2)
    cost_nu, cost_de = np.logaddexp(0, -y), np.logaddexp(0, y)
    residual = w_de * np.exp(-cost_nu) - w_nu * np.exp(-cost_de)
    off = (theta - prior) / PRIOR_DEVIATION
    loss = w_nu @ cost_nu + w_de @ cost_de + prior_weight * (off @ off) / 2
    return float(loss), slopes @ residual + prior_weight * off / PRIOR_DEVIATION


def _ten_digits(value: float) -> float:
    """Round a learned number, so that machines which sum otherwise store the same."""
    return float(f"{value:.10g}")


def short_contexts(model: Model, held_out: Counts) -> ShortContexts:
    """Score the contexts of a few items next to the boundary that recur in held-out documents.

    Args:
        model: without a calibration.
        held_out: the count table of the documents, with whole N-grams.
    """
    s, estimator = model.settings, model.estimator
    found = [(np.empty((0, s.n), np.int32), np.empty(0, np.int64), np.empty(0, np.int64))]
    lengths = range(1, min(LONGEST_SHORT, s.n) + 1)
    for rows in add_up_suffixes(held_out.rows.stream([held_out.whole]), lengths, s.n, s.side):
        part = rows.at_least(LEAST_SEEN)
        keys = np.full((len(part), s.n), NO_KEY, np.int32)
        keys[:, part.span.start : part.span.stop] = part.keys
        found.append((keys, held_out.frequencies(part, s.target)[0], part.values[:, 0]))
    keys, f_nu, f_all = (np.concatenate(column) for column in zip(*found, strict=True))
    chosen = slice(None, None, max(math.ceil(len(keys) / MOST_SHORT), 1))
    codes = model.encode_rows(held_out.items, keys[chosen])
    expected = estimator.expected_count(codes)
    return ShortContexts(
        estimator.score(codes),
        estimator.variance(codes),
        np.zeros(len(codes)) if expected is None else expected,
        f_nu[chosen],
        f_all[chosen],
        np.full(len(codes), math.log(s.n_nu / s.n_de)),
    )


def learn_variance(calibration: Calibration, contexts: ShortContexts) -> Calibration:
    """Return a calibration that knows where it is not needed, and how sure its ratios are."""
    from scipy.optimize import minimize

    def loss(theta: Floats) -> float:
        off = (theta - SHORT_PRIOR) / SHORT_DEVIATION
        half_count, variance_factor = np.exp(theta).tolist()
        tried = replace(calibration, half_count=half_count, variance_factor=variance_factor)
        return float(off @ off) / 2 - log_likelihood(tried, contexts)

    found = minimize(loss, SHORT_PRIOR, method=SEARCH, jac="3-point", bounds=SHORT_BOUNDS, options=PRECISION)
    half_count, variance_factor = map(_ten_digits, np.exp(found.x).tolist())
    return replace(calibration, half_count=half_count, variance_factor=variance_factor)


def log_likelihood(calibration: Calibration, contexts: ShortContexts) -> float:
    """Return the log likelihood of held-out frequencies."""
    from scipy.special import betaln

    c = contexts
    deviation = standard_deviation(calibration.variance_factor * c.variance)
    middle, low, high = (calibration.apply(c.log_ratio + sign * deviation, c.expected_count) for sign in (0, -1, 1))
    p = np.clip(1 / (1 + np.exp(-(middle + c.log_odds))), 1e-12, 1 - 1e-12)
    # A beta distribution whose odds vary as much as the ratio does.
    strength = 1 / (np.expm1(np.clip((high - low) / 2, 0.01, 5.0) ** 2) * np.minimum(p, 1 - p))
    a, b = strength * p, strength * (1 - p)
    return float((betaln(c.f_nu + a, c.f_all - c.f_nu + b) - betaln(a, b)).sum())


def warn_if_few(calibration: Calibration, stacklevel: int = 3) -> None:
    """Warn if a calibration was learned from so few contexts of the target that it is mostly its prior."""
    if calibration.targets < FEW_TARGETS:
        number = f"{calibration.targets} held-out context{'s'[: calibration.targets > 1]} of the target"
        warnings.warn(
            f"the model was calibrated with only {number}, which support no strong ratios: all are drawn towards 1. "
            f"{FEW_TARGETS} or more are needed, some hundreds are better",
            RaregramWarning,
            stacklevel,
        )

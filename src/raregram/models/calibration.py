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

Two kinds of contexts need no map, so among these the order may change: one that was itself seen often (see
`raregram.models.spread`), and one of which nothing was seen, whose ratio is 1.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from raregram.errors import InputError, RaregramWarning
from raregram.models.ratios import LARGEST_LOG, Floats, log_on_grid

Found = tuple[float, Floats, Floats]  # a loss, its gradient and its curvature

CALIBRATION = "calibration"  # in the header of a model file that has one
STEP = 2.0**-6  # to which log ratios are rounded while the map is learned
MOST_STEPS = 500  # of the search
PRECISION = 1e-10  # of Cllr in nats, where the search ends
FEW_TARGETS = 20  # held-out contexts of the target, below which a calibration is mostly its prior
START = (math.log(0.02), 0.0, math.log(0.8), math.log(0.5))  # logarithms of the numbers but the ceiling
# How far the powers, and the logarithms of the floor, of s at the ratio 1 and of the ceiling, may be off their prior.
# Chosen by Cllr on Reuters and Brown (30 to 1,000 documents); half or twice as much makes no difference there.
PRIOR_DEVIATION = np.array([3.0, 0.5, 1.0, 1.0, 5.0])
# What the logarithms may be: 1 is between the floor and the ceiling; and no step is so steep that contexts which are
# told apart without a fault would all come to have the same ratio.
LEAST_LOG = np.array([-40.0, -7.0, -40.0, -40.0, -40.0])
MOST_LOG = np.array([0.0, 7.0, math.log(2), math.log(2), 0.0])


@dataclass(frozen=True)
class Calibration:
    """A monotone map of log ratios."""

    floor: float  # the lowest ratio
    factor: float
    power_above: float  # of ratios far above 1,
    power_below: float  # and far below
    ceiling: float | None  # the highest ratio; None: there is none
    targets: int  # held-out contexts from which it was learned, at the target
    others: int  # and elsewhere
    evidence: float | None = (
        None  # sightings of a context with which its own ratio counts for half; None: for nothing
    )
    spread: float = 1.0  # factor of the estimator's variances

    def __post_init__(self) -> None:
        """Raise `ValueError` for numbers that no contexts give, in a file that someone made by hand."""
        least = {"floor": 0.0, "factor": 0.0, "power_above": 0.0, "power_below": 0.0, "targets": 1, "others": 1}
        least |= {"spread": 0.0}
        if self.ceiling is not None:
            least["ceiling"] = self.floor
        if self.evidence is not None:
            least["evidence"] = 0.0
        for name, bound in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not bound <= value < math.inf:
                raise ValueError(f"the {name} of a calibration is {value}")

    def apply(self, log_ratio: npt.ArrayLike, evidence: npt.ArrayLike | None = None) -> Floats:
        """Return calibrated log ratios, rounded as log ratios are; NaN ("no evidence") stays.

        `evidence` is how often each context is expected in the numerator by what was seen of it as a whole.
        """
        x = np.clip(np.asarray(log_ratio, dtype=np.float64), -LARGEST_LOG, LARGEST_LOG)
        above = np.log1p(np.exp(x))
        powered = self.factor * np.exp(
            np.minimum(self.power_above * above + self.power_below * (x - above), LARGEST_LOG)
        )
        bound = 0.0 if self.ceiling is None else 1 / self.ceiling
        ratio = (self.floor + powered) / (1 + bound * powered)
        if self.evidence is None or evidence is None:
            return log_on_grid(ratio)
        own = np.asarray(evidence) / (self.evidence + np.asarray(evidence))
        if self.ceiling is not None:  # what so many contexts can support
            x = np.clip(x, -math.log(self.targets + 1), math.log(self.others + 1))
        return log_on_grid(np.where(own > 0, np.exp((1 - own) * np.log(ratio) + own * x), ratio))


def learn(log_ratio: Floats, f_nu: npt.ArrayLike, f_de: npt.ArrayLike, bounded: bool = True) -> Calibration:
    """Learn the map from contexts that were not in the fit.

    Args:
        log_ratio: of each context.
        f_nu: how often it stands at the target,
        f_de: and how often elsewhere.
        bounded: whether ratios are to be no stronger than so many contexts can support.

    >>> scores = np.repeat([-4.0, -2.0, 0.0, 2.0, 4.0], 100)
    >>> odds = np.exp(scores / 2)  # the ratios themselves are too strong
    >>> learn(scores, 1000 * odds / (1 + odds), 1000 / (1 + odds)).apply([-2, 2]).round(1)
    array([-1.,  1.])
    """
    nu, de = np.asarray(f_nu, dtype=np.float64), np.asarray(f_de, dtype=np.float64)
    targets, others = float(nu.sum()), float(de.sum())
    if not targets or not others:
        missing = "at the target" if not targets else "elsewhere"
        raise InputError(f"no held-out context is {missing}: a model cannot be calibrated with these")
    rounded, group = np.unique(np.rint(np.nan_to_num(log_ratio) / STEP), return_inverse=True)
    x = np.clip(rounded * STEP, -LARGEST_LOG, LARGEST_LOG)
    weights = np.bincount(group, nu) / (targets + bounded), np.bincount(group, de) / (others + bounded)
    misleading = (1 / (targets + 1), 1 / (others + 1)) if bounded else (0.0, 0.0)
    prior = Prior(np.array([-math.log(targets + 1), 0, 1, 1, -math.log(others + 1)]), 1 / (targets + 1))
    theta = _search(np.array([*START, -math.log(others + 1)]), x, weights, misleading, prior)
    floor, at_one, above, below, bound = np.exp(theta).tolist()
    factor = at_one * 2 ** (below - above)
    ceiling = 1 / bound if bounded else None
    return Calibration(floor, factor, above, below, ceiling, round(targets), round(others))


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


@dataclass(frozen=True)
class Prior:
    """A normal distribution of the powers, and of the logarithms of the other numbers; it has some weight."""

    mean: Floats
    weight: float

    def add_to(self, theta: Floats, loss: float, gradient: Floats, curvature: Floats) -> Found:
        """Add minus the log density at some logarithms, its gradient and its curvature."""
        powers = np.exp(theta[2:4])
        off = np.concatenate([theta[:2], powers, theta[4:]]) - self.mean
        slope = np.array([1, 1, *powers, 1]) / PRIOR_DEVIATION
        off = off / PRIOR_DEVIATION
        return (
            loss + self.weight * float(off @ off) / 2,
            gradient + self.weight * off * slope,
            curvature + self.weight * np.diag(slope**2),
        )


def _search(
    theta: Floats, x: Floats, weights: tuple[Floats, Floats], misleading: tuple[float, float], prior: Prior
) -> Floats:
    """Minimise Cllr, in nats, by the method of Levenberg and Marquardt; the numbers come as their logarithms."""
    free = slice(0, 5 if misleading[1] else 4)
    loss, gradient, curvature = prior.add_to(theta, *_cllr(theta, x, weights, misleading))
    damping = 1e-3
    for _ in range(MOST_STEPS):
        some = curvature[free, free]
        scale = np.diag(np.maximum(np.diag(some), 1e-12))
        step = np.clip(np.linalg.solve(some + damping * scale, -gradient[free]), -1, 1)  # one factor of e at a time
        tried = theta.copy()
        tried[free] = np.clip(theta[free] + step, LEAST_LOG[free], MOST_LOG[free])
        better = prior.add_to(tried, *_cllr(tried, x, weights, misleading))
        if better[0] < loss:
            gained = loss - better[0]
            theta, (loss, gradient, curvature), damping = tried, better, max(damping / 10, 1e-9)
            if gained < PRECISION:
                break
        elif damping > 1e12:
            break
        else:
            damping *= 10
    return theta


def _cllr(theta: Floats, x: Floats, weights: tuple[Floats, Floats], misleading: tuple[float, float]) -> Found:
    """Return the loss at some numbers, its gradient and its curvature (Gauss and Newton's).

    The second number is the logarithm of s at the ratio 1, which differs from the factor by powers of 2.
    """
    log_floor, log_at_one, _, _, log_bound = theta
    bounded, positive = bool(misleading[1]), np.logaddexp(0, x) - math.log(2)
    up, down = math.exp(theta[2]) * positive, math.exp(theta[3]) * (x - positive)
    above = np.clip(up + down + log_at_one, -LARGEST_LOG, LARGEST_LOG)
    y = np.logaddexp(log_floor, above)
    of_floor = np.exp(log_floor - y)
    capped = np.exp(log_bound + above - np.logaddexp(0, log_bound + above)) if bounded else np.zeros_like(x)
    y = y - np.logaddexp(0, log_bound + above) if bounded else y
    inner = 1 - of_floor - capped
    slopes = np.stack([of_floor, inner, inner * up, inner * down, -capped])
    # Behind the contexts, the two misleading ones: at the floor and at the ceiling.
    y, slopes = np.append(y, [log_floor, -log_bound]), np.hstack([slopes, [[1, 0], [0, 0], [0, 0], [0, 0], [0, -1]]])
    nu, de = np.append(weights[0], [misleading[0], 0]), np.append(weights[1], [0, misleading[1]])
    p = np.exp(-np.logaddexp(0, -y))
    loss = nu @ np.logaddexp(0, -y) + de @ np.logaddexp(0, y)
    residual, weight = de * p - nu * (1 - p), (nu + de) * p * (1 - p)
    return float(loss), slopes @ residual, (slopes * weight) @ slopes.T

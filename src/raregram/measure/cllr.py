"""Whether ratios mean what they say, as forensic science measures it: Cllr, its least value, and what is drawn.

Everything is computed from the log ratios (natural logarithm) of types and from how often each type occurs at the
target (f_nu) and elsewhere (f_de) in the documents at hand. A type weighs what it occurs, and both classes weigh one
half. NaN ("no evidence") counts as the ratio 1.

Cllr is that of Brümmer and du Preez (Computer Speech and Language 20, 2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from raregram.counts.sorting import find_heads
from raregram.counts.table import Ints
from raregram.models.ratios import Floats

CURVE_POINTS = 200  # of a Tippett plot
CUTS = (*np.arange(1, 10) / 10, *np.arange(91, 100) / 100)  # tenths of all contexts, and of the last tenth
NORMAL = 1.959963984540054  # 95 % of a normal distribution lie between minus this and this
MOST_STEPS = 100  # of Newton's method; five to ten are usual
NEAR, CONVERGED = 1e-10, 1e-22  # twice what a step gains: from here on, each is right as it is; and then nothing more


@dataclass(frozen=True)
class CalibrationMeasures:
    """How well ratios tell targets from others, and how much of the cost is due to their scale.

    Without targets or without others nothing is measured, and all but the two numbers is None.
    """

    targets: int  # occurrences
    others: int
    cllr: float | None  # 0: perfect; 1: says nothing; infinite: a target with the ratio 0, or an other with infinity
    least: float | None  # of any monotone map of the ratios
    loss: float | None  # the difference
    slope: float | None  # of the logistic regression on the log ratio: 1 and 0 if the ratio is right; None if a
    offset: float | None  # ratio is 0 or infinite, or if no target is below an other or none above

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON; infinity is the string "inf"."""
        return {name: "inf" if value == math.inf else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Bin:
    """Contexts of about the same ratio: what was predicted, and what is real."""

    low: float  # log ratios
    high: float
    targets: int  # occurrences
    others: int
    predicted: float | None  # the mean ratio of the others, which equals the real one if the ratio is right
    real: float | None  # the share of the targets that is here over that of the others; None without others
    real_low: float | None  # its 95 % interval; None without targets or others
    real_high: float | None


@dataclass(frozen=True)
class Pooled:
    """Distinct log ratios in ascending order, and how often each occurs at the target and elsewhere."""

    log_ratios: Floats
    f_nu: Ints
    f_de: Ints

    @property
    def sizes(self) -> tuple[int, int]:
        """n_nu and n_de."""
        return int(self.f_nu.sum()), int(self.f_de.sum())


def pool(log_ratios: Floats, f_nu: Ints, f_de: Ints) -> Pooled:
    """Add up the occurrences of equal log ratios; what never occurs is left out.

    >>> pool(np.array([1.0, np.nan, 0.0, 5.0]), np.array([2, 0, 1, 0]), np.array([0, 3, 1, 0]))
    Pooled(log_ratios=array([0., 1.]), f_nu=array([1, 2]), f_de=array([4, 0]))
    """
    log_ratios = evidence(log_ratios)
    order = np.argsort(log_ratios, kind="stable")
    order = order[(f_nu + f_de)[order] > 0]
    ordered = log_ratios[order]
    starts = find_heads(ordered)
    if not len(starts):
        return Pooled(ordered, f_nu[order], f_de[order])
    return Pooled(ordered[starts], np.add.reduceat(f_nu[order], starts), np.add.reduceat(f_de[order], starts))


def evidence(log_ratios: Floats) -> Floats:
    """Return log ratios in which "no evidence" is the ratio 1, and zero has no sign."""
    return np.where(np.isnan(log_ratios), 0.0, log_ratios) + 0.0


def calibrations(
    log_ratios: Floats, f_nu: Ints, f_de: Ints, band: Ints | None = None, names: Sequence[str] = ()
) -> dict[str, CalibrationMeasures]:
    """Measure all types, as "all", and those of each band.

    A band has a ratio of its own: the share of the targets that is in it over that of the others. In a band, the
    ratio of a type is divided by it, and the classes are weighted within the band. So a right ratio has the slope 1
    and the offset 0 in every band, too.

    Args:
        log_ratios: of types.
        f_nu: how often each occurs at the target.
        f_de: and elsewhere.
        band: the number of each type's band; None: there are none.
        names: of the bands.
    """
    measured = {"all": measure(pool(log_ratios, f_nu, f_de))}
    for number, name in enumerate(names if band is not None else ()):
        here = band == number
        own = _log_share(f_nu[here].sum(), f_nu.sum(), f_de[here].sum(), f_de.sum())
        measured[name] = measure(pool(evidence(log_ratios[here]) - own, f_nu[here], f_de[here]))
    return measured


def _log_share(f_nu: int, n_nu: int, f_de: int, n_de: int) -> float:
    """Return the log ratio of two shares, or 0 if one is empty."""
    return math.log(f_nu / n_nu) - math.log(f_de / n_de) if f_nu and f_de else 0.0


def measure(pooled: Pooled) -> CalibrationMeasures:
    """Measure some occurrences."""
    targets, others = pooled.sizes
    if not targets or not others:
        return CalibrationMeasures(targets, others, None, None, None, None, None)
    cost, least = cllr(pooled.log_ratios, pooled.f_nu, pooled.f_de), least_cllr(pooled)
    return CalibrationMeasures(targets, others, cost, least, max(cost - least, 0.0), *regression(pooled))


def cllr(log_ratios: Floats, f_nu: Ints, f_de: Ints) -> float:
    """1/2 (mean over the targets of log2(1 + 1 / ratio) + mean over the others of log2(1 + ratio)).

    NaN if there are no targets or no others.

    >>> round(cllr(np.log([3.0, 1.0]), np.array([1, 1]), np.array([0, 2])), 6)  # 1/2 ((log2(4/3) + 1) / 2 + 1)
    0.853759
    """
    log_ratios, nu, de = evidence(log_ratios), f_nu > 0, f_de > 0
    if not (nu.any() and de.any()):
        return math.nan
    # What never occurs is left out, since its ratio may be 0, and 0 times infinity is NaN.
    targets = np.average(np.logaddexp(0.0, -log_ratios[nu]), weights=f_nu[nu])
    others = np.average(np.logaddexp(0.0, log_ratios[de]), weights=f_de[de])
    return float(targets / math.log(2) + others / math.log(2)) / 2


def least_cllr(pooled: Pooled) -> float:
    """Return the least Cllr of any monotone map of the ratios: that of pool adjacent violators."""
    corners = pav_corners(pooled)
    f_nu, f_de = _between(pooled.f_nu, corners), _between(pooled.f_de, corners)
    return cllr(_log_ratios_of(f_nu, f_de), f_nu, f_de)


def pav_corners(pooled: Pooled) -> Ints:
    """Return where the blocks of pool adjacent violators start, and where the last ends."""
    from scipy.optimize import isotonic_regression

    occurrences = pooled.f_nu + pooled.f_de
    corners = isotonic_regression(pooled.f_nu / occurrences, weights=occurrences).blocks
    f_nu, f_de = (_between(frequency, corners).astype(np.float64) for frequency in (pooled.f_nu, pooled.f_de))
    # Blocks of the same ratio that rounding has kept apart are one.
    rises = f_nu[:-1] * f_de[1:] < f_nu[1:] * f_de[:-1]
    return np.asarray(corners[np.concatenate([[True], rises, [True]])])


def _between(frequency: Ints, corners: Ints) -> Ints:
    """Return the sum of frequencies of each block."""
    return np.asarray(np.diff(np.concatenate([[0], np.cumsum(frequency)])[corners]))


def _log_ratios_of(f_nu: Ints, f_de: Ints) -> Floats:
    """Return the log of each block's share of the targets over its share of the others, of which one may be 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(f_nu / f_nu.sum()) - np.log(f_de / f_de.sum()))


def regression(pooled: Pooled) -> tuple[float, float] | tuple[None, None]:
    """Return slope and offset of the logistic regression of target against other on the log ratio.

    Both are None if a ratio is 0 or infinite, and if no line is best: all ratios are equal, or no target is below
    an other, or none above.
    """
    s = pooled.log_ratios
    target, other = s[pooled.f_nu > 0], s[pooled.f_de > 0]
    if not (np.isfinite(s).all() and len(target) and len(other) and target[0] < other[-1] and other[0] < target[-1]):
        return None, None
    w_nu, w_de = pooled.f_nu / pooled.f_nu.sum() / 2, pooled.f_de / pooled.f_de.sum() / 2
    with np.errstate(all="ignore"):  # of numbers near the ends of what doubles hold; then nothing is found
        middle = float(((w_nu + w_de) * s).sum())
        width = float(np.abs(s - middle).max())
        found = _newton((s - middle) / width, w_nu, w_de)
        slope, offset = (math.nan, math.nan) if found is None else (found[0] / width, found[1])
        offset -= slope * middle
    return (slope, offset) if math.isfinite(slope) and math.isfinite(offset) else (None, None)


def _newton(x: Floats, w_nu: Floats, w_de: Floats) -> tuple[float, float] | None:
    """Return the slope and offset with the least logarithmic loss, by Newton's method; None if it finds none."""
    weight = w_nu + w_de

    def cost(line: Floats) -> float:
        z = line[0] * x + line[1]
        return float((weight * np.logaddexp(0.0, z) - w_nu * z).sum())

    line, best = np.zeros(2), cost(np.zeros(2))
    for _ in range(MOST_STEPS):
        p = 0.5 + 0.5 * np.tanh(0.5 * (line[0] * x + line[1]))  # of a target
        excess, curvature = weight * p - w_nu, weight * p * (1 - p)
        g0, g1 = float((excess * x).sum()), float(excess.sum())
        h00, h01, h11 = (float((curvature * power).sum()) for power in (x * x, x, 1.0))
        determinant = h00 * h11 - h01 * h01
        if not determinant > 0:
            return None
        step = np.array([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0]) / determinant
        gain = step[0] * g0 + step[1] * g1
        while gain > NEAR and cost(line - step) > best:  # too far
            step, gain = step / 2, gain / 2
        line = line - step
        if gain < CONVERGED:
            return float(line[0]), float(line[1])
        best = cost(line)
    return None


# --- what is drawn -----------------------------------------------------------------------------------------------
def bins(pooled: Pooled, cuts: Sequence[float] = CUTS) -> list[Bin]:
    """Cut contexts into tenths by their ratio, and the last tenth, where most targets are, into tenths again.

    Equal ratios stay together. The intervals take occurrences as independent.
    """
    weight = pooled.f_nu + pooled.f_de
    middle = (np.cumsum(weight) - weight / 2) / max(int(weight.sum()), 1)
    number = np.searchsorted(cuts, middle, side="right")
    edges = [*find_heads(number).tolist(), len(number)]
    return [_bin(pooled, slice(start, end)) for start, end in pairwise(edges)]


def _bin(pooled: Pooled, rows: slice) -> Bin:
    s, f_nu, f_de = pooled.log_ratios[rows], pooled.f_nu[rows], pooled.f_de[rows]
    (targets, others), (n_nu, n_de) = Pooled(s, f_nu, f_de).sizes, pooled.sizes
    predicted = real = low = high = None
    if others:
        with np.errstate(over="ignore"):
            predicted = float((f_de[f_de > 0] * np.exp(s[f_de > 0])).sum() / others)
    if others and n_nu:
        real = targets / n_nu / (others / n_de)
    if real:
        wide = math.exp(NORMAL * math.sqrt(1 / targets - 1 / n_nu + 1 / others - 1 / n_de))
        low, high = real / wide, real * wide
    return Bin(float(s[0]), float(s[-1]), targets, others, predicted, real, low, high)


def tippett(pooled: Pooled, points: int = CURVE_POINTS) -> tuple[Floats, Floats, Floats]:
    """Return the points of a Tippett plot: log10 ratios, and the shares of targets and of others above each."""
    finite = pooled.log_ratios[np.isfinite(pooled.log_ratios)]
    x = np.linspace(finite[0], finite[-1], points) if len(finite) else np.zeros(1)
    below = np.searchsorted(pooled.log_ratios, x, side="right")
    targets, others = (
        1 - np.concatenate([[0], np.cumsum(frequency)])[below] / max(int(frequency.sum()), 1)
        for frequency in (pooled.f_nu, pooled.f_de)
    )
    return x / math.log(10), targets, others


def pav_curve(pooled: Pooled) -> tuple[Floats, Floats, Floats]:
    """Return the steps of a PAV plot: the least and the largest log10 ratio of each block, and its log10 ratio after.

    The first block has minus infinity after if it holds no target, the last infinity if it holds only targets.
    """
    if not all(pooled.sizes):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    corners = pav_corners(pooled)
    after = _log_ratios_of(_between(pooled.f_nu, corners), _between(pooled.f_de, corners))
    low, high = pooled.log_ratios[corners[:-1]], pooled.log_ratios[corners[1:] - 1]
    return low / math.log(10), high / math.log(10), after / math.log(10)

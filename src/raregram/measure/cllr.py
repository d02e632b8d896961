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
from typing import Any

import numpy as np

from raregram.counts.table import Ints
from raregram.models.ratios import Floats

CURVE_POINTS = 200  # of a Tippett plot
CUTS = (*np.arange(1, 10) / 10, *np.arange(91, 100) / 100)  # tenths of all contexts, and of the last tenth
NORMAL = 1.959963984540054  # 95 % of a normal distribution lie between minus this and this


@dataclass(frozen=True)
class CalibrationMeasures:
    """How well ratios tell targets from others, and how much of the cost is due to their scale.

    Without targets or without others nothing is measured, and all but the two numbers is None.
    """

    targets: int  # occurrences
    others: int
    cllr: float | None = None  # 0: perfect; 1: says nothing; infinite: a target with the ratio 0, or the reverse
    least: float | None = None  # of any monotone map of the ratios
    loss: float | None = None  # the difference
    slope: float | None = None  # of the logistic regression on the log ratio: 1 and 0 if the ratio is right; None if
    offset: float | None = None  # a ratio is 0 or infinite, or if no target is below an other or none above

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON; infinity is the string "inf"."""
        return {name: "inf" if value == math.inf else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Occurrences:
    """Distinct log ratios in ascending order, and how often each occurs at the target and elsewhere."""

    log_ratios: Floats
    f_nu: Ints
    f_de: Ints

    @property
    def sizes(self) -> tuple[int, int]:
        """n_nu and n_de."""
        return int(self.f_nu.sum()), int(self.f_de.sum())

    def sums(self, starts: Ints) -> tuple[Ints, Ints]:
        """Return f_nu and f_de of blocks of rows, of which the first rows are given."""
        return np.add.reduceat(self.f_nu, starts), np.add.reduceat(self.f_de, starts)


def aggregate_ties(log_ratios: Floats, f_nu: Ints, f_de: Ints) -> Occurrences:
    """Add up the occurrences of equal log ratios; what never occurs is left out.

    >>> aggregate_ties(np.array([1.0, np.nan, 0.0, 5.0]), np.array([2, 0, 1, 0]), np.array([0, 3, 1, 0]))
    Occurrences(log_ratios=array([0., 1.]), f_nu=array([1, 2]), f_de=array([4, 0]))
    """
    occurs = f_nu + f_de > 0
    distinct, index = np.unique(evidence(log_ratios[occurs]), return_inverse=True)
    f_nu, f_de = (np.bincount(index, column[occurs], len(distinct)).astype(np.int64) for column in (f_nu, f_de))
    return Occurrences(distinct, f_nu, f_de)


def evidence(log_ratios: Floats) -> Floats:
    """Return log ratios in which "no evidence" is the ratio 1, and zero has no sign."""
    return np.where(np.isnan(log_ratios), 0.0, log_ratios) + 0.0


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
    return float((targets + others) / math.log(2) / 2)


def pav(occurrences: Occurrences) -> tuple[Ints, Floats]:
    """Pool adjacent violators: return the first row of each block, and its log ratio, which rises.

    The log ratio of a block is that of its share of the targets to its share of the others.
    """
    from scipy.optimize import isotonic_regression

    n_nu, n_de = occurrences.sizes
    if not n_nu or not n_de:
        return np.zeros(0, np.int64), np.zeros(0)
    total = occurrences.f_nu + occurrences.f_de
    starts = isotonic_regression(occurrences.f_nu / total, weights=total).blocks[:-1]
    f_nu, f_de = occurrences.sums(starts)
    # Blocks of the same ratio that rounding has kept apart are one.
    rises = f_nu[:-1].astype(float) * f_de[1:] < f_nu[1:].astype(float) * f_de[:-1]
    starts = starts[np.append(True, rises)]
    f_nu, f_de = occurrences.sums(starts)
    with np.errstate(divide="ignore"):
        return starts, np.log(f_nu / n_nu) - np.log(f_de / n_de)


def least_cllr(occurrences: Occurrences) -> float:
    """Return the least Cllr of any monotone map of the ratios: that of pool adjacent violators."""
    starts, log_ratios = pav(occurrences)
    return cllr(log_ratios, *occurrences.sums(starts))


def calibration_metrics(occurrences: Occurrences) -> CalibrationMeasures:
    """Measure Cllr, its least value, and the line of the log ratio."""
    targets, others = occurrences.sizes
    if not targets or not others:
        return CalibrationMeasures(targets, others)
    cost = cllr(occurrences.log_ratios, occurrences.f_nu, occurrences.f_de)
    least = least_cllr(occurrences)
    return CalibrationMeasures(targets, others, cost, least, max(cost - least, 0.0), *regression(occurrences))


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
        band: the index of each type's band; None: there are none.
        names: of the bands.
    """
    measured = {"all": calibration_metrics(aggregate_ties(log_ratios, f_nu, f_de))}
    for index, name in enumerate(names if band is not None else ()):
        here = band == index
        nu, de, own = f_nu[here], f_de[here], 0.0
        if nu.any() and de.any():
            own = math.log(nu.sum() / f_nu.sum()) - math.log(de.sum() / f_de.sum())
        measured[name] = calibration_metrics(aggregate_ties(evidence(log_ratios[here]) - own, nu, de))
    return measured


def regression(occurrences: Occurrences) -> tuple[float, float] | tuple[None, None]:
    """Return slope and offset of the logistic regression of target against other on the log ratio.

    Both are None if a ratio is 0 or infinite, and if no line is best: all ratios are equal, or no target is below
    an other, or none above.
    """
    from scipy.optimize import root
    from scipy.special import expit

    s, f_nu, f_de = occurrences.log_ratios, occurrences.f_nu, occurrences.f_de
    target, other = s[f_nu > 0], s[f_de > 0]
    if not (np.isfinite(s).all() and len(target) and len(other) and target[0] < other[-1] and other[0] < target[-1]):
        return None, None
    w_nu, w_de = f_nu / f_nu.sum() / 2, f_de / f_de.sum() / 2
    weight = w_nu + w_de

    def score(line: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of the logarithmic loss, and its derivative."""
        p = expit(line @ x)
        return x @ (weight * p - w_nu), (x * weight * p * (1 - p)) @ x.T

    with np.errstate(all="ignore"):  # of numbers near the ends of what doubles hold; then nothing is found
        middle = float(weight @ s)
        width = float(np.abs(s - middle).max())
        x = np.stack([(s - middle) / width, np.ones(len(s))])  # (2, ratios)
        a, b = root(score, np.zeros(2), jac=True, method="lm", options={"xtol": 1e-15, "ftol": 1e-15}).x
        slope, offset = float(a / width), float(b - a / width * middle)
    return (slope, offset) if all(map(math.isfinite, (width, slope, offset))) else (None, None)


# --- what is drawn -----------------------------------------------------------------------------------------------
def bins(occurrences: Occurrences, cuts: Sequence[float] = CUTS) -> list[dict[str, Any]]:
    """Cut contexts into tenths by their ratio, and the last tenth, where most targets are, into tenths again.

    Equal ratios stay together. A bin has its least and largest log ratio, `low` and `high`, the occurrences `targets`
    and `others`; `predicted`, the mean ratio of the others, which equals the real one if the ratios are right;
    `real`, the share of the targets that is here over that of the others; and its 95 % interval, `real_low` to
    `real_high`, which takes occurrences as independent. What cannot be computed is None.
    """
    s, (n_nu, n_de) = occurrences.log_ratios, occurrences.sizes
    weight = occurrences.f_nu + occurrences.f_de
    middle = (np.cumsum(weight) - weight / 2) / max(n_nu + n_de, 1)
    starts = np.unique(np.searchsorted(cuts, middle, side="right"), return_index=True)[1]
    ends = np.append(starts, len(s))[1:] - 1
    targets, others = occurrences.sums(starts)
    with np.errstate(all="ignore"):  # what cannot be computed is NaN
        ratios = np.where(occurrences.f_de > 0, np.exp(s) * occurrences.f_de, 0.0)
        predicted = np.add.reduceat(ratios, starts) / others
        real = np.where(others > 0, targets / np.float64(n_nu) / (others / np.float64(n_de)), np.nan)
        deviation = np.sqrt(1 / targets - 1 / np.float64(n_nu) + 1 / others - 1 / np.float64(n_de))
        wide = np.where(targets > 0, np.exp(NORMAL * deviation), np.nan)
    columns = {
        "low": s[starts], "high": s[ends], "targets": targets, "others": others, "predicted": predicted, "real": real,
        "real_low": real / wide, "real_high": real * wide,
    }  # fmt: skip
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, (None if x != x else x for x in row), strict=True)) for row in rows]  # noqa: PLR0124


def tippett(occurrences: Occurrences, points: int = CURVE_POINTS) -> tuple[Floats, Floats, Floats]:
    """Return the points of a Tippett plot: log10 ratios, and the shares of targets and of others above each."""
    s = occurrences.log_ratios
    finite = s[np.isfinite(s)]
    x = np.linspace(finite[0], finite[-1], points) if len(finite) else np.zeros(1)
    below = np.searchsorted(s, x, side="right")
    targets, others = (
        1 - np.append(0, np.cumsum(frequency))[below] / max(int(frequency.sum()), 1)
        for frequency in (occurrences.f_nu, occurrences.f_de)
    )
    return x / math.log(10), targets, others


def pav_curve(occurrences: Occurrences) -> tuple[Floats, Floats, Floats]:
    """Return the steps of a PAV plot: the least and the largest log10 ratio of each block, and its log10 ratio after.

    The first block has minus infinity after if it holds no target, the last infinity if it holds only targets.
    """
    starts, after = pav(occurrences)
    ends = np.append(starts[1:], len(occurrences.log_ratios))[: len(starts)] - 1
    low, high = occurrences.log_ratios[starts], occurrences.log_ratios[ends]
    return low / math.log(10), high / math.log(10), after / math.log(10)

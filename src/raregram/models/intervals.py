"""How sure a log ratio is: the posterior variance of the frequencies, carried along the estimate.

The ridge estimate (E5) is the mean of a posterior. If the numerator saw f_nu ~ Poisson(r * E) with the expected
E = n_nu * f_de / n_de, and r has a Gamma prior with the mean r0 and the strength A = lam * n_nu, then the posterior
of r is Gamma(f_nu + A * r0, E + A). Its mean is (E5) and its squared coefficient of variation 1 / (f_nu + A * r0). To
that comes what is not known about r0, by the share that r0 has in the estimate, and about f_de, by the share of f_de.
An interval is symmetric on the log scale, where the posterior is close to normal.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from raregram.models.backoff import Backoff, Followed, Trace, ratio_of
from raregram.models.ratios import Floats

LEAST = 1e-300  # sightings: where a prior counts for less, an interval is wide enough and should stay finite


def half_width(variance: Floats, level: float) -> Floats:
    """Return how far an interval reaches to each side, from squared coefficients of variation."""
    above, below = (1 + level) / 2, (1 - level) / 2  # next to 1, the first is rounded to 1 and the second not to 0
    reach = NormalDist().inv_cdf(above) if above < 1 else -NormalDist().inv_cdf(below)
    return np.asarray(reach * np.sqrt(np.log1p(variance)))


def unit_variance(f_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: int, lam: float) -> Floats:
    """Return the squared coefficient of variation of the unit ratio (E3)."""
    f_nu, f_de = np.asarray(f_nu, dtype=np.float64), np.asarray(f_de, dtype=np.float64)
    share = ((f_de + 1) / (n_de + 2)) / ((f_de + 1) / (n_de + 2) + lam)
    return np.asarray(1 / (f_nu + 1) + share**2 / (f_de + 1))


def backoff_variance(table: Backoff, trace: Trace) -> Floats:
    """Return the squared coefficient of variation of the ratio of each context that was traced."""
    layout = table.layout
    units, shape_units = _units(table, trace)
    gained = np.zeros_like(units)  # by the suffixes of shapes, at every distance
    before = np.zeros(units.shape[1])
    for length in range(layout.longest_shapes):
        prior = before + shape_units[length]
        held = trace.shapes.cells[length] > 0
        after = np.where(held, _step(table, trace.shapes, length, prior, layout.unit_lam), prior)
        gained[length] = after - prior
        before = after
    total = np.zeros(units.shape[1])
    log_ratio = trace.units.sum(axis=0) + trace.shapes.correction.sum(axis=0) + trace.words.correction.sum(axis=0)
    unseen = 1 / np.maximum(layout.lam * layout.n_nu * ratio_of(log_ratio), LEAST)
    for length in range(layout.n):
        prior = np.maximum(total + units[length] + gained[length], 0.0)
        # A suffix that was not seen has a ratio of its own all the same, as far from its prior as that allows.
        total = _step(table, trace.words, length, prior, layout.lam) if length < layout.longest else prior + unseen
    return total


def _units(table: Backoff, trace: Trace) -> tuple[Floats, Floats]:
    """Return the variances of tempered units, of items and of shapes: (n, contexts)."""
    layout = table.layout
    power = np.array([layout.temper(distance) for distance in range(layout.n)])[:, None]
    f_nu, f_de = table.cells.frequencies(trace.cells)
    log_unit = np.divide(trace.units, power, out=np.zeros_like(trace.units), where=power > 0)
    untold = ((1 - power) * log_unit) ** 2  # whether tempering took away what is news, is not known
    if not layout.longest_shapes:
        units = unit_variance(f_nu, f_de, layout.n_de, layout.unit_lam)
        return power**2 * units + untold, np.zeros_like(trace.shape_units)
    shapes = _posterior(*table.cells.frequencies(trace.shape_cells), np.ones_like(trace.shape_units), table, 0.0)
    units = _posterior(f_nu, f_de, ratio_of(log_unit), table, shapes)
    return power**2 * units + untold, power**2 * shapes


def _posterior(f_nu: Floats, f_de: Floats, r0: Floats, table: Backoff, prior: Floats | float) -> Floats:
    """Return the variance of a unit after its frequencies were seen."""
    layout = table.layout
    return _seen(f_nu, f_de, layout.unit_lam * layout.n_nu * r0, layout.unit_lam * layout.n_de, prior)


def _step(table: Backoff, followed: Followed, length: int, prior: Floats, lam: float) -> Floats:
    """Return the variance after one more suffix."""
    f_nu, f_de = table.cells.frequencies(followed.cells[length])
    n_nu, n_de = table.layout.n_nu, table.layout.n_de
    return _seen(f_nu, f_de, lam * n_nu * ratio_of(followed.prior[length]), lam * n_de, prior)


def _seen(f_nu: Floats, f_de: Floats, evidence: Floats, ridge: float, prior: Floats | float) -> Floats:
    """Return the posterior variance.

    Args:
        f_nu: frequency in the numerator.
        f_de: frequency in the denominator.
        evidence: how many sightings in the numerator the prior counts for.
        ridge: how many sightings in the denominator the prior counts for.
        prior: the variance of the prior's mean.
    """
    evidence = np.maximum(evidence, LEAST)
    share = evidence / (f_nu + evidence)
    of_denominator = (f_de / (f_de + ridge)) ** 2 / np.maximum(f_de, 1)
    return np.asarray(1 / (f_nu + evidence) + of_denominator + share**2 * prior)

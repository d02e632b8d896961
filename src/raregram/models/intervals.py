"""How certain a log ratio is: posterior variances of frequencies, and the interval that they give.

The ridge estimate (E5) is the mean of a posterior. If the numerator saw f_nu ~ Poisson(r * E) with the expected
E = n_nu * f_de / n_de, and r has a Gamma prior with the mean r0 and the strength A = lam * n_nu, then the posterior
of r is Gamma(f_nu + A * r0, E + A). Its mean is (E5) and its squared coefficient of variation 1 / (f_nu + A * r0). To
that comes the uncertainty of r0, by the share that r0 has in the estimate, and of f_de, by the share of f_de.
An interval is symmetric on the log scale, where the posterior is close to normal.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from raregram.models.ratios import Floats

LEAST = 1e-300  # sightings: where a prior counts for less, an interval is wide enough and should stay finite


def half_width(variance: Floats, level: float) -> Floats:
    """Return how far an interval reaches to each side, from squared coefficients of variation."""
    above, below = (1 + level) / 2, (1 - level) / 2  # next to 1, the first is rounded to 1 and the second not to 0
    reach = NormalDist().inv_cdf(above) if above < 1 else -NormalDist().inv_cdf(below)
    return np.asarray(reach * standard_deviation(variance))


def standard_deviation(variance: Floats) -> Floats:
    """Return the standard deviation of log ratios, from squared coefficients of variation."""
    return np.asarray(np.sqrt(np.log1p(variance)))


def unit_variance(f_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: int, lam: float) -> Floats:
    """Return the squared coefficient of variation of the unit ratio (E3)."""
    f_nu, f_de = np.asarray(f_nu, dtype=np.float64), np.asarray(f_de, dtype=np.float64)
    share = ((f_de + 1) / (n_de + 2)) / ((f_de + 1) / (n_de + 2) + lam)
    return np.asarray(1 / (f_nu + 1) + share**2 / (f_de + 1))


def posterior_variance(f_nu: Floats, f_de: Floats, evidence: Floats, ridge: float, prior: Floats | float) -> Floats:
    """Return the squared coefficient of variation of the ridge estimate (E5).

    Args:
        f_nu: frequency in the numerator.
        f_de: frequency in the denominator.
        evidence: how many sightings in the numerator the prior counts for, lam * n_nu * r0.
        ridge: how many sightings in the denominator the prior counts for, lam * n_de.
        prior: the variance of r0.
    """
    evidence = np.maximum(evidence, LEAST)
    share = evidence / (f_nu + evidence)
    of_denominator = (f_de / (f_de + ridge)) ** 2 / np.maximum(f_de, 1)
    return np.asarray(1 / (f_nu + evidence) + of_denominator + share**2 * prior)

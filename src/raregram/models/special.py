"""Special functions of arrays that NumPy does not have: gamma and its derivatives, the beta distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHIFT = 8  # Stirling's series is exact to double precision from here on
GAMMA_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # of x**-1, x**-3 ...
DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)  # of x**-2, x**-4 ...
TRIGAMMA_SERIES = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # of x**-3, x**-5 ...
STEP = 0.25
LOG_SHAPES = np.arange(-5, 8 + STEP, STEP)  # of the table of quantiles
SMALLEST = 1e-300
TINY = 1e-16
CHUNK = 4096  # rows whose quantiles are found together
NEWTON_STEPS = 60
FRACTION_STEPS = 2_000  # of the continued fraction, which needs about the root of the larger shape


def log_gamma(x: Floats) -> Floats:
    """Return the logarithm of the gamma function of numbers above 0, by Stirling's series after steps upwards."""
    factor, z = np.ones_like(x), np.where(x < SHIFT, x + SHIFT, x)
    small = np.minimum(x, SHIFT)  # so that the product does not overflow
    for k in range(SHIFT):
        factor *= small + k
    stirling = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + _series(GAMMA_SERIES, z) / z
    return np.asarray(np.where(x < SHIFT, stirling - np.log(factor), stirling))


def digamma(x: Floats) -> Floats:
    """Return the derivative of `log_gamma`."""
    below, z = np.zeros_like(x), np.where(x < SHIFT, x + SHIFT, x)
    for k in range(SHIFT):
        below += 1 / (x + k)
    tail = np.log(z) - 0.5 / z + _series(DIGAMMA_SERIES, z) / z**2
    return np.asarray(np.where(x < SHIFT, tail - below, tail))


def trigamma(x: Floats) -> Floats:
    """Return the derivative of `digamma`."""
    below, z = np.zeros_like(x), np.where(x < SHIFT, x + SHIFT, x)
    for k in range(SHIFT):
        below += 1 / (x + k) ** 2
    tail = 1 / z + 0.5 / z**2 + _series(TRIGAMMA_SERIES, z) / z**3
    return np.asarray(np.where(x < SHIFT, tail + below, tail))


def _series(coefficients: Sequence[float], x: Floats) -> Floats:
    """Return c0 + c1 / x**2 + c2 / x**4 ..."""
    return np.asarray(np.polyval(coefficients[::-1], x**-2))


def log_beta(a: Floats, b: Floats) -> Floats:
    """Return the logarithm of the beta function."""
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def beta_log_cdf(u: Floats, a: Floats, b: Floats) -> Floats:
    """Return the logarithm of the distribution function of Beta(a, b) at x = 1 / (1 + exp(-u)), of any log odds u.

    >>> np.exp(beta_log_cdf(np.zeros(2), np.array([2.0, 1.0]), np.array([2.0, 3.0]))).round(12).tolist()
    [0.5, 0.875]
    """
    swap = u > np.log((a + 1) / (b + 1))  # the fraction converges fast below the mean
    u, a, b = np.where(swap, -u, u), np.where(swap, b, a), np.where(swap, a, b)
    front = a * u - (a + b) * np.logaddexp(0, u) - log_beta(a, b) - np.log(a)
    tail = front + np.log(_fraction(np.exp(-np.logaddexp(0, -u)), a, b))
    return np.asarray(np.where(swap, np.log1p(-np.exp(np.minimum(tail, -TINY))), tail))


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """Return the continued fraction of the incomplete beta function (DLMF 8.17.22)."""
    c, d = np.ones_like(x), 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, FRACTION_STEPS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = _not_zero(1 + step / c), 1 / _not_zero(1 + step * d)
            value *= c * d
        if np.all(np.abs(c * d - 1) < 1e-14):
            break
    return value


def _not_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < SMALLEST, SMALLEST, x)


def beta_log_odds(p: float, a: Floats, b: Floats) -> Floats:
    """Return log(x / (1 - x)) of the quantile x of Beta(a, b) at the probability p, at most a half.

    The logarithm of the distribution function is concave in the log odds, so Newton's method converges from anywhere.
    For the upper tail, take the negative of that of Beta(b, a).

    >>> (1 / (1 + np.exp(-beta_log_odds(0.025, np.array([3.0]), np.array([5.0]))))).round(6).tolist()
    [0.098988]
    """
    found = np.empty_like(a)
    order = np.argsort(a + b)  # a chunk takes as many steps as its largest shape needs
    for first in range(0, len(order), CHUNK):
        rows = order[first : first + CHUNK]
        found[rows] = _solve(math.log(p), a[rows], b[rows])
    return found


def _solve(log_p: float, a: Floats, b: Floats) -> Floats:
    spread = np.sqrt(trigamma(a) + trigamma(b))
    tail = (log_p + np.log(a) + log_beta(a, b)) / a  # where the distribution function is about x**a / (a B(a, b))
    u = np.where(a < 1, tail, np.maximum(tail, digamma(a) - digamma(b) - math.sqrt(-2 * log_p) * spread))
    todo = np.arange(len(u))
    for _ in range(NEWTON_STEPS):
        here, shapes = u[todo], (a[todo], b[todo])
        log_cdf = beta_log_cdf(here, *shapes)
        log_slope = shapes[0] * here - sum(shapes) * np.logaddexp(0, here) - log_beta(*shapes) - log_cdf
        step = (log_p - log_cdf) * np.exp(-log_slope)
        u[todo] = here + step
        todo = todo[np.abs(step) > 1e-11 * np.maximum(1, np.abs(here))]
        if not len(todo):
            break
    return u


def beta_interval(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the log odds of the quantiles of Beta(a, b) at 2.5 % and 97.5 %, right to 0.01, for very many at once.

    Their distances from the mean in standard deviations are looked up in a table of exact ones.
    """
    mean, spread = digamma(a) - digamma(b), np.sqrt(trigamma(a) + trigamma(b))
    return mean + spread * _look_up(a, b), mean - spread * _look_up(b, a)


@cache
def _standard_quantiles() -> Floats:
    """Return the quantile at 2.5 % as a number of standard deviations from the mean, by both shapes."""
    a, b = (grid.ravel() for grid in np.meshgrid(np.exp(LOG_SHAPES), np.exp(LOG_SHAPES), indexing="ij"))
    standard = (beta_log_odds(0.025, a, b) - digamma(a) + digamma(b)) / np.sqrt(trigamma(a) + trigamma(b))
    return np.asarray(standard.reshape(len(LOG_SHAPES), -1))


def _look_up(a: Floats, b: Floats) -> Floats:
    table, last = _standard_quantiles(), len(LOG_SHAPES) - 1
    i, j = (np.clip((np.log(shape) - LOG_SHAPES[0]) / STEP, 0, last - 1e-9) for shape in (a, b))
    row, column = i.astype(np.intp), j.astype(np.intp)
    u, v = i - row, j - column
    low = (1 - v) * table[row, column] + v * table[row, column + 1]
    high = (1 - v) * table[row + 1, column] + v * table[row + 1, column + 1]
    return np.asarray((1 - u) * low + u * high)

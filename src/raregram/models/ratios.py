"""The equations: frequencies in, likelihood ratios out. Pure functions of arrays.

An N-gram, or an item at one position, was seen `f_nu` times in `n_nu` contexts of the numerator and `f_de`
times in `n_de` contexts of the denominator. Every function broadcasts its arguments, computes in double
precision and checks them first: frequencies are whole numbers from 0 to their total.

=======  ================  ==================================================================
number   function          equation
=======  ================  ==================================================================
(E1)     `mle`             (f_nu / n_nu) / (f_de / n_de)
(E2)     `direct`          1 / (f_de / n_de + lam) * f_nu / n_nu
(E3)     `unit`            1 / ((f_de + 1) / (n_de + 2) + lam) * (f_nu + 1) / (n_nu + 2)
(E4)     `neutral_lam`     1 / (n_nu + 2) - 1 / (n_de + 2), the lam at which (E3) is 1 for f = 0
(E5)     `towards`         (f_nu / n_nu + lam * r0) / (f_de / n_de + lam)
(E6)     `smoothed`        ((f_nu + alpha) / (n_nu + alpha V)) / ((f_de + alpha) / (n_de + alpha V))
=======  ================  ==================================================================

(E1) to (E3) are the estimators of Kikuchi, Yoshida, Umemura and Ozono (arXiv 2111.03350, 2021); (E5) is this
project's, and so are the numbers. (E6) is the classical way around frequencies of 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from raregram.errors import InputError, check_lam, must_be

Floats = npt.NDArray[np.float64]

GRID = 2.0**44
COARSE_GRID = 2.0**18  # sums below 64 fit into 32 bits
LARGEST_LOG = 500.0  # of a ratio: far from what doubles hold, and further from any that is meant


def mle(f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike) -> Floats:
    """(E1) The observed ratio: infinite where only `f_de` is 0, NaN ("no evidence") where both are.

    >>> mle([100, 1, 2, 0], 10_000, [2000, 20, 20, 6], 10_000_000)
    array([ 50.,  50., 100.,   0.])
    """
    f_nu, n_nu, f_de, n_de = frequencies(f_nu, n_nu, f_de, n_de)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((f_nu / n_nu) / (f_de / n_de))


def direct(f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike, lam: float) -> Floats:
    """(E2) The ridge estimate: minimises 1/2 b'Hb - h'b + lam/2 b'b with indicator basis functions.

    >>> direct([100, 1, 2, 0], 10_000, [2000, 20, 20, 6], 10_000_000, lam=1e-5).round(1)
    array([47.6,  8.3, 16.7,  0. ])
    """
    check_lam(lam, "direct")
    f_nu, n_nu, f_de, n_de = frequencies(f_nu, n_nu, f_de, n_de)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((f_nu / n_nu) / (f_de / n_de + lam))


def unit(f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike, lam: float) -> Floats:
    """(E3) The ratio of one item at one position, finite and positive at every frequency.

    >>> unit([0, 9], 98, [0, 9], 998, lam=0)
    array([10., 10.])
    """
    check_lam(lam, "unit")
    f_nu, n_nu, f_de, n_de = frequencies(f_nu, n_nu, f_de, n_de)
    return np.asarray(((f_nu + 1) / (n_nu + 2)) / ((f_de + 1) / (n_de + 2) + lam))


def towards(
    r0: npt.ArrayLike,
    f_nu: npt.ArrayLike,
    n_nu: npt.ArrayLike,
    f_de: npt.ArrayLike,
    n_de: npt.ArrayLike,
    lam: float,
) -> Floats:
    """(E5) The ridge estimate that is pulled towards a simpler one, r0: exactly r0 where both frequencies are 0.

    >>> towards(5, [0, 1, 1000], 10_000, [0, 20, 20_000], 10_000_000, lam=1e-5).round(2)
    array([ 5.  , 12.5 , 49.78])
    """
    if not lam > 0:
        raise must_be("lam", "towards", "a number above 0", lam)
    f_nu, n_nu, f_de, n_de = frequencies(f_nu, n_nu, f_de, n_de)
    return ridge(r0, f_nu / n_nu, f_de / n_de, lam)


def ridge(r0: npt.ArrayLike, p_nu: Floats, p_de: Floats, lam: float) -> Floats:
    """(E5) of relative frequencies that are known to be such."""
    estimate = (p_nu + lam * np.asarray(r0)) / (p_de + lam)
    return np.where((p_nu == 0) & (p_de == 0), r0, estimate)


def smoothed(
    f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike, alpha: float, types: int
) -> Floats:
    """(E6) The ratio of two relative frequencies with additive smoothing; `types` is V, what could be seen.

    >>> smoothed([0, 1, 100], 10_000, [0, 20, 2000], 10_000_000, alpha=1, types=1000).round(1)
    array([909.2,  86.6,  45.9])
    """
    check_lam(alpha, "smoothed", "alpha")
    f_nu, n_nu, f_de, n_de = frequencies(f_nu, n_nu, f_de, n_de)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_nu, p_de = (f_nu + alpha) / (n_nu + alpha * types), (f_de + alpha) / (n_de + alpha * types)
        return np.asarray(p_nu / p_de)


def neutral_lam(n_nu: float, n_de: float) -> float:
    """(E4) lam0, at which an item that was never seen has the ratio 1. Negative where n_nu > n_de."""
    return 1 / (n_nu + 2) - 1 / (n_de + 2)


def from_log(log_ratio: Floats) -> Floats:
    """Return exp(log_ratio), finite and above 0."""
    return np.exp(np.clip(log_ratio, -LARGEST_LOG, LARGEST_LOG))


def log_on_grid(ratio: Floats, power: float | Floats = 1.0, grid: float = GRID) -> Floats:
    """Natural logarithm of a power of a ratio, rounded to a multiple of 2**-44 (an error below 3e-14).

    Sums of such numbers are exact as long as they stay below 512, so a score is the same to the last bit in
    whatever order its terms are added: in tiers, in threads, on a cluster or by hand from an explanation.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.rint(np.log(ratio) * power * grid) / grid)


def frequencies(
    f_nu: npt.ArrayLike, n_nu: npt.ArrayLike, f_de: npt.ArrayLike, n_de: npt.ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the four as float64 arrays, or raise `InputError`, which shows the first value that is no frequency."""
    f_nu, n_nu, f_de, n_de = (
        _whole(values, name) for values, name in ((f_nu, "f_nu"), (n_nu, "n_nu"), (f_de, "f_de"), (n_de, "n_de"))
    )
    for f, n, side in ((f_nu, n_nu, "nu"), (f_de, n_de, "de")):
        try:
            above = np.flatnonzero(f > n)
        except ValueError:
            raise InputError(f"f_{side} of shape {f.shape} and n_{side} of shape {n.shape} do not fit") from None
        if len(above):
            f_first, n_first = (wide.flat[above[0]] for wide in np.broadcast_arrays(f, n))
            raise InputError(f"a frequency is above its total: f_{side} = {f_first:.0f} but n_{side} = {n_first:.0f}")
    return f_nu, n_nu, f_de, n_de


def _whole(values: npt.ArrayLike, name: str) -> Floats:
    """Return `values` as float64 if all are whole numbers from 0 to 2**53, where doubles are exact."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers") from None
    bad = ~((array >= 0) & (array <= 2.0**53) & (array == np.floor(array)))
    if bad.any():
        raise InputError(f"{name} must be whole numbers from 0 to 2**53; found {array[bad][0]:g}")
    return array

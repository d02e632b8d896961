"""Which items of a position are useful: score functions and the selection of the top ones.

Each score is a pure function of the four joint probabilities of "the item is t or not" (t, t') and "the context
is the target's or not" (c, c'), estimated by relative frequencies. Higher is more useful.

==============  =================================================================================
`random`        a seeded random number: the control of the experiment
`tf`            f_nu + f_de
`cet`           sum over both classes of p(t,c) log(p(t,c) / (p(t) p(c)))
`chi2`          (p(t,c) p(t',c') - p(t,c') p(t',c))**2 / (p(t) p(t') p(c) p(c'))
`chi2_printed`  the same numerator over the product of the four joint cells, as the paper prints it
`gss`           p(t,c) p(t',c') - p(t,c') p(t',c): signed, so it keeps only items in favour of the target
`gss_abs`       its absolute value
==============  =================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from raregram.errors import ParameterError, check_choice, check_count
from raregram.models.ratios import Floats, frequencies

Ints = npt.NDArray[np.int64]
Score = Callable[[Floats, Floats, Floats, Floats], Floats]


def cet(p_tc: Floats, p_tx: Floats, p_xc: Floats, p_xx: Floats) -> Floats:
    """Class entropy term: what knowing the item tells about the class, in nats; 0 log 0 = 0."""
    p_t = p_tc + p_tx
    return _information(p_tc, p_t * (p_tc + p_xc)) + _information(p_tx, p_t * (p_tx + p_xx))


def chi2(p_tc: Floats, p_tx: Floats, p_xc: Floats, p_xx: Floats) -> Floats:
    """Pearson's statistic of the 2x2 table over n: divides by the four marginals."""
    marginals = (p_tc + p_tx) * (p_xc + p_xx) * (p_tc + p_xc) * (p_tx + p_xx)
    return _divide(gss(p_tc, p_tx, p_xc, p_xx) ** 2, marginals, empty=0.0)


def chi2_printed(p_tc: Floats, p_tx: Floats, p_xc: Floats, p_xx: Floats) -> Floats:
    """Divide by the four joint cells, as printed in the paper: infinite where a cell is empty."""
    return _divide(gss(p_tc, p_tx, p_xc, p_xx) ** 2, p_tc * p_tx * p_xc * p_xx, empty=np.inf)


def gss(p_tc: Floats, p_tx: Floats, p_xc: Floats, p_xx: Floats) -> Floats:
    """Galavotti-Sebastiani-Simi coefficient: positive for items in favour of the target."""
    return p_tc * p_xx - p_tx * p_xc


def gss_abs(p_tc: Floats, p_tx: Floats, p_xc: Floats, p_xx: Floats) -> Floats:
    """Strength of the coefficient, whichever class it speaks for."""
    return np.abs(gss(p_tc, p_tx, p_xc, p_xx))


SCORES: dict[str, Score] = {
    "cet": cet,
    "chi2": chi2,
    "chi2_printed": chi2_printed,
    "gss": gss,
    "gss_abs": gss_abs,
}
CRITERIA = ("random", "tf", *SCORES)


def scores(
    criterion: str,
    f_nu: npt.ArrayLike,
    f_de: npt.ArrayLike,
    n_nu: float,
    n_de: float,
    *,
    seed: int | tuple[int, ...] = 0,
) -> Floats:
    """Score every item of a position from its frequencies in the two samples.

    Args:
        criterion: one of `CRITERIA`.
        f_nu: frequency of each item in the numerator.
        f_de: frequency of each item in the denominator.
        n_nu: number of contexts in the numerator.
        n_de: number of contexts in the denominator; at least one of the two is not 0.
        seed: used by `random` alone.

    Returns:
        One float64 an item, higher for more useful ones.

    >>> scores("gss", [8, 1], [2, 9], n_nu=10, n_de=10)
    array([ 0.15, -0.2 ])
    """
    check_choice("criterion", "scores", criterion, CRITERIA)
    nu, total_nu, de, total_de = frequencies(f_nu, n_nu, f_de, n_de)
    nu, de = np.broadcast_arrays(nu, de)
    if criterion == "random":
        return _random(nu.shape, seed)
    if criterion == "tf":
        return np.asarray(nu + de)
    n = total_nu + total_de
    if not np.all(n > 0):
        raise ParameterError("The n_nu and n_de parameters of scores must not both be 0.")
    return SCORES[criterion](nu / n, de / n, (total_nu - nu) / n, (total_de - de) / n)


def top(score: Floats, frequency: npt.NDArray[np.generic], size: int) -> Ints:
    """Return the indices of the `size` best, in ascending order of index.

    Ties go to the higher frequency, then to the lower index. Where the index is the rank of the item in
    byte order, as in every count table, the selection does not depend on the order of the data.

    >>> top(np.array([1.0, 2.0, 1.0, 1.0]), np.array([5, 1, 7, 5]), size=3)
    array([0, 1, 2])
    """
    check_count("size", "top", size)
    if size >= len(score):
        return np.arange(len(score))
    threshold = np.partition(score, len(score) - size)[len(score) - size]
    certain = np.flatnonzero(score > threshold)
    tied = np.flatnonzero(score == threshold)
    by_frequency = np.argsort(-frequency[tied].astype(np.float64), kind="stable")
    return np.sort(np.concatenate([certain, tied[by_frequency[: size - len(certain)]]]))


def _information(joint: Floats, independent: Floats) -> Floats:
    """Return p log(p / q), with 0 log 0 = 0."""
    ratio = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
    return np.asarray(joint * np.log(ratio))


def _divide(numerator: Floats, denominator: Floats, empty: float) -> Floats:
    """Quotient with a stated value where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, empty), where=denominator > 0)


def _random(shape: tuple[int, ...], seed: int | tuple[int, ...]) -> Floats:
    """Uniform numbers from the raw stream of PCG64, which NumPy promises never to change."""
    raw = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    return np.asarray((raw >> np.uint64(11)).reshape(shape) * 2.0**-53)

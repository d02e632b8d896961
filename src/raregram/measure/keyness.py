"""The measures of keyness: how much more an N-gram is used in one corpus than in another. Pure functions of arrays.

An N-gram was seen `f_a` times among the `n_a` N-grams of its length in corpus A, and `f_b` times among `n_b` in B.

====================  ==========================================================================================
function              formula
====================  ==========================================================================================
`log_ratio`           log2((f_a / n_a) / (f_b / n_b)), a frequency of 0 taken as 0.5 (Hardie 2014)
`g2`                  2 (f_a ln(f_a / e_a) + f_b ln(f_b / e_b)), e_a = n_a (f_a + f_b) / (n_a + n_b): the two cells of
                      the N-gram itself (Rayson and Garside 2000), not the four cells of the contingency table
`conservative_ratio`  the confidence limit of the log2 ratio that is nearer to 0, by the exact conditional binomial
                      test, corrected for the number of rows; 0 where the interval holds 0 (Evert 2022)
`simple_maths`        (per million in A + k) / (per million in B + k) (Kilgarriff 2009)
`odds_ratio`          (f_a / (n_a - f_a)) / (f_b / (n_b - f_b)), a frequency of 0 taken as 0.5
`zeta`                share of A's documents that have it - share of B's (Burrows 2007, in the form with a difference)
`fightin_words`       z-score of the log odds ratio with an informative Dirichlet prior (Monroe, Colaresi, Quinn 2008)
`design_effect`       sum (f_d - r n_d)^2 / f over documents d with n_d N-grams, r = f / n
`t_tail`              p of G2 over the design effect: F with 1 and `degrees_of_freedom`, as the latter is an estimate
====================  ==========================================================================================
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ZERO = 0.5  # stands for a frequency of 0 where one is divided by
SIMPLE_MATHS_K = 1.0  # per million
DIRICHLET = 500.0  # sightings that the prior of Fightin' Words weighs
OCTAVE_WEIGHT = 2.0  # documents that the mean design effect of an octave weighs
OCTAVE_ROWS = 20  # of so many rows at least: the few most frequent ones share the octave below theirs
FREEDOM = 2  # degrees of freedom of the design effect for each document,
FREEDOM_OF_FEW = 4  # and for each of the side that has fewer, at most
MOST_FREEDOM = 1000  # beyond, the tail is that of the normal distribution
TINY = 1e-9
SMALLEST = np.finfo(np.float64).tiny


def log_ratio(f_a: Ints, f_b: Ints, n_a: float, n_b: float) -> Floats:
    """Return the log2 ratio of relative frequencies.

    >>> log_ratio(np.array([8, 3]), np.array([2, 0]), 1000, 1000).round(3).tolist()
    [2.0, 2.585]
    """
    return np.asarray(np.log2(np.where(f_a, f_a, ZERO) / n_a) - np.log2(np.where(f_b, f_b, ZERO) / n_b))


def g2(f_a: Ints, f_b: Ints, n_a: float, n_b: float) -> Floats:
    """Return the log likelihood statistic over two cells.

    >>> g2(np.array([10]), np.array([2]), 1000, 1000).round(3).tolist()
    [5.822]
    """
    share = (f_a + f_b) / (n_a + n_b)
    return np.maximum(2 * (_f_log(f_a, n_a * share) + _f_log(f_b, n_b * share)), 0)


def _f_log(f: Ints, expected: Floats) -> Floats:
    return np.asarray(f * np.log(np.where(f, f, 1) / np.where(f, expected, 1)))


def conservative_ratio(
    f_a: Ints, f_b: Ints, n_a: float, n_b: float, *, alpha: float = 0.05, rows: int | None = None
) -> Floats:
    """Return the limit of the log2 ratio that is nearer to 0; `rows` is by how many tests alpha is divided.

    >>> conservative_ratio(np.array([80, 3]), np.array([10, 1]), 1000, 1000, rows=2).round(3).tolist()
    [1.934, 0.0]
    """
    tail, offset = alpha / max(len(f_a) if rows is None else rows, 1) / 2, math.log2(n_b / n_a)
    pairs, where = np.unique(np.stack([f_a, f_b], axis=1), axis=0, return_inverse=True)  # few of them are distinct
    a, b = pairs.T.astype(np.float64)
    low, high = np.full(len(a), -np.inf), np.full(len(a), np.inf)
    low[a > 0] = beta_log_odds(tail, a[a > 0], b[a > 0] + 1) / math.log(2) + offset
    high[b > 0] = -beta_log_odds(tail, b[b > 0], a[b > 0] + 1) / math.log(2) + offset
    return np.asarray((np.maximum(low, 0) + np.minimum(high, 0))[where.reshape(-1)])


def beta_log_odds(p: float, a: Floats, b: Floats) -> Floats:
    """Return log(x / (1 - x)) of the quantile x of Beta(a, b) at the probability p.

    >>> (1 / (1 + np.exp(-beta_log_odds(0.025, np.array([3.0]), np.array([5.0]))))).round(6).tolist()
    [0.098988]
    """
    from scipy.special import betainccinv, betaincinv

    # 1 - x is a quantile, too: taken from x, it would be 0 where x is next to 1.
    x, complement = betaincinv(a, b, p), betainccinv(b, a, p)
    return np.asarray(np.log(np.maximum(x, SMALLEST)) - np.log(np.maximum(complement, SMALLEST)))


def per_million(f: Ints, n: float) -> Floats:
    """Return frequencies per million."""
    return np.asarray(f / n * 1e6)


def simple_maths(f_a: Ints, f_b: Ints, n_a: float, n_b: float, k: float = SIMPLE_MATHS_K) -> Floats:
    """Return the ratio of frequencies per million with k added to both.

    >>> simple_maths(np.array([9]), np.array([0]), 1e6, 1e6).tolist()
    [10.0]
    """
    return np.asarray((per_million(f_a, n_a) + k) / (per_million(f_b, n_b) + k))


def odds_ratio(f_a: Ints, f_b: Ints, n_a: float, n_b: float) -> Floats:
    """Return the ratio of odds; infinite where A is nothing but this N-gram, NaN where both are.

    >>> odds_ratio(np.array([500]), np.array([250]), 1000, 1000).round(3).tolist()
    [3.0]
    """
    a, b = np.where(f_a, f_a, ZERO), np.where(f_b, f_b, ZERO)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((a / (n_a - a)) / (b / (n_b - b)))


def zeta(documents_a: Ints, documents_b: Ints, all_a: int, all_b: int) -> Floats:
    """Return the difference of shares of documents, from -1 to 1.

    >>> zeta(np.array([5]), np.array([1]), 10, 10).tolist()
    [0.4]
    """
    return np.asarray(documents_a / all_a - documents_b / all_b)


def fightin_words(f_a: Ints, f_b: Ints, n_a: float, n_b: float, prior: float = DIRICHLET) -> Floats:
    """Return the z-score of the log odds ratio; the prior of each N-gram is its share of both corpora.

    >>> fightin_words(np.array([30, 0]), np.array([10, 0]), 1000, 1000, prior=100).round(3).tolist()
    [2.952, 0.0]
    """
    pseudo = prior * (f_a + f_b) / (n_a + n_b)
    a, b = f_a + pseudo, f_b + pseudo
    with np.errstate(divide="ignore", invalid="ignore"):
        delta = np.log(a / (n_a + prior - a)) - np.log(b / (n_b + prior - b))
        return np.nan_to_num(delta / np.sqrt(1 / a + 1 / b), nan=0.0)


def design_effect(
    f: Ints, documents: Ints, squares: Ints, products: Ints, totals: Ints, *, weight: float = OCTAVE_WEIGHT
) -> Floats:
    """Return by how much clumping in documents widens the variance of each row's frequencies; at least 1.

    With the rate r = f / n of a side, sum (f_d - r n_d)^2 = sum f_d^2 - 2 r sum f_d n_d + r^2 sum n_d^2 over its
    documents estimates the variance of f, which would be f if items were independent. The sides are looked at
    one by one, so that a difference between them is no clumping. What a row says weighs as much as the documents that
    it is in, and the mean of the rows of about its frequency (an octave) `weight`.

    Args:
        f: (rows, sides) frequencies, like all that follows,
        documents: how many documents have it,
        squares: sums over documents of squared frequencies,
        products: and of frequencies times the documents' sizes.
        totals: (3, sides) sum of the documents' sizes, number of documents, sum of squared sizes.
        weight: of the octave's mean, in documents.
    """
    total, m = np.maximum(f.sum(axis=1), 1), documents.sum(axis=1)
    n, all_documents, squared_sizes = totals.astype(np.float64)
    rate = f / n
    variance = (squares - 2 * rate * products + rate**2 * squared_sizes) * all_documents / (all_documents - 1)
    raw = variance.sum(axis=1) / total
    octave = np.log2(total).astype(np.int64)
    filled = np.cumsum(np.bincount(octave)[::-1])[::-1] >= OCTAVE_ROWS  # with the octaves above
    octave = np.minimum(octave, np.flatnonzero(filled).max(initial=0))
    mean = (np.bincount(octave, raw) / np.maximum(np.bincount(octave), 1))[octave]
    return np.asarray(np.maximum((m * raw + weight * mean) / (m + weight), 1))


def small_sample(f: Ints, design: Floats, n_a: float, n_b: float) -> Floats:
    """Return Williams's correction, by which G2 is divided as well: of few sightings it is too large.

    q = 1 + (1 / p_a + 1 / p_b - 1) / (6 f / D), with the shares p of the two corpora (Williams 1976).
    """
    total = n_a + n_b
    return np.asarray(1 + (total / n_a + total / n_b - 1) * design / (6 * np.maximum(f, 1)))


def g2_design(f_a: Ints, f_b: Ints, n_a: float, n_b: float, design: Floats) -> Floats:
    """Return G2 over the design effect and over Williams's correction."""
    return g2(f_a, f_b, n_a, n_b) / design / small_sample(f_a + f_b, design, n_a, n_b)


def degrees_of_freedom(totals: Ints) -> float:
    """Return those of the design effect, by the documents that it is known from, however many rows share them.

    Documents of unequal size count for fewer of equal size, n^2 / sum n_d^2. Both factors were chosen by random
    documents of one corpus on both sides: twice as many as of a variance, as the mean of the octave helps, and a
    limit where there are few beside many. A list of frequencies has no documents. `totals` are as in `design_effect`.

    >>> [degrees_of_freedom(np.array([sides, sides, sides])) for sides in ([2, 2], [30, 50], [1, 200], [1, 1])]
    [4.0, 120.0, 4.0, 1.0]
    """
    n, _, squared_sizes = totals[:, totals[1] > 0].astype(np.float64)
    documents = n**2 / squared_sizes
    most = min(FREEDOM_OF_FEW * documents.min(initial=MOST_FREEDOM), MOST_FREEDOM)
    return float(np.clip(FREEDOM * (documents - 1).sum(), 1, most))


def t_tail(square: Floats, freedom: float) -> Floats:
    """Return the probability that the square of Student's t is above this: F with 1 and `freedom` degrees.

    >>> t_tail(np.array([3.841459, 18.512821]), 2).round(3).tolist()
    [0.189, 0.05]
    """
    from scipy.special import fdtrc

    return np.asarray(fdtrc(1, freedom, square))


def t_quantile(outside: float, freedom: float) -> float:
    """Return how far Student's t goes to both sides, so that this probability is outside; at most a half.

    >>> round(t_quantile(0.05, 2), 3), round(t_quantile(0.05, 100), 3)
    (4.303, 1.984)
    """
    from scipy.special import stdtrit

    return float(-stdtrit(freedom, outside / 2))

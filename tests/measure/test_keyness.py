"""The measures of keyness against SciPy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from raregram.measure import keyness
from raregram.measure.phrases import Rows, estimate, find_parts

FREQUENCIES = arrays(np.int64, (12, 2), elements=st.integers(0, 2000))
N_A, N_B = 250_000.0, 90_000.0


@given(st.floats(0.05, 3000), st.floats(0.05, 3000), st.floats(1e-9, 0.5))
def test_log_odds_of_quantiles_are_exact_at_both_ends(a, b, p):
    odds = keyness.beta_log_odds(p, np.array([a]), np.array([b]))[0]
    # F(x) by the smaller of x and 1 - x, of which doubles know more digits
    cdf = scipy.special.betainc(a, b, scipy.special.expit(odds))
    other = scipy.special.betaincc(b, a, scipy.special.expit(-odds))
    assert (cdf if odds < 0 else other) == pytest.approx(p, rel=1e-6)


def test_log_odds_of_quantiles_next_to_0_and_1_are_finite():
    """Of x = 1 - 1e-100, doubles know nothing but its complement; that of 1e-1000 is as small as they hold."""
    a, b = np.array([1e5, 1e-3, 1e-5]), np.array([1e-4, 1e5, 1.0])
    found = keyness.beta_log_odds(0.025, a, b)
    assert found[0] > 100
    assert (found[1:] < -500).all()
    assert np.isfinite(found).all()


@given(FREQUENCIES)
def test_g2_is_the_power_divergence_of_two_cells(f):
    f = f[f.sum(axis=1) > 0]
    total = f.sum(axis=1)
    expected = np.stack([N_A * total, N_B * total]) / (N_A + N_B)
    oracle = scipy.stats.power_divergence(f.T, expected, lambda_="log-likelihood") if len(f) else None
    found = keyness.g2(*f.T, N_A, N_B)
    if oracle is not None:
        np.testing.assert_allclose(found, oracle.statistic, rtol=1e-9, atol=1e-9)


@given(arrays(float, 12, elements=st.floats(0, 1e4)), st.integers(1, 1000), st.floats(1e-6, 0.5))
def test_the_tail_and_the_quantile_of_t_are_those_of_scipy(square, freedom, p):
    oracle = scipy.stats.f.sf(square, 1, freedom)
    np.testing.assert_allclose(keyness.t_tail(square, freedom), oracle, rtol=1e-6, atol=1e-300)
    assert keyness.t_quantile(p, freedom) == pytest.approx(scipy.stats.t.isf(p / 2, freedom), rel=1e-6)


@given(FREQUENCIES)
def test_the_conservative_ratio_is_the_exact_binomial_limit(f):
    f = f[f.sum(axis=1) > 0]
    found = keyness.conservative_ratio(*f.T, N_A, N_B, rows=500)
    for (f_a, f_b), value in zip(f.tolist(), found.tolist(), strict=True):
        limits = scipy.stats.binomtest(f_a, f_a + f_b).proportion_ci(1 - 0.05 / 500, "exact")
        low, high = (
            math.inf * (2 * p - 1) if p in (0, 1) else math.log2(p / (1 - p) * N_B / N_A)
            for p in (limits.low, limits.high)
        )
        assert value == pytest.approx(max(low, 0) + min(high, 0), abs=1e-9)


@given(FREQUENCIES)
def test_log_ratio_simple_maths_and_odds_ratio_by_their_formulas(f):
    for (f_a, f_b), ratio, simple, odds in zip(
        f.tolist(),
        keyness.log_ratio(*f.T, N_A, N_B),
        keyness.simple_maths(*f.T, N_A, N_B, k=10),
        keyness.odds_ratio(*f.T, N_A, N_B),
        strict=True,
    ):
        a, b = f_a or 0.5, f_b or 0.5
        assert ratio == pytest.approx(math.log2((a / N_A) / (b / N_B)), abs=1e-9)
        assert simple == pytest.approx((1e6 * f_a / N_A + 10) / (1e6 * f_b / N_B + 10), rel=1e-12)
        assert odds == pytest.approx((a / (N_A - a)) / (b / (N_B - b)), rel=1e-12)


def test_fightin_words_by_hand():
    """Monroe, Colaresi and Quinn (2008), equations 16, 20 and 22, with a prior of 100 sightings."""
    prior = 100 * 40 / 3000
    delta = math.log((30 + prior) / (1000 + 100 - 30 - prior)) - math.log((10 + prior) / (2000 + 100 - 10 - prior))
    z = delta / math.sqrt(1 / (30 + prior) + 1 / (10 + prior))
    assert keyness.fightin_words(np.array([30]), np.array([10]), 1000, 2000, prior=100)[0] == pytest.approx(z)


def clumped(rng, rows, documents, clump):
    """Draw frequencies per document: sightings come `clump` at a time, about 20 in all; (rows, documents, 2)."""
    return clump * rng.poisson(20 / clump / documents / 2, size=(rows, documents, 2))


def summed(f, size=500):
    """Return the sums over documents of one size, and their totals."""
    documents = f.shape[1]
    totals = np.array([[documents * size] * 2, [documents] * 2, [documents * size * size] * 2])
    return f.sum(axis=1), (f > 0).sum(axis=1), (f * f).sum(axis=1), f.sum(axis=1) * size, totals


@pytest.mark.parametrize("clump", [1, 2, 4])
def test_the_design_effect_of_clumps_is_their_size(clump):
    design = keyness.design_effect(*summed(clumped(np.random.default_rng(0), 2000, 200, clump)))
    assert design.mean() == pytest.approx(clump, rel=0.05)


@pytest.mark.parametrize("clump", [1, 2, 4])
def test_g2_over_the_design_effect_holds_its_level_where_g2_does_not(clump):
    f, *others, totals = summed(clumped(np.random.default_rng(1), 4000, 200, clump))
    design = keyness.design_effect(f, *others, totals)
    g2 = keyness.g2(*f.T, 1e5, 1e5)
    ours = g2 / design / keyness.small_sample(f.sum(axis=1), design, 1e5, 1e5)
    assert 0.035 < (keyness.t_tail(ours, keyness.degrees_of_freedom(totals)) < 0.05).mean() < 0.065
    if clump > 1:
        assert (scipy.stats.chi2.sf(g2, 1) < 0.05).mean() > 0.12


def test_a_difference_between_the_corpora_is_no_clumping():
    f = np.zeros((500, 100, 2), dtype=np.int64)
    f[:, :, 0] = np.random.default_rng(2).poisson(0.4, size=(500, 100))
    design = keyness.design_effect(*summed(f))
    assert design.mean() == pytest.approx(1, abs=0.1)


def test_documents_of_unequal_size_are_no_clumping():
    """Also of words that long documents use more often than short ones, as far as that is not chance."""
    rng = np.random.default_rng(6)
    sizes = rng.choice([50, 500, 5000], (100, 2))
    f = rng.poisson(0.002 * sizes, size=(800, 100, 2))
    totals = np.array([sizes.sum(axis=0), [100, 100], (sizes**2).sum(axis=0)])
    sums = f.sum(axis=1), (f > 0).sum(axis=1), (f * f).sum(axis=1), (f * sizes).sum(axis=1)
    assert keyness.design_effect(*sums, totals).mean() == pytest.approx(1, abs=0.1)
    # The exact sum over documents, row by row, where nothing is shared with other rows.
    exact = ((f - f.sum(axis=1, keepdims=True) / totals[0] * sizes) ** 2 * 100 / 99).sum(axis=(1, 2)) / f.sum(
        axis=(1, 2)
    )
    np.testing.assert_allclose(keyness.design_effect(*sums, totals, weight=0.0), np.maximum(exact, 1), rtol=1e-9)


def words(f):
    """Return words alone, each sighting in a document of its own."""
    many = np.array([10**6, 10**6])
    keys = np.arange(len(f), dtype=np.int32)[:, None]
    return Rows(keys, f, f.copy(), f.copy(), f.copy(), many, np.stack([many] * 3))


@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_the_strength_of_a_prior_comes_back(strength):
    """Ratios are drawn from a beta distribution; the fitted prior has its strength, whatever the frequency."""
    rng = np.random.default_rng(3)
    n = rng.integers(10, 200, size=5000)
    f_a = rng.binomial(n, rng.beta(strength / 2, strength / 2, size=5000))
    rows = [words(np.column_stack([f_a, n - f_a]).astype(np.int64))]
    (found,) = estimate(rows, find_parts(rows))
    assert np.median(found.by_parts.sum(axis=1)) == pytest.approx(strength, rel=0.15)


def test_intervals_hold_the_ratio_that_was_drawn_at_every_frequency():
    rng = np.random.default_rng(4)
    n = rng.integers(3, 300, size=8000)
    p = rng.beta(4, 4, size=8000)
    f_a = rng.binomial(n, p)
    rows = [words(np.column_stack([f_a, n - f_a]).astype(np.int64))]
    (found,) = estimate(rows, find_parts(rows))
    low, high = found.interval
    inside = (low < np.log(p / (1 - p))) & (np.log(p / (1 - p)) < high)
    for some in (n < 10, (n >= 10) & (n < 100), n >= 100):
        assert 0.93 < inside[some].mean() < 0.97

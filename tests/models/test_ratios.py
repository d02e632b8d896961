"""The equations against the paper's worked example, a generic solver and their own limits."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from raregram import errors
from raregram.models import ratios

# Table I of the paper: (n_de, f_de, n_nu, f_nu) and both estimates at lam = 1e-5.
TABLE_I = [
    ((10**7, 2000, 10**4, 100), 50, 47.6),
    ((10**7, 20, 10**4, 1), 50, 8.3),
    ((10**7, 20, 10**4, 2), 100, 16.7),
    ((10**7, 6, 10**4, 0), 0, 0),
]


@pytest.mark.parametrize(("given_", "mle", "direct"), TABLE_I)
def test_table_i_of_the_paper(given_, mle, direct):
    n_de, f_de, n_nu, f_nu = given_
    # By hand, first row: (100 / 1e4) / (2000 / 1e7) = 0.01 / 0.0002 = 50; 0.01 / (0.0002 + 0.00001) = 47.6.
    assert ratios.mle(f_nu, n_nu, f_de, n_de) == pytest.approx(mle)
    assert round(float(ratios.direct(f_nu, n_nu, f_de, n_de, 1e-5)), 1) == direct


def test_direct_solves_the_quadratic_program():
    """Minimise 1/2 b'Hb - h'b + lam/2 b'b numerically, with one indicator function for each N-gram."""
    f_nu, f_de = np.array([3, 0, 5, 2]), np.array([1, 4, 0, 15])
    n_nu, n_de, lam = 10, 20, 0.05
    h, big_h = f_nu / n_nu, np.diag(f_de / n_de)

    def objective(b):
        return b @ big_h @ b / 2 - h @ b + lam / 2 * b @ b

    found = minimize(objective, np.zeros(4), jac=lambda b: big_h @ b - h + lam * b, method="BFGS", tol=1e-12)
    np.testing.assert_allclose(ratios.direct(f_nu, n_nu, f_de, n_de, lam), found.x, rtol=1e-7, atol=1e-9)


def test_mle_without_denominator_is_infinite_or_nan():
    np.testing.assert_array_equal(ratios.mle([1, 0, 0], 10, [0, 0, 2], 10), [np.inf, np.nan, 0])
    np.testing.assert_array_equal(ratios.mle([0], 0, [0], 0), [np.nan])


def test_smoothed_by_hand():
    """Two N-grams and one place for all others, so V = 3; alpha = 1/2."""
    seen = ratios.smoothed([3, 1, 0], 4, [0, 6, 0], 6, alpha=0.5, types=3)
    assert seen == pytest.approx([(3.5 / 5.5) / (0.5 / 7.5), (1.5 / 5.5) / (6.5 / 7.5), (0.5 / 5.5) / (0.5 / 7.5)])
    assert (np.array([3.5, 1.5, 0.5]) / 5.5).sum() == pytest.approx(1)  # each of the two is a distribution


def test_smoothed_without_smoothing_is_mle():
    f_nu, f_de = [3, 0, 5, 0], [1, 4, 0, 0]
    expected = ratios.mle(f_nu, 8, f_de, 5)
    np.testing.assert_array_equal(ratios.smoothed(f_nu, 8, f_de, 5, alpha=0, types=7), expected)
    assert np.isfinite(ratios.smoothed(f_nu, 8, f_de, 5, alpha=1e-3, types=7)).all()
    with pytest.raises(errors.ParameterError, match="alpha parameter of smoothed must be a finite number >= 0"):
        ratios.smoothed(f_nu, 8, f_de, 5, alpha=-1, types=7)


def test_unit_by_hand():
    # (3 + 1) / (10 + 2) = 1/3; (1 + 1) / (6 + 2) + 0.25 = 1/2; their quotient is 2/3.
    assert ratios.unit(3, 10, 1, 6, lam=0.25) == pytest.approx(2 / 3, rel=1e-15)


def test_lam0_by_hand():
    assert ratios.neutral_lam(8, 18) == pytest.approx(1 / 10 - 1 / 20, rel=1e-15)
    assert ratios.neutral_lam(18, 8) == pytest.approx(1 / 20 - 1 / 10, rel=1e-15)


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_an_unseen_item_is_neutral_at_lam0(n_nu, n_de):
    lam0 = ratios.neutral_lam(n_nu, n_de)
    if lam0 >= 0:
        assert ratios.unit(0, n_nu, 0, n_de, lam0) == pytest.approx(1, rel=1e-9)


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.integers(0, 2**53), st.sampled_from([0.0, 1e-9, 0.1]))
def test_unit_is_finite_and_rises_with_the_numerator(f_nu, f_de, n, lam):
    f_nu, f_de = min(f_nu, n), min(f_de, n)
    value = ratios.unit(f_nu, n, f_de, n, lam)
    assert 0 < value < math.inf
    assert ratios.unit(max(f_nu - 1, 0), n, f_de, n, lam) <= value


def test_towards_by_hand():
    # (2/10 + 0.25 * 3) / (1/5 + 0.25) = 0.95 / 0.45 = 19/9.
    assert ratios.towards(3, 2, 10, 1, 5, lam=0.25) == pytest.approx(19 / 9, rel=1e-15)


def test_towards_solves_the_quadratic_program():
    """Minimise 1/2 b'Hb - h'b + lam/2 |b - b0|^2 numerically."""
    f_nu, f_de, b0 = np.array([3, 0, 5, 2]), np.array([1, 4, 0, 15]), np.array([0.5, 2.0, 1.0, 7.0])
    n_nu, n_de, lam = 10, 20, 0.05
    h, big_h = f_nu / n_nu, np.diag(f_de / n_de)

    def objective(b):
        return b @ big_h @ b / 2 - h @ b + lam / 2 * (b - b0) @ (b - b0)

    found = minimize(objective, np.zeros(4), jac=lambda b: big_h @ b - h + lam * (b - b0), method="BFGS", tol=1e-12)
    np.testing.assert_allclose(ratios.towards(b0, f_nu, n_nu, f_de, n_de, lam), found.x, rtol=1e-7, atol=1e-9)


@given(st.floats(1e-300, 1e300), st.sampled_from([1e-9, 0.1, 3.0]))
def test_towards_is_exactly_the_simpler_estimate_where_nothing_was_seen(r0, lam):
    assert ratios.towards(r0, 0, 10, 0, 7, lam) == r0
    lower, higher = ratios.towards(1, [0, 1], 10, [1, 0], 7, lam)  # one frequency is evidence
    assert lower < 1 < higher


@pytest.mark.parametrize("lam", [0, -1e-9, math.nan])
def test_towards_needs_a_ridge_above_zero(lam):
    message = f"The lam parameter of towards must be a number above 0. Got {lam!r} instead."
    with pytest.raises(errors.ParameterError, match=re.escape(message)):
        ratios.towards(1, 1, 2, 1, 2, lam)


@given(st.floats(1e-9, 1e9), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([2.0**44, 2.0**18, 4.0]))
def test_a_power_of_a_ratio_is_rounded_to_the_grid(ratio, power, grid):
    value = float(ratios.log_on_grid(np.array(ratio), power, grid))
    assert value == pytest.approx(power * math.log(ratio), abs=0.51 / grid)
    assert (value * grid).is_integer()


@pytest.mark.parametrize("lam", [-1e-9, math.inf, math.nan, "0.1", None, True])
@pytest.mark.parametrize("function", [ratios.direct, ratios.unit])
def test_lam_must_be_finite_and_not_negative(function, lam):
    message = f"The lam parameter of {function.__name__} must be a finite number >= 0. Got {lam!r} instead."
    with pytest.raises(errors.ParameterError, match=re.escape(message)):
        function(1, 2, 1, 2, lam)


@pytest.mark.parametrize("function", [ratios.mle, lambda *f: ratios.unit(*f, lam=0)])
@pytest.mark.parametrize(
    ("frequencies", "message"),
    [
        (([-1], 2, [1], 2), "f_nu must be whole numbers.*found -1"),
        (([1], 2, [0.5], 2), "f_de must be whole numbers.*found 0.5"),
        (([1], 2, [math.nan], 2), "f_de must be whole numbers.*found nan"),
        (([1], 2.5, [1], 2), "n_nu must be whole numbers.*found 2.5"),
        (([1, 3], 2, [1, 1], 2), "above its total: f_nu = 3 but n_nu = 2"),
        (([1], 2, [9], 8), "above its total: f_de = 9 but n_de = 8"),
        ((["x"], 2, [1], 2), "f_nu must be numbers"),
        (([2.0**54], 2.0**54, [1], 2), "found 1.80144e"),
        (([1], 2, [[1]], [[2, 3], [0, 4]]), "above its total: f_de = 1 but n_de = 0"),
        (([1], 2, [1], [3, 2**53 + 2]), r"n_de must be whole numbers from 0 to 2\*\*53; found 9.0072e\+15"),
        (([1, 2, 3], [4, 5], [1], 2), r"f_nu of shape \(3,\) and n_nu of shape \(2,\) do not fit"),
    ],
)
def test_what_cannot_be_a_frequency_is_refused(function, frequencies, message):
    with pytest.raises(errors.InputError, match=message):
        function(*frequencies)


@given(st.lists(st.floats(1e-15, 1e15), min_size=1, max_size=12), st.randoms())
def test_logs_on_the_grid_add_up_exactly_in_any_order(values, shuffler):
    terms = ratios.log_on_grid(np.array(values))
    np.testing.assert_allclose(terms, np.log(values), rtol=0, atol=3e-14)
    shuffled = terms.tolist()
    shuffler.shuffle(shuffled)
    assert math.fsum(terms) == sum(shuffled) == np.sum(terms) == float(np.array(shuffled) @ np.ones(len(values)))

"""Calibration: by hand, against scikit-learn, against the forensic package lir, and where ratios are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, xlogy
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from raregram.measure.cllr import (
    CalibrationMeasures,
    aggregate_ties,
    bins,
    calibration_metrics,
    calibrations,
    cllr,
    least_cllr,
    pav,
    pav_curve,
    regression,
    tippett,
)
from raregram.models.ratios import Floats

SCORES = st.one_of(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf, np.nan]), st.floats(-30, 30))
TYPES = st.lists(st.tuples(SCORES, st.integers(0, 4), st.integers(0, 4)), max_size=40)
FINITE = st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40)


def columns(types, scale=1.0):
    """Types as three arrays."""
    scores, f_nu, f_de = zip(*types, strict=True) if types else ((), (), ())
    return np.array(scores, float) * scale, np.array(f_nu, np.int64), np.array(f_de, np.int64)


def occur(scores, f_nu, f_de):
    return aggregate_ties(np.array(scores, float), np.array(f_nu, np.int64), np.array(f_de, np.int64))


def occurrences(pooled):
    """Each occurrence for itself: its log ratio, whether it is a target, and its weight, half for each class."""
    n_nu, n_de = pooled.sizes
    scores = np.concatenate([np.repeat(pooled.log_ratios, pooled.f_nu), np.repeat(pooled.log_ratios, pooled.f_de)])
    return scores, np.repeat([1, 0], [n_nu, n_de]), np.repeat([0.5 / n_nu, 0.5 / n_de], [n_nu, n_de])


# --- Cllr --------------------------------------------------------------------------------------------------------
def test_cllr_by_hand():
    ratios, f_nu, f_de = [4.0, 1.0, 0.5], [2, 1, 0], [1, 0, 3]
    targets = (2 * math.log2(1 + 1 / 4) + math.log2(1 + 1)) / 3
    others = (math.log2(1 + 4) + 3 * math.log2(1 + 0.5)) / 4
    assert cllr(np.log(ratios), np.array(f_nu), np.array(f_de)) == pytest.approx((targets + others) / 2, abs=1e-15)


@pytest.mark.parametrize(
    ("scores", "f_nu", "f_de", "expected"),
    [
        ([0.0, 0.0], [1, 0], [0, 1], 1.0),  # says nothing
        ([np.nan], [3], [2], 1.0),  # no evidence
        ([np.inf, -np.inf], [1, 0], [0, 1], 0.0),  # perfect
        ([np.inf, -np.inf], [0, 1], [1, 0], np.inf),  # always wrong
        ([-np.inf, 0.0], [1, 1], [1, 1], np.inf),  # a target with the ratio 0
        ([np.inf, -np.inf, 0.0], [1, 0, 0], [0, 0, 1], 0.5),  # what never occurs costs nothing
        ([1e308, -1e308], [1, 0], [0, 1], 0.0),
    ],
)
def test_cllr_at_the_edges(scores, f_nu, f_de, expected):
    assert cllr(np.array(scores), np.array(f_nu), np.array(f_de)) == expected


def test_the_figures_of_lir():
    """What lir 1.3.1 (PyPI; Python 3.12) prints for the same ratios, whose logarithms it takes to the base of 10.

    import numpy as np
    from lir.data.models import LLRData
    from lir.metrics import cllr, cllr_cal, cllr_min

    def numbers(ratios, f_nu, f_de):
        log_ratios = np.log10(ratios)
        both = np.concatenate([np.repeat(log_ratios, f_nu), np.repeat(log_ratios, f_de)])
        labels = np.repeat([1, 0], [sum(f_nu), sum(f_de)])
        data = LLRData(features=both, labels=labels)
        return cllr(data), cllr_min(data), cllr_cal(data)

    print(numbers([0.1, 0.5, 1, 2, 9], [1, 1, 2, 3, 5], [9, 4, 4, 2, 1]))
    print(numbers([0.01, 0.2, 0.3, 4, 5, 60], [2, 0, 3, 1, 4, 1], [3, 8, 2, 2, 0, 1]))
    k = np.arange(1000)
    print(numbers(np.exp((k * 7919 % 1000) / 125 - 4), (k * 7919 % 1000 > k * 104729 % 1000) * 1, k % 4))
    """
    k = np.arange(1000)
    many = np.exp((k * 7919 % 1000) / 125 - 4), (k * 7919 % 1000 > k * 104729 % 1000) * 1, k % 4
    printed = [
        (([0.1, 0.5, 1, 2, 9], [1, 1, 2, 3, 5], [9, 4, 4, 2, 1]),
         (0.7500349156885583, 0.7384576412399019, 0.011577274448656416)),
        (([0.01, 0.2, 0.3, 4, 5, 60], [2, 0, 3, 1, 4, 1], [3, 8, 2, 2, 0, 1]),
         (1.378525028809539, 0.7582729093677427, 0.6202521194417963)),
        (many, (1.24508219698532, 0.8933607403996198, 0.3517214565857003)),
    ]  # fmt: skip
    for (ratios, f_nu, f_de), expected in printed:
        found = calibration_metrics(occur(np.log(ratios), f_nu, f_de))
        assert (found.cllr, found.least, found.loss) == pytest.approx(expected, abs=1e-9)


# --- pool adjacent violators and the regression ------------------------------------------------------------------
@given(TYPES)
def test_blocks_are_those_of_isotonic_regression(types):
    pooled = aggregate_ties(*columns(types))
    if not all(pooled.sizes):
        return
    w_nu, w_de = (frequency / frequency.sum() for frequency in (pooled.f_nu, pooled.f_de))
    weight = w_nu + w_de
    isotonic = IsotonicRegression().fit_transform(np.arange(len(weight)), w_nu / weight, sample_weight=weight)
    starts, after = pav(pooled)
    ours = np.repeat(expit(after), np.diff([*starts, len(weight)]))
    np.testing.assert_allclose(ours, isotonic, atol=1e-12)
    assert (np.diff(after) > 0).all()
    cost = -xlogy(w_nu, isotonic).sum() - xlogy(w_de, 1 - isotonic).sum()
    assert least_cllr(pooled) == pytest.approx(cost / 2 / math.log(2), abs=1e-9)


def test_blocks_of_many_types_by_slow_pooling():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=5000)
    f_nu = rng.poisson(1 / (1 + np.exp(-scores)))
    pooled = aggregate_ties(scores, f_nu, rng.poisson(2, 5000))
    blocks: list[list[int]] = []  # [f_nu, f_de, types]
    for frequencies in zip(pooled.f_nu.tolist(), pooled.f_de.tolist(), strict=True):
        blocks.append([*frequencies, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    assert [*pav(pooled)[0], len(pooled.f_nu)] == np.cumsum([0, *(types for _, _, types in blocks)]).tolist()


def test_a_convex_order_stays_and_its_end_may_pool_all_of_it():
    k = np.arange(1, 2001)
    scores, ones = k.astype(float), np.ones(2000, int)
    assert len(pav(aggregate_ties(scores, k, ones))[0]) == 2000
    assert len(pav(aggregate_ties(scores, np.where(k < 2000, k, 0), np.where(k < 2000, 1, 10**9)))[0]) == 1
    assert len(pav(aggregate_ties(scores, k[::-1], ones))[0]) == 1


@given(FINITE, st.sampled_from([0.25, 1.0, 3.0]))
def test_slope_and_offset_are_those_of_logistic_regression(types, scale):
    pooled = aggregate_ties(*columns(types, scale))
    slope, offset = regression(pooled)
    if not all(pooled.sizes):
        return
    scores, labels, weights = occurrences(pooled)
    target, other = scores[labels == 1], scores[labels == 0]
    assert (slope is not None) == (target.min() < other.max() and other.min() < target.max())
    if slope is None or offset is None:
        return
    model = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000)
    model.fit(scores[:, None], labels, sample_weight=weights * len(weights))
    z = slope * scores + offset
    p = 1 / (1 + np.exp(-z))
    assert abs((weights * (p - labels)).sum()) < 1e-9  # the score equations hold
    assert abs((weights * (p - labels) * scores).sum()) < 1e-9
    assert model.coef_[0, 0] == pytest.approx(slope, rel=1e-4, abs=1e-5)
    assert model.intercept_[0] == pytest.approx(offset, rel=1e-4, abs=1e-4)


def test_rounding_never_hides_the_slope():
    """A step that gains less than rounding hides must still be taken."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores = rng.normal(rng.uniform(-3, 3), rng.uniform(0.3, 8), 3000)
        f_nu = rng.poisson(0.05 * np.exp(np.clip(scores * rng.uniform(0.2, 1.5), -8, 4)))
        assert regression(aggregate_ties(scores, f_nu, rng.poisson(1, 3000)))[0] is not None


@pytest.mark.parametrize("scores", [[-np.inf, 0.0, 1.0], [0.0, 1.0, np.inf]])
def test_infinite_ratios_have_no_slope(scores):
    measured = calibration_metrics(occur(scores, [1, 1, 1], [1, 1, 1]))
    assert (measured.slope, measured.offset) == (None, None)
    assert measured.least is not None


# --- all measures ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scores", "f_nu", "f_de", "targets", "others"),
    [
        ([1.0, -np.inf], [2, 1], [0, 0], 3, 0),
        ([np.nan, 1.0], [0, 0], [1, 4], 0, 5),
        ([], [], [], 0, 0),
        ([1.0], [0], [0], 0, 0),
    ],
)
def test_without_targets_or_others_nothing_is_measured(scores, f_nu, f_de, targets, others):
    pooled = occur(scores, f_nu, f_de)
    columns = (pooled.log_ratios, pooled.f_nu, pooled.f_de)
    assert calibration_metrics(pooled) == CalibrationMeasures(targets, others)
    assert math.isnan(cllr(*columns))
    assert [len(column) for column in pav_curve(pooled)] == [0, 0, 0]
    assert all(each["real_low"] is None for each in bins(pooled))
    assert len(tippett(pooled)) == 3
    assert calibrations(*columns, np.zeros(len(pooled.f_nu), int), ["0"])["0"] == calibration_metrics(pooled)


@given(TYPES)
def test_nothing_is_less_than_the_least_and_nothing_warns(types):
    pooled = aggregate_ties(*columns(types))
    found = calibration_metrics(pooled)
    shares = tippett(pooled)[1:]
    assert all(((share >= 0) & (share <= 1)).all() and (np.diff(share) <= 0).all() for share in shares)
    assert sum(each["targets"] + each["others"] for each in bins(pooled)) == sum(pooled.sizes)
    if found.cllr is None or found.least is None or found.loss is None:
        assert not all(pooled.sizes)
        return
    assert 0 <= found.least <= 1 + 1e-12
    assert found.least <= found.cllr + 1e-12
    assert found.loss == pytest.approx(found.cllr - found.least, abs=1e-12)
    other = aggregate_ties(2 * pooled.log_ratios, pooled.f_nu, pooled.f_de)
    assert found.least <= cllr(other.log_ratios, other.f_nu, other.f_de) + 1e-12
    assert least_cllr(other) == pytest.approx(found.least, abs=1e-12)  # a monotone map changes nothing


def test_infinity_is_a_string_in_json():
    found = calibration_metrics(occur([-np.inf, 0.0], [1, 1], [1, 1])).to_dict()
    assert (found["cllr"], found["loss"], found["slope"]) == ("inf", "inf", None)


def known(types: int, seed: int = 2) -> tuple[Floats, ...]:
    """Types with known shares in both classes, and how often each occurs; the band depends on the type."""
    rng = np.random.default_rng(seed)
    log_ratios = rng.normal(-1.0, math.sqrt(2.0), types)  # of these, the ratios have the mean 1
    band = (log_ratios + rng.normal(0, 1, types) > 0).astype(int) + (rng.random(types) < 0.3)
    f_de = rng.poisson(2.0, types)
    return log_ratios, rng.poisson(0.5 * np.exp(log_ratios)), f_de, band


def test_right_ratios_have_no_loss_in_all_and_in_every_band():
    log_ratios, f_nu, f_de, band = known(200_000)
    found = calibrations(log_ratios, f_nu, f_de, band, ["0", "1", "2"])
    assert list(found) == ["all", "0", "1", "2"]
    for measured in found.values():
        assert measured.slope == pytest.approx(1, abs=0.03)
        assert measured.offset == pytest.approx(0, abs=0.03)
        assert 0 <= measured.loss < 0.004
    assert sum(found[name].targets for name in "012") == found["all"].targets
    for measured in calibrations(2 * log_ratios + 1, f_nu, f_de, band, "012").values():  # too strong and too high
        assert measured.slope == pytest.approx(0.5, abs=0.02)
        assert measured.loss > 0.05
    assert calibrations(2 * log_ratios + 1, f_nu, f_de)["all"].offset == pytest.approx(-0.5, abs=0.02)


def test_bins_of_right_ratios_hold_what_is_predicted():
    log_ratios, f_nu, f_de, _ = known(200_000)
    pooled = aggregate_ties(log_ratios, f_nu, f_de)
    found = bins(pooled)
    assert len(found) == 19
    sizes = np.array([each["targets"] + each["others"] for each in found]) / sum(pooled.sizes)
    assert sizes == pytest.approx([0.1] * 9 + [0.01] * 10, abs=1e-4)
    inside = [each["real_low"] < each["predicted"] < each["real_high"] for each in found]
    assert sum(inside) >= 16
    again = bins(aggregate_ties(2 * log_ratios, f_nu, f_de))
    assert not again[0]["real_low"] < again[0]["predicted"] < again[0]["real_high"]
    assert again[-1]["predicted"] > again[-1]["real_high"]


def test_a_bin_by_hand():
    pooled = occur(np.log([0.5, 2.0, 4.0]), [1, 2, 0], [6, 1, 1])
    first, second, third = bins(pooled, cuts=(0.5, 0.95))
    assert [first[name] for name in ("targets", "others", "predicted")] == [1, 6, 0.5]
    assert first["real"] == pytest.approx(1 / 3 / (6 / 8))
    width = 1.96 * math.sqrt(1 / 1 - 1 / 3 + 1 / 6 - 1 / 8)
    assert math.log(first["real_high"] / first["real"]) == pytest.approx(width, rel=1e-4)
    assert math.log(first["real"] / first["real_low"]) == pytest.approx(width, rel=1e-4)
    assert (second["predicted"], second["real"]) == (pytest.approx(2), pytest.approx(2 / 3 / (1 / 8)))
    assert (third["predicted"], third["real"], third["real_low"]) == (pytest.approx(4), 0.0, None)
    assert (third["low"], third["high"]) == (math.log(4), math.log(4))


def test_curves_by_hand():
    pooled = occur(np.log([0.1, 1.0, 10.0]), [1, 1, 2], [4, 3, 1])
    x, targets, others = tippett(pooled, 3)
    assert x == pytest.approx([-1, 0, 1])
    assert (targets.tolist(), others.tolist()) == ([0.75, 0.5, 0], [0.5, 0.125, 0])
    low, high, after = pav_curve(pooled)
    assert low == pytest.approx([-1, 0, 1])
    assert high == pytest.approx([-1, 0, 1])
    assert 10**after == pytest.approx([1 / 4 / (4 / 8), 1 / 4 / (3 / 8), 2 / 4 / (1 / 8)])

"""Score functions against SciPy and scikit-learn, and the selection against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from sklearn.metrics import mutual_info_score

from raregram import errors
from raregram.models import selection

TABLES = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30), st.integers(1, 30)).map(
    lambda cells: (cells[0], cells[1], cells[0] + cells[2], cells[1] + cells[3])  # f_nu, f_de, n_nu, n_de
)


@given(TABLES.filter(lambda table: table[0] + table[1] > 0))
def test_chi2_is_pearsons_statistic_over_n(table):
    f_nu, f_de, n_nu, n_de = table
    cells = [[f_nu, f_de], [n_nu - f_nu, n_de - f_de]]
    expected = chi2_contingency(cells, correction=False).statistic / (n_nu + n_de)
    assert selection.scores("chi2", [f_nu], [f_de], n_nu, n_de)[0] == pytest.approx(expected, abs=1e-12)


@given(TABLES)
def test_cet_of_an_item_and_of_its_absence_is_the_mutual_information(table):
    f_nu, f_de, n_nu, n_de = table
    present, absent = (
        selection.scores("cet", [nu], [de], n_nu, n_de)[0] for nu, de in ((f_nu, f_de), (n_nu - f_nu, n_de - f_de))
    )
    joint = np.array([[f_nu, f_de], [n_nu - f_nu, n_de - f_de]])
    expected = mutual_info_score(None, None, contingency=joint)
    assert present + absent == pytest.approx(expected, abs=1e-12)


def test_the_formulas_by_hand():
    # n = 10: p(t,c) = 0.3, p(t,c') = 0.1, p(t',c) = 0.2, p(t',c') = 0.4.
    by_hand = {
        "tf": 4,
        "gss": 0.3 * 0.4 - 0.1 * 0.2,
        "chi2": 0.1**2 / (0.4 * 0.6 * 0.5 * 0.5),
        "chi2_printed": 0.1**2 / (0.3 * 0.1 * 0.2 * 0.4),
        "cet": 0.3 * np.log(0.3 / (0.4 * 0.5)) + 0.1 * np.log(0.1 / (0.4 * 0.5)),
    }
    for criterion, value in by_hand.items():
        assert selection.scores(criterion, [3], [1], 5, 5)[0] == pytest.approx(value)


@pytest.mark.parametrize(("f_nu", "f_de"), [(0, 3), (3, 0), (5, 3), (3, 5), (0, 0), (5, 5)])
def test_chi2_printed_is_infinite_where_a_cell_is_empty(f_nu, f_de):
    assert selection.scores("chi2_printed", [f_nu], [f_de], 5, 5)[0] == np.inf


@pytest.mark.parametrize(("f_nu", "f_de", "n_nu", "n_de"), [(0, 0, 5, 5), (5, 5, 5, 5), (0, 3, 0, 5), (2, 0, 5, 0)])
def test_an_item_that_tells_nothing_has_no_score(f_nu, f_de, n_nu, n_de):
    """It was seen nowhere or everywhere, or there is but one class: dependence cannot show."""
    for criterion in ("chi2", "gss", "gss_abs", "cet"):
        assert selection.scores(criterion, [f_nu], [f_de], n_nu, n_de).tolist() == [0]


@pytest.mark.parametrize("criterion", selection.CRITERIA)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_scores_are_never_nan(criterion, pairs):
    f_nu, f_de = np.array(pairs).T
    scores = selection.scores(criterion, f_nu, f_de, 9, 9)
    assert scores.shape == (len(pairs),)
    assert not np.isnan(scores).any()


def test_random_depends_on_the_seed_alone():
    first, again, other = (selection.scores("random", [1, 2, 3], [0, 0, 0], 5, 5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    np.testing.assert_array_equal(
        selection.scores("random", [1], [0], 5, 5), selection.scores("random", 1, [0], 5, 5, seed=0)
    )
    # The stream of PCG64 is promised by NumPy; a selection made today must be the same tomorrow.
    np.testing.assert_allclose(first, [0.5118216247002567, 0.9504636963259353, 0.14415961271963373], rtol=1e-15)


def test_unknown_criterion_names_the_known_ones():
    message = r"^The criterion parameter of scores must be one of 'random', 'tf', 'cet', 'chi2'.*Got 'mi' instead"
    with pytest.raises(errors.ParameterError, match=message):
        selection.scores("mi", [1], [1], 2, 2)


def test_scores_need_contexts():
    with pytest.raises(errors.ParameterError, match=r"^The n_nu and n_de parameters of scores must not both be 0\.$"):
        selection.scores("cet", [0], [0], 0, 0)
    assert selection.scores("cet", [1], [0], 1, 0).tolist() == [0]  # one is enough


SCORED = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, np.inf]), st.integers(0, 3)), min_size=1, max_size=30)


@given(SCORED, st.integers(1, 35))
def test_top_is_the_head_of_a_plain_sort(scored, size):
    score, frequency = (np.array(column) for column in zip(*scored, strict=True))
    order = sorted(range(len(scored)), key=lambda i: (-score[i], -frequency[i], i))
    assert selection.top(score, frequency, size).tolist() == sorted(order[:size])


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_size_must_be_a_whole_number(size):
    with pytest.raises(errors.ParameterError, match="size parameter of top must be a whole number >= 1"):
        selection.top(np.ones(3), np.ones(3), size)

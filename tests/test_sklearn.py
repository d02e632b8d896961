"""The scikit-learn estimator in scikit-learn's own hands."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

import raregram as rg
from raregram.sklearn import FeatureSelectiveLR

COLUMNS = ("selective", "product")  # estimators with a ratio for each column,
WHOLE = ("direct", "smoothed", "mle")  # and for rows as a whole
# What differs between estimators: whether rows are known as a whole, and so the shapes and values of what comes out.
FOR_ALL = {"check_estimators_nan_inf", "check_estimators_pickle", "check_fit_idempotent", "check_classifiers_train"}
FOR_ALL |= {"check_methods_sample_order_invariance", "check_estimator_sparse_tag", "check_fit2d_1sample"}
LEFT_OUT = set()
if sklearn.__version__.startswith("1.6."):  # weighted and repeated rows got other classes where there are two
    LEFT_OUT.add("check_sample_weight_equivalence_on_dense_data")
CHECKS = [
    (estimator, check)
    for name in (*COLUMNS, *WHOLE)
    for estimator, check in estimator_checks_generator(FeatureSelectiveLR(name))
    if check.func.__name__ not in LEFT_OUT and (name == "selective" or check.func.__name__ in FOR_ALL)
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[f"{e.estimator}-{c.func.__name__}" for e, c in CHECKS])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data(corpus):
    contexts, labels = corpus
    return np.array([context.split() for context in contexts]), np.array([label == "LOC" for label in labels])


def test_decision_function_is_the_log_ratio_of_the_library(data, corpus):
    X, y = data
    shell = FeatureSelectiveLR(criterion="chi2", size=5, lam=1e-3, calibrate=False).fit(X, y)
    counts = rg.Counts.from_contexts(corpus[0], corpus[1])
    model = rg.fit(counts, "LOC", "selective", criterion="chi2", size=5, lam=1e-3)
    np.testing.assert_array_equal(shell.decision_function(X), model.log_ratio(corpus[0]))


def test_all_used_without_ridge_is_the_part_of_naive_bayes_that_looks_at_present_items(data):
    X, y = data
    encoder = OneHotEncoder().fit(X)
    oracle = BernoulliNB(alpha=1).fit(encoder.transform(X), y)
    expected = encoder.transform(X) @ (oracle.feature_log_prob_[1] - oracle.feature_log_prob_[0])
    shell = FeatureSelectiveLR("product", lam=0, calibrate=False).fit(X, y)
    np.testing.assert_allclose(shell.decision_function(X), expected, atol=1e-12)
    np.testing.assert_allclose(np.log(shell.class_count_ / shell.class_count_.sum()), oracle.class_log_prior_)


def test_probabilities_use_the_class_prior(data):
    X, y = data
    shell = FeatureSelectiveLR(size=5).fit(X, y)
    odds = np.exp(shell.decision_function(X)) * y.sum() / (~y).sum()
    np.testing.assert_allclose(shell.predict_proba(X)[:, 1], odds / (1 + odds))
    np.testing.assert_allclose(shell.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_array_equal(shell.predict(X), shell.predict_proba(X)[:, 1] > 0.5)
    even = FeatureSelectiveLR(size=5, fit_prior=False).fit(X, y)
    np.testing.assert_array_equal(even.predict(X), shell.decision_function(X) > 0)


@pytest.mark.parametrize("estimator", [*COLUMNS, *WHOLE])
def test_partial_fit_is_fit_to_the_last_bit(data, estimator):
    X, y = data
    whole = FeatureSelectiveLR(estimator, size=4).fit(X, y)
    parts = FeatureSelectiveLR(estimator, size=4)
    order = np.argsort(y, kind="stable")  # the first parts hold one class only
    for rows in np.array_split(order, 5):
        parts.partial_fit(X[rows], y[rows], classes=[False, True])
    np.testing.assert_array_equal(parts.decision_function(X), whole.decision_function(X))
    assert parts.counts_ == whole.counts_


def test_partial_fit_with_one_class_so_far_is_not_fitted(data):
    X, y = data
    shell = FeatureSelectiveLR().partial_fit(X[~y], y[~y], classes=[False, True])
    with pytest.raises(NotFittedError):
        shell.predict(X)


def test_numbers_are_categories(data):
    X, y = data
    _, numbers = np.unique(X, return_inverse=True)
    numbers = numbers.reshape(X.shape)
    plain = FeatureSelectiveLR(calibrate=False)
    expected = plain.fit(X, y).decision_function(X)
    calibrated = (
        FeatureSelectiveLR().fit(numbers, y).decision_function(numbers)
    )  # folds go by the names of categories
    forms = (numbers, numbers.astype(float), numbers.astype(object), numbers.astype(str), pd.DataFrame(numbers))
    for form in forms:
        np.testing.assert_array_equal(plain.fit(form, y).decision_function(form), expected)
        np.testing.assert_array_equal(FeatureSelectiveLR().fit(form, y).decision_function(form), calibrated)
    trained_on_ints = plain.fit(numbers, y)
    np.testing.assert_array_equal(trained_on_ints.decision_function(numbers.astype(float)), expected)


def test_two_valued_labels_of_any_kind(data):
    X, y = data
    for values in (["no", "yes"], [0, 1], [-1, 1], [1.0, 2.0]):
        labels = np.where(y, values[1], values[0])
        shell = FeatureSelectiveLR().fit(X, labels)
        assert set(shell.predict(X)) <= set(labels)
        assert shell.classes_[1] == max(labels)


def upper(X):
    """A step of a pipeline that can be pickled, which NumPy's own function cannot be with old versions."""
    return np.char.upper(X)


def test_works_in_a_pipeline_a_grid_search_and_a_clone(data):
    X, y = data
    lower = FunctionTransformer(upper)
    search = GridSearchCV(
        make_pipeline(lower, FeatureSelectiveLR()),
        {
            "featureselectivelr__criterion": ["cet", "tf"],
            "featureselectivelr__size": [2, 20],
            "featureselectivelr__lam": [None, 0, 1e-3],
        },
        scoring="average_precision",
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > y.mean() * 2
    best = clone(search.best_estimator_)
    assert best.get_params()["featureselectivelr__lam"] == search.best_params_["featureselectivelr__lam"]
    assert cross_val_score(best, X, y, scoring="roc_auc").mean() > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.best_estimator_.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "best"}, "estimator parameter of FeatureSelectiveLR must be one of"),
        ({"criterion": "mi"}, "criterion parameter of fit must be one of"),
        ({"lam": -1}, "lam parameter of fit"),
        ({"size": 0}, "size parameter of fit"),
        ({"folds": 1}, "folds parameter of FeatureSelectiveLR must be .*2"),
        ({"prior": 1.0}, "prior parameter of FeatureSelectiveLR must be a number between 0 and 1, or None"),
    ],
)
def test_wrong_parameters_are_named_by_fit(data, options, message):
    with pytest.raises(ValueError, match=message):
        FeatureSelectiveLR(**options).fit(*data)


def test_other_numbers_of_classes_are_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        FeatureSelectiveLR().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="there is only one class"):
        FeatureSelectiveLR().fit(X, np.ones(len(X)))
    shell = FeatureSelectiveLR().fit(X, np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match="y has the class 7, but the classes are 0 and 1"):
        shell.partial_fit(X, np.full(len(X), 7))


def test_odd_parameters_and_values(data):
    X, y = data
    shell = FeatureSelectiveLR(size=np.int64(4), random_state=None).fit(X, y)
    assert shell.model_.params.size == 4
    odd = np.array([[True], [2.0], ["x"], [b"y"]], dtype=object)
    assert sorted(FeatureSelectiveLR("product").fit(odd, [0, 1, 0, 1]).counts_.items.to_pylist()) == [
        "1",
        "2",
        "x",
        "y",
    ]


@st.composite
def tables(draw):
    """Draw rows of categories and missing values, classes, and whole weights that leave both classes."""
    rows, columns = draw(st.integers(2, 12)), draw(st.integers(1, 3))
    value = st.sampled_from(["a", "b", "\x00", None, 1, 2.5])
    X = draw(st.lists(st.lists(value, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    y = draw(st.lists(st.booleans(), min_size=rows - 2, max_size=rows - 2))
    weight = draw(st.lists(st.integers(0, 4), min_size=rows - 2, max_size=rows - 2))
    return np.array(X, dtype=object), np.array([False, True, *y]), np.array([1, 2, *weight])


@given(st.sampled_from([*COLUMNS, *WHOLE]), tables())
def test_a_weight_is_a_number_of_rows(estimator, table):
    X, y, weight = table
    rows = np.repeat(np.arange(len(X)), weight)
    repeated = FeatureSelectiveLR(estimator, size=2).fit(X[rows], y[rows])
    weighted = FeatureSelectiveLR(estimator, size=2).fit(X, y, sample_weight=weight)
    parts = FeatureSelectiveLR(estimator, size=2)
    for some in (slice(2), slice(2, None)):
        if weight[some].any():
            parts.partial_fit(X[some], y[some], classes=[False, True], sample_weight=weight[some].astype(float))
    for shell in (weighted, parts):
        assert shell.counts_ == repeated.counts_
        np.testing.assert_array_equal(shell.class_count_, repeated.class_count_)
        np.testing.assert_array_equal(shell.decision_function(X), repeated.decision_function(X))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 0.5], r"sample_weight must be whole numbers .*: row 1 has 0\.5"),
        ([1e300, 1], r"up to 2\*\*53"),
        ([1, -1], "Negative values"),
        ([0, 0], "zero"),
        ([1, 0], "there is only one class: 0"),
        ([1, 1, 1], "shape"),
    ],
)
def test_other_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        FeatureSelectiveLR().fit([["a"], ["b"]], [0, 1], sample_weight=weight)


MISSING = (None, np.nan, pd.NA, pd.NaT, np.float32("nan"), np.datetime64("NaT"))


@given(st.sampled_from([*COLUMNS, *WHOLE]), st.sampled_from(["neutral", "formula"]), tables())
def test_a_missing_value_is_a_category_of_its_column(estimator, unseen, table):
    """It counts as one more name does, in the fit and in what is predicted; and all missing values are one."""
    X, y, weight = table
    options = {"size": 2, "lam": 0.1, "unseen": unseen, "calibrate": False}  # folds depend on the names
    shell = FeatureSelectiveLR(estimator, **options).fit(X, y, sample_weight=weight)
    named = np.where(np.array(None) == X, "missing", X).astype(object)
    by_name = FeatureSelectiveLR(estimator, **options).fit(named, y, sample_weight=weight)
    expected = by_name.decision_function(named)
    if estimator != "selective":  # of categories with equal scores it takes the first in byte order
        np.testing.assert_array_equal(shell.decision_function(X), expected)
    for missing in MISSING:
        np.testing.assert_array_equal(
            shell.decision_function(np.where(np.array(None) == X, missing, X)), shell.decision_function(X)
        )
    if estimator in COLUMNS:
        np.testing.assert_array_equal(shell.transform(X).sum(axis=1), shell.decision_function(X))
    else:
        assert not hasattr(shell, "transform")


def test_missing_values_do_not_dilute_the_others():
    """Half of one class has no value: what is missing speaks for that class, and with it the product is right."""
    X = np.array([[None]] * 50 + [["a"]] * 25 + [["b"]] * 25 + [["a"]] * 50 + [["b"]] * 50, dtype=object)
    shell = FeatureSelectiveLR("product", lam=0, calibrate=False).fit(X, [1] * 100 + [0] * 100)
    oracle = OneHotEncoder().fit(X)
    bayes = BernoulliNB(alpha=1).fit(oracle.transform(X), [1] * 100 + [0] * 100)
    difference = bayes.feature_log_prob_[1] - bayes.feature_log_prob_[0]
    cells = np.array([["a"], ["b"], [None]], dtype=object)
    np.testing.assert_allclose(shell.decision_function(cells), oracle.transform(cells) @ difference, atol=1e-12)
    assert shell.decision_function([[np.nan]])[0] > 3


def test_a_missing_value_in_a_column_that_had_none_is_a_category_never_seen():
    X, y = [["a"], ["a"], ["b"]], [0, 0, 1]
    for unseen in ("neutral", "formula"):
        shell = FeatureSelectiveLR("product", unseen=unseen, lam=0).fit(X, y)
        never_seen, missing = shell.decision_function([["c"], [None]])
        assert never_seen == missing
        assert (missing == 0) == (unseen == "neutral")


TABLE = {
    "colour": ["red", "red", "green", "green", None, "red"],
    "size": [1, 2, None, 2, 1, 2],
    "ripe": [True, False, None, True, True, False],
}


def polars_table(kind=None):
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    table = polars.DataFrame(TABLE)
    return table if kind is None else table.with_columns(polars.col("colour").cast(polars.Categorical))


@pytest.mark.parametrize(
    "form",
    [
        pd.DataFrame,
        lambda table: pd.DataFrame(table).convert_dtypes(),
        lambda table: pd.DataFrame(table).astype("category"),
        lambda table: pa.table(table).to_pandas(types_mapper=pd.ArrowDtype),
        pa.table,
        lambda table: polars_table(),
        lambda table: polars_table("categorical"),
    ],
    ids=["pandas", "pandas-nullable", "pandas-categorical", "pandas-arrow", "arrow", "polars", "polars-categorical"],
)
def test_tables_of_all_kinds_are_the_same(form):
    X, y = form(TABLE), [1, 1, 0, 0, 1, 0]
    rows = np.array(list(zip(*TABLE.values(), strict=True)), dtype=object)
    plain = FeatureSelectiveLR("product").fit(rows, y)
    shell = FeatureSelectiveLR("product").set_output(transform="pandas").fit(X, y)
    assert shell.counts_ == plain.counts_
    np.testing.assert_array_equal(shell.decision_function(X), plain.decision_function(rows))
    assert list(shell.feature_names_in_) == list(shell.get_feature_names_out()) == list(TABLE)
    terms = shell.transform(X)
    assert list(terms.columns) == list(TABLE)
    np.testing.assert_array_equal(terms, plain.transform(rows))
    assert list(plain.get_feature_names_out()) == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    "form", [pd.DataFrame, pa.table, lambda table: pytest.importorskip("polars").DataFrame(table)]
)
def test_large_integers_stay_apart_beside_floats(form):
    ids = [1212092628029698048 + i for i in range(40)]
    X, y = form({"id": ids * 5, "price": [0.5] * 200}), [i % 2 for i in range(40)] * 5
    shell = FeatureSelectiveLR("product", lam=0, calibrate=False).fit(X, y)
    assert set(map(str, ids)) <= set(shell.counts_.items.to_pylist())
    assert shell.score(X, y) == 1


def test_transform_feeds_a_linear_model(data):
    X, y = data
    pipeline = make_pipeline(FeatureSelectiveLR(size=20), LogisticRegression(solver="liblinear"))
    assert cross_val_score(pipeline, X, y, scoring="roc_auc").mean() > 0.8


def test_backoff_is_refused_with_what_to_use_instead(data):
    with pytest.raises(ValueError, match=r"columns of a table have no such order\. Take 'selective'"):
        FeatureSelectiveLR("backoff").fit(*data)


def test_a_cell_that_is_no_category_is_refused():
    with pytest.raises(ValueError, match="cannot be a category: unhashable type: 'list'"):
        FeatureSelectiveLR().fit(np.array([[[1]], ["a"]], dtype=object).reshape(-1, 1), [0, 1])


# --- probabilities that mean what they say ------------------------------------------------------------------------
COPIES = 4  # columns that tell the same thing with some noise, which naive Bayes takes as so many witnesses


def draw_copies(rows, seed, share=0.2):
    """Draw rows whose columns are noisy copies of one hidden category, classes, and the true probabilities."""
    generator = np.random.default_rng(seed)
    hidden_given_class = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    value_given_hidden = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    y = generator.random(rows) < share
    hidden = (generator.random(rows)[:, None] > hidden_given_class[y.astype(int)].cumsum(axis=1)[:, :3]).sum(axis=1)
    cumulated = value_given_hidden.cumsum(axis=1)[hidden][:, None, :3]
    X = (generator.random((rows, COPIES))[:, :, None] > cumulated).sum(axis=2)
    given_class = hidden_given_class @ value_given_hidden[:, X].prod(axis=2)  # (2, rows)
    odds = given_class[1] / given_class[0] * share / (1 - share)
    return X, y, odds / (1 + odds)


def excess(probability, true):
    """Return how much more than the truth a probability costs: the mean of Kullback and Leibler's divergence."""
    return float((true * np.log(true / probability) + (1 - true) * np.log((1 - true) / (1 - probability))).mean())


@pytest.mark.parametrize(("rows", "most", "worse"), [(300, 0.02, 0.003), (1000, 0.011, 0.003), (5000, 0.006, 0)])
@pytest.mark.parametrize("estimator", COLUMNS)
def test_probabilities_cost_about_as_much_as_those_that_scikit_learn_calibrates(estimator, rows, most, worse):
    """Five numbers fit better than the sigmoid's two where there are rows enough, and a little worse with few."""
    losses = {"ours": [], "plain": [], "sigmoid": [], "isotonic": []}
    for seed in range(3):
        X, y, _ = draw_copies(rows, seed)
        new, _, true = draw_copies(5000, 100 + seed)
        plain = FeatureSelectiveLR(estimator, calibrate=False)
        fitted = {"ours": FeatureSelectiveLR(estimator), "plain": plain}
        fitted |= {method: CalibratedClassifierCV(plain, method=method) for method in ("sigmoid", "isotonic")}
        for name, classifier in fitted.items():
            probability = classifier.fit(X, y).predict_proba(new)[:, 1]
            losses[name].append(excess(np.clip(probability, 1e-6, 1 - 1e-6), true))
    loss = {name: np.mean(values) for name, values in losses.items()}
    assert loss["ours"] < most
    assert loss["ours"] < loss["plain"] / 3
    assert loss["ours"] < loss["isotonic"]
    assert loss["ours"] < loss["sigmoid"] + worse


def test_a_calibrated_ratio_keeps_the_order_and_is_the_map_of_the_sum_of_the_columns():
    X, y, _ = draw_copies(500, 1)
    shell, plain = FeatureSelectiveLR().fit(X, y), FeatureSelectiveLR(calibrate=False).fit(X, y)
    assert shell.uncalibrated_ == ""
    assert shell.calibration_ == shell.model_.calibration
    assert shell.calibration_.targets == y.sum()
    assert shell.calibration_.others == (~y).sum()
    np.testing.assert_array_equal(shell.transform(X), plain.transform(X))
    np.testing.assert_array_equal(shell.decision_function(X), shell.calibration_.apply(plain.decision_function(X)))
    before, after = plain.decision_function(X), shell.decision_function(X)
    order = np.argsort(before, kind="stable")
    assert (np.diff(after[order]) >= 0).all()
    assert shell.counts_ == plain.counts_


@pytest.mark.parametrize("few", [1, 9])
def test_with_few_rows_of_a_class_there_is_no_calibration_and_a_reason(few):
    X, _, _ = draw_copies(100, 1)
    y = np.arange(100) < few
    shell = FeatureSelectiveLR().fit(X, y)
    assert shell.calibration_ is None
    assert (
        shell.uncalibrated_ == f"there are {100 - few} rows of one class and {few} of the other; it takes 10 of each"
    )
    np.testing.assert_array_equal(
        shell.decision_function(X), FeatureSelectiveLR(calibrate=False).fit(X, y).decision_function(X)
    )


def test_reasons_without_a_calibration():
    X, y, _ = draw_copies(200, 1)
    assert FeatureSelectiveLR(calibrate=False).fit(X, y).uncalibrated_ == "calibrate is False"
    assert FeatureSelectiveLR(calibrate=False).fit(X, y).rows_ is None
    for estimator in WHOLE:
        assert FeatureSelectiveLR(estimator).fit(X, y).uncalibrated_ == "its ratios may be 0 or infinite"
    shell = FeatureSelectiveLR().fit(X, y)
    assert shell.calibration_ is not None
    assert shell.fit(X[:12], np.arange(12) % 2).calibration_ is None  # nothing is left of an earlier fit


def test_folds_do_not_depend_on_order_weights_or_parts():
    X, y, _ = draw_copies(400, 2)
    weight = np.random.default_rng(3).integers(0, 4, len(y))
    order = np.random.default_rng(4).permutation(np.repeat(np.arange(len(y)), weight))
    expected = FeatureSelectiveLR().fit(X[order], y[order])
    assert expected.calibration_ is not None
    assert FeatureSelectiveLR().fit(X, y, sample_weight=weight).calibration_ == expected.calibration_
    parts = FeatureSelectiveLR()
    for rows in np.array_split(order, 3):
        parts.partial_fit(X[rows], y[rows])
    assert parts.calibration_ == expected.calibration_
    assert parts.rows_ == expected.rows_
    others = [FeatureSelectiveLR(random_state=1), FeatureSelectiveLR(folds=3)]
    assert all(other.fit(X[order], y[order]).calibration_ != expected.calibration_ for other in others)


def test_missing_values_and_tables_are_calibrated_too():
    X, y, _ = draw_copies(600, 5)
    holes = X.astype(object)
    holes[np.random.default_rng(6).random(X.shape) < 0.3] = None
    shell = FeatureSelectiveLR().fit(pd.DataFrame(holes).convert_dtypes(), y)
    assert shell.calibration_ == FeatureSelectiveLR().fit(holes, y).calibration_
    assert shell.decision_function([["a category never seen"] * COPIES]).tolist() == [0]
    assert shell.predict_proba([["a category never seen"] * COPIES])[0, 1] == pytest.approx(np.mean(y))


def test_a_prior_is_the_probability_where_nothing_is_known():
    X, y, _ = draw_copies(600, 7)
    shell = FeatureSelectiveLR(prior=0.01).fit(X, y)
    odds = np.exp(shell.decision_function(X)) * 0.01 / 0.99
    np.testing.assert_allclose(shell.predict_proba(X)[:, 1], odds / (1 + odds))
    np.testing.assert_allclose(np.exp(shell.predict_log_proba(X)).sum(axis=1), 1)
    np.testing.assert_array_equal(shell.predict(X), shell.decision_function(X) > np.log(99))
    again = pickle.loads(pickle.dumps(shell))
    np.testing.assert_array_equal(again.predict_proba(X), shell.predict_proba(X))

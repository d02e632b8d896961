"""The scikit-learn estimator in scikit-learn's own hands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

import raregram as rg
from raregram.sklearn import FeatureSelectiveLR

LEFT_OUT = {"check_array_api_input"}  # runs only where SciPy's array API is switched on
if int(sklearn.__version__.split(".")[1]) < 8:
    LEFT_OUT.add("check_positive_only_tag_during_fit")  # then failed of itself for categories, before any fit
CHECKS = [
    (estimator, check)
    for name in ("selective", "product", "direct", "smoothed", "mle")
    for estimator, check in estimator_checks_generator(FeatureSelectiveLR(name))
    if check.func.__name__ not in LEFT_OUT
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
    shell = FeatureSelectiveLR(criterion="chi2", size=5, lam=1e-3).fit(X, y)
    counts = rg.Counts.from_contexts(corpus[0], corpus[1])
    model = rg.fit(counts, "LOC", "selective", criterion="chi2", size=5, lam=1e-3)
    np.testing.assert_array_equal(shell.decision_function(X), model.log_ratio(corpus[0]))


def test_all_used_without_ridge_is_the_part_of_naive_bayes_that_looks_at_present_items(data):
    X, y = data
    encoder = OneHotEncoder().fit(X)
    oracle = BernoulliNB(alpha=1).fit(encoder.transform(X), y)
    expected = encoder.transform(X) @ (oracle.feature_log_prob_[1] - oracle.feature_log_prob_[0])
    shell = FeatureSelectiveLR("product", lam=0).fit(X, y)
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


@pytest.mark.parametrize("estimator", ["selective", "product", "direct", "smoothed", "mle"])
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
    expected = FeatureSelectiveLR().fit(X, y).decision_function(X)
    forms = (numbers, numbers.astype(float), numbers.astype(object), numbers.astype(str), pd.DataFrame(numbers))
    for form in forms:
        np.testing.assert_array_equal(FeatureSelectiveLR().fit(form, y).decision_function(form), expected)
    trained_on_ints = FeatureSelectiveLR().fit(numbers, y)
    np.testing.assert_array_equal(trained_on_ints.decision_function(numbers.astype(float)), expected)


def test_floats_that_are_not_whole_stay_apart():
    X, y = [[0.5], [0.25], [0.5], [2.0]], [1, 0, 1, 0]
    shell = FeatureSelectiveLR("product").fit(X, y)
    assert sorted(shell.counts_.items.to_pylist()) == ["0.25", "0.5", "2"]


def test_two_valued_labels_of_any_kind(data):
    X, y = data
    for values in (["no", "yes"], [0, 1], [-1, 1], [1.0, 2.0]):
        labels = np.where(y, values[1], values[0])
        shell = FeatureSelectiveLR().fit(X, labels)
        assert set(shell.predict(X)) <= set(labels)
        assert shell.classes_[1] == max(labels)


def test_works_in_a_pipeline_a_grid_search_and_a_clone(data):
    X, y = data
    lower = FunctionTransformer(np.char.upper)
    search = GridSearchCV(
        make_pipeline(lower, FeatureSelectiveLR()),
        {"featureselectivelr__criterion": ["cet", "tf"], "featureselectivelr__lam": [0, 1e-3]},
        scoring="average_precision",
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > y.mean() * 2
    best = clone(search.best_estimator_)
    assert best.get_params()["featureselectivelr__lam"] == search.best_params_["featureselectivelr__lam"]
    assert cross_val_score(best, X, y, scoring="roc_auc").mean() > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "best"}, "estimator parameter of FeatureSelectiveLR must be one of"),
        ({"criterion": "mi"}, "criterion parameter of fit must be one of"),
        ({"lam": -1}, "lam parameter of fit"),
        ({"size": 0}, "size parameter of fit"),
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

"""scikit-learn estimators: thin shells around the count table and the model. Extra `sklearn`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.table import LARGEST_TOTAL, Counts, Ints
from raregram.errors import (
    InputError,
    MissingExtraError,
    ParameterError,
    check_choice,
    check_count,
    must_be,
    shorten,
)
from raregram.models.calibration import Calibration, HeldOut, held_out, learn
from raregram.models.fit import fit
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.models.registry import find_estimator
from raregram.models.units import Product
from raregram.options import CRITERION, LAM, SIZE, UNSEEN, Criterion, Unseen
from raregram.text.ngrams import LONGEST_NGRAM
from raregram.text.vocabulary import Codes

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError(
        "raregram.sklearn needs scikit-learn 1.6 or newer: pip install 'raregram[sklearn]'"
    ) from error

TableEstimator: TypeAlias = Literal["selective", "product", "direct", "smoothed", "mle"]

TARGET = "target"
LEAST_ROWS = 10  # of each class, to learn a calibration from
NONE = "\x00"  # the category of missing values; no other has this name


class FeatureSelectiveLR(ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Classify rows of categories by their likelihood ratio, with the categories that tell the two classes apart.

    A naive Bayes classifier for two classes that selects its features. Every distinct value of a column is a
    category, and X needs no encoding: strings, booleans and numbers are taken as they are. Each category has a
    likelihood ratio p(category | positive class) / p(category | negative class), estimated so that rare ones do not
    become extreme. Those with the highest scores are selected in each column, and the ratio of a row is the product
    of the ratios of its selected categories. All other categories have the factor 1, and so have categories that
    were not in the training data.

    >>> X = [["red", "round"], ["red", "long"], ["green", "long"], ["green", None]]
    >>> y = ["apple", "apple", "bean", "bean"]
    >>> classifier = FeatureSelectiveLR().fit(X, y)
    >>> classifier.predict([["red", "flat"], ["green", "long"]]).tolist()
    ['apple', 'bean']
    >>> classifier.transform([["red", "flat"], ["green", "long"]]).round(2)  # the log ratio of each value
    array([[-1.1,  0. ],
           [ 1.1,  0. ]])

    Missing values (None, NaN, NaT, pandas' NA) are a category of their column, as in scikit-learn's `OneHotEncoder`
    and `TargetEncoder`: where they are more frequent in one class, they speak for it. In a column that had none in
    the training data, a missing value is a category that was not in it.

    Args:
        estimator: "selective"; "product" uses all categories; "direct", "smoothed" and "mle" compare how often a row
            as a whole was seen, which takes few columns and many rows. "backoff" is for words next to a boundary, not
            for tables: see `raregram.fit`.
        criterion: how "selective" scores categories; one of `raregram.selection.CRITERIA`.
        size: how many categories "selective" keeps in each column.
        lam: the ridge, which pulls the ratios of rare categories down; 0 for none. None: in relation to the number of
            rows, such that a category never seen has the ratio 1. For "smoothed" it is the frequency that is added to
            that of each row; None: 1.
        unseen: the factor of a category that was never seen in its column: "neutral" is 1; "formula" is what the
            ridge makes of the frequency 0.
        fit_prior: whether `predict` and `predict_proba` use the class frequencies; else both classes are even,
            and `predict` tells the sign of `decision_function`.
        prior: the probability of the positive class before a row is known, between 0 and 1, in place of the class
            frequencies, e.g. where rows were sampled by class; None: as `fit_prior` says.
        calibrate: whether the log ratio of a row, and so its probability, is to mean what it says for rows that were
            not in the fit. Columns that tell the same thing are multiplied as if they were independent, which makes
            ratios too extreme; so each fold of the rows is scored by a fit to the others, and a monotone map is
            learned from these scores. The order of rows stays. Rows are taken as independent. This keeps all
            distinct rows; False keeps the frequencies of the categories alone.
        folds: how many folds `calibrate` makes.
        random_state: seed of the criterion "random" and of the folds; None is 0.

    Attributes:
        classes_: the two classes, the positive one last.
        class_count_: number of rows of each class.
        counts_: the count table: all that was learned from the rows.
        rows_: the table of whole rows by which ratios are calibrated; None if they are not to be.
        model_: the fitted `raregram.Model`.
        calibration_: the map that was learned, a `raregram.models.calibration.Calibration`; None if there is none.
        uncalibrated_: why there is none, in words; "" if there is one.
        n_features_in_: number of columns.
        feature_names_in_: names of the columns, if X was a table (pandas, Polars, Arrow) with strings as names.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters are arguments
        self,
        estimator: TableEstimator = "selective",
        *,
        criterion: Criterion = CRITERION.default,
        size: int = SIZE.default,
        lam: float | None = LAM.default,
        unseen: Unseen = UNSEEN.default,
        fit_prior: bool = True,
        prior: float | None = None,
        calibrate: bool = True,
        folds: int = 5,
        random_state: int | None = 0,
    ) -> None:
        self.estimator = estimator
        self.criterion = criterion
        self.size = size
        self.lam = lam
        self.unseen = unseen
        self.fit_prior = fit_prior
        self.prior = prior
        self.calibrate = calibrate
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FeatureSelectiveLR:
        """Fit the model from rows and their classes.

        Args:
            X: rows of categories: an array or a table (pandas, Polars, Arrow).
            y: their classes.
            sample_weight: how often each row counts, in whole numbers; None: once.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        return self._learn(X, y, None, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> FeatureSelectiveLR:
        """Add rows to what was learned: the same as one `fit` on all of them, to the last bit.

        Args:
            X: rows of categories.
            y: their classes.
            classes: both classes; needed in the first call if `y` does not hold both.
            sample_weight: how often each row counts, in whole numbers; None: once.
        """
        return self._learn(X, y, classes, sample_weight)

    def decision_function(self, X: Any) -> Floats:
        """Return the log ratio of each row: the natural logarithm of p(row | positive) / p(row | negative).

        It is calibrated, if the classifier is: see `calibration_`.
        """
        codes = self._encode(X)
        return self.model_.log_ratio(codes)

    def transform(self, X: Any) -> Floats:
        """Return the log ratio of each value, (rows, columns).

        A row adds up to its `decision_function` before that is calibrated: `calibration_.apply` is the step between.
        These are numbers in place of categories ("weight of evidence"), for a model that needs numbers. Only
        "selective" and "product" have it. As with any encoding by the target, rows that were in the fit look
        more certain than new ones.
        """
        codes = self._encode(X)
        assert isinstance(self.model_.estimator, Product)
        return self.model_.estimator.unit_scores(codes)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class: (rows, 2)."""
        log_odds = self._log_odds(X)
        return np.column_stack([-np.logaddexp(0, log_odds), -np.logaddexp(0, -log_odds)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class: (rows, 2)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class of each row."""
        positive = self._log_odds(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what fits: two classes, categories of any kind, missing values."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> FeatureSelectiveLR:
        """Count the rows, add them to what there is, and fit the model once both classes were seen."""
        self._check_parameters()
        first = not hasattr(self, "counts_")
        checked, y = validate_data(self, X, y, reset=first, dtype=object, ensure_all_finite="allow-nan")
        weight = _whole_weights(sample_weight, checked)
        counted = weight > 0
        ngrams, y, weight = _as_ngrams(X, checked).filter(pa.array(counted)), y[counted], weight[counted]
        check_classification_targets(y)
        classes = np.unique(y if classes is None else classes) if first else self.classes_
        _check_two(classes, y)
        f_nu, f_de = np.where(y == classes[1], weight, 0), np.where(y == classes[1], 0, weight)
        counts = _count(ngrams, f_nu, f_de, find_estimator(self.estimator).spans_to_count())
        rows = None
        if self.calibrate and _has_columns(self) and (first or self.rows_ is not None):
            rows = _count(ngrams, f_nu, f_de, ["units", "whole"])
        if not first:
            counts, rows = self.counts_ + counts, None if rows is None else self.rows_ + rows
        n_positive, n_negative = counts.sizes(TARGET)
        if n_positive and n_negative:
            model = self._fit(counts)
            self.calibration_, self.uncalibrated_ = self._learn_calibration(rows)
            self.model_: Model = replace(model, calibration=self.calibration_)
        # Only now, since a fit that failed may be called again.
        self.counts_: Counts = counts
        self.rows_: Counts | None = rows
        self.classes_: npt.NDArray[Any] = classes
        self.class_count_ = np.array([n_negative, n_positive])
        return self

    def _check_parameters(self) -> None:
        """Raise unless the parameters are within their ranges; those of `raregram.fit` are checked there."""
        estimator: str = self.estimator
        if estimator == "backoff":
            raise ParameterError(
                "FeatureSelectiveLR does not take the estimator 'backoff', which goes from the item next to a "
                "boundary outwards: columns of a table have no such order. Take 'selective' or 'product'; for words "
                "next to a boundary use raregram.fit"
            )
        check_choice("estimator", "FeatureSelectiveLR", estimator, get_args(TableEstimator))
        check_count("folds", "FeatureSelectiveLR", self.folds, at_least=2)
        prior = self.prior
        if prior is not None and (isinstance(prior, bool) or not isinstance(prior, Real) or not 0 < prior < 1):
            raise must_be("prior", "FeatureSelectiveLR", "a number between 0 and 1, or None", prior)

    def _fit(self, counts: Counts, ridge_times: float = 1.0) -> Model:
        """Fit the model to a table; in a part of it, a ridge that was given is as many rows as in the whole."""
        return fit(
            counts,
            TARGET,
            self.estimator,
            criterion=self.criterion,
            size=self.size,
            lam=None if self.lam is None else self.lam * ridge_times,
            unseen=self.unseen,
            seed=self.random_state or 0,
        )

    def _learn_calibration(self, rows: Counts | None) -> tuple[Calibration | None, str]:
        """Learn a map from the folds of the rows; or return why there is none."""
        if rows is None:
            return None, "calibrate is False" if _has_columns(self) else "its ratios may be 0 or infinite"
        n_positive, n_negative = rows.sizes(TARGET)
        if min(n_positive, n_negative) < LEAST_ROWS:
            found = f"there are {n_negative:,} rows of one class and {n_positive:,} of the other"
            return None, f"{found}; it takes {LEAST_ROWS} of each"
        try:
            return learn(self._score_folds(rows)), ""
        except InputError as error:
            return None, str(error)

    def _score_folds(self, rows: Counts) -> Iterator[HeldOut]:
        """Score the rows of each fold by a fit to the others.

        Each occurrence of a row draws its fold. The draws depend on the frequencies of the distinct rows alone: not
        on their order, nor on whether they came with weights.
        """
        generator, shares = np.random.default_rng(self.random_state or 0), np.full(self.folds, 1 / self.folds)
        ngrams, frequencies = rows.whole_ngrams().lists(), rows.frequencies(rows.whole_rows, TARGET)
        by_fold = [generator.multinomial(f, shares).T for f in frequencies]  # each (folds, distinct rows)
        for f_nu, f_de in zip(*by_fold, strict=True):
            drawn = f_nu + f_de > 0
            if not drawn.any():
                continue
            fold = _count(ngrams.filter(pa.array(drawn)), f_nu[drawn], f_de[drawn], ["units", "whole"])
            rest = rows - fold
            if not all(rest.sizes(TARGET)):
                raise InputError("all rows of a class are in one fold")
            model = self._fit(rest, rows.sizes(TARGET)[1] / rest.sizes(TARGET)[1])
            yield held_out(model, fold, short=False)

    def _log_odds(self, X: Any) -> Floats:
        """Return the logarithm of the odds of the positive class; no evidence (NaN) leaves the prior odds."""
        log_ratio = self.decision_function(X)
        if self.prior is not None:
            prior = np.log(self.prior) - np.log1p(-self.prior)
        else:
            prior = np.log(self.class_count_[1] / self.class_count_[0]) if self.fit_prior else 0.0
        return np.asarray(np.where(np.isnan(log_ratio), 0.0, log_ratio) + prior)

    def _encode(self, X: Any) -> Codes:
        """Return the codes of rows."""
        check_is_fitted(self, "model_")
        checked = validate_data(self, X, reset=False, dtype=object, ensure_all_finite="allow-nan")
        return self.model_.encode(_as_ngrams(X, checked))


def _has_columns(classifier: FeatureSelectiveLR) -> bool:
    """Whether each column has a ratio of its own."""
    return classifier.estimator in ("selective", "product")


# Behind the class, since scikit-learn wraps `transform` for `set_output` when a class is made, and hides conditions.
for _name in ("transform", "fit_transform"):
    setattr(FeatureSelectiveLR, _name, available_if(_has_columns)(getattr(FeatureSelectiveLR, _name)))


def _whole_weights(sample_weight: Any, X: npt.NDArray[Any]) -> Ints:
    """Return how often each row counts; raise unless these are whole numbers and some row counts."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    for row in np.flatnonzero((weight != np.floor(weight)) | (weight > LARGEST_TOTAL))[:1].tolist():
        raise InputError(
            "sample_weight must be whole numbers up to 2**53, which say how often a row counts: "
            f"row {row} has {weight[row]:g}"
        )
    if not weight.any():
        raise InputError("sample_weight is zero for all rows: there is nothing to learn from")
    return np.asarray(weight, dtype=np.int64)


def _count(ngrams: pa.Array, f_nu: Ints, f_de: Ints, spans: list[str]) -> Counts:
    """Count rows of categories; a category is what it is, and not split."""
    return Counts.from_ngrams(ngrams, f_nu, f_de, target=TARGET, spans=spans, tokenize="whitespace")


def _check_two(classes: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
    """Raise unless there are two classes and no others in `y`."""
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)} with {len(classes)} classes."
        )
    names = classes.tolist()
    if len(names) < 2:
        raise ValueError(f"This classifier needs two classes, but there is only one class: {names[0]!r}")
    others = np.setdiff1d(y, classes).tolist()
    if others:
        raise ValueError(f"y has the class {others[0]!r}, but the classes are {names[0]!r} and {names[1]!r}")


def _as_ngrams(table: Any, X: npt.NDArray[Any]) -> pa.Array:
    """Return the rows as lists of categories, which are named by their values, so 1 and 1.0 are the same.

    Args:
        table: as it was given. It is read by columns, since one array for all makes floats of large integers.
        X: the same as an array.
    """
    rows, columns = X.shape
    if columns > LONGEST_NGRAM:
        raise InputError(f"X has {columns:,} columns; this classifier takes at most {LONGEST_NGRAM:,}")
    if hasattr(table, "iloc"):  # pandas
        values = [table.iloc[:, column].tolist() for column in range(columns)]
    elif hasattr(table, "get_columns"):  # Polars
        values = [column.to_list() for column in table.get_columns()]
    elif isinstance(table, pa.Table | pa.RecordBatch):
        values = [column.to_pylist() for column in table.columns]
    else:
        values = X.T.tolist()
    category = lru_cache(maxsize=None, typed=True)(_category)  # most values come again
    try:
        for column, of_column in enumerate(values):
            _check_kinds(column, of_column, category)
        items = pa.array([category(value) for row in zip(*values, strict=True) for value in row], pa.string())
    except TypeError as error:
        raise InputError(f"X holds a value that cannot be a category: {error}") from None
    except UnicodeEncodeError as error:
        raise InputError(f"X holds a string that is not valid Unicode: {shorten(error.object)}") from None
    return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * columns, items)


def _check_kinds(column: int, values: list[Any], category: Callable[[Any], str]) -> None:
    """Raise if a column has a string and another value of the same name, which would be one category."""
    strings = {category(value) for value in values if isinstance(value, str)}
    if len(strings) in (0, len(values)):
        return
    for value in values:
        if not isinstance(value, str) and category(value) in strings:
            raise InputError(
                f"column {column} of X has both {shorten(value)} and {shorten(category(value))}, which would be one "
                "category: make them all strings or all numbers"
            )


def _category(value: Any) -> str:
    """Return the name of a category, `NONE` for a missing value."""
    if isinstance(value, str):
        return NONE + value if value.startswith(NONE) else value
    try:
        missing = value is None or bool(value != value)  # noqa: PLR0124 - NaN and NaT
    except TypeError:  # pandas' NA, of which nothing is true or false
        missing = True
    if missing:
        return NONE
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, bool | np.bool_) or (isinstance(value, float | np.floating) and float(value).is_integer()):
        return str(int(value))
    return str(value)

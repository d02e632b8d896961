"""scikit-learn estimators: thin shells around the count table and the model. Extra `sklearn`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.table import Counts
from raregram.errors import InputError, MissingExtraError, shorten
from raregram.models.fit import fit
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.models.registry import find_estimator
from raregram.options import CRITERION, ESTIMATOR, LAM, SIZE, UNSEEN, EstimatorName, Unseen
from raregram.text.ngrams import LONGEST_NGRAM, NGrams

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError(
        "raregram.sklearn needs scikit-learn 1.6 or newer: pip install 'raregram[sklearn]'"
    ) from error

TARGET = "target"
NONE = "\x00"


class FeatureSelectiveLR(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Likelihood ratio of categorical rows under one class against the other.

    Every column is a position, every distinct value a category (strings, whole numbers or floats, as they are).
    `decision_function` is the natural logarithm of p(x | positive class) / p(x | negative class).

    Args:
        estimator: "selective" (the default), "product", "direct", "smoothed" or "mle"; see `raregram.fit`, like the
            next ones.
        criterion: the score function of "selective".
        size: how many categories "selective" keeps in each column.
        lam: the ridge; for "smoothed" the frequency that is added.
        unseen: "neutral" or "formula".
        fit_prior: whether `predict` and `predict_proba` use the class frequencies; else both classes are even,
            and `predict` tells the sign of `decision_function`.
        random_state: seed of the criterion "random"; None is 0.

    Attributes:
        classes_: the two classes, the positive one last.
        class_count_: number of rows of each class.
        counts_: the count table: the sufficient statistics.
        model_: the fitted `raregram.Model`.
    """

    def __init__(
        self,
        estimator: EstimatorName = ESTIMATOR.default,
        *,
        criterion: str = CRITERION.default,
        size: int = SIZE.default,
        lam: float | None = LAM.default,
        unseen: Unseen = UNSEEN.default,
        fit_prior: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.estimator = estimator
        self.criterion = criterion
        self.size = size
        self.lam = lam
        self.unseen = unseen
        self.fit_prior = fit_prior
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> FeatureSelectiveLR:
        """Fit the model from rows and their classes."""
        for learned in ("classes_", "counts_", "model_", "class_count_"):
            self.__dict__.pop(learned, None)
        return self._learn(X, y, classes=None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> FeatureSelectiveLR:
        """Add rows to what was learned: the same as one `fit` on all of them, to the last bit.

        Args:
            X: rows of categories.
            y: their classes.
            classes: both classes; needed in the first call if `y` does not hold both.
        """
        return self._learn(X, y, classes)

    def decision_function(self, X: Any) -> Floats:
        """Return the log ratio of each row."""
        check_is_fitted(self, "model_")
        return self.model_.log_ratio(_as_items(validate_data(self, X, reset=False, dtype=None)))

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
        """Tell scikit-learn what fits: two classes, categories of any kind."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _learn(self, X: Any, y: Any, classes: Any) -> FeatureSelectiveLR:
        """Count the rows, add them to what there is, and fit the model once both classes were seen."""
        first = not hasattr(self, "counts_")
        X, y = validate_data(self, X, y, reset=first, dtype=None)
        check_classification_targets(y)
        classes = np.unique(y if classes is None else classes) if first else self.classes_
        _check_two(classes, y)
        more = Counts.from_contexts(
            _as_items(X),
            np.where(y == classes[1], TARGET, ""),
            targets=[TARGET],
            spans=find_estimator(self.estimator).spans_to_count(longest=1, shapes=False),
            tokenize="whitespace",  # a category is what it is
        )
        counts = more if first else self.counts_ + more
        n_all, n_positive = counts.totals.tolist()
        class_count = np.array([n_all - n_positive, n_positive])
        if class_count.all():
            self.model_: Model = fit(
                counts,
                TARGET,
                self.estimator,
                criterion=self.criterion,
                size=self.size,
                lam=self.lam,
                unseen=self.unseen,
                seed=0 if self.random_state is None else self.random_state,
            )
        # Only now, since a fit that failed may be called again.
        self.counts_: Counts = counts
        self.classes_: npt.NDArray[Any] = classes
        self.class_count_ = class_count
        return self

    def _log_odds(self, X: Any) -> Floats:
        """Return the logarithm of the odds of the positive class; no evidence (NaN) leaves the prior odds."""
        log_ratio = self.decision_function(X)
        prior = np.log(self.class_count_[1] / self.class_count_[0]) if self.fit_prior else 0.0
        return np.asarray(np.where(np.isnan(log_ratio), 0.0, log_ratio) + prior)


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


def _as_items(X: npt.NDArray[Any]) -> pa.Array:
    """Return the rows as lists of strings: a category is named by its value, so 1 and 1.0 are the same."""
    if X.shape[1] > LONGEST_NGRAM:
        raise InputError(f"X has {X.shape[1]:,} columns; this classifier takes at most {LONGEST_NGRAM:,}")
    if X.dtype.kind in "UO":
        try:
            items = pa.array([_category(value) for value in X.ravel().tolist()], pa.string())
        except UnicodeEncodeError as error:
            raise InputError(f"X holds a string that is not valid Unicode: {shorten(error.object)}") from None
    else:
        values, index = np.unique(X, return_inverse=True)
        names = pa.array([_category(value) for value in values.tolist()], pa.string())
        items = names.take(pa.array(index.ravel()))
    return NGrams.of_length(items, X.shape[1]).lists()


def _category(value: Any) -> str:
    """Return the name of a category; that of None is no string's."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return NONE + value if value.startswith(NONE) else value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, bool | np.bool_) or (isinstance(value, float | np.floating) and float(value).is_integer()):
        return str(int(value))
    return str(value)

"""Logistic regression by scikit-learn, with two solvers, on units and on units with suffixes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier

from benchmarks.rivals import SUFFIXES, Floats
from benchmarks.rivals.scikit import OneHot


class Linear(OneHot):
    """A linear classifier."""

    def make(self, **setting: Any) -> Any:
        """Make the classifier."""
        raise NotImplementedError

    def fit(self, **setting: Any) -> None:
        """Learn."""
        self.model = self.make(**setting).fit(self.matrix, self.labels)

    def score(self, formatted: list[str]) -> Floats:
        """Return the log odds."""
        return np.asarray(self.model.decision_function(self.vectorizer.transform(formatted)), dtype=np.float64)


class LiblinearUnits(Linear):
    """The exact solution, by liblinear."""

    settings = tuple({"C": strength} for strength in (0.3, 1.0, 3.0))

    def make(self, **setting: Any) -> Any:
        """Make the classifier."""
        return LogisticRegression(solver="liblinear", random_state=self.task.seed, **setting)


class LiblinearSuffixes(LiblinearUnits):
    """The same with suffixes."""

    suffixes = SUFFIXES


class SgdUnits(Linear):
    """Stochastic gradient descent, plain and averaged."""

    settings = tuple({"alpha": alpha, "average": average} for alpha in (1e-5, 3e-5) for average in (False, True))

    def make(self, **setting: Any) -> Any:
        """Make the classifier."""
        return SGDClassifier(loss="log_loss", random_state=self.task.seed, **setting)


class SgdSuffixes(SgdUnits):
    """The same with suffixes."""

    suffixes = SUFFIXES

"""The classifiers of scikit-learn: naive Bayes, and logistic regression by two solvers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.rivals import SUFFIXES, Bools, Floats, Rival, columns, marked_list


class Pickled(Rival):
    """A rival whose model is saved by pickling."""

    model: Any

    def save(self, folder: Path) -> None:
        with (folder / "model.pickle").open("wb") as file:
            pickle.dump(self.model, file, protocol=5)


class OneHot(Pickled):
    """Lines of position-marked tokens -> `CountVectorizer` -> a sparse matrix of zeros and ones."""

    suffixes: ClassVar[Sequence[int]] = ()
    vectorizer: Any
    matrix: Any
    labels: Bools | None

    def format(self, texts: pa.Array, labels: Bools | None = None) -> list[str]:
        return marked_list(texts, self.task.n, self.suffixes)

    def read(self, formatted: list[str], labels: Bools | None) -> None:
        self.vectorizer = CountVectorizer(analyzer=str.split, binary=True, dtype=np.float64)
        self.matrix, self.labels = self.vectorizer.fit_transform(formatted), labels


def log_odds(model: Any, matrix: Any) -> Floats:
    """Return the difference of the two classes' log probabilities, before they are made to add up to one."""
    log_probabilities = model.predict_joint_log_proba(matrix)
    return np.asarray(log_probabilities[:, 1] - log_probabilities[:, 0], dtype=np.float64)


class Bernoulli(OneHot):
    """Naive Bayes on the tokens that chi-square finds best."""

    settings = tuple({"k": k, "alpha": alpha} for k in (10_000, 50_000, "all") for alpha in (0.1, 1.0))
    classifier: ClassVar[Any] = BernoulliNB

    def fit(self, k: int | str, alpha: float) -> None:  # type: ignore[override]
        select = SelectKBest(chi2, k=k if k == "all" else min(int(k), self.matrix.shape[1]))
        selected = select.fit_transform(self.matrix, self.labels)
        self.model = (self.vectorizer, select, self.classifier(alpha=alpha).fit(selected, self.labels))

    def score(self, formatted: list[str]) -> Floats:
        vectorizer, select, model = self.model
        return log_odds(model, select.transform(vectorizer.transform(formatted)))


class Complement(Bernoulli):
    """The same with ComplementNB."""

    classifier = ComplementNB


class Categorical(Pickled):
    """CategoricalNB on a table of words, one column a position; unknown words are a category of their own.

    There is no selection of words: `SelectKBest` could only drop whole positions here.
    """

    settings = tuple({"alpha": alpha} for alpha in (0.001, 0.01, 0.1))

    def format(self, texts: pa.Array, labels: Bools | None = None) -> npt.NDArray[Any]:
        whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns(whole, self.task.n)])

    def read(self, formatted: npt.NDArray[Any], labels: Bools | None) -> None:
        self.encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, dtype=np.int32)
        self.table, self.labels = self.encoder.fit_transform(formatted) + 1, labels

    def fit(self, alpha: float) -> None:  # type: ignore[override]
        categories = [len(words) + 1 for words in self.encoder.categories_]
        model = CategoricalNB(alpha=alpha, min_categories=categories).fit(self.table, self.labels)
        self.model = (self.encoder, model)

    def score(self, formatted: npt.NDArray[Any]) -> Floats:
        encoder, model = self.model
        return log_odds(model, encoder.transform(formatted) + 1)


class LiblinearUnits(OneHot):
    """Logistic regression: the exact solution, by liblinear."""

    settings = tuple({"C": strength} for strength in (0.3, 1.0, 3.0))

    def classifier(self, **setting: Any) -> Any:
        """Make the classifier."""
        return LogisticRegression(solver="liblinear", random_state=self.task.seed, **setting)

    def fit(self, **setting: Any) -> None:
        self.model = (self.vectorizer, self.classifier(**setting).fit(self.matrix, self.labels))

    def score(self, formatted: list[str]) -> Floats:
        vectorizer, model = self.model
        return np.asarray(model.decision_function(vectorizer.transform(formatted)), dtype=np.float64)


class LiblinearSuffixes(LiblinearUnits):
    """The same with suffixes."""

    suffixes = SUFFIXES


class SgdUnits(LiblinearUnits):
    """Logistic regression by stochastic gradient descent, plain and averaged."""

    settings = tuple({"alpha": alpha, "average": average} for alpha in (1e-5, 3e-5) for average in (False, True))

    def classifier(self, **setting: Any) -> Any:
        """Make the classifier."""
        return SGDClassifier(loss="log_loss", random_state=self.task.seed, **setting)


class SgdSuffixes(SgdUnits):
    """The same with suffixes."""

    suffixes = SUFFIXES

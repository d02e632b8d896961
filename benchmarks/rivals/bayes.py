"""The naive Bayes classifiers of scikit-learn."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.rivals import Bools, Floats, Rival, columns
from benchmarks.rivals.scikit import OneHot


def log_odds(model: Any, matrix: Any) -> Floats:
    """Return the difference of the two classes' log probabilities, before they are made to add up to one."""
    log_probabilities = model.predict_joint_log_proba(matrix)
    return np.asarray(log_probabilities[:, 1] - log_probabilities[:, 0], dtype=np.float64)


class SelectedBayes(OneHot):
    """Naive Bayes on the tokens that chi-square finds best."""

    settings = tuple({"k": k, "alpha": alpha} for k in (10_000, 50_000, "all") for alpha in (0.1, 1.0))
    classifier: ClassVar[Any]

    def fit(self, k: int | str, alpha: float) -> None:  # type: ignore[override]
        """Select, then learn."""
        wanted = k if k == "all" else min(int(k), self.matrix.shape[1])
        select = SelectKBest(chi2, k=wanted)
        selected = select.fit_transform(self.matrix, self.labels)
        self.model = (select, self.classifier(alpha=alpha).fit(selected, self.labels))

    def score(self, formatted: list[str]) -> Floats:
        """Return the log odds."""
        select, model = self.model
        return log_odds(model, select.transform(self.vectorizer.transform(formatted)))


class Bernoulli(SelectedBayes):
    """BernoulliNB."""

    classifier = BernoulliNB


class Complement(SelectedBayes):
    """ComplementNB."""

    classifier = ComplementNB


class Categorical(Rival):
    """CategoricalNB on a table of words, one column a position; unknown words are a category of their own.

    There is no selection of words: `SelectKBest` could only drop whole positions here.
    """

    settings = tuple({"alpha": alpha} for alpha in (0.001, 0.01, 0.1))

    def format(self, texts: pa.Array, labels: Bools | None = None) -> npt.NDArray[Any]:
        """Return the table."""
        return np.column_stack(
            [column.to_numpy(zero_copy_only=False) for column in columns(_whole(texts), self.task.n)]
        )

    def read(self, formatted: npt.NDArray[Any], labels: Bools | None) -> None:
        """Number the words of each position."""
        self.encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, dtype=np.int32)
        self.table, self.labels = self.encoder.fit_transform(formatted) + 1, labels

    def fit(self, alpha: float) -> None:  # type: ignore[override]
        """Learn."""
        categories = [len(words) + 1 for words in self.encoder.categories_]
        self.model = CategoricalNB(alpha=alpha, min_categories=categories).fit(self.table, self.labels)

    def score(self, formatted: npt.NDArray[Any]) -> Floats:
        """Return the log odds."""
        return log_odds(self.model, self.encoder.transform(formatted) + 1)

    def save(self, folder: Path) -> None:
        """Pickle the encoder and the model."""
        with (folder / "model.pickle").open("wb") as file:
            pickle.dump((self.encoder, self.model), file, protocol=5)


def _whole(texts: pa.Array) -> pa.Array:
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts

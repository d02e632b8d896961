"""What the scikit-learn rivals share: position-marked tokens, counted as zero or one, then a classifier."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.rivals import Bools, Rival, marked_list


class OneHot(Rival):
    """Lines of position-marked tokens -> `CountVectorizer` -> a sparse matrix of zeros and ones."""

    suffixes: ClassVar[Sequence[int]] = ()
    vectorizer: Any
    matrix: Any
    labels: Bools | None
    model: Any

    def format(self, texts: pa.Array, labels: Bools | None = None) -> list[str]:
        """Return the lines."""
        return marked_list(texts, self.task.n, self.suffixes)

    def read(self, formatted: list[str], labels: Bools | None) -> None:
        """Make the matrix."""
        self.vectorizer = CountVectorizer(analyzer=str.split, binary=True, dtype=np.float64)
        self.matrix, self.labels = self.vectorizer.fit_transform(formatted), labels

    def save(self, folder: Path) -> None:
        """Pickle the vocabulary and the model."""
        with (folder / "model.pickle").open("wb") as file:
            pickle.dump((self.vectorizer, self.model), file, protocol=5)

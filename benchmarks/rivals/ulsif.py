"""uLSIF by densratio: a density ratio as a sum of Gaussian kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from densratio import densratio
from sklearn.decomposition import TruncatedSVD

from benchmarks.rivals import Bools, Floats, columns, marked_list, parts
from benchmarks.rivals.scikit import OneHot

DIMENSIONS, NEAREST = 50, 2
NUMERATOR, DENOMINATOR = 1_000, 5_000  # contexts that it takes at most
FOR_SVD = 200_000


class Ulsif(OneHot):
    """What it can take: the two nearest words, one-hot, made dense in 50 dimensions, and a sample of each class.

    With all ten words, so few dimensions are the most frequent words alone, and it finds nothing.
    It is made for few points in a few dimensions. It chooses the width of its kernels and the ridge itself, by
    cross-validation, which makes square matrices as large as the smaller sample.
    """

    settings = tuple({"kernels": kernels} for kernels in (100, 300))

    def format(self, texts: pa.Array, labels: Bools | None = None) -> list[str]:
        words = min(NEAREST, self.task.n)
        nearest = [pc.binary_join_element_wise(*columns(part, self.task.n)[-words:], " ") for _, part in parts(texts)]
        return marked_list(pa.chunked_array(nearest), words)

    def read(self, formatted: list[str], labels: Bools | None) -> None:
        assert labels is not None
        rng = np.random.default_rng(self.task.seed)
        super().read(formatted, labels)
        rows = rng.permutation(len(labels))
        self.svd = TruncatedSVD(min(DIMENSIONS, self.matrix.shape[1] - 1), random_state=self.task.seed)
        self.svd.fit(self.matrix[np.sort(rows[:FOR_SVD])])
        self.samples = [
            self.svd.transform(self.matrix[np.sort(rows[labels[rows] == label][:most])])
            for label, most in ((True, NUMERATOR), (False, DENOMINATOR))
        ]
        del self.matrix

    def fit(self, kernels: int) -> None:  # type: ignore[override]
        np.random.seed(self.task.seed)  # noqa: NPY002 - it draws its centres from there
        ratio: Any = densratio(*self.samples, method="uLSIF", kernel_num=kernels, verbose=False)
        self.model = (self.vectorizer, self.svd, ratio)

    def score(self, formatted: list[str]) -> Floats:
        vectorizer, svd, ratio = self.model
        dense = svd.transform(vectorizer.transform(formatted))
        parts = (dense[first : first + 10_000] for first in range(0, len(dense), 10_000))
        ratios = [np.asarray(ratio.compute_density_ratio(part), dtype=np.float64).ravel() for part in parts]
        return np.concatenate(ratios)

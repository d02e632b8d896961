"""raregram itself: the back-off estimator, the same in one megabyte, and the paper's selective estimator."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import raregram as rg
from benchmarks.rivals import Bools, Floats, Rival
from raregram.measure.experiment import Config

DEFAULT = Config()
PART = 1_000_000  # contexts counted at a time


class Ours(Rival):
    """Counts the tagged articles, or where there are none the contexts; then fits to the table."""

    reads_documents = True
    estimator: ClassVar[str]

    @property
    def spans(self) -> tuple[str, ...]:
        """What is counted."""
        return ("units",)

    def format(self, texts: pa.Array, labels: Bools | None = None) -> pa.Array:
        """Return the contexts as they are."""
        return texts

    def read(self, formatted: pa.Array, labels: Bools | None) -> None:
        """Count."""
        task = self.task
        if self.reads_documents and task.documents is not None:
            self.counts = rg.count(task.documents, n=task.n, targets=[task.target], spans=self.spans, threads=1)
        else:
            assert labels is not None
            firsts = range(0, len(formatted), PART)
            self.counts = reduce(add, (self._count(formatted[i : i + PART], labels[i : i + PART]) for i in firsts))

    def _count(self, texts: pa.Array, labels: Bools) -> rg.Counts:
        names = np.where(labels, self.task.target, "O")
        return rg.Counts.from_contexts(texts, names, targets=[self.task.target], spans=self.spans, n=self.task.n)

    def fit(self, **setting: Any) -> None:
        """Fit."""
        self.model = rg.fit(self.counts, self.task.target, **{"estimator": self.estimator, **setting})

    def score(self, formatted: pa.Array) -> Floats:
        """Return the log ratios."""
        return self.model.log_ratio(formatted)

    def save(self, folder: Path) -> None:
        """Save the model."""
        self.model.save(folder / "model.rgm")


class Backoff(Ours):
    """The back-off estimator, with the spans and the settings of the experiment."""

    settings = tuple({"worth": worth, "tau": tau} for worth, tau in product(DEFAULT.worths, DEFAULT.taus))
    estimator = "backoff"

    @property
    def spans(self) -> tuple[str, ...]:
        """What is counted; short contexts have no long suffixes."""
        longest = min(DEFAULT.suffixes, self.task.n), min(DEFAULT.shapes, self.task.n)
        return ("units", f"suffixes:{longest[0]}", f"shapes:{longest[1]}")

    def fit(self, worth: float, tau: float, **setting: Any) -> None:  # type: ignore[override]
        """Fit; a prior is worth so many contexts of the denominator."""
        n_de = self.counts.sizes(self.task.target)[1]
        super().fit(lam=worth / n_de, tau=tau, **setting)


class FromContexts(Backoff):
    """The same, counted from contexts that are written out ten times as long, as the rivals have to read them."""

    reads_documents = False


class OneMegabyte(Backoff):
    """The same, kept in one megabyte."""

    def fit(self, **setting: Any) -> None:  # type: ignore[override]
        """Fit."""
        super().fit(**setting, max_bytes=1_000_000)


class Selective(Ours):
    """The paper's estimator."""

    settings = tuple(
        {"criterion": criterion, "size": size, "lam": lam}
        for criterion, size, lam in product(("cet", "chi2", "gss"), (5_000, 10_000, 50_000), (1e-5, 1e-4, 1e-3))
    )
    estimator = "selective"

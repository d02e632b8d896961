"""raregram itself: the back-off estimator, the same with fewer spans, and the paper's estimators."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import raregram as rg
from benchmarks.rivals import Bools, Calibrate, Floats, Rival
from raregram.counts.table import Ints
from raregram.experiment.run import FOLDS, Config

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
        return texts

    def read(self, formatted: pa.Array, labels: Bools | None) -> None:
        options: dict[str, Any] = {"n": self.task.n, "targets": [self.task.target], "spans": self.spans}
        if self.reads_documents and self.task.documents is not None:
            self.counts = rg.count(self.task.documents, **options, threads=1)
        else:
            assert labels is not None
            names = np.where(labels, self.task.target, "O")
            firsts = range(0, len(formatted), PART)
            parts = ((formatted[i : i + PART], names[i : i + PART]) for i in firsts)
            self.counts = reduce(add, (rg.Counts.from_contexts(*part, **options) for part in parts))

    def fit(self, **setting: Any) -> None:
        self.model = rg.fit(self.counts, self.task.target, **{"estimator": self.estimator, **setting})

    def score(self, formatted: pa.Array) -> Floats:
        return self.model.log_ratio(formatted)

    def calibration(self, scores: Floats, f_nu: Ints, f_de: Ints, setting: dict[str, Any]) -> Calibrate | None:
        """Learn the map from folds of the training articles alone; validation is not looked at."""
        if self.task.documents is None:
            return None
        options: dict[str, Any] = {"n": self.task.n, "targets": [self.task.target], "threads": 1}
        plain, self.counts = (
            self.counts,
            rg.count(self.task.documents, spans=(*self.spans, "whole"), folds=FOLDS, **options),
        )
        self.fit(**setting)
        self.counts, learned = plain, self.model.calibration
        return None if learned is None else learned.apply

    def save(self, folder: Path) -> None:
        self.model.save(folder / "model.rgm")


class Backoff(Ours):
    """The back-off estimator, with the spans and the settings of the experiment."""

    settings = tuple({"worth": worth, "tau": tau} for worth, tau in product(DEFAULT.priors, DEFAULT.taus))
    estimator = "backoff"

    @property
    def spans(self) -> tuple[str, ...]:
        """What is counted; short contexts have no long suffixes."""
        longest = min(DEFAULT.suffixes, self.task.n), min(DEFAULT.shapes, self.task.n)
        return ("units", f"suffixes:{longest[0]}", f"shapes:{longest[1]}")

    def fit(self, worth: float, tau: float, **setting: Any) -> None:  # type: ignore[override]
        n_de = self.counts.sizes(self.task.target)[1]
        super().fit(lam=worth / n_de, tau=tau, **setting)


class FromContexts(Backoff):
    """The same, counted from contexts that are written out ten times as long, as the rivals have to read them."""

    reads_documents = False


class FewerSpans(Backoff):
    """The same, with the best spans of each length."""

    def fit(self, **setting: Any) -> None:  # type: ignore[override]
        super().fit(**setting, size=5_000)


class Selective(Ours):
    """The paper's estimator."""

    settings = tuple(
        {"criterion": criterion, "size": size, "lam": lam}
        for criterion, size, lam in product(("cet", "chi2", "gss"), (5_000, 10_000, 50_000), (1e-5, 1e-4, 1e-3))
    )
    estimator = "selective"


class Product(Ours):
    """All items used, with the ridge that is best on validation."""

    settings = tuple({"lam": lam} for lam in DEFAULT.lams)
    estimator = "product"

"""fastText, supervised, on position-marked words and pairs of neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pyarrow as pa

from benchmarks.rivals import Bools, Floats, Rival, marked_lines, marked_list, parts, with_labels, write_lines

YES, NO = "__label__1", "__label__0"
DIMENSIONS, BUCKETS = 50, 500_000
ADDED, SMALLEST = 1e-5, 1e-8  # what fastText adds to a probability, and the least that float32 tells from 1


class FastText(Rival):
    """`train_supervised` reads its file itself, so reading is a part of fitting here."""

    settings = tuple({"epoch": epoch, "lr": rate} for epoch, rate in ((3, 0.1), (5, 0.05), (5, 0.1), (5, 0.5)))
    model: Any

    def format(self, texts: pa.Array, labels: Bools | None = None) -> Any:
        if labels is None:
            return [line + "\n" for line in marked_list(texts, self.task.n)]
        lines = (
            with_labels(marked_lines(part, self.task.n), labels[first : first + len(part)], f"{YES} ", f"{NO} ")
            for first, part in parts(texts)
        )
        return write_lines(self.task.scratch / "train.txt", lines)

    def read(self, formatted: Path, labels: Bools | None) -> None:
        self.file = formatted

    def fit(self, **setting: Any) -> None:
        self.model = fasttext.train_supervised(
            str(self.file), dim=DIMENSIONS, bucket=BUCKETS, wordNgrams=2, minCount=1, thread=1, verbose=0, **setting
        )

    def score(self, formatted: list[str]) -> Floats:
        """Return the log odds, from the likelier class and its probability.

        `predict` itself does not work with NumPy 2, and what it calls gives the first probability for every class.
        """
        labels, probabilities = self.model.f.multilinePredict(formatted, 1, 0.0, "strict")
        is_yes = np.array([of_line[0] for of_line in labels]) == YES
        return log_odds(is_yes, np.concatenate(probabilities).astype(np.float64))

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / "model.bin"))


def log_odds(is_yes: Bools, probabilities: Floats) -> Floats:
    """Return the log odds of yes from the probabilities of the likelier class."""
    values = probabilities - ADDED
    odds = np.log(values) - np.log(np.maximum(1 - values, SMALLEST))
    return np.where(is_yes, odds, -odds)

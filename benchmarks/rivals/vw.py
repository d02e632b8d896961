"""Vowpal Wabbit on units and suffixes; it reads files, learns and predicts natively."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from vowpalwabbit import Workspace

from benchmarks.rivals import SUFFIXES, Bools, Floats, Rival, marked_lines, parts, with_labels, write_lines

BITS = 24  # of the hash of a feature
SPECIAL = (("%", "%25"), (":", "%3A"), ("|", "%7C"))  # letters that mean something in its format


class VowpalWabbit(Rival):
    """Logistic loss, once or several times over the file. Reading is a part of fitting here."""

    settings = tuple({"passes": passes, "rate": rate} for passes in (1, 4) for rate in (0.1, 0.5))
    files = 0

    def format(self, texts: pa.Array, labels: Bools | None = None) -> tuple[Path, int]:
        self.files += 1
        path = self.task.scratch / f"contexts-{self.files}.txt"
        return write_lines(path, (self._lines(part, labels, first) for first, part in parts(texts))), len(texts)

    def _lines(self, texts: pa.Array, labels: Bools | None, first: int) -> pa.Array:
        for letter, code in SPECIAL:
            texts = pc.replace_substring(texts, letter, code)
        lines = pc.binary_join_element_wise("|", marked_lines(texts, self.task.n, SUFFIXES), " ")
        return lines if labels is None else with_labels(lines, labels[first : first + len(lines)], "1 ", "-1 ")

    def read(self, formatted: tuple[Path, int], labels: Bools | None) -> None:
        self.file = formatted[0]

    def fit(self, **setting: Any) -> None:
        _drive(*learning(self.file, self._model, self.task.scratch / "cache", **setting))

    def score(self, formatted: tuple[Path, int]) -> Floats:
        path, contexts = formatted
        predicted = self.task.scratch / "predicted.txt"
        _drive(*predicting(path, self._model, predicted))
        options = pyarrow.csv.ReadOptions(column_names=["score"], use_threads=False)
        scores = np.asarray(pyarrow.csv.read_csv(predicted, options)["score"], dtype=np.float64)
        if len(scores) != contexts:
            raise ValueError(f"{contexts} contexts gave {len(scores)} predictions")
        return scores

    def save(self, folder: Path) -> None:
        shutil.copy(self._model, folder)

    @property
    def _model(self) -> Path:
        return self.task.scratch / "model.vw"


def learning(file: Path, model: Path, cache: Path, passes: int, rate: float) -> list[object]:
    """Return the options that learn from a file."""
    words: list[object] = ["-d", file, "-f", model, "--loss_function", "logistic", "-b", BITS, "-l", rate]
    return words + (["--passes", passes, "--cache_file", cache, "-k", "--holdout_off"] if passes > 1 else [])


def predicting(file: object, model: object, out: object) -> list[object]:
    """Return the options that predict."""
    return ["-t", "-i", model, "-d", file, "-p", out]


def _drive(*words: object) -> None:
    """Run over a file, as the program `vw` would."""
    Workspace(arg_list=["--quiet", *map(str, words)]).finish()

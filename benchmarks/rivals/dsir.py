"""DSIR (data-selection): importance weights from hashed n-grams, made for choosing training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from data_selection import HashedNgramDSIR

from benchmarks.rivals import Bools, Floats, Rival, parts


class Dsir(Rival):
    """The target's contexts are its target, all others its raw data. It reads files itself when it fits.

    Its features know no positions, are in lower case and fall into 10,000 buckets, as its authors have them.
    """

    settings = tuple({"ngrams": ngrams} for ngrams in (1, 2))
    model: Any

    def format(self, texts: pa.Array, labels: Bools | None = None) -> Any:
        if labels is None:
            return texts.to_pylist()
        for name, chosen in (("target", labels), ("raw", ~labels)):
            with self._file(name).open("w") as file:
                for first, part in parts(texts):
                    mine = part.filter(pa.array(chosen[first : first + len(part)])).to_pylist()
                    file.writelines(json.dumps({"text": text}) + "\n" for text in mine)
        return self.task.scratch

    def fit(self, ngrams: int) -> None:  # type: ignore[override]
        files = ([str(self._file("raw"))], [str(self._file("target"))])
        self.model = HashedNgramDSIR(*files, str(self.task.scratch / "cache"), num_proc=1, ngrams=ngrams)
        self.model.fit_importance_estimator(num_tokens_to_fit="all")

    def score(self, formatted: list[str]) -> Floats:
        featurize, weigh = self.model.featurizer, self.model.importance_estimator
        return np.array([weigh(featurize(text)) for text in formatted], dtype=np.float64)

    def save(self, folder: Path) -> None:
        np.save(folder / "log_diff.npy", self.model.log_diff)

    def _file(self, name: str) -> Path:
        return self.task.scratch / f"{name}.jsonl"

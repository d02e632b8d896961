"""KenLM: a pair of language models, one of the target's contexts and one of all others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import pyarrow as pa

from benchmarks.rivals import Bools, Floats, Rival, parts, write_lines

MEMORY = "1G"  # for lmplz to sort in
WORDS = 300_000  # both models are to know of so many words, so that an unknown one costs the same in both


class KenLM(Rival):
    """Each context is a sentence, so its end is the boundary.

    Scores are those of whole sentences, or of their ends alone: how likely it is that one ends after these words.
    `lmplz` reads its files itself, so reading is a part of fitting here.
    """

    settings = tuple({"order": order, "ends": ends} for order in (3, 5) for ends in (False, True))

    def format(self, texts: pa.Array, labels: Bools | None = None) -> Any:
        if labels is None:
            return texts.to_pylist()
        for name, chosen in (("nu", labels), ("de", ~labels)):
            lines = (part.filter(pa.array(chosen[first : first + len(part)])) for first, part in parts(texts))
            write_lines(self.task.scratch / f"{name}.txt", (array for array in lines if len(array)))
        return self.task.scratch

    def fit(self, order: int, ends: bool) -> None:  # type: ignore[override]
        self.ends = ends
        for name in ("nu", "de"):
            for program, *words in estimating(self.task.scratch, name, order):
                _run(program, *words)
        self.models = [kenlm.Model(str(self._path(name))) for name in ("nu", "de")]

    def score(self, formatted: list[str]) -> Floats:
        of_target, of_others = (model.score for model in self.models)
        scores = np.array([of_target(line) - of_others(line) for line in formatted], dtype=np.float64)
        if self.ends:
            scores -= [of_target(line, eos=False) - of_others(line, eos=False) for line in formatted]
        return scores

    def save(self, folder: Path) -> None:
        for name in ("nu", "de"):
            shutil.copy(self._path(name), folder)

    def _path(self, name: str) -> Path:
        return self.task.scratch / f"{name}.klm"


def estimating(folder: Path, name: str, order: int) -> list[list[str]]:
    """Return the commands that make NAME.klm of NAME.txt."""
    text, arpa, model = (str(folder / f"{name}.{ending}") for ending in ("txt", "arpa", "klm"))
    options = ["-o", str(order), "--discount_fallback", "--skip_symbols", "--vocab_pad", str(WORDS)]
    memory = ["-S", MEMORY, "-T", str(folder)]
    return [
        ["lmplz", *options, *memory, "--text", text, "--arpa", arpa],
        ["build_binary", *memory, "trie", arpa, model],
    ]


def _run(program: str, *words: object) -> None:
    """Run one of KenLM's programs, which stand beside this Python."""
    path = Path(sys.executable).with_name(program)
    done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {(done.stderr.strip().splitlines() or [''])[-1]}")

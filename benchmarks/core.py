"""Speed and size of the core beside what they stand against, measured in one run on one core.

    python -m benchmarks.core [--json FILE]

The corpus is made on the spot: ten-word contexts from a synthetic source with 60,000 words. Each figure is the best
of several runs taken in turns, since other work on the machine can only slow one down.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

import raregram as rg
from benchmarks.measuring import RAREGRAM, Task, best_of, output_of, parser, show, show_machine, write_json
from raregram.measure.synthetic import SyntheticCorpus

CONTEXTS = 1_000_000
N = 10


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--json", type=Path, help="write the figures here as well")
    out = options.parse_args().json
    pa.set_cpu_count(1)
    show_machine()
    figures = measure()
    for figure in figures:
        show(*figure)
    if out:
        write_json(out, figures)


def measure() -> list[tuple[str, str, str]]:
    """Return (what, figure, target) for every figure."""
    source = SyntheticCorpus.make(items=60_000, n=N, seed=1)
    contexts, at_target = source.sample(CONTEXTS // 7, CONTEXTS - CONTEXTS // 7, seed=2)
    texts = source.texts(contexts)
    counts = rg.Counts.from_contexts(texts, np.where(at_target, "T", ""), spans=["units"])
    model = rg.fit(counts, "T", "selective", size=10_000)
    codes = model.encode(texts)
    running = np.ascontiguousarray(codes[:, -1])
    lines = pa.array(texts)
    million = million_rows()
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m.rgm")
        million.save(f"{folder}/million.counts")
        on_disk = Path(folder, "m.rgm").stat().st_size
        seconds = best_of(
            {
                "copy": codes.copy,
                "codes": lambda: model.log_ratio(codes),
                "running": lambda: model.log_ratio(sliding_window_view(running, N)),
                "text": lambda: model.log_ratio(lines),
                "str.split": lambda: [text.split() for text in texts],
                "fit": lambda: rg.fit(million, "T", "selective", size=10_000),
                "load and fit": lambda: rg.fit(
                    rg.Counts.load(f"{folder}/million.counts"), "T", "selective", size=10_000
                ),
                "help": lambda: output_of(RAREGRAM, "--help"),
                "python": lambda: output_of(sys.executable, "-c", "pass"),
                **splitting(texts),
            }
        )
    apart = {task: times(seconds[f"{task} words"], seconds[f"{task} whitespace"]) for task in ("count", "score")}
    return [
        ("10-grams a second from item codes", rate(seconds["codes"]), "at least 20 million"),
        ("  as a multiple of copying the codes", times(seconds["codes"], seconds["copy"]), ""),
        ("10-grams a second from running item codes", rate(seconds["running"]), "at least 20 million"),
        ("10-grams a second from text", rate(seconds["text"]), "at least 1 million"),
        ("  as a multiple of str.split alone", times(seconds["text"], seconds["str.split"]), ""),
        ("count 2 million words with punctuation apart, over white space", apart["count"], "at most 1.5 x"),
        ("score them", apart["score"], "at most 1.5 x"),
        (f"model of {N} x 10,000 items on disk", f"{on_disk / 1e6:.2f} MB", "at most 1 MB"),
        (f"model of {N} x 10,000 items in memory", f"{model.nbytes / 1e6:.2f} MB", "at most 4 MB (the paper: 26)"),
        (f"fit from a table of {million.num_rows:,} rows", f"{seconds['fit']:.2f} s", "under 1 s"),
        ("load that table from disk and fit", f"{seconds['load and fit']:.2f} s", ""),
        ("raregram --help", f"{seconds['help']:.2f} s", "under 0.3 s"),
        ("  as a multiple of starting Python", times(seconds["help"], seconds["python"]), ""),
    ]


def million_rows() -> rg.Counts:
    """Return a count table of a million rows: 100,000 items at each of ten positions."""
    rng = np.random.default_rng(3)
    words = np.array([f"item{number}" for number in range(100_000)])
    ngrams = np.column_stack([rng.permutation(words) for _ in range(N)])
    f_de = rng.zipf(1.5, len(words)).clip(1, 10**6)
    return rg.Counts.from_ngrams(ngrams, rng.binomial(f_de, 0.1), f_de, target="T", spans=["units"])


def splitting(texts: list[str]) -> dict[str, Task]:
    """Return tasks that count and score 2 million words, one in seven with a comma, split in two ways."""
    words = " ".join(texts[:200_000]).split()
    glued = [word + "," if place % 7 == 0 else word for place, word in enumerate(words)]
    table = pa.table({"text": [" ".join(glued[first : first + 500]) for first in range(0, len(glued), 500)]})
    contexts = pa.array([" ".join(glued[first : first + N]) for first in range(0, len(glued), N)])
    tasks: dict[str, Task] = {}
    for tokenize in ("whitespace", "words"):
        layout: dict[str, Any] = {"n": N, "tokenize": tokenize, "spans": ["units"], "threads": 1}
        counts = rg.count(numerator=table[:400], denominator=table, **layout)
        model = rg.fit(counts, "numerator", "selective")
        tasks[f"count {tokenize}"] = partial(rg.count, table, targets=[], **layout)
        tasks[f"score {tokenize}"] = partial(model.log_ratio, contexts)
    return tasks


def rate(seconds: float) -> str:
    return f"{CONTEXTS / seconds / 1e6:.1f} million"


def times(seconds: float, reference: float) -> str:
    return f"{seconds / reference:.1f} x"


if __name__ == "__main__":
    main()

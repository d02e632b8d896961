"""Speed and memory of counting beside what they stand against, measured in one run.

    python benchmarks/counting.py            about three minutes
    python benchmarks/counting.py --large    also 50 million items with suffixes to 5 under a limit of 1 GB

The corpus is made on the spot: documents of 130 words from Zipf's law over 100,000 words, with two targets.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from raregram.contexts import split_texts
from raregram.synthetic import zipf_documents

HERE = Path(__file__).parent
WORDS, LENGTH, N = 100_000, 130, 10
CONTEXTS = 1_310_000  # as many as the paper's training data gives
LARGE = 50_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        numbering(Path(folder))
        counting(Path(folder))
        against_scikit_learn()
        if arguments.large:
            larger_than_memory(Path(folder))


def numbering(folder: Path) -> None:
    """Text -> item numbers, beside the C program on the same bytes."""
    texts = pa.array(zipf_documents(40_000, LENGTH, WORDS, seed=1))
    path = folder / "corpus.txt"
    path.write_text("\n".join(texts.to_pylist()))
    subprocess.run(["cc", "-O2", "-o", folder / "split_hash", HERE / "split_hash.c"], check=True)
    pa.set_cpu_count(1)

    def number() -> None:
        for first in range(0, len(texts), 8192):
            split_texts(texts[first : first + 8192], "words")[0].dictionary_encode()

    ours, theirs = [], []
    for _ in range(5):
        ours.append(timed(number))
        printed = subprocess.run(
            [folder / "split_hash", path, "1"], check=True, capture_output=True, text=True
        ).stdout
        theirs.append(float(printed.split()[2]))
    items = int(printed.split()[0])
    show("text -> item numbers, items a second", f"{items / min(ours) / 1e6:.1f} million")
    show("  as a multiple of the C program", f"{min(ours) / min(theirs):.1f} x", "at most 5 x")


def counting(folder: Path) -> None:
    """Units of 10-grams at two targets, from a Parquet file of texts, with one thread; once and twice as much."""
    for name, documents in (("once", 40_000), ("twice", 80_000)):
        texts = zipf_documents(documents, LENGTH, WORDS, seed=2)
        pq.write_table(pa.table({"text": texts, "spans": spans(documents)}), folder / f"{name}.parquet")
    pa.set_cpu_count(1)
    taken: dict[str, list[float]] = {"once": [], "twice": []}
    for _ in range(5):
        for name, times in taken.items():
            times.append(timed(lambda name=name: rg.count(folder / f"{name}.parquet", n=N, threads=1)))  # type: ignore[misc]
    once, twice = min(taken["once"]), min(taken["twice"])
    show(
        "units counted, one core, items a second", f"{40_000 * LENGTH / once / 1e6:.1f} million", "at least 5 million"
    )
    show("  twice the corpus takes", f"{twice / once:.2f} x the time", "at most 2.15 x")


def against_scikit_learn() -> None:
    """Fit one-hot columns, the best by chi-square, with BernoulliNB; beside it count and fit from documents."""
    from sklearn.feature_selection import SelectKBest, chi2
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    documents = CONTEXTS // (LENGTH - N + 1)
    texts = zipf_documents(documents, LENGTH, WORDS, seed=3)
    table = pa.table({"text": texts, "spans": spans(documents)})
    marked = enumerate(spans(documents))
    at = {(row, span["start"]) for row, of_row in marked for span in of_row if span["label"] == "A"}
    rows, y = [], []
    for row, text in enumerate(texts):
        items = text.split()
        rows += [items[i - N : i] for i in range(N, LENGTH + 1)]
        y += [(row, i) in at for i in range(N, LENGTH + 1)]
    X = np.array(rows)
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), SelectKBest(chi2, k=50_000), BernoulliNB())
    theirs = timed(lambda: pipeline.fit(X, y))
    ours = min(
        timed(lambda: rg.fit(rg.count(table, n=N, threads=1), "A", criterion="chi2", size=5_000)) for _ in range(3)
    )
    show(f"count and fit {len(y):,} contexts", f"{ours:.2f} s")
    show("  scikit-learn's one-hot, SelectKBest and BernoulliNB", f"{theirs:.1f} s")
    show("  ours is faster by", f"{theirs / ours:.0f} x", "at least 20 x")


def larger_than_memory(folder: Path) -> None:
    """Count 50 million items with suffixes to 5 in a process of its own and watch its memory."""
    path = folder / "large.jsonl"
    with path.open("w") as file:
        for part in range(50):
            for text in zipf_documents(LARGE // 50 // LENGTH + 1, LENGTH, WORDS, seed=100 + part):
                file.write('{"text": "' + text + '", "spans": [[20, 21, "A"], [60, 61, "B"]]}\n')
    size = path.stat().st_size
    command = [Path(sys.executable).with_name("raregram"), "count", path, "--spans", "units,suffixes:5", "--quiet"]
    command += ["--memory-limit", "1GB", "--out", folder / "large.counts"]
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command])
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    show(f"{size / 1e6:.0f} MB, 50 million items, suffixes to 5", f"{time.perf_counter() - start:.0f} s", "minutes")
    show("  most memory held, limit 1 GB", f"{usage.ru_maxrss / 1e6:.2f} GB", "under 1.5 GB")
    show("  count file", f"{(folder / 'large.counts').stat().st_size / 1e6:.0f} MB")


def spans(documents: int) -> list[list[dict[str, object]]]:
    """Return spans of two targets, at about one boundary in forty."""
    starts = np.random.default_rng(9).integers(0, LENGTH - 1, size=(documents, 3))
    labels = ("A", "B", "A")
    return [
        [{"start": int(s), "end": int(s) + 1, "label": label} for s, label in zip(row, labels, strict=True)]
        for row in starts
    ]


def timed(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def show(what: str, figure: str, target: str = "") -> None:
    print(f"{what:<56}{figure:>18}   {target}", flush=True)


if __name__ == "__main__":
    main()

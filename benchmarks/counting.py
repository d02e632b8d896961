"""Speed of counting, and its memory where the tables do not fit.

    python benchmarks/counting.py            half a minute
    python benchmarks/counting.py --large    also 50 million items with suffixes to 5 under a limit of 1 GB

The corpus is made on the spot: documents of 130 words from Zipf's law over 100,000 words, with two targets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from measuring import in_turns, show, timed
from raregram.measure.experiment import processor
from raregram.measure.synthetic import zipf_documents

WORDS, LENGTH, N = 100_000, 130, 10
DOCUMENTS = 40_000
LARGE = 50_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    print(f"{processor()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        counting(Path(folder))
        if arguments.large:
            larger_than_memory(Path(folder))


def counting(folder: Path) -> None:
    """Units of 10-grams at two targets, from a Parquet file of texts, with one thread; once and twice as much."""
    for name, documents in (("once", DOCUMENTS), ("twice", 2 * DOCUMENTS)):
        texts = zipf_documents(documents, LENGTH, WORDS, seed=2)
        pq.write_table(pa.table({"text": texts, "spans": spans(documents)}), folder / f"{name}.parquet")
    pa.set_cpu_count(1)
    seconds = in_turns(
        {
            name: lambda name=name: timed(lambda: rg.count(folder / f"{name}.parquet", n=N, threads=1))  # type: ignore[misc]
            for name in ("once", "twice")
        }
    )
    once, twice = min(seconds["once"]), min(seconds["twice"])
    rate = f"{DOCUMENTS * LENGTH / once / 1e6:.1f} million"
    show("units counted, one thread, items a second", rate, "at least 5 million")
    show("  twice the corpus takes", f"{twice / once:.2f} x the time", "at most 2.15 x")


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
    starts = np.random.default_rng(9).integers(0, LENGTH - 1, size=(documents, 3)).tolist()
    return [[{"start": s, "end": s + 1, "label": "ABA"[k]} for k, s in enumerate(row)] for row in starts]


if __name__ == "__main__":
    main()

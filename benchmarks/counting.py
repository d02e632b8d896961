"""Speed of counting, and its memory where the tables do not fit.

python -m benchmarks.counting            half a minute
python -m benchmarks.counting --large    also 50 million items with suffixes to 5 under a limit of 1 GB
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa

import raregram as rg
from benchmarks import corpora
from benchmarks.measuring import RAREGRAM, best_of, parser, run_measured, show, show_machine

ITEMS, LARGE, N = 5_200_000, 50_000_000, 10


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--large", action="store_true")
    large = arguments.parse_args().large
    show_machine()
    with tempfile.TemporaryDirectory() as folder:
        counting(Path(folder))
        if large:
            larger_than_memory(Path(folder))


def counting(folder: Path) -> None:
    """Units of 10-grams at two targets, from a Parquet file of texts, with one thread; once and twice as much."""
    paths = {name: corpora.write(folder / name, items) for name, items in (("once", ITEMS), ("twice", 2 * ITEMS))}
    pa.set_cpu_count(1)
    best = best_of({name: partial(rg.count, path, n=N, threads=1) for name, path in paths.items()})
    rate = f"{ITEMS / best['once'] / 1e6:.1f} million"
    show("units counted, one thread, items a second", rate, "at least 5 million")
    show("  twice the corpus takes", f"{best['twice'] / best['once']:.2f} x the time", "at most 2.15 x")


def larger_than_memory(folder: Path) -> None:
    """Count 50 million items with suffixes to 5 in a process of its own and measure its memory."""
    path = corpora.write(folder / "large.parquet", LARGE)
    command = [RAREGRAM, "count", path, "--spans", "units,suffixes:5", "--quiet", "--memory-limit", "1GB"]
    code, seconds, peak = run_measured([*command, "--out", folder / "large.counts"])
    assert code == 0
    show("50 million items, suffixes to 5", f"{seconds:.0f} s", "minutes")
    show("  peak memory, limit 1 GB", f"{peak / 1e9:.2f} GB", "under 1.5 GB")
    show("  count file", f"{(folder / 'large.counts').stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()

"""What a person who types commands gets, beside what the library does in memory.

    python -m benchmarks.commands

The experiment's 10,000 training articles (Stanford's tags) are counted, written, opened, read and fitted, and its
400,000 test contexts are scored, in turns by the library and by commands. All figures are processor seconds, user and
system, of one thread's work or of a whole process; start-up is part of a command's.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks.measuring import RAREGRAM, medians, parser, show, show_machine
from raregram.measure.experiment import Config, load_corpus, split_corpus


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--articles", type=int, default=10_000, help="that are counted")
    arguments = options.parse_args()
    show_machine()
    parts = split_corpus(Config(), load_corpus(Config()))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pq.write_table(parts["train"][: arguments.articles], folder / "train.parquet")
        lines = write_lines(parts["test"], folder / "lines.txt")
        measure(folder, lines, arguments.rounds)


def write_lines(articles: pa.Table, path: Path) -> int:
    """Write every ten words in a row of some articles as a line; return how many there are."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for text in articles["text"].to_pylist():
            items = text.split()
            for first in range(len(items) - 9):
                file.write(" ".join(items[first : first + 10]) + "\n")
                written += 1
    return written


def measure(folder: Path, lines: int, rounds: int) -> None:
    """Measure every step in turns, and show the ratios that are aimed at."""
    counts = rg.count(folder / "train.parquet", targets=["LOC", "PER"])
    table = folder / "all.counts"
    counts.save(table)
    model = rg.fit(counts, "LOC")
    model.save(folder / "loc.rgm")
    contexts = (folder / "lines.txt").read_text().splitlines()
    found = medians(
        {
            "count": processor(lambda: rg.count(folder / "train.parquet", targets=["LOC", "PER"])),
            "write": processor(lambda: counts.save(table)),
            "open": processor(lambda: rg.Counts.load(table)),
            "read": processor(lambda: dict(rg.Counts.load(table).rows)),
            "fit": processor(lambda: rg.fit(counts, "LOC")),
            "raregram count": command("count", "train.parquet", "--targets", "LOC,PER", "--out", "c", folder=folder),
            "raregram fit": command("fit", "all.counts", "--target", "LOC", "--out", "m", folder=folder),
            "score": processor(lambda: model.log_ratio(contexts)),
            "raregram score": command("score", "loc.rgm", "lines.txt", folder=folder),
            "raregram score --interval": command("score", "loc.rgm", "lines.txt", "--interval", folder=folder),
            "raregram explain": command("explain", "loc.rgm", "said that he lives in", folder=folder),
        },
        rounds,
    )
    for name, seconds in found.items():
        show(name, f"{seconds:.2f} s")
    show("rows of the table, bytes on disk", f"{counts.num_rows:,}, {table.stat().st_size / 1e6:.0f} MB")
    for what, ratio, aim in (
        ("opening over counting", found["open"] / found["count"], "at most 0.1"),
        ("reading everything over counting", found["read"] / found["count"], ""),
        ("writing over counting", found["write"] / found["count"], "at most 0.5"),
        ("raregram fit over rg.fit", found["raregram fit"] / found["fit"], "at most 2"),
        ("raregram score's speed over the library's", found["score"] / found["raregram score"], "at least 0.8"),
    ):
        show(what, f"{ratio:.3g} x", aim)
    show("raregram score, contexts a second", f"{lines / found['raregram score']:,.0f}", "at least 1 million")
    per_second = lines / found["raregram score --interval"]
    show("raregram score --interval, contexts a second", f"{per_second:,.0f}", "at least 333,333")


def processor(task: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that does a task and returns the processor seconds of it."""

    def run() -> float:
        start = time.process_time()
        task()
        return time.process_time() - start

    return run


def command(*arguments: str, folder: Path) -> Callable[[], float]:
    """Return a function that runs a command and returns the processor seconds of its process."""

    def run() -> float:
        before = _of_children()
        call = [str(RAREGRAM), *arguments]
        subprocess.run(call, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return _of_children() - before

    return run


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()

"""What a person who types commands gets, beside what the library does in memory.

    python -m benchmarks.commands

The experiment's 10,000 training articles (Stanford's tags) are counted, written, opened, read, merged and fitted, and
its 400,000 test contexts are scored, ten times over, in turns by the library and by commands. All figures are
processor seconds, user and system, of a whole process, or of what the library does in this one; start-up is part of a
command's. The C program splits the same text at white space and hashes the words.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks.limit import compile_yardstick
from benchmarks.measuring import MEGABYTE, RAREGRAM, medians, parser, show, show_machine
from raregram.measure.experiment import Config, load_corpus, split_corpus


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--articles", type=int, default=10_000, help="that are counted")
    arguments = options.parse_args()
    show_machine()
    parts = split_corpus(Config(), load_corpus(Config()))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command would compile all modules anew
    with tempfile.TemporaryDirectory() as made:
        folder, train = Path(made), parts["train"][: arguments.articles]
        pq.write_table(train, folder / "train.parquet")
        (folder / "train.txt").write_text("\n".join(train["text"].to_pylist()))
        lines = write_lines(parts["test"], folder / "lines.txt")
        measure(folder, lines, arguments.rounds)
        memory(folder)


def write_lines(articles: pa.Table, path: Path) -> int:
    """Write every ten words in a row of some articles as a line, ten times over; return how many lines there are."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for text in articles["text"].to_pylist() * 10:
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
    articles = pq.read_table(folder / "train.parquet")
    half = len(articles) // 2
    first, second = (rg.count(part, targets=["LOC", "PER"]) for part in (articles[:half], articles[half:]))
    split_hash = compile_yardstick(folder)
    found = medians(
        {
            "the C program": lambda: split_hash(folder / "train.txt"),
            "count": processor(lambda: rg.count(folder / "train.parquet", targets=["LOC", "PER"], threads=1)),
            "count a half": processor(lambda: rg.count(articles[:half], targets=["LOC", "PER"], threads=1)),
            "merge two halves": processor(lambda: first + second),
            "write": processor(lambda: counts.save(table)),
            "open": processor(lambda: rg.Counts.load(table)),
            "read": processor(lambda: dict(rg.Counts.load(table).rows)),
            "fit": processor(lambda: rg.fit(counts, "LOC")),
            "raregram count": command("count", "train.parquet", "--targets", "LOC,PER", "--out", "c", folder=folder),
            "raregram fit": command("fit", "all.counts", "--target", "LOC", "--out", "m", folder=folder),
            "raregram merge": command("merge", "all.counts", "all.counts", "--out", "two", folder=folder),
            "score": processor(lambda: model.log_ratio(contexts)),
            "raregram score": command("score", "loc.rgm", "lines.txt", folder=folder),
            "raregram score --interval": command("score", "loc.rgm", "lines.txt", "--interval", folder=folder),
            "raregram rank": command("rank", "loc.rgm", "lines.txt", folder=folder),
            "raregram explain": command("explain", "loc.rgm", "said that he lives in", folder=folder),
            "raregram --version": command("--version", folder=folder),
            "import pyarrow.compute": child(sys.executable, "-c", "import pyarrow.compute", folder=folder),
        },
        rounds,
    )
    for name, seconds in found.items():
        show(name, f"{seconds:.2f} s")
    show("rows of the table, bytes on disk", f"{counts.num_rows:,}, {table.stat().st_size / 1e6:.0f} MB")
    for what, ratio, aim in (
        ("counting over the C program, one thread", found["count"] / found["the C program"], "at most 10"),
        ("merging two halves over counting one", found["merge two halves"] / found["count a half"], "at most 1"),
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
    show("raregram rank, contexts a second", f"{lines / found['raregram rank']:,.0f}", "at least 1 million")


def memory(folder: Path) -> None:
    """Show the peak memory of commands; a limit is for the whole process."""
    for limit in (200, 500, 1000, 2000):
        call = ["count", "train.parquet", "--targets", "LOC,PER", "--memory-limit", f"{limit}MB", "--out", "c", "-q"]
        show(f"raregram count --memory-limit {limit}MB", f"{_peak(call, folder)} MB", f"at most {limit * 1.1:.0f} MB")
    show("raregram fit", f"{_peak(['fit', 'all.counts', '--target', 'LOC', '--out', 'm', '-q'], folder)} MB")
    show("raregram merge", f"{_peak(['merge', 'all.counts', 'all.counts', '--out', 'two', '-q'], folder)} MB")


def _peak(arguments: list[str], folder: Path) -> int:
    # A process begins with the peak of the one that starts it, so a small one has to.
    program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    program += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    call = [sys.executable, "-c", program, str(RAREGRAM), *arguments]
    return int(subprocess.run(call, cwd=folder, check=True, stdout=subprocess.PIPE).stdout) * 1024 // MEGABYTE


def processor(task: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that does a task and returns the processor seconds of it."""

    def run() -> float:
        start = time.process_time()
        task()
        return time.process_time() - start

    return run


def command(*arguments: str, folder: Path) -> Callable[[], float]:
    """Return a function that runs a command of raregram and returns the processor seconds of its process."""
    return child(str(RAREGRAM), *arguments, folder=folder)


def child(*call: str, folder: Path) -> Callable[[], float]:
    """Return a function that runs a program and returns the processor seconds of its process."""

    def run() -> float:
        before = _of_children()
        subprocess.run(call, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return _of_children() - before

    return run


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()

"""What the library does in memory, what commands do with files, and a C program that splits and hashes the text.

    python -m benchmarks.speed

The experiment's 10,000 training articles (Stanford's tags) are counted, written, opened, read, merged and fitted, and
its 400,000 test contexts are scored, ten times over, in turns by the library and by commands. All figures are
processor seconds, user and system, of a whole process or of what the library does in this one, unless they are said
to be of the clock; start-up is part of a command's. The C program splits the same text at white space and hashes the
words, and is not charged for reading it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks.measuring import (
    MEGABYTE,
    RAREGRAM,
    Figures,
    medians,
    output_of,
    parser,
    processor_seconds,
    show_machine,
    timed,
)
from raregram.experiment.run import Config, load_corpus, split_corpus

TARGETS = ["LOC", "PER"]
HALF = "rg.count, one thread, half of the articles"
LIMITS = (200, 500, 1000, 2000)  # megabytes


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--articles", type=int, default=10_000, help="that are counted")
    options.add_argument("--times", type=int, default=10, help="how often the test contexts are written")
    arguments = options.parse_args()
    show_machine()
    parts = split_corpus(Config(), load_corpus(Config()))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command would compile all modules anew
    figures = Figures()
    with tempfile.TemporaryDirectory() as made:
        folder, train = Path(made), parts["train"][: arguments.articles]
        pq.write_table(train, folder / "train.parquet")
        (folder / "train.txt").write_text("\n".join(train["text"].to_pylist()))
        lines = write_lines(parts["test"], folder / "lines.txt", arguments.times)
        measure(folder, lines, arguments.rounds, figures)
        memory(folder, figures)
    figures.write(arguments.json)


def write_lines(articles: pa.Table, path: Path, times: int) -> int:
    """Write every ten words in a row of some articles as a line, some times over; return how many lines there are."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for text in articles["text"].to_pylist() * times:
            items = text.split()
            for first in range(len(items) - 9):
                file.write(" ".join(items[first : first + 10]) + "\n")
                written += 1
    return written


def measure(folder: Path, lines: int, rounds: int, figures: Figures) -> None:
    """Measure every step in turns, and compare."""
    count = partial(rg.count, targets=TARGETS)
    path, table, text = folder / "train.parquet", folder / "all.counts", folder / "lines.txt"
    counts = count(path)
    counts.save(table)
    model, selective = rg.fit(counts, "LOC"), rg.fit(counts, "LOC", "selective", criterion="cet", size=5000)
    model.save(folder / "loc.rgm")
    folded = count(path, folds=5)
    calibrated = rg.fit(folded, "LOC")
    contexts = pa.array(text.read_text().splitlines())
    articles = pq.read_table(path)
    half = len(articles) // 2
    first, second = count(articles[:half]), count(articles[half:])
    split_hash = compile_yardstick(folder)
    tasks = {
        "rg.count, one thread": lambda: count(path, threads=1),
        "rg.count, one thread, units alone": lambda: count(path, spans=["units"], threads=1),
        HALF: lambda: count(articles[:half], threads=1),
        "merge two halves": lambda: first + second,
        "write the table": lambda: counts.save(table),
        "open the table": lambda: rg.Counts.load(table),
        "read all of the table": lambda: dict(rg.Counts.load(table).rows),
        "rg.fit, table in memory": lambda: rg.fit(counts, "LOC"),
        "rg.count, one thread, five folds": lambda: count(path, folds=5, threads=1),
        "rg.fit, five folds": lambda: rg.fit(folded, "LOC"),
        "model.log_ratio": lambda: model.log_ratio(contexts),
        "model.log_ratio, calibrated": lambda: calibrated.log_ratio(contexts),
        "model.log_ratio, selective": lambda: selective.log_ratio(contexts),
        "raregram count": command("count", "train.parquet", "--targets", "LOC,PER", "--out", "c", folder=folder),
        "raregram fit": command("fit", "all.counts", "--target", "LOC", "--out", "m", folder=folder),
        "raregram merge": command("merge", "all.counts", "all.counts", "--out", "two", folder=folder),
        "raregram score": command("score", "loc.rgm", "lines.txt", folder=folder),
        "raregram score --interval": command("score", "loc.rgm", "lines.txt", "--interval", folder=folder),
        "raregram rank": command("rank", "loc.rgm", "lines.txt", folder=folder),
        "raregram explain": command("explain", "loc.rgm", "said that he lives in", folder=folder),
        "raregram --version": command("--version", folder=folder),
        "import pyarrow.compute in Python": run(sys.executable, "-c", "import pyarrow.compute", folder=folder),
    }
    clocked = {f"rg.count, {threads} threads, clock": partial(count, path, threads=threads) for threads in (1, 2)}
    found = medians(
        {
            "the C program, training text": lambda: split_hash(folder / "train.txt"),
            "the C program, test contexts": lambda: split_hash(text),
            **{name: partial(processor_seconds, task) for name, task in tasks.items()},
            **{name: partial(timed, task) for name, task in clocked.items()},
        },
        rounds,
    )
    for name, seconds in found.items():
        figures.add(name, seconds, "s", most=0.5 if name == "raregram explain" else None)
    counting, splitting = found["rg.count, one thread"], found["the C program, training text"]
    fitting = found["rg.fit, table in memory"]
    scoring, (one, two) = found["model.log_ratio"], (found[name] for name in clocked)
    for what, ratio, least, most in (
        ("counting over the C program, one thread", counting / splitting, None, 10),
        ("  units alone", found["rg.count, one thread, units alone"] / splitting, None, 3),
        ("two threads' speed of counting over one's, clock", one / two, 1.7, None),
        ("merging two halves over counting one", found["merge two halves"] / found[HALF], None, 1),
        ("opening the table over counting", found["open the table"] / counting, None, 0.1),
        ("writing the table over counting", found["write the table"] / counting, None, 0.5),
        ("raregram fit over rg.fit", found["raregram fit"] / fitting, None, 2),
        ("counting in five folds over counting", found["rg.count, one thread, five folds"] / counting, None, None),
        ("a fit with five folds over one without", found["rg.fit, five folds"] / fitting, None, 6),
        ("scoring with a calibrated model over scoring", found["model.log_ratio, calibrated"] / scoring, None, 1.1),
        ("raregram score's speed over the library's", scoring / found["raregram score"], 0.8, None),
        ("scoring over the C program", scoring / found["the C program, test contexts"], None, 3),
    ):
        figures.add(what, ratio, "x", least=least, most=most)
    for name, least in (
        ("model.log_ratio", 1e6),
        ("model.log_ratio, selective", 1e6),
        ("raregram score", 1e6),
        ("raregram score --interval", 1e6 / 3),
        ("raregram rank", 1e6),
    ):
        figures.add(f"{name}, contexts a second", lines / found[name], least=least)
    figures.add("rows of the table", counts.num_rows)
    figures.add("bytes of the table on disk, a row", table.stat().st_size / counts.num_rows)
    figures.add("back-off model on disk", (folder / "loc.rgm").stat().st_size / MEGABYTE, "MB")


def memory(folder: Path, figures: Figures) -> None:
    """Measure the peak memory of commands; a limit is for the whole process."""
    for limit in LIMITS:
        call = ["count", "train.parquet", "--targets", "LOC,PER", "--memory-limit", f"{limit}MB", "--out", "c", "-q"]
        peak = peak_megabytes(call, folder)
        figures.add(f"raregram count --memory-limit {limit}MB, peak memory", peak, "MB", most=limit * 1.1)
    for call in (["fit", "all.counts", "--target", "LOC"], ["merge", "all.counts", "all.counts"]):
        figures.add(f"raregram {call[0]}, peak memory", peak_megabytes([*call, "--out", "o", "-q"], folder), "MB")


def peak_megabytes(arguments: list[str], folder: Path) -> int:
    """Return the peak memory of a command.

    A process begins with the peak of the one that starts it, so a small one has to.
    """
    program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    program += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    call = [sys.executable, "-c", program, str(RAREGRAM), *arguments]
    return int(subprocess.run(call, cwd=folder, check=True, stdout=subprocess.PIPE).stdout) * 1024 // MEGABYTE


def command(*arguments: str, folder: Path) -> Callable[[], object]:
    """Return a function that runs a command of raregram."""
    return run(str(RAREGRAM), *arguments, folder=folder)


def run(*call: str, folder: Path) -> Callable[[], object]:
    """Return a function that runs a program."""
    quiet = subprocess.DEVNULL
    return partial(subprocess.run, call, cwd=folder, check=True, stdout=quiet, stderr=quiet)


def compile_yardstick(folder: Path) -> Callable[[Path], float]:
    """Compile the C program; return a function that runs it over a file and returns its seconds without reading."""
    program = folder / "split_hash"
    output_of("cc", "-O2", "-o", program, Path(__file__).with_name("split_hash.c"))
    return lambda path: float(output_of(program, path, "1").split()[2])


if __name__ == "__main__":
    main()

"""Files in, files out, by commands alone: raregram beside each rival that has a command line.

    .venv-bench/bin/python -m benchmarks.ends [--out build/bench]

Every tool gets what it reads: raregram the tagged articles as Parquet and the test contexts as lines, the others the
same contexts in their own formats, whose writing is charged to nobody. Settings are those that the contest chose with
the first seed; raregram has its defaults. The clock and the processor seconds are of all commands together, and F1 is
that of the scores in their files. Tools may use both cores.

fastText is Debian's program, KenLM's are built from its source, and Vowpal Wabbit's is that of its Python package.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import Measurement, data_folder
from benchmarks.measuring import RAREGRAM, Figures, parser, processor_seconds, timed, write_json
from benchmarks.rivals import Floats, Task, load
from benchmarks.rivals.data import Data, Part
from benchmarks.rivals.run import check, f1
from benchmarks.rivals.summary import CLOSE
from raregram.experiment.run import Config

Command = Sequence[object]


class Program(ABC):
    """A tool by its commands, which are run in a folder of its own."""

    def __init__(self, folder: Path, target: str, setting: dict[str, Any]) -> None:
        self.folder, self.target, self.setting = folder, target, setting

    @abstractmethod
    def write(self, data: Data, size: int, test: Part) -> None:
        """Write the tool's input files."""

    @abstractmethod
    def commands(self) -> list[tuple[Command, str | None, str | None]]:
        """Return commands, each with the files that are its standard input and output, if any."""

    @abstractmethod
    def scores(self) -> Floats:
        """Read the scores from the files that were written."""

    def run(self) -> None:
        """Run all commands."""
        for words, source, out in self.commands():
            with (
                (self.folder / (source or "/dev/null")).open() as stdin,
                (self.folder / (out or "said")).open("w") as to,
            ):
                call = list(map(str, words))
                subprocess.run(call, cwd=self.folder, stdin=stdin, stdout=to, stderr=subprocess.PIPE, check=True)


class Ours(Program):
    """count, fit, score."""

    def write(self, data: Data, size: int, test: Part) -> None:
        shutil.copy(data.folder / f"train-{size}.parquet", self.folder / "train.parquet")
        (self.folder / "test.txt").write_text("".join(f"{text}\n" for text in test.texts.to_pylist()))

    def commands(self) -> list[tuple[Command, str | None, str | None]]:
        count = (RAREGRAM, "count", "train.parquet", "--targets", self.target, "--n", Config().n, "--out", "c", "-q")
        fit = (RAREGRAM, "fit", "c", "--target", self.target, "--out", "m.rgm", "-q")
        score = (RAREGRAM, "score", "m.rgm", "test.txt", "--format", "contexts", "--out", "scores.csv", "-q")
        return [(words, None, None) for words in (count, fit, score)]

    def scores(self) -> Floats:
        with (self.folder / "scores.csv").open(newline="") as file:
            return np.array([float(row["log_ratio"]) for row in csv.DictReader(file)])


class Adapted(Program):
    """A rival whose adapter in `benchmarks.rivals` writes its input."""

    rival: str

    def write(self, data: Data, size: int, test: Part) -> None:
        adapter = load(self.rival)(Task(self.target, data.n, self.folder))
        self.train = adapter.format(*data.read(f"contexts-{size}", self.target))
        self.write_test(adapter.format(test.texts))

    def write_test(self, formatted: Any) -> None:
        (self.folder / "test.txt").write_text("".join(f"{line.rstrip()}\n" for line in formatted))


class FastText(Adapted):
    """supervised, predict-prob."""

    rival = "fasttext"

    def commands(self) -> list[tuple[Command, str | None, str | None]]:
        from benchmarks.rivals.fasttext import BUCKETS, DIMENSIONS

        settings = [word for name, value in self.setting.items() for word in (f"-{name}", value)]
        layout = ("-dim", DIMENSIONS, "-bucket", BUCKETS, "-wordNgrams", 2, "-minCount", 1, "-thread", 2)
        train = ("fasttext", "supervised", "-input", "train.txt", "-output", "model", *layout, *settings)
        return [(train, None, None), (("fasttext", "predict-prob", "model.bin", "test.txt"), None, "scores.txt")]

    def scores(self) -> Floats:
        from benchmarks.rivals.fasttext import YES, log_odds

        rows = [line.split() for line in (self.folder / "scores.txt").read_text().splitlines()]
        return log_odds(np.array([row[0] == YES for row in rows]), np.array([float(row[1]) for row in rows]))


class VowpalWabbit(Adapted):
    """Learn, predict."""

    rival = "vw"

    def write_test(self, formatted: Any) -> None:
        self.test = formatted[0]

    def commands(self) -> list[tuple[Command, str | None, str | None]]:
        from benchmarks.rivals.vw import learning, predicting

        vw = (sys.executable, "-m", "vowpalwabbit", "--quiet")
        learn = (*vw, *learning(self.train[0], self.folder / "model", self.folder / "cache", **self.setting))
        return [(learn, None, None), ((*vw, *predicting(self.test, "model", "scores.txt")), None, None)]

    def scores(self) -> Floats:
        return np.array([float(line) for line in (self.folder / "scores.txt").read_text().split()])


class KenLM(Adapted):
    """lmplz, build_binary and query, for a pair of models; a score is the difference of two files."""

    rival = "kenlm"

    def commands(self) -> list[tuple[Command, str | None, str | None]]:
        from benchmarks.rivals.kenlm import estimating

        beside = Path(sys.executable).parent
        found: list[tuple[Command, str | None, str | None]] = []
        for name in ("nu", "de"):
            for program, *words in estimating(self.folder, name, self.setting["order"]):
                found.append(((beside / program, *words), None, None))
            query = (beside / "query", "-v", "word" if self.setting["ends"] else "sentence", f"{name}.klm")
            found.append((query, "test.txt", f"{name}.scores"))
        return found

    def scores(self) -> Floats:
        of_target, of_others = (self._logs(self.folder / f"{name}.scores") for name in ("nu", "de"))
        return np.subtract(of_target, of_others, dtype=np.float64)

    def _logs(self, path: Path) -> list[float]:
        if self.setting["ends"]:  # all in one line: "word=number length log", and a tab
            return [float(word.split()[2]) for word in path.read_text().split("\t") if word.startswith("</s>=")]
        return [float(line.split()[1]) for line in path.read_text().splitlines()]  # "Total: log OOV: number"


PROGRAMS: dict[str, tuple[type[Program], str]] = {
    "raregram": (Ours, "raregram"),
    "fasttext": (FastText, "fastText"),
    "vw": (VowpalWabbit, "Vowpal Wabbit"),
    "kenlm": (KenLM, "KenLM, a pair of models"),
}


def main() -> None:
    options = parser(__doc__, out="build/bench", results=True)
    options.add_argument("--size", type=int, default=10_000, help="training articles")
    options.add_argument("--targets", nargs="+", default=["LOC", "PER"])
    options.add_argument("--k", type=int, default=Config().k)
    arguments = options.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command would compile all modules anew
    entries = [
        {"target": target, "program": name, **measure(arguments, target, name)}
        for target in arguments.targets
        for name in PROGRAMS
    ]
    figures = verdicts(entries)
    if arguments.json:
        write_json(arguments.json, {"figures": figures.found, "entries": entries})


def measure(arguments: Any, target: str, name: str) -> dict[str, Any]:
    """Run a tool's commands; return the seconds and F1, or in a line why there are none."""
    contest = Measurement(0, arguments.size, target, name).path(arguments.out)
    chosen: dict[str, Any] = (
        json.loads(contest.read_text()) if contest.exists() else {"failed": "it was not in the contest"}
    )
    if "failed" in chosen:
        return {"failed": chosen["failed"]}
    data = Data(data_folder(arguments.out, 0))
    test = data.read("test", target)
    with tempfile.TemporaryDirectory(prefix="ends-") as folder:
        program = PROGRAMS[name][0](Path(folder), target, chosen["setting"])
        program.write(data, arguments.size, test)
        clock: list[float] = []
        try:
            processor = processor_seconds(lambda: clock.append(timed(program.run)))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or b""
            return {"failed": " ".join(f"{error}: {said.decode(errors='replace')[-200:]}".split())}
        scores = program.scores()
        check(scores, len(test.labels))
        return {"clock": clock[0], "processor": processor, "f1": f1(scores, test.labels, arguments.k)}


def verdicts(entries: Sequence[dict[str, Any]]) -> Figures:
    """Compare the clock of raregram's commands with that of the fastest rival within 10 % of our F1, else of all."""
    figures = Figures()
    for target in dict.fromkeys(entry["target"] for entry in entries):
        here = {entry["program"]: entry for entry in entries if entry["target"] == target and "failed" not in entry}
        ours = here.pop("raregram", None)
        if ours and here:
            close = [entry for entry in here.values() if entry["f1"] >= CLOSE * ours["f1"]]
            fastest = min(close or here.values(), key=lambda entry: float(entry["clock"]))
            which = "within 10 % of our F1" if close else "at all (none is within 10 % of our F1)"
            title = f"{target}: files to files, time of the fastest rival {which} over ours"
            least = 3 if close else None
            figures.add(
                f"{title}, {PROGRAMS[fastest['program']][1]}", fastest["clock"] / ours["clock"], "x", least=least
            )
    return figures


def table(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was measured as a table in Markdown."""
    lines = ["| | target | clock | processor | F1 |", "|---|---|--:|--:|--:|"]
    for entry in entries:
        title = PROGRAMS[entry["program"]][1]
        if "failed" in entry:
            cells = [entry["failed"], "", ""]
        else:
            cells = [f"{entry['clock']:.1f} s", f"{entry['processor']:.1f} s", f"{entry['f1']:.3f}"]
        lines.append(f"| {' | '.join([title, entry['target'], *cells])} |")
    return lines


if __name__ == "__main__":
    main()

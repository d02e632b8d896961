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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.contest import Measurement, data_folder
from benchmarks.measuring import RAREGRAM, Figures, parser, processor_seconds, timed, write_json
from benchmarks.rivals import Floats, Task, load
from benchmarks.rivals.data import Data, Part
from benchmarks.rivals.run import check, f1
from benchmarks.rivals.summary import CLOSE
from raregram.experiment.run import Config


class Command(NamedTuple):
    """A command, with the files that are its standard input and output."""

    words: Sequence[object]
    source: str = os.devnull
    out: str = "said"


@dataclass(frozen=True)
class Job:
    """A tool's work in a folder of its own."""

    folder: Path
    target: str
    setting: dict[str, Any]
    data: Data
    size: int
    test: Part

    def write_test(self, lines: Any) -> None:
        (self.folder / "test.txt").write_text("".join(f"{line.rstrip()}\n" for line in lines))

    def adapted(self, rival: str) -> Any:
        """Write the training input of a rival; return that, and the test contexts in its format."""
        adapter = load(rival)(Task(self.target, self.data.n, self.folder))
        train = adapter.format(*self.data.read(f"contexts-{self.size}", self.target))
        return train, adapter.format(self.test.texts)


# Each tool writes its input, and yields its commands and how its scores are read.
Work = tuple[list[Command], Callable[[], Floats]]


def ours(job: Job) -> Work:
    shutil.copy(job.data.folder / f"train-{job.size}.parquet", job.folder / "train.parquet")
    job.write_test(job.test.texts.to_pylist())
    count = ("count", "train.parquet", "--targets", job.target, "--n", Config().n, "--out", "c", "-q")
    fit = ("fit", "c", "--target", job.target, "--out", "m.rgm", "-q")
    score = ("score", "m.rgm", "test.txt", "--format", "contexts", "--out", "scores.csv", "-q")

    def scores() -> Floats:
        with (job.folder / "scores.csv").open(newline="") as file:
            return np.array([float(row["log_ratio"]) for row in csv.DictReader(file)])

    return [Command((RAREGRAM, *words)) for words in (count, fit, score)], scores


def fasttext(job: Job) -> Work:
    from benchmarks.rivals.fasttext import BUCKETS, DIMENSIONS, YES, log_odds

    job.write_test(job.adapted("fasttext")[1])
    settings = [word for name, value in job.setting.items() for word in (f"-{name}", value)]
    layout = ("-dim", DIMENSIONS, "-bucket", BUCKETS, "-wordNgrams", 2, "-minCount", 1, "-thread", 2)
    train = ("fasttext", "supervised", "-input", "train.txt", "-output", "model", *layout, *settings)

    def scores() -> Floats:
        rows = [line.split() for line in (job.folder / "scores.txt").read_text().splitlines()]
        return log_odds(np.array([row[0] == YES for row in rows]), np.array([float(row[1]) for row in rows]))

    predict = Command(("fasttext", "predict-prob", "model.bin", "test.txt"), out="scores.txt")
    return [Command(train), predict], scores


def vowpal_wabbit(job: Job) -> Work:
    from benchmarks.rivals.vw import learning, predicting

    train, test = job.adapted("vw")
    vw = (sys.executable, "-m", "vowpalwabbit", "--quiet")
    learn = (*vw, *learning(train[0], job.folder / "model", job.folder / "cache", **job.setting))
    predict = (*vw, *predicting(test[0], "model", "scores.txt"))
    return [Command(learn), Command(predict)], lambda: np.loadtxt(job.folder / "scores.txt", ndmin=1)


def kenlm(job: Job) -> Work:
    """Make a pair of models; a score is the difference of two files."""
    from benchmarks.rivals.kenlm import estimating

    job.write_test(job.adapted("kenlm")[1])
    beside, ends = Path(sys.executable).parent, job.setting["ends"]
    found: list[Command] = []
    for name in ("nu", "de"):
        found += [Command((beside / p, *words)) for p, *words in estimating(job.folder, name, job.setting["order"])]
        query = (beside / "query", "-v", "word" if ends else "sentence", f"{name}.klm")
        found.append(Command(query, "test.txt", f"{name}.scores"))

    def logs(name: str) -> list[float]:
        text = (job.folder / f"{name}.scores").read_text()
        if ends:  # all in one line: "word=number length log", and a tab
            return [float(word.split()[2]) for word in text.split("\t") if word.startswith("</s>=")]
        return [float(line.split()[1]) for line in text.splitlines()]  # "Total: log OOV: number"

    return found, lambda: np.subtract(logs("nu"), logs("de"), dtype=np.float64)


PROGRAMS: dict[str, tuple[Callable[[Job], Work], str]] = {
    "raregram": (ours, "raregram"),
    "fasttext": (fasttext, "fastText"),
    "vw": (vowpal_wabbit, "Vowpal Wabbit"),
    "kenlm": (kenlm, "KenLM, a pair of models"),
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
    if arguments.json:
        write_json(arguments.json, {"figures": verdicts(entries).found, "entries": entries})


def run(commands: Sequence[Command], folder: Path) -> None:
    for words, source, out in commands:
        with (folder / source).open() as stdin, (folder / out).open("w") as to:
            call = list(map(str, words))
            subprocess.run(call, cwd=folder, stdin=stdin, stdout=to, stderr=subprocess.PIPE, check=True)


def measure(arguments: Any, target: str, name: str) -> dict[str, Any]:
    """Run a tool's commands; return the seconds and F1, or in a line why there are none."""
    contest = Measurement(0, arguments.size, target, name).path(arguments.out)
    if not contest.exists():
        return {"failed": "it was not in the contest"}
    chosen = json.loads(contest.read_text())
    if "failed" in chosen:
        return {"failed": chosen["failed"]}
    data = Data(data_folder(arguments.out, 0))
    test = data.read("test", target)
    with tempfile.TemporaryDirectory(prefix="ends-") as made:
        folder = Path(made)
        commands, scores_of = PROGRAMS[name][0](Job(folder, target, chosen["setting"], data, arguments.size, test))
        clock: list[float] = []
        try:
            processor = processor_seconds(lambda: clock.append(timed(lambda: run(commands, folder))))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or b""
            return {"failed": " ".join(f"{error}: {said.decode(errors='replace')[-200:]}".split())}
        scores = scores_of()
    check(scores, len(test.labels))
    return {"clock": clock[0], "processor": processor, "f1": f1(scores, test.labels, arguments.k)}


def verdicts(entries: Sequence[dict[str, Any]]) -> Figures:
    """Compare the clock of raregram's commands with that of the fastest rival within 10 % of our F1, else of all."""
    figures = Figures()
    for target in dict.fromkeys(entry["target"] for entry in entries):
        here = {entry["program"]: entry for entry in entries if entry["target"] == target and "failed" not in entry}
        own = here.pop("raregram", None)
        if own and here:
            close = [entry for entry in here.values() if entry["f1"] >= CLOSE * own["f1"]]
            fastest = min(close or here.values(), key=lambda entry: float(entry["clock"]))
            which = "within 10 % of our F1" if close else "at all (none is within 10 % of our F1)"
            what = f"{target}: files to files, time of the fastest rival {which} over ours"
            ratio = fastest["clock"] / own["clock"]
            figures.add(f"{what}, {PROGRAMS[fastest['program']][1]}", ratio, "x", least=3 if close else None)
    return figures


def table(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was measured as a table in Markdown."""
    return ["| | target | clock | processor | F1 |", "|---|---|--:|--:|--:|", *lines(entries)]


def lines(entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        cells = [entry.get("failed", ""), "", ""]
        if "failed" not in entry:
            cells = [f"{entry['clock']:.1f} s", f"{entry['processor']:.1f} s", f"{entry['f1']:.3f}"]
        yield f"| {' | '.join([PROGRAMS[entry['program']][1], entry['target'], *cells])} |"


if __name__ == "__main__":
    main()

"""A folder of plain text through every command with its default options, beside the paper's best.

    python -m benchmarks.trial [FOLDER]

The folder holds text files, one document each; by default it is made from Reuters-21578 (npm brings it). Two thirds
of the files are tagged, counted and fitted, and the rest is scored, ranked and evaluated. Then every setting of the
paper's estimator is tried on that same held-out part. The trial fails unless the default beats all of them in average
precision.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figures, met, parser
from raregram.experiment.run import Config, load_corpus

TARGETS = ("LOC", "PER")


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("folder", nargs="?", type=Path, help="of text files; default: Reuters-21578")
    options.add_argument("--documents", type=int, default=600, help="how many to take")
    options.add_argument("--targets", nargs="+", default=TARGETS)
    arguments = options.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="raregram-trial-") as made:
        work = Path(made)
        texts = read_folder(arguments.folder) if arguments.folder else reuters()
        write_parts(texts[: arguments.documents], work)
        trial(work, arguments.targets, figures)
    figures.write(arguments.json)
    if not all(map(met, figures.found)):
        sys.exit("the default does not beat the paper's best")


def trial(work: Path, targets: tuple[str, ...], figures: Figures) -> None:
    """Run all commands, and compare the default with the paper's best for every target."""
    for part in ("train", "held"):
        run("tag", part, "--out", f"{part}.parquet", folder=work)
    run("count", "train.parquet", "--out", "train.counts", folder=work)
    for target in targets:
        model = f"{target}.rgm"
        run("fit", "train.counts", "--target", target, "--out", model, folder=work)
        run("score", model, "held", "--out", "scores.csv", folder=work)
        print(run("rank", model, "held", "--top", "5", folder=work))
        print(run("explain", model, "--in", "held", "--top", "1", folder=work))
        found = json.loads(run("evaluate", model, "held.parquet", "--json", folder=work))["overall"]
        selective = ("tune", "train.counts", "held.parquet", "--target", target, "--estimator", "selective")
        best = json.loads(run(*selective, "--out", "paper.rgm", "--json", folder=work))["best"]
        figures.add(f"{target}: average precision, default options", found["average_precision"])
        figures.add("  the paper's best of all settings on the same part", best["average_precision"])
        ratio = found["average_precision"] / best["average_precision"]
        figures.add("  as a multiple", ratio, "x", least=1)


def reuters() -> list[str]:
    """Return the articles of the experiment in a random order, as text."""
    corpus = load_corpus(Config()).to_pylist()
    return [" ".join(row["items"]) if row.get("items") else row["text"] for row in corpus]


def read_folder(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.rglob("*.txt"))]


def write_parts(texts: list[str], work: Path) -> None:
    """Write every third text to `held`, the others to `train`."""
    for number, text in enumerate(texts):
        part = work / ("held" if number % 3 == 2 else "train")
        part.mkdir(exist_ok=True)
        (part / f"{number:05}.txt").write_text(text)


def run(*arguments: str, folder: Path) -> Any:
    """Run one command as a user would, and return what it prints."""
    print(f"$ raregram {shlex.join(arguments)}", flush=True)
    command = [str(Path(sys.executable).with_name("raregram")), *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

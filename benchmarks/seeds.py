"""The experiment with both taggers, three seeds and two lengths of contexts: the tables of docs/experiment.md.

    python -m benchmarks.seeds [--out build/seeds]

Twelve runs of `raregram reproduce`, some two minutes each on two cores; those that are done are not run again.
"""

from __future__ import annotations

import json
import statistics
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.measuring import RAREGRAM, output_of, parser, show_machine
from raregram.experiment.tables import chosen, findings

SEEDS, LENGTHS = (0, 1, 2), (10, 2)
COLUMNS = [(target, tags) for target in ("LOC", "PER") for tags in ("stanford", "spacy")]
FAMILIES = {
    "smoothed": "whole N-grams, smoothed",
    "all used lam=0": "all used, lam = 0",
    "all used lam*": "all used, tuned lam",
    "selective random": "selected by random",
    "selective tf": "selected by tf",
    "selective cet": "selected by cet",
    "selective chi2": "selected by chi2",
    "selective chi2_printed": "selected by chi2 as printed",
    "selective gss": "selected by gss",
    "selective": "selected, the criterion chosen too",
    "selective, size read off the test curve": "selected, size read off the test curve as in the paper",
    "backoff": "**back-off**",
}
Runs = dict[tuple[str, int, int], dict[str, Any]]  # tags, N, seed -> results


def main() -> None:
    options = parser(__doc__, out="build/seeds")
    out: Path = options.parse_args().out
    runs: Runs = {}
    for tags, n, seed in product(("stanford", "spacy"), LENGTHS, SEEDS):
        folder = out / f"{tags}-{n}-{seed}"
        if not (folder / "results.json").exists():
            output_of(RAREGRAM, "reproduce", "--tags", tags, "--n", n, "--seed", seed, "--quiet", "--out", folder)
        runs[tags, n, seed] = json.loads((folder / "results.json").read_text())
    show_machine()
    head = f"{' | '.join(f'{target}, {tags.capitalize()}' for target, tags in COLUMNS)} |"
    for n in LENGTHS:
        print(f"\n| N = {n} | {head}\n|---|{'--:|' * len(COLUMNS)}")
        for family, name in FAMILIES.items():
            print(f"| {name} | {' | '.join(mean_f1(runs, tags, n, target, family) for target, tags in COLUMNS)} |")
    print(f"\n| finding | {head}\n|---|{':-:|' * len(COLUMNS)}")
    for finding in dict.fromkeys(each.claim for each in findings(runs["stanford", 10, 0])):
        print(f"| {finding} | {' | '.join(count_seeds(runs, tags, target, finding) for target, tags in COLUMNS)} |")


def mean_f1(runs: Runs, tags: str, n: int, target: str, family: str) -> str:
    """Return the mean over the seeds of a family's F1 on test."""
    return f"{statistics.mean(chosen(runs[tags, n, seed], target, family)['test_f1'] for seed in SEEDS):.3f}"


def count_seeds(runs: Runs, tags: str, target: str, finding: str) -> str:
    """Return in how many of the seeds a finding held, for both lengths; "" if it is not about this target."""
    found = [
        [
            each.held
            for seed in SEEDS
            for each in findings(runs[tags, n, seed])
            if (each.target, each.claim) == (target, finding)
        ]
        for n in LENGTHS
    ]
    return " / ".join(str(sum(of_length)) for of_length in found) if found[0] else ""


if __name__ == "__main__":
    main()

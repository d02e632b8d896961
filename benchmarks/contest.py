"""raregram beside everything a user would pick instead: accuracy, time, speed, memory and size.

    python -m benchmarks.install                      make the environment, once
    python -m benchmarks.contest [--sizes 1000,4000]  measure; a second run goes on where the first one stopped

Settings are chosen on validation and reported on test. Each measurement is a process of its own, on one thread.
Everything found is in OUT/results.json; OUT/table.md and OUT/figure.svg show it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.measuring import PROJECT
from benchmarks.rivals import REGISTRY, find
from benchmarks.rivals.data import SIGNAL, SYNTHETIC, Data, reuters, synthetic
from benchmarks.rivals.summary import TIMINGS, medians, write_figure, write_table, write_verdicts
from raregram.measure.experiment import Config, processor

QUICK = 60.0  # seconds; what is fitted in less is measured again in every round
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass
class Contest:
    """A contest and what was found so far."""

    arguments: argparse.Namespace
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Go on from what an earlier run has kept."""
        if self.path.exists():
            self.found = json.loads(self.path.read_text())
        self.found["machine"] = machine(self.arguments.python)
        self.entries: dict[str, Any] = self.found.setdefault("entries", {})

    @property
    def path(self) -> Path:
        """The file of results."""
        return Path(self.arguments.out) / "results.json"

    @cached_property
    def installed(self) -> dict[str, str]:
        """What benchmarks/install.py says about each package."""
        path = Path(self.arguments.python).absolute().parent.parent / "rivals.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def keep(self) -> None:
        """Write down everything at once, so that nothing is lost."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(self.found, indent=1) + "\n")
        draft.replace(self.path)

    def choose(self, data: Data, size: int, target: str, rival: str) -> None:
        """Measure a rival for the first time, choosing its setting."""
        key = f"{size} {target} {rival}"
        if key in self.entries:
            return
        entry = {"size": size, "target": target, "rival": rival}
        missing = self.missing(rival)
        result = {"failed": missing} if missing else self.run(data, size, target, rival)
        self.add(key, entry | result)

    def again(self, data: Data, key: str) -> None:
        """Measure a rival once more, with the setting that it has."""
        entry = self.entries[key]
        setting = ["--setting", json.dumps(entry["setting"])]
        result = self.run(data, entry["size"], entry["target"], entry["rival"], *setting)
        if "failed" in result:
            say(f"{key}: {result['failed']}; the rounds so far count")
            entry["no_more_rounds"] = result["failed"]
        else:
            entry["rounds"].append({name: result[name] for name in TIMINGS})
            entry |= medians(entry["rounds"])
        self.keep()

    def time_synthetic(self, data: Data, rival: str, model: dict[str, Any] | None) -> None:
        """Measure the times of a rival on the synthetic contexts, unless they can be foretold to be too long."""
        key = f"{SYNTHETIC} {SIGNAL} {rival}"
        if key in self.entries:
            return
        entry = {"size": SYNTHETIC, "target": SIGNAL, "rival": rival}
        missing = self.missing(rival)
        foretold = 0.0
        setting = []
        if model is not None and "failed" not in model:
            foretold = (model["read_seconds"] + model["fit_seconds"]) * SYNTHETIC / model["contexts"]
            setting = ["--setting", json.dumps(model["setting"])]
        elif model is not None:
            missing = missing or f"not run, since on Reuters: {model['failed']}"
        if foretold > self.arguments.limit:
            missing = f"would take about {foretold:,.0f} s"
        result = {"failed": missing} if missing else self.run(data, SYNTHETIC, SIGNAL, rival, *setting)
        self.add(key, entry | result)

    def add(self, key: str, entry: dict[str, Any]) -> None:
        """Keep a first measurement."""
        if "failed" in entry:
            say(f"{key}: {entry['failed']}")
        else:
            entry["rounds"] = [{name: entry[name] for name in TIMINGS}]
            say(
                f"{key}: F1 {entry['test_f1']:.4f}, read {entry['read_seconds']:.2f} s, "
                f"fit {entry['fit_seconds']:.2f} s, {entry['contexts_per_second']:,.0f} contexts a second"
            )
        self.entries[key] = entry
        self.keep()

    def missing(self, rival: str) -> str | None:
        """Return why a rival cannot be run, as far as its installation tells."""
        reasons = [
            f"{need}: {self.installed[need]}" for need in find(rival).needs if self.installed.get(need, "ok") != "ok"
        ]
        return "; ".join(reasons) or None

    def run(self, data: Data, size: int, target: str, rival: str, *options: str) -> dict[str, Any]:
        """Run one rival on one task in a process of its own; what goes wrong becomes a reason in one line."""
        a = self.arguments
        words = [a.python, "-m", "benchmarks.rivals.run", data.folder, size, target, rival, "--k", a.k, *options]
        words += ["--seed", a.seed, "--limit", a.limit, "--memory", a.memory, "--warm", a.warm]
        paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=a.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"failed": f"not done in {a.limit:g} s"}
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return outcome(process.returncode, output, errors, a.memory)


def outcome(code: int, output: str, errors: str, memory: float) -> dict[str, Any]:
    """Return what a process has printed, or why it has printed nothing."""
    if code == 0 and output.strip():
        return dict(json.loads(output.strip().splitlines()[-1]))
    last = " ".join((errors.strip().splitlines() or ["it said nothing"])[-1].split())[:200]
    if "bad_alloc" in errors or "MemoryError" in errors or "Cannot allocate" in errors:
        return {"failed": f"out of memory at {memory:g} GB"}
    return {"failed": f"{signal.Signals(-code).name if code < 0 else f'exit code {code}'}: {last}"}


def main() -> None:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside; a second run goes on from here"))
    contest = Contest(arguments)
    names = arguments.rivals
    forget(contest.entries, arguments.again)
    sizes, targets = arguments.sizes, arguments.targets
    if arguments.data:
        data = Data(arguments.data)
    else:
        config = Config(seed=arguments.seed)
        data = reuters(Path(arguments.out) / f"data-{arguments.seed}", sizes, config, say)
    for size in sizes:
        for target in targets:
            for rival in names:
                contest.choose(data, size, target, rival)
    timing_rounds(contest, data, [f"{s} {t} {r}" for s in sizes for t in targets for r in names])
    if arguments.synthetic:
        made = synthetic(Path(arguments.out) / f"synthetic-{arguments.seed}", SYNTHETIC, arguments.seed, say)
        for rival in names:
            contest.time_synthetic(made, rival, contest.entries.get(f"{max(sizes)} {targets[0]} {rival}"))
    out = Path(arguments.out)
    write_table(contest.found, out / "table.md")
    write_figure(contest.found, out)
    print(write_verdicts(contest.found, out / "verdicts.txt"), end="")
    say(f"see {out / 'table.md'} and {out / 'figure.svg'}")


def timing_rounds(contest: Contest, data: Data, keys: Sequence[str]) -> None:
    """Measure in turns, so that a slow minute of the machine does not fall on one rival alone."""
    for number in range(2, contest.arguments.rounds + 1):
        waiting = [key for key in keys if wants_round(contest.entries[key], number)]
        if waiting:
            say(f"round {number} of timing: {len(waiting)} to measure")
        for key in waiting:
            contest.again(data, key)


def wants_round(entry: dict[str, Any], number: int) -> bool:
    """Whether an entry is quick enough to be measured again, and has not been measured so often."""
    if "failed" in entry or "no_more_rounds" in entry or len(entry["rounds"]) >= number:
        return False
    first = entry["rounds"][0]
    return bool(first["read_seconds"] + first["fit_seconds"] < QUICK)


def forget(entries: dict[str, Any], rivals: Sequence[str]) -> None:
    """Drop what was measured of some rivals."""
    for key in [key for key, entry in entries.items() if entry["rival"] in rivals]:
        del entries[key]


def parse_arguments() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    def numbers(text: str) -> list[int]:
        return [int(word) for word in words(text)]

    def rivals(text: str) -> list[str]:
        for name in words(text):
            try:
                find(name)
            except KeyError as error:
                raise argparse.ArgumentTypeError(error.args[0]) from None
        return words(text)

    usual = [name for name, entry in REGISTRY.items() if not entry.on_request]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=numbers, default=[1000, 4000, 10_000], help="training articles")
    parser.add_argument("--targets", type=words, default=["LOC", "PER"])
    parser.add_argument("--rivals", type=rivals, default=usual, help=f"of {', '.join(REGISTRY)}")
    parser.add_argument("--again", type=rivals, default=[], help="rivals to be measured anew")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of the quick ones; medians are kept")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one measurement")
    parser.add_argument("--memory", type=float, default=16.0, help="gigabytes for one measurement")
    parser.add_argument("--warm", type=float, default=2.0, help="seconds of scoring before the clock starts")
    parser.add_argument("--k", type=int, default=Config().k, help="how many N-grams are returned")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="a data folder that is there already")
    parser.add_argument("--synthetic", action="store_true", help="also the times for 5 million synthetic contexts")
    parser.add_argument("--python", default=".venv-bench/bin/python", help="of the environment with the rivals")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    return parser.parse_args()


def machine(python: str) -> dict[str, Any]:
    """Return what the measurements were made on."""
    code = (
        "import json, platform; from importlib.metadata import distributions as d; "
        "print(json.dumps([platform.python_version(), {x.metadata['Name']: x.version for x in d()}]))"
    )
    printed = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    version, packages = json.loads(printed)
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": version,
        "packages": dict(sorted(packages.items())),
    }


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

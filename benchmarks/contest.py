"""raregram beside everything a user would pick instead: accuracy, time, speed, memory and size.

    python -m benchmarks.install     make the environment, once
    python -m benchmarks.contest     measure; a second run goes on where the first one stopped

Each measurement is a process of its own, on one thread, and two run side by side; so seconds are processor seconds.
Settings are chosen on validation with the first seed, and reported on test with all. Each measurement is a file in
OUT/contest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import PROJECT, parser, write_json
from benchmarks.rivals import LARGE, REGISTRY, find
from benchmarks.rivals.data import reuters
from benchmarks.rivals.summary import verdicts
from raregram.experiment.run import Config

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Measurement(NamedTuple):
    """What is measured in one process."""

    seed: int
    size: int
    target: str
    rival: str

    def path(self, out: Path) -> Path:
        """Return where the result is written."""
        return out / "contest" / f"{self.seed}-{self.size}-{self.target}-{self.rival}.json"


class Contest:
    """A contest; it goes on from what an earlier run has written."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.out = arguments, arguments.out
        installed = Path(arguments.python).absolute().parent.parent / "rivals.json"
        self.installed = json.loads(installed.read_text()) if installed.exists() else {}
        self.running: set[int] = set()  # process groups
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)

    def stop(self, *_: object) -> None:
        """End everything that runs; a second contest goes on from here."""
        for group in self.running:
            os.killpg(group, signal.SIGKILL)
        os._exit(1)

    def plan(self, seed: int) -> list[Measurement]:
        """Return what is measured with a seed, largest and slowest first."""
        a = self.arguments
        found = []
        for size, name, target in product(sorted(a.sizes, reverse=True), a.rivals, a.targets):
            entry = find(name)
            is_slow = entry.once or (bool(entry.large) and size >= LARGE)
            if (seed == a.seeds[0] or not is_slow) and (size == min(a.sizes) or not entry.smallest):
                found.append(Measurement(seed, size, target, name))
        return found

    def measure(self, what: Measurement) -> None:
        """Measure, unless that was done; write down what was found."""
        path = what.path(self.out)
        if path.exists():
            return
        entry, installed = find(what.rival), self.installed
        failed = "; ".join(f"{need}: {why}" for need in entry.needs if (why := installed.get(need, "ok")) != "ok")
        settings = list(entry.large) if what.size >= LARGE else []
        if what.seed != self.arguments.seeds[0]:
            chosen = json.loads(what._replace(seed=self.arguments.seeds[0]).path(self.out).read_text())
            failed, settings = failed or chosen.get("failed", ""), [chosen.get("setting")]
        found = {"failed": failed} if failed else self.run(what, settings)
        write_json(path, what._asdict() | found)
        say(f"{path.stem}: {found.get('failed') or summary(found)}")

    def run(self, what: Measurement, settings: list[Any]) -> dict[str, Any]:
        """Run one rival on one task in a process of its own; what goes wrong becomes a reason in one line."""
        a = self.arguments
        words = [a.python, "-m", "benchmarks.rivals.run", data_folder(self.out, what.seed), *what[1:], "--k", a.k]
        words += ["--seed", what.seed, "--limit", a.limit, "--memory", a.memory, "--warm", a.warm]
        words += ["--settings", json.dumps(settings)]
        paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
        process = subprocess.Popen(list(map(str, words)), env=environment, start_new_session=True, **pipes)
        self.running.add(process.pid)
        try:
            output, errors = process.communicate(timeout=a.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"failed": f"not done in {a.limit:g} s"}
        finally:
            self.running.discard(process.pid)
        return outcome(process.returncode, output, errors, a.memory)


def outcome(code: int, output: str, errors: str, memory: float) -> dict[str, Any]:
    """Return what a process has printed, or why it has printed nothing."""
    if code == 0 and output.strip():
        return dict(json.loads(output.strip().splitlines()[-1]))
    last = " ".join((errors.strip().splitlines() or ["it said nothing"])[-1].split())[:200]
    if "bad_alloc" in errors or "MemoryError" in errors or "Cannot allocate" in errors:
        return {"failed": f"out of memory at {memory:g} GB"}
    return {"failed": f"{signal.Signals(-code).name if code < 0 else f'exit code {code}'}: {last}"}


def summary(found: dict[str, Any]) -> str:
    """Return a result in a line."""
    seconds = f"read {found['read_seconds']:.2f} s, fit {found['fit_seconds']:.2f} s"
    return f"F1 {found['test_f1']:.4f}, {seconds}, {found['contexts_per_second']:,.0f} contexts a second"


def main() -> None:
    arguments = parse_arguments()
    contest, out = Contest(arguments), arguments.out
    for seed in arguments.seeds:
        reuters(data_folder(out, seed), arguments.sizes, Config(seed=seed), say)
        with ThreadPoolExecutor(arguments.processes) as pool:
            list(pool.map(contest.measure, contest.plan(seed)))
    entries = list(read_entries(out))
    figures = verdicts(entries)
    if arguments.json:
        write_json(arguments.json, {"figures": figures.found, "entries": entries})


def data_folder(out: Path, seed: int) -> Path:
    """Return the folder of a seed's contexts."""
    return out / f"data-{seed}"


def read_entries(out: Path) -> Iterator[dict[str, Any]]:
    """Yield everything that was measured."""
    for path in sorted((out / "contest").glob("*.json")):
        yield json.loads(path.read_text())


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

    options = parser(__doc__, out="build/bench", results=True)
    options.add_argument("--sizes", type=numbers, default=[1000, 10_000], help="training articles")
    options.add_argument("--targets", type=words, default=["LOC", "PER"])
    options.add_argument("--seeds", type=numbers, default=[0, 1, 2])
    options.add_argument("--rivals", type=rivals, default=list(REGISTRY), help=f"of {', '.join(REGISTRY)}")
    options.add_argument("--processes", type=int, default=2, help="that measure side by side")
    options.add_argument("--limit", type=float, default=900.0, help="seconds for one measurement")
    options.add_argument("--memory", type=float, default=16.0, help="gigabytes for one measurement")
    options.add_argument("--warm", type=float, default=1.0, help="seconds of scoring before the clock starts")
    options.add_argument("--k", type=int, default=Config().k, help="how many N-grams are returned")
    options.add_argument("--python", default=".venv-bench/bin/python", help="of the environment with the rivals")
    return options.parse_args()


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

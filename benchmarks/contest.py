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
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.measuring import PROJECT, output_of, parser, write_json
from benchmarks.rivals import REGISTRY, find
from benchmarks.rivals.data import SIGNAL, SYNTHETIC, Data, reuters, synthetic
from benchmarks.rivals.summary import TIMINGS, medians, total, write_figure, write_table, write_verdicts
from raregram.measure.experiment import Config, processor
from raregram.options import TAGS

QUICK = 60.0  # seconds; what is fitted in less is measured again in every round
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Entry = dict[str, Any]


class Contest:
    """A contest and what was found so far; it goes on from what an earlier run has written."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.path = arguments, arguments.out / "results.json"
        self.found = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.found["machine"] = machine(arguments.python)
        self.entries: dict[str, Entry] = self.found.setdefault("entries", {})
        installed = Path(arguments.python).absolute().parent.parent / "rivals.json"
        self.installed = json.loads(installed.read_text()) if installed.exists() else {}

    def keep(self) -> None:
        """Write down everything at once, so that nothing is lost."""
        temporary = self.path.with_suffix(".tmp")
        write_json(temporary, self.found)
        temporary.replace(self.path)

    def measure(self, data: Data, size: int, target: str, rival: str, model: Entry | None = None) -> None:
        """Measure a rival for the first time: choose its setting, or take that of a model on another corpus."""
        key = f"{size} {target} {rival}"
        if key in self.entries:
            return
        needs = find(rival).needs
        failed = "; ".join(f"{need}: {why}" for need in needs if (why := self.installed.get(need, "ok")) != "ok")
        setting: list[str] = []
        if model is not None and "failed" in model:
            failed = failed or f"not run, since on Reuters: {model['failed']}"
        elif model is not None:
            setting = ["--setting", json.dumps(model["setting"])]
            expected = total(model) * size / model["contexts"]
            if expected > self.arguments.limit:
                failed = f"would take about {expected:,.0f} s"
        entry = {"size": size, "target": target, "rival": rival}
        entry |= {"failed": failed} if failed else self.run(data, size, target, rival, *setting)
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

    def run(self, data: Data, size: int, target: str, rival: str, *options: str) -> dict[str, Any]:
        """Run one rival on one task in a process of its own; what goes wrong becomes a reason in one line."""
        a = self.arguments
        words = [a.python, "-m", "benchmarks.rivals.run", data.folder, size, target, rival, "--k", a.k, *options]
        words += ["--seed", a.seed, "--limit", a.limit, "--memory", a.memory, "--warm", a.warm]
        paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
        process = subprocess.Popen(list(map(str, words)), env=environment, start_new_session=True, **pipes)
        try:
            output, errors = process.communicate(timeout=a.limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return {"failed": f"not done in {a.limit:g} s"}
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
    contest, out = Contest(arguments), arguments.out
    for key in [key for key, entry in contest.entries.items() if entry["rival"] in arguments.again]:
        del contest.entries[key]
    sizes, targets, names = arguments.sizes, arguments.targets, arguments.rivals
    if arguments.data:
        data = Data(arguments.data)
    else:
        config = Config(seed=arguments.seed, tags=arguments.tags)
        data = reuters(out / f"data-{config.tags}-{config.seed}", sizes, config, say)
    tasks = list(product(sizes, targets, names))
    for size, target, rival in tasks:
        contest.measure(data, size, target, rival)
    timing_rounds(contest, data, [f"{size} {target} {rival}" for size, target, rival in tasks])
    if arguments.synthetic:
        made = synthetic(out / f"synthetic-{arguments.seed}", SYNTHETIC, arguments.seed, say)
        for rival in names:
            model = contest.entries.get(f"{max(sizes)} {targets[0]} {rival}")
            contest.measure(made, SYNTHETIC, SIGNAL, rival, model)
    write_table(contest.found, out / "table.md")
    write_figure(contest.found, out)
    print(write_verdicts(contest.found, out / "verdicts.txt"), end="")
    say(f"see {out / 'table.md'} and {out / 'figure.svg'}")


def timing_rounds(contest: Contest, data: Data, keys: Sequence[str]) -> None:
    """Measure what is quick again, in turns, so that a slow minute of the machine falls on all."""
    for number in range(2, contest.arguments.rounds + 1):
        waiting = [
            key
            for key in keys
            if not {"failed", "no_more_rounds"} & (entry := contest.entries[key]).keys()
            and len(entry["rounds"]) < number
            and total(entry["rounds"][0]) < QUICK
        ]
        if waiting:
            say(f"round {number} of timing: {len(waiting)} to measure")
        for key in waiting:
            contest.again(data, key)


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
    options = parser(__doc__, out="build/bench")
    options.add_argument("--sizes", type=numbers, default=[1000, 4000, 10_000], help="training articles")
    options.add_argument("--targets", type=words, default=["LOC", "PER"])
    options.add_argument("--rivals", type=rivals, default=usual, help=f"of {', '.join(REGISTRY)}")
    options.add_argument("--again", type=rivals, default=[], help="rivals to be measured anew")
    options.add_argument("--rounds", type=int, default=3, help="measurements of the quick ones; medians are kept")
    options.add_argument("--limit", type=float, default=600.0, help="seconds for one measurement")
    options.add_argument("--memory", type=float, default=16.0, help="gigabytes for one measurement")
    options.add_argument("--warm", type=float, default=2.0, help="seconds of scoring before the clock starts")
    options.add_argument("--k", type=int, default=Config().k, help="how many N-grams are returned")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--tags", choices=TAGS.choices, default=TAGS.default, help="the tagger of Reuters-21578")
    options.add_argument("--data", type=Path, help="a data folder that is there already")
    options.add_argument("--synthetic", action="store_true", help="also the times for 5 million synthetic contexts")
    options.add_argument("--python", default=".venv-bench/bin/python", help="of the environment with the rivals")
    return options.parse_args()


def machine(python: str) -> dict[str, Any]:
    """Return what the measurements were made on."""
    code = (
        "import json, platform; from importlib.metadata import distributions as d; "
        "print(json.dumps([platform.python_version(), {x.metadata['Name']: x.version for x in d()}]))"
    )
    version, packages = json.loads(output_of(Path(python).absolute(), "-c", code))
    found = {"processor": processor(), "cores": os.cpu_count(), "python": version}
    return {**found, "packages": dict(sorted(packages.items()))}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

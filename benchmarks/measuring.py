"""What the benchmarks and the programs of `reliability` share: commands, clocks, turns, and lines of figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
RAREGRAM = Path(sys.executable).with_name("raregram")
MEGABYTE, GIGABYTE = 10**6, 10**9
Task = Callable[[], object]


def parser(doc: str | None, out: str | None = None, results: bool = False) -> argparse.ArgumentParser:
    """Return a parser that shows a program's docstring, with options for a folder or for a file of results."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if results:
        options.add_argument("--json", type=Path, help="write what was found here as well")
    if out:
        options.add_argument("--out", type=Path, default=Path(out), help="the folder that results are written to")
    return options


def write_json(path: Path, results: Any) -> None:
    """Write results to a file, which gets its name when it is whole; its folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.replace(path)


def output_of(*command: object) -> str:
    """Run a command in the project's folder and return what it printed."""
    return subprocess.run(list(map(str, command)), cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout


def run_measured(command: Sequence[object], timeout: float = 3600, **options: Any) -> tuple[int, float, int]:
    """Run a command; return its exit code, the seconds that it took, and its peak memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), **options)
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.perf_counter() - start, usage.ru_maxrss * 1024


def timed(task: Task) -> float:
    """Return the seconds that a task takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def processor_seconds(task: Task) -> float:
    """Return the processor seconds of a task, user and system, with those of the processes that it runs."""
    start = used_seconds()
    task()
    return used_seconds() - start


def used_seconds() -> float:
    """Return the processor seconds that this process, and those that it ran, have used so far."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def in_turns(tasks: Mapping[str, Callable[[], float]], rounds: int = 5) -> dict[str, list[float]]:
    """Run all tasks in turns, so that a slow minute of the machine falls on all; return the seconds they report."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds[name].append(task())
    return seconds


def best_of(tasks: Mapping[str, Task], rounds: int = 5) -> dict[str, float]:
    """Run all tasks in turns and return the shortest time of each."""
    clocked = {name: lambda task=task: timed(task) for name, task in tasks.items()}
    return {name: min(taken) for name, taken in in_turns(clocked, rounds).items()}


def medians(tasks: Mapping[str, Callable[[], float]], rounds: int = 5) -> dict[str, float]:
    """Run all tasks in turns and return the median of the seconds that each reports."""
    return {name: statistics.median(taken) for name, taken in in_turns(tasks, rounds).items()}


def show(what: str, figure: str, target: str = "") -> None:
    """Print a line: what was measured, the figure, and what was aimed at."""
    print(f"{what:<56}{figure:>18}   {target}".rstrip(), flush=True)


class Figures:
    """What a step has found: figures, some with an aim; each is shown as soon as it is there."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def add(
        self, what: str, value: float, unit: str = "", *, least: float | None = None, most: float | None = None
    ) -> None:
        """Add a figure, which should be at least or at most as much."""
        figure = {"what": what, "value": value, "unit": unit, "least": least, "most": most}
        self.found.append(figure)
        show(what, measured(figure), aim(figure))

    def write(self, path: Path | None) -> None:
        """Write everything to a file, if there is to be one."""
        if path is not None:
            write_json(path, {"figures": self.found})


def measured(figure: Mapping[str, Any]) -> str:
    """Return a figure in words."""
    return f"{short(figure['value'])} {figure['unit']}".strip()


def aim(figure: Mapping[str, Any]) -> str:
    """Return what a figure should be, in words."""
    return ", ".join(f"at {word} {short(figure[word])}" for word in ("least", "most") if figure[word] is not None)


def met(figure: Mapping[str, Any]) -> bool:
    """Return whether a figure is what it should be."""
    least, most = figure["least"], figure["most"]
    return (least is None or figure["value"] >= least) and (most is None or figure["value"] <= most)


def short(value: float) -> str:
    """Return a number with three digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show_machine() -> None:
    """Print what the figures were measured on."""
    from raregram.experiment.run import processor

    print(f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)


def own_peak_bytes() -> int:
    """Return the peak memory of this process: the kernel's mark, which begins anew with a program."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_one_core() -> None:
    """Keep this process, its threads and its children on one core, where the system can."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

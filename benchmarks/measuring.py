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


def parser(doc: str | None, out: str | None = None) -> argparse.ArgumentParser:
    """Return a parser that shows a program's docstring; with `out`, it has an option for the folder of results."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if out:
        options.add_argument("--out", type=Path, default=Path(out), help="the folder that results are written to")
    return options


def write_json(path: Path, results: Any) -> None:
    """Write results to a file, whose folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


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


def show_machine() -> None:
    """Print what the figures were measured on."""
    from raregram.measure.experiment import processor

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

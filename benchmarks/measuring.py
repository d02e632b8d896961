"""What the benchmarks share: clocks, turns, the machine, and lines of figures."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
RAREGRAM = Path(sys.executable).with_name("raregram")
Task = Callable[[], object]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of a benchmark's arguments that shows the benchmark's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


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


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median of each."""
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def show(what: str, figure: str, target: str = "") -> None:
    """Print a line: what was measured, the figure, and what was aimed at."""
    print(f"{what:<56}{figure:>18}   {target}".rstrip(), flush=True)


def show_machine() -> None:
    """Print what the figures were measured on."""
    from raregram.measure.experiment import processor

    print(f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)


def own_peak_bytes() -> int:
    """Return the most memory that this process ever held: the kernel's mark, which begins anew with a program."""
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


def compile_yardstick(folder: Path) -> Callable[[Path], float]:
    """Compile the C program; return a function that runs it over a file and returns its seconds without reading."""
    program = folder / "split_hash"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "split_hash.c"], check=True)

    def run(path: Path) -> float:
        printed = subprocess.run([program, path, "1"], check=True, capture_output=True, text=True).stdout
        return float(printed.split()[2])

    return run

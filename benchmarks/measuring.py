"""What the benchmarks share: clocks, turns, and lines of figures."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
Task = Callable[[], object]


def timed(task: Task) -> float:
    """Return the seconds that a task takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def in_turns(tasks: Mapping[str, Callable[[], float]], rounds: int = 5) -> dict[str, list[float]]:
    """Run all tasks in turns, so that a slow minute of the machine falls on all; return the seconds they tell."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds[name].append(task())
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median of each."""
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def show(what: str, figure: str, target: str = "") -> None:
    """Print a line: what was measured, the figure, and what was aimed at."""
    print(f"{what:<56}{figure:>18}   {target}".rstrip(), flush=True)


def own_peak_bytes() -> int:
    """Return the most memory that this process ever held: the kernel's mark, which begins anew with a program."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_one_core() -> None:
    """Keep this process, its threads and its children on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def compile_yardstick(folder: Path) -> Callable[[Path], float]:
    """Compile the C program; return what runs it over a file and returns the seconds that it took, reading apart."""
    program = folder / "split_hash"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "split_hash.c"], check=True)

    def run(path: Path) -> float:
        printed = subprocess.run([program, path, "1"], check=True, capture_output=True, text=True).stdout
        return float(printed.split()[2])

    return run

"""Whether the resources of a process stay level: samples from outside, a robust slope, and a verdict.

Flat means: the median slope between all pairs of samples after the warm-up (Theil and Sen), carried on over the whole
run, stays below a share of the level or below a fixed amount, whichever is larger. A sawtooth, a peak or a late drop
hardly moves that slope; a leak of a little in every round does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.stats

MEGABYTE = 1 << 20
INTERVAL = 0.5  # seconds between samples
WARM_UP = 0.25  # of a run: caches fill, and the allocator finds its level
MOST_POINTS = 1500  # that slopes are taken between; of more samples, every second, third, ... is taken


@dataclass(frozen=True)
class Sample:
    """The resources of a process at some time."""

    seconds: float  # since the run began
    memory: int  # bytes resident
    files: int  # open files, sockets among them
    threads: int
    temporary: int  # bytes in its folder for temporary files


# How much may be gained in a run: a share of the level, or so much, whichever is larger. Whole numbers jump, so files
# and threads get a margin of two; temporary files must be gone after each round.
BOUNDS: dict[str, tuple[float, float]] = {
    "memory": (0.05, 8 * MEGABYTE),
    "files": (0.05, 2),
    "threads": (0.05, 2),
    "temporary": (0.0, MEGABYTE),
}


@dataclass(frozen=True)
class Flatness:
    """The verdict on one resource of one process."""

    process: str
    what: str
    level: float  # the median after the warm-up
    highest: float
    growth: float  # the slope, carried on over the whole run
    allowed: float
    flat: bool

    def __str__(self) -> str:
        """Say it in a line."""
        unit, name = (MEGABYTE, " MB") if self.what in ("memory", "temporary") else (1, "")
        level, highest, growth, allowed = (
            f"{value / unit:,.1f}{name}" for value in (self.level, self.highest, self.growth, self.allowed)
        )
        verdict = f"grows by {growth} of {allowed}: {'flat' if self.flat else 'NOT FLAT'}"
        return f"{self.what} of the {self.process}: {level}, at most {highest}; {verdict}"


def judge(
    process: str, samples: Sequence[Sample], run: float, bounds: Mapping[str, tuple[float, float]] = BOUNDS
) -> list[Flatness]:
    """Return the verdict on every resource of a process in a run of so many seconds."""
    kept = [sample for sample in samples if sample.seconds >= WARM_UP * run]
    if len(kept) < 2:
        raise ValueError(f"there are {len(kept)} samples of the {process} after the warm-up: it takes two at least")
    thinned = kept[:: -(-len(kept) // MOST_POINTS)]
    found = []
    for what, (share, least) in bounds.items():
        values = np.array([getattr(sample, what) for sample in kept], dtype=np.float64)
        slope = scipy.stats.theilslopes([getattr(sample, what) for sample in thinned], [s.seconds for s in thinned])[
            0
        ]
        level, growth = float(np.median(values)), float(slope) * run
        allowed = max(share * level, least)
        found.append(Flatness(process, what, level, float(values.max()), growth, allowed, growth <= allowed))
    return found


@contextmanager
def sampled(processes: Mapping[str, tuple[int, Path]]) -> Iterator[dict[str, list[Sample]]]:
    """Sample processes, by their ids and folders for temporary files, until the context is left."""
    samples: dict[str, list[Sample]] = {name: [] for name in processes}
    ended, began = threading.Event(), time.monotonic()

    def run() -> None:
        while not ended.wait(INTERVAL):
            for name, (process, folder) in processes.items():
                with suppress(FileNotFoundError, ProcessLookupError, KeyError):  # whoever waits for it reports that
                    samples[name].append(look(process, folder, time.monotonic() - began))

    thread = threading.Thread(target=run, name="sampler", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def look(process: int, folder: Path, seconds: float = 0.0) -> Sample:
    """Sample a process as the kernel sees it, and the files below its folder, some of which may go meanwhile."""
    home, temporary = Path("/proc", str(process)), 0
    status = dict(line.split(":", 1) for line in (home / "status").read_text().splitlines() if ":" in line)
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            temporary += path.stat().st_size if path.is_file() else 0
    files, memory = sum(1 for _ in (home / "fd").iterdir()), int(status["VmRSS"].split()[0]) * 1024
    return Sample(seconds, memory, files, int(status["Threads"]), temporary)

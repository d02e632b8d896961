"""Counters that several processes share, in the text form that Prometheus reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROUTES = ("score", "texts", "explain", "changes", "rank", "models", "page", "other")
STATUSES = (200, 304, 400, 401, 404, 405, 408, 413, 415, 421, 422, 499, 500, 503, 0)  # 0: any other
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, float("inf"))  # seconds
PLACE_OF = {status: place for place, status in enumerate(STATUSES)}
WIDTH = len(STATUSES) + len(BOUNDS) + 1  # of a route: requests by status, by time, and seconds in all
SIZE = len(ROUTES) * WIDTH


class Metrics:
    """The counters of one process, in a row of its own of a shared file."""

    def __init__(self, path: str | None = None, processes: int = 1) -> None:
        row = 0
        if path is None:
            self.all: Any = np.zeros((1, SIZE))
        else:
            self.all = np.memmap(path, np.float64, "r+", shape=(processes, SIZE))
            row = _claim(path, processes)
        self.own: Any = memoryview(self.all[row])

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        first = ROUTES.index(route) * WIDTH
        own = self.own
        own[first + PLACE_OF.get(status, len(STATUSES) - 1)] += 1
        bucket = next(place for place, bound in enumerate(BOUNDS) if seconds <= bound)
        own[first + len(STATUSES) + bucket] += 1
        own[first + WIDTH - 1] += seconds

    def text(self, more: Mapping[str, float]) -> str:
        """Return all counters of all processes, and some gauges."""
        return "\n".join([*self._lines(), *_gauges(more)]) + "\n"

    def _lines(self) -> Iterator[str]:
        total = np.asarray(self.all).sum(axis=0).reshape(len(ROUTES), WIDTH)
        yield "# HELP raregram_requests_total Requests, by what was asked and by the status of the answer."
        yield "# TYPE raregram_requests_total counter"
        for route, row in zip(ROUTES, total, strict=True):
            for status, value in zip(STATUSES, row, strict=False):
                if value:
                    yield f'raregram_requests_total{{route="{route}",status="{status or "other"}"}} {value:.0f}'
        yield "# HELP raregram_request_seconds How long requests took."
        yield "# TYPE raregram_request_seconds histogram"
        for route, row in zip(ROUTES, total, strict=True):
            below = np.cumsum(row[len(STATUSES) : -1])
            for bound, value in zip(BOUNDS, below, strict=True):
                shown = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f'raregram_request_seconds_bucket{{route="{route}",le="{shown}"}} {value:.0f}'
            yield f'raregram_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}'
            yield f'raregram_request_seconds_count{{route="{route}"}} {below[-1]:.0f}'


def make_file(path: Path, processes: int) -> None:
    """Write the file that the processes share."""
    path.write_bytes(bytes(8 * SIZE * processes))


def _claim(path: str, processes: int) -> int:
    """Lock a row that no other process has; one that starts after another ended goes on with its counters."""
    import fcntl

    file = os.open(path, os.O_RDWR)  # it stays open, and locked, as long as the process lives
    for row in range(processes):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
        except OSError:
            continue
        return row
    return processes - 1  # two may miscount, which is better than not to serve


def _gauges(values: Mapping[str, float]) -> Iterator[str]:
    for name, value in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        yield f"# TYPE raregram_{name} {kind}"
        yield f"raregram_{name} {value:g}"

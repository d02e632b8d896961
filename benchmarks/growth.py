"""How time and memory grow with the corpus, with N and with the number of targets, as a figure.

    python -m benchmarks.growth [--json build/bench/growth.json]

Each point is a process of its own: it counts a synthetic corpus and fits a back-off model, on one core. Printed is
the exponent over the upper half of each line: 1 means in proportion, and nothing may be worse.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import raregram as rg
from benchmarks import corpora
from benchmarks.measuring import Figures, on_one_core, output_of, own_peak_bytes, parser, timed, write_json

START: dict[str, int] = {"items": 1_000_000, "n": 10, "targets": 2}
LINES = {
    "items": (500_000, 1_000_000, 2_000_000, 4_000_000),
    "n": (5, 10, 20, 40),
    "targets": (1, 2, 4, 8, 16),
}
TITLES = {"items": "items of the corpus", "n": "N", "targets": "targets"}
MEASURES = {
    "units": "count units",
    "all": "count suffixes and shapes",
    "fit": "fit back-off",
    "memory": "peak memory",
}
MARGIN = 0.1  # by which an exponent may pass 1 in a noisy measurement


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--divide", type=int, default=1, help="take so many times fewer items")
    options.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.point:
        print(json.dumps(measure(**arguments.point)))
        return
    on_one_core()
    found: dict[str, list[dict[str, Any]]] = {}
    figures = Figures()
    for name, values in LINES.items():
        found[name] = []
        for value in values:  # each point in a process of its own, so that its memory is its own
            point = {**START, name: value}
            point["items"] //= arguments.divide
            printed = output_of(sys.executable, "-m", "benchmarks.growth", "--point", json.dumps(point))
            found[name].append(json.loads(printed))
        for measure_, title in MEASURES.items():
            grows = exponent(values, [point[measure_] for point in found[name]])
            figures.add(f"exponent of {title}, over {TITLES[name]}", grows, most=1 + MARGIN)
    if arguments.json:
        write_json(arguments.json, {"figures": figures.found, "lines": found})


def measure(items: int, n: int, targets: int) -> dict[str, Any]:
    """Count and fit; return the seconds, and the peak memory above what was held at the start."""
    pa.set_cpu_count(1)
    table = corpora.documents(items // corpora.LENGTH, targets=targets)
    rg.count(table.slice(0, 100), n=n, spans=["units"], threads=1)  # whatever is loaded at first use
    before = own_peak_bytes()
    units = timed(lambda: rg.count(table, n=n, spans=["units"], threads=1))
    start = time.perf_counter()
    counts = rg.count(table, n=n, spans=["units", "suffixes:5", "shapes:5"], threads=1)
    everything = time.perf_counter() - start
    fit = timed(lambda: rg.fit(counts, "T0", "backoff"))
    seconds = {"units": units, "all": everything, "fit": fit}
    return {"items": items, "n": n, "targets": targets, **seconds, "memory": own_peak_bytes() - before}


def exponent(xs: tuple[int, ...], ys: list[float]) -> float:
    """Return the slope of the upper half of a line in a plot of logarithms."""
    half = len(xs) // 2
    return math.log(ys[-1] / ys[half]) / math.log(xs[-1] / xs[half])


def draw(found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw seconds and memory over each of the three."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(found), figsize=(11, 6), sharex="col", sharey="row")
    for (seconds, memory), (name, points) in zip(axes.T, found.items(), strict=True):
        xs = [point[name] for point in points]
        for measure_ in ("units", "all", "fit"):
            seconds.plot(xs, [point[measure_] for point in points], "o-", label=MEASURES[measure_])
        low = min(point["units"] for point in points)
        line = [low, low * xs[-1] / xs[0]]
        seconds.plot([xs[0], xs[-1]], line, ":", color="grey", label="in proportion", zorder=0)
        memory.plot(xs, [point["memory"] / 1e9 for point in points], "o-", color="black")
        memory.set_xlabel(TITLES[name])
        for axis in (seconds, memory):
            axis.set(xscale="log", yscale="log")
            axis.grid(alpha=0.3)
            axis.set_xticks(xs, [f"{x / 1e6:g} M" if x >= 1e5 else f"{x}" for x in xs])
            axis.minorticks_off()
        memory.set_yscale("log", base=2)
        for axis in (seconds, memory):
            axis.yaxis.set_major_formatter("{x:g}")
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("gigabytes")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    main()

"""What a contest found: verdicts, tables and a figure, of medians over the seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figures, short
from benchmarks.rivals import LOGISTIC, find

Entry = dict[str, Any]
MAIN = "raregram"  # the entry that the others are compared with
CLOSE = 0.9  # of our F1: within 10 %
CLLR = {"cllr": "Cllr", "least": "least", "loss": "loss"}  # of calibrated scores, and how columns are named
SIZES = (("peak_bytes", 0), ("model_bytes", 2))  # and the digits behind the point of their megabytes


class Standing:
    """One rival at one training size: all its measurements, over seeds and targets."""

    def __init__(self, rival: str, entries: Sequence[Entry]) -> None:
        self.rival, self.entries = rival, [entry for entry in entries if "failed" not in entry]
        self.failed = [entry["failed"] for entry in entries if "failed" in entry]

    def values(self, key: str, target: str | None = None) -> list[float]:
        """Return a measurement for all seeds, of one target or of all."""
        here = [entry for entry in self.entries if target in (None, entry["target"])]
        if key == "total":
            return [total(entry) for entry in here]
        if key in CLLR:
            return [float(entry["calibration"][key]) for entry in here if entry.get("calibration")]
        return [float(entry[key]) for entry in here if entry.get(key) is not None]

    def median(self, key: str, target: str | None = None) -> float:
        """Return the median of a measurement over the seeds."""
        return statistics.median(self.values(key, target))

    @property
    def title(self) -> str:
        """The name, in bold if it is ours."""
        title = find(self.rival).title
        return f"**{title}**" if find(self.rival).ours else title


def total(entry: Entry) -> float:
    """Return the seconds from formatted text to a model."""
    return float(entry["read_seconds"] + entry["fit_seconds"])


def sizes_of(entries: Iterable[Entry]) -> list[int]:
    return sorted({entry["size"] for entry in entries})


def targets_of(entries: Iterable[Entry]) -> list[str]:
    return sorted({entry["target"] for entry in entries})


def standings(entries: Sequence[Entry], size: int) -> list[Standing]:
    """Return all rivals at a training size, the best in F1 first, and last those that failed."""
    here = [entry for entry in entries if entry["size"] == size]
    names = dict.fromkeys(entry["rival"] for entry in here)
    found = [Standing(name, [entry for entry in here if entry["rival"] == name]) for name in names]
    return sorted(found, key=lambda s: statistics.mean(s.values("test_f1") or [-1]), reverse=True)


def verdicts(entries: Sequence[Entry]) -> Figures:
    """Compare raregram with what was aimed at, for each training size and target."""
    figures = Figures()
    for size in sizes_of(entries):
        for target in targets_of(entries):
            here = {s.rival: s for s in standings(entries, size) if s.values("test_f1", target)}
            rivals = [standing for name, standing in here.items() if not find(name).ours]
            if MAIN in here and rivals:
                _verdicts(figures, f"{target}, {size:,} articles: ", target, here[MAIN], rivals)
    return figures


def _verdicts(figures: Figures, title: str, target: str, ours: Standing, rivals: Sequence[Standing]) -> None:
    def median(key: str) -> Callable[[Standing], float]:
        return lambda standing: standing.median(key, target)

    def compare(what: str, key: str, other: Standing, least: float, ours_above: bool = True) -> None:
        ratio = median(key)(ours) / median(key)(other)
        figures.add(f"{title}{what} {find(other.rival).title}", ratio if ours_above else 1 / ratio, "x", least=least)

    compare("F1 over that of the best rival,", "test_f1", max(rivals, key=median("test_f1")), 1)
    regressions = [standing for standing in rivals if standing.rival in LOGISTIC]
    if regressions:
        best = max(regressions, key=lambda standing: max(standing.values("valid_f1", target), default=0.0))
        compare("time to a model of the best logistic regression over ours,", "total", best, 20, ours_above=False)
    close = [s for s in rivals if median("test_f1")(s) >= CLOSE * median("test_f1")(ours)]
    if close:
        fastest = min(close, key=median("total"))
        what = "time to a model of the fastest rival within 10 % of our F1 over ours,"
        compare(what, "total", fastest, 10, ours_above=False)
    calibrated = [standing for standing in rivals if standing.values("cllr", target)]
    if calibrated and ours.values("cllr", target):
        best = min(calibrated, key=median("cllr"))
        ratio = median("cllr")(ours) / median("cllr")(best)
        figures.add(f"{title}Cllr over that of the best rival, {find(best.rival).title}", ratio, "x", most=1)
    quickest = max(rivals, key=median("contexts_per_second"))
    compare("speed of scoring from text over that of", "contexts_per_second", quickest, 5)


def table(entries: Sequence[Entry], size: int) -> list[str]:
    """Return a table of one training size in Markdown, and what could not be measured."""
    here = standings(entries, size)
    targets = targets_of(entries)
    head = [f"{what} {target}" for target in targets for what in ("F1", "AP")]
    head += ["s to a model", "reading", "fitting", "contexts/s", "memory", "model", "seeds"]
    lines = [f"| {size:,} articles | {' | '.join(head)} |", f"|---|{'--:|' * len(head)}"]
    for standing in here:
        if standing.entries:
            cells = [
                spread(standing.values(key, target), "{:.3f}".format)
                for target in targets
                for key in ("test_f1", "average_precision")
            ]
            cells += [spread(standing.values("total"), short)]
            cells += [short(standing.median(key)) for key in ("read_seconds", "fit_seconds")]
            cells += [f"{standing.median('contexts_per_second'):,.0f}"]
            cells += [f"{standing.median(key) / 1e6:,.{digits}f} MB" for key, digits in SIZES]
            cells += [str(len({entry["seed"] for entry in standing.entries}))]
            lines.append(f"| {' | '.join([standing.title, *cells])} |")
    failed = [f"- {find(s.rival).title}: {reason}" for s in here for reason in dict.fromkeys(s.failed)]
    return [*lines, "", *failed]


def cllr_table(entries: Sequence[Entry], size: int) -> list[str]:
    """Return a table of Cllr at one training size in Markdown, the lowest first."""
    here = [standing for standing in standings(entries, size) if standing.values("cllr")]
    targets = targets_of(entries)
    head = [f"{name} {target}" for target in targets for name in CLLR.values()]
    lines = [f"| {size:,} articles | {' | '.join(head)} |", f"|---|{'--:|' * len(head)}"]
    for standing in sorted(here, key=lambda s: statistics.mean(s.values("cllr"))):
        cells = [spread(standing.values(key, target), "{:.4f}".format) for target in targets for key in CLLR]
        lines.append(f"| {' | '.join([standing.title, *cells])} |")
    return lines if here else []


def spread(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Return the median, and the least and the largest where they differ; nothing if there are no values."""
    if not values:
        return ""
    median, low, high = (text(value) for value in (statistics.median(values), min(values), max(values)))
    return median if low == high else f"{median} ({low} to {high})"


def draw(entries: Sequence[Entry], path: Path) -> None:
    """Draw F1 over the seconds to a model and over the speed of scoring, for the largest size."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    size, targets = max(sizes_of(entries)), targets_of(entries)
    here = [standing for standing in standings(entries, size) if standing.entries]
    figure, axes = plt.subplots(len(targets), 2, figsize=(11, 3.8 * len(targets)), squeeze=False, sharey="row")
    for row, target in zip(axes, targets, strict=True):
        for axis, key in zip(row, ("total", "contexts_per_second"), strict=True):
            for number, standing in enumerate(here, start=1):
                if not standing.values(key, target):
                    continue
                point = (max(standing.median(key, target), 1e-3), standing.median("test_f1", target))
                axis.scatter(*point, s=150, color=_colour(standing), alpha=0.9, zorder=2)
                axis.annotate(str(number), point, ha="center", va="center", fontsize=8, color="white")
            axis.set_xscale("log")
            axis.grid(alpha=0.3)
        row[0].set(ylabel=f"F1, {target}, size {size:,}", xlabel="seconds from text to a model: less is better")
        row[1].set(xlabel="contexts scored a second, from text: more is better")
    handles = [
        plt.Line2D([], [], linestyle="", marker="o", color=_colour(s), label=f"{number}  {find(s.rival).title}")
        for number, s in enumerate(here, start=1)
    ]
    figure.tight_layout(rect=(0, 0, 0.76, 1))
    figure.legend(handles=handles, loc="center right", frameon=False, fontsize=9)
    figure.savefig(path)
    plt.close(figure)


def _colour(standing: Standing) -> str:
    return "#c8102e" if find(standing.rival).ours else "#50708f"

"""What a contest found, as tables, as a figure and as verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals import LOGISTIC, find
from benchmarks.rivals.data import SIGNAL

Entry = dict[str, Any]

TIMINGS = ("read_seconds", "fit_seconds", "contexts_per_second", "peak_bytes", "model_bytes")
MAIN = "raregram"  # the entry that the others are compared with
CLOSE = 0.9  # of our F1: within 10 %


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each measurement over the rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in TIMINGS}


def total(entry: Entry) -> float:
    """Return the seconds from formatted text to a model."""
    return float(entry["read_seconds"] + entry["fit_seconds"])


def groups(found: dict[str, Any]) -> Iterator[tuple[int, str, list[Entry], list[Entry]]]:
    """Yield size, target, what was measured (best first) and what failed."""
    entries = list(found["entries"].values())
    for size, target in sorted({(entry["size"], entry["target"]) for entry in entries}):
        here = [entry for entry in entries if (entry["size"], entry["target"]) == (size, target)]
        measured = sorted((e for e in here if "failed" not in e), key=lambda e: -float(e["test_f1"]))
        yield size, target, measured, [entry for entry in here if "failed" in entry]


def write_table(found: dict[str, Any], path: Path) -> None:
    """Write Markdown: one table of the largest size for all targets, then one for each size and target."""
    machine = found["machine"]
    lines = [f"{machine['processor']}, {machine['cores']} cores, one used; Python {machine['python']}."]
    lines += ["", *_overview(found)]
    for size, target, measured, failed in groups(found):
        lines += ["", f"## {target}, training size {size:,}", ""]
        lines += ["| rival | F1 | AP | read s | fit s | contexts/s | peak memory | model |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|--:|", *(_row(entry) for entry in measured)]
        if failed:
            lines += ["", *(f"- {find(entry['rival']).title}: {entry['failed']}" for entry in failed)]
    path.write_text("\n".join(lines) + "\n")


def _overview(found: dict[str, Any]) -> list[str]:
    """Return one table of the largest size: accuracy by target, and the rest as the mean over the targets."""
    real = [(size, target, measured) for size, target, measured, _ in groups(found) if _is_accurate(measured)]
    if not real:
        return []
    largest = max(size for size, _, _ in real)
    by_target = {target: {e["rival"]: e for e in measured} for size, target, measured in real if size == largest}
    titles = [f"{what} {target}" for target in by_target for what in ("F1", "AP")]
    lines = [
        f"| training size {largest:,} | {' | '.join(titles)} | s to a model | contexts/s | peak memory | model |",
        f"|---|{'--:|' * (len(titles) + 4)}",
    ]

    def means(name: str) -> Entry:
        keys = ("test_f1", *TIMINGS)
        return {key: statistics.mean(entries[name][key] for entries in by_target.values()) for key in keys}

    names = set.intersection(*(set(entries) for entries in by_target.values()))
    overall = {name: means(name) for name in names}
    for name in sorted(names, key=lambda name: (-overall[name]["test_f1"], overall[name]["read_seconds"])):
        cells = [_title(name)]
        for entries in by_target.values():
            cells += [f"{entries[name]['test_f1']:.3f}", f"{entries[name]['average_precision']:.3f}"]
        cells += [f"{total(overall[name]):,.1f}", *_speed_and_size(overall[name])]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _is_accurate(measured: Sequence[Entry]) -> bool:
    """Whether entries are of a corpus whose accuracy counts, and not there for speed alone."""
    return bool(measured) and measured[0]["target"] != SIGNAL


def _title(name: str) -> str:
    return f"**{find(name).title}**" if find(name).ours else find(name).title


def _speed_and_size(entry: Entry) -> list[str]:
    memory, model = f"{entry['peak_bytes'] / 1e6:,.0f} MB", f"{entry['model_bytes'] / 1e6:,.2f} MB"
    return [f"{entry['contexts_per_second']:,.0f}", memory, model]


def _row(entry: Entry) -> str:
    accuracy = [f"{entry[key]:.4f}" for key in ("test_f1", "average_precision")]
    seconds = [f"{entry[key]:.2f}" for key in ("read_seconds", "fit_seconds")]
    return f"| {' | '.join([_title(entry['rival']), *accuracy, *seconds, *_speed_and_size(entry)])} |"


def write_figure(found: dict[str, Any], out: Path) -> None:
    """Draw F1 over the seconds to a model and over the speed of scoring, for the largest size of each target."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    largest: dict[str, tuple[int, list[Entry]]] = {}
    for size, target, measured, _ in groups(found):
        if _is_accurate(measured):
            largest[target] = (size, measured)
    if not largest:
        return
    best: dict[str, float] = {}
    for entry in (entry for _, measured in largest.values() for entry in measured):
        best[entry["rival"]] = max(best.get(entry["rival"], 0.0), float(entry["test_f1"]))
    numbers = {name: number for number, name in enumerate(sorted(best, key=lambda name: -best[name]), start=1)}
    figure, axes = plt.subplots(len(largest), 2, figsize=(11, 3.8 * len(largest)), squeeze=False, sharey="row")
    for row, (target, (size, measured)) in zip(axes, largest.items(), strict=True):
        _draw(row[0], measured, [total(e) for e in measured], numbers)
        _draw(row[1], measured, [e["contexts_per_second"] for e in measured], numbers)
        row[0].set(ylabel=f"F1, {target}, size {size:,}", xlabel="seconds from text to a model: less is better")
        row[1].set(xlabel="contexts scored a second, from text: more is better")
    handles = [
        plt.Line2D([], [], linestyle="", marker="o", color=_colour(name), label=f"{number}  {find(name).title}")
        for name, number in numbers.items()
    ]
    figure.tight_layout(rect=(0, 0, 0.76, 1))
    figure.legend(handles=handles, loc="center right", frameon=False, fontsize=9)
    for ending in ("png", "svg"):
        figure.savefig(out / f"figure.{ending}", dpi=150)
    plt.close(figure)


def _draw(axes: Any, measured: Sequence[Entry], xs: Sequence[float], numbers: dict[str, int]) -> None:
    for entry, x in zip(measured, xs, strict=True):
        name, point = entry["rival"], (max(x, 1e-3), entry["test_f1"])
        axes.scatter(*point, s=150, color=_colour(name), alpha=0.9, zorder=2)
        axes.annotate(str(numbers[name]), point, ha="center", va="center", fontsize=8, color="white")
    axes.set_xscale("log")
    axes.grid(alpha=0.3)


def _colour(name: str) -> str:
    return "#c8102e" if find(name).ours else "#50708f"


def write_verdicts(found: dict[str, Any], path: Path) -> str:
    """Write for each size and target how raregram stands against what was aimed at; return the same."""
    lines = []
    for size, target, measured, _ in groups(found):
        ours = next((entry for entry in measured if entry["rival"] == MAIN), None)
        rivals = [entry for entry in measured if not find(entry["rival"]).ours]
        if ours is None or not rivals or not _is_accurate(measured):
            continue
        lines += [f"{target}, training size {size:,}"]
        lines += [f"  {line}" for line in _verdicts(ours, rivals)]
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text)
    return text


def _verdicts(ours: Entry, rivals: Sequence[Entry]) -> Iterator[str]:
    best = max(rivals, key=lambda entry: float(entry["test_f1"]))
    lead = ours["test_f1"] / best["test_f1"] if best["test_f1"] else float("inf")
    yield _verdict(lead > 1, f"first in F1: {lead:.3f} x that of the best rival, {find(best['rival']).title}")
    regressions = [entry for entry in rivals if entry["rival"] in LOGISTIC and entry["tried"]]
    if regressions:
        chosen = max(regressions, key=lambda entry: max(float(one["valid_f1"]) for one in entry["tried"]))
        yield _faster(ours, chosen, 20, "logistic regression, the best on validation")
    close = [entry for entry in rivals if entry["test_f1"] >= CLOSE * ours["test_f1"]]
    if close:
        yield _faster(ours, min(close, key=total), 10, "the fastest rival within 10 % of our F1")
    else:
        yield _verdict(True, "at least 10 x faster than the fastest rival within 10 % of our F1: there is none")
    quickest = max(rivals, key=lambda entry: float(entry["contexts_per_second"]))
    speed = ours["contexts_per_second"] / quickest["contexts_per_second"]
    text = f"scores from text {speed:.1f} x as fast as {find(quickest['rival']).title} (wanted 5)"
    yield _verdict(speed >= 5, text)


def _faster(ours: Entry, other: Entry, wanted: float, what: str) -> str:
    """Compare the seconds from text to a model; say also how the fits alone compare."""
    ratio = total(other) / total(ours)
    alone = other["fit_seconds"] / ours["fit_seconds"]
    text = f"a model {ratio:.1f} x faster than {find(other['rival']).title} (wanted {wanted:g}; {what})"
    return _verdict(ratio >= wanted, f"{text}; fit alone {alone:.1f} x")


def _verdict(reached: bool, text: str) -> str:
    return f"{'yes' if reached else 'NO '}  {text}"

"""Results -> figures, as SVG and PNG: one panel a target, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from raregram.experiment.tables import Results, backoff_curve, chosen, curve
from raregram.show.plotting import STYLE, import_matplotlib, render

# Colours that people with any colour vision can tell apart (Okabe and Ito), and a marker for each.
CRITERIA: dict[str, tuple[str, str]] = {
    "cet": ("#0072b2", "o"), "gss": ("#d55e00", "s"), "chi2": ("#009e73", "^"), "chi2_printed": ("#cc79a7", "v"),
    "tf": ("#e69f00", "D"), "gss_abs": ("#56b4e9", "P"), "random": ("#999999", "x"),
}  # fmt: skip
INK, GREY = "#222222", "#999999"
BACKOFF: dict[str, Any] = {"color": "#5e3c99", "marker": "*", "lw": 2, "label": "backoff"}
RANKED = {
    "backoff": ("#5e3c99", "-"), "selective": ("#0072b2", "-"), "all used lam*": (INK, "-"),
    "all used lam=0": (INK, ":"),
}  # fmt: skip
CALIBRATED = {"backoff": "#b2abd2", "backoff, calibrated": "#5e3c99", "selective, calibrated": "#0072b2"}

Draw = Callable[[Results, str, Any], None]  # of a target, on the axes of its panel


@dataclass(frozen=True)
class Figure:
    """A drawn figure; the page has its title and caption."""

    name: str
    svg: str
    png: bytes


def figures(results: Results) -> list[Figure]:
    """Draw all figures of a report."""
    drawn: list[tuple[str, Draw]] = [
        ("F1", _f1_by_size), ("recall", _recall_by_rank), ("F1", _f1_by_bytes),
        ("log10 ratio, real", _real_by_predicted), ("share above", _tippett), ("log10 after", _pav),
    ]  # fmt: skip
    return [Figure(f"figure-{i}", *_draw(results, label, draw)) for i, (label, draw) in enumerate(drawn, 1)]


def _draw(results: Results, y_label: str, draw: Draw) -> tuple[str, bytes]:
    """Return one panel a target, with one legend, as SVG and as PNG."""
    matplotlib = import_matplotlib()
    targets = results["config"]["targets"]
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(4.6 * len(targets), 3.9), layout="constrained")
        panels = figure.subplots(1, len(targets), squeeze=False)[0]
        for axes, target in zip(panels, targets, strict=True):
            draw(results, target, axes)
            axes.set_title(target)
        panels[0].set_ylabel(y_label)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
        svg, png = render(figure)
    return svg[svg.index("<svg") :], png


def _plot_f1(axes: Any, cells: list[dict[str, Any]], x: str, **style: Any) -> None:
    """Draw the test F1 of cells by one of their columns."""
    axes.plot([cell[x] for cell in cells], [cell["test_f1"] for cell in cells], **style)


def _f1_by_size(results: Results, target: str, axes: Any) -> None:
    for criterion in results["config"]["criteria"]:
        colour, marker = CRITERIA[criterion]
        style = {"color": colour, "marker": marker, "ls": "--" if criterion == "random" else "-"}
        _plot_f1(axes, list(curve(results, target, criterion).values()), "size", ms=4, label=criterion, **style)
    _plot_f1(axes, backoff_curve(results, target), "size", **BACKOFF)
    for family, line in (("all used lam*", "-"), ("all used lam=0", ":")):
        axes.axhline(chosen(results, target, family)["test_f1"], color=INK, ls=line, lw=1, label=family)
    axes.set(xscale="log", xlabel="items a position (backoff: spans of each length)")
    axes.set_ylim(bottom=0)


def _recall_by_rank(results: Results, target: str, axes: Any) -> None:
    for name, (colour, style) in RANKED.items():
        evaluation = results["targets"][target]["evaluations"][name]
        axes.plot(evaluation["ranks"], evaluation["recalls"], style, color=colour, label=name)
    axes.axvline(results["config"]["k"], color=GREY, lw=1, ls="--")
    axes.set(xscale="log", xlabel="rank", ylim=(0, 1))


def _f1_by_bytes(results: Results, target: str, axes: Any) -> None:
    def by_bytes(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(cells, key=lambda cell: int(cell["bytes"]))

    models = results["targets"][target]["rooms"]
    _plot_f1(
        axes, by_bytes([*backoff_curve(results, target), chosen(results, target, "backoff")]), "bytes", **BACKOFF
    )
    selected, whole = ([cell for cell in models if bool(cell["size"]) == limited] for limited in (True, False))
    _plot_f1(axes, by_bytes(selected), "bytes", color="#0072b2", marker="o", ms=4, label="the best selection")
    _plot_f1(axes, whole, "bytes", color=INK, marker="s", ls="", label="all used lam*")
    axes.set(xscale="log", xlabel="bytes of the model in memory")
    axes.set_ylim(bottom=0)


def _real_by_predicted(results: Results, target: str, axes: Any) -> None:
    for bins, name, colour in _calibrated(results, target, "bins"):
        points = [
            [math.log10(each[column]) for column in ("predicted", "real", "real_low", "real_high")]
            for each in bins
            if each["predicted"] and each["real_low"] is not None
        ]
        x, real, low, high = zip(*points, strict=True) if points else ((), (), (), ())
        errors = [[y - a for y, a in zip(real, low, strict=True)], [b - y for y, b in zip(real, high, strict=True)]]
        axes.errorbar(x, real, errors, fmt="o", ms=4, lw=1, capsize=2, label=name, color=colour)
    axes.axline((0, 0), slope=1, color=GREY, lw=1)
    axes.set_xlabel("log10 ratio, predicted")


def _tippett(results: Results, target: str, axes: Any) -> None:
    for found, name, colour in _calibrated(results, target, "tippett"):
        for side, line in (("targets", "-"), ("others", "--")):
            axes.plot(found["log10_ratio"], found[side], line, label=f"{name}, {side}", color=colour)
    axes.axvline(0, color=GREY, lw=1)
    axes.set(xlabel="log10 ratio", ylim=(0, 1))


def _pav(results: Results, target: str, axes: Any) -> None:
    for found, name, colour in _calibrated(results, target, "pav"):
        steps = [step for step in zip(*found.values(), strict=True) if all(map(math.isfinite, step))]
        x = [end for low, high, _ in steps for end in (low, high)]
        axes.plot(x, [after for *_, after in steps for _ in range(2)], label=name, color=colour)
    axes.axline((0, 0), slope=1, color=GREY, lw=1)
    axes.set_xlabel("log10 ratio")


def _calibrated(results: Results, target: str, what: str) -> Iterator[tuple[Any, str, str]]:
    """Yield what is drawn of the ratios of some models, with their names and colours."""
    drawn = results["targets"][target]["calibration"]
    return ((drawn[name][what], name, colour) for name, colour in CALIBRATED.items() if name in drawn)

"""Results -> figures, as SVG and PNG. The one place that imports matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raregram.errors import MissingExtraError
from raregram.show.report.tables import backoff_curve, chosen, curve

# Colours that people with any colour vision can tell apart (Okabe and Ito).
COLOURS = {
    "cet": "#0072b2", "gss": "#d55e00", "chi2": "#009e73", "chi2_printed": "#cc79a7", "tf": "#e69f00",
    "gss_abs": "#56b4e9", "random": "#999999",
}  # fmt: skip
BACKOFF: dict[str, Any] = {"color": "#5e3c99", "marker": "*", "lw": 2}
DRAWN: dict[str, Any] = {
    "backoff": {"color": "#b2abd2"},
    "backoff, calibrated": {"color": "#5e3c99"},
    "selective, calibrated": {"color": "#0072b2"},
}  # ratios
MARKERS = {"cet": "o", "gss": "s", "chi2": "^", "chi2_printed": "v", "tf": "D", "gss_abs": "P", "random": "x"}
STYLE = {
    "svg.hashsalt": "raregram", "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e5e5e5", "font.family": "sans-serif",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A drawn figure."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def figures(results: dict[str, Any]) -> list[Figure]:
    """Draw all figures of a report."""
    return [draw(results) for draw in (_figure_1, _figure_2, _figure_3, _figure_4, _figure_5, _figure_6)]


def _figure_1(results: dict[str, Any]) -> Figure:
    """F1 by number of selected items, for every criterion."""

    def draw(axes: Any, target: str) -> None:
        for criterion in results["config"]["criteria"]:
            cells = sorted(curve(results, target, criterion).items())
            sizes, values = [size for size, _ in cells], [cell["test_f1"] for _, cell in cells]
            line = "--" if criterion == "random" else "-"
            axes.plot(sizes, values, line, color=COLOURS[criterion], marker=MARKERS[criterion], ms=4, label=criterion)
        ours = backoff_curve(results, target)
        axes.plot([cell["size"] for cell in ours], [cell["test_f1"] for cell in ours], label="backoff", **BACKOFF)
        for family, style in (("all used lam*", "-"), ("all used lam=0", ":")):
            axes.axhline(chosen(results, target, family)["test_f1"], color="#222222", ls=style, lw=1, label=family)
        axes.set_xscale("log")
        axes.set_xlabel("items a position (backoff: spans of each length)")
        axes.set_ylim(bottom=0)

    k = results["config"]["k"]
    caption = f"Figure 1. Test F1 of the top {k:,} by number of selected items. The lam is tuned on validation."
    return _draw(results, "figure-1", "F1 by number of selected items", caption, "F1", draw)


def _figure_2(results: dict[str, Any]) -> Figure:
    """Recall by rank, for the back-off estimator, the best selection and all used."""
    lines = {
        "backoff": ("#5e3c99", "-"),
        "selective": ("#0072b2", "-"),
        "all used lam*": ("#222222", "-"),
        "all used lam=0": ("#222222", ":"),
    }

    def draw(axes: Any, target: str) -> None:
        for name, (colour, style) in lines.items():
            evaluation = results["targets"][target]["evaluations"][name]
            axes.plot(evaluation["ranks"], evaluation["recalls"], style, color=colour, label=name)
        axes.axvline(results["config"]["k"], color="#999999", lw=1, ls="--")
        axes.set_xscale("log")
        axes.set_xlabel("rank")
        axes.set_ylim(0, 1)

    caption = "Figure 2. Test recall by rank. The dashed line is K. The selection was chosen on validation."
    return _draw(results, "figure-2", "Recall by rank", caption, "recall", draw)


def _figure_3(results: dict[str, Any]) -> Figure:
    """F1 by model size."""

    def draw(axes: Any, target: str) -> None:
        cells = [*backoff_curve(results, target), chosen(results, target, "backoff")]
        cells.sort(key=lambda cell: int(cell["bytes"]))
        axes.plot([cell["bytes"] for cell in cells], [cell["test_f1"] for cell in cells], label="backoff", **BACKOFF)
        models = results["targets"][target]["rooms"]
        selected = sorted((model["bytes"], model["test_f1"]) for model in models if model["size"])
        axes.plot(*zip(*selected, strict=True), color="#0072b2", marker="o", ms=4, label="the best selection")
        whole = [(model["bytes"], model["test_f1"]) for model in models if not model["size"]]
        axes.plot(*zip(*whole, strict=True), color="#222222", marker="s", ls="", label="all used lam*")
        axes.set_xscale("log")
        axes.set_xlabel("bytes of the model in memory")
        axes.set_ylim(bottom=0)

    caption = "Figure 3. Test F1 by model size. Settings are chosen on validation."
    return _draw(results, "figure-3", "F1 by model size", caption, "F1", draw)


def _figure_4(results: dict[str, Any]) -> Figure:
    """Real ratios by predicted ones, with error bars."""

    def draw(axes: Any, target: str) -> None:
        for found, name, style in _ratios(results, target, "bins"):
            points = [each for each in found if each["predicted"] and each["real_low"] is not None]
            real = [math.log10(each["real"]) for each in points]
            low = [value - math.log10(each["real_low"]) for value, each in zip(real, points, strict=True)]
            high = [math.log10(each["real_high"]) - value for value, each in zip(real, points, strict=True)]
            x = [math.log10(each["predicted"]) for each in points]
            axes.errorbar(x, real, (low, high), fmt="o", ms=4, lw=1, capsize=2, label=name, **style)
        _diagonal(axes)
        axes.set_xlabel("log10 ratio, predicted")

    caption = (
        "Figure 4. Real ratio of test contexts by predicted ratio, with 95 % intervals. Contexts are cut into tenths "
        "by their predicted ratio, and the last tenth into tenths again. Ratios that are right lie on the line."
    )
    return _draw(results, "figure-4", "Predicted and real ratios", caption, "log10 ratio, real", draw)


def _figure_5(results: dict[str, Any]) -> Figure:
    """Shares of targets and of others above each ratio."""

    def draw(axes: Any, target: str) -> None:
        for found, name, style in _ratios(results, target, "tippett"):
            for side, line in (("targets", "-"), ("others", "--")):
                axes.plot(found["log10_ratio"], found[side], line, label=f"{name}, {side}", **style)
        axes.axvline(0, color="#999999", lw=1)
        axes.set_xlabel("log10 ratio")
        axes.set_ylim(0, 1)

    caption = (
        "Figure 5. Tippett plot: the share of targets, and of other contexts, with a larger ratio. Ratios of targets "
        "left of the grey line, and of others right of it, mislead."
    )
    return _draw(results, "figure-5", "Targets and others above each ratio", caption, "share above", draw)


def _figure_6(results: dict[str, Any]) -> Figure:
    """Ratios after the best monotone map, by those before it."""

    def draw(axes: Any, target: str) -> None:
        for found, name, style in _ratios(results, target, "pav"):
            steps = [step for step in zip(*found.values(), strict=True) if all(map(math.isfinite, step))]
            x = [end for low, high, _ in steps for end in (low, high)]
            axes.plot(x, [after for *_, after in steps for _ in range(2)], label=name, **style)
        _diagonal(axes)
        axes.set_xlabel("log10 ratio")

    caption = (
        "Figure 6. PAV plot: the ratio after the best monotone map (pool adjacent violators), by the ratio before. "
        "Ratios that are right lie on the line. What becomes 0 or infinite is not shown."
    )
    return _draw(results, "figure-6", "Ratios before and after the best monotone map", caption, "log10 after", draw)


def _ratios(results: dict[str, Any], target: str, what: str) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield what is drawn of the ratios of some models, with their names and styles."""
    drawn = results["targets"][target]["calibration"]
    return ((drawn[name][what], name, style) for name, style in DRAWN.items() if name in drawn)


def _diagonal(axes: Any) -> None:
    """Draw the line on which both numbers are equal."""
    axes.axline((0, 0), slope=1, color="#999999", lw=1)


def _draw(results: dict[str, Any], name: str, title: str, caption: str, y_label: str, draw: Any) -> Figure:
    """Draw one panel a target, side by side, with one legend."""
    matplotlib = import_matplotlib()
    targets = results["config"]["targets"]
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(4.6 * len(targets), 3.9), layout="constrained")
        panels = figure.subplots(1, len(targets), squeeze=False)[0]
        for axes, target in zip(panels, targets, strict=True):
            draw(axes, target)
            axes.set_title(target)
        panels[0].set_ylabel(y_label)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Figure(name, title, caption, svg.getvalue()[svg.getvalue().index("<svg") :], png.getvalue())


def import_matplotlib() -> Any:
    """Return the module `matplotlib`, or say how to install it."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'raregram[report]'") from error
    return matplotlib

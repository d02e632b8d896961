"""A comparison as a picture: both frequencies of every row, coloured by ratio, with labels that do not overlap.

matplotlib comes by `raregram.show.plotting`, the one place that imports it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.measure.compare import Comparison
from raregram.models.explain import visible
from raregram.show.comparison.page import strongest
from raregram.show.plotting import STYLE, import_matplotlib

Floats = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]  # left, bottom, right, top

A, B, EQUAL, INK = "#e06000", "#0a7acc", "#a3acb5", "#586573"  # as on the page
FULL = 4.0  # the log2 ratio with the full colour
MOST_POINTS, MOST_LABELS, MOST_CANDIDATES, LONGEST_LABEL = 20_000, 120, 500, 40
INCHES, DPI, POINTS = (8.0, 7.2), 150, 72


@dataclass(frozen=True)
class Plot:
    """A drawn comparison, as two files; a notebook shows it."""

    svg: str
    png: bytes

    def _repr_svg_(self) -> str:
        return self.svg


def place_labels(
    points: Iterable[tuple[float, float]], sizes: Iterable[tuple[float, float]], frame: Box, gap: float
) -> Iterator[tuple[int, Box]]:
    """Yield the labels that have room, in order, each right, left, above or below its point, whichever is free.

    >>> dict(place_labels([(5, 5), (5, 5)], [(4, 2), (4, 2)], (0, 0, 20, 10), gap=1))
    {0: (6, 4.0, 10, 6.0), 1: (0, 4.0, 4, 6.0)}
    """
    placed: list[Box] = []
    for index, ((x, y), (wide, high)) in enumerate(zip(points, sizes, strict=True)):
        corners = [
            (x + gap, y - high / 2),
            (x - gap - wide, y - high / 2),
            (x - wide / 2, y + gap),
            (x - wide / 2, y - gap - high),
        ]
        boxes = [(left, bottom, left + wide, bottom + high) for left, bottom in corners]
        for box in boxes:
            inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and not any(overlap(box, other) for other in placed):
                placed.append(box)
                yield index, box
                break


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes have more than an edge in common.

    >>> overlap((0, 0, 2, 1), (1, 0, 3, 1)), overlap((0, 0, 2, 1), (2, 0, 3, 1))
    (True, False)
    """
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def plot_comparison(comparison: Comparison) -> Plot:
    """Draw a comparison: both frequencies of every N-gram, coloured by ratio. The same one gives the same bytes."""
    matplotlib = import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap

    table = strongest(comparison.table, MOST_POINTS)
    x, y = (table[f"per_million_{side}"].to_numpy() for side in ("b", "a"))
    ratio = table["log2_ratio"].to_numpy()
    order = np.argsort(np.abs(ratio), kind="stable")
    with matplotlib.rc_context({**STYLE, "axes.axisbelow": True}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a font may lack a script; a browser shows the SVG's text
        figure = matplotlib.figure.Figure(figsize=INCHES, layout="constrained")
        axes = figure.subplots()
        lows = [_set_scale(axes, which, values) for which, values in (("x", x), ("y", y))]
        colours = LinearSegmentedColormap.from_list("ratio", [B, EQUAL, A])
        points = {"s": 7, "lw": 0, "alpha": 0.8, "rasterized": True}
        drawn = axes.scatter(x[order], y[order], c=ratio[order], cmap=colours, vmin=-FULL, vmax=FULL, **points)
        equal = np.geomspace(max(lows), max(x.max(initial=1), y.max(initial=1)) * 1.6)
        axes.plot(equal, equal, color=INK, lw=1, ls=(0, (5, 5)), scalex=False, scaley=False)
        for low, line in zip(lows, (axes.axvline, axes.axhline), strict=True):
            line(low / 1.5, color=INK, lw=0.8)
        a, b = (visible(name)[:LONGEST_LABEL] for name in comparison.names)
        axes.set_xlabel(f"{b}, per million", parse_math=False, color=B)
        axes.set_ylabel(f"{a}, per million", parse_math=False, color=A)
        bar = figure.colorbar(drawn, ax=axes, orientation="horizontal", shrink=0.6, aspect=45, pad=0.01)
        bar.set_ticks([-FULL, 0, FULL], labels=[f"{b}, {2**FULL:.0f} times", "equal", f"{a}, {2**FULL:.0f} times"])
        for text in bar.ax.get_xticklabels():
            text.set_parse_math(False)
        FigureCanvasAgg(figure)  # keeps one renderer, by which hundreds of labels are measured
        _draw_labels(figure, axes, table)
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return Plot(svg.getvalue(), png.getvalue())


def _set_scale(axes: Any, which: str, values: Floats) -> float:
    """Give an axis a log scale with an edge of its own for zero; return the lowest frequency above it."""
    seen = values[values > 0]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (1.0, 1.0)
    getattr(axes, f"set_{which}scale")("symlog", linthresh=low, linscale=0.25)
    getattr(axes, f"set_{which}lim")(-low / 2, high * 1.6)
    axis = getattr(axes, f"{which}axis")
    powers = 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high) + 0.2)
    axis.set_ticks([0, *powers], labels=["0", *(f"{power:,.10g}" for power in powers)])
    axis.set_minor_locator(import_matplotlib().ticker.NullLocator())
    return low


def _draw_labels(figure: Any, axes: Any, table: pa.Table) -> None:
    """Write the strongest rows that are no repeats beside their points, as far as there is room."""
    table = table.filter(pc.and_(pc.is_null(table["repeats"]), pc.not_equal(table["kind"], "")))
    strength = -np.abs(table["conservative"].to_numpy())
    lockwords = pc.equal(table["kind"], "lockword").to_numpy()
    strength[lockwords] -= 0.02 * np.log1p(pc.add(table["f_a"], table["f_b"]).to_numpy()[lockwords])
    table = table.take(np.argsort(strength, kind="stable")[:MOST_CANDIDATES])
    points = np.column_stack([table["per_million_b"].to_numpy(), table["per_million_a"].to_numpy()])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # what was laid out stays, so that labels can be measured
    paper = {"boxstyle": "square,pad=0", "fc": "white", "ec": "none", "alpha": 0.6}
    shown = [
        axes.text(*point, visible(ngram)[:LONGEST_LABEL], fontsize=8, parse_math=False, va="bottom", bbox=paper)
        for point, ngram in zip(points.tolist(), table["ngram"].to_pylist(), strict=True)
    ]
    gap, renderer = 3 * figure.dpi / POINTS, figure.canvas.get_renderer()
    extents = [text.get_window_extent(renderer) for text in shown]
    sizes = [(extent.width * 1.04 + gap, extent.height) for extent in extents]
    labels = place_labels(axes.transData.transform(points), sizes, tuple(axes.bbox.extents), gap)
    boxes = dict(islice(labels, MOST_LABELS))
    for index, text in enumerate(shown):
        if index in boxes:
            text.set_position(axes.transData.inverted().transform(boxes[index][:2]))
        else:
            text.remove()

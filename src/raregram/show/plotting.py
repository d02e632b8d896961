"""How figures look, and matplotlib, which is imported here alone."""

from __future__ import annotations

import io
from typing import Any

from raregram.errors import MissingExtraError

STYLE = {
    "svg.hashsalt": "raregram", "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e5e5e5", "font.family": "sans-serif",
}  # fmt: skip
DPI = 150


def import_matplotlib() -> Any:
    """Return the module `matplotlib`, or say how to install it."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'raregram[report]'") from error
    return matplotlib


def render(figure: Any) -> tuple[str, bytes]:
    """Return a figure as SVG and as PNG; the same figure gives the same bytes."""
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return svg.getvalue(), png.getvalue()

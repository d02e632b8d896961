"""Pictures as plain HTML, for notebooks and the report: a bar for each term, and the heat map of a text.

Everything is escaped, styled in place and drawn in shades of the surrounding text, so it looks the same anywhere, in
light and in dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

COLOURS = ((0, 122, 204), (224, 96, 0), (124, 77, 208), (0, 143, 92), (205, 45, 110), (122, 112, 0))  # of targets
FOR, AGAINST = "rgb(0,143,92)", "rgb(214,69,65)"
FULL = 5.0  # the log ratio at which a gap has its full colour: 150 times likelier
COLD = 0.04  # less than this is shown as a dot
FAINT = "rgba(128,128,128,.25)"
BOX = "display:inline-flex;margin:0 4px 0 3px;border-radius:3px;"
NUMBERS = "text-align:right;padding:1px 8px;font-variant-numeric:tabular-nums;white-space:nowrap"
WORDS = "text-align:left;padding:1px 8px;white-space:pre-wrap;unicode-bidi:isolate"


@dataclass(frozen=True)
class Bar:
    """A line of an explanation, as it is shown."""

    place: str
    text: str
    f_nu: str
    f_de: str
    value: str
    change: str
    share: float  # of the longest bar, from -1 to 1
    counts: bool  # whether it is selected


def bars(headline: str, lines: Iterable[Bar | str]) -> str:
    """Draw a bar for each line, to the right if it speaks for the target; a string is a head between them."""
    heads = "".join(
        f'<th style="{NUMBERS};opacity:.65">{name}</th>' for name in ("f_nu", "f_de", "term", "ratio", "")
    )
    body = "".join(_head(line) if isinstance(line, str) else _line(line) for line in lines)
    return (
        f'<div style="font-size:13px;line-height:1.45"><div style="font-weight:600">{_escape(headline)}</div>'
        f'<table style="border-collapse:collapse"><thead><tr><th></th><th></th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _head(text: str) -> str:
    return f'<tr><td colspan="7" style="{WORDS};padding-top:6px;opacity:.65">{_escape(text)}</td></tr>'


def _line(line: Bar) -> str:
    numbers = (line.f_nu, line.f_de, line.value, line.change)
    dim = "" if line.counts else ' style="opacity:.55"'
    return (
        f'<tr{dim}><td style="{NUMBERS};opacity:.65">{line.place}</td><td style="{WORDS}">{_escape(line.text)}</td>'
        + "".join(f'<td style="{NUMBERS}">{_escape(number)}</td>' for number in numbers)
        + f'<td style="padding:1px 8px">{_bar(line.share)}</td></tr>'
    )


def _bar(share: float) -> str:
    """Draw a bar around a zero line in the middle."""
    length = 0.0 if math.isnan(share) else min(abs(share), 1.0) * 50
    left = 50 - length if share < 0 else 50
    return (
        '<div style="position:relative;width:180px;height:11px;'
        'background:linear-gradient(currentColor,currentColor) center/1px 100% no-repeat">'
        f'<div style="position:absolute;top:1px;bottom:1px;left:{left:.1f}%;width:{length:.1f}%;'
        f'background:{AGAINST if share < 0 else FOR};border-radius:2px"></div></div>'
    )


Scores = Mapping[str, Sequence[float | None]]  # of each target, one a boundary; None: it has no context


def heat_map(items: Sequence[str], scores: Scores, names: Mapping[int, str] | None = None, between: str = " ") -> str:
    """Draw a text with a stripe a target in every gap, the higher and the stronger the likelier.

    Args:
        items: the words or letters.
        scores: the log ratios of every boundary, of which there is one more than items.
        names: targets that really begin or end at a boundary, to be marked there.
        between: what stands between two items.
    """
    colours = {target: COLOURS[place % len(COLOURS)] for place, target in enumerate(scores)}
    parts = []
    for boundary in range(len(items) + 1):
        values = {target: column[boundary] for target, column in scores.items()}
        parts.append(_gap(values, colours, (names or {}).get(boundary)))
        if boundary < len(items):
            parts.append(f"<bdi>{_escape(items[boundary])}</bdi>{between}")
    return (
        f'<div>{legend(list(scores))}<div style="line-height:1.9;white-space:pre-wrap">{"".join(parts)}</div></div>'
    )


def legend(targets: Sequence[str]) -> str:
    """Say which colour is which target's."""
    shown = (
        f'<span style="margin-right:14px"><span style="{_stripe(COLOURS[place % len(COLOURS)], 1.0, "10px")}'
        f'display:inline-block;height:10px"></span> {_escape(target)}</span>'
        for place, target in enumerate(targets)
    )
    return f'<div style="font-size:12px;margin-bottom:4px">{"".join(shown)}</div>'


def strength(log_ratio: float | None) -> float:
    """Return how strongly a gap is coloured, from 0 to 1."""
    return 0.0 if log_ratio is None or math.isnan(log_ratio) else min(max(log_ratio / FULL, 0.0), 1.0)


def _gap(values: Mapping[str, float | None], colours: Mapping[str, tuple[int, int, int]], name: str | None) -> str:
    known = {target: value for target, value in values.items() if value is not None}
    if not known:
        return ""
    told = ", ".join(f"{target} {value:+.2f}" for target, value in known.items()) + (
        f"; here: {name}" if name else ""
    )
    hottest = max(known, key=lambda target: strength(known[target]))
    heat = strength(known[hottest])
    mark = "outline:1.5px solid currentColor;" if name else ""
    if heat < COLD and not name:
        return f'<span title="{_escape(told)}" style="{BOX}width:6px;height:.6em;background:{FAINT}"></span>'
    tint = "rgba({},{},{},{:.2f})".format(*colours[hottest], 0.08 + 0.24 * heat)
    stripes = "".join(
        f'<span style="{_stripe(colours[target], strength(value), "5px")}"></span>' for target, value in known.items()
    )
    return (
        f'<span title="{_escape(told)}" style="{mark}{BOX}align-items:flex-end;gap:1px;height:1.2em;padding:0 1px;'
        f'vertical-align:-.22em;background:{tint}">{stripes}</span>'
    )


def _stripe(colour: tuple[int, int, int], share: float, width: str) -> str:
    red, green, blue = colour
    shade = f"rgba({red},{green},{blue},{0.35 + 0.65 * share:.2f})"
    return f"width:{width};height:{100 * share:.0f}%;border-radius:2px;background:{shade};"


def _escape(text: str) -> str:
    return html.escape(text)

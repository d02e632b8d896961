"""Drawings as plain HTML, for notebooks and the report: a bar for each term, and the heat map of a text.

Everything is escaped, has inline styles and the colour of the surrounding text, so it fits light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ((0, 122, 204), (224, 96, 0), (124, 77, 208), (0, 143, 92), (205, 45, 110), (122, 112, 0))  # of targets
FOR, AGAINST = "rgb(0,143,92)", "rgb(214,69,65)"
FULL = 5.0  # the log ratio at which a gap has its full colour: 150 times likelier
COLD = 0.04  # less than this is shown as a dot
FAINT = "rgba(128,128,128,.25)"
BOX = "display:inline-flex;margin:0 4px 0 3px;border-radius:3px;"
WORD = '<span style="display:inline-block;max-width:100%">'  # letters within which no line ends
NUMBERS = "text-align:right;padding:1px 8px;font-variant-numeric:tabular-nums;white-space:nowrap"
WORDS = "text-align:left;padding:1px 8px;white-space:pre-wrap;unicode-bidi:isolate"


@dataclass(frozen=True)
class Bar:
    """A line of an explanation, as it is shown."""

    position: str
    text: str
    f_nu: str
    f_de: str
    value: str
    change: str
    share: float  # of the longest bar, from -1 to 1
    counts: bool  # whether it is selected


def bars(headline: str, lines: Iterable[Bar | str]) -> str:
    """Draw a bar for each line, to the right if it is evidence for the target; a string is a heading."""
    heads = _cell("th", WORDS) * 2 + "".join(_cell("th", NUMBERS, name) for name in ("f_nu", "f_de", "term", "ratio"))
    above = f'<div style="font-weight:600">{escape(headline)}</div>'
    return _framed(heads + _cell("th", NUMBERS), map(_bar_row, lines), above)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], below: str = "") -> str:
    """Draw a table of text."""
    heads = "".join(_cell("th", WORDS, name) for name in columns)
    body = (f"<tr>{''.join(_cell('td', WORDS, text) for text in row)}</tr>" for row in rows)
    return _framed(heads, body, below=below)


def intervals(
    heads: Sequence[str], rows: Iterable[tuple[Sequence[str], float, float, float]], below: str = ""
) -> str:
    """Draw a table of texts, whose first column is words, with an interval around a zero line at the end of each row.

    A row has its texts, and the interval's low end, middle and high end from -1 to 1.
    """
    styles = [WORDS, *[NUMBERS] * (len(heads) - 1)]
    head = "".join(_cell("th", style, name) for style, name in zip(styles, heads, strict=True))
    body = (
        f"<tr>{''.join(_cell('td', style, text) for style, text in zip(styles, texts, strict=True))}"
        f"<td>{_interval(*ends)}</td></tr>"
        for texts, *ends in rows
    )
    return _framed(head + _cell("th", NUMBERS), body, below=below)


def _cell(tag: str, style: str, text: str = "") -> str:
    """Draw a cell of a table; heads are faint."""
    return f'<{tag} style="{style}{";opacity:.65" * (tag == "th")}">{escape(text)}</{tag}>'


def _framed(heads: str, rows: Iterable[str], above: str = "", below: str = "") -> str:
    """Draw a table of rows, with something above it and a faint line below."""
    return (
        f'<div style="font-size:13px;line-height:1.45">{above}<table style="border-collapse:collapse">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'<div style="opacity:.65">{escape(below)}</div></div>'
    )


def _interval(low: float, middle: float, high: float) -> str:
    """Draw an interval with a mark in it."""
    left, mark, right = (50 + 50 * min(max(x, -1.0), 1.0) for x in (low, middle, high))
    colour = "rgb({},{},{})".format(*COLOURS[middle >= 0])
    return _around_zero(
        f"top:3px;bottom:3px;left:{left:.1f}%;width:{right - left:.1f}%;opacity:.45;background:{colour}",
        f"top:0;bottom:0;left:{mark:.1f}%;width:3px;margin-left:-1px;background:{colour}",
    )


def _bar_row(line: Bar | str) -> str:
    if isinstance(line, str):
        return f'<tr><td colspan="7" style="{WORDS};padding-top:6px;opacity:.65">{escape(line)}</td></tr>'
    length = 0.0 if math.isnan(line.share) else min(abs(line.share), 1.0) * 50
    left, colour = (50 - length, AGAINST) if line.share < 0 else (50, FOR)
    drawn = _around_zero(f"top:1px;bottom:1px;left:{left:.1f}%;width:{length:.1f}%;background:{colour}")
    numbers = "".join(_cell("td", NUMBERS, number) for number in (line.f_nu, line.f_de, line.value, line.change))
    dim = "" if line.counts else ' style="opacity:.55"'
    first = _cell("td", f"{NUMBERS};opacity:.65", line.position) + _cell("td", WORDS, line.text)
    return f"<tr{dim}>{first}{numbers}<td>{drawn}</td></tr>"


def _around_zero(*shapes: str) -> str:
    """Draw shapes, given by their styles, around a zero line in the middle."""
    drawn = "".join(f'<div style="position:absolute;border-radius:2px;{style}"></div>' for style in shapes)
    return (
        '<div style="position:relative;width:180px;height:11px;margin:0 8px;'
        f'background:linear-gradient(currentColor,currentColor) center/1px 100% no-repeat">{drawn}</div>'
    )


Scores = Mapping[str, Sequence[float | None]]  # by target, one per boundary; None: no context


def heat_map(items: Sequence[str], scores: Scores, names: Mapping[int, str] | None = None, between: str = " ") -> str:
    """Draw a text with a stripe per target in every gap, the higher and stronger the larger its log ratio.

    Args:
        items: the words or letters.
        scores: the log ratios of all boundaries, one more than items.
        names: targets of the boundaries at which they really begin or end, to be marked.
        between: the separator of items.
    """
    colours = {target: COLOURS[index % len(COLOURS)] for index, target in enumerate(scores)}
    letters = not between
    parts = [WORD] if letters else []
    for boundary in range(len(items) + 1):
        values = {target: column[boundary] for target, column in scores.items()}
        parts.append(_gap(values, colours, (names or {}).get(boundary)))
        if boundary < len(items):
            item = items[boundary]
            parts.append(f"<bdi>{'␣' if letters and item == ' ' else escape(item)}</bdi>{between}")
            parts += ["</span>", WORD] if letters and item.isspace() else []
    parts += ["</span>"] if letters else []
    legend = "".join(
        f'<span style="margin-right:14px"><span style="{_stripe(colour, 1.0, "10px")}display:inline-block;'
        f'height:10px"></span> {escape(target)}</span>'
        for target, colour in colours.items()
    )
    return (
        f'<div><div style="font-size:12px;margin-bottom:4px">{legend}</div>'
        f'<div style="line-height:1.9;white-space:pre-wrap">{"".join(parts)}</div></div>'
    )


def strength(log_ratio: float | None) -> float:
    """Return the strength of the colour of a gap, from 0 to 1."""
    return 0.0 if log_ratio is None or math.isnan(log_ratio) else min(max(log_ratio / FULL, 0.0), 1.0)


def _gap(values: Mapping[str, float | None], colours: Mapping[str, tuple[int, int, int]], name: str | None) -> str:
    known = {target: value for target, value in values.items() if value is not None}
    if not known:
        return ""
    title = ", ".join(f"{target} {value:+.2f}" for target, value in known.items())
    title += f"; here: {name}" if name else ""
    hottest = max(known, key=lambda target: strength(known[target]))
    heat = strength(known[hottest])
    mark = "outline:1.5px solid currentColor;" if name else ""
    if heat < COLD and not name:
        return f'<span title="{escape(title)}" style="{BOX}width:6px;height:.6em;background:{FAINT}"></span>'
    tint = "rgba({},{},{},{:.2f})".format(*colours[hottest], 0.08 + 0.24 * heat)
    stripes = "".join(
        f'<span style="{_stripe(colours[target], strength(value), "5px")}"></span>' for target, value in known.items()
    )
    return (
        f'<span title="{escape(title)}" style="{mark}{BOX}align-items:flex-end;gap:1px;height:1.2em;padding:0 1px;'
        f'vertical-align:-.22em;background:{tint}">{stripes}</span>'
    )


def _stripe(colour: tuple[int, int, int], share: float, width: str) -> str:
    red, green, blue = colour
    shade = f"rgba({red},{green},{blue},{0.35 + 0.65 * share:.2f})"
    return f"width:{width};height:{100 * share:.0f}%;border-radius:2px;background:{shade};"

"""Rows of a comparison as lines of text, each with a bar: solid to the nearer end of its interval, then shaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raregram.measure.compare import LEVEL, Comparison
from raregram.models.explain import columns_of, visible
from raregram.options import KeywordKind

NARROWEST, WIDEST = 40, 140  # columns of a line
LONGEST_BAR, SHORTEST_BAR = 24, 6
FEW = 10  # rows, with which one would like to see more
Line = tuple[str, float | None]  # what is printed, and the log2 ratio that it shows


def headline(comparison: Comparison) -> str:
    """Name both corpora and their sizes."""
    sides = zip(comparison.names, comparison.tokens, comparison.documents, strict=True)
    return " against ".join(
        f"{visible(name)} ({tokens:,} words, {documents:,} document{'s' * (documents != 1)})"
        for name, tokens, documents in sides
    )


def footline(comparison: Comparison, rows: pa.Table, kind: KeywordKind) -> str:
    """Say how many rows there are of the kind that is shown, and how to see more."""
    table = comparison.table
    if kind == "all":
        return f"{len(rows):,} of {len(table):,} N-grams"
    found = pc.sum(pc.equal(table["kind"], kind)).as_py() or 0
    what = {
        "positive": f"mark {visible(comparison.names[0])} (q below {LEVEL:g})",
        "negative": f"mark {visible(comparison.names[1])} (q below {LEVEL:g})",
        "lockword": "are alike in both",
    }[kind]
    few = "; --all prints others, too" if found < FEW and kind != "lockword" else ""
    return f"{found:,} of {len(table):,} N-grams {what}; {len(rows):,} shown{few}"


def lines(comparison: Comparison, table: pa.Table, width: int, sort: str = "conservative") -> Iterator[Line]:
    """Yield a line of heads, and a line for each row that fits into so many columns.

    A row has its frequencies per million, its numbers of documents, the log2 ratio and what it is sorted by. In a
    narrow terminal, documents go first, and then the bar.
    """
    width = min(max(width, NARROWEST), WIDEST)
    rows = table.to_pylist()
    a, b = (_cut(visible(name), 12) for name in comparison.names)
    extra = [] if sort in ("log2_ratio", "f_a", "f_b") else [sort]
    numbers = [[f"{a} /M", *(_per_million(row["per_million_a"]) for row in rows)]]
    numbers += [[f"{b} /M", *(_per_million(row["per_million_b"]) for row in rows)]]
    documents = [["docs", *(":".join(_value(row[name]) for name in ("documents_a", "documents_b")) for row in rows)]]
    numbers += [["log2", *(f"{row['log2_ratio']:+.2f}" for row in rows)]]
    numbers += [[name, *(_value(row[name]) for row in rows)] for name in extra]
    words = ["N-gram", *(visible(row["ngram"]) for row in rows)]
    longest = max(map(columns_of, words))
    taken = [sum(max(map(columns_of, column)) + 2 for column in some) for some in (numbers, documents)]
    if min(longest, 16) + sum(taken) + SHORTEST_BAR + 2 <= width:
        numbers[2:2] = documents
        taken[0] += taken[1]
    bar = min(LONGEST_BAR, max(0, width - taken[0] - min(longest, 30) - 2))
    bar = bar if bar >= SHORTEST_BAR else 0
    room = max(8, min(longest, width - taken[0] - (bar + 2 if bar else 0)))
    scale = max((abs(row[end]) for row in rows for end in ("low", "high")), default=0) or 1.0
    for index, cells in enumerate(zip(*numbers, strict=True)):
        text = _cut(words[index], room)
        parts = [text + " " * (room - columns_of(text))]
        parts += [_right(cell, max(map(columns_of, column))) for cell, column in zip(cells, numbers, strict=True)]
        row: dict[str, Any] | None = rows[index - 1] if index else None
        drawn = _bar(row["low"], row["high"], bar / scale) if row else "95 % interval"[:bar]
        yield "  ".join([*parts, drawn]).rstrip(), row["log2_ratio"] if row else None


def _bar(low: float, high: float, scale: float) -> str:
    """Draw an interval that leaves out zero as a solid bar to its nearer end, and shaded to the other.

    >>> _bar(2.0, 3.0, 2), _bar(-3.0, -2.0, 2), _bar(-1.0, 2.0, 2)
    ('████▒▒', '████▒▒', '▒▒▒▒')
    """
    near, far = sorted((abs(low), abs(high)))
    near = 0.0 if low < 0 < high else near
    solid = round(near * scale)
    return "█" * solid + "▒" * (round(far * scale) - solid)


def _per_million(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def _value(value: float | int | None) -> str:
    """Return a measure with the digits that say something."""
    if value is None:
        return "-"
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if 0.005 <= abs(value) < 1000 else f"{value:.3g}"
    )


def _cut(text: str, width: int) -> str:
    """Return as much of a text as has room, with a sign that more follows."""
    if columns_of(text) <= width:
        return text
    while columns_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _right(text: str, width: int) -> str:
    return " " * (width - columns_of(text)) + text

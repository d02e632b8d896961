"""Rows of a comparison in the terminal, each with a bar: solid to the nearer end of its interval, then shaded.

rich is imported when something is printed.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from raregram.measure.compare import LEVEL, Comparison
from raregram.measure.listing import top_rows
from raregram.models.explain import visible
from raregram.options import KeywordKind, KeywordSort

if TYPE_CHECKING:
    from rich.table import Table

NARROWEST, WIDEST, PLAIN = 50, 140, 110  # columns of a line; PLAIN where standard output is no terminal
WITH_BAR, WITH_DOCUMENTS = 70, 90  # columns from which on there is room for them
LONGEST_BAR = 24
LONGEST_NAME = 12  # of a corpus in the head of a column
FEW = 10  # rows, with which one would like to see more


def print_comparison(
    comparison: Comparison,
    kind: KeywordKind = "positive",
    sort: KeywordSort = "conservative",
    top: int | None = 20,
    repeats: bool = False,
    file: IO[str] | None = None,
) -> None:
    """Print the first rows of a comparison as a table, in the colours of the page on a terminal.

    Args:
        comparison: the comparison; all others as in `raregram.measure.listing.top_rows`.
        kind: which rows.
        sort: the column.
        top: how many rows.
        repeats: whether also rows that say no more than another.
        file: where to print; None for standard output.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False)
    console.width = width = min(max(console.width, NARROWEST), WIDEST) if console.is_terminal else PLAIN
    rows = top_rows(comparison.table, kind, sort, top, repeats)
    console.print(Text(headline(comparison), style="bold"), soft_wrap=True)
    console.print(table(comparison, rows, width, sort))
    console.print(Text(footline(comparison, rows, kind), style="dim"), soft_wrap=True)


def headline(comparison: Comparison) -> str:
    """Name both corpora and their sizes."""
    sides = zip(comparison.names, comparison.tokens, comparison.documents, strict=True)
    return " against ".join(
        f"{visible(name)} ({tokens:,} words, {documents:,} document{'s' * (documents != 1)})"
        for name, tokens, documents in sides
    )


def footline(comparison: Comparison, rows: pa.Table, kind: KeywordKind) -> str:
    """Say how many rows there are of the kind that is shown, and how to see more."""
    every = comparison.table
    if kind == "all":
        return f"{len(rows):,} of {len(every):,} N-grams"
    found = pc.sum(pc.equal(every["kind"], kind)).as_py() or 0
    what = {
        "positive": f"mark {visible(comparison.names[0])} (q below {LEVEL:g})",
        "negative": f"mark {visible(comparison.names[1])} (q below {LEVEL:g})",
        "lockword": "are alike in both",
    }[kind]
    few = "; --all prints others, too" if found < FEW and kind != "lockword" else ""
    return f"{found:,} of {len(every):,} N-grams {what}; {len(rows):,} shown{few}"


def table(comparison: Comparison, rows: pa.Table, width: int, sort: str = "conservative") -> Table:
    """Return rows with their frequencies per million, numbers of documents, log2 ratio and what they are sorted by.

    In a narrow terminal, documents go first, and then the bar.
    """
    from rich.table import Table
    from rich.text import Text

    of = {name: rows[name].to_pylist() for name in rows.column_names}
    a, b = (visible(name)[:LONGEST_NAME] for name in comparison.names)
    numbers = [
        (f"{a} /M", map(_per_million, of["per_million_a"])),
        (f"{b} /M", map(_per_million, of["per_million_b"])),
        ("docs", map(":".join, zip(map(_value, of["documents_a"]), map(_value, of["documents_b"]), strict=True))),
        ("log2", map("{:+.2f}".format, of["log2_ratio"])),
        (sort, map(_value, of[sort])),
    ]
    if sort in ("log2_ratio", "f_a", "f_b"):
        del numbers[4]
    if width < WITH_DOCUMENTS:
        del numbers[2]
    bar = 0 if width < WITH_BAR else LONGEST_BAR // 2 if width < WITH_DOCUMENTS else LONGEST_BAR
    scale = bar / (max((abs(end) for name in ("low", "high") for end in of[name]), default=0) or 1.0)
    bars = [_bar(low, high, scale) for low, high in zip(of["low"], of["high"], strict=True)]

    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    found.add_column("N-gram")
    for head, _ in numbers:
        found.add_column(Text(head), justify="right", no_wrap=True)
    found.add_column("95 % interval"[:bar], no_wrap=True)
    # Only N-grams give way where there is too little room.
    words = (Text(visible(ngram), no_wrap=True, overflow="ellipsis") for ngram in of["ngram"])
    cells = (map(Text, column) for column in (*(column for _, column in numbers), bars))
    for ratio, *row in zip(of["log2_ratio"], words, *cells, strict=True):
        found.add_row(*row, style="yellow" if ratio > 0 else "blue" if ratio < 0 else "")
    return found


def _bar(low: float, high: float, scale: float) -> str:
    """Draw an interval that leaves out zero as a solid bar to its nearer end, and shaded to the other.

    >>> _bar(2.0, 3.0, 2), _bar(-3.0, -2.0, 2), _bar(-1.0, 2.0, 2)
    ('████▒▒', '████▒▒', '▒▒▒▒')
    """
    near, far = sorted((abs(low), abs(high)))
    solid = round((0.0 if low < 0 < high else near) * scale)
    return "█" * solid + "▒" * (round(far * scale) - solid)


def _per_million(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def _value(value: float | int | None) -> str:
    """Return a measure with the digits that say something."""
    if value is None or isinstance(value, int):
        return "-" if value is None else f"{value:,}"
    return f"{value:.2f}" if 0.005 <= abs(value) < 1000 else f"{value:.3g}"

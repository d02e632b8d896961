"""Rows of a comparison in the terminal, each with a bar: solid to the nearer end of its interval, then shaded.

rich is imported when something is printed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
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
LONGEST_BAR, SHORTEST_BAR, GAP = 24, 6, 2
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
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    def size(column: list[str]) -> int:
        return max(map(cell_len, column)) + GAP

    by_name = {name: rows[name].to_pylist() for name in rows.column_names}
    a, b = (visible(name) for name in comparison.names)
    words = ["N-gram", *map(visible, by_name["ngram"])]
    numbers = [
        [f"{_cut(a)} /M", *map(_per_million, by_name["per_million_a"])],
        [f"{_cut(b)} /M", *map(_per_million, by_name["per_million_b"])],
        ["log2", *map("{:+.2f}".format, by_name["log2_ratio"])],
    ]
    if sort not in ("log2_ratio", "f_a", "f_b"):
        numbers.append([sort, *map(_value, by_name[sort])])
    pairs = zip(map(_value, by_name["documents_a"]), map(_value, by_name["documents_b"]), strict=True)
    documents = ["docs", *map(":".join, pairs)]
    longest, left = max(map(cell_len, words)), width - sum(map(size, numbers))
    if min(longest, 16) + size(documents) + SHORTEST_BAR + GAP <= left:
        numbers.insert(2, documents)
        left -= size(documents)
    bar = max(0, min(LONGEST_BAR, left - min(longest, 30) - GAP))
    bar = bar if bar >= SHORTEST_BAR else 0
    scale = max((abs(end) for name in ("low", "high") for end in by_name[name]), default=0) or 1.0

    found = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="")
    room = max(8, left - (bar + GAP if bar else 0))
    found.add_column(words[0], no_wrap=True, overflow="ellipsis", max_width=room)
    for head, *_ in numbers:
        found.add_column(Text(head), justify="right", no_wrap=True)
    found.add_column("95 % interval"[:bar], no_wrap=True)
    bars = [_bar(low, high, bar / scale) for low, high in zip(by_name["low"], by_name["high"], strict=True)]
    body = zip(words[1:], *(column[1:] for column in numbers), bars, strict=True)
    for cells, ratio in zip(body, by_name["log2_ratio"], strict=True):
        found.add_row(*map(Text, cells), style="yellow" if ratio > 0 else "blue" if ratio < 0 else "")
    return found


def _bar(low: float, high: float, scale: float) -> str:
    """Draw an interval that leaves out zero as a solid bar to its nearer end, and shaded to the other.

    >>> _bar(2.0, 3.0, 2), _bar(-3.0, -2.0, 2), _bar(-1.0, 2.0, 2)
    ('████▒▒', '████▒▒', '▒▒▒▒')
    """
    near, far = sorted((abs(low), abs(high)))
    solid = round((0.0 if low < 0 < high else near) * scale)
    return "█" * solid + "▒" * (round(far * scale) - solid)


def _cut(name: str) -> str:
    """Return the beginning of a long name."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _per_million(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def _value(value: float | int | None) -> str:
    """Return a measure with the digits that say something."""
    if value is None or isinstance(value, int):
        return "-" if value is None else f"{value:,}"
    return f"{value:.2f}" if 0.005 <= abs(value) < 1000 else f"{value:.3g}"


# --- for the command, until it calls `print_comparison` ----------------------------------------------------------
def lines(
    comparison: Comparison, rows: pa.Table, width: int, sort: str = "conservative"
) -> Iterator[tuple[str, float | None]]:
    """Yield the lines of the table, each with the log2 ratio that it shows."""
    from rich.console import Console

    width = min(max(width, NARROWEST), WIDEST)
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as shown:
        console.print(table(comparison, rows, width, sort))
    texts = map(str.rstrip, shown.get().splitlines())
    yield from zip(texts, [None, *rows["log2_ratio"].to_pylist()], strict=True)

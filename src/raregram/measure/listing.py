"""The first rows of a comparison by any measure, for the terminal, a notebook and files."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from raregram import drawing
from raregram.errors import check_choice, check_count, printable
from raregram.options import KeywordKind

LOWEST_FIRST = ("p", "q")
UNSIGNED = (
    "g2",
    "g2_design",
    "f_a",
    "f_b",
    "documents_a",
    "documents_b",
)  # measures that are high for the keywords of both corpora


def top_rows(
    table: pa.Table,
    kind: str = "positive",
    sort: str = "conservative",
    top: int | None = None,
    repeats: bool = False,
) -> pa.Table:
    """Return the first rows of a comparison's table.

    Args:
        table: the table of a `Comparison`.
        kind: "positive" (more in the first corpus), "negative" (more in the second), "lockword" (alike) or "all".
        sort: the column. Negative keywords begin with its lowest value, and so do p-values.
        top: how many rows; None for all.
        repeats: whether rows stay that say no more than another row.

    >>> table = pa.table({"ngram": ["she", "of she", "he"], "conservative": [2.0, 1.5, 3.0],
    ...                   "kind": ["positive"] * 3, "repeats": [None, "she", None]})
    >>> top_rows(table)["ngram"].to_pylist()
    ['he', 'she']
    """
    check_choice("kind", "top_rows", kind, get_args(KeywordKind))
    check_choice("sort", "top_rows", sort, table.column_names)
    if top is not None:
        check_count("top", "top_rows", top)
    if kind != "all":
        table = table.filter(pc.equal(table["kind"], kind))
    if not repeats:
        table = table.filter(pc.is_null(table["repeats"]))
    rising = sort in LOWEST_FIRST or (kind == "negative" and sort not in UNSIGNED)
    # among equals, rows keep the order of the table, from its end for those of the second corpus
    place = pa.array(range(len(table)))
    keys = [
        ("key", "ascending" if rising else "descending"),
        ("place", "descending" if kind == "negative" else "ascending"),
    ]
    order = pc.sort_indices(pa.table({"key": _key(table, kind, sort), "place": place}), sort_keys=keys)
    return table.take(order[:top] if top is not None else order)


def as_html(names: tuple[str, str], table: pa.Table, top: int = 10) -> str:
    """Draw the first keywords of both corpora with their intervals, for a notebook."""
    parts = [top_rows(table, kind, top=top) for kind in ("positive", "negative")]
    heads = ["", *(f"{name} per million" for name in names), *(f"{name} documents" for name in names), "log2 ratio"]
    scale = max(
        (abs(end) for part in parts for end in (*part["low"].to_pylist(), *part["high"].to_pylist())), default=1
    )
    rows = [
        (
            [row["ngram"], *(f"{row[f'per_million_{side}']:,.1f}" for side in "ab"),
             *(f"{row[f'documents_{side}'] or 0:,}" for side in "ab"), f"{row['log2_ratio']:+.2f}"],
            *(row[name] / (scale or 1) for name in ("low", "log2_ratio", "high")),
        )
        for part in parts
        for row in part.to_pylist()
    ]  # fmt: skip
    return drawing.intervals([printable(head) for head in heads], rows, f"{len(table):,} rows")


def _key(table: pa.Table, kind: str, sort: str) -> pa.ChunkedArray:
    """Return the column to sort rows by: for words that are alike the frequency, unless a measure is named."""
    if kind == "lockword" and sort == "conservative":
        return pc.add(table["f_a"], table["f_b"])
    return table[sort]

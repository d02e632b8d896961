"""The first rows of a comparison by any measure, for the terminal, a notebook and files."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from raregram import drawing
from raregram.errors import check_choice, check_count, printable
from raregram.options import KeywordKind

LOWEST_FIRST = ("p", "q")
UNSIGNED = ("g2", "g2_design", "f_a", "f_b", "documents_a", "documents_b")  # high for key words of both corpora


def top_rows(
    table: pa.Table, kind: str = "positive", sort: str = "conservative", top: int | None = None, repeats: bool = False
) -> pa.Table:
    """Return the first rows of a comparison's table; among equals, rows keep their order.

    Args:
        table: the table of a `Comparison`.
        kind: "positive" (more in the first corpus), "negative" (more in the second), "lockword" (alike) or "all".
        sort: the column. Negative keywords begin with its lowest value, and so do p-values. Lockwords are sorted by
            frequency where it is "conservative".
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
    by_frequency = kind == "lockword" and sort == "conservative"
    key = pc.add(table["f_a"], table["f_b"]) if by_frequency else table[sort]
    rising = sort in LOWEST_FIRST or (kind == "negative" and sort not in UNSIGNED)
    # Rows that mark the second corpus most stand at the end of the table.
    orders = ["ascending" if rising else "descending", "descending" if kind == "negative" else "ascending"]
    keys = pa.table({"key": key, "row": pa.array(range(len(table)))})
    return table.take(pc.sort_indices(keys, sort_keys=list(zip(keys.column_names, orders, strict=True)))[:top])


def as_html(names: tuple[str, str], table: pa.Table, top: int = 10) -> str:
    """Draw the first keywords of both corpora with their intervals, for a notebook."""
    rows = [row for kind in ("positive", "negative") for row in top_rows(table, kind, top=top).to_pylist()]
    heads = ["", *(f"{name} per million" for name in names), *(f"{name} documents" for name in names), "log2 ratio"]
    scale = max((abs(row[end]) for row in rows for end in ("low", "high")), default=0) or 1
    drawn = [
        (
            [
                row["ngram"],
                *(f"{row[f'per_million_{side}']:,.1f}" for side in "ab"),
                *(f"{row[f'documents_{side}'] or 0:,}" for side in "ab"),
                f"{row['log2_ratio']:+.2f}",
            ],
            *(row[name] / scale for name in ("low", "log2_ratio", "high")),
        )
        for row in rows
    ]
    return drawing.intervals([printable(head) for head in heads], drawn, f"{len(table):,} rows")

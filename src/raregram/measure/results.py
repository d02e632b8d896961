"""Tables as results: shown in a terminal and in a notebook, and handed on to other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from raregram import drawing
from raregram.errors import printable

SHOWN = 20  # rows; of a longer table, half of them from its beginning and half from its end
WIDEST = 60  # characters of a cell
TINY = 0.005  # smaller numbers are shown by their first digits that are not 0


@dataclass(frozen=True, eq=False)
class Results:
    """A table. pandas, Polars, DuckDB and Arrow take it as it is; `print` shows its first and last rows."""

    table: pa.Table

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a mapping."""
        for batch in self.table.to_batches():
            yield from batch.to_pylist()

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """Return a column."""
        return self.table[name]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        return self.table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the table on to any library with Arrow's C stream interface."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        head, rows, more = self._shown()
        return text_table([head, *rows], more)

    def _repr_html_(self) -> str:
        return drawing.table(*self._shown())

    def _shown(self) -> tuple[list[str], list[list[str]], str]:
        """Return the names of the columns, the rows that are shown, and what to say of the others."""
        table, size = self.table, len(self.table)
        if size > SHOWN:
            table = pa.concat_tables([table[: SHOWN // 2], table[size - SHOWN // 2 :]])
        rows = [[show_value(value) for value in row.values()] for row in table.to_pylist()]
        return self.columns, rows, f"{size:,} rows" if size > SHOWN else ""


def show_value(value: Any) -> str:
    """Return a value as it stands in a table: numbers with the digits that say something."""
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < TINY else f"{value:.3f}"
    if isinstance(value, list):
        value = " ".join(map(str, value))
    shown = "" if value is None else printable(str(value))
    return shown if len(shown) <= WIDEST else "…" + shown[1 - WIDEST :]


def text_table(rows: Sequence[Sequence[str]], below: str = "") -> str:
    """Return rows of text as columns; the first row names them, and numbers stand to the right."""
    columns = []
    for column in zip(*rows, strict=True):
        width, numeric = max(map(len, column)), all(map(_is_number, column[1:]))
        columns.append([value.rjust(width) if numeric else value.ljust(width) for value in column])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join([*lines, *([below] if below else [])])


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "") or "nan")
    except ValueError:
        return False
    return True

"""The report: a pure function of the results. Same results, same bytes. Extra `report`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from raregram.files import atomic_path, write_errors_named
from raregram.show.report.figures import figures, import_matplotlib
from raregram.show.report.page import import_jinja2, page
from raregram.show.report.tables import Table, tables


def check_installed() -> None:
    """Raise if a library is missing that a report needs."""
    import_matplotlib()
    import_jinja2()


def write_report(results: dict[str, Any], folder: Path) -> Path:
    """Write tables as CSV, figures as SVG and PNG, and one self-contained page; return the page's path."""
    shown, drawn = tables(results), figures(results)
    for table in shown:
        _write(folder / "tables" / f"{table.name}.csv", as_csv(table).encode())
    for figure in drawn:
        _write(folder / "figures" / f"{figure.name}.svg", figure.svg.encode())
        _write(folder / "figures" / f"{figure.name}.png", figure.png)
    path = folder / "report.html"
    _write(path, page(results, shown, drawn).encode())
    return path


def as_csv(table: Table) -> str:
    """Return a table as CSV, with plain numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def _write(path: Path, content: bytes) -> None:
    with write_errors_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)

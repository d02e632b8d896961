"""What a person sees of a comparison: a page, a plot, a table in the terminal, files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa

from raregram.errors import MissingExtraError, RaregramWarning
from raregram.files import atomic_path, write_errors_named
from raregram.measure.compare import Comparison
from raregram.measure.kwic import Lines, find_lines
from raregram.measure.listing import top_rows
from raregram.measure.results import Results
from raregram.options import KeywordKind
from raregram.remote import local_path
from raregram.show.comparison.page import page
from raregram.show.comparison.plot import plot_comparison
from raregram.show.write import write_results

PAGE = "index.html"
LINES = 12  # of a row and a corpus
WITH_LINES: dict[KeywordKind, int] = {"positive": 500, "negative": 500, "lockword": 150}  # rows


def page_lines(comparisons: Sequence[Comparison], progress: Callable[[int], None]) -> list[Lines]:
    """Return the lines that the pages of comparisons of the same documents show, after one pass over these."""
    wanted = [rows_with_lines(comparison.table) for comparison in comparisons]
    pairs = [comparison.pair for comparison in comparisons]
    return find_lines(comparisons[0].texts, pairs, wanted, lines=LINES, progress=progress)


def rows_with_lines(table: pa.Table) -> list[str]:
    """Return the N-grams whose lines a page shows, the strongest of each kind first."""
    kinds = [top_rows(table, kind, top=most)["ngram"].to_pylist() for kind, most in WITH_LINES.items()]
    return [ngram for some in zip_longest(*kinds) for ngram in some if ngram is not None]


def write_comparisons(
    comparisons: Sequence[Comparison], folder: str | Path, progress: Callable[[int], None]
) -> Iterator[Path]:
    """Write comparisons of the same documents to a folder, several to one each in it; yield the path of each page."""
    some_lines = page_lines(comparisons, progress)
    for number, (comparison, lines) in enumerate(zip(comparisons, some_lines, strict=True), 1):
        own = "" if len(comparisons) == 1 else f"{number:02}-" + re.sub(r"[^\w.-]+", "-", comparison.names[0])[:60]
        yield write_comparison(comparison, lines, local_path(folder) / own)


def write_comparison(comparison: Comparison, lines: Lines, folder: Path) -> Path:
    """Write the table, the plot and the page of a comparison to a folder; return the path of the page.

    Every file is whole or absent. Without matplotlib there is no plot, and a warning says so.
    """
    with write_errors_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for form in ("csv", "parquet"):
        write_results(Results(comparison.table), str(folder / f"table.{form}"), form, "words")
    try:
        plot = plot_comparison(comparison)
    except MissingExtraError as error:
        warnings.warn(f"no plot was drawn: {error}", RaregramWarning, stacklevel=2)
    else:
        write_bytes(folder / "plot.svg", plot.svg.encode())
        write_bytes(folder / "plot.png", plot.png)
    write_page(comparison, lines, folder / PAGE)
    return folder / PAGE


def write_page(comparison: Comparison, lines: Lines, path: str | Path) -> None:
    """Write the page of a comparison."""
    write_bytes(path, page(comparison, lines).encode())


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file that is whole or absent."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)

"""What a person sees of a comparison: a page, a plot, a table in the terminal, files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa

from raregram.corpus.concordance import Concordance
from raregram.errors import MissingExtraError, RaregramWarning
from raregram.files import atomic_path, write_errors_named
from raregram.measure.compare import Comparison
from raregram.measure.listing import top_rows
from raregram.measure.results import Results
from raregram.options import KeywordKind
from raregram.show.comparison.page import Lines, page
from raregram.show.comparison.plot import plot_comparison
from raregram.show.write import write_results

Samples = Sequence[Mapping[str, Concordance]]

PAGE = "index.html"
LINES = 12  # of a row and a corpus
WITH_LINES: dict[KeywordKind, int] = {"positive": 500, "negative": 500, "lockword": 150}  # rows


def rows_with_lines(table: pa.Table) -> list[str]:
    """Return the N-grams whose lines a page shows, the strongest of each kind first."""
    kinds = [top_rows(table, kind, top=most)["ngram"].to_pylist() for kind, most in WITH_LINES.items()]
    return [ngram for some in zip_longest(*kinds) for ngram in some if ngram is not None]


def lines_of(a: Samples, b: Samples, ngrams: Iterable[str]) -> Lines:
    """Return the lines of two corpora, each of which is one or more samples; nothing if there is none of either."""

    def of(samples: Samples, ngram: str) -> Concordance:
        return sum((sample[ngram] for sample in samples), Concordance())

    return {ngram: (of(a, ngram), of(b, ngram)) for ngram in ngrams} if a or b else {}


def write_comparison(comparison: Comparison, lines: Lines, folder: Path) -> Path:
    """Write a comparison to a folder: the table, the plot and, when they are there, the page; return its path.

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
        _write(folder / "plot.svg", plot.svg.encode())
        _write(folder / "plot.png", plot.png)
    _write(folder / PAGE, page(comparison, lines).encode())
    return folder / PAGE


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)

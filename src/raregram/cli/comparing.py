"""The command that compares two corpora."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from raregram import options
from raregram.cli import options as cli
from raregram.cli.command import argument, option
from raregram.cli.options import described
from raregram.cli.printing import print_json, say
from raregram.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from raregram.measure.compare import Comparison
    from raregram.show.comparison.page import Lines

PLAIN_WIDTH = 110  # columns of a line where standard output is no terminal


def compare(
    sources: Annotated[list[str], argument(help="Two corpora, or one with --by: files, folders or globs.")],
    cut_by: cli.By = None,
    names: Annotated[
        str | None, described(help="Names of both corpora, e.g. 'fiction,news'. [default: those of the files]")
    ] = None,
    n: Annotated[str, option("--n", "-n", help="Lengths of N-grams.")] = "1-5",
    min_count: Annotated[int, option(help=options.KEYWORD_MIN_COUNT.help)] = options.KEYWORD_MIN_COUNT.default,
    min_documents: Annotated[int, option(help=options.MIN_DOCUMENTS.help)] = options.MIN_DOCUMENTS.default,
    tokenize: cli.Tokenize = "words",
    lower: cli.Lower = options.LOWER.default,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    out: Annotated[
        str | None,
        described(
            "--out", "-o", help="A folder for the page, the plot and tables; or a .csv, .jsonl or .parquet file."
        ),
    ] = None,
    top: Annotated[int, option("--top", "-k", help=options.TOP.help, min=1)] = options.TOP.default,
    sort: Annotated[options.KeywordSort, option(help=options.KEYWORD_SORT.help)] = options.KEYWORD_SORT.default,
    negative: Annotated[bool, option("--negative", help="Print what is more in the second corpus.")] = False,
    lockwords: Annotated[bool, option("--lockwords", help="Print what is alike in both.")] = False,
    repeats: Annotated[bool, option("--repeats", help="Print also rows that say no more than another.")] = False,
    memory_limit: cli.MemoryLimit = None,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Compare two corpora: which words and phrases are characteristic of the first.

    Prints frequencies per million (/M), numbers of documents, the log2 ratio and its 95 % interval. With --out, a
    folder gets index.html, a page to explore with a plot, a table and concordance lines, and table.csv,
    table.parquet, plot.svg and plot.png.

    With --by, one corpus is cut into samples, and each is compared with the rest.

    Example: raregram compare fiction/ news/ --out compare/

    Another: raregram compare speeches.jsonl --by party -n 1-3
    """
    from raregram.measure.listing import top_rows

    if negative and lockwords:
        raise ParameterError("--negative and --lockwords exclude each other")
    if cut_by is None and len(sources) != 2:
        raise ParameterError(f"compare takes two corpora, or one with --by; got {len(sources)}")
    kind: options.KeywordKind = "negative" if negative else "lockword" if lockwords else "positive"
    reading: dict[str, Any] = {"tokenize": tokenize, "lower": lower, "format": format, "split": split}
    counting: dict[str, Any] = {
        "n": cli.parse_lengths(n), "min_count": min_count, "min_documents": min_documents,
        "memory_limit": cli.parse_memory(memory_limit, engine, "compare"),
    }  # fmt: skip
    found = _compare(sources, cut_by, cli.parse_names(names), {**counting, **reading}, quiet)
    for comparison in found:
        rows = top_rows(comparison.table, kind, sort, top, repeats)
        if as_json:
            _print_json(comparison, rows)
        else:
            _print(comparison, rows, sort)
    if out is not None:
        _write(out, found, lambda: _find_lines(sources, cut_by, found, reading, quiet), quiet)


def _compare(
    sources: list[str], by: str | None, names: list[str] | None, settings: dict[str, Any], quiet: bool
) -> list[Comparison]:
    """Return the comparison of two corpora, or of each sample of one with the rest."""
    from raregram.measure.compare import compare as compare_corpora
    from raregram.show.progress import progress

    a, b = (sources, None) if by is not None else (sources[0], sources[1])
    with progress("counted {:,} documents", quiet) as tick:
        found = compare_corpora(a, b, by=by, names=names, progress=tick, **settings)
    return list(found.values()) if isinstance(found, dict) else [found]


def _find_lines(
    sources: list[str], by: str | None, found: list[Comparison], reading: dict[str, Any], quiet: bool
) -> list[Lines]:
    """Return the concordance lines of the strongest rows of each comparison, after one pass over each corpus."""
    from raregram.corpus.concordance import Concordance, concordance, sample_concordances
    from raregram.corpus.documents import Options
    from raregram.show.comparison import LINES, rows_with_lines
    from raregram.show.progress import progress
    from raregram.text.tokenize import Tokenizer

    wanted = [rows_with_lines(comparison.table) for comparison in found]
    ngrams = list(dict.fromkeys(ngram for some in wanted for ngram in some))
    if not ngrams:
        return [{} for _ in found]
    read = Options(format=reading["format"], split=reading["split"], by=by)
    with progress("read {:,} documents for lines", quiet) as tick:
        settings: dict[str, Any] = {
            "tokenizer": Tokenizer("words", reading["tokenize"], reading["lower"]), "lines": LINES, "options": read,
            "progress": tick,
        }  # fmt: skip
        if by is None:
            first, second = (concordance(source, ngrams, **settings) for source in sources)
            return [{ngram: (first[ngram], second[ngram]) for ngram in wanted[0]}]
        samples = sample_concordances(sources, ngrams, **settings)
    every: list[Lines] = []
    for comparison, some in zip(found, wanted, strict=True):
        name = comparison.names[0]
        others = [of_sample for sample, of_sample in samples.items() if sample != name]
        every.append(
            {ngram: (samples[name][ngram], sum((o[ngram] for o in others), Concordance())) for ngram in some}
        )
    return every


def _write(out: str, found: list[Comparison], lines: Callable[[], list[Lines]], quiet: bool) -> None:
    """Write one table to a file, or everything to a folder; several comparisons to a folder each."""
    from raregram.measure.results import Results
    from raregram.show.comparison import write_comparison
    from raregram.show.write import FORMATS, write_results

    if form := FORMATS.get(Path(out).suffix.lower()):
        if len(found) > 1:
            raise ParameterError("each sample has a table of its own: name a folder with --out, not a file")
        write_results(Results(found[0].table), out, form, "words")
        return
    for comparison, some in zip(found, lines(), strict=True):
        folder = Path(out) if len(found) == 1 else Path(out, re.sub(r"[^\w.-]+", "-", comparison.names[0]) or "-")
        page = write_comparison(comparison, some, folder)
        if not quiet:
            say(f"{page}: {' against '.join(comparison.names)}, {len(comparison.table):,} rows")


def _print(comparison: Comparison, rows: pa.Table, sort: str) -> None:
    """Print rows as a table with bars, in the colours of the page on a terminal."""
    from raregram.show.comparison import terminal

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    click.secho(terminal.headline(comparison), bold=True)
    for line, ratio in terminal.lines(comparison, rows, width, sort):
        click.secho(line, fg=None if not ratio else "yellow" if ratio > 0 else "blue", dim=ratio is None)


def _print_json(comparison: Comparison, rows: pa.Table) -> None:
    facts = {"names": comparison.names, "tokens": comparison.tokens, "documents": comparison.documents}
    print_json({**facts, "rows": len(comparison.table), "top": rows.to_pylist()})


COMMANDS = (compare,)

"""The command that compares two corpora."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from raregram import options
from raregram.cli import options as cli
from raregram.cli.clusters import spark_cluster
from raregram.cli.options import argument, option
from raregram.cli.printing import print_json, say
from raregram.errors import ParameterError
from raregram.files import check_target, write_errors_named
from raregram.remote import local_path
from raregram.show.progress import Progress

if TYPE_CHECKING:
    from raregram.measure.compare import Comparison


def compare(
    sources: Annotated[list[str], argument("Two corpora, or one with --by: files, folders or globs.")],
    reference: Annotated[
        str | None,
        option("Instead of a second corpus: a list of frequencies, lines of a word, a tab and a number."),
    ] = None,
    cut_by: cli.By = None,
    names: Annotated[
        str | None,
        option(
            "Names of both corpora, e.g. 'fiction,news', or with --by the samples to compare: two, or one with the "
            "rest. [default: those of the files; with --by each with the rest]"
        ),
    ] = None,
    n: Annotated[str | None, option("Lengths of N-grams. [default: 1-5]", "--n", "-n")] = None,
    min_count: Annotated[int, option(options.COMPARED_COUNT)] = options.COMPARED_COUNT.default,
    min_documents: Annotated[int, option(options.COMPARED_DOCUMENTS)] = options.COMPARED_DOCUMENTS.default,
    tokenize: cli.WordsTokenize = None,
    lower: cli.Lower = options.LOWER.default,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    on_error: cli.OnError = options.ON_ERROR.default,
    out: Annotated[
        str | None,
        option("A folder for the page, the plot and tables; or a .csv, .jsonl or .parquet file.", "--out", "-o"),
    ] = None,
    top: cli.Top = options.TOP.default,
    sort: Annotated[options.KeywordSort, option(options.KEYWORD_SORT, metavar="NAME")] = options.KEYWORD_SORT.default,
    negative: Annotated[bool, option("Print what is more in the second corpus.", "--negative")] = False,
    lockwords: Annotated[bool, option("Print what is alike in both.", "--lockwords")] = False,
    everything: Annotated[bool, option("Print also rows that are not significant.", "--all")] = False,
    repeats: Annotated[bool, option("Print also rows that say no more than another.", "--repeats")] = False,
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
    from raregram.measure.compare import count_file
    from raregram.measure.listing import top_rows
    from raregram.show.comparison.terminal import print_comparison
    from raregram.show.write import write_results

    lengths, chosen = cli.parse_lengths(n or "1-5"), cli.parse_names(names)
    if negative + lockwords + everything > 1:
        raise ParameterError("--negative, --lockwords and --all exclude each other")
    if reference is not None and (cut_by is not None or len(sources) != 1):
        raise ParameterError("--reference is compared with one corpus, without --by")
    if reference is not None and n is not None and lengths != (1, 1):
        raise ParameterError(f"--reference is a list of words, so it cannot be compared with -n {n}: take -n 1")
    cut = reference is None and (cut_by is not None or (len(sources) == 1 and count_file(sources) is not None))
    if reference is None and not cut and len(sources) != 2:
        raise ParameterError(
            "compare takes two corpora, or one with --by or --reference, or one count file that was counted with "
            f"--by; got {len(sources)}"
        )
    form = None if out is None else _check_out(out, several=cut and chosen is None)
    settings: dict[str, Any] = {"n": lengths, "min_count": min_count, "min_documents": min_documents}
    settings |= {"format": format, "split": split, "on_error": on_error}
    settings["memory_limit"] = cli.parse_memory(memory_limit, engine, "compare")
    # Only what is on the command line can contradict a count file.
    settings |= {name: value for name, value in {"tokenize": tokenize, "lower": lower}.items() if value}
    with ExitStack() as stack:
        if engine == "spark":
            session = stack.enter_context(spark_cluster(master, spark, quiet)).session
            settings |= {"engine": "spark", "session": session}
        tick = stack.enter_context(Progress("counted {:,} documents", quiet or engine == "spark"))
        found = _compare(sources, reference, cut_by, cut, chosen, settings | {"progress": tick})
    kind: options.KeywordKind = (
        "negative" if negative else "lockword" if lockwords else "all" if everything else "positive"
    )
    # Before anything is printed: standard output may be closed early.
    if form is not None:
        write_results(found[0], str(out), form, "words")
    elif out is not None:
        _write_pages(out, found, quiet)
    for comparison in found:
        if as_json:
            facts = {"names": comparison.names, "tokens": comparison.tokens, "documents": comparison.documents}
            rows = top_rows(comparison.table, kind, sort, top, repeats).to_pylist()
            print_json({**facts, "rows": len(comparison.table), "top": rows})
        else:
            print_comparison(comparison, kind, sort, top, repeats)


def _compare(
    sources: list[str],
    reference: str | None,
    by: str | None,
    cut: bool,
    names: list[str] | None,
    settings: dict[str, Any],
) -> list[Comparison]:
    """Return the comparison of two corpora, or of two samples of one, or of each with the rest."""
    from raregram.measure.compare import compare as compare_two
    from raregram.measure.compare import compare_each, default_names, frequency_list

    if cut and names is None:
        return list(compare_each(sources, by=by, **settings))
    if reference is not None:
        named = names or default_names(sources[0], reference)
        return [compare_two(sources[0], frequency_list(reference), names=named, **settings)]
    return [compare_two(*([sources] if cut else sources), by=by, names=names, **settings)]


def _check_out(out: str, several: bool) -> str | None:
    """Return the format of a table, or None for a folder; raise, before the work, if it cannot be written."""
    from raregram.show.write import table_format

    form = table_format(out)
    if form is None:
        with write_errors_named(out):
            local_path(out).mkdir(parents=True, exist_ok=True)
    elif several:
        raise ParameterError("each sample has a table of its own: name a folder with --out, not a file")
    else:
        check_target(out)
    return form


def _write_pages(out: str, found: list[Comparison], quiet: bool) -> None:
    """Write each comparison to a folder, and name the pages."""
    from raregram.show.comparison import write_comparisons

    with Progress("read {:,} documents for lines", quiet) as tick:
        pages = list(write_comparisons(found, out, tick))
    for comparison, page in zip(found, pages, strict=True):
        if not quiet:
            say(f"{page}: {' against '.join(comparison.names)}, {len(comparison.table):,} rows")


COMMANDS = (compare,)

"""Commands on models: fit, score, rank, explain, info."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from raregram import options
from raregram.cli import options as cli
from raregram.cli.options import argument, described
from raregram.cli.printing import print_json, report_file, say
from raregram.errors import InputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from raregram.corpus.contexts import Batch
    from raregram.models.model import Model

STANDARD_INPUT = "-"


def fit(
    sources: cli.Contexts,
    out: cli.Out,
    target: cli.Target = None,
    estimator: Annotated[
        options.EstimatorName, typer.Option(help=options.ESTIMATOR.help)
    ] = options.ESTIMATOR.default,
    criterion: Annotated[
        options.SpanCriterion | None, described(help=f"{options.CRITERION.help} [default: cet; `backoff`: gain]")
    ] = None,
    size: Annotated[
        int | None,
        described(
            help="Items that `selective` keeps at each position, or spans that `backoff` keeps of each position and "
            "length. [default: 10000; `backoff`: all with evidence]",
            min=1,
        ),
    ] = None,
    lam: Annotated[
        float | None, described(help=f"{options.LAM.help} [default: 1e-05; `backoff`: 12 / n_de]", min=0)
    ] = None,
    denominator: cli.Denominator = options.DENOMINATOR.default,
    unseen: cli.Unseen = options.UNSEEN.default,
    seed: cli.Seed = options.SEED.default,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Keep the frequencies of items not selected, for `explain`.")
    ] = False,
    tau: Annotated[float, typer.Option(help=options.TAU.help)] = options.TAU.default,
    unit_lam: Annotated[
        float | None,
        described(help="`backoff`: the ridge of single items and of all shapes. [default: 10 times --lam]", min=0),
    ] = None,
    longest: Annotated[
        int | None,
        described(
            help="`backoff`: length of the longest suffix. [default: the longest counted; 5 from contexts]", min=0
        ),
    ] = None,
    shapes: Annotated[
        bool | None,
        described("--shapes/--no-shapes", help="`backoff`: back off to shapes. [default: if they were counted]"),
    ] = None,
    max_bytes: Annotated[
        str | None, described(help="`backoff`: maximum size of the model in memory, e.g. 1MB. [default: no limit]")
    ] = None,
    side: cli.Side = options.SIDE.default,
    kind: cli.Kind = options.KIND.default,
    columns: cli.Columns = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Fit a model to counts or contexts.

    Takes count files, labelled contexts, or N-grams with two frequencies.

    Options that the estimator does not use have no effect.

    Example: raregram fit contexts.tsv --target LOC --criterion cet --size 5000 --out loc.rgm

    Another: raregram fit all.counts --estimator backoff --target LOC --out loc.rgm
    """
    from raregram.atomic import check_target
    from raregram.counts.count import ContextOptions, read_counts
    from raregram.models import fit as fitting
    from raregram.models.registry import find_estimator
    from raregram.show.progress import progress

    limit = None if max_bytes is None else cli.parse_bytes(max_bytes, "max_bytes", "fit")
    spans = find_estimator(estimator).spans_to_count(longest, shapes)
    check_target(out)
    with progress("counted {:,} contexts", quiet) as tick:
        contexts = ContextOptions(cli.parse_columns(columns), target, denominator)
        counts = read_counts(sources, contexts, progress=tick, spans=tuple(spans), side=side, kind=kind)
    model = fitting.fit(
        counts, target, estimator, criterion=criterion, size=size, lam=lam, denominator=denominator, unseen=unseen,
        seed=seed, keep_seen=keep_seen, tau=tau, unit_lam=unit_lam, longest=longest, shapes=shapes, max_bytes=limit,
    )  # fmt: skip
    model.save(out)
    report_file(out, as_json, quiet)


def score(
    model_file: cli.ModelFile,
    sources: cli.OptionalContexts = None,
    out: Annotated[
        str | None,
        described("--out", "-o", help="A .parquet, .csv, .jsonl or text file. [default: standard output]"),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Add the columns lower and upper, an interval for the log ratio.")
    ] = False,
    level: cli.Level = options.LEVEL.default,
    as_: Annotated[
        str, typer.Option("--as", help="Name of the new column; with --interval also NAME_lower and NAME_upper.")
    ] = "log_ratio",
    columns: cli.Columns = None,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Print the log ratio of each context, in order.

    Memory use does not depend on the length of the input. Tables keep all their columns and get one more, log_ratio;
    columns of several files are matched by name.

    Lines of text: log ratio, with --interval its lower and upper end, label if there is one, items.

    A Parquet table of documents (items or text) gets a list per document, to Parquet or JSON lines: the log ratios of
    its contexts, in order.

    On Spark: tables, count tables or text in, a folder of Parquet files out.

    Example: `cat new.txt | raregram score loc.rgm > scored.tsv`
    """
    from raregram.measure.score import open_contexts, score_columns
    from raregram.models.model import Model
    from raregram.show.progress import progress
    from raregram.show.write import output_format, score_writer

    model, wanted = Model.load(model_file), level if interval else None
    files, rename = sources or [STANDARD_INPUT], cli.parse_columns(columns)
    if engine == "spark":
        from raregram.cli.clusters import spark_cluster

        if out is None:
            raise ParameterError("on Spark, scores go to a folder: name it with --out")
        with spark_cluster(master, spark, quiet) as cluster:
            from raregram.spark import scoring
            from raregram.spark.sources import open_contexts as open_on_spark

            contexts = open_on_spark(cluster, files, model.settings.n, rename)
            scoring.write_scores(cluster, scoring.score(cluster, model, contexts, wanted, as_), out)
        if not quiet:
            say(f"{out}: scored")
        return
    form = output_format(out, as_json)
    if wanted is not None:
        model.interval([], wanted)  # raises before anything is read
    heads, batches = open_contexts(files, rename, documents=form in ("parquet", "json") and not interval)
    added = score_columns(as_, interval, any(head.documents for head in heads))
    with (
        progress("scored {:,} N-grams", quiet or (out is None and sys.stdout.isatty())) as tick,
        score_writer(out, form, heads, added, model.settings.kind) as write,
    ):
        for batch, lines, scores in _scored(model, batches, wanted, sources):
            write(batch, lines, dict(zip(added.names, scores, strict=True)))
            tick(len(batch))
    if out is not None and not quiet:
        say(f"{out}: {tick.done:,} rows scored")


def rank(
    model_file: cli.ModelFile,
    sources: cli.OptionalContexts = None,
    top: Annotated[int, typer.Option("--top", "-k", help=options.TOP.help, min=1)] = options.TOP.default,
    by: Annotated[
        Literal["log-ratio", "lower"],
        typer.Option(help="The log ratio, or the lower end of its interval, which ranks scarce evidence lower."),
    ] = "log-ratio",
    level: cli.Level = options.LEVEL.default,
    columns: cli.Columns = None,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Print the N-grams with the highest log ratio.

    Each once, best first: rank, log ratio, N-gram; with --by lower: rank, lower end, log ratio, upper end, N-gram.

    Ties are in byte order of the N-gram. Only the printed N-grams are kept in memory.

    Example: raregram rank loc.rgm new.txt --top 100
    """
    import numpy as np

    from raregram.measure.rank import Top
    from raregram.measure.score import open_contexts
    from raregram.models.model import Model
    from raregram.show.progress import progress

    model, wanted = Model.load(model_file), level if by == "lower" else None
    files, rename = sources or [STANDARD_INPUT], cli.parse_columns(columns)
    if engine == "spark":
        from raregram.cli.clusters import spark_cluster

        with spark_cluster(master, spark, quiet) as cluster:
            from raregram.spark import scoring
            from raregram.spark.sources import open_contexts as open_on_spark

            contexts = open_on_spark(cluster, files, model.settings.n, rename)
            ranking = scoring.rank(cluster, model, contexts, top, wanted)
    else:
        if wanted is not None:
            model.interval([], wanted)  # raises before anything is read
        best = Top(top)
        order = [0] if wanted is None else [1, 0, 2]  # of log ratio, lower and upper end
        _, batches = open_contexts(files, rename)
        with progress("ranked {:,} N-grams", quiet) as tick:
            for batch, lines, scores in _scored(model, batches, wanted, sources):
                assert lines is not None
                best.add(lines(), np.column_stack(scores)[:, order])
                tick(len(batch))
            ranking = best.ranking()
    names = ["log_ratio"] if wanted is None else ["lower", "log_ratio", "upper"]
    rows = list(enumerate(zip(ranking.values.tolist(), ranking.texts.to_pylist(), strict=True), 1))
    if as_json:
        print_json(
            [{"rank": i, **dict(zip(names, values, strict=True)), "ngram": text} for i, (values, text) in rows]
        )
    else:
        for i, (values, text) in rows:
            print("\t".join([str(i), *(f"{value:.4f}" for value in values), text]))


def explain(
    model_file: cli.ModelFile,
    ngrams: Annotated[list[str], argument(help="N-grams, each as one argument.")],
    as_json: cli.AsJson = False,
) -> None:
    """Show what each item adds to a log ratio.

    Each item with its frequencies, its term and a bar. A dot marks an item that is not selected, so its factor is 1.
    Terms add up to the log ratio exactly.

    A `backoff` model first shows the single items. An item that the model lacks at its position is shown by its
    frequencies at any position, or else by those of its shape, such as `~Aa` for a capitalised word. Then come the
    corrections by ever longer suffixes of shapes and of items, each with the ratio before and after it.

    Example: raregram explain loc.rgm "the annual meeting of the company was held yesterday in"
    """
    from raregram.models.model import Model

    model = Model.load(model_file)
    explanations = [model.explain(ngram) for ngram in ngrams]
    if as_json:
        print_json([explanation.to_dict() for explanation in explanations])
        return
    for index, explanation in enumerate(explanations):
        typer.secho(("\n" if index else "") + explanation.headline(), bold=True)
        for line, value in explanation.lines():
            typer.secho(line, fg=None if not value else "green" if value > 0 else "red", dim=not value)


def info(file: Annotated[str, argument(help="A count file or a model file.")], as_json: cli.AsJson = False) -> None:
    """Describe a count file or a model file.

    Example: raregram info loc.rgm
    """
    from raregram.show.describe import as_text, describe

    facts = describe(file)
    if as_json:
        print_json(facts)
    else:
        print(as_text(facts))


def _scored(
    model: Model, batches: Iterable[Batch], level: float | None, sources: list[str] | None
) -> Iterator[tuple[Batch, Callable[[], pa.Array] | None, list[pa.Array]]]:
    """Yield contexts, a function that returns them as lines, and scores; if one is invalid, first those before it.

    The scores are log ratios, and with a level the ends of their intervals. Documents get a list of log ratios each.
    """
    from raregram.measure.score import ngram_lines, score_contexts, score_rows

    rows = 0
    for batch in batches:
        rows += len(batch)
        if batch.documents:
            yield batch, None, [score_rows(model, batch.name, batch.ngrams, batch.location)]
            continue
        try:
            codes = model.encode(batch.ngrams, batch.location.name)
        except InputError as error:
            if error.row:
                yield from _scored(model, [batch.head(error.row)], level, sources)
            raise
        yield batch, partial(ngram_lines, model, batch.ngrams), score_contexts(model, codes, level)
    if not rows:
        raise InputError(f"there is no N-gram in {', '.join(sources or ['standard input'])}")


COMMANDS = (fit, score, rank, explain, info)

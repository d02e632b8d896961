"""Commands on models: fit, score, rank, explain, info."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from raregram.cli.options import (
    AsJson,
    Columns,
    DenominatorOption,
    EngineOption,
    KindOption,
    Level,
    MasterOption,
    ModelFile,
    OptionalSources,
    Out,
    Quiet,
    SideOption,
    Sources,
    SparkOption,
    UnseenOption,
    parse_bytes,
    parse_columns,
)
from raregram.cli.printing import print_facts, print_json, report, say
from raregram.errors import InputError, ParameterError, check_count, check_lam
from raregram.options import (
    DENOMINATOR,
    ENGINE,
    ESTIMATOR,
    KIND,
    LEVEL,
    SEED,
    SIDE,
    TAU,
    TOP,
    UNSEEN,
    EstimatorName,
    SpanCriterion,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from raregram.corpus.contexts import Batch
    from raregram.models.model import Model
    from raregram.spark.scoring import Contexts
    from raregram.spark.session import Cluster
    from raregram.text.ngrams import NGrams

STANDARD_INPUT = "-"


def fit(
    sources: Sources,
    out: Out,
    target: Annotated[
        str | None,
        typer.Option(help="The numerator. [default: the only target there is]", show_default=False),
    ] = None,
    estimator: Annotated[EstimatorName, typer.Option(help=ESTIMATOR.help)] = ESTIMATOR.default,
    criterion: Annotated[
        SpanCriterion | None,
        typer.Option(
            help="How `selective` scores items and `backoff` spans; `gain` is for `backoff` alone. "
            "[default: cet; for `backoff` gain]",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="How many items `selective` keeps at each position, or `backoff` of each position and length. "
            "[default: 10000; for `backoff` all that say something]",
            show_default=False,
        ),
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(help="The ridge; 0 for none. [default: 1e-05; for `backoff` 12 / n_de]", show_default=False),
    ] = None,
    denominator: DenominatorOption = DENOMINATOR.default,
    unseen: UnseenOption = UNSEEN.default,
    seed: Annotated[int, typer.Option(help=SEED.help)] = SEED.default,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Keep the frequencies of items not selected, for `explain`.")
    ] = False,
    tau: Annotated[float, typer.Option(help=TAU.help)] = TAU.default,
    unit_lam: Annotated[
        float | None,
        typer.Option(
            help="For `backoff`: the ridge of single items and of all shapes. [default: 10 times --lam]",
            show_default=False,
        ),
    ] = None,
    longest: Annotated[
        int | None,
        typer.Option(
            help="For `backoff`: the longest suffix. [default: the longest that was counted, which is "
            "5 items from contexts]",
            show_default=False,
        ),
    ] = None,
    shapes: Annotated[
        bool | None,
        typer.Option(
            "--shapes/--no-shapes",
            help="For `backoff`: whether rare items back off to their shapes. [default: if they were counted, as "
            "they are from contexts]",
            show_default=False,
        ),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            help="For `backoff`: how much room the model may take, such as 1MB. [default: no limit]",
            show_default=False,
        ),
    ] = None,
    side: SideOption = SIDE.default,
    kind: KindOption = KIND.default,
    columns: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model.

    From count files, labelled contexts or N-grams with two frequencies.

    Options that an estimator does not use have no effect on it.

    Example: raregram fit contexts.tsv --target LOC --criterion cet --size 5000 --out loc.rgm

    Another: raregram fit all.counts --estimator backoff --target LOC --out loc.rgm
    """
    from raregram.atomic import check_target
    from raregram.counts.count import read_counts
    from raregram.models import fit as fitting
    from raregram.models.registry import find_estimator
    from raregram.show.progress import progress

    for name, ridge in (("lam", lam), ("unit_lam", unit_lam)):  # before the input is read, which may take long
        if ridge is not None:
            check_lam(ridge, "fit", name)
    if size is not None:
        check_count("size", "fit", size)
    if longest is not None:
        check_count("longest", "fit", longest, at_least=0)
    room = None if max_bytes is None else parse_bytes(max_bytes, "max_bytes", "fit")
    check_target(out)
    with progress("contexts counted", quiet) as tick:
        counts = read_counts(
            sources,
            parse_columns(columns),
            progress=tick,
            target=target,
            spans=find_estimator(estimator).spans_to_count(longest, shapes),
            side=side,
            kind=kind,
            denominator=denominator,
        )
    model = fitting.fit(
        counts,
        target,
        estimator,
        criterion=criterion,
        size=size,
        lam=lam,
        denominator=denominator,
        unseen=unseen,
        seed=seed,
        keep_seen=keep_seen,
        tau=tau,
        unit_lam=unit_lam,
        longest=longest,
        shapes=shapes,
        max_bytes=room,
    )
    model.save(out)
    report(out, as_json, quiet)


def score(
    model_file: ModelFile,
    sources: OptionalSources = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="A .parquet, .csv, .jsonl or text file to write. [default: standard output]"
        ),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Add the columns lower and upper, an interval for the log ratio.")
    ] = False,
    level: Level = LEVEL.default,
    as_: Annotated[
        str, typer.Option("--as", help="The name of the new column; with --interval also NAME_lower and NAME_upper.")
    ] = "log_ratio",
    columns: Columns = None,
    engine: EngineOption = ENGINE.default,
    master: MasterOption = None,
    spark: SparkOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the log ratio of each context, as they come.

    Memory stays flat however long the input is. Tables keep all their columns and get one more, log_ratio; those of
    several files are matched by name.

    Lines of text have the log ratio, with --interval its lower and upper end, the label if there is one, the items.

    A Parquet table of documents (items or text) gets a list for each, to Parquet or JSON lines: the log ratios of its
    contexts, in order.

    On Spark, tables, count tables or text in, a folder of Parquet files out.

    Example: `cat new.txt | raregram score loc.rgm > scored.tsv`
    """
    from raregram.measure.score import open_contexts, score_columns
    from raregram.models.model import Model
    from raregram.show.progress import progress
    from raregram.show.write import output_format, score_writer

    model, wanted = Model.load(model_file), level if interval else None
    if engine == "spark":
        if out is None:
            raise ParameterError("on Spark, scores go to a folder: name it with --out")
        with _contexts_on_spark(model, sources, columns, master, spark, quiet) as (cluster, contexts):
            from raregram.spark import scoring

            scoring.write_scores(cluster, scoring.score(cluster, model, contexts, wanted, as_), out)
        if not quiet:
            say(f"{out}: scored")
        return
    form = output_format(out, as_json)
    if wanted is not None:
        model.interval([], wanted)  # raises before anything is read
    heads, batches = open_contexts(
        sources or [STANDARD_INPUT], parse_columns(columns), documents=form in ("parquet", "json") and not interval
    )
    added = score_columns(as_, interval, any(head.documents for head in heads))
    with (
        progress("N-grams scored", quiet or (out is None and sys.stdout.isatty())) as tick,
        score_writer(out, form, heads, added, model.settings.kind) as write,
    ):
        for batch, ngrams, scores in _scored(model, batches, wanted):
            write(batch, ngrams, dict(zip(added.names, scores, strict=True)))
            tick(len(batch))
        _check_any(tick.done, sources)
    if out is not None and not quiet:
        say(f"{out}: {tick.done:,} rows scored")


def rank(
    model_file: ModelFile,
    sources: OptionalSources = None,
    top: Annotated[int, typer.Option("--top", "-k", help=TOP.help, min=1)] = TOP.default,
    by: Annotated[
        Literal["log-ratio", "lower"],
        typer.Option(help="The log ratio, or the lower end of its interval: so that little evidence does not lead."),
    ] = "log-ratio",
    level: Level = LEVEL.default,
    columns: Columns = None,
    engine: EngineOption = ENGINE.default,
    master: MasterOption = None,
    spark: SparkOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the N-grams with the highest log ratio.

    Each once, best first: rank, log ratio, N-gram. With --by lower: rank, lower end, log ratio, upper end, N-gram.

    Ties are in byte order of the N-gram. Memory is needed for the printed ones only.

    Example: raregram rank loc.rgm new.txt --top 100
    """
    import numpy as np

    from raregram.measure.rank import Top
    from raregram.measure.score import open_contexts
    from raregram.models.model import Model
    from raregram.show.progress import progress

    model = Model.load(model_file)
    wanted = level if by == "lower" else None
    names = ("log_ratio",) if wanted is None else ("lower", "log_ratio", "upper")
    if engine == "spark":
        with _contexts_on_spark(model, sources, columns, master, spark, quiet) as (cluster, contexts):
            from raregram.spark import scoring

            ranking = scoring.rank(cluster, model, contexts, top, wanted)
    else:
        if wanted is not None:
            model.interval([], wanted)  # raises before anything is read
        best = Top(top)
        _, batches = open_contexts(sources or [STANDARD_INPUT], parse_columns(columns))
        with progress("N-grams ranked", quiet) as tick:
            for batch, ngrams, scores in _scored(model, batches, wanted):
                assert ngrams is not None
                by_name = dict(zip(("log_ratio", "lower", "upper"), scores, strict=False))
                best.add(ngrams.lines(model.settings.kind), np.column_stack([by_name[name] for name in names]))
                tick(len(batch))
            _check_any(tick.done, sources)
        ranking = best.ranking()
    rows = list(enumerate(zip(ranking.values.tolist(), ranking.texts.to_pylist(), strict=True), 1))
    if as_json:
        print_json(
            [{"rank": i, **dict(zip(names, values, strict=True)), "ngram": text} for i, (values, text) in rows]
        )
    else:
        for i, (values, text) in rows:
            print("\t".join([str(i), *(f"{value:.4f}" for value in values), text]))


def explain(
    model_file: ModelFile,
    ngrams: Annotated[list[str], typer.Argument(help="N-grams, each as one argument.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show what each item adds to a log ratio.

    Its frequencies, its term and a bar.

    A dot means that the item is not selected, so its factor is 1. Terms add up to the log ratio exactly.

    A model of `backoff` shows the single items first: one not held at its position by its frequencies anywhere, or
    else by those of its shape, such as `~Aa` for a capitalised word. Then the corrections by ever longer suffixes of
    shapes and of items, each with the ratio before and after it.

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


def info(
    file: Annotated[str, typer.Argument(help="A count file or a model file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say what a count file or a model file holds.

    Example: raregram info loc.rgm
    """
    from raregram.show.describe import describe

    print_facts(describe(file), as_json)


def _scored(
    model: Model, batches: Iterable[Batch], level: float | None
) -> Iterator[tuple[Batch, NGrams | None, list[pa.Array]]]:
    """Yield contexts with their items and scores, those that come before a bad one, too.

    The scores are log ratios, and with a level the ends of their intervals. Documents get a list of log ratios each.
    """
    from raregram.measure.score import score_contexts, score_rows

    for batch in batches:
        if batch.documents:
            yield batch, None, [score_rows(model, batch.name, batch.ngrams, batch.location)]
            continue
        try:
            ngrams = model.parse(batch.ngrams, batch.location.name)
        except InputError as error:
            if error.row:
                yield from _scored(model, [batch.head(error.row)], level)
            raise
        yield batch, ngrams, score_contexts(model, ngrams.lists(), level)


def _check_any(scored: int, sources: list[str] | None) -> None:
    if not scored:
        raise InputError(f"there is no N-gram in {', '.join(sources or ['standard input'])}")


@contextmanager
def _contexts_on_spark(
    model: Model,
    sources: list[str] | None,
    columns: str | None,
    master: str | None,
    spark: list[str] | None,
    quiet: bool,
) -> Iterator[tuple[Cluster, Contexts]]:
    """Open contexts on a Spark cluster."""
    from raregram.cli.clusters import spark_cluster

    rename = parse_columns(columns)
    with spark_cluster(master, spark, quiet) as cluster:
        from raregram.spark.scoring import open_contexts

        yield cluster, open_contexts(cluster, sources or [STANDARD_INPUT], model, rename)


COMMANDS = (fit, score, rank, explain, info)

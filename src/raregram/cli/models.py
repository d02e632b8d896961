"""Commands on models: fit, calibrate, score, rank, explain, info."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import raregram as rg
from raregram import options
from raregram.cli import options as cli
from raregram.cli.clusters import spark_cluster
from raregram.cli.options import argument, option
from raregram.cli.printing import print_json, report_file, report_skipped, say
from raregram.errors import ParameterError, printable
from raregram.files import check_not_input, check_target
from raregram.show.progress import Progress

if TYPE_CHECKING:
    from raregram.corpus.documents import Options
    from raregram.measure.score import Input
STANDARD_INPUT = "-"


def fit(
    sources: Annotated[
        list[str], argument("Count files, documents or contexts; '-' is contexts from standard input.")
    ],
    out: cli.Out,
    target: cli.Target = None,
    estimator: Annotated[options.EstimatorName, option(options.ESTIMATOR)] = options.ESTIMATOR.default,
    criterion: Annotated[
        options.SpanCriterion | None, option(f"{options.CRITERION.help} [default: cet; `backoff`: gain]")
    ] = None,
    size: Annotated[
        int | None,
        option(
            "Items that `selective` keeps at each position, or spans that `backoff` keeps of each position and "
            "length. [default: 10000; `backoff`: all with evidence]",
            min=1,
        ),
    ] = None,
    lam: Annotated[float | None, option(options.LAM, min=0)] = options.LAM.default,
    denominator: cli.Denominator = options.DENOMINATOR.default,
    unseen: cli.Unseen = options.UNSEEN.default,
    seed: cli.Seed = options.SEED.default,
    tau: Annotated[float, option(options.TAU)] = options.TAU.default,
    unit_lam: Annotated[
        float | None,
        option("`backoff`: the ridge of single items and of all shapes. [default: 10 times --lam]", min=0),
    ] = None,
    longest: Annotated[
        int | None,
        option("`backoff`: length of the longest suffix. [default: the longest counted; 5 from contexts]", min=0),
    ] = None,
    shapes: Annotated[
        bool | None, option("`backoff`: back off to shapes. [default: yes]", "--shapes/--no-shapes")
    ] = None,
    calibrate: Annotated[
        bool | None,
        option(
            "Calibrate the ratios by the folds of the count file. [default: if it has any]",
            "--calibrate/--no-calibrate",
        ),
    ] = None,
    bounds: cli.Bounds = True,
    side: cli.Side = options.SIDE.default,
    kind: cli.Kind = options.KIND.default,
    tokenize: cli.Tokenize = options.TOKENIZE.default,
    lower: cli.Lower = options.LOWER.default,
    columns: cli.Columns = None,
    memory_limit: cli.MemoryLimit = None,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Fit a model to counts, to tagged documents or to contexts.

    Takes count files, and what `count` takes, which is counted first. Options that the estimator does not use have no
    effect. With --engine spark, fits to a table that `count` wrote on Spark, where it is.

    Example: raregram fit all.counts --target LOC --out loc.rgm

    The paper's: raregram fit all.counts --target LOC --estimator selective --size 5000 --out loc.rgm
    """
    from raregram.counts.count import ContextOptions, read_counts
    from raregram.models import fit as fitting
    from raregram.models.registry import find_estimator

    limit, rename = cli.parse_memory(memory_limit, engine, "fit"), cli.parse_columns(columns)
    parameters: dict[str, Any] = {"criterion": criterion, "size": size, "lam": lam, "unseen": unseen, "seed": seed}
    parameters |= {"tau": tau, "unit_lam": unit_lam, "longest": longest, "shapes": shapes}
    check_not_input(out, sources)
    check_target(out)
    hint, found = "count with --folds 5, or use `raregram calibrate`", find_estimator(estimator)
    if engine == "spark":
        if len(sources) != 1:
            raise ParameterError("--engine spark fits to one count table: count all sources together")
        if calibrate:
            raise ParameterError("Spark fits tables without folds: calibrate the model with `raregram calibrate`")
        with spark_cluster(master, spark, quiet) as cluster:
            from raregram.spark.fitting import fit as fit_on_spark

            chosen = fitting.FitOptions(target, estimator, denominator, parameters)
            model = fit_on_spark(cluster, sources[0], chosen, limit)
    else:
        spans = found.spans_to_count(longest, shapes)
        wanted = fitting.what_to_count(spans, found.has_variance and calibrate is not False)
        layout: dict[str, Any] = {"side": side, "kind": kind, "tokenize": tokenize, "lower": lower}
        with Progress("counted {:,} contexts", quiet) as tick:
            contexts = ContextOptions(rename, target, denominator)
            counts = read_counts(sources, contexts, progress=tick, **wanted, **layout)
        parameters |= {"calibrate": calibrate, "bounded": bounds, "memory_limit": limit}
        model = fitting.fit(counts, target, estimator, denominator=denominator, **parameters)
        hint = "see the warning" if counts.folds else f"the counts are in no folds: {hint}"
    hint = "as --no-calibrate says" if calibrate is False else hint
    model.save(out)
    report_file(out, as_json, quiet, hint=hint if found.has_variance else "its ratios may be 0 or infinite")


def calibrate(
    model_file: cli.ModelFile,
    documents: cli.TaggedDocuments,
    out: cli.Out,
    bounds: cli.Bounds = True,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Calibrate a model with tagged documents that were not in its fit.

    Afterwards a ratio of 20 means that such contexts are twenty times as likely at the target as elsewhere. The order
    of contexts stays, but for short ones that were seen often and those of which nothing was seen. Where the counts
    are in folds, `fit` does this by itself.

    Example: raregram calibrate loc.rgm held-out.parquet --out calibrated.rgm
    """
    check_not_input(out, documents)
    check_target(out)
    model = rg.Model.load(model_file)
    rg.calibrate(model, documents, bounded=bounds, format=format, split=split).save(out)
    report_file(out, as_json, quiet)


def score(
    model_file: cli.ModelFile,
    sources: cli.OptionalSources = None,
    out: cli.ScoresOut = None,
    interval: Annotated[
        bool, option("Add the columns lower and upper, an interval for the log ratio.", "--interval")
    ] = False,
    level: cli.Level = options.LEVEL.default,
    as_: Annotated[
        str, option("Name of the new column; with --interval also NAME_lower and NAME_upper.", "--as")
    ] = "log_ratio",
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    columns: cli.Columns = None,
    on_error: cli.OnError = options.ON_ERROR.default,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Print the log ratio at every boundary of documents, or of each context.

    Reads what `count` reads. Documents: log ratio, document, position, and the words around it, with a mark at the
    boundary. Contexts: log ratio, label if there is one, items; a table keeps its columns and gets one more.

    A text file whose lines all have n items, and standard input, have a context a line.

    Memory use does not depend on the length of the input. On Spark, scores go to a folder of Parquet files.

    Example: raregram score loc.rgm speeches/ --out scores.csv
    """
    from raregram.measure.score import score_columns, score_input
    from raregram.show.write import output_format, score_writer

    form = output_format(out, as_json) if engine == "local" else ""
    model, wanted = rg.Model.load(model_file), level if interval else None
    files, rename = sources or ["-"], cli.parse_columns(columns)
    check_not_input(out, [model_file, *files])
    reading = cli.reading(format, split, on_error)
    if engine == "spark":
        if out is None:
            raise ParameterError("on Spark, scores go to a folder: name it with --out")
        with spark_cluster(master, spark, quiet) as cluster:
            from raregram.spark import scoring

            contexts = scoring.open_input(cluster, files, model, reading, rename)
            scoring.write_scores(cluster, model, contexts, out, wanted, as_)
        if not quiet:
            say(f"{out}: scored")
        return
    found, added = _open(model, files, reading, rename, quiet), score_columns(as_, interval)
    with (
        Progress("scored {:,} contexts", quiet or (out is None and sys.stdout.isatty())) as tick,
        score_writer(out, form, found.heads, added, model.settings.kind) as write,
    ):
        for part in score_input(model, found, wanted):
            write(part.batch, part.lines, dict(zip(added.names, part.scores, strict=True)))
            tick(len(part.batch))
    report_skipped(reading.log.skipped, reading.log.examples)
    if out is not None and not quiet:
        say(f"{out}: {tick.done:,} rows scored")


def rank(
    model_file: cli.ModelFile,
    sources: cli.OptionalSources = None,
    top: cli.Top = options.TOP.default,
    by: Annotated[
        Literal["log-ratio", "lower"],
        option("The log ratio, or the lower end of its interval, which ranks scarce evidence lower."),
    ] = "log-ratio",
    level: cli.Level = options.LEVEL.default,
    out: cli.ScoresOut = None,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    columns: cli.Columns = None,
    on_error: cli.OnError = options.ON_ERROR.default,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Print the boundaries of documents, or the contexts, with the highest log ratio.

    Reads what `count` reads. Best first: rank, log ratio, document, position and the words around it, with a
    mark at the boundary. Contexts come each once. With --by lower also the ends of the interval.

    Only what is printed is kept in memory.

    Example: raregram rank loc.rgm speeches/ --top 100
    """
    from raregram.measure.rank import rank_input
    from raregram.show.write import output_format, write_results

    form = output_format(out, as_json)
    model, wanted = rg.Model.load(model_file), level if by == "lower" else None
    files, rename = sources or ["-"], cli.parse_columns(columns)
    check_not_input(out, [model_file, *files])
    reading = cli.reading(format, split, on_error)
    if engine == "spark":
        with spark_cluster(master, spark, quiet) as cluster:
            from raregram.spark import scoring

            contexts = scoring.open_input(cluster, files, model, reading, rename)
            results = scoring.rank(cluster, model, contexts, top, wanted)
    else:
        found = _open(model, files, reading, rename, quiet)
        with Progress("ranked {:,} contexts", quiet) as tick:
            results = rank_input(model, found, top, wanted, tick)
        report_skipped(reading.log.skipped, reading.log.examples)
    write_results(results, out, form, model.settings.kind)


def explain(
    model_file: cli.ModelFile,
    ngrams: Annotated[list[str] | None, argument("N-grams, each as one argument.")] = None,
    sources: Annotated[
        list[str] | None, option("Explain the best boundaries of these documents; may be repeated.", "--in")
    ] = None,
    top: Annotated[int, option("How many of them.", "--top", "-k", min=1)] = 3,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    as_json: cli.AsJson = False,
) -> None:
    """Show what each item adds to a log ratio.

    Each item with its frequencies, its term and a bar. A dot marks an item that is not selected, so its factor is 1.
    Terms add up to the log ratio exactly. An N-gram may be shorter than those of the model: what is not there adds
    nothing. Of a longer one, the items next to the boundary count.

    A `backoff` model first shows the single items. An item that the model lacks at its position is shown by its
    frequencies at any position, or else by those of its shape, such as `~Aa` for a capitalised word. Then come the
    corrections by ever longer suffixes of shapes and of items, each with two ratios of that suffix itself: as its
    parts let expect, and as estimated.

    Example: raregram explain loc.rgm "she lives in"

    Another: raregram explain loc.rgm --in speeches/ --top 5
    """
    model = rg.Model.load(model_file)
    if bool(ngrams) == bool(sources):
        raise ParameterError("explain takes N-grams, or documents with --in")
    titled: list[tuple[str, Any]] = [("", ngram) for ngram in ngrams or []]
    if sources:
        from raregram.measure.rank import rank_input

        found = _open(model, sources, cli.reading(format, split), {}, quiet=True)
        for row in rank_input(model, found, top):
            if "left" in row:
                title = f"{printable(row['document'])}, position {row['position']}\n"
                titled.append((title, row[model.settings.side]))
            else:
                titled.append(("", row["ngram"]))
    explanations = [model.explain(ngram) for _, ngram in titled]
    if as_json:
        print_json([explanation.to_dict() for explanation in explanations])
        return
    for index, ((title, _), explanation) in enumerate(zip(titled, explanations, strict=True)):
        typer.secho("\n" * bool(index) + title + explanation.headline(), bold=True)
        for line, value in explanation.lines():
            typer.secho(line, fg=None if not value else "green" if value > 0 else "red", dim=not value)


def info(file: Annotated[str, argument("A count file or a model file.")], as_json: cli.AsJson = False) -> None:
    """Describe a count file or a model file.

    Example: raregram info loc.rgm
    """
    from raregram.show.describe import as_text, describe

    facts = describe(file)
    if as_json:
        print_json(facts)
    else:
        print(as_text(facts))


def _open(model: rg.Model, sources: list[str], reading: Options, rename: dict[str, str], quiet: bool) -> Input:
    """Open what is to be scored, and say what a text file was taken for."""
    from raregram.measure.score import open_input

    found = open_input(sources, model, reading, rename)
    if found.running and not quiet:
        files = found.running[0] if len(found.running) == 1 else f"{len(found.running):,} files"
        say(f"raregram: reading {files} as running text; --format contexts reads one context a line")
    return found


COMMANDS = (fit, calibrate, score, rank, explain, info)

"""Commands on models: fit, score, rank, explain, info."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raregram.cli.options import (
    AsJson,
    Columns,
    Criterion,
    DenominatorOption,
    EstimatorName,
    KindOption,
    ModelFile,
    OptionalSources,
    Out,
    Quiet,
    SideOption,
    Sources,
    UnseenOption,
    parse_columns,
)
from raregram.cli.printing import print_facts, report
from raregram.errors import InputError, check_count, check_lam

if TYPE_CHECKING:
    from raregram.model import Model
    from raregram.reading import Batch


def fit(
    sources: Sources,
    out: Out,
    target: Annotated[
        str | None,
        typer.Option(help="The numerator. [default: the only target there is]", show_default=False),
    ] = None,
    estimator: Annotated[EstimatorName, typer.Option(help="The estimator.")] = "selective",
    criterion: Annotated[Criterion, typer.Option(help="How `selective` scores items.")] = "cet",
    size: Annotated[int, typer.Option(help="How many items `selective` keeps at each position.")] = 10_000,
    lam: Annotated[float, typer.Option(help="The ridge; 0 for none.")] = 1e-5,
    denominator: DenominatorOption = "complement",
    unseen: UnseenOption = "neutral",
    seed: Annotated[int, typer.Option(help="For the criterion `random`.")] = 0,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Keep the frequencies of items not selected, for `explain`.")
    ] = False,
    side: SideOption = "left",
    kind: KindOption = "words",
    columns: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model.

    From count files, labelled contexts or N-grams with two frequencies.

    Example: raregram fit contexts.tsv --target LOC --criterion cet --size 5000 --out loc.rgm
    """
    from raregram import fitting
    from raregram.progress import progress
    from raregram.reading import read_counts

    check_lam(lam, "fit")  # before the input is read, which may take long
    check_count("size", "fit", size)
    whole = estimator in ("mle", "direct")
    with progress("contexts counted", quiet) as tick:
        counts = read_counts(
            sources,
            parse_columns(columns),
            progress=tick,
            spans=["units", "whole"] if whole else ["units"],
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
    columns: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the log ratio of each context, as they come.

    Memory stays flat however long the input is. Tables keep all their columns and get one more, log_ratio.

    Example: `cat new.txt | raregram score loc.rgm > scored.tsv`
    """
    from raregram.model import Model
    from raregram.progress import progress
    from raregram.writing import score_file, score_stream

    model = Model.load(model_file)
    quiet = quiet or (out is None and sys.stdout.isatty())
    with progress("N-grams scored", quiet) as tick:
        if out is None:
            _score_all(model, sources, columns, score_stream(sys.stdout.buffer, as_json), tick)
        else:
            with score_file(out) as write:
                _score_all(model, sources, columns, write, tick, texts=not out.endswith((".parquet", ".pq")))
    if out is not None and not quiet:
        print(f"{out}: {tick.done:,} N-grams scored", file=sys.stderr)


def rank(
    model_file: ModelFile,
    sources: OptionalSources = None,
    top: Annotated[int, typer.Option("--top", "-k", help="How many to print.", min=1)] = 20,
    columns: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the N-grams with the highest log ratio.

    Each once, best first.

    Ties are in byte order of the N-gram. Memory is needed for the printed ones only.

    Example: raregram rank loc.rgm new.txt --top 100
    """
    from raregram.model import Model
    from raregram.progress import progress
    from raregram.ranking import Top
    from raregram.writing import to_json

    model = Model.load(model_file)
    best = Top(top)
    with progress("N-grams ranked", quiet) as tick:
        _score_all(model, sources, columns, lambda batch, log_ratio: best.add(batch.ngrams, log_ratio), tick, True)
    rows = list(zip(best.ranking().log_ratio, best.ranking().texts.to_pylist(), strict=True))
    if as_json:
        print(to_json([{"rank": i, "log_ratio": x, "ngram": text} for i, (x, text) in enumerate(rows, 1)]))
    else:
        for i, (log_ratio, text) in enumerate(rows, 1):
            print(f"{i}\t{log_ratio:.4f}\t{text}")


def explain(
    model_file: ModelFile,
    ngrams: Annotated[list[str], typer.Argument(help="N-grams, each as one argument.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show what each item adds to a log ratio.

    Its frequencies, its term and a bar.

    A dot means that the item is not selected, so its factor is 1. Terms add up to the log ratio exactly.

    Example: raregram explain loc.rgm "the annual meeting of the company was held yesterday in"
    """
    from raregram.model import Model
    from raregram.writing import to_json

    model = Model.load(model_file)
    explanations = [model.explain(ngram) for ngram in ngrams]
    if as_json:
        print(to_json([explanation.to_dict() for explanation in explanations]))
        return
    for index, explanation in enumerate(explanations):
        head, *lines = explanation.lines()
        typer.secho(("\n" if index else "") + explanation.headline(), bold=True)
        typer.secho(head, dim=True)
        for term, line in zip(explanation.terms, lines, strict=True):
            typer.secho(line, fg="green" if term.value > 0 else "red" if term.value < 0 else None, dim=not term.value)


def info(
    file: Annotated[str, typer.Argument(help="A count file or a model file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say what a count file or a model file holds.

    Example: raregram info loc.rgm
    """
    from raregram.describing import describe

    print_facts(describe(file), as_json)


def _score_all(
    model: Model, sources: list[str] | None, columns: str | None, write: Any, tick: Any, texts: bool = True
) -> None:
    """Score all contexts of all sources; what comes before a bad one is still written."""
    from raregram.corpus import STANDARD_INPUT
    from raregram.reading import read_contexts

    for source in sources or [STANDARD_INPUT]:
        for batch in read_contexts(source, parse_columns(columns)):
            _score_batch(model, batch, write, texts)
            tick(len(batch))
    if not tick.done:
        raise InputError(f"there is no N-gram in {', '.join(sources or ['standard input'])}")


def _score_batch(model: Model, batch: Batch, write: Any, texts: bool) -> None:
    try:
        ngrams = model.parse(batch.ngrams, batch.where)
    except InputError as error:
        if error.row:
            _score_batch(model, batch.head(error.row), write, texts)
        raise
    log_ratio = model.log_ratio(ngrams.lists())
    write(batch.with_texts(ngrams.lines(model.settings.kind)) if texts else batch, log_ratio)


COMMANDS = (fit, score, rank, explain, info)

"""The command line: parse, call, print. Exit code 0, 1 (the input or the work failed) or 2 (the call was wrong)."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from raregram import __version__
from raregram.errors import InputError, ParameterError, RaregramError, check_choice, check_count, check_lam, must_be

if TYPE_CHECKING:
    from raregram.model import Model
    from raregram.reading import Batch

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# These repeat names that the library defines, since importing it would make `--help` wait for NumPy and Arrow.
# A test compares them.
EstimatorName = Literal["mle", "direct", "product", "selective"]
Criterion = Literal["random", "tf", "cet", "chi2", "chi2_printed", "gss", "gss_abs"]
Side = Literal["left", "right"]
Kind = Literal["words", "letters"]
Denominator = Literal["complement", "all"]
Unseen = Literal["neutral", "formula"]
Format = Literal[
    "parquet", "jsonl", "conll", "stanford-tsv", "stanford-slash", "stanford-xml", "spacy", "reuters-json",
    "reuters-sgml", "text", "contexts",
]  # fmt: skip
Split = Literal["file", "lines", "paragraphs"]
OnError = Literal["stop", "skip"]

Sources = Annotated[
    list[str],
    typer.Argument(help="Text lines, CSV or Parquet tables, count files; '-' is standard input.", show_default=False),
]
OptionalSources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Text lines, CSV or Parquet tables, or count files. [default: standard input]",
        show_default=False,
    ),
]
ModelFile = Annotated[str, typer.Argument(help="A model file, as written by `fit`.", show_default=False)]
Out = Annotated[str, typer.Option("--out", "-o", help="The file to write.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no closing words.")]
Targets = Annotated[
    str | None,
    typer.Option(help="The labels to count, with commas between them. [default: every label]", show_default=False),
]
SpansOption = Annotated[str, typer.Option(help="What to count: units, suffixes:LENGTH, whole; with commas.")]
SideOption = Annotated[Side, typer.Option(help="On which side of the boundary the contexts are.")]
KindOption = Annotated[Kind, typer.Option(help="What the items of a text are.")]
DenominatorOption = Annotated[
    Denominator, typer.Option(help="What the target is compared with: all other contexts, or all contexts.")
]
FormatOption = Annotated[Format | None, typer.Option(help="[default: it is recognised]", show_default=False)]
SplitOption = Annotated[Split, typer.Option(help="What a document is in running text.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="What a table calls the columns ngram, label, f_nu and f_de, e.g. 'ngram=text,f_nu=hits'.",
        show_default=False,
    ),
]


def main() -> NoReturn:
    """Run the command line; a user's mistake gives a sentence on standard error, never a traceback."""
    try:
        app(prog_name="raregram")
    except ParameterError as error:
        _fail(error, code=2)
    except RaregramError as error:
        _fail(error, code=1)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _fail(error: Exception, code: int) -> NoReturn:
    print(f"raregram: error: {error}", file=sys.stderr)
    sys.exit(code)


def _version(value: bool) -> None:
    if value:
        print(f"raregram {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Likelihood ratios of N-grams, above all of those that were seen rarely or never.

    Count contexts, fit a model, then score, rank and explain N-grams:

    `raregram fit contexts.tsv --target LOC --out loc.rgm`

    `raregram rank loc.rgm new.txt --top 20`
    """


@app.command()
def count(
    out: Out,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders or globs of documents or contexts.", show_default=False),
    ] = None,
    numerator: Annotated[
        list[str] | None,
        typer.Option(help="Instead: one of two plain samples (may be repeated),", show_default=False),
    ] = None,
    denominator: Annotated[
        list[str] | None, typer.Option(help="and the one to compare it with.", show_default=False)
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", "-n", help="Items of a context. [default: 10]", show_default=False)
    ] = None,
    targets: Targets = None,
    spans: SpansOption = "units",
    side: SideOption = "left",
    kind: KindOption = "words",
    pad: Annotated[bool, typer.Option("--pad", help="Let contexts reach beyond the ends of a document.")] = False,
    min_count: Annotated[int, typer.Option(help="Drop longer spans that were seen less often.")] = 1,
    labels: Annotated[
        str | None, typer.Option(help="Other names for labels, e.g. 'GPE=LOC,PERSON=PER'.", show_default=False)
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
    split: SplitOption = "file",
    item_column: Annotated[int, typer.Option(help="CoNLL: the column of items, from 0.")] = 0,
    tag_column: Annotated[int, typer.Option(help="CoNLL: the column of tags; -1 is the last.")] = -1,
    sentences: Annotated[bool, typer.Option("--sentences", help="CoNLL: a blank line ends a document.")] = False,
    f_de: Annotated[
        Denominator, typer.Option(help="What f_de counts in a table with two frequencies.")
    ] = "complement",
    columns: Columns = None,
    on_error: Annotated[OnError, typer.Option(help="What to do with a document that cannot be read.")] = "stop",
    threads: Annotated[
        int | None, typer.Option(help="Batches counted at a time. [default: one a processor]", show_default=False)
    ] = None,
    memory_limit: Annotated[str, typer.Option(help="Beyond it, partial tables go to files.")] = "4GB",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count the contexts of documents into a count file.

    Documents: Parquet, JSON lines, CoNLL columns, Stanford NER output, spaCy DocBin, Reuters-21578, plain text; also
    compressed. Contexts: `label<TAB>items` lines, or tables of N-grams with labels or two frequencies.

    Example: `raregram count tagged.parquet --targets LOC,PER --spans units,suffixes:5 --out all.counts`
    """
    from raregram import engines, storage
    from raregram.corpus import Options, Policy
    from raregram.counting import Plan
    from raregram.progress import progress
    from raregram.reading import are_contexts, read_counts

    names, wanted = _names(targets), tuple(spans.split(","))
    if sources and (format == "contexts" or (format is None and are_contexts(sources))):
        with progress("contexts counted", quiet) as tick:
            counts = read_counts(
                sources, _columns(columns), names, progress=tick, n=n, spans=wanted, side=side, kind=kind,
                denominator=f_de,
            )  # fmt: skip
        counts.drop_rare(min_count).save(out)
        _report(out, as_json, quiet)
        return
    plan = Plan(n or 10, side, kind, None if names is None else tuple(sorted(set(names))), wanted, pad, min_count,
                _pairs(labels) or None)  # fmt: skip
    policy = Policy(on_error)
    options = Options(format, split, None, item_column, tag_column, sentences, policy)
    folder = storage.sibling(Path(out), "spill")
    with (
        progress("documents counted", quiet) as tick,
        engines.count_table(
            (sources or None, numerator, denominator), plan, options, threads=threads,
            memory_limit=_bytes(memory_limit), folder=folder, progress=tick,
        ) as table,
    ):  # fmt: skip
        storage.write(out, table)
    for example in policy.examples:
        print(f"raregram: skipped: {example}", file=sys.stderr)
    if policy.skipped:
        print(f"raregram: {policy.skipped:,} documents skipped", file=sys.stderr)
    _report(out, as_json, quiet)


@app.command()
def merge(
    sources: Annotated[list[str], typer.Argument(help="Count files to add up.", show_default=False)],
    out: Out,
    subtract: Annotated[
        list[str] | None,
        typer.Option(help="A count file to take away again; may be repeated.", show_default=False),
    ] = None,
    min_count: Annotated[int, typer.Option(help="In the end, drop longer spans that were seen less often.")] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add count files up, and take others away: exactly, without the text.

    Example: `raregram merge 2024.counts 2025.counts --subtract withdrawn.counts --out now.counts`
    """
    from raregram.counts import Counts

    counts = Counts.load(sources[0])
    for source in sources[1:]:
        counts = counts + Counts.load(source)
    for source in subtract or []:
        counts = counts - Counts.load(source)
    counts.drop_rare(min_count).save(out)
    _report(out, as_json, quiet)


@app.command()
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
    unseen: Annotated[
        Unseen,
        typer.Option(help="The factor of an item never seen at its position: 1, or by the unit formula."),
    ] = "neutral",
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
    """Fit a model from count files, labelled contexts or N-grams with two frequencies.

    Example: `raregram fit contexts.tsv --target LOC --criterion cet --size 5000 --out loc.rgm`
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
            _columns(columns),
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
    _report(out, as_json, quiet)


@app.command()
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
    """Print the log ratio of each context before it, as they come.

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


@app.command()
def rank(
    model_file: ModelFile,
    sources: OptionalSources = None,
    top: Annotated[int, typer.Option("--top", "-k", help="How many to print.", min=1)] = 20,
    columns: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the N-grams with the highest log ratio, each once, best first.

    Ties are in byte order of the N-gram. Memory is needed for the printed ones only.

    Example: `raregram rank loc.rgm new.txt --top 100`
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


@app.command()
def explain(
    model_file: ModelFile,
    ngrams: Annotated[list[str], typer.Argument(help="N-grams, each as one argument.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show what each item adds to the log ratio: its frequencies, its term and a bar.

    A dot means that the item is not selected, so its factor is 1. Terms add up to the log ratio exactly.

    Example: `raregram explain loc.rgm "the annual meeting of the company was held yesterday in"`
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


@app.command()
def info(
    file: Annotated[str, typer.Argument(help="A count file or a model file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say what a count file or a model file holds.

    Example: `raregram info loc.rgm`
    """
    from raregram.describing import describe

    _print_facts(describe(file), as_json)


def _score_all(
    model: Model, sources: list[str] | None, columns: str | None, write: Any, tick: Any, texts: bool = True
) -> None:
    """Score all contexts of all sources; what comes before a bad one is still written."""
    from raregram.corpus import STANDARD_INPUT
    from raregram.reading import read_contexts

    for source in sources or [STANDARD_INPUT]:
        for batch in read_contexts(source, _columns(columns)):
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
    write(batch.with_texts(ngrams.texts(model.settings.kind)) if texts else batch, log_ratio)


def _report(path: str, as_json: bool, quiet: bool) -> None:
    """Say what was written."""
    from raregram.describing import describe, summary

    if as_json:
        _print_facts(describe(path), as_json)
    elif not quiet:
        print(f"{path}: {summary(path)}", file=sys.stderr)


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    from raregram.describing import as_text
    from raregram.writing import to_json

    print(to_json(facts) if as_json else as_text(facts))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for name in text.split(",") if name]


def _pairs(text: str | None) -> dict[str, str]:
    """Parse 'a=b,c=d'."""
    pairs = dict(pair.partition("=")[::2] for pair in _names(text) or [])
    for name, value in pairs.items():
        if not name or not value:
            raise ParameterError(f"expected NAME=NAME with commas between, got {text!r}")
    return pairs


def _columns(text: str | None) -> dict[str, str]:
    """Parse --columns."""
    from raregram.reading import COLUMNS

    pairs = _pairs(text)
    for name in pairs:
        check_choice("columns", "this command", name, COLUMNS)
    return pairs


def _bytes(text: str) -> int:
    """Parse a size such as 512MB or 2GiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        raise must_be("memory_limit", "count", "a size such as 512MB or 2GiB", text)
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " "))

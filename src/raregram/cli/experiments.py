"""Commands that measure: evaluate, tune, reproduce."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from raregram.cli.options import (
    AsJson,
    DenominatorOption,
    EngineOption,
    FormatOption,
    MasterOption,
    ModelFile,
    Out,
    Quiet,
    SparkOption,
    SplitOption,
    UnseenOption,
    parse_names,
)
from raregram.cli.printing import print_json, say
from raregram.errors import (
    FileError,
    InputError,
    MissingExtraError,
    ParameterError,
    RaregramError,
    printable,
    system_reason,
)
from raregram.options import (
    CRITERIA,
    DENOMINATOR,
    ENGINE,
    LAMS,
    PRIORS,
    SEED,
    SIZES,
    SPLIT,
    TAUS,
    UNSEEN,
    Denominator,
    K,
    Unseen,
)

if TYPE_CHECKING:
    from raregram.counts.table import Counts
    from raregram.measure.evaluate import Evaluation
    from raregram.measure.experiment import Config
    from raregram.measure.tune import Trial
    from raregram.models.model import Model

SHADES = " ░▒▓█"
TunedEstimator = Literal["selective", "backoff"]
LARGEST_SETTINGS, LARGEST_RESULTS = 1 << 20, 1 << 26  # bytes of a file

Documents = Annotated[
    list[str],
    typer.Argument(
        help="Tagged documents in any format, or their count file with whole N-grams.", show_default=False
    ),
]
TopK = Annotated[int, typer.Option("--k", "-k", help="How many N-grams are returned.", min=1)]


def _list(values: Iterable[str | float]) -> str:
    """Write values with commas, as an option takes them."""
    return ",".join(value if isinstance(value, str) else f"{value:g}" for value in values)


def evaluate(
    model_file: ModelFile,
    documents: Documents,
    k: TopK = K.default,
    training: Annotated[
        str | None,
        typer.Option(help="The count file of the training data, with whole N-grams: shows how results depend on how "
                     "often an N-gram was seen.", show_default=False),
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
    split: SplitOption = SPLIT.default,
    engine: EngineOption = ENGINE.default,
    master: MasterOption = None,
    spark: SparkOption = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Measure a model on tagged documents.

    Ranks their N-grams and compares with where these occur.

    Prints precision, recall and F1 of the top K and the average precision; --json adds the curve of recall over rank.

    Example: raregram evaluate loc.rgm test.parquet --training train.counts
    """
    from raregram.counts.table import Counts
    from raregram.measure.evaluate import evaluate as measure
    from raregram.models.model import Model

    model = Model.load(model_file)
    if engine == "spark":
        result = _evaluate_on_spark(model, documents, k, training, (format, split), master, spark)
    else:
        counts = _types_of(documents, model.settings, [model.settings.target], format, split)
        result = measure(model, counts, k=k, training=None if training is None else Counts.load(training))
    if as_json:
        print_json(result.to_dict())
        return
    overall = result.overall
    print(f"{printable(result.target)}: {overall.types:,} N-grams, {overall.relevant:,} of them at the target; "
          f"the top {overall.returned:,} are returned")  # fmt: skip
    print(f"{'seen':>8} {'N-grams':>10} {'relevant':>9} {'returned':>9} {'hits':>7} {'precision':>10} {'recall':>8} "
          f"{'F1':>8} {'avg.prec':>9}")  # fmt: skip
    for name, m in {"all": result.overall, **result.bands}.items():
        print(f"{name:>8} {m.types:>10,} {m.relevant:>9,} {m.returned:>9,} {m.hits:>7,} {m.precision:>10.4f} "
              f"{m.recall:>8.4f} {m.f1:>8.4f} {m.average_precision:>9.4f}")  # fmt: skip


def tune(
    counts_file: Annotated[str, typer.Argument(help="The count file of the training data.", show_default=False)],
    documents: Documents,
    out: Out,
    target: Annotated[
        str | None, typer.Option(help="The numerator. [default: the only target there is]", show_default=False)
    ] = None,
    estimator: Annotated[
        TunedEstimator,
        typer.Option(help="`selective` tries criteria, sizes and lam; `backoff` lam, tau, suffixes and shapes."),
    ] = "selective",
    criteria: Annotated[str, typer.Option(help="With commas.")] = _list(CRITERIA),
    sizes: Annotated[str, typer.Option(help="With commas.")] = _list(SIZES),
    lams: Annotated[str, typer.Option(help="With commas.")] = _list(LAMS),
    worths: Annotated[str, typer.Option(help="`backoff`: how many contexts a prior weighs.")] = _list(PRIORS),
    taus: Annotated[str, typer.Option(help="`backoff`: how much units count.")] = _list(TAUS),
    k: TopK = K.default,
    denominator: DenominatorOption = DENOMINATOR.default,
    unseen: UnseenOption = UNSEEN.default,
    seed: Annotated[int, typer.Option(help=SEED.help)] = SEED.default,
    format: FormatOption = None,  # noqa: A002 - the option's name
    split: SplitOption = SPLIT.default,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the best settings on validation documents.

    Tries all criteria, sizes and lam (or lam, tau, suffixes and shapes), and writes the best model.

    The measure is F1 of the top K; ties go to the larger lam. Draws a heat map of F1.

    Example: raregram tune train.counts valid.parquet --target LOC --estimator backoff --out loc.rgm
    """
    from raregram.atomic import check_target
    from raregram.counts.table import Counts
    from raregram.measure.tune import Grid, choose
    from raregram.models.fit import only_target
    from raregram.show.progress import progress

    all_sizes, all_lams = _numbers(sizes, int, "sizes"), _numbers(lams, float, "lams")
    priors = (_numbers(worths, float, "worths"), _numbers(taus, float, "taus"))
    counts = Counts.load(counts_file)
    target = only_target(counts) if target is None else target
    check_target(out)
    contexts = _types_of(documents, counts, [target], format, split)
    grid = Grid(counts, target, contexts, denominator, unseen, seed, k)
    grid.check()
    if estimator == "backoff":
        source = grid.backoff(*priors)
    else:
        source = chain(grid.all_used(all_lams), grid.selective(parse_names(criteria) or [], all_sizes, all_lams))
    trials: list[Trial] = []
    with progress("settings tried", quiet) as tick:
        for trial in source:
            trials.append(trial)
            tick(1)
    best = choose(trials)
    grid.fit(best).save(out)
    if as_json:
        print_json({"best": asdict(best), "cells": [asdict(trial) for trial in trials]})
        return
    if estimator == "backoff":
        print(backoff_map(trials))
        print(f"best: backoff, lam {best.lam:.4g}, tau {best.tau:g}, suffixes to {best.longest}, "
              f"{'with' if best.shapes else 'without'} shapes, F1 {best.f1:.4f}")  # fmt: skip
    else:
        print(heat_map(trials))
        print(f"best: {best.criterion or 'all used'}{f', {best.size:,} items a position' if best.size else ''}, "
              f"lam {best.lam:g}, F1 {best.f1:.4f}")  # fmt: skip
    if not quiet:
        say(f"{out}: the model of these settings")


def reproduce(
    out: Annotated[str, typer.Option("--out", "-o", help="The folder to write.")] = "reproduce",
    config: Annotated[
        str | None, typer.Option(help="A TOML file with other settings than the paper's.", show_default=False)
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Tagged documents in any format, instead of Reuters-21578; may be repeated.",
                     show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="[default: 0]", show_default=False)] = None,
    n: Annotated[int | None, typer.Option("--n", "-n", help="[default: 10]", show_default=False)] = None,
    targets: Annotated[str | None, typer.Option(help="With commas. [default: LOC,PER]", show_default=False)] = None,
    sizes: Annotated[str | None, typer.Option(help="With commas.", show_default=False)] = None,
    k: Annotated[int | None, typer.Option("--k", "-k", help="[default: 8000]", show_default=False)] = None,
    denominator: Annotated[Denominator | None, typer.Option(show_default=False)] = None,
    unseen: Annotated[Unseen | None, typer.Option(show_default=False)] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Only build the report anew.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again even if there are results.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Run the paper's experiment and write a report.

    Splits the corpus, counts, tunes on validation, evaluates on test. An interrupted run goes on where it was.

    Example: raregram reproduce --out reproduce
    """
    from raregram.show.report import check_installed, write_report

    check_installed()  # before the work, which takes minutes
    folder = Path(out)
    path = folder / "results.json"
    if report_only:
        results = _load_results(path)
        with _results_named(path):
            page = write_report(results, folder)
    elif path.exists() and not force:
        raise FileError(f"{path} is there already: --force runs again, --report-only builds the report anew")
    else:
        changes = {
            "seed": seed,
            "n": n,
            "k": k,
            "denominator": denominator,
            "unseen": unseen,
            "targets": tuple(parse_names(targets) or []) or None,
            "sizes": None if sizes is None else tuple(_numbers(sizes, int, "sizes")),
            "corpus": tuple(corpus or []) or None,
        }
        with _run(_config(config, changes), folder, quiet) as results:
            page = write_report(results, folder)
            _save_results(results, path)
    if as_json:
        print_json({"report": str(page), "chosen": results["chosen"]})
    else:
        print(_summary(results, page))


def heat_map(trials: list[Trial]) -> str:
    """Draw criteria x sizes, each with the best F1 over lam, the darker the better."""
    best: dict[tuple[str | None, int | None], float] = {}
    for trial in trials:
        best[trial.criterion, trial.size] = max(trial.f1, best.get((trial.criterion, trial.size), 0.0))
    sizes = sorted({size for _, size in best if size is not None})
    criteria = dict.fromkeys(criterion for criterion, _ in best if criterion is not None)
    rows = {criterion: [best[criterion, size] for size in sizes] for criterion in criteria}
    lines = _shaded("", [f"{size:,}" for size in sizes], rows, list(best.values()))
    if (None, None) in best:
        lines.append(f"{'all used':<14}{best[None, None]:>12.4f}")
    return "\n".join(lines)


def backoff_map(trials: list[Trial]) -> str:
    """Draw lam x tau with all suffixes and shapes, the darker the better, and what less of them gives."""
    first = trials[0]
    full = [trial for trial in trials if (trial.longest, trial.shapes) == (first.longest, first.shapes)]
    f1 = {(trial.lam, trial.tau): trial.f1 for trial in full}
    taus = sorted({trial.tau for trial in full if trial.tau is not None})
    rows = {f"{lam:.4g}": [f1[lam, tau] for tau in taus] for lam in sorted({trial.lam for trial in full})}
    lines = _shaded("lam / tau", [f"{tau:g}" for tau in taus], rows, [trial.f1 for trial in trials])
    for trial in trials[len(full) :]:
        name = f"suffixes to {trial.longest}" if trial.shapes == first.shapes else "without shapes"
        lines.append(f"{name:<20}{trial.f1:.4f}")
    return "\n".join(lines)


def _shaded(corner: str, columns: list[str], rows: dict[str, list[float]], scale: list[float]) -> list[str]:
    """Return the lines of a table of F1, each value with a shade from the lowest to the highest of a scale."""
    low, high = min(scale), max(scale)

    def show(value: float) -> str:
        shade = SHADES[int((value - low) / (high - low or 1) * (len(SHADES) - 1))] * 4
        return f" {shade} {value:.4f}"

    header = f"{corner:<14}" + "".join(f"{column:>12}" for column in columns)
    return [header, *(f"{name:<14}" + "".join(map(show, values)) for name, values in rows.items())]


def _evaluate_on_spark(
    model: Model,
    documents: list[str],
    k: int,
    training: str | None,
    reading: tuple[str | None, str],
    master: str | None,
    spark: list[str] | None,
) -> Evaluation:
    """Measure a model on a Spark cluster."""
    from raregram.cli.clusters import spark_cluster
    from raregram.corpus.documents import Options

    with spark_cluster(master, spark, quiet=False) as cluster:
        from raregram.spark.evaluating import evaluate as measure

        return measure(cluster, model, documents, Options(*reading), k=k, training=training)


def _types_of(sources: list[str], like: Any, targets: list[str], format_name: str | None, split: str) -> Counts:
    """Return the count table of documents with whole N-grams, laid out like a model or another table."""
    from raregram.counts.count import count
    from raregram.counts.storage import is_raregram_file
    from raregram.counts.table import Counts

    if all(map(is_raregram_file, sources)):
        return sum(map(Counts.load, sources[1:]), start=Counts.load(sources[0]))
    layout = {name: getattr(like, name) for name in ("n", "side", "kind", "pad")}
    return count(sources, targets=targets, spans=["whole"], format=format_name, split=split, **layout)


def _numbers(text: str, kind: Any, name: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",") if part]
    except ValueError:
        raise ParameterError(f"--{name} takes numbers with commas between, got {text!r}") from None


def _config(path: str | None, changes: dict[str, Any]) -> Config:
    """Return the paper's experiment with the settings of a file and of the command line."""
    from raregram.measure.experiment import Config

    settings: dict[str, Any] = {}
    if path is not None:
        try:
            import tomllib
        except ImportError:  # Python 3.10
            try:
                import tomli as tomllib  # type: ignore[import-not-found,no-redef]
            except ImportError as error:
                raise MissingExtraError("settings in TOML need tomli: pip install 'raregram[paper]'") from error
        try:
            settings = tomllib.loads(_read(Path(path), LARGEST_SETTINGS).decode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid TOML: {error}") from None
    return replace(Config.from_mapping(settings), **{key: v for key, v in changes.items() if v is not None})


@contextmanager
def _run(config: Config, folder: Path, quiet: bool) -> Iterator[dict[str, Any]]:
    """Run an experiment and give its results; finished parts are in a hidden folder until those have been written."""
    from raregram.atomic import sole_use, write_errors_named
    from raregram.measure import experiment

    announce = experiment.say_nothing if quiet else _announce
    fetched = " (fetched by npm if it is not there)" if config.corpus == "reuters" else ""
    announce(f"reading the corpus{fetched}")
    corpus = experiment.load_corpus(config)
    work = folder / f".work-{config.digest(corpus)[:16]}"
    with write_errors_named(work):
        work.mkdir(parents=True, exist_ok=True)
    with sole_use(work):
        yield dict(json.loads(json.dumps(experiment.run(config, corpus, work, announce))))
        shutil.rmtree(work, ignore_errors=True)


def _announce(text: str) -> None:
    say(f"raregram: {text}")


def _load_results(path: Path) -> dict[str, Any]:
    with _results_named(path):
        return dict(json.loads(_read(path, LARGEST_RESULTS).decode()))


@contextmanager
def _results_named(path: Path) -> Iterator[None]:
    """Turn whatever results that lack something make a reader raise into one error that names the file."""
    try:
        yield
    except RaregramError:
        raise
    except Exception as error:  # tables, figures and the page each raise something else
        raise FileError(f"{path} is not a results file, or it is truncated or damaged") from error


def _read(path: Path, most: int) -> bytes:
    """Read a file that should be small."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise FileError(f"cannot read {path}: {system_reason(error)}") from error
    if len(content) > most:
        raise FileError(f"cannot read {path}: it is larger than {most >> 20} MiB")
    return content


def _save_results(results: dict[str, Any], path: Path) -> None:
    """Write the results last, so that their existence means that all is there."""
    from raregram.atomic import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _summary(results: dict[str, Any], page: Path) -> str:
    """Return the main tables for the terminal, and the report's path as the last line."""
    from raregram.show.report.page import show
    from raregram.show.report.tables import tables

    lines = []
    for table in tables(results):
        if table.name in ("findings", "chosen", "tables-3-4", "table-2"):
            rows = [table.columns, *([printable(show(value)) for value in row] for row in table.rows)]
            widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
            lines += ["", table.title]
            lines += [
                "  ".join(value.ljust(w) for value, w in zip(row, widths, strict=True)).rstrip() for row in rows
            ]
    return "\n".join([*lines, "", f"report: {printable(str(page))}"])


COMMANDS = (tune, evaluate, reproduce)

"""Commands that measure: evaluate, tune, reproduce."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from raregram import options
from raregram.cli import options as cli
from raregram.cli.command import argument, option
from raregram.cli.options import described
from raregram.cli.printing import print_json, say
from raregram.errors import (
    FileError,
    InputError,
    ParameterError,
    RaregramError,
    printable,
    system_reason,
)
from raregram.remote import local_path

if TYPE_CHECKING:
    from raregram.experiment.run import Config
    from raregram.measure.tune import Trial

SHADES = " ░▒▓█"
LARGEST_SETTINGS, LARGEST_RESULTS = 1 << 20, 1 << 26  # bytes of a file


def _join(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)


def evaluate(
    model_file: cli.ModelFile,
    documents: cli.TaggedDocuments,
    k: cli.TopK = options.K.default,
    training: Annotated[
        str | None,
        described(help="The count file of the training data, with whole N-grams: results by training frequency."),
    ] = None,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
) -> None:
    """Measure a model on tagged documents.

    Ranks their N-grams and prints the average precision, and precision, recall and F1 of the top K; --json adds the
    curve of recall over rank.

    Then comes whether the ratios mean what they say: the cost Cllr (0 is perfect, 1 says nothing), its least value
    under any monotone map, the difference, which is the calibration loss, and slope and offset of the log ratio,
    which are 1 and 0 if it is right.

    Example: raregram evaluate loc.rgm test.parquet --training train.counts
    """
    from raregram.measure import evaluate as local
    from raregram.models.model import Model

    model = Model.load(model_file)
    if engine == "spark":
        from raregram.cli.clusters import spark_cluster
        from raregram.corpus.documents import Options

        with spark_cluster(master, spark, quiet=False) as cluster:
            from raregram.spark import evaluating

            reading = Options(format=format, split=split)
            result = evaluating.evaluate(cluster, model, documents, reading, k=k, training=training)
        reading.log.warn()
    else:
        result = local.evaluate(model, documents, k=k, training=training, format=format, split=split)
    if as_json:
        print_json(result.to_dict())
    else:
        print(result)


def tune(
    counts_file: Annotated[str, argument(help="The count file of the training data.")],
    documents: cli.TaggedDocuments,
    out: cli.Out,
    target: cli.Target = None,
    estimator: Annotated[
        Literal["selective", "backoff"],
        option(help="`selective` tries criteria, sizes and lam; `backoff` lam, tau, suffixes and shapes."),
    ] = "backoff",
    by: Annotated[options.Measure, option(help=options.BY.help)] = options.BY.default,
    criteria: Annotated[str, option(help="Separated by commas.")] = ",".join(options.CRITERIA),
    sizes: Annotated[str, option(help="Separated by commas.")] = _join(options.SIZES),
    lams: Annotated[str, option(help="Separated by commas.")] = _join(options.LAMS),
    priors: Annotated[str, option(help="`backoff`: weights of a prior in contexts.")] = _join(options.TUNED_PRIORS),
    taus: Annotated[str, option(help="`backoff`: exponents of single items.")] = _join(options.TAUS),
    k: cli.TopK = options.K.default,
    denominator: cli.Denominator = options.DENOMINATOR.default,
    unseen: cli.Unseen = options.UNSEEN.default,
    seed: cli.Seed = options.SEED.default,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Find the best settings on validation documents.

    Tries lam, tau, suffixes and shapes (or all criteria, sizes and lam), prints a heat map and writes the best model.

    The best has the highest average precision, or F1 of the top K, or the lowest Cllr; ties go to the larger lam.

    Example: raregram tune train.counts valid.parquet --target LOC --out loc.rgm
    """
    from raregram.files import check_target
    from raregram.measure import tune as tuning
    from raregram.show.progress import progress

    check_target(out)
    with progress("tried {:,} settings", quiet) as tick:
        tuned = tuning.tune(
            counts_file, documents, target, estimator, by=by, k=k, criteria=cli.parse_names(criteria) or [],
            sizes=_numbers(sizes, int, "sizes"), lams=_numbers(lams, float, "lams"),
            priors=_numbers(priors, float, "priors"), taus=_numbers(taus, float, "taus"), denominator=denominator,
            unseen=unseen, seed=seed, format=format, split=split, progress=tick,
        )  # fmt: skip
    tuned.model.save(out)
    best, trials = tuned.best, list(tuned.trials)
    if as_json:
        print_json({"best": asdict(best), "cells": [asdict(trial) for trial in trials]})
        return
    print(heat_map(trials))
    measured = {"average-precision": f"average precision {best.value:.4f}, ", "cllr": f"Cllr {best.value:.4f}, "}
    reached = f"{measured.get(by, '')}F1 {best.f1:.4f}"
    if estimator == "backoff":
        print(f"best: backoff, lam {best.lam:.4g}, tau {best.tau:g}, suffixes to {best.longest}, "
              f"{'with' if best.shapes else 'without'} shapes, {reached}")  # fmt: skip
    else:
        print(f"best: {best.criterion or 'all used'}{f', {best.size:,} items a position' if best.size else ''}, "
              f"lam {best.lam:g}, {reached}")  # fmt: skip
    if best.calibrated:
        print("the best model is calibrated, and measured so; the settings above are measured without calibration")
    if not quiet:
        say(f"{out}: the best model")


def reproduce(
    out: Annotated[str, option("--out", "-o", help="The folder to write.")] = "reproduce",
    config: Annotated[str | None, described(help="A TOML file with other settings than the paper's.")] = None,
    corpus: Annotated[
        list[str] | None,
        described(help="Tagged documents in any format, instead of Reuters-21578; may be repeated."),
    ] = None,
    tags: Annotated[
        options.Tags | None, described(help="The tagger whose tags of Reuters-21578 are used. [default: stanford]")
    ] = None,
    seed: Annotated[int | None, described(help="[default: 0]")] = None,
    n: cli.N = None,
    targets: Annotated[str | None, described(help="Separated by commas. [default: LOC,PER]")] = None,
    sizes: Annotated[str | None, described(help="Separated by commas.")] = None,
    k: Annotated[int | None, described("--k", "-k", help="[default: 8000]")] = None,
    denominator: Annotated[options.Denominator | None, described()] = None,
    unseen: Annotated[options.Unseen | None, described()] = None,
    report_only: Annotated[bool, option("--report-only", help="Only build the report again.")] = False,
    force: Annotated[bool, option("--force", help="Run again even if there are results.")] = False,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Run the paper's experiment and write a report.

    Splits the corpus, counts, tunes on validation, evaluates on test. results.json is written last.

    Example: raregram reproduce --out reproduce
    """
    from raregram.experiment.page import check_installed, write_report
    from raregram.files import atomic_path

    check_installed()  # before the work, which takes minutes
    if corpus and tags:
        raise ParameterError("--tags is for Reuters-21578; documents of --corpus have tags of their own")
    folder = local_path(out)
    path = folder / "results.json"
    if report_only:
        results = _load_results(path)
        with _results_named(path):
            page = write_report(results, folder)
    elif path.exists() and not force:
        raise FileError(f"{path} is there already: --force runs again, --report-only builds the report again")
    else:
        changes = {
            "tags": tags, "seed": seed, "n": n, "k": k, "denominator": denominator, "unseen": unseen,
            "targets": tuple(cli.parse_names(targets) or []) or None,
            "sizes": None if sizes is None else tuple(_numbers(sizes, int, "sizes")),
            "corpus": tuple(corpus or []) or None,
        }  # fmt: skip
        results = _run(_config(config, changes), folder, quiet)
        page = write_report(results, folder)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8", newline="\n")
    if as_json:
        print_json({"report": str(page), "chosen": results["chosen"]})
    else:
        print(_summary(results, page))


def heat_map(trials: list[Trial]) -> str:
    """Draw the best measure by criterion and size, or by lam and tau, the darker the better; others below."""
    values: dict[tuple[str, str], float] = {}  # higher is better, so those of Cllr are negative
    others: dict[str, float] = {}
    first = trials[0]
    for trial in sorted(trials, key=lambda trial: (trial.lam, trial.tau or 0.0)):
        if trial.shapes != first.shapes:
            others["without shapes"] = trial.merit
        elif trial.longest != first.longest:
            others[f"suffixes to {trial.longest}"] = trial.merit
        elif trial.estimator == "product":
            others["all used"] = max(trial.merit, others.get("all used", -math.inf))
        else:
            by_lam = (f"{trial.lam:.4g}", f"{trial.tau:g}") if trial.estimator == "backoff" else None
            key = by_lam or (trial.criterion or "", f"{trial.size:,}")
            values[key] = max(trial.merit, values.get(key, -math.inf))
    every = [*values.values(), *others.values()]
    low, high = min(every), max(every)
    columns = list(dict.fromkeys(column for _, column in values))
    corner = "lam / tau" if first.estimator == "backoff" else ""
    lines = [f"{corner:<14}" + "".join(f"{column:>12}" for column in columns)]
    for row in dict.fromkeys(row for row, _ in values):
        shades = [SHADES[int((values[row, c] - low) / (high - low or 1) * (len(SHADES) - 1))] * 4 for c in columns]
        cells = (f" {shade} {abs(values[row, column]):.4f}" for shade, column in zip(shades, columns, strict=True))
        lines.append(f"{row:<14}" + "".join(cells))
    return "\n".join([*lines, *(f"{name:<20}{abs(value):.4f}" for name, value in others.items())])


def _numbers(text: str, kind: Any, name: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",") if part]
    except ValueError:
        raise ParameterError(f"--{name} takes numbers separated by commas, got {text!r}") from None


def _config(path: str | None, changes: dict[str, Any]) -> Config:
    """Return the paper's experiment with the settings of a file and of the command line."""
    from raregram.experiment.run import Config

    settings: dict[str, Any] = {}
    if path is not None:
        import tomllib

        try:
            settings = tomllib.loads(_read(Path(path), LARGEST_SETTINGS).decode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid TOML: {error}") from None
    return replace(Config.from_mapping(settings), **{key: v for key, v in changes.items() if v is not None})


def _run(config: Config, folder: Path, quiet: bool) -> dict[str, Any]:
    """Run an experiment and return its results, as they are when read from a file."""
    from raregram.experiment import run as experiment
    from raregram.files import write_errors_named

    announce = experiment.say_nothing if quiet else _announce
    fetched = " (fetched by npm if it is not there)" if config.corpus == "reuters" else ""
    announce(f"reading the corpus{fetched}")
    corpus = experiment.load_corpus(config)
    with write_errors_named(folder):  # before the work, which takes minutes
        folder.mkdir(parents=True, exist_ok=True)
    return dict(json.loads(json.dumps(experiment.run(config, corpus, announce))))


def _announce(text: str) -> None:  # not a lambda, since it goes to other processes
    say(f"raregram: {text}")


def _load_results(path: Path) -> dict[str, Any]:
    with _results_named(path):
        return dict(json.loads(_read(path, LARGEST_RESULTS).decode()))


@contextmanager
def _results_named(path: Path) -> Iterator[None]:
    """Turn any error that incomplete results cause into one that names the file."""
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


def _summary(results: dict[str, Any], page: Path) -> str:
    """Return the main tables for the terminal, and the report's path as the last line."""
    from raregram.experiment.tables import corpus_name, show, tables
    from raregram.measure.results import text_table

    config = results["config"]
    lines = [f"{printable(corpus_name(config))}; N = {config['n']}, seed {config['seed']}"]
    for table in tables(results):
        if table.name in ("findings", "chosen", "tables-3-4", "table-2"):
            rows = [table.columns, *([printable(show(value)) for value in row] for row in table.rows)]
            lines += ["", table.title, text_table(rows)]
    return "\n".join([*lines, "", f"report: {printable(str(page))}"])


COMMANDS = (evaluate, tune, reproduce)

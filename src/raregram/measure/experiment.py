"""The paper's experiment: split, count, tune, score, evaluate; the results as plain data.

Whatever is chosen is chosen on validation data. The one exception is the size that the paper reads off the test
curve: it is shown beside the honest choice, and called so. The targets run side by side, in a process each.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raregram import options
from raregram.corpus.documents import Options
from raregram.corpus.formats import read_documents
from raregram.corpus.formats.tables import documents_table
from raregram.corpus.standoff import tagged_reuters
from raregram.counts.count import CountJob
from raregram.counts.kernel import CountSettings
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, ParameterError, check_count, check_lam, must_be, shorten
from raregram.files import atomic_path
from raregram.measure.cllr import bins, calibrations, pav_curve, pool, tippett
from raregram.measure.evaluate import (
    BANDS,
    bands_of,
    evaluate_scores,
    training_frequency,
    type_frequencies,
    types_for,
)
from raregram.measure.processes import map_in_processes
from raregram.measure.score import all_boundaries, split_text
from raregram.measure.tune import Grid, Trial, choose
from raregram.models import ratios
from raregram.models.model import Model
from raregram.text.tokenize import Tokenizer

SPLITS = ("train", "valid", "test")
RUNS = 10  # of scoring, for its mean time
RUNS_FROM_TEXT = 3
MAX_BYTES = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)  # of back-off models
ONE_MB = 1_000_000
ARTICLES = 3  # test documents that the report shows in colours,
ARTICLE_ITEMS = (40, 160)  # neither short nor long
SHOWN_FAMILIES = ("all used lam=0", "all used lam*", "selective", "selective, size read off the test curve")
DRAWN_FAMILIES = ("backoff", "selective")  # whose ratios are drawn, predicted and real, also when calibrated
FOLDS = 5  # of training documents, by which they are

LISTS = ("targets", "criteria", "sizes", "lams", "priors", "taus")  # settings that are lists,
TEXTS = (
    "corpus",
    "tags",
    "format",
    "split",
    "side",
    "kind",
    "targets",
    "denominator",
    "unseen",
    "criteria",
)  # or text

Say = Callable[[str], None]


def say_nothing(text: str) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Config:
    """An experiment. The default is the paper's, on Reuters-21578."""

    corpus: str | tuple[str, ...] = "reuters"  # or paths of tagged documents in any format
    tags: options.Tags = options.TAGS.default  # of Reuters-21578: the tagger
    format: str | None = None  # of those; None: it is recognised
    split: str = options.SPLIT.default  # what a document is in running text
    seed: int = options.SEED.default
    train: int = 10_000  # documents
    valid: int = 3_000
    test: int = 3_000
    n: int = options.N.default
    side: str = options.SIDE.default
    kind: str = options.KIND.default
    targets: tuple[str, ...] = ("LOC", "PER")
    denominator: options.Denominator = options.DENOMINATOR.default
    unseen: str = options.UNSEEN.default
    k: int = options.PAPERS_K
    criteria: tuple[str, ...] = options.CRITERIA
    sizes: tuple[int, ...] = options.SIZES
    lams: tuple[float, ...] = options.LAMS
    suffixes: int = 5  # the longest of the back-off estimator, of items
    shapes: int = 8  # and of shapes
    priors: tuple[float, ...] = options.PRIORS  # its lam times n_de
    taus: tuple[float, ...] = options.TAUS

    def __post_init__(self) -> None:
        """Raise `ParameterError` for a value out of its range."""
        for name in ("train", "valid", "test", "n", "k", "suffixes", "shapes"):
            check_count(name, "an experiment", getattr(self, name))
        check_count("seed", "an experiment", self.seed, at_least=0)
        options.TAGS.check(self.tags, "an experiment")
        for name in LISTS:
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise must_be(name, "an experiment", "a list with something in it", getattr(self, name))
        for name in TEXTS:
            given = getattr(self, name)
            if not all(isinstance(text, str | None) for text in (given if isinstance(given, tuple) else [given])):
                raise must_be(name, "an experiment", "text", given)
        for size in self.sizes:
            check_count("sizes", "an experiment", size)
        for name in ("lams", "priors", "taus"):
            for number in getattr(self, name):
                check_lam(number, "an experiment", name)

    @classmethod
    def from_mapping(cls, settings: dict[str, Any]) -> Config:
        """Make a configuration from what a TOML file says; the rest is as in the paper."""
        names = [field.name for field in fields(cls)]
        for name in settings:
            if name not in names:
                raise ParameterError(f"an experiment has no setting {shorten(name)}; it has {', '.join(names)}")
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
        return cls(**values)

    def digest(self, corpus: pa.Table) -> str:
        """Return a digest of all that decides about the results: the settings, the documents and the version."""
        total = hashlib.sha256(json.dumps([version("raregram"), asdict(self)], sort_keys=True).encode())
        for batch in corpus.to_batches():
            total.update(batch.serialize())
        return total.hexdigest()


@dataclass(frozen=True)
class Splits:
    """The count tables of the three parts of a corpus."""

    train: Counts
    valid: Counts
    test: Counts
    folded: Counts  # the training part in folds

    @cached_property
    def seen(self) -> Ints:
        """How often each N-gram of the test documents was seen in training."""
        return training_frequency(self.test, self.train)


def run(
    config: Config, corpus: pa.Table, work: Path, say: Say = say_nothing, processes: int | None = None
) -> dict[str, Any]:
    """Run an experiment on a table of documents (`id`, `text` or `items`, `spans`); return its results as plain data.

    Args:
        config: the settings.
        corpus: the tagged documents.
        work: a folder for finished measurements, so that an interrupted run goes on from there.
        say: shows what is being done; other processes call it too, so it is a function of a module.
        processes: how many targets run side by side; None for one a processor. The results are the same.
    """
    splits = count_splits(config, corpus, say)
    for target in config.targets:
        _grid(config, splits, target, splits.valid).check()
    articles = choose_articles(config, split_corpus(config, corpus)["test"])
    inputs, data = {name: getattr(splits, name).digest() for name in SPLITS}, _table_2(splits)
    run_target = partial(_run_target, config, splits, articles, work, say)
    per_target = dict(zip(config.targets, map_in_processes(run_target, config.targets, processes), strict=True))
    return {
        "config": asdict(config),
        "versions": {name: version(name) for name in ("raregram", "numpy", "pyarrow")},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "inputs": inputs,
        "table_1": table_1(),
        "table_2": data,
        "cells": [trial for result in per_target.values() for trial in result.pop("cells")],
        "chosen": [entry for result in per_target.values() for entry in result.pop("chosen")],
        "articles": articles,
        "targets": per_target,
    }


def load_corpus(config: Config) -> pa.Table:
    """Return the documents of an experiment as a table: `text` or `items`, and `spans`."""
    if config.corpus == "reuters":
        return tagged_reuters(config.tags)
    sources = [config.corpus] if isinstance(config.corpus, str) else list(config.corpus)
    reading = Options(format=config.format, split=config.split)
    parts = [documents_table(batch) for batch in read_documents(sources, reading)]
    reading.log.warn()
    if not parts:
        raise InputError(f"there is no document in {', '.join(sources)}")
    if len({part.schema for part in parts}) > 1:
        raise InputError(f"some documents in {', '.join(sources)} are texts and some lists of items: make them one")
    return pa.concat_tables(parts)


def split_corpus(config: Config, corpus: pa.Table) -> dict[str, pa.Table]:
    """Split documents at random; a small corpus is split in the same proportions."""
    wanted = np.array([config.train, config.valid, config.test])
    if wanted.sum() > len(corpus):
        wanted = wanted * len(corpus) // wanted.sum()
    if not wanted.all():
        raise InputError(f"a corpus of {len(corpus)} documents is too small to be split in three")
    # Raw numbers of PCG64 never change, so a seed always means the same split.
    order = np.argsort(np.random.PCG64(config.seed).random_raw(len(corpus)), kind="stable")
    bounds = np.cumsum([0, *wanted])
    return {
        name: corpus.take(pa.array(order[first:last]))
        for name, first, last in zip(SPLITS, bounds[:-1], bounds[1:], strict=True)
    }


def count_splits(config: Config, corpus: pa.Table, say: Say = say_nothing) -> Splits:
    """Split a corpus and count its parts."""
    longer = [f"suffixes:{config.suffixes}", f"shapes:{config.shapes}"]
    layout: dict[str, Any] = {name: getattr(config, name) for name in ("n", "side", "kind", "targets")}
    layout |= {"tokenize": "whitespace", "lower": False}  # the paper's items
    counts = {}
    for name, documents in split_corpus(config, corpus).items():
        say(f"counting {len(documents):,} {name} documents")
        spans = ("units", "whole", *(longer if name == "train" else []))
        # Not `count`, which would warn of a part without a target: that is a result of the experiment.
        counts[name] = CountJob((documents, None, None), CountSettings(spans=spans, **layout)).collect()
        if name == "train":
            settings = CountSettings(spans=spans, folds=FOLDS, **layout)
            counts["folded"] = CountJob((documents, None, None), settings).collect()
    return Splits(**counts)


def choose_articles(config: Config, test: pa.Table) -> list[dict[str, Any]]:
    """Return the first test documents of a middling length with the most targets: their items, and what is where."""
    low, high = ARTICLE_ITEMS
    found = []
    for row in test.to_pylist():
        items = row["items"] if "items" in row else split_text(row["text"], Tokenizer(config.kind)).to_pylist()
        edge = "start" if config.side == "left" else "end"
        names = {str(span[edge]): span["label"] for span in row["spans"] or [] if span["label"] in config.targets}
        if len(items) <= high:
            found.append({"items": items, "names": names})
    found.sort(key=lambda article: (len(article["items"]) < low, -len({*article["names"].values()})))
    return found[:ARTICLES]  # of those that are as good, the first


def _grid(config: Config, splits: Splits, target: str, contexts: Counts) -> Grid:
    # Items with validity bits, as in a table that was read from a file: they count in the bytes of a model.
    items = splits.train.items.take(pa.array(np.arange(len(splits.train.items))))
    train = replace(splits.train, items=items)
    return Grid(train, target, contexts, config.denominator, config.unseen, config.seed, config.k, "f1")


def _run_target(
    config: Config, splits: Splits, articles: list[dict[str, Any]], work: Path, say: Say, target: str
) -> dict[str, Any]:
    """Tune, choose, score and evaluate for one target."""
    valid, test = (_grid(config, splits, target, contexts) for contexts in (splits.valid, splits.test))
    stored = partial(_stored, work, config.targets.index(target))  # a name may hold what no file name can
    say(f"tuning {target}: {len(config.criteria)} criteria x {len(config.sizes)} sizes x {len(config.lams)} lam")
    tried = stored("valid", lambda: [
        *valid.all_used((0.0, *config.lams)), *valid.selective(config.criteria, config.sizes, config.lams)
    ])  # fmt: skip
    plain, *with_ridge = tried
    curves = _best_by(with_ridge, lambda trial: (trial.estimator, trial.criterion, trial.size))
    say(f"scoring {target} on test")
    scored = stored("test", lambda: [replace(trial, f1=test.f1(test.fit(trial))) for trial in (plain, *curves)])
    test_f1 = {trial: again.f1 for trial, again in zip((plain, *curves), scored, strict=True)}
    families = _families(curves, plain, test_f1)
    say(f"tuning the back-off estimator for {target}: {len(config.priors)} lam x {len(config.taus)} tau, and less")
    backoff = stored("backoff", lambda: list(valid.backoff(config.priors, config.taus)))
    smoothed = stored("smoothed", lambda: list(valid.smoothed()))
    test_f1[choose(smoothed)] = test.f1(test.fit(choose(smoothed)))
    say(f"scoring the back-off estimator for {target} on test")
    limited, shown = _limit_backoff(config, choose(backoff), valid, test)
    models = {name: test.fit(families[name]) for name in SHOWN_FAMILIES}
    models |= {name: model for name, (model, _) in shown.items()}
    say(f"evaluating the best models of {target}")
    evaluations, costs = _evaluate_and_time(config, models, splits, target)
    drawn = {}
    for name, trial in zip(DRAWN_FAMILIES, (choose(backoff), families["selective"]), strict=True):
        drawn[name], calibrated = models[name], replace(test, counts=splits.folded).fit(trial)
        drawn |= {f"{name}, calibrated": calibrated} if calibrated.calibration else {}
    return {
        "cells": [
            *(_entry(trial, test_f1.get(trial)) for trial in tried),
            *(_entry(trial, None) for trial in backoff if trial != choose(backoff)),
            *limited,
            *(_entry(trial, test_f1.get(trial)) for trial in smoothed),
        ],
        "chosen": [
            *({"family": name, **_entry(trial, test_f1[trial])} for name, trial in families.items()),
            *({"family": name, **entry} for name, (_, entry) in shown.items()),
            {"family": "smoothed", **_entry(choose(smoothed), test_f1[choose(smoothed)])},
        ],
        "rooms": _model_sizes(valid, curves, families["selective"], test_f1),
        "evaluations": evaluations,
        "costs": costs,
        "calibration": _draw_calibration(config, drawn, splits, target),
        "lam0": models["all used lam*"].lam0,
        "articles": [_boundary_scores(models["backoff"], article["items"]) for article in articles],
    }


def _stored(work: Path, number: int, name: str, measure: Callable[[], list[Trial]]) -> list[Trial]:
    """Return trials that an earlier run has measured, or measure them now and keep them."""
    path = work / f"{number}-{name}.json"
    if not path.exists():
        trials = measure()
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps([asdict(trial) for trial in trials]))
    return [Trial(**trial) for trial in json.loads(path.read_text())]


def _best_by(trials: Sequence[Trial], key: Callable[[Trial], Any]) -> list[Trial]:
    """Return the best trial of each group."""
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(key(trial), []).append(trial)
    return [choose(group) for group in groups.values()]


def _families(curves: Sequence[Trial], plain: Trial, test_f1: dict[Trial, float]) -> dict[str, Trial]:
    """Return the trial that stands for each family of estimators."""
    selective = [trial for trial in curves if trial.estimator == "selective"]
    by_criterion = _best_by(selective, lambda trial: trial.criterion)
    return {
        "all used lam=0": plain,
        "all used lam*": next(trial for trial in curves if trial.estimator == "product"),
        **{f"selective {trial.criterion}": trial for trial in by_criterion},
        "selective": choose(selective),
        "selective, size read off the test curve": max(selective, key=test_f1.__getitem__),
    }


def _limit_backoff(
    config: Config, best: Trial, valid: Grid, test: Grid
) -> tuple[list[dict[str, Any]], dict[str, tuple[Model, dict[str, Any]]]]:
    """Measure the best back-off setting without a limit, at every size and in every number of bytes.

    Returns:
        The entries of all, and the model without a limit and that of 1 MB with their entries.
    """
    limits: list[dict[str, Any]] = [{}, *({"size": size} for size in config.sizes)]
    limits += [{"max_bytes": most} for most in MAX_BYTES]
    entries, shown = [], {}
    for limit in limits:
        model = valid.fit(replace(best, **limit))
        entries.append(_entry(valid.measure(model), test.f1(model)))
        if limit in ({}, {"max_bytes": ONE_MB}):
            shown["backoff, 1 MB" if limit else "backoff"] = model, entries[-1]
    return entries, shown


def _model_sizes(
    grid: Grid, curves: Sequence[Trial], best: Trial, test_f1: dict[Trial, float]
) -> list[dict[str, float | int | str]]:
    """Return the bytes of the models of the best criterion at every size, and all used."""
    return [
        {
            "criterion": trial.criterion or "all used",
            "size": trial.size or 0,
            "bytes": grid.fit(trial).nbytes,
            "test_f1": test_f1[trial],
        }
        for trial in curves
        if trial.criterion in (best.criterion, None)
    ]


def _evaluate_and_time(
    config: Config, models: dict[str, Model], splits: Splits, target: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Evaluate models on the test N-grams, and measure the time to score these and the bytes that each model takes.

    Times are processor seconds, since other targets run beside.
    """
    frequencies = type_frequencies(splits.test, target, config.denominator)
    texts = splits.test.whole_ngrams().texts(config.kind)
    evaluations, costs = {}, {}
    for name, model in models.items():
        codes = types_for(model, splits.test)
        evaluation = evaluate_scores(model.log_ratio(codes), frequencies, config.k, target, splits.seen).to_dict()
        shorter = {"recalls": [round(value, 6) for value in evaluation["recalls"]]}
        evaluations[name] = {**evaluation, **shorter, "calibration": _six_digits(evaluation["calibration"])}
        costs[name] = {
            "ngrams": len(codes),
            "seconds": _mean_seconds(model, codes, RUNS),
            "seconds_from_text": _mean_seconds(model, texts, RUNS_FROM_TEXT),
            "bytes": model.nbytes,
            "frequencies": sum(model.sizes),
            "items": len(model.items),
        }
    return evaluations, costs


def _draw_calibration(config: Config, models: dict[str, Model], splits: Splits, target: str) -> dict[str, Any]:
    """Return what the pictures show of how right the ratios of models are on the test documents."""
    frequencies = type_frequencies(splits.test, target, config.denominator)
    drawn, bands = {}, (bands_of(splits.seen), tuple(BANDS))
    for name, model in models.items():
        scores = model.log_ratio(types_for(model, splits.test))
        pooled, measured = pool(scores, *frequencies), calibrations(scores, *frequencies, *bands)
        curves = {
            "tippett": dict(zip(("log10_ratio", "targets", "others"), tippett(pooled), strict=True)),
            "pav": dict(zip(("low", "high", "after"), pav_curve(pooled), strict=True)),
            "measures": {band: measures.to_dict() for band, measures in measured.items()},
        }
        drawn[name] = _six_digits({"bins": [asdict(each) for each in bins(pooled)], **curves})
    return drawn


def _six_digits(value: Any) -> Any:
    """Round all numbers, so that they are the same on every machine; the steps of a curve become lists."""
    if isinstance(value, dict):
        return {key: _six_digits(each) for key, each in value.items()}
    if isinstance(value, list | np.ndarray):
        return [_six_digits(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _mean_seconds(model: Model, ngrams: Any, runs: int) -> float:
    start = time.process_time()
    for _ in range(runs):
        model.log_ratio(ngrams)
    return (time.process_time() - start) / runs


def _boundary_scores(model: Model, items: list[str]) -> list[float | None]:
    """Return the log ratio at every boundary, short enough to be stored."""
    scores = all_boundaries(model, pa.array(items, pa.string()))
    return [None if score is None else round(score, 3) for score in scores]


def _entry(trial: Trial, test_f1: float | None) -> dict[str, Any]:
    """Return a trial on validation and its F1 on test, the way the results hold it."""
    entry = asdict(trial)
    del entry["f1"], entry["average_precision"], entry["cllr"]
    return {**entry, "valid_f1": trial.f1, "test_f1": test_f1}


def table_1() -> list[dict[str, float]]:
    """Compute the paper's Table I."""
    rows = ((10**7, 2000, 10**4, 100), (10**7, 20, 10**4, 1), (10**7, 20, 10**4, 2), (10**7, 6, 10**4, 0))
    return [
        {
            "n_de": n_de, "f_de": f_de, "n_nu": n_nu, "f_nu": f_nu,
            "mle": float(ratios.mle(f_nu, n_nu, f_de, n_de)),
            "direct": float(ratios.direct(f_nu, n_nu, f_de, n_de, 1e-5)),
        }
        for n_de, f_de, n_nu, f_nu in rows
    ]  # fmt: skip


def _table_2(splits: Splits) -> list[dict[str, Any]]:
    """Count types and contexts of each part and target, and the test N-grams that were never seen in training."""
    rows = []
    for name in SPLITS:
        counts: Counts = getattr(splits, name)
        values = counts.whole_rows.values
        for column, target in enumerate(("all", *counts.targets)):
            here = values[:, column] > 0
            row = {"split": name, "target": target, "types": int(here.sum()), "contexts": int(counts.totals[column])}
            if name == "test":
                row["unseen_share"] = float((splits.seen == 0)[here].mean()) if here.any() else 0.0
            rows.append(row)
    return rows


def processor() -> str:
    """Name the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

"""The paper's experiment: split, count, tune, score, evaluate; the results as plain data.

Whatever is chosen is chosen on validation data. The one exception is the size that the paper reads off the test
curve: it is shown beside the honest choice, and called so. The targets run side by side, in a process each.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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
from raregram.errors import InputError, ParameterError, RaregramError, check_count, check_lam, must_be, shorten
from raregram.measure import cllr
from raregram.measure.evaluate import evaluate_scores, training_frequency, type_frequencies, types_for
from raregram.measure.score import all_boundaries, split_text
from raregram.measure.tune import Grid, Trial, choose
from raregram.models import ratios
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.text.tokenize import Tokenizer

SPLITS = ("train", "valid", "test")
OWNER = "an experiment"  # in messages
FOLDS = 5  # of training documents, by which models are calibrated
RUNS, RUNS_FROM_TEXT = 10, 3  # of scoring, for its mean time
ARTICLES, ARTICLE_ITEMS = 3, (40, 160)  # test documents that the report shows in colours, neither short nor long
SHOWN = ("all used lam=0", "all used lam*", "selective", "selective, size read off the test curve", "backoff")

Say = Callable[[str], None]


def say_nothing(text: str) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Config:
    """An experiment. The default is the paper's, on Reuters-21578."""

    corpus: str | tuple[str, ...] = "reuters"  # or paths of tagged documents in any format
    tags: options.Tags = options.TAGS.default  # of Reuters-21578: the tagger
    format: str | None = None  # of those; None: it is recognised
    split: options.Split = options.SPLIT.default  # what a document is in running text
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
        for name in ("tags", "split", "seed", "n", "side", "kind", "denominator", "unseen"):
            getattr(options, name.upper()).check(getattr(self, name), OWNER)
        for name in ("train", "valid", "test", "k", "suffixes", "shapes"):
            check_count(name, OWNER, getattr(self, name))
        for name in ("targets", "criteria", "sizes", "lams", "priors", "taus"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise must_be(name, OWNER, "a list with something in it", getattr(self, name))
        corpus = self.corpus if isinstance(self.corpus, tuple) else (self.corpus,)
        for name, texts in {"corpus": corpus, "targets": self.targets, "format": (self.format or "",)}.items():
            if not all(isinstance(text, str) for text in texts):
                raise must_be(name, OWNER, "text", texts)
        for size in self.sizes:
            check_count("sizes", OWNER, size)
        for name in ("lams", "priors", "taus"):
            for value in getattr(self, name):
                check_lam(value, OWNER, name)

    @classmethod
    def from_mapping(cls, settings: dict[str, Any]) -> Config:
        """Make a configuration from what a TOML file says; the rest is as in the paper."""
        names = [field.name for field in fields(cls)]
        for name in settings:
            if name not in names:
                raise ParameterError(f"{OWNER} has no setting {shorten(name)}; it has {', '.join(names)}")
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
        return cls(**values)


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


def run(config: Config, corpus: pa.Table, say: Say = say_nothing, processes: int | None = None) -> dict[str, Any]:
    """Run an experiment on a table of documents (`id`, `text` or `items`, `spans`); return its results as plain data.

    Args:
        config: the settings.
        corpus: the tagged documents.
        say: shows what is being done; other processes call it too, so it is a function of a module.
        processes: how many targets run side by side; None for one a processor. The results are the same.
    """
    splits = count_splits(config, corpus, say)
    for target in config.targets:
        _grid(config, splits, target, splits.valid).check()
    articles = choose_articles(config, split_corpus(config, corpus)["test"])
    data = _table_2(splits)
    run_target = partial(_run_target, config, splits, articles, say)
    found = _side_by_side(run_target, config.targets, processes or os.cpu_count() or 1)
    return {
        "config": asdict(config),
        "versions": {name: version(name) for name in ("raregram", "numpy", "pyarrow")},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "inputs": {name: getattr(splits, name).digest() for name in SPLITS},
        "table_1": table_1(),
        "table_2": data,
        "cells": [cell for result in found for cell in result.pop("cells")],
        "chosen": [cell for result in found for cell in result.pop("chosen")],
        "articles": articles,
        "targets": dict(zip(config.targets, found, strict=True)),
    }


# --- two targets side by side ------------------------------------------------------------------------------------
def _side_by_side(work: Callable[[str], Any], targets: Sequence[str], processes: int) -> list[Any]:
    """Return the results of work on each target, done in some processes."""
    workers = min(processes, len(targets), 60)  # Windows waits for at most 63 things at a time
    if workers == 1:
        return [work(target) for target in targets]
    # Spawned, not forked: Arrow and NumPy have threads, and a copy of a process with threads may hang.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker) as pool:
        try:
            return list(pool.map(work, targets))
        except BrokenProcessPool as error:
            raise RaregramError("a process of this run was ended from outside, perhaps for lack of memory") from error


def _start_worker() -> None:
    """End this process at once on Ctrl-C, and when its parent is gone, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


# --- the corpus --------------------------------------------------------------------------------------------------
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
    parts = np.split(order[: wanted.sum()], np.cumsum(wanted)[:-1])
    return {name: corpus.take(pa.array(part)) for name, part in zip(SPLITS, parts, strict=True)}


def count_splits(config: Config, corpus: pa.Table, say: Say = say_nothing) -> Splits:
    """Split a corpus and count its parts."""
    parts = split_corpus(config, corpus)
    longer = (f"suffixes:{config.suffixes}", f"shapes:{config.shapes}")
    layout: dict[str, Any] = {name: getattr(config, name) for name in ("n", "side", "kind", "targets")}

    def count(name: str, spans: tuple[str, ...] = (), folds: int = 0) -> Counts:
        # Not `raregram.count`, which would warn of a part without a target: that is a result of the experiment.
        spans = ("units", "whole", *spans)
        settings = CountSettings(spans=spans, folds=folds, tokenize="whitespace", lower=False, **layout)
        return CountJob((parts[name], None, None), settings).collect()

    for name, documents in parts.items():
        say(f"counting {len(documents):,} {name} documents")
    return Splits(count("train", longer), count("valid"), count("test"), folded=count("train", longer, FOLDS))


def choose_articles(config: Config, test: pa.Table) -> list[dict[str, Any]]:
    """Return the first test documents of a middling length with the most targets: their items, and what is where."""
    low, high = ARTICLE_ITEMS
    edge = "start" if config.side == "left" else "end"
    found = []
    for row in test.to_pylist():
        items = row["items"] if "items" in row else split_text(row["text"], Tokenizer(config.kind)).to_pylist()
        names = {str(span[edge]): span["label"] for span in row["spans"] or [] if span["label"] in config.targets}
        if len(items) <= high:
            found.append({"items": items, "names": names})
    found.sort(key=lambda article: (len(article["items"]) < low, -len({*article["names"].values()})))
    return found[:ARTICLES]  # of those that are as good, the first


# --- one target --------------------------------------------------------------------------------------------------
def _grid(config: Config, splits: Splits, target: str, contexts: Counts) -> Grid:
    # A copy of the items, so that a model has the same bytes in this process as in another.
    items = splits.train.items.take(pa.array(np.arange(len(splits.train.items))))
    train = replace(splits.train, items=items)
    return Grid(train, target, contexts, config.denominator, config.unseen, config.seed, config.k, "f1")


def _run_target(
    config: Config, splits: Splits, articles: list[dict[str, Any]], say: Say, target: str
) -> dict[str, Any]:
    """Tune, choose, score and evaluate for one target."""
    valid, test = (_grid(config, splits, target, contexts) for contexts in (splits.valid, splits.test))
    say(f"tuning {target}: {len(config.criteria)} criteria x {len(config.sizes)} sizes x {len(config.lams)} lam")
    plain, *all_used = valid.all_used((0.0, *config.lams))
    tried = list(valid.selective(config.criteria, config.sizes, config.lams))
    selective = _best_by(tried, lambda trial: (trial.criterion, trial.size))
    curves = [choose(all_used), *selective]
    say(f"scoring {target} on test")
    test_f1 = {trial: test.f1(test.scores(test.fit(trial))) for trial in (plain, *curves)}
    say(f"tuning the back-off estimator for {target}: {len(config.priors)} lam x {len(config.taus)} tau, and less")
    backoff, smoothed = list(valid.backoff(config.priors, config.taus)), list(valid.smoothed())
    families = {
        "all used lam=0": plain,
        "all used lam*": choose(all_used),
        **{f"selective {trial.criterion}": trial for trial in _best_by(selective, lambda trial: trial.criterion)},
        "selective": choose(selective),
        "selective, size read off the test curve": max(selective, key=test_f1.__getitem__),
        "backoff": choose(backoff),
        "smoothed": choose(smoothed),
    }
    say(f"scoring the back-off estimator for {target} on test")
    test_f1 |= {families[name]: test.f1(test.scores(test.fit(families[name]))) for name in ("backoff", "smoothed")}
    smaller = []
    for size in config.sizes:
        model = valid.fit(replace(families["backoff"], size=size))
        smaller.append(valid.try_model(model))
        test_f1[smaller[-1]] = test.f1(test.scores(model))
    say(f"evaluating the best models of {target}")
    models = {name: valid.fit(families[name]) for name in SHOWN}
    in_folds = replace(valid, counts=splits.folded)
    calibrated = {name: in_folds.fit(families[name]) for name in ("backoff", "selective")}
    backoff.sort(key=lambda trial: trial == families["backoff"])  # the best comes last, before the smaller ones
    cells = (plain, *all_used, *tried, *backoff, *smaller, *smoothed)
    return {
        "cells": [_cell(trial, test_f1.get(trial)) for trial in cells],
        "chosen": [{"family": name, **_cell(trial, test_f1[trial])} for name, trial in families.items()],
        "rooms": [
            {
                "criterion": trial.criterion or "all used", "size": trial.size or 0,
                "bytes": valid.fit(trial).nbytes, "test_f1": test_f1[trial],
            }
            for trial in curves
            if trial.criterion in (families["selective"].criterion, None)
        ],
        **_evaluate(config, models, calibrated, splits, target),
        "lam0": models["all used lam*"].lam0,
        "articles": [_boundary_scores(models["backoff"], article["items"]) for article in articles],
    }  # fmt: skip


def _best_by(trials: Iterable[Trial], key: Callable[[Trial], Any]) -> list[Trial]:
    """Return the best trial of each group."""
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(key(trial), []).append(trial)
    return [choose(group) for group in groups.values()]


def _cell(trial: Trial, test_f1: float | None) -> dict[str, Any]:
    """Return a trial on validation and its F1 on test, the way the results hold it."""
    names = ("target", "estimator", "criterion", "size", "lam", "tau", "longest", "shapes", "bytes")
    return {**{name: getattr(trial, name) for name in names}, "valid_f1": trial.f1, "test_f1": test_f1}


def _evaluate(
    config: Config, models: dict[str, Model], calibrated: dict[str, Model], splits: Splits, target: str
) -> dict[str, Any]:
    """Evaluate models on the test N-grams, and measure the time to score these and the bytes that each model takes.

    Times are processor seconds, since other targets run beside. `calibration` holds what the pictures show of some of
    the models, plain and calibrated.
    """
    frequencies = type_frequencies(splits.test, target, config.denominator)
    texts = splits.test.whole_ngrams().texts(config.kind)
    evaluations, costs, drawn = {}, {}, {}
    in_folds = {f"{name}, calibrated": model for name, model in calibrated.items() if model.calibration}
    for name, model in {**models, **in_folds}.items():
        codes = types_for(model, splits.test)
        scores = model.log_ratio(codes)
        evaluation = _six_digits(evaluate_scores(scores, frequencies, config.k, target, splits.seen).to_dict())
        if name in models:
            evaluations[name] = evaluation
            costs[name] = {
                "ngrams": len(codes),
                "seconds": _mean_seconds(model, codes, RUNS),
                "seconds_from_text": _mean_seconds(model, texts, RUNS_FROM_TEXT),
                "bytes": model.nbytes,
                "frequencies": sum(model.sizes),
                "items": len(model.items),
            }
        if name in calibrated or name in in_folds:
            drawn[name] = {**_six_digits(_curves(scores, *frequencies)), "measures": evaluation["calibration"]}
    return {"evaluations": evaluations, "costs": costs, "calibration": drawn}


def _curves(scores: Floats, f_nu: Ints, f_de: Ints) -> dict[str, Any]:
    """Return the points of the pictures of how right log ratios are."""
    occurrences = cllr.aggregate_ties(scores, f_nu, f_de)
    return {
        "bins": cllr.bins(occurrences),
        "tippett": dict(zip(("log10_ratio", "targets", "others"), cllr.tippett(occurrences), strict=True)),
        "pav": dict(zip(("low", "high", "after"), cllr.pav_curve(occurrences), strict=True)),
    }


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


# --- tables ------------------------------------------------------------------------------------------------------
def table_1() -> list[dict[str, float]]:
    """Compute the paper's Table I."""
    n_de, n_nu, lam = 10**7, 10**4, 1e-5
    return [
        {
            "n_de": n_de, "f_de": f_de, "n_nu": n_nu, "f_nu": f_nu,
            "mle": float(ratios.mle(f_nu, n_nu, f_de, n_de)),
            "direct": float(ratios.direct(f_nu, n_nu, f_de, n_de, lam)),
        }
        for f_de, f_nu in ((2000, 100), (20, 1), (20, 2), (6, 0))
    ]  # fmt: skip


def _table_2(splits: Splits) -> list[dict[str, Any]]:
    """Count types and contexts of each part and target, and the test N-grams that were never seen in training."""
    rows = []
    for name in SPLITS:
        counts: Counts = getattr(splits, name)
        for column, target in enumerate(("all", *counts.targets)):
            here = counts.whole_rows.values[:, column] > 0
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

"""The paper's experiment: split, count, tune, score, evaluate; the results as plain data.

Whatever is chosen is chosen on validation data. The one exception is the size that the paper reads off the test
curve: it is shown beside the honest choice, and called so.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.atomic import atomic_path
from raregram.corpus.documents import Options
from raregram.corpus.formats import read_documents
from raregram.corpus.formats.tables import documents_table
from raregram.corpus.standoff import tagged_reuters
from raregram.counts.count import count
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, check_count, check_lam, must_be, shorten
from raregram.measure.evaluate import Evaluation, evaluate, training_frequency, types_for
from raregram.measure.tune import CRITERIA, LAMS, SIZES, Cell, Grid, choose
from raregram.models import ratios
from raregram.models.model import Model
from raregram.show.heatmap import all_boundaries, split_text

SPLITS = ("train", "valid", "test")
RUNS = 10  # of scoring, for its mean time
RUNS_FROM_TEXT = 3
ROOM = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)  # bytes that a back-off model may take
ONE_MB = 1_000_000
ARTICLES = 3  # test documents that the report shows in colours,
ARTICLE_ITEMS = (40, 160)  # neither short nor long

LISTS = ("targets", "criteria", "sizes", "lams", "worths", "taus")  # settings that are lists,
TEXTS = ("corpus", "format", "split", "side", "kind", "targets", "denominator", "unseen", "criteria")  # or text

Say = Callable[[str], None]


@dataclass(frozen=True)
class Config:
    """An experiment. The default is the paper's, on Reuters-21578."""

    corpus: str | tuple[str, ...] = "reuters"  # or paths of tagged documents in any format
    format: str | None = None  # of those; None: it is recognised
    split: str = "file"  # what a document is in running text
    seed: int = 0
    train: int = 10_000  # documents
    valid: int = 3_000
    test: int = 3_000
    n: int = 10
    side: str = "left"
    kind: str = "words"
    targets: tuple[str, ...] = ("LOC", "PER")
    denominator: str = "complement"
    unseen: str = "neutral"
    k: int = 8_000
    criteria: tuple[str, ...] = CRITERIA
    sizes: tuple[int, ...] = SIZES
    lams: tuple[float, ...] = LAMS
    suffixes: int = 5  # the longest of the back-off estimator, of items
    shapes: int = 8  # and of shapes
    worths: tuple[float, ...] = (6.0, 12.0, 24.0)  # its lam times n_de
    taus: tuple[float, ...] = (0.4, 0.5, 0.6)

    def __post_init__(self) -> None:
        """Raise `ParameterError` for whatever cannot be."""
        for name in ("train", "valid", "test", "n", "k", "suffixes", "shapes"):
            check_count(name, "an experiment", getattr(self, name))
        check_count("seed", "an experiment", self.seed, at_least=0)
        for name in LISTS:
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise must_be(name, "an experiment", "a list with something in it", getattr(self, name))
        for name in TEXTS:
            given = getattr(self, name)
            if not all(isinstance(text, str | None) for text in (given if isinstance(given, tuple) else [given])):
                raise must_be(name, "an experiment", "text", given)
        for size in self.sizes:
            check_count("sizes", "an experiment", size)
        for name in ("lams", "worths", "taus"):
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


def run(config: Config, corpus: pa.Table, work: Path, say: Say = lambda text: None) -> dict[str, Any]:
    """Run an experiment on a table of documents (`id`, `text` or `items`, `spans`); return its results as plain data.

    Args:
        config: the settings.
        corpus: the tagged documents.
        work: a folder for what is finished, so that an interrupted run goes on from there.
        say: told what is being done.
    """
    splits = count_splits(config, corpus, work, say)
    articles = choose_articles(config, split_corpus(config, corpus)["test"])
    per_target = {target: _run_target(config, target, splits, articles, work, say) for target in config.targets}
    cells = [cell for result in per_target.values() for cell in result.pop("cells")]
    return {
        "config": asdict(config),
        "versions": {name: version(name) for name in ("raregram", "numpy", "pyarrow")},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "inputs": {name: getattr(splits, name).digest() for name in SPLITS},
        "table_1": table_1(),
        "table_2": _table_2(splits),
        "cells": cells,
        "chosen": [entry for result in per_target.values() for entry in result.pop("chosen")],
        "articles": articles,
        "targets": per_target,
    }


def count_splits(config: Config, corpus: pa.Table, work: Path, say: Say = lambda text: None) -> Splits:
    """Split a corpus and count its parts."""
    return Splits(*(_counted(config, part, name, work, say) for name, part in split_corpus(config, corpus).items()))


def load_corpus(config: Config) -> pa.Table:
    """Return the documents of an experiment as a table: `text` or `items`, and `spans`."""
    if config.corpus == "reuters":
        return tagged_reuters()
    sources = [config.corpus] if isinstance(config.corpus, str) else list(config.corpus)
    options = Options(format=config.format, split=config.split)
    parts = [documents_table(batch) for batch in read_documents(sources, options)]
    if not parts:
        raise InputError(f"there is no document in {', '.join(sources)}")
    if len({part.schema for part in parts}) > 1:
        raise InputError(f"some documents in {', '.join(sources)} are texts and some lists of items: make them one")
    return pa.concat_tables(parts)


def table_1() -> list[dict[str, float]]:
    """Compute the paper's Table I."""
    rows = ((10**7, 2000, 10**4, 100), (10**7, 20, 10**4, 1), (10**7, 20, 10**4, 2), (10**7, 6, 10**4, 0))
    return [
        {
            "n_de": n_de,
            "f_de": f_de,
            "n_nu": n_nu,
            "f_nu": f_nu,
            "mle": float(ratios.mle(f_nu, n_nu, f_de, n_de)),
            "direct": float(ratios.direct(f_nu, n_nu, f_de, n_de, 1e-5)),
        }
        for n_de, f_de, n_nu, f_nu in rows
    ]


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


def _counted(config: Config, documents: pa.Table, name: str, work: Path, say: Say) -> Counts:
    """Count a part of the corpus, or load what an earlier run has counted."""
    path = work / f"{name}.counts"
    longer = (f"suffixes:{config.suffixes}", f"shapes:{config.shapes}")
    if not path.exists():
        say(f"counting {len(documents):,} {name} documents")
        count(
            documents,
            n=config.n,
            side=config.side,
            kind=config.kind,
            targets=config.targets,
            spans=["units", "whole", *(longer if name == "train" else ())],
        ).save(path)
    return Counts.load(path)


def choose_articles(config: Config, test: pa.Table) -> list[dict[str, Any]]:
    """Return the first test documents of a middling length with the most targets: their items, and what is where."""
    low, high = ARTICLE_ITEMS
    found = []
    for row in test.to_pylist():
        items = row["items"] if "items" in row else split_text(row["text"], config.kind).to_pylist()
        place = "start" if config.side == "left" else "end"
        names = {str(span[place]): span["label"] for span in row["spans"] or [] if span["label"] in config.targets}
        if len(items) <= high:
            found.append({"items": items, "names": names})
    found.sort(key=lambda article: (len(article["items"]) < low, -len({*article["names"].values()})))
    return found[:ARTICLES]  # of those that are as good, the first


def _run_target(
    config: Config, target: str, splits: Splits, articles: list[dict[str, Any]], work: Path, say: Say
) -> dict[str, Any]:
    """Tune, choose, score and evaluate for one target."""
    valid, test = (
        Grid(splits.train, target, contexts, config.denominator, config.unseen, config.seed, config.k)
        for contexts in (splits.valid, splits.test)
    )
    valid.check()
    number = config.targets.index(target)  # a name may hold what no file name can
    say(f"tuning {target}: {len(config.criteria)} criteria x {len(config.sizes)} sizes x {len(config.lams)} lam")
    tried = _stored(work / f"{number}-valid.json", lambda: _all_cells(valid, config))
    plain, *with_ridge = tried
    curves = _best_by(with_ridge, lambda cell: (cell.estimator, cell.criterion, cell.size))
    say(f"scoring {target} on test")
    scored = _stored(work / f"{number}-test.json", lambda: _same_cells(test, [plain, *curves]))
    test_f1 = {_setting(cell): cell.f1 for cell in scored}
    families = _families(curves, plain, test_f1)
    best = {name: test.fit(cell) for name, cell in families.items() if name in SHOWN_FAMILIES}
    backoff = _run_backoff(config, valid, test, work, say)
    best |= backoff.models
    evaluations = {
        name: evaluate(model, splits.test, k=config.k, training=splits.train) for name, model in best.items()
    }
    return {
        "cells": [
            *({**_named(cell), "valid_f1": cell.f1, "test_f1": test_f1.get(_setting(cell))} for cell in tried),
            *backoff.cells,
        ],
        "chosen": [
            *(
                {"family": name, **_named(cell), "valid_f1": cell.f1, "test_f1": test_f1[_setting(cell)]}
                for name, cell in families.items()
            ),
            *backoff.chosen,
        ],
        "rooms": _rooms(valid, curves, families["selective"], test_f1),
        "evaluations": {name: _as_plain(evaluation) for name, evaluation in evaluations.items()},
        "costs": {name: _cost(model, splits.test) for name, model in best.items()},
        "lam0": best["all used lam*"].lam0,
        "articles": [_coloured(best["backoff"], article["items"]) for article in articles],
    }


def _coloured(model: Model, items: list[str]) -> list[float | None]:
    """Return the log ratio at every boundary, short enough to be stored."""
    scores = all_boundaries(model, pa.array(items, pa.string()))
    return [None if score is None else round(score, 3) for score in scores]


@dataclass(frozen=True)
class BackoffResults:
    """What the back-off estimator did."""

    cells: list[dict[str, Any]]
    chosen: list[dict[str, Any]]
    models: dict[str, Model]


def _run_backoff(config: Config, valid: Grid, test: Grid, work: Path, say: Say) -> BackoffResults:
    """Tune the back-off estimator on validation, then measure it on test at every size and room."""
    target = valid.target
    say(f"tuning the back-off estimator for {target}: {len(config.worths)} lam x {len(config.taus)} tau, and less")
    path = work / f"{config.targets.index(target)}-backoff.json"
    tried = _stored(path, lambda: list(valid.backoff(config.worths, config.taus)))
    best = choose(tried)
    say(f"scoring the back-off estimator for {target} on test")
    limits: list[dict[str, Any]] = [{}, *({"size": size} for size in config.sizes), *({"max_bytes": b} for b in ROOM)]
    cells = [{**_named(cell), "valid_f1": cell.f1, "test_f1": None} for cell in tried if cell != best]
    models = {}
    for limit in limits:
        model = valid.fit(replace(best, **limit))
        cell, test_f1 = valid.measure(model), test.measure(model).f1
        cells.append({**_named(cell), "valid_f1": cell.f1, "test_f1": test_f1})
        if limit == {}:
            models["backoff"] = model
        elif limit.get("max_bytes") == ONE_MB:
            models["backoff, 1 MB"] = model
    scored = {(cell["size"], cell["max_bytes"]): cell for cell in cells if cell["test_f1"] is not None}
    shown = {"backoff": (None, None), "backoff, 1 MB": (None, ONE_MB)}
    chosen = [{"family": name, **scored[limit]} for name, limit in shown.items()]
    return BackoffResults(cells, chosen, models)


def _rooms(
    grid: Grid, curves: Sequence[Cell], best: Cell, test_f1: dict[Any, float]
) -> list[dict[str, float | int | str]]:
    """Return how much room the models of the best criterion take at every size, and all used."""
    shown = [cell for cell in curves if cell.criterion in (best.criterion, None)]
    return [
        {
            "criterion": cell.criterion or "all used",
            "size": cell.size or 0,
            "bytes": grid.fit(cell).nbytes,
            "test_f1": test_f1[_setting(cell)],
        }
        for cell in shown
    ]


SHOWN_FAMILIES = ("all used lam=0", "all used lam*", "selective", "selective, size read off the test curve")


def _all_cells(grid: Grid, config: Config) -> list[Cell]:
    """Measure all used without a ridge, then the whole grid."""
    return [*grid.all_used((0.0, *config.lams)), *grid.cells(config.criteria, config.sizes, config.lams)]


def _same_cells(grid: Grid, cells: Sequence[Cell]) -> list[Cell]:
    """Measure some settings on other contexts."""
    wanted = {_setting(cell) for cell in cells}
    found = list(grid.all_used([cell.lam for cell in cells if cell.criterion is None]))
    for criterion in dict.fromkeys(cell.criterion for cell in cells if cell.criterion is not None):
        lams = dict.fromkeys(cell.lam for cell in cells if cell.criterion == criterion)
        sizes = [cell.size for cell in cells if cell.criterion == criterion and cell.size is not None]
        found += [cell for cell in grid.cells((criterion,), sizes, tuple(lams)) if _setting(cell) in wanted]
    return found


def _best_by(cells: Sequence[Cell], key: Callable[[Cell], Any]) -> list[Cell]:
    """Return the best cell of each group."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return [choose(group) for group in groups.values()]


def _families(curves: Sequence[Cell], plain: Cell, test_f1: dict[Any, float]) -> dict[str, Cell]:
    """Return the cell that stands for each family of estimators."""
    selective = [cell for cell in curves if cell.estimator == "selective"]
    by_criterion = _best_by(selective, lambda cell: cell.criterion)
    return {
        "all used lam=0": plain,
        "all used lam*": next(cell for cell in curves if cell.estimator == "product"),
        **{f"selective {cell.criterion}": cell for cell in by_criterion},
        "selective": choose(selective),
        "selective, size read off the test curve": max(selective, key=lambda cell: test_f1[_setting(cell)]),
    }


def _setting(cell: Cell) -> tuple[str, str | None, int | None, float]:
    return cell.estimator, cell.criterion, cell.size, cell.lam


def _named(cell: Cell) -> dict[str, Any]:
    return {name: value for name, value in asdict(cell).items() if name != "f1"}


def _as_plain(evaluation: Evaluation) -> dict[str, Any]:
    plain = evaluation.to_dict()
    return {**plain, "recalls": [round(value, 6) for value in plain["recalls"]]}


def _cost(model: Model, test: Counts) -> dict[str, Any]:
    """Measure the time to score all test N-grams, the mean of several runs, and the bytes that the model holds."""
    numbers = types_for(model, test)
    texts = test.whole_ngrams().texts(test.kind)
    from_numbers = [_seconds(model, numbers) for _ in range(RUNS)]
    from_text = [_seconds(model, texts) for _ in range(RUNS_FROM_TEXT)]
    return {
        "ngrams": len(numbers),
        "seconds": sum(from_numbers) / RUNS,
        "seconds_from_text": sum(from_text) / RUNS_FROM_TEXT,
        "bytes": model.nbytes,
        "frequencies": sum(model.sizes),
        "items": len(model.items),
    }


def _seconds(model: Model, ngrams: Any) -> float:
    start = time.perf_counter()
    model.log_ratio(ngrams)
    return time.perf_counter() - start


def _table_2(splits: Splits) -> list[dict[str, Any]]:
    """Count types and contexts of each part and target, and the test N-grams that were never seen in training."""
    unseen = training_frequency(splits.test, splits.train) == 0
    rows = []
    for name in SPLITS:
        counts: Counts = getattr(splits, name)
        values = counts.rows[counts.whole].values
        for column, target in enumerate(("all", *counts.targets)):
            here = values[:, column] > 0
            row = {"split": name, "target": target, "types": int(here.sum()), "contexts": int(counts.totals[column])}
            if name == "test":
                row["unseen_share"] = float(unseen[here].mean()) if here.any() else 0.0
            rows.append(row)
    return rows


def _stored(path: Path, measure: Callable[[], list[Cell]]) -> list[Cell]:
    """Return cells that an earlier run has measured, or measure them now and keep them."""
    if not path.exists():
        cells = measure()
        with atomic_path(path) as draft:
            draft.write_text(json.dumps([asdict(cell) for cell in cells]))
    return [Cell(**cell) for cell in json.loads(path.read_text())]


def processor() -> str:
    """Name the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

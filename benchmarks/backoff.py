"""The back-off estimator beside the paper's best and logistic regression: accuracy, fit time, size and speed.

    python benchmarks/backoff.py [--seeds 0,1,2] [--out build/backoff.json]

Everything is chosen on the validation part of each split and reported on its test part. Logistic regression takes
most of the time, about ten minutes a seed; what is done is kept in the file, and a second run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import raregram as rg
from raregram.contexts import number_items
from raregram.evaluation import correct_types, f1_score, top_hits, types_for
from raregram.experiment import Config, Splits, count_splits, load_corpus
from raregram.tuning import Grid, choose

LENGTHS = (2, 3, 4)  # suffixes that logistic regression gets beside the units
STRENGTHS = (0.3, 1.0)
ONE_MB = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=Path("build/backoff.json"))
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    done = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    seeds = arguments.seeds.split(",")
    for seed in seeds:
        config = Config(seed=int(seed))
        with tempfile.TemporaryDirectory() as folder:
            splits = count_splits(config, load_corpus(config), Path(folder))
            for target in config.targets:
                for name, measure in (("ours", ours), ("regression", regression)):
                    key = f"{seed} {target} {name}"
                    if key not in done:
                        done[key] = measure(config, splits, target)
                        arguments.out.parent.mkdir(parents=True, exist_ok=True)
                        arguments.out.write_text(json.dumps(done, indent=1))
                    print(key, json.dumps(done[key]), flush=True)
    for target in Config().targets:
        summary(target, [done[f"{seed} {target} ours"] | done[f"{seed} {target} regression"] for seed in seeds])


def ours(config: Config, splits: Splits, target: str) -> dict[str, Any]:
    """Tune the paper's estimators and ours, and measure the best of each on test."""
    valid, test = (Grid(splits.train, target, part, k=config.k) for part in (splits.valid, splits.test))
    paper = choose([*valid.cells(config.criteria, config.sizes, config.lams), *valid.all_used(config.lams)])
    best = choose(list(valid.backoff(config.worths, config.taus)))
    start = time.perf_counter()
    model = valid.fit(best)
    fitted = time.perf_counter() - start
    plain = rg.fit(splits.train, target, "backoff")
    small = valid.fit(replace(best, max_bytes=ONE_MB))
    texts = splits.test.whole_ngrams().texts("words")
    return {
        "paper_test": f1(test.fit(paper), splits, target, config.k),
        "backoff_valid": best.f1,
        "backoff_test": f1(model, splits, target, config.k),
        "default_test": f1(plain, splits, target, config.k),
        "small_test": f1(small, splits, target, config.k),
        "bytes": model.nbytes,
        "small_bytes": small.nbytes,
        "fit_seconds": fitted,
        "from_text": len(texts) / min(seconds_of(model, texts) for _ in range(5)),
        "small_from_text": len(texts) / min(seconds_of(small, texts) for _ in range(5)),
    }


def regression(config: Config, splits: Splits, target: str) -> dict[str, Any]:
    """Fit logistic regression to one-hot units, and to units and suffixes; choose on validation."""
    found: list[dict[str, Any]] = []
    for name, lengths in (("units", ()), ("units and suffixes", LENGTHS)):
        start = time.perf_counter()
        train, labels, valid, test = matrices(splits, target, lengths)
        encoded = time.perf_counter() - start
        for strength in STRENGTHS:
            start = time.perf_counter()
            fitted = LogisticRegression(C=strength, solver="liblinear").fit(train[0], labels, sample_weight=train[1])
            seconds = time.perf_counter() - start
            scores = {part: fitted.decision_function(x) for part, x in (("valid", valid), ("test", test))}
            values = {
                f"regression_{part}": measured(score, getattr(splits, part), target, config.k)
                for part, score in scores.items()
            }
            found.append({**values, "features": name, "C": strength, "regression_seconds": seconds,
                          "encoding_seconds": encoded, "coefficients": int(fitted.coef_.size)})  # fmt: skip
            print("   ", found[-1], flush=True)
    return dict(max(found, key=lambda entry: entry["regression_valid"]))


def matrices(splits: Splits, target: str, lengths: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Return one-hot matrices; training N-grams stand there as types, once for each class, with their frequencies."""
    train = splits.train
    rows = train.rows[train.whole]
    f_nu = rows.values[:, train.column(target)]
    f_de = rows.values[:, 0] - f_nu
    parts = [rows.keys.astype(np.int64)]
    for other in (splits.valid, splits.test):
        parts.append(number_items(other.items, train.items)[other.rows[other.whole].keys].astype(np.int64))
    keys = np.concatenate(parts)
    columns, width = [], 0
    for span in [(k, k + 1) for k in range(train.n)] + [(train.n - length, train.n) for length in lengths]:
        number = keys[:, span[0]] + 1
        for k in range(span[0] + 1, span[1]):
            _, number = np.unique(number * (len(train.items) + 1) + keys[:, k] + 1, return_inverse=True)
        seen = np.zeros(int(number.max()) + 1, dtype=bool)
        seen[number[: len(rows)]] = True
        column = (np.cumsum(seen) - 1 + width)[number]
        columns.append(np.where(seen[number], column, -1))
        width += int(seen.sum())
    table = np.column_stack(columns)
    there = table >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    one_hot = sp.csr_matrix((np.ones(int(there.sum())), table[there], indptr), shape=(len(table), width))
    positive, negative = np.flatnonzero(f_nu), np.flatnonzero(f_de)
    chosen = np.concatenate([positive, negative])
    labels = np.arange(len(chosen)) < len(positive)
    weights = np.concatenate([f_nu[positive], f_de[negative]]).astype(float)
    bounds = np.cumsum([len(part) for part in parts])
    return (one_hot[chosen], weights), labels, one_hot[bounds[0] : bounds[1]], one_hot[bounds[1] :]


def f1(model: rg.Model, splits: Splits, target: str, k: int) -> float:
    return measured(model.log_ratio(types_for(model, splits.test)), splits.test, target, k)


def measured(scores: Any, documents: rg.Counts, target: str, k: int) -> float:
    correct = correct_types(documents, target)
    return f1_score(top_hits(scores, correct, k), k, int(correct.sum()))


def seconds_of(model: rg.Model, texts: pa.Array) -> float:
    start = time.perf_counter()
    model.log_ratio(texts)
    return time.perf_counter() - start


def summary(target: str, runs: list[dict[str, Any]]) -> None:
    """Print the means over the seeds."""
    mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0] if name not in ("features",)}
    wanted = {"LOC": "at least 1.5", "PER": "at least 1.33"}.get(target, "")
    show(f"{target}: F1 of back-off, tuned on validation", f"{mean['backoff_test']:.4f}")
    show("  with the default settings", f"{mean['default_test']:.4f}")
    show("  over the paper's best", f"{mean['backoff_test'] / mean['paper_test']:.3f}", wanted)
    show("  over logistic regression", f"{mean['backoff_test'] / mean['regression_test']:.3f}", "at least 1.08")
    show("  kept in 1 MB", f"{mean['small_test'] / mean['backoff_test']:.3f}", "at least 0.95")
    share = mean["fit_seconds"] / mean["regression_seconds"]
    show("  fit time over that of logistic regression", f"1/{1 / share:.0f}", "under 1/20")
    show("  bytes", f"{mean['bytes'] / 1e6:.1f} MB", f"{mean['coefficients'] * 8 / 1e6:.0f} MB of coefficients")
    show("  10-grams a second from text, one core", f"{mean['from_text'] / 1e6:.2f} million", "at least 1 million")
    show("  the same in 1 MB", f"{mean['small_from_text'] / 1e6:.2f} million", "at least 1 million")


def show(what: str, figure: str, target: str = "") -> None:
    print(f"{what:<56}{figure:>18}   {target}", flush=True)


if __name__ == "__main__":
    main()

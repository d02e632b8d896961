"""Evaluation and tuning against slow, obvious implementations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import raregram as rg
from conftest import corpora
from raregram import options
from raregram.cli.experiments import heat_map
from raregram.errors import InputError
from raregram.measure import evaluate as evaluation
from raregram.measure import tune as tuning
from raregram.measure.evaluate import evaluate, f1_score, ranking, top_hits

RAREGRAM = Path(sys.executable).with_name("raregram")


def count(corpus, spans=("units", "whole")):
    return rg.Counts.from_contexts(*corpus, targets=["LOC", "PER"], spans=spans)


def tagged_texts(number):
    """Texts in which two of three words after "in" are places."""
    rng = np.random.default_rng(1)
    documents = []
    for _ in range(number):
        words = rng.choice(["in", "at", "x", "y", "z", "w"], 30).tolist()
        spans = [(i, i + 1, "LOC") for i in range(2, 30) if words[i - 1] == "in" and i % 3]
        documents.append({"text": " ".join(words), "spans": spans})
    return documents


SCORES = st.lists(st.tuples(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf, np.nan]), st.booleans()), min_size=1)


@given(SCORES, st.integers(1, 12))
def test_top_hits_are_the_head_of_the_ranking(scored, k):
    scores, correct = (np.array(column) for column in zip(*scored, strict=True))
    by_hand = sorted(range(len(scores)), key=lambda i: (np.isnan(scores[i]), -np.nan_to_num(scores[i]), i))
    assert ranking(scores).tolist() == by_hand
    assert top_hits(scores, correct, k) == sum(correct[i] for i in by_hand[:k])


@given(SCORES.filter(lambda scored: any(right for _, right in scored)))
def test_average_precision_is_scikit_learn_s_where_there_are_no_ties(scored):
    correct = np.array([right for _, right in scored])
    scores = -np.arange(len(scored), dtype=float)
    measured = evaluation.ranking_metrics(ranking(scores), correct, np.ones(len(scored), bool))
    assert measured.average_precision == pytest.approx(average_precision_score(correct, scores))


def naive_f1(model, contexts, target, k):
    """Score every type as text, sort with Python, and count."""
    items = contexts.items.to_pylist()
    part = contexts.whole_rows
    texts = [" ".join(items[number] for number in key) for key in part.keys.tolist()]
    correct = part.values[:, contexts.column(target)] > 0
    scores = model.log_ratio([text.split(" ") for text in texts])
    order = sorted(range(len(texts)), key=lambda i: (-scores[i], texts[i].encode()))[:k]
    hits = sum(correct[i] for i in order)
    precision, recall = hits / len(order), hits / correct.sum()
    return 2 * precision * recall / (precision + recall) if hits else 0.0


@settings(max_examples=60)
@given(
    corpora(n=3, min_size=4), corpora(n=3, min_size=2), st.integers(1, 12), st.sampled_from(["complement", "all"]),
    st.sampled_from(["neutral", "formula"]),
)  # fmt: skip
def test_the_grid_equals_fitting_and_ranking_each_cell(train, valid, k, denominator, unseen):
    counts, contexts = count(train), count(valid)
    assume(0 < counts.sizes("LOC")[0] < counts.totals[0])
    assume(contexts.sizes("LOC")[0])
    grid = tuning.Grid(counts, "LOC", contexts, denominator, unseen, seed=3, k=k)
    cells = [*grid.selective(options.CRITERIA, [2, 1, 50], [0.0, 1e-3]), *grid.all_used([0.0, 1e-3])]
    assert len(cells) == len(options.CRITERIA) * 3 * 2 + 2
    for cell in cells:
        model = grid.fit(cell)
        assert cell.f1 == pytest.approx(naive_f1(model, contexts, "LOC", k), abs=1e-12), cell
        assert cell.f1 == evaluate(model, contexts, k=k).overall.f1


def test_ties_go_to_the_larger_lam_then_to_the_smaller_size():
    cells = [
        tuning.Trial("T", "selective", "cet", size, lam, f1)
        for size, lam, f1 in [(100, 1e-3, 0.5), (100, 1e-2, 0.5), (50, 1e-2, 0.5), (10, 1e-1, 0.4)]
    ]
    assert tuning.choose(cells) == cells[2]


def test_bands_split_the_types_by_their_training_frequency(counts, corpus):
    contexts, labels = corpus
    # The first hundred again, and one context that was never seen.
    fresh = rg.Counts.from_contexts(
        [*contexts[:100], "never was here at"], [*labels[:100], "LOC"], targets=["LOC", "PER"], spans=["whole"]
    )
    model = rg.fit(counts, "LOC", "product")
    result = evaluate(model, fresh, k=20, training=counts)
    assert result.bands["0"].types == result.bands["0"].relevant == 1
    assert sum(band.types for band in result.bands.values()) == result.overall.types
    assert sum(band.hits for band in result.bands.values()) == result.overall.hits
    assert sum(band.returned for band in result.bands.values()) == 20
    seen = evaluation.training_frequency(fresh, counts)
    naive = [contexts.count(" ".join(fresh.items[n].as_py() for n in key)) for key in fresh.whole_rows.keys.tolist()]
    assert seen.tolist() == naive


def test_k_larger_than_the_number_of_types_returns_all(counts):
    model = rg.fit(counts, "LOC", "product")
    result = evaluate(model, counts, k=10**6)
    assert result.overall.returned == result.overall.types
    assert result.overall.recall == 1
    assert result.recalls[-1] == 1
    assert result.ranks[-1] == result.overall.types
    assert (np.diff(result.recalls) >= 0).all()


def test_a_target_without_occurrences_measures_zero(counts, corpus):
    fresh = rg.Counts.from_contexts(corpus[0][:50], [None] * 50, targets=["LOC", "PER"], spans=["whole"])
    measured = evaluate(rg.fit(counts, "LOC"), fresh, k=5).overall
    assert (measured.relevant, measured.hits, measured.f1, measured.average_precision) == (0, 0, 0, 0)
    with pytest.raises(InputError, match="'LOC' never occurs in the validation documents"):
        tuning.Grid(counts, "LOC", fresh).check()
    assert {cell.f1 for cell in tuning.Grid(counts, "LOC", fresh).selective(["cet"], [5], [1e-3])} == {0.0}


def test_f1_by_hand():
    assert f1_score(hits=3, returned=10, relevant=6) == pytest.approx(2 * 0.3 * 0.5 / 0.8)
    assert f1_score(0, 0, 0) == 0


@pytest.mark.parametrize(("estimator", "denominator"), [("backoff", "complement"), ("selective", "all")])
def test_the_lowest_cllr_wins(counts, corpus, estimator, denominator):
    contexts, labels = corpus
    valid = rg.Counts.from_contexts(contexts[:300], labels[:300], targets=["LOC", "PER"], spans=["whole"])
    grids = {"sizes": (2, 50), "lams": (1e-3, 1e-1), "criteria": ("cet",), "priors": (6.0, 24.0), "taus": (0.4,)}
    tuned = rg.tune(counts, valid, "LOC", estimator, by="cllr", denominator=denominator, **grids)
    costs = [trial.cllr for trial in tuned.trials]
    assert tuned.best.cllr == tuned.best.value == min(costs) < max(costs)
    assert tuned.results["cllr"].to_pylist() == sorted(costs)
    assert evaluate(tuned.model, valid).calibration["all"].cllr == pytest.approx(tuned.best.cllr, abs=1e-12)
    drawn = heat_map(list(tuned.trials))
    assert f"{min(costs):.4f}" in drawn
    assert "-0." not in drawn


@pytest.mark.parametrize("by", ["cllr", "average-precision", "f1"])
@pytest.mark.parametrize("estimator", ["backoff", "selective"])
def test_what_is_said_of_the_best_is_measured_on_the_model_that_is_returned(estimator, by):
    """Of a table in folds the model is calibrated, and the settings are compared before that."""
    tagged = tagged_texts(60)
    grids = {"sizes": (2, 50), "lams": (1e-3,), "criteria": ("cet",), "priors": (6.0,), "taus": (0.4, 0.6)}
    for folds in (3, 0):
        counts = rg.count(tagged[:40], n=2, targets=["LOC"], folds=folds)
        tuned = rg.tune(counts, tagged[40:], "LOC", estimator, by=by, **grids)
        reached = evaluate(tuned.model, tagged[40:])
        measured = {
            "cllr": reached.calibration["all"].cllr,
            "average-precision": reached.overall.average_precision,
            "f1": reached.overall.f1,
        }
        assert tuned.best.value == pytest.approx(measured[by], abs=1e-12)
        assert tuned.best.f1 == pytest.approx(reached.overall.f1)
        assert (tuned.model.calibration is not None) == bool(folds)
        assert ("calibrated" in tuned.results.columns) == bool(folds)
        assert (tuned.best.calibrated, {trial.calibrated for trial in tuned.trials}) == (
            (True, {False}) if folds else (None, {None})
        )


def test_cllr_needs_other_contexts(counts, corpus):
    only = rg.Counts.from_contexts(corpus[0][:9], ["LOC"] * 9, targets=["LOC", "PER"], spans=["whole"])
    with pytest.raises(InputError, match="the validation documents have none"):
        rg.tune(counts, only, "LOC", by="cllr")


def test_the_commands_tune_and_evaluate(tmp_path):
    def run(*arguments, code=0):
        command = [RAREGRAM, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    documents = tagged_texts(60)
    (tmp_path / "valid.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents[40:]))
    rg.count(documents[:40], n=3, folds=3, spans=["units", "whole"]).save(tmp_path / "train.counts")
    grids = ("--estimator", "selective", "--sizes", "2,5", "--lams", "1e-4,1e-2")
    tune = ("tune", "train.counts", "valid.jsonl", *grids)
    said = run(*tune, "--by", "cllr", "--out", "c.rgm")
    cost = evaluate(rg.Model.load(tmp_path / "c.rgm"), documents[40:]).calibration["all"].cllr
    assert f"Cllr {cost:.4f}, F1 " in said
    assert "▓▓▓▓" in said
    assert "the best model is calibrated" in said
    found = json.loads(run(*tune, "--by", "f1", "--k", 20, "--out", "f.rgm", "--json"))
    assert found["best"]["calibrated"] is True
    measured = json.loads(run("evaluate", "f.rgm", "valid.jsonl", "--k", 20, "--training", "train.counts", "--json"))
    assert measured["overall"]["f1"] == found["best"]["f1"]
    assert set(measured["bands"]) == {"0", "1", "2-5", "more"}
    shown = run("evaluate", "f.rgm", "valid.jsonl", "--k", 20)
    assert f"{found['best']['f1']:.4f}" in shown
    assert "of it calibration loss" in shown
    assert "--sizes takes numbers" in run("tune", "train.counts", "valid.jsonl", "--sizes", "x", "--out", "y", code=2)

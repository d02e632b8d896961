"""The back-off estimator on the command line: fit, count, rank, score, explain and info."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import raregram as rg
from raregram import options
from raregram.models.explain import Explanation, Term
from raregram.models.selection import CRITERIA

SPANS = ["units", "suffixes:5", "shapes:8"]
BACKOFF = ["--target", "LOC", "--estimator", "backoff"]
UNIT_KINDS = ("item", "anywhere", "shape", "none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """A folder with contexts, a count file of them and a model."""
    folder = tmp_path_factory.mktemp("backoff")
    contexts, labels = corpus
    lines = [f"{label or 'O'}\t{context}\n" for context, label in zip(contexts, labels, strict=True)]
    (folder / "train.tsv").write_text("".join(lines))
    (folder / "new.txt").write_text("".join(f"{context}\n" for context in contexts[:100]))
    counts = rg.Counts.from_contexts(contexts, labels, spans=SPANS)
    counts.save(folder / "train.counts")
    rg.Counts.from_contexts(contexts, labels, spans=["units"]).save(folder / "units.counts")
    rg.fit(counts, "LOC", "backoff").save(folder / "loc.rgm")
    rg.fit(counts, "LOC", "product").save(folder / "product.rgm")
    whole = rg.Counts.from_contexts(contexts, labels, spans=["whole"])
    rg.fit(whole, "LOC", "mle").save(folder / "mle.rgm")
    return folder


@pytest.fixture
def run(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return run


def test_the_command_offers_the_criteria_of_the_library():
    assert get_args(options.SpanCriterion) == ("gain", *CRITERIA)


@pytest.mark.parametrize("source", ["train.tsv", "train.counts"])
def test_fit_counts_suffixes_and_shapes_and_has_the_defaults_of_the_library(run, folder, source):
    run("fit", source, *BACKOFF, "--out", "mine.rgm")
    facts = json.loads(run("info", "mine.rgm", "--json"))
    if source == "train.counts":  # then the model names the file's digest
        counts = rg.Counts.load(folder / source)
        assert facts["corpus"] == counts.digest()
        rg.fit(counts, "LOC", "backoff").save(folder / "named.rgm")
    expected = folder / ("named.rgm" if source == "train.counts" else "loc.rgm")
    assert (folder / "mine.rgm").read_bytes() == expected.read_bytes()
    assert (facts["criterion"], facts["size"], facts["tau"]) == ("gain", None, 0.5)
    assert facts["lam"] == 6 / facts["n_de"]
    assert facts["unit_lam"] == 10 * facts["lam"]
    assert (facts["longest"], facts["longest_shapes"], facts["shape"]) == (4, 4, "words")


def test_other_estimators_keep_their_defaults_and_ignore_what_is_for_back_off(run, folder):
    given = ["--tau", 0.1, "--unit-lam", 3, "--longest", 2, "--no-shapes"]
    run("fit", "train.tsv", "--target", "LOC", "--estimator", "selective", *given, "--out", "selective.rgm")
    facts = json.loads(run("info", "selective.rgm", "--json"))
    assert (facts["criterion"], facts["size"], facts["lam"]) == ("cet", 10_000, facts["lam0"])
    assert "tau" not in facts
    run("fit", "train.tsv", "--target", "LOC", "--estimator", "product", *given, "--out", "given.rgm")
    assert (folder / "given.rgm").read_bytes() == (folder / "product.rgm").read_bytes()


def test_options_reach_the_fit(run, folder, corpus):
    given = ["--tau", 0.25, "--lam", 0.01, "--unit-lam", 0.02, "--longest", 3, "--no-shapes"]
    run("fit", "train.tsv", *BACKOFF, *given, "--criterion", "cet", "--size", 7, "--out", "given.rgm")
    counts = rg.Counts.from_contexts(*corpus, spans=["units", "suffixes:3"])
    chosen = {"tau": 0.25, "lam": 0.01, "unit_lam": 0.02, "longest": 3, "criterion": "cet", "size": 7}
    model = rg.fit(counts, "LOC", "backoff", shapes=False, **chosen)
    np.testing.assert_array_equal(
        rg.Model.load(folder / "given.rgm").log_ratio(corpus[0]), model.log_ratio(corpus[0])
    )
    facts = json.loads(run("info", "given.rgm", "--json"))
    assert (facts["longest_shapes"], facts["size"]) == (0, 7)


def test_count_knows_shapes_of_contexts_and_of_documents(run, folder):
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "a.tsv").write_text("".join(lines[:300]))
    (folder / "b.tsv").write_text("".join(lines[300:]))
    for name in ("a", "b"):
        run("count", f"{name}.tsv", "--spans", ",".join(SPANS), "--out", f"{name}.counts")
    run("merge", "a.counts", "b.counts", "--out", "both.counts")
    assert (folder / "both.counts").read_bytes() == (folder / "train.counts").read_bytes()
    run("count", "a.counts", "b.tsv", "--spans", "suffixes:5,shapes:8", "--out", "mixed.counts")
    assert (folder / "mixed.counts").read_bytes() == (folder / "train.counts").read_bytes()
    shown = run("info", "both.counts")
    assert "shapes to 4" in shown
    facts = json.loads(run("info", "both.counts", "--json"))
    assert facts["distinct_items"] == 20  # the shapes are not among them
    assert facts["distinct_shapes"] > 0

    documents = [{"text": "She lives in Rome now", "spans": [[3, 4, "LOC"]]}]
    (folder / "d.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    run("count", "d.jsonl", "-n", 2, "--spans", "shapes:2", "--out", "d.counts")
    assert rg.Counts.load(folder / "d.counts").shape == "words"
    assert "shapes:LENGTH" in run("count", "--help")


WRONG_CALLS = [
    (
        "fit train.tsv -o never --estimator selective --criterion gain",
        "--criterion must be one of 'random', 'tf', 'cet'",
    ),
    ("fit train.tsv -o never --criterion best", "'gain', 'random'"),
    ("fit train.tsv -o never --tau 1.5", "--tau must be a number from 0 to 1. Got 1.5"),
    ("fit train.tsv -o never --lam 0", "--lam must be from 1e-30 to 1e+30 for the back-off"),
    ("fit nowhere -o never --unit-lam -1", "Invalid value for '--unit-lam'"),
    ("fit nowhere -o never --longest -1", "Invalid value for '--longest'"),
    ("fit units.counts -o never --longest 3 --no-shapes", "count again with the spans 'suffixes:3'"),
    ("fit units.counts -o never", "needs shapes, and this table counts none: count again with `raregram count"),
    ("fit units.counts -o never --no-shapes", "needs suffixes, and this table counts none: count again"),
    ("fit train.counts -o never --calibrate", "not counted in folds"),
    ("calibrate mle.rgm train.tsv -o never", "cannot be calibrated"),
    ("count train.tsv -o never --spans shapes", "'units', 'suffixes:LENGTH', 'shapes:LENGTH' and 'whole'"),
    ("count new.txt -o never --format text --memory-limit x", "--memory-limit must be a size such as"),
    ("rank loc.rgm new.txt -o never --by lower --level 2", "between 0 and 1. Got 2.0"),
    ("score loc.rgm new.txt -o never --interval --level 0", "between 0 and 1. Got 0.0"),
    ("rank mle.rgm new.txt -o never --by lower", "'mle' has no interval"),
    ("rank loc.rgm new.txt -o never --by upper", "'log-ratio', 'lower'"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_wrong_calls_exit_2_and_write_nothing(run, folder, call, message):
    target = BACKOFF[:2] if call.startswith("fit") else []
    assert message in " ".join(run(*call.split(), *target, code=2).split())
    assert not (folder / "never").exists()


def test_the_lower_end_ranks_what_was_seen_once_lower(run, folder, corpus):
    lines = ["LOC\tlives in"] * 60 + ["O\tlives in"] * 40 + ["LOC\tquux at"] + ["O\tsaid that"] * 900
    (folder / "chance.tsv").write_text("\n".join(lines) + "\n")
    run("fit", "chance.tsv", *BACKOFF, "--no-shapes", "--lam", 1e-3, "--out", "chance.rgm")
    plain = [line.split("\t") for line in run("rank", "chance.rgm", "chance.tsv").splitlines()]
    assert [row[-1] for row in plain] == ["quux at", "lives in", "said that"]
    shown = [line.split("\t") for line in run("rank", "chance.rgm", "chance.tsv", "--by", "lower").splitlines()]
    assert [row[-1] for row in shown] == ["lives in", "quux at", "said that"]
    assert [len(row) for row in shown] == [5, 5, 5]
    assert [row[0] for row in shown] == ["1", "2", "3"]

    model = rg.Model.load(folder / "chance.rgm")
    given = json.loads(run("rank", "chance.rgm", "chance.tsv", "--by", "lower", "--level", 0.5, "--json"))
    assert [list(row) for row in given] == [["rank", "lower", "log_ratio", "upper", "ngram"]] * 3
    ngrams = [row["ngram"] for row in given]
    assert [row["log_ratio"] for row in given] == model.log_ratio(ngrams).tolist()
    assert [[row["lower"], row["upper"]] for row in given] == model.interval(ngrams, 0.5).tolist()

    model = rg.Model.load(folder / "product.rgm")
    distinct = sorted(set(corpus[0]))
    lower = model.interval(distinct)[:, 0]
    best = [distinct[i] for i in np.lexsort((np.arange(len(distinct)), -lower))[:7]]
    given = json.loads(run("rank", "product.rgm", "train.tsv", "--by", "lower", "-k", 7, "--json"))
    assert [row["ngram"] for row in given] == best


def test_score_adds_the_ends_of_the_interval_in_every_format(run, folder, corpus):
    model = rg.Model.load(folder / "loc.rgm")
    log_ratio, ends = model.log_ratio(corpus[0][:100]), model.interval(corpus[0][:100], 0.8)
    given = ["--interval", "--level", 0.8]
    expected = [
        {"ngram": ngram, "lower": low, "upper": high, "log_ratio": ratio}
        for ngram, (low, high), ratio in zip(corpus[0], ends.tolist(), log_ratio.tolist(), strict=False)
    ]
    for name in ("scored.parquet", "scored.csv", "scored.jsonl", "scored.txt"):
        run("score", "loc.rgm", "new.txt", *given, "--out", name)
    assert pq.read_table(folder / "scored.parquet").to_pylist() == expected
    assert pyarrow.csv.read_csv(folder / "scored.csv").to_pylist() == expected
    assert [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()] == expected
    assert [
        json.loads(line) for line in run("score", "loc.rgm", "new.txt", *given, "--json").splitlines()
    ] == expected
    text = run("score", "loc.rgm", "new.txt", *given)
    assert (folder / "scored.txt").read_text() == text
    assert [line.split("\t")[3] for line in text.splitlines()] == corpus[0][:100]
    numbers = [[float(number) for number in line.split("\t")[:3]] for line in text.splitlines()]
    assert numbers == np.column_stack([log_ratio, ends]).round(4).tolist()

    labelled = run("score", "loc.rgm", "train.tsv", *given).splitlines()[0].split("\t")
    assert labelled[3:] == (folder / "train.tsv").read_text().splitlines()[0].split("\t")
    assert "scored.parquet has a column 'log_ratio'" in run(
        "score", "loc.rgm", "scored.parquet", *given, "--json", code=2
    )
    again = run("score", "loc.rgm", "scored.parquet", *given, "--as", "per", "--json").splitlines()
    assert [json.loads(line) for line in again] == [
        {**row, "per": row["log_ratio"], "per_lower": row["lower"], "per_upper": row["upper"]} for row in expected
    ]


PROBES = ["the bank was in", "never seen Before x", "near near near near", "the Xyz said UNKNOWN", "of to mr by"]


@pytest.mark.parametrize("given", [[], ["--no-shapes"], ["--longest", 1], ["--size", 5], ["--tau", 0.1]])
def test_explained_terms_add_up(run, given):
    run("fit", "train.counts", *BACKOFF, *given, "--out", "given.rgm")
    lines = run("score", "given.rgm", "--json", stdin="\n".join(PROBES)).splitlines()
    scored = [json.loads(line)["log_ratio"] for line in lines]
    explained = json.loads(run("explain", "given.rgm", *PROBES, "--json"))
    for entry, log_ratio in zip(explained, scored, strict=True):
        terms = entry["terms"]
        assert sum(term["value"] for term in terms) == entry["log_ratio"] == log_ratio
        assert sum(term["value"] for term in reversed(terms)) == log_ratio
        assert entry["interval"][0] < log_ratio < entry["interval"][1]
        units, suffixes = terms[:4], terms[4:]
        assert all(term["kind"] in UNIT_KINDS and term["prior"] is None for term in units)
        assert all(term["kind"] in ("shapes", "items") and term["prior"] is not None for term in suffixes)
        assert all((term["f_nu"] is None) == (term["kind"] == "none") for term in terms)
    assert len(run("explain", "given.rgm", *PROBES).split("\n\n")) == len(PROBES)


def test_what_stands_for_an_item_is_the_finest_that_is_held(run, folder):
    """Hold some spans only, and see which of them an item is explained by."""
    lines = ["LOC\tMr Ash in"] * 9 + ["O\tMr Ash said"] * 9 + ["O\tin Bob Lee"] * 30 + ["LOC\tBob to Oak"] * 3
    (folder / "finest.tsv").write_text("\n".join(lines) + "\n")
    run("fit", "finest.tsv", "--estimator", "backoff", "--lam", 0.001, "--out", "finest.rgm")
    (entry,) = json.loads(run("explain", "finest.rgm", "in Oak zzzz", "--json"))
    kinds = [(term["kind"], term["items"]) for term in entry["terms"][:3]]
    assert kinds == [("item", ["in"]), ("anywhere", ["Oak"]), ("none", ["zzzz"])]
    (entry,) = json.loads(run("explain", "finest.rgm", "Zoe in in", "--json"))
    assert [(term["kind"], term["items"]) for term in entry["terms"][:1]] == [("shape", ["~Aa"])]
    shown = run("explain", "finest.rgm", "Zoe Oak zzzz")
    assert "Zoe (as ~Aa)" in shown
    assert "Oak (anywhere)" in shown
    assert "zzzz (no evidence)" in shown
    assert shown.splitlines()[-2] == "longest suffix with evidence: none"


def test_the_picture_of_a_back_off(run):
    first, head, *lines = run("explain", "loc.rgm", "the bank was in").splitlines()
    assert first.startswith("LOC: log ratio +")
    assert ", 95 % from +" in first
    assert head.split() == ["f_nu", "f_de", "term", "ratio"]
    sections = [line for line in lines if "│" not in line]
    assert sections == [
        "each item by itself; where it is rare, it is pulled towards its shape",
        "corrected by the shapes next to the boundary: ratio before -> after",
        "corrected by the items next to the boundary: ratio before -> after",
        *sections[-2:],
    ]
    assert sections[-2].startswith("longest suffix with evidence: ")
    assert sections[-2].endswith(" in")
    assert "times as likely before LOC as elsewhere (95 % interval: " in sections[-1]
    drawn = [line for line in lines if "│" in line]
    assert len({line.index("│") for line in drawn}) == 1
    assert all("->" in line for line in drawn[4:])
    assert not any("->" in line for line in drawn[:4])


def test_lines_of_an_explanation_come_with_their_terms():
    term = Term(0, 1, ("in",), 3, 1, True, 0.5)
    plain = Explanation(("in",), "LOC", "m", 0.5, (term,)).lines()
    assert [value for _, value in plain] == [None, 0.5, None]
    suffix = Term(0, 1, ("in",), 3, 1, True, -0.25, "items", 0.5)
    lines = Explanation(("in",), "LOC", "m", 0.25, (term, suffix)).lines()
    assert [value for _, value in lines] == [None, None, 0.5, None, -0.25, None, None]
    assert lines[1][0] == "each item by itself"
    assert "1.65 -> 1.28" in lines[4][0]


def test_letters_on_the_right_side(run, folder):
    (folder / "letters.tsv").write_text("X\ta b\nO\tccc\nX\ta\\b\nO\tc-9\nX\tA b\n" * 5)
    run("fit", "letters.tsv", "--estimator", "backoff", "--kind", "letters", "--side", "right", "-o", "letters.rgm")
    assert "1-3  a ␣ b" in run("explain", "letters.rgm", "a b")
    ranked = json.loads(run("rank", "letters.rgm", "letters.tsv", "--by", "lower", "--json"))
    assert [row["ngram"] for row in ranked][:2] == ["a b", "a\\b"]


def test_info_says_which_span_is_which(run):
    facts = json.loads(run("info", "loc.rgm", "--json"))
    assert len(facts["items_stored_by_position"]) == len(facts["shapes_stored_by_position"]) == 4
    assert (
        list(facts["suffixes_stored_by_length"]) == list(facts["shape_suffixes_stored_by_length"]) == ["2", "3", "4"]
    )
    assert facts["items_stored_anywhere"] > 0
    assert "lam0" not in facts
    assert "unseen" not in facts
    shown = run("info", "loc.rgm")
    assert "suffixes_stored_by_length        2: " in shown
    best = facts["strongest_for"][0]
    assert best["f_nu"] > 10  # not something seen once
    weights = [entry["log_ratio"] * entry["f_nu"] for entry in facts["strongest_for"]]
    assert weights == sorted(weights, reverse=True)
    run("fit", "train.counts", *BACKOFF, "--no-shapes", "--out", "bare.rgm")
    facts = json.loads(run("info", "bare.rgm", "--json"))
    assert "items_stored_anywhere" not in facts
    assert "shapes_stored_by_position" not in facts


def test_counts_in_folds_give_a_calibrated_model(run, folder):
    assert "folds" in run("count", "--help")
    run("count", "train.tsv", "--folds", "3", "--out", "folds.counts")
    assert json.loads(run("info", "folds.counts", "--json"))["folds"] == 3
    run("fit", "folds.counts", *BACKOFF, "--out", "calibrated.rgm")
    run("fit", "folds.counts", *BACKOFF, "--no-calibrate", "--out", "plain.rgm")
    run("fit", "folds.counts", *BACKOFF, "--no-bounds", "--out", "free.rgm")
    facts, plain, free = (
        json.loads(run("info", f"{name}.rgm", "--json")) for name in ("calibrated", "plain", "free")
    )
    assert facts["calibration"]["floor"] > 0
    assert facts["calibration"]["targets"] == rg.Counts.load(folder / "folds.counts").totals[1]
    assert (plain["calibration"], free["calibration"]["ceiling"]) == (None, None)
    assert "power_below" in run("info", "calibrated.rgm")
    scores, before = (
        np.array([float(line.split("\t")[0]) for line in run("score", f"{name}.rgm", "new.txt").splitlines()])
        for name in ("calibrated", "plain")
    )
    assert (np.diff(scores[np.argsort(before, kind="stable")]) >= 0).all()
    assert len(set(scores.tolist())) > 0.9 * len(set(before.tolist()))
    assert np.abs(scores - before).max() > 0.01
    text = (folder / "new.txt").read_text().splitlines()[0]
    shown = run("explain", "calibrated.rgm", text)
    assert "calibrated by contexts that were not in the fit: ratio before -> after" in shown
    assert "times as likely" in shown.splitlines()[-1]
    run("merge", "folds.counts", "folds.counts", "--out", "twice.counts")
    assert json.loads(run("info", "twice.counts", "--json"))["folds"] == 3


def test_held_out_contexts_calibrate_a_model(run, folder):
    run("count", "train.tsv", "--spans", "whole", "--out", "whole.counts")
    run("calibrate", "loc.rgm", "whole.counts", "--out", "better.rgm")
    assert rg.Model.load(folder / "better.rgm").calibration is not None

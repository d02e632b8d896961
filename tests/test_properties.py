"""What a table is, and what can be done with it: every operation keeps it, refuses, or was asked to change it.

Tests are made of two lists, `TABLES` and `OPERATIONS`: a new option of `count`, or a new way to make a table from a
table, is covered by being listed here. Nothing is lost in silence.
"""

from __future__ import annotations

import json
import operator
import pickle
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import combinations
import raregram as rg
from raregram.errors import ParameterError, RaregramError
from raregram.measure.calibrate import calibrate

WORDS = ["She", "he", "lives", "in", "a", "Big", "town,", "by", "the", "Sea", "of", "0", "said", "that", "is", "so"]
DOCUMENTS = [
    {
        "text": " ".join(WORDS[(place * step + step) % len(WORDS)] for place in range(14)),
        "spans": [(4, 5, "LOC"), (9, 10, "PER"), (12, 13, "LOC")],
        "party": "left" if step % 2 else "right",
    }
    for step in (1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 9, 10, 11, 12)
]
ONE, TWO = ([{"text": each["text"]} for each in half] for half in (DOCUMENTS[:7], DOCUMENTS[7:]))

# Each option of `count` that changes what a table is.
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "n": {"n": 2},
    "side": {"side": "right"},
    "kind": {"kind": "letters"},
    "tokenize": {"tokenize": "words"},
    "lower": {"lower": True},
    "pad": {"pad": True},
    "spans": {"spans": ("suffixes:2", "shapes:2")},
    "shape": {"shape": "letters"},
    "min_count": {"min_count": 2},
    "folds": {"folds": 4},
    "documents": {"documents": True},
    "targets": {"targets": ["LOC"]},
    "samples": {"by": "party"},
    "two samples": {"numerator": ONE, "denominator": TWO},
}
PROPERTIES = (
    "n", "side", "kind", "tokenize", "lower", "pad", "spans", "shape", "min_count", "folds", "documents", "targets",
    "samples",
)  # fmt: skip
OF_MODELS = ("n", "side", "kind", "tokenize", "lower", "pad", "samples")


def count(options: Mapping[str, Any]) -> rg.Counts:
    source = () if "numerator" in options else (DOCUMENTS,)
    return rg.count(*source, **{"n": 3, "spans": ("suffixes:3", "shapes:2"), **options})


@lru_cache
def table(name: str) -> rg.Counts:
    return count(TABLES[name])


def properties(counts: rg.Counts) -> dict[str, Any]:
    """What a table is; of its folds, how many there are."""
    return {**{name: getattr(counts, name) for name in PROPERTIES}, "folds": len(counts.folds)}


def command(*arguments: object) -> str:
    """Run a command; return what it says on standard error, or raise that."""
    code, _, said = combinations.run(*arguments)
    if code:
        assert said.startswith("raregram: ")
        raise ParameterError(said)
    return said


def by_command(*arguments: object) -> Callable[[rg.Counts], rg.Counts]:
    """An operation by a command, on the file t.counts in the current folder."""

    def run(counts: rg.Counts) -> rg.Counts:
        counts.save("t.counts")
        command(*arguments, "--out", "out")
        return rg.Counts.load("out")

    return run


def saved(counts: rg.Counts) -> rg.Counts:
    counts.save("t.counts")
    return rg.Counts.load("t.counts")


@dataclass(frozen=True)
class Operation:
    """A way to make a table from a table."""

    run: Callable[[rg.Counts], rg.Counts]
    changes: dict[str, Callable[[Any], Any]] = field(default_factory=dict)  # as it says itself
    refuses: str | None = None  # a property that it cannot keep
    same: bool = False  # whether the table is the same afterwards


COMBINES: dict[str, Any] = {"refuses": "min_count"}
DROPS: dict[str, Any] = {"changes": {"min_count": lambda least: max(least, 2)}, "refuses": "folds"}
NO_FOLDS: dict[str, Callable[[Any], Any]] = {"folds": lambda folds: 0}
OPERATIONS = {
    "a + b": Operation(lambda counts: counts + counts, **COMBINES),
    "sum": Operation(lambda counts: sum([counts, counts, counts]), **COMBINES),
    "a - b": Operation(lambda counts: counts + counts - counts, **COMBINES, same=True),
    "save": Operation(saved, same=True),
    "pickle": Operation(lambda counts: pickle.loads(pickle.dumps(counts)), same=True),
    "drop_rare(1)": Operation(lambda counts: counts.drop_rare(1), same=True),
    "drop_rare(2)": Operation(lambda counts: counts.drop_rare(2), **DROPS),
    "of_folds": Operation(lambda counts: counts.of_folds(), NO_FOLDS),
    "of_folds, then drop_rare": Operation(lambda counts: counts.of_folds().drop_rare(2), DROPS["changes"] | NO_FOLDS),
    "with_targets": Operation(
        lambda counts: counts.with_targets(["LOC", "new"]), {"targets": lambda names: ("LOC", "new")}
    ),
    "merge": Operation(by_command("merge", "t.counts", "t.counts"), **COMBINES),
    "merge of one": Operation(by_command("merge", "t.counts"), same=True),
    "merge --subtract": Operation(
        by_command("merge", "t.counts", "t.counts", "--subtract", "t.counts"), **COMBINES, same=True
    ),
    "merge --min-count": Operation(by_command("merge", "t.counts", "--min-count", 2), **DROPS),
    "merge --drop-folds": Operation(by_command("merge", "t.counts", "--drop-folds"), NO_FOLDS),
    "merge --drop-folds --min-count": Operation(
        by_command("merge", "t.counts", "--drop-folds", "--min-count", 2), DROPS["changes"] | NO_FOLDS
    ),
    "export": Operation(by_command("export", "t.counts"), same=True),
    "count": Operation(by_command("count", "t.counts"), same=True),
    "count --min-count": Operation(by_command("count", "t.counts", "--min-count", 2), **DROPS),
}


def check(counts: rg.Counts, operation: Operation) -> rg.Counts:
    """Do something with a table, and see that it keeps what it is; if it was refused, return it as it was."""
    before = properties(counts)
    refused = {"min_count": before["min_count"] > 1, "folds": before["folds"] > 0, None: False}[operation.refuses]
    if refused:
        with pytest.raises(RaregramError, match=operation.refuses):
            operation.run(counts)
        return counts
    after = operation.run(counts)
    expected = {name: operation.changes.get(name, lambda value: value)(value) for name, value in before.items()}
    assert properties(after) == expected
    assert (after == counts) is operation.same or not operation.same
    assert after.digest() == after.as_table().digest()
    return after


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("of", TABLES)
def test_a_table_stays_what_it_is(tmp_path, monkeypatch, of, name):
    monkeypatch.chdir(tmp_path)
    check(table(of), OPERATIONS[name])


@settings(max_examples=30)
@given(st.lists(st.sampled_from(list(TABLES)), max_size=4), st.lists(st.sampled_from(list(OPERATIONS)), max_size=4))
def test_also_where_options_and_operations_meet(tmp_path_factory, names, operations):
    options = {key: value for name in names for key, value in TABLES[name].items()}
    if "numerator" in options:
        options = {key: value for key, value in options.items() if key not in ("by", "targets")}
    if "by" in options:
        options.pop("targets", None)
    if "folds" in options:
        options.pop("min_count", None)
    if options.get("kind") == "letters":
        options.pop("tokenize", None)
    counts = count(options)
    with chdir(tmp_path_factory.mktemp("tables")):
        for name in operations:
            counts = check(counts, OPERATIONS[name])


def test_every_property_of_a_table_is_listed():
    others = {"totals", "items", "rows", "known_digest"}  # which are what it holds
    assert set(PROPERTIES) == {"spans", *vars(table("plain"))} - others
    plain = properties(table("plain"))
    for name in set(TABLES) - {"plain", "two samples"}:
        assert properties(table(name))[name] != plain[name]


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"plain"}))
def test_tables_that_differ_are_not_combined(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    plain, other = table("plain"), table(name)
    said = "samples" if name == "two samples" else name
    for combine in (operator.add, operator.sub):
        for pair in ((plain, other), (other, plain)):
            with pytest.raises(ParameterError, match=said):
                combine(*pair)
    plain.save("plain.counts")
    other.save("other.counts")
    for files in (["plain.counts", "other.counts"], ["other.counts", "--subtract", "plain.counts"]):
        with pytest.raises(ParameterError, match=rf"{files[-1]}: .*{said}"):
            command("merge", *files, "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("option", ["side", "kind", "tokenize", "lower", "pad", "folds", "documents"])
def test_a_count_file_is_not_taken_for_what_it_is_not(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    table("plain").save("t.counts")
    value = TABLES[option][option]
    with pytest.raises(ParameterError, match=f"t.counts was counted with {option} .*: leave it out"):
        command("count", "t.counts", f"--{option}", *([] if value is True else [value]), "--out", "out")
    with pytest.raises(ParameterError, match=option):
        rg.count("t.counts", **TABLES[option])
    table(option).save("t.counts")
    assert rg.count("t.counts", **TABLES[option]) == table(option)


@pytest.mark.filterwarnings("ignore:the model was calibrated with only")
@pytest.mark.parametrize("estimator", ["backoff", "product"])
@pytest.mark.parametrize("of", TABLES)
def test_a_model_is_what_its_table_is(tmp_path, monkeypatch, of, estimator):
    """It is calibrated if the table is in folds, and says so; and the table that was exported gives the same."""
    monkeypatch.chdir(tmp_path)
    counts = table(of)
    target, text = counts.targets[0], DOCUMENTS[0]["text"]
    counts.save("t.counts")
    command("export", "t.counts", "--out", "t.parquet")
    said = [
        command("fit", source, "--target", target, "--estimator", estimator, "--out", f"{source}.rgm")
        for source in ("t.counts", "t.parquet")
    ]
    model = rg.Model.load("t.counts.rgm")
    assert Path("t.counts.rgm").read_bytes() == Path("t.parquet.rgm").read_bytes()
    assert (model.calibration is not None) is bool(counts.folds)
    shown = ", calibrated, " if counts.folds else ", not calibrated (the counts are in no folds: count with --folds 5"
    assert all(shown in line for line in said)
    fitted = rg.fit(rg.Counts.load("t.counts"), target, estimator)
    fitted.save("m.rgm")
    learned = [calibrate(model, counts.of_folds())] if of not in ("spans", "min_count") else []  # which lack N-grams
    for each in (model, fitted, rg.Model.load("m.rgm"), pickle.loads(pickle.dumps(fitted)), *learned):
        assert {name: getattr(each.settings, name) for name in OF_MODELS} == {
            name: getattr(counts, name) for name in OF_MODELS
        }
        if each not in learned:
            assert each.calibration == model.calibration
            np.testing.assert_array_equal(each.log_ratio([text]), model.log_ratio([text]))
    assert all(each.calibration is not None for each in learned)


def test_fit_says_why_a_model_is_not_calibrated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table("folds").save("folds.counts")
    rg.Counts.from_contexts(["a b", "c d", "e f", "g h"], ["LOC", None, None, None], folds=2).save("few.counts")
    Path("contexts.tsv").write_text("LOC\ta b\nO\tc d\n")
    for arguments, why in [
        (["folds.counts", "--no-calibrate"], "as --no-calibrate says"),
        (["folds.counts", "--estimator", "mle"], "its ratios may be 0 or infinite"),
        (["few.counts"], "see the warning"),
        (["contexts.tsv"], "the counts are in no folds: count with --folds 5, or use `raregram calibrate`"),
    ]:
        said = command("fit", *arguments, "--target", "LOC", "--out", "m.rgm")
        assert f", not calibrated ({why}), " in said
        assert ("raregram: warning: the model is not calibrated: " in said) is (why == "see the warning")
    assert ", calibrated, " in command("fit", "folds.counts", "--target", "LOC", "--out", "m.rgm")


def test_an_export_has_a_row_for_each_fold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts, plain = table("folds"), table("folds").of_folds()
    for name, each in (("folds", counts), ("plain", plain)):
        each.save(f"{name}.counts")
        command("export", f"{name}.counts", "--out", f"{name}.parquet")
        assert pq.read_table(f"{name}.parquet").cast(each.to_arrow().schema).num_rows == each.to_arrow().num_rows
    assert pq.read_schema("folds.parquet").names == ["start", "end", "items", "fold", "total", "f_LOC", "f_PER"]
    assert pq.read_schema("plain.parquet").names == ["start", "end", "items", "total", "f_LOC", "f_PER"]
    rows, sums = pq.read_table("folds.parquet").to_pylist(), {}
    assert {row["fold"] for row in rows} == set(range(4))
    for row in rows:
        key = row["start"], row["end"], tuple(row["items"])
        sums[key] = sums.get(key, 0) + np.array([row["total"], row["f_LOC"], row["f_PER"]])
    expected = {
        (row["start"], row["end"], tuple(row["items"])): [row["total"], row["f_LOC"], row["f_PER"]]
        for row in pq.read_table("plain.parquet").to_pylist()
    }
    assert {key: values.tolist() for key, values in sums.items()} == expected
    for fold in range(4):
        own = sum(row["total"] for row in rows if row["fold"] == fold and row["start"] == 0 and row["end"] == 1)
        assert own == counts.folds[fold][0]


@pytest.mark.parametrize("spans", [("suffixes:2", "whole"), ("suffixes:2", "shapes:2", "whole")])
def test_the_names_of_folds_are_no_items(tmp_path, monkeypatch, spans):
    monkeypatch.chdir(tmp_path)
    plain, folded = (count({"spans": spans, "folds": folds}) for folds in (0, 4))
    number = len({word for each in DOCUMENTS for word in each["text"].split()})
    assert "0" in WORDS
    for counts in (plain, folded, folded.of_folds(), folded + folded, folded.with_targets(["LOC"]), saved(folded)):
        assert counts.num_items == number
        assert f" {number} items, " in repr(counts)
    for name, counts in (("plain", plain), ("folded", folded)):
        counts.save(name)
    facts = [json.loads(combinations.run("info", name, "--json")[1]) for name in ("plain", "folded")]
    assert [each["distinct_items"] for each in facts] == [number, number]
    assert folded.of_folds() == plain


def test_a_sample_is_no_label_and_a_label_no_sample(tmp_path, monkeypatch):
    """A table knows whether its targets are samples, whatever their names."""
    monkeypatch.chdir(tmp_path)
    called = [{**each, "spans": [(4, 5, "numerator")], "party": "numerator"} for each in DOCUMENTS[:8]]
    others = [{**each, "spans": []} for each in DOCUMENTS[8:]]
    for counts, conditions in [
        (rg.count([*called, *others], n=2), ("before numerator", "elsewhere")),
        (rg.count([*called, *others], n=2, side="right"), ("after numerator", "elsewhere")),
        (rg.count(numerator=ONE, denominator=TWO, n=2), ("in the numerator", "in the denominator")),
        (rg.count([*called, *others], n=2, by="party"), ("in numerator", "elsewhere")),
    ]:
        for each in (counts, counts + counts, saved(counts), OPERATIONS["export"].run(counts)):
            rg.fit(each, "numerator").save("m.rgm")
            model = rg.Model.load("m.rgm")
            assert model.settings.conditions == conditions
            assert model.explain("lives in").conditions == conditions
            assert (f"{conditions[0]} as {conditions[1]}" in str(model.explain("lives in"))) or (
                f"{conditions[1]} as {conditions[0]}" in str(model.explain("lives in"))
            )

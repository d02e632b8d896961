"""Regression tests of bugs that valid input revealed; `test_combinations.py` looks for more of their kind."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raregram as rg
from combinations import read_csv, read_json, read_parquet
from raregram.cli.options import parse_names, parse_pairs
from raregram.corpus.formats import csv as csv_reading
from raregram.counts.count import are_contexts
from raregram.errors import InputError, ParameterError, RaregramWarning
from raregram.measure.evaluate import evaluate
from raregram.measure.tune import Grid
from raregram.sklearn import FeatureSelectiveLR

RAREGRAM = Path(sys.executable).with_name("raregram")


@pytest.fixture
def folder(run, tmp_path):
    """The current folder, with a model of three words."""
    contexts = ["he lives in", "they met in", "she said that", "he was in", "it means that"]
    rg.fit(rg.Counts.from_contexts(contexts, ["LOC", "LOC", None, "LOC", None]), "LOC", "selective", size=2).save(
        "loc.rgm"
    )
    return tmp_path


@pytest.fixture
def score(run, folder):
    return lambda *arguments, code=0: run("score", "loc.rgm", *arguments, "-q", code=code)


# --- wrong numbers and lost data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["w1.csv", "w2.csv"], ["w2.csv", "w1.csv"]])
@pytest.mark.parametrize(("out", "read"), [("o.csv", read_csv), ("o.jsonl", read_json), ("o.parquet", read_parquet)])
def test_tables_with_different_columns_are_matched_by_name(folder, score, order, out, read):
    (folder / "w1.csv").write_text("ngram,label,year\nhe lives in,LOC,1987\n")
    (folder / "w2.csv").write_text("label,ngram\nO,she said that\n")
    score(*order, "--out", out)
    model = rg.Model.load("loc.rgm")
    expected = {"w1.csv": ("he lives in", "LOC", "1987"), "w2.csv": ("she said that", "O", None)}
    found = [(row["ngram"], row["label"], row["year"] or None) for row in read((folder / out).read_bytes())]
    assert found == [expected[name] for name in order]
    scores = [float(row["log_ratio"]) for row in read((folder / out).read_bytes())]
    assert scores == model.log_ratio([ngram for ngram, _, _ in found]).tolist()


def test_columns_that_cannot_be_one_are_refused_before_anything_is_written(folder, score):
    for name, years in (("a", [1987]), ("b", ["old"]), ("c", [0.5])):
        pq.write_table(pa.table({"ngram": ["he lives in"], "year": years}), f"{name}.parquet")
    message = "the column 'year' holds int64 in a.parquet and {} which do not fit into one table"
    assert message.format("string in b.parquet,") in score("a.parquet", "b.parquet", "-o", "o.parquet", code=1)
    assert message.format("double in c.parquet,") in score("a.parquet", "c.parquet", "-o", "o.parquet", code=1)
    assert sorted(os.listdir()) == ["a.parquet", "b.parquet", "c.parquet", "loc.rgm"]  # noqa: PTH208
    rows = read_json(score("a.parquet", "b.parquet", "c.parquet", "--json").encode())
    assert [row["year"] for row in rows] == [1987, "old", 0.5]
    pq.write_table(pa.table({"items": [["he", "lives", "in"]]}), "d.parquet")
    assert "d.parquet holds documents and a.parquet contexts" in score("a.parquet", "d.parquet", "--json", code=1)


def test_letters_of_items_do_not_depend_on_the_batch(folder):
    """3,000 documents of words of one letter, and one with a longer word."""
    documents = [{"items": list("abcdefghij")}] * 3000 + [{"items": ["ab", *"cdefghij"]}]
    as_text = [{"text": " ".join(document["items"])} for document in documents]
    plan = {"n": 3, "kind": "letters", "targets": []}
    expected = rg.count(as_text, **plan)
    assert rg.count(documents, **plan) == rg.count(documents, memory_limit=8_000_000, **plan) == expected
    first, last = documents[:1], documents[-1:]
    assert rg.count(first, **plan) + rg.count(last, **plan) == rg.count(first + last, **plan)


def test_letters_of_items_are_scored_as_those_of_text(run, folder):
    counts = rg.count([{"text": "ab ba abba", "spans": [(1, 2, "X")]}], n=2, kind="letters", spans=["suffixes:2"])
    rg.fit(counts, "X", "backoff", shapes=False).save("letters.rgm")
    pq.write_table(pa.table({"items": [["ab", "ba"]]}), "items.parquet")
    pq.write_table(pa.table({"text": ["ab ba"]}), "text.parquet")
    items, text = (
        [
            json.loads(line)["log_ratio"]
            for line in run("score", "letters.rgm", f"{name}.parquet", "--json").splitlines()
        ]
        for name in ("items", "text")
    )
    assert items == text
    assert len(items) == 5
    assert any(items)
    pq.write_table(pa.table({"ngram": [["ab", "ba"]]}), "ngrams.parquet")  # two words, but a model of letters
    assert "ngrams.parquet, row 1: 'ab' is not a letter" in run("score", "letters.rgm", "ngrams.parquet", code=1)


@pytest.mark.parametrize("out", ["o.csv", "o.jsonl", "o.parquet"])
def test_no_column_is_overwritten(folder, score, out):
    (folder / "in.csv").write_text("ngram,log_ratio\nhe lives in,mine\n")
    assert "in.csv has a column 'log_ratio' already: name the new one with --as" in score("in.csv", "-o", out, code=2)
    assert not (folder / out).exists()
    score("in.csv", "--as", "loc", "-o", "one.parquet")
    score("one.parquet", "--as", "per", "--interval", "-o", "two.parquet")
    (row,) = pq.read_table("two.parquet").to_pylist()
    assert list(row) == ["ngram", "log_ratio", "loc", "per", "per_lower", "per_upper"]
    assert row["log_ratio"] == "mine"
    assert row["loc"] == row["per"] == rg.Model.load("loc.rgm").log_ratio(["he lives in"])[0]


def test_line_breaks_in_quotes_do_not_depend_on_the_block(folder, score):
    notes = [f"a\n{number}\n\n{'b, c' * 15}\n" for number in range(130_000)]
    with (folder / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ngram", "note"])
        writer.writerows(["he lives in", note] for note in notes)
    assert (folder / "in.csv").stat().st_size > 2 * csv_reading.LONGEST_ROW
    score("in.csv", "-o", "o.parquet")
    assert pq.read_table("o.parquet")["note"].to_pylist() == notes


def test_items_with_spaces_are_not_taken_for_others(run, folder):
    ngrams = [["New York", "in", "x"], ["New", "York in", "x"], ["New", "York in", "x"]]
    pq.write_table(pa.table({"ngram": ngrams}), "in.parquet")
    ranked = run("rank", "loc.rgm", "in.parquet").splitlines()
    assert [line.split("\t")[2] for line in ranked] == ["New York\\x20in x", "New\\x20York in x"]


# --- crashes, leaks, bad manners ---------------------------------------------------------------------------------


def test_a_subtraction_that_leaves_too_few_contexts_is_refused():
    def table(f_nu, f_de, n_nu, n_de):
        return rg.Counts.from_ngrams(["a b"], [f_nu], [f_de], n_nu=n_nu, n_de=n_de)

    whole = table(5, 5, 10, 10)
    for part in (table(0, 1, 10, 1), table(1, 0, 1, 10), table(1, 1, 8, 1), table(1, 1, 1, 8), table(0, 0, 11, 0)):
        with pytest.raises(InputError, match="cannot subtract what was never added"):
            whole - part
    assert (whole - table(5, 5, 5, 5)).totals.tolist() == [10, 5]


@pytest.mark.parametrize(
    ("name", "content", "items", "totals"),
    [
        (
            "d.conll",
            "x O\nNew\u00a0York B-LOC\nis O\n\nin\tO\nNew York\tB-LOC\n",
            "x|New\u00a0York|is|in|New York",
            [5, 2],
        ),
        ("d.txt", "a O\nb O\n\nc O\n", "a|b|c", [3]),  # without any tag: by its separator
        ("d.conll", "# text = a b\n#x=1\tO\nin\tO\nRome\tB-LOC\n", "#x=1|in|Rome", [3, 1]),
    ],
)
def test_items_of_columns_are_kept_as_they_are(tmp_path, name, content, items, totals):
    (tmp_path / name).write_text(content)
    counts = rg.count(tmp_path / name, n=1, spans=["units"])
    assert set(counts.items.to_pylist()) == set(items.split("|"))
    assert counts.totals.tolist() == totals


def test_labels_with_commas_can_be_named(run, tmp_path):
    assert parse_names(r"a\,b, c ,d\\,\ e") == ["a,b", "c", "d\\", " e"]
    assert parse_pairs(r"a\,b=c,d\=e=f=g") == {"a,b": "c", "d=e": "f=g"}
    for wrong in ("a", "a=", "=b", "a=b,a=c"):
        with pytest.raises(ParameterError, match="expected NAME=NAME"):
            parse_pairs(wrong)
    (tmp_path / "in.tsv").write_text("a,b\tx y\nO\tz y\n")
    run("count", "in.tsv", "--targets", r"a\,b", "-o", "c", "-q")
    assert rg.Counts.load("c").targets == ("a,b",)


@pytest.mark.parametrize("index", [["x", "y", "z"], [5, 6, 7], [0.5, 1.5, 2.5]])
def test_rows_of_pandas_may_have_any_names(index):
    contexts = pd.Series(["a b", "c d", "e f"], index=pd.Index(index, name="text"))
    labels = pd.Series(["X", None, "O"], index=index)
    counts = rg.Counts.from_contexts(contexts, labels, spans=["suffixes:2"])
    assert counts == rg.Counts.from_contexts(contexts.tolist(), labels.tolist(), spans=["suffixes:2"])
    model = rg.fit(counts, "X", "backoff", shapes=False)
    expected = model.log_ratio(contexts.tolist()).tolist()
    assert model.log_ratio(contexts).tolist() == model.log_ratio(iter(contexts)).tolist() == expected
    assert model.log_ratio(contexts.str.split(expand=True)).tolist() == expected
    assert model.interval(contexts).shape == (3, 2)
    with pytest.raises(InputError, match="N-gram 2 is missing"):
        model.log_ratio(pd.Series(["a b", None, "e f"], index=index))
    frame = pd.DataFrame({"text": contexts.tolist()}, index=pd.Index(index, name="text"))
    assert rg.count(frame, n=1, targets=[]).totals.tolist() == [6]


def test_text_in_a_dictionary_is_scored(folder, score):
    pq.write_table(pa.table({"text": pa.array(["he lives in", "x"]).dictionary_encode()}), "in.parquet")
    rows = read_json(score("in.parquet", "--json").encode())
    assert [row["left"] for row in rows] == ["he", "he lives", "he lives in", "x"]
    pq.write_table(pa.table({"text": [1, 2]}), "in.parquet")
    assert "in.parquet: the column text must hold strings, not int64" in score("in.parquet", "--json", code=1)


def test_letters_are_escaped_where_they_must_be_and_nowhere_else(run):
    """A line break in one N-gram changes nothing in how others of its batch are shown."""
    counts = rg.Counts.from_contexts(["aé", "a\n", "\\x", "\\a"], ["X", None, "X", None], kind="letters")
    rg.fit(counts, "X").save("letters.rgm")
    pq.write_table(pa.table({"ngram": ["aé", "a\n", "\\x", "\\a"]}), "in.parquet")
    scored = run("score", "letters.rgm", "in.parquet").splitlines()
    assert [line.split("\t")[1] for line in scored] == ["aé", "a\\x0a", "\\x5cx", "\\a"]


def test_types_that_would_round_or_fail_are_not_put_together(folder, score):
    decimals = pa.array([Decimal("12345678901234567890.12")], pa.decimal128(30, 2))
    numbers = {"decimal": decimals, "half": pa.array([0.5], pa.float16()), "double": pa.array([0.1]),
               "large": pa.array([2**63], pa.uint64()), "whole": pa.array([1])}  # fmt: skip
    for name, column in numbers.items():
        pq.write_table(pa.table({"ngram": ["he lives in"], "it": column}), f"{name}.parquet")
    for pair in (["decimal", "double"], ["decimal", "half"], ["large", "whole"], ["whole", "double"]):
        files = [f"{name}.parquet" for name in pair]
        assert "do not fit into one table" in score(*files, "-o", "o.parquet", code=1)
        score(*files, "-o", "o.csv")
        expected = [numbers[name].cast(pa.string())[0].as_py() for name in pair]
        assert [row["it"] for row in read_csv((folder / "o.csv").read_bytes())] == expected
    score("half.parquet", "double.parquet", "-o", "o.parquet")
    assert pq.read_table("o.parquet")["it"].to_pylist() == [0.5, 0.1]


def test_contexts_of_one_word_are_not_taken_for_tagged_items(run, tmp_path):
    for name, lines, contexts in [
        ("kmers.tsv", "prom\tACGT\nprom\tACGA\nO\tTTTT\n", True),
        ("words.tsv", "LOC\tIN\nO\tON\n", True),
        ("more.tsv", "LOC\tin\tthe\nO\tat\ta\n", True),
        ("stanford.tsv", "in\tO\nParis\tLOCATION\n", False),
        ("names.tsv", "Paris\tLOCATION\nRome\tLOCATION\n", False),
    ]:
        (tmp_path / name).write_text(lines)
        assert are_contexts([name]) == contexts, name
    with pytest.raises(InputError, match=r"words.tsv holds contexts and stanford.tsv documents"):
        are_contexts(["words.tsv", "stanford.tsv"])
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "some").mkdir()
    (tmp_path / "words.tsv").rename(tmp_path / "some" / "words.tsv")
    for sources in (["some"], ["some/*.tsv"], ["empty.tsv", "some"], ["some", "empty.tsv"]):
        run("count", *sources, "-o", "c", "-q")
        assert rg.Counts.load("c").totals.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("t.txt", b"ab\r\ncd\n", ["--format", "text", "--kind", "letters", "--on-error", "skip"]),
        ("t.conll", b"a O\nb B-X\n\nc O\n", ["--format", "conll"]),
        ("t.conll", b"-DOCSTART- O\n\na O\nb B-X\n\nc O\n", ["--format", "conll"]),
    ],
)
def test_a_pipe_is_counted_as_the_file(run, tmp_path, name, content, options):
    (tmp_path / name).write_bytes(content)
    for source, given in ((name, b""), ("-", content)):
        run("count", source, *options, "-n", 2, "-o", f"{source}.counts", stdin=given)
    assert rg.Counts.load(tmp_path / "-.counts") == rg.Counts.load(tmp_path / f"{name}.counts")


def test_frequencies_are_not_rounded(run, tmp_path):
    (tmp_path / "in.csv").write_text("ngram,f_nu,f_de\na b,9007199254740993,0\n")
    message = "in.csv, row 1: f_nu must be a whole number from 0 to 2**53"
    assert message in run("count", "in.csv", "-o", "c", code=1)
    with pytest.raises(InputError, match="from 0 to"):
        rg.Counts.from_ngrams(["a b"], [2**53 + 1], [0])
    assert rg.Counts.from_ngrams(["a b"], pd.array([1], dtype="Int64"), [0]).totals.tolist() == [1, 1]


@pytest.mark.parametrize("kind", [list, tuple, np.array, pa.array, pd.Series, set, iter])
def test_targets_may_be_in_any_container(kind):
    contexts, labels = ["a b", "c d"], ["X", None]
    documents = [{"text": "a b", "spans": [(1, 2, "X")]}]
    assert rg.Counts.from_contexts(contexts, labels, targets=kind(["X"])).totals.tolist() == [2, 1]
    assert rg.count(documents, n=1, targets=kind(["X"])).totals.tolist() == [2, 1]
    assert rg.Counts.from_contexts(contexts, labels).with_targets("X").targets == ("X",)
    for wrong in ([1], [None], ["\ud800"]):
        with pytest.raises(ParameterError, match="The targets parameter of a count must be names"):
            rg.Counts.from_contexts(contexts, labels, targets=wrong)
    with pytest.raises(ParameterError, match="must be names"):
        rg.Counts.from_ngrams(["a"], [1], [1], target=5)


def test_count_files_and_contexts_are_counted_for_the_same_targets(run, tmp_path):
    (tmp_path / "a.tsv").write_text("LOC\the lives in\nPER\tthey met in\nO\tshe said that\n")
    (tmp_path / "b.tsv").write_text("LOC\ta lives in\nPER\tb met in\nPER\tb met at\n")
    run("count", "a.tsv", "-o", "a.counts", "-q")
    for sources in (["b.tsv", "a.counts"], ["a.counts", "b.tsv"], ["a.tsv", "b.tsv"]):
        for options, totals in ((["--targets", "LOC"], [6, 2]), ([], [6, 2, 3])):
            run("count", *sources, *options, "-o", "all.counts", "-q")
            assert rg.Counts.load("all.counts").totals.tolist() == totals
    assert "contexts of 3 items, not 2" in run("count", "a.counts", "-n", 2, "-o", "never", code=2)
    assert "one of 'LOC', 'PER'" in run("count", "a.counts", "--targets", "X", "-o", "never", code=2)


def test_frequencies_and_labels_are_of_one_target(run, tmp_path):
    (tmp_path / "f.csv").write_text('ngram,f_nu,f_de\n"lives in",5,1\n"said that",0,4\n')
    (tmp_path / "c.tsv").write_text("LOC\tlives in\nO\tsaid that\n")
    direct = ["--estimator", "direct", "--lam", 0, "-q", "-o", "m"]
    for sources in (["c.tsv", "f.csv"], ["f.csv", "c.tsv"]):
        run("fit", *sources, "--target", "LOC", *direct)
        assert rg.Model.load("m").explain("lives in").terms[0].f_nu == 6
    run("fit", "f.csv", "--target", "LOC", *direct)
    assert "name the target of the frequencies" in run("fit", "c.tsv", "f.csv", *direct, code=2)


# --- numbers, options and objects of every kind ------------------------------------------------------------------


def test_levels_and_ridges_at_their_ends_give_finite_numbers():
    counts = rg.Counts.from_contexts(["a b", "c d"] * 9, ["X", None] * 9, spans=["suffixes:2", "shapes:2"])
    for lam in (1e-30, 1e30):
        for tau in (0.5, 1):
            model = rg.fit(counts, "X", "backoff", lam=lam, unit_lam=lam, tau=tau)
            assert np.isfinite(model.log_ratio(["a b", "c d", "x y"])).all()
            for level in (0.95, 0.9999999999999999, 1 - 2**-53, 5e-324, 1e-17):
                lower, upper = model.interval(["a b", "x y"], level).T
                assert np.isfinite([lower, upper]).all()
                assert (lower <= upper).all()
    for lam in (1e-320, 1e-300, 1e31, 10**400, float("nan")):
        message = r"from 1e-30 to 1e\+30" if lam < 1e300 else "a finite number"
        with pytest.raises(ParameterError, match=f"The lam parameter of fit must be {message}"):
            rg.fit(counts, "X", "backoff", lam=lam)
    assert len({rg.fit(counts, "X", shapes=off).log_ratio(["a b"])[0] for off in (False, 0, np.False_)}) == 1
    with pytest.raises(ParameterError, match="The shapes parameter of fit must be True, False or None"):
        rg.fit(counts, "X", "backoff", shapes="no")


def test_numbers_of_numpy_and_words_with_shapes_come_back_from_files(folder):
    """A word that stands next to the boundary alone has a shape there, and another one nowhere."""
    contexts, spans = [["a", "a"], ["a", "lasted"]], ["suffixes:2", "shapes:2"]
    counts = rg.Counts.from_contexts(contexts, ["O", "X"], n=np.int64(2), spans=spans)
    counts.save("c")
    rg.fit(counts, "X", "selective", unseen="formula", size=np.int32(3), lam=np.float32(1e-3)).save("m")
    assert rg.Counts.load("c") == counts
    assert rg.Model.load("m").params.keeps_seen is True


def test_tables_fit_the_training_or_are_refused(folder):
    documents = [{"items": ["a", "in", "Rome", "x", "in", "Rome"], "spans": [(2, 3, "LOC"), (5, 6, "LOC")]}]
    whole = {"spans": ["whole"], "targets": ["LOC"]}
    counts = rg.count(documents, n=2, **whole)
    model = rg.fit(counts, "LOC", "product")
    assert evaluate(model, counts, training=counts).bands["0"].types == 0
    for other in ({"n": 3}, {"n": 1}, {"side": "right"}, {"pad": True}, {"kind": "letters"}, {"min_count": 2}):
        table = rg.count(documents, **{"n": 2, **other}, **whole)
        for use in (lambda table=table: Grid(counts, "LOC", table), lambda table=table: evaluate(model, table)):
            with pytest.raises(InputError, match=r"the documents were counted for|were dropped from the documents"):
                use()
        with pytest.raises(ParameterError, match="training table"):
            evaluate(model, counts, training=table)


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "lz4"])
def test_tables_and_documents_are_decompressed_by_every_extension(folder, score, ending):
    pq.write_table(pa.table({"text": ["x y"]}), "e.parquet")
    plain = {"c.csv": b"ngram,label\nx,LOC\ny,O\n", "d.jsonl": b'{"text": "x y"}\n',
             "e.parquet": Path("e.parquet").read_bytes()}  # fmt: skip
    for name, content in plain.items():
        with pa.output_stream(f"{name}.{ending}", compression="detect" if ending != "lz4" else "lz4") as stream:
            stream.write(content)
    assert rg.count(f"c.csv.{ending}").totals.tolist() == [2, 1]
    assert rg.count([f"d.jsonl.{ending}", f"e.parquet.{ending}"], n=1, targets=[]).totals.tolist() == [4]
    assert "scores are not compressed: write o.csv instead" in score("c.csv", "-o", f"o.csv.{ending}", code=2)


def test_categories_of_every_kind_are_told_apart():
    X = np.array([[None], ["None"], ["\x00"], [""]] * 3, dtype=object)
    found = FeatureSelectiveLR("product").fit(X, [True, False, True, False] * 3).decision_function(X[:4])
    assert np.sign(found).tolist() == [1, -1, 1, -1]
    with pytest.raises(ValueError, match="X holds a string that is not valid Unicode"):
        FeatureSelectiveLR().fit(np.array([["a"], ["\udc80"]], dtype=object), [True, False])
    with pytest.raises(ValueError, match="X has 1,001 columns; this classifier takes at most 1,000"):
        FeatureSelectiveLR().fit(np.zeros((2, 1001), int), [True, False])
    classifier = FeatureSelectiveLR()  # what a failed fit counted is not kept
    for lam in (-1, 1e-5, -1):
        classifier.set_params(lam=lam)
        with pytest.raises(ValueError, match="lam") if lam < 0 else nullcontext():
            classifier.partial_fit([["a"], ["b"]], [0, 1])
    assert classifier.class_count_.tolist() == [1, 1]


def test_objects_and_samples_of_every_kind_are_counted(folder):
    frame = pd.DataFrame({"text": ["She lives in Rome", "a b"], "spans": [[(3, 4, "LOC")], []], "note": [1, "x"]})
    counts = rg.count(frame, n=2)
    assert counts == rg.count(frame.set_index(pd.Index(["p", "q"], name="items")), n=2)
    assert counts == rg.count(frame.drop(columns="note").to_dict("records"), n=2)
    assert counts.totals.tolist() == [4, 1]
    with pytest.raises(InputError, match="the table has no column items or text; it has x"):
        rg.count(pd.DataFrame({"x": [1]}))
    (folder / "empty.txt").touch()
    (folder / "other.txt").write_text("a b\n")
    counts = rg.count(numerator="empty.txt", denominator="other.txt", n=1, split="lines")
    assert (counts.targets, counts.totals.tolist()) == (("numerator",), [2, 0])
    for labels in ([["O"], ["LOC", ""]], pa.array([["O"], ["LOC"]]), [None, ("LOC", "O")]):
        assert rg.Counts.from_contexts(["a", "b"], labels).targets == ("LOC",)
    (folder / "a.jsonl").write_text('{"items": ["in", "Rome"], "spans": [[1, 2, "LOC"]]}\n')
    (folder / "b.conll").write_text("in O\nOslo B-LOC\n")
    assert rg.count(["a.jsonl", "b.conll"], n=1, sentences=True).totals.tolist() == [4, 2]


def test_a_terminal_of_another_encoding_gets_escapes(folder):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [RAREGRAM, "explain", "loc.rgm", "é b c"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=False)
    assert json.loads(done.stdout)[0]["ngram"][0] == "é"


# --- what two strangers found ------------------------------------------------------------------------------------

PLACES = [{"text": "she lives in Rome", "spans": [(3, 4, "LOC")]}, {"text": "he said that so", "spans": []}] * 3


@pytest.fixture
def places(tmp_path):
    """A count table with whole bigrams, and a model of it."""
    counts = rg.count(PLACES, n=2, spans=["units", "whole", "shapes:2"], targets=["LOC"])
    counts.save(tmp_path / "places.counts")
    return counts, rg.fit(rg.Counts.load(tmp_path / "places.counts"), "LOC")


def test_a_count_table_is_scored_as_its_file(places, tmp_path):
    counts, model = places
    path = tmp_path / "places.counts"
    assert rg.score(model, counts).to_arrow() == rg.score(model, str(path)).to_arrow()
    assert rg.rank(model, counts, top=1)["ngram"].to_pylist() == ["lives in"]


@pytest.mark.parametrize(
    "read",
    [
        lambda model, counts: rg.kwic(counts, "lives"),
        lambda model, counts: rg.count(counts, n=1),
        lambda model, counts: rg.score(model, counts.to_arrow()),
        lambda model, counts: rg.rank(model, counts.to_arrow()),
    ],
)
def test_the_rows_of_a_count_table_are_no_documents(places, read):
    counts, model = places
    with pytest.raises(InputError, match="rows of a count table"):
        read(model, counts)


@pytest.mark.parametrize("other", [{"side": "right"}, {"lower": True}, {"kind": "letters"}, {"pad": True}])
@pytest.mark.parametrize("use", [rg.score, rg.rank])
def test_a_count_table_of_other_contexts_is_not_scored(places, tmp_path, other, use):
    rg.count(PLACES, n=2, spans=["units", "whole"], targets=["LOC"], **other).save(tmp_path / "other.counts")
    with pytest.raises(InputError, match=r"the model is for n 2, left, words; .* was counted for"):
        use(places[1], str(tmp_path / "other.counts"))


def test_an_unknown_order_of_a_ranking_is_named(places):
    with pytest.raises(ParameterError, match="by parameter of rank must be one of"):
        rg.rank(places[1], PLACES, by="Lower")


def test_a_fold_counts_once():
    counts = rg.count([{"text": f"w{i} x"} for i in range(30)], n=1, folds=3, targets=[])
    assert counts.of_folds([1, 1]) == counts.of_folds([1])


def test_bands_by_another_table_are_doubted(places, tmp_path):
    fewer = rg.count(PLACES[:2], n=2, spans=["units", "whole"], targets=["LOC"])
    with pytest.warns(RaregramWarning, match="another count table"):
        evaluate(places[1], PLACES, training=fewer)
    evaluate(places[1], PLACES, training=str(tmp_path / "places.counts"))


def test_words_of_a_list_are_split_as_texts_are():
    corpus = [{"text": "the well-known e-mail"}] * 12
    with pytest.warns(RaregramWarning) as warned:
        found = rg.compare(corpus, {"the": 24, " the": 1, "well-known": 10, "e-mail": 9}, n=1, min_count=1)
    assert any("2 words of the list, such as 'well-known', are split" in str(each.message) for each in warned)
    listed = dict(zip(found["ngram"].to_pylist(), found["f_b"].to_pylist(), strict=True))
    assert listed == {"the": 25, "well": 10, "known": 10, "-": 19, "e": 9, "mail": 9}


def test_a_table_of_two_samples_is_compared_as_it_is():
    tea, ale = ([{"text": f"{word} please"}] * 12 for word in ("hot tea", "cold ale"))
    options = {"spans": ["suffixes:1"], "n": 1, "pad": True, "documents": True, "tokenize": "words"}
    found = rg.compare(rg.count(numerator=tea, denominator=ale, **options), n=1)
    expected = rg.compare(tea, ale, n=1)
    assert found["ngram"].to_pylist() == expected["ngram"].to_pylist()
    assert found["log2_ratio"].to_pylist() == expected["log2_ratio"].to_pylist()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_item(run, tmp_path, mark):
    rg.fit(rg.count(PLACES, n=3, tokenize="words", targets=["LOC"]), "LOC").save("words.rgm")
    Path("three.txt").write_text(f"{mark}she lives in\n{mark and ''}he said that\n")
    assert len(json.loads(run("rank", "words.rgm", "three.txt", "--json"))) == 2
    Path("two.txt").write_text(f"{mark}lives in\n")
    assert "position" in run("rank", "words.rgm", "two.txt", "--json", "-q")


@pytest.mark.parametrize("pair", [(1, "1"), (b"x", "x"), (2.0, "2")])
def test_values_that_would_be_one_category_are_refused(pair):
    X = np.array([[pair[0]], [pair[1]]] * 10, dtype=object)
    with pytest.raises(InputError, match="would be one category"):
        FeatureSelectiveLR().fit(X, [0, 1] * 10)
    assert FeatureSelectiveLR().fit(np.array([[1], ["a"]] * 10, dtype=object), [0, 1] * 10).score([[1]], [0]) == 1


@pytest.mark.parametrize(
    "command", ["score loc.rgm in.txt", "rank loc.rgm in.txt", "count in.txt --kind words", "fit in.txt"]
)
def test_an_input_is_not_replaced(folder, run, command):
    (folder / "in.txt").write_text("LOC\the lives in\nO\tshe said that\n")
    assert "is an input" in run(*command.split(), "--out", "in.txt", code=2)
    assert (folder / "in.txt").read_text().startswith("LOC\the lives in")


@pytest.mark.parametrize("source", ["in", "in/*.txt", "in/a.txt"])
@pytest.mark.parametrize("command", ["score loc.rgm {}", "count {}", "calibrate loc.rgm {}", "fit {}"])
def test_no_file_of_a_folder_is_replaced(folder, run, command, source):
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("LOC\the lives in\n")
    assert "is an input" in run(*command.format(source).split(), "--out", "in/a.txt", code=2)
    assert (folder / "in" / "a.txt").read_text() == "LOC\the lives in\n"


@pytest.mark.parametrize("heading", ["ngram\tf_nu\tf_de", "label\tngram", "id\ttext"])
def test_the_heading_of_a_table_is_no_context(folder, heading):
    (folder / "t.tsv").write_text(f"{heading}\na\tb\n")
    with pytest.raises(InputError, match=r"t\.tsv, line 1 is the heading of a table"):
        rg.count("t.tsv", n=1)


def test_json_lines_have_no_columns_of_contexts(folder, score):
    (folder / "m.jsonl").write_text('{"text": "she lives in", "tag": "LOC"}\n')
    assert "m.jsonl has JSON lines" in score("m.jsonl", "--columns", "ngram=text,label=tag", code=1)


def test_ngrams_of_letters_have_lines():
    tea, ale = [{"text": "hot tea for tea"}] * 10, [{"text": "cold ale for ale"}] * 10
    found = rg.compare(tea, ale, n=(1, 3), kind="letters", names=["tea", "ale"])
    for ngram, f_a, f_b in zip(*(found[name].to_pylist() for name in ("ngram", "f_a", "f_b")), strict=True):
        assert found.lines(ngram, 1000)["corpus"].to_pylist() == ["tea"] * f_a + ["ale"] * f_b

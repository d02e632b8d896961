"""Faults that outside testers found with valid input, one test each; `test_combinations.py` looks for their kind."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raregram as rg
from combinations import read_csv, read_json, read_parquet, run
from raregram.cli.options import parse_names, parse_pairs
from raregram.corpus import contexts as reading
from raregram.counts.count import are_contexts
from raregram.errors import InputError, MissingExtraError, ParameterError
from raregram.sklearn import FeatureSelectiveLR
from raregram.text import shapes

RAREGRAM = Path(sys.executable).with_name("raregram")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a model of three words."""
    monkeypatch.chdir(tmp_path)
    contexts = ["he lives in", "they met in", "she said that", "he was in", "it means that"]
    rg.fit(rg.Counts.from_contexts(contexts, ["LOC", "LOC", None, "LOC", None]), "LOC", size=2).save("loc.rgm")
    return tmp_path


def score(*arguments, code=0) -> str:
    found, out, error = run("score", "loc.rgm", *arguments, "-q")
    assert found == code, error
    return error if code else out.decode()


# --- wrong numbers and lost data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [["w1.csv", "w2.csv"], ["w2.csv", "w1.csv"]])
@pytest.mark.parametrize("out", ["o.csv", "o.jsonl", "o.parquet"])
def test_1_tables_with_different_columns_are_matched_by_name(folder, order, out):
    (folder / "w1.csv").write_text("ngram,label,year\nhe lives in,LOC,1987\n")
    (folder / "w2.csv").write_text("label,ngram\nO,she said that\n")
    score(*order, "--out", out)
    read = {".csv": read_csv, ".jsonl": read_json, ".parquet": read_parquet}[Path(out).suffix]
    rows = read((folder / out).read_bytes())
    model = rg.Model.load("loc.rgm")
    by_ngram = {row["ngram"]: row for row in rows}
    assert list(by_ngram) == (
        ["he lives in", "she said that"] if order[0] == "w1.csv" else ["she said that", "he lives in"]
    )
    for ngram, (label, year) in {"he lives in": ("LOC", "1987"), "she said that": ("O", None)}.items():
        row = by_ngram[ngram]
        assert (row["label"], row["year"] or None) == (label, year)
        assert float(row["log_ratio"]) == model.log_ratio([ngram])[0]


def test_1_columns_that_cannot_be_one_are_refused_before_anything_is_written(folder):
    for name, years in (("a", [1987]), ("b", ["old"]), ("c", [0.5])):
        pq.write_table(pa.table({"ngram": ["he lives in"], "year": years}), f"{name}.parquet")
    said = "the column 'year' holds int64 in a.parquet and {} which do not fit into one table"
    assert said.format("string in b.parquet,") in score("a.parquet", "b.parquet", "-o", "o.parquet", code=1)
    assert said.format("double in c.parquet,") in score("a.parquet", "c.parquet", "-o", "o.parquet", code=1)
    assert sorted(os.listdir()) == ["a.parquet", "b.parquet", "c.parquet", "loc.rgm"]  # noqa: PTH208
    rows = read_json(score("a.parquet", "b.parquet", "c.parquet", "--json").encode())
    assert [row["year"] for row in rows] == [1987, "old", 0.5]
    pq.write_table(pa.table({"items": [["he", "lives", "in"]]}), "d.parquet")
    assert "d.parquet holds documents and a.parquet contexts" in score("a.parquet", "d.parquet", "--json", code=1)


def test_2_letters_of_items_do_not_depend_on_the_batch(folder):
    """3,000 documents of words of one letter, and one with a longer word."""
    documents = [{"items": list("abcdefghij")}] * 3000 + [{"items": ["ab", *"cdefghij"]}]
    as_text = [{"text": " ".join(document["items"])} for document in documents]
    told = {"n": 3, "kind": "letters", "targets": []}
    expected = rg.count(as_text, **told)
    assert rg.count(documents, **told) == rg.count(documents, memory_limit=8_000_000, **told) == expected
    assert rg.count(documents[:1], **told) + rg.count(documents[-1:], **told) == rg.count(
        [documents[0], documents[-1]], **told
    )


def test_3_letters_of_items_are_scored_as_those_of_text(folder):
    counts = rg.count([{"text": "ab ba abba", "spans": [(1, 2, "X")]}], n=2, kind="letters", spans=["suffixes:2"])
    rg.fit(counts, "X", "backoff").save("letters.rgm")
    pq.write_table(pa.table({"items": [["ab", "ba"]]}), "items.parquet")
    pq.write_table(pa.table({"text": ["ab ba"]}), "text.parquet")
    scores = []
    for name in ("items.parquet", "text.parquet"):
        code, out, _ = run("score", "letters.rgm", name, "--json")
        assert code == 0
        scores.append(json.loads(out)["log_ratio"])
    assert scores[0] == scores[1]
    assert len(scores[0]) == 4
    assert any(scores[0])
    pq.write_table(pa.table({"ngram": [["ab", "ba"]]}), "ngrams.parquet")  # two words, but a model of letters
    code, _, error = run("score", "letters.rgm", "ngrams.parquet")
    assert code == 1
    assert "ngrams.parquet, row 1: 'ab' is not a letter" in error


def test_4_a_model_file_of_any_fault_does_not_end_the_reloading(tmp_path, caplog):
    from raregram.serve.metrics import Metrics
    from raregram.serve.options import ServeOptions
    from raregram.serve.registry import Registry

    def save(target, lam):
        counts = rg.Counts.from_contexts(["a b", "c d"], [target, None], spans=["shapes:1"], shape="mine")
        rg.fit(counts, target, "backoff", lam=lam).save(tmp_path / "m.rgm")
        os.utime(tmp_path / "m.rgm", ns=(time.time_ns(), time.time_ns()))

    shapes.SHAPES["mine"] = shapes.SHAPES["words"]
    save("LOC", 1e-3)
    metrics = Metrics()
    registry = Registry(ServeOptions(models=(str(tmp_path / "m.rgm"),)), metrics)
    save("LOC", 1e-4)
    del shapes.SHAPES["mine"]
    registry.refresh()
    assert b"raregram_model_reload_failures_total 1.0" in metrics.exposition()
    assert registry.get("LOC").facts["lam"] == 1e-3
    assert "mine" in caplog.text
    assert "goes on as it was" in caplog.text
    shapes.SHAPES["mine"] = shapes.SHAPES["words"]
    save("LOC", 1e-5)
    registry.refresh()
    del shapes.SHAPES["mine"]
    assert b"raregram_model_reloads_total 1.0" in metrics.exposition()
    assert registry.get("LOC").facts["lam"] == 1e-5


@pytest.mark.parametrize("out", ["o.csv", "o.jsonl", "o.parquet"])
def test_5_no_column_is_overwritten(folder, out):
    (folder / "in.csv").write_text("ngram,log_ratio\nhe lives in,mine\n")
    assert "in.csv has a column 'log_ratio' already: name the new one with --as" in score("in.csv", "-o", out, code=2)
    assert not (folder / out).exists()
    score("in.csv", "--as", "loc", "-o", "one.parquet")
    code, _, error = run("score", "loc.rgm", "one.parquet", "--as", "per", "--interval", "-o", "two.parquet", "-q")
    assert (code, error) == (0, "")
    (row,) = pq.read_table("two.parquet").to_pylist()
    assert list(row) == ["ngram", "log_ratio", "loc", "per", "per_lower", "per_upper"]
    assert row["log_ratio"] == "mine"
    assert row["loc"] == row["per"] == rg.Model.load("loc.rgm").log_ratio(["he lives in"])[0]


def test_6_what_stands_in_a_log_is_kept(folder):
    (folder / "log.txt").write_text("before\n")
    (folder / "new.txt").write_text("he met in\n")
    with (folder / "log.txt").open("a") as log:
        subprocess.run(
            [RAREGRAM, "score", "loc.rgm", "new.txt", "--out", "/dev/stdout", "-q"], stdout=log, check=True
        )
    assert (folder / "log.txt").read_text() == "before\n" + score("new.txt")
    assert sorted(os.listdir()) == ["loc.rgm", "log.txt", "new.txt"]  # noqa: PTH208


def test_7_line_breaks_in_quotes_do_not_depend_on_the_block(folder):
    notes = [f"a\n{number}\n\n{'b, c' * 15}\n" for number in range(130_000)]
    with (folder / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ngram", "note"])
        writer.writerows(["he lives in", note] for note in notes)
    assert (folder / "in.csv").stat().st_size > 2 * reading.LONGEST_ROW
    score("in.csv", "-o", "o.parquet")
    assert pq.read_table("o.parquet")["note"].to_pylist() == notes


def test_8_items_with_spaces_are_not_taken_for_others(folder):
    pq.write_table(
        pa.table({"ngram": [["New York", "in", "x"], ["New", "York in", "x"], ["New", "York in", "x"]]}), "in.parquet"
    )
    code, out, _ = run("rank", "loc.rgm", "in.parquet")
    assert code == 0
    assert [line.split("\t")[2] for line in out.decode().splitlines()] == ["New York\\x20in x", "New\\x20York in x"]


# --- crashes, leaks, bad manners ---------------------------------------------------------------------------------


def test_labels_that_are_lists_are_written_with_commas(folder):
    pq.write_table(pa.table({"ngram": ["he lives in"], "label": [["LOC", "PER"]]}), "in.parquet")
    assert score("in.parquet").split("\t")[1] == "LOC,PER"


@pytest.mark.parametrize(
    "command", [["explain", "he lives in"], ["explain", "é lives in"], ["info"], ["explain", "é b c", "--json"]]
)
def test_a_terminal_of_another_encoding_gets_escapes(folder, command):
    name, *more = command
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([RAREGRAM, name, "loc.rgm", *more], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    if "--json" in more:
        assert json.loads(done.stdout)[0]["ngram"][0] == "é"


@pytest.mark.parametrize("level", [0.9999999999999999, 1 - 2**-53, 5e-324, 1e-17])
def test_levels_next_to_0_and_1_have_intervals(level):
    model = rg.fit(
        rg.Counts.from_contexts(["a b", "c d"], ["X", None], spans=["suffixes:2", "shapes:2"]), "X", "backoff"
    )
    lower, upper = model.interval(["a b"], level)[0]
    assert -np.inf < lower <= upper < np.inf


@pytest.mark.parametrize("lam", [1e-30, 1e-300, 1e-320])
def test_tiny_ridges_are_finite_or_refused(lam):
    counts = rg.Counts.from_contexts(["a b", "c d"] * 9, ["X", None] * 9, spans=["suffixes:2", "shapes:2"])
    if lam < 1e-30:
        with pytest.raises(ParameterError, match=r"The lam parameter of fit must be from 1e-30 to 1e\+30"):
            rg.fit(counts, "X", "backoff", lam=lam)
        return
    model = rg.fit(counts, "X", "backoff", lam=lam, unit_lam=lam)
    assert np.isfinite(model.log_ratio(["a b", "c d", "x y"])).all()
    assert np.isfinite(model.interval(["a b", "c d", "x y"])).all()


def test_a_subtraction_that_leaves_too_few_contexts_is_refused():
    def table(f_nu, f_de, n_nu, n_de):
        return rg.Counts.from_ngrams(["a b"], [f_nu], [f_de], n_nu=n_nu, n_de=n_de)

    whole = table(5, 5, 10, 10)
    for part in (table(0, 1, 10, 1), table(1, 0, 1, 10), table(1, 1, 8, 1), table(1, 1, 1, 8), table(0, 0, 11, 0)):
        with pytest.raises(InputError, match="cannot subtract what was never added"):
            whole - part
    assert (whole - table(5, 5, 5, 5)).totals.tolist() == [10, 5]


def test_a_missing_library_is_said_before_the_work(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, error = run("reproduce", "--corpus", "no such corpus")
    assert code == 1
    assert "pip install 'raregram[report]'" in error
    monkeypatch.setitem(sys.modules, "spacy", None)
    code, _, error = run("tag", "no such file", "--out", "t.parquet")
    assert code == 1
    assert "pip install 'raregram[ner]'" in error
    documents = folder / "documents"
    documents.mkdir()
    (documents / "a.txt").write_text("a b c")
    (documents / "b.spacy").write_bytes(b"")
    with pytest.raises(MissingExtraError, match="ner"):
        rg.count(documents, n=1)


def test_a_target_with_a_slash_is_served(folder):
    from starlette.testclient import TestClient

    from raregram.serve.app import create_app
    from raregram.serve.options import ServeOptions

    rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["a/b", None]), "a/b").save("m.rgm")
    client = TestClient(create_app(ServeOptions(models=("m.rgm",))), base_url="http://localhost")
    for name in ("a/b", "a%2Fb"):
        assert client.get(f"/api/models/{name}").json()["target"] == "a/b"
    assert client.get("/api/models/a").status_code == 404


def test_items_of_columns_keep_their_white_space(folder):
    (folder / "d.conll").write_text("x O\nNew\u00a0York B-LOC\nis O\n\nin\tO\nNew York\tB-LOC\n")
    counts = rg.count("d.conll", n=1, format="conll")
    assert set(counts.items.to_pylist()) == {"x", "New\u00a0York", "is", "in", "New York"}
    assert counts.totals.tolist() == [5, 2]


def test_a_file_without_any_tag_is_read_by_its_separator(folder):
    (folder / "d.txt").write_text("a O\nb O\n\nc O\n")
    assert rg.count("d.txt", n=1).totals.tolist() == [3]


def test_labels_with_commas_can_be_named(folder):
    assert parse_names(r"a\,b, c ,d\\,\ e") == ["a,b", "c", "d\\", " e"]
    assert parse_pairs(r"a\,b=c,d\=e=f=g") == {"a,b": "c", "d=e": "f=g"}
    for wrong in ("a", "a=", "=b", "a=b,a=c"):
        with pytest.raises(ParameterError, match="expected NAME=NAME"):
            parse_pairs(wrong)
    (folder / "in.tsv").write_text("a,b\tx y\nO\tz y\n")
    code, _, error = run("count", "in.tsv", "--targets", r"a\,b", "-o", "c", "-q")
    assert (code, error) == (0, "")
    assert rg.Counts.load("c").targets == ("a,b",)


def test_none_and_its_name_are_two_categories():
    X = np.array([[None], ["None"], ["\x00"], [""]] * 3, dtype=object)
    y = [True, False, True, False] * 3
    found = FeatureSelectiveLR("product").fit(X, y).decision_function(X[:4])
    assert (found > 0).tolist() == y[:4]


def test_categories_that_cannot_be_are_named():
    X = np.array([["a"], ["\udc80"]], dtype=object)
    with pytest.raises(ValueError, match="X holds a string that is not valid Unicode"):
        FeatureSelectiveLR().fit(X, [True, False])
    with pytest.raises(ValueError, match="X has 1,001 columns; this classifier takes at most 1,000"):
        FeatureSelectiveLR().fit(np.zeros((2, 1001), int), [True, False])


@pytest.mark.parametrize("index", [["x", "y", "z"], [5, 6, 7], [0.5, 1.5, 2.5]])
def test_rows_of_pandas_may_have_any_names(index):
    contexts = pd.Series(["a b", "c d", "e f"], index=pd.Index(index, name="text"))
    labels = pd.Series(["X", None, "O"], index=index)
    counts = rg.Counts.from_contexts(contexts, labels, spans=["suffixes:2"])
    assert counts == rg.Counts.from_contexts(contexts.tolist(), labels.tolist(), spans=["suffixes:2"])
    model = rg.fit(counts, "X", "backoff")
    expected = model.log_ratio(contexts.tolist()).tolist()
    assert model.log_ratio(contexts).tolist() == model.log_ratio(iter(contexts)).tolist() == expected
    assert model.log_ratio(contexts.str.split(expand=True)).tolist() == expected
    assert model.interval(contexts).shape == (3, 2)
    with pytest.raises(InputError, match="N-gram 2 has 1 words, expected 2: 'c'"):
        model.log_ratio(pd.Series(["a b", "c", "e f"], index=index))
    frame = pd.DataFrame({"text": contexts.tolist()}, index=pd.Index(index, name="text"))
    assert rg.count(frame, n=1).totals.tolist() == [6]


def test_text_in_a_dictionary_is_scored(folder):
    pq.write_table(pa.table({"text": pa.array(["he lives in", "x"]).dictionary_encode()}), "in.parquet")
    rows = read_json(score("in.parquet", "--json").encode())
    assert [len(row["log_ratio"]) for row in rows] == [1, 0]
    pq.write_table(pa.table({"text": [1, 2]}), "in.parquet")
    assert "in.parquet: the column text must hold strings, not int64" in score("in.parquet", "--json", code=1)


def test_letters_are_escaped_where_they_must_be_and_nowhere_else(folder):
    """A line break in one N-gram changes nothing in how others of its batch are shown."""
    counts = rg.Counts.from_contexts(["aé", "a\n", "\\x", "\\a"], ["X", None, "X", None], kind="letters")
    rg.fit(counts, "X").save("letters.rgm")
    pq.write_table(pa.table({"ngram": ["aé", "a\n", "\\x", "\\a"]}), "in.parquet")
    _, out, _ = run("score", "letters.rgm", "in.parquet")
    assert [line.split("\t")[1] for line in out.decode().splitlines()] == ["aé", "a\\x0a", "\\x5cx", "\\a"]


def test_a_table_with_shapes_is_the_same_after_a_round_trip(folder):
    """A word that stands next to the boundary alone has a shape there, and another one nowhere."""
    counts = rg.Counts.from_contexts([["a", "a"], ["a", "lasted"]], ["O", "X"], spans=["suffixes:2", "shapes:2"])
    counts.save("c")
    assert rg.Counts.load("c") == counts


# --- what a second attack found ----------------------------------------------------------------------------------


def test_a_training_table_of_another_kind_is_refused(folder):
    from raregram.measure.evaluate import evaluate

    documents = [{"text": "a b c a b d a c e", "spans": [(2, 3, "LOC")]}]
    told = {"spans": ["whole"], "targets": ["LOC"]}
    model = rg.fit(rg.count(documents, n=2, targets=["LOC"]), "LOC")
    counts = rg.count(documents, n=2, **told)
    assert evaluate(model, counts, training=counts).bands["0"].types == 0
    others = [{"n": 3}, {"kind": "letters"}, {"side": "right"}, {"pad": True}, {"min_count": 2}, {"min_count": 99}]
    for other in others:
        with pytest.raises(ParameterError, match="training table"):
            evaluate(model, counts, training=rg.count(documents, **{"n": 2, **other}, **told))


def test_types_that_would_round_or_fail_are_not_put_together(folder):
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


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "lz4"])
def test_tables_and_documents_are_unpacked_by_every_ending(folder, ending):
    plain = {"c.csv": b"ngram,label\nx,LOC\ny,O\n", "d.jsonl": b'{"text": "x y"}\n', "e.parquet": None}
    pq.write_table(pa.table({"text": ["x y"]}), "e.parquet")
    codec = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}[ending]
    for name, content in plain.items():
        with pa.output_stream(f"{name}.{ending}", compression=codec) as stream:
            stream.write(content or (folder / name).read_bytes())
    code, _, error = run("count", f"c.csv.{ending}", "-o", "c", "-q")
    assert (code, error) == (0, "")
    assert rg.Counts.load("c").totals.tolist() == [2, 1]
    assert rg.count([f"d.jsonl.{ending}", f"e.parquet.{ending}"], n=1).totals.tolist() == [4]
    assert "scores are not compressed: write o.csv instead" in score("c.csv", "-o", f"o.csv.{ending}", code=2)


def test_contexts_of_one_word_are_not_taken_for_tagged_items(folder):
    for name, lines, contexts in [
        ("kmers.tsv", "prom\tACGT\nprom\tACGA\nO\tTTTT\n", True),
        ("words.tsv", "LOC\tIN\nO\tON\n", True),
        ("more.tsv", "LOC\tin\tthe\nO\tat\ta\n", True),
        ("stanford.tsv", "in\tO\nParis\tLOCATION\n", False),
        ("names.tsv", "Paris\tLOCATION\nRome\tLOCATION\n", False),
    ]:
        (folder / name).write_text(lines)
        assert are_contexts([name]) == contexts, name
    with pytest.raises(InputError, match=r"words.tsv holds contexts and stanford.tsv documents"):
        are_contexts(["words.tsv", "stanford.tsv"])
    (folder / "empty.tsv").touch()
    (folder / "some").mkdir()
    (folder / "words.tsv").rename(folder / "some" / "words.tsv")
    for sources in (["some"], ["some/*.tsv"], ["empty.tsv", "some"], ["some", "empty.tsv"]):
        code, _, error = run("count", *sources, "-o", "c", "-q")
        assert (code, error) == (0, "")
        assert rg.Counts.load("c").totals.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("t.txt", b"ab\r\ncd\n", ["--format", "text", "--kind", "letters", "--on-error", "skip"]),
        ("t.conll", b"a O\nb B-X\n\nc O\n", ["--format", "conll"]),
        ("t.conll", b"-DOCSTART- O\n\na O\nb B-X\n\nc O\n", ["--format", "conll"]),
    ],
)
def test_a_pipe_is_counted_as_the_file(folder, name, content, options):
    (folder / name).write_bytes(content)
    for source, given in ((name, None), ("-", content)):
        command = [RAREGRAM, "count", source, *options, "-n", "2", "-o", f"{source}.counts", "-q"]
        subprocess.run(command, input=given, check=True)
    assert rg.Counts.load("-.counts") == rg.Counts.load(f"{name}.counts")


def test_frequencies_are_not_rounded(folder):
    (folder / "in.csv").write_text("ngram,f_nu,f_de\na b,9007199254740993,0\n")
    code, _, error = run("count", "in.csv", "-o", "c")
    assert code == 1
    assert "in.csv, row 1: f_nu must be a whole number from 0 to 2**53" in error
    with pytest.raises(InputError, match="from 0 to"):
        rg.Counts.from_ngrams(["a b"], [2**53 + 1], [0])
    assert rg.Counts.from_ngrams(["a b"], pd.array([1], dtype="Int64"), [0]).totals.tolist() == [1, 1]


def test_an_empty_sample_is_still_a_sample(folder):
    (folder / "empty.txt").touch()
    (folder / "other.txt").write_text("a b\n")
    counts = rg.count(numerator="empty.txt", denominator="other.txt", n=1, split="lines")
    assert (counts.targets, counts.totals.tolist()) == (("numerator",), [2, 0])


def test_shapes_are_off_whatever_says_so():
    counts = rg.Counts.from_contexts(["a b", "c d"] * 5, ["X", None] * 5, spans=["suffixes:2", "shapes:2"])
    scores = [rg.fit(counts, "X", "backoff", shapes=off).log_ratio(["a b"])[0] for off in (False, 0, np.False_)]
    assert len(set(scores)) == 1
    with pytest.raises(ParameterError, match="The shapes parameter of fit must be True, False or None"):
        rg.fit(counts, "X", "backoff", shapes="no")


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


def test_numbers_of_numpy_can_be_saved(folder):
    counts = rg.Counts.from_contexts(["a b", "c d"], ["X", None], n=np.int64(2))
    counts.save("c")
    rg.fit(counts, "X", keep_seen=np.bool_(True), size=np.int32(3), lam=np.float32(1e-3)).save("m")
    assert rg.Counts.load("c") == counts
    assert rg.Model.load("m").params.keeps_seen is True


def test_frames_of_pandas_are_documents():
    frame = pd.DataFrame({"text": ["She lives in Rome", "a b"], "spans": [[(3, 4, "LOC")], []], "note": [1, "x"]})
    counts = rg.count(frame, n=2)
    assert counts == rg.count(frame.set_index(pd.Index(["p", "q"], name="items")), n=2)
    assert counts == rg.count(frame.drop(columns="note").to_dict("records"), n=2)
    assert counts.totals.tolist() == [4, 1]
    with pytest.raises(InputError, match="the table has no column items or text; it has x"):
        rg.count(pd.DataFrame({"x": [1]}))


def test_a_model_without_items_is_served(folder):
    from starlette.testclient import TestClient

    from raregram.serve.app import create_app
    from raregram.serve.options import ServeOptions

    counts = rg.Counts.from_contexts(["a b", "c d"] * 2, ["E", "E", None, None], spans=["suffixes:2", "shapes:2"])
    rg.fit(counts, "E", "backoff").save("empty.rgm")
    client = TestClient(create_app(ServeOptions(models=("empty.rgm",))), base_url="http://localhost")
    found = client.post("/api/changes", json={"context": "a b", "model": "E"}).json()
    assert (found["up"], found["down"]) == ([], [])


def test_what_a_failed_fit_counted_is_not_kept():
    X, y = [["a"], ["b"]], [0, 1]
    classifier = FeatureSelectiveLR(lam=-1)
    with pytest.raises(ValueError, match="lam"):
        classifier.partial_fit(X, y)
    classifier.set_params(lam=1e-5).partial_fit(X, y)
    assert classifier.class_count_.tolist() == [1, 1]
    classifier.set_params(lam=-1)
    with pytest.raises(ValueError, match="lam"):
        classifier.partial_fit(X, y)
    assert classifier.class_count_.tolist() == [1, 1]


def test_labels_in_lists_that_mean_nothing_are_no_targets():
    for labels in ([["O"], ["LOC", ""]], pa.array([["O"], ["LOC"]]), [None, ("LOC", "O")]):
        assert rg.Counts.from_contexts(["a", "b"], labels).targets == ("LOC",)


def test_the_largest_ridges_are_finite_or_refused():
    counts = rg.Counts.from_contexts(["a b", "c d"] * 9, ["X", None] * 9, spans=["suffixes:2", "shapes:2"])
    model = rg.fit(counts, "X", "backoff", lam=1e30, unit_lam=1e30, tau=1)
    assert np.isfinite(model.log_ratio(["a b", "x y"])).all()
    assert np.isfinite(model.interval(["a b", "x y"])).all()
    for lam in (1e31, 10**400, float("nan")):
        with pytest.raises(ParameterError, match="The lam parameter of fit must be"):
            rg.fit(counts, "X", "backoff", lam=lam)


def test_tables_for_tuning_and_evaluation_fit_the_training(folder):
    from raregram.measure.evaluate import evaluate
    from raregram.measure.tune import Grid

    documents = [{"items": ["a", "in", "Rome", "x", "in", "Rome"], "spans": [(2, 3, "LOC"), (5, 6, "LOC")]}]
    told = {"spans": ["whole"], "targets": ["LOC"]}
    counts = rg.count(documents, n=2, **told)
    model = rg.fit(counts, "LOC", "product")
    for other in ({"n": 3}, {"n": 1}, {"side": "right"}, {"pad": True}, {"kind": "letters"}, {"min_count": 2}):
        table = rg.count(documents, **{"n": 2, **other}, **told)
        for use in (lambda table=table: Grid(counts, "LOC", table), lambda table=table: evaluate(model, table)):
            with pytest.raises(InputError, match=r"the documents were counted for|were dropped from the documents"):
                use()


def test_count_files_and_contexts_are_counted_for_the_same_targets(folder):
    (folder / "a.tsv").write_text("LOC\the lives in\nPER\tthey met in\nO\tshe said that\n")
    (folder / "b.tsv").write_text("LOC\ta lives in\nPER\tb met in\nPER\tb met at\n")
    assert run("count", "a.tsv", "-o", "a.counts", "-q")[0] == 0
    for sources in (["b.tsv", "a.counts"], ["a.counts", "b.tsv"], ["a.tsv", "b.tsv"]):
        for options, totals in ((["--targets", "LOC"], [6, 2]), ([], [6, 2, 3])):
            assert run("count", *sources, *options, "-o", "all.counts", "-q")[0] == 0
            assert rg.Counts.load("all.counts").totals.tolist() == totals
    for options, said in ((["-n", 2], "contexts of 3 items, not 2"), (["--targets", "X"], "one of 'LOC', 'PER'")):
        code, _, error = run("count", "a.counts", *options, "-o", "never")
        assert (code, said in error) == (2, True)


def test_frequencies_and_labels_are_of_one_target(folder):
    (folder / "f.csv").write_text('ngram,f_nu,f_de\n"lives in",5,1\n"said that",0,4\n')
    (folder / "c.tsv").write_text("LOC\tlives in\nO\tsaid that\n")
    direct = ["--estimator", "direct", "--lam", 0, "-q", "-o"]
    for name, sources in (("m", ["c.tsv", "f.csv"]), ("n", ["f.csv", "c.tsv"])):
        assert run("fit", *sources, "--target", "LOC", *direct, name)[0] == 0
        assert rg.Model.load(name).explain("lives in").terms[0].f_nu == 6
    assert run("fit", "f.csv", "--target", "LOC", *direct, "m")[0] == 0
    code, _, error = run("fit", "c.tsv", "f.csv", *direct, "m")
    assert code == 2
    assert "name the target of the frequencies" in error


def test_an_item_that_looks_like_a_comment_is_an_item(folder):
    (folder / "d.conll").write_text("# text = a b\n#x=1\tO\nin\tO\nRome\tB-LOC\n")
    assert rg.count("d.conll", n=1).totals.tolist() == [3, 1]


def test_an_option_for_one_format_leaves_others_as_they_are(folder):
    (folder / "a.jsonl").write_text('{"items": ["in", "Rome"], "spans": [[1, 2, "LOC"]]}\n')
    (folder / "b.conll").write_text("in O\nOslo B-LOC\n")
    code, _, error = run("count", "a.jsonl", "b.conll", "-n", 1, "--sentences", "-o", "c", "-q")
    assert (code, error) == (0, "")
    assert rg.Counts.load("c").totals.tolist() == [4, 2]

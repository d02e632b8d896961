"""`raregram count`: documents of every kind, and faults."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from test_formats import CORPUS, write_conll, write_jsonl, write_slash

import raregram as rg
from raregram.measure.synthetic import zipf_documents

RAREGRAM = Path(sys.executable).with_name("raregram")


@pytest.fixture(scope="module")
def expected():
    return rg.count([{"items": items, "spans": spans} for items, spans in CORPUS], n=2)


def test_count_then_fit_then_score(run, tmp_path, expected):
    (tmp_path / "corpus.conll").write_text(write_conll())
    run("count", "corpus.conll", "-n", 2, "--out", "c.counts")
    assert rg.Counts.load(tmp_path / "c.counts") == expected
    run("fit", "c.counts", "--target", "LOCATION", "--out", "loc.rgm")
    assert run("score", "loc.rgm", stdin=b"is in\n").endswith("\tis in\n")


def test_names_near_the_beginning_of_a_document_are_named_or_padded(tmp_path):
    rows = [{"text": "in Rome or Oslo", "spans": [[1, 2, "LOC"], [3, 4, "LOC"], [0, 1, "X"]]}, {"text": "Oslo it is",
            "spans": [[0, 1, "LOC"]]}]  # fmt: skip
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = {}
    for more in ("--pad", "--quiet", "--json", "--threads=1"):
        command = [RAREGRAM, "count", "docs.jsonl", "-n", "3", "--targets", "LOC", "--out", "c", more]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        said[more] = "raregram: 2 labelled boundaries are not counted" in done.stderr
    assert said == {"--pad": False, "--quiet": False, "--json": True, "--threads=1": True}


def test_export_writes_parquet_that_every_command_reads(run, tmp_path, expected):
    (tmp_path / "corpus.conll").write_text(write_conll())
    run("count", "corpus.conll", "-n", 2, "--out", "c.counts")
    run("export", "c.counts", "--out", "c.parquet")
    rows = pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert rows == expected.to_arrow().to_pylist()
    assert rg.Counts.load(tmp_path / "c.parquet") == expected
    run("fit", "c.counts", "--target", "LOCATION", "--out", "a.rgm")
    run("fit", "c.parquet", "--target", "LOCATION", "--out", "b.rgm")
    assert (tmp_path / "a.rgm").read_bytes() == (tmp_path / "b.rgm").read_bytes()
    found = duckdb.sql(f"select sum(total) from '{tmp_path / 'c.parquet'}' where \"start\" = 0").fetchall()
    assert found == [(sum(row["total"] for row in rows if row["start"] == 0),)]
    assert "corpus.conll is not a raregram file" in run("export", "corpus.conll", "--out", "x", code=1)


def test_three_commands_from_text_to_a_model(run, tmp_path):
    """Tag, count and fit: real spaCy on a folder of text."""
    folder = tmp_path / "articles"
    folder.mkdir()
    for number, city in enumerate(["Paris", "London", "Berlin", "Rome", "Madrid"]):
        text = f"Angela Merkel flew to {city} on Monday. The talks in {city} went well, officials said."
        (folder / f"{number}.txt").write_text(text)
    run("tag", "articles", "--out", "tagged.parquet", "--processes", 1)
    run("count", "tagged.parquet", "-n", 2, "--targets", "LOC,PER", "--out", "all.counts")
    run("fit", "all.counts", "--target", "LOC", "--out", "loc.rgm")
    ranked = json.loads(run("rank", "loc.rgm", "--json", stdin=b"flew to\nwent well,\n"))
    assert [row["ngram"] for row in ranked] == ["flew to", "went well,"]
    made = json.loads(run("tag", "articles", "--out", "t", "--processes", 1, "--json"))
    assert made["documents"] == 5
    assert made["spans"]["LOC"] >= 8
    run("tag", "articles", "--out", "u", "--labels", "GPE=PLACE", "--processes", 1, "--quiet")
    assert rg.count(tmp_path / "u", n=1).targets == ("PLACE",)
    error = run("tag", "articles", "--out", "v", "--pipeline", "xx_none", code=1)
    assert "the spaCy pipeline xx_none is not installed" in error


def test_fetch_prints_the_folder_of_what_it_was_given(run, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "reuters-000.json").write_text(json.dumps([{"id": "1", "body": "word " * 30}]))
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "home"))
    found = run("fetch", "reuters", "mine", "--quiet").strip()
    assert Path(found).is_relative_to(tmp_path / "home")
    run("count", found, "-n", 3, "--out", "r.counts")
    assert rg.Counts.load(tmp_path / "r.counts").totals.tolist() == [28]
    assert not json.loads(run("fetch", "reuters", "--json"))["verified"]
    assert "nowhere does not exist" in run("fetch", "reuters", "nowhere", code=1)


def test_the_file_is_the_same_to_the_last_byte_however_it_is_made(run, tmp_path):
    texts = zipf_documents(400, 60, 500, seed=4)
    rows = [json.dumps({"text": text, "spans": [[9, 10, "A"], [30, 31, "B"]]}) + "\n" for text in texts]
    (tmp_path / "all.jsonl").write_text("".join(rows))
    (tmp_path / "a.jsonl").write_text("".join(rows[250:]))
    (tmp_path / "b.jsonl").write_text("".join(rows[:250]))
    options = ["-n", 5, "--spans", "units,suffixes:3,whole", "--quiet"]
    run("count", "all.jsonl", *options, "--out", "one")
    run("count", "a.jsonl", "b.jsonl", *options, "--threads", 1, "--out", "two")
    run("count", "all.jsonl", *options, "--memory-limit", "10kB", "--out", "three")
    run("count", "a.jsonl", *options, "--out", "half")
    run("count", "b.jsonl", *options, "--out", "rest")
    run("merge", "half", "rest", "--quiet", "--out", "four")
    contents = {(tmp_path / name).read_bytes() for name in ("one", "two", "three", "four")}
    assert len(contents) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.jsonl", "all.jsonl", "b.jsonl", "four", "half", "one", "rest", "three", "two",
    ]  # fmt: skip


def test_options_reach_the_count(run, tmp_path):
    (tmp_path / "c.txt").write_text(write_slash())
    options = ["--split", "lines", "-n", 1, "--side", "right", "--pad", "--min-count", 2, "--spans", "whole"]
    options += ["--labels", "LOCATION=LOC", "--targets", "LOC", "--format", "stanford-slash"]
    run("count", "c.txt", *options, "--out", "c")
    facts = json.loads(run("info", "c", "--json"))
    assert (facts["n"], facts["side"], facts["pad"], facts["min_count"]) == (1, "right", True, 2)
    assert facts["targets"] == {"LOC": 3}
    assert facts["contexts"] == 7 + 4 + 3 + 3


def test_two_samples_and_letters(run, tmp_path):
    (tmp_path / "a.txt").write_text("abab")
    (tmp_path / "b.txt").write_text("abcabc")
    run("count", "--numerator", "a.txt", "--denominator", "b.txt", "-n", 2, "--kind", "letters", "--out", "ab")
    counts = rg.Counts.load(tmp_path / "ab")
    assert counts.sizes("numerator") == (3, 5)
    run("fit", "ab", "--out", "ab.rgm")
    shown = run("count", "--numerator", "a.txt", "--out", "x", code=2)
    assert "either documents, or both a numerator and a denominator" in shown


def test_standard_input_needs_a_format(run, tmp_path, expected):
    assert "must be named: --format" in run("count", "-", "--out", "x", code=1, stdin=b"")
    run("count", "-", "--format", "jsonl", "-n", 2, "--out", "c", stdin=write_jsonl().encode())
    assert rg.Counts.load(tmp_path / "c") == expected


def test_a_broken_line_stops_or_is_skipped(run, tmp_path, expected):
    broken = write_jsonl().splitlines(keepends=True)
    broken.insert(1, '{"items": [\n')
    (tmp_path / "c.jsonl").write_text("".join(broken))
    error = run("count", "c.jsonl", "-n", 2, "--out", "c", code=1)
    assert error.startswith("raregram: error: c.jsonl, line 2 is not valid JSON")
    assert not (tmp_path / "c").exists()
    command = [RAREGRAM, "count", "c.jsonl", "-n", "2", "--on-error", "skip", "--out", "c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert "raregram: skipped: c.jsonl, line 2 is not valid JSON" in done.stderr
    assert "1 documents skipped" in done.stderr
    assert rg.Counts.load(tmp_path / "c") == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl does not exist"),
        (["c.jsonl", "-n", "0"], 2, "Invalid value for "),
        (["c.jsonl", "--memory-limit", "lots"], 2, "a size such as 512MB"),
        (["c.jsonl", "--labels", "GPE"], 2, "expected NAME=NAME"),
        (["c.jsonl", "-n", "50"], 1, "the longest has 7 words, and n is 50"),
        (["empty.jsonl"], 1, "there is no document"),
    ],
)
def test_errors_are_named(run, tmp_path, arguments, code, message):
    (tmp_path / "c.jsonl").write_text(write_jsonl())
    (tmp_path / "empty.jsonl").write_text("")
    assert message in run("count", *arguments, "--out", "out", code=code)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--labels", "LOC=GPE"], "labels is for documents, but a.counts is counted already: leave it out"),
        (["--by", "party"], "by is for documents, but a.counts is counted already: leave it out"),
        (["--spans", "units"], "a.counts was counted with other spans than units: leave it out"),
        (["--spans", "units,whole,suffixes:2"], "a.counts was counted with other spans than units, whole"),
    ],
)
def test_options_that_have_no_effect_on_a_count_file_are_refused(run, tmp_path, option, message):
    (tmp_path / "c.jsonl").write_text(write_jsonl())
    run("count", "c.jsonl", "-n", "3", "--spans", "units,suffixes:2", "-o", "a.counts")
    assert message in run("count", "a.counts", *option, "-o", "b.counts", code=2)
    run("count", "a.counts", "--spans", "suffixes:2", "-o", "b.counts")
    assert (tmp_path / "b.counts").read_bytes() == (tmp_path / "a.counts").read_bytes()


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path):
    """Files may not grow beyond 60 kB here, so that writing fails as it does on a full disk."""
    texts = zipf_documents(2_000, 100, 20_000, seed=5)
    rows = [json.dumps({"text": text, "spans": [[50, 51, "A"]]}) + "\n" for text in texts]
    (tmp_path / "big.jsonl").write_text("".join(rows))
    before = set(os.listdir(tmp_path))  # noqa: PTH208 - hidden files count
    command = [RAREGRAM, "count", "big.jsonl", "--spans", "units,suffixes:4", "--memory-limit", "20MB", "-qo", "c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, preexec_fn=limit_file_size)
    assert done.returncode == 1
    assert done.stderr.startswith(b"raregram: error: cannot ")
    assert set(os.listdir(tmp_path)) == before  # noqa: PTH208

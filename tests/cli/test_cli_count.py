"""`raregram count` as a user meets it: documents of every kind, faults and kills."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_formats import CORPUS, write_conll, write_jsonl, write_slash

import raregram as rg
from raregram.measure.synthetic import zipf_documents

RAREGRAM = Path(sys.executable).with_name("raregram")


def raregram(*arguments, cwd, code=0, stdin=None, **options):
    done = subprocess.run(
        [RAREGRAM, *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        **options,
    )
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return (done.stderr if code else done.stdout).decode()


@pytest.fixture(scope="module")
def expected():
    return rg.count([{"items": items, "spans": spans} for items, spans in CORPUS], n=2)


def test_count_then_fit_then_score(tmp_path, expected):
    (tmp_path / "corpus.conll").write_text(write_conll())
    raregram("count", "corpus.conll", "-n", 2, "--out", "c.counts", cwd=tmp_path)
    assert rg.Counts.load(tmp_path / "c.counts") == expected
    raregram("fit", "c.counts", "--target", "LOCATION", "--out", "loc.rgm", cwd=tmp_path)
    assert raregram("score", "loc.rgm", cwd=tmp_path, stdin=b"is in\n").endswith("\tis in\n")


def test_three_commands_from_text_to_a_model(tmp_path):
    """Tag, count and fit: real spaCy on a folder of text."""
    folder = tmp_path / "articles"
    folder.mkdir()
    for number, city in enumerate(["Paris", "London", "Berlin", "Rome", "Madrid"]):
        text = f"Angela Merkel flew to {city} on Monday. The talks in {city} went well, officials said."
        (folder / f"{number}.txt").write_text(text)
    raregram("tag", "articles", "--out", "tagged.parquet", "--processes", 1, cwd=tmp_path)
    raregram("count", "tagged.parquet", "-n", 2, "--targets", "LOC,PER", "--out", "all.counts", cwd=tmp_path)
    raregram("fit", "all.counts", "--target", "LOC", "--out", "loc.rgm", cwd=tmp_path)
    ranked = json.loads(raregram("rank", "loc.rgm", "--json", cwd=tmp_path, stdin=b"flew to\nwent well,\n"))
    assert [row["ngram"] for row in ranked] == ["flew to", "went well,"]
    told = json.loads(raregram("tag", "articles", "--out", "t", "--processes", 1, "--json", cwd=tmp_path))
    assert told["documents"] == 5
    assert told["spans"]["LOC"] >= 8
    raregram("tag", "articles", "--out", "u", "--labels", "GPE=PLACE", "--processes", 1, "--quiet", cwd=tmp_path)
    assert rg.count(tmp_path / "u", n=1).targets == ("PLACE",)
    error = raregram("tag", "articles", "--out", "v", "--pipeline", "xx_none", cwd=tmp_path, code=1)
    assert "the spaCy pipeline xx_none is not installed" in error


def test_fetch_prints_the_folder_of_what_it_was_given(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "reuters-000.json").write_text(json.dumps([{"id": "1", "body": "word " * 30}]))
    env = {**os.environ, "RAREGRAM_HOME": str(tmp_path / "home")}
    found = raregram("fetch", "reuters", "mine", "--quiet", cwd=tmp_path, env=env).strip()
    assert Path(found).is_relative_to(tmp_path / "home")
    raregram("count", found, "-n", 3, "--out", "r.counts", cwd=tmp_path)
    assert rg.Counts.load(tmp_path / "r.counts").totals.tolist() == [28]
    assert not json.loads(raregram("fetch", "reuters", "--json", cwd=tmp_path, env=env))["verified"]
    assert "nowhere does not exist" in raregram("fetch", "reuters", "nowhere", cwd=tmp_path, env=env, code=1)


def test_the_file_is_the_same_to_the_last_byte_however_it_is_made(tmp_path):
    texts = zipf_documents(400, 60, 500, seed=4)
    rows = [json.dumps({"text": text, "spans": [[9, 10, "A"], [30, 31, "B"]]}) + "\n" for text in texts]
    (tmp_path / "all.jsonl").write_text("".join(rows))
    (tmp_path / "a.jsonl").write_text("".join(rows[250:]))
    (tmp_path / "b.jsonl").write_text("".join(rows[:250]))
    options = ["-n", 5, "--spans", "units,suffixes:3,whole", "--quiet"]
    raregram("count", "all.jsonl", *options, "--out", "one", cwd=tmp_path)
    raregram("count", "a.jsonl", "b.jsonl", *options, "--threads", 1, "--out", "two", cwd=tmp_path)
    raregram("count", "all.jsonl", *options, "--memory-limit", "10kB", "--out", "three", cwd=tmp_path)
    raregram("count", "a.jsonl", *options, "--out", "half", cwd=tmp_path)
    raregram("count", "b.jsonl", *options, "--out", "rest", cwd=tmp_path)
    raregram("merge", "half", "rest", "--quiet", "--out", "four", cwd=tmp_path)
    contents = {(tmp_path / name).read_bytes() for name in ("one", "two", "three", "four")}
    assert len(contents) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.jsonl", "all.jsonl", "b.jsonl", "four", "half", "one", "rest", "three", "two",
    ]  # fmt: skip


def test_options_reach_the_count(tmp_path):
    (tmp_path / "c.txt").write_text(write_slash())
    options = ["--split", "lines", "-n", 1, "--side", "right", "--pad", "--min-count", 2, "--spans", "whole"]
    options += ["--labels", "LOCATION=LOC", "--targets", "LOC", "--format", "stanford-slash"]
    raregram("count", "c.txt", *options, "--out", "c", cwd=tmp_path)
    facts = json.loads(raregram("info", "c", "--json", cwd=tmp_path))
    assert (facts["n"], facts["side"], facts["pad"], facts["min_count"]) == (1, "right", True, 2)
    assert facts["targets"] == {"LOC": 3}
    assert facts["contexts"] == 7 + 4 + 3 + 3


def test_two_samples_and_letters(tmp_path):
    (tmp_path / "a.txt").write_text("abab")
    (tmp_path / "b.txt").write_text("abcabc")
    raregram(
        "count", "--numerator", "a.txt", "--denominator", "b.txt", "-n", 2, "--kind", "letters", "--out", "ab",
        cwd=tmp_path,
    )  # fmt: skip
    counts = rg.Counts.load(tmp_path / "ab")
    assert counts.sizes("numerator") == (3, 5)
    raregram("fit", "ab", "--out", "ab.rgm", cwd=tmp_path)
    shown = raregram("count", "--numerator", "a.txt", "--out", "x", cwd=tmp_path, code=2)
    assert "either documents, or both a numerator and a denominator" in shown


def test_standard_input_needs_a_format(tmp_path, expected):
    assert "must be named: --format" in raregram("count", "-", "--out", "x", cwd=tmp_path, code=1, stdin=b"")
    raregram("count", "-", "--format", "jsonl", "-n", 2, "--out", "c", cwd=tmp_path, stdin=write_jsonl().encode())
    assert rg.Counts.load(tmp_path / "c") == expected


def test_a_broken_line_stops_or_is_skipped(tmp_path, expected):
    broken = write_jsonl().splitlines(keepends=True)
    broken.insert(1, '{"items": [\n')
    (tmp_path / "c.jsonl").write_text("".join(broken))
    error = raregram("count", "c.jsonl", "-n", 2, "--out", "c", cwd=tmp_path, code=1)
    assert error.startswith("raregram: error: c.jsonl, line 2 is not valid JSON")
    assert not (tmp_path / "c").exists()
    done = subprocess.run(
        [RAREGRAM, "count", "c.jsonl", "-n", "2", "--on-error", "skip", "--out", "c"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "raregram: skipped: c.jsonl, line 2 is not valid JSON" in done.stderr
    assert "1 documents skipped" in done.stderr
    assert rg.Counts.load(tmp_path / "c") == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl does not exist"),
        (["c.jsonl", "-n", "0"], 2, "n parameter of a count"),
        (["c.jsonl", "--memory-limit", "lots"], 2, "a size such as 512MB"),
        (["c.jsonl", "--labels", "GPE"], 2, "expected NAME=NAME"),
        (["c.jsonl", "-n", "50"], 1, "the longest has 7 words, and n is 50"),
        (["empty.jsonl"], 1, "there is no document"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, code, message):
    (tmp_path / "c.jsonl").write_text(write_jsonl())
    (tmp_path / "empty.jsonl").write_text("")
    assert message in raregram("count", *arguments, "--out", "out", cwd=tmp_path, code=code)
    assert not (tmp_path / "out").exists()


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
    options = ["--spans", "units,suffixes:4", "--memory-limit", "20MB", "--quiet"]
    error = raregram("count", "big.jsonl", *options, "--out", "c", cwd=tmp_path, code=1, preexec_fn=limit_file_size)
    assert error.startswith("raregram: error: cannot ")
    assert set(os.listdir(tmp_path)) == before  # noqa: PTH208

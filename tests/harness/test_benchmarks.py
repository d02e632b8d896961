"""The other benchmarks, on tiny corpora: that they measure what they say. No time decides a test."""

from __future__ import annotations

import random
import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import corpora, growth, limit, measuring

pytestmark = pytest.mark.harness
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@needs_cc
def test_the_c_program_finds_the_words_that_python_finds(tmp_path):
    yardstick = limit.compile_yardstick(tmp_path)
    random.seed(3)
    text = "".join(random.choices(["a", "bc", "é", "the", " ", "  ", "\n", "\t", "\x1f"], k=20_000))
    path = tmp_path / "text.txt"
    path.write_text(text)
    printed = subprocess.run([tmp_path / "split_hash", path, "1"], check=True, capture_output=True, text=True).stdout
    assert [int(number) for number in printed.split()[:2]] == [len(text.split()), len(set(text.split()))]
    assert yardstick(path) > 0


def test_tasks_run_in_turns():
    told = []
    tasks = {name: lambda name=name: told.append(name) or len(told) for name in "ab"}
    assert measuring.in_turns(tasks, rounds=2) == {"a": [1, 3], "b": [2, 4]}
    assert told == ["a", "b", "a", "b"]
    assert measuring.medians({"a": iter([3.0, 1.0, 2.0]).__next__}, rounds=3) == {"a": 2.0}


def test_exponents_are_those_of_powers():
    xs = (1, 2, 4, 8, 16)
    assert growth.exponent(xs, [7.0 * x**2 for x in xs]) == pytest.approx(2)
    assert growth.exponent(xs, [5.0] * 5) == 0


def test_a_point_of_growth_is_measured_and_drawn(tmp_path):
    point = growth.measure(items=13_000, n=5, targets=3)
    assert {point[name] > 0 for name in ("units", "all", "fit")} == {True}
    assert point["memory"] >= 0
    table = corpora.documents(10, targets=3)
    assert {span["label"] for row in table["spans"].to_pylist() for span in row} == {"T0", "T1", "T2"}
    found = {name: [{**point, name: value, "memory": 1e9} for value in (1, 10)] for name in growth.LINES}
    growth.draw(found, tmp_path)
    assert (tmp_path / "growth.png").stat().st_size > 10_000


@needs_cc
def test_the_limit_is_a_multiple_of_the_c_program_and_of_a_copy(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(corpora, "PART", 200)
    found = limit.synthetic(tmp_path, limit.compile_yardstick(tmp_path), items=60_000, rounds=1)
    assert list(found) == ["count 60,000 items, units"]
    assert found["count 60,000 items, units"] > 0
    assert "x C" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "zipf.parquet")
    assert (tmp_path / "zipf.txt").read_text().split() == " ".join(table["text"].to_pylist()).split()
    assert pa.compute.count(table["text"]).as_py() == 462

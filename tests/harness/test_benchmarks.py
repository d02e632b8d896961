"""The other benchmarks, on tiny corpora: that they measure what they say. No time decides a test."""

from __future__ import annotations

import doctest
import json
import random
import shutil
import subprocess
import sys

import pytest

from benchmarks import calibration, corpora, coverage, growth, measuring, speed

pytestmark = pytest.mark.harness
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@needs_cc
def test_the_c_program_finds_the_words_that_python_finds(tmp_path):
    yardstick = speed.compile_yardstick(tmp_path)
    random.seed(3)
    text = "".join(random.choices(["a", "bc", "é", "the", " ", "  ", "\n", "\t", "\x1f"], k=20_000))
    path = tmp_path / "text.txt"
    path.write_text(text)
    printed = subprocess.run([tmp_path / "split_hash", path, "1"], check=True, capture_output=True, text=True).stdout
    assert [int(number) for number in printed.split()[:2]] == [len(text.split()), len(set(text.split()))]
    assert yardstick(path) > 0


@pytest.mark.parametrize("module", [calibration, coverage], ids=lambda module: module.__name__)
def test_the_examples_of_docstrings_hold(module):
    failed, attempted = doctest.testmod(module)
    assert attempted
    assert not failed


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
    growth.draw(found, tmp_path / "growth.svg")
    assert "<svg" in (tmp_path / "growth.svg").read_text()


def test_figures_know_what_was_aimed_at(tmp_path, capsys):
    figures = measuring.Figures()
    figures.add("speed", 1234567.8, least=1e6)
    figures.add("ratio", 2.0567, "x", most=2)
    figures.add("size", 0.5, "MB")
    assert [measuring.measured(f) for f in figures.found] == ["1,234,568", "2.06 x", "0.5 MB"]
    assert [measuring.aim(f) for f in figures.found] == ["at least 1,000,000", "at most 2", ""]
    assert [measuring.met(f) for f in figures.found] == [True, False, True]
    assert capsys.readouterr().out.count("\n") == 3
    figures.write(tmp_path / "new" / "found.json")
    assert json.loads((tmp_path / "new" / "found.json").read_text()) == {"figures": figures.found}


def test_processor_seconds_are_those_of_children_too():
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    assert 0.3 <= measuring.processor_seconds(lambda: measuring.output_of(sys.executable, "-c", burn)) < 3

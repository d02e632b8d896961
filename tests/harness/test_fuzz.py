"""Damaged and enormous files: small samples of `reliability/fuzz.py` and `reliability/giants.py`."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from raregram.errors import InputError
from reliability import fuzz, giants, subjects

pytestmark = pytest.mark.harness


@cache
def subject_of(name):
    if name == "spacy":
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'raregram[ner]'")
    (subject,) = subjects.make_subjects([name])
    return subject


@pytest.mark.parametrize("name", subjects.NAMES)
def test_damaged_files_are_read_or_refused_and_harmless_changes_have_no_effect(tmp_path, name):
    subject = subject_of(name)
    mutated = 101 * len(subject.files)
    for number in (*range(0, 101, 7), *range(mutated, mutated + 30)):
        file, data = fuzz.make_input(subject, number, seed=7)
        (tmp_path / file).write_bytes(data)
        outcome = fuzz.judge(subject, tmp_path / file, random.Random(number))
        assert outcome in ("read", "error"), f"{name}:{number}"
    assert fuzz.check_harmless(subject, tmp_path).faults == []
    assert fuzz.make_input(subject, mutated, 1) == fuzz.make_input(subject, mutated, 1)


@pytest.mark.parametrize("name", ["conll", "archives", "models"])
def test_damaged_files_give_no_traceback_on_the_command_line(tmp_path, name):
    assert fuzz.check_commands([subject_of(name)], runs=2, seed=3, folder=tmp_path).faults == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("oops"), "ValueError at test_fuzz.py"),
        (InputError("something is wrong"), "the error does not name the file"),
        (InputError("x.txt " + "x" * 5000), "the error has 5,006 letters"),
        (InputError("x.txt is bad"), "error"),
    ],
)
def test_wrong_answers_are_noticed(tmp_path, error, outcome):
    def read(path, rng):
        raise error

    subject = subjects.Subject("x", {"x.txt": b"x"}, read)
    assert fuzz.judge(subject, tmp_path / "x.txt", random.Random(0)).startswith(outcome)


def test_a_process_that_ends_is_noticed():
    (fault,) = fuzz.fuzz("nobody", inputs=1, seed=0, until=float("inf")).faults
    assert "ended by exit code 1" in fault


@pytest.mark.parametrize(
    ("name", "scale"),
    [("gzip bomb, 8 GB of one word", 0.02), ("a line of 1 GB, CSV", 0.04), ("a million labels", 0.01)],
)
def test_giants_are_refused_within_bounds(name, scale):
    (giant,) = (giant for giant in giants.GIANTS if giant.name == name)
    outcome = giants.run(giant, scale)
    assert outcome.fine, outcome
    assert not giants.run(replace(giant, gigabytes=1e-9), 0.01).fine

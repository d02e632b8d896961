"""Damaged and enormous files: small samples of `reliability/fuzz.py` and `reliability/giants.py`."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'raregram[ner]'")

from raregram.corpus.formats import read_documents
from raregram.errors import InputError
from reliability import fuzz, giants, mutations, subjects

pytestmark = pytest.mark.harness
SUBJECTS = {subject.name: subject for subject in subjects.make_subjects()}


# Fuzzing


@pytest.mark.parametrize("name", SUBJECTS)
def test_damaged_files_are_read_or_refused(tmp_path, name):
    subject = SUBJECTS[name]
    mutated = 101 * len(subject.files)
    for number in (*range(0, 101, 7), *range(mutated, mutated + 30)):
        file, data = fuzz.make_input(subject, number, seed=7)
        (tmp_path / file).write_bytes(data)
        outcome = fuzz.judge(subject, tmp_path / file, random.Random(number))
        assert outcome in ("read", "error"), f"{name}:{number}"


@pytest.mark.parametrize("name", [name for name, subject in SUBJECTS.items() if any(fuzz.harmless(subject))])
def test_changes_that_should_have_no_effect_have_none(tmp_path, name):
    assert fuzz.check_harmless(SUBJECTS[name], tmp_path).faults == []


@pytest.mark.parametrize("name", ["parquet", "conll", "context-lines", "archives", "counts", "models"])
def test_damaged_files_give_no_traceback_on_the_command_line(tmp_path, name):
    assert fuzz.check_commands([SUBJECTS[name]], runs=2, seed=3, folder=tmp_path).faults == []


def test_an_input_is_the_same_whenever_it_is_made():
    subject = SUBJECTS["jsonl"]
    assert fuzz.make_input(subject, 500, 1) == fuzz.make_input(subject, 500, 1)
    assert fuzz.make_input(subject, 500, 1) != fuzz.make_input(subject, 500, 2)


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


def test_a_read_that_changes_documents_is_noticed(tmp_path, monkeypatch):
    (batch,) = read_documents([{"items": ["a", "b"]}], None)
    monkeypatch.setattr(subjects, "read_documents", lambda path: read_documents([{"items": ["a", "c"]}]))
    with pytest.raises(subjects.WrongAnswerError, match="differ"):
        subjects._check_round_trip(batch, tmp_path / "x")


def test_mutations_of_a_table_write_every_kind_of_column():
    rng = random.Random(1)
    made = [pq.read_schema(io.BytesIO(mutations.strange_table(["text", "spans"], rng))) for _ in range(200)]
    kinds = {str(field.type) for schema in made for field in schema if field.name == "text"}
    assert {"string", "large_string", "string_view", "binary", "null"} <= kinds


# Enormous inputs


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("gzip bomb, 8 GB of one word", 0.02),
        ("tar archive, a header of 4 GB", 0.1),
        ("a line of 1 GB, CSV", 0.04),
        ("a million labels", 0.01),
    ],
)
def test_giants_are_refused_within_bounds(name, scale):
    (giant,) = (giant for giant in giants.GIANTS if giant.name == name)
    outcome = giants.run(giant, scale)
    assert outcome.fine, outcome


def test_a_giant_that_takes_too_much_is_noticed():
    greedy = next(giant for giant in giants.GIANTS if giant.name == "a line of 1 GB, CSV")
    assert not giants.run(replace(greedy, gigabytes=1e-9), 0.01).fine

"""The fixed job gives the results that it always gave, with the versions at hand."""

from __future__ import annotations

import json
import math

import pytest

from reliability import fixed_job


@pytest.fixture(scope="module")
def results():
    return fixed_job.run(), json.loads(fixed_job.EXPECTED.read_text())


@pytest.mark.parametrize("kind", ["tables", "models"])
def test_tables_and_models_are_the_same_as_ever(results, kind):
    done, expected = results
    assert done[kind] == expected[kind]


@pytest.mark.parametrize("kind", ["log_ratios", "intervals", "terms"])
def test_numbers_are_the_same_as_ever(results, kind):
    """To within one step of the grid for each item: processors may round a logarithm differently in its last bit."""
    done, expected = results
    assert done[kind].keys() == expected[kind].keys()
    for name, values in done[kind].items():
        for value, known in zip(map(float.fromhex, values), map(float.fromhex, expected[kind][name]), strict=True):
            assert value == pytest.approx(known, abs=1e-10, nan_ok=True), name
            assert math.isnan(value) == math.isnan(known)


def test_threads_and_files_change_nothing():
    expected = json.loads(fixed_job.EXPECTED.read_text())["tables"]
    same = ("words", "words in one thread", "words through files", "taken back")
    assert len({expected[name] for name in same}) == 1

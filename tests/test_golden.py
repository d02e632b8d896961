"""Numbers that must stay: see the package `golden`."""

from __future__ import annotations

import pytest

import golden


@pytest.mark.parametrize("name", golden.FILES)
def test_numbers_are_as_they_were(name):
    assert golden.compare(name) == []


def test_a_difference_is_found():
    expected = golden.rows(golden.TABLES["contexts"]())
    other = golden.rows(golden.TABLES["weighted"]())
    assert golden.differences(expected, expected, 0.0) == []
    assert golden.differences(expected, other, 0.0)
    scores = golden.scores().slice(0, 5)
    moved = scores.set_column(scores.column_names.index("backoff"), "backoff", [[0.0] * 5])
    assert golden.differences(scores, moved, 1e-9)

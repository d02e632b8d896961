"""Tables added up and subtracted in streams: whatever the batches are, the result is that of counting together."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from conftest import corpora
from raregram.counts import storage
from raregram.counts.merging import Combined, merge_rows
from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span
from raregram.errors import InputError

SPANS = ["suffixes:3", "whole"]


def count(contexts, labels):
    return rg.Counts.from_contexts(contexts, labels, targets=["LOC", "PER"], spans=SPANS)


@given(corpora(), st.lists(st.integers(0, 3), min_size=1), st.sampled_from([1, 2, 3, 7]))
def test_parts_of_a_corpus_add_up_to_it_and_can_be_taken_away(tmp_path_factory, corpus, which, batch):
    contexts, labels = corpus
    parts = {}  # by a number, in turns
    for row, (context, label) in enumerate(zip(contexts, labels, strict=True)):
        found = parts.setdefault(which[row % len(which)], ([], []))
        found[0].append(context)
        found[1].append(label)
    folder = tmp_path_factory.mktemp("parts")
    with patch.object(storage, "BATCH", batch):
        for number, part in parts.items():
            count(*part).save(folder / f"{number}.counts")
        stored = [rg.Counts.load(folder / f"{number}.counts") for number in parts]
        whole = count(contexts, labels)
        added = Combined(stored, [1] * len(stored))
        assert added.counts() == whole
        storage.write(folder / "all.counts", added.table())
        assert rg.Counts.load(folder / "all.counts") == whole
        if len(parts) > 1:
            rest = [rg.Counts.load(folder / "all.counts"), *stored[1:]]
            assert Combined(rest, [1] + [-1] * len(stored[1:])).counts() == stored[0]
            with pytest.raises(InputError, match="cannot subtract what was never added"):
                Combined([stored[0], whole], [1, -1])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True), max_size=4), st.integers(1, 4)
)
def test_streams_of_sorted_rows_are_merged(streams, size):
    span = Span("item", 0, 2)

    def stream(keys):
        for first in range(0, len(keys), size):
            some = np.array(keys[first : first + size], dtype=np.int32).reshape(-1, 2)
            yield SpanRows(span, some, np.ones((len(some), 1), dtype=np.int64))

    found = list(merge_rows(span, [stream(sorted(keys)) for keys in streams]))
    rows = [
        (tuple(key), int(value[0]))
        for part in found
        for key, value in zip(part.keys.tolist(), part.values, strict=True)
    ]
    every = [key for keys in streams for key in keys]
    assert rows == [(key, every.count(key)) for key in sorted(set(every))]


def test_rare_spans_are_dropped_at_the_end(tmp_path):
    one = count([["a", "b"], ["a", "b"], ["c", "b"]], ["LOC", None, None])
    merged = Combined([one, one], [1, 1])
    storage.write(tmp_path / "t", merged.table(min_count=3))
    assert rg.Counts.load(tmp_path / "t") == (one + one).drop_rare(3)

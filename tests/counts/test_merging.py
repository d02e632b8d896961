"""Tables added up and subtracted in streams: whatever the batches are, the result is that of counting together."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
import raregram.counts.rows
from conftest import corpora
from raregram.counts import storage
from raregram.counts.merging import Combined, merge_rows
from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span, suffix
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
    with patch.object(storage, "BATCH", batch), patch.object(raregram.counts.rows, "BATCH", batch):
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
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True), max_size=4),
    st.integers(1, 4),
    st.sampled_from(["left", "right"]),
)
def test_streams_of_sorted_rows_are_merged(streams, size, side):
    span = Span("item", 0, 2)

    def stream(keys):
        for first in range(0, len(keys), size):
            some = np.array(keys[first : first + size], dtype=np.int32).reshape(-1, 2)
            yield SpanRows(span, some, np.ones((len(some), 1), dtype=np.int64))

    def in_order(keys):
        return sorted(keys, key=lambda key: key[::-1] if side == "left" else key)

    found = list(merge_rows(span, [stream(in_order(keys)) for keys in streams], side))
    rows = [
        (tuple(key), int(value[0]))
        for part in found
        for key, value in zip(part.keys.tolist(), part.values, strict=True)
    ]
    every = [key for keys in streams for key in keys]
    assert rows == [(key, every.count(key)) for key in in_order(set(every))]


@given(corpora(n=4), st.sampled_from(["left", "right"]), st.integers(1, 5))
def test_shorter_suffixes_add_up_the_longest(corpus, side, batch):
    """Whatever the batches are in which the longest ones come."""
    contexts, labels = corpus
    spans = ["suffixes:4", "shapes:3"]
    counts = rg.Counts.from_contexts(contexts, labels, targets=["LOC", "PER"], spans=spans, side=side)
    assert len(list(counts.rows.stored)) == 8 + 2
    with patch.object(raregram.counts.rows, "BATCH", batch):
        for length in (2, 3):
            span = suffix(length, 4, side)
            found = {
                tuple(counts.items.take(pa.array(key)).to_pylist()): value.tolist()
                for key, value in zip(counts.rows[span].keys, counts.rows[span].values, strict=True)
            }
            expected = {}
            for context, label in zip(contexts, labels, strict=True):
                value = expected.setdefault(tuple(context[span.start : span.stop]), [0, 0, 0])
                value[0] += 1
                for column, target in enumerate(counts.targets, 1):
                    value[column] += label == target or (isinstance(label, (list, tuple, set)) and target in label)
            assert found == expected
            keys = [key[::-1] if side == "left" else key for key in counts.rows[span].keys.tolist()]
            assert keys == sorted(keys)


def test_rare_spans_are_dropped_after_a_subtraction_too(tmp_path):
    """Also where nothing is left of a batch of the longest suffixes."""
    one, more = count([list("xab")] * 3, ["LOC", None, None]), count([list("xcd")] * 2, [None, "PER"])
    with patch.object(storage, "BATCH", 1), patch.object(raregram.counts.rows, "BATCH", 1):
        storage.write(tmp_path / "t", Combined([one + more, more], [1, -1]).table(min_count=2))
    assert rg.Counts.load(tmp_path / "t") == one.drop_rare(2)


def test_contexts_of_hundreds_of_items_share_as_many():
    """Suffixes are told apart by how many items rows share, however many these are."""
    long = ["x"] * 300
    contexts = [["a", *long], ["b", *long], *([f"{k}"] * 44 + ["x"] * 257 for k in range(3))]
    counts = rg.Counts.from_contexts(contexts, ["LOC"] + [None] * 4, spans=["suffixes:3", "whole"])
    rows = counts.rows[suffix(3, 301, "left")]
    assert (rows.keys.shape, rows.values.tolist()) == ((1, 3), [[5, 1]])

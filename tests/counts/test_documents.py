"""Document frequencies: in how many documents a span is, and the sum of its squared frequencies in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_folds import SPANS, contents, count, documents, has_contexts

import raregram as rg
import raregram.counts.rows
from raregram.corpus.documents import Options
from raregram.counts import engine, storage
from raregram.counts.count import CountJob
from raregram.counts.kernel import CountSettings
from raregram.counts.merging import Combined
from raregram.errors import InputError, ParameterError

TARGETS = ("LOC", "PER")


def by_hand(source, lengths, n=3, side="left"):
    """Return frequencies, documents, squares and products of suffixes, from dictionaries."""
    found = defaultdict(lambda: np.zeros((4, 1 + len(TARGETS)), dtype=np.int64))
    for document in source:
        items, in_document = document["items"], defaultdict(Counter)
        size = max(len(items) - n + 1, 0)
        for start in range(len(items) - n + 1):
            boundary = start + n if side == "left" else start
            names = {
                label for first, end, label in document["spans"] if boundary == (first if side == "left" else end)
            }
            for length in lengths:
                key = items[start + n - length : start + n] if side == "left" else items[start : start + length]
                in_document[tuple(key)].update([0, *(1 + TARGETS.index(name) for name in names)])
        for key, frequency in in_document.items():
            for column, times in frequency.items():
                found[key][:, column] += (times, 1, times * times, times * size)
    return {key: values.ravel().tolist() for key, values in found.items()}


@given(documents(), st.sampled_from(["left", "right"]), st.sampled_from([0, 0, 3]), st.data())
def test_they_are_those_of_a_dictionary(source, side, folds, data):
    batch, memory, threads = (data.draw(st.sampled_from(pair)) for pair in ((1, 3, 65_536), (None, 1), (1, 2)))
    if not has_contexts(source):
        return
    with patch.object(raregram.counts.rows, "BATCH", batch), patch.object(engine, "SMALLEST_RANGE", 2):
        job = count(source, folds, spans=("suffixes:2", "whole"), side=side, documents=True)
        counts = replace(job, memory_limit=memory).collect(threads)
    for length in (1, 2, 3):
        span = rg.counts.spans.suffix(length, 3, side)
        assert dict(contents(counts)[span]) == by_hand(source, [length], side=side)
    assert counts.totals.tolist() == by_hand(source, [0], side=side)[()]


@given(documents(), st.sampled_from(SPANS), st.sampled_from(["left", "right"]))
def test_the_frequencies_are_those_of_a_table_without_them(source, spans, side):
    if not has_contexts(source):
        return
    plain, counts = (count(source, spans=spans, side=side, documents=more).collect() for more in (False, True))
    assert counts.totals[:3].tolist() == plain.totals.tolist()
    for span, rows in plain.rows.items():
        assert np.array_equal(rows.values, counts.rows[span].values[:, :3])
        assert np.array_equal(rows.keys, counts.rows[span].keys)


@given(documents(8), documents(8), st.sampled_from(SPANS), st.sampled_from([0, 2]))
def test_they_merge_and_subtract(tmp_path_factory, one, two, spans, folds):
    if not (has_contexts(one) and has_contexts(two)):
        return
    path = tmp_path_factory.mktemp("documents") / "t.counts"
    a, b, both = (count(source, folds, spans=spans, documents=True).collect() for source in (one, two, one + two))
    assert a + b == both
    assert both - b == a
    both.save(path)
    assert rg.Counts.load(path) == both
    storage.write(path, Combined([a.of_folds(), b.of_folds()], [1, 1]).table(min_count=2))
    assert rg.Counts.load(path) == both.of_folds().drop_rare(2)
    storage.write_parquet(path, both.as_table(every=True))
    assert rg.Counts.load(path) == both
    assert both.with_targets(["PER"]) == count(one + two, folds, spans=spans, documents=True).collect().with_targets(
        ["PER"]
    )
    if not folds:
        alone = CountSettings(n=3, targets=("PER",), spans=spans, documents=True)
        assert contents(both.with_targets(["PER"])) == contents(CountJob((one + two, None, None), alone).collect())


def test_what_is_in_more_documents_cannot_be_subtracted():
    twice, once = (
        rg.count([{"text": text} for text in texts], n=1, targets=[], documents=True, spans=["units"])
        for texts in (["a a b"], ["a", "b a"])
    )
    with pytest.raises(InputError, match="cannot subtract what was never added"):
        twice - once
    plain = rg.count([{"text": "a a b"}], n=1, targets=[], spans=["units"])
    with pytest.raises(ParameterError, match="different documents"):
        twice + plain


def test_a_long_document_is_one(tmp_path):
    """Also where it is read in pieces, and by however many threads."""
    (tmp_path / "a.txt").write_text("x y x\n")
    (tmp_path / "b.txt").write_text(" ".join(f"w{number % 97}" for number in range(97_000)))
    settings = CountSettings(n=1, spans=("units",), targets=(), documents=True)
    for threads in (1, 3):
        job = CountJob(([str(tmp_path)], None, None), settings, Options(batch_bytes=100_000), memory_limit=1 << 24)
        counts = job.collect(threads)
        assert counts.totals.tolist() == [97_003, 2, 97_000**2 + 9, 97_000**2 + 9]
        rows = dict(contents(counts)[counts.whole])
        assert rows["x",] == [2, 1, 4, 6]
        assert rows["w5",] == [1_000, 1, 1_000_000, 97_000_000]


def test_two_samples_have_documents_of_their_own():
    counts = rg.count(
        numerator=[{"text": "a a b"}], denominator=[{"text": "a c"}, {"text": "c"}], n=1, documents=True
    )
    assert counts.totals.tolist() == [6, 3, 3, 1, 14, 9, 14, 9]
    assert dict(contents(counts)[counts.whole])["a",] == [3, 2, 2, 1, 5, 4, 8, 6]


def test_frequencies_have_no_documents(tmp_path):
    (tmp_path / "t.csv").write_text("ngram,f_nu,f_de\na b,1,2\n")
    with pytest.raises(ParameterError, match="frequencies of contexts tell nothing about documents"):
        rg.count(str(tmp_path / "t.csv"), documents=True)

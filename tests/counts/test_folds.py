"""Tables that are counted in folds of documents: they add up to the table, and each is the table of its documents."""

from __future__ import annotations

import operator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
import raregram.counts.rows
from raregram.corpus.documents import Options
from raregram.counts import engine, storage
from raregram.counts.count import CountJob
from raregram.counts.kernel import CountSettings
from raregram.counts.merging import Combined
from raregram.errors import InputError, ParameterError

ITEMS = ["a", "b", "B2", "0", "1", "2", "d-e"]  # some are the names of folds
SPANS = [("units",), ("suffixes:2",), ("suffixes:3", "shapes:2"), ("shapes:1",), ("units", "whole")]


@st.composite
def documents(draw, most=12):
    found = []
    for _ in range(draw(st.integers(1, most))):
        items = draw(st.lists(st.sampled_from(ITEMS), max_size=9))
        starts = draw(st.sets(st.integers(0, max(len(items) - 1, 0)), max_size=3)) if items else set()
        label = draw(st.sampled_from(["LOC", "PER"]))
        found.append({"items": items, "spans": [(start, start + 1, label) for start in starts]})
    return found


def count(source, folds=0, **settings):
    return CountJob((source, None, None), CountSettings(n=3, targets=("LOC", "PER"), folds=folds, **settings))


def contents(counts):
    """Return the frequencies of all rows by their span and items, in order."""
    names = counts.items.to_pylist()
    return {
        span: [(tuple(names[code] for code in key), values)
               for key, values in zip(rows.keys.tolist(), rows.values.tolist(), strict=True)]
        for span, rows in counts.rows.items()
    }  # fmt: skip


def fold_of(document, folds):
    """Return the fold of a document, which depends on nothing else; None if it is too short for any."""
    totals = [fold[0] for fold in count([document], folds).collect().folds] if has_contexts([document]) else [0]
    return int(np.argmax(totals)) if max(totals) else None


def has_contexts(source):
    return any(len(document["items"]) >= 3 for document in source)


@given(documents(), st.sampled_from(SPANS), st.sampled_from(["left", "right"]), st.integers(2, 4), st.data())
def test_folds_add_up_and_each_is_the_table_of_its_documents(source, spans, side, folds, data):
    batch, memory, threads = (data.draw(st.sampled_from(pair)) for pair in ((1, 3, 65_536), (None, 1), (1, 2)))
    if not has_contexts(source):
        return
    whole = (*spans, "whole")
    with patch.object(raregram.counts.rows, "BATCH", batch), patch.object(engine, "SMALLEST_RANGE", 2):
        job = count(source, folds, spans=spans, side=side)
        counts = replace(job, memory_limit=memory).collect(threads)
        expected = count(source, spans=whole, side=side).collect()
        assert contents(counts) == contents(counts.of_folds()) == contents(expected)
        assert counts.totals.tolist() == expected.totals.tolist() == np.sum(counts.folds, axis=0).tolist()
        assert counts.of_folds().as_table().header == expected.as_table().header
        for fold in range(folds):
            own = [document for document in source if fold_of(document, folds) == fold]
            if has_contexts(own):
                alone = count(own, spans=whole, side=side).collect()
                assert contents(counts.of_folds([fold])) == contents(alone)
                assert counts.of_folds([fold]).totals.tolist() == alone.totals.tolist()
                rest = [other for other in range(folds) if other != fold]
                assert contents(counts.of_folds(rest)) == contents(expected - alone)


@given(documents(8), documents(8), st.sampled_from(SPANS), st.sampled_from(["left", "right"]))
def test_tables_in_folds_merge_and_subtract_fold_by_fold(tmp_path_factory, one, two, spans, side):
    if not (has_contexts(one) and has_contexts(two)):
        return
    path = tmp_path_factory.mktemp("folds") / "t.counts"
    a, b = (count(source, 3, spans=spans, side=side).collect() for source in (one, two))
    merged = a + b
    assert np.array_equal(merged.folds, np.array(a.folds) + np.array(b.folds))
    for fold in range(3):
        assert contents(merged.of_folds([fold])) == contents(a.of_folds([fold]) + b.of_folds([fold]))
    assert merged - b == a
    merged.save(path)
    again = rg.Counts.load(path)
    assert again == merged
    assert again.digest() == merged.digest()
    assert contents(again.of_folds([1])) == contents(merged.of_folds([1]))
    storage.write(path, Combined([a, b], [1, 1]).table())
    assert rg.Counts.load(path) == merged
    storage.write(path, Combined([a.of_folds(), b.of_folds()], [1, 1]).table(min_count=2))
    assert rg.Counts.load(path) == merged.of_folds().drop_rare(2)
    assert merged.with_targets(["PER"]).of_folds([0]) == merged.of_folds([0]).with_targets(["PER"])
    plain = count(two, spans=(*spans, "whole"), side=side).collect()
    assert b.of_folds() == plain
    both, expected = a.of_folds() + plain, count([*one, *two], spans=(*spans, "whole"), side=side).collect()
    assert both == merged.of_folds() == expected
    assert both.items.equals(expected.items)  # the names of folds are not among them
    for combine in (operator.add, operator.sub):
        with pytest.raises(ParameterError, match=r"different folds cannot be combined: 3 and none.*of_folds\(\)"):
            combine(a, plain)


def test_there_may_be_more_folds_than_items_and_shapes():
    source = [{"items": ["a"] * 4, "spans": [(3, 4, "LOC")]}] * 12
    counts = count(source, 10, spans=("shapes:3",)).collect()
    assert contents(counts) == contents(count(source, spans=("shapes:3", "whole")).collect())


def test_what_was_never_added_to_a_fold_cannot_be_taken_from_it():
    a, b = (
        rg.Counts.from_contexts(contexts, [None, None], targets=["LOC"], folds=2)
        for contexts in (["x y", "so it"], ["so it", "x y"])
    )
    with pytest.raises(InputError, match="cannot subtract what was never added"):
        a - b


def test_equal_documents_are_in_the_same_fold_and_others_are_spread_over_all():
    texts = [f"the word of the day is w{number} said he" for number in range(200)]
    counts = count([{"text": text, "spans": []} for text in texts * 3], 5).collect()
    sizes = np.array(counts.folds)[:, 0] // 7  # contexts of a document
    assert (sizes % 3 == 0).all()
    assert 40 < sizes.min() < sizes.max() < 240


def test_a_long_document_is_in_one_fold(tmp_path):
    """Also where it is read in pieces, and by however many threads."""
    words = [f"w{number % 97}" for number in range(400_000)]
    (tmp_path / "a.txt").write_text("short one here\n")
    (tmp_path / "b.txt").write_text(" ".join(words))
    (tmp_path / "c.txt").write_text("another short one\n")
    settings = CountSettings(n=3, spans=("units",), folds=2, targets=())
    for threads in (1, 3):
        job = CountJob(([str(tmp_path)], None, None), settings, Options(batch_bytes=100_000), memory_limit=1 << 24)
        ((many,), (few,)) = sorted(job.collect(threads).folds, reverse=True)
        assert (many, few) in ((399_998, 2), (399_999, 1), (400_000, 0))


def test_labelled_contexts_are_documents_of_their_own():
    counts = rg.Counts.from_contexts(["a b", "c d", "e f", "g h"], ["LOC", None, None, "LOC"], folds=2)
    assert counts.folds == ((2, 1), (2, 1))
    assert counts.of_folds([0]).whole_ngrams().texts("words").to_pylist() == ["a b", "e f"]


def test_folds_that_cannot_be(tmp_path):
    for folds in (1, 11, -1, "a", 2.5):
        with pytest.raises(ParameterError, match="folds"):
            rg.count([{"text": "a b c", "spans": []}], n=2, folds=folds)
    with pytest.raises(ParameterError, match="leave min_count out, or folds"):
        rg.count([{"text": "a b c", "spans": []}], n=2, folds=2, min_count=2)
    counts = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None], folds=2)
    for chosen in ([], [2], [0, -1]):
        with pytest.raises(ParameterError, match=r"some of \[0, 1\]"):
            counts.of_folds(chosen)
    with pytest.raises(ParameterError, match="some of"):
        rg.Counts.from_contexts(["a b", "c d"], ["LOC", None]).of_folds([0])

"""Documents -> count table, against a dictionary counter, for every option and however the work is cut up."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import raregram as rg
from conftest import as_dictionary
from raregram.counts.count import local
from raregram.counts.sorting import group_rows
from raregram.counts.spans import parse_spans
from raregram.errors import InputError, ParameterError
from raregram.options import SPANS
from raregram.text.shapes import word_shape

ITEMS = st.sampled_from(["a", "b", "Cat", "Dog,", "é", "\U0001f600", "walking", "talking", "7"])
LABELS = st.sampled_from(["LOC", "PER", "GPE"])


@st.composite
def documents(draw):
    items = draw(st.lists(ITEMS, max_size=12))
    bounds = st.integers(0, len(items))
    spans = draw(st.lists(st.tuples(bounds, bounds, LABELS), max_size=5)) if items else []
    return {"items": items, "spans": [(min(a, b), max(a, b), label) for a, b, label in spans if a != b]}


CORPORA = st.lists(documents(), min_size=1, max_size=8)
PLANS = st.fixed_dictionaries(
    {"n": st.integers(1, 4)},
    optional={
        "side": st.sampled_from(["left", "right"]),
        "targets": st.sampled_from([["LOC"], ["PER", "LOC"], ["LOC", "ORG"]]),
        "spans": st.sampled_from(
            [["units"], ["suffixes:2"], ["suffixes:3", "whole"], ["whole"], ["shapes:1"], ["suffixes:2", "shapes:3"]]
        ),
        "pad": st.booleans(),
        "min_count": st.integers(1, 3),
        "labels": st.just({"GPE": "LOC"}),
    },
)

ANY_LABELS = pytest.mark.filterwarnings("ignore::raregram.errors.RaregramWarning")  # also none at all


def naive(corpus_, n, *, side="left", targets=None, spans=SPANS.default, pad=False, min_count=1, labels=None):
    """Count context by context with dictionaries: {(start, end, items): {column: frequency}} and the totals."""
    table, totals = {}, {}
    wanted = [span.columns(n) for span in parse_spans(spans, n, side)]
    if targets is None:
        found = {label for document in corpus_ for _, _, label in document["spans"]}
        targets = {(labels or {}).get(label, label) for label in found}
    for document in corpus_:
        items = list(document["items"])
        for boundary in range(len(items) + 1):
            context = items[max(boundary - n, 0) : boundary] if side == "left" else items[boundary : boundary + n]
            missing = [""] * (n - len(context))
            if missing and not pad:
                continue
            context = missing + context if side == "left" else context + missing
            nearest = n - 1 if side == "left" else 0
            context += [word_shape(item)[k != nearest] for k, item in enumerate(context)]
            here = {
                (labels or {}).get(label, label)
                for start, end, label in document["spans"]
                if (start if side == "left" else end) == boundary
            }
            columns = ["total", *(here & set(targets))]
            for column in columns:
                totals[column] = totals.get(column, 0) + 1
            for start, end in wanted:
                row = table.setdefault((start, end, tuple(context[start:end])), {})
                for column in columns:
                    row[column] = row.get(column, 0) + 1
    kept = {key: row for key, row in table.items() if key[1] - key[0] == 1 or row["total"] >= min_count}
    order = ["total", *sorted(targets)]
    return (
        {key: [row.get(column, 0) for column in order] for key, row in kept.items()},
        [totals.get(column, 0) for column in order],
    )


@ANY_LABELS
@settings(max_examples=200)
@given(CORPORA, PLANS)
def test_counting_agrees_with_a_dictionary(corpus_, plan):
    table, totals = naive(corpus_, **plan)
    assume(totals[0])
    counts = rg.count(corpus_, **plan)
    assert as_dictionary(counts) == table
    assert counts.totals.tolist() == totals
    assert counts.items.to_pylist() == sorted({item for _, _, key in table for item in key}, key=str.encode)


@ANY_LABELS
@settings(max_examples=40)
@given(CORPORA, PLANS, st.integers(1, 3), st.sampled_from([1, 1000, 20_000, 1 << 30]), st.randoms())
def test_the_result_does_not_depend_on_how_the_work_is_cut_up(corpus_, plan, threads, memory_limit, shuffler):
    assume(naive(corpus_, **plan)[1][0])
    expected = rg.count(corpus_, **plan)
    shuffled = list(corpus_)
    shuffler.shuffle(shuffled)
    counts = rg.count(shuffled, threads=threads, memory_limit=memory_limit, batch_bytes=16, **plan)
    assert counts == expected
    assert counts.digest() == expected.digest()


@ANY_LABELS
@settings(max_examples=60)
@given(CORPORA, PLANS, st.integers(1, 4), st.integers(1, 3))
def test_ranges_of_any_width_give_the_same_table(corpus_, plan, windows, threads):
    """Also where one item, or one N-gram, has more windows than a range may have."""
    assume(naive(corpus_, **plan)[1][0])
    expected = rg.count(corpus_, **plan)
    with patch.multiple(local, SMALLEST_RANGE=windows, MOST_RANGES=1 << 30):
        assert rg.count(corpus_, memory_limit=1, batch_bytes=64, threads=threads, **plan) == expected


def test_equal_windows_beyond_the_limit_are_one_row():
    corpus_ = [{"items": ["a"] * 50, "spans": [(k, k + 1, "X") for k in range(10, 20)]}] * 20
    with patch.object(local, "SMALLEST_RANGE", 7):
        counts = rg.count(corpus_, n=3, spans=["suffixes:3"], memory_limit=1)
    assert as_dictionary(counts)[0, 3, ("a", "a", "a")] == [960, 200]


def test_what_is_beyond_the_limit_goes_to_temporary_files(monkeypatch):
    files = []
    original = local.tempfile.TemporaryFile
    monkeypatch.setattr(local.tempfile, "TemporaryFile", lambda **told: files.append(told) or original(**told))
    corpus_ = [{"items": f"w{i % 7} w{i % 5} w{i % 3} w{i % 11}".split(), "spans": [(3, 4, "X")]} for i in range(900)]
    options = {"n": 3, "spans": ["units", "suffixes:3"], "targets": ["X"]}
    counts = rg.count(corpus_, memory_limit=1, batch_bytes=400, **options)
    assert len(files) > 2  # the codes, and the windows of two spans
    files.clear()
    assert counts == rg.count(corpus_, **options)
    assert not files


def test_letters_count_every_code_point():
    counts = rg.count([{"text": "añb"}, {"text": "ña"}], kind="letters", n=2, spans=["units"], targets=[])
    assert as_dictionary(counts) == {
        (0, 1, ("a",)): [1], (0, 1, ("ñ",)): [2], (1, 2, ("ñ",)): [1], (1, 2, ("b",)): [1], (1, 2, ("a",)): [1],
    }  # fmt: skip


def test_overlapping_spans_both_count_and_equal_boundaries_count_once():
    document = {"items": list("abcd"), "spans": [(1, 3, "X"), (2, 4, "X"), (2, 3, "X"), (2, 3, "Y")]}
    assert rg.count([document], n=1).totals.tolist() == [4, 2, 1]
    assert rg.count([document], n=1, side="right").totals.tolist() == [4, 1, 1]


def test_two_plain_samples(tmp_path):
    (tmp_path / "a.txt").write_text("x y x y x")
    (tmp_path / "b.txt").write_text("x x y")
    counts = rg.count(numerator=tmp_path / "a.txt", denominator=tmp_path / "b.txt", n=2, spans=["whole"])
    assert counts.targets == ("numerator",)
    assert counts.sizes("numerator") == (4, 2)
    model = rg.fit(counts, estimator="mle")
    np.testing.assert_allclose(np.exp(model.log_ratio(["x y", "y x"])), [(2 / 4) / (1 / 2), np.inf])
    letters = rg.count(numerator=tmp_path / "a.txt", denominator=tmp_path / "b.txt", n=3, kind="letters")
    assert letters.sizes("numerator") == (7, 3)


def test_pads_are_items_and_what_a_short_ngram_lacks_is_none():
    counts = rg.count([{"text": "x y z", "spans": [(0, 1, "T"), (2, 3, "T")]}], n=2, pad=True)
    assert counts.totals.tolist() == [4, 2]
    model = rg.fit(counts, "T", "product", lam=0)
    whole, short = model.explain(["", "x"]), model.explain("x")
    assert [term.items for term in whole.terms] == [("",), ("x",)]
    assert [term.items for term in short.terms] == [("x",)]
    assert model.log_ratio(["x"])[0] == short.log_ratio == whole.terms[1].value
    unpadded = rg.fit(rg.count([{"text": "x y z", "spans": [(2, 3, "T")]}], n=2), "T", "product")
    assert [term.items for term in unpadded.explain("x").terms] == [("x",)]


@pytest.mark.parametrize("kind", ["words", "letters"])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_one_long_text_comes_in_pieces(tmp_path, kind, pad, side):
    """A document larger than a read is counted as if it were read at once."""
    text = " ".join(f"w{i * i % 17}ß" for i in range(400)) + "\n"
    (tmp_path / "long.txt").write_text(text)
    options = {"n": 5, "kind": kind, "pad": pad, "side": side, "spans": ["units", "suffixes:3"], "targets": []}
    whole = rg.count([{"text": text}], **options)
    for size in (1, 7, 64, 1000):
        assert rg.count(tmp_path / "long.txt", batch_bytes=size, **options) == whole


def test_merging_two_halves_is_counting_the_whole():
    corpus_ = [{"text": f"a b w{i} in", "spans": [(3, 4, "X")]} for i in range(20)]
    options = {"n": 3, "targets": ["X"], "spans": ["suffixes:2"]}
    halves = [rg.count(half, **options) for half in (corpus_[:7], corpus_[7:])]
    whole = rg.count(corpus_, **options)
    assert halves[0] + halves[1] == whole
    assert whole - halves[0] == halves[1]
    rare = rg.count(corpus_, min_count=2, **options)
    assert whole.drop_rare(2) == rare
    with pytest.raises(ParameterError, match="rare spans were dropped"):
        rare + whole


def test_arrow_tables_and_lists_of_items_are_documents():
    rows = [{"items": ["a", "b"], "spans": [{"start": 1, "end": 2, "label": "X"}]}, {"items": ["c"], "spans": []}]
    expected = rg.count(rows, n=1)
    table = pa.Table.from_pylist(rows)
    assert rg.count(table, n=1) == expected
    assert rg.count(table.to_reader(), n=1) == expected
    assert rg.count(table.to_batches()[0], n=1) == expected
    assert rg.count(iter(rows), n=1) == expected
    assert rg.count([["a", "b"], ["c"]], n=1, targets=[]).totals.tolist() == [3]


@pytest.mark.parametrize(
    ("corpus_", "message"),
    [
        ([{"items": ["a", "b"], "spans": [(1, 3, "X")]}], "document 1: the span X from 1 to 3 does not fit.* of 2"),
        ([{"items": ["a"]}, {"items": ["a"], "spans": [(-1, 1, "X")]}], "document 2: the span X from -1 to 1"),
        ([{"items": ["a"], "spans": [(1, 1, "X")]}], "document 1: the span X from 1 to 1"),
        ([{"items": ["a"], "spans": [(0, "1", "X")]}], "document 1: a span needs whole numbers"),
        ([{"items": ["a"], "spans": [{"start": 0}]}], "document 1: a span needs start, end and label"),
        ([{"items": "a b"}], "document 1: a document needs items"),
        ([{"items": ["a", 1]}], "document 1: a document needs items"),
        ([{"id": 7}], "document 1: a document needs items"),
        ([7], "document 1: a document is an object"),
        ([], "there is no document"),
        ([{"text": "a b"}, {"text": "a b c"}], "no document is long enough: the longest has 3 words, and n is 10"),
    ],
)
def test_bad_documents_are_named(corpus_, message):
    with pytest.raises(InputError, match=message):
        rg.count(corpus_)


@pytest.mark.parametrize("document", [{"text": "ab cd"}, {"items": ["ab", "cd"]}, {"items": ["a", "c"]}])
def test_a_span_outside_is_named_as_it_was_given_when_letters_are_counted(document):
    with pytest.raises(InputError, match="the span X from 1 to 9 does not fit into a document of 2 items"):
        rg.count([{**document, "spans": [(1, 9, "X")]}], n=1, kind="letters")


def test_bad_documents_can_be_skipped():
    good = [{"text": "a b c", "spans": [(2, 3, "X")]}, {"text": "a b", "spans": []}]
    bad = [{"text": "a b", "spans": [(2, 3, "X")]}, {"nothing": 1}]
    with pytest.warns(UserWarning, match="2 documents were skipped: "):
        counts = rg.count([bad[0], good[0], bad[1], good[1]], n=2, on_error="skip")
    assert counts == rg.count(good, n=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n parameter of a count must be a whole number >= 1"),
        ({"side": "up"}, "side parameter of a count must be one of"),
        ({"spans": ["suffix"]}, "spans parameter of a count"),
        ({"min_count": 0}, "min_count parameter of a count"),
        ({"on_error": "ignore"}, "on_error parameter of a count must be one of 'stop', 'skip'"),
        ({"split": "pages"}, "split parameter of a count must be one of"),
        ({"format": "word"}, "format parameter of a count must be one of 'parquet', 'jsonl'"),
        ({"numerator": "a.txt"}, "either documents, or both a numerator and a denominator"),
    ],
)
def test_wrong_calls_are_named(options, message):
    with pytest.raises(ParameterError, match=message):
        rg.count([{"text": "a b"}], **options)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    rg.count([{"text": "a b c"}], n=2, spans=["whole"], targets=[], memory_limit=1)
    assert list(Path(tmp_path).iterdir()) == []


def test_many_targets_stay_within_the_limit_and_give_the_same_table():
    labels = [f"L{number}" for number in range(30)]
    rng = np.random.default_rng(1)
    corpus_ = [
        {"items": [f"w{i}" for i in rng.integers(0, 300, 40)], "spans": [(9, 10, labels[row % 30]), (20, 21, "L1")]}
        for row in range(200)
    ]
    whole = rg.count(corpus_, n=4)
    assert whole == rg.count(corpus_, n=4, memory_limit=10_000, batch_bytes=2000)
    assert len(whole.targets) == 30


def test_a_target_may_be_named_by_a_string():
    assert rg.count([{"text": "a b", "spans": [(1, 2, "LOC")]}], n=1, targets="LOC").targets == ("LOC",)
    assert rg.Counts.from_contexts(["a b"], ["LOC"], targets="LOC").targets == ("LOC",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 40_000}, "n parameter of a count must be a whole number <= 1000"),
        ({"threads": -1}, "threads parameter of a count"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        rg.count([{"text": "a b"}], **options)


def test_two_samples_have_no_targets():
    with pytest.raises(ParameterError, match="two plain samples have no targets"):
        rg.count(numerator=[["a", "b"]], denominator=[["a", "b"]], n=1, targets=["X"])


def test_a_table_whose_whole_ngrams_were_all_dropped_cannot_be_fitted():
    counts = rg.count([{"text": "a b c", "spans": [(2, 3, "X")]}], n=2, spans=["whole"], min_count=5)
    with pytest.raises(InputError, match="min_count 5 dropped them all"):
        rg.fit(counts, "X", "direct")


@pytest.mark.parametrize("way", [{}, {"threads": 3}, {"memory_limit": 1, "threads": 2}])
def test_files_of_contexts_are_counted_as_documents_are(tmp_path, way):
    rng = np.random.default_rng(2)
    contexts = [" ".join(f"w{k}" for k in row) for row in rng.integers(0, 20, (3000, 3)).tolist()]
    labels = rng.choice(["LOC", "PER", "O"], 3000).tolist()
    (tmp_path / "c.tsv").write_text(
        "".join(f"{label}\t{text}\n" for label, text in zip(labels, contexts, strict=True))
    )
    options = {"spans": ["suffixes:3", "shapes:2"]}
    expected = rg.Counts.from_contexts(contexts, labels, **options)
    assert rg.count(tmp_path / "c.tsv", **options, **way) == expected
    f_nu = [int(label == "LOC") for label in labels]
    rows = "".join(f"{text},{f},{1 - f}\n" for text, f in zip(contexts, f_nu, strict=True))
    (tmp_path / "c.csv").write_text("ngram,f_nu,f_de\n" + rows)
    assert rg.count(str(tmp_path / "c.csv"), targets="LOC", **options, **way) == expected.with_targets(["LOC"])
    with pytest.raises(ParameterError, match="are for documents; these are contexts"):
        rg.count(tmp_path / "c.tsv", pad=True)


@pytest.mark.parametrize("largest", [1, 300, 2**31 - 1])
def test_rows_are_sorted_as_by_lexsort(largest):
    """Also where no column fits beside the groups and the index of as many rows."""
    rng = np.random.default_rng(largest)
    columns = np.repeat(rng.integers(0, largest, (3, 50_000), dtype=np.int32), 2, axis=1)[:, rng.permutation(100_000)]
    order, heads, distinct = group_rows(columns)
    expected = np.lexsort(columns[::-1])
    assert np.array_equal(order, expected)
    assert np.array_equal(distinct, np.unique(columns.T, axis=0))
    assert np.array_equal(columns[:, order[heads]].T, distinct)
    assert [len(part) for part in group_rows(columns[:, :0])] == [0, 0, 0]

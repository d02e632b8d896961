"""The count table against a dictionary counter, and its arithmetic."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from conftest import as_dictionary, corpora
from raregram.counts import parse_spans
from raregram.errors import InputError, ParameterError

TARGETS = ["LOC", "PER"]
SPANS = st.sampled_from([["units"], ["units", "suffixes:2"], ["whole"], ["suffixes:3", "whole"]])


def count(corpus, spans=("units", "suffixes:3", "whole"), side="left"):
    contexts, labels = corpus
    return rg.Counts.from_contexts(contexts, labels, targets=TARGETS, spans=spans, side=side)


def naive_count(corpus, spans, side):
    """Count with a dictionary: {(start, end, items): [total, LOC, PER]}."""
    contexts, labels = corpus
    n = len(contexts[0])
    wanted = {(k, k + 1) for k in range(n)}
    for name in spans:
        if name == "whole":
            wanted.add((0, n))
        elif name.startswith("suffixes:"):
            longest = min(int(name[9:]), n)
            wanted |= {(n - j, n) if side == "left" else (0, j) for j in range(1, longest + 1)}
    table = {}
    for items, label in zip(contexts, labels, strict=True):
        names = label if isinstance(label, tuple) else (label,)
        for start, end in wanted:
            row = table.setdefault((start, end, tuple(items[start:end])), [0, 0, 0])
            row[0] += 1
            for column, target in enumerate(TARGETS, 1):
                row[column] += target in names
    return table


@given(corpora(), SPANS, st.sampled_from(["left", "right"]))
def test_counting_agrees_with_a_dictionary(corpus, spans, side):
    counts = count(corpus, spans, side)
    assert as_dictionary(counts) == naive_count(corpus, spans, side)
    labels = Counter(name for label in corpus[1] for name in (label if isinstance(label, tuple) else (label,)))
    assert counts.totals.tolist() == [len(corpus[0]), labels["LOC"], labels["PER"]]


@given(corpora(n=2), corpora(n=2), corpora(n=2))
def test_merging_is_commutative_and_associative_and_equals_counting_together(a, b, c):
    one, two, three = count(a), count(b), count(c)
    together = count((a[0] + b[0] + c[0], a[1] + b[1] + c[1]))
    assert one + two == two + one
    assert (one + two) + three == one + (two + three) == sum([one, two, three]) == together
    assert ((one + two) + three).digest() == together.digest()


@given(corpora(n=3), corpora(n=3))
def test_subtracting_undoes_merging(a, b):
    one, two = count(a), count(b)
    assert one + two - two == one
    assert (one + two - two).digest() == one.digest()


@given(corpora(n=2))
def test_a_table_minus_itself_is_empty_and_still_adds(corpus):
    counts = count(corpus)
    empty = counts - counts
    assert empty.num_rows == 0
    assert not empty.totals.any()
    assert empty + counts == counts


@given(corpora(), st.randoms())
def test_the_order_of_the_contexts_does_not_matter(corpus, shuffler):
    rows = list(zip(*corpus, strict=True))
    shuffler.shuffle(rows)
    shuffled = tuple(list(column) for column in zip(*rows, strict=True))
    assert count(shuffled) == count(corpus)
    assert count(shuffled).digest() == count(corpus).digest()


@given(corpora(n=2), corpora(n=2))
def test_different_tables_have_different_digests(a, b):
    assert (count(a) == count(b)) == (count(a).digest() == count(b).digest())


@given(corpora())
def test_files_come_back_as_they_were(tmp_path_factory, corpus):
    counts = count(corpus)
    path = tmp_path_factory.mktemp("counts") / "some.counts"
    counts.save(path)
    assert rg.Counts.load(path) == counts
    empty = counts - counts
    empty.save(path)
    assert rg.Counts.load(path) == empty


def test_a_count_file_is_plain_parquet(counts, tmp_path):
    path = tmp_path / "c.counts"
    counts.save(path)
    table = pq.read_table(path)
    assert table.column_names == ["start", "end", "items", "total", "f_LOC", "f_PER"]
    rows = [row for row in table.to_pylist() if row["start"] == 3 and row["items"] == ["in"]]
    f_nu, f_de = counts.frequencies((3, 4), "LOC", "all")
    number = counts.items.to_pylist().index("in")
    at = counts.rows[3, 4].keys[:, 0].tolist().index(number)
    assert [(row["total"], row["f_LOC"]) for row in rows] == [(f_de[at], f_nu[at])]


def test_ngrams_with_two_frequencies_equal_the_contexts_they_stand_for(corpus):
    contexts, labels = corpus
    total, at_target = Counter(contexts), Counter(c for c, label in zip(*corpus, strict=True) if label == "LOC")
    ngrams = list(total)
    f_nu = [at_target[ngram] for ngram in ngrams]
    f_all = [total[ngram] for ngram in ngrams]
    f_de = [every - nu for every, nu in zip(f_all, f_nu, strict=True)]
    expected = rg.Counts.from_contexts(contexts, labels, targets=["LOC"], spans=["whole"])
    assert rg.Counts.from_ngrams(ngrams, f_nu, f_de, target="LOC") == expected
    assert rg.Counts.from_ngrams(ngrams, f_nu, f_all, target="LOC", denominator="all") == expected
    assert rg.Counts.from_ngrams(ngrams * 2, f_nu * 2, f_de * 2, target="LOC") == expected + expected


def test_ngrams_of_frequency_zero_leave_no_trace():
    with_zero = rg.Counts.from_ngrams(["a b", "c d"], [1, 0], [2, 0])
    assert with_zero == rg.Counts.from_ngrams(["a b"], [1], [2])
    assert with_zero.items.to_pylist() == ["a", "b"]


def test_totals_may_be_larger_than_what_a_table_lists():
    counts = rg.Counts.from_ngrams(["a b"], [1], [2], n_nu=10, n_de=100)
    assert counts.sizes("target") == (10, 100)
    assert counts.sizes("target", "all") == (10, 110)
    shared = rg.Counts.from_ngrams(["a b"], [1], [2], n_nu=10, n_de=100, denominator="all")
    assert shared.sizes("target", "all") == (10, 100)


def test_frequencies_up_to_2_53_stay_exact():
    most = 2**53 - 1
    counts = rg.Counts.from_ngrams(["a b", "a c"], [most - 1, 0], [0, 1])
    f_nu, f_de = counts.frequencies((0, 1), "target")
    assert (f_nu.tolist(), f_de.tolist()) == ([most - 1], [1])
    one = rg.Counts.from_ngrams(["a b"], [0], [1])
    assert (counts + one) - one == counts
    with pytest.raises(InputError, match=r"more than 2\*\*53"):
        counts + one + one


def test_spans_by_side():
    assert parse_spans(["suffixes:9"], 3, "left") == [(0, 1), (1, 2), (2, 3), (1, 3), (0, 3)]
    assert parse_spans(["suffixes:2"], 3, "right") == [(0, 1), (1, 2), (2, 3), (0, 2)]
    assert parse_spans("whole", 1, "left") == [(0, 1)]


def test_repr_says_what_it_holds(counts):
    assert repr(counts).startswith("Counts(n=4, side='left', kind='words': 1,000 contexts (LOC ")
    assert "units, suffixes to 3, whole N-grams" in repr(counts)


OTHERS = [
    ("n", {"contexts": ["a b"]}),
    ("side", {"side": "right"}),
    ("kind", {"contexts": ["abc"], "kind": "letters"}),
    ("targets", {"targets": ["ORG"]}),
    ("spans", {"spans": ["whole"]}),
]


@pytest.mark.parametrize(("name", "change"), OTHERS)
def test_tables_that_count_different_things_do_not_merge(name, change):
    options = {"contexts": ["a b c"], "labels": ["LOC"], "targets": ["LOC"]}
    one, other = rg.Counts.from_contexts(**options), rg.Counts.from_contexts(**{**options, **change})
    for combine in (one.__add__, one.__sub__):
        with pytest.raises(ParameterError, match=f"count tables with different {name} cannot be combined: .* and "):
            combine(other)


def test_subtracting_what_was_never_added_is_refused():
    a = rg.Counts.from_contexts(["x y", "x z"], ["LOC", None])
    b = rg.Counts.from_contexts(["x q"], ["LOC"])
    with pytest.raises(InputError, match=r"never added: 'q' at items 2 to 2 \(all\) would have the frequency -1"):
        a - b
    moved = rg.Counts.from_contexts(["x z"], ["LOC"])  # was there, but not at the target
    with pytest.raises(InputError, match=r"never added: 'x' at items 1 to 1 .*|never added: 'z' .*\(LOC\)"):
        a - moved


def test_subtracting_a_context_that_was_there_at_no_target_is_refused():
    """The target's frequency may not stay above the total."""
    a = rg.Counts.from_contexts(["x"], ["LOC"])
    b = rg.Counts.from_contexts(["x"], [None], targets=["LOC"])
    with pytest.raises(InputError, match="never added"):
        a - b


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rg.Counts.from_contexts(["a b"], ["X", "Y"]), "there are 1 contexts but 2 labels"),
        (lambda: rg.Counts.from_contexts(["a b", "a"], ["X", "Y"]), "N-gram 2 has 1 words, expected 2"),
        (lambda: rg.Counts.from_contexts([], []), "there is no N-gram"),
        (lambda: rg.Counts.from_ngrams(["a b"], [-1], [1]), "N-gram 1: f_nu must be a whole number.*got -1"),
        (lambda: rg.Counts.from_ngrams(["a", "b"], [1, 1], [1, 1.5]), "N-gram 2: f_de must be a whole.*got 1.5"),
        (lambda: rg.Counts.from_ngrams(["a"], [np.nan], [1]), "got nan"),
        (lambda: rg.Counts.from_ngrams(["a"], ["x"], [1]), "f_nu must be whole numbers"),
        (lambda: rg.Counts.from_ngrams(["a"], [1, 2], [1]), "1 N-grams but f_nu has the shape"),
        (lambda: rg.Counts.from_ngrams(["a"], [2], [1], denominator="all"), "f_nu is 2 but f_de.* is only 1"),
        (lambda: rg.Counts.from_ngrams(["a"], [2], [1], n_nu=1), "n_nu is 1, but the frequencies add up to 2"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": "up"}, "side parameter of a count must be one of 'left', 'right'. Got 'up'"),
        ({"kind": "lines"}, "kind parameter of a count must be one of 'words', 'letters'. Got 'lines'"),
        ({"spans": ["suffixes"]}, "spans parameter .* Got 'suffixes' instead"),
        ({"spans": ["suffixes:x"]}, "spans parameter .* Got 'suffixes:x' instead"),
    ],
)
def test_wrong_calls_are_named(change, message):
    with pytest.raises(ParameterError, match=message):
        rg.Counts.from_contexts(["a b"], ["X"], **change)


def test_unknown_target_and_denominator_are_named(counts):
    with pytest.raises(ParameterError, match=r"must be one of 'LOC', 'PER'. Got 'ORG'"):
        counts.sizes("ORG")
    with pytest.raises(ParameterError, match=r"must be one of 'complement', 'all'. Got 'none'"):
        counts.sizes("LOC", "none")

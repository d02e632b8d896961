"""The count table against a dictionary counter, and its arithmetic."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from conftest import as_dictionary, corpora
from raregram import options
from raregram.counts import storage
from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span, parse_spans, span_names, suffix_lengths
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


@given(corpora(n=2), corpora(n=2))
def test_different_tables_have_different_digests(a, b):
    assert (count(a) == count(b)) == (count(a).digest() == count(b).digest())


@given(corpora())
def test_files_come_back_as_they_were(tmp_path_factory, corpus):
    counts = count(corpus)
    path = tmp_path_factory.mktemp("counts") / "some.counts"
    empty = counts - counts
    assert (empty.num_rows, empty.totals.any(), empty + counts == counts) == (0, False, True)
    for table in (counts, empty):
        table.save(path)
        assert rg.Counts.load(path) == table


def test_a_count_file_is_plain_arrow_and_parquet_on_demand(counts, tmp_path):
    counts.save(tmp_path / "c.counts")
    storage.write_parquet(tmp_path / "c.parquet", counts.as_table())
    assert rg.Counts.load(tmp_path / "c.parquet") == counts
    with pa.memory_map(str(tmp_path / "c.counts")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.to_pylist() == pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert table.column_names == ["start", "end", "items", "total", "f_LOC", "f_PER"]
    rows = [row for row in table.to_pylist() if row["start"] == 3 and row["items"] == ["in"]]
    f_nu, f_de = counts.frequencies(Span("item", 3, 4), "LOC", "all")
    number = counts.items.to_pylist().index("in")
    at = counts.rows["item", 3, 4].keys[:, 0].tolist().index(number)
    assert [(row["total"], row["f_LOC"]) for row in rows] == [(f_de[at], f_nu[at])]


def test_polars_reads_a_count_file_with_its_strings(counts, tmp_path):
    polars = pytest.importorskip("polars")
    counts.save(tmp_path / "c.counts")
    stored = [
        row for row in counts.to_arrow().to_pylist() if row["end"] - row["start"] in (1, 3 if row["end"] > 4 else 4)
    ]
    assert polars.read_ipc(tmp_path / "c.counts").to_dicts() == stored


def test_ngrams_with_two_frequencies_equal_the_contexts_they_stand_for(corpus):
    contexts, labels = corpus
    total, at_target = Counter(contexts), Counter(c for c, label in zip(*corpus, strict=True) if label == "LOC")
    ngrams = list(total)
    f_nu = [at_target[ngram] for ngram in ngrams]
    f_all = [total[ngram] for ngram in ngrams]
    f_de = [every - nu for every, nu in zip(f_all, f_nu, strict=True)]
    expected = rg.Counts.from_contexts(contexts, labels, targets=["LOC"], spans=[*options.SPANS.default, "whole"])
    assert rg.Counts.from_ngrams(ngrams, f_nu, f_de, target="LOC") == expected
    assert rg.Counts.from_ngrams(ngrams, f_nu, f_all, target="LOC", denominator="all") == expected
    assert rg.Counts.from_ngrams(ngrams * 2, f_nu * 2, f_de * 2, target="LOC") == expected + expected


def test_ngrams_of_frequency_zero_leave_no_trace():
    with_zero = rg.Counts.from_ngrams(["a b", "c d"], [1, 0], [2, 0])
    assert with_zero == rg.Counts.from_ngrams(["a b"], [1], [2])
    assert with_zero.items.to_pylist() == ["a", "b"]  # which are their own shapes


def test_totals_may_be_larger_than_what_a_table_lists():
    counts = rg.Counts.from_ngrams(["a b"], [1], [2], n_nu=10, n_de=100)
    assert counts.sizes("target") == (10, 100)
    assert counts.sizes("target", "all") == (10, 110)
    shared = rg.Counts.from_ngrams(["a b"], [1], [2], n_nu=10, n_de=100, denominator="all")
    assert shared.sizes("target", "all") == (10, 100)


def test_frequencies_up_to_2_53_stay_exact():
    most = 2**53 - 1
    counts = rg.Counts.from_ngrams(["a b", "a c"], [most - 1, 0], [0, 1])
    f_nu, f_de = counts.frequencies(Span("item", 0, 1), "target")
    assert (f_nu.tolist(), f_de.tolist()) == ([most - 1], [1])
    one = rg.Counts.from_ngrams(["a b"], [0], [1])
    assert (counts + one) - one == counts
    with pytest.raises(InputError, match=r"more than 2\*\*53"):
        counts + one + one


def test_every_target_has_frequencies_of_its_own():
    counts = rg.Counts.from_contexts(["a", "a", "a", "b", "b", "b"], ["LOC", "PER", "PER", "PER", None, "ORG"])
    frequencies = {name: counts.frequencies(Span("item", 0, 1), name) for name in ("LOC", "ORG", "PER")}
    assert {name: (f_nu.tolist(), f_de.tolist()) for name, (f_nu, f_de) in frequencies.items()} == {
        "LOC": ([1, 0], [2, 3]),
        "ORG": ([0, 1], [3, 2]),
        "PER": ([2, 1], [1, 2]),
    }
    assert [counts.sizes(name) for name in counts.targets] == [(1, 5), (1, 5), (3, 3)]
    assert [counts.sizes(name, "all") for name in counts.targets] == [(1, 6), (1, 6), (3, 6)]
    assert "6 contexts (LOC 1, ORG 1, PER 3), 2 items" in repr(counts)


def test_repr_says_what_it_holds(counts):
    assert repr(counts).startswith("Counts(n=4, side='left', kind='words': 1,000 contexts (LOC ")
    assert "units, suffixes to 3, shapes to 3, whole N-grams" in repr(counts)


def test_many_and_long_labels_do_not_flood_the_terminal():
    labels = ["L" * 1000, *(f"T{number}" for number in range(50))]
    counts = rg.Counts.from_contexts(["a b"] * len(labels), labels)
    assert "51 contexts (LLLL" in repr(counts)
    assert "and 31 more), 2 items" in repr(counts)
    assert max(len(repr(counts)), len(repr(rg.fit(counts, labels[0])))) < 500


PLAIN = {"contexts": ["a b c"], "labels": ["LOC"], "targets": ["LOC"]}
SHAPES = {**PLAIN, "spans": ["shapes:1"]}
OTHERS = [
    ("n", PLAIN, {"contexts": ["a b"]}),
    ("side", PLAIN, {"side": "right"}),
    ("kind", PLAIN, {"contexts": ["abc"], "kind": "letters"}),
    ("targets", PLAIN, {"targets": ["ORG"]}),
    ("shape", SHAPES, {"shape": "letters"}),
    ("spans", PLAIN, {"spans": ["whole"]}),
]


@pytest.mark.parametrize(("name", "plain", "change"), OTHERS)
def test_tables_that_count_different_things_do_not_merge(name, plain, change):
    one, other = rg.Counts.from_contexts(**plain), rg.Counts.from_contexts(**{**plain, **change})
    for combine in (one.__add__, one.__sub__):
        with pytest.raises(ParameterError, match=f"count tables with different {name} cannot be combined: .* and "):
            combine(other)
    padded, plain = (rg.count([{"text": "a b c"}], n=2, pad=pad, targets=[]) for pad in (True, False))
    with pytest.raises(ParameterError, match="tables with different pad cannot be combined: True and False"):
        padded + plain


def of_contexts(contexts=("a b",), labels=("X",), **options):
    return rg.Counts.from_contexts(list(contexts), list(labels), **options)


def of_ngrams(f_nu, f_de, ngrams="abcdefgh", **options):
    return rg.Counts.from_ngrams(list(ngrams)[: len(f_nu)], f_nu, f_de, **options)


def line(row):
    return f"line {row + 10}"


MOST = 2**53
TOO_MANY = f"the frequencies add up to {MOST + 1}, more than"
BAD_INPUT = [
    (lambda: of_contexts(labels=["X", "Y"]), InputError, "there are 1 contexts but 2 labels"),
    (lambda: of_contexts(["a b", "a"], ["X", "Y"]), InputError, "N-gram 2 has 1 words, expected 2"),
    (lambda: of_contexts(["a b", "b"], [None, None], where=line), InputError, "line 11 has 1 words, expected 2"),
    (lambda: of_contexts(n=3), InputError, "N-gram 1 has 2 words, expected 3"),
    (lambda: of_contexts([], []), InputError, "there is no N-gram"),
    (lambda: of_contexts(side="up"), ParameterError, "side parameter of a count .* Got 'up'"),
    (lambda: of_contexts(kind="lines"), ParameterError, "kind parameter of a count .* Got 'lines'"),
    (lambda: of_contexts(spans=["suffixes:x"]), ParameterError, "spans parameter .* Got 'suffixes:x'"),
    (lambda: of_contexts().sizes("ORG"), ParameterError, "target parameter .* one of 'X'. Got 'ORG'"),
    (lambda: of_contexts().sizes("X", "none"), ParameterError, "one of 'complement', 'all'. Got 'none'"),
    (lambda: of_ngrams([-1], [1]), InputError, "N-gram 1: f_nu must be a whole number.*got -1"),
    (lambda: of_ngrams([1, 1], [1, 1.5]), InputError, "N-gram 2: f_de must be a whole.*got 1.5"),
    (lambda: of_ngrams([1, 1], [1, -1], where=line), InputError, "line 11: f_de must be"),
    (lambda: of_ngrams([np.nan], [1]), InputError, "got nan"),
    (lambda: of_ngrams(["x"], [1]), InputError, "f_nu must be whole numbers"),
    (lambda: of_ngrams([1, 2], [1], "a"), InputError, "1 N-grams but f_nu has the shape|f_de has the shape"),
    (lambda: of_ngrams([2], [1], denominator="all"), InputError, "f_nu is 2 but f_de.* is only 1"),
    (lambda: of_ngrams([2], [1], n_nu=1), InputError, "n_nu is 1, but the frequencies add up to 2"),
    (lambda: of_ngrams([2], [3], n_de=2), InputError, "n_de is 2, but the frequencies add up to 3"),
    (lambda: of_ngrams([1], [2], denominator="all", n_nu=6, n_de=5), InputError, "n_nu is 6 but n_de.* is only 5$"),
    (lambda: of_ngrams([1], [1], n=3), InputError, "N-gram 1 has 1 words, expected 3"),
    (lambda: of_ngrams([MOST], [1]), InputError, TOO_MANY),
    (lambda: of_ngrams([1], [1], n_nu=MOST, n_de=1), InputError, TOO_MANY),
    (lambda: of_ngrams([MOST, 1, 0], [0, 0, 0]), InputError, TOO_MANY),
    (  # more than 64 bits hold
        lambda: rg.Counts.from_ngrams(["a"] * 1100, [MOST] * 1100, [0] * 1100),
        InputError,
        f"the frequencies add up to {1100 * MOST}, more than",
    ),
    (lambda: of_ngrams([1], [1], denominator="rest"), ParameterError, "denominator parameter of from_ngrams"),
    (
        lambda: of_ngrams([0], [0], n_nu=-1),
        ParameterError,
        "n_nu parameter of .* must be a whole number >= 0",
    ),
    (lambda: of_ngrams([0], [0], n_de=2.5), ParameterError, "n_de parameter of from_ngrams must be a whole number"),
    (lambda: of_ngrams([0], [0], n_nu=True), ParameterError, "n_nu parameter of from_ngrams must be a whole number"),
]


@pytest.mark.parametrize(("make", "error", "word"), BAD_INPUT)
def test_bad_input_is_named(make, error, word):
    with pytest.raises(error, match=word):
        make()


def test_frequencies_of_every_type_are_whole_numbers_up_to_2_53():
    plain = rg.Counts.from_ngrams(["a", "b"], [5, 0], [1, 7])
    for kind in (np.int8, np.uint64, np.float32, object):
        assert rg.Counts.from_ngrams(["a", "b"], np.array([5, 0], kind), np.array([1, 7], kind)) == plain
    assert rg.Counts.from_ngrams(["a"], [2**53], [0]).totals.tolist() == [2**53, 2**53]
    for too_many in (np.array([2**53 + 1]), np.array([2**53 + 1], np.uint64), [2.0**53 + 2]):  # not rounded first
        with pytest.raises(InputError, match=r"N-gram 1: f_nu must be a whole number from 0 to 2\*\*53, got 9.0072e"):
            rg.Counts.from_ngrams(["a"], too_many, [0])


def test_ngrams_may_be_letters_on_the_right():
    counts = rg.Counts.from_ngrams(["ab", "ac"], [1, 0], [2, 3], kind="letters", side="right", spans=["suffixes:2"])
    assert (counts.side, counts.kind, counts.n) == ("right", "letters", 2)
    assert as_dictionary(counts)[0, 2, ("a", "c")] == [3, 0]
    for change, message in (
        ({"side": "up"}, "side parameter of a count"),
        ({"kind": "lines"}, "kind parameter of a"),
    ):
        with pytest.raises(ParameterError, match=message):
            rg.Counts.from_ngrams(["ab"], [1], [2], **change)


# "announced" is ~ed next to the boundary and ~a elsewhere; "Monday" is ~Aa in all places.
UNITS_OF_SHAPES = {"left": ["~a", "~Aa", "~ed"], "right": ["~ed", "~Aa", "~a"]}
PAIR_OF_SHAPES = {"left": (4, 6, ("~Aa", "~ed")), "right": (3, 5, ("~ed", "~Aa"))}


@pytest.mark.parametrize("side", ["left", "right"])
def test_shapes_are_counted_beside_the_items(side):
    contexts = ["announced Monday announced", "reported Friday reported"]
    counts = rg.Counts.from_contexts(contexts, ["X", None], spans=["shapes:2"], side=side)
    rows = as_dictionary(counts)
    shapes = {key: values for key, values in rows.items() if key[0] >= 3}
    expected = {(3 + k, 4 + k, (shape,)): [2, 1] for k, shape in enumerate(UNITS_OF_SHAPES[side])}
    assert shapes == {**expected, PAIR_OF_SHAPES[side]: [2, 1]}
    units = {key: values for key, values in rows.items() if key[0] < 3}
    assert units == as_dictionary(rg.Counts.from_contexts(contexts, ["X", None], side=side, spans=["units"]))
    assert counts.num_items == 4  # shapes are no items
    assert repr(counts).endswith("(X 1), 4 items, 10 rows of units, shapes to 2)")


def test_a_shape_function_goes_by_its_name():
    options = {"contexts": ["Ab cd"], "labels": ["X"]}
    assert (
        rg.Counts.from_contexts(**options, spans=["units"], shape="letters").shape is None
    )  # no shapes, no function
    assert rg.Counts.from_contexts(**options, spans=["shapes:1"]).shape == "words"
    assert rg.Counts.from_contexts(["Ab"], ["X"], spans=["shapes:1"]).shape == "words"  # also of a single item
    other = rg.Counts.from_contexts(**options, spans=["shapes:1"], shape="letters")
    assert other.shape == "letters"
    assert rg.Counts.from_ngrams(["Ab cd"], [1], [0], spans=["shapes:1"], shape="letters").shape == "letters"
    with pytest.raises(ParameterError, match="'curves'"):
        rg.Counts.from_contexts(**options, spans=["shapes:1"], shape="curves")


def test_dropping_rare_spans_keeps_all_units():
    counts = rg.Counts.from_contexts(["a b", "a b", "a c", "d b"], [None] * 4, targets=["X"], spans=["whole"])
    rare = counts.drop_rare(2)
    assert as_dictionary(rare) == {
        key: values for key, values in as_dictionary(counts).items() if key[1] - key[0] == 1 or values[0] >= 2
    }
    assert (0, 2, ("a", "b")) in as_dictionary(rare)
    assert (counts.min_count, rare.min_count) == (1, 2)
    assert rare.drop_rare(1).min_count == 2  # what is gone stays gone
    assert rare.drop_rare(3).min_count == 3
    assert counts.drop_rare(1) == counts
    message = "a count table whose rare spans were dropped (min_count) cannot be combined exactly: "
    message += "combine the whole tables first, then drop"
    for one, two in ((rare, counts), (counts, rare)):
        for combine in (one.__add__, one.__sub__):
            with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
                combine(two)
    with pytest.raises(ParameterError, match=r"min_count parameter of drop_rare must be a whole number >= 1\. Got 0"):
        counts.drop_rare(0)


def test_targets_can_be_chosen_again():
    counts = rg.Counts.from_contexts(["a", "a", "b"], ["LOC", "PER", "LOC"], spans=["units"])
    other = counts.with_targets(["PER", "ORG", "PER"])
    assert other.targets == ("ORG", "PER")
    assert other.totals.tolist() == [3, 0, 1]
    assert as_dictionary(other) == {(0, 1, ("a",)): [2, 0, 1], (0, 1, ("b",)): [1, 0, 0]}
    assert counts.with_targets(["LOC", "PER"]) == counts
    assert counts.with_targets([]).totals.tolist() == [3]
    assert {other.totals.dtype, other.rows["item", 0, 1].values.dtype} == {np.dtype(np.int64)}


def test_arithmetic_is_for_count_tables():
    counts = rg.Counts.from_contexts(["a"], ["X"])
    for wrong in (
        lambda: counts + 1,
        lambda: counts - 1,
        lambda: 1 + counts,
        lambda: 0.0 + counts,
        lambda: 0 - counts,
    ):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()
    assert sum([counts]) is counts
    assert counts != 1
    assert counts != "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(counts)


def test_equal_tables_have_equal_rows_and_equal_frequencies():
    def table(contexts, labels, **options):
        return rg.Counts.from_contexts(contexts, labels, targets=["X"], spans=["whole"], **options)

    first = table(["a b", "b a"], ["X", None])
    assert first == table(["b a", "a b"], [None, "X"])
    # The same totals, items and units, but other pairs; the same pairs, another at the target; other items.
    assert first != table(["a a", "b b"], ["X", None])
    assert first != table(["a b", "b a"], [None, "X"])
    assert first != table(["a c", "c a"], ["X", None])
    assert first != table(["a b", "b a"], ["X", None], side="right")


def test_whole_ngrams_come_back_in_order_of_the_rows():
    counts = rg.Counts.from_contexts(["b a", "a c", "b a"], [None] * 3, targets=["X"], spans=["whole"])
    assert counts.whole_ngrams().texts("words").to_pylist() == ["a c", "b a"]
    assert counts.whole_rows.values[:, 0].tolist() == [1, 2]


def test_size_in_memory_is_that_of_all_arrays():
    counts = rg.Counts.from_contexts(["ab cd", "ab ef"], ["X", None], spans=["whole"])
    # 3 rows of one item and 2 of two, each with 2 frequencies of 8 bytes; item numbers of 4 bytes; 2 totals of 8.
    keys, values = (3 + 2 * 2) * 4, (3 + 2) * 2 * 8
    assert counts.nbytes == counts.items.nbytes + 2 * 8 + keys + values
    assert counts.num_rows == 3 + 2


def test_what_was_never_added_is_named_with_its_place():
    options = {"targets": ["LOC"], "spans": ["suffixes:2", "shapes:2"]}
    one = rg.Counts.from_contexts(["on Monday announced"], [None], **options)
    units = rg.Counts.from_contexts(["on Monday reported"], [None], **options)
    with pytest.raises(InputError, match=r"'reported' at items 3 to 3 \(all\) would have the frequency -1"):
        one - units
    moved = rg.Counts.from_contexts(["on Monday announced"], ["LOC"], **options)
    with pytest.raises(InputError, match=r"'on' at items 1 to 1 \(LOC\) would have the frequency -1"):
        one - moved
    pair = {"f_nu": [0], "f_de": [1], "spans": ["shapes:2"]}
    both = rg.Counts.from_ngrams(["Ann Bob", "aaaaaa bbbbbb"], [0, 0], [1, 1], spans=["shapes:2"])
    crossed = rg.Counts.from_ngrams(["Ann bbbbbb"], **pair)
    with pytest.raises(InputError, match=r"'~Aa ~bb' at shapes of items 1 to 2 \(all\) would have the frequency -1"):
        both - crossed


def columns(names, n, side):
    """Spans as files store them."""
    return [span.columns(n) for span in parse_spans(names, n, side)]


@pytest.mark.parametrize(
    ("span", "stored", "described"),
    [
        (Span("item", 0, 2), (0, 2), "items 1 to 2"),
        (Span("shape", 0, 1), (3, 4), "shapes of items 1 to 1"),
        (Span("shape", 1, 3), (4, 6), "shapes of items 2 to 3"),
        (Span("any", 0, 1), (6, 7), "items 1 to 1"),
    ],
)
def test_a_span_is_stored_and_described_by_its_layer(span, stored, described):
    assert (span.columns(3), span.describe()) == (stored, described)
    assert Span.from_columns(*stored, 3) == span


@pytest.mark.parametrize(
    ("spans", "names"),
    [
        (["units"], "units"),
        (["suffixes:2"], "units, suffixes to 2"),
        (["suffixes:4"], "units, suffixes to 3, whole N-grams"),
        (["whole"], "units, whole N-grams"),
        (["shapes:1"], "units, shapes to 1"),
        (["shapes:4", "suffixes:2"], "units, suffixes to 2, shapes to 4"),
    ],
)
def test_spans_are_said_in_words(spans, names):
    assert span_names(parse_spans(spans, 4, "left"), 4) == names
    assert span_names(parse_spans(spans, 4, "right"), 4) == names


def test_names_of_spans_stand_for_these_spans():
    units, shapes = [(0, 1), (1, 2)], [(2, 3), (3, 4)]
    assert columns([], 2, "left") == columns("units", 2, "left") == units
    assert columns(["suffixes:0"], 2, "left") == columns(["suffixes:1"], 2, "right") == units
    assert columns(["shapes:0"], 2, "left") == [*units, *shapes]
    assert columns(["shapes:9"], 2, "right") == [*units, *shapes, (2, 4)]
    assert len(parse_spans(["units"], 1000, "left")) == 1000
    with pytest.raises(ParameterError, match=r"n parameter of a count must be a whole number <= 1000\. Got 1001"):
        parse_spans(["units"], 1001, "left")
    message = (
        "The spans parameter of a count must be made of 'units', 'suffixes:LENGTH', 'shapes:LENGTH' and 'whole'. Got "
    )
    for wrong in ("unit", "shapes", "suffixes:-1", "whole:2", "Whole", "prefixes:2"):
        with pytest.raises(ParameterError, match=re.escape(f"{message}{wrong!r} instead")):
            parse_spans([wrong], 2, "left")


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_longest_suffix_is_the_last_before_a_gap(side):
    spans = parse_spans(["suffixes:3", "shapes:2"], 5, side)
    assert suffix_lengths(spans, 5, side) == 3
    assert suffix_lengths(spans, 5, side, "shape") == 2
    assert suffix_lengths([span for span in spans if span.width != 2], 5, side) == 1
    assert suffix_lengths(parse_spans(["whole"], 2, side), 2, side) == 2
    assert suffix_lengths(parse_spans(["units"], 1, side), 1, side) == 1
    assert suffix_lengths(parse_spans(["units"], 3, side), 3, side, "shape") == 1  # there are no shapes at all


def test_a_loaded_table_knows_its_digest_until_it_changes(counts, tmp_path):
    counts.save(tmp_path / "c")
    loaded = rg.Counts.load(tmp_path / "c")
    assert loaded.known_digest == loaded.digest() == counts.digest()
    assert counts.known_digest is None
    assert (loaded + loaded).digest() == (counts + counts).digest() != counts.digest()
    assert loaded.with_targets(["LOC"]).digest() == counts.with_targets(["LOC"]).digest() != counts.digest()


def test_every_setting_of_a_table_comes_back_from_its_file(tmp_path):
    documents = [{"items": list("abcd"), "spans": [(1, 2, "X")]}, {"items": list("abce"), "spans": [(1, 3, "Y")]}]
    options = {"n": 2, "side": "right", "kind": "letters", "pad": True, "spans": ["shapes:2", "whole"]}
    counts = rg.count(documents, min_count=2, targets=["X", "Y"], **options)
    counts.save(tmp_path / "c")
    loaded = rg.Counts.load(tmp_path / "c")
    assert loaded == counts
    for table in (counts, loaded):
        found = (table.n, table.side, table.kind, table.pad, table.min_count, table.shape, table.targets)
        assert found == (2, "right", "letters", True, 2, "letters", ("X", "Y"))


def test_rows_of_a_span_may_come_in_parts_or_not_at_all(counts):
    table = counts.as_table()
    cut = [
        SpanRows(part.span, part.keys[rows], part.values[rows])
        for part in table.parts
        for rows in (slice(0, 3), slice(3, None))
    ]
    joined = rg.Counts.from_table(replace(table, parts=cut))
    assert joined == counts
    assert joined.digest() == counts.digest()
    empty = rg.Counts.from_table(replace(table, parts=[]))
    assert empty.spans == counts.spans
    assert {(part.keys.shape, part.keys.dtype.name) for part in empty.rows.values()} == {
        ((0, width), "int32") for width in (1, 2, 3, 4)
    }
    assert {(part.values.shape, part.values.dtype.name) for part in empty.rows.values()} == {((0, 3), "int64")}

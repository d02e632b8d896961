"""Strings, lists and arrays -> items -> numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from raregram.corpus.labels import distinct_labels
from raregram.errors import InputError
from raregram.text.ngrams import parse_ngrams, split_few, split_ngrams
from raregram.text.tokenize import Tokenizer
from raregram.text.vocabulary import build_vocabulary, encode_items

TEXT = st.text(alphabet=st.one_of(st.sampled_from(" \t\n\x1c\x85\xa0\u2003\u3000ab"), st.characters(codec="utf-8")))


@given(st.lists(TEXT.filter(lambda text: text.split()), min_size=1, max_size=5))
def test_words_are_split_as_python_splits_them(texts):
    for text in texts:
        assert parse_ngrams([text]).items.to_pylist() == text.split()


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"), min_size=1))
def test_letters_are_code_points(first, second):
    length = min(len(first), len(second))
    texts = [first[:length], second[:length]]
    assert parse_ngrams(texts, tokenizer=Tokenizer("letters")).items.to_pylist() == list("".join(texts))


def test_every_form_of_the_same_ngrams_is_the_same():
    rows = [["to", "be"], ["or", "not"]]
    texts = [" ".join(row) for row in rows]
    forms = [
        rows, texts, np.array(rows), np.array(texts), np.array(rows, object), pa.array(rows), pa.array(texts),
        pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode(),
        pa.chunked_array([texts[:1], texts[1:]]),
        tuple(texts), pa.array(["x x", *texts])[1:], pa.array([["x"], *rows])[1:],
    ]  # fmt: skip
    for form in forms:
        assert parse_ngrams(form).items.to_pylist() == ["to", "be", "or", "not"], form


def test_letters_of_a_slice_are_its_own():
    assert parse_ngrams(
        pa.array(["xx", "äb", "cd", "yy"])[1:3], tokenizer=Tokenizer("letters")
    ).items.to_pylist() == list("äbcd")


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1))
def test_a_vocabulary_is_in_byte_order(items):
    vocabulary, numbers = build_vocabulary(pa.array(items))
    assert vocabulary.to_pylist() == sorted(set(items), key=str.encode)
    assert [vocabulary[number].as_py() for number in numbers.tolist()] == items
    np.testing.assert_array_equal(encode_items(pa.array(items), vocabulary), numbers)


def test_an_item_that_is_not_in_the_vocabulary_is_minus_one():
    assert encode_items(pa.array(["b", "x", "a"]), pa.array(["a", "b"])).tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("ngrams", "n", "message"),
    [
        (["a b", "a b c"], None, "N-gram 2 has 3 words, expected 2: 'a b c'"),
        (["a b", ""], None, "N-gram 2 has 0 words, expected 2"),
        ([""], None, "N-gram 1 has 0 words, expected 1"),
        ([" "], 1, "N-gram 1 has 0 words, expected 1"),
        ([["a", "b"], ["a"]], None, r"N-gram 2 has 1 items, expected 2: \['a'\]"),
        ([], None, "there is no N-gram"),
        ("a b", None, "put the one string into a list"),
        (["a b", None], None, "N-gram 2 is missing"),
        ([["a", None]], None, "an item is missing"),
        ([["a", 1]], None, "must be strings"),
        ([1, 2], None, "items must be strings; found int64"),
        (["fine here", "not \ud800 fine"], None, "N-gram 2 is not valid Unicode"),
        ([["a", "\ud800"]], None, "N-gram 1 is not valid Unicode"),
        (["word " * 40], 2, r"N-gram 1 has 40 words, expected 2: 'word word .*\.\.\."),
    ],
)
def test_bad_ngrams_are_named(ngrams, n, message):
    with pytest.raises(InputError, match=message):
        parse_ngrams(ngrams, n)


def test_labels_of_every_form():
    sets, codes = distinct_labels(["LOC", None, "", "O", ["PER", "LOC"], ("PER",), set()])
    assert [sets[code] for code in codes] == [{"LOC"}, set(), set(), set(), {"PER", "LOC"}, {"PER"}, set()]


def test_labels_that_are_not_targets_count_as_nothing():
    counts = rg.Counts.from_contexts(["a", "b", "c"], ["LOC", "PER", "ORG"], targets=["PER", "LOC", "PER"])
    assert (counts.targets, counts.totals.tolist()) == (("LOC", "PER"), [3, 1, 1])


@pytest.mark.parametrize("label", [1, True, 2.5, (1,), object()])
def test_a_label_must_be_text(label):
    with pytest.raises(InputError, match="a label must be a string, None or a collection of strings"):
        distinct_labels(["LOC", label])


@given(
    st.lists(TEXT, min_size=1, max_size=4) | st.lists(st.lists(TEXT, max_size=3), min_size=1, max_size=4),
    st.sampled_from([Tokenizer(), Tokenizer("letters"), Tokenizer(tokenize="words", lower=True)]),
)
def test_a_few_are_split_as_many_are(ngrams, tokenizer):
    few = split_few(ngrams, tokenizer)
    if few is None:
        assert tokenizer.kind == "letters" or not any(ngrams)
        return
    many = split_ngrams(ngrams, tokenizer)
    assert [item for row in few for item in row] == many.items.to_pylist()
    assert [len(row) for row in few] == many.lengths.tolist()


@pytest.mark.parametrize(
    "wrong", [[None], ["a", None], [["a", None]], ["a", ["b"]], [["a"], "b"], [1], [["\ud800"]], ["\ud800"], [b"a"]]
)
def test_what_is_wrong_with_a_few_is_left_to_an_error(wrong):
    assert split_few(wrong) is None
    model = rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["X", "Y"], spans=["units"]), "X", "product")
    model.prepare()
    with pytest.raises(InputError, match=r"string|missing|Unicode"):
        model.log_ratio(wrong)

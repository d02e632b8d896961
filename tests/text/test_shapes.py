"""Shapes: what words and letters back off to, and shape functions of one's own."""

from __future__ import annotations

import string
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from raregram.errors import FileError, InputError, ParameterError
from raregram.text.shapes import (
    SHAPES,
    SHORT,
    letter_shape,
    shape_function,
    shapes_of,
    word_shape,
)

LOWER = st.text(string.ascii_lowercase, min_size=1, max_size=12)
CORE = st.one_of(LOWER, LOWER.map(str.upper), LOWER.map(str.capitalize), st.integers(0, 10**6).map(str))


@given(st.text())
def test_every_text_has_a_shape(word):
    for function in (word_shape, letter_shape):
        pair = function(word)
        assert isinstance(pair, tuple)
        assert [type(shape) for shape in pair] == [str, str]
        assert function(word) == pair


@given(LOWER)
def test_short_lower_case_words_are_their_own_shape_and_longer_ones_keep_their_ending(word):
    if len(word) <= SHORT:
        assert word_shape(word) == (word, word)
    else:
        assert word_shape(word) == ("~" + word[-2:], "~a")


@given(LOWER.filter(lambda word: len(word) > 1), LOWER.filter(lambda word: len(word) > 1))
def test_capitals_say_what_a_word_is_and_letters_do_not(one, other):
    assert word_shape(one.capitalize()) == word_shape(other.capitalize()) == ("~Aa", "~Aa")
    assert word_shape(one.upper()) == word_shape(other.upper()) == ("~A", "~A")
    assert word_shape(one[0].upper()) == ("~A1", "~A1")
    assert len({word_shape(form)[0] for form in (one.capitalize(), one.upper(), one[0].upper(), "x" * 5, "7")}) == 5


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_are_all_alike(one, other):
    for form in ("{}", "{:,}", "{}.5", "{}th", "A{}", "x-{}"):
        assert word_shape(form.format(one)) == word_shape(form.format(other)) == ("~9", "~9")


@given(CORE, st.sampled_from(list(",.;:!?)'\"")), st.sampled_from(list("(['\"$-")))
def test_punctuation_around_a_word_is_kept_apart_from_it(core, after, before):
    near, far = word_shape(core)
    assert word_shape(core + after) == (near + after, far + after)
    assert word_shape(before + core) == (near + "(", far + "(")
    assert word_shape(before + core + after) == (near + after + "(", far + after + "(")
    assert word_shape(core + after + ".") == (near + after, far + after)


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("", "", ""),  # a pad
        ("--", "--", "--"),
        ("......", "..", ".."),
        ("U.S.", "~A..", "~A.."),
        ("U.S", "~A.", "~A."),
        ("I", "~A1", "~A1"),
        ("don't", "~'t", "~a"),
        ("Zürich", "~Aa", "~Aa"),
        ("über", "über", "über"),
        ("東京", "東京", "東京"),
        ("東京都", "~京都", "~a"),
        ("iPhone", "~ne", "~a"),
        ("٣", "~9", "~9"),
    ],
)
def test_words(word, near, far):
    assert word_shape(word) == (near, far)


@pytest.mark.parametrize(
    ("letter", "shape"), [("a", "~a"), ("é", "~a"), ("A", "~A"), ("7", "~9"), (" ", " "), ("\n", "\n"), ("-", "-")]
)
def test_letters(letter, shape):
    assert letter_shape(letter) == (shape, shape)


def test_a_very_long_word_takes_no_time():
    """A drawn line without spaces is a word, too."""
    start = time.perf_counter()
    assert word_shape("a" + "-" * 20_000 + "b") == ("~-b", "~a")
    assert time.perf_counter() - start < 1


@given(st.lists(st.one_of(st.text("abAZ09_.,-('\x00\x7f", max_size=7), st.text(max_size=5), CORE)))
def test_many_words_at_once_have_the_shapes_of_one(words):
    near, far = shapes_of(pa.array(words, pa.string()), "words")
    assert list(zip(near.to_pylist(), far.to_pylist(), strict=True)) == [word_shape(word) for word in words]
    sliced = shapes_of(pa.array(["x", *words, "y"], pa.string())[1:-1], "words")
    assert sliced[0].equals(near)


def test_shapes_of_an_array():
    near, far = shapes_of(pa.array(["walked", "in", ""]), "words")
    assert (near.to_pylist(), far.to_pylist()) == (["~ed", "in", ""], ["~a", "in", ""])
    near, far = shapes_of(pa.array([], pa.string()), "letters")
    assert near.type == far.type == pa.string()


def vowels(item):
    return f"{sum(letter in 'aeiou' for letter in item)}", "v"


CONTEXTS = (["to be", "or not", "aa be", "be aa"] * 3, ["T", None, "T", None] * 3)


def test_a_shape_function_of_one_s_own(monkeypatch, tmp_path):
    monkeypatch.setitem(SHAPES, "vowels", vowels)
    counts = rg.Counts.from_contexts(*CONTEXTS, spans=["suffixes:2", "shapes:2"], shape="vowels")
    assert counts.shape == "vowels"
    names = counts.items.to_pylist()
    assert {names[key] for key in counts.rows["shape", 1, 2].keys[:, 0]} == {"1", "2"}
    assert {names[key] for key in counts.rows["shape", 0, 1].keys[:, 0]} == {"v"}
    model = rg.fit(counts, "T", "backoff", size=10**6)
    one, two, none = model.log_ratio(["x ba", "x baa", "x b"])  # 2 vowels stand nowhere before T
    assert one > none > two
    counts.save(tmp_path / "a.counts")
    model.save(tmp_path / "a.rgm")
    assert rg.Counts.load(tmp_path / "a.counts") == counts
    loaded = rg.Model.load(tmp_path / "a.rgm")
    np.testing.assert_array_equal(loaded.log_ratio(["x ba", "x baa", "x b"]), [one, two, none])


def test_a_shape_function_may_be_replaced(monkeypatch):
    monkeypatch.setitem(SHAPES, "mine", lambda item: (item[:1], item[:1]))
    assert shape_function("mine")("abc") == ("a", "a")
    monkeypatch.setitem(SHAPES, "mine", lambda item: (item[-1:], item[-1:]))
    assert shape_function("mine")("abc") == ("c", "c")


def test_an_unknown_name_is_refused():
    with pytest.raises(ParameterError, match="there is no shape function 'stems', only words, letters"):
        shape_function("stems")
    with pytest.raises(ParameterError, match="there is no shape function 'stems'"):
        rg.Counts.from_contexts(*CONTEXTS, spans=["shapes:1"], shape="stems")


def test_a_model_whose_shape_function_is_missing_says_so(monkeypatch, tmp_path):
    """The file is whole: what is missing is the function."""
    monkeypatch.setitem(SHAPES, "vowels", vowels)
    counts = rg.Counts.from_contexts(*CONTEXTS, spans=["suffixes:2", "shapes:2"], shape="vowels")
    rg.fit(counts, "T", "backoff", size=10**6).save(tmp_path / "a.rgm")
    rg.fit(counts, "T", "backoff", shapes=False, size=10**6).save(tmp_path / "without.rgm")
    monkeypatch.delitem(SHAPES, "vowels")
    with pytest.raises((ParameterError, FileError), match="there is no shape function 'vowels'"):
        rg.Model.load(tmp_path / "a.rgm")
    without = rg.Model.load(tmp_path / "without.rgm")  # which needs none
    assert len(without.log_ratio(["to be", "x y"])) == 2
    assert rg.fit(counts, "T", "backoff", shapes=False, size=10**6).nbytes == without.nbytes


@pytest.mark.parametrize("result", ["a", ("a",), ["a", "b"], ("a", 1), ("a", "b", "c"), None])
def test_a_function_that_does_not_return_two_strings_is_named(monkeypatch, result):
    monkeypatch.setitem(SHAPES, "mine", lambda _: result)
    with pytest.raises(InputError, match="the shape function 'mine' must return two strings"):
        rg.Counts.from_contexts(*CONTEXTS, spans=["shapes:1"], shape="mine")
    with pytest.raises(InputError, match="the shape function 'mine' must return two strings"):
        rg.count([{"text": "a b c", "spans": [(1, 2, "T")]}], n=1, spans=["shapes:1"], shape="mine")


def test_shapes_are_not_counted_unless_asked_for():
    counts = rg.Counts.from_contexts(*CONTEXTS, spans=["suffixes:2"], shape="words")
    assert counts.shape is None
    assert all(span.layer == "item" for span in counts.spans)

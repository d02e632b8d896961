"""Texts into codes, against `str.split` and dictionaries."""

from __future__ import annotations

import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from raregram.text.tokenize import Tokenizer
from raregram.text.vocabulary import Encoder

SPACES = "".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace())
ALIKE = "\u00a1\u0084\u1681\u200b\u2027\u2030\u205e\u3001\u180e\ufeff\x1b\x21\x00\x7f\x80"  # next to white space
LETTERS = st.sampled_from("ab" + "éß字\U0001f600" + SPACES + ALIKE)
TEXTS = st.lists(st.text(LETTERS, max_size=12) | st.text(max_size=8).filter(lambda text: text.isprintable()))


@given(texts=TEXTS, known=st.lists(st.text("abéß字", min_size=1, max_size=3), unique=True))
def test_words_are_those_of_str_split_and_get_codes_in_order(texts, known):
    codes, lengths, others = Encoder(pa.array(known, pa.string())).encode(pa.array(texts, pa.string()))
    index = {word: code for code, word in enumerate(known)}
    expected = [[index.setdefault(word, len(index)) for word in text.split()] for text in texts]
    assert codes.tolist() == [code for row in expected for code in row]
    assert lengths.tolist() == [len(row) for row in expected]
    assert others.to_pylist() == list(index)[len(known) :]
    others.validate(full=True)


@given(texts=TEXTS, known=st.lists(st.characters(codec="utf-8"), unique=True))
def test_letters_get_codes_in_order(texts, known):
    encoder = Encoder(pa.array(known, pa.string()), Tokenizer("letters"))
    codes, lengths, others = encoder.encode(pa.array(texts, pa.string()))
    letters = known + others.to_pylist()
    assert [letters[code] for code in codes] == [letter for text in texts for letter in text]
    assert lengths.tolist() == [len(text) for text in texts]
    assert len(set(letters)) == len(letters)


def test_every_white_space_of_unicode_splits():
    texts = [f"a{space}b" for space in SPACES] + [f"a{letter}b" for letter in ALIKE]
    _, lengths, _ = Encoder(pa.array([], pa.string())).encode(pa.array(texts))
    assert lengths.tolist() == [len(text.split()) for text in texts]


def test_many_words_get_codes_in_order():
    words = [f"w{number}" for number in range(50_000)]
    texts = pa.array([" ".join(words[first : first + 100]) for first in range(0, len(words), 100)] * 2)
    codes, _, others = Encoder(pa.array(words[:7])).encode(texts)
    assert codes.tolist() == [*range(50_000)] * 2
    assert others.to_pylist() == words[7:]


def test_slices_are_read_as_they_are():
    texts = pa.array(["x", "b a", "", "a", "y"])
    codes, lengths, others = Encoder(pa.array(["z", "a"])[1:]).encode(texts[1:4])
    assert (codes.tolist(), lengths.tolist(), others.to_pylist()) == ([1, 0, 0], [2, 0, 1], ["b"])

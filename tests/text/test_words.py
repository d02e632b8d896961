"""Words by Unicode's rules: against its examples, and against the rules one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raregram.errors import ParameterError
from raregram.text.tokenize import Tokenizer
from raregram.text.words import property_ranges, split_strings, words_in

RANGES = property_ranges()
OFFICIAL = Path("/usr/share/unicode/auxiliary/WordBreakTest.txt")  # of Debian's package unicode-data
# One or two characters of every property, so that each rule meets each other; and white space.
LETTERS = (
    "aÅ\u02d7\u05d0\u05ea1\u0663\u3031ｶ_\u203f:\u00b7,\u037e.\u2018'\"\u0308\u0903\u00ad\u200d"
    "\U0001f1e6\U0001f1ff❤😀Ⓜℹ-字ひ"
)
TEXTS = st.text(st.sampled_from(LETTERS + " \u3000\n"), max_size=12) | st.text(max_size=12)


def has(character: str, *names: str) -> bool:
    """Whether a character has one of some properties."""
    return bool(character) and any(ord(character) in codes for name in names for codes in RANGES[name])


def skip(text: str, place: int, step: int) -> int:
    """Go on to the next character that is no mark."""
    place += step
    while 0 <= place < len(text) and has(text[place], "Extend", "Format", "ZWJ"):
        place += step
    return place


def at(text: str, place: int) -> str:
    return text[place] if 0 <= place < len(text) else ""


def letter(character: str) -> bool:
    return has(character, "ALetter", "Hebrew_Letter")


def joined(text: str, place: int) -> bool:
    """Whether the rules of UAX #29 forbid a boundary at a place of a text without white space, in their order."""
    if has(text[place - 1], "ZWJ") and has(text[place], "Extended_Pictographic"):
        return True  # WB3c
    if has(text[place], "Extend", "Format", "ZWJ"):
        return True  # WB4
    before = skip(text, place, -1)
    b1, b2, a1, a2 = at(text, before), at(text, skip(text, before, -1)), text[place], at(text, skip(text, place, 1))
    if not b1:
        return False
    mid, num = ("MidLetter", "MidNumLet", "Single_Quote"), ("MidNum", "MidNumLet", "Single_Quote")
    flags = 0
    while has(at(text, before), "Regional_Indicator"):
        flags, before = flags + 1, skip(text, before, -1)
    word = ("ALetter", "Hebrew_Letter", "Numeric", "Katakana")
    return (
        (letter(b1) and letter(a1))  # WB5
        or (letter(b1) and has(a1, *mid) and letter(a2))  # WB6
        or (letter(b2) and has(b1, *mid) and letter(a1))  # WB7
        or (has(b1, "Hebrew_Letter") and has(a1, "Single_Quote"))  # WB7a
        or (has(b1, "Hebrew_Letter") and has(a1, "Double_Quote") and has(a2, "Hebrew_Letter"))  # WB7b
        or (has(b2, "Hebrew_Letter") and has(b1, "Double_Quote") and has(a1, "Hebrew_Letter"))  # WB7c
        or (has(b1, "Numeric") and has(a1, "Numeric"))  # WB8
        or (letter(b1) and has(a1, "Numeric"))  # WB9
        or (has(b1, "Numeric") and letter(a1))  # WB10
        or (has(b2, "Numeric") and has(b1, *num) and has(a1, "Numeric"))  # WB11
        or (has(b1, "Numeric") and has(a1, *num) and has(a2, "Numeric"))  # WB12
        or (has(b1, "Katakana") and has(a1, "Katakana"))  # WB13
        or (has(b1, *word, "ExtendNumLet") and has(a1, "ExtendNumLet"))  # WB13a
        or (has(b1, "ExtendNumLet") and has(a1, *word))  # WB13b
        or (has(a1, "Regional_Indicator") and flags % 2 == 1)  # WB15, WB16
    )


def naive(text: str) -> list[str]:
    """Split at white space, and then wherever no rule joins."""
    words = []
    for string in text.split():
        words.append(string[0])
        for place in range(1, len(string)):
            if joined(string, place):
                words[-1] += string[place]
            else:
                words.append(string[place])
    return words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('The quick ("brown") fox can\'t jump 32.3 feet, right?',  # the example of UAX #29
         'The quick ( " brown " ) fox can\'t jump 32.3 feet , right ?'),
        ("Paris Paris, Paris. \"Paris\" paris", 'Paris Paris , Paris . " Paris " paris'),
        ("U.S. U.S 3.14 1,000.5% x_y", "U.S . U.S 3.14 1,000.5 % x_y"),
        ("it\u2019s e-mail AT&T ... --", "it\u2019s e - mail AT & T . . . - -"),
        ("中文字 ひら カタカナ", "中 文 字 ひ ら カタカナ"),
        ("nai\u0308ve na\u00efve", "nai\u0308ve na\u00efve"),
        ("צה\"ל ג'ז \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 \U0001f469\u200d\U0001f680",
         "צה\"ל ג'ז \U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7 \U0001f469\u200d\U0001f680"),
    ],
)  # fmt: skip
def test_words_are_what_people_expect(text, words):
    assert words_in(text) == naive(text) == words.split(" ")


@settings(max_examples=500)
@given(TEXTS)
@example("\u05d0'_ \u05d0'\u0308_ \u05d0'1 '_a")
@example("1\u202f000")  # which UAX #29 joins, and white space parts
def test_words_are_those_of_the_rules(text):
    assert words_in(text) == naive(text)


@settings(max_examples=200)
@given(st.lists(TEXTS, min_size=1))
def test_many_strings_are_split_as_each_one(strings):
    words, sizes = split_strings(pa.array(strings))
    expected = [words_in(string) if string else [""] for string in strings]
    words.validate(full=True)
    assert words.to_pylist() == [word for some in expected for word in some]
    assert sizes.tolist() == [len(some) for some in expected]


@given(TEXTS, st.booleans())
@example("\u200dⓂ", True)
@example("aⓂB\u200dⓂⓂ", True)
def test_items_are_not_split_any_further(text, lower):
    """So that a list of items, such as an N-gram of a count table, is what it was."""
    tokenizer = Tokenizer(tokenize="words", lower=lower)
    items = tokenizer.items(text)
    assert tokenizer.items(items) == items
    assert tokenizer.items(" ".join(items)) == items


def test_small_letters_are_in_words_as_capitals_are():
    """Of all characters, so that words in small letters are not split any further."""
    for character in filter(lambda character: character != character.lower(), map(chr, range(0x110000))):
        lowered = character.lower()
        assert lowered.lower() == lowered
        for name in ("ALetter", "Hebrew_Letter", "Numeric", "Katakana", "ExtendNumLet", "MidLetter", "MidNum"):
            assert has(character, name) == has(lowered[0], name)
    assert Tokenizer("letters", lower=True).items("İΣA") == ["i", "\u03c3", "a"]
    assert Tokenizer(tokenize="words", lower=True).items("ΠΑΡΙΣ.") == ["παρις", "."]


def test_the_table_has_as_many_characters_as_unicode_says():
    totals = {"ALetter": 29489, "Hebrew_Letter": 75, "Numeric": 681, "Katakana": 331, "ExtendNumLet": 11,
              "MidLetter": 9, "MidNum": 15, "MidNumLet": 7, "Single_Quote": 1, "Double_Quote": 1, "Extend": 2554,
              "Format": 71, "ZWJ": 1, "Regional_Indicator": 26, "Extended_Pictographic": 3537}  # fmt: skip
    for name, total in totals.items():
        assert sum(map(len, RANGES[name])) == total, name
        assert RANGES[name] == sorted(RANGES[name], key=lambda codes: codes.start)


@pytest.mark.skipif(not OFFICIAL.exists(), reason="there is no unicode-data: apt-get install unicode-data")
def test_unicodes_own_tests_pass():
    lines = [line.partition("#")[0].strip() for line in OFFICIAL.read_text().splitlines()]
    lines = [line for line in lines if line]
    assert len(lines) > 1800
    for line in lines:
        parts = [re.findall("[0-9A-F]+", part) for part in line.split("÷")]
        segments = ["".join(chr(int(code, 16)) for code in codes) for codes in parts if codes]
        assert words_in("".join(segments)) == [word for segment in segments for word in segment.split()], line


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (Tokenizer("letters", "words"), "tokenize='words' is for words; letters are split at every character"),
        (Tokenizer("words", "spaces"), "tokenize parameter of x must be one of 'whitespace', 'words'"),
        (Tokenizer(lower=1), "lower parameter of x must be true or false. Got 1"),
    ],
)
def test_wrong_ways_to_split_are_named(tokenizer, message):
    with pytest.raises(ParameterError, match=message):
        tokenizer.check("x")

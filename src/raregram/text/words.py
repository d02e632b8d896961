r"""Words by Unicode's rules for word boundaries (UAX #29), with the properties of Unicode 15.0.0.

The properties come from a table of our own, so that every machine and every release splits alike: what one has
counted another can score.

>>> words_in('"Paris," she said: don\'t pay 3.14% in the U.S.')
['"', 'Paris', ',', '"', 'she', 'said', ':', "don't", 'pay', '3.14', '%', 'in', 'the', 'U.S', '.']
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.resources import files
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SPACE, SEPARATOR, OTHER = " ", "\n", "x"
LETTERS = {
    "ALetter": "a", "Hebrew_Letter": "h", "Numeric": "9", "Katakana": "k", "ExtendNumLet": "_", "MidLetter": ":",
    "MidNum": ",", "MidNumLet": ".", "Single_Quote": "'", "Double_Quote": '"', "Extend": "m", "Format": "m",
    "ZWJ": "z", "Regional_Indicator": "f", "Extended_Pictographic": "p",
}  # fmt: skip
PICTOGRAPHIC_LETTER = "A"  # such as Ⓜ, which has two properties


def words_in(text: str) -> list[str]:
    """Return the words of a text, and all signs that stand alone; white space is left out."""
    return [word for string in text.split() for word in _words_in_string(string)]


def _words_in_string(string: str) -> list[str]:
    return [string[match.start() : match.end()] for match in _rules().finditer(_classes(string))]


def split_strings(strings: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the words of one string or more, one after the other, and how many each has.

    An empty string, which is a pad, stays what it is.
    """
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(strings)], strings), SEPARATOR)[0].as_py() + SEPARATOR
    classes = _classes(joined)
    if SPACE in classes or classes.count(SEPARATOR) > len(strings):  # in an item of a list
        found = [words_in(string) if string else [""] for string in strings.to_pylist()]
        return pa.array(chain.from_iterable(found), pa.string()), np.fromiter(map(len, found), dtype=np.int64)
    ends = np.cumsum(np.fromiter(map(len, _rules().findall(classes)), dtype=np.int64))  # in characters
    closes = np.frombuffer(classes.encode(), dtype=np.uint8)[ends - 1] == ord(SEPARATOR)
    data = np.frombuffer(joined.encode(), dtype=np.uint8)
    ends = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))[ends]  # in bytes
    offsets = np.append(0, ends - np.cumsum(closes)).astype(np.int32)
    words = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data[data != ord(SEPARATOR)]))
    return words, np.diff(np.flatnonzero(closes), prepend=-1)


def _classes(text: str) -> str:
    """Return the letter of each character's property."""
    return text.translate(_class_of())


def property_ranges() -> dict[str, list[range]]:
    """Read which code points have which of Unicode's properties."""
    found: dict[str, list[range]] = {}
    for line in (files("raregram") / "data" / "word-break.txt").read_text("ascii").splitlines():
        name, _, ranges = line.partition(":")
        for first, _, last in (each.partition("-") for each in ranges.split() if not line.startswith("#")):
            found.setdefault(name, []).append(range(int(first, 16), int(last or first, 16) + 1))
    return found


@cache
def _class_of() -> str:
    """Return a string with the letter of every character's property."""
    found = bytearray(OTHER.encode() * (sys.maxunicode + 1))
    ranges = property_ranges()
    for name, letter in LETTERS.items():
        for code in chain.from_iterable(ranges[name]):
            two = name == "Extended_Pictographic" and found[code] == ord(LETTERS["ALetter"])
            found[code] = ord(PICTOGRAPHIC_LETTER if two else letter)
    for code in filter(lambda code: chr(code).isspace(), range(0x3001)):
        found[code] = ord(SPACE)
    found[ord(SEPARATOR)] = ord(SEPARATOR)
    return found.decode()


@cache
def class_ranges() -> list[tuple[int, int, str]]:
    """Return ranges of code points with the letter of their property, without those that have none."""
    runs = re.finditer(rf"([^{OTHER}])\1*", _class_of())
    return [(run.start(), run.end() - 1, run[1]) for run in runs]


def rules() -> str:
    """Return the rules as a regular expression over classes: a word or sign, and a separator behind it.

    A word is as long as the rules go on joining; no part of the expression is tried twice. White space is found by
    itself, and so is a separator without a word. JavaScript reads this as Python does.
    """
    letter, marks = "[aAh]", "[mz]*"  # WB4: marks belong to what they follow
    quote = f"{marks}'(?!{marks}{letter})"  # WB7a, after a Hebrew letter
    run = (
        f"(?:[aA]+{marks}(?:[:.']{marks}(?={letter}))?"  # WB5 to WB7, WB9
        f"|9+{marks}(?:[,.']{marks}(?=9))?"  # WB8, WB10 to WB12
        f'|h{marks}"{marks}(?=h)'  # WB7b, WB7c
        f"|h(?!{quote}){marks}(?:[:.']{marks}(?={letter}))?)+"
    )
    part = f"(?:{run}(?:h{quote})?|h{quote}|(?:k{marks})+)"  # WB13
    joiners = f"(?:_{marks})+"  # WB13a, WB13b; but none after a quote that ends a word
    word = f"(?:{joiners})?{part}(?:(?<!'){joiners}{part})*(?:(?<!'){joiners})?|{joiners}"
    piece = f"(?:{word}|f{marks}f|[^ \n]){marks}"  # WB15, WB16, WB999
    usual = "[a9]+(?=[,.:']?[\n x\"fp])|[x,.:'\"](?![mz])"  # which the rest would find as well, but slower
    return f"(?:{usual}|{piece}(?:(?<=z)(?=[pA]){piece})*)\n?|[ \n]"  # WB3c


@cache
def _rules() -> re.Pattern[str]:
    return re.compile(rules())

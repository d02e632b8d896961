"""The Brown corpus: running text, each word with its part of speech: The/at jury/nn said/vbd ./.

Each word is a span of one item with its tag as the label. A file is a text, called by its name, such as cf01, whose
second letter says the field `genre`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from raregram.corpus.documents import Options, Row, Spans, bare_name
from raregram.corpus.formats.running import read_parsed, tagged_words
from raregram.corpus.samples import sample_of

TAGGED = re.compile(r"\S+/(?:[A-Za-z$*+-]+|[.,:()'`*-]+)")  # nn, pp$, wdt+bez-hl, *, .-tl
TAGGED_SIGN = re.compile(r"[.,:;?!()'`-]+/[.,:()'`-]+")  # which no list of paths has
NAME = re.compile(r"c([a-r])\d\d")
GENRES = {
    "a": "news", "b": "editorial", "c": "reviews", "d": "religion", "e": "hobbies", "f": "lore",
    "g": "belles_lettres", "h": "government", "j": "learned", "k": "fiction", "l": "mystery", "m": "science_fiction",
    "n": "adventure", "p": "romance", "r": "humor",
}  # fmt: skip


def are_tagged(words: list[str]) -> bool:
    """Whether nearly all words of a text have the tag of a part of speech.

    >>> are_tagged("he/pps doesn't/doz* know/vb ./.".split()), are_tagged("src/text docs/log and/or".split())
    (True, False)
    """
    tagged = sum(bool(TAGGED.fullmatch(word)) for word in words)
    return tagged > 0.9 * len(words) and any(map(TAGGED_SIGN.fullmatch, words))


def parse_brown(text: str) -> tuple[list[str], Spans]:
    """Take tags off words.

    >>> parse_brown("and/or/cc 1/2/cd")
    (['and/or', '1/2'], [(0, 1, 'cc'), (1, 2, 'cd')])
    """
    pairs = tagged_words(text)
    return [word for word, _ in pairs], [(index, index + 1, tag) for index, (_, tag) in enumerate(pairs)]


def _without_tags(text: str) -> tuple[list[str], Spans]:
    return [word for word, _ in tagged_words(text)], []


def read_brown(path: str, options: Options) -> Iterator[Row]:
    """Yield the text of a file, or its lines or paragraphs."""
    name = Path(bare_name(path)).name
    letter = NAME.match(name)
    parse = parse_brown if options.by is None else _without_tags  # where samples are targets, labels are not
    fields = {"id": name} | ({"genre": GENRES[letter[1]]} if letter and letter[1] in GENRES else {})
    for row in read_parsed(path, options, parse):
        sample = sample_of(fields, options.by, row.location)
        yield row._replace(id=None if row.id is None else name, sample=sample)

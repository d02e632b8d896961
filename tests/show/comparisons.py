"""Comparisons for tests of what is shown: of two real texts, with hostile words, and a large one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa

import raregram as rg
from raregram.corpus.concordance import Concordance, Line
from raregram.show.comparison import page_lines

SEA = (  # Melville, Moby-Dick, chapter 1
    "Call me Ishmael. Some years ago - never mind how long precisely - having little or no money in my purse , and "
    "nothing particular to interest me on shore , I thought I would sail about a little and see the watery part of "
    "the world . It is a way I have of driving off the spleen and regulating the circulation . Right and left , the "
    "streets take you waterward . Look at the crowds of water-gazers there . the sea and the ocean and the sea"
)
LAND = (  # Austen, Pride and Prejudice, chapter 1
    "It is a truth universally acknowledged , that a single man in possession of a good fortune , must be in want of "
    "a wife . However little known the feelings or views of such a man may be on his first entering a neighbourhood "
    "this truth is so well fixed in the minds of the surrounding families , that he is considered as the rightful "
    "property of some one or other of their daughters . My dear Mr. Bennet , said his lady to him one day"
)
ALIKE = ["then", "now"] * 5  # at the end of every document
HOSTILE = (
    "</script><img src=x onerror=window.hacked=1>", "<!--<script>", "&lt;b&gt;", "$style", "\u202egnorw", "${1+1}",
    "\U0001f469\u200d\U0001f680", "\u05e9\u05dc\u05d5\u05dd", "a\x1b[31m", "it's \"quoted\" \\ back", "$x^2$ $",
)  # fmt: skip


@cache
def compared(names=("sea", "land"), texts=(SEA, LAND), longest=2):
    """Compare two texts, each in thirty documents that begin with different words."""

    def documents(name, words):
        return [
            {"id": f"{name}-{i}", "text": " ".join([*words[3 * i :], *words[: 3 * i], *ALIKE])} for i in range(30)
        ]

    sides = (documents(name, text.split()) for name, text in zip(names, texts, strict=True))
    return rg.compare(*sides, names=names, n=(1, longest), tokenize="whitespace")


def hostile(longest=2):
    often = [text for times, text in enumerate(HOSTILE, 2) for _ in range(times)]  # not all at one point of the plot
    return compared(HOSTILE[:2], (" ".join([*often, SEA]), LAND), longest)


def with_lines(comparison=None):
    """Return a comparison and the lines of its page."""
    comparison = comparison or compared()
    return comparison, page_lines([comparison], lambda documents: None)[0]


@cache
def large(rows=20_000):
    """Return a comparison with many N-grams of made-up words, and lines of common and of rare ones."""
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    words = np.array(["".join(rng.choice(syllables, size)) for size in rng.integers(1, 5, 4000)])

    def phrase(size):
        return " ".join(words[rng.integers(0, len(words), size)].tolist())

    ngrams = list(dict.fromkeys(phrase(n) for n in rng.integers(2, 6, 2 * rows)))[:rows]
    table = compared().table.take(np.arange(rows) % len(compared().table))
    table = table.drop(["ngram", "repeats"]).append_column("ngram", pa.array(ngrams))
    table = table.append_column("repeats", pa.nulls(rows, pa.string()))
    varied = {name: table[name].to_numpy() * rng.uniform(0.2, 1.8, rows) for name in ("conservative", "g2", "zeta")}
    for side in "ab":
        varied[f"f_{side}"] = f = (rng.pareto(0.7, rows) * 3).astype(int) % 50_000
        varied[f"per_million_{side}"] = f / 2
    for name, values in varied.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))

    def concordance(ngram):
        names = [f"document-{i}" for i in rng.integers(0, 300, 30)]
        return Concordance(tuple(Line(n, 7, phrase(8), ngram, phrase(8)) for n in names[:10]), dict(Counter(names)))

    table = table.select(compared().columns).sort_by([("conservative", "descending")])
    some = table["ngram"].to_pylist()[:1000]
    return replace(compared(), table=table), {ngram: (concordance(ngram), concordance(ngram)) for ngram in some}

"""Comparisons for tests of what is shown: counted by hand from a real text, or made up to be large or hostile."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa

from raregram.corpus.concordance import Concordance, Line
from raregram.measure.compare import Comparison

SEA = (  # Melville, Moby-Dick, chapter 1
    "Call me Ishmael. Some years ago - never mind how long precisely - having little or no money in my purse , and "
    "nothing particular to interest me on shore , I thought I would sail about a little and see the watery part of "
    "the world . It is a way I have of driving off the spleen and regulating the circulation .",
    "There now is your insular city of the Manhattoes , belted round by wharves as Indian isles by coral reefs - "
    "commerce surrounds it with her surf . Right and left , the streets take you waterward . Look at the crowds of "
    "water-gazers there . the sea and the ocean and the sea",
)
LAND = (  # Austen, Pride and Prejudice, chapter 1
    "It is a truth universally acknowledged , that a single man in possession of a good fortune , must be in want of "
    "a wife . However little known the feelings or views of such a man may be on his first entering a neighbourhood",
    "this truth is so well fixed in the minds of the surrounding families , that he is considered as the rightful "
    "property of some one or other of their daughters . My dear Mr. Bennet , said his lady to him one day",
)
HOSTILE = (
    "</script><img src=x onerror=window.hacked=1>", "<!--<script>", "&lt;b&gt;", "$style", "\u202egnorw", "${1+1}",
    "\U0001f469\u200d\U0001f680", "\u05e9\u05dc\u05d5\u05dd", "a\x1b[31m", "it's \"quoted\" \\ back", "$x^2$ $",
)  # fmt: skip


def counted(names=("sea", "land"), sides=(SEA, LAND), longest=2):
    """Compare two lists of texts; return the comparison, and the lines of all its rows."""
    docs = [
        {f"{name}-{i}": text.split() for i, text in enumerate(texts)}
        for name, texts in zip(names, sides, strict=True)
    ]
    found = [{}, {}]  # N-gram -> its lines
    for side, by_name in enumerate(docs):
        for name, items in by_name.items():
            for n in range(1, longest + 1):
                for at in range(len(items) - n + 1):
                    match = " ".join(items[at : at + n])
                    line = Line(name, at, " ".join(items[max(0, at - 5) : at]), match, " ".join(items[at + n :][:5]))
                    found[side].setdefault(match, []).append(line)
    lines = {
        ngram: tuple(
            Concordance(tuple(some.get(ngram, ())), dict(Counter(line.document for line in some.get(ngram, ()))))
            for some in found
        )
        for ngram in sorted({*found[0], *found[1]})
    }
    f = np.array([[len(some.get(ngram, ())) for ngram in lines] for some in found])
    df = np.array([[len(concordance.documents) for concordance in pair] for pair in lines.values()]).T
    tokens = tuple(sum(map(len, by_name.values())) for by_name in docs)
    return made(list(lines), f, df, tokens, (len(docs[0]), len(docs[1])), names), lines


def made(ngrams, f, df, tokens, documents, names=("sea", "land")):
    """Return a comparison with simple stand-ins for the statistics; what is shown does not depend on them."""
    (f_a, f_b), (n_a, n_b) = np.asarray(f, dtype=np.int64), tokens
    ratio = np.log2((f_a + 0.5) / n_a) - np.log2((f_b + 0.5) / n_b)
    sd = np.sqrt(1 / (f_a + 0.5) + 1 / (f_b + 0.5)) / math.log(2)
    low, high = ratio - sd / 3, ratio + sd / 3
    kind = np.where(low > 0, "positive", np.where(high < 0, "negative", np.where(f_a + f_b > 9, "lockword", "")))
    with np.errstate(divide="ignore"):
        odds = f_a / f_b
    lengths = pa.array([len(ngram.split()) for ngram in ngrams], pa.int8())
    repeats = [n.split()[0] if " " in n and above else None for n, above in zip(ngrams, low > 0, strict=True)]
    share_a, share_b = df[0] / documents[0], df[1] / documents[1]
    columns = {
        "ngram": ngrams, "length": lengths, "f_a": f_a, "f_b": f_b, "per_million_a": 1e6 * f_a / n_a,
        "per_million_b": 1e6 * f_b / n_b, "documents_a": df[0], "documents_b": df[1], "share_a": share_a,
        "share_b": share_b, "log2_ratio": ratio, "low": low, "high": high,
        "conservative": np.where(low > 0, low, np.where(high < 0, high, 0)), "g2": ratio**2 * (f_a + f_b),
        "g2_design": ratio**2 * (f_a + f_b) / 2, "p": 2.0 ** -(f_a + f_b), "q": 2.0 ** -(f_a / 2 + f_b),
        "beyond": ratio / 9, "clr": low / 2, "log_ratio": ratio, "simple_maths": 2**ratio, "odds_ratio": odds,
        "zeta": share_a - share_b, "fightin_words": ratio / sd, "kind": kind,
        "repeats": pa.array(repeats, pa.string()),
    }  # fmt: skip
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return Comparison(table.sort_by([("conservative", "descending")]), names, tokens, documents)


def large(rows=20_000, seed=0):
    """Return a comparison of so many N-grams of made-up words, with lines of common and of rare ones."""
    rng = np.random.default_rng(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    words = np.array(["".join(rng.choice(syllables, size)) for size in rng.integers(1, 5, 4000)])

    def phrase(size):
        return " ".join(words[rng.integers(0, len(words), size)].tolist())

    ngrams = sorted({phrase(n) for n in rng.integers(1, 6, 2 * rows)})
    ngrams = [ngrams[i] for i in np.sort(rng.choice(len(ngrams), rows, replace=False))]
    f = (rng.pareto(0.7, (2, rows)) * 3).astype(int) % 50_000
    f[0] += f.sum(axis=0) == 0
    df = np.minimum(f, rng.integers(1, 300, (2, rows)))
    comparison = made(ngrams, f, df, (2_000_000, 1_500_000), (300, 300), ("first", "second"))
    some = comparison.table["ngram"].to_pylist()[:1000]

    def concordance(ngram):
        names = [f"document-{i}" for i in rng.integers(0, 300, 30)]
        lines = [Line(n, 7, phrase(8), ngram, phrase(8)) for n in names[:10]]
        return Concordance(tuple(lines), dict(Counter(names)))

    return comparison, {ngram: (concordance(ngram), concordance(ngram)) for ngram in some}

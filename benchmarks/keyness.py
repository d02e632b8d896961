"""Keyness measured: which measure finds what is really different, and which says so where nothing is.

    python -m benchmarks.keyness [--seeds 4] [--json FILE]

The corpora are those of `raregram fetch`: brown, sotu and reuters. Words are in small letters, and N-grams
have 1 to 3 of them. All is measured on documents that the estimates have not seen:

- level: random halves of one corpus, where nothing is different. How many rows are significant at 5 %, and how many
  remain after correction?
- null: as many random documents on each side, from 2 to 400, also of Reuters-21578. How many comparisons have any
  discovery at 5 %, and how many rows are below 5 %?
- planted: the same halves with 100 phrases put into documents of the first half, each into as many documents as it
  has sightings, and 100 more into two documents each. Average precision for the former among all phrases.
- replication: both corpora cut into halves of documents. One half ranks, the other judges: rank correlation with the
  log ratio there, how many of the best are at least twice as frequent there too and in two documents, and how often
  the interval, with the sampling error of the other half, holds what is seen there.
- speed: all N-grams of 1 to 5 of Brown's 15 genres, each against the rest.

The comparisons of CHOOSING were looked at while the method was made, those of UNTOUCHED not before it was finished.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats

from benchmarks.measuring import Figures, parser, run_measured, used_seconds
from raregram.corpus.documents import Options
from raregram.corpus.fetch import fetch_corpus
from raregram.corpus.formats import read_documents
from raregram.measure import keyness
from raregram.measure.phrases import Estimates, Rows, estimate, find_parts
from raregram.text.tokenize import Tokenizer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LONGEST = 3
PLANTED = 100
RARE = 5  # sightings at most
DRAWS = 60  # from each posterior
NULL_SIZES = {2: 200, 3: 200, 5: 200, 10: 200, 30: 200, 100: 100, 400: 100}  # documents a side, and comparisons

CHOOSING = (
    "Brown: fiction, press",
    "Brown: learned, fiction",
    "Addresses: Democrats, Republicans",
    "Addresses: to 1899, from 1945",
)
UNTOUCHED = (
    "Brown: learned, press",
    "Brown: belles lettres, skills",
    "Addresses: to 1860, 1861 to 1899",
    "Addresses: 1900 to 1944, from 1945",
)


@dataclass(frozen=True)
class Corpus:
    """Documents as lists of words, with the labels that cut them."""

    documents: list[list[str]]
    label: npt.NDArray[Any]  # genre or party
    year: Ints


def brown(folder: Path) -> Corpus:
    paths = sorted(folder.rglob("c[a-r][0-9][0-9]"))
    documents = [[word.rpartition("/")[0].lower() for word in path.read_text().split()] for path in paths]
    return Corpus(documents, np.array([path.name[1] for path in paths]), np.full(len(paths), 1961))


def sotu(folder: Path) -> Corpus:
    tokenizer = Tokenizer(tokenize="words", lower=True)
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    documents = [tokenizer.items(address["text"]) for address in found]
    return Corpus(
        documents, np.array([address["party"] for address in found]), np.array([address["year"] for address in found])
    )


def reuters(folder: Path) -> list[list[str]]:
    tokenizer = Tokenizer(tokenize="words", lower=True)
    texts = (batch.texts for batch in read_documents(str(folder), Options()))
    return [tokenizer.items(text) for some in texts if some is not None for text in some.to_pylist() if text]


class Counter:
    """A simple counter, apart from that of the library: how often each N-gram is in each document."""

    def __init__(self, documents: list[list[str]], longest: int = LONGEST) -> None:
        vocabulary: dict[str, int] = {}
        codes = [np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words]) for words in documents]
        self.words, self.lengths = list(vocabulary), np.array([len(words) for words in documents])
        items, document = np.concatenate(codes), np.repeat(np.arange(len(documents)), self.lengths)
        left = np.concatenate([np.arange(length, 0, -1) for length in self.lengths])
        self.keys = [np.arange(len(vocabulary))[:, None]]
        self.found: list[tuple[Ints, Ints, Ints]] = []  # of each length: N-gram, document, frequency
        ids = items
        for length in range(1, longest + 1):
            here = np.flatnonzero(left >= length)
            if length > 1:
                pairs = ids[here] * len(vocabulary) + items[here + length - 1]
                distinct, of_here = np.unique(pairs, return_inverse=True)
                last = distinct % len(vocabulary)
                self.keys.append(np.column_stack([self.keys[-1][distinct // len(vocabulary)], last]))
                ids = np.full(len(items), -1)
                ids[here] = of_here
            both, f = np.unique(ids[here] * len(documents) + document[here], return_counts=True)
            self.found.append((both // len(documents), both % len(documents), f))

    def rows(self, side: Ints, min_count: int = 1, chosen: list[Ints] | None = None) -> tuple[list[Rows], list[Ints]]:
        """Return the rows of every length, and which N-grams they are; `side` of a document is 0, 1 or -1."""
        every, which = [], []
        for k, (ngram, document, f) in enumerate(self.found):
            size = np.maximum(self.lengths - k, 0)
            columns = []
            for of_side in (0, 1):
                here = side[document] == of_side
                sums_of = (*_powers(f[here]), f[here] * size[document[here]])
                columns.append([np.bincount(ngram[here], weights, len(self.keys[k])) for weights in sums_of])
            sums = np.array(columns).astype(np.int64)  # (sides, 4, N-grams)
            frequent = (sums[:, 1].sum(axis=0) >= min_count) & (sums[:, 0].sum(axis=0) >= 2)
            keep = np.flatnonzero(frequent) if chosen is None else chosen[k]
            documents, f_of, squares, products = (
                np.ascontiguousarray(column[:, keep].T) for column in sums.swapaxes(0, 1)
            )
            of_sides = [size[side == of_side] for of_side in (0, 1)]
            totals = np.array([(sizes.sum(), len(sizes), sizes @ sizes) for sizes in of_sides]).T
            keys = self.keys[k][keep].astype(np.int32)
            every.append(Rows(keys, f_of, documents, squares, products, totals[0], totals))
            which.append(keep)
        return every, which


def _powers(f: Ints) -> list[Ints]:
    return [np.ones_like(f), f, f * f]


def measures(rows: Rows, found: Estimates) -> dict[str, Floats]:
    """Return what ranks rows, the characteristic of A first; those of the field want two documents of A."""
    sides = (rows.f[:, 0], rows.f[:, 1], float(rows.sizes[0]), float(rows.sizes[1]))
    ratio, g2 = keyness.log_ratio(*sides), keyness.g2(*sides)
    design = keyness.g2_design(*sides, found.design)
    classical = {
        "G2": np.sign(ratio) * g2,
        "log ratio": ratio,
        "conservative log ratio": keyness.conservative_ratio(*sides) + 1e-6 * ratio,
        "simple maths, 1": keyness.simple_maths(*sides),
        "simple maths, 10": keyness.simple_maths(*sides, k=10),
        "simple maths, 100": keyness.simple_maths(*sides, k=100),
        "odds ratio": keyness.odds_ratio(*sides),
        "Zeta": keyness.zeta(*rows.documents.T, *rows.all_documents),
        "Fightin' Words": keyness.fightin_words(*sides),
    }
    return {
        **classical,
        "G2 / D": np.sign(ratio) * design,
        "ours: conservative": found.conservative + 1e-6 * np.sign(ratio) * design,
        "ours: ratio": found.shown,
    }


OURS = ("ours: conservative", "ours: ratio", "G2 / D")


def halves(size: int, seed: int) -> Ints:
    return np.random.default_rng(seed).permutation(np.arange(size) % 2)


def level(counter: Counter, seeds: int) -> dict[str, list[tuple[float, int]]]:
    """Return of each split, by G2 and by G2 / D, the share of rows below 5 % and the number of discoveries."""
    found: dict[str, list[tuple[float, int]]] = {"G2": [], "G2 / D": []}
    for seed in range(seeds):
        every, _ = counter.rows(halves(len(counter.lengths), 1000 + seed), 5)
        estimates = estimate(every, find_parts(every))
        for name, of in found.items():
            values = [np.abs(measures(rows, one)[name]) for rows, one in zip(every, estimates, strict=True)]
            of.append(discoveries(np.concatenate(values), estimates[0].freedom if name == "G2 / D" else None))
    return found


def discoveries(square: Floats, freedom: float | None) -> tuple[float, int]:
    """Return the share of rows below 5 %, and how many remain after correction; without freedom by chi-square."""
    p = keyness.t_tail(square, freedom) if freedom else np.asarray(scipy.special.chdtrc(1, square))
    return float((p < 0.05).mean()) if len(p) else 0.0, int((scipy.stats.false_discovery_control(p) < 0.05).sum())


def null(documents: list[list[str]], size: int, longest: int, seed: int) -> dict[str, tuple[float, int]]:
    """Return the same of so many random documents on each side, by F and by chi-square."""
    chosen = np.random.default_rng([seed, size, longest]).choice(len(documents), 2 * size, replace=False)
    every, _ = Counter([documents[number] for number in chosen.tolist()], longest).rows(np.arange(2 * size) % 2, 5)
    squares = []
    for rows in every:
        sums = (rows.f, rows.documents, rows.squares, rows.products, rows.totals)
        design, sizes = keyness.design_effect(*sums), (float(rows.sizes[0]), float(rows.sizes[1]))
        williams = keyness.small_sample(rows.f.sum(axis=1), design, *sizes)
        squares.append(keyness.g2(rows.f[:, 0], rows.f[:, 1], *sizes) / design / williams)
    freedom, square = keyness.degrees_of_freedom(every[0].totals), np.concatenate(squares)
    return {"F": discoveries(square, freedom), "chi-square": discoveries(square, None)}


def planted(corpus: Corpus, seed: int) -> dict[str, float]:
    """Return the average precision of each measure for planted phrases."""
    rng, side = np.random.default_rng(seed), halves(len(corpus.documents), 2000 + seed)
    counts: dict[str, int] = {}
    for word in (word for words in corpus.documents for word in words):
        counts[word] = counts.get(word, 0) + 1
    usual = sorted(word for word, f in counts.items() if 10 <= f <= 500 and word.isalpha())
    documents, phrases = [list(words) for words in corpus.documents], []
    first = np.flatnonzero(side == 0)
    for number in range(2 * PLANTED):
        phrase = [str(word) for word in rng.choice(usual, size=2 + number % 2, replace=False)]
        times = int(rng.integers(4, 11))
        where = rng.choice(first, times if number < PLANTED else 2, replace=False)
        for document in np.resize(where, times):
            at = int(rng.integers(len(documents[document])))
            documents[document][at:at] = phrase
        phrases.append(tuple(phrase))
    counter = Counter(documents)
    every, _ = counter.rows(side, 4)
    estimates = estimate(every, find_parts(every))
    wanted = set(phrases[:PLANTED])
    scores: dict[str, list[Floats]] = {}
    hit: list[Bools] = []
    for rows, found in zip(every[1:], estimates[1:], strict=True):
        hit.append(np.array([tuple(counter.words[code] for code in key) in wanted for key in rows.keys]))
        for name, values in measures(rows, found).items():
            scores.setdefault(name, []).append(values)
    return {name: average_precision(np.concatenate(hit), np.concatenate(of)) for name, of in scores.items()}


def average_precision(hit: Bools, score: Floats) -> float:
    """Return the mean over hits of the precision down to them."""
    ordered: Bools = hit[np.argsort(-score, kind="stable")]
    return float((np.cumsum(ordered) / np.arange(1, len(ordered) + 1))[ordered].mean())


def covered(found: Estimates, other: Rows, seed: int) -> Bools:
    """Return whether what the other half shows is within 95 % of what the posterior lets expect there."""
    rng = np.random.default_rng(seed)
    a, b = (found.x + found.prior).T
    offset = float(np.log(other.sizes[0] / other.sizes[1])) - found.offset
    odds = np.log(rng.gamma(a, size=(DRAWS, len(a))) + 1e-300) - np.log(rng.gamma(b, size=(DRAWS, len(a))) + 1e-300)
    x = other.f / found.design[:, None]
    n = np.round(x.sum(axis=1)).astype(int)
    seen = np.minimum(np.round(x[:, 0]).astype(int), n)
    drawn = rng.binomial(n, 1 / (1 + np.exp(-odds - offset)))
    return np.asarray(within(drawn, seen, rng)[n > 0])


def within(drawn: Ints, seen: Ints, rng: np.random.Generator) -> Bools:
    """Return whether what was seen is within 95 % of its draws, (draws, rows); among equals its place is drawn."""
    equal = rng.random(len(seen)) * ((drawn == seen).sum(axis=0) + 1)
    rank = ((drawn < seen).sum(axis=0) + equal) / (len(drawn) + 1)
    inside: Bools = (rank > 0.025) & (rank < 0.975)
    return inside


def replicate(counter: Counter, in_a: Bools, in_b: Bools, seed: int) -> dict[str, dict[str, float]]:
    """Rank on one half, judge on the other; return the figures of every measure."""
    half = np.full(len(in_a), -1)
    for number, of_corpus in enumerate((in_a, in_b)):
        half[of_corpus] = halves(int(of_corpus.sum()), 10 * seed + number)
    side = np.where(in_a, 0, np.where(in_b, 1, -1))
    every, chosen = counter.rows(np.where(half == 0, side, -1), 3)
    others, _ = counter.rows(np.where(half == 1, side, -1), chosen=chosen)
    estimates = estimate(every, find_parts(every))
    scores: dict[str, list[Floats]] = {}
    result: dict[str, dict[str, float]] = {}
    hits: list[Bools] = []
    inside: list[Bools] = []
    for rows, other, found in zip(every, others, estimates, strict=True):
        ratio, f = keyness.log_ratio(*other.f.T, *map(float, other.sizes)), rows.f.sum(axis=1)
        hits.append((ratio >= 1) & (other.documents[:, 0] >= 2))
        inside.append(covered(found, other, seed))
        seen = other.f.sum(axis=1) > 0
        for name, values in measures(rows, found).items():
            two = rows.documents[:, 0] >= 2
            scores.setdefault(name, []).append(np.where(two | (name in OURS), values, -np.inf))
            for which, kind in ((seen, ""), (seen & (f <= RARE), ", rare")):
                correlation = scipy.stats.spearmanr(values[which], ratio[which]).statistic
                result.setdefault(name, {})[f"rank correlation, {rows.length} words{kind}"] = float(correlation)
    hit = np.concatenate(hits)
    for name, of in scores.items():
        order = np.argsort(-np.concatenate(of), kind="stable")
        result[name] |= {f"precision at {top}": float(hit[order[:top]].mean()) for top in (100, 500)}
    for length, part in enumerate(inside, 1):
        result["ours: ratio"][f"coverage, {length} words"] = float(part.mean())
    return result


def comparisons(corpora: dict[str, Corpus]) -> dict[str, tuple[str, Bools, Bools]]:
    """Return which documents are compared."""

    def genres(a: str, b: str) -> tuple[str, Bools, Bools]:
        label = corpora["Brown"].label
        return "Brown", np.isin(label, list(a)), np.isin(label, list(b))

    year, party = corpora["Addresses"].year, corpora["Addresses"].label
    cuts = {
        "Addresses: Democrats, Republicans": (party == "Democratic", party == "Republican"),
        "Addresses: to 1899, from 1945": (year < 1900, year >= 1945),
        "Addresses: to 1860, 1861 to 1899": (year <= 1860, (year > 1860) & (year < 1900)),
        "Addresses: 1900 to 1944, from 1945": ((year >= 1900) & (year < 1945), year >= 1945),
    }
    return {
        "Brown: fiction, press": genres("klmnp", "abc"),
        "Brown: learned, fiction": genres("j", "klmnp"),
        "Brown: learned, press": genres("j", "abc"),
        "Brown: belles lettres, skills": genres("g", "ef"),
        **{name: ("Addresses", *cut) for name, cut in cuts.items()},
    }


SPEED = """
import sys, raregram as rg
found = list(rg.compare_each(sys.argv[1], by="genre", format="brown", lower=True, n=(1, 5)))
print(len(found), sum(map(len, found)))
"""


def show_table(title: str, results: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Print the mean of every figure for every measure, and return it."""
    names, keys = list(results[0]), list(results[0]["ours: ratio"])
    mean = {
        name: {key: float(np.mean([of[name][key] for of in results])) for key in keys if key in results[0][name]}
        for name in names
    }
    print(f"\n{title}")
    for key in keys:
        print(f"  {key}: " + ", ".join(f"{name} {of[key]:.3f}" for name, of in mean.items() if key in of), flush=True)
    return mean


def best(mean: dict[str, dict[str, float]], key: str) -> float:
    return max(of[key] for name, of in mean.items() if name not in OURS)


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--level-seeds", type=int, default=20)
    options.add_argument("--only", nargs="*", default=["level", "null", "planted", "replication", "speed"])
    chosen = options.parse_args()
    figures = Figures()
    folders = {name: fetch_corpus(name).folder for name in ("brown", "sotu")}
    corpora = {"Brown": brown(folders["brown"]), "Addresses": sotu(folders["sotu"])}
    counters = {name: Counter(corpus.documents) for name, corpus in corpora.items()}
    steps: dict[str, Callable[[], None]] = {
        "level": lambda: report_level(counters, chosen.level_seeds, figures),
        "null": lambda: report_null({name: of.documents for name, of in corpora.items()}, figures),
        "planted": lambda: report_planted(corpora, chosen.seeds, figures),
        "replication": lambda: report_replication(counters, comparisons(corpora), chosen.seeds, figures),
        "speed": lambda: report_speed(folders["brown"], figures),
    }
    for name in chosen.only:
        steps[name]()
    figures.write(chosen.json)


def report_level(counters: dict[str, Counter], seeds: int, figures: Figures) -> None:
    for name, counter in counters.items():
        for measure, of in level(counter, seeds).items():
            bounds = {"least": 4.0, "most": 6.0} if measure == "G2 / D" else {}
            figures.add(
                f"{name}, halves: below 5 %, {measure}", 100 * float(np.mean([s for s, _ in of])), "%", **bounds
            )
            none = 100 * float(np.mean([d == 0 for _, d in of]))
            bounds = {"least": 95.0} if measure == "G2 / D" else {}
            figures.add(f"{name}, halves: without a discovery, {measure}", none, "%", **bounds)


def report_null(corpora: dict[str, list[list[str]]], figures: Figures) -> None:
    for name, documents in {**corpora, "Reuters": reuters(fetch_corpus("reuters").folder)}.items():
        for longest, (size, times) in product((1, 2), NULL_SIZES.items()):
            if 2 * size > len(documents):
                continue
            found = [null(documents, size, longest, seed) for seed in range(times)]
            for tail, most, most_rows in (("chi-square", None, None), ("F", 5.0, 6.0)):
                what = f"{name}, {size} documents a side, 1 to {longest} words, {tail}"
                any_ = 100 * float(np.mean([of[tail][1] > 0 for of in found]))
                figures.add(f"{what}: with a discovery", any_, "%", **({"most": most} if most else {}))
                below = 100 * float(np.mean([of[tail][0] for of in found]))
                figures.add(f"{what}: below 5 %", below, "%", **({"most": most_rows} if most_rows else {}))


def report_planted(corpora: dict[str, Corpus], seeds: int, figures: Figures) -> None:
    found = [planted(corpus, seed) for corpus in corpora.values() for seed in range(seeds)]
    mean = {name: float(np.mean([of[name] for of in found])) for name in found[0]}
    for name, value in mean.items():
        figures.add(f"planted phrases: average precision, {name}", value)
    ours = mean["ours: conservative"]
    figures.add("planted phrases: ours over G2", ours / mean["G2"], least=1.5)
    figures.add(
        "planted phrases: ours over the best other", ours / max(v for n, v in mean.items() if n not in OURS), least=1
    )


def report_replication(
    counters: dict[str, Counter], cuts: dict[str, tuple[str, Bools, Bools]], seeds: int, figures: Figures
) -> None:
    for title, names in (("chosen by", CHOOSING), ("untouched", UNTOUCHED)):
        results = []
        for name in names:
            corpus, in_a, in_b = cuts[name]
            of_name = [replicate(counters[corpus], in_a, in_b, seed) for seed in range(seeds)]
            show_table(name, of_name)
            results += of_name
        mean = show_table(f"All four, {title}", results)
        ours, ranked = mean["ours: ratio"], mean["ours: conservative"]
        for length in (2, 3):
            for rare in ("", ", rare"):
                key = f"rank correlation, {length} words{rare}"
                least = 1.25 if rare and length == 3 else 1.0
                figures.add(f"{title}: {key}, over the best other", ours[key] / best(mean, key), least=least)
        for top in (100, 500):
            key = f"precision at {top}"
            figures.add(f"{title}: {key}, minus the best other", ranked[key] - best(mean, key), least=-0.02)
        for length in (1, 2, 3):
            figures.add(
                f"{title}: coverage, {length} words", 100 * ours[f"coverage, {length} words"], "%", least=93, most=97
            )


def report_speed(folder: Path, figures: Figures) -> None:
    source = next(folder.rglob("ca01")).parent / "c[a-r][0-9][0-9]"
    before = used_seconds()
    _, seconds, memory = run_measured([sys.executable, "-c", SPEED, source])
    figures.add("Brown, 15 genres, 1 to 5 words", seconds, "s", most=60)
    figures.add("the same, processor", used_seconds() - before, "s")
    figures.add("the same, memory", memory / 1e9, "GB", most=2)


if __name__ == "__main__":
    main()

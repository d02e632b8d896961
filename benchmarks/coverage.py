"""Whether 95 % intervals hold 95 % of what is seen in other documents, by how much was known.

    python -m benchmarks.coverage [--seeds 0,1] [--json FILE]

Half of the documents of Reuters-21578 are fitted in five folds with default options. In the other half, contexts of
one to three items that occur at least 20 times there are looked at: the true ratio is drawn from the interval, and
how often the target follows is drawn from that ratio, with as many independent sightings as the design effect of
these documents leaves. An interval covers what was seen if that is within 95 % of the draws. The bands are those of
how often a context was expected at the target in the half that was fitted.

"Known ratios" are those of words that are drawn independently, where the log odds of the target are a sum over the
last n of them. There it is known whether an interval holds the ratio; the contexts are new ones of the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa

import raregram as rg
from benchmarks.calibration import reuters, words
from benchmarks.keyness import Bools, Floats, Ints, within
from benchmarks.measuring import Figures, parser
from raregram.counts.spans import suffix
from raregram.measure import keyness

LONGEST, LEAST_SEEN = 3, 20
DRAWS = 200
SIDE = 1.959964  # standard deviations from the middle to an end
BANDS = (0, 0.5, 1, 5, 20, np.inf)
LEAST_CONTEXTS = 30  # in a band, of which something is said
TARGETS = ("LOC", "PER")
SETTINGS: dict[str, tuple[dict[str, Any], int | None]] = {  # how contexts are counted, and of how many articles
    "words before": ({"n": 10}, None),
    "words behind, n 5": ({"n": 5, "side": "right"}, None),
    "words before, n 2": ({"n": 2}, 3_000),
}
KNOWN = "known ratios"
VOCABULARIES = (40, 1_000)  # with shares that are drawn at random, and by Zipf's law
DOCUMENTS, LENGTH, BASE = (200, 1_000, 3_000), 60, -3.5  # how many, their words, and the log odds without any
NEW_CONTEXTS = 4_000


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--seeds", type=lambda text: list(map(int, words(text))), default=[0, 1, 2])
    options.add_argument("--settings", nargs="*", default=[*SETTINGS, KNOWN])
    options.add_argument("--estimator", default="backoff", help="of known ratios")
    arguments = options.parse_args()
    figures, articles = Figures(), reuters()
    for name in arguments.settings:
        if name == KNOWN:
            add_known(figures, arguments.seeds, arguments.estimator)
            continue
        counting, size = SETTINGS[name]
        inside: dict[tuple[str, int], list[Bools]] = {}
        for seed in arguments.seeds:
            order = np.random.default_rng(seed).permutation(len(articles))[:size]
            for target, expected, covered in judge(articles.take(pa.array(order)), counting, seed):
                for band, (low, high) in enumerate(pairwise(BANDS)):
                    inside.setdefault((target, band), []).append(covered[(expected >= low) & (expected < high)])
        for (target, band), parts in inside.items():
            found = np.concatenate(parts)
            reach = f"{BANDS[band]:g} to {BANDS[band + 1]:g} expected"
            what = f"{name}, {target}, {reach} ({len(found):,} contexts)"
            if len(found) >= LEAST_CONTEXTS:
                figures.add(what, 100 * float(found.mean()), "%", least=93, most=97)
    figures.write(arguments.json)


def judge(articles: pa.Table, counting: dict[str, Any], seed: int) -> Iterator[tuple[str, Floats, Bools]]:
    """Yield of each target how often contexts were expected at it, and whether their intervals cover what is seen."""
    half = len(articles) // 2
    fitted = rg.count(articles[:half], targets=TARGETS, folds=5, **counting)
    side, n = counting.get("side", "left"), counting["n"]
    other = rg.count(articles[half:], targets=TARGETS, documents=True, **counting)
    totals = other.totals.reshape(4, -1)  # contexts, documents, squares, products; in all and at each target
    for target in TARGETS:
        model, found = rg.fit(fitted, target), []
        at_target = totals[0, other.column(target)]
        odds = float(np.log(at_target / (totals[0, 0] - at_target)))
        for length in range(1, min(LONGEST, n) + 1):
            rows = other.rows[suffix(length, n, side)].at_least(LEAST_SEEN)
            contexts = [[other.items[code].as_py() for code in key] for key in rows.keys.tolist()]
            of_target = rows.values.reshape(len(rows), 4, -1)[:, :, [other.column(target)]]
            f, documents, squares, products = of_target.swapaxes(0, 1)
            design = keyness.design_effect(f, documents, squares, products, totals[:3, :1])
            covered = cover(model.with_interval(contexts), rows.values[:, 0], f[:, 0], design, odds, seed)
            expected = model.estimator.expected_count(model.encode(contexts))
            found.append((np.zeros(len(rows)) if expected is None else expected, covered))
        every, inside = zip(*found, strict=True)
        yield target, np.concatenate(every), np.concatenate(inside)


def cover(
    interval: tuple[Floats, Floats, Floats], f_all: Ints, f_nu: Ints, design: Floats, log_odds: float, seed: int
) -> Bools:
    """Return whether the frequencies at the target are within 95 % of what the intervals let expect.

    >>> rng, size = np.random.default_rng(1), 4000
    >>> truth = rng.normal(1.0, 0.5, size)  # as the interval says
    >>> f_nu, f_all = rng.binomial(100, 1 / (1 + np.exp(-truth))), np.full(size, 100)
    >>> interval = tuple(np.full(size, 1.0 + side * 0.5 * SIDE) for side in (0, -1, 1))
    >>> cover(interval, f_all, f_nu, np.ones(size), 0.0, seed=0).mean().round(2)
    np.float64(0.95)
    """
    rng = np.random.default_rng(seed)
    middle, low, high = interval
    z = rng.standard_normal((DRAWS, len(middle)))
    log_ratio = middle + z * np.where(z > 0, high - middle, middle - low) / SIDE
    n = np.maximum(np.round(f_all / design).astype(int), 1)
    seen = np.minimum(np.round(f_nu / design).astype(int), n)
    drawn = rng.binomial(n, 1 / (1 + np.exp(-log_ratio - log_odds)))
    return within(drawn, seen, rng)


def add_known(figures: Figures, seeds: list[int], estimator: Any) -> None:
    """Add how many intervals of calibrated models hold the known ratio, and how wide they are in the median."""
    for vocabulary, size, n in product(VOCABULARIES, DOCUMENTS, (1, 2, 3)):
        covered, widths = [], []
        for seed in seeds:
            documents, contexts, truth = with_known_ratios(vocabulary, size, n, seed)
            low, high = rg.fit(rg.count(documents, n=n, folds=5), TARGETS[0], estimator).interval(contexts).T
            covered.append((low <= truth) & (truth <= high))
            widths.append(np.median(high - low))
        what = f"{KNOWN}, {vocabulary:,} words, {size:,} documents, n {n}"
        figures.add(what, 100 * float(np.mean(covered)), "%", least=92, most=99)
        figures.add(f"{what}: median width", float(np.mean(widths)), "")


def with_known_ratios(
    vocabulary: int, size: int, n: int, seed: int
) -> tuple[list[dict[str, Any]], list[list[str]], Floats]:
    """Return documents of independent words, new contexts, and the true log ratio of each."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(40)) if vocabulary == 40 else 1 / np.arange(1.0, vocabulary + 1)
    p, names = p / p.sum(), np.array([f"w{k:04}" for k in range(vocabulary)])
    weights = rng.standard_normal((n, vocabulary))

    def probability(codes: Ints) -> Floats:
        logit = BASE + weights[np.arange(n), codes].sum(axis=1)
        return np.asarray(1 / (1 + np.exp(-logit)))

    documents = []
    for row in rng.choice(vocabulary, (size, LENGTH), p=p):
        chance = probability(np.lib.stride_tricks.sliding_window_view(row[:-1], n))
        starts = n + np.flatnonzero(rng.random(len(chance)) < chance)
        documents.append({"items": names[row].tolist(), "spans": [(k, k + 1, TARGETS[0]) for k in starts.tolist()]})
    places = LENGTH - n + 1  # of a document, and at its end there is no word left, so no target
    codes = rng.choice(vocabulary, (400_000, n), p=p)
    share = probability(codes) * (places - 1) / places
    log_odds, of_all = (np.log(x / (1 - x)) for x in (share[:NEW_CONTEXTS], share.mean()))
    return documents, names[codes[:NEW_CONTEXTS]].tolist(), log_odds - of_all


if __name__ == "__main__":
    main()

"""Intervals: that they cover the true log ratio as often as they say, on corpora where it is known."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pytest

import raregram as rg
from raregram.measure.synthetic import SyntheticCorpus

ESTIMATORS = ["backoff", "product", "selective"]
SPANS = ["suffixes:3", "shapes:3"]


@dataclass(frozen=True)
class Chain:
    """A source of contexts whose neighbouring items depend on each other, and otherwise in the numerator.

    The item next to the boundary comes first, and each item decides about the one further away.
    """

    words: np.ndarray
    n: int
    first: tuple[np.ndarray, np.ndarray]  # (items,) of the numerator and of the denominator
    step: tuple[np.ndarray, np.ndarray]  # (items, items)

    @classmethod
    def make(cls, items: int, n: int, strength: float, seed: int) -> Chain:
        """Make a source whose log ratios have the standard deviation `strength` for an item, 0.6 of it for a step."""
        rng = np.random.default_rng(seed)
        zipf = 1 / np.arange(3, items + 3)

        def tilted(base, by):
            table = base * np.exp(by * rng.normal(size=base.shape))
            return table / table.sum(axis=-1, keepdims=True)

        first = zipf / zipf.sum()
        step = tilted(np.tile(zipf, (items, 1)), 1.0)
        words = np.array([f"W{k}," if k % 3 == 0 else f"w{k}" for k in range(items)])
        return cls(words, n, (tilted(first, strength), first), (tilted(step, 0.6 * strength), step))

    def sample(self, n_nu: int, n_de: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        parts = []
        for rows, first, step in zip((n_nu, n_de), self.first, self.step, strict=True):
            columns = [rng.choice(len(first), rows, p=first)]
            cumulated = step.cumsum(axis=1)
            for _ in range(self.n - 1):
                further = (rng.random(rows)[:, None] > cumulated[columns[-1]]).sum(axis=1)
                columns.append(np.minimum(further, len(first) - 1))
            parts.append(np.column_stack(columns[::-1]))
        order = rng.permutation(n_nu + n_de)
        return np.concatenate(parts)[order], (np.arange(n_nu + n_de) < n_nu)[order]

    def texts(self, contexts: np.ndarray) -> list[str]:
        return [" ".join(row) for row in self.words[contexts].tolist()]

    def log_ratio(self, contexts: np.ndarray) -> np.ndarray:
        first, step = (np.log(nu / de) for nu, de in (self.first, self.step))
        steps = [step[contexts[:, k + 1], contexts[:, k]] for k in range(self.n - 1)]
        return np.asarray(first[contexts[:, -1]] + sum(steps, np.zeros(len(contexts))))


def fitted(source, spans, estimator="backoff", n_nu=3000, n_de=30_000, **options):
    """A model, and how often it has seen each context."""
    contexts, at_target = source.sample(n_nu, n_de, seed=1)
    texts = source.texts(contexts)
    counts = rg.Counts.from_contexts(texts, np.where(at_target, "T", "").tolist(), spans=spans)
    return rg.fit(counts, "T", estimator, **{**counted(spans), **options}), Counter(texts)


def counted(spans):
    """What a back-off has to do without, where a table does not count it."""
    names = [span.partition(":")[0] for span in spans]
    return {"shapes": "shapes" in names, **({} if "suffixes" in names else {"longest": 1})}


BANDS = {"0": (0, 0), "1": (1, 1), "2 to 5": (2, 5), "more": (6, 10**9)}


def coverage(source, model, seen, drawn, level=0.95):
    """By how often the contexts were seen: (contexts, share covered, mean half width, error) of new contexts."""
    contexts, _ = source.sample(*drawn, seed=2)
    texts = source.texts(contexts)
    truth, (low, high) = source.log_ratio(contexts), model.interval(texts, level).T
    frequency = np.array([seen[text] for text in texts])
    error = np.abs(model.log_ratio(texts) - truth)
    found = {}
    for band, (least, most) in BANDS.items():
        some = (least <= frequency) & (frequency <= most)
        if some.sum() >= 200:
            covered = ((low <= truth) & (truth <= high))[some].mean()
            found[band] = (int(some.sum()), covered, (high - low)[some].mean() / 2, error[some].mean())
    return found


def numbers_of(found):
    return ", ".join(f"{band}: {covered:.3f} of {count}" for band, (count, covered, *_) in found.items())


MIXED = (3000, 20_000)
SOURCES = {
    "independent, few words": (SyntheticCorpus.make(300, 2), ["suffixes:2", "shapes:2"], MIXED),
    "independent, three positions": (SyntheticCorpus.make(50, 3), ["suffixes:3", "shapes:3"], MIXED),
    "independent, many words": (SyntheticCorpus.make(2000, 5), ["suffixes:5", "shapes:5"], MIXED),
    "independent, many words, no shapes": (SyntheticCorpus.make(2000, 5), ["suffixes:5"], MIXED),
    "independent, no suffixes": (SyntheticCorpus.make(2000, 5), ["shapes:1"], MIXED),
    "dependent": (Chain.make(60, 3, 1.0, seed=0), ["suffixes:3", "shapes:3"], MIXED),
    "dependent, no shapes": (Chain.make(60, 3, 1.0, seed=0), ["suffixes:3"], MIXED),
    "dependent, four positions": (Chain.make(60, 4, 1.0, seed=0), ["suffixes:4", "shapes:4"], MIXED),
    "dependent, many words": (Chain.make(500, 3, 1.0, seed=0), ["suffixes:3", "shapes:3"], MIXED),
}
# What no interval from these frequencies can know: that contexts were picked by their ratio, as those at the target
# are, and how items beyond the longest suffix depend on each other.
HARDER = {
    "dependent, at the target": (Chain.make(60, 3, 1.0, seed=1), ["suffixes:3", "shapes:3"], (20_000, 0)),
    "dependent, longer than its suffixes": (Chain.make(60, 8, 1.0, seed=0), ["suffixes:5", "shapes:5"], MIXED),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(name):
    source, spans, drawn = SOURCES[name]
    model, seen = fitted(source, spans)
    found = coverage(source, model, seen, drawn)
    assert found
    assert all(covered >= 0.9 for _, covered, *_ in found.values()), numbers_of(found)
    # It says something: it is not wider than it need be, and a lower level covers less.
    assert all(width < 6 * error for *_, width, error in found.values())
    less = coverage(source, model, seen, drawn, level=0.2)
    assert all(covered < 0.7 for _, covered, *_ in less.values()), numbers_of(less)


@pytest.mark.parametrize("name", HARDER)
def test_the_interval_falls_a_little_short_where_it_cannot_know(name):
    source, spans, drawn = HARDER[name]
    found = coverage(source, *fitted(source, spans), drawn)
    assert found
    assert all(0.85 <= covered < 0.95 for _, covered, *_ in found.values()), numbers_of(found)


def test_the_interval_of_the_product_covers_the_true_ratio():
    """Where the items are independent, as the product takes them, and all were seen."""
    source = SyntheticCorpus.make(200, 3, seed=4)
    model, seen = fitted(source, ["units"], "product", n_nu=10_000, n_de=100_000, lam=0)
    found = coverage(source, model, seen, MIXED)
    assert set(found) >= {"0", "1", "2 to 5"}
    assert all(0.9 <= covered <= 0.99 for _, covered, *_ in found.values()), numbers_of(found)
    less = coverage(source, model, seen, MIXED, level=0.5)
    assert all(0.4 <= covered <= 0.7 for _, covered, *_ in less.values()), numbers_of(less)


NGRAMS = ["he walked in", "she walked in", "he said that", "we talked at", "Mr Smith said", "the old Bank"]
F_NU, F_DE = np.array([9, 3, 1, 4, 1, 2]), np.array([4, 6, 30, 2, 15, 9])


def widths_with_more_data(probes, estimator, **options):
    """The widths of intervals with 1, 3, 10 and 100 times the frequencies."""
    widths = []
    for times in (1, 3, 10, 100):
        counts = rg.Counts.from_ngrams(NGRAMS, F_NU * times, F_DE * times, target="T", spans=SPANS)
        widths.append(np.diff(rg.fit(counts, "T", estimator, **options).interval(probes), axis=1)[:, 0])
    return np.array(widths)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_more_data_makes_narrower_intervals(estimator):
    """At a fixed ridge also for contexts that were never seen, though how their items depend is not learnt thus."""
    size = 10**6  # of what is left out for saying little, a back-off no longer knows how often it was seen
    options = {"size": size} if estimator == "backoff" else {}
    widths = widths_with_more_data([*NGRAMS, "she said in", "the walked at"], estimator, lam=1e-3, **options)
    assert (np.diff(widths, axis=0) < 0).all()
    assert (widths[-1, : len(NGRAMS)] < 0.35 * widths[0, : len(NGRAMS)]).all()


@pytest.mark.parametrize("spans", [["suffixes:2"], ["suffixes:2", "shapes:2"]])
@pytest.mark.parametrize("scale", [1, 10])
def test_what_was_seen_often_is_surer_than_what_was_seen_rarely_or_never(spans, scale):
    widths = []
    for frequency in (0, 1, 5, 30, 1000):
        counts = rg.Counts.from_ngrams(
            ["it lives", "he lives", "it died", "he died"],
            [frequency, 100, 100, 100],
            [scale * frequency, 1000, 1000, 1000],
            target="T",
            spans=spans,
        )
        model = rg.fit(counts, "T", "backoff", size=10**6, lam=0.004, **counted(spans))
        widths.append(np.diff(model.interval(["it lives"]))[0, 0])
        assert np.diff(model.interval(["nobody knows"]))[0, 0] > widths[-1]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 4 * widths[-1]


def test_a_frequency_counts_where_the_ratio_happens_to_be_one():
    """Items that are as frequent at the target as elsewhere have the ratio 1, not the certainty."""
    contexts, labels = ["a", "b"] * 8, ["T", "T", None, None] * 4
    model = rg.fit(rg.Counts.from_contexts(contexts, labels), "T", "product", lam=0)
    assert model.log_ratio(["a"])[0] == 0
    few = np.diff(model.interval(["a"]))[0, 0]
    model = rg.fit(rg.Counts.from_contexts(contexts * 50, labels * 50), "T", "product", lam=0)
    assert model.log_ratio(["a"])[0] == 0
    many = np.diff(model.interval(["a"]))[0, 0]
    assert few > 5 * many > 0


def test_the_product_is_not_certain_of_what_it_has_never_seen():
    counts = rg.Counts.from_contexts(["a b", "b a", "a a"] * 20, ["T", None, None] * 20)
    model = rg.fit(counts, "T", "product")
    seen, unknown = np.diff(model.interval(["a b", "never seen"]), axis=1)[:, 0]
    assert unknown > seen > 0


def test_the_interval_of_a_product_by_hand():
    counts = rg.Counts.from_contexts([["a"]] * 5 + [["a"]] * 3 + [["b"]] * 4, ["T"] * 5 + [None] * 7)
    model = rg.fit(counts, "T", "product", lam=0.1)
    share = (4 / 9) / (4 / 9 + 0.1)
    reach = NormalDist().inv_cdf(0.95) * math.sqrt(math.log1p(1 / 6 + share**2 / 4))
    middle = math.log((6 / 7) / (4 / 9 + 0.1))
    np.testing.assert_allclose(model.interval(["a"], level=0.9), [[middle - reach, middle + reach]], atol=1e-9)


def test_the_interval_of_a_back_off_without_any_evidence_is_that_of_its_prior():
    """Nothing was seen of this context, so that its ratio is 1, give or take what the ridge is worth."""
    counts = rg.Counts.from_contexts(["in Rome", "in Oslo", "of it"] * 40, ["T", None, None] * 40, spans=["shapes:2"])
    widths = []
    for lam in (0.01, 0.1, 1.0):
        model = rg.fit(counts, "T", "backoff", lam=lam, size=10**6, longest=1)
        low, high = model.interval(["++ ++"])[0]
        assert low < 0 < high
        assert low + high == 0
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > 0

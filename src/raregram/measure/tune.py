"""The best settings of a target, from one count table and some validation contexts.

For the selective estimator: all criteria x sizes x lam in one pass over the contexts.

Sizes are nested: the items of a smaller selection are in every larger one. So each (position, item) belongs to the
first size that takes it in, its tier. The terms of a context are added up by tier, and the running sum over the tiers
gives its score for every size. Log ratios lie on a grid, so these sums equal a fitted model's to the last bit.

For the back-off estimator: lam x tau, each fitted and scored, then shorter suffixes and no shapes at the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, check_choice, check_count, check_lam
from raregram.measure.evaluate import check_layout, correct_types, f1_score, top_hits, types_for
from raregram.models import ratios, selection
from raregram.models.fit import fit
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import ALPHAS, DENOMINATOR, PRIORS, SEED, TAUS, UNSEEN, Denominator, EstimatorName, K
from raregram.text.vocabulary import encode_items


@dataclass(frozen=True)
class Trial:
    """One setting of an estimator, and the F1 that it reaches."""

    target: str
    estimator: EstimatorName
    criterion: str | None  # None: all used
    size: int | None
    lam: float
    f1: float
    tau: float | None = None  # from here on for "backoff" alone
    longest: int | None = None
    shapes: bool | None = None
    max_bytes: int | None = None
    bytes: int | None = None  # that the model takes


@dataclass(frozen=True)
class Grid:
    """The training frequencies of a target, and some contexts whose ranking is measured."""

    counts: Counts
    target: str
    contexts: Counts
    denominator: Denominator = DENOMINATOR.default
    unseen: str = UNSEEN.default
    seed: int = SEED.default
    k: int = K.default

    def __post_init__(self) -> None:
        """Raise where there is nothing to tune on."""
        check_count("k", "tune", self.k)
        check_layout(self.counts, self.contexts)
        if not self.counts.sizes(self.target, self.denominator)[0]:
            raise InputError(f"the target {self.target!r} never occurs in the training counts")

    def check(self) -> None:
        """Raise where nothing can be chosen, since no setting finds anything."""
        if not self._correct.any():
            raise InputError(f"the target {self.target!r} never occurs in the validation documents")

    def selective(self, criteria: Sequence[str], sizes: Sequence[int], lams: Sequence[float]) -> Iterator[Trial]:
        """Try every criterion x size x lam."""
        sizes = sorted(set(sizes))
        for criterion in criteria:
            bins = self._terms.bins(criterion, sizes)
            for lam in lams:
                scores = self._terms.scores(bins, lam, len(sizes) + 1)
                for size, column in zip(sizes, scores.T, strict=False):
                    yield Trial(self.target, "selective", criterion, size, lam, self._f1(column))

    def all_used(self, lams: Sequence[float]) -> Iterator[Trial]:
        """Try the product of all items with every lam."""
        bins = self._terms.bins(None, [])
        for lam in lams:
            yield Trial(self.target, "product", None, None, lam, self._f1(self._terms.scores(bins, lam, 1)[:, 0]))

    def smoothed(self, alphas: Sequence[float] = ALPHAS) -> Iterator[Trial]:
        """Try the ratio of smoothed frequencies of whole N-grams with every alpha."""
        for alpha in alphas:
            trial = Trial(self.target, "smoothed", None, None, alpha, 0.0)
            yield replace(trial, f1=self.f1(self.fit(trial)))

    def backoff(self, priors: Sequence[float] = PRIORS, taus: Sequence[float] = TAUS) -> Iterator[Trial]:
        """Try the back-off estimator with every lam x tau, then with less at the best of them."""
        n_de = self.counts.sizes(self.target, self.denominator)[1]
        tried = []
        for prior in priors:
            check_lam(prior, "tune", "priors")
            for tau in taus:
                tried.append(self._try_backoff(lam=prior / n_de, tau=tau))
                yield tried[-1]
        best = choose(tried)
        for longest in range((best.longest or 0) - 1, 0, -1):
            yield self._try_backoff(lam=best.lam, tau=best.tau, longest=longest)
        if best.shapes:
            yield self._try_backoff(lam=best.lam, tau=best.tau, shapes=False)

    def _try_backoff(self, **options: Any) -> Trial:
        return self.measure(fit(self.counts, self.target, "backoff", denominator=self.denominator, **options))

    def measure(self, model: Model) -> Trial:
        """Measure a model of the back-off estimator on the contexts."""
        p = model.params
        limits = (p.longest, bool(p.longest_shapes), p.max_bytes, model.nbytes)
        return Trial(self.target, "backoff", p.criterion, p.size, p.lam, self.f1(model), p.tau, *limits)

    def f1(self, model: Model) -> float:
        """Return the F1 that a model reaches on the contexts."""
        return self._f1(model.log_ratio(types_for(model, self.contexts)))

    def fit(self, trial: Trial) -> Model:
        """Fit the model of a trial."""
        chosen = {name: getattr(trial, name) for name in ("criterion", "size", "lam", "tau", "longest", "shapes")}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        common: dict[str, Any] = {"denominator": self.denominator, "unseen": self.unseen, "seed": self.seed}
        return fit(self.counts, self.target, trial.estimator, max_bytes=trial.max_bytes, **options, **common)

    @cached_property
    def _terms(self) -> _Terms:
        return _Terms(self)

    @cached_property
    def _correct(self) -> npt.NDArray[np.bool_]:
        return correct_types(self.contexts, self.target)

    def _f1(self, scores: Floats) -> float:
        hits = top_hits(scores, self._correct, self.k)
        return f1_score(hits, min(self.k, len(scores)), int(self._correct.sum()))


def choose(trials: Sequence[Trial]) -> Trial:
    """Return the best trial; ties go to the larger lam, then to the smaller size, then to the first."""
    return max(trials, key=lambda trial: (trial.f1, trial.lam, -(trial.size or 0)))


class _Terms:
    """The units of all positions in one array, and for every context the indices of its items in that array."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        counts = grid.counts
        self.n_nu, self.n_de = counts.sizes(grid.target, grid.denominator)
        by_position = [counts.frequencies(span, grid.target, grid.denominator) for span in counts.units]
        self.f_nu, self.f_de = (np.concatenate(side) for side in zip(*by_position, strict=True))
        self.starts = np.cumsum([0, *(len(f_nu) for f_nu, _ in by_position)])
        contexts = grid.contexts
        codes = encode_items(contexts.items, counts.items)[contexts.rows[contexts.whole].keys]
        index = np.full((counts.n, len(counts.items) + 1), len(self.f_nu))  # (n, items and ABSENT, the last column)
        for k, span in enumerate(counts.units):
            keys = counts.rows[span].keys[:, 0]
            index[k, keys] = self.starts[k] + np.arange(len(keys))
        # (contexts * n,) the last index is for items never seen
        self.indices: Ints = index[np.arange(counts.n), codes].ravel()

    def bins(self, criterion: str | None, sizes: Sequence[int]) -> Ints:
        """Return, for each item of each context, the bin of its context and of the first size that takes it in."""
        tier = np.zeros(len(self.f_nu) + 1, dtype=np.int64)  # an item never seen counts in every size
        if criterion is not None:
            check_choice("criterion", "tune", criterion, selection.CRITERIA)
            for k, (first, last) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
                f_nu, f_de = self.f_nu[first:last], self.f_de[first:last]
                score = selection.scores(criterion, f_nu, f_de, self.n_nu, self.n_de, seed=(self.grid.seed, k))
                best_first = np.lexsort((-(f_nu + f_de), -score))
                tier[first + best_first] = np.searchsorted(sizes, np.arange(len(score)), side="right")
        n, tiers = self.grid.counts.n, len(sizes) + 1
        return np.repeat(np.arange(len(self.indices) // n) * tiers, n) + tier[self.indices]

    def scores(self, bins: Ints, lam: float, tiers: int) -> Floats:
        """Return the log ratio of every context for every size: (contexts, tiers); the last tier is left out."""
        check_lam(lam, "tune")
        values = ratios.log_on_grid(
            ratios.unit(np.append(self.f_nu, 0), self.n_nu, np.append(self.f_de, 0), self.n_de, lam)
        )
        if self.grid.unseen == "neutral":
            values[-1] = 0.0
        sums = np.bincount(
            bins, weights=values[self.indices], minlength=len(self.indices) // self.grid.counts.n * tiers
        )
        return np.cumsum(sums.reshape(-1, tiers), axis=1)

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

from raregram.counts.storage import find_rows
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, check_choice, check_count, check_lam
from raregram.measure.evaluate import TOP, check_layout, correct_types, f1_score, top_hits, types_for
from raregram.models import ratios, selection
from raregram.models.fit import fit
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.text.ngrams import ABSENT, number_items

CRITERIA = ("random", "tf", "cet", "chi2", "chi2_printed", "gss")
SIZES = (100, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
LAMS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
WORTHS = (3.0, 6.0, 12.0, 24.0, 48.0)  # lam of the back-off estimator times n_de: contexts that a prior is worth
ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)  # that the smoothed estimator adds to frequencies
TAUS = (0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True)
class Cell:
    """One setting and how well it ranks."""

    target: str
    estimator: str
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
    """The frequencies of a target, and some contexts whose ranking is measured."""

    counts: Counts
    target: str
    contexts: Counts
    denominator: str = "complement"
    unseen: str = "neutral"
    seed: int = 0
    k: int = TOP

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

    def cells(self, criteria: Sequence[str], sizes: Sequence[int], lams: Sequence[float]) -> Iterator[Cell]:
        """Yield every criterion x size x lam."""
        sizes = sorted(set(sizes))
        for criterion in criteria:
            tiers = self._terms.tiers(criterion, sizes)
            for lam in lams:
                scores = self._terms.scores(tiers, lam, len(sizes) + 1)
                for column, size in enumerate(sizes):
                    yield self._cell("selective", criterion, size, lam, scores[:, column])

    def all_used(self, lams: Sequence[float]) -> Iterator[Cell]:
        """Yield the product of all items for every lam."""
        tiers = self._terms.tiers(None, [])
        for lam in lams:
            yield self._cell("product", None, None, lam, self._terms.scores(tiers, lam, 1)[:, 0])

    def smoothed(self, alphas: Sequence[float] = ALPHAS) -> Iterator[Cell]:
        """Yield the ratio of smoothed frequencies of whole N-grams for every alpha."""
        span, (n_nu, n_de) = self.counts.whole, self.counts.sizes(self.target, self.denominator)
        keys = self.counts.rows[span].keys
        codes = number_items(self.contexts.items, self.counts.items)[self.contexts.rows[span].keys]
        row, found = find_rows(keys, codes)
        f_nu, f_de = (
            np.where(found, f[row], 0) for f in self.counts.frequencies(span, self.target, self.denominator)
        )
        for alpha in alphas:
            ratio = ratios.smoothed(f_nu, n_nu, f_de, n_de, alpha, types=len(keys) + 1)
            yield self._cell("smoothed", None, None, alpha, ratios.log_on_grid(ratio))

    def backoff(self, worths: Sequence[float] = WORTHS, taus: Sequence[float] = TAUS) -> Iterator[Cell]:
        """Yield the back-off estimator for every lam x tau, then with less at the best of them."""
        n_de = self.counts.sizes(self.target, self.denominator)[1]
        tried = []
        for worth in worths:
            check_lam(worth, "tune", "worths")
            for tau in taus:
                tried.append(self.measured(lam=worth / n_de, tau=tau))
                yield tried[-1]
        best = choose(tried)
        assert best.longest is not None
        for longest in range(best.longest - 1, 0, -1):
            yield self.measured(lam=best.lam, tau=best.tau, longest=longest)
        if best.shapes:
            yield self.measured(lam=best.lam, tau=best.tau, shapes=False)

    def measured(self, **options: Any) -> Cell:
        """Fit the back-off estimator and measure it."""
        return self.measure(fit(self.counts, self.target, "backoff", denominator=self.denominator, **options))

    def measure(self, model: Model) -> Cell:
        """Measure a model of the back-off estimator on the contexts."""
        p = model.params
        cell = self._cell("backoff", p.criterion, p.size, p.lam, model.log_ratio(types_for(model, self.contexts)))
        return replace(
            cell,
            tau=p.tau,
            longest=p.longest,
            shapes=bool(p.longest_shapes),
            max_bytes=p.max_bytes,
            bytes=model.nbytes,
        )

    @cached_property
    def _terms(self) -> _Terms:
        return _Terms(self)

    @cached_property
    def _correct(self) -> npt.NDArray[np.bool_]:
        return correct_types(self.contexts, self.target)

    def _cell(self, estimator: str, criterion: str | None, size: int | None, lam: float, scores: Floats) -> Cell:
        hits = top_hits(scores, self._correct, self.k)
        f1 = f1_score(hits, min(self.k, len(scores)), int(self._correct.sum()))
        return Cell(self.target, estimator, criterion, size, lam, f1)

    def fit(self, cell: Cell) -> Model:
        """Fit the model of a cell."""
        chosen = {name: getattr(cell, name) for name in ("criterion", "size", "lam", "tau", "longest", "shapes")}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        common: dict[str, Any] = {"denominator": self.denominator, "unseen": self.unseen, "seed": self.seed}
        return fit(self.counts, self.target, cell.estimator, max_bytes=cell.max_bytes, **options, **common)


def choose(cells: Sequence[Cell]) -> Cell:
    """Return the best cell; ties go to the larger lam, then to the smaller size, then to the first."""
    return max(cells, key=lambda cell: (cell.f1, cell.lam, -(cell.size or 0)))


class _Terms:
    """The units of a count table as one long list, and where the items of every context stand in it."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        counts = grid.counts
        self.n_nu, self.n_de = counts.sizes(grid.target, grid.denominator)
        by_position = [counts.frequencies(span, grid.target, grid.denominator) for span in counts.units]
        self.f_nu, self.f_de = (np.concatenate(side) for side in zip(*by_position, strict=True))
        self.starts = np.cumsum([0, *(len(f_nu) for f_nu, _ in by_position)])
        self.places = self._places_of_contexts()  # (contexts * n,) the last place is for items never seen

    def _places_of_contexts(self) -> Ints:
        counts, contexts = self.grid.counts, self.grid.contexts
        items = number_items(contexts.items, counts.items)[contexts.rows[contexts.whole].keys]
        place = np.full((counts.n, len(counts.items) + 1), len(self.f_nu), dtype=np.int64)  # (n, items and ABSENT)
        for k, span in enumerate(counts.units):
            keys = counts.rows[span].keys[:, 0]
            place[k, keys] = self.starts[k] + np.arange(len(keys))
        assert ABSENT == -1  # the last column
        return place[np.arange(counts.n), items].ravel()

    def tiers(self, criterion: str | None, sizes: Sequence[int]) -> Ints:
        """Return, for each item of each context, the bin of its context and of the first size that takes it in."""
        tier = np.zeros(len(self.f_nu) + 1, dtype=np.int64)  # an item never seen counts in every size
        if criterion is not None:
            check_choice("criterion", "tune", criterion, selection.CRITERIA)
            for k, (first, last) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
                tier[first:last] = np.searchsorted(sizes, self._rank(criterion, k, first, last), side="right")
        n, bins = self.grid.counts.n, len(sizes) + 1
        return np.repeat(np.arange(len(self.places) // n) * bins, n) + tier[self.places]

    def _rank(self, criterion: str, k: int, first: int, last: int) -> Ints:
        """Return the place of each item of a position in the order of selection."""
        f_nu, f_de = self.f_nu[first:last], self.f_de[first:last]
        score = selection.scores(criterion, f_nu, f_de, self.n_nu, self.n_de, seed=(self.grid.seed, k))
        rank = np.empty(len(score), dtype=np.int64)
        rank[np.lexsort((-(f_nu + f_de), -score))] = np.arange(len(score))
        return rank

    def scores(self, tiers: Ints, lam: float, bins: int) -> Floats:
        """Return the log ratio of every context for every size: (contexts, bins); the last bin is for what is out."""
        check_lam(lam, "tune")
        values = ratios.log_on_grid(
            ratios.unit(np.append(self.f_nu, 0), self.n_nu, np.append(self.f_de, 0), self.n_de, lam)
        )
        if self.grid.unseen == "neutral":
            values[-1] = 0.0
        sums = np.bincount(
            tiers, weights=values[self.places], minlength=len(self.places) // self.grid.counts.n * bins
        )
        return np.cumsum(sums.reshape(-1, bins), axis=1)

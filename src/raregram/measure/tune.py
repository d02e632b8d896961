"""The best settings of a target, from one count table and some validation contexts.

For the selective estimator: all criteria x sizes x lam in one pass over the contexts.

Sizes are nested: the items of a smaller selection are in every larger one. So each (position, item) belongs to the
first size that takes it in, its tier. The terms of a context are added up by tier, and the running sum over the tiers
gives its score for every size. Log ratios lie on a grid, so these sums equal a fitted model's to the last bit.

For the back-off estimator: lam x tau, each fitted and scored, then shorter suffixes and no shapes at the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.corpus.documents import Options
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, check_choice, check_count, check_lam
from raregram.measure.cllr import cllr
from raregram.measure.evaluate import (
    average_precision,
    check_layout,
    f1_score,
    ranking,
    top_hits,
    type_frequencies,
    types_for,
    types_of,
)
from raregram.measure.results import Results
from raregram.models import ratios, selection
from raregram.models.fit import fit, only_target
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import (
    ALPHAS,
    BY,
    CRITERIA,
    DENOMINATOR,
    LAMS,
    PRIORS,
    SEED,
    SIZES,
    SPLIT,
    TAUS,
    TUNED_PRIORS,
    UNSEEN,
    Denominator,
    EstimatorName,
    K,
    Measure,
    Split,
    Unseen,
)
from raregram.remote import PathLike
from raregram.text.vocabulary import encode_items


@dataclass(frozen=True)
class Trial:
    """One setting of an estimator, and the F1, average precision or Cllr that it reaches."""

    target: str
    estimator: EstimatorName
    criterion: str | None  # None: all used
    size: int | None
    lam: float
    f1: float
    tau: float | None = None  # from here on for "backoff" alone
    longest: int | None = None
    shapes: bool | None = None
    bytes: int | None = None  # that the model takes
    average_precision: float | None = None  # None: not measured; F1 decides where this and Cllr are not
    cllr: float | None = None

    @property
    def value(self) -> float:
        """The measure by which the best is chosen."""
        measured = (self.cllr, self.average_precision, self.f1)
        return next(value for value in measured if value is not None)

    @property
    def merit(self) -> float:
        """The measure as a number that is higher for the better: of Cllr, the lowest is the best."""
        return self.value if self.cllr is None else -self.value


@dataclass(frozen=True)
class Tuning:
    """The best model, and all settings that were tried."""

    model: Model
    best: Trial
    trials: tuple[Trial, ...]

    @property
    def results(self) -> Results:
        """All settings as a table, the best first."""
        rows = [asdict(trial) for trial in sorted(self.trials, key=lambda trial: -trial.merit)]
        table = pa.Table.from_pylist(rows)
        used = [name for name in table.column_names if not pa.types.is_null(table[name].type)]
        return Results(table.select(used))

    def __repr__(self) -> str:
        return f"{self.model!r}\n{self.results!r}"

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


def tune(  # noqa: PLR0913 - every option has its name
    counts: Counts | PathLike,
    documents: Any,
    target: str | None = None,
    estimator: Literal["backoff", "selective"] = "backoff",
    *,
    by: Measure = BY.default,
    k: int | None = K.default,
    criteria: Sequence[str] = CRITERIA,
    sizes: Sequence[int] = SIZES,
    lams: Sequence[float] = LAMS,
    priors: Sequence[float] = TUNED_PRIORS,
    taus: Sequence[float] = TAUS,
    denominator: Denominator = DENOMINATOR.default,
    unseen: Unseen = UNSEEN.default,
    seed: int = SEED.default,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
    progress: Callable[[int], None] = lambda trials: None,
) -> Tuning:
    """Find the best settings of an estimator on validation documents.

    Args:
        counts: the count table of the training data.
        documents: tagged documents, as `raregram.count` takes them; or their count table with whole N-grams.
        target: the numerator; may be left out where the table has only one target.
        estimator: "backoff" tries priors and taus, then shorter suffixes and no shapes; "selective" criteria, sizes
            and lams, and all items.
        by: "average-precision", "f1" of the top k, or "cllr", the cost of the ratios, of which the lowest is the
            best; ties go to the larger lam.
        k: how many N-grams are returned; None: as many as are relevant.
        criteria: of "selective".
        sizes: of "selective".
        lams: of "selective".
        priors: of "backoff": how many contexts a prior weighs, lam times n_de.
        taus: of "backoff".
        denominator: as in `raregram.fit`, like the next two.
        unseen: the factor of an item never seen.
        seed: of the criterion "random".
        format: of the documents; None: recognised.
        split: what a document is in plain text.
        progress: called with 1 for each setting that was tried.
    """
    check_choice("estimator", "tune", estimator, ("backoff", "selective"))
    counts = counts if isinstance(counts, Counts) else Counts.load(counts)
    target = only_target(counts) if target is None else target
    contexts = types_of(documents, counts, target, Options(format=format, split=split))
    plain = Counts.from_table(counts.of_folds().as_table()) if counts.folds else counts
    grid = Grid(plain, target, contexts, denominator, unseen, seed, k, by)
    grid.check()
    tried = (
        grid.backoff(priors, taus)
        if estimator == "backoff"
        else chain(grid.all_used(lams), grid.selective(criteria, sizes, lams))
    )
    trials = []
    for trial in tried:
        trials.append(trial)
        progress(1)
    best = choose(trials)
    return Tuning(replace(grid, counts=counts).fit(best), best, tuple(trials))


@dataclass(frozen=True)
class Grid:
    """The training frequencies of a target, and some contexts whose ranking is measured."""

    counts: Counts
    target: str
    contexts: Counts
    denominator: Denominator = DENOMINATOR.default
    unseen: str = UNSEEN.default
    seed: int = SEED.default
    k: int | None = K.default
    by: Measure = BY.default

    def __post_init__(self) -> None:
        """Raise where there is nothing to tune on."""
        BY.check(self.by, "tune")
        if self.k is not None:
            check_count("k", "tune", self.k)
        check_layout(self.counts, self.contexts)
        if not self.counts.sizes(self.target, self.denominator)[0]:
            raise InputError(f"the target {self.target!r} never occurs in the training counts")

    def check(self) -> None:
        """Raise where nothing can be chosen, since no setting finds anything."""
        if not self._correct.any():
            raise InputError(f"the target {self.target!r} never occurs in the validation documents")
        if self.by == "cllr" and not self._frequencies[1].any():
            raise InputError("Cllr compares the target with other contexts: the validation documents have none")

    def selective(self, criteria: Sequence[str], sizes: Sequence[int], lams: Sequence[float]) -> Iterator[Trial]:
        """Try every criterion x size x lam."""
        sizes = sorted(set(sizes))
        for criterion in criteria:
            bins = self._terms.bins(criterion, sizes)
            for lam in lams:
                scores = self._terms.scores(bins, lam, len(sizes) + 1)
                for size, column in zip(sizes, scores.T, strict=False):
                    yield self._trial(column, "selective", criterion, size, lam)

    def all_used(self, lams: Sequence[float]) -> Iterator[Trial]:
        """Try the product of all items with every lam."""
        bins = self._terms.bins(None, [])
        for lam in lams:
            yield self._trial(self._terms.scores(bins, lam, 1)[:, 0], "product", None, None, lam)

    def smoothed(self, alphas: Sequence[float] = ALPHAS) -> Iterator[Trial]:
        """Try the ratio of smoothed frequencies of whole N-grams with every alpha."""
        for alpha in alphas:
            model = fit(self.counts, self.target, "smoothed", lam=alpha, denominator=self.denominator)
            yield self._trial(self._scores(model), "smoothed", None, None, alpha)

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
        p, scores = model.params, self._scores(model)
        limits = (p.longest, bool(p.longest_shapes), model.nbytes)
        return self._trial(scores, "backoff", p.criterion, p.size, p.lam, p.tau, *limits)

    def _trial(
        self,
        scores: Floats,
        estimator: EstimatorName,
        criterion: str | None,
        size: int | None,
        lam: float,
        *more: Any,
    ) -> Trial:
        """Measure the scores of all contexts."""
        trial = Trial(self.target, estimator, criterion, size, lam, self._f1(scores), *more)
        if self.by == "f1":
            return trial
        if self.by == "cllr":
            return replace(trial, cllr=cllr(scores, *self._frequencies))
        found_at = np.flatnonzero(self._correct[ranking(scores)]) + 1
        return replace(trial, average_precision=average_precision(found_at))

    def _scores(self, model: Model) -> Floats:
        return model.log_ratio(types_for(model, self.contexts))

    def f1(self, model: Model) -> float:
        """Return the F1 that a model reaches on the contexts."""
        return self._f1(self._scores(model))

    def fit(self, trial: Trial) -> Model:
        """Fit the model of a trial."""
        chosen = {name: getattr(trial, name) for name in ("criterion", "size", "lam", "tau", "longest", "shapes")}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        common: dict[str, Any] = {"denominator": self.denominator, "unseen": self.unseen, "seed": self.seed}
        return fit(self.counts, self.target, trial.estimator, **options, **common)

    @cached_property
    def _terms(self) -> _Terms:
        return _Terms(self)

    @cached_property
    def _frequencies(self) -> tuple[Ints, Ints]:
        return type_frequencies(self.contexts, self.target, self.denominator)

    @cached_property
    def _correct(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._frequencies[0] > 0)

    def _f1(self, scores: Floats) -> float:
        relevant = int(self._correct.sum())
        k = relevant if self.k is None else self.k
        return f1_score(top_hits(scores, self._correct, k), min(k, len(scores)), relevant)


def choose(trials: Sequence[Trial]) -> Trial:
    """Return the best trial; ties go to the larger lam, then to the smaller size, then to the first."""
    return max(trials, key=lambda trial: (trial.merit, trial.lam, -(trial.size or 0)))


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
        codes = encode_items(contexts.items, counts.items)[contexts.whole_rows.keys]
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

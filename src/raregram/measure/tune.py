"""The best settings of a target, from one count table and some validation contexts.

For the selective estimator: all criteria x sizes x lam in one pass over the contexts.

Sizes are nested: the items of a smaller selection are in every larger one. So each (position, item) belongs to the
first size that takes it in, its tier. The terms of a context are added up by tier, and the running sum over the tiers
gives its score for every size.

For the back-off estimator: lam x tau, each fitted and scored, then shorter suffixes and no shapes at the best.

Settings are compared before calibration. Where the counts are in folds, the best model is then calibrated, and
measured once more.
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

from raregram import options
from raregram.corpus.documents import Options
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, check_choice, check_count, check_lam
from raregram.measure import evaluate
from raregram.measure.cllr import cllr
from raregram.measure.results import Results
from raregram.models import ratios, selection
from raregram.models.fit import fit, only_target
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import Denominator, EstimatorName, Measure, Split, Unseen
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
    calibrated: bool | None = None  # whether the measures are of the calibrated model; None: `fit` calibrates none

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
    """The best model, its settings and what it reaches, and all settings that were tried.

    Where the counts are in folds, the model is calibrated, and `best` has the measures of that model. Those of the
    trials are of models without calibration: the column `calibrated` says so.
    """

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
    by: Measure = options.BY.default,
    k: int | None = options.K.default,
    criteria: Sequence[str] = options.CRITERIA,
    sizes: Sequence[int] = options.SIZES,
    lams: Sequence[float] = options.LAMS,
    priors: Sequence[float] = options.TUNED_PRIORS,
    taus: Sequence[float] = options.TAUS,
    denominator: Denominator = options.DENOMINATOR.default,
    unseen: Unseen = options.UNSEEN.default,
    seed: int = options.SEED.default,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = options.SPLIT.default,
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
            best; ties go to the larger lam. Of a table in folds, settings are compared before calibration.
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
    contexts = evaluate.types_of(documents, counts, target, Options(format=format, split=split))
    # The rows without folds are added up once, not for every setting.
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
        trials.append(replace(trial, calibrated=False) if counts.folds else trial)
        progress(1)
    best = choose(trials)
    model = replace(grid, counts=counts).fit(best)
    if model.calibration is not None:
        best = replace(best, calibrated=True, **grid.measure(grid.scores(model)))
    return Tuning(model, best, tuple(trials))


@dataclass(frozen=True)
class Grid:
    """The training frequencies of a target, and some contexts whose ranking is measured."""

    counts: Counts
    target: str
    contexts: Counts
    denominator: Denominator = options.DENOMINATOR.default
    unseen: str = options.UNSEEN.default
    seed: int = options.SEED.default
    k: int | None = options.K.default
    by: Measure = options.BY.default

    def __post_init__(self) -> None:
        """Raise where there is nothing to tune on."""
        options.BY.check(self.by, "tune")
        if self.k is not None:
            check_count("k", "tune", self.k)
        evaluate.check_layout(self.counts, self.contexts)
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
            bins = self._units.bins(criterion, sizes)
            for lam in lams:
                scores = self._units.scores(bins, lam, len(sizes))
                for size, column in zip(sizes, scores.T, strict=True):
                    yield self._trial(column, "selective", criterion, size, lam)

    def all_used(self, lams: Sequence[float]) -> Iterator[Trial]:
        """Try the product of all items with every lam."""
        for lam in lams:
            yield self._trial(self._units.terms(lam).sum(axis=1), "product", None, None, lam)

    def smoothed(self, alphas: Sequence[float] = options.ALPHAS) -> Iterator[Trial]:
        """Try the ratio of smoothed frequencies of whole N-grams with every alpha."""
        for alpha in alphas:
            model = fit(self.counts, self.target, "smoothed", lam=alpha, denominator=self.denominator)
            yield self._trial(self.scores(model), "smoothed", None, None, alpha)

    def backoff(
        self, priors: Sequence[float] = options.PRIORS, taus: Sequence[float] = options.TAUS
    ) -> Iterator[Trial]:
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

    def _try_backoff(self, **parameters: Any) -> Trial:
        return self.try_model(fit(self.counts, self.target, "backoff", denominator=self.denominator, **parameters))

    def try_model(self, model: Model) -> Trial:
        """Measure a model of the back-off estimator."""
        p = model.params
        trial = self._trial(self.scores(model), "backoff", p.criterion, p.size, p.lam)
        return replace(trial, tau=p.tau, longest=p.longest, shapes=bool(p.longest_shapes), bytes=model.nbytes)

    def _trial(
        self, scores: Floats, estimator: EstimatorName, criterion: str | None, size: int | None, lam: float
    ) -> Trial:
        return Trial(self.target, estimator, criterion, size, lam, **self.measure(scores))

    def measure(self, scores: Floats) -> dict[str, Any]:
        """Return the F1 of the contexts' scores, and the measure that decides, by the names of a trial's fields."""
        measured = {"f1": self.f1(scores)}
        if self.by == "cllr":
            measured["cllr"] = cllr(scores, *self._frequencies)
        elif self.by == "average-precision":
            found_at = np.flatnonzero(self._correct[evaluate.ranking(scores)]) + 1
            measured["average_precision"] = evaluate.average_precision(found_at)
        return measured

    def f1(self, scores: Floats) -> float:
        """Return the F1 of the top k."""
        relevant = int(self._correct.sum())
        k = relevant if self.k is None else self.k
        return evaluate.f1_score(evaluate.top_hits(scores, self._correct, k), min(k, len(scores)), relevant)

    def scores(self, model: Model) -> Floats:
        """Score all contexts."""
        return model.log_ratio(evaluate.types_for(model, self.contexts))

    def fit(self, trial: Trial) -> Model:
        """Fit the model of a trial."""
        names = ("criterion", "size", "lam", "tau", "longest", "shapes")
        chosen: dict[str, Any] = {name: value for name in names if (value := getattr(trial, name)) is not None}
        common: dict[str, Any] = {"denominator": self.denominator, "unseen": self.unseen, "seed": self.seed}
        return fit(self.counts, self.target, trial.estimator, **chosen, **common)

    @cached_property
    def _units(self) -> _Units:
        return _Units(self)

    @cached_property
    def _frequencies(self) -> tuple[Ints, Ints]:
        return evaluate.type_frequencies(self.contexts, self.target, self.denominator)

    @cached_property
    def _correct(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._frequencies[0] > 0)


def choose(trials: Sequence[Trial]) -> Trial:
    """Return the best trial; ties go to the larger lam, then to the smaller size, then to the first."""
    return max(trials, key=lambda trial: (trial.merit, trial.lam, -(trial.size or 0)))


class _Units:
    """The units of all positions in one array, and for every context the indices of its items in that array."""

    def __init__(self, grid: Grid) -> None:
        self.grid, counts = grid, grid.counts
        self.n_nu, self.n_de = counts.sizes(grid.target, grid.denominator)
        self.by_position = [counts.frequencies(span, grid.target, grid.denominator) for span in counts.units]
        # An item never seen is the last of all.
        self.f_nu, self.f_de = (np.concatenate([*side, [0]]) for side in zip(*self.by_position, strict=True))
        index = np.full(
            (counts.n, len(counts.items) + 1), len(self.f_nu) - 1
        )  # (n, items and ABSENT, the last column)
        first = 0
        for k, span in enumerate(counts.units):
            keys = counts.rows[span].keys[:, 0]
            index[k, keys] = first + np.arange(len(keys))
            first += len(keys)
        codes = encode_items(grid.contexts.items, counts.items)[grid.contexts.whole_rows.keys]
        self.indices: Ints = index[np.arange(counts.n), codes]  # (contexts, n)

    def bins(self, criterion: str, sizes: Sequence[int]) -> Ints:
        """Return, for each item of each context, the bin of its context and of the first size that takes it in."""
        check_choice("criterion", "tune", criterion, selection.CRITERIA)
        tiers = []
        for k, (f_nu, f_de) in enumerate(self.by_position):
            score = selection.scores(criterion, f_nu, f_de, self.n_nu, self.n_de, seed=(self.grid.seed, k))
            tier = np.empty(len(score), dtype=np.int64)
            best_first = np.lexsort((-(f_nu + f_de), -score))
            tier[best_first] = np.searchsorted(sizes, np.arange(len(score)), side="right")
            tiers.append(tier)
        tier = np.concatenate([*tiers, [0]])  # an item never seen counts in every size
        return np.arange(len(self.indices))[:, None] * (len(sizes) + 1) + tier[self.indices]

    def terms(self, lam: float) -> Floats:
        """Return the log ratio of each item of each context: (contexts, n)."""
        check_lam(lam, "tune")
        values = ratios.log_on_grid(ratios.unit(self.f_nu, self.n_nu, self.f_de, self.n_de, lam))
        if self.grid.unseen == "neutral":
            values[-1] = 0.0
        return np.asarray(values[self.indices])

    def scores(self, bins: Ints, lam: float, sizes: int) -> Floats:
        """Return the log ratio of every context for every size: (contexts, sizes)."""
        of_bins = np.bincount(bins.ravel(), self.terms(lam).ravel(), len(self.indices) * (sizes + 1))
        return np.asarray(np.cumsum(of_bins.reshape(-1, sizes + 1), axis=1)[:, :-1], np.float64)

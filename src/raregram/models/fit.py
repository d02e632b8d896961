"""From a count table to a model: choose the parameters, then fit the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raregram.counts.count import ContextOptions, read_counts
from raregram.counts.engine import MEMORY_LIMIT
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, RaregramWarning, check_choice, check_count
from raregram.models.base import Estimator, Settings
from raregram.models.calibration import HeldOut, held_out, learn, warn_if_few
from raregram.models.model import Model
from raregram.models.registry import find_estimator
from raregram.options import DENOMINATOR, ESTIMATOR, SEED, TAU, UNSEEN, Denominator, EstimatorName, Unseen

CALIBRATING_FOLDS = 5
ENOUGH = 5_000  # held-out contexts of the target, from which a calibration is learned
RIDGES = ("lam", "unit_lam")
ROW_BYTES = 128  # of a stored row of a count table in memory, at most
PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(("criterion", "size", "lam", "unit_lam", "longest", "shapes")),
    "unseen": UNSEEN.default,
    "seed": SEED.default,
    "tau": TAU.default,
}  # and their defaults; None: to be chosen


def fit(
    counts: Counts | Any,
    target: str | None = None,
    estimator: EstimatorName = ESTIMATOR.default,
    *,
    criterion: str | None = None,
    size: int | None = None,
    lam: float | None = None,
    denominator: Denominator = DENOMINATOR.default,
    unseen: Unseen = UNSEEN.default,
    seed: int = SEED.default,
    tau: float = TAU.default,
    unit_lam: float | None = None,
    longest: int | None = None,
    shapes: bool | None = None,
    calibrate: bool | None = None,
    bounded: bool = True,
    memory_limit: int | None = None,
) -> Model:
    """Fit an estimator of the likelihood ratio of a target's contexts.

    Args:
        counts: a count table; or what `raregram.count` takes, such as a path, a table or a DataFrame of tagged
            documents or of labelled contexts, which is then counted with its defaults.
        target: the numerator; may be left out where the table has only one target.
        estimator: "mle", "direct" and "smoothed" look at the whole N-gram; "product" multiplies the ratios of all its
            items ("all used"); "selective" those of the selected items; "backoff" goes on from the items to ever
            longer suffixes, and from rare items to their shapes.
        criterion: how spans are scored: one of `raregram.selection.CRITERIA` for "selective" (None: "cet"), and also
            "gain" for "backoff" (None: that).
        size: how many items "selective" keeps at each position (None: 10,000), or how many spans "backoff" keeps of
            each position and length (None: all that say something).
        lam: the ridge; 0 for none. None: in relation to the numbers of contexts, such that an item never seen has the
            ratio 1; for "backoff" 6 / n_de, so that a prior weighs 6 contexts. For "smoothed" it is alpha, the
            frequency that is added to every N-gram; None: 1.
        denominator: "complement" compares with all other contexts, "all" with all contexts.
        unseen: the factor of an item never seen at its position: "neutral" is 1, "formula" the unit formula
            with zero frequencies. "backoff" has its own ways.
        seed: for the criterion "random".
        tau: for "backoff", from here on: how much the units count; 1 takes them as independent, 0 leaves out all but
            the nearest.
        unit_lam: the ridge of units and of all shapes; None: ten times `lam`.
        longest: the longest suffix; None: the longest that was counted.
        shapes: whether to back off to shapes; None: yes.
        calibrate: whether to learn from the table's folds what a ratio is worth in documents that were not in the
            fit; None: yes for "backoff", "selective" and "product", if the table was counted in folds. Documents
            that are counted here are counted in folds.
        bounded: whether calibrated ratios are to be no stronger than so many contexts can support; see
            `raregram.models.calibration`.
        memory_limit: bytes to use, about; a larger table, which is read from a file, is fitted in several passes.

    >>> counts = Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    >>> fit(counts, "LOC", "selective", lam=0, size=2).log_ratio(["is in", "said that"]).round(2)
    array([ 0.81, -1.96])
    """
    if memory_limit is not None:
        check_count("memory_limit", "fit", memory_limit)
    found = find_estimator(estimator)
    asked = isinstance(counts, Counts) or bool(calibrate)  # for folds, whose faults are then said
    if not isinstance(counts, Counts):
        wanted = found.spans_to_count(longest, shapes), found.has_variance and calibrate is not False
        counts = read_counts(counts, ContextOptions(target=target, f_de=denominator), **what_to_count(*wanted))
    parameters = {
        "criterion": criterion, "size": size, "lam": lam, "unseen": unseen, "seed": seed,
        "tau": tau, "unit_lam": unit_lam, "longest": longest, "shapes": shapes,
    }  # fmt: skip
    options = FitOptions(target, estimator, denominator, parameters)
    settings, limit = choose_settings(counts, options, counts.known_digest), memory_limit or MEMORY_LIMIT
    model = Model(found.fit(counts, settings, limit))
    if calibrate is False or (calibrate is None and not (counts.folds and found.has_variance)):
        return model
    try:
        calibration = learn(_score_folds(counts, options, limit), bounded)
    except InputError as error:
        if calibrate:
            raise
        if asked:
            warnings.warn(f"the model is not calibrated: in its folds, {error}", RaregramWarning, stacklevel=2)
        return model
    warn_if_few(calibration)
    return replace(model, calibration=calibration)


def what_to_count(spans: Sequence[str], calibrate: bool) -> dict[str, Any]:
    """Return the settings with which `fit` counts documents itself: in folds, if the model is to be calibrated."""
    return {"spans": tuple(spans), "folds": CALIBRATING_FOLDS if calibrate else 0}


def _score_folds(counts: Counts, options: FitOptions, memory_limit: int) -> Iterator[HeldOut]:
    """Score the documents of each fold by a model of the others.

    Few numbers are learned from these, so in a large table some of the folds are enough.
    """
    found = find_estimator(options.estimator)
    check_finite(found)
    if not counts.folds:
        raise ParameterError(
            "this table was not counted in folds, by which a model is calibrated: count again with --folds 5 "
            "(folds=5), or calibrate with held-out documents (`raregram calibrate`)"
        )
    if counts.rows.stored.num_rows() * ROW_BYTES < memory_limit:
        for span in counts.rows.stored:  # read once and kept, since every fold needs them
            _ = counts.rows.stored[span]
    target = only_target(counts) if options.target is None else options.target
    n_de = counts.sizes(target, options.denominator)[1]
    targets = 0
    for fold in range(len(counts.folds)):
        rest = counts.of_folds([other for other in range(len(counts.folds)) if other != fold])
        n_de_rest = max(rest.sizes(target, options.denominator)[1], 1)
        settings = choose_settings(rest, options.with_ridge_times(n_de / n_de_rest), None)
        scored = held_out(Model(found.fit(rest, settings, memory_limit)), counts.of_folds([fold]))
        yield scored
        targets += int(scored.f_nu.sum())
        if targets >= ENOUGH:
            return


def check_finite(estimator: Estimator | type[Estimator]) -> None:
    """Raise unless the ratios of an estimator are always finite, so that they can be calibrated."""
    if not estimator.has_variance:
        raise ParameterError(
            f"the estimator {estimator.name!r} cannot be calibrated: its ratios may be 0 or infinite. "
            "Fit 'backoff', 'selective' or 'product'"
        )


@dataclass(frozen=True)
class FitOptions:
    """What is to be fitted."""

    target: str | None
    estimator: EstimatorName
    denominator: Denominator
    parameters: Mapping[str, Any]  # other arguments of `fit`, by their names

    def __post_init__(self) -> None:
        """Check the names of the parameters, and add the defaults of those that are missing."""
        for name in self.parameters:
            check_choice("parameters", "fit", name, PARAMETERS)
        object.__setattr__(self, "parameters", {**PARAMETERS, **self.parameters})

    def with_ridge_times(self, factor: float) -> FitOptions:
        """Return the options for a part of a table: a ridge that is as many contexts as it is in the whole table.

        With the same ridge, a part would have stronger ratios than the table, and rare items most.
        """
        given = {name: self.parameters[name] for name in RIDGES if self.parameters[name] is not None}
        scaled = {name: ridge * factor for name, ridge in given.items()}
        return replace(self, parameters={**self.parameters, **scaled})


def choose_settings(counts: Counts, options: FitOptions, corpus: str | None) -> Settings:
    """Return the settings of a model, with everything chosen that was left open."""
    target = only_target(counts) if options.target is None else options.target
    n_nu, n_de = counts.sizes(target, options.denominator)
    if not n_nu:
        raise InputError(f"the target {target!r} never occurs in these counts")
    if not n_de:
        raise InputError(f"every context belongs to {target!r}: there is nothing to compare with")
    return Settings(
        target=target,
        estimator=options.estimator,
        n=counts.n,
        side=counts.side,
        kind=counts.kind,
        tokenize=counts.tokenize,
        lower=counts.lower,
        denominator=options.denominator,
        n_nu=n_nu,
        n_de=n_de,
        pad=counts.pad,
        params=find_estimator(options.estimator).choose(counts, (n_nu, n_de), options.parameters),
        corpus=corpus,
        samples=counts.samples,
    )


def only_target(counts: Counts) -> str:
    """Return the target of a table that has just one."""
    if not counts.targets:
        raise InputError("no context of these counts has a label, so there is no target")
    if len(counts.targets) > 1:
        raise ParameterError(f"choose a target: the table has {', '.join(counts.targets)}")
    return counts.targets[0]

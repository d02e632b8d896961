"""From a count table to a model: choose the spans, keep their frequencies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from raregram import selection
from raregram.counts import Counts, Ints, compact
from raregram.errors import InputError, ParameterError
from raregram.model import ESTIMATORS, Model, Settings
from raregram.storage import Span, SpanRows


def fit(
    counts: Counts,
    target: str | None = None,
    estimator: str = "selective",
    *,
    criterion: str = "cet",
    size: int = 10_000,
    lam: float = 1e-5,
    denominator: str = "complement",
    unseen: str = "neutral",
    seed: int = 0,
    keep_seen: bool = False,
) -> Model:
    """Fit an estimator of the likelihood ratio of a target's contexts.

    Args:
        counts: the frequencies.
        target: the numerator; may be left out where the table has only one target.
        estimator: "mle" and "direct" look at the whole N-gram; "product" multiplies the ratios of all its items
            ("all used"); "selective" those of the selected items.
        criterion: how "selective" scores items: one of `raregram.selection.CRITERIA`.
        size: how many items "selective" keeps at each position.
        lam: the ridge; 0 for none. "mle" has none.
        denominator: "complement" compares with all other contexts, "all" with all contexts.
        unseen: the factor of an item never seen at its position: "neutral" is 1, "formula" the unit formula
            with zero frequencies.
        seed: for the criterion "random".
        keep_seen: keep the frequencies of items that were seen but not selected, so that `explain` can show
            them. They take room; with unseen="formula" they are always kept.

    >>> counts = Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    >>> fit(counts, "LOC", lam=0, size=2).log_ratio(["is in", "said that"]).round(2)
    array([ 0.81, -1.96])
    """
    target = only_target(counts) if target is None else target
    n_nu, n_de = counts.sizes(target, denominator)
    selects = estimator in ESTIMATORS and ESTIMATORS[estimator].selects
    settings = Settings(
        target=target,
        estimator=estimator,
        n=counts.n,
        side=counts.side,
        kind=counts.kind,
        denominator=denominator,
        n_nu=n_nu,
        n_de=n_de,
        lam=0.0 if estimator == "mle" else lam,
        criterion=criterion if selects else None,
        size=size if selects else None,
        seed=seed if selects else None,
        unseen=unseen,
        pad=counts.pad,
        keeps_seen=keep_seen or not selects or unseen == "formula",
    )
    _check_evidence(settings)
    missing = set(settings.spans) - set(counts.spans)
    if missing:
        raise ParameterError(
            f"the estimator {estimator!r} needs whole N-grams, and this table counts none: "
            "count again with the spans 'units' and 'whole'"
        )
    parts = [_held(counts, span, settings) for span in settings.spans]
    if not any(map(len, parts)):
        raise InputError(f"this table holds no whole N-grams any more: min_count {counts.min_count} dropped them all")
    return Model.build(settings, *compact(counts.items, parts))


def _held(counts: Counts, span: Span, settings: Settings) -> SpanRows:
    """Return the rows of a span that the model keeps, with f_nu, f_de and whether it is selected."""
    f_nu, f_de = counts.frequencies(span, settings.target, settings.denominator)
    selected = np.ones(len(f_nu), dtype=bool)
    if ESTIMATORS[settings.estimator].selects:
        selected = _select(f_nu, f_de, span[0], settings)
    keep = np.flatnonzero(selected | settings.keeps_seen)
    values = np.column_stack([f_nu, f_de, selected])[keep]
    return SpanRows(span, counts.rows[span].keys[keep], values)


def _select(f_nu: Ints, f_de: Ints, position: int, settings: Settings) -> npt.NDArray[np.bool_]:
    """Return which items of a position are in Theta_k."""
    s = settings
    assert s.criterion is not None
    assert s.size is not None
    assert s.seed is not None
    score = selection.scores(s.criterion, f_nu, f_de, s.n_nu, s.n_de, seed=(s.seed, position))
    selected = np.zeros(len(score), dtype=bool)
    selected[selection.top(score, f_nu + f_de, s.size)] = True
    return selected


def only_target(counts: Counts) -> str:
    """Return the target of a table that has just one."""
    if not counts.targets:
        raise InputError("no context of these counts has a label, so there is no target")
    if len(counts.targets) > 1:
        raise ParameterError(f"choose a target: the table has {', '.join(counts.targets)}")
    return counts.targets[0]


def _check_evidence(settings: Settings) -> None:
    """Raise where one of the two samples is empty."""
    if not settings.n_nu:
        raise InputError(f"the target {settings.target!r} never occurs in these counts")
    if not settings.n_de:
        raise InputError(f"every context belongs to {settings.target!r}: there is nothing to compare with")

"""From a count table to a model: choose the spans, keep their frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from raregram.counts.storage import Span, SpanRows
from raregram.counts.table import Counts, Ints, compact, suffix_lengths
from raregram.errors import InputError, ParameterError, check_count, must_be
from raregram.models import selection
from raregram.models.model import ESTIMATORS, Model, Settings
from raregram.models.pruning import fit_backoff

CONTEXTS_WORTH = 12  # contexts of the denominator that a prior is worth in the back-off estimator
UNIT_RIDGE = 10  # the ridge of units and shapes over that of suffixes


def fit(
    counts: Counts,
    target: str | None = None,
    estimator: str = "selective",
    *,
    criterion: str | None = None,
    size: int | None = None,
    lam: float | None = None,
    denominator: str = "complement",
    unseen: str = "neutral",
    seed: int = 0,
    keep_seen: bool = False,
    tau: float = 0.5,
    unit_lam: float | None = None,
    longest: int | None = None,
    shapes: bool | None = None,
    max_bytes: int | None = None,
) -> Model:
    """Fit an estimator of the likelihood ratio of a target's contexts.

    Args:
        counts: the frequencies.
        target: the numerator; may be left out where the table has only one target.
        estimator: "mle" and "direct" look at the whole N-gram; "product" multiplies the ratios of all its items
            ("all used"); "selective" those of the selected items; "backoff" goes on from the items to ever longer
            suffixes, and from rare items to their shapes.
        criterion: how spans are scored: one of `raregram.selection.CRITERIA` for "selective" (None: "cet"), and also
            "gain" for "backoff" (None: that).
        size: how many items "selective" keeps at each position (None: 10,000), or how many spans "backoff" keeps of
            each position and length (None: all that say something).
        lam: the ridge; 0 for none. None: 1e-5, and 12 / n_de for "backoff", whose priors are then worth 12 contexts.
        denominator: "complement" compares with all other contexts, "all" with all contexts.
        unseen: the factor of an item never seen at its position: "neutral" is 1, "formula" the unit formula
            with zero frequencies. "backoff" has its own ways.
        seed: for the criterion "random".
        keep_seen: keep the frequencies of items that were seen but not selected, so that `explain` can show
            them. They take room; with unseen="formula" they are always kept.
        tau: for "backoff", from here on: how much the units count; 1 takes them as independent, 0 leaves out all but
            the nearest.
        unit_lam: the ridge of units and of all shapes; None: ten times `lam`.
        longest: the longest suffix; None: the longest that was counted.
        shapes: whether to back off to shapes; None: if they were counted.
        max_bytes: how much room the model may take in memory; its file takes less, but for very small ones.

    >>> counts = Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    >>> fit(counts, "LOC", lam=0, size=2).log_ratio(["is in", "said that"]).round(2)
    array([ 0.81, -1.96])
    """
    target = only_target(counts) if target is None else target
    n_nu, n_de = counts.sizes(target, denominator)
    common: dict[str, Any] = {
        "target": target,
        "estimator": estimator,
        "n": counts.n,
        "side": counts.side,
        "kind": counts.kind,
        "denominator": denominator,
        "n_nu": n_nu,
        "n_de": n_de,
        "unseen": unseen,
        "pad": counts.pad,
        "corpus": counts.known_digest,
    }
    if estimator == "backoff":
        _check_evidence(target, n_nu, n_de)
        lam = CONTEXTS_WORTH / n_de if lam is None else lam
        longest_shapes = _longest_shapes(counts, shapes)
        settings = Settings(
            **common,
            lam=lam,
            criterion="gain" if criterion is None else criterion,
            size=size,
            seed=seed,
            keeps_seen=False,
            unit_lam=UNIT_RIDGE * lam if unit_lam is None else unit_lam,
            tau=tau,
            longest=_longest(counts, longest),
            longest_shapes=longest_shapes,
            shape=counts.shape if longest_shapes else None,
            max_bytes=max_bytes,
        )
        return fit_backoff(counts, settings)
    selects = estimator in ESTIMATORS and ESTIMATORS[estimator].selects
    settings = Settings(
        **common,
        lam=0.0 if estimator == "mle" else (1e-5 if lam is None else lam),
        criterion=("cet" if criterion is None else criterion) if selects else None,
        size=(10_000 if size is None else size) if selects else None,
        seed=seed if selects else None,
        keeps_seen=keep_seen or not selects or unseen == "formula",
    )
    _check_evidence(target, n_nu, n_de)
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


def _longest(counts: Counts, longest: int | None) -> int:
    """Return the longest suffix of items to use, which must have been counted."""
    counted = suffix_lengths(counts.spans, counts.n, counts.side)
    if longest is None:
        return counted
    check_count("longest", "fit", longest, at_least=0, at_most=counts.n)
    if longest > counted:
        raise ParameterError(
            f"suffixes of up to {longest} items are asked for, and this table counts up to {counted}: count again "
            f"with the spans 'suffixes:{longest}'"
        )
    return int(longest)


def _longest_shapes(counts: Counts, shapes: bool | None) -> int:
    """Return the longest suffix of shapes to use; 0 for none."""
    if shapes not in (None, False, True):
        raise must_be("shapes", "fit", "True, False or None", shapes)
    if shapes and counts.shape is None:
        raise ParameterError(
            "this table counts no shapes: count again with the spans 'shapes:8', or fit with shapes=False"
        )
    if counts.shape is None or (shapes is not None and not shapes):
        return 0
    return suffix_lengths(counts.spans, counts.n, counts.side, counts.n)


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


def _check_evidence(target: str, n_nu: int, n_de: int) -> None:
    """Raise where one of the two samples is empty."""
    if not n_nu:
        raise InputError(f"the target {target!r} never occurs in these counts")
    if not n_de:
        raise InputError(f"every context belongs to {target!r}: there is nothing to compare with")

"""Calibrate a model with documents that were not in its fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raregram.corpus.documents import Options
from raregram.measure.evaluate import type_frequencies, types_for, types_of
from raregram.models.calibration import HeldOut, learn, short_contexts, warn_if_few
from raregram.models.fit import check_finite
from raregram.models.model import Model
from raregram.options import SPLIT, Split


def calibrate(
    model: Model,
    documents: Any,
    *,
    bounded: bool = True,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
) -> Model:
    """Return a model whose ratios mean what they say, learned from held-out documents.

    The order of contexts stays, but for two kinds: short ones that were seen often, which keep their own ratio, and
    those of which nothing was seen, whose ratio is 1.

    Where a table was counted in folds, `raregram.fit` does this without further documents.

    Args:
        model: a fitted model; a calibration that it has is replaced.
        documents: tagged documents that were not in the fit, as `raregram.count` takes them; or their count table
            with whole N-grams.
        bounded: whether ratios are to be no stronger than so many contexts can support; see
            `raregram.models.calibration`.
        format: of the documents; None: recognised.
        split: what a document is in plain text.
    """
    s = model.settings
    check_finite(model.estimator)
    counts = types_of(documents, s, s.target, Options(format=format, split=split))
    frequencies, plain = type_frequencies(counts, s.target, s.denominator), replace(model, calibration=None)
    scores = plain.log_ratio(types_for(plain, counts))
    calibration = learn([HeldOut(scores, *frequencies, short_contexts(plain, counts))], bounded)
    warn_if_few(calibration)
    return replace(model, calibration=calibration)

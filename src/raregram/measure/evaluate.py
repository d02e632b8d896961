"""How good a ranking of N-grams is: precision, recall and F1 of the top K, average precision, recall over rank.

N-grams are ranked as types, each once, best first. One is correct if it occurs at least once at the target in the
documents at hand; |R| is the number of these. Ties keep the order of the table, which is the byte order of the items.

How right the ratios themselves are is measured on all occurrences (`raregram.measure.cllr`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from raregram import drawing
from raregram.corpus.documents import Options
from raregram.counts.count import read_counts
from raregram.counts.rows import row_bytes
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, ParameterError, RaregramWarning, check_count, printable
from raregram.measure.cllr import CalibrationMeasures, calibrations
from raregram.measure.results import text_table
from raregram.models.base import Settings, layout_of
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import DENOMINATOR, SPLIT, K, Split
from raregram.remote import PathLike
from raregram.text.vocabulary import encode_items

Bools = npt.NDArray[np.bool_]
TextTable = tuple[list[str], list[list[str]]]  # head and rows
LAYOUT = ("n", "side", "kind", "tokenize", "lower", "pad")  # what documents must be counted by

CURVE_POINTS = 200
# What is shown of `Metrics` and of `CalibrationMeasures`, by the head of the column.
RANKING = {
    "N-grams": "types", "relevant": "relevant", "avg.prec": "average_precision", "returned": "returned",
    "hits": "hits", "precision": "precision", "recall": "recall", "F1": "f1",
}  # fmt: skip
CALIBRATION = {"targets": "targets", "others": "others", "Cllr": "cllr"} | {
    name: name for name in ("least", "loss", "slope", "offset")
}
BANDS = {"0": (0, 0), "1": (1, 1), "2-5": (2, 5), "more": (6, np.inf)}  # how often seen in training


@dataclass(frozen=True)
class Metrics:
    """Precision, recall and F1 of what was returned, and the average precision of the whole ranking."""

    types: int
    relevant: int  # |R|
    returned: int
    hits: int
    precision: float
    recall: float
    f1: float
    average_precision: float


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A ranking measured as a whole and by how often its N-grams were seen in training."""

    target: str
    k: int
    overall: Metrics
    bands: dict[str, Metrics]  # empty where the training counts are not known
    ranks: Ints  # of the curve
    recalls: Floats
    calibration: dict[str, CalibrationMeasures]  # of "all", and by band

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON; an infinite Cllr is the string "inf"."""
        calibration = {name: measures.to_dict() for name, measures in self.calibration.items()}
        lists = {"ranks": self.ranks.tolist(), "recalls": self.recalls.tolist()}
        return {**asdict(self), **lists, "calibration": calibration}

    def __repr__(self) -> str:
        ranking, calibration = (text_table([head, *rows]) for head, rows in self._shown())
        return f"{self.headline()}\n{ranking}\n\n{calibration}"

    def _repr_html_(self) -> str:
        ranking, calibration = self._shown()
        return drawing.table(*ranking) + drawing.table(*calibration, self.headline())

    def headline(self) -> str:
        """Say the main result in a line."""
        m, c = self.overall, self.calibration["all"]
        line = (
            f"{printable(self.target)}: average precision {m.average_precision:.4f}; {m.types:,} N-grams, "
            f"{m.relevant:,} of them at the target; F1 {m.f1:.4f} for the top {m.returned:,}"
        )
        if c.cllr == math.inf:
            return f"{line}; Cllr is infinite, since a ratio is 0 at the target or infinite elsewhere"
        return line if c.cllr is None else f"{line}; Cllr {c.cllr:.3f}, {c.loss:.3f} of it calibration loss"

    def _shown(self) -> tuple[TextTable, TextTable]:
        """Return the measures of the ranking and of the calibration as tables of text."""
        return _shown(RANKING, {"all": self.overall, **self.bands}), _shown(CALIBRATION, self.calibration)


def _shown(columns: dict[str, str], measured: Mapping[str, Any]) -> TextTable:
    """Return the head and the rows of a table; what is not measured is left blank."""

    def show(value: float | None) -> str:
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"

    rows = [[name, *(show(getattr(each, field)) for field in columns.values())] for name, each in measured.items()]
    return ["seen", *columns], rows


def evaluate(
    model: Model,
    documents: Any,
    *,
    k: int | None = K.default,
    training: Counts | PathLike | None = None,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
) -> Evaluation:
    """Rank the N-grams of tagged documents by a model and compare with where they occur.

    Also measures whether the ratios mean what they say: Cllr, and how much of it is calibration loss.

    Args:
        model: a fitted model.
        documents: tagged documents, as `raregram.count` takes them; or their count table with whole N-grams.
        k: how many N-grams are returned; None: as many as are relevant, so that precision, recall and F1 are equal.
        training: the count table that the model was fitted on, with whole N-grams; gives the bands.
        format: of the documents; None: recognised.
        split: what a document is in plain text.
    """
    if k is not None:
        check_count("k", "evaluate", k)
    counts = types_of(documents, model.settings, model.settings.target, Options(format=format, split=split))
    frequencies = type_frequencies(counts, model.settings.target, model.settings.denominator)
    scores = model.log_ratio(types_for(model, counts))
    known = training if training is None or isinstance(training, Counts) else Counts.load(training)
    if known is not None and model.settings.corpus not in (None, known.digest()):
        warnings.warn(
            "the bands are by another count table than the one that the model was fitted on, as their digests say",
            RaregramWarning,
            stacklevel=2,
        )
    seen = None if known is None else training_frequency(counts, known)
    return evaluate_scores(scores, frequencies, k, model.settings.target, seen)


def types_of(documents: Any, like: Settings | Counts, target: str, options: Options) -> Counts:
    """Return a count table of the whole N-grams of documents, with the layout of a model or of another table."""
    if isinstance(documents, Counts):
        return documents
    layout = {name: getattr(like, name) for name in LAYOUT}
    return read_counts(documents, options=options, targets=(target,), spans=("whole",), **layout)


def evaluate_scores(
    scores: Floats, frequencies: tuple[Ints, Ints], k: int | None, target: str, seen: Ints | None = None
) -> Evaluation:
    """Measure the log ratios of types.

    Args:
        scores: the log ratios.
        frequencies: f_nu and f_de of each type in the documents at hand.
        k: how many types are returned; None: as many as are relevant.
        target: the numerator.
        seen: how often each type was seen in training; gives the bands.
    """
    correct = frequencies[0] > 0
    k = int(correct.sum()) if k is None else k
    order = ranking(scores)
    returned = np.zeros(len(order), dtype=bool)
    returned[order[:k]] = True
    bands, band = {}, None if seen is None else bands_of(seen)
    if band is not None:
        bands = {name: ranking_metrics(order[band[order] == i], correct, returned) for i, name in enumerate(BANDS)}
    curve = recall_curve(np.flatnonzero(correct[order]) + 1, len(order))
    calibration = calibrations(scores, *frequencies, band, tuple(BANDS))
    return Evaluation(target, k, ranking_metrics(order, correct, returned), bands, *curve, calibration)


def ranking(scores: Floats) -> Ints:
    """Return the order of scores, best first; NaN ("no evidence") comes last, ties keep their order.

    >>> ranking(np.array([1.0, np.nan, 2.0, 1.0])).tolist()
    [2, 0, 3, 1]
    >>> ranking(np.array([np.nan, -np.inf])).tolist()
    [1, 0]
    """
    return np.argsort(-sortable(scores), kind="stable")


def sortable(scores: Floats) -> Floats:
    """Return scores in which NaN is below all others, those of minus infinity among them."""
    return np.where(np.isnan(scores), -np.inf, np.maximum(scores, -np.finfo(np.float64).max))


def top_hits(scores: Floats, correct: Bools, k: int) -> int:
    """Return how many of the top K are correct, without sorting them all.

    >>> top_hits(np.array([1.0, 3.0, 2.0, 2.0]), np.array([True, False, True, True]), 2)
    1
    """
    scores = sortable(scores)
    if not k:  # nothing is relevant
        return 0
    if k >= len(scores):
        return int(correct.sum())
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = scores > threshold
    tied = np.flatnonzero(scores == threshold)[: k - int(above.sum())]
    return int(correct[above].sum() + correct[tied].sum())


def f1_score(hits: int, returned: int, relevant: int) -> float:
    """Return the harmonic mean of hits/returned and hits/relevant; 0 where nothing is relevant or returned."""
    return 2 * hits / (returned + relevant) if returned + relevant else 0.0


def ranking_metrics(order: Ints, correct: Bools, returned: Bools) -> Metrics:
    """Measure a ranking of some types: `order` are their indices, best first."""
    right = correct[order]
    hits = int((right & returned[order]).sum())
    return metrics(np.flatnonzero(right) + 1, len(order), int(returned[order].sum()), hits)


def metrics(found_at: Ints, types: int, returned: int, hits: int) -> Metrics:
    """Return all measures of a ranking of some types from the ranks of the correct ones, in order."""
    relevant = len(found_at)
    precision = hits / returned if returned else 0.0
    recall = hits / relevant if relevant else 0.0
    f1 = f1_score(hits, returned, relevant)
    return Metrics(types, relevant, returned, hits, precision, recall, f1, average_precision(found_at))


def average_precision(found_at: Ints) -> float:
    """Return the mean over the correct types of the precision at their ranks, which come in order."""
    return float((np.arange(1, len(found_at) + 1) / found_at).mean()) if len(found_at) else 0.0


def type_frequencies(documents: Counts, target: str, denominator: str = DENOMINATOR.default) -> tuple[Ints, Ints]:
    """Return f_nu and f_de of the whole N-grams of a count table."""
    if documents.whole not in documents.rows:
        raise ParameterError(
            "evaluation needs the whole N-grams: count the documents with the spans 'units' and 'whole'"
        )
    return documents.frequencies(documents.whole_rows, target, denominator)


def check_layout(wanted: Settings | Counts, documents: Counts) -> None:
    """Raise unless documents were counted as a model or a training table wants it, with all their N-grams."""
    mine, theirs = layout_of(wanted), layout_of(documents)
    if mine != theirs:
        raise InputError(f"the model is for {mine}; the documents were counted for {theirs}")
    if documents.min_count > 1:
        raise InputError(
            f"N-grams seen less than {documents.min_count} times were dropped from the documents: count them all"
        )


def types_for(model: Model, documents: Counts) -> npt.NDArray[np.int32]:
    """Return the whole N-grams of a count table, encoded by the model's vocabulary."""
    check_layout(model.settings, documents)
    return model.encode_rows(documents.items, documents.whole_rows.keys)


def training_frequency(documents: Counts, training: Counts) -> Ints:
    """Return how often each whole N-gram of some documents was seen in training."""
    if training.whole not in training.rows:
        raise ParameterError("the bands need a training table with whole N-grams")
    if training.min_count > 1:
        raise ParameterError("the bands need a training table with all N-grams; of this one the rare were dropped")
    mine, theirs = layout_of(training), layout_of(documents)
    if mine != theirs:
        raise ParameterError(f"the training table is for {mine}; the documents were counted for {theirs}")
    known, rows = training.whole_rows, documents.whole_rows
    codes = encode_items(documents.items, training.items)[rows.keys]
    if not len(known):
        return np.zeros(len(rows), dtype=np.int64)
    row = np.minimum(np.searchsorted(row_bytes(known.keys), row_bytes(codes)), len(known) - 1)
    return np.where((known.keys[row] == codes).all(axis=1), known.values[row, 0], 0)


def bands_of(seen: Ints) -> Ints:
    """Return the index of the band of each frequency in training.

    >>> bands_of(np.array([0, 1, 2, 5, 6, 2**53])).tolist()
    [0, 1, 2, 2, 3, 3]
    """
    return np.searchsorted([least for least, _ in BANDS.values()], seen, side="right") - 1


def recall_curve(found_at: Ints, types: int) -> tuple[Ints, Floats]:
    """Return the ranks of a curve and the recall at each, from the ranks of the correct types.

    A short curve has all ranks, a long one some that are evenly spread on a logarithmic scale.
    """
    ranks = np.unique(np.geomspace(1, max(types, 1), CURVE_POINTS).round().astype(np.int64))
    return ranks, np.searchsorted(found_at, ranks, side="right") / max(len(found_at), 1)

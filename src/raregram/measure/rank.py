"""The best of a stream: N-grams, each once, or boundaries of documents; best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import Options
from raregram.corpus.log import ReadingLog
from raregram.errors import InputError, check_choice, check_count
from raregram.measure.results import Results
from raregram.measure.score import Boundaries, Input, boundaries, open_input, score_input, scores_of
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import LEVEL, ON_ERROR, SPLIT, TOP, OnError, Split

By = Literal["log-ratio", "lower"]
Progress = Callable[[int], None]


def rank(  # noqa: PLR0913 - every option has its name
    model: Model,
    source: Any,
    top: int = TOP.default,
    *,
    by: By = "log-ratio",
    level: float = LEVEL.default,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
    on_error: OnError = ON_ERROR.default,
) -> Results:
    """Return the best boundaries of documents, or the best of contexts, each once.

    Args:
        model: a fitted model.
        source: as for `raregram.score`, like all that is not said here.
        top: how many to return.
        by: "log-ratio", or "lower" for the lower end of its interval, which ranks scarce evidence lower.
        level: the probability that an interval is meant to cover.
        columns: what a table of contexts calls its columns.
        format: of the documents, or "contexts".
        split: what a document is in plain text.
        on_error: "stop" or "skip".

    Returns:
        A table: rank, log_ratio (with by="lower" also lower and upper) and, for documents, document, position and the
        words on both sides; for contexts, ngram.
    """
    check_choice("by", "rank", by, get_args(By))
    log = ReadingLog(on_error)
    found = open_input(source, model, Options(format=format, split=split, log=log), columns)
    results = rank_input(model, found, top, level if by == "lower" else None)
    log.warn_skipped(stacklevel=2, unit="documents or contexts")
    return results


def rank_input(
    model: Model, found: Input, top: int, level: float | None = None, progress: Progress = lambda rows: None
) -> Results:
    """Return the best of an input, by the lower end of its interval if there is a level."""
    check_count("top", "rank", top)
    if level is not None:
        model.interval([], level)  # raises before anything is read
    if found.contexts is None:
        return _rank_documents(model, found, top, level, progress)
    best = Top(top)
    for part in score_input(model, found, level):
        best.add(part.lines(), by_first(part.scores))
        progress(len(part.batch))
    return numbered(best.ranking().table(level))


def by_first(scores: list[pa.Array]) -> Floats:
    """Return scores as columns, the one to rank by first: of intervals, lower end, log ratio, upper end."""
    columns = np.column_stack(scores)
    return columns if len(scores) == 1 else columns[:, [1, 0, 2]]


def _rank_documents(model: Model, found: Input, top: int, level: float | None, progress: Progress) -> Results:
    best: pa.Table | None = None
    for documents in found.documents:
        for piece in boundaries(model, documents):
            best = best_boundaries(model, piece, top, level, best)
            progress(len(piece))
    if best is None:
        raise InputError(f"there is nothing to rank in {found.name}")
    return numbered(best)


def best_boundaries(
    model: Model, piece: Boundaries, size: int, level: float | None = None, best: pa.Table | None = None
) -> pa.Table:
    """Return the best boundaries of a piece and of those that were the best before; see `merge_best`."""
    values = by_first(scores_of(model, piece.codes, level))
    ranked, threshold = _comparable(values[:, 0]), -np.inf
    if best is not None and len(best) == size:
        threshold = float(_comparable(best[0][-1].as_py()))
    elif len(values) > size:
        threshold = np.partition(ranked, -size)[-size]
    hopeful = np.flatnonzero(ranked >= threshold)
    names = value_names(level)
    scores = {name: column.copy() for name, column in zip(names, values[hopeful].T, strict=True)}
    table = pa.table({**scores, **piece.take(hopeful).batch().all_columns})
    return merge_best([table] if best is None else [best, table], size)


def merge_best(tables: list[pa.Table], size: int) -> pa.Table:
    """Return the best rows by the first column; ties in order of document and position, NaN last."""
    table = pa.concat_tables(tables)
    key = pa.array(_comparable(np.asarray(table[0])))
    keys = pa.table({"value": key, "document": table["document"], "position": table["position"]})
    order = [("value", "descending"), ("document", "ascending"), ("position", "ascending")]
    return table.take(pc.sort_indices(keys, sort_keys=order)[:size])


def _comparable(values: npt.ArrayLike) -> Floats:
    """Return values in which NaN, "no evidence", is the lowest."""
    return np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.finfo(np.float64).max)


def value_names(level: float | None) -> list[str]:
    """Return the columns of values, the one to rank by first."""
    return ["log_ratio"] if level is None else ["lower", "log_ratio", "upper"]


def numbered(table: pa.Table) -> Results:
    """Return a ranking with its ranks."""
    return Results(table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1))))


@dataclass(frozen=True)
class Ranking:
    """Distinct N-grams in order of the first of their values."""

    texts: pa.Array  # string
    values: Floats  # (N-grams, columns)

    def table(self, level: float | None = None) -> pa.Table:
        """Return the ranking as a table; with a level, the values are intervals."""
        values = {name: column.copy() for name, column in zip(value_names(level), self.values.T, strict=True)}
        return pa.table({**values, "ngram": self.texts})


class Top:
    """Keeps the best `size` distinct N-grams of all that it is shown, in memory for about that many.

    An N-gram always has the same values, so whatever has fallen off the list can never come back.

    >>> top = Top(2)
    >>> top.add(pa.array(["b", "a", "c", "b"]), np.array([[1.0], [1.0], [0.5], [1.0]]))
    >>> top.ranking().texts.to_pylist()
    ['a', 'b']
    """

    def __init__(self, size: int) -> None:
        check_count("size", "Top", size)
        self.size = size
        self._best: Ranking | None = None

    def add(self, texts: pa.Array, values: Floats) -> None:
        """Show it more N-grams with their values, (N-grams, columns); the first column tells which are the best."""
        best = self._best
        if best is not None:
            if len(best.texts) == self.size:
                hopeful = ~(values[:, 0] < best.values[-1, 0])  # NaN, "no evidence", only ever fills up a short list
                texts, values = texts.filter(pa.array(hopeful)), values[hopeful]
            texts, values = pa.concat_arrays([best.texts, texts]), np.concatenate([best.values, values])
        self._best = _rank(texts, values, self.size)

    def ranking(self) -> Ranking:
        """Return the list as it stands."""
        return self._best or Ranking(pa.array([], pa.string()), np.empty((0, 1)))


def _rank(texts: pa.Array, values: Floats, size: int) -> Ranking:
    """Sort by the first value, NaN last, then by text; keep each text once."""
    encoded = texts.dictionary_encode()
    _, first = np.unique(np.asarray(encoded.indices), return_index=True)
    texts, values = encoded.dictionary, values[first]
    table = pa.table({"value": values[:, 0], "text": texts})
    order = pc.sort_indices(table, sort_keys=[("value", "descending"), ("text", "ascending")])[:size]
    return Ranking(texts.take(order), values[np.asarray(order)])

"""The heat map of a text: at every boundary the log ratio of its context, for several models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from raregram import drawing
from raregram.errors import ParameterError
from raregram.measure.score import score_items
from raregram.models.base import Settings
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.text.tokenize import split_texts

PIECE = 1 << 17  # boundaries scored at a time, so that a long text needs little memory


@dataclass(frozen=True)
class HeatMap:
    """A text and the log ratios of its boundaries; a notebook shows it in colours."""

    items: tuple[str, ...]
    kind: str
    scores: dict[str, list[float | None]]  # of each model; None where a boundary has no context

    def _repr_html_(self) -> str:
        return drawing.heat_map(self.items, self.scores, between=" " if self.kind == "words" else "")


def heat_map(models: Model | Sequence[Model], text: str) -> HeatMap:
    """Return the log ratios at every boundary of a text, by the target of each model.

    >>> import raregram as rg
    >>> counts = rg.Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    >>> [score and round(score, 2) for score in rg.heat_map(rg.fit(counts, lam=0), "he was in Rome").scores["LOC"]]
    [None, None, 0.0, 1.22, 0.0]
    """
    models = [models] if isinstance(models, Model) else models
    kinds = {model.settings.kind for model in models}
    if len(kinds) != 1:
        raise ParameterError("a heat map takes models of one kind of items, words or letters")
    items = split_text(text, kinds.pop())
    names = model_names([model.settings for model in models])
    scores = {name: all_boundaries(model, items) for name, model in zip(names, models, strict=True)}
    return HeatMap(tuple(items.to_pylist()), models[0].settings.kind, scores)


def model_names(settings: Sequence[Settings]) -> list[str]:
    """Name models by their targets, and those of the same target by more."""
    targets = [s.target for s in settings]
    plain = [s.target if targets.count(s.target) == 1 else f"{s.target} ({s})" for s in settings]
    return [name if plain.count(name) == 1 else f"{name} {place}" for place, name in enumerate(plain, 1)]


def split_text(text: str, kind: str) -> pa.Array:
    """Return the items of a text."""
    return split_texts(pa.array([text], pa.string()), kind)[0]


def first_and_last(settings: Settings, length: int) -> tuple[int, int]:
    """Return the first boundary with a context, and one past the last, in a document of so many items."""
    if settings.pad:
        return 0, length + 1
    count = max(length - settings.n + 1, 0)
    first = min(settings.n, length + 1) if settings.side == "left" else 0
    return first, first + count


def boundary_scores(model: Model, items: pa.Array, check: Callable[[], None] = lambda: None) -> Floats:
    """Return the log ratio of every boundary that has a context, from the first to the last.

    Args:
        model: the model.
        items: the items of one document.
        check: called now and then; it may raise to stop the work.
    """
    s = model.settings
    first, last = first_and_last(s, len(items))
    parts = [np.empty(0)]
    for begin in range(first, last, PIECE):
        end = min(begin + PIECE, last)
        check()
        # All items that these boundaries need; a pad stands only where the document itself begins or ends.
        low, high = (max(begin - s.n, 0), end - 1) if s.side == "left" else (begin, end - 1 + s.n)
        piece = items[low:high]
        scores = _score(model, piece)
        skipped = begin - low - first_and_last(s, len(piece))[0]
        parts.append(scores[skipped : skipped + end - begin])
    return np.concatenate(parts)


def _score(model: Model, items: pa.Array) -> Floats:
    return np.asarray(score_items(model, items, np.array([len(items)])).flatten(), dtype=np.float64)


def all_boundaries(model: Model, items: pa.Array) -> list[float | None]:
    """Return the log ratios of all boundaries of a document, None where there is no context."""
    first, last = first_and_last(model.settings, len(items))
    return [*[None] * first, *boundary_scores(model, items).tolist(), *[None] * (len(items) + 1 - last)]

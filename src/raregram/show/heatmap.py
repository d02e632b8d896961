"""The heat map of a text: at every boundary the log ratio of its context, for several models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raregram import drawing
from raregram.errors import ParameterError
from raregram.measure.score import all_boundaries, split_text
from raregram.models.base import Settings
from raregram.models.model import Model


@dataclass(frozen=True)
class HeatMap:
    """A text and the log ratios of its boundaries; a notebook shows it in colours."""

    items: tuple[str, ...]
    kind: str
    scores: dict[str, list[float | None]]  # of each model; None where a boundary has no context

    def __repr__(self) -> str:
        return f"<heat map of {len(self.items):,} items by {', '.join(self.scores)}; a notebook shows it in colours>"

    def _repr_html_(self) -> str:
        return drawing.heat_map(self.items, self.scores, between=" " if self.kind == "words" else "")


def heat_map(models: Model | Sequence[Model], text: str) -> HeatMap:
    """Return the log ratios at every boundary of a text, by the target of each model.

    >>> import raregram as rg
    >>> counts = rg.Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    >>> [score and round(score, 2) for score in rg.heat_map(rg.fit(counts), "he was in Rome").scores["LOC"]]
    [None, 0.0, 0.04, 0.34, 0.04]
    """
    models = [models] if isinstance(models, Model) else models
    tokenizers = {model.settings.tokenizer for model in models}
    if len(tokenizers) != 1:
        raise ParameterError("a heat map takes models of one kind of items, words or letters, that are split alike")
    items = split_text(text, tokenizers.pop())
    names = model_names([model.settings for model in models])
    scores = {name: all_boundaries(model, items) for name, model in zip(names, models, strict=True)}
    return HeatMap(tuple(items.to_pylist()), models[0].settings.kind, scores)


def model_names(settings: Sequence[Settings]) -> list[str]:
    """Name models by their targets, and those of the same target by more."""
    targets = [s.target for s in settings]
    plain = [s.target if targets.count(s.target) == 1 else f"{s.target} ({s})" for s in settings]
    return [name if plain.count(name) == 1 else f"{name} {index}" for index, name in enumerate(plain, 1)]

"""What the models say: questions in, plain data out, nothing of HTTP."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.errors import RaregramError
from raregram.measure.rank import Top
from raregram.models.explain import Explanation
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.models import ReadyModel, Served, Shelf
from raregram.show.heatmap import PIECE, boundary_scores, first_and_last, split_text
from raregram.text.ngrams import PAD, NGrams

FEW = 64  # contexts that are scored one by one
Check = Callable[[], None]  # raises when the time is over


class UnknownModelError(RaregramError, LookupError):
    """There is no model of this name; the message names those that there are."""


class TimeOverError(RaregramError, TimeoutError):
    """A question takes longer than it may."""


def deadline(seconds: float) -> Check:
    """Return what raises when so many seconds have passed."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise TimeOverError(f"the answer takes longer than {seconds:g} s, send less at a time")

    return check


def find(shelf: Shelf, name: str) -> Served:
    """Return a model."""
    if name not in shelf:
        raise UnknownModelError(f"there is no model {name!r}; there is {', '.join(map(repr, shelf.names))}")
    return shelf[name]


def _chosen(shelf: Shelf, names: Sequence[str] | None) -> list[Served]:
    return list(shelf) if names is None else [find(shelf, name) for name in dict.fromkeys(names)]


def score(shelf: Shelf, question: schemas.ScoreQuestion, check: Check) -> dict[str, Any]:
    """Score contexts."""
    scores = {}
    for served in _chosen(shelf, question.models):
        check()
        scores[served.name] = _scores(served.model, question.contexts)
    return {"scores": scores}


def _scores(model: ReadyModel, contexts: Sequence[Any]) -> Any:
    """Score a few contexts one by one, and many, or those that need a pad or an error, all at once."""
    if len(contexts) <= FEW:
        split = str.split if model.settings.kind == "words" else list
        items = [split(context) if isinstance(context, str) else context for context in contexts]
        letters = model.settings.kind == "letters"  # a list may hold what is none: then there is an error to give
        if all(len(some) == model.settings.n and not (letters and max(map(len, some)) > 1) for some in items):
            return [number(model.single(some)) for some in items]
    return plain(model.log_ratio(contexts))


def texts(shelf: Shelf, question: schemas.TextsQuestion, check: Check) -> dict[str, Any]:
    """Score running texts at every boundary."""
    models = _chosen(shelf, question.models)
    return {"texts": [_scored_text(text, models, question.digits, check) for text in question.texts]}


def _scored_text(text: str, models: Sequence[Served], digits: int | None, check: Check) -> dict[str, Any]:
    items = {kind: split_text(text, kind) for kind in {served.model.settings.kind for served in models}}
    scores = {}
    for served in models:
        here = items[served.model.settings.kind]
        found = boundary_scores(served.model, here, check)
        scores[served.name] = with_gaps(served.model, found if digits is None else found.round(digits), len(here))
    return {"items": {kind: len(some) for kind, some in items.items()}, "scores": scores}


def with_gaps(model: Model, scores: Floats, length: int) -> Any:
    """Return the log ratios of all boundaries, with null where there is no context."""
    first, last = first_and_last(model.settings, length)
    if np.isfinite(scores).all():
        found = np.full(length + 1, np.nan)  # JSON shows NaN as null
        found[first:last] = scores
        return found
    return [*[None] * first, *plain(scores), *[None] * (length + 1 - last)]


def plain(values: Floats) -> Any:
    """Return numbers as JSON can have them: infinity and NaN become strings."""
    if np.isfinite(values).all():
        return values
    return [number(value) for value in values.tolist()]


def number(value: float) -> float | str:
    """Return one number as JSON can have it."""
    return value if math.isfinite(value) else str(value)


def explain(shelf: Shelf, question: schemas.ExplainQuestion, check: Check) -> dict[str, Any]:
    """Explain one context."""
    model = find(shelf, question.model).model
    found = model.explain(question.context)
    interval = _interval(model, found, question.level)
    terms = [
        {
            "start": term.start,
            "end": term.end,
            "items": term.items,
            "text": term.text,
            "f_nu": term.f_nu,
            "f_de": term.f_de,
            "selected": term.selected,
            "value": number(term.value),
            "kind": term.kind,
            "prior": None if term.prior is None else number(term.prior),
        }
        for term in found.terms
    ]
    return {
        "ngram": found.ngram,
        "target": found.target,
        "model": found.model,
        "log_ratio": number(found.log_ratio),
        "ratio": number(found.ratio),
        "interval": interval,
        "terms": terms,
    }


def _interval(model: Model, found: Explanation, level: float) -> list[float] | None:
    if not has_interval(model):
        return None
    return [float(end) for end in model.interval([list(found.ngram)], level)[0]]


def has_interval(model: Model) -> bool:
    """Whether a model knows how sure it is."""
    return model.estimator.has_variance


def changes(shelf: Shelf, question: schemas.ChangesQuestion, check: Check) -> dict[str, Any]:
    """Replace every item of a context by every item of the model; return the strongest at each position."""
    model = find(shelf, question.model).model
    items = model.parse([question.context], lambda _: "the context").items.to_pylist()
    numbers = model.numbers([items])
    before = float(model.log_ratio(numbers)[0])
    names = model.items.to_pylist()
    candidates = np.flatnonzero([name != PAD for name in names])
    up: list[dict[str, Any]] = []
    down: list[dict[str, Any]] = []
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # beyond the end of the document nothing can stand
            continue
        check()
        rows = np.repeat(numbers, len(candidates), axis=0)
        rows[:, position] = candidates
        values = model.log_ratio(rows)
        for found, best in ((up, np.nan_to_num(values, nan=-np.inf)), (down, -np.nan_to_num(values, nan=np.inf))):
            place = int(np.argmax(best))
            after = float(values[place])
            if _differs(after, before, rises=found is up):
                found.append(_change(position, item, names[candidates[place]], after, before))
    return {
        "log_ratio": number(before),
        "up": sorted(up, key=lambda change: -float(change["change"])),
        "down": sorted(down, key=lambda change: float(change["change"])),
    }


def _differs(after: float, before: float, rises: bool) -> bool:
    """Whether a change goes in the right direction; from no evidence, any evidence is a change."""
    if np.isnan(after):
        return False
    return bool(np.isnan(before) or (after > before if rises else after < before))


def _change(position: int, before: str, item: str, after: float, log_ratio: float) -> dict[str, Any]:
    return {
        "position": position + 1,
        "before": before,
        "item": item,
        "log_ratio": number(after),
        "change": number(after - log_ratio),
    }


def rank(shelf: Shelf, question: schemas.RankQuestion, check: Check) -> dict[str, Any]:
    """Return the best contexts of a text."""
    model = find(shelf, question.model).model
    s = model.settings
    if question.by == "lower":
        model.interval([], question.level)  # raises where there is none
    items = split_text(question.text, s.kind)
    scores = boundary_scores(model, items, check)
    top = Top(question.top)
    for begin, ngrams in _windows(model, items, len(scores)):
        check()
        values = scores[begin : begin + len(ngrams)]
        if question.by == "lower":
            ends = model.interval(ngrams.lists(), question.level)
            top.add(ngrams.texts(s.kind), np.column_stack([ends[:, 0], values, ends[:, 1]]))
        else:
            top.add(ngrams.texts(s.kind), values[:, None])
    return {"contexts": len(scores), "ranking": list(_ranked(model, top, question))}


def _windows(model: Model, items: pa.Array, count: int) -> Iterator[tuple[int, NGrams]]:
    """Yield the contexts of a document piece by piece, with the place of the first."""
    s = model.settings
    pads = pa.array([PAD] * s.n * s.pad, pa.string())
    parts = [items, pads] if s.side == "right" else [pads, items]
    padded = pa.concat_arrays(parts)
    for begin in range(0, count, PIECE):
        starts = np.arange(begin, min(begin + PIECE, count))
        yield begin, NGrams(padded.take(pa.array((starts[:, None] + np.arange(s.n)).ravel())), s.n)


def _split(text: str, model: Model) -> list[str]:
    """Undo `NGrams.texts`: no word has a space in it, and a letter that is missing is a pad."""
    s = model.settings
    if s.kind == "words":
        return text.split(" ")
    pads = [PAD] * (s.n - len(text))
    return [*pads, *text] if s.side == "left" else [*text, *pads]


def _ranked(model: Model, top: Top, question: schemas.RankQuestion) -> Iterator[dict[str, Any]]:
    ranking = top.ranking()
    contexts = [_split(text, model) for text in ranking.texts.to_pylist()]
    ends = model.interval(contexts, question.level) if contexts and has_interval(model) else None
    column = 1 if question.by == "lower" else 0
    for place, (items, values) in enumerate(zip(contexts, ranking.values, strict=True)):
        yield {
            "rank": place + 1,
            "log_ratio": number(float(values[column])),
            "lower": None if ends is None else float(ends[place, 0]),
            "upper": None if ends is None else float(ends[place, 1]),
            "items": items,
        }


def summary(served: Served) -> dict[str, Any]:
    """Say what one needs to know of a model to ask it."""
    s = served.model.settings
    return {
        "name": served.name,
        "target": s.target,
        "estimator": s.estimator,
        "settings": str(s),
        "n": s.n,
        "side": s.side,
        "kind": s.kind,
        "pad": s.pad,
        "interval": has_interval(served.model),
    }

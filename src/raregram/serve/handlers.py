"""One function a route: asks the models of the registry, and returns what the response says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from raregram import __version__
from raregram.measure.rank import Top
from raregram.measure.score import PIECE, boundary_scores, first_and_last, split_text
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.errors import too_long
from raregram.serve.models import ReadyModel
from raregram.serve.registry import Registry, ServedModel
from raregram.text.ngrams import NGrams
from raregram.text.tokenize import PAD

FEW = 64  # contexts that are scored one by one
Check = Callable[[], None]  # raises when the time is over
Json = dict[str, Any]


def deadline(seconds: float) -> Check:
    """Return a function that raises when so many seconds have passed."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise too_long(seconds)

    return check


def ready(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Say that the service is ready, which it is once all its models are read."""
    return {"ready": True, "models": registry.names}


def live(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Say that the process responds."""
    return ready(registry, path, check)


def models(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """List the models."""
    listed = [_summary(served) for served in registry]
    return {"version": __version__, "max_bytes": registry.options.max_bytes, "models": listed}


def _summary(served: ServedModel) -> Json:
    s = served.model.settings
    fields = {name: getattr(s, name) for name in ("target", "estimator", "n", "side", "kind", "pad")}
    return {"name": served.name, "settings": str(s), "interval": served.has_interval, **fields}


def model(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Describe a model."""
    return registry.get(path["name"]).facts


def score(registry: Registry, request: schemas.ScoreRequest, check: Check) -> Json:
    """Score contexts."""
    scores = {}
    for served in registry.select(request.models):
        check()
        scores[served.name] = _scores(served.model, request.contexts)
    return {"scores": scores}


def _scores(model: ReadyModel, contexts: Sequence[Any]) -> Any:
    """Score a few contexts one by one, and many, or those that need a pad or an error, all at once."""
    s = model.settings
    if len(contexts) <= FEW:
        split = str.split if s.kind == "words" else list
        items = [split(context) if isinstance(context, str) else context for context in contexts]
        # A list may hold strings that are no letters: these get their error from the library.
        if all(len(row) == s.n and (s.kind == "words" or max(map(len, row)) <= 1) for row in items):
            return [json_float(model.single(row)) for row in items]
    return json_floats(model.log_ratio(contexts))


def texts(registry: Registry, request: schemas.TextsRequest, check: Check) -> Json:
    """Score running texts at every boundary."""
    chosen = registry.select(request.models)
    return {"texts": [_score_text(text, chosen, request.digits, check) for text in request.texts]}


def _score_text(text: str, chosen: Sequence[ServedModel], digits: int | None, check: Check) -> Json:
    items = {kind: split_text(text, kind) for kind in {served.model.settings.kind for served in chosen}}
    scores = {}
    for served in chosen:
        own = items[served.model.settings.kind]
        found = boundary_scores(served.model, own, check)
        scores[served.name] = _all_boundaries(
            served.model, found if digits is None else found.round(digits), len(own)
        )
    return {"items": {kind: len(some) for kind, some in items.items()}, "scores": scores}


def _all_boundaries(model: Model, scores: Floats, length: int) -> Any:
    """Return the log ratios of all boundaries of a text, with null where there is no context."""
    first, last = first_and_last(model.settings, length)
    if np.isfinite(scores).all():
        found = np.full(length + 1, np.nan)  # orjson writes NaN as null
        found[first:last] = scores
        return found
    return [*[None] * first, *json_floats(scores), *[None] * (length + 1 - last)]


def explain(registry: Registry, request: schemas.ExplainRequest, check: Check) -> Json:
    """Explain one context."""
    served = registry.get(request.model)
    found = served.model.explain(request.context)
    interval = None
    if served.has_interval:
        interval = served.model.interval([list(found.ngram)], request.level)[0].tolist()
    return {
        "ngram": found.ngram,
        "target": found.target,
        "model": found.model,
        "log_ratio": json_float(found.log_ratio),
        "ratio": json_float(found.ratio),
        "interval": interval,
        "terms": [
            {
                **asdict(term),
                "text": term.text,
                "value": json_float(term.value),
                "prior": None if term.prior is None else json_float(term.prior),
            }
            for term in found.terms
        ],
    }


def changes(registry: Registry, request: schemas.ChangesRequest, check: Check) -> Json:
    """Replace every item of a context by every item of the model; return the largest changes at each position."""
    model = registry.get(request.model).model
    items = model.parse([request.context], lambda _: "the context").items.to_pylist()
    codes = model.numbers([items])
    before = float(model.log_ratio(codes)[0])
    vocabulary = model.items.to_pylist()
    candidates = np.flatnonzero([item != PAD for item in vocabulary])
    up: list[Json] = []
    down: list[Json] = []
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # beyond the end of the document there are no items
            continue
        check()
        rows = np.repeat(codes, len(candidates), axis=0)
        rows[:, position] = candidates
        values = model.log_ratio(rows)
        for sign, found in ((1, up), (-1, down)):
            best = int(np.argmax(np.nan_to_num(sign * values, nan=-np.inf)))
            after = float(values[best])
            # From NaN, which is no evidence, any number is a change.
            if sign * after > sign * before or (math.isnan(before) and not math.isnan(after)):
                found.append(
                    {
                        "position": position + 1,
                        "before": item,
                        "item": vocabulary[candidates[best]],
                        "log_ratio": json_float(after),
                        "change": json_float(after - before),
                    }
                )
    return {
        "log_ratio": json_float(before),
        "up": sorted(up, key=lambda change: -float(change["change"])),
        "down": sorted(down, key=lambda change: float(change["change"])),
    }


def rank(registry: Registry, request: schemas.RankRequest, check: Check) -> Json:
    """Return the best contexts of a text, each once."""
    served = registry.get(request.model)
    model, s = served.model, served.model.settings
    by_lower = request.by == "lower"
    if by_lower:
        model.interval([], request.level)  # raises where there is none
    items = split_text(request.text, s.kind)
    scores = boundary_scores(model, items, check)
    pads = pa.array([PAD] * s.n * s.pad, pa.string())
    padded = pa.concat_arrays([items, pads] if s.side == "right" else [pads, items])
    top = Top(request.top)
    for begin in range(0, len(scores), PIECE):
        check()
        starts = np.arange(begin, min(begin + PIECE, len(scores)))
        ngrams = NGrams(padded.take(pa.array((starts[:, None] + np.arange(s.n)).ravel())), s.n)
        values = model.interval(ngrams.lists(), request.level)[:, 0] if by_lower else scores[starts]
        top.add(ngrams.texts(s.kind), np.column_stack([values, starts]))
    best = [int(start) for start in top.ranking().values[:, -1]]
    contexts = [padded[start : start + s.n].to_pylist() for start in best]
    ends = model.interval(contexts, request.level).tolist() if served.has_interval else [(None, None)] * len(contexts)
    ranking = [
        {"rank": place, "log_ratio": json_float(float(scores[start])), "lower": lower, "upper": upper, "items": ngram}
        for place, (start, (lower, upper), ngram) in enumerate(zip(best, ends, contexts, strict=True), 1)
    ]
    return {"contexts": len(scores), "ranking": ranking}


def json_floats(values: Floats) -> Any:
    """Return numbers as JSON can have them: infinity and NaN become strings."""
    if np.isfinite(values).all():
        return values
    return [json_float(value) for value in values.tolist()]


def json_float(value: float) -> float | str:
    """Return one number as JSON can have it."""
    return value if math.isfinite(value) else str(value)

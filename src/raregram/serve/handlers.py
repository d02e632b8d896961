"""One function per route: calls the models of the registry and returns the content of the response."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from raregram import __version__
from raregram.errors import ParameterError
from raregram.measure.rank import best_boundaries
from raregram.measure.score import boundaries_of, boundary_scores, first_and_last, split_text
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.errors import too_long
from raregram.serve.files import Split, from_file, from_text
from raregram.serve.registry import Registry
from raregram.show.write import finite
from raregram.text.tokenize import PAD
from raregram.text.words import class_ranges, rules

Check = Callable[[], None]  # raises after the timeout
Json = dict[str, Any]


def deadline(seconds: float) -> Check:
    """Return a function that raises once so many seconds have passed."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise too_long(seconds)

    return check


def ready(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Report readiness: the service starts once all its models are loaded."""
    return {"ready": True, "models": registry.names}


def live(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Report that the process responds."""
    return ready(registry, path, check)


def models(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """List the models."""
    listed = []
    for served in registry:
        s = served.model.settings
        fields = {name: getattr(s, name) for name in ("target", "estimator", "n", "side", "kind", "pad")}
        fields |= {name: getattr(s, name) for name in ("tokenize", "lower")}
        fields |= dict(zip(("here", "elsewhere"), s.conditions, strict=True))
        listed.append({"name": served.name, "settings": str(s), "interval": served.has_interval, **fields})
    apart = any(served.model.settings.tokenize == "words" for served in registry)
    words = {"word": rules(), "classes": class_ranges()} if apart else None
    return {"version": __version__, "max_bytes": registry.options.max_bytes, "models": listed, "words": words}


def model(registry: Registry, path: Mapping[str, str], check: Check) -> Json:
    """Describe a model."""
    return registry.get(path["name"]).facts


def score(registry: Registry, request: schemas.ScoreRequest, check: Check) -> Json:
    """Score contexts."""
    scores = {}
    for served in registry.select(request.models):
        check()
        scores[served.name] = _json_floats(served.model.log_ratio(request.contexts))
    return {"scores": scores}


def texts(registry: Registry, request: schemas.TextsRequest, check: Check) -> Json:
    """Score running texts at every boundary."""
    chosen = registry.select(request.models)
    scored = []
    for text in request.texts:
        items = {how: split_text(text, how) for how in {served.model.settings.tokenizer for served in chosen}}
        scores = {}
        for served in chosen:
            own = items[served.model.settings.tokenizer]
            found = boundary_scores(served.model, own, check)
            found = found if request.digits is None else found.round(request.digits)
            first, last = first_and_last(served.model.settings, len(own))
            scores[served.name] = _all_boundaries(found, first, len(own) + 1 - last)
        scored.append({"items": {str(how): len(some) for how, some in items.items()}, "scores": scores})
    return {"texts": scored}


def _all_boundaries(scores: Floats, before: int, after: int) -> Any:
    """Return log ratios with so many nulls before and after them, for the boundaries without a context."""
    if np.isfinite(scores).all():
        return np.pad(scores, (before, after), constant_values=np.nan)  # orjson writes NaN as null
    return [*[None] * before, *finite(scores.tolist()), *[None] * after]


def explain(registry: Registry, request: schemas.ExplainRequest, check: Check) -> Json:
    """Explain one context."""
    served = registry.get(request.model)
    found = served.model.explain(request.context)
    interval = None
    if served.has_interval:
        interval = served.model.interval([list(found.ngram)], request.level)[0].tolist()
    explanation = found.to_dict()
    del explanation["conditions"]
    terms = [{**fields, "text": term.text} for fields, term in zip(explanation["terms"], found.terms, strict=True)]
    return dict(finite({**explanation, "interval": interval, "terms": terms}))


def changes(registry: Registry, request: schemas.ChangesRequest, check: Check) -> Json:
    """Replace every item of a context by every item of the model; return the largest changes at each position."""
    model = registry.get(request.model).model
    n, side = model.settings.n, model.settings.side
    items = model.parse([request.context], lambda _: "the context").nearest(n, side).items.to_pylist()
    first = n - len(items) if side == "left" else 0  # there are no items further away
    codes = model.encode([items])
    before = float(model.log_ratio(codes)[0])
    vocabulary = model.items.to_pylist()
    candidates = np.flatnonzero([item != PAD for item in vocabulary])
    up: list[Json] = []
    down: list[Json] = []
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # a pad, given as such, stands beyond the end of the document
            continue
        check()
        rows = np.repeat(codes, len(candidates), axis=0)
        rows[:, first + position] = candidates
        values = model.log_ratio(rows)
        for sign, found in ((1, up), (-1, down)):
            best = int(np.argmax(np.nan_to_num(sign * values, nan=-np.inf)))
            after = float(values[best])
            # From NaN, which is no evidence, any number is a change.
            if sign * after > sign * before or (math.isnan(before) and not math.isnan(after)):
                replaced = {"position": position + 1, "before": item, "item": vocabulary[candidates[best]]}
                found.append({**replaced, "log_ratio": after, "change": after - before})
    up.sort(key=lambda change: -change["change"])
    down.sort(key=lambda change: change["change"])
    return dict(finite({"log_ratio": before, "up": up, "down": down}))


def rank(registry: Registry, request: schemas.RankRequest, check: Check) -> Json:
    """Return the best boundaries of a text, or of the documents of a file."""
    served = registry.get(request.model)
    model, s = served.model, served.model.settings
    level = request.level if request.by == "lower" else None
    if level is not None:
        model.interval([], level)  # raises where there is none
    parts: list[Split] = []
    best, contexts = None, 0
    for part in _documents(request, model, registry.options.max_bytes):
        for piece in boundaries_of(model, part.items, part.lengths, pa.array(part.numbers)):
            check()
            best = best_boundaries(model, piece, request.top, level, best)
            contexts += len(piece)
        parts.append(part)
    rows = best.to_pylist() if best is not None else []
    found = [next(part for part in parts if row["document"] in part.numbers) for row in rows]
    items = [part.context(row["document"], row["position"], s) for part, row in zip(found, rows, strict=True)]
    ends = model.interval(items, request.level).tolist() if served.has_interval else [(None, None)] * len(rows)
    ranking = [
        {"rank": i, "log_ratio": finite(row["log_ratio"]), "lower": lower, "upper": upper, "items": context,
         "position": row["position"], "left": row["left"], "right": row["right"],
         "document": part.name(row["document"])}
        for i, (row, part, context, (lower, upper)) in enumerate(zip(rows, found, items, ends, strict=True), 1)
    ]  # fmt: skip
    return {"documents": sum(len(part.numbers) for part in parts), "contexts": contexts, "ranking": ranking}


def _documents(request: schemas.RankRequest, model: Model, max_bytes: int) -> Iterator[Split]:
    """Return the documents of a request."""
    if request.file is not None and request.text is None:
        return from_file(request.file_name, request.file, model, max_bytes)
    if request.text is not None and request.file is None:
        return from_text(request.text, model)
    raise ParameterError("send either a text or a file")


def _json_floats(values: Floats) -> Any:
    """Return numbers as JSON can have them: infinity and NaN become strings."""
    return values if np.isfinite(values).all() else finite(values.tolist())

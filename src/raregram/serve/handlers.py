"""The endpoints: each calls the models of the registry and returns the content of a response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from raregram import __version__
from raregram.measure.rank import best_boundaries
from raregram.measure.score import boundaries_of, boundary_scores, first_and_last, split_text
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.errors import DESCRIPTIONS, described
from raregram.serve.files import split_request
from raregram.serve.limits import ServiceRequest, ServiceRoute
from raregram.show.write import finite
from raregram.text.tokenize import PAD
from raregram.text.words import class_ranges, rules

ERRORS = described(*DESCRIPTIONS)
FEW = 64  # contexts, which are scored before another thread would start
FIELDS = ("target", "estimator", "n", "side", "kind", "pad", "tokenize", "lower")  # of a model's summary


class Json(JSONResponse):
    """A response that may hold NumPy arrays. FastAPI's own validation of responses would take most of the time."""

    def render(self, content: Any) -> bytes:
        """Return JSON, in which NaN of an array is null."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


router = APIRouter(route_class=ServiceRoute)


@router.post("/api/score", response_model=schemas.ScoreResponse, responses=ERRORS)
async def score(body: schemas.ScoreRequest, request: ServiceRequest) -> Json:
    """Score contexts."""
    return _score(body, request) if len(body.contexts) <= FEW else await run_in_threadpool(_score, body, request)


def _score(body: schemas.ScoreRequest, request: ServiceRequest) -> Json:
    scores = {}
    for name, model in request.models.select(body.models).items():
        request.check_time()
        scores[name] = _numbers(model.log_ratio(body.contexts))
    return Json({"scores": scores})


@router.post("/api/texts", response_model=schemas.TextsResponse, responses=ERRORS)
def texts(body: schemas.TextsRequest, request: ServiceRequest) -> Json:
    """Score running texts at every boundary."""
    models = request.models.select(body.models)
    tokenizers = {model.settings.tokenizer for model in models.values()}
    scored = []
    for text in body.texts:
        items = {tokenizer: split_text(text, tokenizer) for tokenizer in tokenizers}
        scores = {}
        for name, model in models.items():
            own = items[model.settings.tokenizer]
            values = boundary_scores(model, own, request.check_time)
            first, last = first_and_last(model.settings, len(own))
            values = values if body.digits is None else values.round(body.digits)
            scores[name] = _numbers(values, first, len(own) + 1 - last)
        scored.append({"items": {str(how): len(split) for how, split in items.items()}, "scores": scores})
    return Json({"texts": scored})


def _numbers(values: Floats, nulls_before: int = 0, nulls_after: int = 0) -> Any:
    """Return log ratios as JSON can have them, with nulls for the boundaries of a text that have no context."""
    if len(values) > FEW and np.isfinite(values).all():  # orjson writes an array fast, and NaN as null
        return np.concatenate([np.full(nulls_before, np.nan), values, np.full(nulls_after, np.nan)])
    return [*[None] * nulls_before, *finite(values.tolist()), *[None] * nulls_after]


@router.post("/api/explain", response_model=schemas.ExplainResponse, responses=ERRORS)
def explain(body: schemas.ExplainRequest, request: ServiceRequest) -> Json:
    """Explain one context."""
    model = request.models.get(body.model).model
    explained = model.explain(body.context)
    interval = None
    if model.estimator.has_variance:
        interval = model.interval([list(explained.ngram)], body.level)[0].tolist()
    fields = explained.to_dict()
    del fields["conditions"]
    for term, shown in zip(fields["terms"], explained.terms, strict=True):
        term["text"] = shown.text
    return Json(finite({**fields, "interval": interval}))


@router.post("/api/changes", response_model=schemas.ChangesResponse, responses=ERRORS)
def changes(body: schemas.ChangesRequest, request: ServiceRequest) -> Json:
    """Replace every item of a context by every item of the model; return the largest changes at each position."""
    model = request.models.get(body.model).model
    n, side = model.settings.n, model.settings.side
    items = model.parse([body.context], lambda _: "the context").nearest(n, side).items.to_pylist()
    first = n - len(items) if side == "left" else 0  # there are no items further away
    codes = model.encode([items])
    before = float(model.log_ratio(codes)[0])
    vocabulary = model.items.to_pylist()
    candidates = np.flatnonzero([item != PAD for item in vocabulary])
    largest: dict[str, list[dict[str, Any]]] = {"up": [], "down": []}
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # a pad, given as such, is beyond the end of the document
            continue
        request.check_time()
        rows = np.repeat(codes, len(candidates), axis=0)
        rows[:, first + position] = candidates
        values = model.log_ratio(rows)
        for direction, sign in (("up", 1), ("down", -1)):
            best = int(np.argmax(np.nan_to_num(sign * values, nan=-np.inf)))
            after = float(values[best])
            # From NaN, which is no evidence, any number is a change.
            if sign * after > sign * before or (math.isnan(before) and not math.isnan(after)):
                replaced = {"position": position + 1, "before": item, "item": vocabulary[candidates[best]]}
                largest[direction].append({**replaced, "log_ratio": after, "change": after - before})
    largest["up"].sort(key=lambda change: -change["change"])
    largest["down"].sort(key=lambda change: change["change"])
    return Json(finite({"log_ratio": before, **largest}))


@router.post("/api/rank", response_model=schemas.RankResponse, responses=ERRORS)
def rank(body: schemas.RankRequest, request: ServiceRequest) -> Json:
    """Return the best boundaries of a text, or of the documents of a file."""
    model = request.models.get(body.model).model
    level = body.level if body.by == "lower" else None
    if level is not None:
        model.interval([], level)  # raises where there is none
    parts, best, contexts = [], None, 0
    for part in split_request(body, model, request.limits.max_bytes):
        parts.append(part)
        for piece in boundaries_of(model, part.items, part.lengths, pa.array(part.numbers)):
            request.check_time()
            best = best_boundaries(model, piece, body.top, level, best)
            contexts += len(piece)
    ranking = [] if best is None else best.to_pylist()
    for number, row in enumerate(ranking, 1):
        part = next(part for part in parts if row["document"] in part.numbers)
        items, name = part.context(row["document"], row["position"], model.settings), part.name(row["document"])
        row.update(
            rank=number, items=items, document=name, log_ratio=finite(row["log_ratio"]), lower=None, upper=None
        )
    if model.estimator.has_variance:
        ends = model.interval([row["items"] for row in ranking], body.level).tolist()
        for row, (lower, upper) in zip(ranking, ends, strict=True):
            row.update(lower=lower, upper=upper)
    return Json({"documents": sum(len(part.numbers) for part in parts), "contexts": contexts, "ranking": ranking})


@router.get("/api/models", response_model=schemas.ModelsResponse, responses=described(401))
async def models(request: ServiceRequest) -> Json:
    """List the models."""
    listed = []
    for name, model in request.models.select().items():
        s = model.settings
        here, elsewhere = s.conditions
        fields = {field: getattr(s, field) for field in FIELDS} | {"here": here, "elsewhere": elsewhere}
        listed.append({"name": name, "settings": str(s), "interval": model.estimator.has_variance, **fields})
    apart = any(fields["tokenize"] == "words" for fields in listed)
    words = {"word": rules(), "classes": class_ranges()} if apart else None
    return Json({"version": __version__, "max_bytes": request.limits.max_bytes, "models": listed, "words": words})


@router.get("/api/models/{name:path}", response_model=schemas.ModelResponse, responses=described(401, 404, 422, 503))
def model(name: str, request: ServiceRequest) -> Json:
    """Describe a model."""
    return Json({"name": name, **request.models.get(name).facts})


@router.get("/live", response_model=schemas.Readiness, name="live")
@router.get("/ready", response_model=schemas.Readiness)
async def ready(request: ServiceRequest) -> Json:
    """Report that the process responds, which it does once all its models are loaded."""
    return Json({"ready": True, "models": request.models.names})

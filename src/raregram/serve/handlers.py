"""The endpoints: each calls the models of the registry and returns the content of a response."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import orjson
import pyarrow as pa
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse

from raregram import __version__
from raregram.measure.rank import best_boundaries
from raregram.measure.score import boundaries_of, boundary_scores, first_and_last, split_text
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.errors import DESCRIPTIONS, described, too_long
from raregram.serve.files import SplitDocuments, split_request
from raregram.serve.limits import Limits
from raregram.serve.registry import Registry
from raregram.show.write import finite
from raregram.text.tokenize import PAD
from raregram.text.words import class_ranges, rules

ERRORS = described(*DESCRIPTIONS)
FIELDS = ("target", "estimator", "n", "side", "kind", "pad", "tokenize", "lower")  # of a model's summary


class StrictRequest(Request):
    """A request whose body is strict JSON: no NaN, no halves of surrogate pairs, which are no text."""

    async def json(self) -> Any:
        """Return the content of the body."""
        return orjson.loads(await self.body())


class StrictRoute(APIRoute):
    """A route of strict requests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


class Json(JSONResponse):
    """A response that may hold NumPy arrays. FastAPI's own validation of responses would take most of the time."""

    def render(self, content: Any) -> bytes:
        """Return JSON, in which NaN of an array is null."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


@dataclass(frozen=True)
class Service:
    """What a handler works with: the models, the limits, and the time by which the response must begin."""

    models: Registry
    limits: Limits
    deadline: float

    def check(self) -> None:
        """Raise once the time is over: a thread cannot be stopped from outside."""
        if time.monotonic() > self.deadline:
            raise too_long(self.limits.timeout)


async def _service(request: Request) -> Service:
    state = request.app.state
    return Service(state.registry, state.limits, time.monotonic() + state.limits.timeout)


Served = Annotated[Service, Depends(_service)]
router = APIRouter(route_class=StrictRoute)


@router.post("/api/score", response_model=schemas.ScoreResponse, responses=ERRORS)
def score(body: schemas.ScoreRequest, service: Served) -> Json:
    """Score contexts."""
    scores = {}
    for served in service.models.select(body.models):
        service.check()
        log_ratio = served.model.log_ratio(body.contexts)
        scores[served.name] = log_ratio if np.isfinite(log_ratio).all() else finite(log_ratio.tolist())
    return Json({"scores": scores})


@router.post("/api/texts", response_model=schemas.TextsResponse, responses=ERRORS)
def texts(body: schemas.TextsRequest, service: Served) -> Json:
    """Score running texts at every boundary."""
    chosen = service.models.select(body.models)
    scored = []
    for text in body.texts:
        items = {how: split_text(text, how) for how in {served.model.settings.tokenizer for served in chosen}}
        scores = {}
        for served in chosen:
            own = items[served.model.settings.tokenizer]
            found = boundary_scores(served.model, own, service.check)
            found = found if body.digits is None else found.round(body.digits)
            first, last = first_and_last(served.model.settings, len(own))
            scores[served.name] = _with_nulls(found, first, len(own) + 1 - last)
        scored.append({"items": {str(how): len(some) for how, some in items.items()}, "scores": scores})
    return Json({"texts": scored})


def _with_nulls(scores: Floats, before: int, after: int) -> Any:
    """Return log ratios with nulls before and after them, for the boundaries without a context."""
    if np.isfinite(scores).all():
        return np.pad(scores, (before, after), constant_values=np.nan)  # orjson writes NaN as null
    return [*[None] * before, *finite(scores.tolist()), *[None] * after]


@router.post("/api/explain", response_model=schemas.ExplainResponse, responses=ERRORS)
def explain(body: schemas.ExplainRequest, service: Served) -> Json:
    """Explain one context."""
    model = service.models.get(body.model).model
    found = model.explain(body.context)
    interval = None
    if model.estimator.has_variance:
        interval = model.interval([list(found.ngram)], body.level)[0].tolist()
    explanation = found.to_dict()
    del explanation["conditions"]
    terms = [{**fields, "text": term.text} for fields, term in zip(explanation["terms"], found.terms, strict=True)]
    return Json(finite({**explanation, "interval": interval, "terms": terms}))


@router.post("/api/changes", response_model=schemas.ChangesResponse, responses=ERRORS)
def changes(body: schemas.ChangesRequest, service: Served) -> Json:
    """Replace every item of a context by every item of the model; return the largest changes at each position."""
    model = service.models.get(body.model).model
    n, side = model.settings.n, model.settings.side
    items = model.parse([body.context], lambda _: "the context").nearest(n, side).items.to_pylist()
    first = n - len(items) if side == "left" else 0  # there are no items further away
    codes = model.encode([items])
    before = float(model.log_ratio(codes)[0])
    vocabulary = model.items.to_pylist()
    candidates = np.flatnonzero([item != PAD for item in vocabulary])
    found: dict[str, list[dict[str, Any]]] = {"up": [], "down": []}
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # a pad, given as such, stands beyond the end of the document
            continue
        service.check()
        rows = np.repeat(codes, len(candidates), axis=0)
        rows[:, first + position] = candidates
        values = model.log_ratio(rows)
        for sign, largest in zip((1, -1), found.values(), strict=True):
            best = int(np.argmax(np.nan_to_num(sign * values, nan=-np.inf)))
            after = float(values[best])
            # From NaN, which is no evidence, any number is a change.
            if sign * after > sign * before or (math.isnan(before) and not math.isnan(after)):
                replaced = {"position": position + 1, "before": item, "item": vocabulary[candidates[best]]}
                largest.append({**replaced, "log_ratio": after, "change": after - before})
    found["up"].sort(key=lambda change: -change["change"])
    found["down"].sort(key=lambda change: change["change"])
    return Json(finite({"log_ratio": before, **found}))


@router.post("/api/rank", response_model=schemas.RankResponse, responses=ERRORS)
def rank(body: schemas.RankRequest, service: Served) -> Json:
    """Return the best boundaries of a text, or of the documents of a file."""
    model = service.models.get(body.model).model
    level = body.level if body.by == "lower" else None
    if level is not None:
        model.interval([], level)  # raises where there is none
    parts: list[SplitDocuments] = []
    best, contexts = None, 0
    for part in split_request(body, model, service.limits.max_bytes):
        for piece in boundaries_of(model, part.items, part.lengths, pa.array(part.numbers)):
            service.check()
            best = best_boundaries(model, piece, body.top, level, best)
            contexts += len(piece)
        parts.append(part)
    rows = best.to_pylist() if best is not None else []
    sources = [next(part for part in parts if row["document"] in part.numbers) for row in rows]
    for number, (row, part) in enumerate(zip(rows, sources, strict=True), 1):
        row["rank"], row["log_ratio"] = number, finite(row["log_ratio"])
        row["items"] = part.context(row["document"], row["position"], model.settings)
        row["document"] = part.name(row["document"])
    ends = [(None, None)] * len(rows)
    if model.estimator.has_variance:
        ends = model.interval([row["items"] for row in rows], body.level).tolist()
    ranking = [{**row, "lower": lower, "upper": upper} for row, (lower, upper) in zip(rows, ends, strict=True)]
    return Json({"documents": sum(len(part.numbers) for part in parts), "contexts": contexts, "ranking": ranking})


@router.get("/api/models", response_model=schemas.ModelsResponse, responses=described(401))
async def models(service: Served) -> Json:
    """List the models."""
    listed = []
    for served in service.models:
        model, s = served.model, served.model.settings
        fields = {field: getattr(s, field) for field in FIELDS}
        fields |= dict(zip(("here", "elsewhere"), s.conditions, strict=True))
        listed.append({"name": served.name, "settings": str(s), "interval": model.estimator.has_variance, **fields})
    apart = any(served.model.settings.tokenize == "words" for served in service.models)
    words = {"word": rules(), "classes": class_ranges()} if apart else None
    return Json({"version": __version__, "max_bytes": service.limits.max_bytes, "models": listed, "words": words})


@router.get("/api/models/{name:path}", response_model=schemas.ModelResponse, responses=described(401, 404, 422, 503))
def model(name: str, service: Served) -> Json:
    """Describe a model."""
    return Json(service.models.get(name).facts)


@router.get("/live", response_model=schemas.Readiness)
async def live(service: Served) -> Json:
    """Report that the process responds."""
    return await ready(service)


@router.get("/ready", response_model=schemas.Readiness)
async def ready(service: Served) -> Json:
    """Report readiness: the service starts once all its models are loaded."""
    return Json({"ready": True, "models": service.models.names})

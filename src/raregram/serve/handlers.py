"""The endpoints: each calls the models of the registry and returns the content of a response."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope

from raregram import __version__
from raregram.measure.rank import best_boundaries
from raregram.measure.score import boundaries_of, boundary_scores, first_and_last, split_text
from raregram.models.ratios import Floats
from raregram.serve import schemas
from raregram.serve.errors import DESCRIPTIONS, RequestError, described, too_long
from raregram.serve.files import SplitDocuments, split_request
from raregram.serve.limits import Limits
from raregram.serve.registry import Registry
from raregram.show.write import finite
from raregram.text.tokenize import PAD
from raregram.text.words import class_ranges, rules

ERRORS = described(*DESCRIPTIONS)
THREADS = 4  # in which requests are handled, and files of the page read
FEW = 64  # contexts
FIELDS = ("target", "estimator", "n", "side", "kind", "pad", "tokenize", "lower")  # of a model's summary


class ServiceRequest(Request):
    """A request with what its handler works with: the models, the limits and the time that is left."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self.models: Registry = self.app.state.registry
        self.limits: Limits = self.app.state.limits
        self.deadline = time.monotonic() + self.limits.timeout

    async def json(self) -> Any:
        """Parse the body strictly: Python's own parser takes NaN, and halves of surrogate pairs."""
        return orjson.loads(await self.body())

    def check_threads(self) -> None:
        """Raise if too many requests are handled or wait for a thread."""
        threads = current_default_thread_limiter().statistics()
        if threads.borrowed_tokens + threads.tasks_waiting >= THREADS + self.limits.max_waiting:
            message = "too many requests are waiting: try again in a moment"
            raise RequestError(503, "busy", message, {"Retry-After": "1"})

    def check(self) -> None:
        """Raise once the time is over: a thread cannot be stopped from outside."""
        if time.monotonic() > self.deadline:
            raise too_long(self.limits.timeout)


class ServiceRoute(APIRoute):
    """A route whose handler gets a `ServiceRequest`; a dependency would take longer than most requests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_request(request: Request) -> Response:
            request = ServiceRequest(request.scope, request.receive)
            if request.method == "POST":
                await request.body()  # FastAPI would take a client that leaves for one that sends no JSON
                request.check_threads()
            return await handle(request)

        return handle_request


class Json(JSONResponse):
    """A response that may hold NumPy arrays. FastAPI's own validation of responses would take most of the time."""

    def render(self, content: Any) -> bytes:
        """Return JSON, in which NaN of an array is null."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


router = APIRouter(route_class=ServiceRoute)


@router.post("/api/score", response_model=schemas.ScoreResponse, responses=ERRORS)
async def score(body: schemas.ScoreRequest, request: ServiceRequest) -> Json:
    """Score contexts."""
    # A few are scored before another thread would start.
    return _score(body, request) if len(body.contexts) <= FEW else await run_in_threadpool(_score, body, request)


def _score(body: schemas.ScoreRequest, request: ServiceRequest) -> Json:
    scores = {}
    for name, model in request.models.select(body.models).items():
        request.check()
        log_ratio = model.log_ratio(body.contexts)
        scores[name] = log_ratio if np.isfinite(log_ratio).all() else finite(log_ratio.tolist())
    return Json({"scores": scores})


@router.post("/api/texts", response_model=schemas.TextsResponse, responses=ERRORS)
def texts(body: schemas.TextsRequest, request: ServiceRequest) -> Json:
    """Score running texts at every boundary."""
    chosen = request.models.select(body.models)
    scored = []
    for text in body.texts:
        items = {how: split_text(text, how) for how in {model.settings.tokenizer for model in chosen.values()}}
        scores = {}
        for name, model in chosen.items():
            own = items[model.settings.tokenizer]
            found = boundary_scores(model, own, request.check)
            found = found if body.digits is None else found.round(body.digits)
            first, last = first_and_last(model.settings, len(own))
            scores[name] = _with_nulls(found, first, len(own) + 1 - last)
        scored.append({"items": {str(how): len(some) for how, some in items.items()}, "scores": scores})
    return Json({"texts": scored})


def _with_nulls(scores: Floats, before: int, after: int) -> Any:
    """Return log ratios with nulls before and after them, for the boundaries without a context."""
    if np.isfinite(scores).all():
        return np.pad(scores, (before, after), constant_values=np.nan)  # orjson writes NaN as null
    return [*[None] * before, *finite(scores.tolist()), *[None] * after]


@router.post("/api/explain", response_model=schemas.ExplainResponse, responses=ERRORS)
def explain(body: schemas.ExplainRequest, request: ServiceRequest) -> Json:
    """Explain one context."""
    model = request.models.get(body.model).model
    found = model.explain(body.context)
    interval = None
    if model.estimator.has_variance:
        interval = model.interval([list(found.ngram)], body.level)[0].tolist()
    explanation = found.to_dict()
    del explanation["conditions"]
    terms = [{**fields, "text": term.text} for fields, term in zip(explanation["terms"], found.terms, strict=True)]
    return Json(finite({**explanation, "interval": interval, "terms": terms}))


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
    found: dict[str, list[dict[str, Any]]] = {"up": [], "down": []}
    for position, item in enumerate(items):
        if item == PAD or not len(candidates):  # a pad, given as such, stands beyond the end of the document
            continue
        request.check()
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
def rank(body: schemas.RankRequest, request: ServiceRequest) -> Json:
    """Return the best boundaries of a text, or of the documents of a file."""
    model = request.models.get(body.model).model
    level = body.level if body.by == "lower" else None
    if level is not None:
        model.interval([], level)  # raises where there is none
    parts: list[SplitDocuments] = []
    best, contexts = None, 0
    for part in split_request(body, model, request.limits.max_bytes):
        for piece in boundaries_of(model, part.items, part.lengths, pa.array(part.numbers)):
            request.check()
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


@router.get("/live", response_model=schemas.Readiness)
async def live(request: ServiceRequest) -> Json:
    """Report that the process responds."""
    return await ready(request)


@router.get("/ready", response_model=schemas.Readiness)
async def ready(request: ServiceRequest) -> Json:
    """Report readiness: the service starts once all its models are loaded."""
    return Json({"ready": True, "models": request.models.names})

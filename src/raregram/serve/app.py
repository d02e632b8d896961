"""The application: routes, their description, and the life of the service. The one place that imports FastAPI."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from raregram import __version__
from raregram.serve import answers, schemas
from raregram.serve.guard import Guard, Refusal
from raregram.serve.metrics import Metrics
from raregram.serve.models import Shelf
from raregram.serve.options import ServeOptions
from raregram.serve.pages import add_pages
from raregram.serve.questions import JSON, QUESTIONS, Questions, answered, to_json

ABOUT = """Likelihood ratios of N-grams: how much likelier a context is before a name than anywhere else.
Every error has the form `{"error": {"code", "message"}}`. Texts are neither kept nor logged."""
REFUSALS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The body is said to be something other than JSON.",
    422: "The question cannot be answered; the message says why.",
    503: "The answer takes too long, or too many wait.",
}


def create_app(options: ServeOptions) -> FastAPI:
    """Read the models and return the application."""
    shelf = Shelf(options.models)
    metrics = Metrics(options.metrics, options.workers)
    app = FastAPI(
        title="raregram",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=partial(_life, shelf, options),
    )
    app.state.shelf, app.state.metrics = shelf, metrics
    questions = Questions(shelf, options.seconds)
    app.add_middleware(Guard, options=options, metrics=metrics, direct=questions.direct)
    app.add_exception_handler(HTTPException, _http_error)
    _add_questions(app, questions)
    _add_models(app, shelf, options)
    _add_health(app, shelf, metrics)
    add_pages(app)
    return app


def from_environment() -> FastAPI:
    """Return the application of a worker process."""
    log_to_standard_error()
    return create_app(ServeOptions.from_environment())


def log_to_standard_error() -> None:
    """Show what there is to tell about the service itself: models read again, failures."""
    logging.basicConfig(format="raregram: %(message)s", level=logging.WARNING)
    logging.getLogger("raregram.serve").setLevel(logging.INFO)


@asynccontextmanager
async def _life(shelf: Shelf, options: ServeOptions, app: FastAPI) -> AsyncIterator[None]:
    watching = asyncio.create_task(shelf.watch(options.poll))
    try:
        yield
    finally:
        watching.cancel()


def _add_questions(app: FastAPI, questions: Questions) -> None:
    """Describe whatever is asked with a body; `Guard` has it answered before a request gets here."""

    async def endpoint(request: Request) -> Response:
        direct = questions.direct[request.url.path]
        return Response(await direct(dict(request.scope["headers"]), request.receive), media_type=JSON)

    for path, (question, answer, model) in QUESTIONS.items():
        app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            name=answer.__name__,
            operation_id=answer.__name__,
            summary=answer.__doc__,
            response_model=None,
            responses=_responses(model, *REFUSALS),
            openapi_extra={"requestBody": _request_body(question)},
        )


def _add_models(app: FastAPI, shelf: Shelf, options: ServeOptions) -> None:
    @app.get("/api/models", responses=_responses(schemas.ModelsAnswer, 401), response_model=None)
    async def models() -> Response:
        """List the models."""
        listed = [answers.summary(served) for served in shelf]
        return as_json({"version": __version__, "max_bytes": options.max_bytes, "models": listed})

    @app.get("/api/models/{name:path}", responses=_responses(schemas.ModelAnswer, 401, 404, 422), response_model=None)
    async def model(name: str) -> Response:
        """Say all that there is to say about a model."""
        served = answered(lambda: answers.find(shelf, name))
        return as_json(await anyio.to_thread.run_sync(lambda: served.facts))


def _add_health(app: FastAPI, shelf: Shelf, metrics: Metrics) -> None:
    @app.get("/live", responses=_responses(schemas.Readiness), response_model=None)
    @app.get("/ready", responses=_responses(schemas.Readiness), response_model=None)
    async def ready() -> Response:
        """Say that the service answers: it does so only with all its models read."""
        return as_json({"ready": True, "models": shelf.names})

    @app.get("/metrics", response_model=None, responses={**_errors(401), 200: {"content": {"text/plain": {}}}})
    async def counted() -> Response:
        """Return counters for Prometheus, of all processes of the service."""
        more = {
            "models": len(shelf.names),
            "model_reloads_total": shelf.reloads,
            "model_reload_failures_total": shelf.failures,
        }
        return Response(metrics.text(more), media_type="text/plain; version=0.0.4")


def as_json(value: Any) -> Response:
    """Return an answer."""
    return Response(to_json(value), media_type=JSON)


def _request_body(question: type[BaseModel]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": question.model_json_schema()}}}


def _responses(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}, **_errors(*statuses)}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.ErrorAnswer, "description": REFUSALS[status]} for status in statuses}


async def _http_error(_: Request, error: Exception) -> Response:
    """Give what the framework refuses, such as an unknown path, the one form of all errors."""
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    refusal = Refusal(error.status_code, code, f"{error.detail}: the page /docs lists what can be asked")
    return Response(refusal.body(), error.status_code, dict(error.headers or {}), JSON)

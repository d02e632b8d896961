"""The application: routes, pages, limits and metrics put together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from raregram import __version__
from raregram.errors import RaregramError
from raregram.serve.errors import described, handle_error
from raregram.serve.handlers import router
from raregram.serve.limits import PAGES, THREADS, Guard, Limits
from raregram.serve.metrics import Metrics
from raregram.serve.registry import Registry

ABOUT = """Likelihood ratios of N-grams: how much likelier a context is before a name than anywhere else.
Every error has the form `{"error": {"code", "message"}}`. Texts are neither stored nor logged."""


def create_app(
    models: Sequence[str | Path] | None = None, limits: Limits | None = None, poll: float = 1.0
) -> FastAPI:
    """Read models and return the application that serves them.

    Args:
        models: model files; None: those that the environment variable RAREGRAM_MODELS names, separated as in PATH.
        limits: what the service allows.
        poll: seconds between looks at the model files.
    """
    if models is None:
        models = [path for path in os.environ.get("RAREGRAM_MODELS", "").split(os.pathsep) if path]
    metrics, limits = Metrics(), limits or Limits()
    registry = Registry(models, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        watching = asyncio.create_task(registry.watch(poll))
        try:
            yield
        finally:
            watching.cancel()

    app = FastAPI(
        title="raregram",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.registry, app.state.limits = registry, limits
    app.add_middleware(Guard, limits=limits, metrics=metrics)
    for kind in (HTTPException, RequestValidationError, RaregramError):
        app.add_exception_handler(kind, handle_error)
    app.include_router(router)

    @app.get("/metrics", response_model=None, responses={**described(401), 200: {"content": {"text/plain": {}}}})
    async def exposition() -> Response:
        """Return metrics for Prometheus, of all processes of the service."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    static = StaticFiles(packages=[("raregram.serve", "static"), ("raregram.show", "static")])
    app.mount("/static", static)
    for path, file in PAGES.items():

        async def page(request: Request, file: str = file) -> Response:
            return await static.get_response(file, request.scope)

        app.add_api_route(path, page, include_in_schema=False)
    return app

"""The application: its routes and its lifespan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.routing import request_response
from starlette.staticfiles import StaticFiles

from raregram import __version__
from raregram.errors import RaregramError
from raregram.serve import handlers, schemas
from raregram.serve.errors import DESCRIPTIONS, RequestError, handle_error
from raregram.serve.guard import Guard
from raregram.serve.metrics import Metrics
from raregram.serve.options import ServeOptions
from raregram.serve.registry import Registry
from raregram.serve.routes import PAGES, ROUTES, Route

ABOUT = """Likelihood ratios of N-grams: how much likelier a context is before a name than anywhere else.
Every error has the form `{"error": {"code", "message"}}`. Texts are neither stored nor logged."""
JSON = "application/json"
THREADS = 2  # requests handled in threads at a time


def create_app(options: ServeOptions) -> FastAPI:
    """Read the models and return the application."""
    metrics = Metrics()
    service = Service(Registry(options, metrics))
    app = FastAPI(
        title="raregram",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=service.lifespan,
    )
    app.router.route_class = RequestRoute
    app.add_middleware(Guard, options=options, metrics=metrics)
    for kind in (HTTPException, RaregramError):
        app.add_exception_handler(kind, handle_error)
    for route in ROUTES:
        _add_route(app, route, service)

    @app.get("/metrics", response_model=None, responses={**_errors(401), 200: {"content": {"text/plain": {}}}})
    async def exposition(request: Request) -> Response:
        """Return metrics for Prometheus, of all processes of the service."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    static = StaticFiles(packages=[("raregram.serve", "static")])
    app.mount("/static", static)
    for path, file in PAGES.items():

        async def page(request: Request, file: str = file) -> Response:
            return await static.get_response(file, request.scope)

        app.add_api_route(path, page, include_in_schema=False)
    return app


def from_environment() -> FastAPI:
    """Return the application of a worker process."""
    log_to_standard_error()
    return create_app(ServeOptions.from_environment())


def log_to_standard_error() -> None:
    """Log reloads of models and failures."""
    logging.basicConfig(format="raregram: %(message)s", level=logging.WARNING)
    logging.getLogger("raregram.serve").setLevel(logging.INFO)


class RequestRoute(APIRoute):
    """A route whose endpoint takes the request itself: dependency injection would double the time of a request."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = request_response(self.endpoint)


class Service:
    """Runs handlers: small requests in the event loop, others in a few threads."""

    def __init__(self, registry: Registry) -> None:
        self.registry, self.options = registry, registry.options
        self.executor = ThreadPoolExecutor(THREADS, "raregram-serve")
        self.pending = 0  # requests that are in a thread or wait for one

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Watch the model files while the application runs."""
        watching = asyncio.create_task(self.registry.watch())
        try:
            yield
        finally:
            watching.cancel()
            self.executor.shutdown(wait=False, cancel_futures=True)

    async def respond(self, route: Route, request: Request) -> Response:
        """Return the response to a request."""
        body, arguments = b"", request.path_params  # type: bytes, Any
        if route.request is not None:
            body = await request.body()
            arguments = route.request.parse(body)
        check = handlers.deadline(self.options.timeout)
        handle = partial(route.handler, self.registry, arguments, check)
        content = _to_json(handle) if len(body) <= route.inline else await self._in_thread(handle)
        return Response(content, media_type=JSON)

    async def _in_thread(self, handle: Callable[[], Any]) -> bytes:
        if self.pending >= THREADS + self.options.max_waiting:
            message = "too many requests are waiting: try again in a moment"
            raise RequestError(503, "busy", message, {"Retry-After": "1"})
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, _to_json, handle)
        finally:
            self.pending -= 1


def _to_json(handle: Callable[[], Any]) -> bytes:
    return orjson.dumps(handle(), option=orjson.OPT_SERIALIZE_NUMPY)


def _add_route(app: FastAPI, route: Route, service: Service) -> None:
    async def endpoint(request: Request) -> Response:
        return await service.respond(route, request)

    extra: dict[str, Any] = {}
    errors = [401] if route.path.startswith("/api/") else []
    if route.request is not None:
        content = {JSON: {"schema": route.request.model_json_schema()}}
        extra, errors = {"requestBody": {"required": True, "content": content}}, list(DESCRIPTIONS)
    elif "{name" in route.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        extra, errors = {"parameters": [name]}, [401, 404, 503]
    app.add_api_route(
        route.path,
        endpoint,
        methods=["GET" if route.request is None else "POST"],
        operation_id=route.handler.__name__,
        summary=route.handler.__doc__,
        response_model=None,
        responses={200: {"model": route.response}, **_errors(*errors)},
        openapi_extra=extra,
    )


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.ErrorResponse, "description": DESCRIPTIONS[status]} for status in statuses}

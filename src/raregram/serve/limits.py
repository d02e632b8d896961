"""What a service allows, and what sees to it: a middleware for all requests, a route for those that are handled."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import time
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from anyio.to_thread import current_default_thread_limiter
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raregram.errors import ParameterError
from raregram.serve.errors import RequestError, error_response
from raregram.serve.metrics import Metrics
from raregram.serve.registry import Registry

log = logging.getLogger("raregram.serve")

THREADS = 4  # in which requests are handled, and files of the page read
PAGES = {"/": "index.html", "/docs": "docs.html"}
NO_RESPONSE = 499  # the status in the metrics of requests whose client has disconnected
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


@dataclass(frozen=True)
class Limits:
    """What a service allows."""

    token: str | None = field(default_factory=lambda: os.environ.get("RAREGRAM_TOKEN"))  # that requests must bring
    hosts: tuple[str, ...] = ()  # names by which the service may be called, beside localhost and IP addresses
    max_bytes: int = 8_000_000  # of a request
    timeout: float = 30.0  # seconds until a response begins
    max_waiting: int = 64  # requests that wait for a thread

    def __post_init__(self) -> None:
        """Check the token and the timeout."""
        if self.token is not None and not re.fullmatch("[!-~]+", self.token):
            raise ParameterError("a token takes plain letters, digits and signs without spaces")
        if not self.timeout > 0:
            raise ParameterError(f"a time limit takes a number of seconds above 0, got {self.timeout:g}")

    def check_size(self, size: int) -> None:
        """Raise if a request has more bytes than it may."""
        if size > self.max_bytes:
            message = f"a request may have {self.max_bytes:,} bytes at most: send less at a time"
            raise RequestError(413, "too_large", message, {"Connection": "close"})

    def check_threads(self) -> None:
        """Raise if too many requests are handled or wait for a thread."""
        threads = current_default_thread_limiter().statistics()
        if threads.borrowed_tokens + threads.tasks_waiting >= THREADS + self.max_waiting:
            message = "too many requests are waiting: try again in a moment"
            raise RequestError(503, "busy", message, {"Retry-After": "1"})


class Guard:
    """Middleware: passes requests on whose heads are within the limits, counts all, and responds to faults."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and add headers to its response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, route, status = time.perf_counter(), route_label(scope["path"]), NO_RESPONSE
        headers = [*HEADERS, (b"cache-control", b"no-cache" if route == "page" else b"no-store")]
        size = 0

        async def receive_within_limits() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            self.limits.check_size(size)  # again, since a body in chunks comes without its length
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        try:
            self._check(scope["method"], scope["path"], route, dict(scope["headers"]))
            await self.app(scope, receive_within_limits, send_with_headers)
        except ClientDisconnect:
            pass
        except Exception as error:
            if not isinstance(error, RequestError):
                # Without the message, which may quote a text.
                frame = traceback.extract_tb(error.__traceback__)[-1]
                log.error("%s at %s, line %s", type(error).__name__, frame.name, frame.lineno)
            if status == NO_RESPONSE:
                await error_response(error)(scope, receive, send_with_headers)
        finally:
            self.metrics.observe(route, status, time.perf_counter() - start)

    def _check(self, method: str, path: str, route: str, headers: dict[bytes, bytes]) -> None:
        """Raise unless the headers show a known host, the token, JSON and an allowed size."""
        if not _is_known_host(headers.get(b"host", b"").decode("latin-1"), self.limits.hosts):
            message = "this host name is not allowed; start the service with --allow-host NAME"
            raise RequestError(421, "wrong_host", message)
        if self.limits.token is not None and route != "page" and path not in ("/live", "/ready"):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given, self.limits.token.encode()):
                message = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
                raise RequestError(401, "token_needed", message, {"WWW-Authenticate": "Bearer"})
        content_type = headers.get(b"content-type", b"").partition(b";")[0]
        if method == "POST" and content_type.strip().lower() != b"application/json":
            raise RequestError(415, "not_json", "send JSON, with the header 'Content-Type: application/json'")
        length = headers.get(b"content-length", b"0")
        self.limits.check_size(int(length) if length.isdigit() else self.limits.max_bytes + 1)


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

    def check_time(self) -> None:
        """Raise once the time is over: a thread cannot be stopped from outside."""
        if time.monotonic() > self.deadline:
            raise TimeoutError


class ServiceRoute(APIRoute):
    """A route whose handler gets a `ServiceRequest`, and responds within the time limit."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_in_time(request: Request) -> Response:
            request = ServiceRequest(request.scope, request.receive)
            seconds, arrived = request.limits.timeout, request.method != "POST"
            try:
                async with asyncio.timeout(seconds):
                    if not arrived:
                        await request.body()
                        arrived = True
                        request.limits.check_threads()
                    return await handle(request)
            except TimeoutError:
                if not arrived:
                    message = f"the request did not arrive within {seconds:g} s: send it again"
                    raise RequestError(408, "too_slow", message) from None
                message = f"the response takes longer than {seconds:g} s: send less at a time"
                raise RequestError(503, "too_long", message) from None

        return handle_in_time


def route_label(path: str) -> str:
    """Return the label of a path in the metrics; there are few, whatever paths are requested.

    >>> [route_label(path) for path in ("/api/score", "/api/models/LOC", "/static/main.js", "/api", "/ready")]
    ['score', 'models', 'page', 'other', 'other']
    """
    if path in PAGES or path.startswith("/static/"):
        return "page"
    found = re.match(r"/api/(score|texts|explain|changes|rank|models)(/|$)", path)
    return found[1] if found else "other"


@lru_cache(64)
def _is_known_host(host: str, names: tuple[str, ...]) -> bool:
    """Whether a host is an IP address, localhost or an allowed name; any other name may be DNS rebinding.

    Starlette's `TrustedHostMiddleware` knows no addresses in general, and its refusal is plain text.
    """
    name = re.sub(r":[0-9]+$", "", host).strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower() == "localhost" or name in names
    return True

"""What a service allows, and the middleware that guards it: host, token, size and time of requests."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import time
import traceback
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raregram.errors import ParameterError
from raregram.serve.errors import RequestError, error_response, too_long
from raregram.serve.metrics import Metrics

log = logging.getLogger("raregram.serve")

PAGES = {"/": "index.html", "/docs": "docs.html"}
API = ("score", "texts", "explain", "changes", "rank", "models")
NO_RESPONSE = 499  # the status in the metrics of requests whose client has disconnected
CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
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
        token = self.token
        if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
            raise ParameterError("a token takes plain letters, digits and signs without spaces")
        if not self.timeout > 0:
            raise ParameterError(f"a time limit takes a number of seconds above 0, got {self.timeout:g}")


class Guard:
    """Passes requests within the limits to the application, and counts them."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on; errors of the application are logged without their messages."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, label = time.perf_counter(), route_label(scope["path"])
        exchange = Exchange(self.limits, receive, send, b"no-cache" if label == "page" else b"no-store")
        try:
            self._check(scope["method"], scope["path"], label, dict(scope["headers"]))
            async with asyncio.timeout(self.limits.timeout) as exchange.timer:
                await self.app(scope, exchange.receive, exchange.send)
        except Exception as error:
            if (response := exchange.response_to(error)) is not None:
                await response(scope, receive, exchange.send)
        finally:
            self.metrics.observe(label, exchange.status, time.perf_counter() - start)

    def _check(self, method: str, path: str, label: str, headers: dict[bytes, bytes]) -> None:
        """Raise unless the headers show a known host, the token, JSON and an allowed size."""
        if not _is_known_host(headers.get(b"host", b"").decode("latin-1"), self.limits.hosts):
            message = "this host name is not allowed; start the service with --allow-host NAME"
            raise RequestError(421, "wrong_host", message)
        if self.limits.token is not None and label != "page" and path not in ("/live", "/ready"):
            expected = f"Bearer {self.limits.token}".encode()
            if not hmac.compare_digest(headers.get(b"authorization", b""), expected):
                message = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
                raise RequestError(401, "token_needed", message, {"WWW-Authenticate": "Bearer"})
        content_type = headers.get(b"content-type", b"").partition(b";")[0]
        if method == "POST" and content_type.strip().lower() != b"application/json":
            raise RequestError(415, "not_json", "send JSON, with the header 'Content-Type: application/json'")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.limits.max_bytes:
            raise _too_large(self.limits.max_bytes)


class Exchange:
    """One request and its response: counts what arrives, adds headers, and knows how far it came."""

    def __init__(self, limits: Limits, receive: Receive, send: Send, cache_control: bytes) -> None:
        self.limits, self._receive, self._send = limits, receive, send
        self.headers = [*HEADERS, (b"cache-control", cache_control)]
        self.timer: asyncio.Timeout | None = None  # while it runs
        self.size, self.arrived, self.status = 0, False, NO_RESPONSE

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        self.size += len(message.get("body", b""))
        if self.size > self.limits.max_bytes:  # in chunks, without a content length
            raise _too_large(self.limits.max_bytes)
        self.arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response; from its start on it may take as long as the client needs."""
        if message["type"] == "http.response.start":
            if self.timer is not None:
                self.timer.reschedule(None)
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self.headers]
        await self._send(message)

    def response_to(self, error: Exception) -> Response | None:
        """Return the response to an error, if it can still be sent; log one that is a fault of the service."""
        timer, self.timer, seconds = self.timer, None, self.limits.timeout
        if isinstance(error, ClientDisconnect):
            return None
        if timer is not None and timer.expired():
            late = f"the request did not arrive within {seconds:g} s: send it again"
            error = too_long(seconds) if self.arrived else RequestError(408, "too_slow", late)
        elif not isinstance(error, RequestError):
            # Without the message, which may quote a text.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s at %s, line %s", type(error).__name__, frame.name, frame.lineno)
        return error_response(error) if self.status == NO_RESPONSE else None


def route_label(path: str) -> str:
    """Return the label of a path in the metrics; there are few, whatever paths are requested.

    >>> [route_label(path) for path in ("/api/score", "/api/models/LOC", "/static/main.js", "/api", "/ready")]
    ['score', 'models', 'page', 'other', 'other']
    """
    if path in PAGES or path.startswith("/static/"):
        return "page"
    name = path.split("/", 3)[2] if path.startswith("/api/") else ""
    return name if name in API else "other"


def _too_large(max_bytes: int) -> RequestError:
    message = f"a request may have {max_bytes:,} bytes at most: send less at a time"
    return RequestError(413, "too_large", message, {"Connection": "close"})


@lru_cache(64)
def _is_known_host(host: str, names: tuple[str, ...]) -> bool:
    """Whether a host is an IP address, localhost or an allowed name; any other name may be DNS rebinding.

    Starlette's `TrustedHostMiddleware` knows no addresses in general, and its refusal is plain text.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

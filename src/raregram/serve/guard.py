"""The middleware around the application: host, token, size and time limits; security headers; metrics."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
import traceback
from functools import lru_cache

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raregram.serve.errors import RequestError, error_response, too_long
from raregram.serve.metrics import Metrics
from raregram.serve.options import ServeOptions
from raregram.serve.routes import PAGE, needs_token, route_label

log = logging.getLogger("raregram.serve")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
NO_RESPONSE = 499  # the status in the metrics of requests whose client has disconnected


class Guard:
    """Passes requests within the limits to the application."""

    def __init__(self, app: ASGIApp, options: ServeOptions, metrics: Metrics) -> None:
        self.app, self.options, self.metrics = app, options, metrics
        self.token = b"" if options.token is None else f"Bearer {options.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, and count it; errors of the application are logged without their messages."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, label = time.perf_counter(), route_label(scope["path"])
        exchange = Exchange(receive, send, self.options, b"no-cache" if label == PAGE else b"no-store")
        try:
            self._check(scope["method"], scope["path"], dict(scope["headers"]))
            await self.app(scope, exchange.receive, exchange.send)
        except HTTPException as error:
            await error_response(error)(scope, receive, exchange.send)
        except asyncio.CancelledError:
            if not exchange.expired:
                raise
            await error_response(exchange.timeout_error())(scope, receive, exchange.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            # Without the message, which may quote a text.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s at %s, line %s", type(error).__name__, frame.name, frame.lineno)
            if exchange.status == NO_RESPONSE:
                await error_response(error)(scope, receive, exchange.send)
        finally:
            exchange.timer.cancel()
            self.metrics.observe(label, exchange.status, time.perf_counter() - start)

    def _check(self, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        """Raise unless the headers show a known host, the token, JSON and an allowed size."""
        if not _is_known_host(headers.get(b"host", b"").decode("latin-1"), self.options.hosts):
            message = "this host name is not allowed; start the service with --allow-host NAME"
            raise RequestError(421, "wrong_host", message)
        sent = headers.get(b"authorization", b"")
        if self.token and needs_token(path) and not hmac.compare_digest(sent, self.token):
            message = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
            raise RequestError(401, "token_needed", message, {"WWW-Authenticate": "Bearer"})
        content_type = headers.get(b"content-type", b"").partition(b";")[0]
        if method == "POST" and content_type.strip().lower() != b"application/json":
            raise RequestError(415, "not_json", "send JSON, with the header 'Content-Type: application/json'")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.options.max_bytes:
            raise _too_large(self.options.max_bytes)


class Exchange:
    """One request and its response: counts the bytes received, watches the time and adds headers.

    A timer of the event loop costs a microsecond per request, anyio's cancel scope forty; `asyncio.timeout`
    does the same.
    """

    def __init__(self, receive: Receive, send: Send, options: ServeOptions, cache_control: bytes) -> None:
        self._receive, self._send, self.options = receive, send, options
        self.headers = [*HEADERS, (b"cache-control", cache_control)]
        self.received, self.complete, self.expired, self.status = 0, False, False, NO_RESPONSE
        self.task = asyncio.current_task()
        self.timer = asyncio.get_running_loop().call_later(options.timeout, self._expire)

    def _expire(self) -> None:
        self.expired = True
        assert self.task is not None
        self.task.cancel()

    def timeout_error(self) -> RequestError:
        """Return the error of a request that was cancelled by its timer."""
        if self.task is not None:
            self.task.uncancel()
        seconds = self.options.timeout
        if self.complete:
            return too_long(seconds)
        return RequestError(408, "too_slow", f"the request did not arrive within {seconds:g} s: send it again")

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        self.received += len(message.get("body", b""))
        if self.received > self.options.max_bytes:  # in chunks, without a content length
            raise _too_large(self.options.max_bytes)
        self.complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response; from its start on it may take as long as the client needs."""
        if message["type"] == "http.response.start":
            self.timer.cancel()
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self.headers]
        await self._send(message)


def _too_large(max_bytes: int) -> RequestError:
    message = f"a request may have {max_bytes:,} bytes at most: send less at a time"
    return RequestError(413, "too_large", message, {"Connection": "close"})


@lru_cache(64)
def _is_known_host(host: str, names: tuple[str, ...]) -> bool:
    """Whether a host is an IP address, localhost or an allowed name; any other name may be DNS rebinding."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

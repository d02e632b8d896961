"""What every request passes: who may ask, from where and how much; security headers; counters; no trace of texts."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raregram.serve.metrics import Metrics
from raregram.serve.options import ServeOptions

log = logging.getLogger("raregram.serve")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
NO_STORE = (b"cache-control", b"no-store")
OPEN = ("/", "/docs", "/live", "/ready")  # what needs no token, beside the page's own files
SPOKEN = {  # of a route: how its requests are counted
    "/api/score": "score",
    "/api/texts": "texts",
    "/api/explain": "explain",
    "/api/changes": "changes",
    "/api/rank": "rank",
    "/api/models": "models",
    "/": "page",
    "/docs": "page",
}


Direct = Callable[[dict[bytes, bytes], Receive], Awaitable[bytes]]  # headers and body in, JSON out


class Refusal(Exception):  # noqa: N818 - it is an answer, not a mistake of ours
    """An answer that refuses a request."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers

    def body(self) -> bytes:
        """Return the one form of all errors."""
        return orjson.dumps({"error": {"code": self.code, "message": str(self)}})


class Guard:
    """Middleware around the whole application.

    Questions with a body are answered from here: the ways of the framework would take longer than the answers.
    """

    def __init__(
        self, app: ASGIApp, options: ServeOptions, metrics: Metrics, direct: Mapping[str, Direct] | None = None
    ) -> None:
        self.app, self.options, self.metrics, self.direct = app, options, metrics, direct or {}
        self.token = None if options.token is None else f"Bearer {options.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, let the application answer it, and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, path = time.perf_counter(), 499, scope["path"]  # 499: whoever asked has gone
        route = _route(path)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                headers.extend(HEADERS)
                if route != "page":
                    headers.append(NO_STORE)
            await send(message)

        try:
            headers = dict(scope["headers"])
            receive = self._check(path, headers, receive)
            if path in self.direct and scope["method"] == "POST":
                await send_json(200, await self.direct[path](headers, receive), answer)
            else:
                await self.app(scope, receive, answer)
        except Refusal as refusal:
            await refuse(refusal, answer)
        except Exception as error:  # the one place that must not fail
            log.error("%s at %s", type(error).__name__, _place_of(error))
            if status == 499:
                await refuse(Refusal(500, "failed", "the service failed at this request; it goes on"), answer)
        finally:
            self.metrics.count(route, status, time.perf_counter() - start)

    def _check(self, path: str, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """Raise for what is refused from its head alone; return what receives no more than is allowed."""
        if not _is_known_host(headers.get(b"host", b"").decode("latin-1"), self.options.hosts):
            raise Refusal(
                421,
                "wrong_host",
                "the service does not know this host name; start it with --allow-host NAME to call it by a name",
            )
        if self.token is not None and path not in OPEN and not path.startswith("/static/"):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self.token):
                raise Refusal(
                    401,
                    "token_needed",
                    "the service wants its token: send the header 'Authorization: Bearer TOKEN'",
                    **{"WWW-Authenticate": "Bearer"},
                )
        length = headers.get(b"content-length")
        if length is None:
            return _limited(receive, self.options.max_bytes) if b"transfer-encoding" in headers else receive
        if not length.isdigit() or int(length) > self.options.max_bytes:
            raise too_large(self.options.max_bytes)
        return receive


def too_large(max_bytes: int) -> Refusal:
    """Return what to say of a request that is too large."""
    return Refusal(
        413, "too_large", f"a request may have {max_bytes:,} bytes at most: send less at a time", Connection="close"
    )


def _limited(receive: Receive, max_bytes: int) -> Receive:
    """Count what comes in pieces of which nobody said how many there are."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise too_large(max_bytes)
        return message

    return counted


@lru_cache(64)
def _is_known_host(host: str, names: tuple[str, ...]) -> bool:
    """Whether a service is called by a number, as localhost, or by a name that was allowed.

    Any other name may belong to a page elsewhere that had it point here, to read what is not meant for it.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


async def refuse(refusal: Refusal, send: Send) -> None:
    """Send a refusal."""
    more = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    await send_json(refusal.status, refusal.body(), send, *more)


async def send_json(status: int, body: bytes, send: Send, *more: tuple[bytes, bytes]) -> None:
    """Send an answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _route(path: str) -> str:
    if path in SPOKEN:
        return SPOKEN[path]
    return "page" if path.startswith("/static/") else "models" if path.startswith("/api/models/") else "other"


def _place_of(error: Exception) -> Any:
    """Name the line that raised; the message stays out of the log, since it may quote a text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}, line {frames[-1].lineno}" if frames else "an unknown place"

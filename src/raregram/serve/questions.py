"""From the bytes of a question to the bytes of its answer, within the limits: size, time, and how many at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
import orjson
from pydantic import BaseModel, ValidationError
from starlette.types import Receive

from raregram.errors import RaregramError
from raregram.serve import answers, schemas
from raregram.serve.answers import Check, TimeOverError, UnknownModelError, deadline
from raregram.serve.guard import Direct, Refusal
from raregram.serve.models import Shelf

SMALL = 4096  # bytes of a question that is answered at once; larger ones go to another thread
THREADS = 2  # questions answered there at a time
WAITING = 64  # questions that may wait for that
JSON = "application/json"
Answer = Callable[[Shelf, Any, Check], dict[str, Any]]
QUESTIONS: dict[str, tuple[type[BaseModel], Answer, type[BaseModel]]] = {
    "/api/score": (schemas.ScoreQuestion, answers.score, schemas.ScoreAnswer),
    "/api/texts": (schemas.TextsQuestion, answers.texts, schemas.TextsAnswer),
    "/api/explain": (schemas.ExplainQuestion, answers.explain, schemas.ExplainAnswer),
    "/api/changes": (schemas.ChangesQuestion, answers.changes, schemas.ChangesAnswer),
    "/api/rank": (schemas.RankQuestion, answers.rank, schemas.RankAnswer),
}
QUICK = ("/api/score", "/api/texts")  # a small one of these takes less than going to another thread


class Questions:
    """Answers questions about the models of a shelf."""

    def __init__(self, shelf: Shelf, seconds: float) -> None:
        self.shelf, self.seconds = shelf, seconds
        self._limiter: anyio.CapacityLimiter | None = None  # belongs to a running event loop
        self.direct: dict[str, Direct] = {path: self._answerer(path) for path in QUESTIONS}

    def _answerer(self, path: str) -> Direct:
        question, _, _ = QUESTIONS[path]
        answer = getattr(answers, QUESTIONS[path][1].__name__)

        async def direct(headers: dict[bytes, bytes], receive: Receive) -> bytes:
            body = await _body(headers, receive, self.seconds)
            work = partial(answer, self.shelf, _parse(question, body), deadline(self.seconds))
            if path in QUICK and len(body) <= SMALL:
                return to_json(answered(work))
            return await self._elsewhere(work)

        return direct

    async def _elsewhere(self, work: Callable[[], Any]) -> bytes:
        """Answer in another thread, so that small questions need not wait for large ones."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(THREADS)
        if self._limiter.statistics().tasks_waiting >= WAITING:
            raise Refusal(503, "busy", "too many requests are waiting: try again in a moment", **{"Retry-After": "1"})
        try:
            with anyio.fail_after(self.seconds):
                return await anyio.to_thread.run_sync(
                    lambda: to_json(answered(work)), limiter=self._limiter, abandon_on_cancel=True
                )
        except TimeoutError:
            raise Refusal(503, "too_long", f"the answer takes longer than {self.seconds:g} s, send less") from None


class Within:
    """Raises `TimeoutError` inside a block that takes longer; `asyncio.timeout` came with Python 3.11."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.over = seconds, False

    def __enter__(self) -> None:
        self.task = asyncio.current_task()
        self.handle = asyncio.get_running_loop().call_later(self.seconds, self._end)

    def _end(self) -> None:
        self.over = True
        if self.task is not None:
            self.task.cancel()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self.handle.cancel()
        if self.over and kind is asyncio.CancelledError:
            if sys.version_info >= (3, 11) and self.task is not None:
                self.task.uncancel()
            raise TimeoutError


async def _body(headers: dict[bytes, bytes], receive: Receive, seconds: float) -> bytes:
    """Receive a body that says that it is JSON."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        raise Refusal(415, "not_json", "send JSON, with the header 'Content-Type: application/json'")
    parts = []
    try:
        with Within(seconds):
            while True:
                message = await receive()
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, "too_slow", f"the request did not arrive within {seconds:g} s: send it again") from None


def _parse(question: type[BaseModel], body: bytes) -> BaseModel:
    """Read a question; the message names what is wrong and where, and quotes nothing."""
    try:
        return question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise Refusal(400, "not_json", f"the body is not valid JSON. {first['msg']}") from None
        known = list(question.model_fields)  # beside them, pydantic names the types that it tried
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in known)
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message = f"there is no such field; there is {', '.join(known)}"
        raise Refusal(422, "wrong_question", f"{place or 'the question'}: {message}") from None


def answered(work: Callable[[], Any]) -> Any:
    """Return an answer; what the models refuse becomes a refusal."""
    try:
        return work()
    except UnknownModelError as error:
        raise Refusal(404, "unknown_model", str(error)) from None
    except TimeOverError as error:
        raise Refusal(503, "too_long", str(error)) from None
    except RaregramError as error:
        raise Refusal(422, "wrong_input", str(error)) from None


def to_json(value: Any) -> bytes:
    """Return JSON; arrays of NumPy are written as they are."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)

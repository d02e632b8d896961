"""The load on the service: threads that ask, and compare every answer with what the library says.

Most requests are proper questions of all sizes. The others are what a service meets in the open: bodies that are no
question, requests that are too large, clients that go away in the middle and clients that send a byte now and then.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HOST = "127.0.0.1"
TIMEOUT = 30.0  # seconds until an answer that does not come counts as a failure
KEPT = 3.0  # seconds that a connection may be idle; the service hangs up after five
SLOW = 1.5  # seconds that a slow client takes to send a question
PIECES = 10
JSON = {"Content-Type": "application/json"}
BAD: tuple[tuple[str, bytes, dict[str, str], int], ...] = (
    ("/api/score", b"{", JSON, 400),
    ("/api/score", b"\xff\xfe\x00", JSON, 400),
    ("/api/score", b'{"contexts": []}', JSON, 422),
    ("/api/score", b'{"contexts": [7], "models": ["PER"]}', JSON, 422),
    ("/api/score", b'{"contexts": ["a b c d"], "models": ["none"]}', JSON, 404),
    ("/api/explain", b'{"context": "a b c d", "model": "LOC", "level": 2}', JSON, 422),
    ("/api/rank", b'{"text": "a b c d", "model": "LOC", "top": 0}', JSON, 422),
    ("/api/texts", b"{}", {"Content-Type": "text/plain"}, 415),
    ("/api/nothing", b"{}", JSON, 404),
)
PLAIN = ("/", "/docs", "/api/models", "/metrics", "/ready", "/openapi.json")
MIX = {"ask": 800, "plain": 40, "bad": 80, "too_large": 20, "drop": 38, "slow": 20, "stall": 2}  # of a thousand


@dataclass
class Page:
    """The questions of one round, with what the models before it and of it say."""

    questions: list[dict[str, Any]]
    settled: bool = False  # whether the service has read all models of this round
    under_way: int = 0  # requests


class Book:
    """The page that clients ask from. A page is turned while they go on."""

    def __init__(self, page: Page) -> None:
        self._page, self._changed = page, threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[tuple[Page, bool]]:
        """Give the page, and whether only the new models can answer, to one request."""
        with self._changed:
            page = self._page
            page.under_way += 1
            settled = page.settled
        try:
            yield page, settled
        finally:
            with self._changed:
                page.under_way -= 1
                self._changed.notify_all()

    def turn(self, page: Page) -> None:
        """Let clients ask from a new page; return when nobody waits for an answer from the old one."""
        with self._changed:
            old, self._page = self._page, page
            if not self._changed.wait_for(lambda: not old.under_way, 2 * TIMEOUT):
                raise TimeoutError("a request of the round before has no answer")


@dataclass
class Tally:
    """What was asked, and what went wrong."""

    asked: Counter[str] = field(default_factory=Counter)
    compared: int = 0  # answers, number by number
    while_changing: int = 0  # of these, those by a model of the round before
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds that a proper question took
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, kind: str) -> None:
        with self.lock:
            self.asked[kind] += 1

    def complain(self, what: str) -> None:
        with self.lock:
            self.wrong.append(what)


class Client(threading.Thread):
    """Asks until it is ended."""

    def __init__(self, port: int, book: Book, tally: Tally, seed: int, pause: float) -> None:
        super().__init__(name=f"client {seed}", daemon=True)
        self.port, self.book, self.tally, self.pause = port, book, tally, pause
        self.ended, self._random = threading.Event(), random.Random(seed)
        self._connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
        self._answered = time.monotonic()

    def run(self) -> None:
        """Draw one kind of request after another."""
        kinds: dict[str, Callable[[], None]] = {kind: getattr(self, f"_{kind}") for kind in MIX}
        while not self.ended.wait(self.pause * 2 * self._random.random()):
            (kind,) = self._random.choices(list(MIX), list(MIX.values()))
            self.tally.count(kind)
            try:
                kinds[kind]()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.tally.complain(f"{kind}: {type(error).__name__}: {error}")
                self._connection.close()
        self._connection.close()

    def _send(self, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, bytes]:
        """Send a request on the connection that is kept; return status and body of the answer."""
        if time.monotonic() - self._answered > KEPT:
            self._connection.close()  # it opens again by itself
        self._connection.request(method, path, body, headers or {})
        answer = self._connection.getresponse()
        body = answer.read()
        self._answered = time.monotonic()
        return answer.status, body

    def _expect(self, status: int, wanted: int, what: str) -> None:
        if status != wanted:
            self.tally.complain(f"{what}: status {status} instead of {wanted}")

    def _ask(self) -> None:
        with self.book.reading() as (page, settled):
            question = self._random.choice(page.questions)
            began = time.monotonic()
            status, body = self._send("POST", question["path"], json.dumps(question["body"]), JSON)
            self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
            self._compare(question, status, body, settled)

    def _compare(self, question: dict[str, Any], status: int, body: bytes, settled: bool) -> None:
        """Compare an answer with what the library says, by each model that it is of."""
        if status != 200:
            self.tally.complain(f"{question['path']}: status {status}: {body[:200]!r}")
            return
        before, now = question["facts"]
        found = facts(question, json.loads(body))
        old = 0
        for name, said in now.items():
            right = found.get(name) == said
            if not right and not settled and found.get(name) == before[name]:
                old, right = 1, True
            if not right:
                wanted = [said] if settled else [before[name], said]
                answer = f"{found.get(name)!s:.300}, not {wanted!s:.300}, to {question['body']!s:.300}"
                self.tally.complain(f"{question['path']} of {name}: {answer}")
        with self.tally.lock:
            self.tally.compared += 1
            self.tally.while_changing += old

    def _plain(self) -> None:
        path = self._random.choice(PLAIN)
        status, _ = self._send("GET", path)
        self._expect(status, 200, path)

    def _bad(self) -> None:
        path, body, headers, wanted = self._random.choice(BAD)
        status, answer = self._send("POST", path, body, headers)
        self._expect(status, wanted, f"{path} with {body!r}")
        if list(json.loads(answer)) != ["error"]:
            self.tally.complain(f"{path}: an error of another form: {answer[:200]!r}")

    def _too_large(self) -> None:
        """Announce too much, or send it in pieces without a word; the service refuses and hangs up."""
        piece = b"x" * 100_000
        pieces = self._random.random() < 0.5
        length = {"Transfer-Encoding": "chunked"} if pieces else {"Content-Length": str(len(piece) * 100)}
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it refuses
            body = iter([piece] * 100) if pieces else piece
            self._connection.request("POST", "/api/texts", body, {**JSON, **length}, encode_chunked=pieces)
            answer = self._connection.getresponse()
            answer.read()
            self._expect(answer.status, 413, "too large")
        self._connection.close()

    def _drop(self) -> None:
        """Go away in the middle of the head, in the middle of the body, or before the answer."""
        with self.book.reading() as (page, _):
            head, body = wire(self._random.choice(page.questions))
        sent = self._random.choice([head[: len(head) // 2], head + body[: len(body) // 2], head + body])
        with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
            connection.sendall(sent)

    def _slow(self) -> None:
        """Send a question in small pieces, and expect a proper answer all the same."""
        with self.book.reading() as (page, settled):
            question = self._random.choice(page.questions)
            head, body = wire(question)
            with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
                for piece in np.array_split(np.frombuffer(head + body, np.uint8), PIECES):
                    connection.sendall(piece.tobytes())
                    time.sleep(SLOW / PIECES)
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                self._compare(question, answer.status, answer.read(), settled)

    def _stall(self) -> None:
        """Send half a question and no more; the service says that it has waited long enough."""
        with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
            head, body = wire({"path": "/api/score", "body": {"contexts": ["a b c d"]}})
            connection.sendall(head + body[:5])
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            self._expect(answer.status, 408, "half a question")


def wire(question: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the head and the body of a request as they go over the wire."""
    body = json.dumps(question["body"]).encode()
    lines = [f"POST {question['path']} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode(), body


def facts(question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared of an answer, by the name of the model."""
    path, body = question["path"], question["body"]
    if path == "/api/score":
        return dict(answer["scores"])
    if path == "/api/texts":
        return dict(answer["texts"][0]["scores"])
    if path == "/api/explain":
        terms = [[term[key] for key in ("start", "end", "value", "f_nu", "f_de")] for term in answer["terms"]]
        return {body["model"]: [answer["log_ratio"], answer["interval"], terms]}
    if path == "/api/rank":
        return {body["model"]: [[row["log_ratio"], *row["items"]] for row in answer["ranking"]]}
    return {body["model"]: answer["log_ratio"]}

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HOST = "127.0.0.1"
TIMEOUT = 30.0  # seconds until an answer that does not come counts as a failure
SLOW, PIECES = 1.5, 10  # seconds and pieces in which a slow client sends a question
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


@dataclass(frozen=True)
class Question:
    """A request, and what the model of the round before and that of this round say."""

    path: str
    body: dict[str, Any]
    model: str
    facts: list[Any]

    def wire(self) -> tuple[bytes, bytes]:
        """Return the head and the body of a request as they go over the wire."""
        body = json.dumps(self.body).encode()
        lines = [f"POST {self.path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode(), body

    def fact_of(self, answer: dict[str, Any]) -> Any:
        """Return what is compared of an answer."""
        match self.path:
            case "/api/score":
                return answer["scores"][self.model]
            case "/api/texts":
                return answer["texts"][0]["scores"][self.model]
            case "/api/explain":
                keys = ("start", "end", "value", "f_nu", "f_de")
                terms = [[term[key] for key in keys] for term in answer["terms"]]
                return [answer["log_ratio"], answer["interval"], terms]
            case "/api/rank":
                return [[row["log_ratio"], *row["items"]] for row in answer["ranking"]]
        return answer["log_ratio"]


class Page:
    """The questions of one round. It is turned while clients go on to ask."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions, self._readers, self._changed = questions, Counter[int](), threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[Sequence[Question]]:
        """Give the questions to one request."""
        with self._changed:
            questions = self._questions
            self._readers[id(questions)] += 1
        try:
            yield questions
        finally:
            with self._changed:
                self._readers[id(questions)] -= 1
                self._changed.notify_all()

    def turn(self, questions: Sequence[Question]) -> None:
        """Let clients ask from new questions; return when nobody waits for an answer to an old one."""
        with self._changed:
            old, self._questions = self._questions, questions
            if not self._changed.wait_for(lambda: not self._readers[id(old)], 2 * TIMEOUT):
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

    def compare(self, question: Question, status: int, body: bytes) -> None:
        """Compare an answer with what the library says."""
        if status != 200:
            self.complain(f"{question.path}: status {status}: {body[:200]!r}")
            return
        found, (before, now) = question.fact_of(json.loads(body)), question.facts
        if found not in (before, now):
            self.complain(f"{question.path}: {found!s:.300}, not {now!s:.300}, to {question.body!s:.300}")
        with self.lock:
            self.compared += 1
            self.while_changing += found == before != now


class Client(threading.Thread):
    """Asks until it is ended."""

    def __init__(self, port: int, page: Page, tally: Tally, seed: int, pause: float) -> None:
        super().__init__(name=f"client {seed}", daemon=True)
        self.port, self.page, self.tally, self.pause = port, page, tally, pause
        self.ended, self._random = threading.Event(), random.Random(seed)

    def run(self) -> None:
        """Draw one kind of request after another."""
        while not self.ended.wait(self.pause * 2 * self._random.random()):
            (kind,) = self._random.choices(list(MIX), list(MIX.values()))
            self.tally.count(kind)
            try:
                getattr(self, f"_{kind}")()
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                self.tally.complain(f"{kind}: {type(error).__name__}: {error}")

    def _send(self, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT)
        try:
            connection.request(
                method, path, body, headers or {}, encode_chunked="Transfer-Encoding" in (headers or {})
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _expect(self, status: int, wanted: int, what: str) -> None:
        if status != wanted:
            self.tally.complain(f"{what}: status {status} instead of {wanted}")

    def _ask(self) -> None:
        with self.page.reading() as questions:
            question = self._random.choice(questions)
            began = time.monotonic()
            status, body = self._send("POST", question.path, json.dumps(question.body), JSON)
            self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
            self.tally.compare(question, status, body)

    def _plain(self) -> None:
        path = self._random.choice(PLAIN)
        self._expect(self._send("GET", path)[0], 200, path)

    def _bad(self) -> None:
        path, body, headers, wanted = self._random.choice(BAD)
        status, answer = self._send("POST", path, body, headers)
        self._expect(status, wanted, f"{path} with {body!r}")
        if list(json.loads(answer)) != ["error"]:
            self.tally.complain(f"{path}: an error of another form: {answer[:200]!r}")

    def _too_large(self) -> None:
        """Announce too much, or send it in pieces without a word; the service refuses and hangs up."""
        piece, pieces = b"x" * 100_000, self._random.random() < 0.5
        length = {"Transfer-Encoding": "chunked"} if pieces else {"Content-Length": str(len(piece) * 100)}
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it refuses
            status, _ = self._send("POST", "/api/texts", iter([piece] * 100) if pieces else piece, {**JSON, **length})
            self._expect(status, 413, "too large")

    def _drop(self) -> None:
        """Go away in the middle of the head, in the middle of the body, or before the answer."""
        with self.page.reading() as questions:
            head, body = self._random.choice(questions).wire()
        sent = self._random.choice([head[: len(head) // 2], head + body[: len(body) // 2], head + body])
        with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
            connection.sendall(sent)

    def _slow(self) -> None:
        """Send a question in small pieces, and expect a proper answer all the same."""
        with self.page.reading() as questions:
            question = self._random.choice(questions)
            with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
                for piece in np.array_split(np.frombuffer(b"".join(question.wire()), np.uint8), PIECES):
                    connection.sendall(piece.tobytes())
                    time.sleep(SLOW / PIECES)
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                self.tally.compare(question, answer.status, answer.read())

    def _stall(self) -> None:
        """Send half a question and no more; the service says that it has waited long enough."""
        with socket.create_connection((HOST, self.port), TIMEOUT) as connection:
            connection.sendall(b"".join(Question("/api/score", {"contexts": ["a b c d"]}, "", []).wire())[:-10])
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            self._expect(answer.status, 408, "half a question")


@contextmanager
def asking(clients: Sequence[Client]) -> Iterator[None]:
    """Let clients ask, and end them whatever happens."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.ended.set()
        for client in clients:
            client.join()

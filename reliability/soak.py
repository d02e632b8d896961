"""Count, merge, subtract, fit, score and serve under load for an hour, and see that memory stays flat.

    python -m reliability.soak [--seconds 3600] [--out build/reliability]

This process counts, merges, subtracts, fits and scores by the library, round by round with fresh corpora; what must
be equal is compared. A table holds the corpora of the last few rounds: the new one is merged in, the oldest is
subtracted. Beside it runs `raregram serve` with the models of these rounds, which are replaced under its feet, while
clients ask it, and misbehave (`clients.py`): every answer is compared with the library's. The resources of both
processes are sampled all the time (`flatness.py`).

Written is soak.json. The exit code is 1 if anything was wrong, if memory, open files, threads or temporary files were
not flat, or if the service did not stop as it was told to.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import raregram as rg
from benchmarks.measuring import PROJECT, RAREGRAM, parser, write_json
from raregram.measure.synthetic import zipf_documents
from reliability.clients import HOST, Client, Page, Question, Tally, asking
from reliability.flatness import BOUNDS, MEGABYTE, judge, sampled

DOCUMENTS, LENGTH, WORDS = 60, 80, 4_000  # of a corpus; WORDS is what comes again in every round
FRESH = 0.02  # the share of words that never came before
NAMES = 0.08  # the share of words that have a label,
LABELS = {"a": "LOC", "o": "ORG", "i": "PER"}  # by the last letter of the word before
ESTIMATORS = ("backoff", "selective", "direct", "product", "mle")
UNBOUNDED = ("mle", "direct")  # whose ratios may be infinite, and have no interval
WINDOW = 3  # corpora that are in a table at a time
MEMORY_LIMIT = 1 << 20  # bytes under which a count takes several passes
BATCH, LEVEL = 200, 0.9
# What is counted for each served model: always the same, so that any question suits any round's model.
COUNTING: dict[str, dict[str, Any]] = {
    "LOC": {"n": 4},
    "ORG": {"n": 3, "side": "right", "pad": True},
    "PER": {"n": 5, "kind": "letters"},
}
SPANS = ("units", "suffixes:3", "shapes:3", "whole")

SHORT = 600  # seconds: in a shorter run a few rounds decide, and memory has had little time to find its level
SHORT_MEMORY = (0.10, 16 * MEGABYTE)
TIME_LIMIT = 5.0  # seconds that the service gives a request
RELOADED = 60.0  # seconds within which the service must have read new models
STOPPED = TIME_LIMIT + 10.0  # seconds within which it must have stopped


# The library


@dataclass
class Track:
    """One served model, and what it is made from, from round to round."""

    target: str
    folder: Path
    tally: Tally
    table: rg.Counts | None = None
    window: deque[tuple[Path, rg.Counts]] = field(default_factory=deque)
    model: rg.Model | None = None

    def check(self, right: bool, what: str) -> None:
        self.tally.count("checks")
        if not right:
            self.tally.complain(f"{self.target}: {what}")

    def count(self, sources: Sequence[Path], **options: Any) -> rg.Counts:
        paths = [str(path) for path in sources]
        return rg.count(paths, spans=SPANS, targets=[*COUNTING], **COUNTING[self.target], **options)

    def one_round(self, number: int, documents: Sequence[dict[str, Any]]) -> rg.Model:
        """Count a corpus, move the table on, fit a model; see that every way leads to the same."""
        source = self.folder / f"{number}.{'jsonl' if number % 2 else 'jsonl.gz'}"
        lines = "".join(json.dumps(document) + "\n" for document in documents).encode()
        source.write_bytes(lines if number % 2 else gzip.compress(lines))
        fresh = self.count([source], threads=1 + number % 2)
        limited = self.count([source], memory_limit=MEMORY_LIMIT)
        self.check(limited.digest() == fresh.digest(), f"round {number} under a limit differs")
        fresh.save(self.folder / "fresh.counts")
        fresh = rg.Counts.load(self.folder / "fresh.counts") if number % 2 else fresh
        table = fresh if self.table is None else self.table + fresh
        self.check(self.table is None or table - fresh == self.table, f"round {number} merged and subtracted differs")
        self.window.append((source, fresh))
        if len(self.window) > WINDOW:
            oldest, counts = self.window.popleft()
            table = table - counts
            oldest.unlink()
        again = self.count([path for path, _ in self.window])
        self.check(again.digest() == table.digest(), f"round {number} counted again differs")
        self.table = table
        self.model = self.fit(table, number)
        return self.model

    def fit(self, table: rg.Counts, number: int) -> rg.Model:
        """Fit the next estimator in turn; save and load the model, and use it."""
        estimator = ESTIMATORS[(number + list(COUNTING).index(self.target)) % len(ESTIMATORS)]
        options: dict[str, Any] = {"estimator": estimator, **({"size": 1000} if estimator == "selective" else {})}
        model = rg.fit(table, self.target, **options)
        model.save(self.folder / "fitted.rgm")
        loaded = rg.Model.load(self.folder / "fitted.rgm")
        contexts = table.whole_ngrams().lists().to_pylist()[:: max(table.num_rows // 2000, 1)]
        values = model.log_ratio(contexts)
        self.check(repr(loaded.log_ratio(contexts).tolist()) == repr(values.tolist()), f"{estimator} read differs")
        self.check(bool(np.isfinite(values).all()) or estimator in UNBOUNDED, f"{estimator} is not finite")
        for context, value in list(zip(contexts, values.tolist(), strict=True))[:20]:
            terms = sum(term.value for term in model.explain(context).terms)
            self.check(plain(terms) == plain(value), f"{estimator}: the terms of {context} do not add up")
        if estimator not in UNBOUNDED:
            lower, upper = model.interval(contexts, LEVEL).T
            self.check(bool(((lower <= values) & (values <= upper)).all()), f"{estimator}: an interval misses")
        return loaded


def make_documents(number: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return documents whose labels depend on the words before them; some words never came before."""
    made = []
    for row, text in enumerate(zipf_documents(DOCUMENTS, LENGTH, WORDS, seed=int(rng.integers(1 << 40)))):
        words = text.split()
        for at in np.flatnonzero(rng.random(len(words)) < FRESH).tolist():
            words[at] = f"{words[at].capitalize()}{number}x{row}y{at}"
        labelled = np.flatnonzero(rng.random(len(words) - 1) < NAMES).tolist()
        spans = [{"start": k + 1, "end": k + 2, "label": LABELS.get(words[k][-1], "LOC")} for k in labelled]
        made.append({"id": f"{number}-{row}", "text": " ".join(words), "spans": spans})
    return made


# Questions for the service, each with what the models before this round and those of it say


def make_questions(
    old: rg.Model, new: rg.Model, texts: Sequence[str], rng: np.random.Generator
) -> Iterator[Question]:
    """Yield the questions that concern one model."""
    name, s = new.settings.target, new.settings
    items = [text.split() if s.kind == "words" else list(text) for text in texts]
    contexts = [some[start : start + s.n] for some in items for start in range(len(some) - s.n + 1)]
    drawn = [contexts[index] for index in rng.integers(0, len(contexts), BATCH)]
    joined = (" " if s.kind == "words" else "").join(drawn[0])

    def question(path: str, body: dict[str, Any], fact: Any) -> Question:
        return Question(path, body, name, [fact(old), fact(new)])

    def heat(model: rg.Model) -> list[Any]:
        return [None if score is None else plain(score) for score in rg.heat_map(model, texts[0]).scores[name]]

    yield question("/api/score", {"contexts": [joined], "models": [name]}, lambda model: scores(model, drawn[:1]))
    yield question("/api/score", {"contexts": drawn, "models": [name]}, lambda model: scores(model, drawn))
    yield question("/api/texts", {"texts": [texts[0]], "models": [name]}, heat)
    yield question("/api/changes", {"context": drawn[3], "model": name}, lambda model: scores(model, drawn[3:4])[0])
    yield question("/api/rank", {"text": texts[1], "model": name, "top": 8}, lambda model: ranked(model, texts[1], 8))
    for context in drawn[:3]:
        body = {"context": context, "model": name, "level": LEVEL}
        yield question("/api/explain", body, lambda model, context=context: explained(model, context))


def scores(model: rg.Model, contexts: Sequence[Sequence[str]]) -> list[float | str]:
    return [plain(value) for value in model.log_ratio(contexts).tolist()]


def explained(model: rg.Model, context: Sequence[str]) -> list[Any]:
    """Return the log ratio, the interval and the terms of a context."""
    found, bounded = model.explain(list(context)), model.settings.estimator not in UNBOUNDED
    interval = model.interval([list(context)], LEVEL)[0].tolist() if bounded else None
    terms = [[term.start, term.end, plain(term.value), term.f_nu, term.f_de] for term in found.terms]
    return [plain(found.log_ratio), interval, terms]


def ranked(model: rg.Model, text: str, top: int) -> list[list[Any]]:
    """Return the best contexts of a text with their log ratios, found the plain way: score all, sort."""
    found, s = rg.heat_map(model, text), model.settings
    best = []
    for boundary, value in enumerate(found.scores[s.target]):
        if value is not None:
            left, right = found.items[max(boundary - s.n, 0) : boundary], found.items[boundary:][: s.n]
            items = list(left if s.side == "left" else right)
            pads = [""] * (s.n - len(items)) if s.pad else []
            best.append((value, [*pads, *items] if s.side == "left" else [*items, *pads]))
    best.sort(key=lambda pair: -np.nan_to_num(pair[0], nan=-np.inf))  # those that tie stay in order
    return [[plain(value), *items] for value, items in best[:top]]


def plain(value: float) -> float | str:
    """Return a number as JSON can have it."""
    return value if np.isfinite(value) else str(value)


# The service


@dataclass(frozen=True)
class Service:
    """A real `raregram serve`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @classmethod
    @contextmanager
    def started(cls, folder: Path, temporary: Path) -> Iterator[Service]:
        log = folder / "service.log"
        command = [str(RAREGRAM), "serve", "--port", "0", "--no-browser", "--time-limit", str(TIME_LIMIT)]
        command += [str(folder / f"{name}.rgm") for name in COUNTING]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with (
            log.open("wb") as sink,
            subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=sink) as process,
        ):
            try:
                for _ in range(600):
                    if found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text()):
                        yield cls(process, int(found[1]), log)
                        return
                    time.sleep(0.1 if process.poll() is None else 0)
                raise RuntimeError(f"the service does not start: {log.read_text()}")
            finally:
                process.kill()

    def ask(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=RELOADED) as answer:
            return bytes(answer.read())

    def await_models(self, models: Sequence[rg.Model]) -> None:
        """Wait until the service has read these models."""
        end = time.monotonic() + RELOADED
        for s in (model.settings for model in models):
            while json.loads(self.ask(f"/api/models/{s.target}")).get("corpus") != s.corpus:
                if time.monotonic() > end:
                    raise TimeoutError(f"the service has not read the new model {s.target}")
                time.sleep(0.1)

    def complaints(self) -> list[str]:
        """Return what the service says went wrong: failures at requests, and models that it could not read."""
        counted = self.ask("/metrics").decode()
        found = re.findall(r'^raregram_requests_total\{.*status="500"\}.*$', counted, re.MULTILINE)
        found += re.findall(r"^raregram_model_reload_failures_total [1-9].*$", counted, re.MULTILINE)
        said = self.log.read_text().splitlines()[1:]
        return found + [line for line in said if not line.endswith("was read again")]

    def stop(self) -> str:
        """Tell it to stop while a connection idles and a request hangs half sent; return what was wrong."""
        with (
            closing(http.client.HTTPConnection(HOST, self.port)) as idle,
            socket.create_connection((HOST, self.port)) as hanging,
        ):
            idle.request("GET", "/ready")
            idle.getresponse().read()
            hanging.sendall(b"POST /api/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(STOPPED)
            except subprocess.TimeoutExpired:
                return f"it went on for {STOPPED:g} s after SIGTERM"
        if code not in (0, -signal.SIGTERM):
            return f"it ended with {code} after SIGTERM"
        return "it ended with a traceback" if "Traceback" in self.log.read_text() else ""


# The whole


def soak(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let all of it run for some time, and return what was found."""
    tally = Tally()
    tracks = [Track(target, folder / target, tally) for target in COUNTING]
    temporary = {name: folder / f"temporary of the {name}" for name in ("library", "service")}
    for path in (*temporary.values(), *(track.folder for track in tracks)):
        path.mkdir()
    tempfile.tempdir = str(temporary["library"])
    leaked: list[Any] = []

    def work(number: int) -> list[Question]:
        """Make the models of a round, and questions for them."""
        rng = np.random.default_rng((given.seed, number))
        questions: list[Question] = []
        for track in tracks:
            documents, old = make_documents(number, rng), track.model
            new = track.one_round(number, documents)
            questions += make_questions(old or new, new, [document["text"] for document in documents[-4:]], rng)
        if given.leak:  # to see the verdict fail
            leaked.append((b"\x01" * given.leak, Path(os.devnull).open("rb")))  # noqa: SIM115
        return questions

    def publish() -> list[rg.Model]:
        for track in tracks:
            assert track.model is not None
            track.model.save(folder / f"{track.target}.rgm")
        return [track.model for track in tracks if track.model is not None]

    page, rounds = Page(work(0)), 0
    publish()
    with Service.started(folder, temporary["service"]) as service:
        clients = [
            Client(service.port, page, tally, 1000 * given.seed + k, given.pause) for k in range(given.clients)
        ]
        ids = {"library": os.getpid(), "service": service.process.pid}
        with sampled({name: (ids[name], temporary[name]) for name in ids}) as samples, asking(clients):
            began = time.monotonic()
            while time.monotonic() - began < given.seconds:
                page.turn(work(rounds + 1))  # from now on every question has an answer by the old and the new models
                service.await_models(publish())
                rounds += 1
            took = time.monotonic() - began
        wrong = [*tally.wrong, *service.complaints()]
        stopped = service.stop()
    wrong += [f"left behind: {path}" for path in (*folder.glob("temporary */*"), *folder.rglob(".*"))]
    bounds = BOUNDS if given.seconds >= SHORT else {**BOUNDS, "memory": SHORT_MEMORY}
    flatness = [found for name, seen in samples.items() for found in judge(name, seen, took, bounds)]
    return {
        "seconds": took, "rounds": rounds, "requests": dict(tally.asked), "answers": tally.compared,
        "by_the_round_before": tally.while_changing, "slowest": tally.slowest, "wrong": wrong[:100],
        "stopped": stopped, "flatness": [asdict(found) for found in flatness], "verdicts": list(map(str, flatness)),
        "passed": not wrong and not stopped and all(found.flat for found in flatness),
        "python": platform.python_version(), "machine": platform.machine(),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("--seconds", type=float, default=3600)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--pause", type=float, default=0.02, help="seconds between requests of a client, on average")
    options.add_argument("--leak", type=int, default=0, help="bytes to leak in a round, to try the verdict")
    given = options.parse_args(arguments)
    usual = tempfile.tempdir
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            found = soak(given, Path(folder))
    except (RuntimeError, OSError) as error:  # `TimeoutError` is an `OSError`
        print(f"{error}\nFAILED", flush=True)
        return 1
    finally:
        tempfile.tempdir = usual
    write_json(given.out / "soak.json", found)
    asked = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found["requests"].items()))
    print(f"{found['seconds']:,.0f} s, {found['rounds']:,} rounds; {asked}")
    print(f"{found['answers']:,} answers compared, {found['by_the_round_before']:,} while models were replaced")
    print(f"slowest answer: {found['slowest']:.2f} s; wrong: {len(found['wrong'])}")
    print(*(f"  {what}" for what in found["wrong"][:20]), f"stop: {found['stopped'] or 'clean'}", sep="\n")
    print(*found["verdicts"], "PASSED" if found["passed"] else "FAILED", sep="\n", flush=True)
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())

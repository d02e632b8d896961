"""Count, merge, subtract, fit, score and serve under load for an hour, and see that memory stays flat.

    python -m reliability.soak [--seconds 3600] [--out build/reliability]

Two long-lived processes work at the same time. One counts, merges, subtracts, fits and scores by the library, round
by round with fresh corpora (`soak_work.py`). The other is `raregram serve` with the models of these rounds, which are
replaced under its feet, while clients ask, and misbehave (`soak_load.py`). Every answer is compared with the
library's. The resources of each process are sampled all the time (`flatness.py`).

Written are soak.json and soak.svg. The exit code is 1 if anything was wrong, if memory, open files,
threads or temporary files were not flat, or if the service did not stop as it was told to.
"""

from __future__ import annotations

import argparse
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
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import PROJECT, RAREGRAM, parser, write_json
from reliability.flatness import BOUNDS, MEGABYTE, WARM_UP, Flatness, Sample, Sampler, judge
from reliability.soak_load import HOST, Book, Client, Page, Tally

SHORT = 600  # seconds: in a shorter run a few rounds decide, and memory has had little time to find its level
SHORT_MEMORY = (0.10, 16 * MEGABYTE)
TIME_LIMIT = 5.0  # seconds that the service gives a request
RELOADED = 60.0  # seconds within which the service must have read new models
STOPPED = TIME_LIMIT + 10.0  # seconds within which it must have stopped
OVERTIME = 180.0  # seconds after which a run that does not end is ended


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    seconds: float
    rounds: int
    checks: int  # comparisons by the library's process
    requests: dict[str, int]
    answers: int  # compared with the library's
    by_the_round_before: int  # of these, answers while models were replaced
    slowest: float  # seconds of the slowest proper answer
    wrong: list[str]
    stopped: str  # what was wrong with the end of the service; empty if nothing was
    flatness: list[Flatness]
    samples: dict[str, list[Sample]]

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.stopped and all(found.flat for found in self.flatness)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("--seconds", type=float, default=3600)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--pause", type=float, default=0.02, help="seconds between requests of a client, on average")
    options.add_argument("--pace", type=float, default=3.0, help="the least seconds of a round")
    options.add_argument("--leak", type=int, default=0, help="bytes to leak in a second, to try the verdict")
    given = options.parse_args(arguments)
    try:
        outcome = soak(given)
    except (RuntimeError, OSError) as error:  # a process that ended or hangs; `TimeoutError` is an `OSError`
        print(f"{error}\nFAILED", flush=True)
        return 1
    write_report(outcome, given.out)
    print("\n".join(summary(outcome)), flush=True)
    return 0 if outcome.passed else 1


def soak(given: argparse.Namespace) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="soak-") as name, ExitStack() as stack:
        folder, tally, rounds = Path(name), Tally(), 0
        library = stack.enter_context(Library.started(folder, given))
        made = library.prepare()
        library.publish()
        service = stack.enter_context(Service.started(folder, sorted(made["corpora"])))
        for process in (library.process, service.process):  # whatever waits for one that hangs goes on and fails
            timer = threading.Timer(given.seconds + OVERTIME, process.kill)
            timer.start()
            stack.callback(timer.cancel)
        book = Book(Page(made["questions"], settled=True))
        seeds = range(1000 * given.seed, 1000 * given.seed + given.clients)
        clients = [Client(service.port, book, tally, seed, given.pause) for seed in seeds]
        began = time.monotonic()
        with Sampler({"library": library.watched, "service": service.watched}) as sampler, asking(clients):
            while time.monotonic() - began < given.seconds:
                made = library.prepare()
                page = Page(made["questions"])
                book.turn(page)  # from now on every question has an answer by both the old and the new models
                library.publish()
                service.await_models(made["corpora"])
                page.settled = True
                rounds += 1
        took = time.monotonic() - began
        wrong = [*made["wrong"], *tally.wrong, *service.complaints()]
        stopped = service.stop()
        wrong += library.end()
        wrong += [f"left behind: {path}" for path in (*folder.glob("temporary */*"), *folder.rglob(".*"))]
    bounds = BOUNDS if given.seconds >= SHORT else {**BOUNDS, "memory": SHORT_MEMORY}
    return Outcome(
        seconds=took,
        rounds=rounds,
        checks=made["checks"],
        requests=dict(tally.asked),
        answers=tally.compared,
        by_the_round_before=tally.while_changing,
        slowest=tally.slowest,
        wrong=wrong,
        stopped=stopped,
        flatness=[found for name, seen in sampler.samples.items() for found in judge(name, seen, took, bounds)],
        samples=sampler.samples,
    )


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


@contextmanager
def child(command: Sequence[str], temporary: Path, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process with a folder for temporary files of its own; it is ended whatever happens."""
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=PROJECT, env=environment, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(frozen=True)
class Library:
    """The process that works by the library."""

    process: subprocess.Popen[str]
    watched: tuple[int, Path]  # its id and its folder for temporary files

    @classmethod
    @contextmanager
    def started(cls, folder: Path, given: argparse.Namespace) -> Iterator[Library]:
        command = [sys.executable, "-m", "reliability.soak_work", str(folder)]
        command += ["--seed", str(given.seed), "--pace", str(given.pace), "--leak", str(given.leak)]
        temporary = folder / "temporary of the library"
        with child(command, temporary, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield cls(process, (process.pid, temporary))

    def prepare(self) -> dict[str, Any]:
        """Wait for the next round: models by their count files, questions, and what was compared."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the library's process ended with {self.process.wait()}")
        return dict(json.loads(line))

    def publish(self) -> None:
        """Let it put the models of the round under their names."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.prepare()

    def end(self) -> list[str]:
        """Let it end by itself, when nothing more comes in; return what was wrong with that."""
        with suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=60)
        code = self.process.returncode
        return [] if code == 0 else [f"the library's process {'does not end' if code is None else f'ended: {code}'}"]


@dataclass(frozen=True)
class Service:
    """A real `raregram serve`."""

    process: subprocess.Popen[bytes]
    watched: tuple[int, Path]  # its id and its folder for temporary files
    port: int
    log: Path

    @classmethod
    @contextmanager
    def started(cls, folder: Path, names: Sequence[str]) -> Iterator[Service]:
        log, temporary = folder / "service.log", folder / "temporary of the service"
        command = [str(RAREGRAM), "serve", "--port", "0", "--no-browser", "--time-limit", str(TIME_LIMIT)]
        command += [str(folder / f"{name}.rgm") for name in names]
        with log.open("wb") as sink, child(command, temporary, stderr=sink) as process:
            for _ in range(600):
                if found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text()):
                    yield cls(process, (process.pid, temporary), int(found[1]), log)
                    return
                time.sleep(0.1 if process.poll() is None else 0)
            raise RuntimeError(f"the service does not start: {log.read_text()}")

    def ask(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=RELOADED) as answer:
            return bytes(answer.read())

    def await_models(self, corpora: dict[str, str]) -> None:
        """Wait until each model is the one that was fitted from this count file."""
        end = time.monotonic() + RELOADED
        for name, digest in corpora.items():
            while json.loads(self.ask(f"/api/models/{name}")).get("corpus") != digest:
                if time.monotonic() > end:
                    raise TimeoutError(f"the service has not read the new model {name}")
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
            hanging.sendall(b"POST /api/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
            hanging.sendall(b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(STOPPED)
            except subprocess.TimeoutExpired:
                return f"it went on for {STOPPED:g} s after SIGTERM"
        if code not in (0, -signal.SIGTERM):
            return f"it ended with {code} after SIGTERM"
        return "it ended with a traceback" if "Traceback" in self.log.read_text() else ""


# Results


def summary(outcome: Outcome) -> list[str]:
    asked = ", ".join(f"{kind} {count:,}" for kind, count in sorted(outcome.requests.items()))
    return [
        f"{outcome.seconds:,.0f} s, {outcome.rounds:,} rounds, {outcome.checks:,} comparisons by the library",
        f"{sum(outcome.requests.values()):,} requests ({asked})",
        f"{outcome.answers:,} answers compared, {outcome.by_the_round_before:,} of them while models were replaced",
        f"slowest answer: {outcome.slowest:.2f} s",
        f"wrong: {len(outcome.wrong)}",
        *(f"  {what}" for what in outcome.wrong[:20]),
        f"stop of the service: {outcome.stopped or 'clean'}",
        *map(str, outcome.flatness),
        "PASSED" if outcome.passed else "FAILED",
    ]


def write_report(outcome: Outcome, out: Path) -> None:
    figures = asdict(replace(outcome, samples={}, wrong=outcome.wrong[:100]))
    figures["flatness"] = [{**asdict(found), "flat": found.flat} for found in outcome.flatness]
    figures |= {"passed": outcome.passed, "python": platform.python_version(), "machine": platform.machine()}
    write_json(out / "soak.json", figures)
    draw(outcome, out / "soak.svg")


def draw(outcome: Outcome, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(BOUNDS), 1, figsize=(9, 9), sharex=True, height_ratios=(4, 1, 1, 1))
    titles = {"memory": "resident, MB", "files": "open files", "threads": "threads", "temporary": "temporary, MB"}
    for axis, (what, title) in zip(axes, titles.items(), strict=True):
        for name, seen in outcome.samples.items():
            values = [getattr(sample, what) / (MEGABYTE if title.endswith("MB") else 1) for sample in seen]
            axis.plot([sample.seconds / 60 for sample in seen], values, label=name, linewidth=0.8)
        axis.axvspan(0, WARM_UP * outcome.seconds / 60, color="grey", alpha=0.12, linewidth=0)
        axis.set_ylabel(title)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    axes[0].set_title(f"{outcome.rounds:,} rounds, {sum(outcome.requests.values()):,} requests; grey: warm-up")
    axes[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())

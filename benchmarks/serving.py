"""Load on the service beside a bare FastAPI echo of the same payload, by wrk on the same two cores.

    python -m benchmarks.serving [MODEL...]

Without models, two back-off models of synthetic contexts are fitted first. Service and echo are asked in turns, each
in one process. Needs the extra `serve` and wrk (apt-get install wrk).
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import raregram as rg
from benchmarks.measuring import RAREGRAM, Figures, medians, output_of, parser
from raregram.measure.synthetic import SyntheticCorpus

SECONDS, ROUNDS, CONNECTIONS = 5, 3, 16
WORDS = 20_000  # of a batch of running text
ECHO = """
from fastapi import FastAPI
from pydantic import BaseModel


class Body(BaseModel):
    contexts: list[str] | None = None
    texts: list[str] | None = None
    models: list[str] | None = None


app = FastAPI()


@app.post("/echo")
async def echo(body: Body) -> Body:
    return body
"""


def main() -> None:
    if shutil.which("wrk") is None:
        sys.exit("benchmarks.serving needs wrk: apt-get install wrk")
    options = parser(__doc__, results=True)
    options.add_argument("models", nargs="*")
    arguments = options.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = arguments.models or fit_models(folder)
        single, batch = questions(paths[0])
        (folder / "echo_app.py").write_text(ECHO)
        uvicorn = (sys.executable, "-m", "uvicorn", "echo_app:app", "--no-access-log", "--log-level", "error")
        with (
            running("ready", RAREGRAM, "serve", *paths, "--no-browser") as url,
            running("docs", *uvicorn, "--app-dir", folder) as echo_url,
        ):
            first = ask(url + "api/models", None)["models"][0]["name"]
            one = {"contexts": [single], "models": [first]}
            tasks = {
                "score, one model": (url + "api/score", one),
                "score, all models": (url + "api/score", {"contexts": [single]}),
                "echo": (echo_url + "echo", one),
            }
            report_single(tasks, folder, figures)
            report_batches(url, first, batch, folder, figures)
    figures.write(arguments.json)


def report_single(tasks: Mapping[str, tuple[str, object]], folder: Path, figures: Figures) -> None:
    """Measure single contexts: requests a second, and the slowest in a hundred."""
    slowest: dict[str, list[float]] = {name: [] for name in tasks}

    def cost(name: str) -> float:
        rate, p99, failed = wrk(*tasks[name], folder, CONNECTIONS)
        assert not failed, f"{failed} requests of {name} failed"
        slowest[name].append(p99)
        return 1 / rate

    costs = medians({name: partial(cost, name) for name in tasks}, ROUNDS)
    for name, seconds in costs.items():
        ours = name != "echo"
        figures.add(f"single contexts a second: {name}", 1 / seconds, least=1500 if ours else None)
        p99 = float(np.median(slowest[name]))
        figures.add("  the slowest in a hundred", p99, "ms", most=50 if ours else None)
    for name in ("score, one model", "score, all models"):
        figures.add(f"cost of {name} over that of the echo", costs[name] / costs["echo"], "x")


def report_batches(url: str, model: str, text: str, folder: Path, figures: Figures) -> None:
    """Measure running text: contexts a second of one model."""
    body = {"texts": [text], "models": [model], "digits": 4}
    contexts = sum(score is not None for score in ask(url + "api/texts", body)["texts"][0]["scores"][model])
    rates = [wrk(url + "api/texts", body, folder, 4) for _ in range(ROUNDS)]
    rate = float(np.median([rate for rate, _, _ in rates]))
    figures.add(f"contexts a second, texts of {WORDS:,} words", rate * contexts, least=300_000)


def fit_models(folder: Path) -> list[str]:
    """Fit two back-off models on contexts from a synthetic source."""
    paths = []
    for seed, target in ((1, "LOC"), (2, "PER")):
        source = SyntheticCorpus.make(items=30_000, n=10, seed=seed)
        contexts, at_target = source.sample(8_000, 200_000, seed=seed)
        labels = np.where(at_target, target, "")
        counts = rg.Counts.from_contexts(source.texts(contexts), labels, spans=["units", "suffixes:5", "shapes:8"])
        paths.append(str(folder / f"{target}.rgm"))
        rg.fit(counts, target, "backoff").save(paths[-1])
    return paths


def questions(path: str) -> tuple[str, str]:
    """Return a context of a model's items, and a running text of them."""
    model = rg.Model.load(path)
    rng = np.random.default_rng(5)
    items = np.array(model.items.to_pylist())[rng.zipf(1.3, WORDS).clip(max=len(model.items)) - 1]
    words = [item or "the" for item in items.tolist()]
    return " ".join(words[: model.settings.n]), " ".join(words)


def wrk(url: str, question: object, folder: Path, connections: int) -> tuple[float, float, int]:
    """Ask one question again and again; return requests a second, the slowest of a hundred in ms, and failures."""
    script = folder / "ask.lua"
    body = json.dumps(question).replace("]]", "] ]")  # which would end a string of Lua
    script.write_text(
        f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = [[{body}]]\n'
        + textwrap.dedent("""
        done = function(summary, latency, requests)
          local e = summary.errors
          local failed = e.connect + e.read + e.write + e.status + e.timeout
          local rate = summary.requests / summary.duration * 1e6
          print(string.format("RESULT %f %f %d", rate, latency:percentile(99) / 1e3, failed))
        end
        """)
    )
    printed = output_of("wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "-s", script, url)
    found = re.search(r"RESULT (\S+) (\S+) (\d+)", printed)
    assert found is not None, printed
    return float(found[1]), float(found[2]), int(found[3])


@contextmanager
def running(ready: str, *command: object) -> Iterator[str]:
    """Start a server at a free port, wait until a page of it can be read, and end it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    words = [*map(str, command), "--port", str(port)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(url + ready, timeout=5).read()
                    break
                except OSError:
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def ask(url: str, question: object) -> Any:
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()

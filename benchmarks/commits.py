"""The same commands by two checkouts of raregram, side by side: whether a change made anything slower.

    git worktree add --detach ../before COMMIT && make -C ../before .venv/installed
    python -m benchmarks.commits ../before [--articles 10000] [--rounds 5]

Prints the processor seconds (user and system, whole processes with their start-up) of each job: the median of both
checkouts, their ratio, and the lowest and highest ratio of a round. Each checkout runs in its own environment.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measuring import PROJECT, parser, run_measured, show_machine

CONTEXT = "said that the annual meeting was held yesterday in"
ONE_CONTEXT = f"""
import time, sys, raregram as rg
model = rg.Model.load("loc.rgm")
model.log_ratio([{CONTEXT!r}])
start = time.process_time()
for _ in range(2000):
    model.log_ratio([{CONTEXT!r}])
print(time.process_time() - start)
"""
RAREGRAM = ("-c", "from raregram.cli import main; main()")
REQUESTS = 2000


def main() -> None:
    options = parser(__doc__)
    options.add_argument("before", type=Path, help="the other checkout")
    options.add_argument("--articles", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    show_machine()
    checkouts = {"before": arguments.before.resolve(), "after": PROJECT}
    with tempfile.TemporaryDirectory() as name:
        corpus = make_corpus(Path(name), arguments.articles)
        jobs = {which: Jobs(checkout, Path(name) / which, corpus) for which, checkout in checkouts.items()}
        for job in JOBS:
            taken: dict[str, list[float]] = {which: [] for which in jobs}
            for _ in range(1 if "experiment" in job else arguments.rounds):
                for which, of in jobs.items():
                    taken[which].append(of.seconds(job))
            ratios = [after / before for before, after in zip(taken["before"], taken["after"], strict=True)]
            before, after = (statistics.median(taken[which]) for which in ("before", "after"))
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"{job:<44}{before:>9.3f} s{after:>9.3f} s{after / before:>7.2f} x   {spread}", flush=True)


def make_corpus(folder: Path, articles: int) -> Path:
    """Write the experiment's articles: tagged ones to count, and those of the test part to score."""
    from raregram.experiment.run import Config, load_corpus, split_corpus

    parts = split_corpus(Config(), load_corpus(Config()))
    pq.write_table(parts["train"][:articles], folder / "train.parquet")
    texts = parts["test"]["text"].to_pylist()
    (folder / "test.txt").write_text("\n".join(" ".join(text.split()) for text in texts * 3) + "\n")
    with (folder / "lines.txt").open("w") as file:
        for items in map(str.split, texts):
            file.writelines(" ".join(items[at : at + 10]) + "\n" for at in range(len(items) - 9))
    return folder


JOBS = {
    "start-up (--help)": ["--help"],
    "count": ["count", "train.parquet", "--targets", "LOC,PER", "--out", "all.counts"],
    "count in folds": ["count", "train.parquet", "--targets", "LOC,PER", "--folds", "5", "--out", "folds.counts"],
    "fit": ["fit", "all.counts", "--target", "LOC", "--out", "loc.rgm"],
    "fit, calibrated": ["fit", "folds.counts", "--target", "LOC", "--out", "calibrated.rgm"],
    "merge": ["merge", "all.counts", "all.counts", "--out", "two.counts"],
    "score lines": ["score", "loc.rgm", "lines.txt"],
    "score text": ["score", "loc.rgm", "test.txt", "--format", "text", "--split", "lines"],
    "explain": ["explain", "loc.rgm", CONTEXT],
    "one context by the library, 2,000 times": [],
    "one context over HTTP, 2,000 requests": [],
    "compare two Brown genres": ["compare", "BROWN", "--by", "genre", "--names", "fiction,news", "--out", "pages"],
    "the experiment, n = 10": ["reproduce", "--force", "--out", "experiment"],
}


class Jobs:
    """The jobs as one checkout does them, in a folder of its own."""

    def __init__(self, checkout: Path, folder: Path, corpus: Path) -> None:
        self.python, self.folder = checkout / ".venv" / "bin" / "python", folder
        folder.mkdir()
        for name in ("train.parquet", "test.txt", "lines.txt"):
            (folder / name).symlink_to(corpus / name)

    def seconds(self, job: str) -> float:
        """Run a job and return its processor seconds."""
        special: dict[str, Callable[[], float]] = {
            "one context by the library, 2,000 times": self._by_library,
            "one context over HTTP, 2,000 requests": self._over_http,
        }
        if job in special:
            return special[job]()
        arguments = [self._brown() if each == "BROWN" else each for each in JOBS[job]]
        quiet = [] if job.startswith(("start", "explain")) else ["--quiet"]
        return self._run([*RAREGRAM, *arguments, *quiet])

    def _run(self, arguments: list[str]) -> float:
        with (self.folder / "output").open("wb") as output:
            before = os.times()
            run = partial(run_measured, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
            code, *_ = run([self.python, *arguments])
            after = os.times()
        assert code == 0, (self.folder / "output").read_text()[-2000:]
        return after.children_user - before.children_user + after.children_system - before.children_system

    def _brown(self) -> str:
        self._run([*RAREGRAM, "fetch", "brown", "--quiet"])
        return (self.folder / "output").read_text().split()[-1]

    def _by_library(self) -> float:
        self._run(["-c", ONE_CONTEXT])
        return float((self.folder / "output").read_text().split()[-1])

    def _over_http(self) -> float:
        with self._service() as (url, used):
            body = json.dumps({"contexts": [CONTEXT]}).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(url + "api/score", body, headers)
            urllib.request.urlopen(request).read()
            before = used()
            for _ in range(REQUESTS):
                urllib.request.urlopen(request).read()
            return used() - before

    @contextmanager
    def _service(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """Start the service; give its address and a function that returns the processor seconds that it has used."""
        command = [str(self.python), *RAREGRAM, "serve", "loc.rgm", "--port", "0", "--no-browser"]
        with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            url = next(word for line in process.stderr for word in line.split() if word.startswith("http://"))
            stat, tick = Path(f"/proc/{process.pid}/stat"), os.sysconf("SC_CLK_TCK")
            for _ in range(100):
                try:
                    urllib.request.urlopen(url + "ready").read()
                    break
                except OSError:
                    time.sleep(0.1)
            try:
                yield url, lambda: sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / tick
            finally:
                process.terminate()


if __name__ == "__main__":
    main()

"""The commands that write files, each on a small corpus: what `crashes.py` kills and lets run out of space.

A command runs in an empty folder beside `inputs`, or in one where its `older` form has written the same names before.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import raregram as rg
from benchmarks.measuring import RAREGRAM

TIMEOUT = 900  # seconds that a command may take
SENTENCES = (
    "Ann Lee of Boston met Mr. Smith in Paris on Monday.",
    "The Bank of England said rates would rise.",
    "Oil prices fell in Kuwait, traders in London said.",
    "Nothing of note happened in Germany.",
)
EXPERIMENT = """train = 60
valid = 20
test = 20
n = 3
k = 15
sizes = [2, 5]
lams = [1e-4, 1e-2]
criteria = ["cet", "tf"]
priors = [12.0]
taus = [0.5]
targets = ["LOC"]
"""

Tree: TypeAlias = dict[str, str]  # what a folder holds: path -> digest, "" for a folder


@dataclass(frozen=True)
class Command:
    """A command line, and one that has written the same files before: by default from other inputs."""

    name: str
    arguments: str
    older: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    byte_kills: bool = True  # whether a file that grows too large ends this process, and not another one's
    resumes: bool = False  # whether a run that fails leaves finished parts to the next one, in hidden folders
    needs: str = "raregram"  # a library


COUNT = "count ../inputs/a.jsonl -n 4 --targets LOC,PER --spans suffixes:4,shapes:3 --quiet --out c.counts"
MERGE = "merge ../inputs/a.counts ../inputs/b.counts --quiet --out merged.counts"
FIT = "fit ../inputs/a.counts --target LOC --quiet --out model.rgm"
TUNE = (
    "tune ../inputs/a.counts ../inputs/b.jsonl --target LOC --estimator selective --sizes 10,50 --lams 1e-5,1e-3 "
    "--k 50 --out t.rgm"
)
SCORE = "score ../inputs/a.rgm ../inputs/contexts.tsv --quiet --out scored"
TAG = "tag ../inputs/a-texts.jsonl --quiet --out tagged.parquet --processes"
FETCH = "fetch reuters ../inputs/a.tgz"
REPRODUCE = "reproduce --config ../inputs/experiment.toml --corpus ../inputs/a.jsonl --quiet --force --seed"
HOME = {"RAREGRAM_HOME": "home"}
SPACY: dict[str, Any] = {"needs": "spacy"}
REPORT: dict[str, Any] = {  # measured times are the same in every run
    "resumes": True,
    "needs": "matplotlib",
    "older": f"{REPRODUCE} 2",
    "environment": {"KILL_CLOCK": "1"},
}
COMMANDS = {
    command.name: command
    for command in (
        Command("count", COUNT),
        Command("count under a limit", f"{COUNT} --memory-limit 1MB"),
        Command("merge", MERGE),
        Command("subtract", f"{MERGE} --subtract ../inputs/b.counts", MERGE),
        Command("fit", f"{FIT} --estimator selective --size 100"),
        Command("fit back-off", FIT),
        Command("tune", TUNE),
        Command("score to Parquet", f"{SCORE}.parquet"),
        Command("score to CSV", f"{SCORE}.csv"),
        Command("score to text", f"{SCORE}.txt"),
        Command("tag", f"{TAG} 1", **SPACY),
        Command("tag in 2 processes", f"{TAG} 2", **SPACY),
        Command("fetch", FETCH, environment=HOME),
        Command("fetch a URL", "fetch reuters {url}/a.tgz", environment={**HOME, "no_proxy": "*"}, resumes=True),
        Command("fetch by npm", "fetch reuters --refresh", FETCH, HOME, byte_kills=False, resumes=True),
        Command("reproduce", f"{REPRODUCE} 1", **REPORT),
        Command("report", "reproduce --report-only", **REPORT),
    )
}


def named(name: str, url: str = "") -> Command:
    """Return a command by its name; `url` is where the corpus is served."""
    found = COMMANDS[name]
    older = found.older or re.sub(r"/a(?=[.-])", "/b", found.arguments)
    return replace(found, arguments=found.arguments.format(url=url), older=older.format(url=url))


def start(command: Command, folder: Path, environment: dict[str, str], arguments: str) -> subprocess.Popen[str]:
    """Start a command in a folder, as a group of processes of its own."""
    return subprocess.Popen(
        [str(RAREGRAM), *arguments.split()],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **command.environment, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(command: Command, folder: Path, environment: dict[str, str], arguments: str = "") -> tuple[int, str]:
    """Run a command in a folder to its end; return its exit code and what it printed as errors."""
    with start(command, folder, environment, arguments or command.arguments) as process:
        try:
            _, said = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said


def tree(folder: Path) -> Tree:
    """Return all files and folders under a folder, hidden ones too."""
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def finals(files: Tree) -> Tree:
    """Return the files under final names; hidden ones are temporary."""
    return {name: digest for name, digest in files.items() if digest and not re.search(r"(^|/)\.", name)}


# Inputs


def make_inputs(folder: Path) -> None:
    """Write what the commands read: an `a` of everything, and a `b` for what is older."""
    folder.mkdir(parents=True)
    for seed, name in enumerate("ab"):
        source = random.Random(seed)
        texts = [{"id": str(row), "text": " ".join(source.choices(SENTENCES, k=6))} for row in range(300)]
        for end, rows in ((".jsonl", [_document(source) for _ in range(400)]), ("-texts.jsonl", texts)):
            (folder / f"{name}{end}").write_text("".join(json.dumps(row) + "\n" for row in rows))
        spans = ["suffixes:4", "shapes:3"]
        counts = rg.count(str(folder / f"{name}.jsonl"), n=4, targets=["LOC", "PER"], spans=spans)
        counts.save(folder / f"{name}.counts")
        rg.fit(counts, "LOC", "selective", size=100).save(folder / f"{name}.rgm")
        _write_archive(folder / f"{name}.tgz", source)
    contexts = (f"LOC\t{' '.join(_words(random.Random(row), 4))}\n" for row in range(20_000))
    (folder / "contexts.tsv").write_text("".join(contexts))
    (folder / "experiment.toml").write_text(EXPERIMENT)


def _document(source: random.Random) -> dict[str, Any]:
    """Return a document in which two targets have tell-tale neighbours."""
    items, spans = _words(source, 60), []
    for at in range(5, 55, 5):
        label = source.choice(["LOC", "PER"])
        items[at - 1] = {"LOC": "in", "PER": "mr"}[label] if source.random() < 0.8 else "the"
        spans.append({"start": at, "end": at + 1, "label": label})
    return {"items": items, "spans": spans}


def _words(source: random.Random, number: int) -> list[str]:
    """Return words, few of them often and many rarely."""
    return [f"w{int(source.paretovariate(0.5)) % 5000}" for _ in range(number)]


def _write_archive(path: Path, source: random.Random) -> None:
    """Write an archive like that of the npm package."""
    with tarfile.open(path, "w:gz") as archive:
        for number in range(3):
            body = " ".join(f"{source.random():.9f}" for _ in range(20_000))
            content = json.dumps([{"body": body}]).encode()
            member = tarfile.TarInfo(f"package/data/full/reuters-{number:03}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine, and give the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; the client may have been killed."""
        with suppress(OSError):
            super().copyfile(source, outputfile)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

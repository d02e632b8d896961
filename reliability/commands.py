"""The commands that write files, each on a small corpus of its own: what is killed and what runs out of room.

A command runs in an empty folder beside `inputs`, or in one where its `older` form has written the same names before.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import raregram as rg

RAREGRAM = Path(sys.executable).with_name("raregram")
SECONDS = 900  # that a command may take, at most
REUTERS_FILES = 3
SENTENCES = (
    "Ann Lee of Boston met Mr. Smith in Paris on Monday.",
    "The Bank of England said rates would rise.",
    "Oil prices fell in Kuwait, traders in London said.",
    "John Brown will visit Tokyo next week.",
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
worths = [12.0]
taus = [0.5]
targets = ["LOC"]
"""

Tree: TypeAlias = dict[str, str]  # what a folder holds: path -> digest, "" for a folder


@dataclass(frozen=True)
class Command:
    """A command line, and one that has written the same files before."""

    name: str
    arguments: str
    older: str
    environment: dict[str, str] = field(default_factory=dict)
    byte_kills: bool = True  # whether a file that grows too large ends this process, and not another one's

    def line(self, arguments: str | None = None) -> list[str]:
        """Return the command as a list of words."""
        return [str(RAREGRAM), *(self.arguments if arguments is None else arguments).split()]


COUNT = "count ../inputs/{}.jsonl -n 4 --targets LOC,PER --spans suffixes:4,shapes:3 --quiet"
SCORE = "score ../inputs/{}.rgm ../inputs/contexts.tsv --quiet --out scored.{}"
TUNE = "tune ../inputs/{}.counts ../inputs/b.jsonl --target LOC --sizes 10,50 --lams 1e-5,1e-3 --k 50 --out t.rgm"
TAG = "tag ../inputs/{}-texts.jsonl --processes {} --quiet --out tagged.parquet"
REPRODUCE = "reproduce --config ../inputs/experiment.toml --corpus ../inputs/a.jsonl --quiet --force --seed {}"
BACKOFF = "fit ../inputs/{}.counts --target LOC --estimator backoff --quiet --out model.rgm"
MERGE = "merge ../inputs/{}.counts ../inputs/b.counts --quiet --out merged.counts"
HOME = {"RAREGRAM_HOME": "home"}

COMMANDS = (
    Command("count", COUNT.format("a") + " --out c.counts", COUNT.format("b") + " --out c.counts"),
    Command(
        "count with spill",
        COUNT.format("a") + " --memory-limit 1MB --out c.counts",
        COUNT.format("b") + " --memory-limit 1MB --out c.counts",
    ),
    Command("merge", MERGE.format("a"), MERGE.format("b")),
    Command("subtract", MERGE.format("a") + " --subtract ../inputs/b.counts", MERGE.format("a")),
    Command(
        "fit",
        "fit ../inputs/a.counts --target LOC --size 100 --quiet --out model.rgm",
        "fit ../inputs/a.counts --target PER --size 50 --quiet --out model.rgm",
    ),
    Command("fit back-off", BACKOFF.format("a"), BACKOFF.format("b")),
    Command("tune", TUNE.format("a"), TUNE.format("b")),
    Command("score to Parquet", SCORE.format("a", "parquet"), SCORE.format("b", "parquet")),
    Command("score to CSV", SCORE.format("a", "csv"), SCORE.format("b", "csv")),
    Command("score to text", SCORE.format("a", "txt"), SCORE.format("b", "txt")),
    Command("tag", TAG.format("a", 1), TAG.format("b", 1)),
    Command("tag in 2 processes", TAG.format("a", 2), TAG.format("b", 2)),
    Command("fetch", "fetch reuters ../inputs/a.tgz", "fetch reuters ../inputs/b.tgz", HOME),
    Command("fetch a URL", "fetch reuters {url}/a.tgz", "fetch reuters {url}/b.tgz", {**HOME, "no_proxy": "*"}),
    Command("fetch by npm", "fetch reuters --refresh", "fetch reuters ../inputs/b.tgz", HOME, byte_kills=False),
    Command("reproduce", REPRODUCE.format(1), REPRODUCE.format(2), {"KILL_CLOCK": "1"}),
)
NEEDS = {"tag": "spacy", "tag in 2 processes": "spacy", "reproduce": "matplotlib"}


def named(name: str, url: str = "") -> Command:
    """Return a command by its name; `url` is where the corpus is served."""
    (found,) = (command for command in COMMANDS if command.name == name)
    return Command(
        name, found.arguments.format(url=url), found.older.format(url=url), found.environment, found.byte_kills
    )


def can_run(name: str) -> bool:
    """Whether the libraries that a command needs are installed."""
    return name not in NEEDS or find_spec(NEEDS[name]) is not None


def start(
    command: Command, folder: Path, environment: dict[str, str] | None = None, arguments: str | None = None
) -> subprocess.Popen[str]:
    """Start a command in a folder, as a group of processes of its own."""
    return subprocess.Popen(
        command.line(arguments),
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **command.environment, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    command: Command, folder: Path, environment: dict[str, str] | None = None, arguments: str | None = None
) -> tuple[int, str]:
    """Run a command in a folder to its end; return its exit code and what it said of errors."""
    with start(command, folder, environment, arguments) as process:
        try:
            _, said = process.communicate(timeout=SECONDS)
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
    return {
        name: digest
        for name, digest in files.items()
        if digest and not any(part.startswith(".") for part in Path(name).parts)
    }


# Inputs


def make_inputs(folder: Path) -> None:
    """Write what the commands read: an `a` of everything, and a `b` for what is older."""
    folder.mkdir(parents=True)
    for seed, name in enumerate("ab"):
        source = random.Random(seed)
        _write_lines(folder / f"{name}.jsonl", [_document(source) for _ in range(400)])
        texts = ({"id": str(row), "text": _sentences(source)} for row in range(300))
        _write_lines(folder / f"{name}-texts.jsonl", list(texts))
        counts = rg.count(
            str(folder / f"{name}.jsonl"), n=4, targets=["LOC", "PER"], spans=["suffixes:4", "shapes:3"]
        )
        counts.save(folder / f"{name}.counts")
        rg.fit(counts, "LOC", size=100).save(folder / f"{name}.rgm")
        _write_archive(folder / f"{name}.tgz", source)
    rows = (f"LOC\t{' '.join(_words(random.Random(row), 4))}\n" for row in range(20_000))
    (folder / "contexts.tsv").write_text("".join(rows))
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


def _sentences(source: random.Random) -> str:
    return " ".join(source.choices(SENTENCES, k=6))


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_archive(path: Path, source: random.Random) -> None:
    """Write an archive like that of the npm package."""
    with tarfile.open(path, "w:gz") as archive:
        for number in range(REUTERS_FILES):
            body = " ".join(f"{source.random():.9f}" for _ in range(20_000))
            content = json.dumps([{"body": body}]).encode()
            member = tarfile.TarInfo(f"package/data/full/reuters-{number:03}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine, in parts too, and give the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers with a file from where it is asked to, in small pieces."""

    def __init__(self, folder: Path, *connection: Any) -> None:
        self.folder = folder
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Send a file, or what is asked for of it."""
        content = (self.folder / Path(self.path).name).read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        asked = self.headers.get("Range") if self.headers.get("If-Range", tag) == tag else None
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.send_response(416 if first >= len(content) else 206 if first else 200)
        shown = "*" if first >= len(content) else f"{first}-{len(content) - 1}"
        if first:
            self.send_header("Content-Range", f"bytes {shown}/{len(content)}")
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(content[first:])))
        self.end_headers()
        for at in range(first, len(content), 1 << 14):
            try:
                self.wfile.write(content[at : at + (1 << 14)])
            except OSError:  # it was killed
                return

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

"""The commands that write files, each on a small corpus: what `crashes.py` kills and lets run out of space.

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
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import raregram as rg

RAREGRAM = Path(sys.executable).with_name("raregram")
SECONDS = 900  # that a command may take, at most
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
    resumes: bool = False  # whether a run that fails leaves finished parts to the next one, in hidden folders
    needs: str = "raregram"  # a library

    @property
    def can_run(self) -> bool:
        """Whether the library that it needs is installed."""
        return find_spec(self.needs) is not None


COUNT = "count ../inputs/{}.jsonl -n 4 --targets LOC,PER --spans suffixes:4,shapes:3 --quiet --out c.counts"
SCORE = "score ../inputs/{}.rgm ../inputs/contexts.tsv --quiet --out scored.{}"
TUNE = "tune ../inputs/{}.counts ../inputs/b.jsonl --target LOC --sizes 10,50 --lams 1e-5,1e-3 --k 50 --out t.rgm"
TAG = "tag ../inputs/{}-texts.jsonl --processes {} --quiet --out tagged.parquet"
REPRODUCE = "reproduce --config ../inputs/experiment.toml --corpus ../inputs/a.jsonl --quiet --force --seed {}"
FIT = "fit ../inputs/{}.counts --target LOC --size 100 --quiet --out model.rgm"
BACKOFF = "fit ../inputs/{}.counts --target LOC --estimator backoff --quiet --out model.rgm"
MERGE = "merge ../inputs/{}.counts ../inputs/b.counts --quiet --out merged.counts"
FETCH = "fetch reuters ../inputs/{}.tgz"
HOME = {"RAREGRAM_HOME": "home"}
CLOCK = {"KILL_CLOCK": "1"}  # measured times are the same in every run
SPACY: dict[str, Any] = {"resumes": True, "needs": "spacy"}


def _both(name: str, line: str, **options: Any) -> Command:
    return Command(name, line.format("a"), line.format("b"), **options)


COMMANDS = (
    _both("count", COUNT),
    _both("count under a limit", COUNT + " --memory-limit 1MB"),
    _both("merge", MERGE),
    Command("subtract", MERGE.format("a") + " --subtract ../inputs/b.counts", MERGE.format("a")),
    _both("fit", FIT),
    _both("fit back-off", BACKOFF),
    _both("tune", TUNE),
    *(
        Command(f"score to {name}", SCORE.format("a", end), SCORE.format("b", end))
        for name, end in (("Parquet", "parquet"), ("CSV", "csv"), ("text", "txt"))
    ),
    Command("tag", TAG.format("a", 1), TAG.format("b", 1), **SPACY),
    Command("tag in 2 processes", TAG.format("a", 2), TAG.format("b", 2), **SPACY),
    _both("fetch", FETCH, environment=HOME),
    _both("fetch a URL", "fetch reuters {{url}}/{}.tgz", environment={**HOME, "no_proxy": "*"}, resumes=True),
    Command("fetch by npm", "fetch reuters --refresh", FETCH.format("b"), HOME, byte_kills=False, resumes=True),
    Command("reproduce", REPRODUCE.format(1), REPRODUCE.format(2), CLOCK, resumes=True, needs="matplotlib"),
    Command("report", "reproduce --report-only", REPRODUCE.format(2), CLOCK, resumes=True, needs="matplotlib"),
)
NAMES = tuple(command.name for command in COMMANDS)


def named(name: str, url: str = "") -> Command:
    """Return a command by its name; `url` is where the corpus is served."""
    found = COMMANDS[NAMES.index(name)]
    return replace(found, arguments=found.arguments.format(url=url), older=found.older.format(url=url))


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
        texts = [{"id": str(row), "text": " ".join(source.choices(SENTENCES, k=6))} for row in range(300)]
        _write_lines(folder / f"{name}-texts.jsonl", texts)
        spans = ["suffixes:4", "shapes:3"]
        counts = rg.count(str(folder / f"{name}.jsonl"), n=4, targets=["LOC", "PER"], spans=spans)
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


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


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
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(SimpleHTTPRequestHandler):
    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; the client may have been killed."""
        try:
            super().copyfile(source, outputfile)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

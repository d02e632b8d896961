"""What comes from elsewhere: packages by version and hash, nothing over the network, and files that are never run."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^(\S+)==(\S+?)((?: ;[^\\\n]*)?)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", re.MULTILINE)


def pins(lock: Path) -> list[tuple[Requirement, str]]:
    """The requirements of a lock file, each with its hashes."""
    return [
        (Requirement(f"{name}=={version}{marker}"), hashes)
        for name, version, marker, hashes in PIN.findall(lock.read_text())
    ]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_line_of_a_lock_file_is_a_pin_with_hashes(lock):
    text = lock.read_text()
    assert PIN.sub("", text).strip() == "", "there is something else in it"
    assert all(hashes for _, hashes in pins(lock))


def test_there_is_a_lock_file_for_every_environment():
    used = set(re.findall(r"requirements/(\w+\.txt)", (ROOT / "Makefile").read_text()))
    assert {lock.name for lock in LOCKS} == used


def test_the_lock_for_development_fits_what_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    locked: dict[str, list[str]] = {}
    for pin, _ in pins(ROOT / "requirements" / "dev.txt"):
        locked.setdefault(canonicalize_name(pin.name), []).append(next(iter(pin.specifier)).version)
    for line in asked:
        requirement = Requirement(line)
        if requirement.name != "raregram":
            for version in locked[canonicalize_name(requirement.name)]:
                if requirement.marker is None or requirement.marker.evaluate():
                    assert requirement.specifier.contains(version), (
                        f"{line}, but {version} is pinned: run `make lock`"
                    )


def test_what_is_installed_here_is_what_is_pinned():
    here = [pin for pin, _ in pins(ROOT / "requirements" / "dev.txt") if pin.marker is None or pin.marker.evaluate()]
    wrong = [
        f"{pin} but {importlib.metadata.version(pin.name)} is installed"
        for pin in here
        if not pin.specifier.contains(importlib.metadata.version(pin.name))
    ]
    assert not wrong
    assert len(here) > 100


WATCHED = """
import sys

asked = []
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind")
CODE = ("exec", "compile", "pickle.find_class", "marshal.loads", "marshal.load", "os.system", "os.exec", "os.fork",
        "os.posix_spawn", "subprocess.Popen", "ctypes.dlopen", "import")
watched = set(NETWORK)

def watch(event, arguments):
    if event in watched:
        asked.append((event, repr(arguments)[:200]))

sys.addaudithook(watch)
"""
NO_NETWORK = """
import raregram as rg, raregram.cli, raregram.corpus.contexts, raregram.show.describe
import socket
from typer.testing import CliRunner

def run(*arguments):
    done = CliRunner().invoke(raregram.cli.app, arguments)
    assert done.exit_code == 0, done.output

documents = '{"items": ["he", "lives", "in", "Rome"], "spans": [{"start": 3, "end": 4, "label": "LOC"}]}'
open("docs.jsonl", "w").write(documents)
open("asked.txt", "w").write("lives in\\n")
run("count", "docs.jsonl", "-n", "2", "--out", "a.counts")
run("merge", "a.counts", "a.counts", "--out", "b.counts")
for name in ("product", "backoff"):
    run("fit", "b.counts", "--estimator", name, "--out", "m.rgm")
    run("score", "m.rgm", "asked.txt")
    run("rank", "m.rgm", "asked.txt")
    run("explain", "m.rgm", "lives in")
    run("info", "m.rgm")
assert asked == [], asked
try:
    socket.create_connection(("127.0.0.1", 9), timeout=1)
except OSError:
    pass
assert asked, "the watch does not work"
"""
NO_CODE = """
import raregram as rg

counts = rg.Counts.from_contexts(["he lives in", "she said that", "it was in"], ["LOC", None, "LOC"],
                                 spans=["units", "suffixes:2", "shapes:2", "whole"])
counts.save("a.counts")
names = ("mle", "product", "selective", "backoff")
for name in names:
    rg.fit(counts, "LOC", estimator=name).save(name)

def load():
    rg.Counts.load("a.counts")
    for name in names:
        rg.Model.load(name).log_ratio(["he lives in"])

load()  # whatever is imported late is there now
watched |= set(CODE)
load()
assert asked == [], asked
eval("1 + 1")
assert asked, "the watch does not work"
"""


@pytest.mark.parametrize("code", [NO_NETWORK, NO_CODE], ids=["network", "code"])
def test_the_core_asks_for_nothing_from_outside_and_files_are_data(tmp_path, code):
    """No import and no command of the core talks to the network; loading a file runs nothing that is in it."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED + code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr

"""Commands that are killed: whatever the moment, no file is broken or lost, and a second run ends as a first would.

A small sample of `reliability/crashes.py`, which kills every command at many more moments.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import raregram as rg
from raregram import files as drafts
from reliability import commands, crashes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills") / "inputs"
    commands.make_inputs(folder)
    return folder


@pytest.fixture
def place(inputs, tmp_path):
    (tmp_path / "inputs").symlink_to(inputs)
    return crashes.Workplace(tmp_path)


# Kills of real processes


@pytest.mark.harness
@pytest.mark.parametrize(
    ("name", "older", "budget"),
    [
        ("count under a limit", True, (1, 2, 1)),
        ("merge", False, (0, 2, 1)),
        ("fit", True, (1, 2, 0)),
        ("score to text", False, (0, 1, 1)),
        ("fetch a URL", False, (0, 3, 1)),
    ],
)
def test_kills_break_nothing_and_a_rerun_equals_an_undisturbed_run(inputs, place, name, older, budget):
    with commands.served(inputs) as url:
        command = commands.named(name, url)
        ways = [crashes.undisturbed(command, place, older)]
        figures = crashes.kill_often(command, place, ways, random.Random(name), budget)
    assert figures.faults == []
    assert figures.bytes_lost == 0
    assert figures.reruns_equal == figures.reruns > 0
    assert figures.stopped + figures.finished == sum(budget)
    assert figures.stopped > 0


# The checks themselves can fail


@pytest.fixture
def calm(tmp_path):
    """A command that replaces the older of two files, without having run."""
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "a.txt").write_text("older")
    (tmp_path / "run").mkdir()
    before = commands.tree(tmp_path / "older")
    (tmp_path / "run" / "a.txt").write_text("finished")
    after = commands.tree(tmp_path / "run")
    return crashes.Undisturbed(tmp_path / "older", before, after, 1.0, 0, 8)


@pytest.mark.harness
@pytest.mark.parametrize(
    ("content", "lost", "fault"),
    [
        ("older", 0, None),
        ("finished", 0, None),
        ("finish", 5, "a.txt is neither the older file nor the finished one"),
        (None, 5, "a.txt is gone"),
    ],
)
def test_a_broken_or_missing_file_is_noticed(calm, tmp_path, content, lost, fault):
    path = tmp_path / "run" / "a.txt"
    path.write_text(content) if content else path.unlink()
    (tmp_path / "run" / ".a.txt.tmp").write_text("whatever")
    checks = crashes.Figures("a command")
    crashes.check_files(crashes.Workplace(tmp_path), calm, checks)
    assert checks.bytes_lost == lost
    assert checks.faults == ([fault] if fault else [])


@pytest.mark.harness
def test_the_hook_ends_a_process_at_its_event_and_at_its_byte(place):
    place.begin()
    writes = "import os; f = open('x', 'wb'); f.write(b'.' * 10_000); f.close(); os.rename('x', 'y'); print('over')"
    for more, code, left in [
        ({"KILL_AT_EVENT": "1"}, -signal.SIGKILL, {}),
        ({"KILL_AT_EVENT": "2"}, -signal.SIGKILL, {"x": 10_000}),
        ({"KILL_AT_EVENT": "3"}, 0, {"y": 10_000}),
        ({"KILL_AT_BYTE": "8200"}, -signal.SIGXFSZ, {"x": 8200}),
    ]:
        for path in (place.run / "x", place.run / "y"):
            path.unlink(missing_ok=True)
        options = {"cwd": place.run, "env": {**os.environ, **place.environment, **more}, "start_new_session": True}
        done = subprocess.run([sys.executable, "-c", writes], check=False, **options)
        assert done.returncode == code
        assert {name: (place.run / name).stat().st_size for name in "xy" if (place.run / name).exists()} == left


# Drafts


def left_beside(path):
    return sorted(each.name for each in path.parent.iterdir() if each != path)


def test_a_killed_run_leaves_the_old_file_and_does_not_block_the_next(other, tmp_path):
    process, _ = other
    path = tmp_path / "f.txt"
    path.write_text("old")
    process.kill()
    process.join()
    assert path.read_text() == "old"
    with drafts.atomic_path(path) as draft:
        draft.write_text("whole")
    assert path.read_text() == "whole"


def hold_a_draft(path, ready, over):
    """Write half a file in another process, then wait."""
    with drafts.atomic_path(path) as draft:
        draft.write_text("half")
        ready.set()
        over.wait(60)


@pytest.fixture
def other(tmp_path):
    """Another process in the middle of writing a file."""
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    process = context.Process(target=hold_a_draft, args=(tmp_path / "f.txt", ready, over))
    process.start()
    assert ready.wait(60)
    yield process, over
    process.kill()
    process.join()


def test_of_two_runs_that_write_the_same_file_the_last_one_wins_and_both_are_whole(other, tmp_path):
    process, over = other
    path = tmp_path / "f.txt"
    with drafts.atomic_path(path) as draft:
        draft.write_text("first")
    assert path.read_text() == "first"
    over.set()
    process.join(60)
    assert process.exitcode == 0
    assert path.read_text() == "half"
    assert left_beside(path) == []


def test_threads_that_write_the_same_file_do_not_meet(tmp_path):
    path = tmp_path / "f.txt"
    barrier = threading.Barrier(8)

    def write(number):
        with drafts.atomic_path(path) as draft:
            draft.write_text(f"{number}" * 1000)
            barrier.wait(30)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in {f"{number}" * 1000 for number in range(8)}
    assert left_beside(path) == []


def test_a_file_and_its_new_name_are_both_kept_by_the_disk(tmp_path, monkeypatch):
    """The draft is synced before it is renamed, and the folder after it."""
    calls = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(os.path.samestat(os.fstat(fd), folder)) or sync(fd))
    monkeypatch.setattr(Path, "replace", lambda self, target: calls.append("rename") or replace(self, target))
    folder = tmp_path.stat()
    with drafts.atomic_path(tmp_path / "f.txt") as draft:
        draft.write_text("whole")
    assert calls == [False, "rename", True]


# Temporary files and unfinished work


def test_a_count_in_memory_makes_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert rg.count([{"text": "she lives in Rome"}], n=2, targets=[]).totals.tolist() == [3]

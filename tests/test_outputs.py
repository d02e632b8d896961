"""Output files are whole or absent, whoever else writes them, and what cannot be written is said in one line."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import raregram as rg
from raregram.errors import FileError
from raregram.files import atomic_path, check_target

RAREGRAM = Path(sys.executable).with_name("raregram")
FULL = "No space left on device"


def names(folder):
    return sorted(os.listdir(folder))  # noqa: PTH208 - hidden files count


# --- writing -----------------------------------------------------------------------------------------------------


def hold_a_draft(path, ready, over):
    """Write half a file in another process, then wait."""
    with atomic_path(path) as draft:
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
    with atomic_path(path) as draft:
        draft.write_text("first")
    assert path.read_text() == "first"
    over.set()
    process.join(60)
    assert process.exitcode == 0
    assert path.read_text() == "half"
    assert names(tmp_path) == ["f.txt"]


def test_a_killed_run_leaves_the_old_file_and_does_not_block_the_next(other, tmp_path):
    path = tmp_path / "f.txt"
    path.write_text("old")
    other[0].kill()
    other[0].join()
    assert path.read_text() == "old"
    with atomic_path(path) as draft:
        draft.write_text("whole")
    assert path.read_text() == "whole"


def test_threads_that_write_the_same_file_do_not_meet(tmp_path):
    path, barrier = tmp_path / "f.txt", threading.Barrier(8)

    def write(number):
        with atomic_path(path) as draft:
            draft.write_text(f"{number}" * 1000)
            barrier.wait(30)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in {f"{number}" * 1000 for number in range(8)}
    assert names(tmp_path) == ["f.txt"]


def test_a_file_and_its_new_name_are_both_kept_by_the_disk(tmp_path, monkeypatch):
    """The draft is synced before it is renamed, and the folder after it."""
    calls, sync, replace, folder = [], os.fsync, Path.replace, tmp_path.stat()
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(os.path.samestat(os.fstat(fd), folder)) or sync(fd))
    monkeypatch.setattr(Path, "replace", lambda self, target: calls.append("rename") or replace(self, target))
    with atomic_path(tmp_path / "f.txt") as draft:
        draft.write_text("whole")
    assert calls == [False, "rename", True]


@pytest.mark.parametrize("name", ["a file with spaces", "a file\nwith lines", "[a-z]*.counts", "-", ".hidden", "é"])
def test_any_name_is_written(tmp_path, name):
    with atomic_path(tmp_path / name) as draft:
        draft.write_text("whole")
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, f"Error writing bytes. Detail: [errno 28] {FULL}"), FULL),
        (OSError("something else"), "something"),
    ],
)
def test_the_reason_is_the_systems_and_the_name_the_users(tmp_path, error, said):
    with pytest.raises(FileError, match=rf"^cannot write .*/x\.counts: {said}"), atomic_path(tmp_path / "x.counts"):
        raise error
    assert names(tmp_path) == []


def test_a_target_that_cannot_be_is_refused_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    for target, said in (
        ("folder", "it is a folder"),
        ("nowhere/x.counts", "the folder .*/nowhere does not exist"),
        ("x" * 250, "File name too long"),
    ):
        with pytest.raises(FileError, match=f"cannot write .*: {said}"):
            check_target(tmp_path / target)
    check_target(tmp_path / "x.counts")
    assert names(tmp_path) == ["folder"]


def test_a_count_in_memory_makes_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert rg.count([{"text": "she lives in Rome"}], n=2, targets=[]).totals.tolist() == [3]


# --- standard output, of real processes --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and contexts that are more than a pipe holds."""
    folder = tmp_path_factory.mktemp("outputs")
    rg.fit(rg.Counts.from_contexts(["he lives in", "she said that"], ["X", None])).save(folder / "a.rgm")
    (folder / "c.txt").write_text("he said in\n" * 20_000)
    return folder


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["score a.rgm c.txt", "info a.rgm"])
def test_printing_to_a_full_disk_is_an_error_in_one_line(folder, command):
    with Path("/dev/full").open("w") as full:
        options = {"cwd": folder, "stdout": full, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run([RAREGRAM, *command.split()], check=False, **options)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert FULL in done.stderr


def test_a_reader_that_goes_away_is_no_matter_for_words(folder):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([RAREGRAM, "score", "a.rgm", "c.txt"], cwd=folder, **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize(("closed", "lines"), [(1, 0), (2, 20_000)])
def test_a_closed_stream_is_no_traceback(folder, closed, lines):
    command = f"'{RAREGRAM}' score a.rgm c.txt {closed}>&-"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.count("\n") == lines

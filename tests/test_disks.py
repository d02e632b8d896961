"""Full disks, read-only ones and closed outputs: an error that says so, nothing broken, and nothing left behind.

A small sample of `reliability/disks.py`, which fills up the disk of every command at many more sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raregram import atomic as drafts
from raregram.errors import FileError

RELIABILITY = Path(__file__).parents[1] / "reliability"
sys.path.insert(0, str(RELIABILITY))

import commands  # noqa: E402
import disks  # noqa: E402

needs_mounts = pytest.mark.skipif(
    disks.namespace() is None, reason="disks cannot be mounted here: neither as root nor in a user namespace"
)
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder beside the inputs of all commands."""
    base = tmp_path_factory.mktemp("disks")
    commands.make_inputs(base / "inputs")
    (base / "run").mkdir()
    return base / "run"


@pytest.mark.slow
@needs_mounts
def test_on_full_and_read_only_disks_every_file_is_whole_and_a_rerun_with_room_succeeds(tmp_path):
    program = [sys.executable, RELIABILITY / "disks.py", "--steps", "2", "--older", "--out", tmp_path]
    wanted = ["--only", "library", "--only", "count with spill"]
    done = subprocess.run([*program, *wanted], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {each["name"]: each for each in json.loads((tmp_path / "disks.json").read_text())}
    assert {*figures} == {*disks.WRITERS, "count with spill"}
    for each in figures.values():
        assert each["faults"] == []
        assert each["refused"] > 0
        assert each["bytes_lost"] == 0
        assert each["reruns_equal"] == each["reruns"] > 0


@pytest.mark.slow
@needs_dev_full
@pytest.mark.parametrize("arguments", [line for line in disks.PRINTING if not line.startswith("info")])
def test_printing_to_a_full_disk_is_an_error_in_one_line(folder, arguments):
    assert disks.print_to_full(arguments, folder) == []


@pytest.mark.parametrize("arguments", [line for line in disks.PRINTING if line.startswith(("score", "rank"))][1:])
def test_a_reader_that_goes_away_is_no_matter_for_words(folder, arguments):
    assert disks.print_to_closed(arguments, folder) == []


@pytest.mark.parametrize(("closed", "lines"), [(1, 0), (2, 20_000)])
def test_a_closed_stream_is_no_traceback(folder, closed, lines):
    command = f"'{commands.RAREGRAM}' score ../inputs/a.rgm ../inputs/contexts.tsv {closed}>&-"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.count("\n") == lines


def test_the_reason_is_the_system_s_and_the_name_the_user_s(tmp_path):
    def fail(error):
        with drafts.atomic_path(tmp_path / "x.counts"):
            raise error

    said = "Error writing bytes to file. Detail: [errno 28] No space left on device"
    with pytest.raises(FileError, match=r"^cannot write .*/x\.counts: No space left on device$"):
        fail(OSError(28, said))
    with pytest.raises(FileError, match=r"^cannot write .*/x\.counts: something else$"):
        fail(OSError("something else"))
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - hidden files count


def test_a_target_that_cannot_be_is_refused_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match=r"cannot write .*/folder: it is a folder"):
        drafts.check_target(tmp_path / "folder")
    with pytest.raises(FileError, match=r"cannot write .*: the folder .*/nowhere does not exist"):
        drafts.check_target(tmp_path / "nowhere" / "x.counts")
    with pytest.raises(FileError, match=r"cannot write .*: File name too long"):
        drafts.check_target(tmp_path / ("x" * 250))
    drafts.check_target(tmp_path / "x.counts")
    assert os.listdir(tmp_path) == ["folder"]  # noqa: PTH208


@pytest.mark.parametrize("name", ["a file with spaces", "a file\nwith lines", "[a-z]*.counts", "-", ".hidden", "é"])
def test_any_name_is_written_and_cleared_of_drafts(tmp_path, name):
    (tmp_path / f".{name}.0123456789abcdef.tmp").touch()
    with drafts.atomic_path(tmp_path / name) as draft:
        draft.write_text("whole")
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (1, "raregram: error: cannot write a.counts: No space left on device\n", 0),
        (0, "raregram: error: cannot write a.counts: No space left on device\n", 1),
        (1, "Traceback\nraregram: error: cannot write a.counts: No space left on device\n", 1),
        (1, "raregram: error: cannot write it: No space left on device\n", 1),
        (1, "raregram: error: cannot write a.counts: it failed\n", 1),
    ],
)
def test_a_bad_message_is_noticed(code, said, wrong):
    assert len(disks.complaints(code, said, disks.FULL, {"a.counts"})) == wrong

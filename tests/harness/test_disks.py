"""Full disks, read-only ones and closed outputs: an error that says so, nothing broken, and nothing left behind.

A small sample of `reliability/crashes.py`, which fills up the disk of every command at many more sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raregram import files as drafts
from raregram.errors import FileError
from reliability import commands, crashes

needs_mounts = pytest.mark.skipif(
    crashes.namespace() is None, reason="disks cannot be mounted here: neither as root nor in a user namespace"
)
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder beside the inputs of all commands."""
    base = tmp_path_factory.mktemp("disks")
    commands.make_inputs(base / "inputs")
    (base / "run").mkdir()
    return base / "run"


@pytest.mark.harness
@needs_mounts
def test_on_full_and_read_only_disks_every_file_is_whole_and_a_rerun_with_space_succeeds(tmp_path):
    """Commands with older files under the same names; then each function of the library that writes files."""
    program = [*crashes.namespace(), sys.executable, "-c", TRIED, tmp_path]
    done = subprocess.run(program, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert len(figures) == 2 + len(crashes.WRITERS)
    for each in figures:
        assert each["faults"] == []
        assert each["stopped"] > 0
        assert each["bytes_lost"] == 0
        assert each["reruns_equal"] == each["reruns"] > 0


TRIED = """
import dataclasses, json, pathlib, sys
from reliability import commands, crashes
base = pathlib.Path(sys.argv[1])
commands.make_inputs(base / "inputs")
done = []
for command in map(commands.named, ("count under a limit", "score to CSV")):
    place = crashes.Workplace.fresh(base)
    done.append(crashes.fill_disks(command, place, [crashes.undisturbed(command, place, older=True)], sizes=2))
done += [crashes.fill_disks_of_library(name, crashes.Workplace.fresh(base), 8) for name in crashes.WRITERS]
print(json.dumps([dataclasses.asdict(figures) for figures in done]))
"""


@needs_dev_full
@pytest.mark.parametrize("arguments", [line for line in crashes.PRINTING if not line.startswith("info")])
def test_printing_to_a_full_disk_is_an_error_in_one_line(folder, arguments):
    assert crashes.print_to_full(arguments, folder) == []


@pytest.mark.parametrize("arguments", [line for line in crashes.PRINTING if line.startswith(("score", "rank"))][1:])
def test_a_reader_that_goes_away_is_no_matter_for_words(folder, arguments):
    assert crashes.print_to_closed(arguments, folder) == []


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
def test_any_name_is_written(tmp_path, name):
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
    assert len(crashes.complaints(code, said, crashes.FULL, {"a.counts"})) == wrong

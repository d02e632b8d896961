"""Commands that are killed or run out of space: no file is broken or lost, and a second run ends as a first would.

A small sample of `reliability/crashes.py`, which kills every command at many more moments and on many more disks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from reliability import commands, crashes

pytestmark = [
    pytest.mark.harness,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]
needs_mounts = pytest.mark.skipif(
    crashes.namespace() is None, reason="disks cannot be mounted here: neither as root nor in a user namespace"
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills") / "inputs"
    commands.make_inputs(folder)
    return folder


@pytest.fixture
def place(inputs, tmp_path):
    (tmp_path / "inputs").symlink_to(inputs)
    return crashes.Workplace(tmp_path)


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
    assert figures.reruns_equal == figures.reruns > 0
    assert figures.stopped + figures.finished == sum(budget)
    assert figures.stopped > 0


@needs_mounts
def test_on_full_and_read_only_disks_every_file_is_whole_and_a_rerun_with_space_succeeds(tmp_path):
    program = [*crashes.namespace(), sys.executable, "-c", TRIED, tmp_path]
    done = subprocess.run(program, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for each in json.loads(done.stdout):
        assert each["faults"] == []
        assert each["stopped"] > 0


TRIED = """
import dataclasses, json, pathlib, sys
from reliability import commands, crashes
base = pathlib.Path(sys.argv[1])
commands.make_inputs(base / "inputs")
done = []
for command in map(commands.named, ("count under a limit", "score to CSV")):
    place = crashes.Workplace.fresh(base)
    done.append(crashes.fill_disks(command, place, [crashes.undisturbed(command, place, older=True)], sizes=2))
done.append(crashes.refuse_targets("merge", crashes.Workplace.fresh(base)))
print(json.dumps([dataclasses.asdict(figures) for figures in done]))
"""


# The checks themselves can fail


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("older", None),
        ("finished", None),
        ("finish", "a.txt is neither the older file nor the finished one"),
        (None, "a.txt is gone"),
    ],
)
def test_a_broken_or_missing_file_is_noticed(tmp_path, content, fault):
    for folder, text in (("older", "older"), ("run", "finished")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(text)
    before, after = (commands.tree(tmp_path / folder) for folder in ("older", "run"))
    calm = crashes.Undisturbed(tmp_path / "older", before, after, 1.0, 0, 8)
    path = tmp_path / "run" / "a.txt"
    path.write_text(content) if content else path.unlink()
    (tmp_path / "run" / ".a.txt.tmp").write_text("whatever")
    checks = crashes.Figures("a command")
    crashes.check_files(crashes.Workplace(tmp_path), calm, checks)
    assert checks.faults == ([fault] if fault else [])


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

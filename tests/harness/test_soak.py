"""The soak: every answer is right, and the verdict on memory does fail where it should."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'raregram[serve]'")

from reliability import soak
from reliability.clients import Page, Question, Tally
from reliability.flatness import MEGABYTE, Sample, judge, look

pytestmark = [
    pytest.mark.harness,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to look at"),
]
HOUR = 3600.0


def sawtooth(second):
    """Rounds of seven seconds over 200 MB, in noise that is always the same."""
    return int(200 * MEGABYTE + 40 * MEGABYTE * (second % 7) / 7 + random.Random(second).gauss(0, 3 * MEGABYTE))


def steps(every, start=20):
    return lambda second: start + int(second // every)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, []),
        ({"memory": lambda s: sawtooth(s) - int(max(800 - s, 0) * 0.15 * MEGABYTE)}, []),  # a steep warm-up
        ({"memory": lambda s: sawtooth(s) * (3 if 2000 < s < 2300 else 1)}, []),
        ({"memory": lambda s: sawtooth(s) + int(0.3 * MEGABYTE * s / 60)}, ["memory"]),  # 18 MB in an hour
        ({"memory": lambda s: sawtooth(s) + int(20 * MEGABYTE * s / 60)}, ["memory"]),
        ({"files": steps(600)}, ["files"]),
        ({"threads": steps(600), "files": lambda s: 20 + int(s % 13)}, ["threads"]),
        ({"temporary": lambda s: int(s) * 1000}, ["temporary"]),
        ({"temporary": lambda s: 5 * MEGABYTE if s % 7 < 2 else 0}, []),
    ],
)
def test_leaks_are_told_from_sawteeth_peaks_and_warm_ups(given, wrong):
    usual = {"memory": sawtooth, "files": lambda s: 20, "threads": lambda s: 6, "temporary": lambda s: 0}
    functions = {**usual, **given}
    seconds = np.arange(0.5, HOUR, 5.0).tolist()
    samples = [Sample(s, **{name: function(s) for name, function in functions.items()}) for s in seconds]
    verdicts = judge("service", samples, HOUR)
    assert [found.what for found in verdicts if not found.flat] == wrong
    assert ["NOT FLAT" in str(found) for found in verdicts] == [not found.flat for found in verdicts]
    with pytest.raises(ValueError, match="there are 1 samples of the library after the warm-up"):
        judge("library", samples[-1:], HOUR)


def test_a_process_is_seen_as_the_kernel_sees_it(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(1000))
    hold = "import os, sys, threading; held = b'1' * 50_000_000; files = [open(os.devnull) for _ in range(9)]; \
threading.Thread(target=sys.stdin.read).start(); print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        seen = look(process.pid, tmp_path)
        process.stdin.close()
    assert 50_000_000 < seen.memory < 100_000_000
    assert (seen.files, seen.threads, seen.temporary) == (3 + 9, 2, 1000)


QUESTION = Question("/api/score", {"contexts": ["a b"], "models": ["LOC"]}, "LOC", [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("status", "scores", "wrong", "old"),
    [
        (200, [2.0], 0, 0),
        (200, [1.0], 0, 1),
        (200, [2.0000000000000004], 1, 0),
        (200, ["nan"], 1, 0),
        (200, [2.0, 2.0], 1, 0),
        (500, [2.0], 1, 0),
    ],
)
def test_an_answer_must_be_that_of_a_model_of_the_round(status, scores, wrong, old):
    tally = Tally()
    tally.compare(QUESTION, status, json.dumps({"scores": {"LOC": scores}}).encode())
    assert (len(tally.wrong), tally.while_changing) == (wrong, old)


def test_a_page_is_turned_only_when_its_last_answer_is_there():
    old, new, turned = [QUESTION], [QUESTION, QUESTION], threading.Event()
    page = Page(old)
    with page.reading() as questions:
        assert questions is old
        turning = threading.Thread(target=lambda: (page.turn(new), turned.set()))
        turning.start()
        assert not turned.wait(0.2)
        with page.reading() as turned_to:
            assert turned_to is new
    assert turned.wait(10)
    turning.join()


@pytest.mark.parametrize("seconds", [15, pytest.param(120, marks=pytest.mark.trust)])
def test_work_under_load_is_right_and_a_leak_is_found(tmp_path, seconds):
    """In a process of its own, as its memory counts; the short run leaks on purpose."""
    leak = 30 * MEGABYTE if seconds == 15 else 0
    command = [sys.executable, "-m", "reliability.soak", "--seconds", seconds, "--leak", leak, "--out", tmp_path]
    done = subprocess.run(list(map(str, command)), cwd=soak.PROJECT, capture_output=True, text=True, check=False)
    figures = json.loads((tmp_path / "soak.json").read_text())
    said = done.stdout + done.stderr
    assert figures["wrong"] == [], said
    assert figures["stopped"] == ""
    flat = {(found["process"], found["what"]): found["flat"] for found in figures["flatness"]}
    assert flat["service", "files"]
    assert flat["library", "memory"] is (not leak), said
    assert done.returncode == bool(leak), said
    assert said.endswith("FAILED\n" if leak else "PASSED\n")
    assert figures["rounds"] >= 2
    assert figures["answers"] >= 100
    assert {"ask", "plain", "bad", "drop"} <= set(figures["requests"])
    if not leak:
        assert all(flat.values()), said
        assert figures["by_the_round_before"] > 0  # models were replaced under the eyes of clients
        assert {"too_large", "slow"} <= set(figures["requests"])

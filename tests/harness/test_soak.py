"""The soak: memory stays flat under load, every answer is right, and the verdict does fail where it should."""

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
pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'raregram[report]'")

from reliability import flatness, soak
from reliability.flatness import MEGABYTE, Sample, judge, look, slope
from reliability.soak_load import Book, Client, Page, Tally, facts

pytestmark = [
    pytest.mark.harness,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to look at"),
]
HOUR = 3600.0


def series(memory, files=20, threads=6, temporary=0):
    """Samples of an hour; each thing is a number, or a function of the seconds."""
    given = {"memory": memory, "files": files, "threads": threads, "temporary": temporary}
    return [
        Sample(second, **{name: some(second) if callable(some) else some for name, some in given.items()})
        for second in np.arange(0.5, HOUR, 5.0).tolist()
    ]


def not_flat(samples):
    return [found.what for found in judge("service", samples, HOUR) if not found.flat]


def sawtooth(second):
    """Rounds of seven seconds over 200 MB, in noise that is always the same."""
    return int(200 * MEGABYTE + 40 * MEGABYTE * (second % 7) / 7 + random.Random(second).gauss(0, 3 * MEGABYTE))


def test_a_level_sawtooth_with_a_steep_warm_up_is_flat():
    assert not_flat(series(sawtooth)) == []
    assert not_flat(series(lambda second: sawtooth(second) - int(max(800 - second, 0) * 0.15 * MEGABYTE))) == []
    assert not_flat(series(lambda second: 3 * sawtooth(second) if 2000 < second < 2300 else sawtooth(second))) == []


@pytest.mark.parametrize("a_minute", [0.3, 1.0, 20.0])
def test_a_leak_of_memory_is_not_flat(a_minute):
    """Eighteen megabytes in an hour, a twelfth of the level, are found in noise of forty."""
    leaking = series(lambda second: sawtooth(second) + int(a_minute * MEGABYTE * second / 60))
    assert not_flat(leaking) == ["memory"]
    found = next(found for found in judge("library", leaking, HOUR) if found.what == "memory")
    assert found.growth == pytest.approx(60 * a_minute * MEGABYTE, rel=0.15)
    assert "memory of the library" in str(found)
    assert "NOT FLAT" in str(found)


@pytest.mark.parametrize("what", ["files", "threads"])
def test_one_more_file_or_thread_every_ten_minutes_is_not_flat(what):
    assert not_flat(series(sawtooth, **{what: lambda second: 20 + int(second // 600)})) == [what]
    assert not_flat(series(sawtooth, **{what: lambda second: 20 + int(second % 13)})) == []


def test_temporary_files_that_stay_are_not_flat():
    assert not_flat(series(sawtooth, temporary=lambda second: int(second) * 1000)) == ["temporary"]
    assert not_flat(series(sawtooth, temporary=lambda second: 5 * MEGABYTE if second % 7 < 2 else 0)) == []


def test_the_slope_is_the_median_of_all_slopes():
    seconds, values = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 3.0, 2.0, 100.0])
    assert slope(seconds, values) == pytest.approx(np.median([3, 1, 25, -1, 97 / 3, 49]))
    long = np.arange(10_000.0)
    assert slope(long, 2 * long + 7) == pytest.approx(2)


def test_too_few_samples_have_no_verdict():
    with pytest.raises(ValueError, match="there are 1 samples of the library after the warm-up"):
        judge("library", series(sawtooth)[-1:], HOUR)


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


# --- the clients -------------------------------------------------------------------------------------------------

QUESTION = {
    "path": "/api/score",
    "body": {"contexts": ["a b"], "models": ["LOC"]},
    "facts": [{"LOC": [1.0]}, {"LOC": [2.0]}],
}


@pytest.mark.parametrize(
    ("status", "scores", "settled", "wrong"),
    [
        (200, [2.0], True, 0),
        (200, [2.0], False, 0),
        (200, [1.0], False, 0),
        (200, [1.0], True, 1),  # an old model after the service had the new one
        (200, [2.0000000000000004], False, 1),
        (200, ["nan"], False, 1),
        (200, [2.0, 2.0], False, 1),
        (500, [2.0], False, 1),
    ],
)
def test_an_answer_must_be_that_of_the_model_of_the_round(status, scores, settled, wrong):
    tally = Tally()
    client = Client(1, Book(Page([QUESTION])), tally, seed=0, pause=0)
    client._compare(QUESTION, status, json.dumps({"scores": {"LOC": scores}}).encode(), settled)
    assert len(tally.wrong) == wrong


def test_an_answer_that_lacks_a_model_is_wrong():
    question = {**QUESTION, "facts": [{"LOC": [1.0], "PER": [5.0]}] * 2}
    tally = Tally()
    Client(1, Book(Page([question])), tally, 0, 0)._compare(question, 200, b'{"scores": {"LOC": [1.0]}}', False)
    assert ["PER" in what for what in tally.wrong] == [True]


def test_what_is_compared_of_each_kind_of_answer():
    explain = {"path": "/api/explain", "body": {"model": "LOC"}}
    term = {"start": 0, "end": 1, "value": -0.5, "f_nu": 3, "f_de": None, "kind": "item"}
    answer = {"log_ratio": -0.5, "interval": [-1.0, 0.0], "terms": [term]}
    assert facts(explain, answer) == {"LOC": [-0.5, [-1.0, 0.0], [[0, 1, -0.5, 3, None]]]}
    rank = {"path": "/api/rank", "body": {"model": "LOC"}}
    assert facts(rank, {"ranking": [{"log_ratio": 1.5, "items": ["a", "b"]}]}) == {"LOC": [[1.5, "a", "b"]]}


def test_a_page_is_turned_only_when_its_last_answer_is_there():
    old, new, turned = Page([QUESTION]), Page([QUESTION]), threading.Event()
    book = Book(old)
    with book.reading() as (page, _):
        assert page is old
        turning = threading.Thread(target=lambda: (book.turn(new), turned.set()))
        turning.start()
        assert not turned.wait(0.2)
        with book.reading() as (turned_to, _):
            assert turned_to is new
    assert turned.wait(10)
    turning.join()


# --- the whole ---------------------------------------------------------------------------------------------------


def test_two_minutes_of_work_under_load_are_right_and_flat(tmp_path, capsys):
    code = soak.main(["--seconds", "120", "--out", str(tmp_path), "--seed", "1"])
    told = capsys.readouterr().out
    assert code == 0, told
    figures = json.loads((tmp_path / "soak.json").read_text())
    assert figures["wrong"] == []
    assert figures["stopped"] == ""
    assert {(found["process"], found["what"]) for found in figures["flatness"] if found["flat"]} == {
        (process, what) for process in ("library", "service") for what in flatness.BOUNDS
    }
    assert figures["rounds"] >= 5
    assert figures["answers"] >= 500
    assert figures["by_the_round_before"] > 0  # models were replaced under the eyes of clients
    assert {"ask", "plain", "bad", "too_large", "drop", "slow"} <= set(figures["requests"])
    assert "<svg" in (tmp_path / "soak.svg").read_text()
    assert told.endswith("PASSED\n")


def test_a_run_that_leaks_on_purpose_fails(tmp_path, capsys):
    """Twenty megabytes and two open files a second: both are named, and nothing else is wrong."""
    leak = 20 * MEGABYTE
    code = soak.main(["--seconds", "8", "--pace", "0", "--out", str(tmp_path), "--leak", str(leak)])
    told = capsys.readouterr().out
    assert code == 1
    figures = json.loads((tmp_path / "soak.json").read_text())
    found = {(found["process"], found["what"]): found for found in figures["flatness"]}
    assert not found["library", "memory"]["flat"], told
    assert not found["library", "files"]["flat"], told
    assert found["library", "memory"]["growth"] > 0.5 * leak * figures["seconds"]
    assert found["service", "files"]["flat"], told
    assert figures["wrong"] == []
    assert figures["stopped"] == ""
    assert told.endswith("FAILED\n")

"""`python -m benchmarks` with its rivals, run for real on a tiny corpus with a clear signal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import raregram as rg
from benchmarks.__main__ import STEPS
from benchmarks.measuring import PROJECT, met
from benchmarks.rivals import REGISTRY, summary, two_numbers
from benchmarks.rivals import data as rival_data
from raregram.experiment.run import Config
from raregram.measure.cllr import cllr

ENVIRONMENT = PROJECT / ".venv-bench"
PYTHON = ENVIRONMENT / "bin/python"
SIZE, K = 150, 200
CONFIG = Config(n=4, targets=("LOC",))
CLUES = ["in", "at", "near", "from"]

pytestmark = pytest.mark.trust
INSTALLED = json.loads((ENVIRONMENT / "rivals.json").read_text()) if (ENVIRONMENT / "rivals.json").exists() else {}
needs_environment = pytest.mark.skipif(
    not INSTALLED, reason="python -m benchmarks.install makes the rivals' environment"
)

BAD_RIVALS = """
import os, signal, time
import numpy as np
from benchmarks.rivals import Rival

class Bad(Rival):
    def format(self, texts, labels=None): return texts
    def score(self, formatted): return np.zeros(len(formatted))
    def save(self, folder): pass

class Raises(Bad):
    def fit(self): raise RuntimeError("it broke\\nin two lines")

class Dies(Bad):
    def fit(self): os.kill(os.getpid(), signal.SIGKILL)

class Hungry(Bad):
    def fit(self): self.much = np.ones(1 << 40)

class Sleeps(Bad):
    def fit(self): time.sleep(600)
"""


def documents(number, seed):
    """Articles in which a name mostly follows a clue, and a clue is mostly followed by a name."""
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(100)]
    texts, spans = [], []
    for _ in range(number):
        items = [rng.choice(CLUES if rng.random() < 0.01 else words) for _ in range(40)]
        at = sorted(rng.sample(range(6, 40, 3), 3))
        for start in at:
            items[start - 1] = rng.choice(CLUES if rng.random() < 0.9 else words)
            items[start] = f"Name{rng.randrange(20)}"
        texts.append(" ".join(items))
        spans.append([{"start": start, "end": start + 1, "label": "LOC"} for start in at])
    return pa.table({"text": texts, "spans": spans})


def make_data(folder, seed):
    folder.mkdir(parents=True)
    rival_data.write_training(folder, SIZE, documents(SIZE, seed=10 * seed + 1), CONFIG)
    for number, name in enumerate(("valid", "test")):
        rival_data.write_types(folder / f"{name}.parquet", documents(80, seed=10 * seed + 2 + number), CONFIG)
    made = rival_data.Data(folder)
    made.describe(CONFIG.n, CONFIG.targets)
    return made


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder of results that holds the contexts of two seeds."""
    folder = tmp_path_factory.mktemp("bench")
    for seed in (0, 1):
        make_data(folder / f"data-{seed}", seed)
    return folder


@pytest.fixture
def data(out):
    return rival_data.Data(out / "data-0")


def start(out, *arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments, "--small", "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True, **pipes)


@pytest.fixture(scope="module")
def bench(out):
    """The steps with rivals, ended and killed on the way: what was there then, what in the end, and the page."""
    for number, end in (
        (2, lambda pid: os.kill(pid, signal.SIGTERM)),
        (5, lambda pid: os.killpg(pid, signal.SIGKILL)),
    ):
        process = start(out, "contest", "ends")
        while process.poll() is None and len(list((out / "contest").glob("[!.]*.json"))) < number:
            time.sleep(0.05)
        end(process.pid)
        process.communicate()
        assert process.returncode != 0
    before = {path: path.stat().st_mtime_ns for path in (out / "contest").glob("[!.]*.json")}
    assert not (out / "contest.json").exists()
    process = start(out, "contest", "ends")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return before, json.loads((out / "contest.json").read_text())["entries"], (out / "benchmarks.md").read_text()


def entry_in(bench, name, seed=0):
    found = [e for e in bench[1] if (e["rival"], e["seed"]) == (name, seed)]
    return found[0] if found else None


@needs_environment
@pytest.mark.parametrize("name", REGISTRY)
def test_every_rival_finds_the_signal_or_could_not_be_installed(bench, name):
    entry = entry_in(bench, name)
    missing = [f"{need}: {INSTALLED[need]}" for need in REGISTRY[name].needs if INSTALLED[need] != "ok"]
    if missing:
        assert entry["failed"] == "; ".join(missing)
        return
    assert "failed" not in entry, entry
    assert entry["average_precision"] > 3 * entry["share_correct"]
    assert entry["calibration"]["least"] <= entry["calibration"]["cllr"] < 1
    assert entry["calibration"]["targets"] > 0
    assert min(entry["model_bytes"], entry["peak_bytes"], entry["contexts_per_second"]) > 0
    tried = {json.dumps(one["setting"]): one["valid_f1"] for one in entry["tried"]}
    assert max(tried.values()) == tried[json.dumps(entry["setting"])]


@needs_environment
def test_a_second_run_goes_on_where_the_first_was_ended(bench):
    before, entries, _ = bench
    assert 0 < len(before) < len(entries)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@needs_environment
def test_f1_and_cllr_are_those_of_a_computation_by_hand(bench, data):
    entry = entry_in(bench, "raregram")
    spans = ["units", "suffixes:4", "shapes:4"]
    counts = rg.count(data.documents(SIZE), n=4, targets=["LOC"], spans=spans)
    setting = entry["setting"]
    lam = setting["worth"] / (counts.totals[0] - counts.totals[1])
    model = rg.fit(counts, "LOC", "backoff", lam=lam, tau=setting["tau"])
    test = data.read("test", "LOC")
    scores = model.log_ratio(test.texts.to_pylist())
    calibrated = rg.fit(
        rg.count(data.documents(SIZE), n=4, targets=["LOC"], spans=[*spans, "whole"], folds=5),
        "LOC",
        "backoff",
        lam=lam,
        tau=setting["tau"],
    )
    f_nu, f_de = data.frequencies("test", "LOC")
    expected = cllr(calibrated.log_ratio(test.texts.to_pylist()), f_nu, f_de)
    assert entry["calibration"]["cllr"] == pytest.approx(expected, rel=1e-12)
    best = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:K]
    hits = sum(bool(test.labels[row]) for row in best)
    precision, recall = hits / K, hits / int(test.labels.sum())
    assert entry["test_f1"] == pytest.approx(2 * precision * recall / (precision + recall))


@needs_environment
def test_the_page_shows_everything(bench, out):
    _, entries, page = bench
    for name, rival in REGISTRY.items():
        assert rival.title in page, name
    assert "{{" not in page
    assert "| **Files in, files out** | | | |\n" in page
    assert "\n| LOC: files to files, time of the fastest rival" in page
    assert page.count("Not measured.") == len(STEPS) - 2
    assert f"| {SIZE} articles | Cllr LOC | least LOC | loss LOC |" in page
    f1 = [entry["test_f1"] for entry in entries if entry["rival"] == "raregram"]
    low, high = min(f1), max(f1)
    assert f"| **raregram back-off** | {(low + high) / 2:.3f} ({low:.3f} to {high:.3f}) |" in page
    assert "<svg" in (out / "pictures/rivals.svg").read_text()
    machine = json.loads((out / "machine.json").read_text())
    assert machine["cores"] == os.cpu_count()
    assert "raregram" in machine["packages"]


@needs_environment
def test_a_rival_that_fails_is_listed_with_one_line(out, tmp_path):
    (tmp_path / "bad_rivals.py").write_text(BAD_RIVALS)
    (tmp_path / "data-0").symlink_to(out / "data-0")
    rivals = "Raises", "Dies", "Sleeps", "Hungry"
    command = [PYTHON, "-m", "benchmarks.contest", "--out", tmp_path, "--python", PYTHON, "--sizes", SIZE]
    command += ["--targets", "LOC", "--seeds", 0, "--k", K, "--limit", 8, "--memory", 4]
    command += ["--rivals", ",".join(f"bad_rivals:{name}" for name in rivals)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    subprocess.run(list(map(str, command)), cwd=PROJECT, env=environment, check=True)
    entries = [json.loads((tmp_path / f"contest/0-{SIZE}-LOC-bad_rivals:{name}.json").read_text()) for name in rivals]
    raises, dies, sleeps, hungry = (entry["failed"] for entry in entries)
    assert raises == "RuntimeError: it broke in two lines"
    assert dies.startswith("SIGKILL")
    assert sleeps == "not done in 8 s"
    assert hungry == "out of memory at 4 GB"
    assert "- bad_rivals:Raises: RuntimeError: it broke in two lines" in summary.table(entries, SIZE)


def test_contexts_are_those_that_raregram_counts(data):
    train = data.read(f"contexts-{SIZE}", "LOC")
    labels = np.where(train.labels, "LOC", "O")
    spans = ["units", "whole"]
    counted = rg.count(data.documents(SIZE), n=4, targets=["LOC"], spans=spans)
    assert rg.Counts.from_contexts(train.texts.combine_chunks(), labels, spans=spans) == counted


def test_two_numbers_are_those_of_scikit_learn_s_logistic_regression():
    generator = np.random.default_rng(1)
    scores, f_nu, f_de = generator.normal(size=300), generator.integers(0, 3, 300), generator.integers(0, 9, 300)
    f_nu = f_nu * (scores > -0.5)
    calibrate = two_numbers(scores, f_nu, f_de)
    slope, offset = calibrate(np.array([1.0]))[0] - calibrate(np.array([0.0]))[0], calibrate(np.array([0.0]))[0]
    weight = np.concatenate([f_nu / f_nu.sum(), f_de / f_de.sum()]) * 1000
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    oracle.fit(np.tile(scores, 2)[:, None], np.repeat([1, 0], 300), sample_weight=weight)
    assert (slope, offset) == pytest.approx((oracle.coef_[0, 0], oracle.intercept_[0]), abs=1e-5)


def entry_of(rival, f1, read, fit, speed, cllr=None):
    timings = {"read_seconds": read, "fit_seconds": fit, "contexts_per_second": speed}
    calibration = cllr and {"calibration": {"cllr": cllr, "least": cllr - 0.01, "loss": 0.01}}
    return {"rival": rival, "seed": 0, "size": 9, "target": "LOC", "test_f1": f1, **timings, **(calibration or {})}


def test_verdicts():
    entries = [
        entry_of("raregram", 0.5, 1.0, 1.0, 1000.0, 0.6),
        entry_of("lr-units", 0.44, 10.0, 40.0, 100.0, 0.75),
        entry_of("sgd-units", 0.46, 8.0, 2.0, 250.0, 0.8),
        {**entry_of("vw", 0, 0, 0, 0), "failed": "it broke"},
    ]
    found = {f["what"]: (round(f["value"], 3), met(f)) for f in summary.verdicts(entries).found}
    title = "LOC, 9 articles: "
    assert found == {
        f"{title}F1 over that of the best rival, SGD, units": (1.087, True),
        f"{title}time to a model of the best logistic regression over ours, SGD, units": (5.0, False),
        f"{title}time to a model of the fastest rival within 10 % of our F1 over ours, SGD, units": (5.0, False),
        f"{title}speed of scoring from text over that of SGD, units": (4.0, False),
        f"{title}Cllr over that of the best rival, liblinear, units": (0.8, True),
    }
    assert summary.cllr_table(entries, 9)[2:] == [
        "| **raregram back-off** | 0.6000 | 0.5900 | 0.0100 |",
        "| liblinear, units | 0.7500 | 0.7400 | 0.0100 |",
        "| SGD, units | 0.8000 | 0.7900 | 0.0100 |",
    ]

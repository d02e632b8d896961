"""The contest of `benchmarks.contest`, run for real on a tiny corpus with a clear signal."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import raregram as rg
from benchmarks import install
from benchmarks.measuring import PROJECT, output_of
from benchmarks.rivals import REGISTRY, summary
from benchmarks.rivals import data as rival_data
from raregram.measure.experiment import Config

ENVIRONMENT = PROJECT / ".venv-bench"
PYTHON = ENVIRONMENT / "bin/python"
SIZE, K = 150, 200
CONFIG = Config(n=4, targets=("LOC",))
CLUES = ["in", "at", "near", "from"]

pytestmark = pytest.mark.harness
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


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rival_data.write_training(folder, SIZE, documents(SIZE, seed=1), CONFIG)
    for number, name in enumerate(("valid", "test")):
        rival_data.write_types(folder / f"{name}.parquet", documents(80, seed=2 + number), CONFIG)
    made = rival_data.Data(folder)
    made.describe(CONFIG.n, CONFIG.targets)
    return made


def run_contest(data, out, *options):
    """Run the contest, with a module of bad rivals within reach; return the results and what was said."""
    (out / "bad_rivals.py").write_text(BAD_RIVALS)
    command = [PYTHON, "-m", "benchmarks.contest", "--data", data.folder, "--out", out, "--python", PYTHON]
    command += ["--sizes", SIZE, "--targets", "LOC", "--k", K, "--warm", "0", *options]
    options = {"cwd": PROJECT, "env": {**os.environ, "PYTHONPATH": str(out)}, "capture_output": True, "text": True}
    done = subprocess.run(list(map(str, command)), check=False, **options)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())["entries"], done


@pytest.fixture(scope="module")
def contest(data, tmp_path_factory):
    """The contest of all rivals that are usually run, with two that fail among them."""
    out = tmp_path_factory.mktemp("out")
    usual = [name for name, entry in REGISTRY.items() if not entry.on_request]
    rivals = ["bad_rivals:Raises", "bad_rivals:Dies", *usual]
    entries, done = run_contest(data, out, "--rounds", "1", "--rivals", ",".join(rivals))
    return out, entries, done


@needs_environment
@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if not entry.on_request])
def test_every_rival_finds_the_signal_or_could_not_be_installed(contest, name):
    entry = contest[1][f"{SIZE} LOC {name}"]
    missing = [f"{need}: {INSTALLED[need]}" for need in REGISTRY[name].needs if INSTALLED[need] != "ok"]
    if missing:
        assert entry["failed"] == "; ".join(missing)
        return
    assert "failed" not in entry, entry
    assert entry["average_precision"] > 3 * entry["share_correct"]
    assert np.isfinite(list(entry["rounds"][0].values())).all()
    assert min(entry["model_bytes"], entry["peak_bytes"], entry["contexts_per_second"]) > 0
    tried = {json.dumps(one["setting"]): one["valid_f1"] for one in entry["tried"]}
    assert max(tried.values()) == tried[json.dumps(entry["setting"])]


@needs_environment
def test_autotuned_fasttext(data):
    if INSTALLED["fasttext"] != "ok":
        pytest.skip("fastText could not be installed")
    setting = ["--setting", '{"seconds": 3}']
    printed = output_of(
        PYTHON, "-m", "benchmarks.rivals.run", data.folder, SIZE, "LOC", "fasttext-autotune", *setting
    )
    result = json.loads(printed)
    assert result["average_precision"] > 3 * result["share_correct"], result


@needs_environment
def test_a_rival_that_fails_is_listed_with_one_line(contest):
    out, entries, _ = contest
    assert entries[f"{SIZE} LOC bad_rivals:Raises"]["failed"] == "RuntimeError: it broke in two lines"
    assert entries[f"{SIZE} LOC bad_rivals:Dies"]["failed"].startswith("SIGKILL")
    assert "- bad_rivals:Raises: RuntimeError: it broke in two lines\n" in (out / "table.md").read_text()


@needs_environment
def test_f1_is_that_of_a_computation_by_hand(contest, data):
    entry = contest[1][f"{SIZE} LOC raregram"]
    spans = ["units", "suffixes:4", "shapes:4"]
    counts = rg.count(data.documents(SIZE), n=4, targets=["LOC"], spans=spans)
    setting = entry["setting"]
    lam = setting["worth"] / (counts.totals[0] - counts.totals[1])
    model = rg.fit(counts, "LOC", "backoff", lam=lam, tau=setting["tau"])
    test = data.read("test", "LOC")
    scores = model.log_ratio(test.texts.to_pylist())
    best = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:K]
    hits = sum(bool(test.labels[row]) for row in best)
    precision, recall = hits / K, hits / int(test.labels.sum())
    assert entry["test_f1"] == pytest.approx(2 * precision * recall / (precision + recall))


@needs_environment
def test_table_figure_and_verdicts_are_written(contest):
    out, entries, done = contest
    table = (out / "table.md").read_text()
    for name, rival in REGISTRY.items():
        assert rival.on_request or rival.title in table, name
    measured = [entry for entry in entries.values() if "failed" not in entry]
    best = max(measured, key=lambda entry: entry["test_f1"])
    first_row = table.splitlines()[table.splitlines().index("|---|--:|--:|--:|--:|--:|--:|--:|") + 1]
    assert f"| {best['test_f1']:.4f} |" in first_row
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figure.svg").read_text()
    assert "first in F1" in done.stdout
    assert done.stdout == (out / "verdicts.txt").read_text()
    machine = json.loads((out / "results.json").read_text())["machine"]
    assert machine["cores"] == os.cpu_count()
    assert "raregram" in machine["packages"]


@needs_environment
def test_a_second_run_measures_only_what_is_missing(contest, data):
    out, before, _ = contest
    names = ["raregram", "raregram-selective"]
    options = ("--rounds", "2", "--rivals", ",".join(names))
    after, _ = run_contest(data, out, *options)
    keys = [f"{SIZE} LOC {name}" for name in names]
    assert {**before, **{key: after[key] for key in keys}} == after
    for key in keys:
        assert len(after[key]["rounds"]) == 2
        assert after[key]["rounds"][0] == before[key]["rounds"][0]
        for name in summary.TIMINGS:
            assert after[key][name] == statistics.median(one[name] for one in after[key]["rounds"])
        assert (after[key]["test_f1"], after[key]["setting"]) == (before[key]["test_f1"], before[key]["setting"])
    assert run_contest(data, out, *options)[0] == after
    anew, _ = run_contest(data, out, "--rounds", "1", "--rivals", names[1], "--again", names[1])
    assert len(anew[keys[1]]["rounds"]) == 1
    assert anew[keys[0]] == after[keys[0]]


@needs_environment
def test_limits_of_time_and_memory(data, tmp_path):
    rivals = "bad_rivals:Sleeps,bad_rivals:Hungry"
    entries, _ = run_contest(data, tmp_path, "--limit", "5", "--memory", "4", "--rivals", rivals)
    assert entries[f"{SIZE} LOC bad_rivals:Sleeps"]["failed"] == "not done in 5 s"
    assert entries[f"{SIZE} LOC bad_rivals:Hungry"]["failed"] == "out of memory at 4 GB"


def test_contexts_are_those_that_raregram_counts(data):
    train = data.read(f"contexts-{SIZE}", "LOC")
    labels = np.where(train.labels, "LOC", "O")
    spans = ["units", "whole"]
    counted = rg.count(data.documents(SIZE), n=4, targets=["LOC"], spans=spans)
    assert rg.Counts.from_contexts(train.texts.combine_chunks(), labels, spans=spans) == counted


def entry_of(rival, f1, read, fit, speed):
    timings = {"read_seconds": read, "fit_seconds": fit, "contexts_per_second": speed}
    tried = [{"setting": {}, "valid_f1": f1, "fit_seconds": fit}]
    return {"rival": rival, "size": 9, "target": "LOC", "test_f1": f1, "tried": tried, **timings}


def test_verdicts(tmp_path):
    entries = [
        entry_of("raregram", 0.5, 1.0, 1.0, 1000.0),
        entry_of("lr-units", 0.44, 10.0, 40.0, 100.0),
        entry_of("sgd-units", 0.46, 8.0, 2.0, 250.0),
    ]
    text = summary.write_verdicts({"entries": {e["rival"]: e for e in entries}}, tmp_path / "verdicts.txt")
    assert text.splitlines() == [
        "LOC, training size 9",
        "  yes  first in F1: 1.087 x that of the best rival, SGD, units",
        "  NO   a model 5.0 x faster than SGD, units (wanted 20; logistic regression, the best on validation); "
        "fit alone 2.0 x",
        "  NO   a model 5.0 x faster than SGD, units (wanted 10; the fastest rival within 10 % of our F1); "
        "fit alone 2.0 x",
        "  NO   scores from text 4.0 x as fast as SGD, units (wanted 5)",
    ]


def test_a_step_of_the_installation_that_fails_gives_a_reason_in_one_line():
    code = "import sys; sys.exit('first line\\nan Error:  of\\tsome kind\\nlast line')"
    reason = install.outcome(lambda: install.run(sys.executable, "-c", code))
    assert reason.endswith("failed: an Error: of some kind")
    assert install.outcome(lambda: install.run("no-such-program", "x")).startswith("no-such-program ... x could not")
    assert install.outcome(lambda: None) == "ok"

"""The experiment end to end on a tiny corpus, against slow code; the report; what ships with the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raregram.measure.processes import map_in_processes
from raregram.show.report import write_report

import raregram as rg
from raregram import options
from raregram.corpus.fetch import fetched_stanford
from raregram.errors import InputError, ParameterError, RaregramError
from raregram.experiment.run import Config
from raregram.experiment.tables import findings, tables
from raregram.measure import experiment
from raregram.measure.evaluate import evaluate

RAREGRAM = Path(sys.executable).with_name("raregram")
SMALL = {
    "train": 60, "valid": 20, "test": 20, "n": 3, "k": 15, "sizes": (2, 5, 50), "lams": (1e-4, 1e-2), "seed": 1,
    "targets": ("LOC", "PER"),
}  # fmt: skip


@pytest.fixture(scope="module")
def documents():
    """A hundred documents in which two targets have tell-tale neighbours."""
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in range(30)]
    made = []
    for _ in range(100):
        items = rng.choice(words, 25).tolist()
        spans = []
        for at in range(5, 20, 5):
            label = "LOC" if rng.random() < 0.5 else "PER"
            items[at - 1] = {"LOC": "in", "PER": "mr"}[label] if rng.random() < 0.8 else "the"
            spans.append({"start": at, "end": at + 1, "label": label})
        made.append({"items": items, "spans": spans})
    return made


@pytest.fixture(scope="module")
def corpus_file(documents, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "tagged.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


@pytest.fixture(scope="module")
def config(corpus_file):
    return Config(corpus=(str(corpus_file),), **SMALL)


@pytest.fixture(scope="module")
def results(config):
    """The commands below run the targets side by side, and compare with this."""
    made = experiment.run(config, experiment.load_corpus(config), processes=1)
    return json.loads(json.dumps(made))


def made_articles(count, length):
    """Articles of made-up words in which places mostly follow one kind of word and people another."""
    numbers = iter((np.random.PCG64(7).random_raw(count * length * 9) >> np.uint64(33)).tolist())
    syllables = ("ba", "ne", "ti", "ro", "su", "lan", "der", "king")
    endings = ("", "", "ed", "ing", "s.", ",")
    cues = {"LOC": ("in", "near", "from"), "PER": ("Mr.", "said", "by")}

    def word():
        return (
            "".join(syllables[next(numbers) % 8] for _ in range(1 + next(numbers) % 3)) + endings[next(numbers) % 6]
        )

    articles = []
    for _ in range(count):
        items, spans = [], []
        while len(items) < length:
            label, kind = ("LOC", "PER")[next(numbers) % 2], next(numbers) % 10
            items.append(cues[label][next(numbers) % 3] if kind < 3 else word())
            if kind in (1, 2, 3):  # two of three cues, and some other words, have a name behind them
                spans.append({"start": len(items), "end": len(items) + 1, "label": label})
                items.append(word().title())
            elif kind == 4:
                items.append(str(next(numbers) % 1000))
        articles.append({"items": items, "spans": spans})
    return articles


# Cllr of back-off and selective, and of both when calibrated; LOC and PER.
COSTS = [[0.555295, 0.690514, 0.555452, 0.656071], [0.600956, 0.688202, 0.579536, 0.615046]]


def test_the_costs_are_as_they_were():
    """Three hundred articles, on which sizes and ridges make a difference."""
    settings = Config(
        corpus=("made",), train=200, valid=50, test=50, n=4, k=800, sizes=(5, 50, 500), lams=(1e-4, 1e-2), suffixes=3,
        shapes=4, priors=(6.0, 24.0), taus=(0.4, 0.6),
    )  # fmt: skip
    made = experiment.run(settings, pa.Table.from_pylist(made_articles(300, 120)))
    for target, expected in zip(made["targets"].values(), COSTS, strict=True):
        names = ("backoff", "selective", "backoff, calibrated", "selective, calibrated")
        costs = [target["calibration"][name]["measures"]["all"]["cllr"] for name in names]
        assert costs == pytest.approx(expected, abs=1e-4)


def split(documents, config):
    """The training, validation and test documents."""
    order = np.argsort(np.random.PCG64(config.seed).random_raw(100), kind="stable")
    return [[documents[i] for i in order[a:b]] for a, b in ((0, 60), (60, 80), (80, 100))]


def slow_f1(train, contexts, target, k, setting):
    """Fit by the library's plain interface, rank text by text with Python's sort, and count by hand."""
    options = {"lam": setting["lam"]}
    if setting["criterion"]:
        options |= {"criterion": setting["criterion"], "size": setting["size"], "seed": SMALL["seed"]}
    counts = rg.count(train, n=3, targets=["LOC", "PER"], spans=["units", "whole"])
    model = rg.fit(counts, target, setting["estimator"], **options)
    types = {}
    for document in contexts:
        starts = {span["start"] for span in document["spans"] if span["label"] == target}
        for boundary in range(3, len(document["items"]) + 1):
            ngram = " ".join(document["items"][boundary - 3 : boundary])
            types[ngram] = types.get(ngram, False) or boundary in starts
    ranked = sorted(types, key=lambda ngram: (-model.log_ratio([ngram])[0], ngram.encode()))[:k]
    hits = sum(types[ngram] for ngram in ranked)
    precision, recall = hits / len(ranked), hits / sum(types.values())
    return 2 * precision * recall / (precision + recall) if hits else 0.0


def test_the_cells_equal_a_slow_implementation(results, config, documents):
    parts = split(documents, config)
    cells = [cell for cell in results["cells"] if cell["estimator"] != "backoff"]
    chosen = [cell for cell in cells if cell["test_f1"] is not None]
    assert len(cells) == 2 * (3 + len(options.CRITERIA) * 3 * 2 + len(options.ALPHAS))
    assert len(chosen) == 2 * (2 + len(options.CRITERIA) * 3 + 1)
    assert {cell["estimator"] for cell in chosen} == {"product", "selective", "smoothed"}
    smoothed = [cell for cell in cells if cell["estimator"] == "smoothed"]
    for cell in [*chosen[::5], *cells[::17], *smoothed]:
        assert cell["valid_f1"] == pytest.approx(slow_f1(parts[0], parts[1], cell["target"], 15, cell))
        if cell["test_f1"] is not None:
            assert cell["test_f1"] == pytest.approx(slow_f1(parts[0], parts[2], cell["target"], 15, cell))


def test_what_is_chosen_is_chosen_on_validation(results):
    for target in ("LOC", "PER"):
        cells = [cell for cell in results["cells"] if cell["target"] == target and cell["estimator"] == "selective"]
        best = max(cell["valid_f1"] for cell in cells)
        chosen = {entry["family"]: entry for entry in results["chosen"] if entry["target"] == target}
        assert chosen["selective"]["valid_f1"] == best
        assert chosen["all used lam=0"]["lam"] == 0
        smoothed = [cell for cell in results["cells"] if (cell["target"], cell["estimator"]) == (target, "smoothed")]
        assert chosen["smoothed"]["valid_f1"] == max(cell["valid_f1"] for cell in smoothed)
        off_test = chosen["selective, size read off the test curve"]
        assert off_test["test_f1"] == max(cell["test_f1"] for cell in cells if cell["test_f1"] is not None)
        overall = results["targets"][target]["evaluations"]["selective"]["overall"]
        assert overall["f1"] == pytest.approx(chosen["selective"]["test_f1"])


def test_the_back_off_estimator_is_chosen_on_validation_and_measured_on_test(results, config, documents):
    train, valid, test = split(documents, config)
    spans = ["units", "suffixes:5", "shapes:8"]
    counts = rg.count(train, n=config.n, targets=["LOC", "PER"], spans=spans)
    for target in ("LOC", "PER"):
        cells = [cell for cell in results["cells"] if cell["target"] == target and cell["estimator"] == "backoff"]
        chosen = {entry["family"]: entry for entry in results["chosen"] if entry["target"] == target}
        tuned = [cell for cell in cells if cell["size"] is None]
        assert chosen["backoff"]["valid_f1"] == max(cell["valid_f1"] for cell in tuned)
        assert sorted(cell["size"] for cell in cells if cell["size"]) == list(config.sizes)
        for cell in [chosen["backoff"], *(cell for cell in cells if cell["size"])]:
            options = {name: cell[name] for name in ("lam", "tau", "size", "longest", "shapes")}
            model = rg.fit(counts, target, "backoff", **options)
            for part, column in ((valid, "valid_f1"), (test, "test_f1")):
                documents_ = rg.count(part, n=config.n, targets=["LOC", "PER"], spans=["whole"])
                assert evaluate(model, documents_, k=config.k).overall.f1 == pytest.approx(cell[column])


def test_table_1_is_the_paper_s(results):
    assert [round(row["direct"], 1) for row in results["table_1"]] == [47.6, 8.3, 16.7, 0]
    assert [round(row["mle"], 1) for row in results["table_1"]] == [50, 50, 100, 0]


def test_table_2_counts_types_and_contexts(results, documents):
    everything = [row for row in results["table_2"] if row["target"] == "all"]
    assert [row["contexts"] for row in everything] == [60 * 23, 20 * 23, 20 * 23]
    assert 0 < everything[2]["unseen_share"] <= 1


def test_same_results_same_bytes(results, tmp_path):
    for name in ("a", "b"):
        write_report(results, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) == 1 + 10 + 12
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_page_is_self_contained_and_complete(results, tmp_path):
    page = write_report(results, tmp_path).read_text()
    assert not re.search(r'(?:src|href)\s*=\s*"(?!#)', page)
    assert "<script" not in page
    assert page.count("<svg") == 6
    for table in tables(results):
        assert table.title in page or table.name == "findings"
    for finding in findings(results):
        assert finding.numbers.split(";")[0] in page
    assert "tagged.jsonl" in page


def test_the_page_names_the_tags(results, tmp_path):
    for tags, tagger in (("stanford", "Stanford NER as in the paper"), ("spacy", "spaCy")):
        config = {**results["config"], "corpus": "reuters", "tags": tags}
        page = write_report({**results, "config": config}, tmp_path).read_text()
        assert f"Reuters-21578, tagged by {tagger}." in page


def test_persons_and_places_are_compared(results):
    (finding,) = [each for each in findings(results) if "almost twice" in each.claim]
    f1 = {entry["target"]: entry["test_f1"] for entry in results["chosen"] if entry["family"] == "selective"}
    assert finding.held == (f1["PER"] >= 1.7 * f1["LOC"])
    config = {**results["config"], "targets": ["PER"]}
    assert not any("almost twice" in each.claim for each in findings({**results, "config": config}))


def test_the_calibration_of_every_model_is_shown(results, tmp_path):
    shown = {table.name: table for table in tables(results)}
    for target in ("LOC", "PER"):
        result = results["targets"][target]
        assert set(result["calibration"]) >= {"backoff", "selective", "selective, calibrated"}
        for name, evaluation in result["evaluations"].items():
            for band, measures in evaluation["calibration"].items():
                assert (target, name, band, *measures.values()) in shown["calibration"].rows
            everything = evaluation["calibration"]["all"]
            assert everything["cllr"] == pytest.approx(everything["least"] + everything["loss"], abs=1e-5)
        for drawn in result["calibration"].values():
            assert sum(each["targets"] for each in drawn["bins"]) == everything["targets"]
            assert drawn["tippett"]["targets"][-1] == drawn["tippett"]["others"][-1] == 0
            assert drawn["pav"]["after"] == sorted(drawn["pav"]["after"])


def test_the_contents_lead_to_every_section(results, tmp_path):
    for articles in (results["articles"], []):
        page = write_report({**results, "articles": articles}, tmp_path).read_text()
        links = dict(re.findall(r'<li><a href="#([^"]+)">([^<]+)</a></li>', page))
        headings = dict(re.findall(r'<h2 id="([^"]+)">([^<]+)</h2>', page))
        assert links == headings
        assert list(links) == list(headings)
        assert list(headings.values())[:2] == ["Results at a glance", "Data"]
        assert "F1 by number of selected items" in headings.values()
        assert ("articles" in headings) == bool(articles)


def test_hostile_names_are_shown_as_text(results, tmp_path):
    odd = json.loads(json.dumps(results).replace("LOC", "<b>&LOC"))
    page = write_report(odd, tmp_path).read_text()
    assert "<b>&LOC" not in page
    assert "&lt;b&gt;&amp;LOC" in page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: apt-get install chromium")
def test_the_page_opens_in_a_real_browser(results, tmp_path):
    page = write_report(results, tmp_path)
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shell = ("chromium", "--headless", "--no-sandbox", "--disable-gpu")
    command = [*shell, *quiet, profile, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "Figure 1. Test F1" in shown
    assert shown.count("<td") > 200


def reproduce_command(corpus_file, folder):
    settings = folder / "settings.toml"
    settings.write_text(
        "train = 60\nvalid = 20\ntest = 20\nn = 3\nk = 15\nsizes = [2, 5, 50]\nlams = [1e-4, 1e-2]\nseed = 1\n"
    )
    command = [RAREGRAM, "reproduce", "--config", settings, "--corpus", corpus_file, "--out", folder / "out"]
    return [str(part) for part in command]


def reproduce(corpus_file, folder, *arguments, check=True):
    command = [*reproduce_command(corpus_file, folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=check)


def without_times(results):
    for target in results["targets"].values():
        for cost in target["costs"].values():
            cost.pop("seconds"), cost.pop("seconds_from_text")
    return results


def test_the_command_runs_reports_and_does_not_overwrite(corpus_file, tmp_path, results):
    done = reproduce(corpus_file, tmp_path)
    assert done.stdout.startswith(f"{corpus_file}; N = 3, seed 1\n")
    assert done.stdout.endswith(f"report: {tmp_path / 'out' / 'report.html'}\n")
    assert "tuning LOC: 6 criteria x 3 sizes x 2 lam" in done.stderr
    path = tmp_path / "out" / "results.json"
    assert without_times(json.loads(path.read_text())) == without_times(json.loads(json.dumps(results)))
    assert not list((tmp_path / "out").glob(".*"))
    again = reproduce(corpus_file, tmp_path, check=False)
    assert again.returncode == 1
    assert "results.json is there already: --force runs again, --report-only" in again.stderr
    page = (tmp_path / "out" / "report.html").read_bytes()
    (tmp_path / "out" / "report.html").unlink()
    reproduce(corpus_file, tmp_path, "--report-only")
    assert (tmp_path / "out" / "report.html").read_bytes() == page
    refused = reproduce(corpus_file, tmp_path, "--force", "--tags", "spacy", check=False)
    assert refused.returncode == 2
    assert "--tags is for Reuters-21578" in refused.stderr
    told = json.loads(reproduce(corpus_file, tmp_path, "--force", "--seed", "2", "--json").stdout)
    assert {entry["target"] for entry in told["chosen"]} == {"LOC", "PER"}
    assert json.loads(path.read_text())["config"]["seed"] == 2


def nobody_works_in(folder, seconds=10):
    """Whether all processes that were started in a folder end within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        links = [path for path in Path("/proc").glob("[0-9]*/cwd") if _target(path) == str(folder)]
        if not links:
            return True
        time.sleep(0.1)
    return False


def _target(link):
    try:
        return str(link.readlink())
    except OSError:  # it has just ended
        return ""


def test_a_killed_worker_is_named():
    with pytest.raises(RaregramError, match="a process of this run was ended from outside"):
        map_in_processes(_kill_yourself, [1, 2], processes=2)


def test_errors_of_workers_are_raised_and_the_others_end():
    start = time.monotonic()
    with pytest.raises(InputError, match="nothing for 0"):
        map_in_processes(_sleep, [600, 0], processes=2)
    assert time.monotonic() - start < 300


def _kill_yourself(value):
    os.kill(os.getpid(), signal.SIGKILL)


def _sleep(seconds):
    if not seconds:
        raise InputError("nothing for 0")
    time.sleep(seconds)


def test_a_killed_run_leaves_neither_results_nor_processes(corpus_file, tmp_path, results):
    command = reproduce_command(corpus_file, tmp_path)
    for delay in (1.5, 2.5):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert nobody_works_in(tmp_path)
        if process.returncode == -signal.SIGKILL:
            assert not (tmp_path / "out" / "results.json").exists()
        else:
            shutil.rmtree(tmp_path / "out")
    reproduce(corpus_file, tmp_path)
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert without_times(found) == without_times(json.loads(json.dumps(results)))


def test_tune_and_evaluate_commands(corpus_file, tmp_path, documents):
    def run(*arguments, code=0):
        done = subprocess.run(
            [RAREGRAM, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == code, done.stderr
        return done.stdout if not code else done.stderr

    (tmp_path / "valid.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents[60:]))
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents[:60]))
    run("count", "train.jsonl", "-n", 3, "--out", "train.counts")
    options = ["--target", "LOC", "--estimator", "selective", "--sizes", "2,5", "--lams", "1e-4,1e-2", "--k", 20]
    by_precision = json.loads(run("tune", "train.counts", "valid.jsonl", *options, "--out", "p.rgm", "--json"))
    precisions = [cell["average_precision"] for cell in by_precision["cells"]]
    assert by_precision["best"]["average_precision"] == max(precisions)
    best = json.loads(run("evaluate", "p.rgm", "valid.jsonl", "--json"))
    assert best["overall"]["average_precision"] == max(precisions)
    assert best["k"] == best["overall"]["relevant"]
    by_cost = json.loads(
        run("tune", "train.counts", "valid.jsonl", *options, "--by", "cllr", "--out", "c.rgm", "--json")
    )
    assert by_cost["best"]["cllr"] == min(cell["cllr"] for cell in by_cost["cells"])
    cheapest = json.loads(run("evaluate", "c.rgm", "valid.jsonl", "--json"))["calibration"]["all"]
    assert cheapest["cllr"] == pytest.approx(by_cost["best"]["cllr"], abs=1e-12)
    said = run("tune", "train.counts", "valid.jsonl", *options, "--by", "cllr", "--out", "c.rgm")
    assert f"Cllr {cheapest['cllr']:.4f}, F1 " in said
    options += ["--by", "f1"]
    drawn = run("tune", "train.counts", "valid.jsonl", *options, "--out", "loc.rgm")
    assert drawn.count("█") >= 4
    assert "best: " in drawn
    told = json.loads(run("tune", "train.counts", "valid.jsonl", *options, "--out", "loc.rgm", "--json"))
    measured = json.loads(
        run("evaluate", "loc.rgm", "valid.jsonl", "--k", 20, "--training", "train.counts", "--json")
    )
    assert measured["overall"]["f1"] == told["best"]["f1"] == max(cell["f1"] for cell in told["cells"])
    assert set(measured["bands"]) == {"0", "1", "2-5", "more"}
    shown = run("evaluate", "loc.rgm", "valid.jsonl", "--k", 20)
    assert f"{told['best']['f1']:.4f}" in shown
    assert "of it calibration loss" in shown
    assert "--sizes takes numbers" in run("tune", "train.counts", "valid.jsonl", "--sizes", "x", "--out", "y", code=2)
    assert "choose a target" in run("tune", "train.counts", "valid.jsonl", "--out", "y", code=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sead": 1}, "an experiment has no setting 'sead'; it has corpus, tags, format, split, seed"),
        ({"tags": "flair"}, "tags parameter of an experiment must be one of 'stanford', 'spacy'"),
        ({"k": 0}, "k parameter of an experiment"),
        ({"sizes": []}, "sizes parameter of an experiment"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ParameterError, match=message):
        Config.from_mapping(settings)


def test_a_corpus_that_is_too_small_is_refused(config):
    with pytest.raises(InputError, match="too small to be split in three"):
        experiment.run(config, pa.table({"text": ["a b c", "d e f"]}))


def test_a_target_without_occurrences_in_test_measures_zero(config, documents, tmp_path):
    tested = split(documents, config)[2]
    bare = [{**document, "spans": []} if document in tested else document for document in documents]
    results = experiment.run(replace(config, targets=("LOC",)), pa.Table.from_pylist(bare))
    assert {entry["test_f1"] for entry in results["chosen"]} == {0.0}
    assert write_report(json.loads(json.dumps(results)), tmp_path).exists()


@pytest.mark.parametrize(("tags", "names"), [("stanford", 137_112), ("spacy", 149_740)])
def test_the_shipped_tags_are_checked(monkeypatch, tags, names):
    from raregram.corpus import standoff
    from raregram.errors import FileError

    assert len(standoff.load_tags(tags)) == names
    monkeypatch.setitem(standoff.DIGESTS, tags, "0" * 64)
    with pytest.raises(FileError, match="are damaged or were altered"):
        standoff.load_tags(tags)


def retagged(tmp_path, tags):
    """Tag a sample of the articles again, and return the spans that are shipped and those that were found."""
    from raregram.corpus.standoff import load_tags, tagged_reuters
    from raregram.corpus.tagging import tag

    table = tagged_reuters(tags)
    assert len(table) == 17_834
    assert sum(map(len, table["spans"].to_pylist())) == len(load_tags(tags))
    sample = table.slice(4000, 60)
    rows = [{"id": row["id"], "text": row["text"]} for row in sample.to_pylist()]
    tag(rows, tmp_path / "again.parquet", tagger=tags, processes=1)
    found = pq.read_table(tmp_path / "again.parquet")["spans"].to_pylist()
    return [[sorted(map(str, spans)) for spans in each] for each in (sample["spans"].to_pylist(), found)]


needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed, so there is no corpus")


@pytest.mark.slow
@needs_npm
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
@pytest.mark.skipif(fetched_stanford() is None, reason="Stanford NER is missing: raregram fetch stanford-ner")
def test_the_shipped_tags_are_what_stanford_ner_finds(tmp_path):
    shipped, found = retagged(tmp_path, "stanford")
    assert found == shipped


@pytest.mark.slow
@needs_npm
def test_the_shipped_tags_are_what_spacy_finds(tmp_path):
    from raregram.corpus.spacy import load_pipeline

    if (version := load_pipeline()[0].meta["version"]) != "3.8.0":
        pytest.skip(f"the shipped tags are of version 3.8.0, here is {version}")
    shipped, found = retagged(tmp_path, "spacy")
    same = sum(map(list.__eq__, shipped, found))
    assert same >= 58  # of 60: batches are put together differently, which can change the last bit of a score

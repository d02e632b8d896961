"""The experiment on three hundred made articles, against slow code; the report; the command; what may be wrong."""

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
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import raregram as rg
from raregram import options
from raregram.errors import InputError, ParameterError, RaregramError
from raregram.experiment import page as report
from raregram.experiment import run as experiment
from raregram.experiment.figures import Figure
from raregram.experiment.page import write_report
from raregram.experiment.run import ARTICLES, Config
from raregram.experiment.tables import findings, tables
from raregram.measure.evaluate import evaluate

RAREGRAM = Path(sys.executable).with_name("raregram")

SETTINGS = {
    "train": 200, "valid": 50, "test": 50, "n": 4, "k": 800, "sizes": [5, 50, 500], "lams": [1e-4, 1e-2],
    "suffixes": 3, "shapes": 4, "priors": [6.0, 24.0], "taus": [0.4, 0.6],
}  # fmt: skip


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
            if kind in (1, 2, 3):  # two of three cues, and some other words, have a name after them
                spans.append({"start": len(items), "end": len(items) + 1, "label": label})
                items.append(word().title())
            elif kind == 4:
                items.append(str(next(numbers) % 1000))
        articles.append({"items": items, "spans": spans})
    return articles


@pytest.fixture(scope="session")
def articles():
    return made_articles(300, 120)


@pytest.fixture(scope="session")
def corpus_file(articles, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "tagged.jsonl"
    path.write_text("".join(json.dumps(article) + "\n" for article in articles))
    return path


@pytest.fixture(scope="session")
def config(corpus_file):
    return Config.from_mapping({"corpus": [str(corpus_file)], **SETTINGS})


@pytest.fixture(scope="session")
def results(config):
    """The results, made in one process; the command runs the targets side by side, and compares with this."""
    return json.loads(json.dumps(experiment.run(config, experiment.load_corpus(config), processes=1)))


@pytest.fixture(scope="session")
def parts(articles, config):
    """The training, validation and test documents."""
    order = np.argsort(np.random.PCG64(config.seed).random_raw(300), kind="stable")
    return [[articles[i] for i in order[first:last]] for first, last in ((0, 200), (200, 250), (250, 300))]


# --- the results ----------------------------------------------------------------------------------------------------
# Cllr of back-off and selective, and of both when calibrated; LOC and PER.
COSTS = [[0.555295, 0.690514, 0.555452, 0.656071], [0.600956, 0.688202, 0.579536, 0.615046]]


def test_the_costs_are_as_they_were(results):
    for target, expected in zip(results["targets"].values(), COSTS, strict=True):
        names = ("backoff", "selective", "backoff, calibrated", "selective, calibrated")
        costs = [target["calibration"][name]["measures"]["all"]["cllr"] for name in names]
        assert costs == pytest.approx(expected, abs=1e-4)


def slow_f1(counts, contexts, target, config, setting):
    """Fit by the library's plain interface, rank with Python's sort, and count by hand."""
    parameters = {"lam": setting["lam"]}
    if setting["criterion"]:
        parameters |= {"criterion": setting["criterion"], "size": setting["size"], "seed": config.seed}
    model = rg.fit(counts, target, setting["estimator"], **parameters)
    types = {}
    for document in contexts:
        starts = {span["start"] for span in document["spans"] if span["label"] == target}
        for boundary in range(config.n, len(document["items"]) + 1):
            ngram = " ".join(document["items"][boundary - config.n : boundary])
            types[ngram] = types.get(ngram, False) or boundary in starts
    scores = dict(zip(types, model.log_ratio(list(types)).tolist(), strict=True))
    ranked = sorted(types, key=lambda ngram: (-scores[ngram], ngram.encode()))[: config.k]
    hits = sum(types[ngram] for ngram in ranked)
    precision, recall = hits / len(ranked), hits / sum(types.values())
    return 2 * precision * recall / (precision + recall) if hits else 0.0


def test_the_cells_equal_a_slow_implementation(results, config, parts):
    cells = [cell for cell in results["cells"] if cell["estimator"] != "backoff"]
    chosen = [cell for cell in cells if cell["test_f1"] is not None]
    assert len(cells) == 2 * (3 + len(options.CRITERIA) * 3 * 2 + len(options.ALPHAS))
    assert len(chosen) == 2 * (2 + len(options.CRITERIA) * 3 + 1)
    assert {cell["estimator"] for cell in chosen} == {"product", "selective", "smoothed"}
    counts = rg.count(parts[0], n=config.n, targets=["LOC", "PER"], spans=["units", "whole"])
    smoothed = [cell for cell in cells if cell["estimator"] == "smoothed"]
    for cell in [*chosen[::7], *cells[::17], *smoothed[::3]]:
        measured = [(parts[1], cell["valid_f1"]), (parts[2], cell["test_f1"])]
        for contexts, f1 in measured if cell["test_f1"] is not None else measured[:1]:
            assert f1 == pytest.approx(slow_f1(counts, contexts, cell["target"], config, cell))


def test_what_is_chosen_is_chosen_on_validation(results):
    for target in ("LOC", "PER"):
        cells = [cell for cell in results["cells"] if cell["target"] == target]
        chosen = {entry["family"]: entry for entry in results["chosen"] if entry["target"] == target}
        tried = {
            name: [cell for cell in cells if cell["estimator"] == name]
            for name in ("selective", "smoothed", "backoff")
        }
        tried["backoff"] = [cell for cell in tried["backoff"] if cell["size"] is None]
        for family, of_family in tried.items():
            assert chosen[family]["valid_f1"] == max(cell["valid_f1"] for cell in of_family)
        assert chosen["all used lam=0"]["lam"] == 0
        off_test = chosen["selective, size read off the test curve"]
        assert off_test["test_f1"] == max(cell["test_f1"] or 0 for cell in tried["selective"])
        overall = results["targets"][target]["evaluations"]["selective"]["overall"]
        assert overall["f1"] == pytest.approx(chosen["selective"]["test_f1"], rel=1e-5)


def test_the_back_off_estimator_is_measured_on_validation_and_test(results, config, parts):
    settings = {"n": config.n, "targets": ["LOC", "PER"]}
    counts = rg.count(parts[0], spans=["units", "suffixes:3", "shapes:4", "whole"], **settings)
    measured = [rg.count(part, spans=["whole"], **settings) for part in parts[1:]]
    for target in ("LOC", "PER"):
        cells = [cell for cell in results["cells"] if cell["target"] == target and cell["estimator"] == "backoff"]
        sized = [cell for cell in cells if cell["size"]]
        assert sorted(cell["size"] for cell in sized) == list(config.sizes)
        (whole,) = [e for e in results["chosen"] if (e["target"], e["family"]) == (target, "backoff")]
        for cell in [whole, *sized]:
            parameters = {name: cell[name] for name in ("lam", "tau", "size", "longest", "shapes")}
            model = rg.fit(counts, target, "backoff", **parameters)
            for documents, column in zip(measured, ("valid_f1", "test_f1"), strict=True):
                assert evaluate(model, documents, k=config.k).overall.f1 == pytest.approx(cell[column])


def test_table_1_is_the_paper_s(results):
    assert [round(row["direct"], 1) for row in results["table_1"]] == [47.6, 8.3, 16.7, 0]
    assert [round(row["mle"], 1) for row in results["table_1"]] == [50, 50, 100, 0]


def test_table_2_counts_types_and_contexts(results, config, parts):
    rows = [row for row in results["table_2"] if row["target"] == "all"]
    contexts = [sum(len(document["items"]) - config.n + 1 for document in part) for part in parts]
    assert [row["contexts"] for row in rows] == contexts
    assert 0 < rows[2]["unseen_share"] <= 1


# --- the report -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(results, folder)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


@pytest.fixture
def undrawn():
    """A function that makes the page of some results without figures, which take seconds."""
    drawn = [Figure(f"figure-{i}", "<svg></svg>", b"") for i in range(1, 7)]
    return lambda results: report.page(results, tables(results), drawn)


def test_same_results_same_bytes(results, folder, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(results))
    finish([RAREGRAM, "reproduce", "--report-only", "--out", tmp_path])
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(files) == 1 + 10 + 12
    for file in files:
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()


def test_the_page_is_self_contained_and_complete(results, page):
    assert not re.search(r'(?:src|href)\s*=\s*"(?!#)', page)
    assert "<script" not in page
    assert page.count("<svg") == 6
    for table in tables(results):
        assert table.title in page or table.name == "findings"
    for finding in findings(results):
        assert finding.numbers.split(";")[0] in page
    assert page.count(' held">') + page.count(' not">') == 2 * 6 + 1 + 2
    assert "tagged.jsonl" in page


def test_the_page_names_the_tags(results, undrawn):
    for tags, tagger in (("stanford", "Stanford NER as in the paper"), ("spacy", "spaCy")):
        config = {**results["config"], "corpus": "reuters", "tags": tags}
        assert f"Reuters-21578, tagged by {tagger}." in undrawn({**results, "config": config})


def test_findings_are_what_the_numbers_say(results):
    found = findings(results)
    (persons,) = [each for each in found if "almost twice" in each.claim]
    f1 = {entry["target"]: entry["test_f1"] for entry in results["chosen"] if entry["family"] == "selective"}
    assert persons.held == (f1["PER"] >= 1.7 * f1["LOC"])
    families = {(entry["target"], entry["family"]): entry["test_f1"] for entry in results["chosen"]}
    for each in found:
        if "beats lam = 0" in each.claim:
            tuned, plain = (families[each.target, f"all used {lam}"] for lam in ("lam*", "lam=0"))
            assert each.held == (tuned > plain)
            assert f"{tuned:.3f} against {plain:.3f}" in each.numbers
    config = {**results["config"], "targets": ["PER"]}
    assert not any("almost twice" in each.claim for each in findings({**results, "config": config}))


def test_the_paper_s_numbers_stand_beside_ours(results):
    paper = {**results, "config": {**results["config"], "n": 10}}
    shown = {table.name: table for table in tables(paper)}
    assert [row[-2:] for row in shown["table-2"].rows if row[:2] == ("test", "LOC")] == [(5_713, 5_716)]
    assert (30.18, 4.45e8) in [row[-2:] for row in shown["tables-3-4"].rows]
    assert {row[-1] for table in tables(results) if table.name == "tables-3-4" for row in table.rows} == {None}


def test_the_calibration_of_every_model_is_shown(results):
    shown = {table.name: table for table in tables(results)}
    for target in ("LOC", "PER"):
        result = results["targets"][target]
        assert set(result["calibration"]) == {
            name + end for name in ("backoff", "selective") for end in ("", ", calibrated")
        }
        for name, evaluation in result["evaluations"].items():
            for band, measures in evaluation["calibration"].items():
                assert (target, name, band, *measures.values()) in shown["calibration"].rows
            everything = evaluation["calibration"]["all"]
            if everything["cllr"] != "inf":
                assert everything["cllr"] == pytest.approx(everything["least"] + everything["loss"], abs=1e-5)
        for drawn in result["calibration"].values():
            assert sum(each["targets"] for each in drawn["bins"]) == everything["targets"]
            assert drawn["tippett"]["targets"][-1] == drawn["tippett"]["others"][-1] == 0
            assert drawn["pav"]["after"] == sorted(drawn["pav"]["after"])


def test_the_contents_lead_to_every_section(results, undrawn):
    for articles in (results["articles"], []):
        page = undrawn({**results, "articles": articles})
        links = dict(re.findall(r'<li><a href="#([^"]+)">([^<]+)</a></li>', page))
        headings = dict(re.findall(r'<h2 id="([^"]+)">([^<]+)</h2>', page))
        assert list(links.items()) == list(headings.items())
        assert list(headings.values())[:2] == ["Results at a glance", "Data"]
        assert "F1 by number of selected items" in headings.values()
        assert ("articles" in headings) == bool(articles)


def test_hostile_names_are_shown_as_text(results, undrawn):
    page = undrawn(json.loads(json.dumps(results).replace("LOC", "<b>&LOC")))
    assert "<b>&LOC" not in page
    assert "&lt;b&gt;&amp;LOC" in page


class Marked(HTMLParser):
    """Collects the text of a fragment, and the titles of its gaps."""

    def __init__(self, html):
        super().__init__()
        self.text, self.titles, self.tags = [], [], set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.titles += [value for name, value in attributes if name == "title"]

    def handle_data(self, data):
        self.text.append(data)


def test_test_articles_are_shown_in_colours(results):
    odd = json.loads(json.dumps(results))
    odd["articles"][0]["items"][3] = "<script>"
    shown = report.articles(odd)
    assert len(shown) == len(odd["articles"]) == ARTICLES
    for article, html in zip(odd["articles"], shown, strict=True):
        marked = Marked(html)
        assert " ".join(marked.text).split() == ["LOC", "PER", *article["items"]]
        assert "script" not in marked.tags
        assert sum("here: " in title for title in marked.titles) == len(article["names"])
    assert report.articles({**results, "articles": []}) == []


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: apt-get install chromium")
def test_the_page_opens_in_a_real_browser(folder, tmp_path):
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    shell = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}")
    command = [*shell, *quiet, "--dump-dom", (folder / "report.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "Figure 1. Test F1" in shown
    assert shown.count("<td") > 200


# --- the command -------------------------------------------------------------------------------------------------
@pytest.fixture
def reproduce(corpus_file, config, tmp_path):
    """A function that returns the command with the settings of the shared experiment and some more arguments."""
    lists = ("sizes", "lams", "priors", "taus")
    numbers = ("train", "valid", "test", "n", "k", "suffixes", "shapes")
    settings = {name: list(getattr(config, name)) for name in lists} | {
        name: getattr(config, name) for name in numbers
    }
    (tmp_path / "settings.toml").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))

    def command(*arguments):
        words = (
            "reproduce",
            "--config",
            tmp_path / "settings.toml",
            "--corpus",
            corpus_file,
            "--out",
            tmp_path / "out",
        )
        return [str(word) for word in (RAREGRAM, *words, *arguments)]

    return command


def finish(command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done


def without_times(results):
    results = json.loads(json.dumps(results))
    for target in results["targets"].values():
        for cost in target["costs"].values():
            cost.pop("seconds"), cost.pop("seconds_from_text")
    return results


def test_the_command_runs_reports_and_does_not_overwrite(reproduce, corpus_file, tmp_path, results):
    out = tmp_path / "out"
    done = finish(reproduce())
    assert done.stdout.startswith(f"{corpus_file}; N = 4, seed 0\n")
    assert done.stdout.endswith(f"report: {out / 'report.html'}\n")
    assert "tuning LOC: 6 criteria x 3 sizes x 2 lam" in done.stderr
    assert without_times(json.loads((out / "results.json").read_text())) == without_times(results)
    assert not list(out.glob(".*"))
    assert "results.json is there already: --force runs again, --report-only" in finish(reproduce(), 1).stderr
    assert "--tags is for Reuters-21578" in finish(reproduce("--force", "--tags", "spacy"), 2).stderr
    again = finish(reproduce("--force", "--seed", "2", "--sizes", "5", "--targets", "PER", "--json"))
    assert {entry["target"] for entry in json.loads(again.stdout)["chosen"]} == {"PER"}
    config = json.loads((out / "results.json").read_text())["config"]
    assert (config["seed"], config["sizes"], config["targets"]) == (2, [5], ["PER"])


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs Linux's list of processes")
def test_a_killed_run_leaves_neither_results_nor_processes(reproduce, tmp_path):
    process = subprocess.Popen(reproduce(), stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert any("scoring LOC" in line for line in process.stderr)  # by a process of its own
    process.kill()
    process.wait()
    process.stderr.close()
    deadline = time.monotonic() + 10
    while works_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not works_in(tmp_path)
    assert not (tmp_path / "out" / "results.json").exists()


def works_in(folder):
    """Whether a process that was started in a folder is still there."""

    def where(link):
        try:
            return str(link.readlink())
        except OSError:  # it has just ended, or is another user's
            return ""

    return any(where(link) == str(folder) for link in Path("/proc").glob("[0-9]*/cwd"))


# --- two targets side by side ------------------------------------------------------------------------------------
def test_a_killed_worker_is_named():
    with pytest.raises(RaregramError, match="a process of this run was ended from outside"):
        experiment._side_by_side(_kill_yourself, ["LOC", "PER"], 2)


def test_errors_of_workers_are_raised():
    with pytest.raises(InputError, match="nothing for PER"):
        experiment._side_by_side(_fail_for_persons, ["LOC", "PER"], 2)


def _kill_yourself(target):
    os.kill(os.getpid(), signal.SIGKILL)


def _fail_for_persons(target):
    if target == "PER":
        raise InputError("nothing for PER")


# --- what may be wrong -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sead": 1}, "an experiment has no setting 'sead'; it has corpus, tags, format, split, seed"),
        ({"tags": "flair"}, "tags parameter of an experiment must be one of 'stanford', 'spacy'"),
        ({"k": 0}, "k parameter of an experiment"),
        ({"n": 5000}, "n parameter of an experiment"),
        ({"sizes": []}, "sizes parameter of an experiment"),
        ({"corpus": 3}, "corpus parameter of an experiment must be text"),
        ({"format": 3}, "format parameter of an experiment must be text"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ParameterError, match=message):
        Config.from_mapping(settings)


def test_a_corpus_that_is_too_small_is_refused(config):
    with pytest.raises(InputError, match="too small to be split in three"):
        experiment.run(config, pa.table({"text": ["a b c", "d e f"]}))


def test_a_target_without_occurrences_in_test_measures_zero(config, parts, articles, tmp_path):
    tested = [document["items"] for document in parts[2]]
    bare = [{**document, "spans": []} if document["items"] in tested else document for document in articles]
    small = replace(config, targets=("LOC",), sizes=(5,), criteria=("cet",), priors=(6.0,), taus=(0.4,))
    results = experiment.run(small, pa.Table.from_pylist(bare))
    assert {entry["test_f1"] for entry in results["chosen"]} == {0.0}
    assert write_report(json.loads(json.dumps(results)), tmp_path).exists()

"""The report: a pure function of the results, complete, self-contained, with nothing but text let through."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from raregram.experiment.page import articles as coloured_articles
from raregram.experiment.page import write_report
from raregram.experiment.run import ARTICLES
from raregram.experiment.tables import findings, tables


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(results, folder)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


@pytest.fixture
def undrawn(monkeypatch):
    """A function that makes the page of some results without figures, which take seconds."""
    from raregram.experiment import page as module
    from raregram.experiment.figures import FIGURES, Figure

    drawn = [Figure(name, title, caption, "<svg></svg>", b"") for name, (title, caption, *_) in FIGURES.items()]
    return lambda results: module.page(results, tables(results), drawn)


def test_same_results_same_bytes(results, folder, tmp_path):
    write_report(results, tmp_path)
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
    shown = coloured_articles(odd)
    assert len(shown) == len(odd["articles"]) == ARTICLES
    for article, html in zip(odd["articles"], shown, strict=True):
        marked = Marked(html)
        assert " ".join(marked.text).split() == ["LOC", "PER", *article["items"]]
        assert "script" not in marked.tags
        assert sum("here: " in title for title in marked.titles) == len(article["names"])
    assert coloured_articles({**results, "articles": []}) == []


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: apt-get install chromium")
def test_the_page_opens_in_a_real_browser(folder, tmp_path):
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    shell = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}")
    command = [*shell, *quiet, "--dump-dom", (folder / "report.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "Figure 1. Test F1" in shown
    assert shown.count("<td") > 200

"""Heat maps and bars as HTML: the numbers of the library, drawn the same way, and nothing but text let through."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import pytest

import raregram as rg
from raregram import drawing
from raregram.errors import ParameterError

TEXT = "she was in Rome and he met Ann in Oslo"


def fitted(target="LOC", **options):
    documents = [{"text": f"she was in Rome and no{i} met Ann in Oslo", "spans": [(3, 4, "LOC"), (9, 10, "LOC")]}
                 for i in range(9)]  # fmt: skip
    spans = ["units", "suffixes:2", "shapes:2"]
    counts = rg.count(documents, targets=["LOC"], spans=spans, **{"n": 2, **options})
    return rg.fit(counts, target, "backoff")


class Tags(HTMLParser):
    """Collects the tags and the text of a fragment, and checks that every tag is closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("options", [{}, {"pad": True}, {"side": "right"}, {"side": "right", "pad": True}, {"n": 9}])
def test_every_boundary_has_the_log_ratio_of_its_context(options, monkeypatch):
    model = fitted(**options)
    s, items = model.settings, TEXT.split()
    scores = rg.heat_map(model, TEXT).scores["LOC"]
    assert len(scores) == len(items) + 1
    for boundary, score in enumerate(scores):
        low, high = (boundary - s.n, boundary) if s.side == "left" else (boundary, boundary + s.n)
        context = items[max(low, 0) : high]
        pads = [""] * (s.n - len(context)) if s.pad else []
        context = pads + context if s.side == "left" else context + pads
        if not context:
            assert score is None
        else:
            assert score == model.log_ratio([context])[0]
    for piece in (1, 2, 3):
        monkeypatch.setattr("raregram.measure.score.PIECE", piece)
        assert rg.heat_map(model, TEXT).scores["LOC"] == scores


def test_models_of_one_target_are_told_apart_and_kinds_do_not_mix():
    model = fitted()
    assert list(rg.heat_map([model, model], TEXT).scores) == [
        f"LOC ({model.settings}) 1",
        f"LOC ({model.settings}) 2",
    ]
    letters = rg.fit(rg.Counts.from_contexts(["ab", "cd"], ["X", None], kind="letters"), estimator="selective", lam=0)
    assert rg.heat_map(letters, "a b").items == ("a", " ", "b")
    with pytest.raises(ParameterError, match="models of one kind of items"):
        rg.heat_map([model, letters], TEXT)


def test_a_notebook_shows_the_heat_map():
    model = fitted()
    shown = Tags(rg.heat_map(model, TEXT)._repr_html_())
    titles = [attributes["title"] for _, attributes in shown.tags if "title" in attributes]
    assert len(titles) == len(TEXT.split())
    assert titles[2] == f"LOC {model.log_ratio(['was in'])[0]:+.2f}"
    assert " ".join(shown.text).split() == ["LOC", *TEXT.split()]


def test_letters_are_shown_in_words_with_their_spaces():
    letters = rg.fit(rg.Counts.from_contexts(["ab", "cd"], ["X", None], kind="letters"), lam=0, estimator="product")
    html = rg.heat_map(letters, "ab c")._repr_html_()
    words = html.split(drawing.WORD)[1:]
    assert ["".join(re.findall(r"<bdi>(.)</bdi>", word)) for word in words] == ["ab␣", "c"]
    Tags(html)  # raises if a tag is not closed


def test_a_notebook_shows_the_bars_of_an_explanation():
    for model in (
        fitted(),
        rg.fit(rg.Counts.from_contexts(["was in", "<b> &"], ["LOC", None]), "LOC", "selective", size=2),
    ):
        explained = model.explain("was in")
        shown = Tags(explained._repr_html_())
        assert explained.headline() in shown.text
        widths = [float(found) for _, attributes in shown.tags
                  for found in re.findall(r"width:([\d.]+)%", attributes.get("style", ""))]  # fmt: skip
        scale = max(abs(term.value) for term in explained.terms)
        assert widths == [pytest.approx(50 * abs(term.value) / scale, abs=0.051) for term in explained.terms]


def test_hostile_items_are_escaped():
    item = "<script>alert(1)</script>"
    shown = Tags(rg.heat_map(fitted(), f'in {item} " &amp; in')._repr_html_())
    assert "script" not in [tag for tag, _ in shown.tags]
    assert item in shown.text
    page = fitted().explain(f"in {item}")._repr_html_()
    assert "<script" not in page
    assert item in "".join(Tags(page).text)
    named = Tags(drawing.heat_map(["a"], {'"><b>': [1.0, None]}, {0: '"<i>'}))
    assert "b" not in [tag for tag, _ in named.tags]


def test_colours_grow_with_the_log_ratio():
    strengths = [drawing.strength(x) for x in (-math.inf, -1.0, 0.0, 1.0, 4.0, 5.0, math.inf)]
    assert strengths == sorted(strengths)
    assert strengths[0] == strengths[2] == 0
    assert strengths[-1] == 1
    assert drawing.strength(None) == drawing.strength(math.nan) == 0


def test_explanations_without_evidence_are_drawn():
    counts = rg.Counts.from_contexts(["a b", "c d"], ["X", None], spans=["units", "whole"])
    for estimator in ("mle", "direct", "smoothed"):
        model = rg.fit(counts, "X", estimator)
        for context in ("a b", "c d", "e f"):
            Tags(model.explain(context)._repr_html_())
        json.dumps(rg.heat_map(model, "a b c d").scores)

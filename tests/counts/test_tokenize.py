"""Words with punctuation apart, and small letters, from texts to counts and scores: against what Python splits."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raregram as rg
from raregram.corpus.documents import Options
from raregram.counts import storage
from raregram.counts.count import ContextOptions, CountJob
from raregram.counts.kernel import CountSettings
from raregram.errors import InputError, ParameterError, RaregramWarning
from raregram.text.tokenize import Tokenizer
from raregram.text.words import words_in

SPANS = ["units", "suffixes:2", "shapes:2", "whole"]
STRINGS = st.text(st.sampled_from("aAé.,'\"-1 _字\u0308\u00a0ΣİǅⓂ"), min_size=1, max_size=6)
WORDS = {"tokenize": "words"}


def split(string: str, lower: bool) -> list[str]:
    """The words of a string, one by one."""
    # Ⓜ stays, being a pictogram too: the small letter is none, and would be split otherwise.
    return ["Ⓜ".join(part.lower() for part in word.split("Ⓜ")) if lower else word for word in words_in(string)]


@st.composite
def documents(draw):
    """Documents as lists of strings, with spans."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        items = [string for string in draw(st.lists(STRINGS, max_size=8)) if string.strip()]
        spans = []
        for _ in range(draw(st.integers(0, 2)) if items else 0):
            start = draw(st.integers(0, len(items) - 1))
            spans.append((start, draw(st.integers(start + 1, len(items))), draw(st.sampled_from("XY"))))
        made.append({"items": items, "spans": spans})
    return made


def split_by_hand(document: dict, lower: bool) -> dict:
    """The document in its words; spans leave out what has no letter or digit at their edges."""
    found = [split(string, lower) for string in document["items"]]
    begins = np.cumsum([0, *map(len, found)]).tolist()
    spans = []
    for start, end, label in document["spans"]:
        inside = [word for words in found[start:end] for word in words]
        spoken = [any(map(str.isalnum, word)) for word in inside]
        first = spoken.index(True) if any(spoken) else 0
        last = spoken[::-1].index(True) if any(spoken) else 0
        spans.append((begins[start] + first, begins[end] - last, label))
    return {"items": [word for words in found for word in words], "spans": spans}


@settings(max_examples=60)
@given(docs=documents(), lower=st.booleans(), side=st.sampled_from(["left", "right"]), pad=st.booleans())
def test_counts_are_those_of_documents_that_were_split_before(docs, lower, side, pad):
    by_hand = [split_by_hand(document, lower) for document in docs]
    layout = {"n": 2, "side": side, "pad": pad, "targets": ["X", "Y"], "spans": SPANS}
    warnings.simplefilter("ignore", RaregramWarning)  # some documents have none of the labels
    if max(len(document["items"]) for document in by_hand) < 2 and not pad:
        return
    expected = replace(rg.count(by_hand, **layout), tokenize="words", lower=lower)
    assert rg.count(docs, **layout, **WORDS, lower=lower) == expected
    # As texts, where no item has white space in it: then spans count the same strings.
    if all(
        len(string.split()) == 1 == len((string + "x").split()) for document in docs for string in document["items"]
    ):
        texts = [{"text": " ".join(document["items"]), "spans": document["spans"]} for document in docs]
        assert rg.count(texts, **layout, **WORDS, lower=lower) == expected
        assert rg.count(texts, **layout, **WORDS, lower=lower, memory_limit=1 << 16, threads=3) == expected


@given(st.lists(st.lists(STRINGS, min_size=1, max_size=4), min_size=1, max_size=6), st.booleans())
def test_scores_are_those_of_contexts_that_were_split_before(rows, lower):
    """As strings, as lists, in one go and one by one."""
    counts = rg.Counts.from_contexts(["a A .", "é , a", "字 1 '"], ["X", None, "X"], spans=SPANS, lower=lower)
    plain = rg.fit(counts, "X", "backoff", shapes=True)
    model = rg.fit(replace(counts, tokenize="words"), "X", "backoff", shapes=True)
    split_rows = [[word for string in row for word in split(string, lower)] for row in rows]
    expected = plain.log_ratio([row[-3:] for row in split_rows] + [["a"]])[:-1]  # a list that is never empty
    assert np.array_equal(model.log_ratio([" ".join(row) for row in rows]), expected)
    assert np.array_equal(model.log_ratio(rows), expected)
    for row, value in zip(split_rows, expected, strict=True):
        if row:
            assert model.explain(" ".join(row)).log_ratio == value
            assert model.log_ratio([" ".join(row)]) == value


def test_a_span_leaves_out_punctuation_at_its_edges():
    text = 'He flew to "Paris", then (New York). Why "?" not'
    docs = [{"text": text, "spans": [(3, 4, "LOC"), (5, 7, "LOC"), (8, 9, "LOC")]}]
    found = {}
    for side in ("left", "right"):
        counts = rg.count(docs, n=2, side=side, spans=["whole"], tokenize="words")
        rows = counts.whole_rows
        ngrams = counts.whole_ngrams().texts("words").to_pylist()
        found[side] = {text for text, values in zip(ngrams, rows.values, strict=True) if values[1]}
    assert found == {"left": {'to "', "then (", ". Why"}, "right": {'" ,', ") ."}}


@pytest.mark.parametrize(
    "document",
    [
        {"text": "he is in ( Paris ) now ok", "spans": [(4, 5, "LOC")]},
        {"text": "he is in ( Paris ) now ok", "spans": [(3, 6, "LOC")]},
        {"text": "he is in ( Paris ) now ok", "entities": [(9, 18, "LOC")]},
        {"text": "he is in (Paris) now ok", "spans": [(3, 4, "LOC")]},
        {"text": "he is in (Paris) now ok", "entities": [(9, 16, "LOC")]},
        {"text": "he is in (Paris) now ok", "entities": [(10, 15, "LOC")]},
        {"items": ["he", "is", "in", "(", "Paris", ")", "now", "ok"], "spans": [(3, 6, "LOC")]},
    ],
)
def test_a_name_has_the_same_contexts_whether_punctuation_stands_apart_or_not(document):
    found = {}
    for side in ("left", "right"):
        counts = rg.count([document], n=2, side=side, spans=["whole"], tokenize="words")
        ngrams = counts.whole_ngrams().texts("words").to_pylist()
        found[side] = [text for text, values in zip(ngrams, counts.whole_rows.values, strict=True) if values[1]]
    assert found == {"left": ["in ("], "right": [") now"]}


def test_long_texts_in_pieces_have_each_context_once(tmp_path, monkeypatch):
    text = " ".join(f'w{i % 7}, "x{i % 3}." don\'t' for i in range(400))
    (tmp_path / "a.txt").write_text(text)
    whole = rg.count([{"text": text}], n=3, spans=SPANS, lower=True, tokenize="words", targets=[])
    settings = CountSettings(n=3, spans=tuple(SPANS), lower=True, tokenize="words", targets=())
    job = CountJob(([str(tmp_path / "a.txt")], None, None), settings, Options(batch_bytes=100), ContextOptions())
    assert job.collect() == whole


def test_tables_say_how_they_were_split_and_do_not_mix(tmp_path):
    contexts, labels = ["in Paris ,", "said Ann :"], ["X", None]
    plain = rg.Counts.from_contexts(contexts, labels)
    tables = {
        (tokenize, lower): rg.Counts.from_contexts(contexts, labels, tokenize=tokenize, lower=lower)
        for tokenize in ("whitespace", "words")
        for lower in (False, True)
    }
    assert tables["whitespace", False] == plain
    assert len({table.digest() for table in tables.values()}) == 4
    for (tokenize, lower), table in tables.items():
        table.save(tmp_path / "x.counts")
        loaded = rg.Counts.load(tmp_path / "x.counts")
        assert loaded == table
        assert (loaded.tokenize, loaded.lower) == (tokenize, lower)
        model = rg.fit(loaded, "X", "product")
        model.save(tmp_path / "x.rgm")
        assert rg.Model.load(tmp_path / "x.rgm").settings == model.settings
        heads = [storage.read_header(tmp_path / name)["header"] for name in ("x.counts", "x.rgm")]
        expected = {} if table is tables["whitespace", False] else {"tokenize": tokenize, "lower": lower}
        assert all({k: head[k] for k in ("tokenize", "lower") if k in head} == expected for head in heads)
    for other, name in (((("words", False)), "tokenize"), ((("whitespace", True)), "lower")):
        with pytest.raises(ParameterError, match=f"count tables with different {name} cannot be combined"):
            plain + tables[other]
    words = rg.Counts.from_contexts(contexts, labels, tokenize="words", spans=["units", "whole"])
    with pytest.raises(InputError, match=r"the model is for .*words; the documents .* words by Unicode's rules"):
        rg.evaluate(rg.fit(plain, "X", "product"), words)


def test_frequencies_and_contexts_are_split_too():
    counts = rg.Counts.from_ngrams(
        ["in Paris,", "In PARIS ,"], [3, 1], [0, 2], tokenize="words", lower=True, spans=["whole"]
    )
    assert counts.items.to_pylist() == [",", "in", "paris"]
    assert counts.rows[counts.whole].values.tolist() == [[6, 4]]
    with pytest.raises(InputError, match=r"N-gram 2 has 3 words, expected 2: 'the end\.'"):
        rg.Counts.from_contexts(["the end", "the end."], ["X", None], tokenize="words")


def test_letters_take_lower_alone():
    docs = [{"text": "Ab aB", "spans": [(1, 2, "X")]}]
    assert rg.count(docs, n=1, kind="letters", lower=True).items.to_pylist()[:3] == [" ", "a", "b"]
    with pytest.raises(ParameterError, match="tokenize='words' is for words"):
        rg.count(docs, n=1, kind="letters", tokenize="words")
    with pytest.raises(ParameterError, match="tokenize='words' is for words"):
        rg.Counts.from_contexts(["ab"], ["X"], kind="letters", tokenize="words")


def test_commands_split_what_is_scored_as_what_was_counted(tmp_path, run):
    rows = [{"text": f'She flew to "{name}", he said.', "spans": [{"start": 3, "end": 4, "label": "LOC"}]}
            for name in ("Paris", "Rome", "Oslo")]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), "docs.parquet")
    words = ["--tokenize", "words", "--lower"]
    run("count", "docs.parquet", "--n", 3, *words, "--spans", "units,whole", "--out", "c.counts")
    run("fit", "c.counts", "--estimator", "product", "--out", "m.rgm")
    for file in ("c.counts", "m.rgm"):
        facts = json.loads(run("info", file, "--json"))
        assert (facts["tokenize"], facts["lower"]) == ("words", True)
    (tmp_path / "new.txt").write_text('Flew to "\nROME", he\n')
    model = rg.Model.load("m.rgm")
    scores = [line.split("\t") for line in run("score", "m.rgm", "new.txt", "--format", "contexts").splitlines()]
    expected = model.log_ratio(['flew to "', 'rome " , he']).round(4)
    assert [float(line[0]) for line in scores] == expected.tolist()
    assert scores[0][-1] == 'flew to "'
    (explained,) = json.loads(run("explain", "m.rgm", 'to "Oslo', "--json"))
    assert [term["items"] for term in explained["terms"]] == [["to"], ['"'], ["oslo"]]
    assert json.loads(run("evaluate", "m.rgm", "docs.parquet", "--json"))["overall"]["relevant"] == 1
    (tmp_path / "labelled.tsv").write_text("LOC\tFlew to,\nO\the, she\n")
    run("fit", "labelled.tsv", "--estimator", "product", *words, "--out", "f.rgm")
    assert rg.Model.load("f.rgm").settings.tokenizer == Tokenizer("words", "words", lower=True)

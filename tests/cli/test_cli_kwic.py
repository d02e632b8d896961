"""Key words in context, on the command line and in the library."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import raregram as rg
from raregram.corpus.concordance import Line
from raregram.errors import ParameterError, RaregramWarning
from raregram.measure.kwic import aligned

RAREGRAM = str(Path(sys.executable).with_name("raregram"))
TEXTS = {
    "a.txt": 'He lives in Rome. "She lives in\nOslo," they say.',
    "b.txt": "Nobody LIVES in Rome; he lives in Bonn.",
}


@pytest.fixture
def articles(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_matches_stand_below_each_other_with_the_text_as_it_was(run, articles):
    lines = run("kwic", "a.txt", "b.txt", "lives in").splitlines()
    assert lines == [
        '                      He lives in Rome. "She lives in Oslo," they say.  a.txt',
        '  He lives in Rome. "She lives in Oslo," they say.                      a.txt',
        "Nobody LIVES in Rome; he lives in Bonn.                                 b.txt",
    ]
    assert run("kwic", ".", "lives in", "--sort", "right").splitlines() == [lines[2], lines[1], lines[0]]
    assert run("kwic", ".", "lives in", "--sort", "left").splitlines() == [lines[0], lines[2], lines[1]]


def test_json_has_all_that_is_known(run, articles):
    found = json.loads(run("kwic", ".", "lives in", "--top", 2, "--width", 12, "--lower", "--json"))
    assert (found["words"], found["occurrences"], found["documents"]) == ("lives in", 4, {"a.txt": 2, "b.txt": 2})
    assert found["lines"] == [
        {"document": "a.txt", "position": 1, "left": "He ", "match": "lives in", "right": ' Rome. "She'},
        {"document": "b.txt", "position": 1, "left": "Nobody ", "match": "LIVES in", "right": " Rome; he"},
    ]


def test_the_library_gives_the_same_as_a_table(articles, run):
    table = rg.kwic([articles / name for name in TEXTS], "lives in", lower=True, sort="left")
    assert table.columns == ["document", "position", "left", "match", "right"]
    assert [row["left"].split()[-1] for row in table] == ["He", "he", "Nobody", '"She']
    nothing = rg.kwic(articles / "a.txt", "dwells in")
    assert (len(nothing), nothing.columns) == (0, table.columns)
    assert len(rg.kwic(articles / "a.txt", "Oslo", tokenize="whitespace")) == 0  # it is Oslo,"
    assert len(rg.kwic(articles / "a.txt", "iv", kind="letters", tokenize="whitespace")) == 2
    with pytest.raises(ParameterError, match="sort parameter of kwic must be one of 'document', 'left', 'right'"):
        rg.kwic(articles, "in", sort="up")
    with pytest.warns(RaregramWarning, match="1 documents were skipped"):
        assert len(rg.kwic([{"no": "text"}, ["in"]], "in", on_error="skip")) == 1


def test_what_is_not_there_is_said(articles):
    done = subprocess.run(
        [RAREGRAM, "kwic", ".", "dwells in"], cwd=articles, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr == "'dwells in' does not occur in 2 documents; --lower finds them in capitals, too\n"
    done = subprocess.run(
        [RAREGRAM, "kwic", ".", "in", "-k1"], cwd=articles, capture_output=True, text=True, check=True
    )
    assert done.stderr == "4 occurrences in 2 of 2 documents; --top 4 prints all\n"


def test_letters_need_no_tokenize(run, articles):
    assert run("kwic", ".", "i", "--kind", "letters") == run(
        "kwic", ".", "i", "--kind", "letters", "--tokenize", "whitespace"
    )
    assert rg.kwic([{"text": "so it goes"}], "i", kind="letters")["position"].to_pylist() == [3]


def test_wrong_calls(run, articles):
    assert "kwic finds one word or more" in run("kwic", ".", "  ", code=2)
    assert "nowhere does not exist" in run("kwic", "nowhere", "in", code=1)
    assert "Missing argument" in run("kwic", "in", code=2)
    assert "tokenize='words' is for words" in run(
        "kwic", ".", "i", "--kind", "letters", "--tokenize", "words", code=2
    )
    (articles / "c.tsv").write_text("LOC\tlives in\n")
    assert "c.tsv holds contexts, not documents" in run("kwic", "c.tsv", "in", code=1)


def test_control_characters_do_not_reach_the_terminal(run, tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": "\x1b[2J", "items": ["\x1b[31m", "in", "\u202e\n"]}))
    assert "\x1b" not in run("kwic", "x.jsonl", "in")


def test_lines_fit_into_the_terminal(articles):
    long = articles / "long.txt"
    long.write_text("many words stand before it " * 9 + "here " + "and many more words stand behind it " * 9)
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "70"}
    subprocess.run(
        [RAREGRAM, "kwic", "long.txt", "here", "-q"], cwd=articles, stdout=child, env=environment, check=True
    )
    os.close(child)
    (line,) = os.read(parent, 10_000).decode().splitlines()
    os.close(parent)
    assert "\x1b[1mhere\x1b[0m" in line
    plain = line.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert 50 < len(plain) <= 70
    assert plain.endswith("long.txt")


def test_wide_letters_count_as_two_columns():
    lines = [Line("d", 0, "東京 ", "に", ""), Line("d", 1, "abcd ", "x", " y")]
    assert aligned(lines) == [("東京 ", "に", "   d"), ("abcd ", "x", " y  d")]

"""Stanford NER: the real program on hard texts, and a small stand-in for what may go wrong with it."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tagging import documents, spans_of

from raregram.corpus import fetch as fetching
from raregram.corpus.fetch import STANFORD, STANFORD_CLASSIFIER, content_digest, fetch_stanford, fetched_stanford
from raregram.corpus.stanford import PROGRAM, StanfordTagger, find_program, read_entities
from raregram.corpus.tagging import tag
from raregram.errors import FileError, ParameterError, RaregramError, RaregramWarning

needs_stanford = pytest.mark.skipif(
    shutil.which("java") is None or fetched_stanford() is None,
    reason="needs Java and Stanford NER: raregram fetch stanford-ner",
)
JAR, CLASSIFIER = "stanford-corenlp-4.5.10.jar", Path(STANFORD_CLASSIFIER).name
CLASS = PROGRAM.replace(".", "/") + ".class"

SENTENCES = {
    "President George Bush met Mr. Smith's wife in New York on Monday, March 2, 1987.": [
        ("George Bush", "PER"), ("Smith's", "PER"), ("New York", "LOC"),
    ],
    "The Tokyo-based company hired Anne-Marie Dupont, Dr. Jones said in London.": [
        ("Tokyo-based", "LOC"), ("Anne-Marie Dupont,", "PER"), ("Jones", "PER"), ("London.", "LOC"),
    ],
    "Shares of General Motors Corp. rose after talks in Germany's capital.": [
        ("General Motors Corp.", "ORG"), ("Germany's", "LOC"),
    ],
    "In São Paulo, the mayor met François Mitterrand; (France) denied it.": [
        ("São Paulo,", "LOC"), ("François Mitterrand;", "PER"), ("(France)", "LOC"),
    ],
    "Margaret Thatcher flew\nfrom\tParis  to New\nYork": [
        ("Margaret Thatcher", "PER"), ("Paris", "LOC"), ("New York", "LOC"),
    ],
    "<LOCATION>Berlin</LOCATION> &amp; Rome": [("<LOCATION>Berlin</LOCATION>", "LOC"), ("Rome", "LOC")],
    "the price of wheat fell": [],
    "": [],
    " \n ": [],
}  # fmt: skip
ENDLESS = {
    "a" * 1_000_000,
    "ab-" * 333_333,  # quadratic in the tokenizer
    "a@" * 500_000,  # as well
    "(" * 1_000_000,
    "\U0001f600" * 1_000_000,
}


@needs_stanford
def test_real_texts_with_several_threads_and_with_one(tmp_path):
    endless = [f"He left Paris. {text} She saw London." for text in ENDLESS]
    made = tag(documents([*SENTENCES, *endless]), tmp_path / "3", tagger=StanfordTagger(threads=3))
    rows = pq.read_table(tmp_path / "3").to_pylist()
    assert {text: spans_of(row) for text, row in zip(SENTENCES, rows, strict=False)} == SENTENCES
    assert [spans_of(row) for row in rows[len(SENTENCES) :]] == [[("Paris.", "LOC"), ("London.", "LOC")]] * 5
    assert (made.pipeline, made.version) == ("Stanford NER english.all.3class.distsim", "4.5.10")
    tag(documents(SENTENCES), tmp_path / "1", tagger="stanford", processes=1)
    assert pq.read_table(tmp_path / "1").to_pylist() == rows[: len(SENTENCES)]


@needs_stanford
def test_offsets_are_right_after_any_letters():
    """Java counts UTF-16 units, and its tokenizer may drop or split whatever it does not know."""
    rng = random.Random(5)
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    ranges = (letters[:0x250], letters[0x250:0x3000], letters[:0xFFFF], letters)
    starts = ["".join(rng.choices(ranges[k % 4], k=12)) for k in range(400)]
    texts = [f"{start} . The prime minister of France flew to Paris . {start} . Then to Paris ." for start in starts]
    for text, found in zip(texts, StanfordTagger(threads=2).find(texts), strict=True):
        assert {text[first:after] for first, after, _ in found} >= {"France", "Paris"}


def test_entities_are_read_along_with_the_text():
    assert read_entities("", "") == read_entities("", " \n ") == read_entities("a < b > c", "a < b > c") == []
    text = "<LOCATION>Berlin</LOCATION> &amp;\u00a0<Royal Bank> New\nYork </PERSON>"
    tagged = "<LOCATION><LOCATION>Berlin</LOCATION></LOCATION> &amp; <Royal\u00a0Bank> "
    tagged += "<LOCATION>New\nYork</LOCATION> </PERSON>"
    found = read_entities(tagged, text)
    assert [text[start:end] for start, end, _ in found] == ["Berlin</LOCATION>", "New\nYork"]
    assert {label for _, _, label in found} == {"LOCATION"}
    with pytest.raises(RaregramError, match="changed a text"):
        read_entities("other", "text")


@given(st.lists(st.tuples(st.text("ab<>&;/ \n\u00a0\u3000é", max_size=5), st.booleans())))
def test_elements_come_off_whatever_the_text_is(parts):
    expected, text, tagged = [], "", ""
    for part, is_name in parts:
        if is_name:
            expected.append((len(text), len(text) + len(part), "PERSON"))
        text += part
        tagged += f"<PERSON>{part}</PERSON>" if is_name else part
    assert read_entities(tagged.replace("\u00a0", " "), text) == expected


# --- a stand-in for Java and its program: it finds Paris, after what the file "behaviour" does --------------

JAVA = f"""#!{sys.executable}
import os, pathlib, signal, sys
exec(pathlib.Path(__file__).with_name("behaviour").read_text())
for name in pathlib.Path("settings").read_text().strip().removeprefix("textFiles=").split(","):
    with open(name, encoding="utf-8", newline="") as file:
        text = file.read()
    if text.strip():
        sys.stdout.buffer.write(text.replace("Paris", "<LOCATION>Paris</LOCATION>").encode())
        sys.stdout.flush()
"""


def write_jar(path, **contents):
    with zipfile.ZipFile(path, "w") as jar:
        for name, content in contents.items():
            jar.writestr({"program": CLASS, "manifest": "META-INF/MANIFEST.MF"}.get(name, name), content)
    return path


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A tagger of the stand-in, which behaves as it is told."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(JAVA)
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    write_jar(tmp_path / "program.jar", program=b"", manifest="Implementation-Version: 9.1\n")
    write_jar(tmp_path / "models.jar", **{STANFORD_CLASSIFIER: b""})

    def behave(behaviour=""):
        (tmp_path / "bin" / "behaviour").write_text(behaviour)
        return StanfordTagger(path=str(tmp_path))

    return behave


def test_texts_keep_their_order_and_those_without_words_have_no_entities(tmp_path, java):
    texts = ["in Paris", "", "\n", "x" * 600 + " Paris\r\nParis", "none", "Paris"]
    found = [
        [text[start:end] for start, end, _ in of_text]
        for text, of_text in zip(texts, java().find(texts), strict=True)
    ]
    assert found == [["Paris"], [], [], ["Paris", "Paris"], [], ["Paris"]]
    assert java().facts == {"pipeline": "Stanford NER english.all.3class.distsim", "version": "9.1"}
    with pytest.warns(RaregramWarning, match="those found are LOCATION"):
        tag(documents(texts), tmp_path / "out", tagger=java(), labels={"GPE": "LOC"})


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "exit code -9. Java said: nothing"),
        ("sys.exit(3)", "too little memory for Stanford NER: e.g. JAVA_TOOL_OPTIONS=-Xmx2g"),
        ("sys.exit('Picked up X\\nat first\\nError: no class\\nat last')", "exit code 1. Java said: Error: no"),
        ("sys.exit('java.lang.UnsupportedClassVersionError: x')", "this Java is too old"),
        ("print('other')", "changed a text"),
    ],
)  # fmt: skip
def test_a_java_that_fails_is_reported(tmp_path, java, behaviour, message):
    tagger, before = java(behaviour), set(tmp_path.iterdir())
    with pytest.raises(RaregramError, match=message):
        tag(documents(["in Paris"]), tmp_path / "out", tagger=tagger)
    assert set(tmp_path.iterdir()) == before


def test_a_run_that_is_broken_off_ends_java(tmp_path, java):
    found = java(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))").find(["in Paris " * 1000] * 100)
    next(found)
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_jars_classifiers_and_folders_of_the_user(tmp_path, java, monkeypatch):
    java()
    program, models = tmp_path / "program.jar", tmp_path / "models.jar"
    own = tmp_path / "own.crf.ser.gz"
    own.write_bytes(b"")
    default = "english.all.3class.distsim"
    jars = f"{models}{os.pathsep}{program}"
    assert find_program(jars, default) == ([program, models], STANFORD_CLASSIFIER, "9.1")
    monkeypatch.setenv("CORENLP_HOME", str(tmp_path))
    assert find_program(None, "own") == ([program, models], str(own), "9.1")
    assert find_program(str(program), str(own)) == ([program], str(own), "9.1")
    with pytest.raises(ParameterError, match=f"no Stanford classifier none; there is {default}, own"):
        find_program(None, "none")


def test_what_is_missing_is_said_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "empty"))
    monkeypatch.delenv("CORENLP_HOME", raising=False)
    (tmp_path / "bad.jar").write_text("no jar")
    write_jar(tmp_path / "other.jar", other=b"")
    write_jar(tmp_path / "good.jar", program=b"", **{STANFORD_CLASSIFIER: b""})
    for name, message in [
        (None, r"not installed: raregram fetch stanford-ner.*--stanford.*CORENLP_HOME"),
        ("nowhere", "nowhere does not exist"),
        ("bad.jar", r"bad\.jar is not a jar, or it is damaged"),
        ("other.jar", rf"other\.jar has no jar with Stanford NER \({PROGRAM}\)"),
    ]:
        with pytest.raises(FileError, match=message):
            tag(["a"], tmp_path / "out", tagger="stanford", stanford=name and str(tmp_path / name))
    for home, where in [(tmp_path, "in JAVA_HOME"), ("", "on the path")]:
        monkeypatch.setenv("JAVA_HOME", str(home))
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(FileError, match=rf"needs Java, and there is none {where}.*apt-get install"):
            StanfordTagger(path=str(tmp_path / "good.jar"))
    assert {path.name for path in tmp_path.iterdir()} == {"bad.jar", "other.jar", "good.jar"}


def test_the_command(run, tmp_path, java):
    java()
    (tmp_path / "a.txt").write_text("Angela Merkel flew to Paris on Monday.")
    tagging = ("tag", "a.txt", "--tagger", "stanford", "--stanford", tmp_path, "--out", "t")
    made = json.loads(run(*tagging, "--json"))
    assert (made["documents"], made["spans"]) == (1, {"LOC": 1})
    assert "--stanford is for --tagger stanford" in run("tag", "a.txt", "--stanford", "x", "--out", "t", code=2)
    assert "there is no Stanford classifier none" in run(*tagging, "--pipeline", "none", code=2)
    assert "stanford-ner comes by Maven" in run("fetch", "stanford-ner", "jars", code=2)


# --- fetching ----------------------------------------------------------------------------------------------------


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """A Maven that is a shell script, and small jars for it to bring."""
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "home"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    content = tmp_path / "content"
    content.mkdir()
    (content / JAR).write_bytes(b"the program")
    (content / CLASSIFIER).write_bytes(b"the classifier")
    monkeypatch.setattr(fetching, "STANFORD", replace(STANFORD, digest=content_digest(content.iterdir())))
    write_jar(tmp_path / "models.jar", **{STANFORD_CLASSIFIER: b"the classifier", "other": b"?"})

    def write(body):
        script = tmp_path / "bin" / "mvn"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)

    bring = f"""echo "$@" >> '{tmp_path}/calls'
    to=repository/edu/stanford/nlp/stanford-corenlp/4.5.10; mkdir -p $to
    case "$*" in
        *:models*) cp '{tmp_path}/models.jar' $to/stanford-corenlp-4.5.10-models.jar;;
        *) cp '{content / JAR}' $to;;
    esac"""
    write(bring)
    return write


def test_maven_brings_it_once_by_name_and_again_where_it_is_damaged(tmp_path, maven):
    ticks = []
    found = fetch_stanford(progress=ticks.append)
    assert [path.read_bytes() for path in found.files] == [b"the classifier", b"the program"]
    assert found.verified
    assert sum(ticks) > 0
    assert fetch_stanford() == fetched_stanford() == found
    (found.folder / JAR).unlink()
    assert fetch_stanford() == found
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["edu.stanford.nlp:stanford-corenlp:4.5.10" in call for call in calls] == [True] * 4
    maven("exit 1")
    with pytest.raises(FileError, match="mvn failed"):
        fetch_stanford(refresh=True)
    assert fetch_stanford() == found  # no network is needed any more
    (found.folder / CLASSIFIER).write_bytes(b"damaged")
    assert fetched_stanford() is None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first; echo '[ERROR] Could not transfer' >&2; exit 7", r"(?s)mvn failed \(exit code 7\).*Could not "
         r"transfer.*network connection.*--stanford PATH"),
        ("exit 0", r"mvn failed \(exit code 0\)"),
        ("mkdir repository; echo a > repository/stanford-corenlp-4.5.10.jar; "
         "echo b > repository/stanford-corenlp-4.5.10-models.jar", r"Maven brought a damaged .*-models\.jar"),
        (None, r"mvn is not installed\. Install Maven, or name a folder"),
    ],
)  # fmt: skip
def test_where_maven_fails_the_message_says_what_to_do(tmp_path, maven, monkeypatch, script, message):
    if script is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        maven(script)
    with pytest.raises(FileError, match=message):
        fetch_stanford()
    assert [path.name for path in (tmp_path / "home" / "stanford-ner").iterdir()] == []


def test_another_content_is_refused(maven, monkeypatch):
    monkeypatch.setattr(fetching, "STANFORD", replace(STANFORD, digest="0" * 64))
    with pytest.raises(FileError, match="another content than expected: expected SHA-256 000"):
        fetch_stanford()
    assert fetched_stanford() is None

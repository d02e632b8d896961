"""Stanford NER, the real program: what it finds, what it survives, and what is said when something is missing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_tagging import documents, spans_of

from raregram.corpus import fetch as fetching
from raregram.corpus import stanford, tagging
from raregram.corpus.fetch import STANFORD, STANFORD_CLASSIFIER, content_digest, fetch_stanford, fetched_stanford
from raregram.corpus.stanford import StanfordTagger, find_program, read_entities
from raregram.corpus.tagging import METADATA_KEY, cut_text, tag
from raregram.errors import FileError, ParameterError, RaregramError, RaregramWarning

FETCHED = fetched_stanford()
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
needs_stanford = pytest.mark.skipif(FETCHED is None, reason="Stanford NER is missing: raregram fetch stanford-ner")
JAR, CLASSIFIER = "stanford-corenlp-4.5.10.jar", Path(STANFORD_CLASSIFIER).name

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


@pytest.fixture(scope="module")
def tagger():
    """Stanford NER with three threads."""
    return StanfordTagger(threads=3)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tagging, "CHUNK_DOCUMENTS", 4)


def rows_of(path):
    return pq.read_table(path).to_pylist()


@needs_java
@needs_stanford
def test_real_sentences(tmp_path, tagger):
    out = tmp_path / "tagged.parquet"
    made = tag(documents(SENTENCES), out, tagger=tagger)
    table = pq.read_table(out)
    assert {text: spans_of(row) for text, row in zip(SENTENCES, table.to_pylist(), strict=True)} == SENTENCES
    assert table["items"].to_pylist() == [text.split() for text in SENTENCES]
    assert table.schema.equals(tagging.SCHEMA)
    assert (made.pipeline, made.version) == ("Stanford NER english.all.3class.distsim", "4.5.10")
    assert made.spans == {"LOC": 10, "ORG": 1, "PER": 6}
    about = json.loads(table.schema.metadata[METADATA_KEY])
    assert (about["pipeline"], about["version"]) == (made.pipeline, made.version)
    assert [path.name for path in tmp_path.iterdir()] == ["tagged.parquet"]


@needs_java
@needs_stanford
def test_offsets_are_right_after_any_letters(tagger):
    """Java counts UTF-16 units, and its tokenizer may drop or split whatever it does not know."""
    rng = random.Random(5)
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    ranges = (letters[:0x250], letters[0x250:0x3000], letters[:0xFFFF], letters)
    starts = ["".join(rng.choices(ranges[k % 4], k=12)) for k in range(400)]
    texts = [f"{start} . The prime minister of France flew to Paris . {start} . Then to Paris ." for start in starts]
    for text, found in zip(texts, tagger.find(texts), strict=True):
        assert all(0 <= first < after <= len(text) for first, after, _ in found)
        assert {text[first:after] for first, after, _ in found} >= {"France", "Paris"}


@needs_java
@needs_stanford
def test_a_text_is_tagged_alike_whatever_came_before_it(tagger):
    """The classifier has a set of lower-case words, which it can be told to learn from the texts that it tags."""
    texts = list(SENTENCES)
    expected = list(tagger.find(texts))
    assert (
        list(tagger.find([" ".join(f"{word.lower()} said" for word in " ".join(texts).split())] * 3 + texts))[3:]
        == expected
    )
    order = random.Random(1).sample(texts, len(texts))
    assert list(tagger.find(order)) == [expected[texts.index(text)] for text in order]


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


LETTERS = "abcd.-,'123ABC$"
ENDLESS = {
    "one letter": "a" * 1_000_000,
    "hyphens": "ab-" * 333_333,  # quadratic in the tokenizer
    "at signs": "a@" * 500_000,  # as well
    "brackets": "(" * 1_000_000,
    "mixed": "".join(random.Random(1).choices(LETTERS, k=1_000_000)),
    "astral": "\U0001f600" * 1_000_000,
}


@needs_java
@needs_stanford
@pytest.mark.parametrize("name", ENDLESS)
def test_a_million_characters_without_a_space(tmp_path, tagger, name):
    text = f"He left Paris. {ENDLESS[name]} She saw London."
    tag(documents([text]), tmp_path / "out.parquet", tagger=tagger)
    (row,) = rows_of(tmp_path / "out.parquet")
    assert spans_of(row) == [("Paris.", "LOC"), ("London.", "LOC")]


@needs_java
@needs_stanford
def test_a_document_of_a_megabyte(tmp_path, tagger):
    text = " ".join(text for text in SENTENCES if text.endswith(".")) + " "
    text *= 1_200_000 // len(text)
    tag(documents([text]), tmp_path / "out.parquet", tagger=tagger)
    (row,) = rows_of(tmp_path / "out.parquet")
    pieces = list(cut_text(text, 100_000))
    (first,) = tagger.find([pieces[0][1]])
    assert len(row["spans"]) >= 0.99 * len(first) * len(text) / len(pieces[0][1])
    assert spans_of(row)[:3] == SENTENCES[next(iter(SENTENCES))]
    assert spans_of(row)[-1] == ("(France)", "LOC")


@needs_java
@needs_stanford
def test_several_threads_give_the_rows_of_one_in_order(tmp_path, tagger, small_chunks):
    texts = documents([f"Ann Lee wrote letter {number} in Paris." for number in range(50)])
    ticks = []
    tag(texts, tmp_path / "several.parquet", tagger=tagger, progress=ticks.append)
    assert sum(ticks) == 50
    tag(texts, tmp_path / "one.parquet", tagger="stanford", processes=1)
    assert pq.read_table(tmp_path / "one.parquet").equals(pq.read_table(tmp_path / "several.parquet"), True)


@needs_java
@needs_stanford
def test_a_java_that_is_killed_is_reported(tmp_path, tagger):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.parquet"
    source.write_text("".join(json.dumps(document) + "\n" for document in documents([" ".join(SENTENCES)] * 200)))

    def kill(_):
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for child in map(int, children):
            if "CRFClassifier" in Path(f"/proc/{child}/cmdline").read_text():
                os.kill(child, signal.SIGKILL)

    with pytest.raises(RaregramError, match="exit code -9"):
        tag([str(source)], out, tagger=tagger, progress=kill)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@needs_java
@needs_stanford
def test_a_run_that_is_broken_off_ends_java(tagger):
    found = tagger.find(["Ann Lee in Paris."] * 100)
    next(found)
    found.close()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not any("CRFClassifier" in Path(f"/proc/{child}/cmdline").read_text() for child in children)


@needs_java
@needs_stanford
def test_labels_are_chosen_and_renamed(tmp_path, tagger):
    text = [{"text": "Ann Lee of General Motors Corp. flew to Paris."}]
    tag(text, tmp_path / "out.parquet", tagger=tagger, labels=None)
    assert [label for _, label in spans_of(rows_of(tmp_path / "out.parquet")[0])] == [
        "PERSON",
        "ORGANIZATION",
        "LOCATION",
    ]
    with pytest.warns(RaregramWarning, match="those found are LOCATION, ORGANIZATION, PERSON"):
        tag(text, tmp_path / "no.parquet", tagger=tagger, labels={"GPE": "LOC"})


@needs_java
@needs_stanford
def test_the_command(run, tmp_path):
    (tmp_path / "a.txt").write_text("Angela Merkel flew to Paris on Monday.")
    made = json.loads(run("tag", "a.txt", "--tagger", "stanford", "--out", "t", "--json"))
    assert (made["documents"], made["spans"]) == (1, {"LOC": 1, "PER": 1})
    error = run("tag", "a.txt", "--stanford", "jars", "--out", "t", code=2)
    assert "--stanford is for --tagger stanford" in error
    error = run("tag", "a.txt", "--tagger", "stanford", "--pipeline", "none", "--out", "t", code=2)
    assert "there is no Stanford classifier none; there is english.all.3class.distsim" in error
    assert "stanford-ner comes by Maven" in run("fetch", "stanford-ner", "jars", code=2)


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    """The two jars of the original distribution, the second with one classifier only."""
    if FETCHED is None:
        pytest.skip("Stanford NER is missing: raregram fetch stanford-ner")
    folder = tmp_path_factory.mktemp("jars")
    shutil.copy(FETCHED.folder / JAR, folder)
    with zipfile.ZipFile(folder / "models.jar", "w") as jar:
        jar.write(FETCHED.folder / CLASSIFIER, STANFORD_CLASSIFIER)
    return folder


@needs_java
def test_jars_and_folders_of_the_user(tmp_path, jars, monkeypatch):
    files = f"{jars / 'models.jar'}{os.pathsep}{jars / JAR}"
    text = documents(["Angela Merkel flew to Paris."])
    made = tag(text, tmp_path / "1", tagger="stanford", processes=1, stanford=files)
    assert made.spans == {"LOC": 1, "PER": 1}
    expected = pq.read_table(tmp_path / "1")
    monkeypatch.setenv("CORENLP_HOME", str(jars))
    tag(text, tmp_path / "2", tagger="stanford", processes=1)
    file = str(FETCHED.folder / CLASSIFIER)
    tag(text, tmp_path / "3", tagger="stanford", processes=1, stanford=str(jars / JAR), pipeline=file)
    assert all(pq.read_table(tmp_path / name).equals(expected, True) for name in "23")


def test_what_is_missing_is_said_before_any_work(tmp_path, monkeypatch):
    def tag_nothing(**options):
        return tag(documents(["Paris"]), tmp_path / "out.parquet", tagger="stanford", processes=1, **options)

    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "empty"))
    with pytest.raises(FileError, match=r"not installed: raregram fetch stanford-ner.*--stanford.*CORENLP_HOME"):
        tag_nothing()
    with pytest.raises(FileError, match="nowhere does not exist"):
        tag_nothing(stanford=str(tmp_path / "nowhere"))
    (tmp_path / "no.jar").write_text("no jar")
    with pytest.raises(FileError, match=r"no\.jar is not a jar, or it is damaged"):
        tag_nothing(stanford=str(tmp_path / "no.jar"))
    with zipfile.ZipFile(tmp_path / "no.jar", "w") as jar:
        jar.writestr("Other.class", b"")
    with pytest.raises(FileError, match=r"no\.jar has no jar with Stanford NER \(CRFClassifier\)"):
        tag_nothing(stanford=str(tmp_path / "no.jar"))
    with pytest.raises(ParameterError, match="tagger parameter of tag must be one of 'spacy', 'stanford'"):
        tag(documents(["Paris"]), tmp_path / "out.parquet", tagger="flair")
    assert {path.name for path in tmp_path.iterdir()} == {"no.jar"}


@needs_stanford
def test_without_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(FileError, match=r"needs Java, and there is none in JAVA_HOME.*apt-get install"):
        StanfordTagger()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileError, match="needs Java, and there is none on the path"):
        StanfordTagger()


@needs_java
@needs_stanford
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-Xmx64m", "too little memory for Stanford NER: e.g. JAVA_TOOL_OPTIONS=-Xmx2g"),
        ("-Xmx1", "Error occurred during initialization of VM"),
        ("-Xno", "Could not create the Java Virtual Machine"),
    ],
)
def test_a_java_with_too_little_memory_or_wrong_options(tagger, monkeypatch, options, message):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    with pytest.raises(RaregramError, match=message):
        list(tagger.find(["in Paris"]))


@needs_java
def test_a_java_that_is_too_old(tmp_path, jars):
    """Classes that say they are of a Java still to come are to this Java what today's are to an old one."""
    with zipfile.ZipFile(jars / JAR) as real, zipfile.ZipFile(tmp_path / "new.jar", "w") as changed:
        code = bytearray(real.read(stanford.PROGRAM))
        code[6:8] = (0, 250)  # the major version
        changed.writestr("META-INF/MANIFEST.MF", real.read("META-INF/MANIFEST.MF"))
        changed.writestr(stanford.PROGRAM, bytes(code))
    shutil.copy(FETCHED.folder / CLASSIFIER, tmp_path)
    with pytest.raises(FileError, match="Java is too old"):
        list(StanfordTagger(path=str(tmp_path)).find(["in Paris"]))


@needs_java
@needs_stanford
def test_a_damaged_classifier(tmp_path):
    shutil.copy(FETCHED.folder / JAR, tmp_path)
    damaged = tmp_path / CLASSIFIER
    damaged.write_bytes((FETCHED.folder / CLASSIFIER).read_bytes()[:1_000_000])
    with pytest.raises(FileError, match=r"Java said: .*Unexpected end of ZLIB input stream"):
        list(StanfordTagger(path=str(tmp_path)).find(["in Paris"]))


@needs_java
def test_a_damaged_jar(tmp_path, jars):
    shutil.copy(jars / JAR, tmp_path)
    content = bytearray((jars / "models.jar").read_bytes())
    content[1_000_000] ^= 1  # in the classifier, so that only its checksum tells
    (tmp_path / "models.jar").write_bytes(content)
    with pytest.raises(FileError, match=r"models\.jar is not a jar, or it is damaged"):
        StanfordTagger(path=str(tmp_path))


@needs_stanford
def test_facts_change_with_the_program_and_the_classifier(tmp_path):
    facts = find_program(None, stanford.DEFAULT_CLASSIFIER)[2]
    shutil.copytree(FETCHED.folder, tmp_path / "other")
    (tmp_path / "other" / CLASSIFIER).write_bytes(b"other")
    other = find_program(str(tmp_path / "other"), stanford.DEFAULT_CLASSIFIER)[2]
    assert other["digest"] != facts["digest"]
    assert {**other, "digest": None} == {**facts, "digest": None}


class Capitals:
    """A tagger of a few lines: every word in capitals is a LOC."""

    facts = {"pipeline": "capitals", "version": "1"}  # noqa: RUF012
    labels = frozenset({"LOC"})

    def find(self, texts):
        return [[(text.find(word), text.find(word) + len(word), "LOC") for word in text.split() if word.isupper()]
                for text in texts]  # fmt: skip


def test_a_tagger_of_ones_own(tmp_path):
    made = tag(documents(["from ROME to BONN", "nowhere"]), tmp_path / "out.parquet", tagger=Capitals())
    assert (made.pipeline, made.spans) == ("capitals", {"LOC": 2})
    assert spans_of(rows_of(tmp_path / "out.parquet")[0]) == [("ROME", "LOC"), ("BONN", "LOC")]


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
    with zipfile.ZipFile(tmp_path / "models.jar", "w") as jar:
        jar.writestr(STANFORD_CLASSIFIER, b"the classifier")
        jar.writestr("other", b"?")

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


def test_maven_brings_it_once_by_name(tmp_path, maven, monkeypatch):
    ticks = []
    found = fetch_stanford(progress=ticks.append)
    assert {path.name: path.read_bytes() for path in found.files} == {
        JAR: b"the program",
        CLASSIFIER: b"the classifier",
    }
    assert found.verified
    assert sum(ticks) > 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["edu.stanford.nlp:stanford-corenlp:4.5.10" in call for call in calls] == [True, True]
    assert {path.name for path in (tmp_path / "home" / "stanford-ner").iterdir()} == {
        found.folder.name,
        "current.json",
    }
    maven("exit 1")
    assert fetch_stanford() == fetched_stanford() == found  # no network is needed any more
    with pytest.raises(FileError, match="mvn failed"):
        fetch_stanford(refresh=True)
    assert fetch_stanford() == found
    (found.folder / CLASSIFIER).write_bytes(b"damaged")
    assert fetched_stanford() is None
    with pytest.raises(FileError, match="mvn failed"):
        fetch_stanford()


def test_a_damaged_copy_is_replaced(tmp_path, maven):
    found = fetch_stanford()
    (found.folder / JAR).unlink()
    assert fetch_stanford() == found
    assert len((tmp_path / "calls").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first; echo '[ERROR] Could not transfer' >&2; exit 7", r"(?s)mvn failed \(exit code 7\).*Could not "
         r"transfer.*network connection.*--stanford PATH"),
        ("exit 0", r"mvn failed \(exit code 0\)"),
        ("mkdir repository; echo a > repository/stanford-corenlp-4.5.10.jar; "
         "echo b > repository/stanford-corenlp-4.5.10-models.jar", r"Maven brought a damaged .*-models\.jar"),
        (None, r"Maven is not installed\. Install it, e\.g\. apt-get install maven, or name a folder"),
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

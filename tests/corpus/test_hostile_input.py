"""Strange, damaged, doubtful and enormous inputs: read rightly, or one sentence names the file and the fault."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import re
import struct
import subprocess
import sys
import tarfile
import threading
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import combinations
import raregram as rg
from raregram import cli
from raregram.corpus import documents as corpus
from raregram.corpus.contexts import read_contexts
from raregram.corpus.documents import BufferedFile, Location, Options, Row, batches, expand, word_bounds
from raregram.corpus.encoding import wide_encoding
from raregram.corpus.fetch import fetch_corpus
from raregram.corpus.formats import columns, csv, parquet, read_documents, recognise, reuters, running, tables
from raregram.corpus.log import ReadingLog
from raregram.counts.count import are_contexts, read_counts
from raregram.errors import FileError, InputError, MissingExtraError, RaregramError, RaregramWarning
from raregram.measure import score as scoring
from raregram.text.tokenize import Tokenizer
from reliability import subjects

RAREGRAM = Path(sys.executable).with_name("raregram")
TEXT = "She met Ann Lee in New York, he said."
ENTITIES = [(8, 15, "PER"), (19, 27, "LOC")]
ITEMS, SPANS = TEXT.split(), [(2, 4, "PER"), (5, 7, "LOC")]
NAMES_OF_TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TAGS = ["O", "O", "B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O", "O"]


def documents(source, format_name=None, **options):
    """All documents of a source as (content, spans)."""
    rows = [
        row for batch in read_documents(source, Options(format_name, **options))
        for row in tables.documents_table(batch).to_pylist()
    ]  # fmt: skip
    return [(row.get("text", row.get("items")), [tuple(s.values()) for s in row["spans"] or []]) for row in rows]


def skipping():
    return ReadingLog("skip")


def objects(entities):
    return [dict(zip(("start", "end", "label"), entity, strict=True)) for entity in entities]


def write(path, content):
    """Write text, bytes, a table, or a list of documents as JSON lines."""
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    elif isinstance(content, list):
        path.write_text("".join(json.dumps(document) + "\n" for document in content))
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def count(tmp_path, monkeypatch):
    """Run `raregram count`; return its exit code and what it says on standard error."""
    monkeypatch.chdir(tmp_path)

    def count(*arguments):
        code, _, said = combinations.run("count", *arguments, "-n", 1, "--quiet", "--out", "c.counts")
        assert all(line.startswith("raregram: ") for line in said.splitlines()), said
        return code, said

    return count


# --- the table: what is refused, by which error and word ---------------------------------------------------------


def broken_strings(*values):
    """An Arrow array of strings that are not UTF-8."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def lists(strings):
    return pa.ListArray.from_arrays([0, 1, 2], strings)


BAD = broken_strings(b"fine", b"a \xff b")
NGRAMS = pa.array(["a b", "c d"])
MANY = ",".join(f"c{number}" for number in range(3000))
REFERENCE = '<REUTERS NEWID="7"><BODY>' + "word " * 30 + "&#" + "1" * 5000 + ";</BODY></REUTERS>"
GOOD = '{"text": "in Rome", "spans": [[1, 2, "LOC"]]}\n'
IN_LINE_2 = [  # a document after a good one, and what is said of it
    ('{"text": "a", "id": ' + "[" * 100_000 + "]" * 100_000 + "}", "is not valid JSON"),
    ('{"items": ["a"], "id": ' + "9" * 5000 + "}", "is not valid JSON"),
    ('{"text": "a", "spans": [' + "5," * 100_000 + "5]}", "got 5$"),
    ('{"text": "a", "spans": ' + json.dumps(["x" * 10_000]) + "}", r"got 'xxx.*\.\.\.$"),
    ('{"items": ["a"], "spans": [[0, 1' + "0" * 30 + ', "X"]]}', "a span needs whole numbers"),
    ('{"items": ["a"], "spans": true}', "spans must be a list"),
    ('{"text": "a \\ud800 b"}', "not valid Unicode"),
    ({"text": "in Rome", "entities": [[3, 70, "LOC"]]}, "from 3 to 70 does not fit into a text of 7 characters"),
    ({"text": "in Rome", "entities": [[2, 3, "LOC"]]}, "holds no word"),
    ({"text": "in Rome", "entities": [[3, 7]]}, "a span needs start, end and label"),
    ({"text": "in Rome", "entities": "LOC"}, "entities must be a list"),
    ({"items": ["in"], "entities": []}, "entities must be .* of the field text"),
    ({"tokens": ["in", "Rome"], "ner_tags": ["O"]}, "a tag for each of the tokens"),
    ({"text": "in Rome", "ner_tags": ["O", "O"]}, "a tag for each of the tokens"),
    ({"tokens": ["in", "Rome"], "ner_tags": ["O", None]}, "ner_tags must be strings"),
    ({"tokens": ["in", "Rome"], "ner_tags": [0, 1]}, "ner_tags are numbers"),
    ({"tokens": [{"id": 1}], "spans": []}, "tokens need text, start and end"),
    ({"tokens": [{"text": "in"}, 5], "text": "in"}, "a document needs items"),
    ({"content": "in Rome", "lang": "en"}, "has content, lang: rename the field that holds the text"),
    (
        {"text": TEXT, "spans": ENTITIES},
        "9 items; these look like offsets in characters: rename",
    ),
    ({"text": TEXT, "spans": [[2, 11, "LOC"]]}, "does not fit into a document of 9 items$"),
]
REFUSED = [  # name, content, exception, word
    *(("r.json", content, InputError, "not a JSON array of Reuters articles.* jq")
      for content in ('[{"id": 1, "body": [1]}]', '[{"id": "\\ud800"}]', '[{"id": []}]',
                      '[{"id": 1, "body": ' + "[" * 5000 + "}]")),
    ("r.sgm", REFERENCE, InputError, "article 7 has a character reference that is no character"),
    ("r.sgm", REFERENCE[:60], InputError, "ends inside an article"),
    ("d.spacy", b"not a DocBin", FileError, "not a DocBin file"),
    ("d.spacy", zlib.compress(b"\x81\xa4cats\x90"), FileError, "not a DocBin file"),
    ("d.parquet", "plain words", FileError, "not a Parquet file, or it is damaged; if it is text, rename"),
    ("d.parquet", pa.table({"body": ["in Rome"]}), InputError, "it has body.*if these are documents, rename"),
    ("d.csv", "text,label\nthey met in,x\n", InputError, "it has text, label.*--columns ngram=NAME"),
    ("d.parquet", pa.table({"text": BAD}), InputError, "row 2 is damaged or not valid UTF-8"),
    ("d.parquet", pa.table({"items": lists(BAD)}), InputError, "row 2 is damaged or not valid UTF-8"),
    ("d.parquet", pa.table({"text": ["a", "b"], "id": BAD}), InputError, "row 2 is damaged or not valid UTF-8"),
    ("c.parquet", pa.table({"ngram": BAD, "label": ["X", "Y"]}), InputError, "row 2 is damaged or not valid UTF-8"),
    ("c.csv", f"{MANY}\n{MANY}\n", InputError, r"it has c0, .*, c19 and 2,980 more"),
    ("c.tsv", "X\t" + "word " * 4000, InputError, "line 1 has 4,000 words; an N-gram has at most 1,000"),
    *(("c.parquet", pa.table({"ngram": NGRAMS, **table}), InputError, word) for table, word in (
        ({"label": [1, 2]}, "label must hold strings, or lists of them, not int64"),
        ({"label": [["a", None], []]}, "a label must be a string"),
        ({"ngram": [["a", "b"], ["a", None]], "label": ["X", "Y"]}, "row 2: an item is missing"),
        ({"ngram": [1, 2], "label": ["X", "Y"]}, "items must be strings; found int64"),
        ({"f_de": [1, 1], "f_nu": pa.array([1, 2], pa.date32())}, "must hold whole numbers, not date32"),
        ({"f_de": [1, 1], "f_nu": [True, False]}, "must hold whole numbers, not bool"),
        ({"f_de": [1, 1], "f_nu": [[1], [2]]}, "must hold whole numbers, not list"),
        ({"f_de": [1, 1], "f_nu": ["1", "9" * 5000]}, "row 2: f_nu must be a whole number"),
        ({"f_de": [1, 1], "f_nu": [1, 2**53 + 2]}, "f_nu must be a whole number"))),
    *(("x.parquet", b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1", FileError, "") for footer in (
        bytes([0x49, 0xF7, *[0xFF] * 7, 0x7F]),  # a list of 2**56 numbers of eight bytes each
        bytes([0x48, *[0xFF] * 7, 0x7F, 0]),  # a text longer than any file
        bytes([0x4C]) * 100_000)),  # structures within structures
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "error", "word"), REFUSED)
def test_what_is_refused_is_named_in_few_words(tmp_path, name, content, error, word):
    if name.endswith("spacy"):
        pytest.importorskip("spacy")
    format_name = {"r.json": "reuters-json", "r.sgm": "reuters-sgml"}.get(name)
    with pytest.raises(error, match=rf"(?s){re.escape(name)}.*{word}") as raised:
        rg.count(write(tmp_path / name, content), format=format_name)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(("document", "word"), IN_LINE_2)
def test_what_is_wrong_with_a_document_is_named_or_it_is_skipped(tmp_path, document, word):
    line = document if isinstance(document, str) else json.dumps(document)
    path = write(tmp_path / "d.jsonl", GOOD + line + "\n")
    with pytest.raises(InputError, match=rf"d\.jsonl, line 2.*{word}") as raised:
        rg.count(path, n=1)
    assert len(str(raised.value)) < 500
    with pytest.warns(RaregramWarning, match=r"^1 documents were skipped: .*d\.jsonl, line 2"):
        assert rg.count(path, n=1, on_error="skip").totals.tolist() == [2, 1]


# --- what is doubtful, and what is said of it --------------------------------------------------------------------

UNTAGGED = [{"text": "in Rome", "spans": [[1, 2, "LOC"]]}, {"text": "a b", "spans": []}, {"text": "c"}]
TWO = {"items": ITEMS, "spans": SPANS}
DOUBTFUL = [  # documents, targets, words of the warnings
    ([TWO], ["LOC", "PER"], []),
    ([TWO], ["loc"], ["no document has the label loc: the labels are LOC, PER; did you mean LOC"]),
    ([TWO], ["LOCC", "ORG"], ["label LOCC.*did you mean LOC", "label ORG: the labels are LOC, PER$"]),
    ([{"items": ITEMS, "spans": []}], None, []),
    ([{"items": ITEMS, "spans": []}], ["LOC"], ["none has any label"]),
    (UNTAGGED, None, ["1 of 3 documents have no spans, e.g. .*d.jsonl, line 3; they count as .* without LOC: tag"]),
    ([{"text": "d", "spans": None}], None, ["no document has spans: tag them first"]),
    ([{"text": "d"}], [], []),
    ([{"text": "in Rome", "ents": [[3, 7, "LOC"]]}], None, ["line 1: the field ents was ignored, since spans are"]),
    ([{"text": "in Rome", "annotations": [{"result": []}]}], None, ["the field annotations was ignored"]),
    ([{"text": "in Rome", "mine": [{"start_offset": 3, "end_offset": 7}]}], None, ["the field mine was ignored"]),
    ([{"text": "in Rome", "labels": ["a", "b"], "meta": {"start": 1}}], [], []),
    ([{**json.loads(GOOD), "entities": [(3, 7, "LOC")]}], None, ["entities was ignored, since there are spans too"]),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "targets", "words"), DOUBTFUL)
def test_what_is_doubtful_gets_one_sentence(tmp_path, rows, targets, words):
    path = write(tmp_path / "d.jsonl", rows)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        rg.count(path, n=1, targets=targets)
    assert len(found) == len(words)
    for warning, word in zip(found, words, strict=True):
        assert re.search(word, str(warning.message))
        assert (warning.category, warning.filename) == (RaregramWarning, __file__)


def test_the_command_says_the_same(tmp_path, count):
    (tmp_path / "speeches").mkdir()
    write(tmp_path / "speeches" / "one.txt", "we meet in Washington")
    code, said = count("speeches", "--targets", "LOC")
    assert (code, said.startswith("raregram: error: no document has spans, so LOC cannot be counted: tag")) == (
        1,
        True,
    )
    assert not (tmp_path / "c.counts").exists()
    code, said = count("speeches")
    assert (code, said.startswith("raregram: warning: no document has spans: tag them first")) == (0, True)
    assert (
        count("speeches", "--targets", "") == count("--numerator", "speeches", "--denominator", "speeches") == (0, "")
    )
    write(tmp_path / "d.jsonl", GOOD + "[]\n")
    assert count("d.jsonl", "--on-error", "skip")[1].endswith("raregram: 1 documents skipped\n")
    write(tmp_path / "d.jsonl", [{"body": "x"}, {"body": "y"}])
    assert "error: all 2 documents were skipped: d.jsonl, line 1" in count("d.jsonl", "--on-error", "skip")[1]
    write(tmp_path / "c.tsv", "LOC\tin\nPER\tmr\n")
    assert "no context has the label loc" in count("c.tsv", "--targets", "loc")[1]
    cli._show_warning(UserWarning("as Python says it"), UserWarning, "file.py", 3)


def test_of_very_many_labels_the_targets_are_kept(monkeypatch, tmp_path):
    labelled = [{"items": ["a"], "spans": [(0, 1, f"x{i}")]} for i in range(3000)]
    assert rg.count(labelled, n=1, targets=["x2999"], pad=True).totals.tolist() == [6000, 1]
    with pytest.warns(RaregramWarning, match="no document has the label y1: the labels are x0, .* and 990 more"):
        rg.count(labelled, n=1, targets=["y1"], pad=True)
    monkeypatch.setattr("raregram.corpus.labels.MOST_LABELS", 10)
    for make in (
        lambda: rg.count(labelled[:11], n=1),
        lambda: rg.Counts.from_contexts(["a"] * 11, [f"x{i}" for i in range(11)]),
        lambda: rg.count(write(tmp_path / "d.jsonl", labelled[:12]), n=1, threads=1, batch_bytes=1),
    ):
        with pytest.raises(InputError, match=r"there are 11 labels, such as x0, x1, x10: .* named \(--targets\)"):
            make()
    assert rg.count(labelled[:11], n=1, targets=["x7"]).targets == ("x7",)


@st.composite
def tagged(draw):
    """Texts long enough that offsets in characters fit as items, with names near their beginning, by both."""
    source, found = random.Random(draw(st.integers(0, 1 << 32))), []
    for _ in range(draw(st.integers(10, 25))):
        words = ["".join(source.choices("abcdefghij", k=source.randint(2, 9))) for _ in range(80)]
        start = source.randint(0, 4)
        end = start + source.randint(1, 3)
        bounds = word_bounds(" ".join(words))
        found.append((words, (start, end, "X"), (int(bounds[start, 0]), int(bounds[end - 1, 1]), "X")))
    return found


@settings(max_examples=60)
@given(tagged(), st.booleans())
def test_offsets_in_characters_that_fit_are_noticed_and_offsets_in_items_are_not(rows, as_text):
    def labelled(which):
        name = "text" if as_text else "items"
        return [{name: " ".join(row[0]) if as_text else row[0], "spans": [row[which]]} for row in rows]

    rg.count(labelled(1), n=1)  # warnings are errors
    with pytest.warns(
        RaregramWarning, match="spans look like offsets in characters, but were taken for offsets in it"
    ):
        rg.count(labelled(2), n=1)


# --- what other tools write --------------------------------------------------------------------------------------


def prodigy(with_tokens=True, by_tokens=True):
    bounds = word_bounds(TEXT).tolist()
    tokens = [{"text": TEXT[a:b], "start": a, "end": b, "id": i} for i, (a, b) in enumerate(bounds)]
    spans = objects(ENTITIES)
    for span, (start, end, _) in zip(spans, SPANS if by_tokens else [], strict=by_tokens):
        span |= {"token_start": start, "token_end": end - 1}
    return {"text": TEXT, "spans": spans} | ({"tokens": tokens} if with_tokens else {})


LAYOUTS = {
    "entities, triples": {"text": TEXT, "entities": ENTITIES},
    "entities, objects": {"text": TEXT, "entities": objects(ENTITIES)},
    "a pair": [TEXT, {"entities": ENTITIES}],
    "tokens and tags": {"tokens": ITEMS, "ner_tags": TAGS},
    "items and tags": {"items": ITEMS, "ner_tags": TAGS, "text": "another"},
    "tokens and IOB1": {"tokens": ITEMS, "ner_tags": [tag.replace("B-", "I-") for tag in TAGS]},
    "tokens and spans": {"tokens": ITEMS, "spans": SPANS, "lang": "en"},
    "Prodigy": prodigy(),
    "Prodigy without tokens": prodigy(with_tokens=False),
    "Prodigy by characters": prodigy(by_tokens=False),
    "null spans": {"text": TEXT, "spans": None, "entities": ENTITIES},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_documents_of_other_tools_give_the_same_counts(tmp_path, name):
    expected, document = rg.count([{"items": ITEMS, "spans": SPANS}], n=2), LAYOUTS[name]
    sources = [write(tmp_path / "d", [document]), [document]]
    if isinstance(document, dict):
        plain = {
            key: objects(value) if key in ("entities", "spans") and isinstance(value[0], tuple) else value
            for key, value in document.items()
            if value is not None
        }
        table = pa.Table.from_pylist([plain])
        sources += [table, write(tmp_path / "d.parquet", table), table.to_pandas()]
    for source in sources:
        assert rg.count(source, n=2) == expected


def test_tags_that_are_numbers_have_the_names_of_the_schema(tmp_path):
    expected = rg.count([{"items": ITEMS, "spans": SPANS}], n=2)
    table = pa.table({"tokens": [ITEMS], "ner_tags": [[NAMES_OF_TAGS.index(tag) for tag in TAGS]]})
    for feature in ({"feature": {"names": NAMES_OF_TAGS}, "_type": "Sequence"}, [{"names": NAMES_OF_TAGS}]):
        about = {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
        named = table.replace_schema_metadata(about)
        assert rg.count(named, n=2) == rg.count(write(tmp_path / "d.parquet", named), n=2) == expected
    for about in (None, {"huggingface": '{"info": 1}'}):
        with pytest.raises(InputError, match="row 1: ner_tags are numbers, and what they stand for is not known"):
            rg.count(table.replace_schema_metadata(about), n=2)


def test_lines_of_fasttext_are_labelled_contexts(tmp_path, run):
    lines = ["__label__loc they met in", "__label__per  said mr old", "__label__loc __label__new live in Rome"]
    contexts, labels = ["they met in", "said mr old", "live in Rome"], ["loc", "per", ("loc", "new")]
    for size in (2, 3):
        path = write(tmp_path / "f.txt", "\n".join(lines[:size]) + "\n")
        assert recognise(str(path)) == "contexts"
        assert rg.count(path) == rg.Counts.from_contexts(contexts[:size], labels[:size])
    run("fit", "f.txt", "--target", "loc", "--out", "m")
    assert "loc,new" in run("score", "m", "f.txt")


def test_the_content_decides_whatever_the_name_is(tmp_path):
    expected = rg.count([{"items": ITEMS, "spans": SPANS}], n=2)
    table = write(tmp_path / "d", pa.table({"items": [ITEMS], "spans": [objects(SPANS)]})).read_bytes()
    lines = write(tmp_path / "l", [{"items": ITEMS, "spans": SPANS}]).read_bytes()
    packed = {"gz": gzip.compress, "zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
    files = dict.fromkeys(("d.csv", "d.jsonl", "d.txt", "d.conll", "d.parquet"), table) | {"l.parquet": lines}
    files |= {f"{kind}{end}": pack(data) for kind, pack in packed.items()
              for end, data in ((".jsonl", lines), (".parquet", table), ("", lines))}  # fmt: skip
    for name, content in files.items():
        assert rg.count(write(tmp_path / name, content), n=2) == expected, name
    contexts = pa.table({"ngram": ["they met in", "said mr old"], "label": ["loc", "per"]})
    assert rg.count(write(tmp_path / "c.csv", contexts)).totals.tolist() == [2, 1, 1]
    for name in ("t.csv", "t.parquet", "t.csv.gz"):
        content = b'id,text\r\n1,"so it goes,\nhe said"\r\n2,no\r\n'
        path = write(tmp_path / name, gzip.compress(content, mtime=0) if name.endswith("gz") else content)
        assert (recognise(str(path)), rg.count(path, n=1, targets=[]).totals.tolist()) == ("csv", [6])
    path = write(tmp_path / "t.csv", "text,label\nthey met in,x\n")
    assert rg.count(path, columns={"ngram": "text"}).totals.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("files", "found", "warned"),
    [
        ({"1.txt": "a b c\n"}, "ngram", False),
        ({"1.txt": "a b c\n", "2.txt": "d e f"}, "document", True),  # which may be chance
        ({"1.txt": "a b c\n", "2.txt": "d e f\na b c\n"}, "ngram", False),
        ({"1.txt": "a b c\na b c\n", "2.txt": "d e f g h"}, "document", True),
        ({"1.txt": "a b c\n", "2.tsv": "X\td e f\n"}, "ngram", False),
        ({"1.txt": "d e f g h", "2.txt": "d e"}, "document", False),
    ],
)
def test_texts_are_not_contexts_by_chance(tmp_path, model, files, found, warned):
    model = rg.fit(rg.Counts.from_contexts(["a b c", "d e f"], ["T", None]))
    for name, content in files.items():
        write(tmp_path / name, content)
    if warned:
        with pytest.warns(RaregramWarning, match=r"1\.txt.*--format text, or else --format contexts"):
            assert found in rg.score(model, tmp_path).to_arrow().column_names
    else:
        assert found in rg.score(model, tmp_path).to_arrow().column_names
    names = [tmp_path / name for name in files if name.endswith("txt")]
    assert "document" in rg.score(model, names, format="text").to_arrow().column_names


# --- other encodings ---------------------------------------------------------------------------------------------

CONTENTS = {
    "a b.txt": "so it goes, he said\nand so on\n",
    "d.jsonl": '{"text": "so it goes", "spans": []}\n',
    "d.conll": "so O\nit O\n\n",
    "c.tsv": "LOC\tso it\nO\tit goes\n",
}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-32-be", "latin-1"])
@pytest.mark.parametrize("name", CONTENTS)
def test_another_encoding_is_named_with_the_way_out(tmp_path, monkeypatch, name, encoding):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name, CONTENTS[name].replace("it", "ít").encode(encoding))
    shown = {"latin-1": "WINDOWS-1252"}.get(encoding, encoding.upper().replace("-LE", "LE").replace("-BE", "BE"))
    quoted = f"'{name}'" if " " in name else name
    with pytest.raises(InputError, match=re.escape(f"iconv -f {shown} -t UTF-8 {quoted} > NEW")):
        rg.count(name, targets=[], n=1)
    if name == "d.conll":
        write(tmp_path / "good.txt", "this is fine")
        with pytest.warns(RaregramWarning, match="1 documents were skipped"):
            rg.count([name, "good.txt"], n=1, targets=[], on_error="skip")


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_no_text_in_utf_8_is_taken_for_another_encoding(text):
    found = wide_encoding(text.encode(errors="replace"))
    assert found is None or text.count("\0") >= 0.4 * len(text)


# --- large and damaged -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "count", "batch_bytes", "expected"),
    [
        (("", []), 1000, corpus.DOCUMENT_BYTES * 100, 10),
        (("a", [(0, 1, "X")] * 1000), 10, corpus.SPAN_BYTES * 1000, 10),
        ((["x" * 10_000], []), 10, 20_000, 5),
    ],
)
def test_tiny_documents_spans_and_long_items_make_a_batch_full(row, count, batch_bytes, expected):
    assert len(list(batches([Row(None, *row, Location("here"))] * count, batch_bytes))) == expected


def test_documents_of_a_table_come_in_batches_of_a_bounded_size(tmp_path):
    rng = np.random.default_rng(1)
    texts = ["".join(map(chr, rng.integers(97, 123, 20_000))) for _ in range(300)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "d.parquet", use_dictionary=False, compression="none")
    sizes = [batch.nbytes for batch in parquet.parquet_batches(str(tmp_path / "d.parquet"), 1024, 1 << 20)]
    assert max(sizes) < 2 << 20 < 300 * 20_000 < sum(sizes)
    rows = ["a " * 1000] * 40 + ["b"] * 40
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        whole = [pa.record_batch({"text": pa.array(rows, kind), "spans": [[]] * 80})]
        found = list(tables.from_batches(whole, Location("the table", "row"), Options(batch_bytes=8000)))
        assert [text for part in found for text in part.texts.to_pylist()] == rows
        assert max(part.texts.nbytes for part in found) < 16_000
        assert str(found[-1].location(len(found[-1]) - 1)) == "the table, row 80"


@pytest.mark.parametrize(
    ("name", "kind", "content", "word"),
    [
        ("d.conll", "conll", "word O\n" * 100, "line 1: the document is larger than .* ends a document"),
        ("d.slash", "stanford-slash", "in/O Oslo/LOC\n" * 100, "line 1: the document is larger than .* --split"),
        ("d.json", "reuters-json", '[{"id": 1, "body": "' + "x " * 500 + '"}]', "holds more than"),
        ("d.sgm", "reuters-sgml", "<REUTERS><BODY>" + "x " * 500, "an article that never ends"),
        ("d.parquet", "parquet", pa.table({"text": ["a", "a b c d", "b"]}), "row 2: the document has more than"),
        ("d.parquet", "parquet", pa.table({"items": [["a"], ["a", "b", "c"]]}), "row 2: the document has more than"),
        (
            "d.parquet.gz",
            "parquet",
            gzip.compress(b"PAR1" + bytes(5000), mtime=0),
            "holds more than .* read as a whole",
        ),
        ("c.csv", "contexts", "ngram,label\na b,X\na c," + "y" * 200, "name the columns, and no row may have more"),
        ("c.csv", "contexts", "\n\n", "first row must name the columns"),
        ("w.txt", "text", "x" * 5000, "fewer than 2 words: is this text"),
    ],
)
def test_what_is_too_large_is_refused(tmp_path, monkeypatch, name, kind, content, word):
    for module in (columns, running, reuters):
        monkeypatch.setattr(module, "LARGEST_DOCUMENT", 500)
    for module, limit, most in ((tables, "LARGEST_TEXT", 5), (tables, "MOST_ITEMS", 2), (csv, "LONGEST_ROW", 100),
                                (running, "LONGEST_LINE", 1000)):  # fmt: skip
        monkeypatch.setattr(module, limit, most)
    monkeypatch.setattr(corpus.read_whole, "__defaults__", (1000,))
    with pytest.raises((InputError, FileError), match=rf"{re.escape(name)}.*{word}"):
        rg.count(write(tmp_path / name, content), n=None if kind == "contexts" else 2, format=kind, targets=[])


def test_blanks_take_no_room(tmp_path):
    path = write(tmp_path / "blank.txt", "one two" + " \n" * 100_000 + "three")
    options = Options("text", cut=(2, Tokenizer()), batch_bytes=100)
    texts = [text for batch in read_documents(path, options) for text in batch.texts.to_pylist()]
    assert (" ".join(texts).split()[-1], sum(map(len, texts)) < 5000) == ("three", True)


@pytest.mark.parametrize("part", ['<REUTERS NEWID="1">', "<BODY>"])
def test_articles_that_only_begin_do_not_take_for_ever(tmp_path, part):
    path = write(tmp_path / "r.sgm", '<REUTERS NEWID="1">' + part * 200_000 + "</REUTERS>" + part * 200_000)
    with pytest.raises(InputError if "REUTERS" in part else StopIteration):
        next(iter(read_documents(path, Options("reuters-sgml"))))


def test_damaged_parquet_is_an_error_or_no_matter_and_never_ends_the_process(tmp_path, monkeypatch):
    rows = [{"items": ["a", "b"] * (row % 3), "text": f"t{row % 4}", "spans": []} for row in range(50)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    data, rng, found = sink.getvalue(), random.Random(1), set()
    (size,) = struct.unpack("<I", data[-8:-4])
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.randrange(len(data) - 8 - size, len(data))] ^= 1 << rng.randrange(8)
        try:
            held = BufferedFile("x.parquet", bytes(changed))
            found.add(sum(len(batch) for batch in tables.read_parquet(held, Options())))
        except (FileError, InputError) as error:
            assert "x.parquet" in str(error)  # noqa: PT017 - an error is one of two right answers
    assert found == {50}
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *args, **options: list(read(*args, **options))[:-1])
    with pytest.raises(FileError, match=r"x\.parquet: of 50 rows only .* are there"):
        documents(BufferedFile("x.parquet", data))
    monkeypatch.undo()
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"text": ["some words here"]}), path, compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"some words here", b"some wards here", 1))
    with pytest.raises(FileError, match=r"d\.parquet: .*CRC"):
        documents(path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("conll", "\ufeff-DOCSTART- -X- O\n\na O\n\nb O\n", [(["a", "b"], [])]),
        ("conll", "a O\n\nb O\n-DOCSTART- O\n\nc O\n\nd O\n", [(["a", "b"], []), (["c", "d"], [])]),
        ("stanford-slash", "in/O\u2028New/LOC\u0085York/LOC", [(["in", "New", "York"], [(1, 3, "LOC")])]),
    ],
)
def test_marks_are_found_wherever_they_stand_and_other_white_space_ends_no_span(
    tmp_path, monkeypatch, name, content, expected
):
    monkeypatch.setattr(columns, "SAMPLE", 7)
    assert documents(write(tmp_path / "d", content), name) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conll", b"a O\n\nb O\n\xff O\nc O\n\nd O\n"),
        ("stanford-tsv", b"a\tO\n\nb\tO\n\xff\tO\nc\tO\n\nd\tO\n"),
        ("stanford-slash", b"a/O\n\nb/O\n\xff/O\nc/O\n\nd/O\n"),
    ],
)
def test_a_document_with_a_broken_line_is_skipped_as_a_whole(tmp_path, name, content):
    log, path = skipping(), write(tmp_path / "d", content)
    assert [items for items, _ in documents(path, name, split="paragraphs", log=log)] == [["a"], ["d"]]
    (example,) = log.examples
    assert example.startswith(f"{path}, line 4 is not valid UTF-8")


@pytest.mark.parametrize("form", [pa.decimal128(30, 2), pa.float64(), pa.uint8(), pa.large_string()])
def test_frequencies_of_every_kind_of_number_are_the_same(tmp_path, form):
    f_nu = pa.array([5, 0]).cast(pa.string()).cast(form) if form == pa.large_string() else pa.array([5, 0]).cast(form)
    path = write(tmp_path / "c.parquet", pa.table({"ngram": ["a b", "c d"], "f_nu": f_nu, "f_de": [1, 7]}))
    counts = read_counts([str(path)], spans=["units", "whole"])
    assert counts == rg.Counts.from_ngrams(["a b", "c d"], [5, 0], [1, 7], spans=["units", "whole"])


@pytest.mark.parametrize("name", ["c.csv", "c.csv.gz"])
def test_the_threads_that_read_csv_ahead_do_not_call_python(tmp_path, monkeypatch, name):
    """They may still read when a command ends with an error, and the interpreter would abort."""
    opened, given_ = pyarrow.csv.open_csv, []
    monkeypatch.setattr(pyarrow.csv, "open_csv", lambda source, *more: given_.append(source) or opened(source, *more))
    data = b"ngram,label\na b,X\n"
    read_counts([str(write(tmp_path / name, gzip.compress(data, mtime=0) if name.endswith(".gz") else data))])
    assert [isinstance(source, pa.NativeFile) for source in given_] == [True, True]


# --- archives, settings, results ---------------------------------------------------------------------------------


def sparse_tar():
    member = tarfile.TarInfo("data/full/reuters-000.json")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"  # the size with its holes
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


def locked_zip():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("data/full/reuters-000.json", b"x" * 1000)
    data = bytearray(sink.getvalue())
    for flags in (6, data.index(b"PK\x01\x02") + 8):
        data[flags] |= 1  # the member needs a password
    return bytes(data)


@pytest.mark.parametrize(("name", "content"), [("a.tar", sparse_tar()), ("a.zip", locked_zip())])
def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path, monkeypatch, name, content):
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "home"))
    with pytest.raises(FileError, match=re.escape(name)):
        fetch_corpus("reuters", str(write(tmp_path / name, content)))


@pytest.mark.parametrize("url", ["http://[", "file://[", "http://" + "a" * 70 + ".x/", "http://a b/", "http://x:y/"])
def test_addresses_that_are_none_are_named(tmp_path, monkeypatch, url):
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path))
    with pytest.raises(RaregramError, match=url[:6]):
        fetch_corpus("reuters", url)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, 1, "s.toml is not valid TOML"),
        ("n = 1\nn = 2\n", 1, "s.toml is not valid TOML"),
        ('targets = "LOC"', 2, "--targets must be a list with something in it"),
        ('sizes = ["a"]', 2, "--sizes must be a whole number"),
        ("lams = [nan]", 2, "--lams must be a finite number"),
        ("side = 1", 2, "--side must be one of 'left', 'right'"),
        ("n = '" + "x" * 5000 + "'", 2, "--n must be a whole number"),
        ("x" * 5000 + " = 1", 2, "no setting 'xxx"),
    ],
)
def test_strange_settings_are_named(tmp_path, run, text, code, word):
    write(tmp_path / "s.toml", text)
    said = run("reproduce", "--config", "s.toml", "--corpus", "none", code=code)
    assert word in said
    assert len(said) < 1200


@pytest.mark.parametrize("text", ["", "[1, 2]", "5", "{}", '{"config": 3}', "[" * 100_000, "\ufeff{}"])
def test_strange_results_are_named(tmp_path, run, text):
    write(tmp_path / "results.json", text)
    said = run("reproduce", "--out", tmp_path, "--report-only", code=1)
    assert "results.json is not a results file, or it is truncated or damaged" in said


def test_documents_of_two_kinds_are_no_corpus(tmp_path, run):
    write(tmp_path / "d.jsonl", '{"text": "a b"}\n{"items": ["a"]}\n')
    said = run("reproduce", "--corpus", "d.jsonl", code=1)
    assert "d.jsonl are texts and some lists of items" in said


# --- names, links, pipes -----------------------------------------------------------------------------------------

NAMES = [
    "with space", "new\nline", "quote\"'s", "-dash", "*glob?[x]", "~root", "esc\x1b[31m", "a:b", "http:", "%20",
    "$(x)", "back\\slash", "ünï", "n" * 200, os.fsdecode(b"not utf-8 \xff\xfe"),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_files_of_every_name_are_read_and_written(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write(Path(name), '{"text": "she lives in Rome", "spans": [[3, 4, "LOC"]]}\n')
    expected = [("she lives in Rome", [(3, 4, "LOC")])]
    assert documents(name, "jsonl") == documents([Path(name)]) == documents(str(tmp_path)) == expected
    write(Path(name), "she lives in Rome")
    assert rg.count(name, n=2, format="text", targets=[]).totals.tolist() == [3]
    assert [batch.ngrams.to_pylist() for batch in read_contexts(name)] == [["she lives in Rome"]]
    write(Path("table"), pa.table({"text": ["she lives in Rome"]})).rename(name)
    assert (recognise(name), documents(name)) == ("parquet", [("she lives in Rome", [])])
    counts = rg.Counts.from_contexts(["a b", "c d"], ["X", None])
    if corpus.is_unicode(name):
        counts.save(name)
        assert rg.Counts.load(name) == counts
    else:
        with pytest.raises(FileError, match="its name is not valid UTF-8"):
            counts.save(name)
    assert os.listdir() == [name]  # noqa: PTH208 - names as they are


def test_names_that_cannot_be_are_named(tmp_path):
    done = subprocess.run([RAREGRAM, "info", tmp_path / "x\x1b[31m\x9b"], capture_output=True, check=False)
    assert (done.returncode, rb"x\x1b[31m\x9b does not exist" in done.stderr) == (1, True)  # shown and not sent
    name = str(tmp_path / ("n" * 300))
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    write(tmp_path / "file", "x")
    for read in (expand, read_contexts, lambda name: are_contexts([name])):
        with pytest.raises(FileError, match="File name too long"):
            read(name)
    for path in ("broken", "a", "nothing*", "file/x.txt", "file/*"):
        with pytest.raises(FileError, match=r"does not exist|Not a directory"):
            expand(str(tmp_path / path))
    with pytest.raises(FileError, match="is a folder; name the files in it"):
        read_contexts(str(tmp_path))


def feed(path, data):
    """Write to a named pipe from a thread, as soon as somebody reads."""
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(data,))
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["jsonl", "conll", "stanford-tsv", "stanford-slash", "text", "parquet", "spacy"])
def test_documents_come_through_a_pipe(tmp_path, name):
    if name == "spacy":
        pytest.importorskip("spacy")
    file, data = next(iter(subjects.make_subjects([name])[0].files.items()))
    thread = feed(tmp_path / "pipe", data)
    assert documents(tmp_path / "pipe", name) == documents(write(tmp_path / file, data), name)
    thread.join()


@pytest.mark.parametrize(
    ("ending", "content"), [(".txt", "a b\nc d\n"), (".csv", "ngram\na b\nc d\n"), (".parquet", None)]
)
def test_contexts_come_through_a_pipe(tmp_path, ending, content):
    path = tmp_path / f"pipe{ending}"
    thread = feed(path, write(tmp_path / "c", content or pa.table({"ngram": ["a b", "c d"]})).read_bytes())
    assert [ngram for batch in read_contexts(str(path)) for ngram in batch.ngrams.to_pylist()] == ["a b", "c d"]
    thread.join()
    with pytest.raises(FileError, match=r"the format of .*pipe.* must be named"):
        are_contexts([str(path)])


@pytest.mark.parametrize(("content", "skipped"), [(b"a b c", 0), (b"a b \xff", 1)])
def test_text_from_a_pipe_is_whole_or_skipped(tmp_path, content, skipped):
    thread, log = feed(tmp_path / "pipe", content), skipping()
    found = list(read_documents(tmp_path / "pipe", Options("text", cut=(2, Tokenizer()), log=log)))
    thread.join()
    assert (len(found), log.skipped) == (1 - skipped, skipped)


def test_sources_are_opened_once_unless_they_are_many(tmp_path, monkeypatch):
    paths = [str(write(tmp_path / f"{number}.txt", "a b\na b\n")) for number in range(10)]
    opened = []
    monkeypatch.setattr(scoring, "read_contexts", lambda path, *_: opened.append(path) or read_contexts(path))
    model = rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["T", None]))
    found = scoring.open_input(paths, model, Options())
    assert [batch.location.source for batch in found.contexts] == [head.source for head in found.heads] == paths
    assert sorted(opened) == sorted(paths + paths[scoring.KEPT_OPEN :])


def test_links_back_to_a_folder_are_not_followed(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    write(tmp_path / "in" / "deep" / "d.txt", "a b")
    write(tmp_path / ".hidden.txt", "c d")
    for place in (tmp_path / "here", tmp_path / "in" / "back", tmp_path / "in" / "deep" / "up"):
        place.symlink_to(tmp_path)  # three of them: to follow them all would take for ever
    expected = [str(tmp_path / "in" / "deep" / "d.txt")]
    for pattern in ("", "**", "**/*.txt", "in/**/d.*"):
        assert expand(str(tmp_path / pattern)) == expected, pattern
    assert expand(str(tmp_path / "**" / ".h*")) == [str(tmp_path / ".hidden.txt")]


def test_files_that_shrink_or_vanish_while_they_are_read_are_named(tmp_path):
    path = tmp_path / "d.parquet"
    texts = [" ".join(map(str, np.random.default_rng(row).integers(0, 10**9, 20_000))) for row in range(40)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=1)
    rows = read_documents(path, Options(batch_bytes=1 << 10))
    next(rows)
    os.truncate(path, 10_000)
    with pytest.raises(FileError, match=r"d\.parquet: "):
        list(rows)
    names = [write(tmp_path / f"{number}.jsonl", '{"items": ["a"]}\n') for number in range(3)]
    rows = read_documents(names, Options(batch_bytes=1))
    next(rows)
    names[2].unlink()
    with pytest.raises(FileError, match=r"2\.jsonl"):
        list(rows)


# --- what is lacking, and the log --------------------------------------------------------------------------------


def test_a_missing_library_is_said_before_the_work(tmp_path, run, monkeypatch):
    (tmp_path / "all" / "deep").mkdir(parents=True)
    write(tmp_path / "all" / "a.txt", "so it goes")
    write(tmp_path / "all" / "deep" / "z.SPACY", b"x")
    write(tmp_path / "b.txt", "so it goes")
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("raregram.corpus.formats.running.open_bytes", lambda path: pytest.fail("a file was read"))
    for given_ in ({"source": "all"}, {"numerator": "b.txt", "denominator": "all"},
                   {"source": "b.txt", "format": "spacy"}):  # fmt: skip
        with pytest.raises(MissingExtraError, match=r"pip install 'raregram\[ner\]'"):
            rg.count(**given_)
    assert "pip install 'raregram[report]'" in run("reproduce", "--corpus", "no such corpus", code=1)
    assert "pip install 'raregram[ner]'" in run("tag", "no such file", "--out", "t.parquet", code=1)


def test_a_lack_of_memory_is_said_in_a_sentence(monkeypatch, capsys):
    def fail(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "raregram: error: there is not enough memory for this\n"


def test_logs_add_up_also_from_other_processes():
    log, other = ReadingLog("skip"), ReadingLog("skip")
    threads = [threading.Thread(target=lambda: [other.see(1, 1, "here") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.skip_or_raise(InputError("broken"))
    other.see_labels(["A"], None)
    other.note("x", "first")
    other.note("x", "second")
    log.see(1)
    log.add(pickle.loads(pickle.dumps(other)))
    assert (log.documents, log.untagged, log.first_untagged, log.skipped) == (2001, 2000, "here", 1)
    assert (log.labels, log.notes, log.examples) == ({"A"}, {"x": "first"}, ["broken"])

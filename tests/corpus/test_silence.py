"""Nothing wrong in silence: what other tools write is read rightly, and what is doubtful gets one sentence."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import re
import sys
import threading
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import combinations
import raregram as rg
from raregram.corpus.documents import Options, word_bounds
from raregram.corpus.formats import read_documents, recognise
from raregram.corpus.log import ReadingLog
from raregram.errors import FileError, InputError, MissingExtraError, RaregramWarning

TEXT = "She met Ann Lee in New York, he said."
ENTITIES = [(8, 15, "PER"), (19, 27, "LOC")]
ITEMS, SPANS = TEXT.split(), [(2, 4, "PER"), (5, 7, "LOC")]
TAGS = ["O", "O", "B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O", "O"]


@pytest.fixture(scope="module")
def expected():
    return rg.count([{"items": ITEMS, "spans": SPANS}], n=2)


@pytest.fixture
def count(tmp_path, monkeypatch):
    """Run `raregram count`; return its exit code and what it says on standard error."""
    monkeypatch.chdir(tmp_path)

    def count(*arguments):
        code, _, said = combinations.run("count", *arguments, "-n", 1, "--quiet", "--out", "c.counts")
        assert all(line.startswith("raregram: ") for line in said.splitlines()), said
        return code, said.removeprefix("raregram: ").rstrip("\n")

    return count


def write_lines(path, *documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def objects(entities):
    return [dict(zip(("start", "end", "label"), entity, strict=True)) for entity in entities]


# What other tools write


def prodigy(with_tokens=True, by_tokens=True):
    bounds = word_bounds(TEXT).tolist()
    tokens = [{"text": TEXT[a:b], "start": a, "end": b, "id": i} for i, (a, b) in enumerate(bounds)]
    spans = objects(ENTITIES)
    if by_tokens:
        for span, (start, end, _) in zip(spans, SPANS, strict=True):
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
def test_documents_of_other_tools_give_the_same_counts(tmp_path, expected, name):
    document = LAYOUTS[name]
    path = write_lines(tmp_path / "d", document)
    assert recognise(str(path)) == "jsonl"
    assert rg.count(path, n=2) == expected
    assert rg.count([document], n=2) == expected
    if isinstance(document, dict):
        as_objects = {key: objects(value) if key == "entities" and type(value[0]) is tuple else value
                      for key, value in document.items() if value is not None}  # fmt: skip
        if as_objects.get("spans") == SPANS:
            as_objects["spans"] = objects(SPANS)
        table = pa.Table.from_pylist([as_objects])
        assert rg.count(table, n=2) == expected
        pq.write_table(table, tmp_path / "d.parquet")
        assert recognise(str(tmp_path / "d.parquet")) == "parquet"
        assert rg.count(tmp_path / "d.parquet", n=2) == expected
        assert rg.count(table.to_pandas(), n=2) == expected


FEATURES = [
    {"feature": {"names": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "_type": "ClassLabel"}, "_type": "Sequence"},
    [{"names": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "_type": "ClassLabel"}],
]


@pytest.mark.parametrize("feature", FEATURES)
def test_tags_that_are_numbers_have_the_names_of_the_schema(tmp_path, expected, feature, count):
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    table = pa.table({"tokens": [ITEMS], "ner_tags": [[names.index(tag) for tag in TAGS]]})
    about = {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
    pq.write_table(table.replace_schema_metadata(about), tmp_path / "named.parquet")
    assert rg.count(tmp_path / "named.parquet", n=2) == expected
    pq.write_table(table, tmp_path / "numbers.parquet")
    code, said = count("numbers.parquet")
    assert code == 1
    assert said.startswith(
        "error: numbers.parquet, row 1: ner_tags are numbers, and what they stand for is not known"
    )
    pq.write_table(table.replace_schema_metadata({"huggingface": '{"info": 1}'}), tmp_path / "odd.parquet")
    assert count("odd.parquet")[0] == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"text": "in Rome", "entities": [[3, 70, "LOC"]]}, "from 3 to 70 does not fit into a text of 7 characters"),
        ({"text": "in Rome", "entities": [[2, 3, "LOC"]]}, "the entity 'LOC' from 2 to 3 holds no word"),
        ({"text": "in Rome", "entities": [[3, 7]]}, "a span needs start, end and label"),
        ({"text": "in Rome", "entities": "LOC"}, "entities must be a list of offsets in characters"),
        ({"items": ["in"], "entities": []}, "entities must be a list of offsets in characters of the field text"),
        ({"tokens": ["in", "Rome"], "ner_tags": ["O"]}, "ner_tags must be a list with a tag for each of the tokens"),
        ({"text": "in Rome", "ner_tags": ["O", "O"]}, "ner_tags must be a list with a tag for each of the tokens"),
        ({"tokens": ["in", "Rome"], "ner_tags": ["O", None]}, "ner_tags must be strings such as B-LOC"),
        (
            {"tokens": ["in", "Rome"], "ner_tags": [0, 1]},
            "ner_tags are numbers, and what they stand for is not known",
        ),
        ({"tokens": [{"id": 1}], "spans": []}, "tokens need text, start and end"),
        ({"tokens": [{"text": "in"}, 5], "text": "in"}, "a document needs items"),
        ({"content": "in Rome", "lang": "en"}, "this one has content, lang: rename the field that holds the text"),
    ],
)
def test_what_does_not_fit_is_named_or_skipped(tmp_path, count, document, message):
    good = {"text": "in Rome", "spans": [[1, 2, "LOC"]]}
    write_lines(tmp_path / "d.jsonl", good, document)
    code, said = count("d.jsonl")
    assert code == 1
    assert said.startswith("error: d.jsonl, line 2: ")
    assert message in said
    code, said = count("d.jsonl", "--on-error", "skip")
    assert code == 0
    assert said.startswith("skipped: d.jsonl, line 2: ")
    assert said.endswith("raregram: 1 documents skipped")


def test_all_documents_skipped_is_said_with_an_example(tmp_path, count):
    write_lines(tmp_path / "d.jsonl", {"body": "x"}, {"body": "y"})
    code, said = count("d.jsonl", "--on-error", "skip")
    assert (code, said.split(" (")[0]) == (
        1, "error: all 2 documents were skipped: d.jsonl, line 1: a document needs items",
    )  # fmt: skip


def test_a_table_without_text_names_its_columns(tmp_path, count):
    pq.write_table(pa.table({"body": ["in Rome"]}), tmp_path / "d.parquet")
    code, said = count("d.parquet")
    assert code == 1
    assert "it has body" in said
    assert "if these are documents, rename the one that holds their text to text" in said
    with pytest.raises(InputError, match="it has body: rename the one that holds the text"):
        rg.count(pa.table({"body": ["in Rome"]}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ents", [[3, 7, "LOC"]]),
        ("annotations", [{"result": []}]),
        ("labels", [[3, 7, "LOC"]]),
        ("mine", [{"start_offset": 3, "end_offset": 7}]),
    ],
)
def test_spans_under_another_name_are_not_ignored_in_silence(tmp_path, count, field, value):
    write_lines(tmp_path / "d.jsonl", {"text": "in Rome", field: value}, {"text": "in Rome", field: value})
    code, said = count("d.jsonl")
    assert (code, said) == (
        0,
        f"warning: d.jsonl, line 1: the field {field} was ignored, since spans are read from spans (offsets in "
        "items), entities (offsets in characters) or ner_tags (a tag per token): rename it",
    )
    code, said = count("d.jsonl", "--targets", "LOC")
    assert code == 1
    assert said.startswith("error: no document has spans, so LOC cannot be counted: d.jsonl, line 1: the field ")


def test_other_columns_and_fields_are_no_spans(tmp_path):
    document = {"text": "in Rome", "labels": ["a", "b"], "authors": [{"name": "x"}], "meta": {"start": 1}}
    log = ReadingLog()
    list(read_documents(write_lines(tmp_path / "d.jsonl", document), Options(log=log)))
    assert not log.notes
    with pytest.warns(RaregramWarning, match="the table: the column ents was ignored"):
        rg.count(pa.table({"text": ["in Rome"], "ents": [objects([(3, 7, "LOC")])]}), n=1)
    with pytest.warns(RaregramWarning, match="document 1: the field entities was ignored, since there are spans too"):
        rg.count([{"text": "in Rome", "spans": [(1, 2, "LOC")], "entities": [(3, 7, "LOC")]}], n=1)


# Targets


def test_untagged_text_has_no_targets(tmp_path, count):
    (tmp_path / "speeches").mkdir()
    (tmp_path / "speeches" / "one.txt").write_text("we meet in Washington")
    code, said = count("speeches", "--targets", "LOC")
    assert (code, said) == (
        1,
        "error: no document has spans, so LOC cannot be counted: tag them first with `raregram tag`, or give them in "
        "the field spans, entities or ner_tags",
    )
    assert not (tmp_path / "c.counts").exists()
    code, said = count("speeches")
    assert code == 0
    assert said.startswith("warning: no document has spans: tag them first with `raregram tag`")
    assert said.endswith("if no targets are wanted, say so (targets=[], --targets '')")
    assert count("speeches", "--targets", "") == (0, "")
    assert count("--numerator", "speeches", "--denominator", "speeches") == (0, "")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("LOC,PER", []),
        ("loc", ["no document has the label loc: the labels are LOC, PER; did you mean LOC?"]),
        ("LOCC,ORG", ["no document has the label LOCC: the labels are LOC, PER; did you mean LOC?",
                      "no document has the label ORG: the labels are LOC, PER"]),
    ],
)  # fmt: skip
def test_a_target_that_no_document_has_is_named(tmp_path, count, wanted, said):
    write_lines(tmp_path / "d.jsonl", {"items": ITEMS, "spans": SPANS})
    assert count("d.jsonl", "--targets", wanted) == (0, "\nraregram: ".join(f"warning: {line}" for line in said))
    (tmp_path / "c.tsv").write_text("LOC\tin\nPER\tmr\n")
    of_contexts = [line.replace("document", "context") for line in said]
    found = count("c.tsv", "--targets", wanted)
    assert found == (0, "\nraregram: ".join(f"warning: {line}" for line in of_contexts))


def test_tagged_documents_without_any_name_are_no_mistake(tmp_path, count):
    write_lines(tmp_path / "d.jsonl", {"items": ITEMS, "spans": []})
    assert count("d.jsonl") == (0, "")
    assert count("d.jsonl", "--targets", "LOC") == (
        0, "warning: no document has the label LOC: none has any label",
    )  # fmt: skip


def test_of_very_many_labels_the_targets_are_kept():
    corpus = [{"items": ["a"], "spans": [(0, 1, f"x{i}")]} for i in range(3000)]
    assert rg.count(corpus, n=1, side="left", targets=["x2999"], pad=True).totals.tolist() == [6000, 1]
    with pytest.warns(RaregramWarning, match="no document has the label y1: the labels are x0, .* and 990 more"):
        rg.count(corpus, n=1, targets=["y1"], pad=True)


def test_untagged_documents_beside_tagged_ones(tmp_path, count):
    rows = [{"text": "in Rome", "spans": [[1, 2, "LOC"]]}, {"text": "a b", "spans": []}, {"text": "c"},
            {"text": "d", "spans": None}]  # fmt: skip
    write_lines(tmp_path / "d.jsonl", *rows)
    sentence = (
        "warning: 2 of 4 documents have no spans, e.g. d.jsonl, line 3; they count as documents without LOC: "
        "tag them with `raregram tag`, or leave them out"
    )
    assert count("d.jsonl") == (0, sentence)
    (tmp_path / "folder").mkdir()
    write_lines(tmp_path / "folder" / "d.jsonl", *rows[:2])
    (tmp_path / "folder" / "notes.txt").write_text("some notes " * 10)
    assert count("folder")[1].startswith("warning: 1 of 3 documents have no spans, e.g. folder/notes.txt; they ")
    spans = [objects([(1, 2, "LOC")]), [], None]
    table = pa.table({"text": ["in Rome", "a b", "c"], "spans": spans})
    with pytest.warns(RaregramWarning, match="1 of 3 documents have no spans, e.g. the table, row 3;"):
        rg.count(table, n=1, batch_bytes=1)


def test_warnings_of_the_library_name_the_line_that_called():
    with pytest.warns(RaregramWarning, match="no document has spans") as found:
        rg.count([["a", "b"]], n=1)
    assert [warning.filename for warning in found] == [__file__]
    with pytest.warns(UserWarning, match="1 documents were skipped: document 2: a document is") as found:
        rg.count([["a", "b"], 7], n=1, on_error="skip", targets=[])
    assert [warning.filename for warning in found] == [__file__]


def test_other_warnings_keep_their_form(tmp_path, monkeypatch, capsys):
    from raregram import cli

    cli._show_warning(UserWarning("as Python says it"), UserWarning, "file.py", 3)
    assert re.match(r"file\.py:3: UserWarning: as Python says it\n", capsys.readouterr().err)


# Offsets in characters


def test_offsets_in_characters_that_do_not_fit_are_named(tmp_path, count):
    write_lines(tmp_path / "d.jsonl", {"text": TEXT, "spans": ENTITIES})
    code, said = count("d.jsonl")
    assert (code, said) == (
        1,
        "error: d.jsonl, line 1: the span PER from 8 to 15 does not fit into a document of 9 items; "
        "these look like offsets in characters: rename the field to entities",
    )
    write_lines(tmp_path / "d.jsonl", {"text": TEXT, "spans": [[2, 11, "LOC"]]})
    assert count("d.jsonl")[1].endswith("does not fit into a document of 9 items")


WORDS = st.text("abcdefghij", min_size=2, max_size=9)


@st.composite
def tagged(draw):
    """Texts long enough that offsets in characters fit as items, with names near their beginning, by both."""
    documents = []
    source = random.Random(draw(st.integers(0, 1 << 32)))
    for _ in range(draw(st.integers(10, 25))):
        words = ["".join(source.choices("abcdefghij", k=source.randint(2, 9))) for _ in range(80)]
        start = source.randint(0, 4)
        end = start + source.randint(1, 3)
        bounds = word_bounds(" ".join(words))
        by_items = (start, end, "X")
        by_characters = (int(bounds[start, 0]), int(bounds[end - 1, 1]), "X")
        documents.append((words, by_items, by_characters))
    return documents


@settings(max_examples=60)
@given(tagged(), st.booleans())
def test_offsets_in_characters_that_fit_are_noticed_and_offsets_in_items_are_not(documents, as_text):
    def corpus(which):
        content = [" ".join(row[0]) if as_text else row[0] for row in documents]
        name = "text" if as_text else "items"
        return [{name: words, "spans": [row[which]]} for words, row in zip(content, documents, strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rg.count(corpus(1), n=1)
    with pytest.warns(
        RaregramWarning, match="spans look like offsets in characters, but were taken for offsets in it"
    ):
        rg.count(corpus(2), n=1, on_error="stop")


def test_characters_are_noticed_when_documents_that_do_not_fit_are_skipped():
    corpus = [{"text": TEXT, "spans": [entity]} for entity in ENTITIES * 4] + [{"text": TEXT, "spans": []}]
    with pytest.warns(RaregramWarning) as found:
        rg.count(corpus, n=1, on_error="skip", targets=[])
    assert [str(warning.message)[:24] for warning in found] == [
        "8 documents were skipped",
        "the spans look like offs",
    ]


# fastText


def test_lines_of_fasttext_are_labelled_contexts(tmp_path, count, run):
    lines = ["__label__loc they met in", "__label__per  said mr old", "__label__loc __label__new live in Rome"]
    (tmp_path / "f.txt").write_text("\n".join(lines) + "\n")
    assert recognise(str(tmp_path / "f.txt")) == "contexts"
    contexts, labels = ["they met in", "said mr old", "live in Rome"], ["loc", "per", ("loc", "new")]
    assert rg.count(tmp_path / "f.txt") == rg.Counts.from_contexts(contexts, labels)
    (tmp_path / "g.txt").write_text("\n".join(lines[:2]) + "\n")
    assert rg.count(tmp_path / "g.txt") == rg.Counts.from_contexts(contexts[:2], labels[:2])
    (tmp_path / "h.txt").write_text("__label__x a b\nno label\n")
    assert count("h.txt", "--format", "contexts")[0] == 1
    run("fit", "f.txt", "--target", "loc", "--out", "m")
    assert "loc,new" in run("score", "m", "f.txt")


# What a file is


def test_the_content_decides_whatever_the_name_is(tmp_path, expected):
    pq.write_table(pa.table({"items": [ITEMS], "spans": [objects(SPANS)]}), tmp_path / "d")
    for name in ("d.csv", "d.jsonl", "d.txt", "d.conll", "d.parquet"):
        (tmp_path / name).write_bytes((tmp_path / "d").read_bytes())
        assert rg.count(tmp_path / name, n=2) == expected, name
    lines = write_lines(tmp_path / "lines", {"items": ITEMS, "spans": SPANS}).read_bytes()
    (tmp_path / "lines.parquet").write_bytes(lines)
    assert rg.count(tmp_path / "lines.parquet", n=2) == expected
    for name, pack in {"gz": gzip.compress, "zst": lambda data: pa.compress(data, "zstd", asbytes=True)}.items():
        for ending, data in {".jsonl": lines, ".parquet": (tmp_path / "d").read_bytes(), "": lines}.items():
            (tmp_path / (name + ending)).write_bytes(pack(data))
            assert rg.count(tmp_path / (name + ending), n=2) == expected, name + ending


def test_contexts_in_parquet_are_read_under_the_name_of_csv(tmp_path):
    table = pa.table({"ngram": ["they met in", "said mr old"], "label": ["loc", "per"]})
    pq.write_table(table, tmp_path / "c.csv")
    assert rg.count(tmp_path / "c.csv").totals.tolist() == [2, 1, 1]


def test_a_parquet_file_that_is_none_is_named(tmp_path):
    (tmp_path / "d.parquet").write_text("plain words")
    with pytest.raises(FileError, match=r"d\.parquet is not a Parquet file, or it is damaged; if it is text, rename"):
        rg.count(tmp_path / "d.parquet")


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.csv.gz"])
def test_csv_with_texts_is_documents(tmp_path, name):
    content = b'id,text\r\n1,"so it goes,\nhe said"\r\n2,no\r\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert recognise(str(tmp_path / name)) == "csv"
    counts = rg.count(tmp_path / name, n=1, targets=[])
    assert counts.totals.tolist() == [6]
    with pytest.warns(RaregramWarning, match="no document has spans"):
        rg.count(tmp_path / name, n=1)


def test_csv_with_texts_and_labels_must_be_explained(tmp_path, count):
    (tmp_path / "d.csv").write_text("text,label\nthey met in,x\n")
    code, said = count("d.csv")
    assert code == 1
    assert "it has text, label. Say which one is meant with --columns ngram=NAME; or, if these are documents" in said
    assert rg.count(tmp_path / "d.csv", columns={"ngram": "text"}).totals.tolist() == [1, 1]
    pq.write_table(pa.table({"text": ["they met in"], "label": ["x"]}), tmp_path / "d.parquet")
    assert rg.count(tmp_path / "d.parquet", columns={"ngram": "text"}).totals.tolist() == [1, 1]


ENCODINGS = {"utf-16": "UTF-16", "utf-32": "UTF-32", "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE",
             "utf-32-le": "UTF-32LE", "utf-32-be": "UTF-32BE"}  # fmt: skip
CONTENTS = {
    "a b.txt": "so it goes, he said\nand so on\n",
    "d.jsonl": '{"text": "so it goes", "spans": []}\n',
    "d.conll": "so O\nit O\n\n",
    "d.slash": "so/O it/O goes/LOC\n",
    "c.tsv": "LOC\tso it\nO\tit goes\n",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", CONTENTS)
def test_an_encoding_of_several_bytes_a_letter_is_named_with_the_way_out(tmp_path, count, name, encoding):
    (tmp_path / name).write_bytes(CONTENTS[name].encode(encoding))
    shown, quoted = ENCODINGS[encoding], f"'{name}'" if " " in name else name
    code, said = count(name, "--targets", "")
    assert (code, said) == (1, f"error: {name} is {shown}, not UTF-8: iconv -f {shown} -t UTF-8 {quoted} > NEW")
    if name != "c.tsv":
        (tmp_path / "good.txt").write_text("this is fine")
        code, said = count(name, "good.txt", "--targets", "", "--on-error", "skip")
        assert code == 0
        assert said.endswith("raregram: 1 documents skipped")


@given(st.text(max_size=60))
def test_no_text_in_utf_8_is_taken_for_another_encoding(text):
    from raregram.corpus.encoding import wide_encoding

    found = wide_encoding(text.encode(errors="replace"))
    assert found is None or text.count("\0") >= 0.4 * len(text)


@pytest.mark.parametrize("name", CONTENTS)
def test_latin_1_is_named_with_the_way_out(tmp_path, count, name):
    (tmp_path / name).write_bytes(CONTENTS[name].replace("it", "ít").encode("latin-1"))
    code, said = count(name, "--targets", "")
    quoted = f"'{name}'" if " " in name else name
    assert code == 1
    assert said.endswith(
        f" is not valid UTF-8, but perhaps Latin-1 (Windows-1252): iconv -f WINDOWS-1252 -t UTF-8 {quoted} > NEW"
    )


# What is not installed


def test_a_missing_library_is_said_before_the_work(tmp_path, monkeypatch, count):
    (tmp_path / "all" / "deep").mkdir(parents=True)
    (tmp_path / "all" / "a.txt").write_text("so it goes")
    (tmp_path / "all" / "deep" / "z.SPACY").write_bytes(b"x")
    (tmp_path / "b.txt").write_text("so it goes")
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr("raregram.corpus.formats.running.open_bytes", lambda path: pytest.fail("a file was read"))
    missing = (1, "error: this needs spaCy: pip install 'raregram[ner]'")
    assert count("all") == missing
    assert count("--numerator", "b.txt", "--denominator", "all") == missing
    with pytest.raises(MissingExtraError):
        rg.count(tmp_path / "b.txt", format="spacy")


def test_a_missing_pipeline_is_said_before_the_documents_are_read(tmp_path, run):
    (tmp_path / "a.jsonl").write_text("not read")
    assert "pipeline xx_none is not installed" in run("tag", "a.jsonl", "--pipeline", "xx_none", "--out", "t", code=1)


# The log


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

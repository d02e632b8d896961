"""Every format of documents: the same corpus through each gives the same counts."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from raregram.corpus.documents import DOCUMENT_BYTES, Options, expand, spans_from_offsets
from raregram.corpus.formats import read_documents, recognise
from raregram.corpus.formats.columns import decode_tags
from raregram.corpus.formats.running import parse_xml
from raregram.errors import FileError, InputError

CORPUS = [
    (["Mr", "Lee", "flew", "to", "New", "York", "."], [(1, 2, "PERSON"), (4, 6, "LOCATION")]),
    (["Oslo", "is", "in", "Norway"], [(0, 1, "LOCATION"), (3, 4, "LOCATION")]),
    (["nobody", "was", "there"], []),
]


def tags_of(items, spans, prefixed=True):
    tags = ["O"] * len(items)
    for start, end, label in spans:
        for place in range(start, end):
            tags[place] = f"{'B' if place == start else 'I'}-{label}" if prefixed else label
    return tags


def write_jsonl():
    rows = [
        {"items": items, "spans": [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans]}
        for items, spans in CORPUS
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_conll(prefix=str, mark="-DOCSTART- -X- O\n\n"):
    documents = []
    for items, spans in CORPUS:
        lines = [f"{item} NN {prefix(tag)}\n" for item, tag in zip(items, tags_of(items, spans), strict=True)]
        documents.append(mark + "".join(lines))
    return "\n".join(documents)


def iob1(tag):
    return tag.replace("B-", "I-")


def write_tsv():
    return "\n".join(
        "".join(f"{item}\t{tag}\n" for item, tag in zip(items, tags_of(items, spans, False), strict=True))
        for items, spans in CORPUS
    )


def write_slash():
    return "".join(
        " ".join(f"{item}/{tag}" for item, tag in zip(items, tags_of(items, spans, False), strict=True)) + "\n"
        for items, spans in CORPUS
    )


def write_xml():
    lines = []
    for items, spans in CORPUS:
        words = list(items)
        for start, end, label in spans:
            words[start] = f"<{label}>{words[start]}"
            words[end - 1] += f"</{label}>"
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


WRITERS = {
    "jsonl": (write_jsonl, {}),
    "conll": (write_conll, {}),
    "conll (IOB1)": (lambda: write_conll(iob1), {}),
    "conll (blank lines)": (lambda: write_conll(mark=""), {}),
    "conll (CoNLL-U marks)": (lambda: write_conll(mark="# newdoc\n# text = x\n"), {}),
    "stanford-tsv": (write_tsv, {}),
    "stanford-slash": (write_slash, {"split": "lines"}),
    "stanford-xml": (write_xml, {"split": "lines"}),
}


@pytest.fixture(scope="module")
def expected():
    return rg.count([{"items": items, "spans": spans} for items, spans in CORPUS], n=2)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_text_formats_are_recognised_and_give_the_same_counts(tmp_path, expected, name, compression):
    write, options = WRITERS[name]
    path = tmp_path / f"corpus.txt{compression}"
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(write().encode())
    assert recognise(str(path)) == name.split()[0]
    counts = rg.count(path, n=2, **options)
    assert counts == expected
    assert counts.digest() == expected.digest()
    assert rg.count(path, n=2, format=name.split()[0], **options) == expected


def test_parquet_and_docbin_give_the_same_counts(tmp_path, expected):
    rows = [{"items": i, "spans": [{"start": a, "end": b, "label": c} for a, b, c in s]} for i, s in CORPUS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet", row_group_size=1)
    assert rg.count(tmp_path / "c.parquet", n=2) == expected
    for ending in (".gz", ".zst"):  # as a whole
        with pa.output_stream(str(tmp_path / f"c.parquet{ending}"), compression="detect") as stream:
            stream.write((tmp_path / "c.parquet").read_bytes())
        assert rg.count(tmp_path / f"c.parquet{ending}", n=2) == expected
    as_text = [{**row, "text": " ".join(row["items"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(as_text).drop(["items"]), tmp_path / "t.parquet")
    assert rg.count(tmp_path / "t.parquet", n=2) == expected

    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    bin_ = spacy.tokens.DocBin()
    for items, spans in CORPUS:
        doc = nlp(" ".join(items))
        starts = [len(" ".join(items[:k])) + (k > 0) for k in range(len(items) + 1)]
        doc.ents = [doc.char_span(starts[a], starts[b] - 1, c) for a, b, c in spans]
        bin_.add(doc)
    bin_.to_disk(tmp_path / "c.spacy")
    assert rg.count(tmp_path / "c.spacy", n=2) == expected
    (tmp_path / "bad.spacy").write_bytes(b"not a DocBin")
    with pytest.raises(FileError, match=r"bad\.spacy is not a DocBin file"):
        rg.count(tmp_path / "bad.spacy")


def test_folders_globs_and_lists_of_files_are_one_corpus(tmp_path, expected):
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    lines = write_jsonl().splitlines(keepends=True)
    (folder / "a b.jsonl").write_text(lines[0])
    (folder / "sub" / "b.jsonl.gz").write_bytes(gzip.compress(lines[1].encode()))
    (folder / "c.txt").write_text(lines[2])
    (folder / ".hidden").write_text("not a document")
    files = [str(folder / name) for name in ("a b.jsonl", "c.txt", "sub/b.jsonl.gz")]
    assert expand(folder) == files
    for sources in (folder, files, [str(folder / "*.*"), str(folder / "sub")]):
        assert rg.count(sources, n=2) == expected
    with pytest.raises(FileError, match="does not exist"):
        rg.count(str(folder / "*.nothing"))


def test_plain_text_is_a_document_by_file_line_or_paragraph(tmp_path):
    (tmp_path / "t.txt").write_text("a b\nc\n\nd e\n \nf")
    expected = {"file": [["a", "b", "c", "d", "e", "f"]], "lines": [["a", "b"], ["c"], ["d", "e"], ["f"]],
                "paragraphs": [["a", "b", "c"], ["d", "e"], ["f"]]}  # fmt: skip
    for split, documents in expected.items():
        found = [
            t.split() for b in read_documents(tmp_path / "t.txt", Options(split=split)) for t in b.texts.to_pylist()
        ]
        assert found == documents
        assert rg.count(tmp_path / "t.txt", n=1, split=split, targets=[]) == rg.count(documents, n=1, targets=[])


REUTERS = [
    {"id": "1", "title": "T", "body": "Prices rose " + "again and " * 10 + "then <fell> by 3.\n Reuter\n\x03"},
    {"id": "2", "body": "too short to count Reuter"},
    {"id": "3", "title": "no body"},
    {"id": "4", "body": "Prices rose " + "again and " * 10 + "then <fell> by 3.\n Reuter\n\x03"},
    {"id": "5", "body": "Bonds " * 19 + "REUTER REUTER"},
]


def test_reuters_in_json_and_sgml_is_the_same(tmp_path):
    (tmp_path / "reuters-000.json").write_text(json.dumps(REUTERS[:3]))
    (tmp_path / "reuters-001.json").write_text(json.dumps(REUTERS[3:]))
    sgml = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(
        f'<REUTERS TOPICS="YES" NEWID="{row["id"]}">\n<TEXT><TITLE>T</TITLE><BODY>'
        + row.get("body", "").replace("<", "&lt;").replace(">", "&gt;").replace("\x03", "&#3;")
        + "</BODY></TEXT>\n</REUTERS>\n"
        for row in REUTERS
    )
    (tmp_path / "reut2-000.sgm").write_text(sgml)
    for sources in (str(tmp_path / "*.json"), tmp_path / "reut2-000.sgm"):
        (batch, *more) = [b for b in read_documents(sources) if len(b)]
        ids = [name for b in (batch, *more) for name in b.ids.to_pylist()]
        assert ids == ["1", "5"]
        assert batch.texts[0].as_py().endswith("then <fell> by 3.")
    (tmp_path / "broken.json").write_text('[{"id": 1, "bo')
    with pytest.raises(InputError, match=r"broken\.json is not a JSON array of Reuters articles"):
        rg.count(tmp_path / "broken.json")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from(["X", "Y"])), max_size=4))
def test_bio_tags_come_back_as_their_spans(gaps):
    spans, tags = [], []
    for gap, length, label in gaps:
        tags += ["O"] * gap
        spans.append((len(tags), len(tags) + length, label))
        tags += [f"B-{label}", *[f"I-{label}"] * (length - 1)]
    assert decode_tags(tags) == spans


def test_other_tag_schemes():
    assert decode_tags(["S-X", "S-X", "B-X", "I-X", "E-X", "O"]) == [(0, 1, "X"), (1, 2, "X"), (2, 5, "X")]
    assert decode_tags(["U-X", "B-X", "L-X", "I-Y"]) == [(0, 1, "X"), (1, 3, "X"), (3, 4, "Y")]
    assert decode_tags(["I-X", "I-X", "B-X", "I-Y"]) == [(0, 2, "X"), (2, 3, "X"), (3, 4, "Y")]
    assert decode_tags(["LOCATION", "LOCATION", "O", "B-12"]) == [(0, 2, "LOCATION"), (3, 4, "12")]


def test_conll_columns_can_be_chosen(tmp_path):
    (tmp_path / "c").write_text("1 Oslo B-X NN\n2 is O VB\n")
    counts = rg.count(tmp_path / "c", n=1, format="conll", item_column=1, tag_column=2, side="right", spans=["units"])
    assert counts.items.to_pylist() == ["Oslo", "is"]
    assert counts.totals.tolist() == [2, 1]
    marked = "-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n"
    (tmp_path / "m").write_text(marked)
    lengths = {
        sentences: [len(d) for b in read_documents(tmp_path / "m", Options("conll", sentences=sentences))
                    for d in b.items.to_pylist()]
        for sentences in (False, True)
    }  # fmt: skip
    assert lengths == {False: [2, 1], True: [1, 1, 1]}


@pytest.mark.parametrize(
    ("text", "offsets", "spans"),
    [
        ('say  "New York", he', [(6, 14, "L")], [(1, 3, "L")]),
        ("a b", [(0, 1, "L"), (2, 3, "M")], [(0, 1, "L"), (1, 2, "M")]),
        ("a\n\nb c", [(2, 4, "L")], [(1, 2, "L")]),
        ("a b", [(1, 2, "L")], []),
        ("ab", [(1, 2, "L")], [(0, 1, "L")]),
        ("", [(0, 0, "L")], []),
    ],
)
def test_spans_of_characters_become_spans_of_items(text, offsets, spans):
    assert spans_from_offsets(text, offsets) == spans


def test_inline_xml_keeps_other_text_as_it_is():
    text, spans = parse_xml('AT&amp;T &lt;T> in "<LOCATION>Rio de\nJaneiro</LOCATION>". 1 < 2')
    assert text == 'AT&T <T> in "Rio de\nJaneiro". 1 < 2'
    assert spans == [(3, 6, "LOCATION")]


GOOD = b'{"items": ["a"], "spans": [[0, 1, "X"]]}\n'
BROKEN = [
    ("b.jsonl", GOOD + b'{"items": \n', "b.jsonl, line 2 is not valid JSON"),
    ("b.jsonl", GOOD + b"[1]\n", "b.jsonl, line 2: a document is an object"),
    (
        "b.jsonl",
        GOOD + b'{"items": ["a"], "spans": [[0, 2, "X"]]}\n',
        "b.jsonl, line 2: the span X from 0",
    ),
    ("b.jsonl", GOOD + b'{"text": "\xff"}\n', "b.jsonl, line 2 is not valid UTF-8"),
    ("b.conll", b"a B-X\n\nb\n\nc O\n", "b.conll, line 3 has only one column"),
    ("b.conll", b"a B-X\n\nb \xff O\n\nc O\n", "b.conll, line 3 is not valid UTF-8"),
    ("b.slash", b"a/O b/X\nc/O d\n", "b.slash, line 2: expected item/TAG"),
    ("b.xml", b"<X>a</X> b\n<LOC>c d\n", "b.xml, line 2: <LOC> never ends"),
    ("b.xml", b"<X>a</X> b\nc </LOC> d\n", "b.xml, line 2: </LOC> ends what did not begin"),
]
FORMAT = {"b.jsonl": "jsonl", "b.conll": "conll", "b.slash": "stanford-slash", "b.xml": "stanford-xml"}


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_a_broken_document_is_named_or_skipped(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    options = {"n": 1, "format": FORMAT[name], "split": "lines", "targets": ["X"]}
    with pytest.raises(InputError) as error:
        rg.count(tmp_path / name, **options)
    assert message in str(error.value)
    with pytest.warns(UserWarning, match="1 documents were skipped"):
        counts = rg.count(tmp_path / name, on_error="skip", **options)
    assert counts.totals[0] >= 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.parquet", b"PAR1 not really", "x.parquet: "),
        ("x.jsonl.gz", b"not gzip", "x.jsonl.gz: "),
        ("x.jsonl.zst", b"not zstd", "x.jsonl.zst: "),
        ("x.txt", b"fine\nnot \xff fine", "x.txt, line 2 is not valid UTF-8"),
        ("x.txt", b"cut off \xc3", "x.txt, line 1 is not valid UTF-8"),
    ],
)
def test_a_file_that_is_not_what_it_claims_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, FileError)) as error:
        rg.count(tmp_path / name, n=1)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"x": [1]}), "has no column items or text; it has x"),
        (pa.table({f"c{number}": [1] for number in range(100)}), r"it has c0, c1, .* and 80 more"),
        (pa.table([["a"], ["b"]], names=["text", "text"]), "the table has several columns called 'text'"),
        (pa.table({"items": [["a"], None]}), "row 2: items is missing"),
        (pa.table({"items": [["a"], ["a", None]]}), "row 2: items is missing, or a part of it"),
        (pa.table({"text": ["a"], "spans": [[1]]}), r"spans must hold lists of start, end .* not list<item: int64>"),
        (pa.table({"text": ["a"], "spans": [[{"start": 0, "end": None, "label": "X"}]]}), "row 1: spans is missing"),
        (pa.table({"text": ["a"], "spans": [[{"start": 0.5, "end": 1.5, "label": "X"}]]}), "spans must hold lists"),
        (pa.table({"text": [1]}), "the column text must hold strings, not int64"),
        (pa.table({"text": [b"a"]}), "the column text must hold strings, not binary"),
        (pa.table({"items": ["a"]}), "the column items must hold lists of strings, not string"),
        (pa.table({"items": [[1]]}), "the column items must hold lists of strings"),
    ],
)
def test_strange_tables_are_named(table, message):
    with pytest.raises(InputError, match=message):
        rg.count(table, n=1)


def test_a_table_of_ngrams_is_not_documents(tmp_path):
    pq.write_table(pa.table({"ngram": ["a b"], "f_nu": [1], "f_de": [2]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet holds contexts, not documents"):
        rg.count(numerator=tmp_path / "t.parquet", denominator=tmp_path / "t.parquet")
    assert rg.count(tmp_path / "t.parquet", spans=["units"]) == rg.Counts.from_ngrams(
        ["a b"], [1], [2], spans=["units"]
    )


def test_large_strings_and_dictionaries_are_strings():
    texts = ["abc def", "ghi\u00a0jkl mno", "äöü x\u2003y"]
    for kind in ("words", "letters"):
        expected = rg.count(pa.table({"text": texts}), n=1, kind=kind, targets=[])
        for form in (pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()):
            assert rg.count(pa.table({"text": form}), n=1, kind=kind, targets=[]) == expected
    large = pa.array([text.split() for text in texts], pa.large_list(pa.large_string()))
    assert rg.count(pa.table({"items": large}), n=1, targets=[]) == rg.count(
        pa.table({"text": texts}), n=1, targets=[]
    )


def test_letters_of_tagged_words_have_their_spans_in_letters(tmp_path):
    (tmp_path / "x.txt").write_text("He is in <LOC>New York</LOC> now")
    counts = rg.count(tmp_path / "x.txt", n=3, kind="letters", spans=["whole"])
    by_items = rg.count(
        [{"items": ["He", "is", "in", "New", "York", "now"], "spans": [(3, 5, "LOC")]}],
        n=3, kind="letters", spans=["whole"],
    )  # fmt: skip
    assert counts == by_items
    part = counts.rows["item", 0, 3]
    at_target = part.keys[part.values[:, 1] > 0]
    assert ["".join(counts.items[n].as_py() for n in key) for key in at_target.tolist()] == ["in "]
    right = rg.count(tmp_path / "x.txt", n=2, kind="letters", spans=["whole"], side="right")
    part = right.rows["item", 0, 2]
    (key,) = part.keys[part.values[:, 1] > 0].tolist()
    assert "".join(right.items[n].as_py() for n in key) == " n"
    one_letter_words = [{"items": list("abcd"), "spans": [(2, 3, "X")]}]  # words all the same
    as_text = [{"text": "a b c d", "spans": [(2, 3, "X")]}]
    assert rg.count(one_letter_words, n=2, kind="letters") == rg.count(as_text, n=2, kind="letters")
    with pytest.raises(InputError, match="does not fit"):
        rg.count([{"text": "ab cd", "spans": [(1, 3, "X")]}], n=1, kind="letters")


def test_spans_end_with_their_sentence(tmp_path):
    (tmp_path / "iob").write_text("-DOCSTART- O\n\nlives O\nin O\nRome I-LOC\n\nParis I-LOC\nis O\n")
    assert rg.count(tmp_path / "iob", n=1).totals.tolist() == [5, 2]
    (tmp_path / "slash").write_text("in/O Rome/LOCATION\nParis/LOCATION is/O\n")
    assert rg.count(tmp_path / "slash", n=1).totals.tolist() == [4, 2]


def test_a_hash_is_an_item_and_a_comment_is_not(tmp_path):
    (tmp_path / "c").write_text("# sent_id = 1\n# # NN O\nEU NNP B-ORG\nsays VB O\n")
    counts = rg.count(tmp_path / "c", n=1, format="conll", spans=["units"])
    assert counts.items.to_pylist() == ["#", "EU", "says"]
    assert counts.totals.tolist() == [3, 1]


def test_two_samples_of_the_same_articles_count_them_twice(tmp_path):
    (tmp_path / "reuters-000.json").write_text(json.dumps(REUTERS[:1]))
    path = tmp_path / "reuters-000.json"
    n_nu, n_de = rg.count(numerator=path, denominator=path, n=2).sizes("numerator")
    assert n_nu == n_de > 0


def test_documents_that_lack_something_can_be_skipped_everywhere(tmp_path):
    table = pa.table({"text": ["a b", None, "c d"], "spans": [[{"start": 0, "end": 1, "label": "X"}], [], []]})
    with pytest.warns(UserWarning, match=r"1 documents were skipped: the table, row 2: text is missing"):
        assert rg.count(table, n=1, on_error="skip").totals.tolist() == [4, 0]
    spans = [[{"start": 0, "end": None, "label": "X"}], []]
    with pytest.warns(UserWarning, match="1 documents were skipped"):  # once, whatever it lacks
        rg.count(pa.table({"text": [None, "a b"], "spans": spans}), n=1, on_error="skip")
    (tmp_path / "good.txt").write_text("a b c")
    (tmp_path / "bad.txt").write_bytes(b"a b \xff c")
    with pytest.warns(UserWarning, match="bad.txt, line 1 is not valid UTF-8"):
        assert rg.count(tmp_path, n=1, targets=[], on_error="skip").totals.tolist() == [3]


def test_strange_reuters_bodies_are_text(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps([{"id": 1, "body": 5}, {"id": 2, "body": "x \ud800 " * 30}]))
    assert rg.count(tmp_path / "r.json", n=1, format="reuters-json", targets=[]).totals.tolist() == [30]


def test_many_small_files_are_gathered_into_few_batches(tmp_path):
    for number in range(200):
        (tmp_path / f"{number}.txt").write_text(f"file {number} has words")
    told = []
    counts = rg.count(tmp_path, n=2, targets=[], progress=told.append)
    assert counts.totals.tolist() == [600]
    assert sum(told) == 200
    assert len(told) == 1


def test_a_batch_holds_few_short_documents_too(tmp_path):
    (tmp_path / "lines.txt").write_text("a\n" * 10_000)
    options = Options("text", "lines", batch_bytes=1 << 16)
    sizes = [len(batch) for batch in read_documents(tmp_path / "lines.txt", options)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= (1 << 16) // DOCUMENT_BYTES

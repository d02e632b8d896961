"""Damaged, strange and enormous inputs: every reader reads or refuses them, within bounds, and says what is wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
import threading
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import raregram as rg
from raregram import cli
from raregram.cli import experiments
from raregram.corpus import documents as corpus
from raregram.corpus import fetch as fetching
from raregram.corpus.contexts import read_contexts
from raregram.corpus.documents import BufferedFile, Location, Options, Row, batches, expand
from raregram.corpus.fetch import fetch_corpus
from raregram.corpus.formats import (
    columns,
    csv,
    docbin,
    parquet,
    read_documents,
    recognise,
    reuters,
    running,
    tables,
)
from raregram.corpus.log import ReadingLog
from raregram.counts.count import are_contexts, read_counts
from raregram.errors import FileError, InputError, ParameterError, RaregramError
from raregram.measure import score as scoring
from raregram.text.tokenize import Tokenizer
from reliability import subjects

RAREGRAM = Path(sys.executable).with_name("raregram")


def documents(source, format_name=None, **options):
    """All documents of a source as (content, spans)."""
    found = []
    for batch in read_documents(source, Options(format_name, **options)):
        rows = tables.documents_table(batch).to_pylist()
        found += [
            (row.get("text", row.get("items")), [tuple(span.values()) for span in row["spans"] or []]) for row in rows
        ]
    return found


def skipping():
    return ReadingLog("skip")


# Enormous inputs


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
    assert max(sizes) < 2 << 20
    assert sum(sizes) > 300 * 20_000


def test_what_is_packed_too_well_is_refused_and_a_repeated_text_comes_in_small_batches(tmp_path, monkeypatch):
    path = str(tmp_path / "d.parquet")
    texts = pa.DictionaryArray.from_arrays(np.zeros(500, np.int32), pa.array(["a " * 50_000]))
    pq.write_table(pa.table({"text": texts}), path, compression="zstd")
    monkeypatch.setattr(parquet, "LARGEST_WHOLE", 1 << 20)
    held = BufferedFile(path, Path(path).read_bytes())
    for source in (path, held):
        assert max(len(batch) for batch in parquet.parquet_batches(source, 1024)) == (1 << 20) // 100_013
    monkeypatch.setattr(parquet, "SMALL_GROUP", 50_000)
    monkeypatch.setattr(parquet, "MOST_PACKED", 10)
    with pytest.raises(FileError, match=r"d\.parquet: .* bytes are packed into .*, which is no text"):
        list(parquet.parquet_batches(path, 1024))


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_large_record_batches_are_cut(kind):
    rows = ["a " * 1000] * 40 + ["b"] * 40
    whole = [pa.record_batch({"text": pa.array(rows, kind), "spans": [[]] * 80})]
    found = list(tables.from_batches(whole, Location("the table", "row"), Options(batch_bytes=8000)))
    assert [text for documents_ in found for text in documents_.texts.to_pylist()] == rows
    assert max(documents_.texts.nbytes for documents_ in found) < 16_000
    assert str(found[-1].location(len(found[-1]) - 1)) == "the table, row 80"


def test_sizes_are_of_words_and_not_of_their_numbers():
    """Also in lists and structures, where a slice begins anywhere."""
    kind = pa.struct({"label": pa.dictionary(pa.int8(), pa.large_string())})
    spans = pa.array([None, [{"label": "x" * 500}] * 3, [], [{"label": "x" * 500}]], pa.list_(kind))
    assert tables._unpacked_size([spans]) == 2000
    assert tables._unpacked_size([spans.slice(2)]) == 500


@pytest.mark.parametrize("column", [{"text": ["a", "a b c d", "b"]}, {"items": [["a"], ["a", "b", "c"], ["b"]]}])
def test_a_document_of_a_table_that_is_too_large_is_refused_or_skipped(monkeypatch, column):
    monkeypatch.setattr(tables, "LARGEST_TEXT", 5)
    monkeypatch.setattr(tables, "MOST_ITEMS", 2)
    with pytest.raises(InputError, match="the table, row 2: the document has more than"):
        documents(pa.table(column))
    assert len(documents(pa.table(column), log=skipping())) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.conll", b"word O\n" * 100, r"d\.conll, line 1: the document is larger than .* ends a document"),
        ("d.slash", b"in/O Oslo/LOC\n" * 100, r"d\.slash, line 1: the document is larger than .* --split"),
        ("d.xml", b"in <LOC>Oslo</LOC>\n" * 100, r"d\.xml, line 1: the document is larger than"),
        ("d.json", json.dumps([{"id": 1, "body": "x " * 500}]).encode(), r"d\.json holds more than"),
        ("d.sgm", b"<REUTERS><BODY>" + b"x " * 500, r"d\.sgm has an article that never ends"),
    ],
)
def test_a_document_that_grows_and_grows_is_refused(tmp_path, monkeypatch, name, content, message):
    for module in (columns, running, reuters):
        monkeypatch.setattr(module, "LARGEST_DOCUMENT", 500)
    (tmp_path / name).write_bytes(content)
    kinds = {"d.conll": "conll", "d.slash": "stanford-slash", "d.xml": "stanford-xml", "d.json": "reuters-json"}
    with pytest.raises(InputError, match=message):
        documents(tmp_path / name, kinds.get(name, "reuters-sgml"))


def test_blanks_take_no_room_and_a_word_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LONGEST_LINE", 1000)
    (tmp_path / "blank.txt").write_text("one two" + " \n" * 100_000 + "three")
    options = Options("text", cut=(2, Tokenizer()), batch_bytes=100)
    texts = [text for batch in read_documents(tmp_path / "blank.txt", options) for text in batch.texts.to_pylist()]
    assert " ".join(texts).split()[-1] == "three"
    assert sum(map(len, texts)) < 5000
    (tmp_path / "word.txt").write_text("x" * 5000)
    with pytest.raises(InputError, match=r"word\.txt: there are 0 MiB with fewer than 2 words: is this text"):
        list(read_documents(tmp_path / "word.txt", options))
    log = skipping()
    assert list(read_documents(tmp_path / "word.txt", Options("text", cut=(2, Tokenizer()), log=log))) == []
    assert log.skipped == 1


def test_files_that_can_only_be_read_whole_have_a_bound(tmp_path, monkeypatch):
    (tmp_path / "d.parquet.gz").write_bytes(gzip.compress(b"PAR1" + bytes(5000)))
    (tmp_path / "d.spacy").write_bytes(zlib.compress(bytes(5000)))
    monkeypatch.setattr(corpus.read_whole, "__defaults__", (1000,))
    monkeypatch.setattr(docbin, "LARGEST_WHOLE", 1000)
    with pytest.raises(InputError, match=r"d\.parquet\.gz holds more than .* too much to be read as a whole"):
        documents(tmp_path / "d.parquet.gz", "parquet")
    with pytest.raises(InputError, match=r"d\.spacy unpacks to more than .* split it"):
        documents(tmp_path / "d.spacy", "spacy")


@pytest.mark.parametrize("targets", [None, ["L7"]])
def test_labels_become_targets_only_if_they_are_not_far_too_many(monkeypatch, targets):
    monkeypatch.setattr("raregram.corpus.labels.MOST_LABELS", 10)
    corpora = [{"items": ["a"], "spans": [(0, 1, f"L{number}")]} for number in range(11)]
    ngrams, labels = ["a"] * 11, [f"L{number}" for number in range(11)]
    if targets is None:
        for count in (lambda: rg.count(corpora, n=1), lambda: rg.Counts.from_contexts(ngrams, labels)):
            with pytest.raises(InputError, match=r"there are 11 labels, such as L0, L1, L10: .* named \(--targets\)"):
                count()
    else:
        assert rg.count(corpora, n=1, targets=targets).targets == ("L7",)
        assert rg.Counts.from_contexts(ngrams, labels, targets=targets).targets == ("L7",)


def test_labels_of_all_batches_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr("raregram.corpus.labels.MOST_LABELS", 10)
    lines = "".join(json.dumps({"text": "a", "spans": [[0, 1, f"L{number}"]]}) + "\n" for number in range(12))
    (tmp_path / "d.jsonl").write_text(lines)
    with pytest.raises(InputError, match="there are 11 labels"):
        rg.count(tmp_path / "d.jsonl", n=1, memory_limit=1, threads=1, batch_bytes=1)
    monkeypatch.setattr("raregram.corpus.contexts.READ_BYTES", 16)
    (tmp_path / "c.tsv").write_text("".join(f"L{number}\ta b\n" for number in range(12)))
    with pytest.raises(InputError, match=r"there are 1[12] labels"):
        read_counts([str(tmp_path / "c.tsv")])


# Documents


@pytest.mark.parametrize("part", ['<REUTERS NEWID="1">', "<REUTERS <BODY>", "<BODY>", "<REUTERS>"])
def test_articles_that_only_begin_do_not_take_for_ever(tmp_path, part):
    (tmp_path / "r.sgm").write_text('<REUTERS NEWID="1">' + part * 200_000 + "</REUTERS>" + part * 200_000)
    with (
        pytest.raises(InputError, match="ends inside an article")
        if "REUTERS" in part
        else pytest.raises(StopIteration)
    ):
        next(iter(read_documents(tmp_path / "r.sgm", Options("reuters-sgml"))))


def one_part_missing(docbin):
    import srsly

    return zlib.compress(srsly.msgpack_dumps({**srsly.msgpack_loads(zlib.decompress(docbin)), "cats": []}))


NO_ARTICLES = r"r\.json is not a JSON array of Reuters articles"
NO_DOCBIN = r"d\.spacy is not a DocBin file, or it is truncated or damaged"
STRANGE_REFERENCE = '<REUTERS NEWID="7"><BODY>' + "word " * 30 + "&#" + "1" * 5000 + ";</BODY></REUTERS>"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", '{"text": "a", "text": "b"}', "line 1 is not valid JSON: the key 'text' stands twice"),
        ("x.jsonl", '{"text": "a", "spans": [{"start": 0, "start": 1, "end": 2}]}', "'start' stands twice"),
        ("x.jsonl", '{"text": "a", "id": NaN}', "NaN is no number in JSON"),
        ("x.jsonl", '{"text": "a", "id": ' + "[" * 100_000 + "]" * 100_000 + "}", "is not valid JSON"),
        ("x.jsonl", '{"text": "a", "spans": [' + "5," * 100_000 + "5]}", r"got 5$"),
        ("x.jsonl", '{"text": "a", "spans": ' + json.dumps(["x" * 10_000]) + "}", r"got 'xxx.*\.\.\.$"),
        ("x.jsonl", '{"items": ["a"], "spans": [[0, 1' + "0" * 30 + ', "X"]]}', "a span needs whole numbers"),
        ("x.jsonl", '{"text": "a \\ud800 b"}', "is not valid Unicode"),
        ("x.jsonl", '{"items": ["a"], "id": ' + "9" * 5000 + "}", "is not valid JSON"),
        ("x.jsonl", '{"items": ["a"], "spans": true}', "spans must be a list"),
        ("r.json", '[{"id": 1, "body": [1]}]', NO_ARTICLES),
        ("r.json", '[{"id": 1, "body": {"a": 1}}]', NO_ARTICLES),
        ("r.json", '[{"id": 1, "body": ' + "[" * 5000 + "}]", NO_ARTICLES),
        ("r.json", '[{"id": "\\ud800"}]', NO_ARTICLES),
        ("r.json", '[{"id": []}]', NO_ARTICLES),
        ("r.sgm", STRANGE_REFERENCE, r"r\.sgm, article 7 has a character reference that is no character"),
        ("r.sgm", subjects._reuters_sgml()[:-60], r"r\.sgm ends inside an article: it is cut off"),
        ("d.spacy", subjects._docbin()[:-20], NO_DOCBIN),
        ("d.spacy", subjects._docbin()[40:], NO_DOCBIN),
        ("d.spacy", one_part_missing(subjects._docbin()), NO_DOCBIN),
    ],
)
def test_strange_content_is_named_in_few_words(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    kind = {"r.json": "reuters-json", "r.sgm": "reuters-sgml"}.get(name)
    with pytest.raises((InputError, FileError), match=message) as error:
        documents(tmp_path / name, kind)
    assert len(str(error.value)) < 500


def broken_strings(*values):
    """An Arrow array of strings that are not UTF-8."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize("name", ["text", "items", "id"])
def test_strings_of_a_table_that_are_not_utf8_are_named(tmp_path, name):
    strings = broken_strings(b"fine", b"a \xff b")
    lists = pa.ListArray.from_arrays([0, 1, 2], strings)
    table = pa.table(
        {"text": ["a", "b"], "id": strings} if name == "id" else {name: lists if name == "items" else strings}
    )
    pq.write_table(table, tmp_path / "d.parquet")
    for source, place in ((table, "the table"), (tmp_path / "d.parquet", r"d\.parquet")):
        with pytest.raises(InputError, match=f"{place}, row 2 is damaged or not valid UTF-8"):
            rg.count(source, n=1)
    pq.write_table(pa.table({"ngram": strings, "label": ["X", "Y"]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"c\.parquet, row 2 is damaged or not valid UTF-8"):
        read_counts([str(tmp_path / "c.parquet")])


def test_a_damaged_page_with_a_checksum_is_noticed(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"text": ["some words here"]}), path, compression="none", write_page_checksum=True)
    data = path.read_bytes()
    assert data.count(b"some words here") > 0
    path.write_bytes(data.replace(b"some words here", b"some wards here", 1))
    with pytest.raises(FileError, match=r"d\.parquet: .*CRC"):
        documents(path)


def many_groups():
    """A Parquet file of several row groups with lists and dictionaries."""
    rows = [{"items": ["a", "b"] * (row % 3), "text": f"t{row % 4}", "spans": []} for row in range(50)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink


def flipped(data, count, seed):
    """Yield copies of a Parquet file with a bit of its footer flipped."""
    rng = random.Random(seed)
    (size,) = struct.unpack("<I", data[-8:-4])
    for _ in range(count):
        changed = bytearray(data)
        changed[rng.randrange(len(data) - 8 - size, len(data))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def test_a_damaged_footer_is_an_error_or_no_matter_and_never_ends_the_process():
    outcomes = set()
    for data in flipped(many_groups().getvalue(), 1000, seed=1):
        try:
            held = BufferedFile("x.parquet", data)
            outcomes.add(sum(len(batch) for batch in tables.read_parquet(held, Options())))
        except (FileError, InputError) as error:
            assert "x.parquet" in str(error)  # noqa: PT017 - an error is one of two right answers
    assert outcomes == {50}


@pytest.mark.parametrize(
    "content",
    [
        bytes([0x49, 0xF7, *[0xFF] * 7, 0x7F]),  # a list of 2**56 numbers of eight bytes each
        bytes([0x49, 0xF8, *[0xFF] * 7, 0x7F]),  # and one of as many texts
        bytes([0x46, *[0xFF] * 1_000_000, 0]),  # a number of seven million bits
        bytes([0x48, *[0xFF] * 7, 0x7F, 0]),  # a text longer than any file
        bytes([0x4C]) * 100_000,  # structures within structures
    ],
)
def test_a_footer_that_claims_more_than_it_has_is_refused(content):
    data = b"PAR1" + content + struct.pack("<I", len(content)) + b"PAR1"
    with pytest.raises(FileError, match=r"x\.parquet"):
        list(tables.read_parquet(BufferedFile("x.parquet", data), Options()))


def test_rows_that_are_not_there_are_noticed(tmp_path, monkeypatch):
    (tmp_path / "d.parquet").write_bytes(many_groups().getvalue())
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *args, **options: list(read(*args, **options))[:-1])
    monkeypatch.setattr(parquet, "_rows_of_a_batch", lambda *args: 7)
    with pytest.raises(FileError, match=r"d\.parquet: of 50 rows only .* are there"):
        documents(tmp_path / "d.parquet")


def test_a_table_of_many_columns_is_named_in_few_words(tmp_path):
    names = ",".join(f"c{number}" for number in range(3000))
    (tmp_path / "c.csv").write_text(f"{names}\n{names}\n")
    with pytest.raises(InputError, match=r"c\.csv has no column 'ngram'; it has c0, .*, c19 and 2,980 more\. Say"):
        read_counts([str(tmp_path / "c.csv")])


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
    (tmp_path / "d").write_text(content)
    assert documents(tmp_path / "d", name) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conll", b"a O\n\nb O\n\xff O\nc O\n\nd O\n"),
        ("stanford-tsv", b"a\tO\n\nb\tO\n\xff\tO\nc\tO\n\nd\tO\n"),
        ("stanford-slash", b"a/O\n\nb/O\n\xff/O\nc/O\n\nd/O\n"),
    ],
)
def test_a_document_with_a_broken_line_is_skipped_as_a_whole(tmp_path, name, content):
    (tmp_path / "d").write_bytes(content)
    log = skipping()
    found = documents(tmp_path / "d", name, split="paragraphs", log=log)
    assert [items for items, _ in found] == [["a"], ["d"]]
    (example,) = log.examples
    assert example.startswith(f"{tmp_path / 'd'}, line 4 is not valid UTF-8")


# Contexts


@pytest.mark.parametrize("form", [pa.decimal128(30, 2), pa.float64(), pa.uint8(), pa.large_string()])
def test_frequencies_of_every_kind_of_number_are_the_same(tmp_path, form):
    path = str(tmp_path / "c.parquet")
    f_nu = pa.array([5, 0]).cast(pa.string()).cast(form) if form == pa.large_string() else pa.array([5, 0]).cast(form)
    pq.write_table(pa.table({"ngram": ["a b", "c d"], "f_nu": f_nu, "f_de": [1, 7]}), path)
    counts = read_counts([path], spans=["units", "whole"])
    assert counts == rg.Counts.from_ngrams(["a b", "c d"], [5, 0], [1, 7], spans=["units", "whole"])


@pytest.mark.parametrize(
    ("columns_of", "message"),
    [
        ({"label": [1, 2]}, "the column label must hold strings, or lists of them, not int64"),
        ({"label": [["a", None], []]}, "a label must be a string"),
        ({"ngram": [["a", "b"], ["a", None]], "label": ["X", "Y"]}, "row 2: an item is missing"),
        ({"ngram": [1, 2], "label": ["X", "Y"]}, "items must be strings; found int64"),
        ({"f_nu": pa.array([1, 2], pa.date32())}, "f_nu must hold whole numbers, not date32"),
        ({"f_nu": pa.array([1, 2], pa.duration("s"))}, "f_nu must hold whole numbers, not duration"),
        ({"f_nu": [True, False]}, "f_nu must hold whole numbers, not bool"),
        ({"f_nu": [[1], [2]]}, "f_nu must hold whole numbers, not list"),
        ({"f_nu": ["1", "9" * 5000]}, r"row 2: f_nu must be a whole number"),
        ({"f_nu": [1, 2**53 + 2]}, "f_nu must be a whole number"),
    ],
)
def test_errors_of_contexts_name_the_file_in_few_words(tmp_path, columns_of, message):
    path = str(tmp_path / "c.parquet")
    more = {"f_de": [1, 1]} if "f_nu" in columns_of else {}
    pq.write_table(pa.table({"ngram": ["a b", "c d"], **columns_of, **more}), path)
    with pytest.raises(InputError, match=rf"c\.parquet.*{message}") as error:
        read_counts([path])
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("content", ["ngram,label\na b,X\na c," + "y" * 200, "ngram," + "y" * 200, "\n\n"])
def test_a_row_of_csv_that_is_too_long_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.setattr(csv, "LONGEST_ROW", 100)
    (tmp_path / "c.csv").write_text(content)
    with pytest.raises(
        FileError, match=r"c\.csv: the first row must name the columns, and no row may have more than"
    ):
        read_counts([str(tmp_path / "c.csv")])


@pytest.mark.parametrize("name", ["c.csv", "c.csv.gz"])
def test_the_threads_that_read_csv_ahead_do_not_call_python(tmp_path, monkeypatch, name):
    """They may still read when a command ends with an error, and the interpreter would abort."""
    opened, given = pyarrow.csv.open_csv, []
    monkeypatch.setattr(pyarrow.csv, "open_csv", lambda source, *more: given.append(source) or opened(source, *more))
    data = b"ngram,label\na b,X\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    read_counts([str(tmp_path / name)])
    assert [isinstance(source, pa.NativeFile) for source in given] == [True, True]


def test_an_ngram_of_thousands_of_words_is_no_wrong_call(tmp_path):
    (tmp_path / "c.tsv").write_text("X\t" + "word " * 4000 + "\n")
    with pytest.raises(InputError, match=r"c\.tsv, line 1 has 4,000 words; an N-gram has at most 1,000"):
        read_counts([str(tmp_path / "c.tsv")])
    with pytest.raises(InputError, match=r"N-gram 1 has 4,000 words; an N-gram has at most 1,000"):
        rg.Counts.from_contexts(["word " * 4000], ["X"])


# Archives and URLs


def unpacked(tmp_path, name, data):
    """Unpack an archive into a new folder."""
    (tmp_path / name).write_bytes(data)
    return fetching.unpack(tmp_path / name, tmp_path, name, fetching.CORPORA["reuters"])


def tar_of(*members):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return sink.getvalue()


def test_a_header_of_an_archive_is_not_read_whatever_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "LARGEST", 4 << 20)
    member = tarfile.TarInfo("PaxHeaders/x")
    member.type, member.size = tarfile.XHDTYPE, 5 << 20
    with pytest.raises(FileError, match=r"a\.tgz: refused, since it has more than 4 MiB"):
        unpacked(tmp_path, "a.tgz", tar_of(member))


def test_members_that_hold_more_than_their_archive_are_refused(tmp_path):
    member = tarfile.TarInfo("data/full/reuters-000.json")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"  # the size with its holes
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(FileError, match=r"a\.tar: refused, since it has more than 256 MiB"):
        unpacked(tmp_path, "a.tar", bytes(header) + bytes(1024))


def locked(data):
    data = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1  # the first member needs a password
    return bytes(data)


def of_a_strange_kind(_):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("data/full/reuters-000.json", b"x" * 1000)
    data = sink.getvalue()
    start = data.index(b"reuters-000.json") + 40
    return data[:start] + bytes(8) + data[start + 8 :]


@pytest.mark.parametrize("damage", [locked, of_a_strange_kind])
def test_a_zip_archive_that_cannot_be_unpacked_is_named(tmp_path, damage):
    with pytest.raises(FileError, match=r"a\.zip is not a \.tgz, \.tar\.gz or \.zip archive, or it is damaged"):
        unpacked(tmp_path, "a.zip", damage(subjects._zip()))


def test_archives_larger_than_any_corpus_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "LARGEST", 100)
    with pytest.raises(FileError, match=r"a\.zip: refused, since it has more than 0 MiB"):
        unpacked(tmp_path, "a.zip", subjects._zip())


@pytest.mark.parametrize("url", ["http://[", "file://[", "http://" + "a" * 70 + ".x/", "http://a b/", "http://x:y/"])
def test_addresses_that_are_none_are_named(tmp_path, monkeypatch, url):
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path))
    with pytest.raises(RaregramError, match=url[:6]):
        fetch_corpus("reuters", url)


# Settings and results


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "s.toml is not valid TOML"),
        ("n = 1\nn = 2\n", "s.toml is not valid TOML"),
        ("\x00", "s.toml is not valid TOML"),
        ('targets = "LOC"', "targets parameter of an experiment must be a list with something in it"),
        ("sizes = 5", "sizes parameter of an experiment must be a list with something in it"),
        ('sizes = ["a"]', "sizes parameter of an experiment must be a whole number"),
        ("lams = [nan]", "lams parameter of an experiment must be a finite number"),
        ("taus = [-1]", "taus parameter of an experiment must be a finite number"),
        ("targets = [1]", "targets parameter of an experiment must be text"),
        ("side = 1", "side parameter of an experiment must be text"),
        ("n = 2020-01-01", "n parameter of an experiment must be a whole number"),
        ("n = '" + "x" * 5000 + "'", r"Got 'xxx.*\.\.\. instead"),
        ("x" * 5000 + " = 1", r"an experiment has no setting 'xxx.*\.\.\.; it has"),
    ],
)
def test_strange_settings_are_named(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises((InputError, ParameterError), match=message) as error:
        experiments._config(str(tmp_path / "s.toml"), {})
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("text", ["", "[1, 2]", "5", "{}", '{"config": 3}', "[" * 100_000, "\ufeff{}"])
def test_strange_results_are_named(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(FileError, match=r"results\.json is not a results file, or it is truncated or damaged"):
        experiments.reproduce(out=str(tmp_path), report_only=True)


def test_documents_of_two_kinds_are_no_corpus(tmp_path):
    from raregram.measure.experiment import Config, load_corpus

    (tmp_path / "d.jsonl").write_text('{"text": "a b"}\n{"items": ["a"]}\n')
    with pytest.raises(InputError, match=r"some documents in .*d\.jsonl are texts and some lists of items"):
        load_corpus(Config(corpus=(str(tmp_path / "d.jsonl"),)))


# Names, links, pipes

NAMES = [
    "with space", "new\nline", "quote\"'s", "-dash", "*glob?[x]", "~root", "esc\x1b[31m", "a:b", "http:", "%20",
    "$(x)", "back\\slash", "ünï", "n" * 200, os.fsdecode(b"not utf-8 \xff\xfe"),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_files_of_every_name_are_read(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text('{"text": "she lives in Rome", "spans": [[3, 4, "LOC"]]}\n')
    expected = [("she lives in Rome", [(3, 4, "LOC")])]
    assert documents(name, "jsonl") == documents([Path(name)]) == documents(str(tmp_path)) == expected
    Path(name).write_text("she lives in Rome")
    assert documents(name, "text") == [("she lives in Rome", [])]
    assert rg.count(name, n=2, format="text", targets=[]).totals.tolist() == [3]
    assert [batch.ngrams.to_pylist() for batch in read_contexts(name)] == [["she lives in Rome"]]
    pq.write_table(pa.table({"text": ["she lives in Rome"]}), "table")
    Path("table").rename(name)
    assert recognise(name) == "parquet"
    assert documents(name) == [("she lives in Rome", [])]


@pytest.mark.parametrize("name", [name for name in NAMES if corpus.is_unicode(name)])
def test_files_of_every_name_are_written(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    counts = rg.Counts.from_contexts(["a b", "c d"], ["X", None])
    counts.save(name)
    assert rg.Counts.load(name) == counts
    assert os.listdir() == [name]  # noqa: PTH208 - names as they are


def test_a_name_that_arrow_cannot_take_is_refused_before_anything_is_written(tmp_path):
    name = tmp_path / os.fsdecode(b"\xff")
    with pytest.raises(FileError, match="its name is not valid UTF-8"):
        rg.Counts.from_contexts(["a b"], ["X"]).save(name)
    assert list(tmp_path.iterdir()) == []


def test_what_a_name_tells_the_terminal_is_shown_and_not_sent(tmp_path):
    done = subprocess.run([RAREGRAM, "info", tmp_path / "x\x1b[31m\x9b"], capture_output=True, check=False)
    assert done.returncode == 1
    assert rb"x\x1b[31m\x9b does not exist" in done.stderr


def test_too_long_a_name_is_an_error_of_ours(tmp_path):
    name = str(tmp_path / ("n" * 300))
    for read in (lambda: expand(name), lambda: read_contexts(name), lambda: are_contexts([name])):
        with pytest.raises(FileError, match="File name too long"):
            read()


def feed(path, data):
    """Write to a named pipe from a thread, as soon as somebody reads."""
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(data,))
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["jsonl", "conll", "stanford-tsv", "stanford-slash", "text", "parquet", "spacy"])
def test_documents_come_through_a_pipe(tmp_path, name):
    file, data = next(iter(subjects.make_subjects([name])[0].files.items()))
    (tmp_path / file).write_bytes(data)
    thread = feed(tmp_path / "pipe", data)
    assert documents(tmp_path / "pipe", name) == documents(tmp_path / file, name)
    thread.join()


@pytest.mark.parametrize("ending", [".txt", ".csv", ".parquet"])
def test_contexts_come_through_a_pipe(tmp_path, ending):
    files = {".txt": b"a b\nc d\n", ".csv": b"ngram\na b\nc d\n", ".parquet": io.BytesIO()}
    pq.write_table(pa.table({"ngram": ["a b", "c d"]}), files[".parquet"])
    data = files[ending] if isinstance(files[ending], bytes) else files[ending].getvalue()
    path = tmp_path / f"pipe{ending}"
    thread = feed(path, data)
    assert [ngram for batch in read_contexts(str(path)) for ngram in batch.ngrams.to_pylist()] == ["a b", "c d"]
    thread.join()


def test_sources_are_opened_once_unless_they_are_many(tmp_path, monkeypatch):
    paths = [str(tmp_path / f"{number}.txt") for number in range(10)]
    for path in paths:
        Path(path).write_text("a b\n")
    opened = []
    monkeypatch.setattr(scoring, "read_contexts", lambda path, *_: opened.append(path) or read_contexts(path))
    model = rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["T", None]))
    found = scoring.open_input(paths, model, Options())
    assert [batch.location.source for batch in found.contexts] == [head.source for head in found.heads] == paths
    assert sorted(opened) == sorted(paths + paths[scoring.KEPT_OPEN :])


def test_the_format_of_a_pipe_must_be_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match=r"the format of .*pipe must be named"):
        are_contexts([str(tmp_path / "pipe")])


@pytest.mark.parametrize(("content", "skipped"), [(b"a b c", 0), (b"a b \xff", 1)])
def test_text_from_a_pipe_is_whole_or_skipped(tmp_path, content, skipped):
    thread = feed(tmp_path / "pipe", content)
    log = skipping()
    found = list(read_documents(tmp_path / "pipe", Options("text", cut=(2, Tokenizer()), log=log)))
    thread.join()
    assert (len(found), log.skipped) == (1 - skipped, skipped)


def test_links_that_lead_nowhere_or_in_circles_are_named(tmp_path):
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name in ("broken", "a", "*"):
        with pytest.raises(FileError, match="does not exist"):
            expand(str(tmp_path / name))


def test_links_back_to_a_folder_are_not_followed(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "d.txt").write_text("a b")
    (tmp_path / ".hidden.txt").write_text("c d")
    for place in (tmp_path / "here", tmp_path / "in" / "back", tmp_path / "in" / "deep" / "up"):
        place.symlink_to(tmp_path)  # three of them: to follow them all would take for ever
    expected = [str(tmp_path / "in" / "deep" / "d.txt")]
    for pattern in ("", "**", "**/*.txt", "in/**/d.*"):
        assert expand(str(tmp_path / pattern)) == expected, pattern
    assert expand(str(tmp_path / "**" / ".h*")) == [str(tmp_path / ".hidden.txt")]


def test_a_folder_where_a_file_is_due_and_the_other_way_round(tmp_path):
    with pytest.raises(FileError, match="is a folder; name the files in it"):
        read_contexts(str(tmp_path))
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "x.txt", tmp_path / "file" / "*"):
        with pytest.raises(FileError, match=r"does not exist|Not a directory"):
            expand(str(path))


def test_files_that_shrink_or_vanish_while_they_are_read_are_named(tmp_path):
    path = tmp_path / "d.parquet"
    texts = [" ".join(map(str, np.random.default_rng(row).integers(0, 10**9, 20_000))) for row in range(40)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=1)
    rows = read_documents(path, Options(batch_bytes=1 << 10))
    next(rows)
    os.truncate(path, 10_000)
    with pytest.raises(FileError, match=r"d\.parquet: "):
        list(rows)
    names = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for name in names:
        name.write_text('{"items": ["a"]}\n')
    rows = read_documents(names, Options(batch_bytes=1))
    next(rows)
    names[2].unlink()
    with pytest.raises(FileError, match=r"2\.jsonl"):
        list(rows)


def test_a_lack_of_memory_is_said_in_a_sentence(monkeypatch, capsys):
    def fail(prog_name):
        raise MemoryError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "raregram: error: there is not enough memory for this\n"

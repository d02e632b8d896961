"""The Spark engine: the same results as the local one, bit for bit.

`make test` runs a few of these tests, in one session on `local[2]`; `make test-all` runs all of them there; and
`make trust` on a real standalone cluster of two workers, some of which die.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raregram as rg
from benchmarks.standalone import LOOPBACK, Standalone, java_version
from combinations import CONTEXT_READERS, run
from raregram.corpus.documents import Options, batches
from raregram.corpus.formats.running import read_part, read_text
from raregram.corpus.log import ReadingLog
from raregram.counts import storage
from raregram.counts.count import CountJob
from raregram.counts.encode import encode_documents
from raregram.counts.kernel import CountSettings
from raregram.errors import FileError, InputError, MissingExtraError, ParameterError, RaregramWarning
from raregram.measure import evaluate as evaluation
from raregram.spark import parts, sources
from raregram.spark.counting import _add_up, _block_schema, _cut, collect_counts, join_items, write_counts
from raregram.spark.evaluating import evaluate
from raregram.spark.scoring import open_input, rank, score, write_scores
from raregram.spark.session import Cluster, connect
from raregram.spark.sources import open_contexts
from raregram.text.tokenize import Tokenizer, window_starts
from test_combinations import tables, trained, written

RAREGRAM = str(Path(sys.executable).with_name("raregram"))
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # what Java compiles best pays after minutes only
SETTINGS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
}


def run_process(command: list[str], **options) -> subprocess.CompletedProcess:
    """Run a command and leave its exit code to the test."""
    return subprocess.run(command, check=options.pop("check", False), **options)


needs_java = pytest.mark.skipif(
    java_version() < 17, reason="there is no Java 17: install it, e.g. apt-get install openjdk-17-jre-headless"
)


def thorough(test):
    """For the second stage."""
    return pytest.mark.harness(needs_java(test))


def on_a_cluster(test):
    return pytest.mark.trust(needs_java(test))


# Plain text is counted here to compare engines; what is said of it has a test of its own.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:no document has spans")]


# --- a cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["local[2]", pytest.param("standalone", marks=pytest.mark.trust)])
def spark(request):
    """A session on each kind of cluster in turn."""
    master = request.getfixturevalue("standalone").url if request.param == "standalone" else request.param
    session = connect(master, SETTINGS)
    assert session.sparkContext.master == master
    yield session
    session.stop()


# --- corpora -----------------------------------------------------------------------------------------------------

WORDS = "the a in at of to said met mr from with city bank he she Rome Ann é ﾮ 😀 12 U.S. in. zz".split()  # noqa: SIM905


def make_documents(seed: int, size: int = 60, longest: int = 40) -> list[dict]:
    """Documents with spans at two labels and, now and then, a third; some are too short for any context."""
    source = random.Random(seed)
    documents = []
    for number in range(size):
        items = [source.choice(WORDS) for _ in range(source.randint(0, longest))]
        labels = {"Rome": "LOC", "Ann": "PER", "12": "Num"}
        spans = [
            {"start": place, "end": place + 1, "label": labels[item]}
            for place, item in enumerate(items)
            if item in labels
        ]
        documents.append({"id": f"d{number}", "items": items, "spans": spans})
    return documents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same documents as Parquet, JSON lines and plain text, each in several files."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("parquet", "jsonl", "text"):
        (folder / name).mkdir()
    for part in range(4):
        documents = make_documents(part)
        schema = pa.schema([("id", pa.string()), ("items", pa.list_(pa.string())), ("spans", SPAN_TYPE)])
        pq.write_table(pa.Table.from_pylist(documents, schema), folder / "parquet" / f"{part}.parquet")
        as_texts = [{"text": " ".join(row["items"]), "spans": row["spans"]} for row in documents]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in as_texts)
        (folder / "jsonl" / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        texts = "\n".join(row["text"] for row in as_texts)
        (folder / "text" / f"{part}.txt").write_text(texts + "\n" * part, encoding="utf-8")
    return folder


SPAN_TYPE = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]))


def assert_same(counted: rg.Counts, expected: rg.Counts) -> None:
    assert counted == expected
    assert counted.digest() == expected.digest()


# --- counting ----------------------------------------------------------------------------------------------------


@needs_java
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("jsonl", {"n": 4, "spans": ["suffixes:3", "shapes:2", "whole"]}),
        ("parquet", {"n": 2, "side": "right", "documents": True, "folds": 2, "spans": ["suffixes:2"]}),
        *(
            pytest.param(form, options, marks=pytest.mark.harness)
            for form, options in [
                ("parquet", {"n": 3, "side": "right", "spans": ["suffixes:2", "whole"], "pad": True}),
                ("jsonl", {"n": 2, "spans": ["whole"], "min_count": 3, "targets": ["PER"]}),
                ("parquet", {"n": 3, "kind": "letters", "spans": ["suffixes:3"]}),
                ("parquet", {"n": 3, "tokenize": "words", "lower": True, "spans": ["suffixes:3", "shapes:2"]}),
                ("jsonl", {"n": 2, "labels": {"Num": "LOC"}, "spans": ["shapes:2"], "memory_limit": 1 << 16}),
                ("text", {"n": 3, "split": "file", "format": "text", "tokenize": "words", "spans": ["whole"]}),
                ("text", {"n": 3, "split": "lines", "format": "text", "kind": "letters", "pad": True}),
                ("text", {"n": 3, "split": "paragraphs", "format": "text", "pad": True}),
                ("jsonl", {"n": 3, "documents": True, "memory_limit": 1 << 16}),
                ("jsonl", {"n": 2, "documents": True, "min_count": 2, "targets": ["PER"]}),
            ]
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_the_table_is_the_local_engines_to_the_last_bit(spark, folder, form, options):
    counted = rg.count(folder / form, engine="spark", session=spark, **options)
    assert_same(counted, rg.count(folder / form, **options))


@thorough
def test_data_frames_samples_and_files_that_cannot_be_cut_are_counted_too(spark, folder, tmp_path):
    names = ("spark.sql.caseSensitive", "spark.sql.files.maxPartitionBytes", "spark.sql.shuffle.partitions")
    before = {name: spark.conf.get(name) for name in names}
    frame = spark.read.parquet(str(folder / "parquet")).repartition(7)
    expected = rg.count(folder / "parquet", n=3, spans=["suffixes:2"])
    assert_same(rg.count(frame, n=3, spans=["suffixes:2"]), expected)
    with_text = frame.selectExpr("array_join(items, ' ') as text", "spans", "id as other")
    assert_same(rg.count(with_text, n=3, spans=["suffixes:2"]), expected)
    samples = {"numerator": folder / "text" / "0.txt", "denominator": folder / "text" / "1.txt", "n": 3}
    assert_same(rg.count(engine="spark", session=spark, **samples), rg.count(**samples))
    for number in range(3):
        rows = [f"w{number} O", "Rome B-LOC", "and O", "Ann B-PER", "", "in O", "Oslo B-LOC", ""]
        (tmp_path / f"{number}.conll").write_text("\n".join(rows))
    assert_same(rg.count(tmp_path, n=1, engine="spark", session=spark), rg.count(tmp_path, n=1))
    assert {name: spark.conf.get(name) for name in names} == before  # the user's session is left as it was


CONTEXTS = ["he lives in", "she said that", "he lives in", "they met at", "é 😀 in"]
LABELS = ["LOC", "O", "PER", "LOC", ""]
COUNTED = {"spans": ["suffixes:2", "shapes:2", "whole"]}


@thorough
@pytest.mark.parametrize(
    ("name", "columns", "options"),
    [
        ("in.tsv", {"ngram": CONTEXTS, "label": LABELS}, {}),
        ("in.parquet", {"ngram": CONTEXTS, "label": [["LOC", "PER"], [], ["PER"], ["LOC"], []]}, {"min_count": 2}),
        ("in.parquet", {"ngram": [text.split() for text in CONTEXTS], "label": LABELS}, {"targets": ["LOC"], "n": 3}),
        ("in.csv", {"words": CONTEXTS, "f_nu": [1, 0, 3, 2, 0], "f_de": [5, 2, 0, 4, 7]},
         {"columns": {"ngram": "words"}, "side": "right"}),
        ("in.parquet", {"ngram": CONTEXTS, "f_nu": [1, 0, 3, 2, 0], "f_de": [5, 2, 3, 4, 7]}, {"f_de": "all"}),
        ("in.csv", {"ngram": ["in Paris,", "(the end", "It's ok."], "label": ["A", "B", "A"]},
         {"tokenize": "words", "lower": True}),
        ("in.csv", {"ngram": ["abc", "bcd", "cd "], "label": ["A", "B", "A"]}, {"kind": "letters"}),
    ],
)  # fmt: skip
def test_contexts_are_counted_as_on_one_machine(spark, tmp_path, name, columns, options):
    table = pa.table(columns)
    if name.endswith(".tsv"):
        rows = zip(columns["label"], columns["ngram"], strict=True)
        (tmp_path / name).write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    else:
        (pq.write_table if name.endswith(".parquet") else pa.csv.write_csv)(table, tmp_path / name)
    expected = rg.count(tmp_path / name, **COUNTED, **options)
    assert_same(rg.count(tmp_path / name, engine="spark", session=spark, **COUNTED, **options), expected)
    if name.endswith(".parquet"):
        frame = spark.read.parquet(str(tmp_path / name)).repartition(3)
        assert_same(rg.count(frame, **COUNTED, **options), expected)


BAD_LINE = b"fine\n" * 99 + b"\xff\xfe bad\n" + b"fine\n" * 99
WRONG = [  # a file, how it is counted, and what is said
    ("in.tsv", b"LOC\ta b c\nO\ta b\n", {}, InputError, r"partition of .*in.tsv, row 2 has 2 words, expected 3"),
    ("in.tsv", b"LOC\ta b c\n", {"pad": True}, ParameterError, "pad, labels, by and on_error are for documents"),
    ("a.jsonl", b'{"text": "x", "spans": [[0, 2, "LOC"]]}\n', {}, InputError, "a.jsonl, the line .* LOC from 0 to 2"),
    ("a.jsonl", b'{"body": 1}\n', {"on_error": "skip"}, InputError, "all 1 documents were skipped: .*needs items"),
    ("c.txt", b"\xff bad\n", {"split": "lines", "format": "text"}, InputError, "line that begins .* not valid UTF-8"),
    ("c.txt", b"fine\n\xff bad\n", {"format": "text"}, InputError, "c.txt, line 2 is not valid UTF-8"),
    ("d.txt", BAD_LINE, {"format": "text"}, InputError, "d.txt, line 20 after byte 400 is not valid UTF-8"),
    (
        "d.txt",
        BAD_LINE,
        {"format": "text", "on_error": "skip"},
        InputError,
        "all 1 documents .*d.txt, line 100 is not",
    ),
    ("short.txt", b"a b", {"n": 10}, InputError, "no document is long enough: the longest has 2 words, and n is 10"),
    ("plain.txt", b"so it goes\n", {"targets": ["LOC"]}, InputError, "no document has spans, so LOC cannot"),
    (
        "plain.txt",
        b"so\n",
        {"targets": ["LOC"], "split": "lines"},
        InputError,
        "no document has spans, so LOC cannot",
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        pytest.param(*wrong[:3], wrong[3:], marks=[needs_java, *([pytest.mark.harness] if row else [])])
        for row, wrong in enumerate(WRONG)
    ],
)
def test_what_cannot_be_counted_is_named(spark, tmp_path, monkeypatch, name, content, options, expected):
    monkeypatch.setattr(sources, "PART_BYTES", 100)
    (tmp_path / name).write_bytes(content)
    error, said = expected
    with pytest.raises(error, match=said):
        rg.count(tmp_path / name, engine="spark", session=spark, **({} if name == "in.tsv" else {"n": 1}) | options)


@thorough
def test_sources_that_spark_cannot_read_are_named(spark, tmp_path):
    (tmp_path / "in.tsv").write_text("LOC\ta b c\n")
    pq.write_table(pa.table({"text": ["a b", None]}), tmp_path / "b.parquet")
    frame = spark.createDataFrame([(1,)], "x int")
    for source, error, said in [
        (tmp_path / "nowhere.jsonl", FileError, "nowhere.jsonl does not exist"),
        (tmp_path / "b.parquet", InputError, "b.parquet, row 2: text is missing"),
        ([{"text": "a b"}], ParameterError, "not Python objects"),
        (frame, InputError, "has no column items or text; it has x"),
    ]:
        with pytest.raises(error, match=said):
            rg.count(source, n=1, engine="spark", session=spark)
    with pytest.raises(ParameterError, match="cannot read standard input"):
        rg.count("-", format="jsonl", engine="spark", session=spark)
    with pytest.raises(InputError, match=r"in\.tsv holds contexts, not documents"):
        rg.count(numerator=tmp_path / "in.tsv", denominator=tmp_path / "in.tsv", engine="spark", session=spark)
    with pytest.raises(ParameterError, match="The engine parameter of count must be one of 'local', 'spark'"):
        rg.count(tmp_path / "in.tsv", engine="flink")


@thorough
def test_a_corpus_is_cut_into_samples_as_on_one_machine(spark, tmp_path):
    span = {"start": 1, "end": 2, "label": "L"}  # which does not count
    rows = [{"text": f"a b {i} c", "the party": "xyz"[i % 3], "spans": [span]} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("ca01", "ck01", "cr01"):
        (tmp_path / "brown" / name[1]).mkdir(parents=True)
        (tmp_path / "brown" / name[1] / name).write_text(f"the/at {name}/nn is/bez ./.")
    cuts = {"a.parquet": ["the party", "file:(a)"], "a.jsonl": ["the party"], "brown": ["genre", "folder"]}
    for name, ways in cuts.items():
        for by in ways:
            settings = {"n": 2, "spans": ["units", "whole"], "by": by}
            local = rg.count(tmp_path / name, **settings)
            assert len(local.targets) == (1 if by == "file:(a)" else 3)
            assert rg.count(str(tmp_path / name), session=spark, engine="spark", **settings) == local
    with pytest.raises(ParameterError, match="lines are cut by a field"):
        rg.count(str(tmp_path / "a.jsonl"), session=spark, engine="spark", by="folder")
    for name in ("a.parquet", "a.jsonl"):
        with pytest.raises(InputError, match="has no field 'state' to cut by; it has text, the party, spans"):
            rg.count(str(tmp_path / name), session=spark, engine="spark", by="state")


@thorough
def test_skew_is_no_trouble(spark, tmp_path):
    """One document of a million items, thousands of tiny files, partitions without any document."""
    (tmp_path / "huge.txt").write_text("the " * 500_000 + "end of " * 250_000)
    counted = rg.count(tmp_path / "huge.txt", n=4, spans=["whole"], engine="spark", session=spark)
    assert_same(counted, rg.count(tmp_path / "huge.txt", n=4, spans=["whole"]))
    (tmp_path / "tiny").mkdir()
    for number in range(300):
        (tmp_path / "tiny" / f"{number}.txt").write_text(f"a b c{number % 7}")
    assert_same(rg.count(tmp_path / "tiny", n=2, engine="spark", session=spark), rg.count(tmp_path / "tiny", n=2))
    few = spark.createDataFrame([("a b c",), ("b c d",)], "text string").repartition(9)
    assert_same(rg.count(few, n=2), rg.count([{"text": "a b c"}, {"text": "b c d"}], n=2))


@thorough
@pytest.mark.parametrize(
    "options",
    [
        {"spans": ["suffixes:3"]},
        {"tokenize": "words", "lower": True, "spans": ["whole"], "pad": True},
        {"kind": "letters", "side": "right", "spans": ["whole"]},
    ],
    ids=",".join,
)
def test_one_huge_text_is_cut_across_tasks(spark, options, tmp_path, monkeypatch):
    """Beside a small file, and one that is compressed, which cannot be cut: then none is."""
    source = random.Random(7)
    text = "".join(source.choice([*WORDS, "\u3000"]) + source.choice(["", " ", " ", "\r\n"]) for _ in range(400_000))
    (tmp_path / "huge.txt").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "small.txt").write_text("the city of Rome", encoding="utf-8")
    monkeypatch.setattr(sources, "PART_BYTES", 100_000)
    expected = rg.count(tmp_path, n=3, **options)
    job = CountJob(([str(tmp_path)], None, None), CountSettings(n=3, **options)).on_spark(Cluster(spark))
    assert job.source.frame.where("content is null").count() == -(-(tmp_path / "huge.txt").stat().st_size // 100_000)
    assert_same(collect_counts(job), expected)
    if options.get("pad"):
        return
    (tmp_path / "packed.txt").write_bytes(gzip.compress(source.randbytes(100_000).hex().encode()))
    counted = rg.count(tmp_path, n=3, engine="spark", session=spark, **options)
    assert_same(counted, rg.count(tmp_path, n=3, **options))


@thorough
def test_a_huge_text_stays_whole_where_documents_matter(spark, tmp_path, monkeypatch):
    (tmp_path / "huge.txt").write_text("so it goes " * 20_000, encoding="utf-8")
    (tmp_path / "small.txt").write_text("the city of Rome", encoding="utf-8")
    monkeypatch.setattr(sources, "PART_BYTES", 100_000)
    for options in ({"documents": True}, {"folds": 2}):
        counted = rg.count(tmp_path, n=3, engine="spark", session=spark, targets=[], **options)
        assert_same(counted, rg.count(tmp_path, n=3, targets=[], **options))


@thorough
def test_tables_in_folds_are_not_mistaken_for_others(spark, folder, tmp_path):
    from raregram.spark import count, evaluate, fit

    count(str(folder / "parquet"), str(tmp_path / "t"), n=3, folds=2)
    with pytest.raises(ParameterError, match="is in folds: fit it with the local engine"):
        fit(str(tmp_path / "t"), "LOC")
    model = rg.fit(rg.Counts.load(tmp_path / "t"), "LOC")
    assert model.calibration is not None
    with pytest.raises(InputError, match="count table in folds"):
        evaluate(str(tmp_path / "t"), model)
    (tmp_path / "contexts.txt").write_text("LOC\tlives in\n\tsaid that\n")
    with pytest.raises(ParameterError, match="contexts have no order on Spark"):
        rg.count(tmp_path / "contexts.txt", engine="spark", session=spark, folds=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from(["a", "bb", "é", "😀x", "\u3000", "\ufeff", "it's", " ", "\n", "\r\n", " " * 50])),
    n=st.integers(1, 4),
    tokenizer=st.sampled_from([Tokenizer(), Tokenizer(tokenize="words"), Tokenizer("letters")]),
    sizes=st.tuples(st.integers(4, 60), st.integers(5, 60)),
    padding=st.sampled_from([(False, "left"), (True, "left"), (True, "right")]),
)
def test_parts_of_a_text_have_each_context_once(text, n, tokenizer, sizes, padding, tmp_path):
    """Wherever the text is cut: in characters, between the bytes of a line's end, before it has n items."""
    path = tmp_path / "text.txt"
    path.write_bytes("".join(text).encode())
    part_bytes, batch_bytes = sizes
    counted = CountSettings(n, padding[1], tokenizer.kind, pad=padding[0], tokenize=tokenizer.tokenize)
    options = Options("text", cut=(n, tokenizer), batch_bytes=batch_bytes)
    starts = range(0, max(path.stat().st_size, 1), part_bytes)
    parts = [row for start in starts for row in read_part(str(path), start, part_bytes, options)]
    assert contexts_of(parts, counted) == contexts_of(read_text(str(path), options), counted)


def contexts_of(rows, settings: CountSettings) -> tuple[list[tuple[str, ...]], int]:
    """The contexts of pieces of documents, and how many documents there are."""
    contexts, documents = [], 0
    for batch in batches(rows, 64):
        found = encode_documents(batch, settings, ReadingLog())
        items = [found.items[code].as_py() for code in found.codes.tolist()]
        starts = window_starts(found.lengths, settings.n).tolist()
        contexts += [tuple(items[start : start + settings.n]) for start in starts]
        documents += found.documents
    return sorted(contexts), documents


@thorough
def test_items_of_any_bytes_survive_the_shuffle(spark):
    documents = [{"items": ["", "a\xffb", "\x00", "a b", "ÿ", "\U0010ffff", "", "\n"], "spans": [(1, 2, "f`x, y")]}]
    rows = [(document["items"], [(1, 2, "f`x, y"), (2, 3, "F`X, Y")]) for document in documents]
    frame = spark.createDataFrame(rows, "items array<string>, spans array<struct<start:int,end:int,label:string>>")
    documents[0]["spans"].append((2, 3, "F`X, Y"))
    assert_same(rg.count(frame, n=1, spans=["whole"]), rg.count(documents, n=1, spans=["whole"]))
    assert_same(rg.count(frame, n=3, spans=["whole"]), rg.count(documents, n=3, spans=["whole"]))


@thorough
def test_bad_documents_are_skipped_when_asked(spark, tmp_path):
    lines = [
        '{"text": "a b c", "spans": []}',
        "no",
        '{"text": "x", "spans": [[0, 2, "ONLY"]]}',
        '{"text": "b Rome", "spans": [[1, 2, "LOC"]]}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="2 documents were skipped"):
        expected = rg.count(tmp_path / "a.jsonl", n=1, on_error="skip")
    with pytest.warns(UserWarning, match="2 documents were skipped"):
        counted = rg.count(tmp_path / "a.jsonl", n=1, on_error="skip", engine="spark", session=spark)
    assert_same(counted, expected)
    assert counted.targets == ("LOC",)  # a label of skipped documents alone is no target


@thorough
def test_what_may_be_wrong_is_said_as_on_one_machine(spark, tmp_path):
    rows = [
        {"text": "in Rome", "entities": [{"start": 3, "end": 7, "label": "LOC"}]},
        {"text": "in Oslo", "entities": [{"start": 3, "end": 7, "label": "LOC"}]},
        {"text": "so it goes", "entities": None},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        with pytest.warns(RaregramWarning) as here:
            expected = rg.count(tmp_path / name, n=1, targets=["LOC", "loc"])
        with pytest.warns(RaregramWarning) as there:
            counted = rg.count(tmp_path / name, n=1, targets=["LOC", "loc"], engine="spark", session=spark)
        assert_same(counted, expected)
        said, shown = [[str(each.message).split(", e.g. ")[0] for each in some] for some in (there, here)]
        assert said == shown
        assert [word in line for word, line in zip(("did you mean LOC", "1 of 3"), said, strict=True)] == [True, True]
        with pytest.warns(RaregramWarning, match="1 of 3 documents have no spans"):
            assert rg.count(tmp_path / name, n=1, engine="spark", session=spark).targets == ("LOC",)
    (tmp_path / "f.txt").write_text("__label__a they met in\n__label__a __label__b said mr old\n")
    assert_same(rg.count(tmp_path / "f.txt", engine="spark", session=spark), rg.count(tmp_path / "f.txt"))


@thorough
@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_a_folder_is_a_count_table_for_every_local_command(spark, folder, tmp_path, writer, monkeypatch):
    """Whether tasks write the files or, where Arrow has no file system for a place, Spark does."""
    monkeypatch.setattr(parts, "writable", lambda uri: writer == "tasks")
    monkeypatch.chdir(tmp_path)
    settings = CountSettings(n=3, spans=("suffixes:3", "shapes:2"), targets=("LOC", "PER"))
    count = CountJob(([str(folder / "parquet")], None, None), settings).on_spark(Cluster(spark))
    for _ in range(2):  # its own result it may write again
        write_counts(count, str(tmp_path / "all.counts"))
    expected = rg.count(folder / "parquet", n=3, spans=["suffixes:3", "shapes:2"], targets=["LOC", "PER"])
    assert_same(rg.Counts.load("all.counts"), expected)
    assert storage.read_header(Path("all.counts"))["digest"] == expected.digest()
    assert run("fit", "all.counts", "--target", "LOC", "--estimator", "backoff", "--out", "loc.rgm")[0] == 0
    assert json.loads(run("info", "all.counts", "--json")[1])["digest"] == expected.digest()
    assert run("merge", "all.counts", "all.counts", "--out", "two")[0] == 0
    assert rg.Counts.load("two") == expected + expected
    next(Path("all.counts").glob("part-*")).unlink()
    with pytest.raises(FileError, match="is damaged or was altered"):
        rg.Counts.load("all.counts")
    Path("precious").mkdir()
    Path("precious", "letter.txt").write_text("dear")
    with pytest.raises(FileError, match="it exists and is not a folder that Spark has finished"):
        write_counts(count, str(tmp_path / "precious"))
    assert Path("precious", "letter.txt").read_text() == "dear"


def test_arrow_knows_files_but_not_every_place():
    assert parts.writable("file:/tmp/x")
    assert not parts.writable("wasbs://box@account/x")


# --- adding up, without Spark ------------------------------------------------------------------------------------


def test_keys_of_equal_hash_are_told_apart():
    keys = join_items(pa.array([b"a", b"b", b""]), np.array([[0, 1], [1, 2], [0, 1]], np.int32))
    rows = [np.zeros(3, np.uint64), np.full(3, 2, np.int32), keys, [1, 10, 100], [0, 1, 2]]
    blocks = _cut(pa.record_batch(list(map(pa.array, rows)), schema=_block_schema(2)), 8)
    hashes = []
    (found,) = _add_up(("total", "L"), CountSettings(n=2), hashes.append, iter([blocks, blocks]))
    values = {tuple(row["items"]): (row["start"], row["end"], row["total"], row["L"]) for row in found.to_pylist()}
    assert values == {("a", "b"): (0, 2, 202, 4), ("b", ""): (0, 2, 20, 2)}
    assert len(hashes) == 1


# --- scoring -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(folder):
    counts = rg.count(folder / "parquet", n=3, spans=["suffixes:3", "shapes:2", "whole"])
    return {name: rg.fit(counts, "LOC", name) for name in ("selective", "backoff", "mle")}


@thorough
@pytest.mark.parametrize(
    ("side", "options"), [("left", {"shapes": False}), ("right", {"size": 5, "criterion": "cet"})]
)
def test_a_model_fitted_where_the_table_is_is_the_same(spark, folder, tmp_path, side, options):
    """Also in more parts than there are items next to the boundary."""
    from raregram.spark import fit

    counting = {"n": 3, "side": side, "spans": ("suffixes:3", "shapes:2")}
    write_counts(
        CountJob((folder / "parquet", None, None), CountSettings(**counting)).on_spark(Cluster(spark)),
        str(tmp_path / "t"),
    )
    local = rg.fit(rg.Counts.load(tmp_path / "t"), "LOC", **options)
    for memory_limit in (1 << 30, 20_000):
        fitted = fit(str(tmp_path / "t"), "LOC", memory_limit=memory_limit, **options)
        fitted.save(tmp_path / "spark.rgm")
        local.save(tmp_path / "local.rgm")
        assert (tmp_path / "spark.rgm").read_bytes() == (tmp_path / "local.rgm").read_bytes()


@thorough
def test_fitting_on_spark_says_what_it_cannot(spark, folder, tmp_path):
    from raregram.spark import count, fit

    with pytest.raises(FileError, match="does not exist"):
        fit(str(tmp_path / "nothing"), "LOC")
    count(str(folder / "parquet"), str(tmp_path / "t"), n=3, spans=("whole",))
    with pytest.raises(ParameterError, match="the estimator 'direct' is not fitted on Spark"):
        fit(str(tmp_path / "t"), "LOC", "direct")
    with pytest.raises(ParameterError, match="sizes"):
        fit(str(tmp_path / "t"), "LOC", "selective", sizes=3)
    same = rg.fit(rg.Counts.load(tmp_path / "t"), "LOC", "selective", size=3)
    assert fit(str(tmp_path / "t"), "LOC", "selective", size=3).settings == same.settings


@pytest.fixture(scope="module")
def contexts(folder):
    """A table of contexts with other columns, many of them twice."""
    items = [row["items"] for part in range(2) for row in make_documents(part)]
    ngrams = [" ".join(row[place : place + 3]) for row in items for place in range(len(row) - 2)]
    other = [{"nested": [place, None]} for place in range(len(ngrams))]
    return pa.table({"row": list(range(len(ngrams))), "text of it": ngrams, "other": other})


@needs_java
@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("backoff", "tasks"),
        pytest.param("selective", "spark", marks=pytest.mark.harness),
        pytest.param("mle", "tasks", marks=pytest.mark.harness),
    ],
)
def test_scores_are_the_same_and_all_columns_are_kept(spark, models, contexts, name, writer, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "writable", lambda uri: writer == "tasks")
    pq.write_table(contexts, tmp_path / "in.parquet", row_group_size=100)
    cluster = Cluster(spark)
    found = open_contexts(cluster, [str(tmp_path / "in.parquet")], models[name].settings.n, {"ngram": "text of it"})
    write_scores(cluster, models[name], found, str(tmp_path / "out"))
    scored = pq.read_table(tmp_path / "out").sort_by("row")
    assert scored.column_names == [*contexts.column_names, "log_ratio"]
    expected = models[name].log_ratio(contexts["text of it"].to_pylist())
    assert np.array_equal(np.asarray(scored["log_ratio"]), expected, equal_nan=True)
    assert scored.select(contexts.column_names).to_pylist() == contexts.to_pylist()


@thorough
@pytest.mark.parametrize("ending", ["txt", "csv", "list.parquet"])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_files_with_different_columns_are_one_table_as_on_one_machine(spark, ending, data):
    """The same rows, whatever the files and the order of their columns; see `test_combinations.py`."""
    cluster, kind = Cluster(spark), data.draw(st.sampled_from(["words", "letters"]))
    readers = [reader for reader in CONTEXT_READERS if reader.name == ending]
    files = data.draw(tables(kind, 2, labelled=True if ending == "txt" else None, readers=readers))
    model = trained(kind, 2, "backoff")
    with written(files, kind) as (folder, names):
        model.save("model.rgm")
        code, _, error = run("score", "model.rgm", *names, "--interval", "--as", "x", "--out", "local.parquet", "-q")
        assert (code, error) == (0, "")
        found = open_contexts(cluster, [str(folder / name) for name in names], model.settings.n)
        scored = score(cluster, model, found, level=0.95, name="x").toArrow().to_pylist()
        expected = pq.read_table("local.parquet").to_pylist()
    assert sorted(map(in_order, scored)) == sorted(map(in_order, expected))


def in_order(row: dict) -> str:
    """A row as text, whatever the order of its columns."""
    return repr(sorted(row.items()))


@thorough
def test_no_column_is_overwritten_and_none_is_lost(spark, models, tmp_path):
    cluster, model = Cluster(spark), models["selective"]
    pq.write_table(pa.table({"ngram": ["a b c"], "log_ratio": ["mine"]}), tmp_path / "in.parquet")
    found = open_contexts(cluster, str(tmp_path / "in.parquet"), model.settings.n)
    with pytest.raises(ParameterError, match="has a column 'log_ratio' already: name the new one with --as"):
        score(cluster, model, found)
    (row,) = score(cluster, model, found, name="again").collect()
    assert (row["log_ratio"], row["again"]) == ("mine", model.log_ratio(["a b c"])[0])
    documents = {
        "0.parquet": {"text": ["a b c"]},
        "1.parquet": {"text": ["a Rome c"], "spans": [[{"start": 1, "end": 2, "label": "LOC"}]]},
    }
    (tmp_path / "docs").mkdir()
    for name, columns in documents.items():
        pq.write_table(pa.table(columns), tmp_path / "docs" / name)
    with pytest.warns(RaregramWarning, match="1 of 2 documents have no spans"):
        counted = rg.count(tmp_path / "docs", n=1, engine="spark", session=spark)
    with pytest.warns(RaregramWarning, match="1 of 2 documents have no spans"):
        assert_same(counted, rg.count(tmp_path / "docs", n=1))
    assert counted.totals.tolist() == [6, 1]


@thorough
def test_intervals_of_lines_with_labels(spark, models, contexts, tmp_path):
    texts = contexts["text of it"].to_pylist()
    (tmp_path / "in.txt").write_text("".join(f"LOC\t{text}\r\n" for text in texts))
    cluster, model = Cluster(spark), models["backoff"]
    rows = score(
        cluster, model, open_contexts(cluster, str(tmp_path / "in.txt"), model.settings.n), level=0.9
    ).toArrow()
    assert rows.column_names == ["ngram", "label", "log_ratio", "lower", "upper"]
    assert rows["ngram"].to_pylist() == texts
    assert np.array_equal(np.column_stack([rows["lower"], rows["upper"]]), model.interval(texts, 0.9))


@thorough
@pytest.mark.parametrize("form", ["parquet", "jsonl", "frame", "text", "paragraphs"])
def test_documents_are_scored_and_ranked_as_on_one_machine(spark, models, folder, form, tmp_path):
    """Short contexts, positions, the words around and the order of ties among them."""
    model, cluster = models["backoff"], Cluster(spark)
    source = str(folder / ("parquet" if form == "frame" else form))
    split = "paragraphs" if form == "paragraphs" else "file"
    if form in ("text", "paragraphs"):
        source = str(tmp_path / "texts")
        (tmp_path / "texts").mkdir()
        for number, document in enumerate(make_documents(1)[:20]):
            (tmp_path / "texts" / f"{number}.txt").write_text(" ".join(document["items"]).replace("zz", "\n\n"))
    options = Options(split=split)
    found = open_input(cluster, spark.read.parquet(source) if form == "frame" else source, model, options)
    scored = score(cluster, model, found, level=0.9).toArrow()
    expected = rg.score(model, source, interval=True, level=0.9, split=split)
    assert scored.column_names == expected.columns
    where = {"parquet", "jsonl", "text", "paragraphs"}  # a row of a DataFrame has no file
    compared = [name for name in expected.columns if name != "document" or form in where]
    rows = [sorted(map(repr, table.select(compared).to_pylist())) for table in (scored, expected.to_arrow())]
    assert rows[0] == rows[1]
    if form in where:
        assert list(rank(cluster, model, found, 40, 0.9)) == list(
            rg.rank(model, source, 40, by="lower", level=0.9, split=split)
        )


@thorough
def test_documents_without_ids_have_keys_that_differ(spark, models):
    from raregram import spark as engine

    model, texts = models["backoff"], ["the city of Rome", "the city of Rome", "he said", *"abcde"]
    frame = spark.createDataFrame(
        [(text, f"k{row}", row) for row, text in enumerate(texts)], "text string, `my.key` string, id int"
    )
    expected = {f"k{row}": positions for row, positions in enumerate(map(len, map(str.split, texts)))}
    for partitions in (1, 8):
        nameless = engine.score(frame.select("text").repartition(partitions), model)
        rows = nameless.groupBy("document").count().collect()
        assert sorted(row["count"] for row in rows) == sorted(expected.values())
        assert (
            len(set(engine.rank(frame.select("text").repartition(partitions), model, 20)["document"].to_pylist()))
            == 8
        )
        named = engine.score(frame.repartition(partitions), model, id_column="my.key").groupBy("document").count()
        assert {row["document"]: row["count"] for row in named.collect()} == expected
    assert set(engine.rank(frame, model, 20)["document"].to_pylist()) == set(map(str, range(8)))
    assert set(engine.rank(frame, model, 20, id_column="my.key")["document"].to_pylist()) == set(expected)
    with pytest.raises(
        ParameterError, match=r"id_column parameter of the DataFrame must be one of .text., .my\.key., .id."
    ):
        engine.score(frame, model, id_column="key")
    with pytest.raises(ParameterError, match="contexts keep all their columns"):
        engine.score(frame.withColumnRenamed("text", "ngram"), model, id_column="my.key")
    with pytest.raises(ParameterError, match="id_column is for a DataFrame"):
        engine.rank("somewhere", model, id_column="my.key")


@thorough
@pytest.mark.parametrize(
    ("form", "relative"),
    [("parquet", True), ("jsonl", False), ("lines", True), ("paragraphs", False), ("text", True), ("csv", False)],
)
def test_a_row_of_a_file_has_the_same_key_as_on_one_machine(spark, models, tmp_path, form, relative):
    """Also where files are cut into many partitions, and into others when the lazy table is computed."""
    (tmp_path / "a folder").mkdir()
    texts = [f"the city of Rome {number % 3}" for number in range(40)]
    for name in ("1 %20 é", "2"):
        path = tmp_path / "a folder" / name
        if form == "parquet":
            pq.write_table(pa.table({"text": texts}), path.with_suffix(".parquet"), row_group_size=7)
        elif form == "jsonl":
            lines = [json.dumps({"text": text}) for text in texts]
            path.with_suffix(".jsonl").write_text("\n".join([*lines[:5], "", "  ", *lines[5:]]))
        elif form == "csv":
            path.with_suffix(".csv").write_text("\n".join(["text", *texts]))
        else:
            path.with_suffix(".txt").write_text("\r\n".join([*texts[:5], "", "", *texts[5:], ""]))
    source = os.path.relpath(tmp_path / "a folder") if relative else str(tmp_path / "a folder")
    options = Options(
        split=form if form in ("lines", "paragraphs") else "file", format="csv" if form == "csv" else None
    )
    model = models["backoff"]
    setting = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(setting)
    try:
        spark.conf.set(setting, "200")
        scored = score(Cluster(spark), model, open_input(Cluster(spark), source, model, options))
        spark.conf.set(setting, "333")
        rows = scored.toArrow()
    finally:
        spark.conf.set(setting, before)
    expected = rg.score(model, source, split=options.split, format=options.format).to_arrow()
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, expected.to_pylist()))


@thorough
@pytest.mark.parametrize("level", [None, 0.9])
def test_the_ranking_has_the_same_ties(spark, models, contexts, level, tmp_path):
    pq.write_table(contexts, tmp_path / "in.parquet", row_group_size=50)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in contexts["text of it"].to_pylist()))
    by = [] if level is None else ["--by", "lower", "--level", str(level)]
    models["selective"].save(tmp_path / "model")
    command = [RAREGRAM, "rank", "model", "in.txt", "--top", "150", "--json", *by]
    expected = json.loads(run_process(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    cluster, model = Cluster(spark), models["selective"]
    frame = spark.read.parquet(str(tmp_path / "in.parquet")).repartition(11)
    found = rank(cluster, model, open_contexts(cluster, frame, model.settings.n, {"ngram": "text of it"}), 150, level)
    assert list(found) == expected


@thorough
@pytest.mark.parametrize("name", ["backoff", "mle"])
def test_an_evaluation_is_the_same(spark, models, folder, tmp_path, name):
    rg.count(folder / "parquet" / "0.parquet", n=3, spans=["whole"]).save(tmp_path / "training.parquet")
    documents = [str(folder / "parquet" / f"{part}.parquet") for part in (1, 2)]
    table = rg.count(documents, n=3, spans=["whole"], targets=["LOC"])
    expected = evaluation.evaluate(models[name], table, k=100, training=rg.Counts.load(tmp_path / "training.parquet"))
    cluster = Cluster(spark)
    training = str(tmp_path / "training.parquet")
    found = evaluate(cluster, models[name], documents, Options(), k=100, training=training)
    assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())
    table.save(tmp_path / "table.parquet")
    again = evaluate(cluster, models[name], [str(tmp_path / "table.parquet")], Options(), k=100)
    assert again.overall == expected.overall
    assert again.calibration["all"] == expected.calibration["all"]


@thorough
def test_a_program_with_a_session_of_its_own(spark, models, folder, tmp_path):
    """The functions of `raregram.spark` take DataFrames and paths, and find the session themselves."""
    from raregram import spark as engine

    header = engine.count(str(folder / "parquet"), str(tmp_path / "out"), n=3, spans=("whole",), targets=("LOC",))
    table = rg.Counts.load(tmp_path / "out")
    assert header["totals"] == table.totals.tolist()
    assert table == rg.count(folder / "parquet", n=3, spans=["whole"], targets=["LOC"])
    ngrams = table.whole_ngrams().lists().to_pylist()
    frame = spark.createDataFrame([(ngram,) for ngram in ngrams], "mine array<string>")
    model = models["backoff"]
    scored = engine.score(frame, model, column="mine").toArrow()
    assert np.asarray(scored["log_ratio"]).tolist() == model.log_ratio(ngrams).tolist()
    best = engine.rank(frame, model, top=3, column="mine")
    assert best["log_ratio"].to_pylist() == sorted(model.log_ratio(ngrams).tolist(), reverse=True)[:3]
    documents = spark.read.parquet(str(folder / "parquet"))
    for k in (30, None):
        assert engine.evaluate(documents, model, k=k).overall == evaluation.evaluate(model, table, k=k).overall


@thorough
def test_contexts_that_cannot_be_scored_are_named(spark, models, tmp_path):
    cluster, model = Cluster(spark), models["selective"]
    pq.write_table(pa.table({"ngram": ["a b c", None]}), tmp_path / "in.parquet")
    found = open_contexts(cluster, str(tmp_path / "in.parquet"), model.settings.n)
    with pytest.raises(InputError, match=r"a row of .*in.parquet is missing"):
        write_scores(cluster, model, found, str(tmp_path / "out"))
    pq.write_table(pa.table({"ngram": pa.array([], pa.string())}), tmp_path / "in.parquet")
    found = open_contexts(cluster, str(tmp_path / "in.parquet"), model.settings.n)
    with pytest.raises(InputError, match=r"there is nothing to score in .*in.parquet"):
        write_scores(cluster, model, found, str(tmp_path / "out"))
    assert not list(tmp_path.glob("*out*"))
    with pytest.raises(InputError, match=r"has no column 'ngram'; it has x\. Say which one is meant"):
        open_contexts(cluster, spark.createDataFrame([(1,)], "x int"), model.settings.n)


# --- faults ------------------------------------------------------------------------------------------------------


@on_a_cluster
def test_an_executor_that_dies_changes_nothing(standalone, tmp_path):
    """One executor is killed while tasks of the count are running; the table is still the same."""
    from pyspark.sql import SparkSession

    for part in range(12):
        source = random.Random(part)
        words = [f"w{source.randint(0, 20_000)}" for _ in range(60_000)]
        (tmp_path / f"{part}.txt").write_text(" ".join(words))
    expected = rg.count(tmp_path, n=5, spans=["suffixes:4"])
    killed: list[int] = []

    def kill(tasks: int) -> None:
        if not killed:
            killed.extend(standalone.executors()[:1])
            os.kill(killed[0], signal.SIGKILL)

    if (other := SparkSession.getActiveSession()) is not None:  # that of the tests before
        other.stop()
    session = connect(standalone.url, {**SETTINGS, "spark.sql.files.maxPartitionBytes": "500k"})
    assert session.sparkContext.master == standalone.url
    try:
        counted = rg.count(tmp_path, n=5, spans=["suffixes:4"], engine="spark", session=session, progress=kill)
    finally:
        session.stop()
    assert len(killed) == 1
    assert_same(counted, expected)


@on_a_cluster
def test_a_worker_with_too_little_memory_gives_a_clear_error(standalone, folder, tmp_path):
    """A worker cannot give an executor what it asks for: one sentence, exit code 1, and no output."""
    command = [
        RAREGRAM, "count", str(folder / "jsonl"), "-n", "3", "--out", "out.counts", "--engine", "spark", "--master",
        standalone.url, "--spark", "spark.executor.memory=8g", "--spark", "spark.raregram.executorTimeout=4",
        "--spark", f"spark.driver.host={LOOPBACK}",
    ]  # fmt: skip
    done = run_process(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "raregram: error: no executor has started at spark://" in done.stderr
    assert "less than 8g of memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@on_a_cluster
def test_an_executor_that_runs_out_of_memory_gives_a_clear_error(standalone, tmp_path):
    """A file that does not fit into an executor: the job fails, and leaves nothing under the final name."""
    (tmp_path / "huge.txt").write_text("word/O " * 25_000_000)  # tagged text cannot be cut
    command = [
        RAREGRAM, "count", "huge.txt", "-n", "3", "--out", "out.counts", "--engine", "spark", "--master",
        standalone.url, "--spark", "spark.executor.memory=480m", "--spark", f"spark.driver.host={LOOPBACK}",
        "--spark", "spark.task.maxFailures=1",
    ]  # fmt: skip
    done = run_process(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ran out of memory" in done.stderr
    assert "spark.executor.memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["huge.txt"]


@on_a_cluster
def test_the_command_line_on_a_cluster(standalone, folder, tmp_path):
    """Count, fit, score, rank and evaluate: every command says what it did and nothing else.

    Only the count goes to the cluster: every command starts its own executors there, which takes half a minute.
    """
    settings = [word for name, value in SETTINGS.items() for word in ("--spark", f"{name}={value}")]
    cluster, spark = (["--engine", "spark", *settings, "--master", master] for master in (standalone.url, "local[2]"))
    count = ["count", str(folder / "parquet"), "-n", "3", "--spans", "suffixes:3,shapes:2,whole", "--min-count", "2"]
    run = lambda *command: run_process([RAREGRAM, *command], cwd=tmp_path, capture_output=True, text=True)  # noqa: E731
    done = run(*count, "--out", "spark.counts", *cluster)
    assert done.returncode == 0, done.stderr
    words = [line for line in done.stderr.splitlines() if not line.startswith("finished")]
    said = run(*count, "--out", "local.counts").stderr
    assert words == said.strip().replace("local", "spark").rpartition(",")[0].splitlines()  # all but the bytes
    assert rg.Counts.load(tmp_path / "spark.counts") == rg.Counts.load(tmp_path / "local.counts")
    assert run("fit", "spark.counts", "--target", "PER", "--estimator", "backoff", "--out", "per.rgm").returncode == 0
    local = run("rank", "per.rgm", "local.counts", "--top", "9").stdout
    assert run("rank", "per.rgm", "spark.counts", "--top", "9", *spark).stdout == local != ""
    assert run("score", "per.rgm", "spark.counts", "--out", "scores", *spark).returncode == 0
    assert pq.read_table(tmp_path / "scores").column_names == ["ngram", "log_ratio"]
    documents = str(folder / "parquet" / "3.parquet")
    same = run("evaluate", "per.rgm", documents, "--k", "50", "--json").stdout
    assert run("evaluate", "per.rgm", documents, "--k", "50", "--json", *spark).stdout == same != ""


@thorough
def test_a_master_that_is_not_there_is_named(tmp_path, folder):
    command = [RAREGRAM, "count", str(folder / "jsonl"), "--out", "x", "--engine", "spark", "--master", "nonsense"]
    done = run_process(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_java_the_error_names_it(monkeypatch, tmp_path, folder):
    """A machine without Java, as far as a process can tell."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname", "uname", "python3", "env", "ps", "tr", "grep", "cat"):
        if shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    command = [RAREGRAM, "count", str(folder / "jsonl"), "--out", "x", "--engine", "spark", "--master", "local[1]"]
    done = run_process(
        command, cwd=tmp_path, capture_output=True, text=True, env={**environment, "PATH": str(tmp_path / "bin")}
    )
    assert done.returncode == 1
    assert "raregram: error: Spark needs Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_pyspark_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'raregram\[spark\]'"):
        rg.count("x.jsonl", engine="spark")


def test_settings_are_checked_before_spark_starts(tmp_path):
    code, _, error = run("count", "x.jsonl", "--out", "y", "--engine", "spark", "--spark", "executor.memory")
    assert code == 2
    assert "--spark takes spark.NAME=VALUE" in error

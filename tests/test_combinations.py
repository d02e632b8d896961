"""Valid input in unusual combinations: whatever the files, their columns, batches and formats, the result is one.

Examples are drawn from the lists of `combinations.py`. What a command does is compared with the library on plain
Python objects, and what it wrote is read back by other libraries.
"""

from __future__ import annotations

import json
import math
import os
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pyarrow.types import is_nested

import raregram as rg
from combinations import (
    CONTEXT_READERS,
    DOCUMENT_READERS,
    SCORE_WRITERS,
    Document,
    Row,
    Writer,
    document_table,
    line_of,
    read_csv,
    read_json,
    read_lines,
    read_parquet,
    run,
    text_of,
)
from raregram.corpus import contexts as reading
from raregram.corpus.documents import expand
from raregram.corpus.formats import FORMATS, recognise
from raregram.corpus.formats import csv as csv_format
from raregram.errors import InputError, RaregramWarning
from raregram.measure.evaluate import evaluate
from raregram.serve.metrics import Metrics
from raregram.serve.registry import Registry
from raregram.show import write as writing
from raregram.text import shapes

WORDS = ["a", "b", "é", "New", "York", "\\x41", "C:\\temp", "\x1b[31m", "\x9b2J", "😀", "z\ufeff", "a\u200cb", '"q"']
SPACED = ["New York", "York in", "x\u00a0y", "tab\tted", "two\nlines", "\u2028", "\r"]  # in lists alone
LETTERS = [*"abé😀 \\xu", "\x1b", "\u00a0"]
BREAKS = ["\n", "\t", "\r", "\u2028"]  # not in lines of text
LABELS = ["LOC", "PER", "O", "", None, "a,b", "x=y", "\x1b[2J", "é"]
ESTIMATORS = ["selective", "product", "backoff", "mle", "direct", "smoothed"]
NUMBERS = {"log_ratio", "lower", "upper"}


# --- drawing -----------------------------------------------------------------------------------------------------


@st.composite
def tables(draw, kind: str, n: int, labelled: bool | None = None, readers=CONTEXT_READERS):
    """Files of contexts: a reader, its columns in some order, and rows that it can hold."""
    files = []
    for _ in range(draw(st.integers(1, 3))):
        reader = draw(st.sampled_from(readers))
        items = WORDS if kind == "words" else LETTERS
        if reader.lists and kind == "words":
            items = items + SPACED
        elif reader.any_text and kind == "letters":
            items = items + BREAKS
        labels = st.sampled_from(LABELS)
        columns = ["ngram"]
        columns += ["label"] if (draw(st.booleans()) if labelled is None else labelled) else []
        columns += draw(st.sets(st.sampled_from(["note", "year"]))) if reader.columns else []
        columns += ["log_ratio"] if reader.columns and draw(st.integers(0, 15)) == 0 else []
        notes = st.sampled_from(["", "x", 'a,"b"\nc'])
        more = st.fixed_dictionaries({"note": notes, "year": st.integers(-5, 5), "log_ratio": notes})
        contexts = st.lists(st.sampled_from(items), min_size=n, max_size=n).map(tuple)
        rows = draw(st.lists(st.builds(Row, contexts, labels, more), min_size=1, max_size=8))
        files.append((reader, draw(st.permutations(columns)), rows))
    if len(files) > 1 and all(not reader.columns and len(rows) == 1 for reader, _, rows in files):
        rows.append(rows[0])  # files of a line each are taken for texts
    return files


@lru_cache
def trained(kind: str, n: int, estimator: str, pad: bool = False) -> rg.Model:
    """A model that knows some of the items."""
    source = random.Random(f"{kind} {n}")
    items = [*WORDS[:6], "New York", "York in"] if kind == "words" else LETTERS
    contexts = [[source.choice(items) for _ in range(n)] for _ in range(60)]
    labels = ["LOC" if source.random() < (0.8 if row[-1] == items[0] else 0.2) else None for row in contexts]
    counts = rg.Counts.from_contexts(contexts, labels, kind=kind, spans=["suffixes:2", "shapes:2", "whole"])
    return rg.fit(replace(counts, pad=pad), "LOC", estimator)


@contextmanager
def written(files, kind: str) -> Iterator[tuple[Path, list[str]]]:
    """The files in a new folder, which is the current one meanwhile."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = [f"{number}.{reader.name}" for number, (reader, *_) in enumerate(files)]
        for path, (reader, *content) in zip(names, files, strict=True):
            if kind:
                order, rows = content
                reader.write(folder / path, rows, kind, order)
            else:
                reader.write(folder / path, *content)
        os.chdir(folder)
        try:
            yield folder, names
        finally:
            os.chdir(before)


@contextmanager
def blocks(small: bool) -> Iterator[None]:
    """Read contexts as usual, or a few at a time."""
    if not small:
        yield
        return
    with patch.multiple(reading, READ_BYTES=11, ROWS=2), patch.object(csv_format, "LONGEST_ROW", 160):
        yield


def said_plainly(code: int, error: str) -> bool:
    return code in (1, 2) and error.startswith("raregram: error: ") and error.count("\n") == 1


# --- contexts ----------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.data())
def test_scores_are_those_of_the_library_whatever_the_files(data):
    """Every reader x every writer: rows in order, columns by name, missing ones empty, numbers to the last bit."""
    kind, n = data.draw(st.sampled_from(["words", "letters"])), data.draw(st.integers(1, 3))
    model = trained(kind, n, data.draw(st.sampled_from(ESTIMATORS)))
    interval = data.draw(st.booleans()) and model.estimator.has_variance
    files, writer = data.draw(tables(kind, n)), data.draw(st.sampled_from(SCORE_WRITERS))
    columns = [column for _, order, _ in files for column in order]
    with written(files, kind) as (folder, names), blocks(data.draw(st.booleans())):
        model.save("model.rgm")
        before = set(folder.iterdir())
        with output(writer) as (options, read):
            code, out, error = run("score", "model.rgm", *names, *["--interval"] * interval, *options, "-q")
            found = [] if code else read(out)
        if code:
            assert said_plainly(code, error)
            assert set(folder.iterdir()) == before
            if "log_ratio" in columns and writer.read is not read_lines:
                assert "--as" in error
            else:  # nothing fits into a table with a column of two types
                assert writer.name == "parquet"
                assert len({column_type(name, column) for name, (_, order, _) in zip(names, files, strict=True)
                            for column in ("ngram", "year") if column in order}) > 1  # fmt: skip
            return
    assert error == ""
    assert "log_ratio" not in columns or writer.read is read_lines
    expected = expected_rows(files, model, interval, writer)
    assert [*map(by_name, found)] == [*map(by_name, expected)]
    if writer.read is not read_lines:
        assert [list(row)[-1 - 2 * interval] for row in found] == ["log_ratio"] * len(found)


def by_name(row: dict) -> str:
    """A row as text, whatever the order of its columns: NaN, no evidence, is not even equal to itself."""
    return repr(sorted(row.items()))


@contextmanager
def output(writer: Writer):
    """The options of a writer, and a function that reads what was written."""
    if writer.name != "an open file":
        path = Path(writer.options[-1]) if "--out" in writer.options else None
        yield writer.options, lambda out: writer.read(out if path is None else path.read_bytes())
        return
    with tempfile.TemporaryFile("a+b") as log:
        log.write(b"before\n")
        log.flush()

        def read(_):
            log.seek(0)
            before, _, after = log.read().partition(b"\n")
            assert before == b"before"
            return writer.read(after)

        yield ("--out", f"/dev/fd/{log.fileno()}"), read


def column_type(path: str, column: str) -> pa.DataType:
    return pq.read_schema(path).field(column).type if path.endswith(".parquet") else pa.string()


def expected_rows(files, model: rg.Model, interval: bool, writer: Writer) -> Iterator[dict]:
    """The rows that a writer is to give."""
    kind = model.settings.kind
    names = list(dict.fromkeys(name for _, order, _ in files for name in order))
    labelled = "label" in names
    for reader, order, rows in files:
        from_text = reader.name.startswith("csv") or not reader.columns
        for row in rows:
            values = {"ngram": list(row.items) if reader.lists else text_of(row.items, kind), "label": row.label}
            values = {name: values.get(name, row.more.get(name)) for name in order}
            if from_text:  # which has neither numbers nor missing values
                values = {name: "" if value is None else str(value) for name, value in values.items()}
            scores = {"log_ratio": float(model.log_ratio([list(row.items)])[0])}
            if interval:
                scores |= dict(zip(("lower", "upper"), model.interval([list(row.items)])[0].tolist(), strict=True))
            if writer.read is read_lines:
                label = [line_of([values.get("label") or ""], "letters")] if labelled else []
                numbers = [shown(round(score, 4)) for score in scores.values()]
                yield {"fields": [*numbers, *label, line_of(row.items, kind)]}
                continue
            result = {name: values.get(name) for name in names} | scores
            if writer.name == "csv":
                result["ngram"] = line_of(row.items, kind) if reader.lists else result["ngram"]
                result = {k: shown(v) if k in NUMBERS else "" if v is None else str(v) for k, v in result.items()}
            elif "json" in writer.name.lower():
                result = {k: v if k not in NUMBERS or math.isfinite(v) else str(v) for k, v in result.items()}
            yield result


def shown(number: float) -> str:
    """A number as Arrow writes it."""
    return pa.array([number]).cast(pa.string())[0].as_py()


@settings(max_examples=60)
@given(st.data())
def test_counts_and_models_are_those_of_the_library_whatever_the_files(data):
    """Every reader of contexts x count and fit: one table, whatever the files, their order and their blocks."""
    kind, n = data.draw(st.sampled_from(["words", "letters"])), data.draw(st.integers(1, 3))
    files = data.draw(tables(kind, n, labelled=True))
    rows = [row for _, _, some in files for row in some]
    spans = data.draw(st.sampled_from([["units"], ["suffixes:2", "whole"], ["suffixes:2", "shapes:2"]]))
    labels = sorted({row.label for row in rows} - {None, "", "O"})
    wanted = data.draw(st.sets(st.sampled_from(labels))) if labels else set()
    chosen = {"kind": kind, "spans": spans, "side": data.draw(st.sampled_from(["left", "right"]))}
    options = ["--kind", kind, "--spans", ",".join(spans), "--side", chosen["side"]]
    named = ["--targets", ",".join(name.replace(",", r"\,").replace("=", r"\=") for name in sorted(wanted))]
    expected = rg.Counts.from_contexts(
        [list(row.items) for row in rows], [row.label for row in rows], targets=sorted(wanted) or None, **chosen
    )
    with written(files, kind) as (_, names), blocks(data.draw(st.booleans())):
        for order in (names, names[::-1]):
            code, _, error = run("count", *order, *options, *(named if wanted else []), "--out", "all.counts", "-q")
            assert (code, error) == (0, "")
            assert rg.Counts.load("all.counts") == expected
        code, out, _ = run("info", "all.counts", "--json")
        facts = json.loads(out)
        assert (facts["digest"], facts["contexts"]) == (expected.digest(), len(rows))
        assert facts["targets"] == dict(zip(expected.targets, expected.totals[1:].tolist(), strict=True))
        if expected.targets and 0 < expected.totals[1] < expected.totals[0]:
            target = expected.targets[0]
            estimator = "backoff" if "shapes:2" in spans else "product"
            fitting = ["--target", target, "--estimator", estimator]
            code, _, error = run("fit", "all.counts", *fitting, "--out", "m.rgm", "-q")
            assert (code, error) == (0, "")
            model = rg.fit(expected, target, estimator)
            probes = [list(row.items) for row in rows]
            assert rg.Model.load("m.rgm").log_ratio(probes).tolist() == model.log_ratio(probes).tolist()
            items = (WORDS if kind == "words" else LETTERS)[:n]
            code, out, _ = run("explain", "m.rgm", text_of(items, kind), "--json")
            assert json.loads(out) == [json.loads(json.dumps(model.explain(items).to_dict()))]


@settings(max_examples=80)
@given(st.data())
def test_a_ranking_has_each_ngram_once_whatever_the_files(data):
    kind, n = data.draw(st.sampled_from(["words", "letters"])), data.draw(st.integers(1, 3))
    model = trained(kind, n, data.draw(st.sampled_from(ESTIMATORS[:4])))
    files, top = data.draw(tables(kind, n)), data.draw(st.integers(1, 12))
    types = sorted({row.items for _, _, rows in files for row in rows})
    scores = model.log_ratio([list(items) for items in types]).tolist()
    pairs = sorted(
        zip(scores, (line_of(items, kind) for items in types), strict=True),
        key=lambda pair: (math.isnan(pair[0]), 0 if math.isnan(pair[0]) else -pair[0], pair[1].encode()),
    )
    with written(files, kind) as (_, names), blocks(data.draw(st.booleans())):
        model.save("model.rgm")
        code, out, error = run("rank", "model.rgm", *names, "--top", top, "--json", "-q")
        assert (code, error) == (0, "")
        found = [(float(row["log_ratio"]), row["ngram"]) for row in json.loads(out)]
        assert str(found) == str(pairs[:top])
        _, out, _ = run("rank", "model.rgm", *names, "--top", top, "-q")
        texts = [text.replace(" ", "␣") if kind == "letters" else text for _, text in pairs[:top]]
        assert [line.split("\t")[2] for line in out.decode().split("\n")[:-1]] == texts


# --- documents ---------------------------------------------------------------------------------------------------

DOCUMENT_WORDS = ["a", "b", "I", "é", "New", "York", "😀", "in", "12"]


@st.composite
def corpora(draw):
    """Files of documents: a reader, and documents that it can hold."""
    files = []
    for _ in range(draw(st.integers(1, 3))):
        reader = draw(st.sampled_from(DOCUMENT_READERS))
        words = DOCUMENT_WORDS + ["New York", "x\u00a0y"] * reader.lists
        short = draw(st.booleans())
        items = st.sampled_from([word for word in words if len(word) == 1] if short else words)
        files.append((reader, draw(st.lists(documents(items), min_size=1, max_size=4))))
    return files


@st.composite
def documents(draw, items):
    content = tuple(draw(st.lists(items, min_size=1, max_size=9)))
    spans, place = [], 0
    while place < len(content) and draw(st.booleans()):
        start = draw(st.integers(place, len(content) - 1))
        end = draw(st.integers(start + 1, len(content)))
        spans.append((start, end, draw(st.sampled_from(["LOC", "PER"]))))
        place = end + 1
    return Document(content, tuple(spans))


PLANS = st.fixed_dictionaries(
    {
        "n": st.integers(1, 3),
        "kind": st.sampled_from(["words", "letters"]),
        "side": st.sampled_from(["left", "right"]),
        "pad": st.booleans(),
        "spans": st.sampled_from([["units"], ["suffixes:2", "whole"], ["suffixes:3", "shapes:2"]]),
    }
)


def counted(source, **chosen) -> rg.Counts | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RaregramWarning)  # some have no spans, or none with a target
        try:
            return rg.count(source, **chosen)
        except InputError as error:
            if "no document is long enough" not in str(error):
                raise
            return None


@settings(max_examples=100)
@given(corpora(), PLANS, st.sampled_from([None, 1 << 16, 1]), st.sampled_from([1, 3]))
def test_documents_are_counted_the_same_whatever_they_come_from(files, plan, batch_bytes, threads):
    """Every reader of documents, objects in memory, batches, threads, limits: one table, and it is additive."""
    # Without any name in it, text with elements is plain text, of which no target can be counted.
    assume(any(each.spans for _, some in files for each in some) or any(r.name != "elements" for r, _ in files))
    mappings = [each.mapping("items") for _, some in files for each in some]
    chosen = {**plan, "targets": ["LOC", "PER"]}
    expected = counted(mappings, **chosen)
    with written(files, "") as (folder, names):
        for paths in (names, names[::-1], [folder]):
            assert counted(paths, threads=threads, **chosen) == expected
        small = {} if batch_bytes is None else {"batch_bytes": batch_bytes}
        assert counted(names, memory_limit=1 << 20, **small, **chosen) == expected
        values = {**plan, "spans": ",".join(plan["spans"]), "targets": "LOC,PER"}
        options = [f"--{name}={value}" for name, value in values.items() if name != "pad"] + ["--pad"] * plan["pad"]
        code, _, error = run("count", *names, *options, "-o", "c", "-q")
        assert code == (expected is None)
        assert expected is None or rg.Counts.load("c") == expected
        assert expected is None or all(line.startswith("raregram: warning: ") for line in error.splitlines())
    rows = [each for _, some in files for each in some]
    table = document_table(rows, pa.list_(pa.string()))
    for source in (table, table.to_pandas().set_index(pd.Index([f"row {i}" for i in range(len(rows))], name="text"))):
        assert counted(source, **chosen) == expected
    parts = [part for part in (counted([mapping], **chosen) for mapping in mappings) if part is not None]
    assert (sum(parts[1:], start=parts[0]) if parts else None) == expected
    if all(" " not in item and "\u00a0" not in item for each in rows for item in each.items):
        assert counted([each.mapping("text") for each in rows], **chosen) == expected


@settings(max_examples=60)
@given(st.data())
def test_documents_are_scored_and_evaluated_the_same_whatever_they_come_from(data):
    """Items or text, words or letters, Parquet or JSON: the log ratios of all contexts, by hand from the library."""
    kind, n = data.draw(st.sampled_from(["words", "letters"])), data.draw(st.integers(1, 3))
    model = trained(kind, n, data.draw(st.sampled_from(ESTIMATORS)), pad=data.draw(st.booleans()))
    files = [(reader, rows) for reader, rows in data.draw(corpora()) if reader.name.endswith(".parquet")]
    assume(files)
    writer = data.draw(st.sampled_from([each for each in SCORE_WRITERS if each.read in (read_json, read_parquet)]))
    rows = [each for _, some in files for each in some]
    with written(files, "") as (folder, names):
        model.save("model.rgm")
        code, out, error = run("score", "model.rgm", *names, *writer.options, "-q")
        if code:
            assert writer.name == "parquet"
            assert said_plainly(code, error)
        else:
            found = writer.read(out if "--out" not in writer.options else (folder / writer.options[-1]).read_bytes())
            expected = [str(score) for each in rows for score in scored_by_hand(model, each)]
            assert [str(float(row["log_ratio"])) for row in found] == expected
        layout = {name: getattr(model.settings, name) for name in ("n", "kind", "side", "pad")}
        counts = counted([each.mapping("items") for each in rows], targets=["LOC"], spans=["whole"], **layout)
        if counts is not None and counts.totals[1]:
            code, out, error = run("evaluate", "model.rgm", *names, "--k", 5, "--json")
            assert (code, error) == (0, "")
            assert json.loads(out) == json.loads(json.dumps(evaluate(model, counts, k=5).to_dict()))


def scored_by_hand(model: rg.Model, document: Document) -> list[float]:
    s = model.settings
    items = list(document.items if s.kind == "words" else document.text)
    if s.pad:
        items = [""] * s.n + items
        return model.log_ratio([items[place : place + s.n] for place in range(len(items) - s.n + 1)]).tolist()
    return model.log_ratio([items[max(end - s.n, 0) : end] for end in range(1, len(items) + 1)]).tolist()


# --- types of columns --------------------------------------------------------------------------------------------

MOMENT = datetime(2021, 11, 5, 12, 30, 1, 123456, tzinfo=UTC)
VALUES = {
    pa.null(): [None, None],
    pa.bool_(): [True, None],
    **{kind: [7, None] for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())},
    pa.float16(): [np.float16(1.5), None],
    pa.float32(): [1.5, float("inf")],
    pa.float64(): [float("-inf"), 1e300],
    **{kind: ["a\nb", None] for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{kind: [b"\xff\x00", None] for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))},
    **{pa.timestamp(unit): [MOMENT.replace(tzinfo=None, microsecond=0), None] for unit in ("ms", "us", "ns")},
    pa.timestamp("us", "UTC"): [MOMENT, None],
    pa.timestamp("ns", "Europe/Paris"): [MOMENT, None],
    pa.date32(): [date(1987, 4, 7), None],
    **{kind: [MOMENT.time(), None] for kind in (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{pa.duration(unit): [timedelta(seconds=3), None] for unit in ("s", "ms", "us", "ns")},
    **{kind: [Decimal("1.50"), None] for kind in (pa.decimal32(5, 2), pa.decimal128(20, 2), pa.decimal256(50, 2))},
    **{kind: [["x", None], None] for kind in (pa.list_(pa.string()), pa.large_list(pa.string()))},
    pa.list_(pa.int8(), 2): [[1, 2], None],
    pa.list_view(pa.string()): [["x", None], None],
    pa.list_(pa.timestamp("ns")): [[MOMENT.replace(tzinfo=None)], []],
    pa.list_(pa.list_(pa.decimal128(5, 2))): [[[Decimal("1.50")], None], None],
    pa.struct([("a", pa.int8()), ("b", pa.list_(pa.date32()))]): [{"a": 1, "b": [date(1987, 4, 7)]}, None],
    pa.map_(pa.string(), pa.int8()): [[("k", 1)], None],
    pa.dictionary(pa.int8(), pa.string()): ["x", None],
    pa.list_(pa.binary()): [[b"\xff"], None],
}
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.list_(pa.binary())]
NEVER_TEXT = [pa.list_view(pa.string()), *BINARY]


@pytest.mark.harness
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_columns_of_every_type_come_out_or_are_refused_before_anything_is_written(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    trained("words", 1, "selective").save("m.rgm")
    pq.write_table(pa.table({"ngram": ["a", "b"], "it": pa.array(VALUES[kind], kind)}), "in.parquet")
    column = pq.read_table("in.parquet")["it"].combine_chunks()
    there = sorted(os.listdir())  # noqa: PTH208
    for writer in SCORE_WRITERS:
        code, out, error = run("score", "m.rgm", "in.parquet", *writer.options, "-q")
        textual = writer.read in (read_csv, read_json)
        if (textual and kind in NEVER_TEXT) or (writer.read is read_csv and is_nested(kind)):
            assert said_plainly(code, error)
            assert f"'it' holds {column.type}" in error
            assert (sorted(os.listdir()), out) == (there, b"")  # noqa: PTH208
            continue
        assert (code, error) == (0, "")
        with output(writer) as (options, read):
            found = read(run("score", "m.rgm", "in.parquet", *options, "-q")[1])
        assert len(found) == 2
        if writer.name == "parquet":
            assert pq.read_table("out.parquet")["it"].combine_chunks().equals(column)
        elif textual and not is_nested(kind):
            texts = column.cast(pa.string()).to_pylist()
            assert [comparable(row["it"]) for row in found] == [comparable(text) for text in texts]
        if "--out" in writer.options:
            Path(writer.options[-1]).unlink()


def comparable(value) -> object:
    """A value that came back as text, or as a number or truth value of JSON."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return {None: "", "true": 1.0}.get(value, value)


@pytest.mark.harness
@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("name", ["label", "ngram", "text", "items", "f_nu", "spans", "id"])
def test_columns_with_a_meaning_of_every_type_are_read_or_refused(tmp_path, monkeypatch, kind, name):
    """A label may be a list, an N-gram a dictionary: whatever cannot be is said in a sentence, by every command."""
    monkeypatch.chdir(tmp_path)
    trained("words", 1, "selective").save("m.rgm")
    others = {"ngram": ["a", "b"], "label": ["LOC", "O"], "f_de": [1, 2]}
    others = {"text": {}, "items": {}, "spans": {"text": ["a", "b"]}, "id": {"text": ["a", "b"]}}.get(name, others)
    pq.write_table(pa.table({**others, name: pa.array(VALUES[kind], kind)}), "in.parquet")
    writers = {writer.read: writer for writer in SCORE_WRITERS}.values()  # one of each form
    commands = [("score", "m.rgm", "in.parquet", *writer.options, "-q") for writer in writers]
    commands += [("rank", "m.rgm", "in.parquet", "-q"), ("count", "in.parquet", "-n", 1, "-o", "c", "-q")]
    commands += [("fit", "in.parquet", "-o", "f.rgm", "-q"), ("evaluate", "m.rgm", "in.parquet")]
    for command in commands:
        code, _, error = run(*command)
        assert code == 0 or said_plainly(code, error), (command, error)
    assert not [name for name in os.listdir() if name.startswith(".")]  # noqa: PTH208


# --- the terminal ------------------------------------------------------------------------------------------------

HOSTILE = ["\x1b]0;title\x07", "\x9b31m", "new\nline", "tab\tbed", "back\rspace", "\u2028sep", "\x7f"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_nothing_in_labels_and_items_reaches_the_terminal_raw(tmp_path, monkeypatch, hostile):
    """Whatever prints: no control character but tabs and line ends, and a line for each row."""
    monkeypatch.chdir(tmp_path)
    labels = [hostile, "O", hostile, "O"]
    ngrams = [[hostile, "a"], ["b", "c"], ["a", hostile], ["c", "b"]]
    pq.write_table(pa.table({"ngram": ngrams, "label": labels}), "in.parquet")
    spans = [{"start": 1, "end": 2, "label": hostile}]
    pq.write_table(pa.table({"items": [["a", hostile, "b"]] * 3, "spans": [spans, spans, []]}), "docs.parquet")
    fit = ["fit", "in.parquet", "--target", hostile, "--estimator"]
    for command in [
        ["count", "in.parquet", "--spans", "units,whole", "-o", "c.counts"],
        ["count", "docs.parquet", "-n", 1, "--spans", "whole", "-o", "d.counts"],
        [*fit, "selective", "-o", "s.rgm"],
        [*fit, "backoff", "-o", "b.rgm"],
        ["info", "c.counts"], ["info", "s.rgm"], ["info", "b.rgm"],
        ["info", "c.counts", "--json"], ["info", "s.rgm", "--json"],
        ["score", "s.rgm", "in.parquet"], ["score", "b.rgm", "in.parquet", "--interval"],
        ["score", "s.rgm", "in.parquet", "--json"],
        ["rank", "s.rgm", "in.parquet"], ["rank", "s.rgm", "in.parquet", "--json"],
        ["explain", "b.rgm", "a x"],
        ["fit", "docs.parquet", "-o", "never"], ["fit", "c.counts", "--target", "none", "-o", "never"],
        ["merge", "c.counts", "d.counts", "-o", "never"],
        ["tune", "c.counts", "d.counts", "--target", hostile, "--sizes", "1", "--lams", "1e-3", "-o", "t.rgm"],
        ["rank", "s.rgm", "docs.parquet"], ["score", "s.rgm", f"no{hostile}file"],
    ]:  # fmt: skip
        _, out, error = run(*command)
        text = out.decode() + error
        raw = {letter for letter in text if (ord(letter) < 32 or 127 <= ord(letter) < 160) and letter not in "\n\t"}
        assert not raw, (command, text)
        assert "\u2028" not in text
        if command[1:] == ["s.rgm", "in.parquet"]:  # score and rank
            assert [line.count("\t") for line in text.splitlines()] == [2] * 4


# --- the service -------------------------------------------------------------------------------------------------


def of_an_unknown_shape(path: Path) -> None:
    with patch.dict(shapes.SHAPES, mine=shapes.SHAPES["words"]):
        counts = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None], spans=["shapes:1"], shape="mine")
        rg.fit(counts, "LOC", "backoff", longest=1).save(path)


def save_model(path: Path, lam: float) -> None:
    rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["LOC", None]), "LOC", lam=lam).save(path)


STATES = {  # of a model file that others write while it is served
    "good": lambda path: save_model(path, lam=1e-3),
    "another": lambda path: save_model(path, lam=1e-4),
    "a count file": lambda path: rg.Counts.from_contexts(["a b"], ["LOC"]).save(path),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(missing_ok=True),
    "not a model": lambda path: path.write_bytes(b"PAR1 of something else PAR1"),
    "of an unknown shape": of_an_unknown_shape,
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(list(STATES)), min_size=1, max_size=6))
@example(["of an unknown shape", "another"])
def test_whatever_a_model_file_becomes_the_last_good_one_answers(states):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.rgm")
        STATES["good"](path)
        metrics, lam, last, failures = Metrics(), 1e-3, "good", 0
        registry = Registry([path], metrics)
        for state in states:
            STATES[state](path)
            if state != "gone":
                os.utime(path, ns=(time.time_ns(), time.time_ns()))
            registry.refresh()
            lam = {"good": 1e-3, "another": 1e-4}.get(state, lam)
            assert registry.get("LOC").facts["lam"] == lam
            failures += state not in ("good", "another") and not state == last == "gone"
            assert b"raregram_model_reload_failures_total %.1f" % failures in metrics.exposition()
            last = state


def test_every_format_is_among_those_combined():
    """A new reader or writer is to be listed."""
    outs = [writer.options[-1] if "--out" in writer.options else None for writer in SCORE_WRITERS]
    forms = [writing.output_format(out, "--json" in w.options) for out, w in zip(outs, SCORE_WRITERS, strict=True)]
    assert set(forms) == set(writing.WRITERS)
    document = Document(("in", "Rome"), ((1, 2, "LOC"),))
    with written([(reader, [document]) for reader in DOCUMENT_READERS], "") as (_, names):
        found = {recognise(path) for path in expand(names)}
    assert found == set(FORMATS) - {
        "text",
        "csv",
        "reuters-json",
        "reuters-sgml",
        "sotu",
        "brown",
    }  # which have no labels of their own, or one for every word

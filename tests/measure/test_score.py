"""Scores and rankings of whatever `count` reads: where each stands, and the same from every format."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import raregram as rg
from raregram.cli import app
from raregram.errors import FileError, InputError, ParameterError
from raregram.options import SIDE

DOCUMENTS = [
    {"id": "first", "text": "she lives in Rome and he was in Oslo", "spans": [[3, 4, "LOC"], [8, 9, "LOC"]]},
    {"id": "second", "text": "it means that nothing changed", "spans": []},
    {"id": "third", "text": "in", "spans": []},
]
ADVICE = r"^'.*(?: does not exist|: File name too long)\. If it is a text .*\[\{'text': text\} for text in texts\]"
WORDS = st.lists(st.sampled_from(["in", "Rome", "said", "that", "Unheard", "é"]), max_size=8)


@pytest.fixture(scope="module")
def models():
    """A model of each side and kind of items, and one with pads."""

    def fitted(**options):
        return rg.fit(rg.count(DOCUMENTS, n=3, targets=["LOC"], **options), "LOC")

    made = {side: fitted(side=side) for side in SIDE.choices}
    return {**made, "letters": fitted(kind="letters"), "padded": fitted(pad=True)}


def expected_scores(model, items):
    """The score of each boundary by its own context, cut out by hand."""
    s, scores = model.settings, {}
    for position in range(len(items) + 1):
        context = items[max(position - s.n, 0) : position] if s.side == "left" else items[position : position + s.n]
        if s.pad:
            context = [""] * (s.n - len(context)) + context
        if context:
            scores[position] = model.log_ratio([context])[0]
    return scores


@pytest.mark.parametrize("name", ["left", "right", "letters", "padded"])
@settings(max_examples=40)
@given(texts=st.lists(WORDS, min_size=1, max_size=4))
def test_every_boundary_has_the_score_of_the_items_beside_it(models, name, texts):
    model = models[name]
    split = list if name == "letters" else str.split
    documents = [{"id": str(row), "text": " ".join(words)} for row, words in enumerate(texts)]
    expected = [
        (document["id"], position, score)
        for document in documents
        for position, score in expected_scores(model, split(document["text"])).items()
    ]
    if not expected:
        with pytest.raises(InputError, match="there is nothing to score in the documents"):
            rg.score(model, documents)
        return
    found = list(rg.score(model, documents, interval=True))
    assert [(row["document"], row["position"], row["log_ratio"]) for row in found] == expected
    for row in found:
        items = split(documents[int(row["document"])]["text"])
        between = "" if name == "letters" else " "
        assert (row["left"] + between + row["right"]).strip() in between.join(items)
        assert row["lower"] <= row["log_ratio"] <= row["upper"]
    ranked = list(rg.rank(model, documents, top=3))
    best = sorted(expected, key=lambda row: (-row[2], row[0], row[1]))[:3]
    assert [(row["document"], row["position"], row["log_ratio"]) for row in ranked] == best
    assert [row["rank"] for row in ranked] == list(range(1, len(best) + 1))


@pytest.fixture
def files(tmp_path):
    """The same three documents in formats that people have."""
    lines = [json.dumps(document) + "\n" for document in DOCUMENTS]
    (tmp_path / "pool.jsonl").write_text("".join(lines))
    spans = [[{"start": a, "end": b, "label": c} for a, b, c in document["spans"]] for document in DOCUMENTS]
    columns = {"id": [d["id"] for d in DOCUMENTS], "items": [d["text"].split() for d in DOCUMENTS], "spans": spans}
    pq.write_table(pa.table(columns), tmp_path / "tagged.parquet")
    (tmp_path / "texts").mkdir()
    for document in DOCUMENTS:
        (tmp_path / "texts" / f"{document['id']}.txt").write_text(document["text"] + "\n")
    tags = [{start: f"B-{label}" for start, _, label in document["spans"]} for document in DOCUMENTS]
    sentences = (
        "".join(f"{word} {tag.get(k, 'O')}\n" for k, word in enumerate(document["text"].split()))
        for document, tag in zip(DOCUMENTS, tags, strict=True)
    )
    (tmp_path / "ner.conll").write_text("\n".join(sentences))
    return tmp_path


@pytest.mark.parametrize("name", ["pool.jsonl", "tagged.parquet", "texts", "texts/*.txt", "ner.conll", "pool.json*"])
def test_whatever_count_reads_is_scored_and_ranked(models, files, name):
    expected = rg.score(models["left"], DOCUMENTS)
    found = rg.score(models["left"], files / name)
    for column in ("position", "log_ratio", "left", "right"):
        assert found[column].to_pylist() == expected[column].to_pylist()
    ranked = rg.rank(models["left"], files / name, top=4)
    assert ranked["log_ratio"].to_pylist() == sorted(expected["log_ratio"].to_pylist(), reverse=True)[:4]
    named = set(found["document"].to_pylist())
    if name.startswith(("pool", "tagged")):
        assert named == {"first", "second", "third"}
    else:
        assert len(named) == 3
        assert all(name.partition("/")[0] in document for document in named)


def test_tables_come_from_every_library_and_go_there(models):
    import duckdb
    import pandas as pd
    import polars as pl

    model = models["left"]
    table = pa.table({"ngram": ["lives in", "she said that", "in"], "mine": [1, 2, 3]})
    expected = model.log_ratio(table["ngram"]).tolist()
    polars = pl.DataFrame(table)
    forms = [table.to_batches()[0], table.to_reader(), table.to_pandas(), Capsule(table), polars, polars.lazy()]
    for form in (table, *forms, duckdb.sql("select * from polars")):
        scored = rg.score(model, form)
        assert scored.columns == ["ngram", "mine", "log_ratio"]
        assert scored["log_ratio"].to_pylist() == expected
    assert pa.table(scored).equals(scored.to_arrow())
    assert pl.DataFrame(scored)["log_ratio"].to_list() == expected
    assert duckdb.sql("select log_ratio from scored order by mine").fetchall() == [(value,) for value in expected]
    assert pd.DataFrame(scored.to_pandas())["log_ratio"].tolist() == expected
    other = table.rename_columns(["gram", "mine"])
    for form in (other, other.to_pandas()):
        assert rg.score(model, form, columns={"ngram": "gram"})["log_ratio"].to_pylist() == expected
    documents = {"text": ["she lives in"], "spans": [[{"start": 0, "end": 1, "label": "LOC"}]]}
    for form in (pa.table(documents), pd.DataFrame(documents), pl.DataFrame(documents)):
        assert rg.score(model, form)["position"].to_pylist() == [1, 2, 3]
        assert rg.count(form, n=1, targets=["LOC"], side="right").totals.tolist() == [3, 1]


def test_a_column_that_is_there_is_not_replaced(models):
    table = pa.table({"ngram": ["lives in"], "log_ratio": [99.0]})
    with pytest.raises(ParameterError, match="the table has a column 'log_ratio' already: rename it"):
        rg.score(models["left"], table)
    ends = table.rename_columns(["ngram", "lower"])
    assert rg.score(models["left"], ends).columns == ["ngram", "lower", "log_ratio"]
    with pytest.raises(ParameterError, match="has a column 'lower' already"):
        rg.score(models["left"], ends, interval=True)


def test_a_column_alone_is_texts(models):
    import pandas as pd
    import polars as pl

    model, texts = models["left"], [document["text"] for document in DOCUMENTS]
    wrapped = [{"text": text} for text in texts]
    expected = rg.score(model, wrapped)["log_ratio"].to_pylist()
    counted = rg.count(wrapped, n=1, targets=[])
    series = [pd.Series(texts, index=[5, 5, 7], dtype=kind) for kind in (object, "string", "category")]
    arrays = [pa.array(texts), pa.array(texts, pa.large_string()), pa.chunked_array([texts[:1], texts[1:]])]
    for form in (*series, *arrays, pl.Series("ngram", texts), pd.Series(wrapped), pa.array(wrapped)):
        assert rg.score(model, form)["log_ratio"].to_pylist() == expected
        assert rg.rank(model, form, top=1)["document"].to_pylist() == ["the table, row 1"]
        assert rg.count(form, n=1, targets=[]) == counted
        assert rg.count(numerator=form, denominator=form, n=1).totals.tolist() == [
            2 * counted.totals[0],
            counted.totals[0],
        ]
        assert rg.kwic(form, "in")["document"].to_pylist()
    labelled = pd.Series([{"text": "so it is Rome", "spans": [{"start": 3, "end": 4, "label": "LOC"}]}])
    assert rg.evaluate(model, labelled).overall.relevant == 1
    for wrong, message in (([1, 2], "must hold strings, not int64"), (["a", 1], "a Series must hold texts")):
        with pytest.raises(InputError, match=message):
            rg.count(pd.Series(wrong, dtype=object), n=1)
    with pytest.raises(InputError, match="the table, row 2: text is missing"):
        rg.score(model, pd.Series(["she lives in", None]))


@pytest.mark.parametrize("text", ["she lives in Rome", "so it\ngoes", "she lives in Rome. " * 40, "x" * 300, ""])
def test_a_text_that_is_taken_for_a_path_is_named_with_advice(models, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (rg.count, rg.compare, lambda source: rg.score(models["left"], source)):
        sources = (text, [text], [Path(__file__), text])
        for source in sources if use is not rg.compare else [(text, text)]:
            with pytest.raises(FileError, match=ADVICE):
                use(*source) if use is rg.compare else use(source)


def test_only_what_looks_like_a_text_gets_that_advice(models):
    with pytest.raises(FileError, match=r"^no/such\.txt does not exist$"):
        rg.score(models["left"], "no/such.txt")
    with pytest.raises(InputError, match=r"document 1 is a string\. If it is a text .* wrap it"):
        rg.count((text for text in ["she lives in Rome"]), n=1)


class Capsule:
    """A table of some library that is known by its Arrow interface alone."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_results_show_themselves(models):
    results = rg.score(models["left"], DOCUMENTS)
    head, first, *_ = repr(results).splitlines()
    assert head.split() == ["document", "position", "left", "right", "log_ratio"]
    assert first.split()[:4] == ["first", "1", "she", "lives"]
    assert "<td" in results._repr_html_()
    many = rg.score(models["left"], DOCUMENTS * 50)
    assert len(repr(many).splitlines()) == 22
    assert repr(many).endswith(f"{len(many)} rows")
    assert "&lt;b&gt;" in rg.score(models["left"], [{"text": "<b> in"}])._repr_html_()


# The command line


@pytest.fixture
def run(models, files, monkeypatch):
    monkeypatch.chdir(files)
    models["left"].save("loc.rgm")

    def call(*arguments, code=0, text=None):
        done = CliRunner().invoke(app, list(map(str, arguments)), input=text)
        failed = isinstance(done.exception, rg.errors.RaregramError)
        assert (1 if failed else done.exit_code) == code, (done.output, done.exception)
        return str(done.exception) if failed else done.stdout

    return call


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_scores_are_written_by_the_end_of_the_name(run, models, end):
    run("score", "loc.rgm", "texts", "--out", f"scores.{end}", "--quiet")
    read = {
        "csv": pyarrow.csv.read_csv,
        "parquet": pq.read_table,
        "jsonl": lambda path: pa.Table.from_pylist(list(map(json.loads, Path(path).read_text().splitlines()))),
    }[end]
    found, expected = read(f"scores.{end}"), rg.score(models["left"], "texts")
    assert found.to_pylist() == list(expected)
    run("rank", "loc.rgm", "texts", "--top", 2, "--out", f"best.{end}", "--quiet")
    assert read(f"best.{end}").to_pylist() == list(rg.rank(models["left"], "texts", 2))


def test_rank_prints_where_the_best_boundaries_stand(run):
    lines = run("rank", "loc.rgm", "texts", "--top", 2, "--quiet").splitlines()
    ranks, scores, documents, positions, around = zip(*(line.split("\t") for line in lines), strict=True)
    assert ranks == ("1", "2")
    assert all(float(score) > 0 for score in scores)
    assert set(documents) == {"texts/first.txt"}
    assert set(positions) == {"3", "8"}
    assert {line.strip() for line in around} == {
        "she lives in ‖ Rome and he was in", "she lives in Rome and he was in ‖ Oslo"
    }  # fmt: skip
    assert len({line.index("‖") for line in around}) == 1  # below each other
    assert [row["position"] for row in json.loads(run("rank", "loc.rgm", "texts", "--top", 2, "--json"))] == [
        int(position) for position in positions
    ]


def test_explain_shows_the_best_boundaries_of_documents(run):
    shown = run("explain", "loc.rgm", "--in", "texts", "--top", 1)
    assert shown.splitlines()[0].startswith("texts/first.txt, position ")
    assert "longest suffix with evidence: " in shown
    assert "explain takes N-grams, or documents with --in" in run("explain", "loc.rgm", code=1)
    (found,) = json.loads(run("explain", "loc.rgm", "lives in", "--json"))
    assert found["ngram"] == ["lives", "in"]


def test_a_text_file_is_running_text_unless_its_lines_have_n_items(run, files):
    (files / "lines.txt").write_text("she lives in\nit means that\n")
    (files / "text.txt").write_text("she lives in Rome\nit means that\n")
    assert len(run("score", "loc.rgm", "lines.txt", "--quiet").splitlines()) == 2
    done = CliRunner().invoke(app, ["score", "loc.rgm", "text.txt"])
    assert len(done.stdout.splitlines()) == 7
    assert "reading text.txt as running text; --format contexts reads one context a line" in done.stderr
    assert len(run("score", "loc.rgm", "text.txt", "--format", "contexts").splitlines()) == 2
    assert len(run("score", "loc.rgm", "lines.txt", "--format", "text", "--quiet").splitlines()) == 6
    assert run("score", "loc.rgm", text="lives in\nin\n\n").splitlines()[2] == "0\t"


@pytest.mark.parametrize("command", ["score", "rank"])
def test_what_cannot_be_read_is_skipped_and_counted(run, files, command):
    (files / "bad.jsonl").write_text('{"text": "she lives in"}\n{"text": 3}\n{"text": "in Rome"}\n')
    (files / "bad.tsv").write_bytes(b"LOC\tshe lives in\nO\t\xff\nO\tit means that\nO\t\xfe\n")
    table = pa.table({"ngram": ["she lives in", None, "it means that"]})
    pq.write_table(table, files / "bad.parquet")
    for name, rows, skipped in (("bad.jsonl", 5, 1), ("bad.tsv", 2, 2), ("bad.parquet", 2, 1)):
        assert name in run(command, "loc.rgm", name, code=1)
        done = CliRunner().invoke(app, [command, "loc.rgm", name, "--on-error", "skip"])
        assert done.exit_code == 0
        assert len(done.stdout.splitlines()) == rows
        assert f"{skipped} " in done.stderr
        assert "skipped" in done.stderr
    model = rg.load("loc.rgm")
    with pytest.warns(UserWarning, match=r"1 .*skipped: bad.jsonl, line 2"):
        assert len(getattr(rg, command)(model, "bad.jsonl", on_error="skip")) == 5


def test_documents_and_contexts_are_not_mixed(run):
    Path("c.tsv").write_text("LOC\tshe lives in\n")
    message = "pool.jsonl holds documents and c.tsv contexts: score them one by one"
    assert message in run("score", "loc.rgm", "pool.jsonl", "c.tsv", code=1)
    Path("empty.txt").write_text("\n")
    assert len(run("score", "loc.rgm", "c.tsv", "empty.txt", "--format", "contexts").splitlines()) == 2
    assert len(run("score", "loc.rgm", "empty.txt", "c.tsv").splitlines()) == 2
    assert len(run("score", "loc.rgm", "empty.txt", "texts/third.txt").splitlines()) == 1


# The library


def test_fit_takes_paths_tables_and_documents(files, models):
    expected = rg.fit(rg.count(DOCUMENTS, targets=["LOC"], n=2), "LOC").log_ratio(["lives in"])
    labelled = pa.table({"ngram": ["lives in", "said that", "was in"], "label": ["LOC", None, "LOC"]})
    by_contexts = rg.fit(rg.Counts.from_contexts(labelled["ngram"], labelled["label"]))
    for form in (labelled, labelled.to_pandas(), Capsule(labelled)):
        np.testing.assert_array_equal(rg.fit(form).log_ratio(["lives in"]), by_contexts.log_ratio(["lives in"]))
    counts = rg.count(DOCUMENTS, targets=["LOC"], n=2)
    counts.save(files / "all.counts")
    for form in (counts, files / "all.counts", str(files / "all.counts")):
        np.testing.assert_array_equal(rg.fit(form, "LOC").log_ratio(["lives in"]), expected)
    long = [{"text": "so it goes on and on " * 2 + document["text"], "spans": []} for document in DOCUMENTS]
    assert rg.fit([{**long[0], "spans": [(15, 16, "LOC")]}, *long[1:]]).settings.n == 10
    for wrong in (3, None, object()):
        with pytest.raises((InputError, ParameterError), match="expected a count table, paths, a table or documents"):
            rg.fit(wrong)


def test_labels_may_be_truth_values_and_generators():
    contexts = ["he lives in", "she said that", "he was in"]
    expected = rg.Counts.from_contexts(contexts, ["target", None, "target"])
    forms = ([True, False, True], [1, 0, 1], np.array([True, False, True]), np.array([1, 0, 1], np.uint8))
    for labels in (*forms, pa.array([True, False, True]), iter([True, False, True])):
        assert rg.Counts.from_contexts(iter(contexts), labels) == expected
    many = rg.Counts.from_contexts(contexts, [3, 1, 3])
    assert many.targets == ("1", "3")


def test_tables_of_counts_go_to_other_libraries(models):
    counts = rg.Counts.from_contexts(["he lives in", "she said that"], ["LOC", None])
    table = counts.to_arrow()
    assert table.column_names[:4] == ["start", "end", "items", "total"]
    assert len(table) == sum(map(len, counts.rows.values())) == len(counts.to_pandas())
    assert pa.table(counts).equals(table)


def test_load_reads_models_and_counts(tmp_path, models):
    counts = rg.Counts.from_contexts(["he lives in", "she said that"], ["LOC", None])
    counts.save(tmp_path / "a")
    models["left"].save(tmp_path / "b")
    assert rg.load(tmp_path / "a") == counts
    assert rg.load(tmp_path / "b").settings == models["left"].settings


def test_the_ratio_is_the_exponential_of_the_log_ratio(models):
    probes = ["she lives in", "in", ""]
    np.testing.assert_array_equal(models["left"].ratio(probes), np.exp(models["left"].log_ratio(probes)))
    assert models["left"].ratio([""])[0] == 1.0
    assert math.isinf(rg.fit(DOCUMENTS_MLE, estimator="mle").ratio(["a"])[0])


DOCUMENTS_MLE = rg.Counts.from_contexts(["a", "b"], ["T", None], spans=["whole"])

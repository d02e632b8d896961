"""The Brown corpus and the State of the Union addresses, and one corpus cut into samples by field, folder or name."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raregram as rg
from conftest import as_dictionary
from raregram.corpus.documents import Options
from raregram.corpus.formats import read_documents, recognise, recognise_text
from raregram.corpus.formats.brown import parse_brown
from raregram.errors import InputError, ParameterError, RaregramWarning

TEXT = """

\tThe/at Fulton/np-tl jury/nn doesn't/doz* know/vb ``/`` and/or/cc ''/'' 1/2/cd of/in //in it/ppo ;/. ;/.


\tWhat's/wdt+bez his/pp$ ?/. ?/.
"""
WORDS = "The Fulton jury doesn't know `` and/or '' 1/2 of / it ; ; What's his ? ?".split()  # noqa: SIM905
TAGS = "at np-tl nn doz* vb `` cc '' cd in in ppo . . wdt+bez pp$ . .".split()  # noqa: SIM905


def read(source, **options):
    """Documents as (id, content, spans, sample)."""
    found = []
    for batch in read_documents(source, Options(**options)):
        ids = [None] * len(batch) if batch.ids is None else batch.ids.to_pylist()
        samples = [None] * len(batch) if batch.sample is None else batch.sample.to_pylist()
        spans = [[] for _ in ids]
        rows = zip(batch.span_document, batch.span_start, batch.span_end, batch.span_label.to_pylist(), strict=True)
        for row, start, end, label in rows:
            spans[row].append((int(start), int(end), label))
        found += zip(ids, batch.content.to_pylist(), spans, samples, strict=True)
    return found


@pytest.fixture
def brown(tmp_path):
    (tmp_path / "ca01").write_text(TEXT)
    for name, text in {"ca02": "a/at b/nn ./.", "ck01": "a/at c/nn ./.", "cr09": "a/at c/nn ./."}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_words_are_items_and_tags_are_labels(brown):
    name, items, spans, _ = read(brown)[0]
    assert name == "ca01"
    assert items == WORDS
    assert spans == [(place, place + 1, tag) for place, tag in enumerate(TAGS)]
    assert {recognise(str(path)) for path in brown.iterdir()} == {"brown"}
    (brown / "cb01").write_text("a/at b ./.")
    with pytest.raises(InputError, match=r"cb01: expected item/TAG, got '/b'"):
        rg.count(brown / "cb01", format="brown", n=1)


@pytest.mark.parametrize(
    "text",
    [
        "src/text/words docs/log/x and/or",  # paths
        "https://example.org/a, https://example.org/b.",
        "all is well, and/or not.",
        "in/O Paris/LOCATION ./O",
    ],
)
def test_other_texts_with_slashes_are_not_taken_for_it(text):
    assert recognise_text(text) != "brown"


@given(
    st.lists(
        st.tuples(st.text("ab/'.-é", min_size=1, max_size=4), st.sampled_from(["nn", "pp$", ".", "nn-tl", "doz*"])),
        min_size=1,
    )
)
def test_tags_come_off_at_the_last_slash(pairs):
    items, spans = parse_brown(" ".join(f"{word}/{tag}" for word, tag in pairs))
    assert items == [word for word, _ in pairs]
    assert spans == [(place, place + 1, tag) for place, (_, tag) in enumerate(pairs)]


def test_the_brown_corpus_is_cut_by_genre_which_is_the_letter_of_a_file(brown):
    assert [sample for *_, sample in read(brown, by="genre")] == ["news", "news", "fiction", "humor"]
    assert [sample for *_, sample in read(brown, by="file:^c(.)")] == ["a", "a", "k", "r"]
    assert [sample for *_, sample in read(brown, by="file:c.")] == ["ca", "ca", "ck", "cr"]
    assert [sample for *_, sample in read(brown / "ca0*", by="id")] == ["ca01", "ca02"]
    with pytest.raises(InputError, match=r"ca01 has no field 'party' to cut by; it has id, genre"):
        read(brown, by="party")
    (brown / "other").write_text("a/at b/nn ./.")
    with pytest.raises(InputError, match=r"other has no field 'genre' to cut by; it has id"):
        read(brown, by="genre")


def test_an_address_is_called_by_its_year_and_president(tmp_path):
    address = {"year": 1861, "name": "Abraham Lincoln", "party": "Republican", "text": "Fellow-Citizens"}
    (tmp_path / "1861_abraham_lincoln_r.json").write_text(json.dumps(address, separators=(",", ":")) + "\n")
    assert recognise(str(tmp_path / "1861_abraham_lincoln_r.json")) == "sotu"
    assert read(tmp_path, by="party") == [("1861 Abraham Lincoln", address["text"], [], "Republican")]
    with pytest.raises(InputError, match="no field 'state' to cut by; it has year, name, party, text"):
        read(tmp_path, by="state")


ROWS = [{"text": "a b c", "party": "x", "year": 1}, {"text": "a b", "party": "y", "year": 2}]
ROWS += [{"text": "b b b", "party": "x", "year": 2}, {"text": "c", "party": "z", "year": 3}]


def write_lines(path, **more):
    path.write_text("".join(json.dumps({**row, **more}) + "\n" for row in ROWS))


PARTIES = pa.array([row["party"] for row in ROWS]).dictionary_encode()
ENTITIES = [{**row, "entities": [{"start": 0, "end": 1, "label": "L"}]} for row in ROWS]
WRITERS = {
    "a.jsonl": write_lines,
    "e.jsonl": lambda path: write_lines(path, entities=[]),  # which are read row by row
    "a.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
    "d.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS).set_column(1, "party", PARTIES), path),
    "o.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ENTITIES), path),
    "a.csv": lambda path: pa.csv.write_csv(pa.Table.from_pylist(ROWS), path),
    "objects": lambda path: ROWS,
    "table": lambda path: pa.Table.from_pylist(ROWS),
    "frame": lambda path: pd.DataFrame(ROWS),
}


@pytest.mark.parametrize("name", WRITERS)
def test_documents_of_every_format_are_cut_by_a_field(tmp_path, name):
    made = WRITERS[name](tmp_path / name)
    source = tmp_path / name if made is None else made
    assert [sample for *_, sample in read(source, by="party")] == ["x", "y", "x", "z"]
    assert [sample for *_, sample in read(source, by="year")] == ["1", "2", "2", "3"]
    with pytest.raises(InputError, match=r"has no field 'Party' to cut by; it has .*party"):
        read(source, by="Party")


def test_files_are_cut_by_folder(tmp_path, monkeypatch):
    for folder in ("left", "right"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("a b c")
    assert [sample for *_, sample in read(tmp_path, by="folder")] == ["left", "right"]
    monkeypatch.chdir(tmp_path / "left")
    assert [sample for *_, sample in read("a.txt", by="folder")] == ["left"]
    monkeypatch.chdir(tmp_path / "right")
    assert [sample for *_, sample in read("a.txt", by="folder")] == ["right"]
    with pytest.raises(InputError, match="document 1 is in no folder"):
        read(ROWS, by="folder")
    with pytest.raises(InputError, match=r"a\.txt: the file's name has nothing that 'q\+' finds"):
        read("a.txt", by="file:q+")
    with pytest.raises(InputError, match=r"a\.txt: its documents have no field 'party'"):
        read("a.txt", by="party")


@pytest.mark.parametrize("by", ["", "file:", "file:(", 3])
def test_what_cannot_cut_is_refused(by):
    with pytest.raises(ParameterError, match="The by parameter of a count must be"):
        Options(by=by)


@pytest.mark.parametrize(
    ("value", "as_table"),
    [*((value, False) for value in (None, "", 1.5, ["x"], "\ud800")), (None, True), ("", True)],
)
def test_a_document_without_a_sample_stops_or_is_skipped(value, as_table):
    rows = [*ROWS[:2], {**ROWS[2], "party": value}]
    source = pa.Table.from_pylist(rows) if as_table else rows
    with pytest.raises(InputError, match=r"(row|document) 3(:| is) .*(party|not valid Unicode)"):
        read(source, by="party")
    with pytest.warns(RaregramWarning, match="1 documents were skipped"):
        assert rg.count(source, by="party", n=1, on_error="skip").targets == ("x", "y")


def test_a_column_that_holds_no_names_is_refused():
    with pytest.raises(InputError, match="the column share must hold names or whole numbers, not double"):
        read(pa.table({"text": ["a"], "share": [0.5]}), by="share")


def test_spans_do_not_count_where_a_corpus_is_cut(brown):
    counts = rg.count(brown, by="genre", n=1)
    assert counts.targets == ("fiction", "humor", "news")
    untagged = rg.count([{"text": "a b", "party": "x"}], by="party", n=1)  # and nothing is said about missing spans
    assert untagged.totals.tolist() == [2, 2]


DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"text": st.lists(st.sampled_from("abc"), max_size=7).map(" ".join), "party": st.sampled_from("xyz")}
    ),
    min_size=1,
    max_size=12,
)


@given(DOCUMENTS, st.integers(1, 3), st.sampled_from(["left", "right"]), st.sampled_from([1, 1 << 25]))
def test_a_sample_has_the_contexts_of_its_documents(documents, n, side, batch_bytes):
    """Each sample counted alone is its column, and the totals are those of all documents."""
    if all(len(document["text"].split()) < n for document in documents):
        return
    settings = {"n": n, "side": side, "spans": ["suffixes:3", "whole", "shapes:2"]}
    counts = rg.count(documents, by="party", batch_bytes=batch_bytes, **settings)
    plain = as_dictionary(rg.count(documents, targets=[], **settings))
    cut = as_dictionary(counts)
    assert {key: values[:1] for key, values in cut.items()} == plain
    for column, name in enumerate(counts.targets, 1):
        own = [document for document in documents if document["party"] == name]
        long_enough = any(len(document["text"].split()) >= n for document in own)
        alone = as_dictionary(rg.count(own, targets=[], **settings)) if long_enough else {}
        found = {key: values[column] for key, values in cut.items() if values[column]}
        assert found == {key: values[0] for key, values in alone.items()}
    name = counts.targets[0]
    assert rg.count(documents, by="party", targets=[name], **settings) == counts.with_targets([name])


def test_two_samples_of_a_cut_corpus_are_two_plain_samples():
    first, second = ([row for row in ROWS if row["party"] == party] for party in "xy")
    settings = {"n": 1, "spans": ["units"]}
    plain = rg.count(numerator=first, denominator=second, **settings)
    cut = rg.count([*first, *second], by="party", **settings).with_targets(["x"])
    assert as_dictionary(cut) == as_dictionary(plain)


def test_documents_of_a_sample_are_counted():
    counts = rg.count(ROWS, by="party", n=1, spans=["units"], documents=True)
    found = {key[2][0]: values for key, values in as_dictionary(counts).items()}
    assert counts.targets == ("x", "y", "z")
    assert found["b"][:8] == [5, 4, 1, 0, 3, 2, 1, 0]  # frequencies, then documents
    assert found["b"][8:12] == [11, 10, 1, 0]  # squares: 1 + 1 + 9
    assert found["b"][12:14] == [14, 12]  # products with the sizes of documents


def test_a_long_text_in_pieces_is_in_one_sample(tmp_path):
    for folder, text in {"x": "a b c " * 50, "y": "a c " * 30}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "long.txt").write_text(text)
    whole, pieces = (rg.count(tmp_path, by="folder", n=2, batch_bytes=size, documents=True) for size in (1 << 25, 64))
    assert whole == pieces
    assert whole.targets == ("x", "y")


def test_only_one_corpus_of_documents_is_cut(tmp_path):
    with pytest.raises(ParameterError, match="two plain samples are cut already"):
        rg.count(numerator=ROWS, denominator=ROWS, by="party", n=1)
    (tmp_path / "c.tsv").write_text("LOC\tin\n")
    with pytest.raises(ParameterError, match="by and on_error are for documents; these are contexts"):
        rg.count(tmp_path / "c.tsv", by="party")


def test_the_command_line_cuts_too(run, tmp_path):
    write_lines(tmp_path / "a.jsonl")
    run("count", "a.jsonl", "--by", "party", "-n", 1, "--out", "p.counts")
    assert rg.Counts.load(tmp_path / "p.counts") == rg.count(ROWS, by="party", n=1)
    assert "has no field 'state' to cut by; it has text, party, year" in run(
        "count", "a.jsonl", "--by", "state", "--out", "x", code=1
    )
    assert "--by must be" in run("count", "a.jsonl", "--by", "file:(", "--out", "x", code=2)

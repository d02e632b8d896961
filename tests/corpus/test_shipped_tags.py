"""The tags that ship with the package: whole, and what the taggers find."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest

from raregram.corpus import standoff
from raregram.corpus.fetch import fetched_stanford
from raregram.errors import FileError


@pytest.mark.parametrize(("tags", "names"), [("stanford", 137_112), ("spacy", 149_740)])
def test_the_shipped_tags_are_checked(monkeypatch, tags, names):
    assert len(standoff.load_tags(tags)) == names
    monkeypatch.setitem(standoff.DIGESTS, tags, "0" * 64)
    with pytest.raises(FileError, match="are damaged or were altered"):
        standoff.load_tags(tags)


def retagged(tmp_path, tags):
    """Tag a sample of the articles again, and return the spans that are shipped and those that were found."""
    from raregram.corpus.tagging import tag

    table = standoff.tagged_reuters(tags)
    assert len(table) == 17_834
    assert sum(map(len, table["spans"].to_pylist())) == len(standoff.load_tags(tags))
    sample = table.slice(4000, 60)
    rows = [{"id": row["id"], "text": row["text"]} for row in sample.to_pylist()]
    tag(rows, tmp_path / "again.parquet", tagger=tags, processes=1)
    found = pq.read_table(tmp_path / "again.parquet")["spans"].to_pylist()
    return [[sorted(map(str, spans)) for spans in each] for each in (sample["spans"].to_pylist(), found)]


needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed, so there is no corpus")


@pytest.mark.slow
@needs_npm
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
@pytest.mark.skipif(fetched_stanford() is None, reason="Stanford NER is missing: raregram fetch stanford-ner")
def test_the_shipped_tags_are_what_stanford_ner_finds(tmp_path):
    shipped, found = retagged(tmp_path, "stanford")
    assert found == shipped


@pytest.mark.slow
@needs_npm
def test_the_shipped_tags_are_what_spacy_finds(tmp_path):
    from raregram.corpus.spacy import load_pipeline

    if (version := load_pipeline()[0].meta["version"]) != "3.8.0":
        pytest.skip(f"the shipped tags are of version 3.8.0, here is {version}")
    shipped, found = retagged(tmp_path, "spacy")
    same = sum(map(list.__eq__, shipped, found))
    assert same >= 58  # of 60: batches are put together differently, which can change the last bit of a score

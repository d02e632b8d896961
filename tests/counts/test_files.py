"""Model and count files: damage is noticed, foreign files are named, writing is all or nothing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

import raregram as rg
from raregram.counts import storage
from raregram.counts.spans import Span
from raregram.errors import FileError


@pytest.fixture(scope="module")
def files(model, counts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    model.save(folder / "good.rgm")
    counts.save(folder / "good.counts")
    storage.write_parquet(folder / "good.parquet", counts.as_table())
    return folder


def load_counts(path):
    """Load a count table with all its rows, which are else read and checked when they are needed."""
    counts = rg.Counts.load(path)
    dict(counts.rows)
    return counts


LOADERS = {"good.rgm": rg.Model.load, "good.counts": load_counts, "good.parquet": load_counts}


@pytest.mark.parametrize("name", LOADERS)
def test_a_truncated_file_is_refused(files, tmp_path, name):
    whole, path = (files / name).read_bytes(), tmp_path / "cut"
    for percent in range(0, 100, 3):
        path.write_bytes(whole[: len(whole) * percent // 100])
        with pytest.raises(FileError, match=r"cut .*truncated or damaged"):
            LOADERS[name](path)


@settings(max_examples=300)
@given(st.sampled_from(list(LOADERS)), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_changes_nothing(files, tmp_path_factory, name, place, bit):
    data = bytearray((files / name).read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    path = tmp_path_factory.mktemp("flipped") / name
    path.write_bytes(data)
    try:
        loaded = LOADERS[name](path)
    except FileError as error:
        assert name in str(error)  # noqa: PT017 - an error is one of two right answers
    else:  # the bit was in a part of the file that says nothing, such as the name of the writer
        loaded.save(path)
        LOADERS[name](files / name).save(path.with_name("again"))
        assert path.read_bytes() == path.with_name("again").read_bytes()


def read_arrow(path):
    """Return the record batches of a file, and the metadata of the last one."""
    reader = pa.ipc.open_file(path)
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    return batches, dict(reader.get_batch_with_custom_metadata(len(batches) - 1).custom_metadata)


def write_arrow(batches, metadata, path):
    with pa.ipc.new_file(path, batches[0].schema) as writer:
        for batch in batches[:-1]:
            writer.write_batch(batch)
        writer.write_batch(batches[-1], custom_metadata=metadata)


def with_value(batch, column, value):
    """Change the first value of a column."""
    values = [value, *batch.column(column).to_pylist()[1:]]
    return batch.set_column(column, batch.schema.field(column), pa.array(values, batch.schema.field(column).type))


def with_word(batch, word):
    """Change the first word of the vocabulary."""
    items = batch.column(2).values
    changed = pa.array([word, *items.dictionary.to_pylist()[1:]])
    codes = pa.DictionaryArray.from_arrays(items.indices, changed)
    return batch.set_column(2, batch.schema.field(2), pa.ListArray.from_arrays(batch.column(2).offsets, codes))


CHANGES = {
    "a frequency": lambda batches: [with_value(batches[0], 3, 7), *batches[1:]],
    "no frequency": lambda batches: [with_value(batches[0], 3, None), *batches[1:]],
    "a word": lambda batches: [with_word(batch, "aa") for batch in batches],
    "a row less": lambda batches: [batches[0].slice(1), *batches[1:]],
    "a batch less": lambda batches: batches[1:],
    "two batches exchanged": lambda batches: [batches[1], batches[0], *batches[2:]],
}


@pytest.mark.parametrize("name", ["good.rgm", "good.counts"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_careless_edit_is_noticed(files, tmp_path, name, change):
    batches, metadata = read_arrow(files / name)
    write_arrow(CHANGES[change](batches), metadata, tmp_path / "edited")
    with pytest.raises(FileError, match=r"edited is .*damaged"):
        LOADERS[name](tmp_path / "edited")


@pytest.mark.parametrize("key", ["columns", "digest", "header", "batches"])
def test_a_changed_header_is_noticed_when_a_file_is_opened(files, tmp_path, key):
    batches, metadata = read_arrow(files / "good.counts")
    head = json.loads(metadata[storage.METADATA_KEY])
    head[key] = {**head[key], "pad": True} if key == "header" else head[key][1:]
    write_arrow(batches, {**metadata, storage.METADATA_KEY: json.dumps(head)}, tmp_path / "edited")
    for read in (rg.Counts.load, storage.read_header):
        with pytest.raises(FileError, match="edited is damaged or was altered"):
            read(tmp_path / "edited")


@pytest.mark.parametrize(
    ("version", "message"),
    [(99, "version 99; this raregram reads up to 5"), (4, "version 4, which .* with `raregram {command}`")],
)
def test_another_format_version_is_refused_with_what_to_do(files, tmp_path, version, message):
    for name, command in (("good.rgm", "fit"), ("good.counts", "count")):
        batches, metadata = read_arrow(files / name)
        head = {**json.loads(metadata[storage.METADATA_KEY]), "version": version}
        write_arrow(batches, {**metadata, storage.METADATA_KEY: json.dumps(head)}, tmp_path / "old")
        with pytest.raises(FileError, match="old has format " + message.format(command=command)):
            LOADERS[name](tmp_path / "old")


@pytest.mark.parametrize("header", [None, [], {}, {"version": 2}, {"version": 5}, {"version": "x"}, 7])
def test_a_strange_header_is_refused(files, tmp_path, header):
    table = pq.read_table(files / "good.parquet")
    pq.write_table(table.replace_schema_metadata({storage.METADATA_KEY: json.dumps(header)}), tmp_path / "odd")
    for load in (rg.Model.load, rg.load):
        with pytest.raises(FileError, match="odd"):
            load(tmp_path / "odd")


def test_rows_in_any_order_are_the_same_table(files, tmp_path, counts):
    table = pq.read_table(files / "good.parquet")
    about = pq.ParquetFile(files / "good.parquet").metadata.metadata
    backwards = table.take(pa.array(np.arange(len(table))[::-1])).replace_schema_metadata(about)
    pq.write_table(backwards, tmp_path / "reversed.counts")
    assert rg.Counts.load(tmp_path / "reversed.counts") == counts


def test_each_kind_of_file_is_told_from_the_other(files, tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    feather.write_feather(pa.table({"x": [1]}), tmp_path / "other.arrow")
    for load, path, message in (
        (rg.Model.load, files / "good.counts", "is a raregram counts file, expected a model file"),
        (rg.Counts.load, files / "good.rgm", "is a raregram model file, expected a counts file"),
        (rg.Model.load, tmp_path / "other.parquet", "is a Parquet or Arrow file, but not one"),
        (rg.Counts.load, tmp_path / "other.arrow", "is a Parquet or Arrow file, but not one"),
        (storage.read_header, tmp_path / "other.arrow", "is a Parquet or Arrow file, but not one"),
        (rg.Model.load, tmp_path / "nowhere.rgm", "does not exist"),
        (rg.Model.load, tmp_path, "is not a raregram file"),
    ):
        with pytest.raises(FileError, match=f"{path.name} {message}"):
            load(path)


# --- writing -----------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_no_other(model, tmp_path, monkeypatch):
    path = tmp_path / "kept.rgm"
    model.save(path)
    before = path.read_bytes()

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "_to_batch", fail)
    with pytest.raises(FileError, match=r"cannot write .*kept\.rgm: No space left on device"):
        model.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["kept.rgm"]  # noqa: PTH208 - hidden files count


def test_links_are_followed_and_permissions_kept(model, tmp_path):
    (tmp_path / "link.rgm").symlink_to(tmp_path / "real.rgm")
    for mode in (None, 0o600, 0o664, 0o444):
        if mode is not None:
            (tmp_path / "real.rgm").chmod(mode)
        model.save(tmp_path / "link.rgm")
        assert (tmp_path / "link.rgm").is_symlink()
        assert rg.Model.load(tmp_path / "real.rgm").settings == model.settings
        assert mode in (None, (tmp_path / "real.rgm").stat().st_mode & 0o777)


def test_what_is_no_regular_file_is_written_to_and_not_replaced(model, tmp_path):
    model.save(tmp_path / "real.rgm")
    os.mkfifo(tmp_path / "fifo")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "fifo").read_bytes)
        model.save(tmp_path / "fifo")
        assert read.result(timeout=60) == (tmp_path / "real.rgm").read_bytes()
    assert (tmp_path / "fifo").is_fifo()
    model.save("/dev/null")
    assert Path("/dev/null").is_char_device()
    assert sorted(os.listdir(tmp_path)) == ["fifo", "real.rgm"]  # noqa: PTH208 - hidden files count
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path, message in (
        ("/dev/full", "cannot write /dev/full: No space left on device"),
        (tmp_path, "it is a folder"),
        (tmp_path / "a", "cannot write .*a: Too many levels of symbolic links"),
        (tmp_path / "nowhere" / "x.rgm", "the folder .*nowhere does not exist"),
    ):
        with pytest.raises(FileError, match=message):
            model.save(path)


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "link"])
def test_an_open_file_is_written_to_where_it_stands(tmp_path, name):
    """What was in a log before `--out /dev/stdout >> log` is still in it."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "log.txt").write_text("before\n")
    program = f"import raregram as rg; rg.Counts.from_contexts(['a b'], ['X']).save({name!r})"
    with (tmp_path / "log.txt").open("ab") as log:
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=log, check=True)
    content = (tmp_path / "log.txt").read_bytes()
    assert content.startswith(b"before\nARROW1")
    (tmp_path / "table").write_bytes(content.removeprefix(b"before\n"))
    assert rg.Counts.load(tmp_path / "table") == rg.Counts.from_contexts(["a b"], ["X"])


# --- rows --------------------------------------------------------------------------------------------------------


def test_rows_are_read_when_they_are_needed(files, tmp_path, counts):
    """Damage in one span does not keep anybody from the others, and a table that is replaced stays what it was."""
    path = tmp_path / "t.counts"
    batches, metadata = read_arrow(files / "good.counts")
    write_arrow([with_value(batches[0], 3, 7), *batches[1:]], metadata, path)
    damaged, first = rg.Counts.load(path), Span("item", 0, 1)
    assert damaged.num_rows == counts.num_rows
    assert np.array_equal(damaged.rows[counts.whole].values, counts.rows[counts.whole].values)
    for read in (damaged.rows.__getitem__, lambda span: list(damaged.rows.stored.stream(span))):
        with pytest.raises(FileError, match=r"t\.counts is damaged or was altered"):
            read(first)
    shutil.copy(files / "good.counts", path)
    loaded = rg.Counts.load(path)
    assert first in loaded.rows
    with pytest.raises(KeyError):
        loaded.rows[Span("item", 0, 99)]
    rg.Counts.from_contexts(["a b"], ["X"]).save(path)
    assert loaded == counts
    assert pickle.loads(pickle.dumps(loaded)) == counts


def test_a_table_may_be_written_over_itself(files, tmp_path, counts):
    path = tmp_path / "t.counts"
    shutil.copy(files / "good.counts", path)
    rg.Counts.load(path).save(path)
    assert load_counts(path) == counts
    assert path.read_bytes() == (files / "good.counts").read_bytes()


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_the_file_does_not_depend_on_how_rows_come(counts, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(storage, "BATCH", 64)
    counts.save(tmp_path / "whole")
    stored = [counts.rows.stored[span] for span in counts.rows.stored]
    cut = [piece for part in stored for piece in part.cut(rows or len(part))]
    storage.write(tmp_path / "cut", replace(counts.as_table(), parts=cut))
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()
    assert load_counts(tmp_path / "cut") == counts

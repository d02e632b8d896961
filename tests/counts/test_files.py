"""Model and count files: damage is noticed, foreign files are named, writing is all or nothing."""

from __future__ import annotations

import hashlib
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


LOADERS = [(rg.Model.load, "good.rgm"), (load_counts, "good.counts"), (load_counts, "good.parquet")]


@pytest.mark.parametrize(("load", "name"), LOADERS)
@pytest.mark.parametrize("percent", range(0, 100, 3))
def test_a_truncated_file_is_refused(files, tmp_path, load, name, percent):
    whole = (files / name).read_bytes()
    path = tmp_path / "cut.rgm"
    path.write_bytes(whole[: len(whole) * percent // 100])
    with pytest.raises(FileError, match=r"cut\.rgm .*truncated or damaged"):
        load(path)


@settings(max_examples=300)
@given(st.sampled_from(LOADERS), st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_changes_nothing(files, tmp_path_factory, loader, place, bit):
    load, name = loader
    data = bytearray((files / name).read_bytes())
    data[place % len(data)] ^= 1 << bit
    path = tmp_path_factory.mktemp("flipped") / name
    path.write_bytes(data)
    try:
        loaded = load(path)
    except FileError as error:
        assert name in str(error)  # noqa: PT017 - an error is one of two right answers
    else:  # the bit was in a part of the file that says nothing, such as the name of the writer
        original = load(files / name)
        loaded.save(path)
        original.save(path.with_name("again"))
        assert path.read_bytes() == path.with_name("again").read_bytes()


@pytest.mark.parametrize("name", ["good.rgm", "good.counts"])
def test_a_changed_frequency_is_noticed(files, tmp_path, name):
    batches, metadata = read_arrow(files / name)
    place = batches[0].schema.names.index("f_nu" if name == "good.rgm" else "total")
    values = batches[0].column(place).to_numpy().copy()
    values[0] += 1
    forged = batches[0].set_column(place, batches[0].schema.field(place), pa.array(values))
    write_arrow([forged, *batches[1:]], metadata, tmp_path / "forged")
    with pytest.raises(FileError, match="forged is damaged or was altered"):
        (rg.Model.load if name == "good.rgm" else load_counts)(tmp_path / "forged")


def read_arrow(path):
    """Return the record batches of a file, and the metadata of the last one."""
    reader = pa.ipc.open_file(path)
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    return batches, reader.get_batch_with_custom_metadata(len(batches) - 1).custom_metadata


def write_arrow(batches, metadata, path):
    with pa.ipc.new_file(path, batches[0].schema) as writer:
        for batch in batches[:-1]:
            writer.write_batch(batch)
        writer.write_batch(batches[-1], custom_metadata=metadata)


def header_of(path):
    return json.loads(pq.ParquetFile(path).metadata.metadata[storage.METADATA_KEY])


def write_with_header(table, header, path):
    pq.write_table(table.replace_schema_metadata({storage.METADATA_KEY: json.dumps(header)}), path)


def rewrite_header(source, target, change, digest=True):
    """Write a file with another header, whose digest is right or that of the old one."""
    batches, metadata = read_arrow(source)
    head = json.loads(metadata[storage.METADATA_KEY])
    change(head)
    text = json.dumps(head)
    right = hashlib.sha256(text.encode()).hexdigest()
    old = metadata[storage.HEADER_DIGEST]
    write_arrow(batches, {storage.METADATA_KEY: text, storage.HEADER_DIGEST: right if digest else old}, target)


def test_changed_settings_are_noticed(files, tmp_path):
    change = lambda head: head["header"].update(lam=0.5)  # noqa: E731
    rewrite_header(files / "good.rgm", tmp_path / "forged.rgm", change, digest=False)
    with pytest.raises(FileError, match="was altered"):
        rg.Model.load(tmp_path / "forged.rgm")


def test_a_newer_format_asks_for_a_newer_raregram(files, tmp_path):
    rewrite_header(files / "good.rgm", tmp_path / "new.rgm", lambda head: head.update(version=99))
    with pytest.raises(FileError, match=r"new\.rgm has format version 99; this raregram reads up to 4"):
        rg.Model.load(tmp_path / "new.rgm")


@pytest.mark.parametrize(
    ("load", "name", "command"), [(rg.Model.load, "good.rgm", "fit"), (load_counts, "good.counts", "count")]
)
def test_an_older_format_names_the_command_that_makes_a_new_file(files, tmp_path, load, name, command):
    rewrite_header(files / name, tmp_path / "old", lambda head: head.update(version=1))
    with pytest.raises(FileError, match=rf"old has format version 1, which .* with `raregram {command}`"):
        load(tmp_path / "old")


@pytest.mark.parametrize("header", [None, [], {}, {"version": 2}, {"version": "x", "kind": "model"}, 7])
def test_a_strange_header_is_refused(files, tmp_path, header):
    write_with_header(pq.read_table(files / "good.parquet"), header, tmp_path / "odd.rgm")
    with pytest.raises(FileError, match=r"odd\.rgm"):
        rg.Model.load(tmp_path / "odd.rgm")


def test_rows_out_of_order_are_no_model(files, tmp_path):
    table = storage.read(files / "good.rgm", "model")
    turned = [replace(part, keys=part.keys[::-1], values=part.values[::-1]) for part in table.parts]
    storage.write(tmp_path / "turned.rgm", replace(table, parts=turned))
    with pytest.raises(FileError, match=r"turned\.rgm .*truncated or damaged"):
        rg.Model.load(tmp_path / "turned.rgm")


def test_rows_in_any_order_are_the_same_table(files, tmp_path, counts):
    table = pq.read_table(files / "good.parquet")
    backwards = table.take(pa.array(range(len(table)))[::-1])
    write_with_header(backwards, header_of(files / "good.parquet"), tmp_path / "reversed.counts")
    assert rg.Counts.load(tmp_path / "reversed.counts") == counts


def test_each_kind_of_file_is_told_from_the_other(files, tmp_path):
    with pytest.raises(FileError, match=r"good\.counts is a raregram counts file, expected a model file"):
        rg.Model.load(files / "good.counts")
    with pytest.raises(FileError, match=r"good\.rgm is a raregram model file, expected a counts file"):
        rg.Counts.load(files / "good.rgm")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(FileError, match=r"other\.parquet is a Parquet or Arrow file, but not one"):
        rg.Model.load(tmp_path / "other.parquet")
    feather.write_feather(pa.table({"x": [1]}), tmp_path / "other.arrow")
    for load in (rg.Model.load, rg.Counts.load, storage.read_header):
        with pytest.raises(FileError, match=r"other\.arrow is a Parquet or Arrow file, but not one"):
            load(tmp_path / "other.arrow")
    with pytest.raises(FileError, match=r"nowhere\.rgm does not exist"):
        rg.Model.load(tmp_path / "nowhere.rgm")
    with pytest.raises(FileError, match="not a raregram file"):
        rg.Model.load(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_draft(model, files, tmp_path, monkeypatch):
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


def test_a_missing_folder_is_named(model, tmp_path):
    with pytest.raises(FileError, match=r"the folder .*nowhere does not exist"):
        model.save(tmp_path / "nowhere" / "x.rgm")


def test_links_are_followed(model, tmp_path):
    (tmp_path / "link.rgm").symlink_to(tmp_path / "real.rgm")
    model.save(tmp_path / "link.rgm")
    assert (tmp_path / "link.rgm").is_symlink()
    assert rg.Model.load(tmp_path / "real.rgm").settings == model.settings


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
    with pytest.raises(FileError, match="cannot write /dev/full: No space left on device"):
        model.save("/dev/full")
    with pytest.raises(FileError, match="it is a folder"):
        model.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "real.rgm"]  # noqa: PTH208 - hidden files count


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
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


def test_links_in_a_circle_are_named(model, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match=r"cannot write .*a: Too many levels of symbolic links"):
        model.save(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_a_file_keeps_its_permissions(model, tmp_path):
    path = tmp_path / "secret.rgm"
    for mode in (0o600, 0o664, 0o444):
        path.touch()
        path.chmod(mode)
        model.save(path)
        assert path.stat().st_mode & 0o777 == mode


def test_a_file_that_claims_more_rows_than_it_can_hold_is_refused_unread(files, tmp_path):
    """Ten million equal rows take some kilobytes on disk, and a gigabyte in memory."""
    table = pq.read_table(files / "good.parquet")
    head = header_of(files / "good.parquet")
    schema = table.schema.with_metadata({storage.METADATA_KEY: json.dumps(head)})
    many = table.take(pa.array(np.zeros(1_000_000, np.int64)))
    with pq.ParquetWriter(tmp_path / "bomb.counts", schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(many)
    assert (tmp_path / "bomb.counts").stat().st_size < 1 << 18
    with pytest.raises(
        FileError, match=r"bomb\.counts claims 10,000,000 rows in .* bytes: it is damaged, or made to"
    ):
        rg.Counts.load(tmp_path / "bomb.counts")


@pytest.mark.parametrize("part", ["totals", "rows", "negative", "spans", "shape", "no name"])
def test_what_no_counting_gives_is_refused_even_with_the_right_digest(counts, tmp_path, part):
    """A table that someone made by hand, with a digest that fits."""
    rows = dict(counts.rows)
    unit = rows["item", 0, 1]
    forged = {
        "totals": replace(counts, totals=counts.totals // 100),
        "rows": counts.with_rows({**rows, unit.span: replace(unit, values=unit.values[:, ::-1])}.values()),
        "negative": counts.with_rows({**rows, unit.span: replace(unit, values=-unit.values)}.values()),
        "spans": replace(counts, n=3),
        "shape": replace(counts, shape=None),
        "no name": replace(counts, shape=0),
    }[part]
    forged.save(tmp_path / "forged.counts")
    with pytest.raises(FileError, match=r"forged\.counts .*truncated or damaged"):
        load_counts(tmp_path / "forged.counts")


def test_rows_are_read_when_they_are_needed(files, tmp_path, counts):
    """Damage in one span does not keep anybody from the others, and a table that is replaced stays what it was."""
    path = tmp_path / "t.counts"
    shutil.copy(files / "good.counts", path)
    head = storage.read_header(path)
    assert rg.Counts.load(path).num_rows == counts.num_rows == sum(batch[2] for batch in head["batches"])
    loaded = rg.Counts.load(path)
    assert counts.whole in loaded.rows
    assert Span("item", 1, 2) in loaded.rows
    assert Span("item", 0, 99) not in loaded.rows
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


@pytest.mark.parametrize("rows", [0, 1, 3, 7])
def test_the_file_does_not_depend_on_how_rows_come(counts, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(storage, "BATCH", 4)
    counts.save(tmp_path / "whole")
    stored = [counts.rows.stored[span] for span in counts.rows.stored]
    size = rows or max(map(len, stored))
    cut = [part[first : first + size] for part in stored for first in range(0, len(part), size)]
    storage.write(tmp_path / "cut", replace(counts.as_table(), parts=cut))
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()
    assert load_counts(tmp_path / "cut") == counts

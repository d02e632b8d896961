"""Other systems, as far as they can be simulated here: Windows removes no open file, and has other encodings."""

from __future__ import annotations

import os
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import pytest

import raregram as rg
from raregram import files
from raregram.cli import output_encoding
from raregram.corpus import documents
from raregram.counts import engine, storage
from raregram.errors import FileError

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's list of open files")


def open_files() -> set[str]:
    """Return the names of the files that this process has open."""
    return {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def windows(monkeypatch):
    """Behave as Windows does: a file that is open is neither removed nor replaced."""
    unlink, replace = Path.unlink, Path.replace

    def refuse(path: Path) -> None:
        if os.path.realpath(path) in open_files():
            raise PermissionError(13, "The process cannot access the file because it is being used", str(path))

    def careful_unlink(self, missing_ok=False):
        refuse(self)
        unlink(self, missing_ok)

    def careful_replace(self, target):
        refuse(self)
        refuse(Path(target))
        return replace(self, target)

    monkeypatch.setattr(files, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(Path, "unlink", careful_unlink)
    monkeypatch.setattr(Path, "replace", careful_replace)


@needs_proc
def test_files_are_written_and_replaced_where_open_files_cannot_be_removed(windows, counts, model, tmp_path):
    for _ in range(2):
        counts.save(tmp_path / "a.counts")
        model.save(tmp_path / "a.rgm")
    assert rg.Counts.load(tmp_path / "a.counts") == counts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.counts", "a.rgm"]


@needs_proc
def test_a_loaded_table_and_model_can_be_replaced_where_open_files_cannot_be(
    windows, monkeypatch, counts, model, tmp_path
):
    """As when a table gets more counts, or a service has a model that is fitted again."""
    monkeypatch.setattr(storage, "sys", SimpleNamespace(platform="win32"))
    counts.save(tmp_path / "a.counts")
    model.save(tmp_path / "a.rgm")
    loaded, served = rg.Counts.load(tmp_path / "a.counts"), rg.Model.load(tmp_path / "a.rgm")
    (loaded + counts).save(tmp_path / "a.counts")
    model.save(tmp_path / "a.rgm")
    assert rg.Counts.load(tmp_path / "a.counts") - counts == loaded
    assert served.settings == model.settings


def test_macos_tells_the_memory_of_a_process(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(engine, "sys", SimpleNamespace(platform="darwin"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert engine.resident_bytes() >= peak > 0


@needs_proc
def test_a_file_that_somebody_reads_is_named_where_it_cannot_be_replaced(windows, counts, tmp_path):
    counts.save(tmp_path / "a.counts")
    with (
        (tmp_path / "a.counts").open("rb"),
        pytest.raises(FileError, match=r"cannot write .*a\.counts"),
    ):
        counts.save(tmp_path / "a.counts")
    assert [path.name for path in tmp_path.iterdir()] == ["a.counts"]
    counts.save(tmp_path / "a.counts")


def test_files_have_the_same_order_on_every_system(monkeypatch):
    """Folds go by the order of documents: Windows has other separators, and puts a and A together."""
    names = ["a/B.txt", "a/a.txt", "a-b/c.txt", "Z.txt"]
    here = sorted(names, key=documents._portable)
    monkeypatch.setattr(os, "sep", "\\")
    there = sorted((str(PureWindowsPath(name)) for name in names), key=documents._portable)
    assert [PureWindowsPath(name).as_posix() for name in there] == here
    folder = sorted(map(PureWindowsPath, names), key=lambda path: path.parts)
    assert folder != sorted(map(PureWindowsPath, names)), "the order of Windows' own"


def test_pipes_get_utf_8_on_windows_unless_another_encoding_is_asked_for():
    """Python takes the system's old encoding for pipes and files there."""
    assert output_encoding("win32", {}) == "utf-8"
    assert output_encoding("win32", {"PYTHONIOENCODING": "cp1252"}) is None
    assert output_encoding("linux", {}) is None

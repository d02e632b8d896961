"""Commands start with no more than they need."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

import raregram as rg
from raregram.cli.startup import hidden, memory_left

PROGRAM = """
import sys
from raregram.cli import command, main
made, set_up = [], command.Command.__init__
command.Command.__init__ = lambda self, function: (made.append(self), set_up(self, function))[1]
try:
    main()
finally:
    print(len(made), *(name for name in ("pandas", "pyspark") if name in sys.modules))
    import pandas
"""


def started(*arguments):
    """Run a command in a process of its own; return how many commands were set up, and which libraries imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    commands, *imported = done.stdout.splitlines()[-1].split()
    return int(commands), imported


def test_a_command_imports_no_pandas_which_can_still_be_imported(tmp_path):
    pytest.importorskip("pandas")
    counts = rg.Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
    rg.fit(counts, "LOC").save(tmp_path / "loc.rgm")
    assert started("explain", tmp_path / "loc.rgm", "is in") == (1, [])
    commands, imported = started("--help")
    assert commands > 10
    assert imported == []


def test_a_limit_is_for_all_that_the_process_holds():
    assert 10**12 - 10**10 < memory_left(10**12) < 10**12
    assert memory_left(1000) == 250


def test_a_hidden_library_is_there_but_not_imported(tmp_path, monkeypatch):
    """Spark asks for the specifications of libraries."""
    (tmp_path / "heavy_library.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with hidden("heavy_library"):
        assert importlib.util.find_spec("heavy_library") is not None
        with pytest.raises(ModuleNotFoundError, match="no command needs heavy_library"):
            importlib.import_module("heavy_library")
    assert importlib.import_module("heavy_library").__file__ == str(tmp_path / "heavy_library.py")

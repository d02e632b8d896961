"""Commands start with no more than they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

import raregram as rg
from raregram.cli.startup import memory_left

PROGRAM = """
import sys
from raregram.cli import command, main
made, set_up = [], command.Command.__init__
command.Command.__init__ = lambda self, function: (made.append(self), set_up(self, function))[1]
try:
    main()
finally:
    print(len(made), *(name for name in ("pandas", "numba", "pyspark") if name in sys.modules))
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

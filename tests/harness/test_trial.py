"""The everyday path on real text: every command with its default options beats the paper's best."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from raregram.corpus.fetch import fetch_corpus
from raregram.errors import RaregramError

ROOT = Path(__file__).parents[2]


@pytest.mark.harness
def test_the_defaults_beat_the_papers_best_on_held_out_text():
    try:
        fetch_corpus("reuters")
    except RaregramError as error:
        pytest.skip(f"there is no Reuters-21578: {error}")
    command = [sys.executable, "-m", "benchmarks.trial", "--documents", "300", "--targets", "LOC"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ raregram rank LOC.rgm held --top 5" in done.stdout
    assert "at least 1" in done.stdout

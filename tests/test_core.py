"""The core stands alone: it imports and needs nothing optional."""

from __future__ import annotations

import subprocess
import sys

import pytest

import raregram as rg

TINY = """
import sys, raregram as rg
counts = rg.Counts.from_contexts(["he lives in", "she said that"], ["LOC", None], spans=["units", "whole"])
model = rg.fit(counts, "LOC", "selective", size=1)
assert model.log_ratio(["he lives in"])[0] > 0
import raregram.corpus.contexts, raregram.show.describe, raregram.cli, raregram.counts.count
optional = {"pyspark", "matplotlib", "spacy", "sklearn", "scipy", "fastapi", "prometheus_client", "jinja2"}
print(sorted(optional & set(sys.modules)))
"""


def test_the_core_imports_nothing_optional():
    assert subprocess.check_output([sys.executable, "-c", TINY], text=True) == "[]\n"


def test_importing_raregram_imports_neither_numpy_nor_arrow():
    code = "import sys, raregram, raregram.cli; print('numpy' in sys.modules, 'pyarrow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"


def test_every_public_name_is_there():
    for name in rg.__all__:
        assert getattr(rg, name) is not None
    assert dir(rg) == sorted(rg.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        rg.nothing  # noqa: B018

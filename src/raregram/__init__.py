"""Likelihood ratios of N-grams, above all of those that were seen rarely or never.

>>> import raregram as rg
>>> contexts = ["he lives in", "they met in", "she said that", "he was in", "it means that"]
>>> counts = rg.Counts.from_contexts(contexts, ["LOC", "LOC", None, "LOC", None])
>>> model = rg.fit(counts, target="LOC", estimator="selective", criterion="cet", size=2, lam=1e-5)
>>> model.log_ratio(["we met in", "nobody said that"]).round(2)
array([ 1.16, -2.24])
>>> print(model.explain("we met in").headline())
LOC: log ratio +1.1631, ratio 3.2  (selective cet 2, lam 1e-05)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from raregram import errors
    from raregram.counts.count import count
    from raregram.counts.table import Counts
    from raregram.models import ratios, selection
    from raregram.models.base import Settings
    from raregram.models.explain import Explanation, Term
    from raregram.models.fit import fit
    from raregram.models.model import Model
    from raregram.show.heatmap import heat_map

# Imported when first used, so that `raregram --help` does not wait for NumPy and Arrow.
_HOME = {
    "Counts": "raregram.counts.table",
    "Explanation": "raregram.models.explain",
    "Model": "raregram.models.model",
    "Settings": "raregram.models.base",
    "Term": "raregram.models.explain",
    "count": "raregram.counts.count",
    "errors": "raregram.errors",
    "fit": "raregram.models.fit",
    "heat_map": "raregram.show.heatmap",
    "ratios": "raregram.models.ratios",
    "selection": "raregram.models.selection",
}

__all__ = [
    "Counts",
    "Explanation",
    "Model",
    "Settings",
    "Term",
    "__version__",
    "count",
    "errors",
    "fit",
    "heat_map",
    "ratios",
    "selection",
]


def __getattr__(name: str) -> object:
    """Import a public name from its module the first time that it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'raregram' has no attribute {name!r}")
    module = import_module(_HOME[name])
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Likelihood ratios of N-grams, above all of those that were seen rarely or never.

How much more likely is this sequence of words in one kind of place than anywhere else? A place is the gap before (or
after) a name, or one of two collections of text. The tour:

    import raregram as rg

    rg.tag("articles/", "tagged.parquet")                  # find names; or bring your own tags
    counts = rg.count("tagged.parquet", targets=["LOC"])   # documents or labelled contexts, in any format
    model = rg.fit(counts, target="LOC")                   # the estimator `backoff`; others are one word away

    rg.rank(model, "new/")                     # the gaps of new text before which LOC is most likely
    rg.score(model, "new/")                    # all of them
    model.log_ratio(["she lives in"])          # single contexts, of any length; `ratio` and `interval`, too
    print(model.explain("she lives in"))       # what each word adds
    rg.heat_map(model, "She lives in Oslo.")   # a text in colours, in a notebook
    rg.kwic("articles/", "lives in")           # where words occur, with the text around them

    rg.compare("news/", "fiction/")            # the words and phrases that mark one corpus against another;
                                               # `rg.plot_comparison` draws them

    rg.evaluate(model, "test.parquet")         # average precision, F1 and Cllr on tagged documents
    rg.tune(counts, "valid.parquet")           # the best settings on validation documents

    model.save("loc.rgm")
    model = rg.load("loc.rgm")                 # a model or a count table
    counts + more - less                       # tables merge and subtract exactly

Tables come from Arrow, pandas, Polars or DuckDB, and results go there. `rg.count(numerator=a, denominator=b)`
compares two plain samples. `raregram.sklearn` has an estimator for scikit-learn, and `raregram --help` shows the same
on the command line.

>>> import raregram as rg
>>> contexts = ["he lives in", "they met in", "she said that", "he was in", "it means that"]
>>> counts = rg.Counts.from_contexts(contexts, ["LOC", "LOC", None, "LOC", None])
>>> model = rg.fit(counts, target="LOC")
>>> model.log_ratio(["we met in", "in", "nobody said that"]).round(2)
array([ 0.51,  0.44, -0.52])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from raregram import errors
    from raregram.corpus.tagging import tag
    from raregram.counts.count import count
    from raregram.counts.table import Counts
    from raregram.measure.calibrate import calibrate
    from raregram.measure.compare import Comparison, compare, compare_each
    from raregram.measure.evaluate import evaluate
    from raregram.measure.kwic import kwic
    from raregram.measure.rank import rank
    from raregram.measure.results import Results
    from raregram.measure.score import score
    from raregram.measure.tune import tune
    from raregram.models import ratios, selection
    from raregram.models.base import Settings
    from raregram.models.explain import Explanation, Term
    from raregram.models.fit import fit
    from raregram.models.model import Model, load
    from raregram.show.comparison.plot import plot_comparison
    from raregram.show.heatmap import heat_map

# Imported when first used, so that `raregram --help` does not wait for NumPy and Arrow.
_HOME = {
    "Counts": "raregram.counts.table",
    "Explanation": "raregram.models.explain",
    "Model": "raregram.models.model",
    "Results": "raregram.measure.results",
    "Settings": "raregram.models.base",
    "Term": "raregram.models.explain",
    "Comparison": "raregram.measure.compare",
    "calibrate": "raregram.measure.calibrate",
    "compare": "raregram.measure.compare",
    "compare_each": "raregram.measure.compare",
    "count": "raregram.counts.count",
    "errors": "raregram.errors",
    "evaluate": "raregram.measure.evaluate",
    "fit": "raregram.models.fit",
    "heat_map": "raregram.show.heatmap",
    "kwic": "raregram.measure.kwic",
    "load": "raregram.models.model",
    "plot_comparison": "raregram.show.comparison.plot",
    "rank": "raregram.measure.rank",
    "ratios": "raregram.models.ratios",
    "score": "raregram.measure.score",
    "selection": "raregram.models.selection",
    "tag": "raregram.corpus.tagging",
    "tune": "raregram.measure.tune",
}

__all__ = [
    "Comparison",
    "Counts",
    "Explanation",
    "Model",
    "Results",
    "Settings",
    "Term",
    "__version__",
    "calibrate",
    "compare",
    "compare_each",
    "count",
    "errors",
    "evaluate",
    "fit",
    "heat_map",
    "kwic",
    "load",
    "plot_comparison",
    "rank",
    "ratios",
    "score",
    "selection",
    "tag",
    "tune",
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

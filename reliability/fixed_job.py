"""One small job with every kind of result, for comparing machines and versions: `python -m reliability.fixed_job`.

It counts the same made-up documents in several ways, merges, fits every estimator, scores and explains. It prints the
digests of the count tables and of the models, and log ratios, intervals and terms to the last bit.
`reliability/fixed_job.json` is what it printed once; with `--write` it is written again, which only a wanted change
of results justifies.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import raregram as rg
from raregram.counts import storage
from raregram.models.ratios import Floats

EXPECTED = Path(__file__).with_suffix(".json")
N = 4
SYLLABLES = ("ba", "do", "ki", "mu", "ne", "Ra", "so", "tü", "42", "Q.")
WAYS: dict[str, dict[str, Any]] = {
    "words": {"spans": ["units", "suffixes:4", "shapes:4", "whole"]},
    "words in one thread": {"spans": ["units", "suffixes:4", "shapes:4", "whole"], "threads": 1},
    "words through files": {"spans": ["units", "suffixes:4", "shapes:4", "whole"], "memory_limit": 1},
    "words after the boundary": {"spans": ["suffixes:3"], "side": "right", "pad": True},
    "letters": {"spans": ["suffixes:4", "shapes:2"], "kind": "letters"},
    "letters after the boundary": {"spans": ["suffixes:3", "whole"], "kind": "letters", "side": "right", "pad": True},
    "padded": {"spans": ["suffixes:4", "shapes:3"], "pad": True},
    "without rare spans": {"spans": ["suffixes:4", "shapes:4", "whole"], "min_count": 3},
    "one target": {"spans": ["whole"], "labels": {"PER": "LOC"}, "targets": ["LOC"]},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "mle": {"estimator": "mle"},
    "direct": {"estimator": "direct", "lam": 1e-4},
    "product": {"estimator": "product", "lam": 1e-3, "unseen": "formula"},
    **{
        f"selective {criterion}": {"estimator": "selective", "criterion": criterion, "size": 40, "lam": 1e-4}
        for criterion in rg.selection.CRITERIA
    },
    "selective of all contexts": {
        "estimator": "selective",
        "size": 40,
        "denominator": "all",
        "lam": 1e-5,
    },
    "backoff": {"estimator": "backoff"},
    "backoff of 10 spans of each length": {"estimator": "backoff", "size": 10},
    "backoff without shapes": {"estimator": "backoff", "shapes": False, "longest": 2, "tau": 0.8},
    "backoff by chi2": {"estimator": "backoff", "criterion": "chi2", "size": 20, "lam": 1e-3, "unit_lam": 1e-2},
}
EXPLAINED = 3  # contexts of which all terms are compared


def documents(seed: int, number: int = 120) -> list[dict[str, Any]]:
    """Make documents from the one stream of `random` that never changes."""
    source = random.Random(seed)

    def below(limit: int) -> int:
        return int(source.random() * source.random() * limit)

    def word() -> str:
        return "".join(SYLLABLES[below(len(SYLLABLES))] for _ in range(1 + below(3)))

    made = []
    for _ in range(number):
        items = [word() for _ in range(5 + below(60))]
        starts = [k for k, item in enumerate(items) if k and items[k - 1].startswith("b") and source.random() < 0.5]
        spans = [{"start": k, "end": k + 1, "label": "LOC" if items[k] < "d" else "PER"} for k in starts]
        made.append({"items": items, "spans": spans})
    return made


def run() -> dict[str, Any]:
    """Do the job; numbers are exact, as hexadecimal floating-point numbers."""
    options: dict[str, Any] = {"n": N, "targets": ["LOC", "PER"]}
    tables = {name: rg.count(documents(1), **{**options, **way}) for name, way in WAYS.items()}
    more = rg.count(documents(2), **options, **WAYS["words"])
    tables["merged"] = tables["words"] + more
    tables["taken back"] = tables["merged"] - more
    tables |= other_tables()
    contexts = windows(3, 20)
    models = {name: fit(tables["merged"], "LOC", **chosen) for name, chosen in SETTINGS.items()}
    after = tables["words after the boundary"]
    models["backoff after the boundary"] = fit(after, "PER", estimator="backoff", shapes=False)
    models["backoff of contexts"] = fit(tables["contexts"], "LOC", estimator="backoff")
    by_units = {name: model for name, model in models.items() if name not in ("mle", "direct")}
    return {
        "tables": {name: table.digest() for name, table in tables.items()},
        "models": {name: digest(model) for name, model in models.items()},
        "log_ratios": {name: sample(model.log_ratio(contexts)) for name, model in models.items()},
        "intervals": {name: sample(model.interval(contexts, 0.9).ravel()) for name, model in by_units.items()},
        "terms": {name: terms(model, contexts[:EXPLAINED]) for name, model in models.items()},
    }


def fit(table: rg.Counts, target: str, **chosen: Any) -> rg.Model:
    """Fit a model; the priors of a back-off weigh twelve contexts, the default when the results were frozen."""
    frozen = {"lam": 12 / table.sizes(target)[1]} if chosen["estimator"] == "backoff" else {}
    return rg.fit(table, target, **{**frozen, **chosen})


def windows(seed: int, number: int) -> list[list[str]]:
    """Return all contexts of made-up documents but the last of each."""
    return [each["items"][k : k + N] for each in documents(seed, number) for k in range(len(each["items"]) - N)]


def other_tables() -> dict[str, rg.Counts]:
    """Count what is not a document with spans: contexts, N-grams with frequencies, two plain samples, texts."""
    contexts = windows(4, 60)
    labels = ["LOC" if row[-1].startswith("b") else "PER" if row[0] == row[1] else None for row in contexts]
    spans = ["suffixes:4", "shapes:4", "whole"]
    f_nu, f_de = ([len(row[index]) % 4 for row in contexts] for index in (0, 1))
    texts = [" ".join(each["items"]) for each in documents(5, 40)]
    two: dict[str, Any] = {
        "numerator": [{"text": text} for text in texts[:20]],
        "denominator": [{"text": text} for text in texts[20:]],
    }
    return {
        "contexts": rg.Counts.from_contexts(contexts, labels, spans=spans),
        "contexts after the boundary": rg.Counts.from_contexts(contexts, labels, spans=spans, side="right"),
        "N-grams": rg.Counts.from_ngrams(contexts, f_nu, f_de, spans=spans, n_nu=5000, n_de=9000),
        "two samples": rg.count(**two, n=N, spans=spans),
        "letters of two samples": rg.count(**two, n=N, spans=spans, kind="letters"),
    }


def digest(model: rg.Model) -> str:
    """Return the digest of a model's file: of its settings, and of its spans with their frequencies."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return str(storage.read_header(Path(folder, "model"))["digest"])


def sample(values: Floats) -> list[str]:
    """Return some numbers, so that the file stays small, and the sum of all finite ones."""
    return [value.hex() for value in (*values[::31].tolist(), float(values[np.isfinite(values)].sum()))]


def terms(model: rg.Model, contexts: list[list[str]]) -> list[str]:
    return [term.value.hex() for context in contexts for term in model.explain(context).terms]


def main() -> None:
    text = json.dumps(run(), indent=1) + "\n"
    if "--write" in sys.argv[1:]:
        EXPECTED.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()

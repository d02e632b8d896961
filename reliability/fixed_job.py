"""One small job with every kind of result, for comparing machines and versions: `python reliability/fixed_job.py`.

It counts the same made-up documents in several ways, merges, fits every estimator and scores, and prints the digests
of the count tables and all log ratios to the last bit. `reliability/fixed_job.json` is what it printed once; with
`--write` it is written again, which only a wanted change of results justifies.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

import raregram as rg

EXPECTED = Path(__file__).with_suffix(".json")
N = 4
SYLLABLES = ("ba", "do", "ki", "mu", "ne", "Ra", "so", "tü", "42", "Q.")
WAYS: dict[str, dict[str, Any]] = {
    "words": {"spans": ["units", "suffixes:4", "shapes:4", "whole"]},
    "words in one thread": {"spans": ["units", "suffixes:4", "shapes:4", "whole"], "threads": 1},
    "words through files": {"spans": ["units", "suffixes:4", "shapes:4", "whole"], "memory_limit": 1},
    "words after the boundary": {"spans": ["suffixes:3"], "side": "right", "pad": True},
    "letters": {"spans": ["suffixes:4", "shapes:2"], "kind": "letters"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "mle": {"estimator": "mle"},
    "direct": {"estimator": "direct", "lam": 1e-4},
    "product": {"estimator": "product", "lam": 1e-3, "unseen": "formula"},
    **{
        f"selective {criterion}": {"estimator": "selective", "criterion": criterion, "size": 40, "lam": 1e-4}
        for criterion in rg.selection.CRITERIA
    },
    "backoff": {"estimator": "backoff"},
    "backoff in 4 kB": {"estimator": "backoff", "max_bytes": 4096},
}


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
    """Do the job; numbers are told to the last bit, as hexadecimal floating-point numbers."""
    options: dict[str, Any] = {"n": N, "targets": ["LOC", "PER"]}
    tables = {name: rg.count(documents(1), **options, **way) for name, way in WAYS.items()}
    more = rg.count(documents(2), **options, **WAYS["words"])
    tables["merged"] = tables["words"] + more
    tables["taken back"] = tables["merged"] - more
    contexts = [items[k : k + N] for items in (d["items"] for d in documents(3, 20)) for k in range(len(items) - N)]
    models = {name: rg.fit(tables["merged"], "LOC", **chosen) for name, chosen in SETTINGS.items()}
    return {
        "tables": {name: table.digest() for name, table in tables.items()},
        "models": {name: sum(model.sizes) for name, model in models.items()},
        "log_ratios": {name: [value.hex() for value in scores(model, contexts)] for name, model in models.items()},
    }


def scores(model: rg.Model, contexts: list[list[str]]) -> list[float]:
    """Return every seventh log ratio, so that the file stays small, and the exact sum of all finite ones."""
    found = model.log_ratio(contexts)
    return [*found[::7].tolist(), float(found[np.isfinite(found)].sum())]


def main() -> None:
    """Print the results, or write them where they are expected."""
    text = json.dumps(run(), indent=1) + "\n"
    if "--write" in sys.argv[1:]:
        EXPECTED.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()

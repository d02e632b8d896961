"""What a count file or a model file holds, as facts to print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.atomic import PathLike
from raregram.counts.storage import Span, bytes_on_disk, read_header
from raregram.counts.table import Counts, span_names
from raregram.errors import printable
from raregram.models.base import ModelRows
from raregram.models.explain import visible
from raregram.models.model import Model
from raregram.models.registry import read_settings

STRONGEST = 8  # spans shown for and against the target
STRONGEST_HEAD = "(log ratio, position of the first item, items, f_nu : f_de)"

Facts = dict[str, Any]
Entry = tuple[float, ModelRows, int]  # the strength of a row, the rows of its span, and which one it is


def describe(path: PathLike) -> Facts:
    """Return what a count file or a model file holds."""
    return describe_counts(path) if read_header(path)["kind"] == "counts" else describe_model(path)


def summary(path: PathLike) -> str:
    """Say in a line what a file holds, from its header alone."""
    head = read_header(path)
    facts, size = head["header"], bytes_on_disk(path)
    if head["kind"] == "model":
        settings = read_settings(facts)
        return f"model of {settings.target}, {settings}, {size / 1e6:.2f} MB"
    return f"{counts_line(facts)}, {size / 1e6:.2f} MB"


def counts_line(header: Facts) -> str:
    """Say in a line what a count table holds, from its header."""
    totals = dict(zip(("contexts", *header["targets"]), header["totals"], strict=True))
    shown = ", ".join(f"{name} {total:,}" for name, total in totals.items())
    return f"count table, n {header['n']}: {shown}"


def describe_counts(path: PathLike) -> Facts:
    """Return what a count file holds."""
    counts = Counts.load(path)
    return {
        "file": str(path),
        "kind": "count table",
        "n": counts.n,
        "side": counts.side,
        "items": counts.kind,
        "spans": span_names(counts.spans, counts.n),
        "pad": counts.pad,
        "min_count": counts.min_count,
        "contexts": int(counts.totals[0]),
        "targets": dict(zip(counts.targets, counts.totals[1:].tolist(), strict=True)),
        "distinct_items": _distinct(counts, counts.units),
        **_counted_shapes(counts),
        "distinct_items_by_position": [len(counts.rows[span]) for span in counts.units],
        "rows": counts.num_rows,
        "bytes_on_disk": bytes_on_disk(path),
        "bytes_in_memory": counts.nbytes,
        "digest": read_header(path)["digest"],
    }


def describe_model(path: PathLike) -> Facts:
    """Return what a model file holds."""
    return model_facts(Model.load(path), path)


def file_facts(path: PathLike) -> Facts:
    """Return how large a raregram file is, and the digest of its content."""
    return {"bytes_on_disk": bytes_on_disk(path), "digest": read_header(path)["digest"]}


def model_facts(model: Model, path: PathLike, of_file: Facts | None = None) -> Facts:
    """Return what a model that was read from a file holds; `of_file` if that may have been replaced since."""
    of_file = file_facts(path) if of_file is None else of_file
    s = model.settings
    return {
        "file": str(path),
        "kind": "model",
        "target": s.target,
        "estimator": s.estimator,
        **model.estimator.facts(),
        "denominator": s.denominator,
        "n": s.n,
        "side": s.side,
        "items": s.kind,
        "n_nu": s.n_nu,
        "n_de": s.n_de,
        "distinct_items": len(model.items),
        **model.estimator.size_facts(),
        "bytes_on_disk": of_file["bytes_on_disk"],
        "bytes_in_memory": model.nbytes,
        "digest": of_file["digest"],
        **({"corpus": s.corpus} if s.corpus else {}),
        "strongest_for": strongest(model, -1),
        "strongest_against": strongest(model, +1),
    }


def _distinct(counts: Counts, spans: Iterable[Span]) -> int:
    """Return how many distinct items, or shapes, stand in some spans."""
    there = np.zeros(len(counts.items), dtype=bool)
    for span in spans:
        there[counts.rows[span].keys] = True
    return int(there.sum())


def _counted_shapes(counts: Counts) -> Facts:
    if counts.shape is None:
        return {}
    spans = [(counts.n + start, counts.n + end) for start, end in counts.units]
    return {"shape": counts.shape, "distinct_shapes": _distinct(counts, spans)}


def strongest(model: Model, sign: int) -> list[Facts]:
    """Return the spans with the largest terms, for (sign -1) or against (+1) the target, largest first.

    Those of a back-off, where a suffix seen once may have a large term, are first multiplied by their frequency.
    """
    found = [entry for rows in model.estimator.rows() for entry in _strongest_of(model, rows, sign)]
    found.sort(key=lambda entry: entry[0])
    return _span_facts(model, model.estimator.vocabulary, found[:STRONGEST])


def strongest_by_position(model: Model) -> list[Facts]:
    """Return for each position the items with the largest terms for and against the target.

    An estimator of whole N-grams has just one, the N-gram.
    """
    n, vocabulary = model.settings.n, model.estimator.vocabulary
    rows_of = {rows.span: rows for rows in model.estimator.rows()}
    spans = [(0, n)] if list(rows_of) == [(0, n)] else [(k, k + 1) for k in range(n)]
    return [
        {
            "position": span[0] + 1,
            "held": len(rows_of[span]),
            "selected": int(rows_of[span].values[:, 2].sum()),
            "strongest_for": _span_facts(model, vocabulary, _strongest_of(model, rows_of[span], -1)),
            "strongest_against": _span_facts(model, vocabulary, _strongest_of(model, rows_of[span], +1)),
        }
        for span in spans
    ]


def _strongest_of(model: Model, rows: ModelRows, sign: int) -> list[Entry]:
    """Return the strongest rows of one span, the strongest first."""
    frequency = rows.values[:, 0 if sign < 0 else 1]
    strength = sign * rows.terms * (frequency if model.estimator.by_frequency else 1)
    speaking = np.flatnonzero(np.isfinite(strength) & (strength < 0))
    best = speaking[np.argsort(strength[speaking], kind="stable")[:STRONGEST]]
    return [(strength[row], rows, row) for row in best.tolist()]


def _span_facts(model: Model, vocabulary: pa.Array, entries: Iterable[Entry]) -> list[Facts]:
    return [
        {
            "items": vocabulary.take(rows.keys[row]).to_pylist(),
            **_place(rows.span, model.settings.n),
            "f_nu": int(rows.values[row, 0]),
            "f_de": int(rows.values[row, 1]),
            "log_ratio": float(rows.terms[row]),
        }
        for _, rows, row in entries
    ]


def _place(span: Span, n: int) -> Facts:
    """Say where a span is: at a position, or anywhere; of items, or of shapes."""
    if span[0] >= 2 * n:
        return {"first_position": None}
    return {"first_position": span[0] % n + 1, **({"shapes": True} if span[0] >= n else {})}


def as_text(facts: Facts) -> str:
    """Lay facts out as aligned lines."""
    width = max(map(len, facts)) + 2
    lines = []
    for name, value in facts.items():
        if name.startswith("strongest"):
            lines += [f"{name}  {STRONGEST_HEAD}", *(_span_line(entry) for entry in value)] if value else []
        else:
            lines.append(f"{name:<{width}}{_shown(value)}")
    return "\n".join(map(printable, lines))


def _span_line(entry: Facts) -> str:
    items = " ".join(map(visible, entry["items"]))
    place = "any" if entry["first_position"] is None else entry["first_position"]
    items += "  (shapes)" if entry.get("shapes") else ""
    return f"  {entry['log_ratio']:+8.4f}  {place:>3}  {items}  ({entry['f_nu']:,} : {entry['f_de']:,})"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}{':' * name.isdecimal()} {_shown(x)}" for name, x in value.items()) or "none"
    if value is None:
        return "none"
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

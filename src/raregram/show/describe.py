"""What a count file or a model file holds, as facts to print."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.counts.spans import Span, span_names, unit_spans
from raregram.counts.storage import bytes_on_disk, read_header
from raregram.counts.table import Counts
from raregram.errors import printable
from raregram.models.base import ModelRows
from raregram.models.calibration import CALIBRATION
from raregram.models.explain import visible
from raregram.models.model import Model
from raregram.models.registry import read_settings
from raregram.remote import PathLike

STRONGEST = 8  # spans shown for and against the target
STRONGEST_HEAD = "(log ratio, position of the first item, items, f_nu : f_de)"

Facts = dict[str, Any]


def describe(path: PathLike) -> Facts:
    """Return the facts of a count file or a model file."""
    if read_header(path)["kind"] == "model":
        return model_facts(Model.load(path), path, file_facts(path))
    counts = Counts.load(path)
    shapes: Facts = {}
    if counts.shape is not None:
        spans = unit_spans(counts.n, "shape")
        shapes = {"shape": counts.shape, "distinct_shapes": counts.num_distinct(spans)}
    return {
        "file": str(path),
        "kind": "count table",
        "n": counts.n,
        "side": counts.side,
        "items": counts.kind,
        "tokenize": counts.tokenize,
        "lower": counts.lower,
        "spans": span_names(counts.spans, counts.n),
        "pad": counts.pad,
        "min_count": counts.min_count,
        "folds": len(counts.folds),
        "samples": counts.samples,
        "documents": int(counts.totals[1 + len(counts.targets)]) if counts.documents else None,
        "contexts": int(counts.totals[0]),
        "targets": dict(zip(counts.targets, counts.totals[1:].tolist(), strict=False)),
        "distinct_items": counts.num_items,
        **shapes,
        "distinct_items_by_position": [len(counts.rows[span]) for span in counts.units],
        "rows": counts.num_rows,
        "bytes_in_memory": counts.nbytes,
        **file_facts(path),
    }


def summary(path: PathLike, hint: str | None = None) -> str:
    """Describe a file in a line, from its header alone; a hint stands behind "not calibrated"."""
    head = read_header(path)
    if head["kind"] == "model":
        settings = read_settings(head["header"])
        calibrated = "calibrated" if CALIBRATION in head["header"] else f"not calibrated{f' ({hint})' * bool(hint)}"
        line = f"model of {settings.target}, {settings}, {calibrated}"
    else:
        line = counts_line(head["header"])
    return f"{line}, {bytes_on_disk(path) / 1e6:.2f} MB"


def counts_line(header: Facts) -> str:
    """Describe a count table in a line, from its header."""
    totals = dict(zip(("contexts", *header["targets"]), header["totals"], strict=False))
    shown = ", ".join(f"{name} {total:,}" for name, total in totals.items())
    folds = f", {len(header['folds'])} folds" if "folds" in header else ""
    return f"count table, n {header['n']}{folds}: {shown}"


def file_facts(path: PathLike) -> Facts:
    """Return how large a raregram file is, and the digest of its content."""
    return {"bytes_on_disk": bytes_on_disk(path), "digest": read_header(path)["digest"]}


def model_facts(model: Model, path: PathLike, of_file: Facts) -> Facts:
    """Return the facts of a model that was read from a file, and of that file."""
    s = model.settings
    return {
        "file": str(path),
        "kind": "model",
        "target": s.target,
        "estimator": s.estimator,
        **model.estimator.facts(),
        "calibration": None if model.calibration is None else asdict(model.calibration),
        "denominator": s.denominator,
        "n": s.n,
        "side": s.side,
        "items": s.kind,
        "tokenize": s.tokenize,
        "lower": s.lower,
        "n_nu": s.n_nu,
        "n_de": s.n_de,
        "distinct_items": len(model.items),
        **model.estimator.size_facts(),
        "bytes_in_memory": model.nbytes,
        **of_file,
        **({"corpus": s.corpus} if s.corpus else {}),
        "strongest_for": strongest(model, -1),
        "strongest_against": strongest(model, +1),
    }


def strongest(model: Model, sign: int) -> list[Facts]:
    """Return the spans with the largest terms, for (sign -1) or against (+1) the target, largest first.

    Terms of a back-off, where a suffix seen once may have a large one, are first multiplied by their frequency.
    """
    found = [entry for rows in model.estimator.rows() for entry in _strongest_of(model, rows, sign)]
    found.sort(key=lambda entry: entry[0])
    return [facts for _, facts in found[:STRONGEST]]


def strongest_by_position(model: Model) -> list[Facts]:
    """Return for each position the items with the largest terms for and against the target, in order of log ratio.

    An estimator of whole N-grams has just one, the N-gram.
    """
    n = model.settings.n
    rows_of = {rows.span: rows for rows in model.estimator.rows()}
    whole = Span("item", 0, n)
    spans = [whole] if list(rows_of) == [whole] else unit_spans(n)
    return [
        {
            "position": span.start + 1,
            "stored": len(rows_of[span]),
            "selected": int(rows_of[span].values[:, 2].sum()),
            "strongest_for": _by_log_ratio(_strongest_of(model, rows_of[span], -1), -1),
            "strongest_against": _by_log_ratio(_strongest_of(model, rows_of[span], +1), +1),
        }
        for span in spans
    ]


def _by_log_ratio(found: list[tuple[float, Facts]], sign: int) -> list[Facts]:
    """Return the facts of the strongest rows, the largest log ratio (sign -1) or the smallest (+1) first."""
    return sorted((facts for _, facts in found), key=lambda facts: sign * float(facts["log_ratio"]))


def _strongest_of(model: Model, rows: ModelRows, sign: int) -> list[tuple[float, Facts]]:
    """Return the strongest rows of one span with their strength, the strongest first."""
    frequency = rows.values[:, 0 if sign < 0 else 1]
    strength = sign * rows.terms * (frequency if model.estimator.by_frequency else 1)
    candidates = np.flatnonzero(np.isfinite(strength) & (strength < 0))
    best = candidates[np.argsort(strength[candidates], kind="stable")[:STRONGEST]]
    vocabulary = model.estimator.vocabulary if len(best) else pa.array([], pa.string())
    where: Facts = {"first_position": None if rows.span.layer == "any" else rows.span.start + 1}
    where |= {"shapes": True} if rows.span.layer == "shape" else {}
    return [
        (
            strength[row],
            {
                "items": vocabulary.take(rows.keys[row]).to_pylist(),
                **where,
                "f_nu": int(rows.values[row, 0]),
                "f_de": int(rows.values[row, 1]),
                "log_ratio": float(rows.terms[row]),
            },
        )
        for row in best.tolist()
    ]


def as_text(facts: Facts) -> str:
    """Return facts as aligned lines."""
    width = max(map(len, facts)) + 2
    lines = []
    for name, value in facts.items():
        if name.startswith("strongest"):
            lines += [f"{name}  {STRONGEST_HEAD}"] if value else []
            for entry in value:
                items = " ".join(map(visible, entry["items"])) + ("  (shapes)" if entry.get("shapes") else "")
                position = entry["first_position"] or "any"
                frequencies = f"({entry['f_nu']:,} : {entry['f_de']:,})"
                lines.append(f"  {entry['log_ratio']:+8.4f}  {position:>3}  {items}  {frequencies}")
        else:
            lines.append(f"{name:<{width}}{_shown(value)}")
    return "\n".join(map(printable, lines))


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

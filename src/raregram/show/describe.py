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
    shapes = None if counts.shape is None else unit_spans(counts.n, "shape")
    return {
        "file": str(path),
        "kind": "count table",
        **_layout(counts),
        "spans": span_names(counts.spans, counts.n),
        "pad": counts.pad,
        "min_count": counts.min_count,
        "folds": len(counts.folds),
        "samples": counts.samples,
        "documents": int(counts.totals[1 + len(counts.targets)]) if counts.documents else None,
        "contexts": int(counts.totals[0]),
        "targets": dict(zip(counts.targets, counts.totals[1:].tolist(), strict=False)),
        "distinct_items": counts.num_items,
        **({"shape": counts.shape, "distinct_shapes": counts.num_distinct(shapes)} if shapes else {}),
        "distinct_items_by_position": [len(counts.rows[span]) for span in counts.units],
        "rows": counts.num_rows,
        "bytes_in_memory": counts.nbytes,
        **file_facts(path),
    }


def _layout(source: Any) -> Facts:
    """Return the layout of the contexts of a count table or of a model."""
    return {
        "n": source.n,
        "side": source.side,
        "items": source.kind,
        "tokenize": source.tokenize,
        "lower": source.lower,
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
    totals = zip(("contexts", *header["targets"]), header["totals"], strict=False)
    folds = f", {len(header['folds'])} folds" if "folds" in header else ""
    return f"count table, n {header['n']}{folds}: {', '.join(f'{name} {total:,}' for name, total in totals)}"


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
        **_layout(s),
        "n_nu": s.n_nu,
        "n_de": s.n_de,
        "distinct_items": len(model.items),
        **model.estimator.size_facts(),
        "bytes_in_memory": model.nbytes,
        **of_file,
        **({"corpus": s.corpus} if s.corpus else {}),
        "strongest_for": _strongest(model, list(model.estimator.rows()), -1),
        "strongest_against": _strongest(model, list(model.estimator.rows()), +1),
    }


def strongest_by_position(model: Model) -> list[Facts]:
    """Return for each position the items with the largest terms for and against the target, in order of log ratio.

    An estimator of whole N-grams has just one, the N-gram.
    """
    rows_of = {rows.span: rows for rows in model.estimator.rows()}
    whole = Span("item", 0, model.settings.n)
    positions = []
    for span in [whole] if list(rows_of) == [whole] else unit_spans(model.settings.n):
        best = {sign: _strongest(model, [rows_of[span]], sign) for sign in (-1, +1)}
        selected = int(rows_of[span].values[:, 2].sum())
        positions.append({
            "position": span.start + 1, "stored": len(rows_of[span]), "selected": selected,
            "strongest_for": sorted(best[-1], key=lambda facts: -facts["log_ratio"]),
            "strongest_against": sorted(best[+1], key=lambda facts: facts["log_ratio"]),
        })  # fmt: skip
    return positions


def _strongest(model: Model, parts: list[ModelRows], sign: int) -> list[Facts]:
    """Return the rows with the largest terms for (sign -1) or against (+1) the target, largest first.

    Terms of a back-off, where a suffix seen once may have a large one, are first multiplied by their frequency.
    """
    best: list[tuple[float, ModelRows, int]] = []
    for rows in parts:
        frequency = rows.values[:, 0 if sign < 0 else 1] if model.estimator.by_frequency else 1
        strength = sign * rows.terms * frequency
        candidates = np.flatnonzero(np.isfinite(strength) & (strength < 0))
        first = candidates[np.argsort(strength[candidates], kind="stable")[:STRONGEST]]
        best += [(strength[row], rows, row) for row in first.tolist()]
    best.sort(key=lambda entry: entry[0])
    vocabulary = model.estimator.vocabulary if best else pa.array([], pa.string())
    return [
        {
            "items": vocabulary.take(rows.keys[row]).to_pylist(),
            "first_position": None if rows.span.layer == "any" else rows.span.start + 1,
            **({"shapes": True} if rows.span.layer == "shape" else {}),
            "f_nu": int(rows.values[row, 0]),
            "f_de": int(rows.values[row, 1]),
            "log_ratio": float(rows.terms[row]),
        }
        for _, rows, row in best[:STRONGEST]
    ]


def as_text(facts: Facts) -> str:
    """Return facts as aligned lines."""
    width = max(map(len, facts)) + 2
    lines = []
    for name, value in facts.items():
        if not name.startswith("strongest"):
            lines.append(f"{name:<{width}}{_shown(value)}")
            continue
        lines += [f"{name}  {STRONGEST_HEAD}"] if value else []
        for entry in value:
            items = " ".join(map(visible, entry["items"])) + ("  (shapes)" if entry.get("shapes") else "")
            frequencies = f"({entry['f_nu']:,} : {entry['f_de']:,})"
            lines.append(
                f"  {entry['log_ratio']:+8.4f}  {entry['first_position'] or 'any':>3}  {items}  {frequencies}"
            )
    return "\n".join(map(printable, lines))


def _shown(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}{':' * name.isdecimal()} {_shown(x)}" for name, x in value.items()) or "none"
        case list():
            return " ".join(map(_shown, value))
        case bool() | None:
            return {True: "yes", False: "no", None: "none"}[value]
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
    return str(value)

"""Count and model files for the fuzzer: whole ones, how to forge them, and what reading one must give."""

from __future__ import annotations

import io
import json
import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import raregram as rg
from raregram.counts import storage
from raregram.show.describe import describe
from reliability.mutations import parquet

WORDS = ("the", "a", "in", "at", "of", "Mr", "said", "met", "naïve", "Bank", "42", "\U0001f600")
ASKED = ["said Mr in", "the Bank at", "never seen here", "a met in"]
ESTIMATORS: dict[str, dict[str, Any]] = {
    "mle.rgm": {"estimator": "mle"},
    "selective.rgm": {"size": 3},
    "formula.rgm": {"estimator": "product", "unseen": "formula"},
    "backoff.rgm": {"estimator": "backoff"},
}
STRANGE: list[Any] = [None, True, -1, 0, 0.5, 1e400, float("nan"), 2**53 + 1, 2**70, "", "x", [], {}, [[5, 2]]]
STRANGE_FREQUENCIES = (-1, 0, 1, 2**31, 2**53 + 1, 2**62, -(2**63))


@cache
def whole_files() -> dict[str, bytes]:
    """Return count and model files that raregram wrote."""
    source = random.Random(5)
    contexts = [" ".join(source.choice(WORDS) for _ in range(3)) for _ in range(400)]
    labels = [source.choice(["LOC", "PER", None, None]) if " in" in context else None for context in contexts]
    counts = rg.Counts.from_contexts(contexts, labels, spans=["units", "suffixes:3", "shapes:2", "whole"])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        counts.save(folder / "table.counts")
        rg.Counts.from_contexts(contexts[:50], labels[:50]).save(folder / "small.counts")
        for name, options in ESTIMATORS.items():
            rg.fit(counts, "LOC", **options).save(folder / name)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@cache
def known(name: str) -> tuple[str, Any]:
    """Return the digest of a whole file and what is read from it."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / name
        path.write_bytes(whole_files()[name])
        return storage.read_header(path)["digest"], content(path)


def content(path: Path) -> Any:
    """Load a file, ask for everything that it can tell, and return it in a form that compares."""
    described = describe(str(path))
    if path.suffix == ".counts":
        counts = rg.Counts.load(path)
        if counts.min_count == 1:
            repr(counts + counts)
        return counts.as_table().digest(), counts.totals.tolist()
    model = rg.Model.load(path)
    scores = model.log_ratio(ASKED)
    if model.settings.estimator not in ("mle", "direct") and not np.isfinite(scores).all():
        raise AssertionError(f"log ratios that are no numbers: {scores}")
    return scores.tobytes(), [str(model.explain(asked)) for asked in ASKED], bool(described)


def read_as_raregram_file(path: Path, _: random.Random) -> None:
    """Load a file; one that says it is a known one must be that one."""
    found = content(path)
    digest, expected = known(path.name)
    if storage.read_header(path)["digest"] == digest and found != expected:
        raise AssertionError("the content differs, but not the digest")


def forge(data: bytes, rng: random.Random) -> bytes:
    """Change the header or the rows of a file, and often give it the digest of what it holds now."""
    try:
        head, table = _opened(data)
    except Exception:  # it was damaged before
        return data
    for _ in range(rng.choice([1, 1, 2])):
        head, table = rng.choice([_change_header, _change_rows, _change_rows, _swap_header])(head, table, rng)
    if rng.random() < 0.8:
        try:
            empty = storage.SpanTable(head["kind"], head["header"], tuple(head["columns"]), None, ())
            forged = storage.from_arrow(table, empty)
            if data.startswith(storage.ARROW) and rng.random() < 0.8:
                return arrow(forged)
            head["digest"] = forged.digest()
        except Exception:  # there can be no such table
            head["digest"] = "0" * 64
    return parquet(table.replace_schema_metadata({storage.METADATA_KEY: json.dumps(head)}))


def _opened(data: bytes) -> tuple[dict[str, Any], pa.Table]:
    """Return the header and the rows of a file."""
    if not data.startswith(storage.ARROW):
        file = pq.ParquetFile(io.BytesIO(data))
        return json.loads(file.metadata.metadata[storage.METADATA_KEY]), file.read()
    reader = pa.ipc.open_file(pa.py_buffer(data))
    last = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    head = json.loads(last.custom_metadata[storage.METADATA_KEY])
    table = reader.read_all()
    table.validate(full=True)
    return head, table.cast(storage.row_schema(head["columns"]))


def arrow(table: storage.SpanTable) -> bytes:
    """Return a table as an Arrow file, with checksums that fit."""
    with tempfile.TemporaryDirectory() as made:
        storage.write(Path(made) / "forged", replace(table, kind="counts"))
        return (Path(made) / "forged").read_bytes()


def _change_header(head: dict[str, Any], table: pa.Table, rng: random.Random) -> tuple[dict[str, Any], pa.Table]:
    """Give one entry of the header another value, or none."""
    inner = dict(head["header"]) if isinstance(head.get("header"), dict) else {}
    outer = {**head, "header": inner}
    entries = inner if inner and rng.random() < 0.8 else outer
    name = rng.choice(list(entries))
    if rng.random() < 0.1:
        del entries[name]
    elif isinstance(entries[name], list) and entries[name] and rng.random() < 0.6:
        entries[name] = [*entries[name][1:], rng.choice([*STRANGE, *entries[name]])]
    elif isinstance(entries[name], int) and rng.random() < 0.5:
        entries[name] = entries[name] + rng.choice([-1, 1, 7])
    else:
        entries[name] = rng.choice(STRANGE)
    return outer, table


def _swap_header(_: dict[str, Any], table: pa.Table, rng: random.Random) -> tuple[dict[str, Any], pa.Table]:
    """Take the header of another file."""
    return _opened(rng.choice(list(whole_files().values())))[0], table


def _change_rows(head: dict[str, Any], table: pa.Table, rng: random.Random) -> tuple[dict[str, Any], pa.Table]:
    """Drop or repeat rows, drop a column or make strings of it, or change a value."""
    if not table.num_rows or not table.num_columns:
        return head, table
    row, column = rng.randrange(table.num_rows), rng.randrange(table.num_columns)
    field, values = table.schema.field(column), table.column(column).to_pylist()
    strange: dict[str, list[Any]] = {
        "list": [None, [], ["x"], [None], ["\x00", "y"]],
        "int16": [None, -3, -1, 0, 1, 2, 5, 20],
        "int64": [None, *STRANGE_FREQUENCIES],
    }
    changed = [*values]
    changed[row] = rng.choice(strange.get(str(field.type).partition("<")[0], [None, "x"]))
    some: list[pa.Table] = [
        table.slice(0, row),
        pa.concat_tables([table, table.slice(row, 1)]),
        table.remove_column(column),
        table.set_column(column, field.name, pa.array([str(value) for value in values])),
        *[table.set_column(column, field.name, pa.array(changed, field.type))] * 4,
    ]
    return head, rng.choice(some)

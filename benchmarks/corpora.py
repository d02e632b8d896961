"""The synthetic corpus of the benchmarks: documents of 130 words from Zipf's law, with three labelled spans each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from raregram.measure.synthetic import zipf_documents

LENGTH, WORDS = 130, 100_000
PART = 20_000  # documents made at a time


def documents(number: int, seed: int = 1, targets: int = 2) -> pa.Table:
    """Return documents with one span for about every forty items, labelled T0, T1 ... in turn."""
    starts = np.random.default_rng(seed).integers(90, LENGTH - 1, size=(number, 3)).tolist()
    spans = [
        [{"start": s, "end": s + 1, "label": f"T{(3 * row + k) % targets}"} for k, s in enumerate(of_row)]
        for row, of_row in enumerate(starts)
    ]
    return pa.table({"text": zipf_documents(number, LENGTH, WORDS, seed=seed), "spans": spans})


def write(path: Path, items: int, seed: int = 100) -> Path:
    """Write documents of about so many items to a Parquet file, some at a time."""
    left = -(-items // LENGTH)
    with pq.ParquetWriter(path, documents(1).schema) as writer:
        for number, first in enumerate(range(0, left, PART)):
            writer.write_table(documents(min(PART, left - first), seed + number), row_group_size=4096)
    return path

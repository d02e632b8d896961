"""Scores of whole documents: a log ratio for each of their contexts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from raregram.contexts import insert_pads
from raregram.corpus import Documents, Options
from raregram.counting import split_documents
from raregram.formats.tables import from_batches
from raregram.model import Model


def score_rows(model: Model, content: pa.Array, source: str, first: int) -> pa.Array:
    """Return a list for each document of a column of a table; `first` is the number of its first row."""
    name = "text" if pa.types.is_string(content.type) or pa.types.is_large_string(content.type) else "items"
    batch = pa.record_batch([content], names=[name])
    return score_documents(model, next(from_batches([batch], source, Options(), first)))


def score_documents(model: Model, documents: Documents) -> pa.Array:
    """Return a list for each document: the log ratios of its contexts, from the first to the last.

    A document of L items has L - n + 1 of them, or none if it is too short; with pads, one at every boundary.
    """
    s = model.settings
    items, lengths = split_documents(documents, s.kind)
    if s.pad:
        items = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
        items, lengths = insert_pads(items, lengths, np.full(len(lengths), s.n), s.side), lengths + s.n
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    numbers = np.asarray(encoded.indices, dtype=np.int32)
    contexts = np.maximum(lengths - s.n + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(contexts)])
    starts = np.repeat(np.cumsum(lengths) - lengths - offsets[:-1], contexts) + np.arange(offsets[-1])
    windows = numbers[starts[:, None] + np.arange(s.n)] if len(starts) else np.empty((0, s.n), np.int32)
    scores = model.log_ratio(model.number_rows(encoded.dictionary, windows))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(scores))

"""Scores of whole documents: a log ratio for each of their contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from raregram.corpus.contexts import Batch, read_contexts
from raregram.corpus.documents import Location, Options, reads_once
from raregram.corpus.formats.tables import from_batches
from raregram.counts.count import context_files
from raregram.counts.encode import split_documents
from raregram.counts.storage import is_raregram_file
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, must_be
from raregram.models.base import Settings
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.text.ngrams import NGramsLike, are_lines, one_string_array
from raregram.text.tokenize import insert_pads, split_texts, window_starts

PIECE = 1 << 17  # boundaries scored at a time, so that a long text needs little memory
KEPT_OPEN = 8  # sources of which the first batch stays in memory; of others it is read again
LOG_RATIO = "log_ratio"  # the usual name of the column that scoring adds


def open_contexts(
    sources: Sequence[str], rename: Mapping[str, str] | None = None, documents: bool = False
) -> tuple[list[Batch], Iterator[Batch]]:
    """Return a batch without rows of each source that has any, and the batches of all of them.

    The first ones tell whether the sources fit together before anything is done with them; see `read_contexts`. A
    count file gives its whole N-grams.
    """
    paths = context_files(sources)
    heads: list[Batch] = []
    begun: dict[int, Iterator[Batch]] = {}
    for index, path in enumerate(paths):
        batches = _read_source(path, rename, documents)
        first = list(islice(batches, 1))
        heads += [batch.head(0) for batch in first]
        if index < KEPT_OPEN or reads_once(path):
            begun[index] = chain(first, batches)
    by_kind = {head.documents: head.source for head in heads}
    if len(by_kind) > 1:
        raise InputError(f"{by_kind[True]} holds documents and {by_kind[False]} contexts: score them one by one")
    read = (begun.pop(i) if i in begun else _read_source(path, rename, documents) for i, path in enumerate(paths))
    return heads, chain.from_iterable(read)


def _read_source(path: str, rename: Mapping[str, str] | None, documents: bool) -> Iterator[Batch]:
    """Yield the contexts of a file, or the whole N-grams of a count file."""
    if reads_once(path) or not is_raregram_file(path):
        return read_contexts(path, rename, documents)
    counts = Counts.load(path)
    if counts.whole not in counts.rows:
        raise InputError(f"{path} holds no whole N-grams; count with the spans 'units' and 'whole'")
    return (batch for batch in [Batch(Location(path, "row"), counts.whole_ngrams().lists())] if len(batch))


def score_columns(name: str, interval: bool, documents: bool) -> pa.Schema:
    """Return the columns that scoring adds to a table; documents get a list of log ratios."""
    if not name:
        raise must_be("as", "score", "a name", name)
    ends = ("lower", "upper") if name == LOG_RATIO else (f"{name}_lower", f"{name}_upper")
    kind = pa.list_(pa.float64()) if documents else pa.float64()
    return pa.schema([(column, kind) for column in (name, *(ends if interval else ()))])


def score_contexts(model: Model, ngrams: NGramsLike, level: float | None = None) -> list[pa.Array]:
    """Return the log ratios of N-grams, and with a level the lower and the upper ends of their intervals."""
    if level is None:
        return [pa.array(model.log_ratio(ngrams))]
    codes = model.encode(ngrams)
    return [pa.array(values) for values in (model.log_ratio(codes), *model.interval(codes, level).T.copy())]


def ngram_lines(model: Model, ngrams: NGramsLike) -> pa.Array:
    """Return each N-gram as one line of text; different N-grams have different ones."""
    texts = None if model.settings.pad else one_string_array(ngrams)
    if texts is not None and are_lines(texts, model.settings.kind):
        return texts
    return model.parse(ngrams).lines(model.settings.kind)


def score_rows(model: Model, name: str, content: pa.Array, location: Location) -> pa.Array:
    """Return a list for each document of the column `items` or `text`: the log ratios of its contexts, in order.

    A document of L items has L - n + 1 of them, or none if it is too short; with pads, one at every boundary.
    `location` is that of the first row.
    """
    batches = from_batches([pa.record_batch([content], names=[name])], location, Options())
    parts = [score_items(model, *split_documents(documents, model.splitter)) for documents in batches]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.list_(pa.float64()))


def score_items(model: Model, items: pa.Array, lengths: Ints) -> pa.Array:
    """Return the same for documents that are split: their items one after the other, and how many each has."""
    s = model.settings
    if s.pad:
        items = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
        items, lengths = insert_pads(items, lengths, np.full(len(lengths), s.n), s.side), lengths + s.n
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    numbers = np.asarray(encoded.indices, dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths - s.n + 1, 0))])
    starts = window_starts(lengths, s.n)
    windows = numbers[starts[:, None] + np.arange(s.n)] if len(starts) else np.empty((0, s.n), np.int32)
    scores = model.log_ratio(model.encode_rows(encoded.dictionary, windows))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(scores))


def split_text(text: str, kind: str) -> pa.Array:
    """Return the items of a text."""
    return split_texts(pa.array([text], pa.string()), kind)[0]


def first_and_last(settings: Settings, length: int) -> tuple[int, int]:
    """Return the first boundary with a context, and one past the last, in a document of so many items."""
    if settings.pad:
        return 0, length + 1
    count = max(length - settings.n + 1, 0)
    first = min(settings.n, length + 1) if settings.side == "left" else 0
    return first, first + count


def boundary_scores(model: Model, items: pa.Array, check: Callable[[], None] = lambda: None) -> Floats:
    """Return the log ratio of every boundary that has a context, from the first to the last.

    Args:
        model: the model.
        items: the items of one document.
        check: called now and then; it may raise to stop the work.
    """
    s = model.settings
    first, last = first_and_last(s, len(items))
    parts = [np.empty(0)]
    for begin in range(first, last, PIECE):
        end = min(begin + PIECE, last)
        check()
        # All items that these boundaries need; a pad stands only where the document itself begins or ends.
        low, high = (max(begin - s.n, 0), end - 1) if s.side == "left" else (begin, end - 1 + s.n)
        piece = items[low:high]
        scores = np.asarray(score_items(model, piece, np.array([len(piece)])).values)
        skipped = begin - low - first_and_last(s, len(piece))[0]
        parts.append(scores[skipped : skipped + end - begin])
    return np.concatenate(parts)


def all_boundaries(model: Model, items: pa.Array) -> list[float | None]:
    """Return the log ratios of all boundaries of a document, None where there is no context."""
    first, last = first_and_last(model.settings, len(items))
    return [*[None] * first, *boundary_scores(model, items).tolist(), *[None] * (len(items) + 1 - last)]

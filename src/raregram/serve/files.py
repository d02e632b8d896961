"""The documents of a request: a text, or those of a file, read from memory and within limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from raregram.corpus.documents import BufferedFile, Documents
from raregram.corpus.formats import read_documents
from raregram.counts.encode import split_documents
from raregram.counts.table import Ints
from raregram.errors import InputError, ParameterError
from raregram.measure.score import split_text
from raregram.models.base import Settings
from raregram.models.model import Model
from raregram.serve.schemas import RankRequest
from raregram.text.tokenize import PAD

UNPACKED = 8  # bytes of documents for a byte that a request may have: compressed files hold more than they weigh


@dataclass(frozen=True)
class SplitDocuments:
    """Some documents of a request, split into items."""

    numbers: range  # of the documents, counted from 0 through all of the request
    source: Documents | None  # None: a text without a name
    items: pa.Array  # string, maybe as a dictionary: of all documents, one after the other
    lengths: Ints  # (documents,) number of items

    def context(self, row: int, position: int, settings: Settings) -> list[str]:
        """Return the items of a document that a model sees from a boundary, with the pads that it wants."""
        begin = int(self.lengths[:row].sum())
        items = self.items[begin : begin + int(self.lengths[row])]
        first = position - settings.n if settings.side == "left" else position
        found: list[str] = items[max(first, 0) : first + settings.n].to_pylist()
        pads = [PAD] * (settings.n - len(found)) if settings.pad else []
        return [*pads, *found] if settings.side == "left" else [*found, *pads]

    def name(self, row: int) -> str | None:
        """Return the id of a document, or its line or row in its file."""
        if self.source is None:
            return None
        location = self.source.location(row)
        identifier = None if self.source.ids is None else self.source.ids[row].as_py()
        return identifier or (f"{location.unit} {location.first}" if location.unit else location.source)


def split_request(request: RankRequest, model: Model, max_bytes: int) -> Iterator[SplitDocuments]:
    """Yield the documents of a request, of a file in any format that `raregram count` reads.

    The file's name tells its format where the content does not; nothing is opened by it. A file that unpacks to many
    times the size of a request, `max_bytes`, is refused.
    """
    if (request.text is None) == (request.file is None):
        raise ParameterError("send either a text or a file")
    if request.file is None:
        items = split_text(request.text or "", model.settings.tokenizer)
        yield SplitDocuments(range(1), None, items, np.array([len(items)]))
        return
    file = BufferedFile(re.split(r"[/\\]", request.file_name)[-1] or "the file", request.file)
    size, first = 0, 0
    for documents in read_documents(file):
        items, lengths = split_documents(documents, model.splitter)
        size += documents.content.nbytes
        if size > UNPACKED * max_bytes:
            raise InputError(f"{file} unpacks to more than {UNPACKED * max_bytes:,} bytes: use raregram rank")
        yield SplitDocuments(range(first, first + len(lengths)), documents, items, lengths)
        first += len(lengths)

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
from raregram.errors import InputError
from raregram.measure.score import split_text
from raregram.models.base import Settings
from raregram.models.model import Model

UNPACKED = 8  # bytes of documents for a byte that a request may have: compressed files hold more than they weigh


@dataclass(frozen=True)
class Split:
    """Some documents, split into items that follow each other."""

    items: pa.Array  # string, maybe as a dictionary
    lengths: Ints  # how many items each document has
    first: int = 0  # the number of the first document
    documents: Documents | None = None  # where they come from; None: a text without a name

    @property
    def numbers(self) -> range:
        """The numbers of the documents, counted from 0 through all of the request."""
        return range(self.first, self.first + len(self.lengths))

    def context(self, number: int, position: int, settings: Settings) -> list[str]:
        """Return the items of a document that a model sees from a boundary."""
        start = int(self.lengths[: number - self.first].sum())
        items = self.items[start : start + int(self.lengths[number - self.first])]
        low, high = (
            (position - settings.n, position) if settings.side == "left" else (position, position + settings.n)
        )
        found: list[str] = items[max(low, 0) : high].to_pylist()
        return found

    def name(self, number: int) -> str | None:
        """Return the id of a document, or where it stands in its file."""
        if self.documents is None:
            return None
        row = number - self.first
        identifier = None if self.documents.ids is None else self.documents.ids[row].as_py()
        location = self.documents.location(row)
        return identifier or (f"{location.unit} {location.first}" if location.unit else location.source)


def from_text(text: str, model: Model) -> Iterator[Split]:
    """Yield a text as one document."""
    items = split_text(text, model.settings.tokenizer)
    yield Split(items, np.array([len(items)]))


def from_file(name: str, content: bytes, model: Model, max_bytes: int) -> Iterator[Split]:
    """Yield the documents of a file, in any format that `raregram count` reads.

    Args:
        name: the file's name, which tells its format where the content does not; nothing is opened by it.
        content: what the file holds.
        model: the model whose items are wanted.
        max_bytes: the size of a request; what unpacks to many times as much is refused.
    """
    file = BufferedFile(re.split(r"[/\\]", name)[-1] or "the file", content)
    size, first = 0, 0
    for documents in read_documents(file):
        items, lengths = split_documents(documents, model.splitter)
        size += documents.content.nbytes
        if size > UNPACKED * max_bytes:
            raise InputError(f"{file} unpacks to more than {UNPACKED * max_bytes:,} bytes: use raregram rank")
        yield Split(items, lengths, first, documents)
        first += len(lengths)

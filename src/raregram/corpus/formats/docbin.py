"""spaCy's DocBin files: texts with the entities that some pipeline or person marked. Extra `ner`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raregram.corpus.documents import (
    LARGEST_WHOLE,
    Documents,
    Options,
    Row,
    batches,
    open_bytes,
    read_whole,
    spans_from_offsets,
)
from raregram.corpus.nlp import import_spacy
from raregram.errors import FileError, InputError, RaregramError, is_unicode

CHUNK = 1 << 20  # bytes unpacked at a time


def read_docbin(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a DocBin file; items are the strings between white space, as everywhere."""
    return batches(_rows(path), options.batch_bytes)


def _rows(path: str) -> Iterator[Row]:
    spacy = import_spacy()
    with _damage_named(path), open_bytes(path) as stream:
        content = read_whole(stream, path)
        _check_size(content, path)
        docs = spacy.tokens.DocBin().from_bytes(content)
        del content
        read = docs.get_docs(spacy.vocab.Vocab())
    number = 0
    while True:
        number += 1
        with _damage_named(path):
            doc = next(read, None)
            if doc is None:
                return
            row = _row(doc, f"{path}, document {number}")
        yield row


def _row(doc: Any, place: str) -> Row:
    """Return a spaCy document as one of ours."""
    offsets = [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
    if not all(map(is_unicode, (doc.text, *(label for _, _, label in offsets)))):
        raise InputError(f"{place} is not valid Unicode")
    return None, doc.text, spans_from_offsets(doc.text, offsets), place


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Turn whatever a foreign or broken file makes spaCy raise into one error that names the file."""
    try:
        yield
    except RaregramError:
        raise
    except Exception as error:  # its readers raise whatever they like
        raise FileError(f"{path} is not a DocBin file, or it is truncated or damaged") from error


def _check_size(content: bytes, path: str) -> None:
    """Refuse what unpacks to more than may be read as a whole, without keeping it."""
    unpacker = zlib.decompressobj()
    size, data = 0, content
    while data and not unpacker.eof:
        size += len(unpacker.decompress(data, CHUNK))
        data = unpacker.unconsumed_tail
        if size > LARGEST_WHOLE:
            raise InputError(f"{path} unpacks to more than {LARGEST_WHOLE >> 20:,} MiB: split it")

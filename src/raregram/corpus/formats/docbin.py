"""spaCy's DocBin files: texts with the entities that some pipeline or person marked. Extra `ner`."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

from raregram.corpus.documents import (
    LARGEST_WHOLE,
    Location,
    Options,
    Row,
    open_bytes,
    read_whole,
    spans_from_offsets,
)
from raregram.corpus.spacy import import_spacy
from raregram.errors import InputError, is_unicode, reraise

CHUNK = 1 << 20  # bytes unpacked at a time
DAMAGED = "{path} is not a DocBin file, or it is truncated or damaged"  # its readers raise whatever they like


def read_docbin(path: str, options: Options) -> Iterator[Row]:
    """Yield the documents of a DocBin file; items are the strings between white space, as everywhere."""
    spacy = import_spacy()
    with reraise(path, says=DAMAGED, errors=(Exception,)), open_bytes(path) as stream:
        content = read_whole(stream, path)
        _check_size(content, path)
        docs = spacy.tokens.DocBin().from_bytes(content)
        del content
        read = docs.get_docs(spacy.vocab.Vocab())
    for number in itertools.count(1):
        with reraise(path, says=DAMAGED, errors=(Exception,)):
            doc = next(read, None)
            if doc is None:
                return
            offsets = [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
            location = Location(path, "document", number)
            if not all(map(is_unicode, (doc.text, *(label for _, _, label in offsets)))):
                raise InputError(f"{location} is not valid Unicode")
            row = Row(None, doc.text, spans_from_offsets(doc.text, offsets), location)
        yield row


def _check_size(content: bytes, path: str) -> None:
    """Refuse what unpacks to more than may be read as a whole, without keeping it."""
    unpacker = zlib.decompressobj()
    size, data = 0, content
    while data and not unpacker.eof:
        size += len(unpacker.decompress(data, CHUNK))
        data = unpacker.unconsumed_tail
        if size > LARGEST_WHOLE:
            raise InputError(f"{path} unpacks to more than {LARGEST_WHOLE >> 20:,} MiB: split it")

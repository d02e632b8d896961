"""spaCy's DocBin files: texts with the entities that some pipeline or person marked. Extra `ner`."""

from __future__ import annotations

from collections.abc import Iterator

from raregram.corpus.documents import Location, Options, Row, open_bytes, read_whole, spans_from_offsets
from raregram.corpus.spacy import import_spacy
from raregram.errors import InputError, is_unicode, reraise

DAMAGED = "{path} is not a DocBin file, or it is truncated or damaged"


def read_docbin(path: str, options: Options) -> Iterator[Row]:
    """Yield the documents of a DocBin file; items are the strings between white space, as everywhere."""
    spacy = import_spacy()
    # spaCy's readers raise whatever they like.
    with reraise(path, says=DAMAGED, errors=(Exception,)):
        with open_bytes(path) as stream:
            docs = spacy.tokens.DocBin().from_bytes(read_whole(stream, path))
        for number, doc in enumerate(docs.get_docs(spacy.vocab.Vocab()), 1):
            offsets = [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
            location = Location(path, "document", number)
            if not all(map(is_unicode, (doc.text, *(label for _, _, label in offsets)))):
                raise InputError(f"{location} is not valid Unicode")
            yield Row(None, doc.text, spans_from_offsets(doc.text, offsets), location)

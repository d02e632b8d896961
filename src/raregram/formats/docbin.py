"""spaCy's DocBin files: texts with the entities that some pipeline or person marked. Extra `ner`."""

from __future__ import annotations

from collections.abc import Iterator

from raregram.corpus import Documents, Options, Row, batches, naming, open_bytes, spans_from_offsets
from raregram.errors import FileError
from raregram.nlp import import_spacy


def read_docbin(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of a DocBin file; items are the strings between white space, as everywhere."""
    return batches(_rows(path), options.batch_bytes)


def _rows(path: str) -> Iterator[Row]:
    spacy = import_spacy()
    with naming(path):
        try:
            with open_bytes(path) as stream:
                docs = spacy.tokens.DocBin().from_bytes(stream.read())
        except (FileError, OSError):
            raise
        except Exception as error:  # a foreign file makes its readers raise whatever they like
            raise FileError(f"{path} is not a DocBin file, or it is truncated or damaged") from error
    for number, doc in enumerate(docs.get_docs(spacy.vocab.Vocab()), 1):
        offsets = [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
        yield None, doc.text, spans_from_offsets(doc.text, offsets), f"{path}, document {number}"

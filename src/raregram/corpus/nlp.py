"""The one place that imports spaCy. Extra `ner`."""

from __future__ import annotations

from typing import Any

from raregram.errors import MissingExtraError


def import_spacy() -> Any:
    """Return the module `spacy`, or say how to install it."""
    try:
        import spacy
        import spacy.tokens
        import spacy.vocab
    except ImportError as error:
        raise MissingExtraError("this needs spaCy: pip install 'raregram[ner]'") from error
    return spacy

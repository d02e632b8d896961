"""A document as an object: a line of JSON, a Python mapping, a row of a table.

=============================  ==========================================================================
`items`, or `text`             lists of strings, or strings that are split at white space
`spans`                        `start`, `end` and `label`, offsets in items
`entities`                     the same with offsets in characters of `text` (spaCy)
`tokens`, `ner_tags`           strings, and their tags in BIO or IOB1 (Hugging Face)
`tokens`, `spans`              objects, and spans with `token_start` and `token_end` (Prodigy)
=============================  ==========================================================================

spaCy's pairs `["text", {"entities": [...]}]` are documents, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raregram.corpus.documents import Location, Row, Spans, spans_from_offsets, word_bounds
from raregram.corpus.formats.columns import decode_tags
from raregram.corpus.log import ReadingLog
from raregram.corpus.samples import sample_of
from raregram.errors import InputError, is_unicode, name_some, shorten

PLAIN = frozenset({"items", "text", "id", "spans"})
MORE = ("tokens", "ner_tags", "entities")  # fields of other tools
SPAN_FIELDS = "spans (offsets in items), entities (offsets in characters) or ner_tags (a tag per token)"
OTHER_NAMES = {"annotation", "annotations", "bio", "ents", "label", "labels", "named_entities", "ner", "span", "tags"}


def parse_document(
    document: Any,
    location: Location,
    log: ReadingLog | None = None,
    tag_names: Sequence[str] | None = None,
    by: str | None = None,
) -> Row:
    """Check a document that came as an object, and put it into items or text, and spans.

    Args:
        document: the object.
        location: where it is, for messages.
        log: where fields are noted that were not read.
        tag_names: what `ner_tags` that are numbers stand for, if this is known.
        by: the field that says the sample, if one does.
    """
    if is_pair(document):
        document = {"text": document[0], **document[1]}
    if not hasattr(document, "get"):
        raise InputError(f"{location}: a document is an object with items or text, got {type(document).__name__}")
    if not PLAIN.issuperset(document.keys()) or _have_tokens(document.get("spans")):
        document = _as_plain(document, location, log or ReadingLog(), tag_names)
    items, text, name, given = document.get("items"), document.get("text"), document.get("id"), document.get("spans")
    words = [text] if items is None else items
    is_list = items is None or isinstance(items, list | tuple)
    if not is_list or not all(isinstance(word, str) for word in words):
        there = [] if items is not None or text is not None else [str(field) for field in document.keys() - PLAIN]
        has = f"; this one has {name_some(sorted(there))}: rename the field that holds the text" if there else ""
        raise InputError(f"{location}: a document needs items (a list of strings) or text (a string){has}")
    if not isinstance(given, list | tuple | None):
        raise InputError(f"{location}: spans must be a list, got {shorten(given)}")
    spans = None if given is None else [_parse_span(span, location) for span in given]
    name = None if name is None else str(name)
    for word in (name or "", *words, *(label for _, _, label in spans or ())):
        if not word.isascii() and not is_unicode(word):
            raise InputError(f"{location} is not valid Unicode")
    sample = sample_of(document, by, location)
    return Row(name, text if items is None else items, spans, location, sample=sample)


def ignored(where: object, name: str, field: str = "field") -> str:
    """Say that a field was not read that seems to hold spans."""
    return f"{where}: the {field} {name} was ignored, since spans are read from {SPAN_FIELDS}: rename it"


def is_pair(document: Any) -> bool:
    """Whether this is a text with its annotations, as spaCy's training examples were."""
    pair = isinstance(document, list | tuple) and len(document) == 2
    return pair and isinstance(document[0], str) and isinstance(document[1], Mapping)


def _as_plain(
    document: Any, location: Location, log: ReadingLog, tag_names: Sequence[str] | None
) -> Mapping[str, Any]:
    """Return a document of other fields with `items` or `text`, and `spans`."""
    plain = {**document}
    tokens, spans = plain.get("tokens"), plain.get("spans")
    objects = _first(tokens, Mapping) is not None
    if spans is not None and objects:
        return plain | _by_tokens(plain, tokens, spans, location)
    if _have_tokens(spans):
        return plain | _in_items(plain, spans, location)
    are_words = objects or _first(tokens, str) is not None or plain.get("text") is None
    if plain.get("items") is None and isinstance(tokens, list | tuple) and are_words:
        plain["items"] = [token.get("text") if isinstance(token, Mapping) else token for token in tokens]
    if spans is None:
        return plain | _spans_of_others(plain, location, log, tag_names)
    for name in ("entities", "ner_tags"):
        if plain.get(name):
            log.note(name, f"{location}: the field {name} was ignored, since there are spans too")
    return plain


def _spans_of_others(
    document: Mapping[str, Any], location: Location, log: ReadingLog, tag_names: Sequence[str] | None
) -> dict[str, Any]:
    """Return the items and spans that entities or tags give; other fields that look like spans are noted."""
    if document.get("entities") is not None:
        return _in_items(document, document["entities"], location)
    if document.get("ner_tags") is not None:
        return {"spans": _from_tags(document.get("items"), document["ner_tags"], location, tag_names)}
    for name in filter(None, (_ignored(name, value) for name, value in document.items())):
        log.note(name, ignored(location, name))
    return {}


def _have_tokens(spans: Any) -> bool:
    """Whether spans are Prodigy's, in which `start` and `end` are characters."""
    return isinstance(spans, list | tuple) and bool(spans) and "token_start" in (_first(spans, dict) or ())


def _first(values: Any, kind: Any) -> Any:
    """Return the first of a list if it is of a kind, else None."""
    return values[0] if isinstance(values, list | tuple) and values and isinstance(values[0], kind) else None


def _in_items(document: Mapping[str, Any], entities: Any, location: Location) -> dict[str, Any]:
    """Turn offsets in characters of the text into spans of its items."""
    text = document.get("text")
    if not isinstance(text, str) or not isinstance(entities, list | tuple):
        raise InputError(f"{location}: entities must be a list of offsets in characters of the field text")
    return {"items": None, "spans": _placed(text, entities, location)}


def _placed(text: str, entities: Any, location: Location, bounds: Any = None) -> Spans:
    """Return the spans of items of entities, each of which must be inside the text and hold some of it."""
    spans: Spans = []
    bounds = word_bounds(text) if bounds is None else bounds
    for start, end, label in (_parse_span(entity, location) for entity in entities):
        found = spans_from_offsets(text, [(start, end, label)], bounds) if 0 <= start < end <= len(text) else []
        if not found:
            inside = 0 <= start < end <= len(text)
            problem = "holds no word" if inside else f"does not fit into a text of {len(text):,} characters"
            raise InputError(f"{location}: the entity {shorten(label)} from {start} to {end} {problem}")
        spans += found
    return spans


def _by_tokens(document: Mapping[str, Any], tokens: Any, spans: Any, location: Location) -> dict[str, Any]:
    """Return Prodigy's tokens as items, and its spans by their tokens, or else by their characters."""
    try:
        items = [token["text"] for token in tokens]
        if all("token_start" in span and "token_end" in span for span in spans):
            return {"items": items, "spans": [(s["token_start"], s["token_end"] + 1, s["label"]) for s in spans]}
        bounds = np.array([(token["start"], token["end"]) for token in tokens], dtype=np.int64)
        if (np.diff(bounds.ravel()) < 0).any():
            raise ValueError("tokens overlap")
        return {"items": items, "spans": _placed(document["text"], spans, location, bounds)}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        said = "tokens need text, start and end, one after the other, and spans start, end and label"
        raise InputError(f"{location}: {said}") from None


def _from_tags(items: Any, tags: Any, location: Location, names: Sequence[str] | None) -> Spans:
    """Return the spans that a tag for each token stands for."""
    if not isinstance(tags, list | tuple) or not isinstance(items, list | tuple) or len(tags) != len(items):
        raise InputError(f"{location}: ner_tags must be a list with a tag for each of the tokens")
    if all(type(tag) is int for tag in tags) and tags:
        if names is None:
            raise InputError(
                f"{location}: ner_tags are numbers, and what they stand for is not known: write B-LOC, I-LOC, O ..."
            )
        if not all(0 <= tag < len(names) for tag in tags):
            raise InputError(f"{location}: ner_tags has a number beyond the {len(names)} tags that have a name")
        tags = [names[tag] for tag in tags]
    if not all(isinstance(tag, str) and tag for tag in tags):
        raise InputError(f"{location}: ner_tags must be strings such as B-LOC, I-LOC and O")
    return decode_tags(tags)


def _ignored(name: Any, value: Any) -> str:
    """Return the name of a field that seems to hold spans under another name."""
    span = _first(value, Mapping | list | tuple) if name not in PLAIN and name not in MORE else None
    if not span:
        return ""
    is_object = isinstance(span, Mapping)
    has_offset = {"start", "begin", "start_offset"} & set(span) if is_object else type(span[0]) is int
    return str(name) if name in OTHER_NAMES or has_offset else ""


def _parse_span(span: Any, location: Location) -> tuple[int, int, str]:
    """Read a span given as an object or as a list of three."""
    try:
        start, end, label = (span["start"], span["end"], span["label"]) if hasattr(span, "get") else span
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{location}: a span needs start, end and label, got {shorten(span)}") from None
    whole = type(start) is int and type(end) is int and max(abs(start), abs(end)) < 2**62  # which no bool is
    if not whole or not isinstance(label, str):
        raise InputError(f"{location}: a span needs whole numbers start and end and a label, got {shorten(span)}")
    return start, end, label

"""Documents and contexts -> codes of their items, and the class of each window, which says what it counts.

A labelled context is a document of one window, and an N-gram with two frequencies is one whose window adds these. So
the engine knows documents alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import Documents, string_bounds
from raregram.corpus.labels import check_labels, distinct_labels
from raregram.corpus.log import MOST_SAMPLED, ReadingLog
from raregram.counts.kernel import CountSettings
from raregram.counts.storage import FACTOR, hash_items, mix
from raregram.counts.table import Ints
from raregram.errors import InputError, shorten
from raregram.text.ngrams import NGramsLike, Where, nth_ngram, one_string_array, parse_ngrams
from raregram.text.tokenize import PAD, Tokenizer, expand, insert_fill
from raregram.text.vocabulary import Codes, Encoder

# What a window adds to the frequency of its row: in all, and at each target.
WindowClass: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]

ONCE: WindowClass = (1, ())
LONGEST_NAME = 200  # characters of a name in a text
HASHED = 64  # items of a document that its hash is made of: the first piece of a long one has more


@dataclass(frozen=True)
class Encoded:
    """Documents that are long enough for a window, in codes of a vocabulary of their own."""

    items: pa.Array  # string, distinct; a code is an index into it
    codes: Codes  # (items of all documents, one after the other)
    lengths: Ints  # (documents,)
    window_class: Codes  # (windows,) indices into `classes`
    classes: Sequence[WindowClass]
    labels: set[str]  # that windows could have
    documents: int  # also those that are too short
    longest: int  # items of the longest document
    number: Ints  # (documents,) how many have begun in this batch before; -1: it goes on from the batch before
    begun: int  # documents that begin in this batch, also those that are too short
    hashes: npt.NDArray[np.uint64] | None = None  # (documents,) by which folds are chosen; None: by their order


def encode_documents(documents: Documents, settings: CountSettings, log: ReadingLog) -> Encoded:
    """Encode a batch of documents; those whose spans lie outside are skipped, or raise."""
    _look_at_offsets(documents, log)
    documents, items, lengths = _prepare(documents, settings, log)
    _note(documents, log)
    classify = _classes_of_spans if documents.sample is None else _classes_of_samples
    labels, window_class, classes = classify(documents, lengths, settings, log)
    long = lengths >= settings.n
    vocabulary, codes = _encode(items, lengths, long)
    begins = np.ones(len(documents), dtype=bool) if documents.begins is None else documents.begins
    number = np.cumsum(begins)[long] - 1
    return Encoded(
        vocabulary,
        codes,
        lengths[long],
        window_class,
        classes,
        labels,
        documents=len(documents) if documents.ends is None else int(documents.ends.sum()),
        longest=int(lengths.max(initial=0)),
        number=number,
        begun=int(begins.sum()),
        hashes=_hash_documents(vocabulary, codes, lengths[long], number) if settings.folds else None,
    )


def _hash_documents(items: pa.Array, codes: Codes, lengths: Ints, number: Ints) -> npt.NDArray[np.uint64]:
    """Return a hash of how each document begins; equal documents have equal hashes, and so have all pieces of one."""
    item_hash, first = hash_items(items)[codes], np.cumsum(lengths) - lengths
    hashes = np.zeros(len(lengths), dtype=np.uint64)
    for place in range(min(int(lengths.max(initial=0)), HASHED)):
        there = np.flatnonzero(lengths > place)
        hashes[there] = mix(hashes[there] * FACTOR + item_hash[first[there] + place])
    return hashes[np.searchsorted(number, number)]


def encode_labelled(
    contexts: NGramsLike,
    labels: Any,
    settings: CountSettings,
    where: Where = nth_ngram,
    log: ReadingLog | None = None,
) -> Encoded:
    """Encode contexts with a label each; `where` names a row in an error message, and `log` notes the labels."""
    if len(labels) != len(contexts):
        raise InputError(f"there are {len(contexts)} contexts but {len(labels)} labels")
    log = log or ReadingLog()
    log.see(len(labels))
    sets, window_class = distinct_labels(labels)
    targets = _choose_targets(set[str]().union(*sets), settings, log)
    classes = [(1, tuple((name, 1) for name in sorted(names & targets))) for names in sets]
    return _encode_contexts(contexts, settings, window_class, classes, targets, where)


def encode_weighted(
    contexts: NGramsLike, f_all: Ints, f_nu: Ints, target: str, settings: CountSettings, where: Where = nth_ngram
) -> Encoded:
    """Encode contexts with two frequencies each, in all and at the target."""
    (of_all, row_all), (of_target, row_target) = (np.unique(f, return_inverse=True) for f in (f_all, f_nu))
    pairs, window_class = np.unique(row_all * len(of_target) + row_target, return_inverse=True)
    times = [(int(of_all[pair // len(of_target)]), int(of_target[pair % len(of_target)])) for pair in pairs.tolist()]
    classes = [(every, ((target, at_target),) if at_target else ()) for every, at_target in times]
    return _encode_contexts(contexts, settings, window_class, classes, {target}, where)


def _encode_contexts(
    contexts: NGramsLike,
    settings: CountSettings,
    window_class: npt.NDArray[np.integer[Any]],
    classes: Sequence[WindowClass],
    labels: set[str],
    where: Where,
) -> Encoded:
    """Encode contexts, whose classes are given, as documents of one window."""
    texts = one_string_array(contexts)
    encoded = None if texts is None else settings.encoder.encode(texts)
    if encoded is not None and (encoded[1] == settings.n).all():
        items: pa.Array = pa.DictionaryArray.from_arrays(encoded[0], encoded[2])
    else:
        items = parse_ngrams(contexts, settings.n, settings.tokenizer, where).items.dictionary_encode()
    times = np.array([of_all for of_all, _ in classes], dtype=np.int64)
    kept = times[window_class] > 0  # N-grams of frequency 0 leave no trace
    vocabulary, codes = _encode(items, np.full(len(kept), settings.n), kept)
    number = np.flatnonzero(kept)
    return Encoded(
        vocabulary,
        codes,
        np.full(len(number), settings.n),
        window_class[kept].astype(np.int32),
        classes,
        labels,
        documents=len(kept),
        longest=settings.n,
        number=number,
        begun=len(kept),
    )


def _encode(items: pa.Array, lengths: Ints, kept: npt.NDArray[np.bool_]) -> tuple[pa.Array, Codes]:
    """Return the distinct items of the documents that are kept, and the codes of all their items."""
    codes = np.asarray(items.indices, dtype=np.int32)
    if kept.all():
        return items.dictionary, codes
    codes = codes[np.repeat(kept, lengths)]
    used = np.bincount(codes, minlength=len(items.dictionary)) > 0
    return items.dictionary.filter(pa.array(used)), (np.cumsum(used) - 1).astype(np.int32)[codes]


def _choose_targets(labels: set[str], settings: CountSettings, log: ReadingLog) -> set[str]:
    """Return the targets of a batch: those that the settings name, or else all of its labels."""
    log.see_labels(labels, settings.targets)
    return check_labels(labels) if settings.targets is None else set(settings.targets)


def _classes_of_spans(
    documents: Documents, lengths: Ints, settings: CountSettings, log: ReadingLog
) -> tuple[set[str], Codes, list[WindowClass]]:
    """Return the targets, the class of each window by the labels of the spans at its boundary, and all classes."""
    names, codes = _renamed(documents.span_label, settings)
    targets = _choose_targets(set(names), settings, log)
    place = documents.span_start - settings.n if settings.side == "left" else documents.span_end
    is_target = np.array([name in targets for name in names], dtype=bool)[codes]
    fits = is_target & (place >= 0) & (place + settings.n <= lengths[documents.span_document])
    log.see_too_near(int(is_target.sum() - fits.sum()))
    windows = np.maximum(lengths - (settings.n - 1), 0)
    window = (np.cumsum(windows) - windows)[documents.span_document] + place
    whole_sample = () if settings.everything is None else (settings.everything,)
    classes: list[WindowClass] = [(1, tuple((name, 1) for name in whole_sample))]
    window_class = np.zeros(windows.sum(), dtype=np.int32)
    for name in sorted(targets.intersection(names)):
        # Those of a class go on to a further one: most have no label so far, but there may be several at a boundary.
        same_name = np.array([each == name for each in names], dtype=bool)[codes]
        at_boundary = window[fits & same_name]
        before, which = np.unique(window_class[at_boundary], return_inverse=True)
        window_class[at_boundary] = len(classes) + which
        classes += [(1, (*classes[each][1], (name, 1))) for each in before.tolist()]
    return targets.union(whole_sample), window_class, classes


def _classes_of_samples(
    documents: Documents, lengths: Ints, settings: CountSettings, log: ReadingLog
) -> tuple[set[str], Codes, list[WindowClass]]:
    """Return the same where all windows of a document belong to its sample; spans do not count then."""
    names, codes = _renamed(documents.sample, settings)
    targets = _choose_targets(set(names), settings, log)
    classes: list[WindowClass] = [(1, ((name, 1),)) if name in targets else ONCE for name in names]
    windows = np.maximum(lengths - (settings.n - 1), 0)
    return targets, np.repeat(codes.astype(np.int32), windows), classes


def _renamed(labels: pa.Array, settings: CountSettings) -> tuple[list[str], Codes]:
    """Return distinct labels as the count calls them, two of which may be the same, and the index of each label."""
    encoded = labels.dictionary_encode()
    names = [(settings.labels or {}).get(label, label) for label in encoded.dictionary.to_pylist()]
    return names, np.asarray(encoded.indices)


def _prepare(documents: Documents, settings: CountSettings, log: ReadingLog) -> tuple[Documents, pa.Array, Ints]:
    """Split texts into items, drop documents whose spans lie outside, and pad."""
    given = documents
    if settings.kind == "letters":
        documents = _as_letters(documents)
    items, lengths = _split(documents, settings.encoder)
    start, end = documents.span_start, documents.span_end
    outside = (start < 0) | (start >= end) | (end > lengths[documents.span_document])
    if outside.any():
        rows, firsts = np.unique(documents.span_document[outside], return_index=True)
        for which in np.flatnonzero(outside)[firsts].tolist():  # the first one of each document
            log.skip_or_raise(InputError(_describe_outside(given, which)))
        documents = documents.select(~np.isin(np.arange(len(documents)), rows))
        items, lengths = _split(documents, settings.encoder)
    documents, items, lengths = _refine(documents, items, lengths, settings.tokenizer)
    return _padded(documents, items, lengths, settings) if settings.pad else (documents, items, lengths)


def _note(documents: Documents, log: ReadingLog) -> None:
    """Note how many documents there are, and how many have no field of spans."""
    ends = np.ones(len(documents), dtype=bool) if documents.ends is None else documents.ends
    if documents.untagged is None or documents.sample is not None:  # a sample takes the place of spans
        log.see(int(ends.sum()))
    else:
        untagged = np.flatnonzero(documents.untagged & ends)
        log.see(int(ends.sum()), len(untagged), str(documents.location(int(untagged[0]))) if len(untagged) else "")


def _look_at_offsets(documents: Documents, log: ReadingLog) -> None:
    """Note of some spans whether they are whole words when they are taken as offsets in characters."""
    some = range(min(len(documents.span_document), MOST_SAMPLED - log.sampled))
    whole = [_cuts_words(documents, which) for which in some]
    if whole:
        last = len(whole)
        log.see_offsets(last, sum(whole), int((documents.span_end[:last] - documents.span_start[:last]).sum()))


def _cuts_words(documents: Documents, which: int) -> bool:
    """Whether a span, taken as offsets in characters, begins and ends at the bounds of words."""
    start, end = int(documents.span_start[which]), int(documents.span_end[which])
    if not 0 <= start < end <= start + LONGEST_NAME:
        return False
    row, before = int(documents.span_document[which]), max(start - 1, 0)
    if documents.texts is not None:  # a document may be large, so only the part that is needed becomes a string
        text = pc.utf8_slice_codeunits(documents.texts.slice(row, 1), before, end + 1)[0].as_py()
    else:
        text = " ".join(documents.content.slice(row, 1).flatten()[: end + 1].to_pylist())[before : end + 1]
    first, last = start - before, end - 1 - before
    if len(text) <= last or text[first].isspace() or text[last].isspace():
        return False
    cut = [text[:2]] if start else []
    return not any(len(pair) == 2 and pair.isalnum() for pair in (*cut, text[last:]))


def _as_letters(documents: Documents) -> Documents:
    """Count spans in letters, from where the words stand of which they are made."""
    if not len(documents.span_document):
        return documents
    start, end = documents.span_start.copy(), documents.span_end.copy()
    order = np.argsort(documents.span_document, kind="stable")
    rows, firsts = np.unique(documents.span_document[order], return_index=True)
    for row, here in zip(rows.tolist(), np.split(order, firsts[1:]), strict=True):
        bounds = string_bounds(documents.content[row].as_py())
        inside = here[(start[here] >= 0) & (start[here] < end[here]) & (end[here] <= len(bounds))]
        start[inside], end[inside] = bounds[start[inside], 0], bounds[end[inside] - 1, 1]
        outside = np.setdiff1d(here, inside)
        end[outside] = np.iinfo(np.int64).max  # still outside when letters are counted
    return replace(documents, span_start=start, span_end=end)


def split_documents(documents: Documents, encoder: Encoder) -> tuple[pa.Array, Ints]:
    """Return the items of all documents as a dictionary array, one after the other, and how many each has."""
    return _refine(documents, *_split(documents, encoder), encoder.tokenizer)[1:]


def _split(documents: Documents, encoder: Encoder) -> tuple[pa.Array, Ints]:
    """Return the same for the strings between white space or of lists, in which spans are counted; or letters.

    The letters of a document of words are those of its words with a space between them.
    """
    texts = documents.texts
    if documents.items is not None and encoder.tokenizer.kind == "letters":
        texts = pc.binary_join(documents.items, " ")
    if texts is not None:
        codes, lengths, distinct = encoder.encode_strings(texts)
        return pa.DictionaryArray.from_arrays(codes, distinct), lengths
    assert documents.items is not None
    strings = documents.items.flatten().dictionary_encode()
    return strings, np.asarray(pc.list_value_length(documents.items), dtype=np.int64)


def _refine(
    documents: Documents, strings: pa.Array, lengths: Ints, tokenizer: Tokenizer
) -> tuple[Documents, pa.Array, Ints]:
    """Split strings into items, and let spans count these.

    A span leaves out what stands before the first and after the last item of it with a letter or a digit in it.
    """
    if tokenizer.is_plain:
        return documents, strings, lengths
    codes = np.asarray(strings.indices)
    words, sizes = tokenizer.refine(strings.dictionary)
    items = words.dictionary_encode()
    index, refined = expand(codes, lengths, sizes)
    refined_codes = np.asarray(items.indices)[index]
    if tokenizer.tokenize == "words" and len(documents.span_document):
        begins = np.append(0, np.cumsum(sizes[codes]))  # of each string, among all items
        row = documents.span_document
        before = (np.cumsum(lengths) - lengths)[row]
        start, end = begins[before + documents.span_start], begins[before + documents.span_end]
        spoken = np.asarray(pc.match_substring_regex(items.dictionary, r"[\pL\pN]"))[refined_codes]
        places = np.append(np.flatnonzero(spoken), len(spoken))
        first, last = np.searchsorted(places, start), np.searchsorted(places, end) - 1
        has = first <= last  # else it is nothing but punctuation, and stays as it is
        of_document = (np.cumsum(refined) - refined)[row]
        documents = replace(
            documents,
            span_start=np.where(has, places[first], start) - of_document,
            span_end=np.where(has, places[last] + 1, end) - of_document,
        )
    return documents, pa.DictionaryArray.from_arrays(pa.array(refined_codes), items.dictionary), refined


def _describe_outside(documents: Documents, which: int) -> str:
    row, label = int(documents.span_document[which]), documents.span_label[which].as_py()
    start, end = documents.span_start[which], documents.span_end[which]
    content = documents.content[row].as_py()
    length = len(content.split() if isinstance(content, str) else content)
    all_of_row = np.flatnonzero(documents.span_document == row)[:MOST_SAMPLED].tolist()
    characters = all(_cuts_words(documents, each) for each in all_of_row)
    hint = "; these look like offsets in characters: rename the field to entities" if characters else ""
    return (
        f"{documents.location(row)}: the span {label if len(label) < 60 else shorten(label)} from {start} to {end} "
        f"does not fit into a document of {length} items{hint}"
    )


def _padded(
    documents: Documents, items: pa.Array, lengths: Ints, settings: CountSettings
) -> tuple[Documents, pa.Array, Ints]:
    """Put n pads before each document (after it, for right contexts), so that every boundary has a context."""
    chosen = documents.begins if settings.side == "left" else documents.ends
    pads = np.full(len(documents), settings.n) if chosen is None else np.where(chosen, settings.n, 0)
    if not pads.any():  # a piece from the middle of a document
        return documents, items, lengths
    shift = pads[documents.span_document] if settings.side == "left" else 0
    moved = replace(documents, span_start=documents.span_start + shift, span_end=documents.span_end + shift)
    distinct = pa.concat_arrays([items.dictionary, pa.array([PAD], pa.string())])
    codes = insert_fill(np.asarray(items.indices), lengths, pads, settings.side, len(distinct) - 1)
    return moved, pa.DictionaryArray.from_arrays(codes, distinct), lengths + pads

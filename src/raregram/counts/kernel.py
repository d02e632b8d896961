"""The counting kernel: a batch of documents -> a partial count table. Pure: no state, no files.

Units need no work window by window. The items at position k of all windows of a document of L items are its items
k..L-N+k, so one frequency count of the document gives all positions after small corrections for its first and last
N-1 items. Longer spans are numbered as in a trie: the number of a span of j items is that of the pair (number of its
j-1 items nearer to the boundary, further item), so keys are exact. Windows that are in the order of their shorter
spans need one more radix sort, by the further item, to be in the order of their longer ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import Documents, Policy, word_bounds
from raregram.counts.sorting import find_heads, number_groups, sort_further
from raregram.counts.storage import Span
from raregram.counts.table import SIDES, Ints, counts_header, parse_spans, shape_name
from raregram.errors import InputError, check_choice, check_count, shorten
from raregram.text.ngrams import (
    KINDS,
    LONGEST_NGRAM,
    KnownWords,
    Numbers,
    build_vocabulary,
    check_labels,
    insert_pads,
    split_texts,
)
from raregram.text.shapes import shapes_of


@dataclass(frozen=True)
class Plan:
    """What is to be counted."""

    n: int = 10
    side: str = "left"
    kind: str = "words"
    targets: tuple[str, ...] | None = None  # None: every label
    spans: tuple[str, ...] = ("units",)
    pad: bool = False
    shape: str | None = None  # the name of a shape function; None: that of the kind of items
    min_count: int = 1  # spans of two and more items seen less often are dropped in the end
    labels: Mapping[str, str] | None = None  # what labels are called in the count; None: as they are
    everything: str | None = None  # a target to which all contexts belong: one of two plain samples

    def __post_init__(self) -> None:
        """Raise `ParameterError` for whatever is out of its range."""
        check_count("n", "a count", self.n, at_most=LONGEST_NGRAM)
        check_choice("side", "a count", self.side, SIDES)
        check_choice("kind", "a count", self.kind, KINDS)
        check_count("min_count", "a count", self.min_count)
        object.__setattr__(self, "shape", shape_name(self.all_spans, self.n, self.kind, self.shape))

    @property
    def all_spans(self) -> list[Span]:
        """All spans, shorter ones first."""
        return parse_spans(self.spans, self.n, self.side)

    @property
    def longer(self) -> list[Span]:
        """The spans of two and more items, shorter ones first."""
        return [span for span in self.all_spans if span[1] - span[0] > 1]

    @property
    def positions(self) -> int:
        """The number of units: one an item, and one a shape where shapes are counted."""
        return self.n if self.shape is None else 2 * self.n

    def header(self, targets: Sequence[str], totals: Sequence[int]) -> dict[str, Any]:
        """Return the header of the count table with these targets and totals."""
        return counts_header(self, self.all_spans, targets, totals)

    @property
    def outwards(self) -> range:
        """The positions from the boundary outwards."""
        return range(self.n - 1, -1, -1) if self.side == "left" else range(self.n)


@dataclass(frozen=True)
class Level:
    """The distinct spans of one length, as steps from those that are one item shorter, in order of their items."""

    parents: Numbers  # (rows,) the number of the shorter span, which for one item is the number of the item
    items: Numbers  # (rows,) the further item
    total: Numbers | None = None  # (rows,) frequencies in all; None: this length was not asked for
    at_target: tuple[tuple[Ints, Ints], ...] = ()  # for each target: some rows and their frequencies there; few

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        few = sum(rows.nbytes + counts.nbytes for rows, counts in self.at_target)
        return self.parents.nbytes + self.items.nbytes + (0 if self.total is None else self.total.nbytes) + few


@dataclass(frozen=True)
class Partial:
    """The counts of a batch, by its own item numbers and target names."""

    items: pa.Array  # string, distinct; in byte order where there are longer spans
    targets: tuple[str, ...]
    totals: Ints  # (1 + targets,)
    units: list[tuple[Ints, Ints, Ints]]  # for the total and each target: position, item, frequency of what is there
    longer: dict[int, list[Level]]  # spans of two items, three, ... by the first position of their track
    documents: int
    longest: int  # items of the longest document


@dataclass(frozen=True)
class Windows:
    """All contexts of a batch, as places in one long array of item numbers."""

    numbers: Numbers  # (all items,) of all documents, one after the other
    starts: Ints  # (documents,) where each document begins, and
    lengths: Ints  # how many items it has; at least n
    n: int

    def all(self) -> Ints:
        """Return where each window begins."""
        inside = np.ones(len(self.numbers), dtype=bool)
        ends = self.starts + self.lengths
        for back in range(1, self.n):
            inside[ends - back] = False
        return np.flatnonzero(inside)


@dataclass(frozen=True)
class Track:
    """What is counted of every context: its items, or their shapes."""

    first: int  # its first position: 0 for items, n for shapes
    numbers: Numbers  # (all items,) the number of each item of all documents, or of its shape
    near: Numbers  # (all items,) the same next to the boundary, where a shape has more detail


def count_batch(documents: Documents, plan: Plan, policy: Policy) -> Partial:
    """Count a batch of documents."""
    documents, items, lengths = _items_of(documents, plan, policy)
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    windows, starts = _long_enough(np.asarray(encoded.indices, dtype=np.int32), lengths, plan.n)
    distinct, tracks = _tracks(encoded.dictionary, windows.numbers, plan)
    targets, of_target = _target_windows(documents, lengths, plan)
    at_target = [starts[document] + place for document, place in of_target]
    if plan.everything is not None:
        targets, at_target = (plan.everything,), [windows.all()]
    totals = [int((windows.lengths - plan.n + 1).sum()), *map(len, at_target)]
    of_all = [_count_units(windows, track, len(distinct), plan) for track in tracks]
    of_targets = [[_count_at(track, places, plan) for track in tracks] for places in at_target]
    return Partial(
        items=distinct,
        targets=targets,
        totals=np.array(totals, dtype=np.int64),
        units=[_joined(units) for units in (of_all, *of_targets)],
        longer={track.first: _count_longer(windows, track, at_target, plan) for track in tracks},
        documents=len(documents) if documents.ends is None else int(documents.ends.sum()),
        longest=int(lengths.max(initial=0)),
    )


def _tracks(items: pa.Array, numbers: Numbers, plan: Plan) -> tuple[pa.Array, list[Track]]:
    """Return the distinct items, shapes among them, and what is to be counted in their numbers."""
    if not plan.longer and plan.shape is None:
        return items, [Track(0, numbers, numbers)]
    shapes = [] if plan.shape is None else shapes_of(items, plan.shape)
    distinct, renumbered = build_vocabulary(pa.concat_arrays([items, *shapes]))
    own, *of_shapes = (some[numbers] for some in renumbered.reshape(1 + len(shapes), -1))
    tracks = [Track(0, own, own)]
    return distinct, tracks if not of_shapes else [*tracks, Track(plan.n, near=of_shapes[0], numbers=of_shapes[1])]


def _items_of(documents: Documents, plan: Plan, policy: Policy) -> tuple[Documents, pa.Array, Ints]:
    """Split texts into items, drop documents whose spans lie outside, and pad."""
    given = documents
    if plan.kind == "letters":
        documents = _as_letters(documents)
    items, lengths = split_documents(documents, plan.kind)
    outside = _outside(documents, lengths)
    if outside.any():
        rows, firsts = np.unique(documents.span_document[outside], return_index=True)
        for which in np.flatnonzero(outside)[firsts].tolist():  # the first one of each document
            policy.bad(InputError(_describe_outside(given, which)))
        documents = _without(documents, rows)
        items, lengths = split_documents(documents, plan.kind)
    return _padded(documents, items, lengths, plan) if plan.pad else (documents, items, lengths)


def _as_letters(documents: Documents) -> Documents:
    """Count spans in letters, from where the words stand of which they are made."""
    if not len(documents.span_document):
        return documents
    start, end = documents.span_start.copy(), documents.span_end.copy()
    order = np.argsort(documents.span_document, kind="stable")
    rows, firsts = np.unique(documents.span_document[order], return_index=True)
    for row, here in zip(rows.tolist(), np.split(order, firsts[1:]), strict=True):
        bounds = _letter_bounds(documents.content[row].as_py())
        inside = here[(start[here] >= 0) & (start[here] < end[here]) & (end[here] <= len(bounds))]
        start[inside], end[inside] = bounds[start[inside], 0], bounds[end[inside] - 1, 1]
        outside = np.setdiff1d(here, inside)
        end[outside] = np.iinfo(np.int64).max  # still outside when letters are counted
    return replace(documents, span_start=start, span_end=end)


def _letter_bounds(content: str | list[str]) -> Ints:
    """Return where each word of a text, or of a list joined by spaces, begins and ends: (words, 2)."""
    if isinstance(content, str):
        return word_bounds(content)
    lengths = np.fromiter(map(len, content), dtype=np.int64, count=len(content))
    ends = np.cumsum(lengths + 1) - 1
    return np.column_stack([ends - lengths, ends])


def split_documents(documents: Documents, kind: str) -> tuple[pa.Array, Ints]:
    """Return the items of all documents, one after the other, maybe as a dictionary; and how many each has.

    The letters of a document of words are those of its words with a space between them.
    """
    if documents.items is not None and kind == "letters":
        return split_texts(pc.binary_join(documents.items, " "), kind)
    if documents.texts is not None:
        compiled = KnownWords(pa.array([], pa.string())).number(documents.texts) if kind == "words" else None
        if compiled is None:
            return split_texts(documents.texts, kind)
        numbers, lengths, words = compiled
        return pa.DictionaryArray.from_arrays(numbers, words), lengths
    assert documents.items is not None
    return documents.items.flatten(), np.asarray(pc.list_value_length(documents.items), dtype=np.int64)


def _outside(documents: Documents, lengths: Ints) -> npt.NDArray[np.bool_]:
    """Return which spans do not lie inside their document."""
    length = lengths[documents.span_document]
    return np.asarray(
        (documents.span_start < 0) | (documents.span_end > length) | (documents.span_start >= documents.span_end)
    )


def _describe_outside(documents: Documents, which: int) -> str:
    row, label = int(documents.span_document[which]), documents.span_label[which].as_py()
    start, end = documents.span_start[which], documents.span_end[which]
    content = documents.content[row].as_py()
    length = len(content.split() if isinstance(content, str) else content)
    return (
        f"{documents.where(row)}: the span {label if len(label) < 60 else shorten(label)} from {start} to {end} "
        f"does not fit into a document of {length} items"
    )


def _without(documents: Documents, rows: Ints) -> Documents:
    """Return a batch without some of its documents."""
    keep = np.ones(len(documents), dtype=bool)
    keep[rows] = False
    spans = keep[documents.span_document]
    return replace(
        documents,
        places=[documents.where(int(row)) for row in np.flatnonzero(keep)],
        texts=None if documents.texts is None else documents.texts.filter(pa.array(keep)),
        items=None if documents.items is None else documents.items.filter(pa.array(keep)),
        span_document=(np.cumsum(keep) - 1)[documents.span_document[spans]],
        span_start=documents.span_start[spans],
        span_end=documents.span_end[spans],
        span_label=documents.span_label.filter(pa.array(spans)),
        ids=None if documents.ids is None else documents.ids.filter(pa.array(keep)),
        begins=None if documents.begins is None else documents.begins[keep],
        ends=None if documents.ends is None else documents.ends[keep],
    )


def _padded(documents: Documents, items: pa.Array, lengths: Ints, plan: Plan) -> tuple[Documents, pa.Array, Ints]:
    """Put n pads before each document (after it, for right contexts), so that every boundary has a context."""
    chosen = documents.begins if plan.side == "left" else documents.ends
    pads = np.full(len(documents), plan.n) if chosen is None else np.where(chosen, plan.n, 0)
    shift = pads[documents.span_document] if plan.side == "left" else 0
    moved = replace(documents, span_start=documents.span_start + shift, span_end=documents.span_end + shift)
    items = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
    return moved, insert_pads(items, lengths, pads, plan.side), lengths + pads


def labels_of(documents: Documents, plan: Plan, policy: Policy) -> set[str]:
    """Return the labels of a batch's documents that can be counted, by the names that the plan gives them."""
    labels = _items_of(documents, plan, policy)[0].span_label.unique().to_pylist()
    return {(plan.labels or {}).get(label, label) for label in labels}


def _target_windows(
    documents: Documents, lengths: Ints, plan: Plan
) -> tuple[tuple[str, ...], list[tuple[Ints, Ints]]]:
    """Return the targets and, for each, its windows as (document, place in the document), each once."""
    encoded = documents.span_label.dictionary_encode()
    labels = plan.labels or {}
    names = [labels.get(label, label) for label in encoded.dictionary.to_pylist()]
    targets = tuple(sorted(check_labels(set(names)))) if plan.targets is None else plan.targets
    codes = np.asarray(encoded.indices)
    boundary = documents.span_start if plan.side == "left" else documents.span_end
    place = boundary - plan.n if plan.side == "left" else boundary
    fits = (place >= 0) & (place + plan.n <= lengths[documents.span_document])
    windows = []
    for target in targets:
        of_target = np.array([name == target for name in names], dtype=bool)
        chosen = fits & of_target[codes] if names else fits
        pairs = np.unique(documents.span_document[chosen] << 32 | place[chosen])  # equal boundaries count once
        windows.append((pairs >> 32, pairs & 0xFFFFFFFF))
    return targets, windows


def _long_enough(numbers: Numbers, lengths: Ints, n: int) -> tuple[Windows, Ints]:
    """Drop documents that are too short for a window; return also where each document begins now."""
    long = lengths >= n
    kept = numbers if long.all() else numbers[np.repeat(long, lengths)]
    starts = np.cumsum(np.where(long, lengths, 0)) - np.where(long, lengths, 0)
    return Windows(kept, starts[long], lengths[long], n), starts


def _count_units(windows: Windows, track: Track, num_items: int, plan: Plan) -> tuple[Ints, Ints, Ints]:
    """Return how often which item is at which position of all windows: position, item, frequency."""
    n, first, last = windows.n, windows.starts, windows.starts + windows.lengths - 1
    numbers = track.numbers
    counts = np.empty((n, num_items), dtype=np.int64)
    counts[0] = np.bincount(numbers, minlength=num_items)
    for back in range(n - 1):  # position 0 does without the last n - 1 items of each document
        counts[0] -= np.bincount(numbers[last - back], minlength=num_items)
    for k in range(1, n):  # from one position to the next, a document loses an item in front and gains one behind
        lost = np.bincount(numbers[first + k - 1], minlength=num_items)
        gained = np.bincount(numbers[last - n + 1 + k], minlength=num_items)
        counts[k] = counts[k - 1] - lost + gained
    if track.near is not track.numbers:
        nearest = plan.outwards[0]
        counts[nearest] = np.bincount(track.near[windows.all() + nearest], minlength=num_items)
    position, item = np.nonzero(counts)  # most items of a batch are rare, and most cells empty
    return position + track.first, item, counts[position, item]


def _count_at(track: Track, places: Ints, plan: Plan) -> tuple[Ints, Ints, Ints]:
    """Return how often which item is at which position of some windows, which are few."""
    position = np.arange(plan.n)
    codes = track.numbers[places[:, None] + position].astype(np.int64) * plan.n + position
    nearest = plan.outwards[0]
    codes[:, nearest] = track.near[places + nearest].astype(np.int64) * plan.n + nearest
    distinct, counts = np.unique(codes, return_counts=True)
    return distinct % plan.n + track.first, distinct // plan.n, counts


def _joined(units: Sequence[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
    """Put the units of all tracks together."""
    if len(units) == 1:
        return units[0]
    position, item, counts = (np.concatenate(part) for part in zip(*units, strict=True))
    return position, item, counts


def _count_longer(windows: Windows, track: Track, at_target: Sequence[Ints], plan: Plan) -> list[Level]:
    """Count spans of two and more items, from the boundary outwards."""
    wanted = {end - start for start, end in plan.longer if (start >= plan.n) == bool(track.first)}
    if not wanted:
        return []
    starts = windows.all()
    chosen = [np.searchsorted(starts, places) for places in at_target]
    number = track.near[starts + plan.outwards[0]]  # of each window's span, so far of one item
    order = sort_further(number)  # the windows in order of their spans
    levels = []
    for width in range(2, max(wanted) + 1):
        item = track.numbers[starts + plan.outwards[width - 1]]
        order = sort_further(item, order) if plan.side == "left" else sort_further(number, sort_further(item))
        parents, items = number[order], item[order]
        heads = find_heads(parents, items)
        number = number_groups(order, heads)
        level = Level(parents[heads], items[heads])
        if width in wanted:
            few = tuple(np.unique(number[rows].astype(np.int64), return_counts=True) for rows in chosen)
            level = replace(level, total=np.diff(heads, append=len(order)).astype(np.int32), at_target=few)
        levels.append(level)
    return levels


def lengthen(keys: Numbers, level: Level, numbers: Numbers, side: str) -> Numbers:
    """Return the keys of a level, (rows, width), from those of the shorter one and the numbers of the items."""
    longer = np.empty((len(level.items), keys.shape[1] + 1), dtype=np.int32)
    nearer, further = (longer[:, 1:], longer[:, 0]) if side == "left" else (longer[:, :-1], longer[:, -1])
    nearer[:], further[:] = keys.take(level.parents, axis=0), numbers[level.items]
    return longer

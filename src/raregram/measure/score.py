"""Scores of contexts and of documents, from any source that `raregram.count` reads.

A context has one log ratio. A document has one at each of its boundaries with an item beside it: near its ends, a
context has as many items as there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.contexts import Batch, read_contexts, read_table
from raregram.corpus.documents import STANDARD_INPUT, Documents, Location, Options, open_bytes, reads_once
from raregram.corpus.formats import CONTEXTS, SAMPLE, as_reader, path_names, read_documents, recognise
from raregram.corpus.log import ReadingLog
from raregram.counts.count import context_files
from raregram.counts.encode import split_documents
from raregram.counts.storage import is_raregram_file
from raregram.counts.table import Counts, Ints
from raregram.errors import InputError, ParameterError, RaregramWarning, must_be
from raregram.measure.results import Results
from raregram.models.base import NO_KEY, Settings, layout_of
from raregram.models.model import Model, gather
from raregram.models.ratios import Floats
from raregram.options import LEVEL, ON_ERROR, SPLIT, OnError, Split
from raregram.text.ngrams import NGramsLike, are_lines, one_string_array, printable_texts, split_ngrams
from raregram.text.tokenize import Tokenizer, insert_fill, window_starts
from raregram.text.vocabulary import Codes

PIECE = 1 << 17  # boundaries scored at a time, so that a long text needs little memory
KEPT_OPEN = 8  # sources of which the first batch stays in memory; of others it is read again
LOG_RATIO = "log_ratio"  # the usual name of the column that scoring adds
AROUND = {"words": (10, 5), "letters": (40, 20)}  # items shown on the side of a context, and on the other side
BOUNDARY = "‖"
VISIBLE_SPACE = "␣"  # among letters

Lines = Callable[[], pa.Array]


def score(  # noqa: PLR0913 - every option has its name
    model: Model,
    source: Any,
    *,
    interval: bool = False,
    level: float = LEVEL.default,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
    on_error: OnError = ON_ERROR.default,
) -> Results:
    """Return the log ratio of every context of a source, or of every boundary of its documents.

    Args:
        model: a fitted model.
        source: whatever `raregram.count` reads: paths, folders or globs of documents or of contexts, a table, an
            iterable of documents, or a Series or an Arrow array of texts. For contexts in a list there is
            `model.log_ratio`.
        interval: add the columns `lower` and `upper`.
        level: the probability that an interval is meant to cover.
        columns: what a table of contexts calls the columns `ngram` and `label`.
        format: of the documents, or "contexts" for a context a line; None: recognised.
        split: what a document is in plain text.
        on_error: "stop" at a document or context that cannot be read, or "skip" it.

    Returns:
        A table. For documents: document, position (how many of its items stand before the boundary), the words on
        both sides of it, log_ratio. Contexts keep their columns, and get one more.
    """
    log = ReadingLog(on_error)
    found = open_input(source, model, Options(format=format, split=split, log=log), columns)
    added = score_columns(LOG_RATIO, interval)
    for head in found.heads:
        for name in filter(head.all_columns.__contains__, added.names):
            raise ParameterError(f"{head.source} has a column {name!r} already: rename it")
    tables = [
        pa.table({**part.batch.all_columns, **dict(zip(added.names, part.scores, strict=True))})
        for part in score_input(model, found, level if interval else None)
    ]
    log.warn_skipped(stacklevel=2, unit="documents or contexts")
    return Results(pa.concat_tables(tables, promote_options="permissive"))


@dataclass(frozen=True)
class Input:
    """Contexts, or documents, to be scored."""

    name: str  # of the source
    heads: Sequence[Batch]  # batches without rows: of contexts one of each source that has any
    contexts: Iterator[Batch] | None = None
    documents: Iterable[Documents] = ()
    log: ReadingLog = field(default_factory=ReadingLog)
    running: Sequence[str] = ()  # files that were taken for running text, since no line has a context


@dataclass(frozen=True)
class Scored:
    """Rows of a table with their scores: the log ratios, and maybe the ends of their intervals."""

    batch: Batch
    lines: Lines  # returns each row as one line of text
    scores: list[pa.Array]


def open_input(sources: Any, model: Model, options: Options, rename: Mapping[str, str] | None = None) -> Input:
    """Open whatever is to be scored, and check that it fits together before anything is done with it.

    Args:
        sources: paths, "-" for standard input, a table, or an iterable of documents.
        model: which contexts a line of text has, where the file does not say what it is.
        options: how to read documents.
        rename: what a table of contexts calls its columns.
    """
    if isinstance(sources, Counts):
        batch = _whole_ngrams(sources, "the count table", model.settings)
        return Input("the count table", [batch.head(0)], iter([batch][: len(batch)]), log=options.log)
    names = path_names(sources)
    if not names:
        column = (rename or {}).get("ngram", "ngram")
        reader = as_reader(sources, column)
        if reader is None or column not in reader.schema.names:
            documents = read_documents(sources if reader is None else reader, options)
            return Input("the documents", [BOUNDARY_HEAD], None, documents, options.log)
        batches = read_table(reader, "the table", rename or {})
        first = list(islice(batches, 1))
        heads = [batch.head(0) for batch in first]
        return Input("the table", heads, chain(first, batches), log=options.log)
    paths = context_files(names)
    name = ", ".join("standard input" if path == STANDARD_INPUT else path for path in names)
    named = options.format is None and "ngram" in (rename or {})  # then a column of contexts is named
    kinds, doubtful = (dict.fromkeys(paths, CONTEXTS), []) if named else _kinds_of(paths, options, model.settings)
    by_kind = {kind == CONTEXTS: path for path, kind in kinds.items() if kind}
    if len(by_kind) > 1:
        raise InputError(f"{by_kind[False]} holds documents and {by_kind[True]} contexts: score them one by one")
    if False in by_kind:
        is_running = options.format is None and not doubtful
        running = [path for path, kind in kinds.items() if kind == "text" and is_running]
        if doubtful:
            more = f" and {len(doubtful) - 1:,} more" if len(doubtful) > 1 else ""
            warnings.warn(
                f"{doubtful[0]}{more}: each line has {model.settings.n} items, as a context has, but they were "
                "taken for running text: say so with --format text, or else --format contexts",
                RaregramWarning,
                stacklevel=3,
            )
        documents = read_documents(paths, options)
        return Input(name, [BOUNDARY_HEAD], None, documents, options.log, running)
    heads = []
    begun: dict[int, Iterator[Batch]] = {}
    for index, path in enumerate(paths):
        batches = _read_source(path, rename, options.log, model.settings)
        first = list(islice(batches, 1))
        heads += [batch.head(0) for batch in first]
        if index < KEPT_OPEN or reads_once(path):
            begun[index] = chain(first, batches)
    read = (
        begun.pop(i) if i in begun else _read_source(path, rename, options.log, model.settings)
        for i, path in enumerate(paths)
    )
    return Input(name, heads, chain.from_iterable(read), log=options.log)


def kind_of(path: str, options: Options, settings: Settings) -> str:
    """Return the format of a file: text whose lines all have n items is contexts, and an empty file has none."""
    return _kind_and_lines(path, options, settings)[0]


def _kinds_of(paths: Iterable[str], options: Options, settings: Settings) -> tuple[dict[str, str], list[str]]:
    """Return the format of each file, and those that are text although each of their lines has n items.

    A line of a text may have n items by chance. So they are contexts only if nothing else is there but contexts, and
    of several files one has more than one line.
    """
    found = {path: _kind_and_lines(path, options, settings) for path in paths}
    kinds = {path: kind for path, (kind, _) in found.items()}
    lines = {path: number for path, (_, number) in found.items() if number}
    others = {kind for path, kind in kinds.items() if kind and path not in lines}
    are_text = others or (len(lines) > 1 and max(lines.values()) == 1)
    if not lines or CONTEXTS in others or not are_text:
        return kinds, []
    return kinds | dict.fromkeys(lines, "text"), list(lines)


def _kind_and_lines(path: str, options: Options, settings: Settings) -> tuple[str, int]:
    """Return the format of a file, and the number of its lines if it is contexts by their length alone."""
    if options.format is not None:
        return options.format, 0
    if reads_once(path) or is_raregram_file(path):
        return CONTEXTS, 0
    found = recognise(path)
    if found != "text":
        return found, 0
    with open_bytes(path) as stream:
        sample = stream.read(SAMPLE).decode(errors="replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in sample.split("\n")]
    whole = [line for line in (lines[:-1] if len(sample) >= SAMPLE else lines) if line.strip()]
    if not sample.strip():
        return "", 0
    lengths = split_ngrams(pa.array(whole, pa.string()), settings.tokenizer).lengths
    return (CONTEXTS, len(whole)) if whole and (lengths == settings.n).all() else (found, 0)


def _read_source(path: str, rename: Mapping[str, str] | None, log: ReadingLog, settings: Settings) -> Iterator[Batch]:
    """Yield the contexts of a file, or the whole N-grams of a count file."""
    if reads_once(path) or not is_raregram_file(path):
        return read_contexts(path, rename, log)
    batch = _whole_ngrams(Counts.load(path), path, settings)
    return iter([batch][: len(batch)])


def _whole_ngrams(counts: Counts, name: str, settings: Settings) -> Batch:
    """Return the whole N-grams of a count table; raise unless they are contexts as the model counts them."""
    if (mine := layout_of(settings)) != (theirs := layout_of(counts)):
        raise InputError(f"the model is for {mine}; {name} was counted for {theirs}")
    if counts.whole not in counts.rows:
        raise InputError(f"{name} holds no whole N-grams; count with the spans 'units' and 'whole'")
    return Batch(Location(name, "row"), counts.whole_ngrams().lists())


def score_columns(name: str, interval: bool) -> pa.Schema:
    """Return the columns that scoring adds to a table."""
    if not name:
        raise must_be("as", "score", "a name", name)
    ends = ("lower", "upper") if name == LOG_RATIO else (f"{name}_lower", f"{name}_upper")
    return pa.schema([(column, pa.float64()) for column in (name, *(ends if interval else ()))])


def score_input(model: Model, found: Input, level: float | None = None) -> Iterator[Scored]:
    """Yield rows with their scores, a batch at a time; at a row that cannot be scored, first those before it."""
    if level is not None:
        model.interval([], level)  # raises before anything is read
    rows = 0
    if found.contexts is None:
        for documents in found.documents:
            for piece in boundaries(model, documents):
                rows += len(piece)
                batch = piece.batch()
                yield Scored(batch, partial(piece.lines, batch), scores_of(model, piece.codes, level))
    else:
        for batch in found.contexts:
            rows += len(batch)
            yield from _score_batch(model, batch, level, found.log)
    if not rows:
        raise InputError(f"there is nothing to score in {found.name}")


def _score_batch(model: Model, batch: Batch, level: float | None, log: ReadingLog) -> Iterator[Scored]:
    """Yield contexts with their scores; one that cannot be scored is skipped, or raises behind those before it."""
    while len(batch):
        good, bad = batch, None
        try:
            codes = model.encode(batch.ngrams, batch.location.name)
        except InputError as error:
            if error.row is None:
                raise
            good, bad = batch.head(error.row), error
            codes = model.encode(good.ngrams)
        if len(good):
            yield Scored(good, partial(ngram_lines, model, good.ngrams), scores_of(model, codes, level))
        if bad is None:
            return
        log.skip_or_raise(bad)
        batch = batch.tail(len(good) + 1)


def scores_of(model: Model, ngrams: NGramsLike, level: float | None = None) -> list[pa.Array]:
    """Return the log ratios of N-grams, and with a level the lower and the upper ends of their intervals."""
    if level is None:
        return [pa.array(model.log_ratio(ngrams))]
    return [pa.array(values) for values in model.with_interval(ngrams, level)]


def ngram_lines(model: Model, ngrams: NGramsLike) -> pa.Array:
    """Return each N-gram as one line of text; different N-grams have different ones."""
    texts = one_string_array(ngrams)
    if texts is not None and are_lines(texts, model.settings.tokenizer):
        return texts
    return model.parse(ngrams).lines(model.settings.kind)


@dataclass(frozen=True)
class Boundaries:
    """Some boundaries of documents: where they are, and the codes of their contexts."""

    names: pa.Array  # of all documents
    items: pa.DictionaryArray  # of all documents, one after the other
    bounds: Ints  # between the documents in `items`
    document: Ints  # of each boundary
    position: Ints  # how many items of its document stand before it
    codes: Codes  # (boundaries, n)
    settings: Settings

    def __len__(self) -> int:
        return len(self.position)

    def take(self, rows: npt.NDArray[Any]) -> Boundaries:
        """Return some of the boundaries."""
        return replace(self, document=self.document[rows], position=self.position[rows], codes=self.codes[rows])

    def batch(self) -> Batch:
        """Return a table with the columns document, position, left and right: the items around each boundary."""
        near, far = AROUND[self.settings.kind]
        near = max(near, self.settings.n)
        first, last = self.bounds[self.document], self.bounds[self.document + 1]
        here = first + self.position
        before, after = (near, far) if self.settings.side == "left" else (far, near)
        left = self._texts(np.maximum(here - before, first), here)
        right = self._texts(here, np.minimum(here + after, last))
        names = self.names.take(pa.array(self.document))
        table = {"document": names, "position": pa.array(self.position), "left": left, "right": right}
        return Batch(Location("the documents"), left, {}, table, "left")

    def _texts(self, first: Ints, last: Ints) -> pa.Array:
        lengths = last - first
        index = np.arange(lengths.sum()) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
        items = self.items.dictionary.take(pa.array(np.asarray(self.items.indices)[index]))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        between = " " if self.settings.kind == "words" else ""
        return pc.binary_join(pa.ListArray.from_arrays(offsets, items), between)

    def lines(self, batch: Batch) -> pa.Array:
        """Return each boundary as one line: its document, its position, and the items around it."""
        columns = (batch.table["document"], batch.table["left"], batch.table["right"])
        document, left, right = map(printable_texts, columns)
        if self.settings.kind == "letters":
            left, right = (pc.replace_substring(texts, " ", VISIBLE_SPACE) for texts in (left, right))
        around = pc.binary_join_element_wise(left, BOUNDARY, right, " ")
        return pc.binary_join_element_wise(document, batch.table["position"].cast(pa.string()), around, "\t")


BOUNDARY_COLUMNS = {"document": pa.string(), "position": pa.int64(), "left": pa.string(), "right": pa.string()}
BOUNDARY_HEAD = Batch(
    Location("the documents"),
    pa.array([], pa.string()),
    table={name: pa.array([], kind) for name, kind in BOUNDARY_COLUMNS.items()},
    name="left",
)


def boundaries(model: Model, documents: Documents) -> Iterator[Boundaries]:
    """Yield the boundaries of documents that have an item beside them, with pads all, some at a time."""
    items, lengths = split_documents(documents, model.splitter)
    return boundaries_of(model, items, lengths, pa.array(documents.names(), pa.string()))


def boundaries_of(model: Model, items: pa.Array, lengths: Ints, names: pa.Array) -> Iterator[Boundaries]:
    """Do the same for documents that are split: their items one after the other, and how many each has."""
    s = model.settings
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    keys = insert_fill(np.asarray(encoded.indices), lengths, np.full(len(lengths), s.n - 1 + s.pad), s.side, NO_KEY)
    starts = window_starts(lengths + (s.n - 1 + s.pad), s.n)
    document = np.repeat(np.arange(len(lengths)), lengths + s.pad)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    position = np.arange(len(document)) - np.repeat(bounds[:-1] + np.arange(len(lengths)) * s.pad, lengths + s.pad)
    position += first_and_last(s, 1)[0]
    codes = model.item_codes(encoded.dictionary)
    for begin in range(0, len(starts), PIECE):
        some = slice(begin, begin + PIECE)
        found = gather(codes, keys[starts[some, None] + np.arange(s.n)], s.nearest)
        yield Boundaries(names, encoded, bounds, document[some], position[some], found, s)


def first_and_last(settings: Settings, length: int) -> tuple[int, int]:
    """Return the first boundary with a context, and one past the last, in a document of so many items."""
    if settings.pad:
        return 0, length + 1
    return (1, length + 1) if settings.side == "left" else (0, length)


def split_text(text: str, tokenizer: Tokenizer) -> pa.Array:
    """Return the items of a text."""
    return split_ngrams(pa.array([text], pa.string()), tokenizer).items


def boundary_scores(model: Model, items: pa.Array, check: Callable[[], None] = lambda: None) -> Floats:
    """Return the log ratio of every boundary that has a context, from the first to the last.

    Args:
        model: the model.
        items: the items of one document.
        check: called now and then; it may raise to stop the work.
    """
    scores = [np.empty(0)]
    for piece in boundaries_of(model, items, np.array([len(items)]), pa.array([""])):
        check()
        scores.append(model.log_ratio(piece.codes))
    return np.concatenate(scores)


def all_boundaries(model: Model, items: pa.Array) -> list[float | None]:
    """Return the log ratios of all boundaries of a document, None where there is no context."""
    first, last = first_and_last(model.settings, len(items))
    return [*[None] * first, *boundary_scores(model, items).tolist(), *[None] * (len(items) + 1 - last)]

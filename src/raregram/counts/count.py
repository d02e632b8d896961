"""From documents or contexts to a count table, on this machine or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from raregram.corpus.contexts import Batch, frequencies_of, labels_of, read_contexts, read_table
from raregram.corpus.documents import Options, expand, naming, reads_once
from raregram.corpus.formats import CONTEXTS, as_reader, check_installed, path_names, read_documents, recognise
from raregram.corpus.labels import target_names
from raregram.corpus.log import ReadingLog
from raregram.counts import engine as local
from raregram.counts.encode import Encoded, encode_documents, encode_labelled, encode_weighted
from raregram.counts.kernel import CountSettings
from raregram.counts.spans import Span, parse_spans, tuple_of
from raregram.counts.storage import SpanTable, is_raregram_file
from raregram.counts.table import Counts, two_frequencies
from raregram.errors import InputError, ParameterError, check_choice, check_count
from raregram.options import (
    DENOMINATOR,
    DOCUMENTS,
    ENGINE,
    FOLDS,
    KIND,
    LOWER,
    MIN_COUNT,
    ON_ERROR,
    PAD,
    SIDE,
    SPANS,
    TOKENIZE,
    Denominator,
    Engine,
    Kind,
    N,
    OnError,
    Side,
    Tokenize,
)
from raregram.remote import PathLike, as_path
from raregram.text.ngrams import parse_ngrams

if TYPE_CHECKING:
    from raregram.spark.counting import Count
    from raregram.spark.session import Cluster

Progress: TypeAlias = Callable[[int], None]

SHARE = 1 << 22  # bytes of text that a thread encodes at a time
COUNTED = "leave it out, or count the text again"  # what to do about an option that contradicts a count file
NUMERATOR = "numerator"  # the target's name where two plain samples are compared


def count(
    source: Any = None,
    *,
    numerator: Any = None,
    denominator: Any = None,
    n: int | None = None,
    side: Side = SIDE.default,
    targets: Sequence[str] | None = None,
    spans: Sequence[str] = SPANS.default,
    kind: Kind = KIND.default,
    tokenize: Tokenize = TOKENIZE.default,
    lower: bool = LOWER.default,
    pad: bool = False,
    shape: str | None = None,
    min_count: int = MIN_COUNT.default,
    folds: int = FOLDS.default,
    documents: bool = DOCUMENTS.default,
    labels: Mapping[str, str] | None = None,
    on_error: OnError = ON_ERROR.default,
    threads: int | None = None,
    memory_limit: int | None = None,
    engine: Engine = ENGINE.default,
    session: Any = None,
    master: str | None = None,
    progress: Callable[[int], None] = lambda documents: None,
    columns: Mapping[str, str] | None = None,
    f_de: Denominator = DENOMINATOR.default,
    **reading: Any,
) -> Counts:
    """Count the contexts of documents, or contexts that come one by one.

    Args:
        source: paths, folders or globs of documents in any format, or of contexts: lines `label<TAB>items`, or
            tables of N-grams with labels or two frequencies; an Arrow table; an iterable of documents, each a
            mapping with `items` or `text` and `spans`; a Series or an Arrow array of texts; or a Spark DataFrame
            with such columns. A string is a path, never a text.
        numerator: instead of `source`, one of two plain samples: all its contexts are the numerator's,
        denominator: and all of this one's are the denominator's.
        n: number of items of a context; None for 10, or as many as the first has of contexts that come one by one.
        side: "left" for contexts before a span's start, "right" for those after its end.
        targets: the labels to count; None for every label there is.
        spans: any of "units" (always there), "suffixes:5" (up to five items next to the boundary), "shapes:8" (shapes
            of all items, and of up to eight next to the boundary) and "whole".
        kind: items are "words" or "letters"; a list of words has the letters of its words, with a space between them.
        tokenize: "whitespace" takes the strings between it as words, as the paper does; "words" splits these at
            Unicode's word boundaries (UAX #29): punctuation is apart, "don't" and "3.14" stay whole. Spans still
            count strings between white space, and leave out punctuation at their edges. A list of items is the same
            as a text of them with spaces between.
        lower: whether all items are in small letters.
        pad: give a context also to boundaries with fewer than n items beside them.
        shape: the name of a shape function in `raregram.text.shapes.SHAPES`; None for the one of this kind of items.
        min_count: drop spans of two and more items that were seen less often.
        folds: count in so many folds of documents, by which `raregram.fit` calibrates its ratios; 0 for none. The
            whole N-grams are counted, too. Equal documents are in the same fold;
            labelled contexts are dealt out in turn, so merging tables of them gives other folds than one count.
        documents: count also in how many documents each span is, and the sum of its squared frequencies in them.
        labels: other names for labels, e.g. {"GPE": "LOC"}.
        on_error: "stop" at a document that cannot be counted, or "skip" it.
        threads: how many to use; None for one a processor.
        memory_limit: bytes to use, about; a larger corpus is counted in parts. On Spark, bytes that a task uses.
        engine: "local", or "spark" for a cluster; the result is the same. A DataFrame is always counted on Spark.
        session: the Spark session to use; None: the active one, or a new one.
        master: of a new session, the URL of the cluster.
        progress: called with the number of documents that were counted, on Spark of tasks that are done.
        columns: what a table of contexts calls the columns `ngram`, `label`, `f_nu` and `f_de`.
        f_de: what `f_de` counts in a table with two frequencies: the "complement", or "all" contexts.
        reading: `format`, `split`, `item_column`, `tag_column`, `sentences`; and `by`, which cuts one corpus into
            samples by a field, "folder" or "file:REGEX": each sample is a target to which all contexts of its
            documents belong. See `raregram.corpus.documents.Options` and `raregram.corpus.samples`.

    >>> documents = [{"text": "she lives in Rome", "spans": [(3, 4, "LOC")]}, {"text": "so it goes", "spans": []}]
    >>> count(documents, n=2).totals
    array([5, 1])
    """
    ENGINE.check(engine, "count")
    if memory_limit is not None:
        check_count("memory_limit", "count", memory_limit)
    settings = CountSettings(
        n=N.default if n is None else n,
        side=side,
        kind=kind,
        tokenize=tokenize,
        lower=lower,
        targets=None if targets is None else target_names(targets),
        spans=tuple_of(spans),
        pad=pad,
        shape=shape,
        min_count=min_count,
        folds=folds,
        documents=documents,
        labels=labels,
    )
    log = ReadingLog(on_error)
    contexts = ContextOptions(columns, f_de=f_de, n=n)
    sources = (source, numerator, denominator)
    job = CountJob(sources, settings, Options(**reading, log=log), contexts, memory_limit)
    if engine == "spark" or any(map(is_frame, sources)):
        from raregram.spark.counting import collect_counts
        from raregram.spark.session import Cluster, connect

        frame = next((given for given in sources if is_frame(given)), None)
        session = session or (connect(master) if frame is None else frame.sparkSession)
        counts = collect_counts(job.on_spark(Cluster(session, progress)))
    else:
        counts = job.collect(threads, progress)
    log.warn_skipped(stacklevel=2)
    log.warn(stacklevel=2)
    return counts


def is_frame(value: Any) -> bool:
    """Whether something is a Spark DataFrame; pyspark need not be installed."""
    return type(value).__module__.startswith("pyspark.sql") and hasattr(value, "mapInArrow")


@dataclass(frozen=True)
class ContextOptions:
    """How to read contexts."""

    rename: Mapping[str, str] | None = None  # see `read_contexts`
    target: str | None = None  # the numerator of tables with two frequencies; None: the one target, or "target"
    f_de: Denominator = DENOMINATOR.default  # what `f_de` counts in such tables; see `Counts.from_ngrams`
    n: int | None = None  # items of a context; None: as many as the first one has


@dataclass(frozen=True)
class CountJob:
    """Documents or contexts, and how they are counted."""

    sources: tuple[Any, Any, Any]  # documents or contexts; or else two plain samples, numerator and denominator
    settings: CountSettings
    documents: Options = field(default_factory=Options)
    contexts: ContextOptions = field(default_factory=ContextOptions)
    memory_limit: int | None = None  # bytes
    for_model: bool = False  # whether the spans are those that a model needs: a count file may have others

    def collect(self, threads: int | None = None, progress: Progress = lambda documents: None) -> Counts:
        """Count on this machine into a table in memory, and add the count files that are among contexts."""
        stored = self._count_files
        if not stored:
            with self.table(threads, progress=progress) as table:
                return Counts.from_table(table)
        tables = [self._load(path) for path in stored]
        others = [path for path in context_files(path_names(self.sources[0])) if path not in stored]
        if others:
            settings = replace(self.settings, min_count=1)  # what is rare here may be frequent there
            documents = replace(self.documents, format=CONTEXTS)
            job = replace(self, sources=(others, None, None), settings=settings, documents=documents)
            counts = job.collect(threads, progress)
            known = set(counts.targets) <= set(tables[0].targets)
            tables.append(counts.with_targets(tables[0].targets) if known else counts)
        added = sum(tables[1:], start=tables[0])
        return added if self.settings.min_count == 1 else added.drop_rare(self.settings.min_count)

    @contextmanager
    def table(
        self,
        threads: int | None = None,
        beside: PathLike | None = None,
        progress: Progress = lambda documents: None,
    ) -> Iterator[SpanTable]:
        """Count on this machine; the rows come as a stream while the context is open.

        Args:
            threads: how many to use; None for one per processor.
            beside: the file beside which temporary files are kept; None: where the system keeps such.
            progress: called with the number of documents or contexts of each batch.
        """
        samples = self._samples()
        if self._count_files:
            yield self.collect(threads, progress).as_table()
            return
        if self.holds_contexts:
            settings, jobs = self._context_jobs()
        else:
            settings, options = samples[0][1], self._batched(local.MEMORY_LIMIT)
            for source, _ in samples:
                check_installed(expand(path_names(source)), options)
            jobs = (
                partial(encode_documents, batch, of_source, options.log)
                for source, of_source in samples
                for batch in read_documents(source, replace(options, seen=set()))
            )
        with local.encode_all(
            jobs, settings, threads=threads, memory_limit=self.memory_limit, beside=beside, progress=progress
        ) as corpus:
            if not self.holds_contexts:
                options.log.check_read()
                local.check_counted(corpus.documents, corpus.totals[0], corpus.longest, settings)
            self.check_targets()
            yield corpus.table()

    def check_targets(self) -> None:
        """Note, or raise, what the labels that were read say about the targets; for two plain samples nothing."""
        if self.sources[0] is not None:
            unit = "context" if self.holds_contexts else "document"
            self.documents.log.check_targets(self.settings.targets, unit)

    def on_spark(self, cluster: Cluster, only: Span | None = None) -> Count:
        """Prepare the count on a cluster, of all spans or only one; nothing but labels is read yet."""
        from raregram.spark.counting import MEMORY_LIMIT, Count
        from raregram.spark.session import errors_explained
        from raregram.spark.sources import open_source

        options = self._batched(MEMORY_LIMIT)
        may_cut = not (self.settings.folds or self.settings.documents)  # which want documents as a whole
        with errors_explained():
            samples = [
                (open_source(cluster, source, options, self.contexts, may_cut), settings)
                for source, settings in self._samples()
            ]
            source = samples[0][0]
            if source.contexts is not None:
                if self.sources[0] is None:
                    raise InputError(f"{source.name} holds contexts, not documents")
                self._check_for_contexts()
                if self.settings.folds:
                    raise ParameterError("contexts have no order on Spark, by which they could be cut into folds")
                n = source.context_length(cluster, self.settings.tokenizer)
                samples = [(source, replace(self.settings, n=n))]
            return Count(cluster, samples, options, self.memory_limit, only)

    @cached_property
    def holds_contexts(self) -> bool:
        """Whether the source is contexts, in files or in a table, rather than documents."""
        names, name = path_names(self.sources[0]), self.documents.format
        if self._table is not None:
            return (self.contexts.rename or {}).get("ngram", "ngram") in self._table.schema.names
        renamed = "ngram" in (self.contexts.rename or {})  # then a column of contexts is named
        return bool(names) and (name == CONTEXTS or (name is None and (renamed or are_contexts(names))))

    @cached_property
    def _table(self) -> pa.RecordBatchReader | None:
        """The source as a table, if it is one; a DataFrame of Spark stays where it is."""
        return (
            None
            if is_frame(self.sources[0])
            else as_reader(self.sources[0], (self.contexts.rename or {}).get("ngram", "ngram"))
        )

    def _check_for_contexts(self) -> None:
        """Raise for options that are for documents alone."""
        if self.settings.pad or self.settings.labels or self.documents.by or self.documents.log.on_error != "stop":
            raise ParameterError("pad, labels, by and on_error are for documents; these are contexts")

    def _context_jobs(self) -> tuple[CountSettings, Iterator[Callable[[], Encoded]]]:
        """Return the settings for contexts as long as the first one, and functions that encode all of them."""
        self._check_for_contexts()
        paths = context_files(path_names(self.sources[0]))
        rename = self.contexts.rename or {}
        batches = (
            chain.from_iterable(read_contexts(path, rename) for path in paths)
            if self._table is None
            else read_table(self._table, "the table", rename)
        )
        first = next(batches, None)
        if first is None:
            raise InputError(f"there is no context in {', '.join(paths) or 'the table'}")
        with _source_named(first):
            found = parse_ngrams(first.ngrams[:1], self.contexts.n, self.settings.tokenizer, first.location.name)
        settings = replace(self.settings, n=int(found.lengths[0]))
        every = _alike(chain([first], batches), self.contexts, settings)
        log = self.documents.log
        return settings, (partial(encode_contexts, batch, self.contexts, settings, log) for batch in every)

    @cached_property
    def _count_files(self) -> list[str]:
        """The count files among contexts."""
        paths = context_files(path_names(self.sources[0])) if self.holds_contexts else []
        return [path for path in paths if not reads_once(path) and is_raregram_file(path)]

    def _load(self, path: str) -> Counts:
        """Return the table of a count file, with the chosen targets alone."""
        given = {"labels": self.settings.labels, "by": self.documents.by}
        for name in filter(given.get, given):
            raise ParameterError(f"{name} is for documents, but {path} is counted already: {COUNTED}")
        counts, n, targets = Counts.load(path), self.contexts.n, self.settings.targets
        if n is not None and n != counts.n:
            raise ParameterError(f"{path} counts contexts of {counts.n} items, not {n}")
        for option in (SIDE, KIND, TOKENIZE, LOWER, PAD, FOLDS, DOCUMENTS):
            wanted, found = getattr(self.settings, option.name), getattr(counts, option.name)
            found = len(found) if option is FOLDS else found
            if wanted not in (option.default, found):
                raise ParameterError(f"{path} was counted with {option.name} {found}, not {wanted}: {COUNTED}")
        spans = self.settings.spans
        asked = spans != SPANS.default and not self.for_model
        # Folds have whole N-grams, too.
        if asked and not set(counts.spans) - {counts.whole} <= set(parse_spans(spans, counts.n, counts.side)) <= set(
            counts.spans
        ):
            raise ParameterError(f"{path} was counted with other spans than {', '.join(spans)}: {COUNTED}")
        for name in targets or ():
            check_choice("targets", path, name, counts.targets)
        return counts if targets is None else counts.with_targets(targets)

    def _samples(self) -> list[tuple[Any, CountSettings]]:
        """Return each sample with its settings: one, or two plain ones."""
        source, numerator, denominator = self.sources
        if (source is None) == (numerator is None) or (numerator is None) != (denominator is None):
            raise ParameterError("count takes either documents, or both a numerator and a denominator")
        if source is not None:
            cut = self.settings if self.documents.by is None else replace(self.settings, samples="by")
            return [(source if self._table is None else self._table, cut)]
        if self.settings.targets:
            raise ParameterError("two plain samples have no targets: leave targets out")
        if self.documents.by is not None:
            raise ParameterError("two plain samples are cut already: leave by out, or name one corpus")
        plain = replace(self.settings, targets=(), samples="two")
        return [(numerator, replace(plain, everything=NUMERATOR)), (denominator, plain)]

    def _batched(self, default_limit: int) -> Options:
        """Return options with which documents come in batches that leave memory for their counts."""
        # Rows of longer spans take some thirty times the memory of their text, and there are a few batches at once.
        share = min(max((self.memory_limit or default_limit) >> 7, 1 << 16), SHARE)
        cut = (self.settings.n, self.settings.tokenizer)
        return replace(self.documents, cut=cut, batch_bytes=min(self.documents.batch_bytes, share))


def _alike(batches: Iterable[Batch], options: ContextOptions, settings: CountSettings) -> Iterator[Batch]:
    """Yield batches; raise where some have labels and some frequencies, and nobody says of which target."""
    targets = settings.targets
    kinds = set()
    for batch in batches:
        kinds.add(batch.has_frequencies)
        if len(kinds) > 1 and options.target is None and targets is None:
            raise ParameterError(f"{batch.source}: name the target of the frequencies, since others have labels")
        if batch.has_frequencies and targets is not None and len(targets) != 1:
            raise ParameterError(f"{batch.source} has two frequencies, so it has one target, not {len(targets)}")
        yield batch


def encode_contexts(batch: Batch, options: ContextOptions, settings: CountSettings, log: ReadingLog) -> Encoded:
    """Encode contexts, by frequencies if they have them, else by labels."""
    with _source_named(batch):
        if batch.has_frequencies and settings.documents:
            raise ParameterError("frequencies of contexts tell nothing about documents: count without them")
        if batch.has_frequencies:
            target = settings.targets[0] if settings.targets else options.target or "target"
            f_nu, f_de = (frequencies_of(batch, name) for name in ("f_nu", "f_de"))
            log.see_labels([target], [target])
            frequencies = two_frequencies(len(batch), f_nu, f_de, options.f_de, batch.location.name)
            return encode_weighted(batch.ngrams, *frequencies, target, settings, batch.location.name)
        if "label" not in batch.columns:
            raise InputError(
                f"{batch.location} has no label: expected label<TAB>items, or a table with the column label, "
                "or with the columns f_nu and f_de"
            )
        labels = labels_of(batch.columns["label"], batch.source)
        return encode_labelled(batch.ngrams, labels, settings, batch.location.name, log)


@contextmanager
def _source_named(batch: Batch) -> Iterator[None]:
    """Let every error name the file."""
    try:
        yield
    except InputError as error:
        if batch.source in str(error):
            raise
        raise InputError(f"{batch.source}: {error}", error.row) from error


def read_counts(
    source: Any,
    contexts: ContextOptions | None = None,
    *,
    options: Options | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    **settings: Any,
) -> Counts:
    """Return one count table of whatever `count` takes, and of count files.

    Args:
        source: paths, "-" for contexts from standard input, a table, or documents.
        contexts: how to read contexts.
        options: how to read documents.
        progress: called with the number of contexts or documents of each batch.
        settings: what is counted where it is not counted yet; see `CountSettings`.
    """
    names = path_names(source)
    if not names and not hasattr(source, "__arrow_c_stream__") and not isinstance(source, Iterable):
        raise InputError(f"expected a count table, paths, a table or documents, got {type(source).__name__}")
    options = options or Options(format=CONTEXTS if any(map(reads_once, names)) else None)
    job = CountJob(
        (source, None, None), CountSettings(**settings), options, contexts or ContextOptions(), for_model=True
    )
    if job.holds_contexts and job.settings.folds:  # those of one N-gram would not be in one fold
        job = replace(job, settings=replace(job.settings, folds=0, shape=settings.get("shape")))
    counts = job.collect(progress=progress)
    options.log.warn(stacklevel=3)
    return counts


def are_contexts(sources: Sequence[str]) -> bool:
    """Whether sources hold contexts rather than documents; raise where some do and some do not."""
    kinds = {}
    for path in context_files(sources):
        if as_path(path).is_dir():
            kinds[True] = path
        elif reads_once(path) or as_path(path).stat().st_size or path.endswith(".csv"):  # else it is empty
            kinds[recognise(path) == CONTEXTS] = path
    if len(kinds) > 1:
        raise InputError(
            f"{kinds[True]} holds contexts and {kinds[False]} documents: count them one by one, then merge"
        )
    return True in kinds


def context_files(sources: Sequence[str]) -> list[str]:
    """Return the files of folders and globs; a count table may be a folder, and stays one."""
    found: list[str] = []
    for source in sources:
        with naming(source):
            whole = as_path(source).is_dir() and is_raregram_file(source)
        found += [source] if whole else expand(source)
    return found

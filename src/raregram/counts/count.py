"""From documents to a count table. Engines only count; the mathematics is elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raregram.corpus.contexts import Batch, frequencies_of, labels_of, read_contexts
from raregram.corpus.documents import Options, SkipLog, expand, naming, reads_once
from raregram.corpus.formats import CONTEXTS, path_names, read_documents, recognise
from raregram.corpus.labels import target_names
from raregram.counts import engine as local
from raregram.counts.encode import Encoded, encode_documents, encode_labelled, encode_weighted
from raregram.counts.kernel import Plan
from raregram.counts.spans import Span, tuple_of
from raregram.counts.storage import SpanTable, is_raregram_file
from raregram.counts.table import Counts, two_frequencies
from raregram.errors import InputError, ParameterError, check_choice, check_count
from raregram.options import (
    DENOMINATOR,
    ENGINE,
    KIND,
    MIN_COUNT,
    ON_ERROR,
    SIDE,
    SPANS,
    Denominator,
    Engine,
    Kind,
    N,
    OnError,
    Side,
)
from raregram.text.ngrams import parse_ngrams

if TYPE_CHECKING:
    from raregram.spark.counting import Count
    from raregram.spark.session import Cluster

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
    pad: bool = False,
    shape: str | None = None,
    min_count: int = MIN_COUNT.default,
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
            mapping with `items` or `text` and `spans`; or a Spark DataFrame with such columns.
        numerator: instead of `source`, one of two plain samples: all its contexts are the numerator's,
        denominator: and all of this one's are the denominator's.
        n: number of items of a context; None for 10, or as many as the first has of contexts that come one by one.
        side: "left" for contexts before a span's start, "right" for those after its end.
        targets: the labels to count; None for every label there is.
        spans: any of "units" (always there), "suffixes:5" (up to five items next to the boundary), "shapes:8" (shapes
            of all items, and of up to eight next to the boundary) and "whole".
        kind: items are "words" or "letters"; a list of words has the letters of its words, with a space between them.
        pad: give a context also to boundaries with fewer than n items beside them.
        shape: the name of a shape function in `raregram.text.shapes.SHAPES`; None for the one of this kind of items.
        min_count: drop spans of two and more items that were seen less often.
        labels: other names for labels, e.g. {"GPE": "LOC"}.
        on_error: "stop" at a document that cannot be counted, or "skip" it.
        threads: how many to use; None for one a processor.
        memory_limit: bytes to use, about; a larger corpus is counted in parts. On Spark, bytes that a task uses.
        engine: "local", or "spark" for a cluster; the result is the same. A DataFrame is always counted on Spark.
        session: the Spark session to use; None: the active one, or a new one.
        master: of a new session, the URL of the cluster.
        progress: told how many more documents were counted, on Spark how many tasks are done.
        columns: what a table of contexts calls the columns `ngram`, `label`, `f_nu` and `f_de`.
        f_de: what `f_de` counts in a table with two frequencies: the "complement", or "all" contexts.
        reading: `format`, `split`, `item_column`, `tag_column`, `sentences`; see `raregram.corpus.documents.Options`.

    >>> documents = [{"text": "she lives in Rome", "spans": [(3, 4, "LOC")]}, {"text": "he met Ann in Oslo"}]
    >>> count(documents, n=2).totals
    array([7, 1])
    """
    if memory_limit is not None:
        check_count("memory_limit", "count", memory_limit)
    skip_log = SkipLog(on_error)
    sources = (source, numerator, denominator)
    ENGINE.check(engine, "count")
    layout: dict[str, Any] = {"side": side, "kind": kind, "shape": shape, "min_count": min_count}
    layout["spans"] = tuple_of(spans)
    if engine == "local" and hold_contexts(source, reading.get("format")):
        check_for_contexts(pad, labels, on_error)
        return read_counts(
            path_names(source),
            columns,
            targets,
            n,
            denominator=f_de,
            threads=threads,
            memory_limit=memory_limit,
            progress=progress,
            **layout,
        )
    options = Options(**reading, skip_log=skip_log)
    plan = Plan(
        n=N.default if n is None else n,
        targets=None if targets is None else target_names(targets),
        pad=pad,
        labels=labels,
        **layout,
    )
    if engine == "spark" or any(map(is_frame, sources)):
        from raregram.spark.counting import collect_counts
        from raregram.spark.session import Cluster, connect

        frame = next((given for given in sources if is_frame(given)), None)
        session = session or (connect(master) if frame is None else frame.sparkSession)
        files = ContextFiles((), columns, f_de=f_de, n=n)
        cluster = Cluster(session, progress)
        planned = count_on_spark(sources, plan, options, cluster=cluster, contexts=files, memory_limit=memory_limit)
        counts, counted = collect_counts(planned)
        skip_log.skipped, skip_log.examples = counted.skipped, counted.examples
    else:
        with count_table(
            sources, plan, options, threads=threads, memory_limit=memory_limit, progress=progress
        ) as table:
            counts = Counts.from_table(table)
    if skip_log.skipped:
        warnings.warn(f"{skip_log.skipped} documents were skipped: {skip_log.examples[0]}", stacklevel=2)
    return counts


def check_for_contexts(pad: bool, labels: Any, on_error: str) -> None:
    """Raise for options that are for documents alone."""
    if pad or labels or on_error != "stop":
        raise ParameterError("pad, labels and on_error are for documents; these are contexts")


def is_frame(value: Any) -> bool:
    """Whether something is a Spark DataFrame; pyspark need not be installed."""
    return type(value).__module__.startswith("pyspark.sql") and hasattr(value, "mapInArrow")


@contextmanager
def count_table(
    sources: tuple[Any, Any, Any],
    plan: Plan,
    options: Options,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    beside: Path | None = None,
    progress: Callable[[int], None] = lambda documents: None,
) -> Iterator[SpanTable]:
    """Count (source, numerator, denominator) into a table whose rows come as a stream while the context is open."""
    options = _options(options, plan, memory_limit or local.MEMORY_LIMIT)
    samples = _samples(sources, plan)
    jobs = (
        partial(encode_documents, batch, of_source, options.skip_log)
        for source, of_source in samples
        for batch in read_documents(source, replace(options, seen=set()))
    )
    with local.encode_all(
        jobs, samples[0][1], threads=threads, memory_limit=memory_limit, beside=beside, progress=progress
    ) as corpus:
        local.check_counted(corpus.documents, corpus.totals[0], corpus.longest, plan)
        yield corpus.table()


@dataclass(frozen=True)
class ContextFiles:
    """Files of contexts, and how to read them."""

    sources: Sequence[str]  # paths, or "-" for standard input; count files may be among them
    rename: Mapping[str, str] | None = None  # see `read_contexts`
    target: str | None = None  # what the numerator of tables with two frequencies is called; None: see `_target`
    f_de: Denominator = DENOMINATOR.default  # what `f_de` counts in such tables; see `Counts.from_ngrams`
    n: int | None = None  # items of a context; None: as many as the first one has

    @cached_property
    def count_files(self) -> list[str]:
        """The count files among them."""
        return [path for path in context_files(self.sources) if not reads_once(path) and is_raregram_file(path)]

    def batches(self) -> Iterator[Batch]:
        """Yield the contexts of all others."""
        for source in context_files(self.sources):
            if source not in self.count_files:
                yield from read_contexts(source, self.rename)


@contextmanager
def count_contexts(
    files: ContextFiles, n: int | None, plan: Mapping[str, Any], **resources: Any
) -> Iterator[SpanTable | None]:
    """Count contexts into a table whose rows come as a stream while the context is open; None if there are none.

    Args:
        files: where they are.
        n: number of items of a context; None for as many as the first one has.
        plan: the other parameters of `Plan`.
        resources: see `raregram.counts.engine.encode_all`.
    """
    batches = files.batches()
    first = next(batches, None)
    if first is None:
        yield None
        return
    with _source_named(first):
        found = parse_ngrams(first.ngrams[:1], n, plan["kind"], first.location.name).n
    whole = Plan(n=found, **plan)
    jobs = (partial(encode_contexts, batch, files, whole) for batch in _alike(chain([first], batches), files, whole))
    with local.encode_all(jobs, whole, **resources) as corpus:
        yield corpus.table()


def _alike(batches: Iterable[Batch], files: ContextFiles, plan: Plan) -> Iterator[Batch]:
    """Yield batches; raise where some have labels and some frequencies, and nobody says of which target."""
    kinds = {False} if files.count_files else set()
    for batch in batches:
        kinds.add(batch.has_frequencies)
        if len(kinds) > 1 and files.target is None and plan.targets is None:
            raise ParameterError(f"{batch.source}: name the target of the frequencies, since others have labels")
        if batch.has_frequencies and plan.targets is not None and len(plan.targets) != 1:
            raise ParameterError(f"{batch.source} has two frequencies, so it has one target, not {len(plan.targets)}")
        yield batch


def encode_contexts(batch: Batch, files: ContextFiles, plan: Plan) -> Encoded:
    """Encode contexts, by frequencies if they have them, else by labels."""
    with _source_named(batch):
        if batch.has_frequencies:
            target = plan.targets[0] if plan.targets else files.target or "target"
            f_nu, f_de = (frequencies_of(batch, name) for name in ("f_nu", "f_de"))
            frequencies = two_frequencies(len(batch), f_nu, f_de, files.f_de, batch.location.name)
            return encode_weighted(batch.ngrams, *frequencies, target, plan, batch.location.name)
        if "label" not in batch.columns:
            raise InputError(
                f"{batch.location} has no label: expected label<TAB>items, or a table with the column label, "
                "or with the columns f_nu and f_de"
            )
        return encode_labelled(
            batch.ngrams, labels_of(batch.columns["label"], batch.source), plan, batch.location.name
        )


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
    sources: Sequence[str],
    rename: Mapping[str, str] | None = None,
    targets: Sequence[str] | None = None,
    n: int | None = None,
    target: str | None = None,
    *,
    denominator: Denominator = DENOMINATOR.default,
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    **plan: Any,
) -> Counts:
    """Return one count table of several files: count files are loaded, contexts counted, and all merged.

    Args:
        sources: paths, or "-" for standard input.
        rename: see `read_contexts`.
        targets: the labels to count; None for all.
        n: number of items of a context; None for as many as the first one has.
        target: what the numerator of tables with two frequencies is called; None: by the one name in `targets`, or
            "target" where nothing else is counted.
        denominator: what f_de counts in such tables.
        threads: see `count`,
        memory_limit: like this.
        progress: told the number of contexts of each batch.
        plan: other parameters of `Plan`.
    """
    wanted = {"targets": None if targets is None else target_names(targets), "kind": "words", **plan}
    wanted["spans"] = tuple_of(wanted.get("spans", ("units",)))
    min_count = wanted.pop("min_count", 1)
    check_count("min_count", "a count", min_count)
    files = ContextFiles(sources, rename, target, denominator)
    with count_contexts(files, n, wanted, threads=threads, memory_limit=memory_limit, progress=progress) as table:
        counted = [] if table is None else [Counts.from_table(table)]
    tables = [_loaded(path, targets, n) for path in files.count_files]
    if tables and counted and set(counted[0].targets) <= set(tables[0].targets):
        counted[0] = counted[0].with_targets(tables[0].targets)
    if not tables + counted:
        raise InputError(f"there is no context in {', '.join(context_files(sources))}")
    merged = sum([*tables[1:], *counted], start=tables[0]) if tables else counted[0]
    return merged if min_count == 1 else merged.drop_rare(min_count)


def _loaded(path: str, targets: Sequence[str] | None, n: int | None) -> Counts:
    """Return the table of a count file, with these targets alone; raise where it cannot be what is asked for."""
    counts = Counts.load(path)
    if n is not None and n != counts.n:
        raise ParameterError(f"{path} counts contexts of {counts.n} items, not {n}")
    for name in targets or ():
        check_choice("targets", path, name, counts.targets)
    return counts if targets is None else counts.with_targets(targets)


def hold_contexts(source: Any, format_name: str | None) -> bool:
    """Whether what is to be counted are files of contexts rather than documents."""
    names = path_names(source)
    return bool(names) and (format_name == CONTEXTS or (format_name is None and are_contexts(names)))


def are_contexts(sources: Sequence[str]) -> bool:
    """Whether sources hold contexts rather than documents; raise where some do and some do not."""
    kinds = {}
    for path in context_files(sources):
        if Path(path).is_dir():
            kinds[True] = path
        elif reads_once(path) or Path(path).stat().st_size:  # an empty file is neither
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
            whole = Path(source).is_dir() and is_raregram_file(source)
        found += [source] if whole else expand(source)
    return found


def count_on_spark(
    sources: tuple[Any, Any, Any],
    plan: Plan,
    options: Options,
    *,
    cluster: Cluster,
    contexts: ContextFiles | None = None,
    memory_limit: int | None = None,
    only: Span | None = None,
) -> Count:
    """Prepare the count of (source, numerator, denominator) on a Spark cluster; only labels are read yet.

    Args:
        sources: documents, or contexts as the first of the three.
        plan: what to count.
        options: how to read documents.
        cluster: where they are counted.
        contexts: how to read contexts; its own `sources` do not matter.
        memory_limit: bytes that a task takes for its tables.
        only: the one span to count; None for all.
    """
    from raregram.spark.counting import MEMORY_LIMIT, Count
    from raregram.spark.session import errors_explained
    from raregram.spark.sources import open_source

    options = _options(options, plan, memory_limit or MEMORY_LIMIT)
    contexts = contexts or ContextFiles(())
    with errors_explained():
        samples = [
            (open_source(cluster, each, options, contexts), of_each) for each, of_each in _samples(sources, plan)
        ]
        if samples[0][0].contexts is not None:
            if sources[0] is None:
                raise InputError(f"{samples[0][0].name} holds contexts, not documents")
            check_for_contexts(plan.pad, plan.labels, options.skip_log.on_error)
            samples = [(each, replace(plan, n=each.context_length(cluster, plan.kind))) for each, _ in samples]
        return Count(cluster, samples, options, memory_limit, only)


def _samples(sources: tuple[Any, Any, Any], plan: Plan) -> list[tuple[Any, Plan]]:
    """Return what to read and what to count of it: one sample, or two plain ones."""
    source, numerator, denominator = sources
    if (source is None) == (numerator is None) or (numerator is None) != (denominator is None):
        raise ParameterError("count takes either documents, or both a numerator and a denominator")
    if source is not None:
        return [(source, plan)]
    if plan.targets:
        raise ParameterError("two plain samples have no targets: leave targets out")
    plain = replace(plan, targets=())
    return [(numerator, replace(plain, everything=NUMERATOR)), (denominator, plain)]


def _options(options: Options, plan: Plan, memory_limit: int) -> Options:
    """Let documents come in batches that leave room for their counts."""
    # Rows of longer spans take some thirty times the room of their text, and a few batches are under way at once.
    share = memory_limit >> 7
    return replace(options, cut=(plan.n, plan.kind), batch_bytes=min(options.batch_bytes, max(share, 1 << 16)))

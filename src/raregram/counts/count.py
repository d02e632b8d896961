"""From documents to a count table. Engines only count; the mathematics is elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raregram.corpus.documents import Options, Policy
from raregram.corpus.formats import read_documents
from raregram.corpus.labels import target_names
from raregram.counts import engine as local
from raregram.counts.encode import encode_documents
from raregram.counts.kernel import Plan
from raregram.counts.storage import Span, SpanTable
from raregram.counts.table import Counts
from raregram.errors import ParameterError, check_count
from raregram.options import ENGINE

if TYPE_CHECKING:
    from raregram.spark.counting import Count
    from raregram.spark.session import Cluster

NUMERATOR = "numerator"  # the target's name where two plain samples are compared


def count(
    source: Any = None,
    *,
    numerator: Any = None,
    denominator: Any = None,
    n: int = 10,
    side: str = "left",
    targets: Sequence[str] | None = None,
    spans: Sequence[str] = ("units",),
    kind: str = "words",
    pad: bool = False,
    shape: str | None = None,
    min_count: int = 1,
    labels: Mapping[str, str] | None = None,
    on_error: str = "stop",
    threads: int | None = None,
    memory_limit: int | None = None,
    engine: str = "local",
    session: Any = None,
    master: str | None = None,
    progress: Callable[[int], None] = lambda documents: None,
    **reading: Any,
) -> Counts:
    """Count the contexts of documents.

    Args:
        source: paths, folders or globs of documents in any format; an Arrow table; an iterable of documents, each
            a mapping with `items` or `text` and `spans`; or a Spark DataFrame with such columns.
        numerator: instead of `source`, one of two plain samples: all its contexts are the numerator's,
        denominator: and all of this one's are the denominator's.
        n: number of items of a context.
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
        threads: batches counted at a time; None for one a processor.
        memory_limit: bytes; beyond it partial tables go to files. On Spark, bytes that a task takes for its tables.
        engine: "local", or "spark" for a cluster; the result is the same. A DataFrame is always counted on Spark.
        session: the Spark session to use; None: the active one, or a new one.
        master: of a new session, the URL of the cluster.
        progress: told how many more documents were counted, on Spark how many tasks are done.
        reading: `format`, `split`, `item_column`, `tag_column`, `sentences`; see `raregram.corpus.documents.Options`.

    >>> documents = [{"text": "she lives in Rome", "spans": [(3, 4, "LOC")]}, {"text": "he met Ann in Oslo"}]
    >>> count(documents, n=2).totals
    array([7, 1])
    """
    if memory_limit is not None:
        check_count("memory_limit", "count", memory_limit)
    plan = Plan(
        n=n,
        side=side,
        kind=kind,
        targets=None if targets is None else target_names(targets),
        spans=tuple([spans] if isinstance(spans, str) else spans),
        pad=pad,
        shape=shape,
        min_count=min_count,
        labels=labels,
    )
    policy = Policy(on_error)
    options = Options(**reading, policy=policy)
    sources = (source, numerator, denominator)
    ENGINE.check(engine, "count")
    if engine == "spark" or any(map(is_frame, sources)):
        from raregram.spark.counting import collect_counts
        from raregram.spark.session import Cluster, connect

        frame = next((given for given in sources if is_frame(given)), None)
        session = session or (connect(master) if frame is None else frame.sparkSession)
        planned = count_on_spark(
            sources, plan, options, cluster=Cluster(session, progress), memory_limit=memory_limit
        )
        counts, told = collect_counts(planned)
        policy.skipped, policy.examples = told.skipped, told.examples
    else:
        with count_table(
            sources, plan, options, threads=threads, memory_limit=memory_limit, progress=progress
        ) as table:
            counts = Counts.from_table(table)
    if policy.skipped:
        warnings.warn(f"{policy.skipped} documents were skipped: {policy.examples[0]}", stacklevel=2)
    return counts


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
        partial(encode_documents, batch, of_source, options.policy)
        for source, of_source in samples
        for batch in read_documents(source, replace(options, seen=set()))
    )
    with local.count_table(
        jobs, samples[0][1], threads=threads, memory_limit=memory_limit, beside=beside, progress=progress
    ) as table:
        yield table


def count_on_spark(
    sources: tuple[Any, Any, Any],
    plan: Plan,
    options: Options,
    *,
    cluster: Cluster,
    memory_limit: int | None = None,
    only: Span | None = None,
) -> Count:
    """Plan the count of (source, numerator, denominator) on a Spark cluster; nothing but labels is looked at yet."""
    from raregram.spark.counting import MEMORY_LIMIT, Count
    from raregram.spark.session import errors_explained
    from raregram.spark.sources import open_source

    options = _options(options, plan, memory_limit or MEMORY_LIMIT)
    with errors_explained():
        samples = [
            (open_source(cluster, source, options), of_source) for source, of_source in _samples(sources, plan)
        ]
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

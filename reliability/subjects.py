"""Every reader of raregram with valid files, made by raregram or by the libraries that define their formats."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from raregram.cli.experiments import _config, _load_results, _results_named
from raregram.corpus.contexts import read_contexts
from raregram.corpus.documents import Documents, Options
from raregram.corpus.fetch import CORPORA, unpack
from raregram.corpus.formats import read_documents
from raregram.corpus.formats.tables import documents_table
from raregram.corpus.log import ReadingLog
from raregram.counts.count import read_counts
from raregram.counts.encode import encode_documents
from raregram.counts.kernel import CountSettings
from raregram.errors import InputError, ParameterError
from reliability.loaders import forge, read_as_raregram_file, whole_files
from reliability.mutations import BLIND, JSON, PACKINGS, TEXT, Mutation, pack, parquet

CORPUS = [
    (["Mr", "Lee", "flew", "to", "New", "York", "."], [(1, 2, "PER"), (4, 6, "LOC")]),
    (["Oslo", "is", "in", "Norway", "naïve", "\U0001f600"], [(0, 1, "LOC"), (3, 4, "LOC")]),
    (["nobody", "was", "there"], []),
]
CONTEXTS = [("LOC", "he lives in"), ("O", "she said that"), ("LOC", "they met in"), ("PER", "then came naïve")]


class WrongAnswerError(Exception):
    """What was read is not what the file holds."""


@dataclass(frozen=True)
class Subject:
    """A reader, and how to damage what it reads."""

    name: str
    files: dict[str, bytes]  # name -> content of valid ones
    read: Callable[[Path, random.Random], None]
    mutations: Sequence[Mutation] = TEXT
    columns: tuple[str, ...] = ()  # of a table; tables with strange columns are made as well


# What is read


def read_as_documents(path: Path, rng: random.Random, format_name: str | None, split: str = "file") -> None:
    """Read documents, count them, write them as Parquet and read them again."""
    options = Options(format_name, split, log=ReadingLog(rng.choice(["stop", "skip"])))
    found = list(read_documents(str(path), options))
    for batch in found:
        _check_round_trip(batch, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some were skipped
        reading: Any = {"format": format_name, "split": split, "on_error": options.log.on_error}
        rg.count(str(path), n=2, threads=1, **reading)


def _check_round_trip(batch: Documents, path: Path) -> None:
    table = documents_table(batch)
    again = path.with_suffix(".again.parquet")
    pq.write_table(table, again)
    read = [documents_table(documents) for documents in read_documents(str(again))]
    if (pa.concat_tables(read) if read else table[:0]).to_pylist() != table.to_pylist():
        raise WrongAnswerError("documents differ after they were written and read")
    encode_documents(batch, CountSettings(n=1, pad=True), ReadingLog("skip")).items.to_pylist()


def read_as_contexts(path: Path, rng: random.Random) -> None:
    """Read contexts one way, and count them."""
    batches = list(read_contexts(str(path)))
    contexts = sum(map(len, batches))
    counts = read_counts([str(path)], options=Options(format="contexts"), spans=["units", "whole"])
    if int(counts.totals[0]) != contexts and not any("f_nu" in batch.columns for batch in batches):
        raise WrongAnswerError(f"{contexts} contexts were read and {counts.totals[0]} counted")


def read_as_archive(path: Path, rng: random.Random) -> None:
    """Unpack an archive, which must leave nothing beside the folder that it is given."""
    unpacked = path.with_name("unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    before = set(path.parent.rglob("*")) | {unpacked}
    unpack(path, path.parent, str(path), CORPORA["reuters"])
    if beside := {found for found in path.parent.rglob("*") if unpacked not in found.parents} - before:
        raise WrongAnswerError(f"it wrote {beside}")


def read_as_settings(path: Path, rng: random.Random) -> None:
    try:
        _config(str(path), {})
    except ParameterError as error:  # it names the setting, and the command line the file
        raise InputError(f"{path}: {error}") from error


def read_as_results(path: Path, rng: random.Random) -> None:
    """Read the results of an experiment and make the tables of a report."""
    from raregram.experiment.tables import tables

    results = _load_results(path)
    with _results_named(path):
        tables(results)


# Valid files


def _tags(items: list[str], spans: list[tuple[int, int, str]], prefixed: bool) -> list[str]:
    """Return a tag for each item, with B- and I- or without."""
    tags = ["O"] * len(items)
    for start, end, label in spans:
        for at in range(start, end):
            tags[at] = (("B-" if at == start else "I-") if prefixed else "") + label
    return tags


def _tagged(form: str, mark: str = "", prefixed: bool = False) -> bytes:
    """Return the corpus with a tag for every item."""
    documents = (map(form.format, items, _tags(items, spans, prefixed)) for items, spans in CORPUS)
    return "\n".join(mark + "".join(pairs) for pairs in documents).encode()


def _marked() -> bytes:
    """Return the corpus with entities as elements."""
    lines = []
    for items, spans in CORPUS:
        words = list(items)
        for start, end, label in spans:
            words[start] = f"<{label}>{words[start]}"
            words[end - 1] += f"</{label}>"
        lines.append(" ".join(words))
    return "\n".join(lines).encode()


def _rows(texts: bool = False) -> list[dict[str, Any]]:
    spans = [[dict(zip(("start", "end", "label"), span, strict=True)) for span in of_one] for _, of_one in CORPUS]
    content = [{"text": " ".join(items)} if texts else {"items": items} for items, _ in CORPUS]
    return [{"id": f"d{i}", **body, "spans": s} for i, (body, s) in enumerate(zip(content, spans, strict=True))]


def _docbin() -> bytes:
    import spacy

    nlp = spacy.blank("en")
    docs = spacy.tokens.DocBin()
    for items, spans in CORPUS:
        doc = spacy.tokens.Doc(nlp.vocab, words=items)
        doc.ents = [spacy.tokens.Span(doc, start, end, label) for start, end, label in spans]
        docs.add(doc)
    return bytes(docs.to_bytes())


def _reuters_json() -> bytes:
    bodies = [f"Prices of number {number} rose. " * 6 + "\n Reuter\n\x03" for number in range(3)]
    return json.dumps([{"id": str(i), "title": "x", "body": body} for i, body in enumerate(bodies, 1)]).encode()


def _reuters_sgml() -> bytes:
    articles = [
        f'<REUTERS TOPICS="YES" NEWID="{number}">\n<TEXT>\n<TITLE>X</TITLE><BODY>'
        f"{f'Prices &lt;of> number {number} rose &amp; fell. ' * 5}\n Reuter\n&#3;</BODY></TEXT>\n</REUTERS>\n"
        for number in range(1, 4)
    ]
    return ('<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(articles)).encode("latin-1")


def _tar(compressed: bool) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz" if compressed else "w") as archive:
        for number in range(2):
            member = tarfile.TarInfo(f"package/data/full/reuters-00{number}.json")
            member.size = len(_reuters_json())
            archive.addfile(member, io.BytesIO(_reuters_json()))
    return sink.getvalue()


def _zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/full/reuters-000.json", _reuters_json())
        archive.writestr("data/other.txt", b"text")
    return sink.getvalue()


SETTINGS = b"""# an experiment
corpus = ["a.jsonl"]
seed = 3
n = 4
targets = ["LOC", "PER"]
sizes = [10, 100]
lams = [1e-5, 0.001]
denominator = "all"
"""


def _results() -> bytes:
    """Return the results of a tiny experiment."""
    from raregram.experiment.run import Config, run

    rng = random.Random(3)
    rows: dict[str, list[Any]] = {"items": [], "spans": []}
    for _ in range(60):
        items = [rng.choice("a b c d e f g h".split()) for _ in range(20)]  # noqa: SIM905
        rows["items"].append(items)
        rows["spans"].append([{"start": at, "end": at + 1, "label": rng.choice(["LOC", "PER"])} for at in (6, 12)])
    small = Config(corpus=("x",), train=30, valid=15, test=15, n=2, k=10, sizes=(2, 5), lams=(1e-3, 1e-2), seed=1)
    return json.dumps(run(small, pa.table(rows))).encode()


def _jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in [*_rows(), *_rows(texts=True)]).encode()


def _conll() -> bytes:
    return _tagged("{} NN {}\n", "-DOCSTART- -X- O\n\n", prefixed=True)


def _slash() -> bytes:
    return _tagged("{}/{} ").replace(b" \n", b"\n").rstrip()


def _plain() -> bytes:
    return "\n\n".join(" ".join(items) for items, _ in CORPUS).encode()


def _document_tables() -> dict[str, bytes]:
    return {
        "items.parquet": parquet(pa.Table.from_pylist(_rows()), write_page_checksum=True),
        "text.parquet": parquet(pa.Table.from_pylist(_rows(texts=True) * 400), row_group_size=100),
    }


def _context_tables() -> dict[str, bytes]:
    labels, ngrams = zip(*CONTEXTS, strict=True)
    counted = pa.table({"ngram": ngrams, "f_nu": [5, 0, 3, 1], "f_de": [1, 7, 0, 2]})
    return {"c.parquet": parquet(pa.table({"ngram": ngrams, "label": labels})), "f.parquet": parquet(counted)}


TSV = "".join(f"{label}\t{ngram}\n" for label, ngram in CONTEXTS).encode()
CSV = b"ngram,label\n" + "".join(f'"{ngram}",{label}\n' for label, ngram in CONTEXTS).encode()
COUNTED_CSV = b"ngram,f_nu,f_de\nlives in,5,1\nsaid that,0,7\n"
DOCUMENTS: dict[str, Callable[[], dict[str, bytes]]] = {  # the files of each format
    "jsonl": lambda: {"d.jsonl": _jsonl()},
    "conll": lambda: {"d.conll": _conll(), "e": _tagged("{}\t{}\n", prefixed=True)},
    "stanford-tsv": lambda: {"d.tsv": _tagged("{}\t{}\n")},
    "stanford-slash": lambda: {"d.slash": _slash()},
    "stanford-xml": lambda: {"d.xml": _marked()},
    "reuters-json": lambda: {"reuters-000.json": _reuters_json()},
    "reuters-sgml": lambda: {"reut2-000.sgm": _reuters_sgml()},
    "text": lambda: {"d.txt": _plain()},
    "spacy": lambda: {"d.spacy": _docbin()},
    "parquet": _document_tables,
}
OTHERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "text-lines": DOCUMENTS["text"],
    "text-paragraphs": DOCUMENTS["text"],
    "compressed": lambda: {f"d.jsonl.{end}": pack(_jsonl(), kind) for end, kind in PACKINGS.items()},
    "recognised": lambda: {
        f"{kind}.x": next(iter(files().values())) for kind, files in DOCUMENTS.items() if kind != "spacy"
    },
    "context-lines": lambda: {
        "c.tsv": TSV,
        "c.txt": "\n".join(ngram for _, ngram in CONTEXTS).encode(),
        "c.gz": gzip.compress(TSV),
    },
    "csv": lambda: {"c.csv": CSV, "f.csv": COUNTED_CSV},
    "context-parquet": _context_tables,
    "archives": lambda: {"a.tgz": _tar(True), "a.tar": _tar(False), "a.zip": _zip()},
    "settings": lambda: {"s.toml": SETTINGS},
    "counts": lambda: {name: data for name, data in whole_files().items() if name.endswith(".counts")},
    "models": lambda: {name: data for name, data in whole_files().items() if name.endswith(".rgm")},
    "results": lambda: {"results.json": _results()},
}
READERS: dict[str, Callable[[Path, random.Random], None]] = {
    **{kind: partial(read_as_documents, format_name=kind) for kind in DOCUMENTS},
    "text-lines": partial(read_as_documents, format_name="text", split="lines"),
    "text-paragraphs": partial(read_as_documents, format_name="text", split="paragraphs"),
    "compressed": partial(read_as_documents, format_name="jsonl"),
    "recognised": partial(read_as_documents, format_name=None),
    **dict.fromkeys(("context-lines", "csv", "context-parquet"), read_as_contexts),
    "archives": read_as_archive,
    "settings": read_as_settings,
    **dict.fromkeys(("counts", "models"), read_as_raregram_file),
    "results": read_as_results,
}
MUTATIONS: dict[str, Sequence[Mutation]] = {  # all others are text
    **dict.fromkeys(("spacy", "parquet", "context-parquet", "compressed", "archives"), BLIND),
    **dict.fromkeys(("jsonl", "reuters-json", "settings", "results"), JSON),
    **dict.fromkeys(("counts", "models"), (*BLIND, *[forge] * 6)),
}
COLUMNS = {"parquet": ("items", "text", "spans", "id"), "context-parquet": ("ngram", "label", "f_nu", "f_de")}


def make_subjects(only: Sequence[str] = ()) -> list[Subject]:
    """Return every reader with its files, or those that are named."""
    return [
        Subject(name, files(), READERS[name], MUTATIONS.get(name, TEXT), COLUMNS.get(name, ()))
        for name, files in {**DOCUMENTS, **OTHERS}.items()
        if not only or name in only
    ]

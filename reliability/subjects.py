"""Every reader of raregram with valid files, made by raregram or by the libraries that define their formats."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from raregram.errors import InputError
from reliability.mutations import BLIND, JSON, PACKINGS, TEXT, Mutation, pack, parquet

CORPUS = [
    (["Mr", "Lee", "flew", "to", "New", "York", "."], [(1, 2, "PER"), (4, 6, "LOC")]),
    (["Oslo", "is", "in", "Norway", "naïve", "\U0001f600"], [(0, 1, "LOC"), (3, 4, "LOC")]),
    (["nobody", "was", "there"], []),
]
CONTEXTS = [("LOC", "he lives in"), ("O", "she said that"), ("LOC", "they met in"), ("PER", "then came naïve")]
ASKED = ["he lives in", "never seen here", "she met that"]
SETTINGS = b"""# an experiment
corpus = ["a.jsonl"]
seed = 3
n = 4
targets = ["LOC", "PER"]
sizes = [10, 100]
lams = [1e-5, 0.001]
denominator = "all"
"""


class WrongAnswerError(Exception):
    """What was read is not what the file holds."""


@dataclass(frozen=True)
class Subject:
    """A reader, and how to damage what it reads."""

    name: str
    files: dict[str, bytes]  # name -> content of valid ones
    read: Callable[[Path, random.Random], None]
    mutations: Sequence[Mutation] = TEXT


# What is read


def read_as_documents(path: Path, rng: random.Random, format_name: str | None, split: str = "file") -> None:
    """Read documents, write them as Parquet and read them again; then count them."""
    from raregram.corpus.documents import Options
    from raregram.corpus.formats import read_documents
    from raregram.corpus.formats.tables import documents_table
    from raregram.corpus.log import ReadingLog

    on_error = rng.choice(["stop", "skip"])
    again = path.with_suffix(".again.parquet")
    for batch in list(read_documents(str(path), Options(format_name, split, log=ReadingLog(on_error)))):
        table = documents_table(batch)
        pq.write_table(table, again)
        read = [documents_table(documents) for documents in read_documents(str(again))]
        if (pa.concat_tables(read) if read else table[:0]).to_pylist() != table.to_pylist():
            raise WrongAnswerError("documents differ after they were written and read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some were skipped
        reading: Any = {"format": format_name, "split": split, "on_error": on_error}
        rg.count(str(path), n=2, threads=1, **reading)


def read_as_contexts(path: Path, rng: random.Random) -> None:
    """Read contexts one way, and count them."""
    from raregram.corpus.contexts import read_contexts

    batches = list(read_contexts(str(path)))
    contexts = sum(map(len, batches))
    counts = rg.count(str(path), format="contexts", spans=["units", "whole"])
    if int(counts.totals[0]) != contexts and not any("f_nu" in batch.columns for batch in batches):
        raise WrongAnswerError(f"{contexts} contexts were read and {counts.totals[0]} counted")


def read_as_archive(path: Path, rng: random.Random) -> None:
    """Unpack an archive, which must leave nothing beside the folder that it is given."""
    from raregram.corpus.fetch import CORPORA, unpack

    unpacked = path.with_name("unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    before = set(path.parent.rglob("*")) | {unpacked}
    unpack(path, path.parent, str(path), CORPORA["reuters"])
    if beside := {found for found in path.parent.rglob("*") if unpacked not in found.parents} - before:
        raise WrongAnswerError(f"it wrote {beside}")


def read_by_command(path: Path, rng: random.Random, arguments: str) -> None:
    """Let `raregram` read it; what it says went wrong is an error of its input, and of settings names the option."""
    from raregram import cli

    words = ["raregram", *(word.format(path=path, folder=path.parent) for word in arguments.split())]
    (out, error), code = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)), 0
    with patch.object(sys, "argv", words), redirect_stderr(error), redirect_stdout(out):
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    if code:
        error.seek(0)
        raise InputError(f"{path.name}: {error.read()}" if "--config" in arguments else error.read())


def content(path: Path) -> Any:
    """Load a count file or a model, and return what it holds in a form that compares."""
    if path.suffix == ".counts":
        counts = rg.Counts.load(path)
        return counts.digest(), counts.totals.tolist(), repr(counts)
    model = rg.Model.load(path)
    return model.log_ratio(ASKED).tolist(), [str(model.explain(asked)) for asked in ASKED]


def read_as_raregram_file(path: Path, rng: random.Random) -> None:
    """Load a file: it is refused, or holds what was saved."""
    if repr(content(path)) != repr(known(path.name)):
        raise WrongAnswerError("a damaged file was read as another one")


# Valid files


@cache
def whole_files() -> dict[str, bytes]:
    """Return count and model files that raregram wrote."""
    rng = random.Random(5)
    words = ("the", "a", "in", "at", "of", "Mr", "said", "met", "naïve", "Bank", "42", "\U0001f600")
    contexts = [" ".join(rng.choices(words, k=3)) for _ in range(400)]
    labels = [rng.choice(["LOC", "PER", None, None]) if " in" in context else None for context in contexts]
    counts = rg.Counts.from_contexts(contexts, labels, spans=["units", "suffixes:3", "shapes:2", "whole"])
    with tempfile.TemporaryDirectory() as made:
        counts.save(Path(made) / "table.counts")
        rg.Counts.from_contexts(contexts[:50], labels[:50]).save(Path(made) / "small.counts")
        for estimator in ("mle", "selective", "product", "backoff"):
            rg.fit(counts, "LOC", estimator).save(Path(made) / f"{estimator}.rgm")
        return {path.name: path.read_bytes() for path in sorted(Path(made).iterdir())}


@cache
def known(name: str) -> Any:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / name
        path.write_bytes(whole_files()[name])
        return content(path)


def _tagged(form: str, mark: str = "", prefixed: bool = False) -> bytes:
    """Return the corpus with a tag for every item, with B- and I- or without."""
    lines = []
    for items, spans in CORPUS:
        tags = ["O"] * len(items)
        for start, end, label in spans:
            tags[start:end] = [
                f"{'B' if at == start else 'I'}-{label}"[2 * (not prefixed) :] for at in range(start, end)
            ]
        lines.append(mark + "".join(map(form.format, items, tags)))
    return "\n".join(lines).encode()


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

    nlp, docs = spacy.blank("en"), spacy.tokens.DocBin()
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


def _results() -> bytes:
    """Return the results of a tiny experiment."""
    from raregram.experiment.run import Config, run

    rng = random.Random(3)
    rows: dict[str, list[Any]] = {"items": [], "spans": []}
    for _ in range(60):
        rows["items"].append(rng.choices("abcdefgh", k=20))
        rows["spans"].append([{"start": at, "end": at + 1, "label": rng.choice(["LOC", "PER"])} for at in (6, 12)])
    small = Config(corpus=("x",), train=30, valid=15, test=15, n=2, k=10, sizes=(2, 5), lams=(1e-3, 1e-2), seed=1)
    return json.dumps(run(small, pa.table(rows))).encode()


def _jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in [*_rows(), *_rows(texts=True)]).encode()


def _plain() -> bytes:
    return "\n\n".join(" ".join(items) for items, _ in CORPUS).encode()


def _context_tables() -> dict[str, bytes]:
    labels, ngrams = zip(*CONTEXTS, strict=True)
    counted = pa.table({"ngram": ngrams, "f_nu": [5, 0, 3, 1], "f_de": [1, 7, 0, 2]})
    return {"c.parquet": parquet(pa.table({"ngram": ngrams, "label": labels})), "f.parquet": parquet(counted)}


TSV = "".join(f"{label}\t{ngram}\n" for label, ngram in CONTEXTS).encode()
CSV = b"ngram,label\n" + "".join(f'"{ngram}",{label}\n' for label, ngram in CONTEXTS).encode()
COUNTED_CSV = b"ngram,f_nu,f_de\nlives in,5,1\nsaid that,0,7\n"
DOCUMENTS: dict[str, Callable[[], dict[str, bytes]]] = {  # the files of each format
    "jsonl": lambda: {"d.jsonl": _jsonl()},
    "conll": lambda: {"d.conll": _tagged("{} NN {}\n", "-DOCSTART- -X- O\n\n", prefixed=True),
                      "e": _tagged("{}\t{}\n", prefixed=True)},
    "stanford-tsv": lambda: {"d.tsv": _tagged("{}\t{}\n")},
    "stanford-slash": lambda: {"d.slash": _tagged("{}/{} ").replace(b" \n", b"\n").rstrip()},
    "stanford-xml": lambda: {"d.xml": _marked()},
    "reuters-json": lambda: {"reuters-000.json": _reuters_json()},
    "reuters-sgml": lambda: {"reut2-000.sgm": _reuters_sgml()},
    "text": lambda: {"d.txt": _plain()},
    "spacy": lambda: {"d.spacy": _docbin()},
    "parquet": lambda: {
        "items.parquet": parquet(pa.Table.from_pylist(_rows()), write_page_checksum=True),
        "text.parquet": parquet(pa.Table.from_pylist(_rows(texts=True) * 400), row_group_size=100),
    },
}  # fmt: skip
OTHERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "text-lines": DOCUMENTS["text"],
    "text-paragraphs": DOCUMENTS["text"],
    "compressed": lambda: {f"d.jsonl.{end}": pack(_jsonl(), kind) for end, kind in PACKINGS.items()},
    "recognised": lambda: {
        f"{kind}.x": next(iter(files().values())) for kind, files in DOCUMENTS.items() if kind != "spacy"
    },
    "context-lines": lambda: {
        "c.tsv": TSV, "c.txt": "\n".join(ngram for _, ngram in CONTEXTS).encode(), "c.gz": gzip.compress(TSV),
    },
    "csv": lambda: {"c.csv": CSV, "f.csv": COUNTED_CSV},
    "context-parquet": _context_tables,
    "archives": lambda: {"a.tgz": _tar(True), "a.tar": _tar(False), "a.zip": _zip()},
    "settings": lambda: {"s.toml": SETTINGS},
    "counts": lambda: {name: data for name, data in whole_files().items() if name.endswith(".counts")},
    "models": lambda: {name: data for name, data in whole_files().items() if name.endswith(".rgm")},
    "results": lambda: {"results.json": _results()},
}  # fmt: skip
READERS: dict[str, Callable[[Path, random.Random], None]] = {
    **{kind: partial(read_as_documents, format_name=kind) for kind in DOCUMENTS},
    "text-lines": partial(read_as_documents, format_name="text", split="lines"),
    "text-paragraphs": partial(read_as_documents, format_name="text", split="paragraphs"),
    "compressed": partial(read_as_documents, format_name="jsonl"),
    "recognised": partial(read_as_documents, format_name=None),
    **dict.fromkeys(("context-lines", "csv", "context-parquet"), read_as_contexts),
    "archives": read_as_archive,
    "settings": partial(
        read_by_command, arguments="reproduce --config {path} --corpus nowhere.jsonl --out {folder}/x"
    ),
    **dict.fromkeys(("counts", "models"), read_as_raregram_file),
    "results": partial(read_by_command, arguments="reproduce --report-only --out {folder}"),
}
MUTATIONS: dict[str, Sequence[Mutation]] = {  # all others are text
    **dict.fromkeys(("spacy", "parquet", "context-parquet", "compressed", "archives", "counts", "models"), BLIND),
    **dict.fromkeys(("jsonl", "reuters-json", "settings", "results"), JSON),
}
NAMES = (*DOCUMENTS, *OTHERS)


def make_subjects(only: Sequence[str] = ()) -> list[Subject]:
    """Return every reader with its files, or those that are named; without spaCy, without its format."""
    found = []
    for name, files in {**DOCUMENTS, **OTHERS}.items():
        if not only or name in only:
            with suppress(ModuleNotFoundError):
                found.append(Subject(name, files(), READERS[name], MUTATIONS.get(name, TEXT)))
    return found

"""One corpus cut into samples: by a field of its documents, by folder, or by a part of the file's name.

`by` is the name of a field (JSON lines, CSV, Parquet, Python objects; `genre` of the Brown corpus), `folder` for the
folder in which a file is, or `file:REGEX` for what an expression finds in the file's name, its first group if it has
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from raregram.errors import InputError, is_unicode, must_be, name_some, shorten

if TYPE_CHECKING:
    from raregram.corpus.documents import Documents

FOLDER, FILE = "folder", "file:"


def check_by(by: Any) -> None:
    """Raise unless this can say by what a corpus is cut."""
    if by is None:
        return
    if not isinstance(by, str) or by in ("", FILE):
        raise must_be("by", "a count", "the name of a field, 'folder' or 'file:REGEX'", by)
    if by.startswith(FILE):
        try:
            re.compile(by.removeprefix(FILE))
        except (re.error, RecursionError, OverflowError) as error:
            raise must_be("by", "a count", f"'file:' and a regular expression ({error})", by) from None


def is_field(by: str | None) -> bool:
    """Whether a corpus is cut by a field."""
    return by is not None and by != FOLDER and not by.startswith(FILE)


def sample_of(fields: Mapping[str, Any], by: str | None, where: object) -> str | None:
    """Return the sample of a document by one of its fields; None where no field says it.

    >>> sample_of({"year": 1861, "text": "..."}, "year", "a.jsonl, line 1")
    '1861'
    """
    if by is None or not is_field(by):
        return None
    check_field(by, fields, where)
    value = fields[by]
    if value is None or value == "":
        raise InputError(f"{where}: {in_no_sample(by)}")
    if not isinstance(value, str | int) or not is_unicode(str(value)):
        raise InputError(f"{where}: the field {by} must hold a name or a whole number, got {shorten(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_field(by: str | None, fields: Iterable[Any], where: object) -> None:
    """Raise unless the field is there by which a corpus is cut."""
    names = list(fields)
    if is_field(by) and by not in names:
        raise InputError(f"{where} has no field {by!r} to cut by; it has {name_some(map(str, names))}")


def in_no_sample(by: str | None) -> str:
    """Say what is wrong with a document whose field is empty."""
    return f"the field {by} is empty, so the document is in no sample"


def with_samples(batches: Iterable[Documents], by: str | None) -> Iterator[Documents]:
    """Yield documents with the samples that their paths tell, where a corpus is cut by these."""
    sample_of_path = cache(_sample_of_path)  # a file may have millions of documents
    for documents in batches:
        if by is None or (documents.sample is not None and not documents.sample.null_count):
            yield documents
            continue
        known = documents.sample.to_pylist() if documents.sample is not None else [None] * len(documents)
        names = (
            sample_of_path(str(documents.location(row).source), by) if name is None else name
            for row, name in enumerate(known)
        )
        yield replace(documents, sample=pa.array(names, pa.string()))


def _sample_of_path(path: str, by: str) -> str:
    """Return the sample of all documents of a file."""
    if is_field(by):
        ways = "the fields of JSON lines, CSV or Parquet, `folder`, or `file:REGEX`"
        raise InputError(f"{path}: its documents have no field {by!r} to cut by; a corpus is cut by {ways}")
    if by == FOLDER:
        folder = Path(path).parent.name or (Path(path).absolute().parent.name if Path(path).exists() else "")
        if not folder:
            raise InputError(f"{path} is in no folder to cut by")
        return folder
    found = re.search(by.removeprefix(FILE), Path(path).name)
    sample = found and found[min(found.re.groups, 1)]
    if not sample:
        raise InputError(f"{path}: the file's name has nothing that {by.removeprefix(FILE)!r} finds, to cut by")
    return str(sample)

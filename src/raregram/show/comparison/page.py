"""A comparison and its concordance lines -> one self-contained page. Same input, same bytes.

The table and the lines are JSON, deflated and in Base64, so that no word can end the script that holds it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.concordance import Concordance
from raregram.measure.compare import Comparison
from raregram.measure.kwic import Lines
from raregram.show.write import finite

MOST_ROWS = 20_000
MOST_BYTES = 1_900_000  # of a page; rows that come first in `lines` have theirs, as far as it reaches
MOST_DOCUMENTS = 400  # whose frequencies are kept for a row and a corpus
DIGITS = {
    "log2_ratio": ".2f", "low": ".2f", "high": ".2f", "conservative": ".3f", "beyond": ".2f", "clr": ".2f",
    "log_ratio": ".2f", "zeta": ".3f", "fightin_words": ".2f", "g2": ".3g", "g2_design": ".3g", "p": ".3g",
    "q": ".3g", "simple_maths": ".3g", "odds_ratio": ".3g",
}  # fmt: skip
AS_THEY_ARE = ("ngram", "length", "f_a", "f_b", "documents_a", "documents_b", "kind", "repeats")
STYLES = ("show/static/style.css", "show/comparison/page.css")  # the looks of all pages, and what is added
SCRIPTS = ("show/static/dom.js", "show/comparison/page.js")


def page(comparison: Comparison, lines: Lines, max_bytes: int = MOST_BYTES) -> str:
    """Return a page that needs nothing from outside: a plot, a table, and the lines of some rows.

    Args:
        comparison: the table and the sizes of both corpora.
        lines: concordances of some rows, the most important ones first.
        max_bytes: the size of the page. It has lines for as many rows as fit.
    """
    table = strongest(comparison.table, MOST_ROWS)
    style, script = (_read(names) for names in (STYLES, SCRIPTS))
    left = (max_bytes - len(style.encode()) - len(script.encode()) - 5_000) * 3 // 4  # Base64: four bytes for three
    data = _deflate(_head(comparison, table), _rows(table, lines), left)
    return Template(_read(["show/comparison/page.html"])).substitute(
        title=escape(f"{comparison.names[0]} against {comparison.names[1]}"),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=base64.b64encode(data).decode(),
    )


def strongest(table: pa.Table, most: int) -> pa.Table:
    """Return the rows with the strongest evidence, in the order of the table; those that have a kind come first."""
    if len(table) <= most:
        return table
    shown = pc.is_null(table["repeats"]).to_numpy()
    has_kind = pc.not_equal(table["kind"], "").to_numpy()
    order = np.lexsort((-np.abs(table["conservative"].to_numpy()), ~shown, ~has_kind))
    return table.take(np.sort(order[:most]))


def _read(names: tuple[str, ...] | list[str]) -> str:
    text = "".join((files("raregram") / name).read_text(encoding="utf-8") for name in names)
    return text.replace("\nexport ", "\n")  # modules of the explorer; a page from a file cannot import them


def _hash(text: str) -> str:
    """Return the digest by which the page's policy lets its own script and style through, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _head(comparison: Comparison, table: pa.Table) -> dict[str, Any]:
    columns: dict[str, Any] = {name: table[name].to_pylist() for name in AS_THEY_ARE}
    columns |= {name: _rounded(table, name, digits) for name, digits in DIGITS.items()}
    facts = {name: getattr(comparison, name) for name in ("names", "tokens", "documents", "caution")}
    scales = [_per_sighting(comparison.table, side) for side in ("a", "b")]
    return {**facts, "rows": len(comparison.table), "per_sighting": scales, "columns": columns}


def _per_sighting(table: pa.Table, side: str) -> dict[int, float]:
    """Return the frequency per million of one occurrence, by length: shorter than a column of numbers."""
    f, seen = table[f"f_{side}"], pc.greater(table[f"f_{side}"], 0)
    lengths = pc.if_else(seen, table["length"], 0)
    firsts = {n: lengths.index(n).as_py() for n in sorted(set(pc.unique(lengths).to_pylist()) - {0})}
    return {n: table[f"per_million_{side}"][row].as_py() / f[row].as_py() for n, row in firsts.items()}


def _rounded(table: pa.Table, name: str, digits: str) -> list[Any]:
    """Return numbers with so many digits; infinity and NaN as strings."""
    return [finite(float(format(x, digits))) for x in table[name].cast(pa.float64()).fill_null(math.nan).to_pylist()]


def _rows(table: pa.Table, lines: Lines) -> Iterator[list[Any]]:
    """Yield for each row with lines: its index, names of documents that are new, and what both corpora have."""
    index = {ngram: row for row, ngram in enumerate(table["ngram"].to_pylist())}
    known: tuple[dict[str, int], dict[str, int]] = ({}, {})
    cuts = [_folder_length(pair[side] for pair in lines.values()) for side in range(2)]
    for ngram in filter(index.__contains__, lines):
        before = [len(names) for names in known]
        sides = [_side(found, names) for found, names in zip(lines[ngram], known, strict=True)]
        new = [list(names)[size:] for names, size in zip(known, before, strict=True)]
        yield [index[ngram], [[name[cut:] for name in some] for some, cut in zip(new, cuts, strict=True)], *sides]


def _folder_length(found: Iterable[Concordance]) -> int:
    """Return the length of the folder that the names of all documents begin with, which need not be shown."""
    names = [name for concordance in found for name in concordance.documents]
    shared = os.path.commonprefix(names)  # noqa: RUF071 - it is cut at a slash
    return shared.rfind("/") + 1


def _side(found: Concordance, known: dict[str, int]) -> list[Any]:
    """Return the lines of a row, and its frequencies by document; documents are numbered as they come."""
    by_frequency = sorted(found.documents.items(), key=lambda item: (-item[1], item[0]))[:MOST_DOCUMENTS]
    for name in (*(line.document for line in found.lines), *(name for name, _ in by_frequency)):
        known.setdefault(name, len(known))
    lines = [[known[line.document], line.position, line.left, line.match, line.right] for line in found.lines]
    return [lines, [[known[name], f] for name, f in sorted(by_frequency)]]


def _deflate(head: dict[str, Any], rows: Iterator[list[Any]], max_bytes: int) -> bytes:
    """Deflate a line of JSON for the head and for each row, until rows do not fit any more."""
    deflater = zlib.compressobj()
    data = bytearray(deflater.compress(_line(head)) + deflater.flush(zlib.Z_SYNC_FLUSH))
    for row in rows:
        before = deflater.copy()
        more = deflater.compress(_line(row)) + deflater.flush(zlib.Z_SYNC_FLUSH)
        if len(data) + len(more) > max_bytes:
            deflater = before
            break
        data += more
    return bytes(data + deflater.flush())


def _line(value: Any) -> bytes:
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()

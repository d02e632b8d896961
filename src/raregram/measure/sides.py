"""The sides of a comparison: documents, count tables or a list of frequencies -> rows with both frequencies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raregram.corpus.documents import byte_lines, open_bytes, reads_once
from raregram.corpus.formats import path_names
from raregram.counts.count import NUMERATOR, count
from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span, suffix
from raregram.counts.storage import is_raregram_file
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, RaregramWarning, shorten
from raregram.measure.keyness import Ints
from raregram.measure.phrases import Rows
from raregram.text.tokenize import PAD

SPLITTING = ("kind", "tokenize", "lower")  # options by which texts become items
LARGEST = 2**53  # sum of a list of frequencies
TOO_LARGE = f"the frequencies of a list may add up to {LARGEST:,} at most"

Pair = tuple[str | None, str | None]  # two samples of a table; first None: all of it, second None: the rest
Limits = tuple[int, int]  # fewest sightings, fewest documents


def countable(longest: int) -> dict[str, Any]:
    """Return the options of `raregram.count` with which a table can be compared; `min_count` may be added."""
    # With pads, N-grams shorter than the longest are counted from the beginning of a document on.
    return {"n": longest, "side": "left", "spans": (f"suffixes:{longest}",), "pad": True, "documents": True}


def check_counting(counting: Mapping[str, Any]) -> None:
    """Raise for options of counting that a comparison sets itself."""
    for name in countable(1):
        if name in counting:
            raise ParameterError(f"compare chooses {name} itself, by the lengths of N-grams: leave {name} out")


def count_samples(
    source: Any,
    longest: int,
    by: str | None,
    min_count: int,
    counting: Mapping[str, Any],
    names: Sequence[str] | None = None,
) -> Counts:
    """Return the table of one corpus, maybe cut into samples: all of them, or those that are named."""
    table = stored_table(source)
    if table is None:
        targets = names if by else ()  # spans do not count here
        options = {"targets": targets, "min_count": min_count, **_by_words(counting), **countable(longest)}
        return count(source, by=by, **options)
    if by is not None:
        raise ParameterError("a count table is cut already: leave by out")
    if longest > 1 and min_count < table.min_count:
        warn(
            f"N-grams of two and more items that were seen less than {table.min_count} times are not in this count "
            f"table, so min_count {min_count} holds for single items alone: count again without min_count for all"
        )
    return _checked(table, longest, counting)


def count_both(a: Any, b: Any, longest: int, min_count: int, counting: Mapping[str, Any]) -> Counts:
    """Return one table of two corpora, in which the first is a target."""
    tables = [stored_table(source) for source in (a, b)]
    known = next((table for table in tables if table is not None), None)
    if known is None:
        return count(numerator=a, denominator=b, min_count=min_count, **_by_words(counting), **countable(longest))
    alike = {name: getattr(known, name) for name in SPLITTING}
    options = {**counting, **alike, **countable(known.n), "labels": None, "targets": ()}
    first, second = (
        count(source, **options) if table is None else _checked(table, longest, counting)
        for source, table in zip((a, b), tables, strict=True)
    )
    return _as_sample(first, True) + _as_sample(second, False)


def stored_table(source: Any) -> Counts | None:
    """Return a count table, or that of a count file; None for anything else."""
    path = count_file(source)
    return source if isinstance(source, Counts) else Counts.load(path) if path is not None else None


def count_file(source: Any) -> str | None:
    """Return the path of a count file, on this machine or elsewhere; None if the source is anything else."""
    names = path_names(source)
    return names[0] if len(names) == 1 and not reads_once(names[0]) and is_raregram_file(names[0]) else None


def _by_words(counting: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of counting by which words are split at their boundaries, as the command does by default."""
    return counting if counting.get("kind") == "letters" else {"tokenize": "words", **counting}


def _checked(counts: Counts, longest: int, counting: Mapping[str, Any]) -> Counts:
    """Return a count table without folds; raise unless its N-grams of every length can be compared as was asked."""
    for name in SPLITTING:
        if name in counting and counting[name] != (has := getattr(counts, name)):
            raise ParameterError(
                f"this count table was counted with {name}={has!r}, so it cannot be compared with "
                f"{name}={counting[name]!r}: leave {name} out, or count again with it"
            )
    wanted = {suffix(length, counts.n, "left") for length in range(1, longest + 1) if longest <= counts.n}
    if not (counts.pad and counts.documents and counts.side == "left" and wanted and wanted <= set(counts.spans)):
        options = ", ".join(f"{name}={value!r}" for name, value in countable(longest).items())
        raise InputError(f"this count table does not have what a comparison needs: count with {options}")
    return counts.of_folds()


def _as_sample(counts: Counts, numerator: bool) -> Counts:
    """Return a table with one target, to which all of its contexts belong, or none."""
    plain = counts.with_targets([])
    factor = np.array([1, int(numerator)] * 4)  # of frequencies, documents, squares and products

    def both(values: Ints) -> Ints:
        return np.asarray(np.repeat(values, 2, axis=-1) * factor)

    rows = [SpanRows(span, plain.rows[span].keys, both(plain.rows[span].values)) for span in plain.spans]
    return replace(plain, targets=(NUMERATOR,), samples="two", totals=both(plain.totals)).with_rows(rows)


def rows_of_pair(counts: Counts, pair: Pair, length: int, limits: Limits) -> Rows:
    """Return the N-grams of one length of two samples, without the rare ones and those beyond ends of documents."""
    found = counts.rows[suffix(length, counts.n, "left")]
    pad = 0 if len(counts.items) and counts.items[0].as_py() == PAD else -1
    # What stands first is a pad if anything is; at its position, pads tell how many contexts are shorter.
    units = counts.rows[Span("item", counts.n - length, counts.n - length + 1)]
    padded = _of_pair(units.values[units.keys[:, 0] == pad], counts, pair)[:, 0].sum(axis=0)
    values, totals = _of_pair(found.values, counts, pair), _of_pair(counts.totals[None], counts, pair)[0]
    keep = found.keys[:, 0] != pad
    keep &= (values[:, 0].sum(axis=1) >= limits[0]) & (values[:, 1].sum(axis=1) >= limits[1])
    f, documents, squares, products = (np.ascontiguousarray(group[keep]) for group in values.swapaxes(0, 1))
    return Rows(found.keys[keep], f, documents, squares, products, totals[0] - padded, totals[:3])


def _of_pair(values: Ints, counts: Counts, pair: Pair) -> Ints:
    """Return frequencies, documents, squares and products of two samples: (rows, 4, 2)."""
    groups = values.reshape(len(values), 4, 1 + len(counts.targets))
    first = groups[:, :, 0 if pair[0] is None else counts.column(pair[0])]
    second = groups[:, :, 0] - first if pair[1] is None else groups[:, :, counts.column(pair[1])]
    return np.stack([first, second], axis=2)


# --- a list of frequencies ---------------------------------------------------------------------------------------
def frequency_list(path: str | Path) -> dict[str, int]:
    """Read a list of frequencies: lines of a word, a tab and how often it was seen."""
    found: dict[str, int] = {}
    total = 0
    with open_bytes(str(path)) as stream:
        for number, raw in byte_lines(stream, str(path)):
            line = raw.decode(errors="replace")
            word, tab, digits = line.rpartition("\t")
            if not tab or not digits.strip().isdecimal():
                expected = "expected a word, a tab and its frequency"
                raise InputError(f"{path}, line {number}: {expected}, got {shorten(line)}")
            frequency = int(digits.strip().lstrip("0")[:20] or 0)  # with more digits it is too large anyway
            total += frequency
            if total > LARGEST:
                raise InputError(f"{path}, line {number}: {TOO_LARGE}, but here is {shorten(line)}")
            found[word.strip()] = found.get(word.strip(), 0) + frequency
    return found


def checked_list(words: Mapping[Any, Any]) -> dict[str, int]:
    """Return a list of frequencies; raise unless it has words alone, and whole numbers."""
    for word, frequency in words.items():
        if not isinstance(word, str) or len(word.split()) != 1:
            raise InputError(f"a list of frequencies has words alone, but this has {shorten(word)}")
        # NaN and infinity are no whole numbers.
        whole = isinstance(frequency, Integral) or (isinstance(frequency, Real) and float(frequency).is_integer())
        if not whole or frequency < 0:
            raise InputError(
                f"the frequency of {shorten(word)} must be a whole number from 0 on, not {shorten(frequency)}"
            )
    if sum(words.values()) > LARGEST:
        raise InputError(TOO_LARGE)
    found: dict[str, int] = {}
    for word, frequency in words.items():
        found[word.strip()] = found.get(word.strip(), 0) + int(frequency)
    return found


def rows_with_list(counts: Counts, words: Mapping[str, int], limits: Limits) -> tuple[pa.Array, Rows]:
    """Return the words of a corpus and of a list of frequencies; of the latter nothing is known about documents."""
    if counts.kind == "letters":
        raise ParameterError("a list of frequencies has words, which cannot be compared with letters: count words")
    items, sizes = counts.tokenizer.refine(pa.array(words, pa.string()))
    split = [word for word, size in zip(words, sizes.tolist(), strict=True) if size > 1]
    if split:
        warn(
            f"{len(split):,} words of the list, such as {shorten(split[0])}, are split as the texts are "
            f"(tokenize='words'), and each part has their frequency: tokenize='whitespace' takes both as they are"
        )
    listed: dict[str, int] = {}
    for word, frequency in zip(items.to_pylist(), np.repeat(list(words.values()), sizes).tolist(), strict=True):
        listed[word] = listed.get(word, 0) + frequency
    rows = rows_of_pair(counts, (None, None), 1, (1, 1))
    known = counts.items.take(pa.array(rows.keys[:, 0])).to_pylist()
    items = [*known, *sorted(set(listed).difference(known))]
    f, documents, squares, products = (
        np.pad(group, ((0, len(items) - len(known)), (0, 0)))
        for group in (rows.f, rows.documents, rows.squares, rows.products)
    )
    f[:, 1] = [listed.get(word, 0) for word in items]
    # A word of the list may be in any number of documents.
    keep = (f.sum(axis=1) >= limits[0]) & ((documents[:, 0] >= limits[1]) | (f[:, 1] > 0))
    keys = np.flatnonzero(keep).astype(np.int32)[:, None]
    sizes = np.array([rows.sizes[0], f[:, 1].sum()])
    sums = documents[keep], squares[keep], products[keep]
    return pa.array(items, pa.string()), Rows(keys, f[keep], *sums, sizes, rows.totals)


def warn(message: str) -> None:
    """Warn as if from the caller of `compare`."""
    warnings.warn(message, RaregramWarning, stacklevel=5)

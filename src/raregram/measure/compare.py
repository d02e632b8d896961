"""Two corpora side by side: every N-gram with its frequencies, its ratio, and the measures of keyness."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.documents import byte_lines, open_bytes, reads_once
from raregram.corpus.formats import path_names
from raregram.counts.count import NUMERATOR, count
from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span, suffix
from raregram.counts.storage import is_raregram_file
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, RaregramWarning, check_choice, check_count, must_be, shorten
from raregram.measure import keyness
from raregram.measure.keyness import Ints
from raregram.measure.listing import as_html, top_rows
from raregram.measure.phrases import Estimates, Rows, estimate, find_parts, find_repeats
from raregram.measure.results import Results
from raregram.options import COMPARED, COMPARED_COUNT, COMPARED_DOCUMENTS
from raregram.text.tokenize import PAD, Tokenizer

LEVEL = 0.05  # false discovery rate of key words
LOCKED = 0.5  # log2: the interval of a lockword's ratio is within this of 0
FEW = 10  # documents of a corpus: fewer say little about how words are spread
LARGEST = 2**53  # sum of a list of frequencies
WORDS = Tokenizer(tokenize="words")
SPLITTING = ("kind", "tokenize", "lower")  # options by which texts become items

COLUMNS = [
    "ngram", "length", "f_a", "f_b", "per_million_a", "per_million_b", "documents_a", "documents_b", "share_a",
    "share_b", "log2_ratio", "low", "high", "conservative", "g2", "g2_design", "p", "q", "beyond", "clr", "log_ratio",
    "simple_maths", "odds_ratio", "zeta", "fightin_words", "kind", "repeats",
]  # fmt: skip

FIRST_COLUMNS = [
    "ngram", "per_million_a", "per_million_b", "documents_a", "documents_b", "log2_ratio", "low", "high",
    "conservative", "kind",
]  # fmt: skip

TOO_LARGE = f"the frequencies of a list may add up to {LARGEST:,} at most"

Pair = tuple[str, str | None]
Limits = tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Results):
    """Two corpora, and a table with a row for every N-gram: those that mark the first corpus first.

    ======================  ========================================================================================
    column                  content
    ======================  ========================================================================================
    ngram, length           its items with a space between them, and how many
    f_a, f_b                how often it was seen in the first corpus and in the second, and so
    per_million_a, _b       per million N-grams of its length,
    documents_a, _b         in how many documents, null for a list of frequencies,
    share_a, share_b        in which share of them
    log2_ratio              log2 of the ratio of both relative frequencies, estimated from its own frequencies and
                            those of its parts: closer to 0 than the observed `log_ratio`, the more so if it is rare
    low, high               the 95 % interval of this ratio, log2
    conservative            a cautious estimate of the ratio, log2: the nearer end of an interval by its own
                            frequencies alone, never further from 0 than `log2_ratio`; 0 where that interval has 0,
                            negative for the second corpus. Rows are in the order of this
    g2, g2_design           the log likelihood statistic over two cells; and over its design effect and Williams's q
    p, q                    of g2_design, by Student's t with the degrees of freedom that the documents give, and
                            adjusted for the number of rows (false discovery rate)
    beyond                  log2 by which the ratio differs from what its parts say
    clr, log_ratio, ...     the field's measures: see `raregram.measure.keyness`
    kind                    "positive" and "negative" key words of the first corpus, "lockword", or ""
    repeats                 the N-gram that makes this one redundant; null for those that are shown
    ======================  ========================================================================================
    """

    names: tuple[str, str]
    tokens: tuple[int, int]
    documents: tuple[int, int]  # 0 where there is only a list of frequencies
    tokenizer: Tokenizer = WORDS  # how texts became items

    @property
    def caution(self) -> str:
        """What to keep in mind where a corpus has few documents; empty where both have enough."""
        few = [f"{name} has {n}" for name, n in zip(self.names, self.documents, strict=True) if 0 < n < FEW]
        return (
            f"few documents ({', '.join(few)}): how words are spread over documents is hardly known, so little is "
            f"certain; bring {FEW} or more, or split files into documents by their lines or paragraphs"
        ) * bool(few)

    def top(
        self, k: int = 20, sort: str = "conservative", *, kind: str | None = None, repeats: bool = False
    ) -> Results:
        """Return the first rows by a column, highest first ("p" and "q": lowest); of one kind, if it is given.

        Negative key words come with the lowest first. Rows that only repeat others are left out unless asked for.
        """
        return Results(top_rows(self.table, "all" if kind is None else kind, sort, k, repeats))

    def __repr__(self) -> str:
        return repr(Results(self.table.select(FIRST_COLUMNS)))

    def _repr_html_(self) -> str:
        return as_html(self.names, self.table)

    def positive(self, k: int = 20, sort: str = "conservative") -> Results:
        """Return key words of the first corpus."""
        return self.top(k, sort, kind="positive")

    def negative(self, k: int = 20, sort: str = "conservative") -> Results:
        """Return key words of the second corpus."""
        return self.top(k, sort, kind="negative")

    def lockwords(self, k: int = 20, sort: str = "f_a") -> Results:
        """Return the N-grams that both corpora use alike, the most frequent first."""
        return self.top(k, sort, kind="lockword", repeats=True)


def compare(
    a: Any,
    b: Any = None,
    *,
    n: int | tuple[int, int] = COMPARED.default,
    names: Sequence[str] | None = None,
    by: str | None = None,
    min_count: int = COMPARED_COUNT.default,
    min_documents: int = COMPARED_DOCUMENTS.default,
    **counting: Any,
) -> Comparison:
    """Compare two corpora: which words and phrases mark the one against the other.

    Args:
        a: documents in any form that `raregram.count` reads, or a count table or file; see `countable`.
        b: the corpus to compare it with, alike; or a mapping of words to frequencies, with which words alone are
            compared; a word that it has needs no `min_documents`. None: `a` has both.
        n: the lengths of N-grams, shortest and longest, or only one length.
        names: what the corpora are called. Of one corpus that is cut into samples, which two are compared; or one
            name, for one against all others. None: the two that there are.
        by: what cuts one corpus into samples: a field of its documents, "folder" or "file:REGEX".
        min_count: leave out N-grams that were seen less often, in both corpora together,
        min_documents: or in fewer documents.
        counting: further options of `raregram.count`, e.g. `lower`, `memory_limit` and `engine`. Words are split by
            Unicode's word boundaries unless `tokenize="whitespace"`. Where one corpus is a count table, all is split
            as it was counted.

    >>> tea = [{"text": text} for text in ["hot tea please", "some hot tea"] * 5]
    >>> ale = [{"text": text} for text in ["cold ale please", "some cold ale"] * 5]
    >>> compare(tea, ale, n=2, names=("tea", "ale"), min_count=6)["ngram"].to_pylist()
    ['hot tea', 'cold ale']
    """
    lengths = _lengths(n)
    _check_counting(counting)
    check_count("min_count", "compare", min_count)
    check_count("min_documents", "compare", min_documents)
    limits = (min_count, min_documents)
    if isinstance(b, Mapping):
        named, words = _two_names(("A", "the list") if names is None else names), _checked_list(b)
        if lengths not in ((1, 1), COMPARED.default):
            raise ParameterError(
                f"a list of frequencies has words alone, so it cannot be compared with n={n!r}: take 1"
            )
        return _with_list(count_samples(a, 1, by, 1, counting), words, named, limits)
    if b is None:
        counts = count_samples(a, lengths[1], by, min_count, counting, names)
        return compare_samples(counts, _two_of(counts, names), lengths, limits)
    if by is not None:
        raise ParameterError("by cuts one corpus into samples: name one corpus, or leave by out")
    named = _two_names(default_names(a, b) if names is None else names)
    counts = _count_both(a, b, lengths[1], min_count, counting)
    return compare_samples(counts, (NUMERATOR, None), lengths, limits, named)


def compare_each(
    a: Any,
    *,
    by: str | None = None,
    n: int | tuple[int, int] = COMPARED.default,
    min_count: int = COMPARED_COUNT.default,
    min_documents: int = COMPARED_DOCUMENTS.default,
    **counting: Any,
) -> Iterator[Comparison]:
    """Yield the comparison of each sample of one corpus with all others, in the order of their names."""
    lengths = _lengths(n)
    _check_counting(counting)
    counts = count_samples(a, lengths[1], by, min_count, counting)
    _check_samples(counts)
    for name in counts.targets:
        yield compare_samples(counts, (name, None), lengths, (min_count, min_documents))


def countable(longest: int) -> dict[str, Any]:
    """Return the options of `raregram.count` with which a table can be compared; `min_count` may be added."""
    return {"n": longest, "side": "left", "spans": (f"suffixes:{longest}",), "pad": True, "documents": True}


def count_samples(
    source: Any,
    longest: int,
    by: str | None,
    min_count: int,
    counting: Mapping[str, Any],
    names: Sequence[str] | None = None,
) -> Counts:
    """Return the table of one corpus, maybe cut into samples: all of them, or those that are named."""
    found = _stored(source)
    if found is None:
        targets = names if by else ()  # spans do not count here
        options = {"targets": targets, "min_count": min_count, **_tokenized(counting), **countable(longest)}
        return count(source, by=by, **options)
    if by is not None:
        raise ParameterError("a count table is cut already: leave by out")
    if longest > 1 and min_count < found.min_count:
        _warn(
            f"N-grams of two and more items that were seen less than {found.min_count} times are not in this count "
            f"table, so min_count {min_count} holds for single items alone: count again without min_count for all"
        )
    return _checked(found, longest, counting)


def _check_counting(counting: Mapping[str, Any]) -> None:
    """Raise for options of counting that a comparison sets itself."""
    for name in countable(1):
        if name in counting:
            raise ParameterError(f"compare chooses {name} itself, by the lengths of N-grams: leave {name} out")


def _count_both(a: Any, b: Any, longest: int, min_count: int, counting: Mapping[str, Any]) -> Counts:
    """Return one table of two corpora, in which the first is a target."""
    tables = [_stored(source) for source in (a, b)]
    known = next((table for table in tables if table is not None), None)
    if known is None:
        return count(numerator=a, denominator=b, min_count=min_count, **_tokenized(counting), **countable(longest))
    alike = {name: getattr(known, name) for name in SPLITTING}
    tables = [table and _checked(table, longest, counting) for table in tables]
    alike.update(countable(known.n), labels=None, targets=())
    first, second = (
        count(source, **{**counting, **alike}) if table is None else table
        for source, table in zip((a, b), tables, strict=True)
    )
    return _as_sample(first, True) + _as_sample(second, False)


def _stored(source: Any) -> Counts | None:
    """Return a count table, or that of a count file; None for anything else."""
    path = count_file(source)
    return source if isinstance(source, Counts) else Counts.load(path) if path is not None else None


def count_file(source: Any) -> str | None:
    """Return the path of a count file, on this machine or elsewhere; None if the source is anything else."""
    names = path_names(source)
    return names[0] if len(names) == 1 and not reads_once(names[0]) and is_raregram_file(names[0]) else None


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


def _two_names(names: Sequence[str]) -> tuple[str, str]:
    """Return the names of both corpora; raise unless they are two different ones."""
    if len(names) != 2 or names[0] == names[1]:
        raise must_be("names", "compare", "two different names", names)
    return names[0], names[1]


def _as_sample(counts: Counts, numerator: bool) -> Counts:
    """Return a table with one target, to which all of its contexts belong, or none."""
    plain = counts.with_targets([])
    factor = np.array([1, int(numerator)] * 4)

    def both(values: Ints) -> Ints:
        return np.asarray(np.repeat(values, 2, axis=-1) * factor)

    stored = [plain.rows.stored[span] for span in plain.rows.stored]
    rows = [SpanRows(part.span, part.keys, both(part.values)) for part in stored]
    return replace(plain, targets=(NUMERATOR,), samples="two", totals=both(plain.totals)).with_rows(rows)


def _two_of(counts: Counts, names: Sequence[str] | None) -> Pair:
    """Return which samples of a table are compared: two, or one and None for the rest."""
    if names is None:
        _check_samples(counts)
    chosen = tuple(counts.targets if names is None else names)
    if len(set(chosen)) != len(chosen) or len(chosen) not in (1, 2):
        raise must_be("names", "compare", "one or two different names of samples", names)
    for name in chosen:
        check_choice("names", "compare", name, counts.targets)
    return chosen if len(chosen) == 2 else (chosen[0], None)


def _check_samples(counts: Counts) -> None:
    if len(counts.targets) < 2:
        raise InputError(
            "there is only one sample, so nothing to compare it with: name a second corpus, or cut by a field"
        )


def _tokenized(counting: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of counting by which words are split at their boundaries, as the command does by default."""
    return counting if counting.get("kind") == "letters" else {"tokenize": "words", **counting}


def _lengths(n: int | tuple[int, int]) -> tuple[int, int]:
    shortest, longest = (n, n) if isinstance(n, int) else n
    check_count("n", "compare", shortest)
    check_count("n", "compare", longest, at_least=shortest, at_most=int(COMPARED.at_most))
    return shortest, longest


def default_names(a: Any, b: Any) -> tuple[str, str]:
    """Return the names of files or folders, if there are two different ones."""
    first, second = (Path(names[0]).stem if len(names := path_names(source)) == 1 else "" for source in (a, b))
    return (first, second) if first and second and first != second else ("A", "B")


def compare_samples(
    counts: Counts,
    pair: Pair,
    lengths: tuple[int, int],
    limits: Limits = (COMPARED_COUNT.default, COMPARED_DOCUMENTS.default),
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two samples of a count table, or one with all others."""
    named = names or (pair[0], f"all but {pair[0]}" if pair[1] is None else pair[1])
    rows = [_rows(counts, pair, length, limits) for length in range(1, lengths[1] + 1)]
    return _comparison(counts, counts.items, rows, lengths[0], named)


def _rows(counts: Counts, pair: Pair, length: int, limits: Limits) -> Rows:
    """Return the N-grams of one length of two samples, without the rare ones and those beyond ends of documents."""
    found = counts.rows[suffix(length, counts.n, "left")]
    # What stands first is a pad if anything is; at its position, pads tell how many contexts are shorter.
    first = Span("item", counts.n - length, counts.n - length + 1)
    pads = found.keys[:, 0] == _pad_code(counts)
    units = counts.rows[first]
    padded = _of_pair(units.values[units.keys[:, 0] == _pad_code(counts)], counts, pair).sum(axis=0)
    values = _of_pair(found.values, counts, pair)  # (rows, groups, 2)
    keep = ~pads & (values[:, 0].sum(axis=1) >= limits[0]) & (values[:, 1].sum(axis=1) >= limits[1])
    totals = _of_pair(counts.totals[None], counts, pair)[0]
    f, documents, squares, products = (np.ascontiguousarray(group[keep]) for group in values.transpose(1, 0, 2))
    return Rows(found.keys[keep], f, documents, squares, products, totals[0] - padded[0], totals[:3])


def _of_pair(values: Ints, counts: Counts, pair: Pair) -> Ints:
    """Return frequencies, documents, squares and products of two samples: (rows, 4, 2)."""
    groups = values.reshape(len(values), 4, 1 + len(counts.targets))
    first = groups[:, :, counts.column(pair[0])]
    second = groups[:, :, 0] - first if pair[1] is None else groups[:, :, counts.column(pair[1])]
    return np.stack([first, second], axis=2)


def _pad_code(counts: Counts) -> int:
    return 0 if len(counts.items) and counts.items[0].as_py() == PAD else -1


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
            found[word] = found.get(word, 0) + frequency
    return found


def _checked_list(words: Mapping[Any, Any]) -> dict[str, int]:
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
    return {word: int(frequency) for word, frequency in words.items()}


def _with_list(counts: Counts, words: Mapping[str, int], named: tuple[str, str], limits: Limits) -> Comparison:
    """Compare the words of a corpus with a list of frequencies; of that, nothing is known about documents."""
    if counts.kind == "letters":
        raise ParameterError("a list of frequencies has words, which cannot be compared with letters: count words")
    words = _split_alike(words, counts.lower)
    rows = _rows(_as_sample(counts, True), (NUMERATOR, None), 1, (1, 1))
    known = counts.items.take(pa.array(rows.keys[:, 0])).to_pylist()
    others = sorted(set(words).difference(known))
    none = np.zeros((len(others), 2), dtype=np.int64)
    f = np.vstack([rows.f, none])
    documents, squares, products = (
        np.vstack([group, none]) for group in (rows.documents, rows.squares, rows.products)
    )
    f[:, 1] = [words.get(word, 0) for word in (*known, *others)]
    keep = (f.sum(axis=1) >= limits[0]) & ((documents[:, 0] >= limits[1]) | (f[:, 1] > 0))
    sizes = np.array([rows.sizes[0], f[:, 1].sum()])
    keys = np.arange(len(f), dtype=np.int32)[:, None]
    sums = documents[keep], squares[keep], products[keep]
    merged = Rows(keys[keep], f[keep], *sums, sizes, rows.totals)
    return _comparison(counts, pa.array([*known, *others], pa.string()), [merged], 1, named)


def _split_alike(words: Mapping[str, int], lower: bool) -> dict[str, int]:
    """Return a list of frequencies in small letters, if the corpus is."""
    items, _ = Tokenizer(lower=lower).refine(pa.array(words, pa.string()))
    found: dict[str, int] = {}
    for word, frequency in zip(items.to_pylist(), words.values(), strict=True):
        found[word] = found.get(word, 0) + frequency
    return found


def _comparison(
    counts: Counts, items: pa.Array, every: Sequence[Rows], shortest: int, names: tuple[str, str]
) -> Comparison:
    """Return the comparison of the N-grams of all lengths; the shorter ones are there for their sake."""
    for name, size in zip(names, every[0].sizes, strict=True):
        if not size:
            raise InputError(f"{name} is empty: there is nothing to compare")
    lengths = [rows for rows in every if rows.sizes.min() > 0]
    if len(lengths) < len(every):
        short = names[int(np.argmin(every[len(lengths)].sizes))]
        missing = f"no document of {short} has {len(lengths) + 1} items"
        if len(lengths) < shortest:
            raise InputError(f"{missing}, so there is nothing to compare: take N-grams of up to {len(lengths)}")
        _warn(f"{missing}, so N-grams have up to {len(lengths)}")
    if all((rows.f[:, 0] * rows.sizes[1] == rows.f[:, 1] * rows.sizes[0]).all() and len(rows) for rows in lengths):
        raise InputError(f"{names[0]} and {names[1]} are the same: every N-gram is as frequent in both")
    parts = find_parts(lengths)
    estimates = estimate(lengths, parts)
    repeats = find_repeats(lengths, parts, estimates, shortest)
    shown = range(shortest - 1, len(lengths))
    tables = [_table(items, lengths[k], estimates[k]) for k in shown]
    ngrams = pa.chunked_array([table["ngram"].combine_chunks() for table in tables], pa.string())
    table = pa.concat_tables(tables)
    several = _of_all_rows(table, estimates[0].freedom)
    pointers = repeats
    repeated = ngrams.take(pa.array(pointers, mask=pointers < 0))
    for name, column in {**several, "repeats": repeated}.items():
        table = table.append_column(name, column)
    order = [("conservative", "descending"), ("log2_ratio", "descending"), ("ngram", "ascending")]
    table = table.take(pc.sort_indices(table, sort_keys=order)).select(COLUMNS).combine_chunks()
    tokens, documents = (tuple(map(int, sides)) for sides in (lengths[0].sizes, lengths[0].all_documents))
    sizes = (tokens[0], tokens[1]), (documents[0], documents[1])
    found = Comparison(table, names, *sizes, counts.tokenizer)
    if found.caution:
        _warn(found.caution)
    return found


def _table(items: pa.Array, rows: Rows, found: Estimates) -> pa.Table:
    """Return the columns of the N-grams of one length."""
    f_a, f_b = rows.f.T
    sides = (f_a, f_b, *map(float, rows.sizes))
    low, high = found.interval
    log2, per_million, g2 = math.log(2), rows.f / rows.sizes * 1e6, keyness.g2(*sides)
    documents = [pa.array(column, mask=np.full(len(rows), not all_of)) for column, all_of in _by_side(rows)]
    shares = [
        pa.array(column / max(all_of, 1), mask=np.full(len(rows), not all_of)) for column, all_of in _by_side(rows)
    ]
    zeta = keyness.zeta(*rows.documents.T, *np.maximum(rows.all_documents, 1))
    words = [items.take(pa.array(column)) for column in rows.keys.T]
    williams = keyness.small_sample(rows.f.sum(axis=1), found.design, *sides[2:])
    columns = {
        "ngram": pc.binary_join_element_wise(*words, " ") if len(words) > 1 else words[0],
        "length": np.full(len(rows), rows.length, dtype=np.int8),
        "f_a": f_a,
        "f_b": f_b,
        "per_million_a": per_million[:, 0],
        "per_million_b": per_million[:, 1],
        "documents_a": documents[0],
        "documents_b": documents[1],
        "share_a": shares[0],
        "share_b": shares[1],
        "log2_ratio": found.shown / log2,
        "low": low / log2,
        "high": high / log2,
        "conservative": found.conservative / log2,
        "g2": g2,
        "g2_design": g2 / found.design / williams,
        "beyond": found.beyond / log2,
        "log_ratio": keyness.log_ratio(*sides),
        "simple_maths": keyness.simple_maths(*sides),
        "odds_ratio": keyness.odds_ratio(*sides),
        "zeta": pa.array(zeta, mask=np.full(len(rows), not rows.all_documents.all())),
        "fightin_words": keyness.fightin_words(*sides),
        "size_a": np.full(len(rows), rows.sizes[0]),
        "size_b": np.full(len(rows), rows.sizes[1]),
    }
    return pa.table({name: np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column
                     for name, column in columns.items()})  # fmt: skip


def _by_side(rows: Rows) -> list[tuple[Ints, int]]:
    return [(rows.documents[:, side], int(rows.all_documents[side])) for side in (0, 1)]


def _of_all_rows(table: pa.Table, freedom: float) -> dict[str, Any]:
    """Return the columns that depend on how many rows there are, and the kind, which depends on these."""
    from scipy.stats import false_discovery_control

    column = {name: table[name].to_numpy() for name in ("g2_design", "conservative", "low", "high", "f_a", "f_b")}
    p = keyness.t_tail(column["g2_design"], freedom)
    q = false_discovery_control(p) if len(p) else p
    clr = np.zeros(len(table))
    for sizes in set(zip(table["size_a"].to_pylist(), table["size_b"].to_pylist(), strict=True)):
        rows = np.flatnonzero(table["size_a"].to_numpy() == sizes[0])
        f_a, f_b = column["f_a"][rows], column["f_b"][rows]
        clr[rows] = keyness.conservative_ratio(f_a, f_b, *sizes, rows=len(table))
    kind = np.select(
        [
            (q < LEVEL) & (column["conservative"] > 0),
            (q < LEVEL) & (column["conservative"] < 0),
            (q >= LEVEL)
            & (np.stack([-column["low"], column["high"], np.abs(column["conservative"])]).max(axis=0) < LOCKED),
        ],
        ["positive", "negative", "lockword"],
        "",
    )
    return {"p": pa.array(p), "q": pa.array(q), "clr": pa.array(clr), "kind": pa.array(kind.tolist(), pa.string())}


def _warn(message: str) -> None:
    warnings.warn(message, RaregramWarning, stacklevel=5)

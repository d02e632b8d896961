"""Two corpora side by side: every N-gram with its frequencies, its ratio, and the measures of keyness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raregram.corpus.formats import path_names
from raregram.counts.count import NUMERATOR
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, check_count, must_be, name_some
from raregram.measure import keyness
from raregram.measure.keyness import Floats
from raregram.measure.kwic import Texts, find_lines, line_table
from raregram.measure.listing import as_html, top_rows
from raregram.measure.phrases import Estimates, Rows, estimate, find_parts, find_repeats
from raregram.measure.results import Results
from raregram.measure.sides import (
    Limits,
    Pair,
    check_counting,
    checked_list,
    count_both,
    count_file,
    count_samples,
    countable,
    frequency_list,
    rows_of_pair,
    rows_with_list,
    warn,
)
from raregram.options import COMPARED, COMPARED_COUNT, COMPARED_DOCUMENTS, LINE_ORDER, LINES, WIDTH, LineOrder
from raregram.text.tokenize import Tokenizer

if TYPE_CHECKING:
    from raregram.show.comparison.plot import Plot

__all__ = ["COLUMNS", "Comparison", "compare", "compare_each", "count_file", "countable", "frequency_list"]

LEVEL = 0.05  # false discovery rate of key words
LOCKED = 0.5  # log2: the interval of a lockword's ratio is within this of 0
FEW = 10  # documents of a corpus: fewer say little about how words are spread

COLUMNS = [
    "ngram", "length", "f_a", "f_b", "per_million_a", "per_million_b", "documents_a", "documents_b", "share_a",
    "share_b", "log2_ratio", "low", "high", "conservative", "g2", "g2_design", "p", "q", "beyond", "clr", "log_ratio",
    "simple_maths", "odds_ratio", "zeta", "fightin_words", "kind", "repeats",
]  # fmt: skip
FIRST_COLUMNS = [COLUMNS[0], *COLUMNS[4:8], *COLUMNS[10:14], "kind"]


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
    texts: Texts = field(default_factory=Texts)  # the documents, which are read again to show lines of them
    pair: Pair = (NUMERATOR, None)  # the samples, where one corpus is cut into some

    @property
    def tokenizer(self) -> Tokenizer:
        """How texts became items."""
        return self.texts.tokenizer

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

    def positive(self, k: int = 20, sort: str = "conservative") -> Results:
        """Return key words of the first corpus."""
        return self.top(k, sort, kind="positive")

    def negative(self, k: int = 20, sort: str = "conservative") -> Results:
        """Return key words of the second corpus."""
        return self.top(k, sort, kind="negative")

    def lockwords(self, k: int = 20, sort: str = "f_a") -> Results:
        """Return the N-grams that both corpora use alike, the most frequent first."""
        return self.top(k, sort, kind="lockword", repeats=True)

    def lines(
        self,
        ngram: str,
        top: int = LINES.default,
        *,
        width: int = WIDTH.default,
        sort: LineOrder = LINE_ORDER.default,
    ) -> Results:
        """Return where words occur in both corpora, with the text around them, as `raregram.kwic` does.

        The documents are read again for that, so count tables, lists of frequencies and generators have no lines.

        Args:
            ngram: the words, in the table or not.
            top: how many lines of each corpus.
            width: characters of text on each side.
            sort: the order: of documents, or by the words to the "left" or "right" of the match.

        Returns:
            A table: corpus, document, position, left, match, right.
        """
        LINE_ORDER.check(sort, "lines")
        (found,) = find_lines(self.texts, [self.pair], [[ngram]], lines=top, width=width)
        if not found:
            raise InputError("no lines: this comparison was made of count tables, or of documents that are read once")
        return Results(line_table(found[ngram], sort, self.names))

    def plot(self) -> Plot:
        """Draw both frequencies of every N-gram, coloured by ratio; a notebook shows it, `svg` and `png` hold it."""
        from raregram.show.comparison.plot import plot_comparison

        return plot_comparison(self)

    def to_html(self, path: str | Path, progress: Callable[[int], None] = lambda documents: None) -> None:
        """Write one page to explore the table, the plot and lines; it needs nothing from outside."""
        from raregram.show.comparison import page_lines, write_page

        (lines,) = page_lines([self], progress)
        write_page(self, lines, path)

    def write(self, folder: str | Path, progress: Callable[[int], None] = lambda documents: None) -> Path:
        """Write the page (index.html), table.csv, table.parquet, plot.svg and plot.png; return the page's path."""
        from raregram.show.comparison import write_comparisons

        (path,) = write_comparisons([self], folder, progress)
        return path

    def __repr__(self) -> str:
        return repr(Results(self.table.select(FIRST_COLUMNS)))

    def _repr_html_(self) -> str:
        return as_html(self.names, self.table)


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
        names: what the corpora are called, a list. Of one corpus that is cut into samples, which two are compared;
            or one name, for one against all others. None: the two that there are.
        by: what cuts one corpus into samples: a field of its documents, "folder" or "file:REGEX".
        min_count: leave out N-grams that were seen less often, in both corpora together,
        min_documents: or in fewer documents.
        counting: further options of `raregram.count`, e.g. `lower`, `memory_limit` and `engine`. Words are split by
            Unicode's word boundaries unless `tokenize="whitespace"`. Where one corpus is a count table, all is split
            as it was counted. Folds of a count table say nothing about a comparison: it is of all of them.

    >>> tea = [{"text": text} for text in ["hot tea please", "some hot tea"] * 5]
    >>> ale = [{"text": text} for text in ["cold ale please", "some cold ale"] * 5]
    >>> compare(tea, ale, n=2, names=("tea", "ale"), min_count=6)["ngram"].to_pylist()
    ['hot tea', 'cold ale']
    """
    lengths, limits = _lengths(n), (min_count, min_documents)
    _check_call(limits, names, counting)
    if b is None:
        counts = count_samples(a, lengths[1], by, min_count, counting, names)
        return _compare_samples(counts, _pair_of(counts, names), lengths, limits, Texts.of([a], counts, by, counting))
    if by is not None:
        raise ParameterError("by cuts one corpus into samples: name one corpus, or leave by out")
    if isinstance(b, Mapping):
        named, words = _two_names(("A", "the list") if names is None else names), checked_list(b)
        if lengths not in ((1, 1), COMPARED.default):
            raise ParameterError(
                f"a list of frequencies has words alone, so it cannot be compared with n={n!r}: take 1"
            )
        counts = count_samples(a, 1, None, 1, counting)
        items, rows = rows_with_list(counts, words, limits)
        return _comparison([rows], items, 1, named, Texts.of([a, b], counts, None, counting))
    named = _two_names(default_names(a, b) if names is None else names)
    counts = count_both(a, b, lengths[1], min_count, counting)
    return _compare_samples(
        counts, (NUMERATOR, None), lengths, limits, Texts.of([a, b], counts, None, counting), named
    )


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
    lengths, limits = _lengths(n), (min_count, min_documents)
    _check_call(limits, None, counting)
    counts = count_samples(a, lengths[1], by, min_count, counting)
    _check_several(counts)
    texts = Texts.of([a], counts, by, counting)
    for name in counts.targets:
        yield _compare_samples(counts, (name, None), lengths, limits, texts)


def _lengths(n: int | tuple[int, int]) -> tuple[int, int]:
    shortest, longest = (n, n) if isinstance(n, int) else n
    check_count("n", "compare", shortest)
    check_count("n", "compare", longest, at_least=shortest, at_most=int(COMPARED.at_most))
    return shortest, longest


def _check_call(limits: Limits, names: Sequence[str] | None, counting: Mapping[str, Any]) -> None:
    """Raise for arguments that no comparison can have."""
    check_counting(counting)
    check_count("min_count", "compare", limits[0])
    check_count("min_documents", "compare", limits[1])
    if isinstance(names, str):
        raise must_be("names", "compare", f"a list of names, such as [{names!r}]", names)


def _two_names(names: Sequence[str]) -> tuple[str, str]:
    """Return the names of both corpora; raise unless they are two different ones."""
    if len(names) != 2 or names[0] == names[1]:
        raise must_be("names", "compare", "two different names", names)
    return names[0], names[1]


def default_names(a: Any, b: Any) -> tuple[str, str]:
    """Return the names of files or folders, if there are two different ones."""
    first, second = (Path(names[0]).stem if len(names := path_names(source)) == 1 else "" for source in (a, b))
    return (first, second) if first and second and first != second else ("A", "B")


def _pair_of(counts: Counts, names: Sequence[str] | None) -> tuple[str, str | None]:
    """Return which samples of a table are compared: two, or one and None for the rest."""
    if names is None and counts.samples == "two":
        return counts.targets[0], None
    if names is None:
        _check_several(counts)
    chosen = tuple(counts.targets if names is None else names)
    if len(set(chosen)) != len(chosen) or len(chosen) not in (1, 2):
        raise must_be("names", "compare", "one or two different names of samples", names)
    for name in chosen:
        if name not in counts.targets or not counts.totals[counts.column(name)]:
            known = name_some(repr(other) for other in counts.targets if counts.totals[counts.column(other)])
            commas = "On the command line a backslash stands before a comma within a name: --names 'Doe\\, Jane,Roe'"
            raise must_be("names", "compare", f"names of samples ({known or 'none of these'}). {commas}", name)
    return chosen[0], chosen[1] if len(chosen) == 2 else None


def _check_several(counts: Counts) -> None:
    if len(counts.targets) < 2:
        raise InputError(
            "there is only one sample, so nothing to compare it with: name a second corpus, or cut by a field"
        )


def _compare_samples(
    counts: Counts,
    pair: tuple[str, str | None],
    lengths: tuple[int, int],
    limits: Limits,
    texts: Texts,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two samples of a count table, or one with all others."""
    rows = [rows_of_pair(counts, pair, length, limits) for length in range(1, lengths[1] + 1)]
    named = names or (pair[0], f"all but {pair[0]}" if pair[1] is None else pair[1])
    return _comparison(rows, counts.items, lengths[0], named, texts, pair)


def _comparison(
    every: Sequence[Rows],
    items: pa.Array,
    shortest: int,
    names: tuple[str, str],
    texts: Texts,
    pair: Pair = (None, None),
) -> Comparison:
    """Return the comparison of the N-grams of all lengths from the shortest on; those below are parts of these."""
    from scipy.stats import false_discovery_control

    lengths = _with_both(every, shortest, names)
    parts = find_parts(lengths)
    estimates = estimate(lengths, parts)
    repeats = find_repeats(lengths, parts, estimates, shortest)
    shown = list(zip(lengths, estimates, strict=True))[shortest - 1 :]
    table = pa.concat_tables(_measures(items, rows, found, len(repeats)) for rows, found in shown)
    q = false_discovery_control(table["p"]) if len(table) else np.empty(0)
    repeated = table["ngram"].take(pa.array(repeats, mask=repeats < 0))
    for name, column in {"q": pa.array(q), "kind": _kinds(table, q), "repeats": repeated}.items():
        table = table.append_column(name, column)
    order = [("conservative", "descending"), ("log2_ratio", "descending"), ("ngram", "ascending")]
    table = table.take(pc.sort_indices(table, sort_keys=order)).select(COLUMNS).combine_chunks()
    tokens, documents = ((int(a), int(b)) for a, b in (lengths[0].sizes, lengths[0].all_documents))
    comparison = Comparison(table, names, tokens, documents, texts, pair)
    if comparison.caution:
        warn(comparison.caution)
    return comparison


def _with_both(every: Sequence[Rows], shortest: int, names: tuple[str, str]) -> list[Rows]:
    """Return the rows of the lengths that both corpora have; raise where there is nothing to compare."""
    for name, size in zip(names, every[0].sizes, strict=True):
        if not size:
            raise InputError(f"{name} is empty: there is nothing to compare")
    lengths = [rows for rows in every if rows.sizes.min() > 0]
    if len(lengths) < len(every):
        short = names[int(np.argmin(every[len(lengths)].sizes))]
        missing = f"no document of {short} has {len(lengths) + 1} items"
        if len(lengths) < shortest:
            raise InputError(f"{missing}, so there is nothing to compare: take N-grams of up to {len(lengths)}")
        warn(f"{missing}, so N-grams have up to {len(lengths)}")
    if all(len(rows) and (rows.f[:, 0] * rows.sizes[1] == rows.f[:, 1] * rows.sizes[0]).all() for rows in lengths):
        raise InputError(f"{names[0]} and {names[1]} are the same: every N-gram is as frequent in both")
    return lengths


def _measures(items: pa.Array, rows: Rows, found: Estimates, number: int) -> pa.Table:
    """Return the columns of the N-grams of one length; the table has a number of rows in all."""
    f, (n_a, n_b) = np.ascontiguousarray(rows.f.T), map(float, rows.sizes)
    sides = (f[0], f[1], n_a, n_b)
    g2, log2 = keyness.g2(*sides), math.log(2)
    g2_design = keyness.g2_design(*sides, found.design)
    zeta = keyness.zeta(*rows.documents.T, *np.maximum(rows.all_documents, 1))
    words = [items.take(pa.array(column)) for column in rows.keys.T]
    columns: dict[str, Any] = {
        "ngram": pc.binary_join_element_wise(*words, " ") if len(words) > 1 else words[0],
        "length": np.full(len(rows), rows.length, dtype=np.int8),
    }
    for side, name in enumerate("ab"):
        documents, size = np.ascontiguousarray(rows.documents[:, side]), int(rows.all_documents[side])
        unknown = np.full(len(rows), not size)
        columns |= {
            f"f_{name}": f[side],
            f"per_million_{name}": keyness.per_million(f[side], rows.sizes[side]),
            f"documents_{name}": pa.array(documents, mask=unknown),
            f"share_{name}": pa.array(documents / max(size, 1), mask=unknown),
        }
    columns |= {
        "log2_ratio": found.shown / log2,
        "low": found.interval[0] / log2,
        "high": found.interval[1] / log2,
        "conservative": found.conservative / log2,
        "g2": g2,
        "g2_design": g2_design,
        "p": keyness.t_tail(g2_design, found.freedom),
        "beyond": found.beyond / log2,
        "clr": keyness.conservative_ratio(*sides, rows=number),
        "log_ratio": keyness.log_ratio(*sides),
        "simple_maths": keyness.simple_maths(*sides),
        "odds_ratio": keyness.odds_ratio(*sides),
        "zeta": pa.array(zeta, mask=np.full(len(rows), not rows.all_documents.all())),
        "fightin_words": keyness.fightin_words(*sides),
    }
    return pa.table(columns)


def _kinds(table: pa.Table, q: Floats) -> pa.Array:
    """Return the kind of each row: a key word of a corpus, if the difference is significant, or a lockword."""
    low, high, conservative = (table[name].to_numpy() for name in ("low", "high", "conservative"))
    key, most = q < LEVEL, np.max([-low, high, np.abs(conservative)], axis=0)
    kinds = np.select(
        [key & (conservative > 0), key & (conservative < 0), ~key & (most < LOCKED)],
        ["positive", "negative", "lockword"],
        "",
    )
    return pa.array(kinds.tolist(), pa.string())

"""The count table: how often every span of items was seen, in all and at each target.

It is all that any estimator needs. Two tables merge by adding and subtract exactly, without the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.corpus.labels import target_names
from raregram.counts import storage
from raregram.counts.rows import CountRows, RowsInMemory, SpanRows, row_bytes, stored_spans, with_fold
from raregram.counts.sorting import group_rows
from raregram.counts.spans import Span, span_names, span_order, tuple_of, unit_spans
from raregram.counts.storage import SpanTable, fold_names
from raregram.errors import InputError, ParameterError, check_choice, check_count, must_be, name_some
from raregram.options import DENOMINATOR, FOLDS, KIND, LOWER, MIN_COUNT, SIDE, SPANS, TOKENIZE
from raregram.remote import PathLike
from raregram.text.ngrams import NGrams, NGramsLike, Where, as_sequence, nth_ngram, parse_ngrams
from raregram.text.tokenize import Tokenizer
from raregram.text.vocabulary import Codes, encode_items

if TYPE_CHECKING:
    from raregram.counts.encode import Encoded
    from raregram.counts.kernel import CountSettings

LARGEST_TOTAL = 2**53  # up to here doubles hold whole numbers exactly
DROP_FOLDS = "drop the folds, by which `fit` calibrates (`counts.of_folds()`, or `raregram merge --drop-folds`)"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """Frequencies of spans of items over contexts of `n` items, in all and for any number of targets.

    Make one with `from_contexts`, `from_ngrams` or `load`. Arithmetic: ``a + b`` merges, ``a - b`` takes back.
    """

    n: int
    side: str
    kind: str
    targets: tuple[str, ...]  # sorted
    totals: Ints  # (columns,) number of contexts: all, then each target's; and then their document frequencies
    items: pa.Array  # string, distinct, in byte order; a code is an index into it
    rows: CountRows  # values: (rows, columns), in the order of `totals`
    pad: bool = False  # whether contexts reach beyond the ends of a document
    min_count: int = MIN_COUNT.default  # longer spans that were seen less often were dropped
    shape: str | None = None  # the name of the shape function, where shapes are counted
    tokenize: str = "whitespace"
    lower: bool = False
    folds: tuple[tuple[int, ...], ...] = ()  # the totals of each fold, if the table was counted in folds
    documents: bool = False  # whether there are document frequencies: see `raregram.counts.rows`
    samples: str | None = None  # see `CountSettings`
    known_digest: str | None = field(default=None, repr=False)  # of a table that was read from a file

    @classmethod
    def from_contexts(
        cls,
        contexts: NGramsLike,
        labels: Sequence[Any] | npt.NDArray[Any],
        *,
        targets: Sequence[str] | None = None,
        spans: Sequence[str] = SPANS.default,
        n: int | None = None,
        side: str = SIDE.default,
        kind: str = KIND.default,
        tokenize: str = TOKENIZE.default,
        lower: bool = LOWER.default,
        shape: str | None = None,
        folds: int = FOLDS.default,
        where: Where = nth_ngram,
    ) -> Counts:
        """Count labelled contexts.

        Args:
            contexts: N-grams as strings or lists of items.
            labels: one a context: a target's name, a collection of names, or None, "" or "O" for no target; or True
                and False, 1 and 0, for the one target "target".
            targets: as in `raregram.count`, like all that follow.
            spans: what to count.
            n: the number of items of each context; None for as many as the first one has.
            side: "left" if the boundary follows the context's last item, "right" if it precedes the first.
            kind: "words" or "letters".
            tokenize: "whitespace" or "words".
            lower: whether items are in small letters.
            shape: the name of a shape function.
            folds: as in `raregram.count`; contexts are dealt out to the folds in turn, also equal ones.
            where: names a row in an error message.

        >>> counts = Counts.from_contexts(["lives in", "said that", "was in"], ["LOC", None, "LOC"])
        >>> counts.totals
        array([3, 2])
        """
        from raregram.counts.encode import encode_labelled
        from raregram.counts.kernel import CountSettings

        contexts, labels = as_sequence(contexts), as_sequence(labels)
        n = _length_of_first(contexts, n, Tokenizer(kind, tokenize, lower), where)
        wanted = None if targets is None else target_names(targets)
        settings = CountSettings(
            n, side, kind, wanted, tuple_of(spans), shape=shape, tokenize=tokenize, lower=lower, folds=folds
        )
        return cls._count(settings, encode_labelled(contexts, labels, settings, where))

    @classmethod
    def from_ngrams(
        cls,
        ngrams: NGramsLike,
        f_nu: npt.ArrayLike,
        f_de: npt.ArrayLike,
        *,
        n_nu: int | None = None,
        n_de: int | None = None,
        target: str = "target",
        denominator: str = DENOMINATOR.default,
        spans: Sequence[str] = (*SPANS.default, "whole"),
        n: int | None = None,
        side: str = SIDE.default,
        kind: str = KIND.default,
        tokenize: str = TOKENIZE.default,
        lower: bool = LOWER.default,
        shape: str | None = None,
        where: Where = nth_ngram,
    ) -> Counts:
        """Make a count table from N-grams with two frequencies.

        Args:
            ngrams: N-grams as strings or lists of items; one that stands twice is added up.
            f_nu: how often each was seen in the numerator.
            f_de: how often each was seen in the denominator.
            n_nu: number of contexts of the numerator if the table does not list them all; None: sum of f_nu.
            n_de: the same for the denominator.
            target: the name of the numerator.
            denominator: "complement" if `f_de` counts the other contexts, "all" if it counts all of them.
            spans: as in `from_contexts`, like all that follow.
            n: the number of items of each N-gram.
            side: "left" or "right".
            kind: "words" or "letters".
            tokenize: "whitespace" or "words".
            lower: whether items are in small letters.
            shape: the name of a shape function.
            where: names a row in an error message.

        >>> Counts.from_ngrams(["lives in", "said that"], [5, 0], [1, 7]).totals
        array([13,  5])
        """
        from raregram.counts.encode import encode_weighted
        from raregram.counts.kernel import CountSettings

        DENOMINATOR.check(denominator, "from_ngrams")
        ngrams = as_sequence(ngrams)
        n = _length_of_first(ngrams, n, Tokenizer(kind, tokenize, lower), where)
        every, nu = two_frequencies(len(ngrams), f_nu, f_de, denominator, where)
        de = every if denominator == "all" else every - nu
        totals = [_total(given, column, name) for given, column, name in ((n_nu, nu, "n_nu"), (n_de, de, "n_de"))]
        if denominator == "all" and totals[0] > totals[1]:
            raise InputError(f"n_nu is {totals[0]} but n_de, which counts all contexts, is only {totals[1]}")
        settings = CountSettings(
            n, side, kind, target_names([target]), tuple_of(spans), shape=shape, tokenize=tokenize, lower=lower
        )
        counts = cls._count(settings, encode_weighted(ngrams, every, nu, target, settings, where))
        everything = sum(totals) if denominator == "complement" else totals[1]
        check_total(everything)
        return replace(counts, totals=np.array([everything, totals[0]], dtype=np.int64))

    @classmethod
    def load(cls, path: PathLike) -> Counts:
        """Read a count file; raise `FileError` if it is not a whole one."""
        table = storage.read(path, "counts")
        with storage.damage_named(path):
            return replace(cls.from_table(table), known_digest=table.file_digest)

    @classmethod
    def from_table(cls, table: SpanTable) -> Counts:
        """Gather the rows of a table, which may come as a stream."""
        head = table.header
        columns = len(head["totals"])
        stored = table.stored or RowsInMemory(table.parts, table.stored_spans, columns)
        spans = [Span.from_columns(start, end, head["n"]) for start, end in head["spans"]]
        return cls(
            n=int(head["n"]),
            side=str(head["side"]),
            kind=str(head["items"]),
            targets=tuple(head["targets"]),
            totals=np.array(head["totals"], dtype=np.int64),
            items=table.items,
            rows=CountRows(stored, spans, int(head["n"]), str(head["side"]), columns, "folds" in head),
            pad=bool(head["pad"]),
            min_count=int(head["min_count"]),
            shape=head["shape"],
            tokenize=head.get("tokenize", "whitespace"),
            lower=head.get("lower", False),
            folds=tuple(tuple(int(total) for total in totals) for totals in head.get("folds", ())),
            documents="documents" in head,
            samples=head.get("samples"),
        )

    def save(self, path: PathLike) -> None:
        """Write a count file, under its final name only when it is whole."""
        storage.write(path, self.as_table())

    def digest(self) -> str:
        """Return a digest of the content: equal tables have equal digests, however they were made."""
        return self.known_digest or self.as_table().digest()

    def frequencies(
        self, rows: Span | SpanRows, target: str, denominator: str = DENOMINATOR.default
    ) -> tuple[Ints, Ints]:
        """Return f_nu and f_de of every row of a span, or of some of its rows."""
        values = (self.rows[rows] if isinstance(rows, Span) else rows).values
        return _against(values[:, self.column(target)], values[:, 0], denominator)

    def sizes(self, target: str, denominator: str = DENOMINATOR.default) -> tuple[int, int]:
        """Return n_nu and n_de."""
        n_nu, n_de = _against(self.totals[self.column(target)], self.totals[0], denominator)
        return int(n_nu), int(n_de)

    def column(self, target: str) -> int:
        """Return the column of a target in `totals` and in every span's values."""
        check_choice("target", "this count table", target, self.targets)
        return 1 + self.targets.index(target)

    @property
    def tokenizer(self) -> Tokenizer:
        """How texts were split into items."""
        return Tokenizer(self.kind, self.tokenize, self.lower)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans that the table holds, shorter ones first."""
        return tuple(self.rows)

    @property
    def units(self) -> tuple[Span, ...]:
        """The spans of one item, in the order of their positions."""
        return tuple(unit_spans(self.n))

    @property
    def whole(self) -> Span:
        """The span of the whole N-gram."""
        return Span("item", 0, self.n)

    @cached_property
    def whole_rows(self) -> SpanRows:
        """The rows of the whole N-grams, in byte order of their items."""
        rows = self.rows[self.whole]
        return rows if self.side == "right" else rows[np.argsort(row_bytes(rows.keys), kind="stable")]

    def whole_ngrams(self) -> NGrams:
        """Return the whole N-grams that the table holds, in byte order of their items."""
        return NGrams.of_length(self.items.take(pa.array(self.whole_rows.keys.ravel())), self.n)

    @property
    def num_rows(self) -> int:
        """Number of rows that are stored."""
        return sum(map(len, self._stored_parts())) if self.rows.chosen else self.rows.stored.num_rows()

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = sum(part.keys.nbytes + part.values.nbytes for part in self._stored_parts())
        return int(self.items.nbytes) + int(self.totals.nbytes) + arrays

    def __add__(self, other: Counts) -> Counts:
        """Merge: the table that counting both inputs together would have given."""
        if not isinstance(other, Counts):
            return NotImplemented
        from raregram.counts.merging import Combined

        return Combined([self, other], [1, 1]).counts()

    def __radd__(self, other: object) -> Counts:
        """Let `sum` add up tables: it starts from 0."""
        return self if other == 0 and isinstance(other, int) else NotImplemented

    def __sub__(self, other: Counts) -> Counts:
        """Take back what was merged: exact, and an error if `other` was never in this table."""
        if not isinstance(other, Counts):
            return NotImplemented
        from raregram.counts.merging import Combined

        return Combined([self, other], [1, -1]).counts()

    def __eq__(self, other: object) -> bool:
        """Whether two tables hold the same frequencies of the same spans."""
        if not isinstance(other, Counts):
            return NotImplemented
        if self._header() != other._header():
            return False
        # Those of some folds may have items of others.
        (items, rows), (items_of_other, others) = (
            compact(each.items, sorted(each._stored_parts(), key=lambda part: part.span)) for each in (self, other)
        )
        return items.equals(items_of_other) and all(
            np.array_equal(one.keys, two.keys) and np.array_equal(one.values, two.values)
            for one, two in zip(rows, others, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content, so not a key

    def __repr__(self) -> str:
        """Say what the table holds in a line or two."""
        per_target = name_some(f"{name} {self.totals[self.column(name)]:,}" for name in self.targets)
        return (
            f"Counts(n={self.n}, side={self.side!r}, kind={self.kind!r}: {self.totals[0]:,} contexts "
            f"({per_target}), {self.num_items:,} items, {self.num_rows:,} rows of {span_names(self.spans, self.n)})"
        )

    @property
    def num_items(self) -> int:
        """Number of distinct items; neither shapes nor the names of folds are among them."""
        return self.num_distinct(self.units)

    def num_distinct(self, spans: Iterable[Span]) -> int:
        """Return the number of distinct items, or shapes, in some spans."""
        seen = np.zeros(len(self.items), dtype=bool)
        for part in self.rows.stream(spans):
            seen[part.keys] = True
        return int(seen.sum())

    @classmethod
    def _count(cls, settings: CountSettings, encoded: Encoded) -> Counts:
        """Count what is encoded, in memory."""
        from raregram.counts.engine import Corpus

        corpus = Corpus(settings)
        corpus.add(encoded)
        return cls.from_table(corpus.table())

    def drop_rare(self, min_count: int) -> Counts:
        """Return the table without spans of two and more items that were seen less often than `min_count`."""
        check_count("min_count", "drop_rare", min_count)
        if min_count <= self.min_count:
            return self
        check_without_folds(self)
        rows = [part if part.span.width == 1 else part.at_least(min_count) for part in self.rows.values()]
        return replace(self.with_rows(rows), min_count=int(min_count))

    def of_folds(self, folds: Collection[int] | None = None) -> Counts:
        """Return the table of the documents of some folds, of all if there is no choice; it has no folds any more."""
        if not self.folds and folds is None:
            return self
        chosen = range(len(self.folds)) if folds is None else sorted(set(folds))
        if not chosen or not set(chosen) <= set(range(len(self.folds))):
            raise must_be("folds", "this count table", f"some of {list(range(len(self.folds)))}", folds)
        totals = np.array([self.folds[fold] for fold in chosen], dtype=np.int64).sum(axis=0)
        codes = encode_items(fold_names(len(self.folds)), self.items)[list(chosen)].tolist()
        rows = CountRows(self.rows.stored, self.spans, self.n, self.side, len(totals), folded=True, chosen=codes)
        return replace(self, rows=rows, totals=totals, folds=(), known_digest=None)

    def with_targets(self, targets: Sequence[str]) -> Counts:
        """Return this table with columns for exactly these targets, zeros for those that it does not have.

        That is right for a table that counted every label it met: a target it lacks was not there.
        """
        names, width = target_names(targets), 1 + len(self.targets)
        chosen = [0, *(1 + self.targets.index(name) if name in self.targets else -1 for name in names)]
        firsts = range(0, len(self.totals), width)  # of frequencies, documents, squares and products
        columns = [first + column if column >= 0 else -1 for first in firsts for column in chosen]
        rows = [SpanRows(part.span, part.keys, _pick(part.values, columns)) for part in self._stored_parts()]
        folds = tuple(tuple(_pick(np.array(totals), columns).tolist()) for totals in self.folds)
        return replace(self, targets=names, totals=_pick(self.totals, columns), folds=folds).with_rows(rows)

    def with_rows(self, rows: Iterable[SpanRows], items: pa.Array | None = None) -> Counts:
        """Return a table with other rows, and maybe other items."""
        stored = RowsInMemory(rows)
        every = CountRows(stored, self.spans, self.n, self.side, len(self.totals), bool(self.folds))
        return replace(self, rows=every, items=self.items if items is None else items, known_digest=None)

    def _stored_parts(self) -> Iterator[SpanRows]:
        """Yield the rows that are stored."""
        return (self.rows[span] if self.rows.chosen else self.rows.stored[span] for span in self.rows.stored)

    def to_arrow(self) -> pa.Table:
        """Return all rows: start and end of the span, items, and the frequencies, in all and at each target.

        A table in folds has a row for each fold, which the column `fold` names; `of_folds` adds them up.
        """
        table = self.as_table(every=True)
        return storage.to_arrow(table, sorted(table.parts, key=lambda part: span_order(part.span)))

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand all rows on to any library with Arrow's C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _header(self) -> dict[str, Any]:
        """What a count file says about itself, beside its rows."""
        return counts_header(self, self.spans, self.targets, self.totals.tolist(), self.folds)

    def as_table(self, every: bool = False) -> SpanTable:
        """Return the table as files store it; or with the rows of every span."""
        spans = stored_spans(self.spans, self.min_count, self.documents)
        rows = self._every_row() if every else chain.from_iterable(map(self.rows.stream_stored, spans))
        columns = counts_columns(self.targets, self.documents)
        return SpanTable("counts", self._header(), columns, self.items, rows)

    def _every_row(self) -> Iterator[SpanRows]:
        """Yield the rows of every span; those of a table in folds, fold by fold."""
        if not self.folds:
            yield from self.rows.stream(self.spans)
        for fold, code in enumerate(encode_items(fold_names(len(self.folds)), self.items)):
            for part in self.of_folds([fold]).rows.stream(self.spans):
                yield SpanRows(part.span, with_fold(part.keys, code, self.side), part.values)


def counts_header(
    layout: Any,
    spans: Sequence[Span],
    targets: Sequence[str],
    totals: Sequence[int],
    folds: Sequence[Sequence[int]] = (),
) -> dict[str, Any]:
    """Return the header of a count file; `layout` is a table or the settings of one, and `folds` their totals."""
    named = {name: getattr(layout, name) for name in ("n", "side", "pad", "min_count", "shape")}
    counted: dict[str, Any] = {
        "spans": [list(span.columns(layout.n)) for span in spans],
        "targets": list(targets),
        "totals": list(totals),
    }
    if folds:
        counted["folds"] = [list(totals) for totals in folds]
    if layout.documents:
        counted["documents"] = True
    if layout.samples:
        counted["samples"] = layout.samples
    return {**named, "items": layout.kind, **layout.tokenizer.header(), **counted}


def _length_of_first(ngrams: NGramsLike, n: int | None, tokenizer: Tokenizer, where: Where) -> int:
    """Return how many items the first N-gram has, after a check that it has `n` where that is given."""
    tokenizer.check("a count")
    return int(parse_ngrams(ngrams[:1], n, tokenizer, where).lengths[0])


def counts_columns(targets: Sequence[str], documents: bool = False) -> tuple[str, ...]:
    """Return the names of the value columns of a count file.

    >>> counts_columns(["LOC"], documents=True)
    ('total', 'f_LOC', 'documents', 'documents_LOC', 'squares', 'squares_LOC', 'products', 'products_LOC')
    """
    columns = ["total", *(f"f_{target}" for target in targets)]
    for group in ("documents", "squares", "products") if documents else ():
        columns += [group, *(f"{group}_{target}" for target in targets)]
    return tuple(columns)


def add_up(span: Span, keys: Codes, values: Ints) -> SpanRows:
    """Add up the values of equal keys; the result is sorted by key.

    >>> rows = add_up(Span("item", 0, 1), np.array([[2], [0], [2]], np.int32), np.array([[1, 0], [5, 5], [2, 1]]))
    >>> rows.keys.ravel(), rows.values.tolist()
    (array([0, 2], dtype=int32), [[5, 5], [3, 1]])
    """
    order, heads, distinct = group_rows(keys.T)
    sums = np.add.reduceat(values[order], heads, axis=0) if len(order) else values
    return SpanRows(span, distinct, sums)


def compact(items: pa.Array, parts: Sequence[SpanRows]) -> tuple[pa.Array, list[SpanRows]]:
    """Keep only the items that some row names, and number them anew in the same order."""
    used = np.zeros(len(items), dtype=bool)
    for part in parts:
        used[part.keys] = True
    number = (np.cumsum(used) - 1).astype(np.int32)
    kept = [SpanRows(part.span, number[part.keys], part.values) for part in parts]
    return items.filter(pa.array(used)), kept


def _against(of_target: Any, of_all: Any, denominator: str) -> tuple[Any, Any]:
    """Return numerator and denominator from a target's number and the number in all."""
    DENOMINATOR.check(denominator, "this count table")
    return of_target, of_all - of_target if denominator == "complement" else of_all


def _pick(values: Ints, columns: list[int]) -> Ints:
    """Take columns of the last axis, zeros for column -1."""
    padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1), np.int64)], axis=-1)
    return padded[..., columns]


def check_without_folds(counts: Counts) -> None:
    """Raise where rare spans are to be dropped from a table in folds."""
    if counts.folds:
        raise ParameterError(
            "a model is calibrated by all spans of a table in folds, so rare ones (min_count) cannot be dropped from "
            f"it: keep them, or {DROP_FOLDS}"
        )


def check_total(total: int) -> None:
    """Raise where frequencies are too large to be exact in double precision."""
    if total > LARGEST_TOTAL:
        raise InputError(f"the frequencies add up to {total}, more than 2**53: they would not be exact any more")


def _frequency_column(values: npt.ArrayLike, name: str, rows: int, where: Where) -> Ints:
    """Return frequencies as int64, or say which row is not a whole number >= 0."""
    try:
        numbers = np.asarray(values)
        numbers = numbers if np.issubdtype(numbers.dtype, np.integer) else numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be whole numbers") from None
    if numbers.shape != (rows,):
        raise InputError(f"there are {rows} N-grams but {name} has the shape {numbers.shape}")
    bad = np.flatnonzero(~((numbers >= 0) & (numbers <= LARGEST_TOTAL) & (numbers == np.floor(numbers))))
    if len(bad):
        raise InputError(
            f"{where(int(bad[0]))}: {name} must be a whole number from 0 to 2**53, got {numbers[bad[0]]:g}"
        )
    return numbers.astype(np.int64)


def two_frequencies(
    rows: int, f_nu: npt.ArrayLike, f_de: npt.ArrayLike, denominator: str, where: Where
) -> tuple[Ints, Ints]:
    """Return how often each N-gram was seen in all and in the numerator; see `Counts.from_ngrams`."""
    nu, de = (_frequency_column(f, name, rows, where) for f, name in ((f_nu, "f_nu"), (f_de, "f_de")))
    if denominator == "complement":
        return nu + de, nu
    for row in np.flatnonzero(nu > de)[:1].tolist():
        raise InputError(f"{where(row)}: f_nu is {nu[row]} but f_de, which counts all contexts, is only {de[row]}")
    return de, nu


def _total(given: int | None, column: Ints, name: str) -> int:
    """Return the number of contexts of one sample."""
    least = int(column.sum(dtype=object))
    if given is None:
        return least
    check_count(name, "from_ngrams", given, at_least=0)
    if given < least:
        raise InputError(f"{name} is {given}, but the frequencies add up to {least}")
    return int(given)

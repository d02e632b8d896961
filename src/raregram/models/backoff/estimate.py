"""The back-off estimator: from single items to ever longer suffixes, each shrunk towards a simpler estimate.

The estimate of a context is a sum of logarithms:

    log r(x) = tempered units + corrections by suffixes of shapes + corrections by suffixes of items

A unit is the ratio of one item at its position, shrunk towards that of the item anywhere and that of its shape, to
the power tau**sqrt(d), where d is the distance from the boundary. The correction by a suffix is log(r / r0): r is its
ridge estimate (E5) and r0 everything simpler: the estimate of the suffix that is one item shorter, the unit of the
first item and, for items, the correction by the shapes of the same suffix. A suffix that was never seen corrects
nothing.

Frequencies are all that a model stores, and what it does not store counts as frequency 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.storage import Span, SpanRows, row_bytes, span_order
from raregram.counts.table import Counts, compact, suffix_lengths
from raregram.errors import ParameterError, check_count, must_be
from raregram.models import ratios
from raregram.models.backoff import prune, variance
from raregram.models.backoff.pairs import PairTable
from raregram.models.backoff.parameters import BackoffParameters, Spans, temper
from raregram.models.backoff.prune import Step
from raregram.models.backoff.trie import Columns, Suffixes, Trie, Units
from raregram.models.backoff.variance import SuffixTrace, Trace
from raregram.models.base import BLOCK, Estimator, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LONGEST, LONGEST_SHAPES, UNIT_RIDGE
from raregram.text.shapes import LONGEST_REMEMBERED, Shape, shape_function, shapes_of
from raregram.text.vocabulary import Codes, build_vocabulary, encode_items

REMEMBERED = 1 << 20  # items outside of the vocabulary whose codes are cached


@dataclass(frozen=True, eq=False)
class Backoff(Estimator):
    """The back-off estimator.

    Behind the codes of `items` follow codes for other items of a known shape, one for each of `shapes.names`; the
    last one is for the rest.
    """

    words: Trie
    shapes: Trie
    anywhere: Index  # (items + 1,) of the frequencies of each item at whatever position
    shape_codes: npt.NDArray[np.unsignedinteger[Any]]  # (2, codes) next to the boundary, and elsewhere
    unit_terms: Floats | None = None  # (n, codes), if prepared: what an item adds by itself at each distance

    name = "backoff"
    Params = BackoffParameters
    explains_interval = True
    by_frequency = True

    @classmethod
    def choose(cls, counts: Counts, n_de: int, options: Options) -> Parameters:
        """Return the parameters; by default the prior weighs 12 contexts, and all that was counted is used."""
        lam = BACKOFF_LAM.default / n_de if options["lam"] is None else options["lam"]
        longest_shapes = _longest_shapes(counts, options["shapes"])
        chosen = {
            "lam": lam,
            "unit_lam": UNIT_RIDGE * lam if options["unit_lam"] is None else options["unit_lam"],
            "longest": _longest(counts, options["longest"]),
            "longest_shapes": longest_shapes,
            "shape": counts.shape if longest_shapes else None,
        }
        return super().choose(counts, n_de, {**options, **chosen})

    @classmethod
    def spans_to_count(cls, longest: int | None = None, shapes: bool | None = None) -> list[str]:
        """Return units, suffixes and, unless they are off, shapes."""
        suffixes = f"suffixes:{LONGEST if longest is None else longest}"
        return ["units", suffixes] if shapes is False else ["units", suffixes, f"shapes:{LONGEST_SHAPES}"]

    @classmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return all spans that a model may have rows of."""
        return _spans(settings).all()

    @classmethod
    def fit(cls, counts: Counts, settings: Settings) -> Backoff:
        """Fit to the frequencies of a count table, and store the spans that are worth it."""
        spans, p = _spans(settings), settings.params
        rows = prune.evidence(counts, settings, spans)
        if p.size is None and p.max_bytes is None and p.criterion != "gain":
            return cls.build(settings, counts.items, rows)
        estimator, steps = cls.assemble(settings, counts.items, rows)
        rows, scores = prune.select(rows, estimator.unit_steps() | steps, settings, spans)
        if p.max_bytes is None:
            return cls.build(settings, counts.items, rows)
        return prune.largest_within(p.max_bytes, rows, scores, lambda some: cls.build(settings, counts.items, some))

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Backoff:
        """Make an estimator from rows, without suffixes that cannot be reached from a shorter one."""
        estimator, steps = cls.assemble(settings, items, rows)
        reached = {span: step.parent >= 0 for span, step in steps.items()}
        if all(map(np.all, reached.values())):
            return estimator
        kept = {span: prune.some(part, reached[span]) if span in reached else part for span, part in rows.items()}
        return cls.assemble(settings, items, kept)[0]

    @classmethod
    def assemble(
        cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]
    ) -> tuple[Backoff, dict[Span, Step]]:
        """Make an estimator from rows with f_nu, f_de and selected; return also what the rows of each suffix do."""
        n, spans = settings.n, _spans(settings)
        of_words = [part for span, part in rows.items() if not n <= span[0] < 2 * n]
        of_shapes = [part for span, part in rows.items() if n <= span[0] < 2 * n]
        parts = [*of_words, *of_shapes]
        frequencies, index = pool(np.concatenate([np.empty((0, 3), np.int64), *(part.values for part in parts)]))
        bounds = np.cumsum([len(part) for part in parts])[:-1].astype(np.intp)
        index_of = dict(zip((part.span for part in parts), np.split(index, bounds), strict=False))
        words, of_words = compact(items, of_words)
        shapes, of_shapes = compact(items, of_shapes)
        coded = {part.span: part for part in (*of_words, *of_shapes)}

        def units(names: pa.Array, first: int) -> tuple[Units, ...]:
            empty = SpanRows((0, 1), np.empty((0, 1), np.int32), np.empty((0, 3), np.int64))
            found = [spans.unit(distance, first) for distance in range(n)]
            return tuple(
                Units.build(coded.get(span, empty).keys[:, 0], index_of.get(span, index[:0]), len(names))
                for span in found
            )

        anywhere = np.zeros(len(words) + 1, dtype=index.dtype)
        if spans.anywhere in coded:
            anywhere[coded[spans.anywhere].keys[:, 0]] = index_of[spans.anywhere]
        tries = Trie(words, units(words, 0)), Trie(shapes, units(shapes, n))
        shape_codes = _shape_codes(words, shapes, settings.params.shape)
        estimator = cls(settings, words, frequencies, *tries, anywhere, shape_codes)
        steps: dict[Span, Step] = {}
        estimator = replace(estimator, shapes=estimator._grow(estimator.shapes, n, coded, index_of, steps))
        estimator = replace(estimator, words=estimator._grow(estimator.words, 0, coded, index_of, steps))
        return estimator, steps

    def _grow(
        self,
        trie: Trie,
        first: int,
        rows: Mapping[Span, SpanRows],
        index_of: Mapping[Span, Index],
        steps: dict[Span, Step],
    ) -> Trie:
        """Return a trie with its suffixes, shorter ones first; the one of shapes must be finished before items."""
        codes = np.arange(len(trie.names)) + (len(self.items) if first else 0)
        estimate = self.unit_log(0, codes) + self.first_corrections(codes).sum(axis=0)  # of each node, like the next
        total, row_of_node = np.zeros(len(trie.names)), np.arange(len(trie.names))
        for span in _spans(self.settings).suffixes(first):
            if span not in rows:
                continue
            part, columns = rows[span], self._columns(rows[span].keys)
            parent = trie.nodes(columns[:-1])
            there = np.flatnonzero(parent >= 0)
            steps[span] = step = Step.empty(len(part))
            if not len(there):
                continue
            node, columns = parent[there], [column[there] for column in columns]
            distance = len(columns) - 1
            if first:
                prior = estimate[node] + self.unit_log(distance, columns[-1] + len(self.items), "shape")
            else:
                shape_columns = self._shape_columns(columns)
                prior = estimate[node] + self.unit_log(distance, columns[-1])
                prior += self.shapes.corrections(shape_columns, len(columns))[1][-1]
            correction = self.correction(prior, part.values[there, 0], part.values[there, 1], shapes=bool(first))
            step.parent[there], step.prior[there], step.correction[there] = row_of_node[node], prior, correction
            pairs, order = PairTable.build(node, columns[-1], len(trie.names))
            estimate, total = (prior + correction)[order], (total[node] + correction)[order]
            row_of_node = there[order]
            level = Suffixes(pairs, index_of[span][there][order], total.astype(np.float32))
            trie = replace(trie, suffixes=(*trie.suffixes, level))
        return trie

    def correction(self, prior: Floats, f_nu: npt.ArrayLike, f_de: npt.ArrayLike, shapes: bool) -> Floats:
        """Return log(r / r0) of a suffix of items or of shapes, given log r0: the one step of the recursion."""
        s, p = self.settings, self.settings.params
        r0, lam = ratios.from_log(prior), p.unit_lam if shapes else p.lam
        ratio = ratios.ridge(r0, np.asarray(f_nu) / s.n_nu, np.asarray(f_de) / s.n_de, lam) / r0
        return ratios.log_on_grid(ratio, grid=ratios.COARSE_GRID)

    def first_corrections(self, codes: npt.NDArray[Any]) -> Floats:
        """Return the corrections by the suffixes of one shape and of one item: (2, codes)."""
        p, corrections = self.settings.params, np.zeros((2, len(codes)))
        if p.longest_shapes:
            index = self.shapes.units[0].find(self.shape_codes[0][codes])
            prior = self.unit_log(0, codes, "shape")
            corrections[0] = self.correction(prior, *self.frequencies.of(index), shapes=True)
        if p.longest:
            index = self.words.units[0].find(np.minimum(codes, len(self.items)))
            prior = self.unit_log(0, codes) + corrections[0]
            corrections[1] = self.correction(prior, *self.frequencies.of(index), shapes=False)
        return corrections

    def unit_log(self, distance: int, codes: npt.NDArray[Any], evidence: str = "item") -> Floats:
        """Return the tempered log ratios of single items.

        Args:
            distance: from the boundary.
            codes: of the items.
            evidence: what is known of them: "shape" alone, also "anywhere", or also the "item" at its position.
        """
        s, p = self.settings, self.settings.params
        known = np.minimum(codes, len(self.items))
        power = temper(p.tau, distance)
        if not p.longest_shapes:
            if evidence != "item":
                return np.zeros(len(codes))
            index = self.words.units[distance].find(known)
            f_nu, f_de = self.frequencies.of(index)
            ratio = ratios.unit(f_nu, s.n_nu, f_de, s.n_de, p.unit_lam)
            return np.where(index > 0, ratios.log_on_grid(ratio, power), 0.0)
        index = self.shapes.units[distance].find(self.shape_codes[min(distance, 1)][codes])
        ratio = self._shrink(1.0, index, p.unit_lam)
        if evidence != "shape":
            ratio = self._shrink(ratio, self.anywhere[known], p.lam, positions=s.n)
        if evidence == "item":
            ratio = self._shrink(ratio, self.words.units[distance].find(known), p.unit_lam)
        return ratios.log_on_grid(ratio, power)

    def _shrink(self, r0: npt.ArrayLike, index: npt.NDArray[Any], lam: float, positions: int = 1) -> Floats:
        """Return the ridge estimates (E5) of frequencies that were counted at so many positions."""
        p_nu = self.frequencies.f_nu / (self.settings.n_nu * positions)  # of all distinct ones, which are few
        p_de = self.frequencies.f_de / (self.settings.n_de * positions)
        return ratios.ridge(r0, p_nu[index], p_de[index], lam)

    def _columns(self, codes: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the columns of codes by distance from the boundary."""
        columns = list(np.ascontiguousarray(codes.T, dtype=np.intp))  # what NumPy looks up with
        return columns[::-1] if self.settings.side == "left" else columns

    def _known_columns(self, codes: Codes) -> list[npt.NDArray[Any]]:
        """Return the same for contexts, in which any code is allowed."""
        return self._columns(np.where(codes < 0, self.num_codes - 1, codes))

    def _shape_columns(self, columns: Columns) -> list[npt.NDArray[Any]]:
        """Return the codes of the shapes of items, by distance."""
        return [self.shape_codes[min(distance, 1)][column] for distance, column in enumerate(columns)]

    def prepared(self) -> Backoff:
        """Return an estimator with a table of the terms of all single items."""
        if self.unit_terms is not None:
            return self
        codes = np.arange(self.num_codes)
        terms = np.stack([self.unit_log(distance, codes) for distance in range(self.settings.n)])
        terms[0] += self.first_corrections(codes).sum(axis=0)
        return replace(self, unit_terms=terms)

    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context."""
        p = self.settings.params
        total = np.empty(len(codes))
        for begin in range(0, len(codes), BLOCK):
            columns = self._known_columns(codes[begin : begin + BLOCK])
            if self.unit_terms is None:
                block = self.first_corrections(columns[0]).sum(axis=0)
                for distance, column in enumerate(columns):
                    block += self.unit_log(distance, column)
            else:
                block = np.zeros(len(columns[0]))
                for terms, column in zip(self.unit_terms, columns, strict=True):
                    block += terms.take(column, mode="clip")  # no code is out of range, and this skips the check
            if p.longest > 1:
                block += self.words.totals(columns[: p.longest])
            if p.longest_shapes > 1:
                block += self.shapes.totals(columns[: p.longest_shapes], list(self.shape_codes))
            total[begin : begin + BLOCK] = block
        return total

    def score_one(self, codes: Sequence[int]) -> float:
        """Return the log ratio of one context."""
        return self._score_one(codes)

    @cached_property
    def _score_one(self) -> Callable[[Sequence[int]], float]:
        """Return a function that does for one context what `score` does for many, in a few microseconds."""
        p, prepared = self.settings.params, self.prepared()
        arrays: tuple[Any, ...] = (prepared.unit_terms, self.shape_codes)
        terms, (nearest, others) = ([memoryview(row) for row in array] for array in arrays)
        words, shapes = self.words.walker(p.longest), self.shapes.walker(p.longest_shapes)
        last, leftwards = self.num_codes - 1, self.settings.side == "left"

        def score(codes: Sequence[int]) -> float:
            ordered = [code if code >= 0 else last for code in (reversed(codes) if leftwards else codes)]
            total = 0.0
            for row, code in zip(terms, ordered, strict=True):
                total += row[code]
            total += words(ordered)
            return total + shapes([nearest[ordered[0]], *(others[code] for code in ordered[1:])])

        return score

    def unit_steps(self) -> dict[Span, Step]:
        """Return what the rows of units do, and those of items at whatever position."""
        spans, size = _spans(self.settings), len(self.items)
        steps = {}
        for distance in range(self.settings.n):
            items = self.words.units[distance].items.astype(np.int64)
            shapes = self.shapes.units[distance].items.astype(np.int64) + size
            prior = self.unit_log(distance, items, "anywhere")
            after = self.unit_log(distance, items)
            of_shapes = self.unit_log(distance, shapes, "shape")
            if distance == 0:
                after = after + self.first_corrections(items)[1]
                of_shapes = of_shapes + self.first_corrections(shapes)[0]
            steps[spans.unit(distance)] = Step(np.arange(len(items)), prior, after - prior)
            prior = np.zeros(len(shapes))
            steps[spans.unit(distance, self.settings.n)] = Step(np.arange(len(shapes)), prior, of_shapes)
        items = np.flatnonzero(self.anywhere)
        middle = self.settings.n // 2  # these rows act at all distances
        prior, after = (self.unit_log(middle, items, evidence) for evidence in ("shape", "anywhere"))
        steps[spans.anywhere] = Step(np.arange(len(items)), prior, after - prior)
        return steps

    def rows(self) -> Iterator[ModelRows]:
        """Yield the rows of each span, sorted by their keys into `vocabulary`."""
        n, spans, steps = self.settings.n, _spans(self.settings), self.unit_steps()
        _, code = build_vocabulary(pa.concat_arrays([self.words.names, self.shapes.names]))
        found: dict[Span, tuple[Codes, Index, Floats]] = {}
        for trie, first in ((self.words, 0), (self.shapes, n)):
            into = code[len(self.items) :] if first else code
            for distance, units in enumerate(trie.units):
                span = spans.unit(distance, first)
                found[span] = into[units.items][:, None], units.index, steps[span].correction
            keys = np.arange(len(trie.names), dtype=np.int32)[:, None]
            before = np.zeros(len(trie.names))
            for span, level in zip(spans.suffixes(first), trie.suffixes, strict=False):
                parent, item = level.pairs.split()
                shorter, added = keys[parent], item.astype(np.int32)[:, None]
                keys = np.hstack([added, shorter] if self.settings.side == "left" else [shorter, added])
                found[span] = into[keys], level.index, level.total - before[parent]
                before = level.total.astype(np.float64)
        items = np.flatnonzero(self.anywhere)
        found[spans.anywhere] = code[items][:, None], self.anywhere[items], steps[spans.anywhere].correction
        for span in sorted(found.keys() & set(spans.all()), key=span_order):
            keys, index, terms = found[span]
            order = np.argsort(row_bytes(keys), kind="stable")
            yield ModelRows(span, keys[order], self.frequencies.columns(index[order]), terms[order])

    def trace(self, codes: Codes) -> Trace:
        """Return all that the log ratios of contexts are made of."""
        p = self.settings.params
        columns = self._known_columns(codes)
        shape_columns = self._shape_columns(columns)
        first = self.first_corrections(columns[0])
        shape_units = np.stack([self.unit_log(d, column, "shape") for d, column in enumerate(columns)])
        shape_index = np.stack([u.find(column) for u, column in zip(self.shapes.units, shape_columns, strict=True)])
        shapes = _follow(self.shapes, shape_columns, p.longest_shapes, shape_units, shape_index, first[0])
        units = np.stack([self.unit_log(distance, column) for distance, column in enumerate(columns)])
        known = [np.minimum(column, len(self.items)) for column in columns]
        index = np.stack([u.find(column) for u, column in zip(self.words.units, known, strict=True)])
        added = np.zeros_like(units)
        added[: p.longest_shapes] = shapes.correction
        words = _follow(self.words, columns, p.longest, units + added, index, first[1])
        return Trace(units, index, words, shape_units, shape_index, shapes)

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        return variance.backoff_variance(self.settings, self.frequencies, self.trace(codes))

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the units, then the suffixes of shapes and of items that the model stores."""
        s, p, spans = self.settings, self.settings.params, _spans(self.settings)
        trace = self.trace(codes[None, :])
        anywhere = self.anywhere[np.minimum(codes, len(self.items))]  # code -1 is the last one, too
        names = list(items)
        if p.longest_shapes and p.shape is not None:
            shapes = map(shape_function(p.shape, remember=False), items)
            names += [pair[0 if position == s.nearest else 1] for position, pair in enumerate(shapes)]
        terms = []
        for distance in sorted(range(s.n), key=spans.unit):
            own, value = spans.unit(distance), float(trace.units[distance, 0])
            finest = (  # what is stored of the item, or else of its shape
                ("item", own, int(trace.index[distance, 0])),
                ("anywhere", own, int(anywhere[own[0]])),
                ("shape", spans.unit(distance, s.n), int(trace.shape_index[distance, 0])),
            )
            kind, span, index = next((found for found in finest if found[2]), ("none", own, 0))
            terms.append(self.term(span, names, index, value, kind))
        for kind, first, suffixes in (("shapes", s.n, trace.shapes), ("items", 0, trace.words)):
            for length, index in enumerate(suffixes.index[:, 0].tolist(), 1):
                if index:
                    value, prior = float(suffixes.correction[length - 1, 0]), float(suffixes.prior[length - 1, 0])
                    terms.append(self.term(spans.suffix(length, first), names, index, value, kind, prior))
        return terms

    def encode_unknown(self, items: Sequence[str], remember: bool = True) -> tuple[Codes, Codes]:
        """Return the codes of other items by their shapes."""
        if not self.uses_shapes:
            return super().encode_unknown(items)
        plain, cached = self._shape_pair, self._cached_shape_pair if remember else self._shape_pair
        pairs = [cached(item) if len(item) <= LONGEST_REMEMBERED else plain(item) for item in items]
        packed = np.array(pairs, dtype=np.int64)
        return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)

    def _shape_pair(self, item: str) -> int:
        """Return the two codes of an item by its shapes, packed into one number."""
        nearest, elsewhere = self._shape_function(item)
        code, rest = self._code_of_shape.get, self.num_codes - 1
        return code(nearest, rest) << 32 | code(elsewhere, rest)

    @cached_property
    def _cached_shape_pair(self) -> Callable[[str], int]:
        return lru_cache(maxsize=REMEMBERED)(self._shape_pair)

    @cached_property
    def _shape_function(self) -> Shape:
        return shape_function(self.settings.params.shape, remember=False)

    @cached_property
    def _code_of_shape(self) -> dict[str, int]:
        """The code of other items of a shape."""
        return {name: code for code, name in enumerate(self.shapes.names.to_pylist(), len(self.items))}

    @property
    def uses_shapes(self) -> bool:
        """Whether items that the model does not store have codes by their shapes."""
        return bool(self.settings.params.longest_shapes and self.settings.params.shape is not None)

    @property
    def num_codes(self) -> int:
        """How many codes there are: of items, of other items by shape, and of the rest."""
        return len(self.items) + len(self.shapes.names) + 1

    @property
    def vocabulary(self) -> pa.Array:
        """Items and shapes together, distinct and in byte order."""
        return build_vocabulary(pa.concat_arrays([self.words.names, self.shapes.names]))[0]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        tables = (self.frequencies, self.words, self.shapes, self.anywhere, self.shape_codes)
        return sum(table.nbytes for table in tables)

    def facts(self) -> Facts:
        """Return what `info` shows of the parameters."""
        p = self.settings.params
        seed = {"seed": p.seed} if p.criterion == "random" else {}
        names = ("lam", "unit_lam", "tau", "longest", "longest_shapes", "shape", "max_bytes")
        return {"criterion": p.criterion, "size": p.size, **seed, **{name: getattr(p, name) for name in names}}

    def size_facts(self) -> Facts:
        """Return how many rows there are: of single items and shapes, and of suffixes by length."""
        s, p, spans = self.settings, self.settings.params, _spans(self.settings)
        sizes = {rows.span: len(rows) for rows in self.rows()}

        def by_position(first: int) -> list[int]:
            return [sizes.get((first + k, first + k + 1), 0) for k in range(s.n)]

        def by_length(first: int) -> dict[str, int]:
            return {str(span[1] - span[0]): sizes.get(span, 0) for span in spans.suffixes(first)}

        shapes = {
            "items_held_anywhere": sizes.get(spans.anywhere, 0),
            "shapes_held_by_position": by_position(s.n),
            "shape_suffixes_held_by_length": by_length(s.n),
        }
        items = {"items_held_by_position": by_position(0), "suffixes_held_by_length": by_length(0)}
        return {**items, **(shapes if p.longest_shapes else {})}


def _spans(settings: Settings) -> Spans:
    return Spans(settings.n, settings.side, settings.params.longest, settings.params.longest_shapes)


def _follow(
    trie: Trie, columns: Columns, longest: int, units: Floats, unit_index: Index, first: Floats
) -> SuffixTrace:
    """Follow contexts along their suffixes; the first one is a unit, whose correction is given."""
    index, correction = trie.corrections(columns, longest)
    index[:1], correction[:1] = unit_index[:1], first
    prior = np.cumsum(units[:longest] + correction, axis=0) - correction
    return SuffixTrace(index, prior, correction)


def _shape_codes(words: pa.Array, shapes: pa.Array, shape: str | None) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return the shape of every code, next to the boundary and elsewhere: (2, codes)."""
    dtype = np.min_scalar_type(len(shapes))
    if shape is None:
        return np.zeros((2, len(words) + 1), dtype=dtype)
    others = np.arange(len(shapes) + 1)
    found = (encode_items(names, shapes) for names in shapes_of(words, shape))
    return np.stack(
        [np.concatenate([np.where(codes < 0, len(shapes), codes), others]).astype(dtype) for codes in found]
    )


def _longest(counts: Counts, longest: int | None) -> int:
    """Return the longest suffix of items to use, which must have been counted."""
    counted = suffix_lengths(counts.spans, counts.n, counts.side)
    if longest is None:
        return counted
    check_count("longest", "fit", longest, at_least=0, at_most=counts.n)
    if longest > counted:
        raise ParameterError(
            f"suffixes of up to {longest} items are asked for, and this table counts up to {counted}: count again "
            f"with the spans 'suffixes:{longest}'"
        )
    return int(longest)


def _longest_shapes(counts: Counts, shapes: bool | None) -> int:
    """Return the longest suffix of shapes to use; 0 for none."""
    if shapes not in (None, False, True):
        raise must_be("shapes", "fit", "True, False or None", shapes)
    if shapes and counts.shape is None:
        raise ParameterError(
            "this table counts no shapes: count again with the spans 'shapes:8', or fit with shapes=False"
        )
    if counts.shape is None or (shapes is not None and not shapes):
        return 0
    return suffix_lengths(counts.spans, counts.n, counts.side, counts.n)

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, row_bytes
from raregram.counts.spans import LayerName, Span, span_order, unit_spans
from raregram.counts.table import Counts, compact
from raregram.models import ratios
from raregram.models.backoff import prune
from raregram.models.backoff.pairs import PairTable
from raregram.models.backoff.parameters import BackoffParameters, Spans, found_in, temper
from raregram.models.backoff.prune import Step
from raregram.models.backoff.trie import Columns, Suffixes, Trace, Trie, Units
from raregram.models.backoff.variance import backoff_variance, unit_variances
from raregram.models.base import BLOCK, Estimator, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LONGEST, LONGEST_SHAPES
from raregram.text.shapes import shape_function, shapes_of
from raregram.text.vocabulary import ABSENT, MISSING, Codes, build_vocabulary, encode_items

FEW = 64  # items whose shapes are looked up one by one


@dataclass(frozen=True, eq=False)
class Backoff(Estimator):
    """The back-off estimator.

    Behind the codes of `items` follow codes for other items of a known shape, one for each of `shapes.names`; the
    last one is for the rest.
    """

    words: Trie
    shapes: Trie
    anywhere: Index  # (items + 1,) of the frequencies of each item at any position
    shape_codes: npt.NDArray[np.unsignedinteger[Any]]  # (2, codes) next to the boundary, and elsewhere
    unit_terms: Floats | None = None  # (n, codes), if prepared: what an item adds by itself at each distance

    name = "backoff"
    Params = BackoffParameters
    explains_interval = True
    by_frequency = True

    # --- parameters and spans

    @classmethod
    def default_lam(cls, n_nu: int, n_de: int) -> float:
        """Return the ridge with which a prior weighs 6 contexts."""
        return BACKOFF_LAM.default / n_de

    @classmethod
    def choose(cls, counts: Counts, sizes: tuple[int, int], options: Options) -> Parameters:
        """Return the parameters; all that was counted is used."""
        lam = cls.default_lam(*sizes) if options["lam"] is None else options["lam"]
        return super().choose(counts, sizes, {**options, **found_in(counts, lam, options)})

    @classmethod
    def spans_to_count(cls, longest: int | None = None, shapes: bool | None = None) -> list[str]:
        """Return units, suffixes and, unless they are off, shapes."""
        suffixes = f"suffixes:{LONGEST if longest is None else longest}"
        return ["units", suffixes] if shapes is False else ["units", suffixes, f"shapes:{LONGEST_SHAPES}"]

    @classmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return all spans that a model may have rows of."""
        return Spans.of(settings).all()

    # --- fit

    @classmethod
    def fit(cls, counts: Counts, settings: Settings, memory_limit: int) -> Backoff:
        """Fit to the frequencies of a count table, and store the spans that are selected."""
        parts = [
            cls.fit_part(counts, settings, nearest) for nearest in prune.partitions(counts, settings, memory_limit)
        ]
        return cls.from_parts(counts.items, settings, parts)

    @classmethod
    def fit_part(cls, counts: Counts, settings: Settings, nearest: prune.Nearest | None) -> prune.Selected:
        """Select the spans of one part of `prune.partitions`."""
        rows = prune.evidence(counts, settings, nearest)
        estimator, steps = cls.assemble(settings, counts.items, rows)
        return prune.select(rows, estimator.unit_steps() | steps, settings)

    @classmethod
    def from_parts(cls, items: pa.Array, settings: Settings, parts: Sequence[prune.Selected]) -> Backoff:
        """Return the estimator of the spans that were selected of all parts."""
        rows, scores = prune.join(parts, settings)
        if settings.params.max_bytes is None:
            return cls.build(settings, items, rows)
        return prune.largest_within(rows, scores, settings, lambda some: cls.build(settings, items, some))

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Backoff:
        """Make an estimator from rows, without suffixes that cannot be reached from a shorter one."""
        estimator, steps = cls.assemble(settings, items, rows)
        reached = {span: step.parent >= 0 for span, step in steps.items()}
        if all(map(np.all, reached.values())):
            return estimator
        kept = {span: part[reached[span]] if span in reached else part for span, part in rows.items()}
        return cls.assemble(settings, items, kept)[0]

    @classmethod
    def assemble(
        cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]
    ) -> tuple[Backoff, dict[Span, Step]]:
        """Make an estimator from rows with f_nu, f_de and selected; return also the steps of all suffixes."""
        n, spans = settings.n, Spans.of(settings)
        words, of_words = compact(items, [part for span, part in rows.items() if span.layer != "shape"])
        shapes, of_shapes = compact(items, [part for span, part in rows.items() if span.layer == "shape"])
        parts = [*of_words, *of_shapes]
        frequencies, index = pool(np.concatenate([np.empty((0, 3), np.int64), *(part.values for part in parts)]))
        bounds = np.cumsum([len(part) for part in parts], dtype=np.intp)[:-1]
        coded = {part.span: (part, own) for part, own in zip(parts, np.split(index, bounds), strict=False)}

        def units(names: pa.Array, layer: LayerName) -> Trie:
            none = SpanRows(spans.anywhere, np.empty((0, 1), np.int32), np.empty((0, 3), np.int64)), index[:0]
            found = [coded.get(spans.unit(distance, layer), none) for distance in range(n)]
            return Trie(names, tuple(Units.build(part.keys[:, 0], own, len(names)) for part, own in found))

        anywhere = np.zeros(len(words) + 1, dtype=index.dtype)
        if spans.anywhere in coded:
            part, own = coded[spans.anywhere]
            anywhere[part.keys[:, 0]] = own
        shape_codes = _shape_codes(words, shapes, settings.params.shape)
        estimator = cls(
            settings, words, frequencies, units(words, "item"), units(shapes, "shape"), anywhere, shape_codes
        )
        steps: dict[Span, Step] = {}
        estimator = replace(estimator, shapes=estimator._grow(estimator.shapes, "shape", coded, steps))
        return replace(estimator, words=estimator._grow(estimator.words, "item", coded, steps)), steps

    def _grow(
        self, trie: Trie, layer: LayerName, rows: Mapping[Span, tuple[SpanRows, Index]], steps: dict[Span, Step]
    ) -> Trie:
        """Return a trie with its suffixes, shorter ones first; that of shapes has to be grown before that of items.

        A shape is treated as an unknown item of that shape, which no item or longer shape has corrected yet.
        """
        p, offset = self.settings.params, len(self.items) if layer == "shape" else 0
        codes = np.arange(len(trie.names)) + offset
        estimate = self.unit_log(0, codes) + self.first_corrections(codes).sum(axis=0)  # of each node, like the next
        total, row_of_node = np.zeros(len(trie.names)), np.arange(len(trie.names))
        for span in Spans.of(self.settings).suffixes(layer):
            if span not in rows:
                continue
            part, index = rows[span]
            columns = self._columns(part.keys)
            parent = trie.nodes(columns[:-1])
            reached = np.flatnonzero(parent >= 0)
            steps[span] = step = Step(np.full(len(part), -1), np.zeros(len(part)), np.zeros(len(part)))
            if not len(reached):
                continue
            node, columns = parent[reached], [column[reached] + offset for column in columns]
            prior = estimate[node] + self.unit_log(len(columns) - 1, columns[-1])
            prior += self.shapes.corrections(self._shape_columns(columns), len(columns))[1][-1]
            correction = self.correction(prior, index[reached], p.unit_lam if layer == "shape" else p.lam)
            step.parent[reached], step.prior[reached], step.correction[reached] = row_of_node[node], prior, correction
            pairs, order = PairTable.build(node, columns[-1] - offset, len(trie.names))
            estimate, total = (prior + correction)[order], (total[node] + correction)[order]
            row_of_node = reached[order]
            level = Suffixes(pairs, index[reached][order], total.astype(np.float32))
            trie = replace(trie, suffixes=(*trie.suffixes, level))
        return trie

    def correction(self, prior: Floats, index: Index, lam: float) -> Floats:
        """Return log(r / r0) of suffixes, given log r0 and the index of their frequencies."""
        r0 = ratios.from_log(prior)
        return ratios.log_on_grid(self._shrink(r0, index, lam) / r0, grid=ratios.COARSE_GRID)

    def first_corrections(self, codes: npt.NDArray[Any]) -> Floats:
        """Return the corrections by the suffixes of one shape and of one item: (2, codes)."""
        p, corrections = self.settings.params, np.zeros((2, len(codes)))
        if p.longest_shapes:
            index = self.shapes.units[0].find(self.shape_codes[0][codes])
            corrections[0] = self.correction(self.unit_log(0, codes, "shape"), index, p.unit_lam)
        if p.longest:
            index = self.words.units[0].find(np.minimum(codes, len(self.items)))
            corrections[1] = self.correction(self.unit_log(0, codes) + corrections[0], index, p.lam)
        return corrections

    def unit_log(self, distance: int, codes: npt.NDArray[Any], evidence: str = "item") -> Floats:
        """Return the tempered log ratios of items by their "shape" alone, also "anywhere", or also as "item"."""
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

    # --- codes

    def _columns(self, codes: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the columns of codes by distance from the boundary; negative ones are the last code.

        That is the code of items of which nothing is known, so they add nothing.
        """
        codes = np.where(codes < 0, self.num_codes - 1, codes)
        columns = list(np.ascontiguousarray(codes.T, dtype=np.intp))  # the type that NumPy indexes by
        return columns[::-1] if self.settings.side == "left" else columns

    def _shape_columns(self, columns: Columns) -> list[npt.NDArray[Any]]:
        """Return the codes of the shapes of items, by distance."""
        return [self.shape_codes[min(d, 1)].take(column, mode="clip") for d, column in enumerate(columns)]

    def encode_unknown(self, items: pa.Array, remember: bool = True) -> tuple[Codes, Codes]:
        """Return the codes of other items by their shapes."""
        if not self.uses_shapes:
            return super().encode_unknown(items)
        rest = self.num_codes - 1
        if len(items) > FEW:
            names = shapes_of(items, self.settings.params.shape, remember)
            near, far = (encode_items(shapes, self.shapes.names) for shapes in names)
            known = len(self.items)
            return np.where(near < 0, rest, near + known), np.where(far < 0, rest, far + known)
        pairs = list(map(shape_function(self.settings.params.shape, remember), items.to_pylist()))
        code = self._code_of_shape.get
        nearest, elsewhere = ([code(pair[k], rest) for pair in pairs] for k in (0, 1))
        return np.array(nearest, dtype=np.int32), np.array(elsewhere, dtype=np.int32)

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

    # --- score

    def _unit_terms(self, columns: Columns) -> list[Floats]:
        """Return the terms of single items at each distance; the nearest also as a suffix of one."""
        terms = [self.unit_log(distance, column) for distance, column in enumerate(columns)]
        terms[0] += self.first_corrections(columns[0]).sum(axis=0)
        return terms

    def prepared(self) -> Backoff:
        """Return an estimator with a table of the terms of all single items."""
        if self.unit_terms is not None:
            return self
        return replace(self, unit_terms=np.stack(self._unit_terms([np.arange(self.num_codes)] * self.settings.n)))

    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context."""
        p, total = self.settings.params, np.zeros(len(codes))
        for begin in range(0, len(codes), BLOCK):
            columns, block = self._columns(codes[begin : begin + BLOCK]), total[begin : begin + BLOCK]
            if self.unit_terms is None:
                terms = self._unit_terms(columns)
            else:  # no code is out of range, and "clip" skips the check
                terms = [row.take(column, mode="clip") for row, column in zip(self.unit_terms, columns, strict=True)]
            for term in terms:
                block += term
            if p.longest > 1:
                block += self.words.totals(columns[: p.longest])
            if p.longest_shapes > 1:
                block += self.shapes.totals(self._shape_columns(columns[: p.longest_shapes]))
        return total

    # --- terms and variance

    def trace(self, codes: Codes) -> tuple[Trace, Trace]:
        """Return the units and corrections of contexts, by shapes and by items."""
        p, columns = self.settings.params, self._columns(codes)
        first, parts = self._unit_parts(columns) if self.unit_terms is None else self._look_up(columns)
        index, correction = first
        units, variance, shape_units, shape_variance = parts
        shapes = self.shapes.trace(
            self._shape_columns(columns),
            shape_units,
            shape_variance,
            0.0,
            (index[0], correction[0]),
            p.longest_shapes,
        )
        added = np.zeros_like(units)
        added[: p.longest_shapes] = shapes.correction
        return shapes, self.words.trace(columns, units, variance, added, (index[1], correction[1]), p.longest)

    def _unit_index(self, columns: Columns) -> tuple[Index, Index]:
        """Return the index of the frequencies of single shapes and of single items: (n, contexts)."""
        known = [np.minimum(column, len(self.items)) for column in columns]
        tries = ((self.shapes, self._shape_columns(columns)), (self.words, known))
        shapes, words = (
            np.stack([units.find(column) for units, column in zip(trie.units, codes, strict=True)])
            for trie, codes in tries
        )
        return shapes, words

    def _unit_parts(self, columns: Columns) -> tuple[tuple[Index, Floats], tuple[Floats, ...]]:
        """Return what single items give.

        These are the indices and the corrections of the suffixes of one shape and of one item, (2, contexts), and the
        log ratios and the variances of items and of shapes, (n, contexts).
        """
        of_shapes, of_words = self._unit_index(columns)
        units, shape_units = (
            np.stack([self.unit_log(distance, column, evidence) for distance, column in enumerate(columns)])
            for evidence in ("item", "shape")
        )
        variance, shape_variance = unit_variances(self.settings, self.frequencies, of_words, units, of_shapes)
        first = np.stack([of_shapes[0], of_words[0]]), self.first_corrections(columns[0])
        return first, (units, variance, shape_units, shape_variance)

    @cached_property
    def _tables(self) -> tuple[tuple[Index, Floats], tuple[Floats, ...]]:
        """The same for all codes."""
        return self._unit_parts([np.arange(self.num_codes)] * self.settings.n)

    def _look_up(self, columns: Columns) -> tuple[tuple[Index, Floats], tuple[Floats, ...]]:
        """Return the same from the tables."""
        (index, correction), tables = self._tables
        parts = tuple(np.empty((len(columns), len(columns[0]))) for _ in tables)
        for table, part in zip(tables, parts, strict=True):
            for row, column, found in zip(table, columns, part, strict=True):
                row.take(column, mode="clip", out=found)  # no code is out of range
        return (index.take(columns[0], axis=1), correction.take(columns[0], axis=1)), parts

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        there = codes.T[:: -1 if self.settings.side == "left" else 1] != MISSING
        return backoff_variance(self.settings, self.frequencies, *self.trace(codes), there)

    def evidence(self, codes: Codes) -> Floats | None:
        """Return the expected sightings of contexts that are no longer than the longest suffix."""
        lengths = (codes != MISSING).sum(axis=1)
        if not len(codes) or lengths.min() > self.settings.params.longest:
            return None
        evidence = np.zeros(len(codes))
        for length in range(1, self.settings.params.longest + 1):
            rows = np.flatnonzero(lengths == length)
            if not len(rows) or length > len(self.words.suffixes) + 1:
                continue
            columns = self._columns(codes[rows])[:length]
            if length == 1:
                index = self.words.units[0].find(np.minimum(columns[0], len(self.items)))
            else:
                node = self.words.nodes(columns)
                index = np.where(node >= 0, self.words.suffixes[length - 2].index.take(node, mode="clip"), 0)
            evidence[rows] = self.expected(index)
        return evidence

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the units, then the suffixes of shapes and of items that the model stores."""
        s, spans = self.settings, Spans.of(self.settings)
        shapes, words = self.trace(codes[None, :])
        shape_index, word_index = self._unit_index(self._columns(codes[None, :]))
        anywhere = self.anywhere[np.clip(codes, ABSENT, len(self.items))]  # code -1 is the last one, too
        names = list(items)
        if self.uses_shapes:
            pairs = map(shape_function(s.params.shape, remember=False), items)
            names += [pair[0 if position == s.nearest else 1] for position, pair in enumerate(pairs)]
        terms = []
        for distance in sorted(range(s.n), key=spans.unit):
            own, value = spans.unit(distance), float(words.units[distance, 0])
            finest = (  # what is stored of the item, or else of its shape
                ("item", own, int(word_index[distance, 0])),
                ("anywhere", own, int(anywhere[own.start])),
                ("shape", spans.unit(distance, "shape"), int(shape_index[distance, 0])),
            )
            kind, span, index = next((found for found in finest if found[2]), ("none", own, 0))
            terms.append(self.term(span, names, index, value, kind))
        layers: tuple[tuple[LayerName, Trace], ...] = (("shape", shapes), ("item", words))
        for layer, trace in layers:
            steps = zip(trace.index[:, 0].tolist(), trace.correction[:, 0], trace.prior[:, 0], strict=True)
            for length, (index, value, prior) in enumerate(steps, 1):
                if index:
                    span = spans.suffix(length, layer)
                    terms.append(self.term(span, names, index, float(value), f"{layer}s", float(prior)))
        return terms

    # --- rows

    def unit_steps(self) -> dict[Span, Step]:
        """Return the steps of units, and of items at any position."""
        n, spans, steps = self.settings.n, Spans.of(self.settings), {}

        def add(span: Span, prior: Floats, after: Floats) -> None:
            steps[span] = Step(np.arange(len(prior)), prior, after - prior)

        for distance in range(n):
            items = self.words.units[distance].items.astype(np.int64)
            shapes = self.shapes.units[distance].items.astype(np.int64) + len(self.items)
            after, of_shapes = self.unit_log(distance, items), self.unit_log(distance, shapes, "shape")
            if distance == 0:
                after += self.first_corrections(items)[1]
                of_shapes += self.first_corrections(shapes)[0]
            add(spans.unit(distance), self.unit_log(distance, items, "anywhere"), after)
            add(spans.unit(distance, "shape"), np.zeros(len(shapes)), of_shapes)
        items = np.flatnonzero(self.anywhere)  # these rows act at all distances: take the one in the middle
        add(spans.anywhere, self.unit_log(n // 2, items, "shape"), self.unit_log(n // 2, items, "anywhere"))
        return steps

    def rows(self) -> Iterator[ModelRows]:
        """Yield the rows of each span, sorted by their keys into `vocabulary`."""
        s, spans, steps = self.settings, Spans.of(self.settings), self.unit_steps()
        _, code = build_vocabulary(pa.concat_arrays([self.words.names, self.shapes.names]))
        items = np.flatnonzero(self.anywhere)
        found = {spans.anywhere: (code[items][:, None], self.anywhere[items], steps[spans.anywhere].correction)}
        layers: tuple[tuple[LayerName, Trie], ...] = (("item", self.words), ("shape", self.shapes))
        for layer, trie in layers:
            into = code if layer == "item" else code[len(self.items) :]
            for distance, units in enumerate(trie.units):
                span = spans.unit(distance, layer)
                found[span] = into[units.items][:, None], units.index, steps[span].correction
            keys, before = np.arange(len(trie.names), dtype=np.int32)[:, None], np.zeros(len(trie.names))
            for span, level in zip(spans.suffixes(layer), trie.suffixes, strict=False):
                parent, item = level.pairs.split()
                shorter, added = keys[parent], item.astype(np.int32)[:, None]
                keys = np.hstack([added, shorter] if s.side == "left" else [shorter, added])
                found[span] = into[keys], level.index, level.total - before[parent]
                before = level.total.astype(np.float64)
        for span in sorted(found.keys() & set(spans.all()), key=span_order):
            keys, index, terms = found[span]
            order = np.argsort(row_bytes(from_boundary(keys, s.side)), kind="stable")
            yield ModelRows(span, keys[order], self.frequencies.columns(index[order]), terms[order])

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
        """Return the parameters that `info` shows."""
        p = self.settings.params
        seed = ("seed",) if p.criterion == "random" else ()
        names = ("lam", "unit_lam", "tau", "longest", "longest_shapes", "shape", "max_bytes")
        return {name: getattr(p, name) for name in ("criterion", "size", *seed, *names)}

    def size_facts(self) -> Facts:
        """Return how many rows there are: of single items and shapes, and of suffixes by length."""
        n, spans = self.settings.n, Spans.of(self.settings)
        sizes = {rows.span: len(rows) for rows in self.rows()}
        layers: tuple[LayerName, ...] = ("item", "shape")
        by_position = [[sizes.get(span, 0) for span in unit_spans(n, layer)] for layer in layers]
        by_length = [{str(span.width): sizes.get(span, 0) for span in spans.suffixes(layer)} for layer in layers]
        facts: Facts = {"items_stored_by_position": by_position[0], "suffixes_stored_by_length": by_length[0]}
        if self.settings.params.longest_shapes:
            facts["items_stored_anywhere"] = sizes.get(spans.anywhere, 0)
            facts["shapes_stored_by_position"] = by_position[1]
            facts["shape_suffixes_stored_by_length"] = by_length[1]
        return facts


def _shape_codes(words: pa.Array, shapes: pa.Array, shape: str | None) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return the shape of every code, next to the boundary and elsewhere: (2, codes)."""
    dtype = np.min_scalar_type(len(shapes))
    if shape is None:
        return np.zeros((2, len(words) + 1), dtype=dtype)
    found = (encode_items(names, shapes) for names in shapes_of(words, shape))
    others = np.arange(len(shapes) + 1)
    return np.stack(
        [np.concatenate([np.where(codes < 0, len(shapes), codes), others]).astype(dtype) for codes in found]
    )

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
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

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
from raregram.models.backoff.trie import Columns, Suffixes, Trace, Trie, Units, look_up
from raregram.models.backoff.variance import backoff_variance, unit_variances
from raregram.models.base import BLOCK, Estimator, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LONGEST, LONGEST_SHAPES
from raregram.text.shapes import shape_function, shapes_of
from raregram.text.vocabulary import ABSENT, MISSING, Codes, build_vocabulary, encode_items


class UnitTables(NamedTuple):
    """What single items and single shapes say at each distance: tempered log ratios, and the index of frequencies."""

    item_index: Index  # (n, codes)
    log: Floats  # (n, codes)
    shape_index: Index  # (n, shapes + 1)
    shape_log: Floats  # (n, shapes + 1)
    correction: Floats  # (codes,) by the suffix of one item,
    shape_correction: Floats  # (shapes + 1,) and of one shape
    nearest: Floats  # (codes,) the log ratio next to the boundary with both corrections


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
        return cls.build(settings, items, prune.join(parts, settings))

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
        tries = units(words, "item"), units(shapes, "shape")
        estimator = cls(settings, words, frequencies, *tries, anywhere, shape_codes)
        steps: dict[Span, Step] = {}
        estimator._grow(estimator.shapes, "shape", coded, steps)
        estimator._grow(estimator.words, "item", coded, steps)
        return estimator, steps

    def _grow(
        self, trie: Trie, layer: LayerName, rows: Mapping[Span, tuple[SpanRows, Index]], steps: dict[Span, Step]
    ) -> None:
        """Add the suffixes to a trie, shorter ones first; that of shapes has to be grown before that of items.

        A shape is treated as an unknown item of that shape, which no item or longer shape has corrected yet.
        """
        p, units, offset = self.settings.params, self.units, len(self.items) if layer == "shape" else 0
        row_of_node = np.arange(len(trie.names))
        estimate, total = units.nearest[row_of_node + offset], np.zeros(len(trie.names))  # of each node
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
            prior = estimate[node] + units.log[len(columns) - 1].take(columns[-1])
            prior += self.shapes.corrections(self._shape_columns(columns), len(columns))[1][-1]
            correction = self.correction(prior, index[reached], p.unit_lam if layer == "shape" else p.lam)
            step.parent[reached], step.prior[reached], step.correction[reached] = row_of_node[node], prior, correction
            pairs, order = PairTable.build(node, columns[-1] - offset, len(trie.names))
            estimate, total = (prior + correction)[order], (total[node] + correction)[order]
            row_of_node = reached[order]
            trie.suffixes.append(Suffixes(pairs, index[reached][order], total.astype(np.float32)))

    def correction(self, prior: Floats, index: Index, lam: float) -> Floats:
        """Return log(r / r0) of suffixes, given log r0 and the index of their frequencies."""
        r0 = ratios.from_log(prior)
        return ratios.log_on_grid(self._shrink(r0, index, lam) / r0, grid=ratios.COARSE_GRID)

    def _unit_logs(self, distance: int) -> tuple[Floats, Floats, Floats]:
        """Return the tempered log ratios of shapes, of items at any position, and of items at a distance.

        Each is shrunk towards the one before: (shapes + 1,), (codes,), (codes,).
        """
        s, p, shape = self.settings, self.settings.params, self.shape_codes[min(distance, 1)]
        power, known = temper(p.tau, distance), np.minimum(np.arange(self.num_codes), len(self.items))
        index = self.words.units[distance].table()[known]
        if not p.longest_shapes:
            f_nu, f_de = self.frequencies.of(index)
            log_unit = ratios.log_on_grid(ratios.unit(f_nu, s.n_nu, f_de, s.n_de, p.unit_lam), power)
            return np.zeros(len(self.shapes.names) + 1), np.zeros(len(index)), np.where(index > 0, log_unit, 0.0)
        of_shape = self._shrink(1.0, self.shapes.units[distance].table(), p.unit_lam)
        anywhere = self._shrink(of_shape[shape], self.anywhere[known], p.lam, positions=s.n)
        here = self._shrink(anywhere, index, p.unit_lam)
        return (
            ratios.log_on_grid(of_shape, power),
            ratios.log_on_grid(anywhere, power),
            ratios.log_on_grid(here, power),
        )

    @cached_property
    def units(self) -> UnitTables:
        """What all items and shapes say by themselves."""
        p, known = self.settings.params, np.minimum(np.arange(self.num_codes), len(self.items))
        index = np.stack([units.table()[known] for units in self.words.units])
        shape_index = np.stack([units.table() for units in self.shapes.units])
        logs = [self._unit_logs(distance) for distance in range(self.settings.n)]
        log, shape_log = np.stack([here for *_, here in logs]), np.stack([of_shape for of_shape, *_ in logs])
        correction, shape_correction = np.zeros(len(known)), np.zeros(shape_log.shape[1])
        if p.longest_shapes:
            shape_correction = self.correction(shape_log[0], shape_index[0], p.unit_lam)
        nearest = log[0] + shape_correction[self.shape_codes[0]]
        if p.longest:
            correction = self.correction(nearest, index[0], p.lam)
        return UnitTables(index, log, shape_index, shape_log, correction, shape_correction, nearest + correction)

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

    def encode_unknown(self, items: pa.Array) -> tuple[Codes, Codes]:
        """Return the codes of other items by their shapes."""
        if not self.uses_shapes:
            return super().encode_unknown(items)
        rest = self.num_codes - 1
        pairs = list(map(shape_function(self.settings.params.shape), items.to_pylist()))
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

    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context."""
        p, total = self.settings.params, np.zeros(len(codes))
        rows = [self.units.nearest, *self.units.log[1:]]
        for begin in range(0, len(codes), BLOCK):
            columns, block = self._columns(codes[begin : begin + BLOCK]), total[begin : begin + BLOCK]
            for row, column in zip(rows, columns, strict=True):
                block += row.take(column, mode="clip")  # no code is out of range, and "clip" skips the check
            if p.longest > 1:
                block += self.words.totals(columns[: p.longest])
            if p.longest_shapes > 1:
                block += self.shapes.totals(self._shape_columns(columns[: p.longest_shapes]))
        return total

    # --- terms and variance

    def trace(self, columns: Columns) -> tuple[Trace, Trace]:
        """Return the units and corrections of contexts, by shapes and by items."""
        p, units, of_shapes = self.settings.params, self.units, self._shape_columns(columns)
        first = units.shape_index[0].take(of_shapes[0]), units.shape_correction.take(of_shapes[0])
        shapes = self.shapes.trace(of_shapes, look_up(units.shape_log, of_shapes), first, p.longest_shapes)
        own = look_up(units.log, columns)
        added = np.zeros_like(own)
        added[: p.longest_shapes] = shapes.correction
        first = units.item_index[0].take(columns[0]), units.correction.take(columns[0])
        return shapes, self.words.trace(columns, own, first, p.longest, added)

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        columns, there = self._columns(codes), codes.T[:: -1 if self.settings.side == "left" else 1] != MISSING
        # What is not there adds no doubt.
        of_shapes, of_items = (np.where(there, look_up(table, columns), 0.0) for table in self._variances)
        return backoff_variance(self.settings, self.frequencies, *self.trace(columns), of_shapes, of_items, there)

    @cached_property
    def _variances(self) -> tuple[Floats, Floats]:
        """The variances of the units of all codes, of shapes and of items: (n, codes)."""
        of_code = np.stack([row[self.shape_codes[min(d, 1)]] for d, row in enumerate(self.units.shape_index)])
        return unit_variances(self.settings, self.frequencies, self.units.item_index, self.units.log, of_code)

    def expected_count(self, codes: Codes) -> Floats | None:
        """Return the expected sightings of contexts that are no longer than the longest suffix."""
        lengths = (codes != MISSING).sum(axis=1)
        if not len(codes) or lengths.min() > self.settings.params.longest:
            return None
        count = np.zeros(len(codes))
        for length in range(1, self.settings.params.longest + 1):
            rows = np.flatnonzero(lengths == length)
            if not len(rows):
                continue
            columns = self._columns(codes[rows])[:length]
            if length == 1:
                index = self.units.item_index[0].take(columns[0])
            else:
                index = self.words.corrections(columns, length)[0][-1]
            count[rows] = self.expected(index)
        return count

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the units, then the suffixes of shapes and of items that the model stores."""
        s, spans = self.settings, Spans.of(self.settings)
        columns = self._columns(codes[None, :])
        shapes, words = self.trace(columns)
        of_items, of_shapes = self.units.item_index, self.units.shape_index
        anywhere = self.anywhere[np.clip(codes, ABSENT, len(self.items))]  # code -1 is the last one, too
        names = list(items)
        if self.uses_shapes:
            pairs = map(shape_function(s.params.shape), items)
            names += [pair[0 if position == s.nearest else 1] for position, pair in enumerate(pairs)]
        terms = []
        for distance in sorted(range(s.n), key=spans.unit):
            own, value, code = spans.unit(distance), float(words.units[distance, 0]), columns[distance][0]
            shape = self.shape_codes[min(distance, 1), code]
            finest = (  # what is stored of the item, or else of its shape
                ("item", own, int(of_items[distance, code])),
                ("anywhere", own, int(anywhere[own.start])),
                ("shape", spans.unit(distance, "shape"), int(of_shapes[distance, shape])),
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
            of_shape, anywhere, here = self._unit_logs(distance)
            # The rows of items at any position act at all distances: judge them by the one in the middle.
            if distance == n // 2:
                seen = np.flatnonzero(self.anywhere)
                add(spans.anywhere, of_shape[self.shape_codes[min(distance, 1)]][seen], anywhere[seen])
            if distance == 0:
                here, of_shape = here + self.units.correction, of_shape + self.units.shape_correction
            items, shapes = self.words.units[distance].items, self.shapes.units[distance].items
            add(spans.unit(distance), anywhere[items], here[items])
            add(spans.unit(distance, "shape"), np.zeros(len(shapes)), of_shape[shapes])
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
        names = ("lam", "unit_lam", "tau", "longest", "longest_shapes", "shape")
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

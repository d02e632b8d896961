"""The back-off estimator: from single items to ever longer suffixes, each shrunk towards a simpler estimate.

The estimate of a context is a sum of logarithms, which docs/theory.md derives:

    log r(x) = tempered units + corrections by suffixes of shapes + corrections by suffixes of items

A unit is the ratio of one item at its position, shrunk towards that of the item anywhere and that of its shape, to
the power tau**sqrt(d), where d is the distance from the boundary. The correction by a suffix is log(r / r0): r is its
ridge estimate (E5) and r0 everything simpler: the estimate of the suffix that is one item shorter, the unit of the
first item and, for items, the correction by the shapes of the same suffix. A suffix that was never seen corrects
nothing.

Frequencies are all that a model stores, and what it does not store counts as frequency 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, join_rows
from raregram.counts.spans import LayerName, Span, unit_spans
from raregram.counts.table import Counts, compact
from raregram.models import ratios
from raregram.models.backoff import prune
from raregram.models.backoff.layers import Columns, Layer, Trace
from raregram.models.backoff.parameters import ANYWHERE, LAYERS, BackoffParameters, Spans, found_in, tempering
from raregram.models.backoff.prune import Step
from raregram.models.backoff.variance import backoff_variance, unit_variances
from raregram.models.base import BLOCK, Estimator, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LONGEST, LONGEST_SHAPES
from raregram.text.shapes import shape_function, shapes_of
from raregram.text.vocabulary import ABSENT, MISSING, Codes, build_vocabulary, encode_items

Coded: TypeAlias = tuple[npt.NDArray[Any], Index]  # keys from the boundary on, (rows, width), and their frequencies


@dataclass(frozen=True, eq=False)
class Backoff(Estimator):
    """The back-off estimator.

    After the codes of `items` follow codes for other items of a known shape, one for each of `shapes`; the last code
    is for the rest.
    """

    shapes: pa.Array  # string, distinct, in byte order
    shape_of: npt.NDArray[np.unsignedinteger[Any]]  # (2, codes) the shape next to the boundary, and elsewhere
    anywhere: Index  # (codes,) of the frequencies of each item at any position
    of_items: Layer
    of_shapes: Layer

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
        cut = prune.partitions(counts, settings, memory_limit)
        selected = [cls.fit_part(counts, settings, nearest) for nearest in cut]
        return cls.build(settings, counts.items, prune.join(selected, settings))

    @classmethod
    def fit_part(cls, counts: Counts, settings: Settings, nearest: prune.Nearest | None) -> prune.Selected:
        """Select the spans of one part of `prune.partitions`."""
        rows = prune.evidence(counts, settings, nearest)
        estimator, steps = cls.assemble(settings, counts.items, rows)
        return prune.select(rows, estimator.unit_steps() | steps, settings)

    @classmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Backoff:
        """Make an estimator from rows, without suffixes that cannot be reached from a shorter one."""
        estimator, steps = cls.assemble(settings, items, rows)
        reached = {span: step.parent != ABSENT for span, step in steps.items() if span in rows}
        if all(map(np.all, reached.values())):
            return estimator
        kept = {span: part[reached[span]] if span in reached else part for span, part in rows.items()}
        return cls.assemble(settings, items, kept)[0]

    @classmethod
    def assemble(
        cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]
    ) -> tuple[Backoff, dict[Span, Step]]:
        """Make an estimator from rows with f_nu, f_de and selected; return also the steps of all suffixes."""
        spans, side = Spans.of(settings), settings.side
        given = [rows.get(span, join_rows(span, [], columns=3)) for span in spans.all()]
        words, of_words = compact(items, [part for part in given if part.span.layer != "shape"])
        shapes, of_shapes = compact(items, [part for part in given if part.span.layer == "shape"])
        parts = [*of_words, *of_shapes]
        frequencies, index = pool(np.concatenate([part.values for part in parts]))
        own = np.split(index, np.cumsum([len(part) for part in parts])[:-1])
        coded = {part.span: (from_boundary(part.keys, side), of) for part, of in zip(parts, own, strict=True)}

        def by_code(layer: LayerName, span: Span) -> Index:
            table = np.zeros(len(shapes) + 1 + (len(words) if layer == "item" else 0), dtype=index.dtype)
            if span in coded:
                keys, of_rows = coded[span]
                table[keys[:, 0]] = of_rows
            return table

        layers = [
            Layer(name, np.stack([by_code(name, spans.unit(distance, name)) for distance in range(spans.n)]))
            for name in LAYERS
        ]
        shape_of = _shapes_of_codes(words, shapes, settings.params.shape)
        estimator = cls(settings, words, frequencies, shapes, shape_of, by_code("item", ANYWHERE), *layers)
        return estimator, estimator._grow(estimator.of_shapes, coded) | estimator._grow(estimator.of_items, coded)

    def _grow(self, layer: Layer, coded: Mapping[Span, Coded]) -> dict[Span, Step]:
        """Walk outwards: what is known of a suffix is the shorter one, the last item and, of items, their shapes."""
        p, spans, steps, size = self.settings.params, Spans.of(self.settings), {}, layer.units.shape[1]
        is_items = layer is self.of_items
        units, lam = (self.unit_logs[0], p.lam) if is_items else (self.unit_logs[1], p.unit_lam)
        log_r = np.zeros(size)
        for length in range(1, spans.longest_of(layer.name) + 1):
            span = spans.suffix(length, layer.name)
            keys, index = coded[span] if length > 1 else (np.arange(size)[:, None], layer.units[0])
            *shorter, item = columns = list(np.ascontiguousarray(keys.T, dtype=np.intp))
            parent = layer.nodes(shorter) if shorter else item
            log_r0 = log_r[parent] + units[length - 1].take(item)
            if is_items and length <= p.longest_shapes:
                node = self.of_shapes.nodes(self._shape_columns(columns))
                log_r0 += self.of_shapes.levels[length - 1].correction[node]
            r0 = ratios.from_log(log_r0)
            correction = ratios.log_on_grid(self._ridge(r0, index, lam) / r0, grid=ratios.COARSE_GRID)
            layer.append(parent, item, index, correction)
            log_r = log_r0 + correction
            if length > 1:
                steps[span] = Step(log_r0, correction, parent)
        return steps

    def _units(self) -> tuple[Floats, Floats, Floats]:
        """Return the tempered log ratios of shapes, of items at any position, and of items at a distance.

        Each is shrunk towards the one before: (n, shapes + 1), (n, codes), (n, codes).
        """
        s, p, index = self.settings, self.settings.params, self.of_items.units
        if p.longest_shapes:
            shape = self._ridge(1.0, self.of_shapes.units, p.unit_lam)
            anywhere = self._ridge(self._by_shape(shape), self.anywhere, p.lam, positions=s.n)
            here = self._ridge(anywhere, index, p.unit_lam)
        else:
            f_nu, f_de = self.frequencies.of(index)
            here = np.where(index > 0, ratios.unit(f_nu, s.n_nu, f_de, s.n_de, p.unit_lam), 1.0)
            shape, anywhere = np.ones(self.of_shapes.units.shape), np.ones(index.shape)
        powers = tempering(p.tau, s.n)
        log_shape, log_anywhere, log_here = (ratios.log_on_grid(ratio, powers) for ratio in (shape, anywhere, here))
        return log_shape, log_anywhere, log_here

    @cached_property
    def unit_logs(self) -> tuple[Floats, Floats]:
        """The tempered log ratios of all items, (n, codes), and of all shapes, (n, shapes + 1)."""
        of_shapes, _, of_items = self._units()
        return of_items, of_shapes

    def _ridge(self, r0: npt.ArrayLike, index: Index, lam: float, positions: int = 1) -> Floats:
        """Return the ridge estimates (E5) of frequencies that were counted at a number of positions."""
        p_nu = self.frequencies.f_nu / (self.settings.n_nu * positions)  # of all distinct ones, which are few
        p_de = self.frequencies.f_de / (self.settings.n_de * positions)
        return ratios.ridge(r0, p_nu[index], p_de[index], lam)

    def unit_steps(self) -> dict[Span, Step]:
        """Return the steps of units, and of items at any position."""
        spans, steps = Spans.of(self.settings), {}
        of_shape, anywhere, here = self._units()
        # The rows of items at any position act at all distances: judge them by the one in the middle.
        seen, middle = np.flatnonzero(self.anywhere), spans.n // 2
        log_r0 = self._by_shape(of_shape)[middle, seen]
        steps[ANYWHERE] = Step(log_r0, anywhere[middle, seen] - log_r0)
        here[0] += self.of_items.first  # what is nearest speaks again, as a suffix
        of_shape[0] += self.of_shapes.first
        for distance in range(spans.n):
            items, shapes = (np.flatnonzero(layer.units[distance]) for layer in (self.of_items, self.of_shapes))
            log_r0 = anywhere[distance, items]
            steps[spans.unit(distance)] = Step(log_r0, here[distance, items] - log_r0)
            steps[spans.unit(distance, "shape")] = Step(np.zeros(len(shapes)), of_shape[distance, shapes])
        return steps

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
        return [self.shape_of[min(d, 1)].take(column, mode="clip") for d, column in enumerate(columns)]

    def _by_shape(self, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the entries of a table of shapes, (n, shapes + 1), for all codes: (n, codes)."""
        return look_up(table, [self.shape_of[min(d, 1)] for d in range(len(table))])

    def encode_unknown(self, items: pa.Array) -> tuple[Codes, Codes]:
        """Return the codes of other items by their shapes."""
        pairs = list(map(shape_function(self.settings.params.shape), items.to_pylist()))
        code, rest = self._code_of_shape.get, self.num_codes - 1
        nearest, elsewhere = (np.array([code(pair[k], rest) for pair in pairs], dtype=np.int32) for k in (0, 1))
        return nearest, elsewhere

    @cached_property
    def _code_of_shape(self) -> dict[str, int]:
        """The code of other items of a shape."""
        return {name: code for code, name in enumerate(self.shapes.to_pylist(), len(self.items))}

    @property
    def uses_shapes(self) -> bool:
        """Whether items that the model does not store have codes by their shapes."""
        return bool(self.settings.params.longest_shapes and self.settings.params.shape is not None)

    @property
    def num_codes(self) -> int:
        """How many codes there are: of items, of other items by shape, and of the rest."""
        return len(self.items) + len(self.shapes) + 1

    # --- scores, terms and variance

    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context."""
        total = np.zeros(len(codes))
        for begin in range(0, len(codes), BLOCK):
            columns, block = self._columns(codes[begin : begin + BLOCK]), total[begin : begin + BLOCK]
            for logs, column in zip(self.unit_logs[0], columns, strict=True):
                block += logs.take(column, mode="clip")  # no code is out of range, and "clip" skips the check
            shapes = self._shape_columns(columns[: self.settings.params.longest_shapes])
            for level, contexts, node in chain(self.of_shapes.walk(shapes), self.of_items.walk(columns)):
                block[contexts] += level.correction.take(node, mode="clip")
        return total

    def trace(self, columns: Columns) -> tuple[Floats, Trace, Trace]:
        """Return the units of contexts, (n, contexts), and their suffixes of shapes and of items."""
        (item_logs, shape_logs), shape_columns = self.unit_logs, self._shape_columns(columns)
        shapes = self.of_shapes.trace(shape_columns, look_up(shape_logs, shape_columns))
        units = look_up(item_logs, columns)
        known = units.copy()
        known[: len(shapes.correction)] += shapes.correction
        return units, shapes, self.of_items.trace(columns, known)

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        columns, there = self._columns(codes), from_boundary(codes, self.settings.side).T != MISSING
        units, shapes, items = self.trace(columns)
        log_ratio = units.sum(axis=0) + shapes.correction.sum(axis=0) + items.correction.sum(axis=0)
        # What is not there adds no doubt.
        of_units = [np.where(there, look_up(table, columns), 0.0) for table in self._variances]
        return backoff_variance(self.settings, self.frequencies, log_ratio, (shapes, items), of_units, there)

    @cached_property
    def _variances(self) -> tuple[Floats, Floats]:
        """The variances of the units of all codes, of shapes and of items: (n, codes)."""
        shapes = self._by_shape(self.of_shapes.units)
        return unit_variances(self.settings, self.frequencies, self.of_items.units, self.unit_logs[0], shapes)

    def expected_count(self, codes: Codes) -> Floats | None:
        """Return the expected sightings of contexts that are no longer than the longest suffix."""
        lengths = (codes != MISSING).sum(axis=1)
        rows = np.flatnonzero((lengths > 0) & (lengths <= self.settings.params.longest))
        if not len(rows):
            return None
        _, _, items = self.trace(self._columns(codes[rows]))
        count = np.zeros(len(codes))
        count[rows] = self.expected(items.evidence[lengths[rows] - 1, np.arange(len(rows))])
        return count

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the units, then the suffixes of shapes and of items that the model stores."""
        s, spans, columns = self.settings, Spans.of(self.settings), self._columns(codes[None, :])
        units, *traces = self.trace(columns)
        names = list(items)
        if self.uses_shapes:
            pairs = map(shape_function(s.params.shape), items)
            names += [pair[0 if position == s.nearest else 1] for position, pair in enumerate(pairs)]
        terms = []
        for distance in sorted(range(s.n), key=spans.unit):
            own, (code,), shape = spans.unit(distance), columns[distance], self.shape_of[min(distance, 1)]
            finest = (  # what is stored of the item, or else of its shape
                ("item", own, self.of_items.units[distance, code]),
                ("anywhere", own, self.anywhere[code]),
                ("shape", spans.unit(distance, "shape"), self.of_shapes.units[distance, shape[code]]),
            )
            kind, span, index = next((found for found in finest if found[2]), ("none", own, 0))
            terms.append(self.term(span, names, int(index), float(units[distance, 0]), kind))
        for layer, trace in zip((self.of_shapes, self.of_items), traces, strict=True):
            for row in np.flatnonzero(trace.evidence[:, 0]).tolist():
                index, prior, value = (column[row, 0].item() for column in trace)
                span = spans.suffix(row + 1, layer.name)
                terms.append(self.term(span, names, index, value, f"{layer.name}s", prior))
        return terms

    # --- rows

    def rows(self) -> Iterator[ModelRows]:
        """Yield the rows of each span, sorted by their keys into `vocabulary`."""
        spans, steps, f = Spans.of(self.settings), self.unit_steps(), self.frequencies
        _, code = build_vocabulary(pa.concat_arrays([self.items, self.shapes]))
        layers = {"item": (self.of_items, code), "shape": (self.of_shapes, code[len(self.items) :])}
        keys: dict[str, npt.NDArray[Any]] = {}  # of the suffixes of the last length, from the boundary on
        for span in spans.all():
            layer, into = layers["item" if span.layer == "any" else span.layer]
            if span.width == 1:
                index = self.anywhere if span.layer == "any" else layer.units[spans.distance(span)]
                own = np.flatnonzero(index)
                yield ModelRows(span, into[own][:, None], f.columns(index[own]), steps[span].correction)
                continue
            parent, item = layer.tables[span.width - 2].pairs()
            shorter = keys[span.layer][parent] if span.width > 2 else parent[:, None]
            keys[span.layer] = np.hstack([shorter, item[:, None]])
            if len(item):
                named, (evidence, correction) = into[keys[span.layer]], layer.levels[span.width - 1]
                terms = correction[:-1].astype(np.float64)
                yield ModelRows(span, from_boundary(named, spans.side), f.columns(evidence[:-1]), terms)

    @property
    def vocabulary(self) -> pa.Array:
        """Items and shapes together, distinct and in byte order."""
        return build_vocabulary(pa.concat_arrays([self.items, self.shapes]))[0]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        parts = self.items, self.shapes, self.frequencies, self.shape_of, self.anywhere, self.of_items, self.of_shapes
        return sum(int(part.nbytes) for part in parts)

    def facts(self) -> Facts:
        """Return the parameters that `info` shows."""
        p = self.settings.params
        seed = ("seed",) if p.criterion == "random" else ()
        names = ("lam", "unit_lam", "tau", "longest", "longest_shapes", "shape")
        return {name: getattr(p, name) for name in ("criterion", "size", *seed, *names)}

    def size_facts(self) -> Facts:
        """Return how many rows there are: of single items and shapes, and of suffixes by length."""
        spans, sizes = Spans.of(self.settings), {rows.span: len(rows) for rows in self.rows()}
        units = [[sizes.get(span, 0) for span in unit_spans(spans.n, layer)] for layer in LAYERS]
        suffixes = [{str(span.width): sizes.get(span, 0) for span in spans.suffixes(layer)} for layer in LAYERS]
        facts: Facts = {"items_stored_by_position": units[0], "suffixes_stored_by_length": suffixes[0]}
        if spans.longest_shapes:
            facts["items_stored_anywhere"] = sizes[ANYWHERE]
            facts |= {"shapes_stored_by_position": units[1], "shape_suffixes_stored_by_length": suffixes[1]}
        return facts


def look_up(table: npt.NDArray[Any], columns: Columns) -> npt.NDArray[Any]:
    """Return the entries of a table, (n, codes), for the codes of contexts: (n, contexts)."""
    return np.stack([row.take(column, mode="clip") for row, column in zip(table, columns, strict=True)])


def _shapes_of_codes(words: pa.Array, shapes: pa.Array, shape: str | None) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return the shape of every code, next to the boundary and elsewhere: (2, codes)."""
    if shape is None:
        return np.zeros((2, len(words) + 1), dtype=np.uint8)
    of_words = np.stack([encode_items(names, shapes) for names in shapes_of(words, shape)])
    of_words[of_words == ABSENT] = len(shapes)
    others = np.tile(np.arange(len(shapes) + 1), (2, 1))
    return np.hstack([of_words, others]).astype(np.min_scalar_type(len(shapes)))

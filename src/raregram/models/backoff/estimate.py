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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows, from_boundary, join_rows
from raregram.counts.spans import LayerName, Span, unit_spans
from raregram.counts.table import Counts, compact
from raregram.models import ratios
from raregram.models.backoff import prune
from raregram.models.backoff.parameters import BackoffParameters, Spans, found_in, temper
from raregram.models.backoff.prune import Step
from raregram.models.backoff.suffixes import Columns, Suffixes, Trace
from raregram.models.backoff.variance import backoff_variance, unit_variances
from raregram.models.base import BLOCK, Estimator, Facts, ModelRows, Options, Parameters, Settings
from raregram.models.explain import Term
from raregram.models.frequencies import Index, pool
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LONGEST, LONGEST_SHAPES
from raregram.text.shapes import shape_function, shapes_of
from raregram.text.vocabulary import ABSENT, MISSING, Codes, build_vocabulary, encode_items


@dataclass(frozen=True, eq=False)
class Backoff(Estimator):
    """The back-off estimator.

    After the codes of `items` follow codes for other items of a known shape, one for each of `shapes`; the last code
    is for the rest.
    """

    shapes: pa.Array  # string, distinct, in byte order
    shape_codes: npt.NDArray[np.unsignedinteger[Any]]  # (2, codes) next to the boundary, and elsewhere
    anywhere: Index  # (codes,) of the frequencies of each item at any position,
    item_index: Index  # (n, codes) of those at each distance from the boundary
    shape_index: Index  # (n, shapes + 1) and of those of each shape
    item_suffixes: Suffixes
    shape_suffixes: Suffixes

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
        spans, distances = Spans.of(settings), range(settings.n)
        rows = {span: rows.get(span, join_rows(span, [], columns=3)) for span in spans.all()}
        words, of_words = compact(items, [part for span, part in rows.items() if span.layer != "shape"])
        shapes, of_shapes = compact(items, [part for span, part in rows.items() if span.layer == "shape"])
        parts = [*of_words, *of_shapes]
        frequencies, index = pool(np.concatenate([part.values for part in parts]))
        of_parts = np.split(index, np.cumsum([len(part) for part in parts])[:-1])
        coded = {
            part.span: (from_boundary(part.keys, settings.side), own)
            for part, own in zip(parts, of_parts, strict=True)
        }

        def by_code(span: Span, size: int) -> Index:
            table = np.zeros(size, dtype=index.dtype)
            if span in coded:
                keys, own = coded[span]
                table[keys[:, 0]] = own
            return table

        num_shapes, num_codes = len(shapes) + 1, len(words) + len(shapes) + 1
        estimator = cls(
            settings,
            words,
            frequencies,
            shapes,
            _shape_codes(words, shapes, settings.params.shape),
            by_code(spans.anywhere, num_codes),
            np.stack([by_code(spans.unit(distance), num_codes) for distance in distances]),
            np.stack([by_code(spans.unit(distance, "shape"), num_shapes) for distance in distances]),
            Suffixes(num_codes),
            Suffixes(num_shapes),
        )
        return estimator, estimator._grow("shape", coded) | estimator._grow("item", coded)

    def _grow(self, layer: LayerName, coded: Mapping[Span, tuple[npt.NDArray[np.int32], Index]]) -> dict[Span, Step]:
        """Walk outwards: what is known of a suffix is the shorter one, the last item and, of items, their shapes."""
        p, spans, steps = self.settings.params, Spans.of(self.settings), {}
        suffixes, units, first = self.item_suffixes, self.unit_logs[0], self.item_index[0]
        longest, lam = p.longest, p.lam
        if layer == "shape":
            suffixes, units, first = self.shape_suffixes, self.unit_logs[1], self.shape_index[0]
            longest, lam = p.longest_shapes, p.unit_lam
        log_r = np.zeros(suffixes.size)
        for length in range(1, longest + 1):
            span = spans.suffix(length, layer)
            keys, index = coded[span] if length > 1 else (np.arange(suffixes.size)[:, None], first)
            *shorter, item = columns = list(np.ascontiguousarray(keys.T, dtype=np.intp))
            parent = suffixes.nodes(shorter) if shorter else item
            log_r0 = log_r[parent] + units[length - 1].take(item)
            if layer == "item" and length <= p.longest_shapes:
                node = self.shape_suffixes.nodes(self._shape_columns(columns))
                log_r0 += self.shape_suffixes.levels[length - 1].correction[node]
            r0 = ratios.from_log(log_r0)
            correction = ratios.log_on_grid(self._ridge(r0, index, lam) / r0, grid=ratios.COARSE_GRID)
            suffixes.append(parent, item, index, correction)
            log_r = log_r0 + correction
            if length > 1:
                steps[span] = Step(log_r0, correction, parent)
        return steps

    def _unit_logs(self, distance: int) -> tuple[Floats, Floats, Floats]:
        """Return the tempered log ratios of shapes, of items at any position, and of items at a distance.

        Each is shrunk towards the one before: (shapes + 1,), (codes,), (codes,).
        """
        s, p, index = self.settings, self.settings.params, self.item_index[distance]
        power = temper(p.tau, distance)
        if not p.longest_shapes:
            f_nu, f_de = self.frequencies.of(index)
            here = ratios.log_on_grid(ratios.unit(f_nu, s.n_nu, f_de, s.n_de, p.unit_lam), power)
            return np.zeros(len(self.shapes) + 1), np.zeros(len(index)), np.where(index > 0, here, 0.0)
        shape = self._ridge(1.0, self.shape_index[distance], p.unit_lam)
        anywhere = self._ridge(shape[self._shape_of(distance)], self.anywhere, p.lam, positions=s.n)
        here = self._ridge(anywhere, index, p.unit_lam)
        of_shape, of_item, at_distance = (ratios.log_on_grid(ratio, power) for ratio in (shape, anywhere, here))
        return of_shape, of_item, at_distance

    @cached_property
    def unit_logs(self) -> tuple[Floats, Floats]:
        """The tempered log ratios of all codes, (n, codes), and of all shapes, (n, shapes + 1)."""
        logs = [self._unit_logs(distance) for distance in range(self.settings.n)]
        return np.stack([here for *_, here in logs]), np.stack([of_shape for of_shape, *_ in logs])

    def _ridge(self, r0: npt.ArrayLike, index: Index, lam: float, positions: int = 1) -> Floats:
        """Return the ridge estimates (E5) of frequencies that were counted at a number of positions."""
        p_nu = self.frequencies.f_nu / (self.settings.n_nu * positions)  # of all distinct ones, which are few
        p_de = self.frequencies.f_de / (self.settings.n_de * positions)
        return ratios.ridge(r0, p_nu[index], p_de[index], lam)

    def unit_steps(self) -> dict[Span, Step]:
        """Return the steps of units, and of items at any position."""
        n, spans, steps = self.settings.n, Spans.of(self.settings), {}
        for distance in range(n):
            of_shape, anywhere, here = self._unit_logs(distance)
            # The rows of items at any position act at all distances: judge them by the one in the middle.
            if distance == n // 2:
                seen = np.flatnonzero(self.anywhere)
                log_r0 = of_shape[self._shape_of(distance)[seen]]
                steps[spans.anywhere] = Step(log_r0, anywhere[seen] - log_r0)
            if distance == 0:  # what is nearest speaks again, as a suffix
                here, of_shape = here + self.item_suffixes.first, of_shape + self.shape_suffixes.first
            items, shapes = np.flatnonzero(self.item_index[distance]), np.flatnonzero(self.shape_index[distance])
            steps[spans.unit(distance)] = Step(anywhere[items], here[items] - anywhere[items])
            steps[spans.unit(distance, "shape")] = Step(np.zeros(len(shapes)), of_shape[shapes])
        return steps

    # --- codes

    def _columns(self, codes: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the columns of codes by distance from the boundary; negative ones are the last code.

        That is the code of items of which nothing is known, so they add nothing.
        """
        codes = np.where(codes < 0, self.num_codes - 1, codes)
        columns = list(np.ascontiguousarray(codes.T, dtype=np.intp))  # the type that NumPy indexes by
        return columns[::-1] if self.settings.side == "left" else columns

    def _shape_of(self, distance: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the shape of every code at a distance."""
        shapes: npt.NDArray[np.unsignedinteger[Any]] = self.shape_codes[min(distance, 1)]
        return shapes

    def _shape_columns(self, columns: Columns) -> list[npt.NDArray[Any]]:
        """Return the codes of the shapes of items, by distance."""
        return [self._shape_of(distance).take(column, mode="clip") for distance, column in enumerate(columns)]

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
            of_shapes = self._shape_columns(columns[: self.settings.params.longest_shapes])
            for suffixes, own in ((self.shape_suffixes, of_shapes), (self.item_suffixes, columns)):
                for level, contexts, node in suffixes.walk(own):
                    block[contexts] += level.correction.take(node, mode="clip")
        return total

    def trace(self, columns: Columns) -> tuple[Floats, Trace, Trace]:
        """Return the units of contexts, (n, contexts), and their suffixes of shapes and of items."""
        item_log, shape_log = self.unit_logs
        of_shapes = self._shape_columns(columns)
        shapes = self.shape_suffixes.trace(of_shapes, look_up(shape_log, of_shapes))
        units = look_up(item_log, columns)
        known = units.copy()
        known[: len(shapes.correction)] += shapes.correction
        return units, shapes, self.item_suffixes.trace(columns, known)

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        columns, there = self._columns(codes), from_boundary(codes, self.settings.side).T != MISSING
        units, shapes, words = self.trace(columns)
        log_ratio = units.sum(axis=0) + shapes.correction.sum(axis=0) + words.correction.sum(axis=0)
        # What is not there adds no doubt.
        of_shapes, of_items = (np.where(there, look_up(table, columns), 0.0) for table in self._variances)
        return backoff_variance(
            self.settings, self.frequencies, log_ratio, (shapes, words), (of_shapes, of_items), there
        )

    @cached_property
    def _variances(self) -> tuple[Floats, Floats]:
        """The variances of the units of all codes, of shapes and of items: (n, codes)."""
        of_code = np.stack([row[self._shape_of(distance)] for distance, row in enumerate(self.shape_index)])
        return unit_variances(self.settings, self.frequencies, self.item_index, self.unit_logs[0], of_code)

    def expected_count(self, codes: Codes) -> Floats | None:
        """Return the expected sightings of contexts that are no longer than the longest suffix."""
        lengths = (codes != MISSING).sum(axis=1)
        rows = np.flatnonzero((lengths > 0) & (lengths <= self.settings.params.longest))
        if not len(rows):
            return None
        _, _, words = self.trace(self._columns(codes[rows]))
        count = np.zeros(len(codes))
        count[rows] = self.expected(words.evidence[lengths[rows] - 1, np.arange(len(rows))])
        return count

    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the units, then the suffixes of shapes and of items that the model stores."""
        s, spans = self.settings, Spans.of(self.settings)
        columns = self._columns(codes[None, :])
        units, shapes, words = self.trace(columns)
        names = list(items)
        if self.uses_shapes:
            pairs = map(shape_function(s.params.shape), items)
            names += [pair[0 if position == s.nearest else 1] for position, pair in enumerate(pairs)]
        terms = []
        for distance in sorted(range(s.n), key=spans.unit):
            own, (code,) = spans.unit(distance), columns[distance]
            finest = (  # what is stored of the item, or else of its shape
                ("item", own, self.item_index[distance, code]),
                ("anywhere", own, self.anywhere[code]),
                ("shape", spans.unit(distance, "shape"), self.shape_index[distance, self._shape_of(distance)[code]]),
            )
            kind, span, index = next((found for found in finest if found[2]), ("none", own, 0))
            terms.append(self.term(span, names, int(index), float(units[distance, 0]), kind))
        layers: tuple[tuple[LayerName, Trace], ...] = (("shape", shapes), ("item", words))
        for layer, trace in layers:
            steps = zip(*(column[:, 0].tolist() for column in trace), strict=True)
            for length, (index, prior, value) in enumerate(steps, 1):
                if index:
                    span = spans.suffix(length, layer)
                    terms.append(self.term(span, names, index, value, f"{layer}s", prior))
        return terms

    # --- rows

    def rows(self) -> Iterator[ModelRows]:
        """Yield the rows of each span, sorted by their keys into `vocabulary`."""
        s, spans, steps = self.settings, Spans.of(self.settings), self.unit_steps()
        _, code = build_vocabulary(pa.concat_arrays([self.items, self.shapes]))
        of_layer = {"item": code, "any": code, "shape": code[len(self.items) :]}
        tables = {spans.anywhere: self.anywhere}
        for distance in range(s.n):
            tables |= {spans.unit(distance): self.item_index[distance]}
            tables |= {spans.unit(distance, "shape"): self.shape_index[distance]}
        keys: dict[str, npt.NDArray[Any]] = {}  # of the suffixes of the last length, from the boundary on
        for span in spans.all():
            if span.width == 1:
                own = np.flatnonzero(tables[span])[:, None]
                index, terms = tables[span][own[:, 0]], steps[span].correction
            else:
                suffixes = self.item_suffixes if span.layer == "item" else self.shape_suffixes
                parent, item = suffixes.tables[span.width - 2].pairs()
                shorter = keys[span.layer][parent] if span.width > 2 else parent[:, None]
                own = keys[span.layer] = np.hstack([shorter, item[:, None]])
                index, correction = suffixes.levels[span.width - 1]
                index, terms = index[:-1], correction[:-1].astype(np.float64)
            into = from_boundary(of_layer[span.layer][own], s.side)
            if len(into) or span.width == 1:
                yield ModelRows(span, into, self.frequencies.columns(index), terms)

    @property
    def vocabulary(self) -> pa.Array:
        """Items and shapes together, distinct and in byte order."""
        return build_vocabulary(pa.concat_arrays([self.items, self.shapes]))[0]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = (self.items, self.shapes, self.shape_codes, self.anywhere, self.item_index, self.shape_index)
        return sum(int(part.nbytes) for part in (*arrays, self.frequencies, self.item_suffixes, self.shape_suffixes))

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
        by_length = [{str(span.width): sizes[span] for span in spans.suffixes(layer)} for layer in layers]
        facts: Facts = {"items_stored_by_position": by_position[0], "suffixes_stored_by_length": by_length[0]}
        if self.settings.params.longest_shapes:
            facts["items_stored_anywhere"] = sizes[spans.anywhere]
            facts["shapes_stored_by_position"] = by_position[1]
            facts["shape_suffixes_stored_by_length"] = by_length[1]
        return facts


def look_up(table: Floats, columns: Columns) -> Floats:
    """Return the entries of a table, (n, codes), for the codes of contexts: (n, contexts)."""
    found = np.empty((len(columns), len(columns[0])))
    for row, column, out in zip(table, columns, found, strict=True):
        row.take(column, mode="clip", out=out)  # no code is out of range, and "clip" skips the check
    return found


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

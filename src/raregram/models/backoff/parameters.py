"""The parameters of the back-off estimator, and the spans that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from raregram.counts.spans import LayerName, Span, span_order, suffix, suffix_lengths, unit_spans
from raregram.counts.table import Counts
from raregram.errors import ParameterError, check_count, check_lam, must_be
from raregram.models.base import Facts, Options, Parameters, Settings
from raregram.models.ratios import Floats
from raregram.options import BACKOFF_LAM, LAM, SEED, SPAN_CRITERION, SPANS, UNIT_RIDGE, Option

LAYERS: tuple[LayerName, ...] = ("item", "shape")
ANYWHERE = Span("any", 0, 1)  # stands for an item at any position


@dataclass(frozen=True, kw_only=True)
class BackoffParameters(Parameters):
    """Ridges, tempering, the longest suffixes, and which spans are stored."""

    options: ClassVar[tuple[Option[Any], ...]] = (LAM, SPAN_CRITERION, SEED)

    lam: float  # the ridge of suffixes of items
    unit_lam: float  # the ridge of units, and of all shapes
    tau: float
    longest: int  # suffix of items
    longest_shapes: int  # suffix of shapes; 0: shapes are off
    shape: str | None = None  # the name of the shape function
    criterion: str = SPAN_CRITERION.default
    size: int | None = None
    seed: int = SEED.default
    keeps_seen: bool = False

    def check(self) -> None:
        """Raise `ParameterError` for a value out of its range."""
        super().check()
        for name in ("lam", "unit_lam"):
            check_lam(getattr(self, name), "fit", name)
            least, largest = BACKOFF_LAM.at_least, BACKOFF_LAM.at_most
            if not least <= getattr(self, name) <= largest:
                allowed = f"from {least:g} to {largest:g} for the back-off estimator"
                raise must_be(name, "fit", allowed, getattr(self, name))
        tau: object = self.tau
        if not isinstance(tau, int | float) or not 0 <= tau <= 1:
            raise must_be("tau", "fit", "a number from 0 to 1", self.tau)
        if not isinstance(self.shape, str | None):
            raise must_be("shape", "fit", "a string", self.shape)
        if self.size is not None:
            check_count("size", "fit", self.size)
        self.check_lengths(None)

    def check_lengths(self, n: int | None) -> None:
        """Raise `ParameterError` for suffixes that are longer than an N-gram."""
        for name in ("longest", "longest_shapes"):
            check_count(name, "fit", getattr(self, name), at_least=0, at_most=n)

    def label(self) -> str:
        """Return the parameters in a few words."""
        selected = f" {self.criterion} {self.size:,}" if self.size else ""
        return f"{selected}{super().label()}, tau {self.tau:g}"


@dataclass(frozen=True)
class Spans:
    """The spans of a back-off, by their distance from the boundary."""

    n: int
    side: str
    longest: int
    longest_shapes: int

    @classmethod
    def of(cls, settings: Settings) -> Spans:
        """Return the spans of a model."""
        return cls(settings.n, settings.side, settings.params.longest, settings.params.longest_shapes)

    def unit(self, distance: int, layer: LayerName = "item") -> Span:
        """Return the span of the item at a distance."""
        position = self.n - 1 - distance if self.side == "left" else distance
        return Span(layer, position, position + 1)

    def distance(self, span: Span) -> int:
        """Return the distance of the item of a span; undoes `unit`."""
        return self.n - 1 - span.start if self.side == "left" else span.start

    def suffix(self, length: int, layer: LayerName = "item") -> Span:
        """Return the span of the items next to the boundary."""
        return suffix(length, self.n, self.side, layer)

    def longest_of(self, layer: LayerName) -> int:
        """Return the length of the longest suffix of items, or of shapes."""
        return self.longest if layer == "item" else self.longest_shapes

    def suffixes(self, layer: LayerName = "item") -> list[Span]:
        """Return the spans of two and more items next to the boundary, shorter ones first."""
        return [self.suffix(length, layer) for length in range(2, self.longest_of(layer) + 1)]

    def all(self) -> list[Span]:
        """Return all spans."""
        found = [*unit_spans(self.n), *self.suffixes()]
        if self.longest_shapes:
            found += [*unit_spans(self.n, "shape"), *self.suffixes("shape"), ANYWHERE]
        return sorted(found, key=span_order)


HOW_TO_COUNT = f"count again with `raregram count --spans {','.join(SPANS.default)}`, the default"


def tempering(tau: float, n: int) -> Floats:
    """Return the exponents of units by their distance: (n, 1)."""
    return np.array([[tau ** np.sqrt(distance)] for distance in range(n)])


def found_in(counts: Counts, lam: float, options: Options) -> Facts:
    """Return the parameters that are found out from the counts where they are not given."""
    shapes = options["shapes"]
    if shapes not in (None, False, True):
        raise must_be("shapes", "fit", "True, False or None", shapes)
    with_shapes = shapes is None or bool(shapes)
    if with_shapes and counts.shape is None:
        raise ParameterError(
            f"the estimator 'backoff' needs shapes, and this table counts none: {HOW_TO_COUNT}, or fit without "
            "them (--no-shapes, shapes=False)"
        )
    return {
        "lam": lam,
        "unit_lam": UNIT_RIDGE * lam if options["unit_lam"] is None else options["unit_lam"],
        "longest": _longest(counts, options["longest"]),
        "longest_shapes": suffix_lengths(counts.spans, counts.n, counts.side, "shape") if with_shapes else 0,
        "shape": counts.shape if with_shapes else None,
    }


def _longest(counts: Counts, longest: int | None) -> int:
    """Return the longest suffix of items to use, which must have been counted."""
    counted = suffix_lengths(counts.spans, counts.n, counts.side)
    if longest is None:
        if counted == 1 < counts.n:
            raise ParameterError(
                f"the estimator 'backoff' needs suffixes, and this table counts none: {HOW_TO_COUNT}, or fit without "
                "them (--longest 1, longest=1)"
            )
        return counted
    check_count("longest", "fit", longest, at_least=0, at_most=counts.n)
    if longest > counted:
        raise ParameterError(
            f"suffixes of up to {longest} items are asked for, and this table counts up to {counted}: count again "
            f"with the spans 'suffixes:{longest}'"
        )
    return longest

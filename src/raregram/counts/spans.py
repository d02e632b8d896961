"""Spans of an N-gram: which items, or shapes of items, are counted together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from raregram.errors import must_be
from raregram.options import N
from raregram.text.shapes import shape_function

LayerName: TypeAlias = Literal["item", "shape", "any"]

LAYERS: tuple[LayerName, ...] = ("item", "shape", "any")


class Span(NamedTuple):
    """The items start..stop-1 of an N-gram, or their shapes; the layer "any" is for an item at any position."""

    layer: LayerName
    start: int
    stop: int

    @property
    def width(self) -> int:
        """The number of items."""
        return self.stop - self.start

    def columns(self, n: int) -> tuple[int, int]:
        """Return `start` and `end` as files store them: shapes follow the n items, and "any" follows the shapes.

        >>> Span("shape", 0, 2).columns(5)
        (5, 7)
        """
        first = LAYERS.index(self.layer) * n
        return first + self.start, first + self.stop

    @classmethod
    def from_columns(cls, start: int, end: int, n: int) -> Span:
        """Undo `columns`."""
        return cls(LAYERS[start // n], start % n, start % n + end - start)

    def describe(self) -> str:
        """Say in words where the span is."""
        return f"{'shapes of ' if self.layer == 'shape' else ''}items {self.start + 1} to {self.stop}"


def unit_spans(n: int, layer: LayerName = "item") -> list[Span]:
    """Return the spans of one item, in the order of their positions."""
    return [Span(layer, k, k + 1) for k in range(n)]


def suffix(length: int, n: int, side: str, layer: LayerName = "item") -> Span:
    """Return the span of so many items next to the boundary."""
    return Span(layer, n - length, n) if side == "left" else Span(layer, 0, length)


def span_order(span: Span) -> tuple[int, int, int]:
    """Sort key of spans: shorter ones first, items before shapes, then by position."""
    return span.width, LAYERS.index(span.layer), span.start


def tuple_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple; a string is one name."""
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def parse_spans(names: str | Iterable[str], n: int, side: str) -> list[Span]:
    """Return the spans that a list of names asks for; the units are always there.

    >>> [span.columns(4) for span in parse_spans(["suffixes:3", "whole"], n=4, side="left")]
    [(0, 1), (1, 2), (2, 3), (3, 4), (2, 4), (1, 4), (0, 4)]
    """
    N.check(n, "a count")
    found = set(unit_spans(n))
    for name in tuple_of(names):
        kind, _, length = name.partition(":")
        if kind in ("suffixes", "shapes") and length.isdecimal():
            layer: LayerName = "shape" if kind == "shapes" else "item"
            found |= {suffix(j, n, side, layer) for j in range(1, min(int(length), n) + 1)} | {*unit_spans(n, layer)}
        elif name == "whole":
            found.add(Span("item", 0, n))
        elif name != "units":
            raise must_be("spans", "a count", "made of 'units', 'suffixes:LENGTH', 'shapes:LENGTH' and 'whole'", name)
    return sorted(found, key=span_order)


def suffix_lengths(spans: Iterable[Span], n: int, side: str, layer: LayerName = "item") -> int:
    """Return up to which length all suffixes of two and more items are there; 1 if none is."""
    there = set(spans)
    return next(
        length for length in range(1, n + 1) if length == n or suffix(length + 1, n, side, layer) not in there
    )


def span_names(spans: Iterable[Span], n: int) -> str:
    """Say in words which spans there are."""
    widths: dict[str, set[int]] = {layer: set() for layer in LAYERS}
    for span in spans:
        widths[span.layer].add(span.width)
    longest = max((width for width in widths["item"] if 1 < width < n), default=0)
    names = [
        "units",
        f"suffixes to {longest}" if longest else "",
        f"shapes to {max(widths['shape'])}" if widths["shape"] else "",
        "whole N-grams" if n in widths["item"] else "",
    ]
    return ", ".join(name for name in names if name)


def shape_name(spans: Iterable[Span], kind: str, shape: str | None) -> str | None:
    """Return the name of the shape function of a count: the kind of items unless another is given."""
    if not any(span.layer == "shape" for span in spans):
        return None
    name = kind if shape is None else shape
    shape_function(name)  # raises where there is none
    return name

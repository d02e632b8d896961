"""Shapes: coarser items, to which an item that was seen rarely or never backs off.

A shape function takes an item and returns two strings: its shape next to the boundary, and its shape further away,
which has less detail. Put one of your own into `SHAPES` under a name, and count with that name.

>>> [word_shape(word)[0] for word in ("in", "Monday,", "U.S.", "(1,250)", "announced", "--")]
['in', '~Aa,', '~A..', '~9)(', '~ed', '--']
>>> word_shape("announced")[1]
'~a'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from raregram.errors import InputError, ParameterError

Shape: TypeAlias = Callable[[str], tuple[str, str]]

PARTS = re.compile(r"(\W*)(.*\w)?(.?)", re.DOTALL)  # what stands before the core, the core, what follows it
DIGIT = re.compile(r"\d")
SHORT = 4  # letters of a lower-case word that is its own shape: short words are frequent, and carry the grammar
SHORT_CASELESS = 2  # the same in scripts without capitals


def word_shape(word: str) -> tuple[str, str]:
    """Return whether a word is a number, capitals, capitalised or lower case, and the punctuation around it.

    Short lower-case words stand for themselves. Next to the boundary a longer one keeps its last two letters, which
    tell much about its part of speech.
    """
    before, core, after = PARTS.match(word).groups()  # type: ignore[union-attr]  # it matches anything
    if core is None:
        return word[:2], word[:2]
    edges = after + "(" if before else after
    if not core.isalpha() and DIGIT.search(core):
        near = far = "~9"
    elif len(core) <= (SHORT if core.islower() else SHORT_CASELESS) and core == core.lower():
        near = far = core
    elif core.isupper():
        near = far = "~A" + ("." if "." in core else "") + ("1" if len(core) == 1 else "")
    elif core[0].isupper():
        near = far = "~Aa"
    else:
        near, far = "~" + core[-2:], "~a"
    return near + edges, far + edges


def letter_shape(letter: str) -> tuple[str, str]:
    """Return whether a letter is a digit, a capital or lower case; anything else is its own shape."""
    if letter.isdigit():
        shape = "~9"
    elif letter.isalpha():
        shape = "~A" if letter.isupper() else "~a"
    else:
        shape = letter
    return shape, shape


SHAPES: dict[str, Shape] = {"words": word_shape, "letters": letter_shape}


def shape_function(name: str) -> Shape:
    """Return the shape function of a name; it checks that it returns two strings."""
    if name not in SHAPES:
        raise ParameterError(
            f"there is no shape function {name!r}, only {', '.join(SHAPES)}: "
            "put it into raregram.text.shapes.SHAPES first"
        )
    return SHAPES[name] if SHAPES[name] in (word_shape, letter_shape) else _checked(name, SHAPES[name])


def shapes_of(items: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """Return the shapes of items next to the boundary, and their shapes further away."""
    pairs = list(map(shape_function(name), items.to_pylist()))
    return pa.array([near for near, _ in pairs], pa.string()), pa.array([far for _, far in pairs], pa.string())


def _checked(name: str, function: Shape) -> Shape:
    """Return a function that checks that another one returns two strings."""

    def checked(item: str) -> tuple[str, str]:
        pair: object = function(item)
        if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str):
            return pair
        raise InputError(f"the shape function {name!r} must return two strings, not {pair!r} for {item!r}")

    return checked

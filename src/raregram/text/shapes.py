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
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import InputError, ParameterError
from raregram.text.tokenize import buffers_of, strings_at

Shape: TypeAlias = Callable[[str], tuple[str, str]]

WORD = re.compile(r"\w")
DIGIT = re.compile(r"\d")
SHORT = 4  # letters of a lower-case word that is its own shape: short words are frequent, and carry the grammar
SHORT_CASELESS = 2  # the same in scripts without capitals
REMEMBERED = 1 << 17  # shapes that are not computed again,
PREFIXES = ("", "~9", "~Aa", "~A", "~A.", "~A1", "~A.1", "~")
LONGEST_REMEMBERED = 64  # of items up to so many letters: a few that are very long could take all memory


def word_shape(word: str) -> tuple[str, str]:
    """Return whether a word is a number, capitals, capitalised or lower case, and the punctuation around it.

    Short lower-case words stand for themselves. Next to the boundary a longer one keeps its last two letters, which
    tell much about its part of speech.
    """
    begin = WORD.search(word)
    if begin is None:
        return word[:2], word[:2]
    start, end = begin.start(), len(word)
    while not WORD.match(word[end - 1]):
        end -= 1
    core = word[start:end]
    edges = word[end : end + 1] + ("(" if start else "")
    if DIGIT.search(core):
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


def shape_function(name: str, remember: bool = True) -> Shape:
    """Return the shape function of a name; it remembers its results, unless nothing of the items may be kept."""
    if name not in SHAPES:
        raise ParameterError(
            f"there is no shape function {name!r}, only {', '.join(SHAPES)}: "
            "put it into raregram.text.shapes.SHAPES first"
        )
    return _wrapped(name, SHAPES[name], remember)


def shapes_of(items: pa.Array, name: str, remember: bool = True) -> tuple[pa.Array, pa.Array]:
    """Return the shapes of items next to the boundary, and their shapes further away."""
    function = shape_function(name, remember)
    if SHAPES[name] is word_shape:
        is_ascii = pc.string_is_ascii(items)
        plain = _ascii_shapes(items.filter(is_ascii))
        others = _shapes_one_by_one(items.filter(pc.invert(is_ascii)), function)
        near, far = (pc.replace_with_mask(items, is_ascii, shapes) for shapes in plain)
        near, far = (
            pc.replace_with_mask(shapes, pc.invert(is_ascii), more)
            for shapes, more in zip((near, far), others, strict=True)
        )
        return near, far
    return _shapes_one_by_one(items, function)


def _shapes_one_by_one(items: pa.Array, function: Shape) -> tuple[pa.Array, pa.Array]:
    pairs = [function(item) for item in items.to_pylist()]
    return pa.array([near for near, _ in pairs], pa.string()), pa.array([far for _, far in pairs], pa.string())


def _ascii_shapes(words: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Do what `word_shape` does, for many words at once."""
    data, bounds = buffers_of(words)
    starts, ends = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
    is_lower, is_upper = (data >= ord("a")) & (data <= ord("z")), (data >= ord("A")) & (data <= ord("Z"))
    is_digit = (data >= ord("0")) & (data <= ord("9"))
    letters = np.flatnonzero(is_lower | is_upper | is_digit | (data == ord("_")))
    ranks = np.searchsorted(letters, starts), np.searchsorted(letters, ends)
    wordless = ranks[0] == ranks[1]
    padded = np.append(letters, 0)  # for words without letters at the end
    first, after = padded[ranks[0]], padded[ranks[1] - 1] + 1  # of the core
    first, after = np.where(wordless, starts, first), np.where(wordless, np.minimum(starts + 2, ends), after)
    size = after - first
    some_lower, some_upper, some_digit, dotted = (
        np.diff(_cumulated(flags)[np.stack([first, after])], axis=0)[0] > 0
        for flags in (is_lower, is_upper, is_digit, data == ord("."))
    )
    capitals, number = some_upper & ~some_lower, some_digit & ~wordless
    short = ~some_upper & (size <= np.where(some_lower, SHORT, SHORT_CASELESS))
    initial = np.append(is_upper, False)[first]
    # Which of PREFIXES a shape begins with; what follows is the core, its last two letters or nothing.
    kind = np.select(
        [wordless, number, short, capitals, initial], [0, 1, 0, 3 + dotted + 2 * (size == 1), 2], default=7
    )
    near_start = np.select([kind == 0, kind == 7], [first, np.maximum(after - 2, first)], default=after)
    far_start = np.where(kind == 0, first, after)
    edge = np.where(wordless, after, np.minimum(after + 1, ends))
    closing = pa.array(["", "("]).take(pa.array(((first > starts) & ~wordless).astype(np.int8)))
    shapes = (
        pc.binary_join_element_wise(
            pa.array(prefixes).take(pa.array(kind.astype(np.int8))),
            strings_at(data, start, edge - start),
            closing,
            "",
        )
        for prefixes, start in ((PREFIXES, near_start), ((*PREFIXES[:-1], "~a"), far_start))
    )
    near, far = shapes
    return near, far


def _cumulated(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    return np.append(np.zeros(1, np.int64), np.cumsum(flags))


@cache
def _wrapped(name: str, function: Shape, remember: bool) -> Shape:
    """Wrap a shape function so that it checks that it returns two strings, and remembers them."""

    def checked(item: str) -> tuple[str, str]:
        pair: object = function(item)
        if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str):
            return pair
        raise InputError(f"the shape function {name!r} must return two strings, not {pair!r} for {item!r}")

    remembered = lru_cache(maxsize=REMEMBERED)(checked)
    return (lambda item: (remembered if len(item) <= LONGEST_REMEMBERED else checked)(item)) if remember else checked

"""Labels of contexts and spans, and the targets that they make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.errors import InputError, is_unicode, must_be, name_some, shorten
from raregram.text.ngrams import as_sequence

NO_TARGET: set[Any] = {None, "", "O"}  # labels of contexts that belong to no target; O as in BIO tags
TARGET = "target"  # the name of the only target where contexts do not name it
MOST_LABELS = 1000  # that become targets without being named: a count table has a column for each


def target_names(targets: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of targets in order, each once; a string is one name."""
    given = [targets] if isinstance(targets, str) else as_sequence(targets)
    names = given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else list(given)
    for name in names:
        if not isinstance(name, str) or not is_unicode(name):
            raise must_be("targets", "a count", "names, which are strings of valid Unicode", name)
    return tuple(sorted({str(name) for name in names}))


def check_labels(labels: set[str]) -> set[str]:
    """Return labels that are all to be targets, unless they are far too many."""
    if len(labels) > MOST_LABELS:
        some = name_some(sorted(labels)[:3])
        raise InputError(
            f"there are {len(labels):,} labels, such as {some}: more than {MOST_LABELS:,} are counted only if they "
            "are named (--targets)"
        )
    return labels


def distinct_labels(labels: Sequence[Any] | npt.NDArray[Any]) -> tuple[list[set[str]], npt.NDArray[np.intp]]:
    """Return the targets that each distinct label names, and for each label its index among the distinct ones."""
    given: Any = labels.to_pylist() if isinstance(labels, pa.ChunkedArray) else as_sequence(labels)
    given = _names_of_numbers(given)
    try:
        if not isinstance(given, pa.Array) or not pa.types.is_string(given.type):
            given = given.to_pylist() if isinstance(given, pa.Array) else given
            given = pa.array(given, pa.string(), from_pandas=True)
        encoded = given.dictionary_encode(null_encoding="encode")
        distinct, codes = encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    except UnicodeEncodeError:
        raise InputError("a label is not valid Unicode") from None
    except (pa.ArrowException, TypeError):  # some are collections of names
        index: dict[Any, int] = {}
        codes = np.array([index.setdefault(_hashable(label), len(index)) for label in given], dtype=np.intp)
        distinct = list(index)
    names = [{label} if label is None or isinstance(label, str) else label for label in distinct]
    return [set(some) - NO_TARGET for some in names], codes


def _names_of_numbers(labels: Any) -> Any:
    """Return labels as strings where they are truth values or whole numbers; 0 and 1 are truth values, too."""
    array = labels if isinstance(labels, pa.Array) else None
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biu":
        array = pa.array(labels)
    elif isinstance(labels, list | tuple) and labels and all(isinstance(label, bool | Integral) for label in labels):
        array = pa.array([int(label) for label in labels])
    if array is None or not (pa.types.is_boolean(array.type) or pa.types.is_integer(array.type)):
        return labels
    numbers = array.cast(pa.int64())
    if pc.all(pc.is_in(numbers, pa.array([0, 1, None]))).as_py():
        return pa.array([TARGET if number else None for number in numbers.to_pylist()], pa.string())
    return numbers.cast(pa.string())


def _hashable(label: Any) -> Any:
    """Return a label that can be a key: collections of names become sets of names."""
    if label is None or isinstance(label, str):
        return label
    if not isinstance(label, Collection) or not all(isinstance(name, str) for name in label):
        raise InputError(f"a label must be a string, None or a collection of strings; found {shorten(label)}")
    return frozenset(label)

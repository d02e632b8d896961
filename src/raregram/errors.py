"""The exceptions of raregram: one small tree, each leaf also a standard type.

::

    RaregramError
    ├── ParameterError (ValueError)
    ├── InputError (ValueError)
    ├── FileError (OSError)
    ├── ClusterError (RuntimeError)
    └── MissingExtraError (ImportError)

What is only doubtful is a `RaregramWarning` (UserWarning).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


class RaregramError(Exception):
    """Base of every error that raregram raises on purpose."""


class ParameterError(RaregramError, ValueError):
    """An argument is out of its range or names something unknown.

    `name` is that of the parameter, and `problem` what is wrong with its value, where it is about one.
    """

    def __init__(self, message: str, name: str | None = None, problem: str = "") -> None:
        super().__init__(message)
        self.name, self.problem = name, problem


class InputError(RaregramError, ValueError):
    """The data does not say what it should; the message tells where.

    `row` is the index of the offending row in the sequence at hand, where there is one: all rows before it are fine.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class FileError(RaregramError, OSError):
    """A file is missing, truncated, altered or of another kind; the message names it."""


class ClusterError(RaregramError, RuntimeError):
    """A Spark cluster could not do the work; the message tells what it lacks."""


class MissingExtraError(RaregramError, ImportError):
    """An optional library is not installed; the message names the command that installs it."""


class RaregramWarning(UserWarning):
    """What was read may not be what was meant; the message says what was seen and what to do."""


@contextmanager
def reraise(
    path: object,
    as_: Callable[[str], RaregramError] = FileError,
    says: str = "{path}: {reason}",
    errors: tuple[type[Exception], ...] = (OSError, EOFError),
) -> Iterator[None]:
    """Turn what a library or the system says of a file into an error that names it; errors of raregram pass.

    Args:
        path: the file, or a location in it.
        as_: the class of the new error.
        says: its message; `{reason}` is the first line of the old one.
        errors: the classes that are turned into it.
    """
    try:
        yield
    except RaregramError:
        raise
    except errors as error:
        raise as_(says.format(path=path, reason=system_reason(error))) from error


def system_reason(error: Exception) -> str:
    """Return the system's own words for an error, or the first line of a library's.

    >>> system_reason(OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"))
    'No space left on device'
    """
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else (str(error).splitlines() or ["it cannot be read"])[0][:500]


def shorten(value: object, limit: int = 60) -> str:
    """Show a value in a message without flooding the terminal.

    >>> shorten("word " * 20, limit=20)
    "'word word word w..."
    """
    text = repr(value[: limit + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"  # characters that command a terminal or end a line


def printable(text: str, pattern: str = f"[{CONTROLS}]") -> str:
    r"""Return a text with escapes in place of control characters and line breaks, or of another pattern.

    >>> print(printable("a\x1b[31m\nb \u2028"))
    a\x1b[31m\x0ab \u2028
    """
    return re.sub(pattern, lambda match: "".join(map(_escape, match[0])), text)


def _escape(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 0x100 else f"\\u{ord(letter):04x}"


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: it has no lone surrogates."""
    return re.search("[\ud800-\udfff]", text) is None


def name_some(names: Iterable[str], most: int = 20) -> str:
    """List names in a message; of many, only the first.

    >>> name_some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = [name if len(name) <= 60 else name[:57] + "..." for name in names]
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def must_be(name: str, owner: str, requirement: str, value: object) -> ParameterError:
    """Return the one form of a parameter error, ready to raise.

    >>> print(must_be("lam", "fit", "a finite number >= 0", -1))
    The lam parameter of fit must be a finite number >= 0. Got -1 instead.
    """
    problem = f"must be {requirement}. Got {shorten(value, 200)} instead."
    return ParameterError(f"The {name} parameter of {owner} {problem}", name, problem)


def check_choice(name: str, owner: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless `value` is one of `choices`; the message names them all."""
    names = list(choices)
    if value not in names:
        raise must_be(name, owner, "one of " + ", ".join(repr(choice) for choice in names), value)


def check_count(name: str, owner: str, value: Any, at_least: int = 1, at_most: int | None = None) -> None:
    """Raise unless `value` is a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < at_least:
        raise must_be(name, owner, f"a whole number >= {at_least}", value)
    if at_most is not None and int(value) > at_most:
        raise must_be(name, owner, f"a whole number <= {at_most}", value)


def check_lam(value: Any, owner: str, name: str = "lam") -> None:
    """Raise unless `value` can be a ridge: finite and not negative."""
    try:
        fine = not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) < math.inf
    except OverflowError:  # a whole number of hundreds of digits
        fine = False
    if not fine:
        raise must_be(name, owner, "a finite number >= 0", value)

"""Text that is not UTF-8: the encoding that it probably has, and the command that mends it."""

from __future__ import annotations

import re
import shlex
from typing import Any

import numpy as np

from raregram.errors import InputError

MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
# Which of four bytes of plain text are zero, where there is no mark.
ZEROS = {(0, 1, 0, 1): "UTF-16LE", (1, 0, 1, 0): "UTF-16BE", (0, 1, 1, 1): "UTF-32LE", (1, 1, 1, 0): "UTF-32BE"}
SAMPLE = 1 << 10  # bytes looked at
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")  # bytes that no text in Windows-1252 has


class EncodingError(InputError):
    """A whole file is in another encoding."""


def wide_encoding(start: bytes) -> str | None:
    r"""Return the encoding of a file that takes two or four bytes for each character, by how it begins.

    >>> wide_encoding("so it begins".encode("utf-16-le")), wide_encoding("é".encode("utf-16")), wide_encoding(b"a\0b")
    ('UTF-16LE', 'UTF-16', None)
    """
    for mark, name in MARKS.items():
        if start.startswith(mark):
            return name
    if len(start) < 4 or b"\0" not in start:
        return None
    zero = (np.frombuffer(start, np.uint8, len(start) // 4 * 4) == 0).reshape(-1, 4).mean(axis=0)
    doubtful = (zero > 0.1) & (zero < 0.6)
    return None if doubtful.any() else ZEROS.get(tuple((zero > 0.5).astype(int).tolist()))


def check_encoding(stream: Any, path: str) -> None:
    """Raise if what a stream is about to give is text in two or four bytes for each character."""
    name = wide_encoding(stream.peek(SAMPLE)[:SAMPLE]) if hasattr(stream, "peek") else None
    if name is not None:
        raise EncodingError(f"{path} is {name}, not UTF-8: {_way_out(name, path)}")


def not_utf8(where: object, data: bytes, path: str) -> InputError:
    """Return the error for bytes that are not UTF-8, ready to raise."""
    hint = "" if NO_TEXT.search(data) else f", but perhaps Latin-1 (Windows-1252): {_way_out('WINDOWS-1252', path)}"
    return InputError(f"{where} is not valid UTF-8{hint}")


def _way_out(encoding: str, path: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 {shlex.quote(path)} > NEW"

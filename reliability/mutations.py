"""Ways to damage a file: blind ones for every format, and some that know the structure of text.

Tables whose columns have other types than they should are those of `tests/test_combinations.py`.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

Mutation: TypeAlias = Callable[[bytes, random.Random], bytes]

BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()]  # Python's white space: nothing lies beyond
NEAR_BLANKS = ["\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\x00", "\u00ad"]  # white space to some
DEEP = 10_000  # levels of nesting
PACKINGS = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "lz4": "lz4"}  # by the end of a file's name

HOSTILE = [
    *(blank.encode() for blank in BLANKS + NEAR_BLANKS),
    *(b"\r\n", b"\r", b"\n\n\n", b"\t\t", b",,", b'"', b"'", b"\\", b"#", b"-DOCSTART-\n", b"# newdoc\n"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\xff\xfe"),
    *(b"\\ud800", b'"\\udfff\\ud800"', b"\\u0000", b"null", b"true", b"NaN", b"-Infinity", b"1e400", b"-1", b"0.5"),
    *(str(2**power).encode() for power in (31, 32, 53, 63, 64)),
    *(b"9" * 5000, b"[" * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP, b"<LOC>", b"</LOC>", b"<a>" * 500),
    *(b"/", b"/O", b"a/", b"<REUTERS", b"<REUTERS>" * 400, b"</REUTERS>", b"<BODY>", b"&#" + b"1" * 5000 + b";"),
    *(b"&#xd800;", b"&#0;", b"&amp", b"a = [" * 2000, b"'''", b"PAR1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"),
]
VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
VALUES = [
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0.5", b"1e400", b"NaN", b"9007199254740993", b"9" * 5000),
    *(b"[" * DEEP + b"]" * DEEP, b'"\\ud800"', b'"\\u0000"', b'" "', b'["a"]', b'{"a":1}', b'"\\u2028"', b"1E+2"),
]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8]) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def change_block(data: bytes, rng: random.Random) -> bytes:
    """Move a block, repeat it, or put zeros, noise or nothing in its place."""
    first = rng.randrange(len(data) + 1)
    last = min(first + rng.choice([1, 4, 16, 256, 1024]), len(data))
    block, rest = data[first:last], data[:first] + data[last:]
    at = rng.randrange(len(rest) + 1)
    put = rng.choice([block, block * rng.choice([2, 3, 50]), bytes(len(block)), rng.randbytes(len(block)), b""])
    return rest[:at] + put + rest[at:]


def cut(data: bytes, rng: random.Random) -> bytes:
    """Leave a part of it, nothing, or next to nothing."""
    return rng.choice([data[: rng.randrange(len(data) + 1)], b"", b"\n", b"\x00", b" " * 100, b"{}", b"[]", data[:4]])


def shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    """Repeat, drop and exchange lines."""
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 2, 5])):
        here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[here : here + 1] = rng.choice([[lines[here]] * 2, [], [lines[there]]])
        lines = lines or [b""]
    return b"\n".join(lines)


def insert_hostile(data: bytes, rng: random.Random) -> bytes:
    """Put a string in that is known to trouble readers, also instead of a blank."""
    blanks = [match.start() for match in re.finditer(rb"[ \t\n]", data)]
    at = rng.choice(blanks) if blanks and rng.random() < 0.5 else rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(HOSTILE) + data[at + rng.randrange(2) :]


def replace_value(data: bytes, rng: random.Random) -> bytes:
    """Give a value of JSON or TOML another value or type."""
    values = [match.span() for match in VALUE.finditer(data)]
    if not values:
        return insert_hostile(data, rng)
    first, last = rng.choice(values)
    return data[:first] + rng.choice(VALUES) + data[last:]


def repeat_member(data: bytes, rng: random.Random) -> bytes:
    """Name a member of a JSON object twice, with the same value or another."""
    members = [match.span() for match in re.finditer(rb'"\w+": ?(?:"[^"]*"|\d+|\[[^\[\]{}]*\])', data)]
    if not members:
        return change_block(data, rng)
    first, last = rng.choice(members)
    name = data[first:last].split(b":")[0]
    return data[:first] + rng.choice([data[first:last], name + b": " + rng.choice(VALUES)]) + b", " + data[first:]


def encode_again(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("latin-1" if rng.random() < 0.2 else "utf-8", errors="replace")
    return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig"]))


def change_line_ends(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\r", b"\x0b", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8"]))


def pack(data: bytes, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


BLIND: tuple[Mutation, ...] = (flip_bits, flip_bits, change_block, change_block, cut)
TEXT: tuple[Mutation, ...] = (*BLIND, shuffle_lines, *[insert_hostile] * 3, encode_again, change_line_ends)
JSON: tuple[Mutation, ...] = (*TEXT, *[replace_value] * 3, repeat_member)


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()

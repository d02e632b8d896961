"""Ways to damage a file: blind ones for every format, and some that know the structure of text and of tables."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
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
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def move_block(data: bytes, rng: random.Random) -> bytes:
    """Cut a block out, and put it, or zeros of its length, somewhere else or nowhere."""
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    last = min(last, first + rng.choice([1, 4, 16, 256]))
    rest = data[:first] + data[last:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + rng.choice([data[first:last], bytes(last - first), b""]) + rest[at:]


def repeat_block(data: bytes, rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    block = data[first : first + rng.choice([1, 8, 64, 1024])]
    return data[:first] + block * rng.choice([2, 3, 50]) + data[first:]


def shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    """Repeat, drop and exchange lines."""
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 2, 5])):
        here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[here : here + 1] = rng.choice([[lines[here]] * 2, [], [lines[there]]])
        lines = lines or [b""]
    return b"\n".join(lines)


def add_noise(data: bytes, rng: random.Random) -> bytes:
    noise = rng.randbytes(rng.choice([1, 3, 20, 300]))
    at = rng.randrange(len(data) + 1)
    return rng.choice([noise, data[:at] + noise + data[at:], data[:at] + noise + data[at + len(noise) :]])


def insert_hostile(data: bytes, rng: random.Random) -> bytes:
    """Put a string in that is known to trouble readers, also instead of a blank."""
    token = rng.choice(HOSTILE)
    blanks = [match.start() for match in re.finditer(rb"[ \t\n]", data)]
    at = rng.choice(blanks) if blanks and rng.random() < 0.5 else rng.randrange(len(data) + 1)
    return data[:at] + token + data[at + rng.randrange(2) :]


def replace_value(data: bytes, rng: random.Random) -> bytes:
    """Give a value of JSON or TOML another value or type."""
    values = [match.span() for match in VALUE.finditer(data)]
    if not values:
        return insert_hostile(data, rng)
    first, last = rng.choice(values)
    return data[:first] + rng.choice(VALUES) + data[last:]


def repeat_member(data: bytes, rng: random.Random) -> bytes:
    """Say something twice in a JSON object, in other words or the same."""
    members = [match.span() for match in re.finditer(rb'"\w+": ?(?:"[^"]*"|\d+|\[[^\[\]{}]*\])', data)]
    if not members:
        return repeat_block(data, rng)
    first, last = rng.choice(members)
    name = data[first:last].split(b":")[0]
    twin = rng.choice([data[first:last], name + b": " + rng.choice(VALUES)])
    return data[:first] + twin + b", " + data[first:]


def encode_again(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("latin-1" if rng.random() < 0.2 else "utf-8", errors="replace")
    return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig"]))


def change_line_ends(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\r", b"\x0b", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8"]))


def empty(data: bytes, rng: random.Random) -> bytes:
    """Leave nothing, or next to nothing."""
    return rng.choice([b"", b"\n", b"\x00", b"\xef\xbb\xbf", b" " * 100, b"{}", b"[]", b"\n" * 50, data[:4]])


def pack(data: bytes, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


BLIND: tuple[Mutation, ...] = (flip_bits, flip_bits, truncate, move_block, repeat_block, add_noise, empty)
TEXT: tuple[Mutation, ...] = (*BLIND, shuffle_lines, *[insert_hostile] * 3, encode_again, change_line_ends)
JSON: tuple[Mutation, ...] = (*TEXT, *[replace_value] * 3, repeat_member)


# Tables


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def texts(rng: random.Random, size: int) -> pa.Array:
    """Return strings in one of Arrow's many forms, with or without nulls, some of them not UTF-8."""
    values: list[str | None] = [rng.choice(["a b c", "", " ", "x\u2028y z", "a\x00b c", "é ü"]) for _ in range(size)]
    if rng.random() < 0.3:
        values[rng.randrange(size)] = None
    form = rng.choice(["plain", "plain", "large", "dictionary", "view", "binary", "broken", "null"])
    if form == "null":
        return pa.nulls(size)
    if form == "broken":
        raw = [rng.choice([b"a \xff b", b"\xc3", b"fine words", b"\xed\xa0\x80 a"]) for _ in range(size)]
        return pa.Array.from_buffers(pa.string(), size, pa.array(raw, pa.binary()).buffers())
    types = {"large": pa.large_string(), "view": pa.string_view(), "binary": pa.binary()}
    array = pa.array(values, types.get(form, pa.string()))
    return array.dictionary_encode() if form == "dictionary" else array


def lists(rng: random.Random, size: int) -> pa.Array:
    """Return lists of strings, in many forms, with nulls inside and outside."""
    inside = [None] if rng.random() < 0.2 else []
    items = ["a", "b", "in", "x y", "", "\u2028", *inside]
    values: list[Any] = [[rng.choice(items) for _ in range(rng.randrange(6))] for _ in range(size)]
    if rng.random() < 0.2:
        values[rng.randrange(size)] = None
    kinds = [pa.list_(pa.string())] * 3 + [pa.large_list(pa.large_string()), pa.list_(pa.string_view())]
    kinds += [pa.list_(pa.binary()), pa.list_(pa.dictionary(pa.int32(), pa.string()))]
    return pa.array(values, rng.choice(kinds))


def spans(rng: random.Random, size: int) -> pa.Array:
    """Return spans, of which some are reversed, negative, far outside, or lack something."""
    bounds = [0, 0, 1, 1, 2, 3, -1, 2**31, 2**62, *([None] if rng.random() < 0.2 else [])]
    whole = rng.choice([pa.int64()] * 4 + [pa.float64()])
    if rng.random() < 0.6 or whole == pa.float64():
        bounds = [bound for bound in bounds if bound is None or bound < 4]

    def span() -> dict[str, Any]:
        label = rng.choice(["LOC", "PER", "O", ""])
        return {"start": rng.choice(bounds), "end": rng.choice(bounds), "label": label}

    rows = [[span() for _ in range(rng.randrange(3))] for _ in range(size)]
    struct = [("start", whole), ("end", whole), ("label", pa.string())]
    rng.shuffle(struct)
    return pa.array(rows, pa.list_(pa.struct(struct[: rng.choice([3, 3, 3, 3, 2])])))


def numbers(rng: random.Random, size: int) -> pa.Array:
    """Return frequencies: whole and not, negative, too large, as text, as dates, as nothing."""
    kind = rng.choice(["whole", "whole", "whole", "float", "text", "date", "bool", "decimal", "null", "unsigned"])
    if kind == "null":
        return pa.nulls(size, pa.int64())
    if kind == "text":
        return pa.array([rng.choice(["1", " 7 ", "1e3", "1e400", "nan", "x", "-1", "0x10"]) for _ in range(size)])
    if kind == "float":
        return pa.array([rng.choice([1.0, 0.5, float("nan"), float("inf"), 2.0**53, -0.0]) for _ in range(size)])
    large = [2**53, -1, 2**53 + 1]
    values = pa.array([rng.choice([0, 1, 5, *(large if rng.random() < 0.2 else [])]) for _ in range(size)])
    if kind in ("date", "bool"):
        return pc.bit_wise_and(values, 1).cast(pa.int32()).cast(pa.date32() if kind == "date" else pa.bool_())
    if kind == "unsigned":
        return pc.abs(values).cast(pa.uint64())
    return values.cast(pa.decimal128(38, 2)) if kind == "decimal" else values


COLUMNS: Mapping[str, Callable[[random.Random, int], pa.Array]] = {
    "items": lists, "text": texts, "spans": spans, "id": texts,
    "ngram": lambda rng, size: rng.choice([texts, texts, lists])(rng, size),
    "label": lambda rng, size: rng.choice([texts, texts, lists, numbers])(rng, size),
    "f_nu": numbers, "f_de": numbers,
}  # fmt: skip


def strange_table(names: list[str], rng: random.Random) -> bytes:
    """Return a sound Parquet file whose columns are not what they should be."""
    size = rng.choice([0, 1, 2, 5, 3000] if rng.random() < 0.05 else [1, 2, 5])
    chosen = [name for name in names if rng.random() < 0.8] or names[:1]
    if rng.random() < 0.05:
        chosen.append(rng.choice(chosen))
    table = pa.table([COLUMNS[name](rng, max(size, 1)) for name in chosen], names=chosen)[:size]
    options: dict[str, Any] = {"row_group_size": rng.choice([1, 2, 5000])}
    try:
        return parquet(table, compression=rng.choice(["none", "zstd", "snappy", "gzip"]), **options)
    except pa.ArrowException:  # not everything can be written
        return parquet(pa.table({"other": [json.dumps(chosen)]}))

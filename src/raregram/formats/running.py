"""Running text: plain, or with Stanford NER's tags in it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO, TypeAlias

import numpy as np

from raregram.corpus import (
    LONGEST_LINE,
    Documents,
    Options,
    Row,
    batches,
    make_batch,
    open_bytes,
    spans_from_offsets,
    text_lines,
)
from raregram.errors import InputError
from raregram.formats.columns import decode_tags

Spans: TypeAlias = list[tuple[int, int, str]]

ELEMENT = re.compile(r"</?([A-Za-z_]+)>")
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}


def read_text(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of plain text: the file, its lines or its paragraphs."""
    if options.split == "file" and options.cut is not None:
        return _read_in_pieces(path, options, *options.cut)
    return batches(_parsed(path, options, lambda text: (text, [])), options.batch_bytes)


def read_stanford_slash(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of text in which each item carries its tag after a slash."""
    return batches(_parsed(path, options, parse_slash), options.batch_bytes)


def read_stanford_xml(path: str, options: Options) -> Iterator[Documents]:
    """Yield the documents of text in which entities are elements."""
    return batches(_parsed(path, options, parse_xml), options.batch_bytes)


def parse_slash(text: str) -> tuple[list[str], Spans]:
    """Take tags off items.

    >>> parse_slash("in/O New/LOCATION York/LOCATION 1/2/O")
    (['in', 'New', 'York', '1/2'], [(1, 3, 'LOCATION')])
    """
    items: list[str] = []
    spans: Spans = []
    for line in text.splitlines():
        pairs = [word.rpartition("/")[::2] for word in line.split()]
        for item, tag in pairs:
            if not item or not tag:
                raise InputError(f"expected item/TAG, got {(item or '') + '/' + tag!r}")
        spans += [(len(items) + a, len(items) + b, label) for a, b, label in decode_tags(tag for _, tag in pairs)]
        items += [item for item, _ in pairs]
    return items, spans


def parse_xml(text: str) -> tuple[str, Spans]:
    """Take entity elements out of a text, and return it with the spans that they held.

    >>> parse_xml("in <LOCATION>New York</LOCATION>, he said")
    ('in New York, he said', [(1, 3, 'LOCATION')])
    """
    plain: list[str] = []
    offsets: list[tuple[int, int, str]] = []
    length, opened = 0, ("", 0)
    for part in re.split(r"(</?[A-Za-z_]+>)", text):
        element = ELEMENT.fullmatch(part)
        if element is None:
            plain.append(re.sub("|".join(ENTITIES), lambda match: ENTITIES[match[0]], part))
            length += len(plain[-1])
        elif part[1] != "/":
            if opened[0]:
                raise InputError(f"<{element[1]}> begins inside <{opened[0]}>")
            opened = (element[1], length)
        else:
            if opened[0] != element[1]:
                raise InputError(f"</{element[1]}> ends what did not begin")
            offsets.append((opened[1], length, element[1]))
            opened = ("", 0)
    if opened[0]:
        raise InputError(f"<{opened[0]}> never ends")
    joined = "".join(plain)
    return joined, spans_from_offsets(joined, offsets)


def _parsed(path: str, options: Options, parse: Callable[[str], tuple[str | list[str], Spans]]) -> Iterator[Row]:
    """Parse each text of a file; one that cannot be parsed is left to the policy."""
    for name, text, place in _texts(path, options):
        try:
            yield name, *parse(text), place
        except InputError as error:
            options.policy.bad(InputError(f"{place}: {error}"))


def _texts(path: str, options: Options) -> Iterator[tuple[str | None, str, str]]:
    """Yield (id, text, place) of each document of a file of text."""
    with open_bytes(path) as stream:
        if options.split == "file":
            text = "\n".join(line for _, line in text_lines(stream, path, options.policy))
            yield path, text, path
            return
        paragraph: list[str] = []
        first = 1
        for number, line in text_lines(stream, path, options.policy):
            first = first if paragraph else number
            if line.strip():
                paragraph.append(line)
            if paragraph and (options.split == "lines" or not line.strip()):
                yield None, "\n".join(paragraph), f"{path}, line {first}"
                paragraph = []
        if paragraph:
            yield None, "\n".join(paragraph), f"{path}, line {first}"


def _read_in_pieces(path: str, options: Options, n: int, kind: str) -> Iterator[Documents]:
    """Yield one text as pieces that overlap by n - 1 items, so that each of its N-grams is in exactly one."""
    if options.policy.on_error == "skip" and not _is_valid(path, options):
        return
    with open_bytes(path) as stream:
        overlap, begins = "", True
        for piece, ends in _cut(_decoded(stream, path, options.batch_bytes), n, kind):
            batch = make_batch([(path, overlap + piece, [], path)])
            yield replace(batch, begins=np.array([begins]), ends=np.array([ends]))
            overlap, begins = _last_items(overlap + piece, n - 1, kind), False


def _is_valid(path: str, options: Options) -> bool:
    """Whether a file is UTF-8 all through; one that is not is left to the policy."""
    try:
        with open_bytes(path) as stream:
            for _ in _decoded(stream, path, options.batch_bytes):
                pass
    except InputError as error:
        options.policy.bad(error)
        return False
    return True


def _cut(texts: Iterator[str], n: int, kind: str) -> Iterator[tuple[str, bool]]:
    """Cut running text after white space (or anywhere, for letters) into pieces of at least n items."""
    ready, waiting = "", ""
    for text in texts:
        waiting += text
        if len(waiting) > LONGEST_LINE:
            raise InputError(f"there are {LONGEST_LINE >> 20} MiB of text without white space: is this a text file?")
        cut = len(waiting) if kind == "letters" else _after_last_space(waiting)
        if len(_last_items(waiting[:cut], n, kind).split() if kind == "words" else waiting[:cut]) >= n:
            if ready:
                yield ready, False
            ready, waiting = waiting[:cut], waiting[cut:]
    yield ready + waiting, True


def _after_last_space(text: str) -> int:
    """Return the place after the last white space of a text, 0 if it has none."""
    last = text.rsplit(None, 1)
    return len(text) if text[-1:].isspace() else len(text) - len(last[-1]) if len(last) > 1 else 0


def _last_items(text: str, size: int, kind: str) -> str:
    """Return the last items of a text, as a text to which more can be added."""
    if kind == "letters":
        return text[-size:] if size else ""
    words = text.rsplit(None, size)[-size:] if size else []
    return "".join(word + " " for word in words)


def _decoded(stream: BinaryIO, path: str, size: int) -> Iterator[str]:
    """Decode a stream piece by piece; bytes that are not UTF-8 are named by their line."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    while data := stream.read(size):
        try:
            yield decoder.decode(data)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise InputError(f"{path}, line {line} is not valid UTF-8") from None
        line += data.count(b"\n")
    try:
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise InputError(f"{path}, line {line} is not valid UTF-8") from None

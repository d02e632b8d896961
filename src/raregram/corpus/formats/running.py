"""Running text: plain, or with Stanford NER's tags in it."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

from raregram.corpus.documents import (
    LARGEST_DOCUMENT,
    LONGEST_LINE,
    Location,
    Options,
    Row,
    Spans,
    buffered,
    byte_lines,
    open_bytes,
    spans_from_offsets,
    too_large,
)
from raregram.corpus.encoding import check_encoding, not_utf8
from raregram.corpus.formats.columns import decode_tags
from raregram.errors import InputError, shorten
from raregram.text.tokenize import Tokenizer

Parse: TypeAlias = Callable[[str], tuple[str | list[str], Spans | None]]

LOOKED_BACK = (1 << 12, 1 << 18, LARGEST_DOCUMENT)  # bytes in which a cut is looked for, if in fewer there is none
ELEMENT = re.compile(r"</?([A-Za-z_]+)>")
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}


def read_text(path: str, options: Options) -> Iterator[Row]:
    """Yield the documents of plain text: the file, its lines or its paragraphs."""
    if options.split == "file" and options.cut is not None:
        return _read_in_pieces(path, options, *options.cut)
    return read_parsed(path, options, lambda text: (text, None))


def parse_slash(text: str) -> tuple[list[str], Spans]:
    """Take tags off items.

    >>> parse_slash("in/O New/LOCATION York/LOCATION 1/2/O")
    (['in', 'New', 'York', '1/2'], [(1, 3, 'LOCATION')])
    """
    items: list[str] = []
    spans: Spans = []
    for line in text.split("\n"):  # other white space does not end a sentence
        pairs = tagged_words(line)
        spans += [(len(items) + a, len(items) + b, label) for a, b, label in decode_tags(tag for _, tag in pairs)]
        items += [item for item, _ in pairs]
    return items, spans


def tagged_words(text: str) -> list[tuple[str, str]]:
    """Return each item of a text with the tag behind its last slash."""
    pairs = []
    for word in text.split():
        item, _, tag = word.rpartition("/")
        if not item or not tag:
            raise InputError(f"expected item/TAG, got {shorten(item + '/' + tag)}")
        pairs.append((item, tag))
    return pairs


def parse_xml(text: str) -> tuple[str, Spans]:
    """Take entity elements out of a text, and return it with the spans that they marked.

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


def read_parsed(path: str, options: Options, parse: Parse) -> Iterator[Row]:
    """Parse each text of a file; those that are not UTF-8, or cannot be parsed, are skipped or raise."""
    name, unit = (os.fsencode(path).decode(errors="replace"), "") if options.split == "file" else (None, "line")
    with open_bytes(path) as stream:
        for first, data in _parts(byte_lines(stream, path), path, options.split):
            location = Location(path, unit, first)
            try:
                yield Row(name, *parse(data.decode()), location)
            except UnicodeDecodeError as error:
                line = first + data.count(b"\n", 0, error.start)
                options.log.skip_or_raise(not_utf8(f"{path}, line {line}", data, path))
            except InputError as error:
                options.log.skip_or_raise(InputError(f"{location}: {error}"))


def _parts(lines: Iterator[tuple[int, bytes]], path: str, split: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the first line, bytes) of the file, of each line or of each paragraph."""
    part: list[bytes] = []
    first, size = 1, 0
    for number, line in lines:
        blank = split != "file" and not line.decode(errors="replace").strip()
        if not blank:
            first = first if part else number
            part.append(line)
            size += len(line) + 1
        if size > LARGEST_DOCUMENT:
            raise too_large(Location(path, "line", first), "Where lines or paragraphs are documents, say so: --split")
        if part and (split == "lines" or blank):
            yield first, b"\n".join(part)
            part, size = [], 0
    if part or split == "file":
        yield first, b"\n".join(part)


def _read_in_pieces(path: str, options: Options, n: int, tokenizer: Tokenizer) -> Iterator[Row]:
    """Yield one text as pieces that overlap by n - 1 items, so that each of its N-grams is in exactly one."""
    if options.log.on_error == "skip":  # then a text is checked as a whole before its first piece is counted
        path = buffered(path)
        try:
            for _ in _cut(_decoded(path, options.batch_bytes), path, n, tokenizer.kind):
                pass
        except InputError as error:
            options.log.skip_or_raise(error)
            return
    yield from _pieces(path, _decoded(path, options.batch_bytes), n, tokenizer)


def read_part(path: str, start: int, part_bytes: int, options: Options) -> Iterator[Row]:
    """Yield the pieces of one part of a text, such that each N-gram of the text is in one piece of one part.

    Parts are cut at or before the multiples of `part_bytes`, of which `start` is one; where a text cannot be cut, the
    part before goes on.
    """
    assert options.cut is not None
    with open_bytes(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        first, overlap = find_cut(stream, start, *options.cut) if start else (0, "")
        ends = (find_cut(stream, at, *options.cut)[0] for at in range(start + part_bytes, size, part_bytes))
        stop = next(filter(None, ends), size)
    if first or not start:
        texts = _decoded(path, options.batch_bytes, first, stop)
        yield from _pieces(path, texts, *options.cut, overlap, begins=not first, ends=stop == size)


def find_cut(stream: BinaryIO, at: int, n: int, tokenizer: Tokenizer) -> tuple[int, str]:
    """Return the last offset up to some other at which a text can be cut, and the n - 1 items before it.

    A text can be cut after a space or the end of a line (or anywhere, for letters) behind its first n items. The
    offset is 0 where there is none.
    """
    words = tokenizer.kind == "words"
    for size in LOOKED_BACK:
        start = stream.seek(max(at - size, 0))
        data = stream.read(at - start)
        end = max(data.rfind(b" "), data.rfind(b"\n")) + 1 if words else len(data)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")  # who reads the part finds what is wrong
        text = decoder.decode(data[:end])
        if len(text.rsplit(None, n) if words else text) > n:  # what begins before these bytes does not count
            return start + end - len(decoder.getstate()[0]), _last_items(text, n - 1, tokenizer)
    return 0, ""


def _pieces(
    path: str,
    texts: Iterator[str],
    n: int,
    tokenizer: Tokenizer,
    overlap: str = "",
    begins: bool = True,
    ends: bool = True,
) -> Iterator[Row]:
    """Yield running text, of which `overlap` are the last items before it, as overlapping pieces."""
    name = os.fsencode(path).decode(errors="replace")
    for piece, is_last in _cut(texts, path, n, tokenizer.kind):
        yield Row(name, overlap + piece, None, Location(path), begins, ends and is_last)
        overlap, begins = _last_items(overlap + piece, n - 1, tokenizer), False


def _cut(texts: Iterator[str], path: str, n: int, kind: str) -> Iterator[tuple[str, bool]]:
    """Cut running text after white space (or anywhere, for letters) into pieces of at least n items."""
    ready, waiting, length, words = "", [""], 0, kind == "words"
    for text in texts:
        if words and text.isspace() and waiting[-1][-1:].isspace():
            continue  # nothing but more white space
        waiting.append(" " if words and text.isspace() else text)
        length += len(waiting[-1])
        if length > LONGEST_LINE:
            raise InputError(f"{path}: there are {LONGEST_LINE >> 20} MiB with fewer than {n} {kind}: is this text?")
        if words and not _after_last_space(waiting[-1]):
            continue  # nothing more can be cut off than before
        joined = "".join(waiting)
        cut = _after_last_space(joined) if words else len(joined)
        if len(joined[:cut].rsplit(None, n)[-n:] if words else joined[:cut]) >= n:
            if ready:
                yield ready, False
            ready, joined = joined[:cut], joined[cut:]
        waiting, length = [joined], len(joined)
    yield ready + "".join(waiting), True


def _after_last_space(text: str) -> int:
    """Return the offset after the last white space of a text, 0 if it has none."""
    return len(text) + 1 - len((text + "x").rsplit(None, 1)[-1])


def _last_items(text: str, size: int, tokenizer: Tokenizer) -> str:
    """Return the last items of a text, as a text to which more can be added."""
    if tokenizer.kind == "letters":
        return text[-size:] if size else ""
    words = tokenizer.items(text.rsplit(None, size)[-size:])[-size:] if size else []
    return "".join(word + " " for word in words)


def _decoded(path: str, size: int, start: int = 0, stop: int = sys.maxsize) -> Iterator[str]:
    """Decode a file, or a part of it, piece by piece; bytes that are not UTF-8 are named by their line."""
    decoder = codecs.getincrementaldecoder("utf-8" if start else "utf-8-sig")()
    line, data, where = 1, b"more", f" after byte {start:,}" if start else ""
    with open_bytes(path) as stream:
        if start:
            stream.seek(start)
        else:
            check_encoding(stream, path)
        while data:
            data = stream.read(min(size, stop - start))
            start += len(data)
            try:
                yield decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise not_utf8(f"{path}, line {line}{where}", data, path) from None
            line += data.count(b"\n")

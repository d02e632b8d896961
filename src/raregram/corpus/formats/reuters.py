"""Reuters-21578, financial newswire of 1987: the npm package's JSON, or the original SGML files.

An article is a document if its body has at least 20 words; identical bodies are taken once. The mark that closes an
article ("Reuter") is not part of it.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from raregram.corpus.documents import (
    BATCH_BYTES,
    LARGEST_DOCUMENT,
    Location,
    Options,
    Row,
    open_bytes,
    read_whole,
)
from raregram.errors import InputError

FEWEST_WORDS = 20
CLOSING_MARK = re.compile(r"(?:^|\s)(?:Reuter|REUTER)[\s.]*$")
ARTICLE, END_OF_ARTICLE = re.compile(r"<REUTERS\b"), "</REUTERS>"
NUMBER = re.compile(r'NEWID="(\d{1,18})"')


def read_reuters_json(path: str, options: Options) -> Iterator[Row]:
    """Yield the articles of one of the npm package's files: a JSON array of objects with `id` and `body`."""
    with open_bytes(path) as stream:
        try:
            articles = json.loads(read_whole(stream, path, LARGEST_DOCUMENT).decode("utf-8-sig"))
            # In a body lone surrogates are harmless, in an id they are not.
            found = [
                (_plain(article["id"]).encode().decode(), _plain(article.get("body") or "")) for article in articles
            ]
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InputError(
                f"{path} is not a JSON array of Reuters articles; documents of your own come one a line: "
                f"jq -c '.[]' {shlex.quote(path)} > NEW.jsonl"
            ) from None
    return _documents(found, path, options)


def read_reuters_sgml(path: str, options: Options) -> Iterator[Row]:
    """Yield the articles of one of the original files."""
    with open_bytes(path) as stream:
        yield from _documents(_sgml_articles(stream, path), path, options)


def _plain(value: Any) -> str:
    """Return a string or a number as text."""
    if not isinstance(value, str | int | float):
        raise TypeError(value)
    return str(value)


def clean_body(body: str) -> str:
    r"""Take the control characters and the closing mark off a body.

    >>> clean_body("Prices rose.\n Reuter\n\x03")
    'Prices rose.'
    """
    text = re.sub(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]", " ", body)
    return CLOSING_MARK.sub("", text).strip()


def _documents(articles: Iterable[tuple[str, str]], path: str, options: Options) -> Iterator[Row]:
    """Keep the articles that count, each body once in all files that are read together."""
    for name, body in articles:
        text = clean_body(body)
        digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
        if len(text.split()) >= FEWEST_WORDS and digest not in options.seen:
            options.seen.add(digest)
            yield Row(name, text, None, Location(f"{path}, article {name}"))


def _sgml_articles(stream: BinaryIO, path: str) -> Iterator[tuple[str, str]]:
    """Yield (number, body) of each article, reading no more than needed."""
    waiting = ""
    while data := stream.read(BATCH_BYTES):
        *articles, waiting = (waiting + data.decode("latin-1")).split(END_OF_ARTICLE)
        yield from (found for article in articles if (found := _number_and_body(article, path)))
        if len(waiting) > LARGEST_DOCUMENT:
            raise InputError(f"{path} has an article that never ends")
    if ARTICLE.search(waiting):
        raise InputError(f"{path} ends inside an article: it is cut off")


def _number_and_body(article: str, path: str) -> tuple[str, str] | None:
    """Return number and body of an article, which is given up to its end mark, if it has both.

    The marks are looked for one after the other: a pattern for all would take for ever where its end is missing.
    """
    begin = ARTICLE.search(article)
    inside = article.find(">", begin.end()) if begin else -1
    first = article.find("<BODY>", inside)
    last = article.find("</BODY>", first)
    number = NUMBER.search(article, begin.end(), inside) if begin and inside > 0 else None
    if not number or not inside < first < last:
        return None
    try:
        return number[1], html.unescape(article[first + len("<BODY>") : last])
    except ValueError:  # of thousands of digits
        raise InputError(f"{path}, article {number[1]} has a character reference that is no character") from None

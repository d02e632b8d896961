"""Reuters-21578, financial newswire of 1987: the npm package's JSON, or the original SGML files.

An article is a document if its body has at least 20 words; identical bodies are taken once. The mark that closes an
article ("Reuter") is not part of it.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from raregram.corpus import BATCH_BYTES, LONGEST_LINE, Documents, Options, Row, batches, open_bytes
from raregram.errors import InputError

FEWEST_WORDS = 20
CLOSING_MARK = re.compile(r"(?:^|\s)(?:Reuter|REUTER)[\s.]*$")
ARTICLE = re.compile(r"<REUTERS\b([^>]*)>(.*?)</REUTERS>", re.DOTALL)
NUMBER = re.compile(r'NEWID="(\d+)"')
BODY = re.compile(r"<BODY>(.*?)</BODY>", re.DOTALL)


def read_reuters_json(path: str, options: Options) -> Iterator[Documents]:
    """Yield the articles of one of the npm package's files: a JSON array of objects with `id` and `body`."""
    with open_bytes(path) as stream:
        try:
            articles = json.load(stream)
            found = [(str(article["id"]), str(article.get("body") or "")) for article in articles]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InputError(f"{path} is not a JSON array of Reuters articles") from None
    return batches(_documents(found, path, options), options.batch_bytes)


def read_reuters_sgml(path: str, options: Options) -> Iterator[Documents]:
    """Yield the articles of one of the original files."""
    with open_bytes(path) as stream:
        articles = _sgml_articles(stream, path)
        yield from batches(_documents(articles, path, options), options.batch_bytes)


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
            yield name, text, [], f"{path}, article {name}"


def _sgml_articles(stream: BinaryIO, path: str) -> Iterator[tuple[str, str]]:
    """Yield (number, body) of each article, reading no more than needed."""
    waiting = ""
    while data := stream.read(BATCH_BYTES):
        waiting += data.decode("latin-1")
        end = 0
        for match in ARTICLE.finditer(waiting):
            number, body = NUMBER.search(match[1]), BODY.search(match[2])
            if number and body:
                yield number[1], html.unescape(body[1])
            end = match.end()
        waiting = waiting[end:]
        if len(waiting) > LONGEST_LINE:
            raise InputError(f"{path} has an article that never ends")

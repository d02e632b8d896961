"""Key words in context: the concordance of one N-gram as a table, or as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from raregram.corpus.concordance import Line, concordance, sort_lines, text_before, text_behind
from raregram.corpus.documents import Options
from raregram.corpus.log import ReadingLog
from raregram.errors import printable
from raregram.measure.results import Results
from raregram.models.explain import columns_of
from raregram.options import (
    KIND,
    LINE_ORDER,
    LINES,
    LOWER,
    ON_ERROR,
    SPLIT,
    WIDTH,
    Kind,
    LineOrder,
    OnError,
    Split,
    Tokenize,
)
from raregram.text.tokenize import Tokenizer

SCHEMA = pa.schema(
    {"document": pa.string(), "position": pa.int64(), "left": pa.string(), "match": pa.string(), "right": pa.string()}
)
NARROWEST = 8  # characters of text on each side


def kwic(  # noqa: PLR0913 - every option has its name
    source: Any,
    words: str,
    top: int = LINES.default,
    *,
    width: int = WIDTH.default,
    sort: LineOrder = LINE_ORDER.default,
    kind: Kind = KIND.default,
    tokenize: Tokenize | None = None,
    lower: bool = LOWER.default,
    format: str | None = None,  # noqa: A002 - the option's name
    split: Split = SPLIT.default,
    on_error: OnError = ON_ERROR.default,
) -> Results:
    """Return where words occur in documents, with the text around them.

    Args:
        source: whatever `raregram.count` reads as documents.
        words: the words to find, one after the other.
        top: how many occurrences to return, from as many documents as possible.
        width: characters of text on each side; words are not cut.
        sort: the order: of documents, or by the words to the "left" or "right" of the match.
        kind: items are "words" or "letters".
        tokenize: "words" finds words beside punctuation, too; "whitespace" only what stands between white space.
            None: "words", unless items are letters.
        lower: take capitals for small letters.
        format: of the documents; None: recognised.
        split: what a document is in plain text.
        on_error: "stop" at a document that cannot be read, or "skip" it.

    Returns:
        A table: document, position (how many of its items stand before), left, match, right.

    >>> kwic([["so", "it", "goes"]], "it")["right"].to_pylist()
    [' goes']
    """
    LINE_ORDER.check(sort, "kwic")
    log = ReadingLog(on_error)
    options = Options(format=format, split=split, log=log)
    tokenizer = tokenizer_of(kind, tokenize, lower)
    found = concordance(source, [words], tokenizer=tokenizer, lines=top, width=width, options=options)[words]
    log.warn_skipped(stacklevel=2)
    return Results(pa.Table.from_pylist([asdict(line) for line in sort_lines(found.lines, sort)], SCHEMA))


def tokenizer_of(kind: Kind, tokenize: Tokenize | None, lower: bool) -> Tokenizer:
    """Return how texts are split: if nothing is said, at the boundaries of words, unless items are letters."""
    return Tokenizer(kind, tokenize or ("whitespace" if kind == "letters" else "words"), lower)


def aligned(lines: Sequence[Line], columns: int | None = None) -> list[tuple[str, str, str]]:
    """Return lines in three parts, text, match and text with the document, such that the matches are aligned.

    Args:
        lines: the lines.
        columns: of the terminal, into which they are to fit if they can; None: they need not.
    """
    shown = [tuple(map(printable, (line.left, line.match, line.right, line.document))) for line in lines]
    if columns is not None:
        match, document = (max((columns_of(line[part]) for line in shown), default=0) for part in (1, 3))
        width = max((columns - match - document - 2) // 2, NARROWEST)
        shown = [
            (text_before(left, len(left), width), match, text_behind(right, 0, width), document)
            for left, match, right, document in shown
        ]
    before = max((columns_of(left) for left, *_ in shown), default=0)
    behind = max((columns_of(match + right) for _, match, right, _ in shown), default=0)
    return [
        (
            " " * (before - columns_of(left)) + left,
            match,
            right + " " * (behind - columns_of(match + right)) + f"  {document}",
        )
        for left, match, right, document in shown
    ]

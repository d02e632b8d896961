"""Key words in context: where one N-gram is in documents, as a table or for a terminal; and those of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from raregram.corpus.concordance import (
    Concordance,
    Line,
    concordance,
    sample_concordances,
    sort_lines,
    text_before,
    text_behind,
)
from raregram.corpus.documents import Options, reads_once
from raregram.corpus.formats import path_names
from raregram.corpus.log import ReadingLog
from raregram.counts.count import is_frame
from raregram.counts.table import Counts
from raregram.errors import printable
from raregram.measure.results import Results
from raregram.measure.sides import Pair, count_file
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

Lines: TypeAlias = Mapping[str, tuple[Concordance, Concordance]]  # by N-gram, of both corpora of a comparison

SCHEMA = pa.schema(
    {"document": pa.string(), "position": pa.int64(), "left": pa.string(), "match": pa.string(), "right": pa.string()}
)
WORDS = Tokenizer(tokenize="words")
READING = ("format", "split", "item_column", "tag_column", "sentences")
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
        width: characters of text on each side; a word is cut only where it stands alone there.
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


@dataclass(frozen=True)
class Texts:
    """The documents of a comparison: of two corpora, or of one that is cut into samples; None where none are left."""

    corpora: tuple[Any, ...] = ()
    options: Options = field(default_factory=Options)
    tokenizer: Tokenizer = WORDS

    @classmethod
    def of(cls, corpora: Sequence[Any], counts: Counts, by: str | None, counting: Mapping[str, Any]) -> Texts:
        """Return the corpora that were counted with some options, as far as they can be read a second time."""
        reading = {name: counting[name] for name in READING if name in counting}
        log = ReadingLog(counting.get("on_error", ON_ERROR.default))
        again = tuple(corpus if reads_again(corpus) else None for corpus in corpora)
        return cls(again, Options(**reading, by=by, log=log), counts.tokenizer)


def reads_again(source: Any) -> bool:
    """Whether these are documents that can be read a second time."""
    if isinstance(source, Counts | Mapping | Iterator) or is_frame(source) or count_file(source) is not None:
        return False
    return not any(map(reads_once, path_names(source)))


def find_lines(
    texts: Texts,
    pairs: Sequence[Pair],
    ngrams: Sequence[Sequence[str]],
    *,
    lines: int = LINES.default,
    width: int = WIDTH.default,
    progress: Callable[[int], None] = lambda documents: None,
) -> list[Lines]:
    """Return the lines of N-grams in pairs of samples, each pair with N-grams of its own; nothing without texts.

    Each corpus is read once.
    """
    letters = texts.tokenizer.kind == "letters"

    def spelled(ngram: str) -> str:
        """Return the text of an N-gram: a table has spaces between its letters."""
        return ngram[::2] if letters and len(ngram) % 2 and set(ngram[1::2]) <= {" "} else ngram

    wanted, named = list(dict.fromkeys(chain.from_iterable(ngrams))), {name for pair in pairs for name in pair}
    found: list[dict[str, dict[str, Concordance]]] = []  # of each corpus, by sample
    for corpus in texts.corpora:
        log = ReadingLog(texts.options.log.on_error)
        settings: dict[str, Any] = {"options": replace(texts.options, log=log), "tokenizer": texts.tokenizer}
        settings |= {"samples": named if texts.options.by and None not in named else None, "progress": progress}
        nothing = corpus is None or not wanted
        searched = list(map(spelled, wanted))
        found.append({} if nothing else sample_concordances(corpus, searched, lines=lines, width=width, **settings))
    of_pairs = (_of_pair(found, pair, list(map(spelled, some))) for pair, some in zip(pairs, ngrams, strict=True))
    return [{ngram: of[spelled(ngram)] for ngram in some if of} for some, of in zip(ngrams, of_pairs, strict=True)]


def _of_pair(found: Sequence[Mapping[str, Mapping[str, Concordance]]], pair: Pair, ngrams: Sequence[str]) -> Lines:
    """Return the lines of two samples of one corpus, or of all samples of two."""
    if len(found) == 2:
        a, b = (list(samples.values()) for samples in found)
    else:
        samples = found[0] if found else {}
        a = [samples[name] for name in samples if name == pair[0]]
        b = [samples[name] for name in samples if name != pair[0] and pair[1] in (name, None)]
    if not a and not b:
        return {}
    return {ngram: (_sum(a, ngram), _sum(b, ngram)) for ngram in ngrams}


def _sum(samples: Iterable[Mapping[str, Concordance]], ngram: str) -> Concordance:
    return sum((sample[ngram] for sample in samples), Concordance())


def line_table(lines: tuple[Concordance, Concordance], sort: LineOrder, names: tuple[str, str]) -> pa.Table:
    """Return the lines of both corpora as one table."""
    rows = [
        {"corpus": name, **asdict(line)}
        for name, found in zip(names, lines, strict=True)
        for line in sort_lines(found.lines, sort)
    ]
    return pa.Table.from_pylist(rows, pa.schema([("corpus", pa.string()), *SCHEMA]))


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

"""Taggers: programs that find the named entities of texts.

A tagger is a class with the members of `Tagger` in a module of its own, and one line in `load_tagger`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from raregram import options
from raregram.errors import check_count

Offsets: TypeAlias = list[tuple[int, int, str]]  # (first character, after the last one, label)

PIECE_CHARACTERS = 100_000  # longer texts are tagged in pieces: taggers need memory by the length of what they get


class Tagger(Protocol):
    """Finds named entities."""

    facts: dict[str, str]  # everything that the result depends on; `pipeline` and `version` are shown to people
    labels: frozenset[str]  # all that it can find; empty if unknown
    threads: int  # how many calls of `find` may run at once

    def find(self, texts: Sequence[str]) -> list[Offsets]:
        """Return the entities of each text as spans of characters."""

    def close(self) -> None:
        """End the processes that it started."""


def load_tagger(
    name: options.Tagger = "spacy",
    pipeline: str | None = None,
    processes: int | None = None,
    batch_size: int = 64,
    stanford: str | None = None,
) -> Tagger:
    """Load a tagger; raises if it, or what it needs, is not installed. For the arguments see `tag`."""
    options.TAGGER.check(name, "tag")
    processes = _cores() if processes is None else processes
    check_count("processes", "tag", processes)
    check_count("batch_size", "tag", batch_size)
    if name == "stanford":
        from raregram.corpus.taggers.stanford import StanfordTagger

        return StanfordTagger(pipeline, processes, stanford)

    from raregram.corpus.taggers.spacy import SpacyTagger

    return SpacyTagger(pipeline, processes, batch_size)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cut_text(text: str, longest: int) -> Iterator[tuple[int, str]]:
    r"""Yield the pieces of a text and where they begin.

    >>> list(cut_text("one two\nthree four. Five", 13))
    [(0, 'one two\n'), (8, 'three four. '), (20, 'Five')]
    """
    start = 0
    while len(text) - start > longest:
        end = start + longest
        marks = ((text.rfind(mark, start + longest // 2, end), len(mark)) for mark in ("\n", ". "))
        cut = next((at + size for at, size in marks if at >= 0), None)  # after a line or a sentence,
        if cut is None:  # or else at white space, if there is any
            cut = next((at + 1 for at in range(end - 1, start, -1) if text[at].isspace()), end)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]

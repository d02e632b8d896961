"""What is noticed while documents are read and counted: those that were skipped, and what may be wrong in silence.

One log goes with the options of reading, into threads and into the tasks of Spark. What it holds adds up (`add`), and
in the end it becomes warnings of one sentence each.
"""

from __future__ import annotations

import difflib
import threading
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from raregram.errors import InputError, RaregramWarning, name_some
from raregram.options import ON_ERROR

EXAMPLES = 5  # of skipped documents
MOST_OTHERS = 1000  # labels kept beside the targets, to name some and to find similar ones
FEWEST_SAMPLED, MOST_SAMPLED = 5, 500  # spans looked at to tell whether they are offsets in characters
LOCK = threading.Lock()  # of all logs, which are written to by threads and sent to other processes
TAG_THEM = "tag them first with `raregram tag`, or give them in the field spans, entities or ner_tags"


@dataclass
class ReadingLog:
    """Stops at a document that cannot be read, or skips it and keeps count; and notes what the others lack."""

    on_error: str = ON_ERROR.default
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    documents: int = 0
    untagged: int = 0  # documents without a field of spans; an empty one is a field
    first_untagged: str = ""  # where the first of them is
    too_near: int = 0  # labelled boundaries with too few items beside them for a context
    labels: set[str] = field(default_factory=set)
    sampled: int = 0  # spans that were looked at,
    whole_words: int = 0  # those that are whole words of the text if they are taken as offsets in characters,
    width: int = 0  # and the sum of their lengths
    notes: dict[str, str] = field(default_factory=dict)  # what it is about -> a sentence

    def __post_init__(self) -> None:
        ON_ERROR.check(self.on_error, "a count")

    def skip_or_raise(self, error: InputError) -> None:
        """Raise, or note that one document was skipped."""
        if self.on_error == "stop":
            raise error
        with LOCK:
            self.skipped += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(str(error))

    def note(self, about: str, sentence: str) -> None:
        """Keep a sentence, the first one about this."""
        with LOCK:
            self.notes.setdefault(about, sentence)

    def see(self, documents: int, untagged: int = 0, first_untagged: str = "") -> None:
        """Note how many documents or contexts were read, and how many of them have no spans."""
        with LOCK:
            self.documents += documents
            self.untagged += untagged
            self.first_untagged = self.first_untagged or first_untagged

    def see_too_near(self, boundaries: int) -> None:
        """Note how many labelled boundaries are not counted, since they are too near to the end of a document."""
        with LOCK:
            self.too_near += boundaries

    def see_labels(self, labels: Iterable[str], targets: Iterable[str] | None) -> None:
        """Note labels: all that are targets, and others while they are few."""
        with LOCK:
            new = set(labels) - self.labels
            kept = new.intersection(targets or ())
            self.labels |= kept | set(sorted(new - kept)[: max(MOST_OTHERS - len(self.labels), 0)])

    def see_offsets(self, spans: int, whole_words: int, width: int) -> None:
        """Note how some spans look as offsets in characters."""
        with LOCK:
            self.sampled += spans
            self.whole_words += whole_words
            self.width += width

    def add(self, other: ReadingLog) -> None:
        """Add what was noted elsewhere."""
        self.see(other.documents, other.untagged, other.first_untagged)
        self.see_too_near(other.too_near)
        self.see_labels(other.labels, other.labels)
        self.see_offsets(other.sampled, other.whole_words, other.width)
        with LOCK:
            self.skipped += other.skipped
            self.examples = [*self.examples, *other.examples][:EXAMPLES]
            self.notes = {**other.notes, **self.notes}

    def check_read(self) -> None:
        """Raise if all documents were skipped."""
        if self.skipped and not self.documents:
            raise InputError(f"all {self.skipped:,} documents were skipped: {self.examples[0]}")

    def check_targets(self, targets: Collection[str] | None, unit: str = "document") -> None:
        """Note what the labels say about the targets that were asked for; raise if there is no span at all.

        Args:
            targets: the labels that were to be counted; None for every label there is.
            unit: what has labels, a "document" or a "context".
        """
        if self.documents and self.untagged == self.documents:
            if targets:
                advice = next(iter(self.notes.values()), TAG_THEM)  # a field that was ignored may hold them
                raise InputError(f"no document has spans, so {name_some(targets)} cannot be counted: {advice}")
            if targets is None and not self.notes:
                none = "if no targets are wanted, say so (targets=[], --targets '')"
                self.note("targets", f"no document has spans: {TAG_THEM}; {none}")
            return
        for name in sorted(set(targets or ()) - self.labels):
            known = name_some(sorted(self.labels), 10)
            has = f"the labels are {known}{_similar(name, self.labels)}" if known else "none has any label"
            self.note(f"target {name}", f"no {unit} has the label {name}: {has}")
        if self.untagged:
            self.note(
                "untagged",
                f"{self.untagged:,} of {self.documents:,} documents have no spans, e.g. {self.first_untagged}; "
                f"they count as documents without {name_some(sorted(targets or self.labels), 3) or 'any'}: "
                "tag them with `raregram tag`, or leave them out",
            )

    def warn_skipped(self, stacklevel: int = 1, unit: str = "documents") -> None:
        """Give a warning if something was skipped, with an example."""
        if self.skipped:
            sentence = f"{self.skipped:,} {unit} were skipped: {self.examples[0]}"
            warnings.warn(sentence, RaregramWarning, stacklevel=stacklevel + 1)

    def warn(self, stacklevel: int = 1) -> None:
        """Give a warning for each thing that was noted."""
        # A span of items that is taken as characters begins and ends at bounds of words in one of some twenty cases,
        # and names seldom have three items.
        nearly_all = self.whole_words >= 0.9 * max(self.sampled, FEWEST_SAMPLED)
        if nearly_all and self.width >= 3 * self.sampled:
            sentence = (
                "the spans look like offsets in characters, but were taken for offsets in items: "
                "if they are characters, rename the field to entities"
            )
            self.note("offsets", sentence)
        for sentence in self.notes.values():
            warnings.warn(sentence, RaregramWarning, stacklevel=stacklevel + 1)


def _similar(name: str, labels: Collection[str]) -> str:
    """Ask whether a similar label was meant, if there is one."""
    by_case = {label.casefold(): label for label in sorted(labels)}
    close = difflib.get_close_matches(name.casefold(), by_case, n=1)
    return f"; did you mean {by_case[close[0]]}?" if close else ""

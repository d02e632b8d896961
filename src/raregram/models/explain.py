"""Why an N-gram has its log ratio: one term a span, and a picture of them in plain text."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from raregram import drawing

BAR = 16  # character cells on each side of the zero line
EIGHTHS = "▏▎▍▌▋▊▉█"
HEADS = {
    "item": "each item by itself",
    "shape": "each item by itself; where it is rare, it is pulled towards its shape",
    "shapes": "corrected by the shapes next to the boundary: ratio before -> after",
    "items": "corrected by the items next to the boundary: ratio before -> after",
    "calibration": "calibrated by contexts that were not in the fit: ratio before -> after",
}
SUPPORT = {
    1.0: "hardly any",
    2.0: "weak",
    10.0: "moderate",
    100.0: "moderately strong",
    1e3: "strong",
    1e4: "very strong",
    1e6: "extremely strong",
}  # evidence, from which ratio on; see `Explanation.sentence`
NOTES = {"anywhere": " (anywhere)", "none": " (no evidence)"}  # beside an item that is not stored at its position

Line = tuple[str, float | None]  # what is printed, and the term that it shows


@dataclass(frozen=True)
class Term:
    """What one span of the N-gram adds to the log ratio.

    `kind` says what the frequencies are of. "item": the item at its position. In a back-off, where it is not stored:
    "anywhere", the item at any position; or else "shape", the item's shape at its position; or else "none". Then
    "shapes" and "items", suffixes next to the boundary. At the end "calibration", which is of no span.
    """

    start: int  # the span is items start..end-1, counted from 0
    end: int
    items: tuple[str, ...]
    f_nu: int | None  # None: the model does not store this span, so its frequencies are not known here
    f_de: int | None
    selected: bool
    value: float
    kind: str = "item"
    prior: float | None = None  # of a suffix: the log ratio before its frequencies, to which the value is added

    @property
    def text(self) -> str:
        """The items, fit to be printed."""
        return " ".join(visible(item) for item in self.items)

    def within(self, first: int, length: int) -> Term | None:
        """Return the part of a term in so many positions from `first` on, counted from there; None if it has none."""
        start, end = max(self.start - first, 0), min(self.end - first, length)
        if start >= end:
            return None
        skipped = start + first - self.start
        return replace(self, start=start, end=end, items=self.items[skipped : skipped + end - start])


class Row(NamedTuple):
    """A term as it is shown."""

    term: Term
    head: str  # of the terms that begin here; "" where none begin
    position: str
    text: str
    f_nu: str
    f_de: str
    value: str
    change: tuple[str, str]  # what a suffix made of the ratio before it, and the ratio after it


@dataclass(frozen=True, repr=False)
class Explanation:
    """The terms of one N-gram; they add up to its log ratio exactly. `print` draws them."""

    ngram: tuple[str, ...]
    target: str
    model: str
    log_ratio: float
    terms: tuple[Term, ...]
    interval: tuple[float, float] | None = None  # of 95 %, where the estimator has one
    conditions: tuple[str, str] = ("here", "elsewhere")  # see `Settings.conditions`

    @property
    def ratio(self) -> float:
        """The likelihood ratio itself."""
        return _exp(self.log_ratio)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON."""
        return {**asdict(self), "ratio": self.ratio, "sentence": self.sentence()}

    def sentence(self) -> str:
        """Say in plain words what the ratio means.

        The verbal scale is that of the European Network of Forensic Science Institutes (ENFSI guideline for
        evaluative reporting, 2015).
        """
        if math.isnan(self.log_ratio):
            return "There is no evidence: nothing is known about this N-gram."
        sign = 1 if self.log_ratio >= 0 else -1
        more, less = self.conditions[::sign]
        strength = _exp(sign * self.log_ratio)
        if math.isinf(strength) and self.terms and not any(term.f_nu or term.f_de for term in self.terms):
            return f"Never seen {visible(less)}; this estimator takes what it never saw at all for impossible there."
        if math.isinf(strength):
            return f"Only seen {visible(more)}."
        ends = sorted(_exp(sign * end) for end in self.interval or ())
        reach = f" (95 % interval: {' to '.join(map(show_ratio, ends))})" if ends else ""
        words = next(words for least, words in reversed(SUPPORT.items()) if strength >= least)
        verdict = f"{words} evidence {'for' if sign > 0 else 'against'} {visible(self.target)}"
        verdict = verdict if strength >= 2 else f"{words} evidence"
        return f"{show_ratio(strength)} times as likely {visible(more)} as {visible(less)}{reach}: {verdict}."

    def headline(self) -> str:
        """Say the result in a line."""
        if math.isnan(self.log_ratio):
            return f"{visible(self.target)}: no evidence, the model does not hold this N-gram  ({self.model})"
        reach = "" if self.interval is None else f", 95 % from {self.interval[0]:+.2f} to {self.interval[1]:+.2f}"
        result = f"log ratio {self.log_ratio:+.2f}{reach}, ratio {show_ratio(self.ratio)}"
        return f"{visible(self.target)}: {result}  ({self.model})"

    def longest(self) -> Term | None:
        """Return the longest suffix with evidence that a back-off went to."""
        return max(
            (term for term in self.terms if term.kind == "items"), key=lambda term: len(term.items), default=None
        )

    def lines(self) -> list[Line]:
        """Return a line of column heads, then a line for each term, with the term beside it.

        Those of a back-off have heads between them, and a line that names the longest suffix. The last line says in
        plain words what it all means.
        """
        rows, scale = list(self._rows()), self._scale()
        text_width = max(columns_of(row.text) for row in rows)
        count_width = max(4, *(len(f) for row in rows for f in (row.f_nu, row.f_de)))
        before, after = (
            max(len(change) for change in column) for column in zip(*(row.change for row in rows), strict=True)
        )
        ratio = f"  {'ratio':^{before + 4 + after}}" if before else ""
        head = f"{'':>5}  {'':<{text_width}}  {'f_nu':>{count_width}}  {'f_de':>{count_width}}  {'term':>8}{ratio}"
        lines: list[Line] = [(head.rstrip(), None)]
        for row in rows:
            lines += [(row.head, None)] if row.head else []
            text = row.text + " " * (text_width - columns_of(row.text))
            arrow = " -> " if row.change[0] else "    "
            change = f"  {row.change[0]:>{before}}{arrow}{row.change[1]:<{after}}" if before else ""
            counts = f"{row.f_nu:>{count_width}}  {row.f_de:>{count_width}}"
            line = f"{row.position:>5}  {text}  {counts}  {row.value:>8}{change}  {_bar(row.term.value / scale)}"
            lines.append((line.rstrip(), row.term.value))
        if {term.kind for term in self.terms} - {"item", "calibration"}:
            longest = self.longest()
            lines.append((f"longest suffix with evidence: {'none' if longest is None else longest.text}", None))
        return [*lines, (self.sentence(), None)]

    def _repr_html_(self) -> str:
        """Draw the same in a notebook."""
        lines: list[drawing.Bar | str] = []
        for row in self._rows():
            lines += [row.head] if row.head else []
            shown = (row.position, row.text, row.f_nu, row.f_de, row.value, " -> ".join(filter(None, row.change)))
            lines.append(drawing.Bar(*shown, share=row.term.value / self._scale(), counts=row.term.selected))
        return drawing.bars(self.headline(), lines)

    def _rows(self) -> Iterator[Row]:
        """Yield the terms as they are shown; those of a back-off with heads between them."""
        kinds, last = {term.kind for term in self.terms}, ""
        for term in self.terms:
            section = term.kind
            if term.prior is None:
                section = "shape" if kinds & {"anywhere", "shape", "shapes"} else "item"
            head, last = HEADS[section] if section != last and kinds != {"item"} else "", section
            position = f"{term.start + 1}" if len(term.items) == 1 else f"{term.start + 1}-{term.end}"
            f_nu, f_de = ("-" if f is None else f"{f:,}" for f in (term.f_nu, term.f_de))
            if term.kind == "calibration":
                position = f_nu = f_de = ""
            value = "·" if not term.selected and term.value == 0 else f"{term.value:+.2f}"
            change = ("", "")
            if term.prior is not None:
                change = show_ratio(_exp(term.prior)), show_ratio(_exp(term.prior + term.value))
            yield Row(term, head, position, self._text(term), f_nu, f_de, value, change)

    def _scale(self) -> float:
        """Return the largest finite term."""
        return max((abs(term.value) for term in self.terms if math.isfinite(term.value)), default=0) or 1.0

    def _text(self, term: Term) -> str:
        """Show the items of a term; beside an item that is not stored at its position, what stands for it."""
        if term.prior is not None or term.kind == "item":
            return term.text
        item = visible(self.ngram[term.start])
        if term.kind == "shape":
            return item if term.text == item else f"{item} (as {term.text})"
        return item + NOTES[term.kind]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Draw a bar for each term, to the right if it speaks for the target."""
        return "\n".join([self.headline(), *(line for line, _ in self.lines())])


def calibration_term(before: float, after: float) -> Term:
    """Return the term that calibration adds to a log ratio."""
    return Term(0, 0, (), None, None, selected=True, value=after - before, kind="calibration", prior=before)


def visible(item: str) -> str:
    """Show an item so that it can neither vanish nor command the terminal."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in item)
    return shown if shown.strip() else "␣" * len(shown)


def show_ratio(ratio: float) -> str:
    """Return a ratio with the digits that say something.

    >>> [show_ratio(ratio) for ratio in (16521.3, 160.4, 3.16, 0.0412)]
    ['16,500', '160', '3.16', '0.0412']
    """
    return f"{float(f'{ratio:.3g}'):,.0f}" if 1000 <= ratio < 1e15 else f"{ratio:.3g}"


def _exp(log_ratio: float) -> float:
    return math.exp(log_ratio) if not log_ratio > 709 else math.inf


def _bar(share: float) -> str:
    """Draw a signed bar around a zero line, in eighths of a character to the right, in halves to the left."""
    length = min(abs(share), 1.0) * BAR if not math.isnan(share) else 0.0
    if share < 0:
        full, half = int(length), length - int(length) >= 0.5
        return f"{('▐' if half else '') + '█' * full:>{BAR}}│"
    full, eighths = int(length), round((length - int(length)) * 8)
    return " " * BAR + "│" + "█" * full + (EIGHTHS[eighths - 1] if eighths else "")


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_letter_columns(letter) for letter in text)


def _letter_columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1

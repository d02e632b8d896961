"""Why an N-gram has its log ratio: one term a span, and a picture of them in plain text."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import asdict, dataclass, replace
from typing import Any

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
        texts = [self._text(term) for term in self.terms]
        text_width = max(map(columns_of, texts))
        count_width = max(4, *(len(f) for term in self.terms for f in _counts(term)))
        (changes, ratio), heads, scale = _changes(self.terms), self._heads(), self._scale()
        head = f"{'':>5}  {'':<{text_width}}  {'f_nu':>{count_width}}  {'f_de':>{count_width}}  {'term':>8}{ratio}"
        lines: list[Line] = [(head.rstrip(), None)]
        for row, (term, text, change) in enumerate(zip(self.terms, texts, changes, strict=True)):
            lines += [(heads[row], None)] if row in heads else []
            padding = " " * (text_width - columns_of(text))
            f_nu, f_de = (f"{f:>{count_width}}" for f in _counts(term))
            bar = _bar(term.value / scale)
            line = f"{_position(term):>5}  {text}{padding}  {f_nu}  {f_de}  {_value(term):>8}{change}  {bar}"
            lines.append((line.rstrip(), term.value))
        if {term.kind for term in self.terms} - {"item", "calibration"}:
            longest = self.longest()
            lines.append((f"longest suffix with evidence: {'none' if longest is None else longest.text}", None))
        return [*lines, (self.sentence(), None)]

    def _repr_html_(self) -> str:
        """Draw the same in a notebook."""
        (changes, _), heads, scale = _changes(self.terms), self._heads(), self._scale()
        lines: list[drawing.Bar | str] = []
        for row, (term, change) in enumerate(zip(self.terms, changes, strict=True)):
            lines += [heads[row]] if row in heads else []
            shown = (_position(term), self._text(term), *_counts(term), _value(term), " ".join(change.split()))
            lines.append(drawing.Bar(*shown, share=term.value / scale, counts=term.selected))
        return drawing.bars(self.headline(), lines)

    def _heads(self) -> dict[int, str]:
        """Return the heads between the terms of a back-off, by the index of the next term."""
        kinds = {term.kind for term in self.terms}
        sections = [_section(term, kinds) for term in self.terms]
        first = [row for row, name in enumerate(sections) if row == 0 or name != sections[row - 1]]
        return {row: HEADS[sections[row]] for row in first} if kinds != {"item"} else {}

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


def _position(term: Term) -> str:
    if term.kind == "calibration":
        return ""
    return f"{term.start + 1}" if len(term.items) == 1 else f"{term.start + 1}-{term.end}"


def _section(term: Term, kinds: set[str]) -> str:
    """Return under which head a term of a back-off stands."""
    if term.prior is not None:
        return term.kind
    return "shape" if kinds & {"anywhere", "shape", "shapes"} else "item"


def _changes(terms: tuple[Term, ...]) -> tuple[list[str], str]:
    """Say what each suffix made of the ratio before it, as a column with a head; without suffixes it has no width."""
    pairs = [
        ("", "", "")
        if term.prior is None
        else (show_ratio(_exp(term.prior)), " -> ", show_ratio(_exp(term.prior + term.value)))
        for term in terms
    ]
    before, arrow, after = (max(len(pair[part]) for pair in pairs) for part in range(3))
    if not arrow:
        return [""] * len(terms), ""
    shown = [f"  {pair[0]:>{before}}{pair[1]:<{arrow}}{pair[2]:<{after}}" for pair in pairs]
    return shown, f"  {'ratio':^{before + arrow + after}}"


def show_ratio(ratio: float) -> str:
    """Return a ratio with the digits that say something.

    >>> [show_ratio(ratio) for ratio in (16521.3, 160.4, 3.16, 0.0412)]
    ['16,500', '160', '3.16', '0.0412']
    """
    return f"{float(f'{ratio:.3g}'):,.0f}" if 1000 <= ratio < 1e15 else f"{ratio:.3g}"


def _exp(log_ratio: float) -> float:
    return math.exp(log_ratio) if not log_ratio > 709 else math.inf


def _value(term: Term) -> str:
    return "·" if not term.selected and term.value == 0 else f"{term.value:+.2f}"


def _counts(term: Term) -> tuple[str, str]:
    """Show both frequencies; a calibration has none."""
    if term.kind == "calibration":
        return "", ""
    return "-" if term.f_nu is None else f"{term.f_nu:,}", "-" if term.f_de is None else f"{term.f_de:,}"


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

"""Why an N-gram has its log ratio: one term a span, and a picture of them in plain text."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import asdict, dataclass
from typing import Any

BAR = 16  # character cells on each side of the zero line
EIGHTHS = "▏▎▍▌▋▊▉█"
HEADS = {"shapes": "corrected by the shapes next to the boundary", "items": "corrected by the items next to the boundary"}


@dataclass(frozen=True)
class Term:
    """What one span of the N-gram adds to the log ratio."""

    start: int  # the span is items start..end-1, counted from 0
    end: int
    items: tuple[str, ...]
    f_nu: int | None  # None: the model does not hold this span, so its frequencies are not known here
    f_de: int | None
    selected: bool
    value: float
    kind: str = "item"  # or "shape" where only that was seen; "shapes" and "items" for the suffixes of a back-off
    prior: float | None = None  # of a suffix: the log ratio before its frequencies, to which the value is added

    @property
    def text(self) -> str:
        """The items, fit to be printed."""
        return " ".join(printable(item) for item in self.items)


@dataclass(frozen=True)
class Explanation:
    """The terms of one N-gram; they add up to its log ratio exactly. `print` draws them."""

    ngram: tuple[str, ...]
    target: str
    model: str
    log_ratio: float
    terms: tuple[Term, ...]
    interval: tuple[float, float] | None = None  # of 95 %, where the estimator has one

    @property
    def ratio(self) -> float:
        """The likelihood ratio itself."""
        return math.exp(self.log_ratio) if not self.log_ratio > 709 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def headline(self) -> str:
        """Say the result in a line."""
        if math.isnan(self.log_ratio):
            return f"{self.target}: no evidence, the model does not hold this N-gram  ({self.model})"
        reach = "" if self.interval is None else f", 95 % from {self.interval[0]:+.2f} to {self.interval[1]:+.2f}"
        return f"{self.target}: log ratio {self.log_ratio:+.4f}{reach}, ratio {self.ratio:.4g}  ({self.model})"

    def longest(self) -> Term | None:
        """Return the longest suffix with evidence that a back-off went to."""
        return max((term for term in self.terms if term.kind == "items"), key=lambda term: len(term.items), default=None)

    def lines(self) -> list[str]:
        """Return a line of column heads, then a line for each term."""
        texts = [term.text for term in self.terms]
        counts = [(_count(term.f_nu), _count(term.f_de)) for term in self.terms]
        text_width = max(map(_columns, texts))
        count_width = max(4, *(len(shown) for pair in counts for shown in pair))
        scale = max((abs(term.value) for term in self.terms if math.isfinite(term.value)), default=0) or 1.0
        lines = [f"{'':>5}  {'':<{text_width}}  {'f_nu':>{count_width}}  {'f_de':>{count_width}}  {'term':>8}"]
        kind = self.terms[0].kind
        for term, text, (f_nu, f_de) in zip(self.terms, texts, counts, strict=True):
            if term.kind != kind and term.kind in HEADS:
                lines.append(HEADS[term.kind])
            kind = term.kind
            lines.append(
                f"{_place(term):>5}  {text}{' ' * (text_width - _columns(text))}  {f_nu:>{count_width}}  "
                f"{f_de:>{count_width}}  {_value(term):>8}  {_bar(term.value / scale)}{_result(term)}".rstrip()
            )
        longest = self.longest()
        if longest is not None:
            lines.append(f"longest suffix with evidence: {longest.text}")
        return lines

    def __str__(self) -> str:
        """Draw a bar for each term, to the right if it speaks for the target."""
        return "\n".join([self.headline(), *self.lines()])


def printable(item: str) -> str:
    """Show an item so that it can neither vanish nor command the terminal."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in item)
    return shown if shown.strip() else "␣" * len(shown)


def _place(term: Term) -> str:
    return f"{term.start + 1}" if len(term.items) == 1 else f"{term.start + 1}-{term.end}"


def _result(term: Term) -> str:
    """Say what a suffix made of the estimate before it."""
    if term.prior is None:
        return "  (its shape)" if term.kind == "shape" else ""
    return f"  {math.exp(term.prior):.3g} -> {math.exp(term.prior + term.value):.3g}"


def _value(term: Term) -> str:
    return "·" if not term.selected and term.value == 0 else f"{term.value:+.4f}"


def _count(f: int | None) -> str:
    return "-" if f is None else f"{f:,}"


def _bar(share: float) -> str:
    """Draw a signed bar around a zero line, in eighths of a character to the right, in halves to the left."""
    length = min(abs(share), 1.0) * BAR if not math.isnan(share) else 0.0
    if share < 0:
        full, half = int(length), length - int(length) >= 0.5
        return f"{('▐' if half else '') + '█' * full:>{BAR}}│"
    full, eighths = int(length), round((length - int(length)) * 8)
    return " " * BAR + "│" + "█" * full + (EIGHTHS[eighths - 1] if eighths else "")


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_letter_columns(letter) for letter in text)


def _letter_columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1

"""Progress of long work on standard error, after the first two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

DELAY = 2.0  # seconds before the first line
BAR = 20  # characters
TERMINAL_EVERY, LOG_EVERY = 0.2, 10.0  # seconds between updates on a terminal, and between lines in a log


class Progress:
    """Counts what is done and prints it now and then."""

    def __init__(self, form: str, quiet: bool, total: int | None) -> None:
        self.form, self.quiet, self.total = form, quiet, total
        self.done, self.start = 0, time.monotonic()
        self.next, self.line_is_open = self.start + DELAY, False

    def __call__(self, more: int) -> None:
        """Add `more` to what is done."""
        self.done += more
        now = time.monotonic()
        if self.quiet or now < self.next:
            return
        terminal = sys.stderr.isatty()
        line = self._line(now - self.start)
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
        self.next, self.line_is_open = now + (TERMINAL_EVERY if terminal else LOG_EVERY), terminal

    def _line(self, seconds: float) -> str:
        """Return how much is done, how fast, and how long the rest will take."""
        rate = self.done / seconds
        line = self.form.format(self.done) + (f" ({rate:,.0f}/s)" if rate >= 1 else "")
        if not self.total:
            return line
        share = min(self.done / self.total, 1.0)
        left = max(self.total - self.done, 0) / rate if rate else 0.0
        bar = "█" * int(share * BAR) + "░" * (BAR - int(share * BAR))
        return f"{line} {bar} {share:.0%}, {int(left // 60)}:{int(left % 60):02d} left "


@contextmanager
def progress(form: str, quiet: bool = False, total: int | None = None) -> Iterator[Progress]:
    """Give a function to call with the number of things done.

    Args:
        form: how the number is shown, such as "counted {:,} documents".
        quiet: whether to print nothing.
        total: how many there will be; None if that is not known.
    """
    state = Progress(form, quiet, total)
    try:
        yield state
    finally:
        if state.line_is_open:
            print(file=sys.stderr)

"""Progress of long work, on standard error: silent for the first two seconds, and where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before the first word
BAR = 20  # characters
TERMINAL_EVERY, LOG_EVERY = 0.2, 10.0  # seconds between words on a terminal, and in a log


class Progress:
    """Counts what is done and says so now and then."""

    def __init__(self, what: str, quiet: bool, total: int | None) -> None:
        self.what, self.quiet, self.total = what, quiet, total
        self.done, self.start = 0, time.monotonic()
        self.next, self.spoke = self.start + PATIENCE, False

    def __call__(self, more: int) -> None:
        """Report that `more` are done."""
        self.done += more
        now = time.monotonic()
        if self.quiet or now < self.next:
            return
        terminal = sys.stderr.isatty()
        line = self._line(now - self.start)
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
        self.next, self.spoke = now + (TERMINAL_EVERY if terminal else LOG_EVERY), terminal

    def _line(self, seconds: float) -> str:
        """Say how much is done, how fast, and when the rest will be."""
        rate = self.done / seconds
        said = f"{self.what}: {self.done:,}" + (f" ({rate:,.0f} a second)" if rate >= 1 else "")
        if not self.total:
            return said
        share = min(self.done / self.total, 1.0)
        left = max(self.total - self.done, 0) / rate if rate else 0.0
        bar = "█" * int(share * BAR) + "░" * (BAR - int(share * BAR))
        return f"{said} {bar} {share:.0%}, {int(left // 60)}:{int(left % 60):02d} left "

    def close(self) -> None:
        """End the line that was being written over."""
        if self.spoke:
            print(file=sys.stderr)


@contextmanager
def progress(what: str, quiet: bool = False, total: int | None = None) -> Iterator[Progress]:
    """Give something to call with the number of things done; `what` names them, `total` is how many there will be."""
    state = Progress(what, quiet, total)
    try:
        yield state
    finally:
        state.close()

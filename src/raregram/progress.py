"""Progress of long work, on standard error: silent for the first two seconds, and where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before the first word
TERMINAL_EVERY, LOG_EVERY = 0.2, 10.0  # seconds between words on a terminal, and in a log


class Progress:
    """Counts what is done and says so now and then."""

    def __init__(self, what: str, quiet: bool) -> None:
        self.what, self.quiet = what, quiet
        self.done, self.start = 0, time.monotonic()
        self.next, self.spoke = self.start + PATIENCE, False

    def __call__(self, more: int) -> None:
        """Report that `more` are done."""
        self.done += more
        now = time.monotonic()
        if self.quiet or now < self.next:
            return
        terminal = sys.stderr.isatty()
        rate = self.done / (now - self.start)
        line = f"{self.what}: {self.done:,} ({rate:,.0f} a second)"
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
        self.next, self.spoke = now + (TERMINAL_EVERY if terminal else LOG_EVERY), terminal

    def close(self) -> None:
        """End the line that was being written over."""
        if self.spoke:
            print(file=sys.stderr)


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Progress]:
    """Give something to call with the number of things done; `what` names them."""
    state = Progress(what, quiet)
    try:
        yield state
    finally:
        state.close()

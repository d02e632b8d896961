"""Progress of long work on standard error, after two seconds: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

DELAY, TERMINAL_EVERY, LOG_EVERY = 2.0, 0.2, 10.0  # seconds: before the first line, between updates, between lines


class Progress:
    """Counts what is done; `form` shows the number, such as "counted {:,} documents"."""

    def __init__(self, form: str, quiet: bool = False, total: int | None = None) -> None:
        self.form, self.quiet, self.total = form, quiet, total
        self.done, self.start = 0, time.monotonic()
        self.bar: Any = None
        self.next = self.start + DELAY

    def __enter__(self) -> Self:
        return self

    def __call__(self, more: int) -> None:
        """Add `more` to what is done."""
        self.done += more
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if self.quiet or now < self.next:
            return
        rate = self.done / (now - self.start)
        line = self.form.format(self.done) + (f" ({rate:,.0f}/s)" if rate >= 1 else "")
        if terminal:
            self.bar = self.bar or self._start_bar()
            self.bar.update(0, description=line, completed=self.done, refresh=True)
        else:
            print(line + (f" {self.done / self.total:.0%}" if self.total else ""), file=sys.stderr, flush=True)
        self.next = now + (TERMINAL_EVERY if terminal else LOG_EVERY)

    def _start_bar(self) -> Any:
        from rich import progress
        from rich.console import Console

        columns: list[Any] = [progress.TextColumn("{task.description}", markup=False)]
        columns += [progress.BarColumn(20), progress.TimeRemainingColumn()] if self.total else []
        bar = progress.Progress(*columns, console=Console(stderr=True), auto_refresh=False, redirect_stdout=False)
        bar.add_task("", total=self.total)
        bar.start()
        return bar

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

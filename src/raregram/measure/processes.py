"""One function on several values side by side, in processes that end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from raregram.errors import RaregramError

Value = TypeVar("Value")
Result = TypeVar("Result")
MOST = 60  # processes; Windows waits for at most 63 things at a time


def map_in_processes(
    function: Callable[[Value], Result], values: Sequence[Value], processes: int | None = None
) -> list[Result]:
    """Return the function of every value, computed in so many processes; None for one a processor."""
    processes = min((os.cpu_count() or 1) if processes is None else processes, len(values), MOST)
    if processes < 2:
        return [function(value) for value in values]
    before = set(multiprocessing.active_children())
    # Spawned, not forked: Arrow and NumPy have threads, and a copy of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker) as pool:
        try:
            futures = [pool.submit(function, value) for value in values]
            for future in as_completed(futures):
                future.result()  # raise the first error as soon as it happens
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise RaregramError("a process of this run was ended from outside, perhaps for lack of memory") from error
        finally:  # after an error or Ctrl-C nobody needs what is still being computed
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()


def _start_worker() -> None:
    """End at once on Ctrl-C, and when the parent is gone, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

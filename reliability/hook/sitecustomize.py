"""Python imports this at its start where the folder is on PYTHONPATH: it ends the process at a chosen moment.

The environment says when. KILL_AT_EVENT=k: before the k-th change of a name or a file in a folder of KILL_FOLDERS
(opening for writing, renaming, removing, making, locking, syncing), with all processes of its group. KILL_AT_BYTE=n:
when a file grows beyond n bytes, whichever library writes it; the kernel does that, and no handler runs.
KILL_LOG=path: never, but write the events down. KILL_CLOCK=1: the clocks that measure short times tick once whenever
they are read, so that measured times, too, are the same in every run.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

# The event's names, and where its arguments have paths or open files.
EVENTS = {
    "open": (0,),
    "os.rename": (0, 1),
    "os.remove": (0,),
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "fcntl.flock": (0,),
    "os.fsync": (0,),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
FOLDERS = tuple(os.environ.get("KILL_FOLDERS", "").split(os.pathsep))
MOMENT = int(os.environ.get("KILL_AT_EVENT", "0"))
LOG = os.environ.get("KILL_LOG")

events, ticks = count(1), count()
sync = os.fsync


def audited_sync(fd: Any) -> None:
    """Report a sync before it is done."""
    sys.audit("os.fsync", fd if isinstance(fd, int) else fd.fileno())
    sync(fd)


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Count an event that changes something in the folders, and end this process at the chosen one."""
    if event not in EVENTS or (event == "open" and not (arguments[2] or 0) & WRITING):
        return
    paths = [name_of(arguments[index]) for index in EVENTS[event]]
    in_folder = event in ("os.remove", "os.rmdir") and arguments[-1] not in (-1, None)  # relative to an open folder
    if not in_folder and not any(path.startswith(FOLDERS) for path in paths):
        return
    number = next(events)
    if LOG:  # opened for each event, since another process of the run may write to it too
        handle = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{event} {paths[0]}\n".encode())
        os.close(handle)
    elif number == MOMENT:
        os.kill(0, signal.SIGKILL)


def name_of(file: Any) -> str:
    """Return the path of a file, which may be open."""
    if not isinstance(file, int):
        return os.path.abspath(os.fsdecode(file))  # noqa: PTH100 - `Path.resolve` would follow links
    try:
        return str(Path(f"/proc/self/fd/{file}").readlink())
    except OSError:
        return ""


if MOMENT or LOG:
    os.fsync = audited_sync  # it is the one call without an event of its own
    sys.addaudithook(watch)
if at_byte := os.environ.get("KILL_AT_BYTE"):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(at_byte), int(at_byte)))
if "KILL_CLOCK" in os.environ:
    time.perf_counter = time.process_time = lambda: next(ticks) / 1024

"""The folder in which downloads are kept, and how they get there whole.

One run at a time works in a temporary folder inside; what a killed run left there is removed by the next one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock
from platformdirs import user_cache_path

from raregram.errors import FileError, system_reason

Progress: TypeAlias = Callable[[int], None]  # called with the number of bytes received

CHUNK = 1 << 18  # bytes
LEFTOVERS = ".work-*"
POLL = 0.2  # seconds


@dataclass(frozen=True)
class Fetched:
    """What was fetched, in the cache."""

    folder: Path
    files: tuple[Path, ...]  # in order of their names
    digest: str  # see `content_digest`
    verified: bool  # whether the content is the one that raregram was tested with
    source: str  # where it came from


def cache_folder() -> Path:
    """Return where downloads are kept: RAREGRAM_HOME, or `raregram` in the platform's folder for caches."""
    if home := os.environ.get("RAREGRAM_HOME"):
        return Path(home).expanduser().absolute()
    return user_cache_path("raregram", appauthor=False, opinion=False)


def content_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over name, size and content of files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                total.update(data)
    return total.hexdigest()


def has_leftovers(home: Path) -> bool:
    """Return whether a killed run left something that this one may remove."""
    return any(home.glob(LEFTOVERS)) and os.access(home, os.W_OK)


@contextmanager
def working_folder(home: Path) -> Iterator[Path]:
    """Give a temporary folder in `home` to one run at a time."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / ".lock"):
            for left in home.glob(LEFTOVERS):
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=".work-", dir=home, ignore_cleanup_errors=True) as work:
                yield Path(work)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot use the cache {home}: {system_reason(error)}. RAREGRAM_HOME names another folder"
        ) from error


def keep(content: Path, folder: Path, digest: str) -> None:
    """Give a whole folder in the working folder its final name, unless the same content is there already."""
    with suppress(FileNotFoundError):
        if content_digest(folder.iterdir()) == digest:
            return
        folder.replace(content.with_name("damaged"))  # since it was fetched; goes away with the working folder
    content.replace(folder)


def run_client(command: Sequence[str], work: Path, pattern: str, progress: Progress, advice: str) -> Path:
    """Let a package client work in a folder, and return the file that it brought; `progress` sees the folder grow."""
    log, size = None, _size(work)
    process = subprocess.Popen(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with process:
        while log is None:
            with suppress(subprocess.TimeoutExpired):
                log, _ = process.communicate(timeout=POLL)
            size, before = _size(work), size
            progress(size - before)
    brought = next(work.glob(pattern), None)
    if process.returncode or brought is None:
        said = "\n  ".join([line for line in log.decode(errors="replace").splitlines() if line.strip()][-6:])
        raise FileError(
            f"{Path(command[0]).name} failed (exit code {process.returncode}). It said:\n  {said or 'nothing'}\n"
            f"Try again with a network connection, {advice}"
        )
    return brought


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder that others write to."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total

"""Files that are whole or not there: written under a hidden name, moved to their own when they are finished.

A hidden name has a random part, so that no two runs meet, on whatever machine or in whatever container. A file beside
it is locked meanwhile, and the lock ends with its process, however that ends, so what nobody has locked was left by a
killed run. Process numbers would not tell, since they are used again, and by other machines; and the draft itself is
not locked, since some network disks let nobody write to a locked file.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from raregram.errors import FileError, system_reason

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class _Target:
    """Where a file is to be written."""

    path: Path  # behind links
    beside: Path  # its hidden files are named after this one, and in the same folder
    mode: int | None = None  # the permissions of the file that is there
    sink: Path | int | None = None  # no regular file, or the number of an open one: written to, not replaced


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Give a draft's name to write to; move it to `path` at the end, or remove it if writing failed.

    A file keeps its permissions. What is not a regular file (a pipe, a device, /dev/stdout) is not replaced: the
    finished draft is copied into it.
    """
    target = _find_target(path)
    with write_errors_named(target.path), _hidden(target.beside, "draft") as draft:
        if target.mode is not None:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
            draft.chmod(target.mode)
        yield draft
        if target.sink is not None:
            _copy(draft, target.sink)
            return
        _sync(draft, os.O_RDWR)
        draft.replace(target.path)
        if sys.platform != "win32":
            with suppress(PermissionError):  # one may write in it, but not read it
                _sync(target.path.parent, os.O_RDONLY)  # or else the new name may be lost with the power


def check_target(path: PathLike) -> None:
    """Raise if a file cannot be written, for work that takes long to find out before it begins."""
    target = _find_target(path)
    with write_errors_named(target.path), _hidden(target.beside, "draft"):
        pass


def is_stream(path: PathLike) -> bool:
    """Whether what is written to a path goes through it, so that it cannot be read from there again."""
    return _find_target(path).sink is not None


def _find_target(path: PathLike) -> _Target:
    """Return where a file is to be written, behind links."""
    path = Path(path)
    in_temporary_folder = Path(tempfile.gettempdir(), "raregram")
    if (number := _descriptor(path)) is not None:
        return _Target(path, in_temporary_folder, 0o600, number)
    with write_errors_named(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = None
        final = path.resolve() if path.is_symlink() else path
    if mode is not None and stat.S_ISDIR(mode):
        raise FileError(f"cannot write {final}: it is a folder")
    if mode is not None and not stat.S_ISREG(mode):
        return _Target(path, in_temporary_folder, 0o600, path)
    try:
        os.fspath(final).encode()
    except UnicodeEncodeError:
        raise FileError(f"cannot write {final}: its name is not valid UTF-8, as Arrow wants it") from None
    return _Target(final, final, None if mode is None else stat.S_IMODE(mode))


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file that a name such as /dev/stdout stands for, also behind links."""
    for _ in range(40):  # as many links as Linux follows
        folder = os.path.realpath(path.parent)
        if re.fullmatch(rf"/dev/fd|/proc/{os.getpid()}/fd", folder) and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


def _copy(draft: Path, sink: Path | int) -> None:
    """Write a finished draft to something that takes what comes: a pipe, a device, an open file."""
    opened = os.fdopen(os.dup(sink), "wb") if isinstance(sink, int) else sink.open("wb")
    with draft.open("rb") as source, opened as to:
        shutil.copyfileobj(source, to)


@contextmanager
def spill_folder(path: PathLike) -> Iterator[Path]:
    """Give an empty folder beside a file for what memory has no room for, and remove it in the end."""
    target = _find_target(path)
    with ExitStack() as stack:
        with write_errors_named(target.path):
            folder = stack.enter_context(_hidden(target.beside, "spill"))
            folder.mkdir(mode=0o700)
        yield folder


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Keep other runs away from a folder in which a run that is broken off leaves what it has finished."""
    with write_errors_named(folder):
        try:
            lock = _lock(folder / ".lock", os.O_CREAT)
        except BlockingIOError:
            raise FileError(f"another run is at work in {folder}: wait for it, or write somewhere else") from None
    try:
        yield
    finally:
        _unlock(lock)


@contextmanager
def write_errors_named(path: PathLike) -> Iterator[None]:
    """Turn what the system says of a write into an error that names the file."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {system_reason(error)}") from error


@contextmanager
def _hidden(final: Path, purpose: str) -> Iterator[Path]:
    """Give a hidden name beside a file for work on it; remove what has it in the end, and what killed runs left."""
    if not final.parent.is_dir():
        raise FileError(f"cannot write {final}: the folder {final.parent} does not exist")
    remove_abandoned(final)
    stem, lock = _locked_stem(final)
    path = _with_suffix(stem, purpose)
    try:
        yield path
    finally:
        _remove(path)
        _unlock(lock)
        _remove(_with_suffix(stem, "lock"))


def _locked_stem(final: Path) -> tuple[Path, int | None]:
    """Return the beginning of a new hidden name, and its lock."""
    while True:
        stem = final.with_name(f".{final.name}.{secrets.token_hex(8)}")
        try:
            return stem, _lock(_with_suffix(stem, "lock"), os.O_CREAT | os.O_EXCL)
        except BlockingIOError:  # another run took it for abandoned before it was locked
            continue


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


def remove_abandoned(final: Path) -> None:
    """Remove what is beside a file for work on it, and nobody works on any more."""
    ours = re.compile(rf"(\.{re.escape(final.name)}\.[0-9a-f]{{16}})\.(?:draft|spill|lock)")
    names = (ours.fullmatch(path.name) for path in final.parent.glob(f".{glob.escape(final.name)}.*"))
    for stem in {name[1] for name in names if name}:
        with suppress(OSError):  # it is being worked on, or another user's
            _remove_unlocked(final.with_name(stem))


def _remove_unlocked(stem: Path) -> None:
    """Remove what begins with a name, unless it is locked, or nobody can tell."""
    try:
        if (lock := _lock(_with_suffix(stem, "lock"))) is None:
            return
    except FileNotFoundError:  # it is there before all else and until after all else, so a removal was broken off
        lock = None
    for suffix in ("draft", "spill", "lock"):
        _remove(_with_suffix(stem, suffix))
    _unlock(lock)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; None where files cannot be locked. Raise `BlockingIOError` if another run has it."""
    handle = os.open(path, os.O_RDWR | flags, 0o666)
    try:
        _lock_open(handle)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        return None
    if not _is_at(path, handle):
        os.close(handle)
        raise BlockingIOError(errno.EAGAIN, "another run has just removed it", str(path))
    return handle


def _lock_open(handle: int) -> None:
    """Lock an open file, or raise."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "what is open cannot be removed on Windows")
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _sync(path: Path, flags: int) -> None:
    """Have the disk keep what was written to a file, or the names in a folder."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # there is nothing that could be lost
            raise
    finally:
        os.close(handle)

"""Output files that are whole or absent: written under a temporary name, moved to their own when they are finished.

A temporary name has a random part, so that no two runs use the same one. A file beside it is locked meanwhile, and
the lock ends with its process, so temporary files that nobody has locked were left by a killed run. The temporary
file itself is not locked, since some network disks let nobody write to a locked file.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raregram.errors import FileError, system_reason
from raregram.remote import PathLike, RemotePath, is_remote, local_path

NOT_SUPPORTED = (errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)  # by this disk: there are no locks, or nothing to sync
WAITS = (0.05, 0.1, 0.2, 0.4)  # seconds; on Windows a scanner may have a new file open for a moment


@dataclass(frozen=True)
class _Target:
    """Where a file is to be written."""

    path: Path  # behind links
    mode: int | None = None  # the permissions of the file that is there
    stream: Path | int | None = None  # a pipe, a device or an open file's descriptor: written to, not replaced

    @property
    def beside(self) -> Path:
        """The file beside which, and after which, temporary files are named."""
        return self.path if self.stream is None else Path(tempfile.gettempdir(), "raregram")


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Give a temporary name to write to; move it to `path` at the end, or remove it if writing failed.

    A file keeps its permissions. What is not a regular file (a pipe, a device, /dev/stdout) is not replaced: the
    finished temporary file is copied into it.
    """
    if is_remote(path):
        with write_errors_named(path), tempfile.TemporaryDirectory() as folder:
            yield Path(folder, "whole")
            RemotePath(os.fspath(path)).upload(Path(folder, "whole"))
        return
    target = _find_target(path)
    with write_errors_named(target.path), _temporary(target.beside) as temporary:
        if target.mode is not None:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o600))
            temporary.chmod(target.mode)
        yield temporary
        if target.stream is not None:
            stream = os.dup(target.stream) if isinstance(target.stream, int) else target.stream
            with temporary.open("rb") as source, open(stream, "wb") as sink:  # noqa: PTH123 - it may be a descriptor
                shutil.copyfileobj(source, sink)
            return
        _sync(temporary, os.O_RDWR)
        _replace(temporary, target.path)
        if sys.platform != "win32":
            with suppress(PermissionError):  # one may write in it, but not read it
                _sync(target.path.parent, os.O_RDONLY)  # or else the new name may be lost with the power


def check_target(path: PathLike) -> None:
    """Raise if a file cannot be written: called before work that takes long."""
    if is_remote(path):
        RemotePath(os.fspath(path)).exists()  # raises where there is no such place
        return
    target = _find_target(path)
    with write_errors_named(target.path), _temporary(target.beside):
        pass


def is_stream(path: PathLike) -> bool:
    """Whether what is written to a path goes through it, so that it cannot be read from there again."""
    return not is_remote(path) and _find_target(path).stream is not None


def temporary_base(path: PathLike) -> Path:
    """Return a file beside which temporary files can be made for what is written to a path, which may be a stream."""
    return Path(tempfile.gettempdir(), "raregram") if is_remote(path) else _find_target(path).beside


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Keep other runs away from a folder in which an interrupted run leaves what it has finished."""
    lock = _file_lock(folder / ".lock")
    with write_errors_named(folder):
        try:
            lock.acquire(blocking=False)
        except TimeoutError:
            raise FileError(f"another run is at work in {folder}: wait for it, or write somewhere else") from None
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
    try:
        yield
    finally:
        lock.release()


@contextmanager
def write_errors_named(path: PathLike) -> Iterator[None]:
    """Turn what the system says of a write into an error that names the file."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {system_reason(error)}") from error


def _find_target(path: PathLike) -> _Target:
    path = local_path(path)
    if (descriptor := _descriptor(path)) is not None:
        return _Target(path, 0o600, descriptor)
    with write_errors_named(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = None
        final = path.resolve() if path.is_symlink() else path
    if mode is not None and stat.S_ISDIR(mode):
        raise FileError(f"cannot write {final}: it is a folder")
    if mode is not None and not stat.S_ISREG(mode):
        return _Target(path, 0o600, path)
    try:
        os.fspath(final).encode()
    except UnicodeEncodeError:
        raise FileError(f"cannot write {final}: its name is not valid UTF-8, as Arrow wants it") from None
    return _Target(final, None if mode is None else stat.S_IMODE(mode))


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of the open file that a name such as /dev/stdout stands for, also behind links."""
    for _ in range(40):  # as many links as Linux follows
        folder = os.path.realpath(path.parent)
        if re.fullmatch(rf"/dev/fd|/proc/{os.getpid()}/fd", folder) and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


@contextmanager
def _temporary(final: Path) -> Iterator[Path]:
    """Give a temporary name beside a file; at the end remove what has it. First remove what killed runs left."""
    if not final.parent.is_dir():
        raise FileError(f"cannot write {final}: the folder {final.parent} does not exist")
    abandoned = re.compile(rf"\.{re.escape(final.name)}\.[0-9a-f]{{16}}\.(?:tmp|lock)")
    for path in final.parent.glob(f".{glob.escape(final.name)}.*"):
        lock = path.with_suffix(".lock")
        if abandoned.fullmatch(path.name):
            with suppress(OSError), _file_lock(lock).acquire(blocking=False) as locked:  # else it is in use
                lock.with_suffix(".tmp").unlink(missing_ok=True)
                _remove_lock(locked, lock)
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.tmp")
    lock_file = temporary.with_suffix(".lock")
    lock = _file_lock(lock_file)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        _remove_lock(lock, lock_file)  # last, as it says that the other is in use


def _file_lock(path: Path) -> Any:
    from filelock import FileLock  # takes 40 ms to import

    return FileLock(path)


def _remove_lock(lock: Any, path: Path) -> None:
    """Remove a lock's file and end the lock; Windows removes no file that is open, so there the lock ends first."""
    if sys.platform == "win32":
        lock.release()
        with suppress(OSError):  # somebody looks whether it is in use, and removes it
            path.unlink(missing_ok=True)
        return
    path.unlink(missing_ok=True)
    lock.release()


def _replace(temporary: Path, path: Path) -> None:
    """Give a finished file its name; on Windows, where an open file cannot be replaced, try again for a moment."""
    windows = sys.platform == "win32"
    for seconds in (*WAITS, None) if windows else (None,):
        try:
            temporary.replace(path)
            return
        except PermissionError as error:
            if not windows:
                raise
            if seconds is None:
                raise FileError(
                    f"cannot write {path}: it is open here or in another program; close it there"
                ) from error
            time.sleep(seconds)


def _sync(path: Path, flags: int) -> None:
    """Have the disk keep what was written to a file, or the names in a folder."""
    descriptor = os.open(path, flags)
    try:
        if sys.platform == "darwin":  # where fsync leaves it in the memory of the disk
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)

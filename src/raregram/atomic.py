"""Files that are whole or not there: written under a temporary name, moved to their own when they are finished.

A temporary name has a random part, so that no two runs meet, on whatever machine or in whatever container. A file
beside it is locked meanwhile, and the lock ends with its process, however that ends, so what nobody has locked was
left by a killed run. The temporary file itself is not locked, since some network disks let nobody write to a locked
file.
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
from typing import Any, TypeAlias

from raregram.errors import FileError, system_reason

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class _Target:
    """Where a file is to be written."""

    path: Path  # behind links
    beside: Path  # its temporary files are named after this one, and in the same folder
    mode: int | None = None  # the permissions of the file that is there
    stream: Path | int | None = None  # a pipe, a device or an open file's descriptor: written to, not replaced


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Give a temporary name to write to; move it to `path` at the end, or remove it if writing failed.

    A file keeps its permissions. What is not a regular file (a pipe, a device, /dev/stdout) is not replaced: the
    finished temporary file is copied into it.
    """
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
        temporary.replace(target.path)
        if sys.platform != "win32":
            with suppress(PermissionError):  # one may write in it, but not read it
                _sync(target.path.parent, os.O_RDONLY)  # or else the new name may be lost with the power


def check_target(path: PathLike) -> None:
    """Raise if a file cannot be written, for work that takes long to find out before it begins."""
    target = _find_target(path)
    with write_errors_named(target.path), _temporary(target.beside):
        pass


def is_stream(path: PathLike) -> bool:
    """Whether what is written to a path goes through it, so that it cannot be read from there again."""
    return _find_target(path).stream is not None


def _find_target(path: PathLike) -> _Target:
    """Return where a file is to be written, behind links."""
    path = Path(path)
    in_temporary_folder = Path(tempfile.gettempdir(), "raregram")
    if (descriptor := _descriptor(path)) is not None:
        return _Target(path, in_temporary_folder, 0o600, descriptor)
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
    """Return the descriptor of the open file that a name such as /dev/stdout stands for, also behind links."""
    for _ in range(40):  # as many links as Linux follows
        folder = os.path.realpath(path.parent)
        if re.fullmatch(rf"/dev/fd|/proc/{os.getpid()}/fd", folder) and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


def place_beside(path: PathLike) -> Path:
    """Return a file beside which temporary files can be made for what is written to a path, which may be a stream."""
    return _find_target(path).beside


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Keep other runs away from a folder in which a run that is broken off leaves what it has finished."""
    with ExitStack() as stack:
        with write_errors_named(folder):
            try:
                stack.enter_context(_locked(folder / ".lock", blocking=False))
            except TimeoutError:
                raise FileError(f"another run is at work in {folder}: wait for it, or write somewhere else") from None
        yield


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
def _temporary(final: Path) -> Iterator[Path]:
    """Give a temporary name beside a file; remove what has it in the end, and what killed runs left."""
    if not final.parent.is_dir():
        raise FileError(f"cannot write {final}: the folder {final.parent} does not exist")
    _remove_abandoned(final)
    stem = final.with_name(f".{final.name}.{secrets.token_hex(8)}")
    with _locked(Path(f"{stem}.lock")):
        try:
            yield Path(f"{stem}.tmp")
        finally:
            _remove_all(stem)


@contextmanager
def _locked(path: Path, blocking: bool = True) -> Iterator[None]:
    """Hold a lock; on a disk that has none, go on without, where nothing of other runs is ever removed."""
    lock = _file_lock(path)
    try:
        lock.acquire(blocking=blocking)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOLCK):
            raise
    try:
        yield
    finally:
        lock.release()


def _remove_abandoned(final: Path) -> None:
    """Remove the temporary files of a file that nobody works on any more."""
    ours = re.compile(rf"(\.{re.escape(final.name)}\.[0-9a-f]{{16}})\.(?:tmp|lock)")
    names = (ours.fullmatch(path.name) for path in final.parent.glob(f".{glob.escape(final.name)}.*"))
    for stem in {final.with_name(name[1]) for name in names if name}:
        with suppress(OSError), _file_lock(Path(f"{stem}.lock")).acquire(blocking=False):  # else it is in use
            _remove_all(stem)


def _file_lock(path: Path) -> Any:
    from filelock import FileLock  # takes 40 ms to import

    return FileLock(path)


def _remove_all(stem: Path) -> None:
    """Remove the temporary files that begin with a name; the lock last, as it tells that they are in use."""
    Path(f"{stem}.tmp").unlink(missing_ok=True)
    Path(f"{stem}.lock").unlink(missing_ok=True)


def _sync(path: Path, flags: int) -> None:
    """Have the disk keep what was written to a file, or the names in a folder."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # there is nothing that could be lost
            raise
    finally:
        os.close(descriptor)

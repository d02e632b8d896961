"""Output files that are whole or absent: written under a temporary name beside, moved to their own when finished.

Of two runs that write the same file the last one wins, whole. A run that is killed may leave its temporary file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import glob
from pathlib import Path

from raregram.errors import FileError, ParameterError, is_unicode, reraise
from raregram.remote import PathLike, RemotePath, is_remote, local_path


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Give a temporary name to write to; move it to `path` at the end, or remove it if writing failed.

    A file keeps its permissions. What is not a regular file (a pipe, a device, /dev/stdout) is not replaced: the
    finished temporary file is copied into it.
    """
    final, stream = _resolve(path)
    with write_errors_named(path), _temporary(final) as temporary:
        if stream is not None or is_remote(path):
            temporary.touch(0o600)
        elif final.exists():
            temporary.touch(0o600)
            shutil.copymode(final, temporary)
        yield temporary
        if is_remote(path):
            RemotePath(os.fspath(path)).upload(temporary)
        elif stream is not None:
            # A descriptor is duplicated, since what is open under /dev/stdout may be a file that others write to.
            sink = os.dup(stream) if isinstance(stream, int) else stream
            with temporary.open("rb") as whole, open(sink, "wb") as out:  # noqa: PTH123 - it may be a descriptor
                shutil.copyfileobj(whole, out)
        else:
            _sync(temporary, os.O_RDWR)
            temporary.replace(final)
            if sys.platform != "win32":
                with suppress(PermissionError):  # one may write in a folder, but not read it
                    _sync(final.parent, os.O_RDONLY)  # or else the new name may be lost with the power


def check_not_input(out: PathLike | None, inputs: Iterable[PathLike]) -> None:
    """Raise if what is written would replace a file that is read: one that is named, in a folder or of a glob."""
    if out is None or is_remote(out) or not Path(out).is_file():
        return
    for path in filter(lambda each: not is_remote(each), inputs):
        named = [path, *glob(os.fspath(path), recursive=True)]  # noqa: PTH207 - Path.glob takes no absolute pattern
        inside = Path(path).is_dir() and Path(path).resolve() in Path(out).resolve().parents
        if inside or any(Path(name).samefile(out) for name in named if Path(name).is_file()):
            raise ParameterError(f"{out} is an input, which would be replaced: choose another name for the output")


def check_target(path: PathLike) -> None:
    """Raise if a file cannot be written: called before work that takes long."""
    if is_remote(path):
        RemotePath(os.fspath(path)).exists()  # raises where there is no such bucket
        return
    with write_errors_named(path), _temporary(temporary_base(path)) as temporary:
        temporary.touch()


def is_stream(path: PathLike) -> bool:
    """Whether what is written to a path goes through it, so that it cannot be read from there again."""
    return _resolve(path)[1] is not None


def temporary_base(path: PathLike) -> Path:
    """Return a file beside which temporary files can be made for what is written to a path, which may be a stream."""
    return _resolve(path)[0]


def write_errors_named(path: PathLike) -> AbstractContextManager[None]:
    """Turn what the system says of a write into an error that names the file."""
    return reraise(path, says="cannot write {path}: {reason}", errors=(OSError,))


def _resolve(path: PathLike) -> tuple[Path, Path | int | None]:
    """Return the file beside which to write, and the stream or descriptor to write to, if it is one."""
    elsewhere = Path(tempfile.gettempdir(), "raregram")
    if is_remote(path):
        return elsewhere, None
    path = local_path(path)
    with write_errors_named(path), suppress(FileNotFoundError):
        found = path.stat()
        for descriptor in (1, 2, *map(int, re.findall(r"^/(?:dev|proc/self)/fd/(\d+)$", str(path)))):
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), found):
                    return elsewhere, descriptor
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            return elsewhere, path
    final = path.resolve() if path.is_symlink() else path
    if final.is_dir():
        raise FileError(f"cannot write {final}: it is a folder")
    if not final.parent.is_dir():
        raise FileError(f"cannot write {final}: the folder {final.parent} does not exist")
    if not is_unicode(str(final)):
        raise FileError(f"cannot write {final}: its name is not valid UTF-8, as Arrow wants it")
    return final, None


@contextmanager
def _temporary(final: Path) -> Iterator[Path]:
    """Give a temporary name beside a file; at the end remove what has it."""
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path, flags: int) -> None:
    """Have the disk keep what was written to a file, or the names in a folder, where it can."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL):  # of disks that have nothing to sync
            raise
    finally:
        os.close(descriptor)

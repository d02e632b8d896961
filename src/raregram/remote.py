"""Files in object stores and clusters, by Arrow's file systems: s3://, gs://, hdfs:// and a few more.

`as_path` gives such a file the part of pathlib's interface that readers need. Credentials and addresses come from
where the systems' own tools find them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, HADOOP_HOME, ...).
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, TypeAlias

from raregram.errors import FileError, reraise

PathLike: TypeAlias = str | os.PathLike[str]

REMOTE = re.compile(r"(?:s3|gs|gcs|hdfs|viewfs|abfss?)://")
LOCAL = "file://"  # before a path of this machine
WILDCARDS = {r"\*\*/": "(?:.*/)?", r"\*": "[^/]*", r"\?": "[^/]"}  # as `re.escape` leaves them


def is_remote(path: PathLike) -> bool:
    """Whether a path is an address such as s3://bucket/name."""
    return REMOTE.match(os.fspath(path)) is not None


def local_path(path: PathLike) -> Path:
    """Return a path of this machine, maybe of file:///name; raise for a remote one, where that is not possible."""
    if is_remote(path):
        raise FileError(f"{path}: this works on this machine alone; name a path of it")
    name = os.fspath(path)
    if name.startswith(LOCAL):
        from urllib.request import url2pathname  # takes long to import

        name = name.removeprefix(LOCAL).removeprefix("localhost")
        if not name.startswith("/"):
            raise FileError(f"{path}: a file of this machine is file:///folder/name, or its path alone")
        name = url2pathname(name)
    return Path(name)


def as_path(path: PathLike) -> Path | RemotePath:
    """Return a path of this machine, or a remote one."""
    return RemotePath(os.fspath(path)) if is_remote(path) else local_path(path)


@dataclass(frozen=True)
class RemotePath:
    """A file or a folder, with the methods of `pathlib.Path` that are needed."""

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.address.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.address).name

    @cached_property
    def _location(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        scheme, _, rest = self.address.partition("://")
        host, _, path = rest.partition("/")
        with self._named():
            system, root = _file_system(f"{scheme}://{host}")
        return system, f"{root.rstrip('/')}/{path}".rstrip("/")

    def _named(self) -> AbstractContextManager[None]:
        return reraise(self.address, errors=(OSError, ValueError, NotImplementedError))

    @property
    def _info(self) -> Any:
        system, path = self._location
        with self._named():
            return system.get_file_info(path)

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._info.type.name != "NotFound")

    def is_file(self) -> bool:
        """Whether this is a file."""
        return bool(self._info.is_file)

    def is_dir(self) -> bool:
        """Whether this is a folder."""
        return bool(self._info.type.name == "Directory")

    def stat(self) -> SimpleNamespace:
        """Return the size."""
        return SimpleNamespace(st_size=self._info.size or 0)

    def open(self, *_: Any, **__: Any) -> Any:
        """Open a file for reading, at any offset."""
        system, path = self._location
        with self._named():
            return system.open_input_file(path)

    def glob(self, pattern: str) -> list[RemotePath]:
        """Return the files below a folder that match a pattern, in order of their names."""
        from pyarrow.fs import FileSelector

        system, path = self._location
        with self._named():
            found = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        expression = re.sub(r"\\\*\\\*/|\\\*|\\\?", lambda wild: WILDCARDS[wild[0]], re.escape(pattern))
        inside = (info.path.removeprefix(path).lstrip("/") for info in found if info.is_file)
        return [self / name for name in sorted(inside) if re.fullmatch(expression, name)]

    def upload(self, local: Path) -> None:
        """Copy a file of this machine here; nobody sees half of it."""
        system, path = self._location
        # An object appears when its upload is complete; a file of a cluster, as soon as it is begun.
        moves = not self.address.startswith(("s3:", "gs:", "gcs:"))
        first = f"{path}.{os.urandom(8).hex()}.tmp" if moves else path
        with self._named():
            with local.open("rb") as source, system.open_output_stream(first, compression=None) as sink:
                shutil.copyfileobj(source, sink, 1 << 24)
            if moves:
                system.move(first, path)


def matching_files(address: str) -> list[str]:
    """Return the file of an address, those below a folder, or those that match a pattern; hidden ones not."""
    path = RemotePath(address)
    if path.is_file():
        return [address]
    wild = re.search(r"[^/]*[*?]", address)
    folder, pattern = (RemotePath(address[: wild.start()]), address[wild.start() :]) if wild else (path, "**/*")
    found = [str(file) for file in folder.glob(pattern) if not re.search(r"/[._]", str(file)[len(str(folder)) - 1 :])]
    if not found:
        raise FileError(f"there is no file at {address}")
    return found


@cache
def _file_system(address: str) -> tuple[Any, str]:
    """Return the file system of a bucket or cluster, and its root: to connect takes a while, so this is kept."""
    from pyarrow.fs import FileSystem

    try:
        system, root = FileSystem.from_uri(address)
    except OSError as error:
        if not str(error).startswith("Unable to load"):
            raise
        advice = "Arrow needs Java and Hadoop's libhdfs: set JAVA_HOME, HADOOP_HOME and CLASSPATH, or use Spark"
        raise OSError(f"{str(error).splitlines()[0]}; {advice}") from error
    return system, root

"""URLs and archives -> files: downloads that go on where they were cut off, archives that cannot write elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import stat
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias

from raregram.errors import FileError, system_reason

Progress: TypeAlias = Callable[[int], None]
Group: TypeAlias = tuple[str, str]  # the folder of some files, and their suffix

LARGEST_DOWNLOAD = 1 << 26  # bytes of an archive as it comes
LARGEST_ARCHIVE = 1 << 30  # bytes when unpacked
LARGEST_HEADER = 1 << 20  # bytes of what an archive says of a member
MOST_MEMBERS = 10_000
CHUNK = 1 << 18
TIMEOUT = 60.0  # seconds without a word from a server
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def download(url: str, folder: Path, progress: Progress) -> Path:
    """Return a URL's content as a file; a download that was cut off goes on where it stopped."""
    folder.mkdir(exist_ok=True)
    part = folder / (hashlib.sha256(url.encode()).hexdigest()[:16] + ".part")
    have = part.stat().st_size if part.exists() else 0
    try:
        with urllib.request.urlopen(_request(url, part, have), timeout=TIMEOUT) as response:
            _receive(url, response, part, have, progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise FileError(f"cannot download {url}: the server says {error.code} {error.reason}") from error
        if error.headers.get("Content-Range") != f"bytes */{have}":  # else there is nothing after what we have
            forget(part)
            return download(url, folder, progress)
    except FileError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: of a host that is no name
        reason = getattr(error, "reason", None) or error
        raise FileError(f"cannot download {url}: {reason}. Run again to continue") from error
    return part


def _request(url: str, part: Path, have: int) -> urllib.request.Request:
    """Ask for what is missing, provided that the content is still the same."""
    headers = {"User-Agent": "raregram"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if _validator(part).exists():
            headers["If-Range"] = _validator(part).read_text(encoding="latin-1")
    return urllib.request.Request(url, headers=headers)


def _receive(url: str, response: Any, part: Path, have: int, progress: Progress) -> None:
    """Append to what is there if the server goes on from there; otherwise start anew."""
    goes_on = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    if response.status == 206 and not goes_on:
        forget(part)
        raise FileError(f"cannot download {url}: the server sent another part than asked for. Run again")
    if not goes_on:
        forget(part)
        _remember(response.headers, part)
    got = 0
    _append(part, b"")  # it is there even if nothing comes
    while data := response.read1(CHUNK):
        _append(part, data)
        got += len(data)
        progress(len(data))
        if have * goes_on + got > LARGEST_DOWNLOAD:
            forget(part)
            raise FileError(f"cannot download {url}: it is larger than {LARGEST_DOWNLOAD >> 20} MiB")
    length = response.headers.get("Content-Length")
    if length is not None and str(got) != length.strip():
        raise FileError(f"cannot download {url}: it was cut off after {part.stat().st_size:,} bytes. Run again")


def _append(part: Path, data: bytes) -> None:
    """Write what came at once, so that a killed run keeps it; a full disk may take the beginning of it only."""
    try:
        with part.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise FileError(f"cannot write {part}: {system_reason(error)}. Run again to continue") from error


def _remember(headers: Any, part: Path) -> None:
    """Note what tells this content from a later one; a weak tag promises too little to continue by."""
    tag = headers.get("ETag", "")
    if mark := tag if tag.startswith('"') else headers.get("Last-Modified"):
        _validator(part).write_text(mark, encoding="latin-1")


def _validator(part: Path) -> Path:
    """Return the file that says of which content a `.part` file is."""
    return part.with_suffix(".mark")


def forget(part: Path) -> None:
    """Remove a download."""
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


# Archives


def unpack(archive: Path, draft: Path, name: str, wanted: re.Pattern[str]) -> bool:
    """Write the wanted files of an archive into a folder, and return whether there are any."""
    try:
        with archive.open("rb") as file:
            if archive.stat().st_size > LARGEST_DOWNLOAD:
                raise FileError(f"refused, since it is larger than {LARGEST_DOWNLOAD >> 20} MiB")
            unpack_one = _unpack_zip if zipfile.is_zipfile(file) else _unpack_tar
            return unpack_one(file, draft, wanted)
    except FileError as error:
        raise FileError(f"{name}: {error}") from error
    except (*DAMAGE, EOFError, RuntimeError, ValueError) as error:  # RuntimeError: it is locked, or packed strangely
        raise FileError(f"{name} is not a .tgz, .tar.gz or .zip archive, or it is damaged") from error
    except OSError as error:
        raise FileError(f"cannot unpack {name} to {draft}: {system_reason(error)}") from error


def _unpack_tar(file: IO[bytes], draft: Path, wanted: re.Pattern[str]) -> bool:
    """Write the wanted files of a tar archive, compressed by gzip or not; return whether there are any."""
    file.seek(0)
    compressed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    plain: Any = _Careful(gzip.GzipFile(fileobj=file) if compressed else file)
    with tarfile.open(fileobj=plain, mode="r:") as archive:
        members = {}
        for member in _checked(archive, lambda member: (member.name, member.size)):
            if not (member.isreg() or member.isdir()):
                raise FileError(f"refused, since its member {member.name!r} is not a regular file")
            members[member.name] = member
        _read_to_the_end(plain)
        for name in _wanted_members(members, wanted):
            content = archive.extractfile(members[name])
            assert content is not None
            _write_member(content, draft / PurePosixPath(name).name)
        return any(draft.iterdir())


class _Careful:
    """A stream of a tar archive, of which no more is read at once than an honest header or chunk has."""

    def __init__(self, file: Any) -> None:
        self.file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Read some bytes."""
        if not 0 <= size <= LARGEST_HEADER:
            raise FileError(f"refused, since it says more than {LARGEST_HEADER >> 20} MiB of a member")
        return bytes(self.file.read(size))


def _read_to_the_end(file: IO[bytes]) -> None:
    """Read what follows the last member: only at its end does gzip compare its checksum."""
    total = 0
    while data := file.read(CHUNK):
        total += len(data)
        if total > LARGEST_ARCHIVE:
            raise FileError(f"refused, since it unpacks to more than {LARGEST_ARCHIVE >> 20:,} MiB")


def _unpack_zip(file: IO[bytes], draft: Path, wanted: re.Pattern[str]) -> bool:
    """Write the wanted files of a zip archive, or of the one tar archive in it; return whether there are any."""
    with zipfile.ZipFile(file) as archive:
        for info in _checked(archive.infolist(), lambda info: (info.filename, info.file_size)):
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise FileError(f"refused, since its member {info.filename!r} is not a regular file")
        for name in _wanted_members(archive.namelist(), wanted):
            with archive.open(name) as content:
                _write_member(content, draft / PurePosixPath(name).name)
        inner = [name for name in archive.namelist() if name.lower().endswith((".tar.gz", ".tgz"))]
        if len(inner) == 1 and not any(draft.iterdir()):  # the original distribution is also around as such a parcel
            with archive.open(inner[0]) as content, tempfile.TemporaryFile(dir=draft.parent) as unzipped:
                shutil.copyfileobj(content, unzipped)
                return _unpack_tar(unzipped, draft, wanted)
        return any(draft.iterdir())


def _checked(members: Iterable[Any], name_and_size: Callable[[Any], tuple[str, int]]) -> Iterator[Any]:
    """Yield members whose name stays inside, as long as their sizes do not add up to too much."""
    total = 0
    for number, member in enumerate(members):
        if number >= MOST_MEMBERS:
            raise FileError(f"refused, since it has more than {MOST_MEMBERS:,} members")
        name, size = name_and_size(member)
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
            raise FileError(f"refused, since its member {name!r} points outside")
        total += size
        if total > LARGEST_ARCHIVE:
            raise FileError(f"refused, since it unpacks to more than {LARGEST_ARCHIVE >> 20:,} MiB")
        yield member


def _wanted_members(names: Iterable[str], wanted: re.Pattern[str]) -> list[str]:
    """Return the names of one set of wanted files: those of data/full, or else of the first folder that has some."""
    groups: dict[Group, list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        if wanted.fullmatch(path.name):
            groups.setdefault((str(path.parent), path.suffix.lower()), []).append(name)
    if not groups:
        return []
    return sorted(groups[min(groups, key=lambda group: (not group[0].endswith("data/full"), group))])


def _write_member(content: IO[bytes], path: Path) -> None:
    """Write what a member of an archive holds."""
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)

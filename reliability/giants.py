"""Give the real commands inputs of enormous size, made on the fly, and measure what they take.

    python -m reliability.giants [--scale 1.0] [--only "gzip bomb,a line of 1 GB"] [--out build/reliability]

Each input must be worked on within the memory that is stated for it, or refused with a sentence that says why. A
command runs in a process of its own, whose peak memory the system tells. Inputs are made in a temporary folder, one
at a time, and removed; a full run wants 6 GB of disk and of memory. `--scale` makes all of them smaller, for a trial.
The exit code is 1 if anything took more than stated, or ended in another way than stated.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RAREGRAM = Path(sys.executable).with_name("raregram")
MEGABYTE, GIGABYTE = 10**6, 10**9
SECONDS = 1800.0  # after which a command is ended
CLAIMED = 2**40  # rows that a footer pretends to have
MARK = 7_777_777  # a number of rows whose encoding stands nowhere else in a footer


@dataclass(frozen=True)
class Giant:
    """An input, the command that reads it, and what is to come of it."""

    name: str
    make: Callable[[Path, float], list[str]]  # into a folder, at a scale -> the command's arguments
    most_memory: int  # bytes
    refused: str = ""  # a part of the message; empty: the command succeeds


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    name: str
    input_bytes: int
    seconds: float
    peak_bytes: int
    exit_code: int
    said: str  # the last line on standard error
    fine: bool


# Compressed corpora


def _write_packed(path: Path, block: bytes, total: float) -> None:
    """Write a file that unpacks to a block again and again; all four formats may be put together from parts."""
    sink = pa.BufferOutputStream()
    kinds = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
    with pa.CompressedOutputStream(sink, kinds[path.suffix]) as stream:
        stream.write(block)
    packed = bytes(sink.getvalue())
    with path.open("wb") as file:
        for _ in range(max(int(total / len(block)), 1)):
            file.write(packed)


def bomb(ending: str, block: bytes, size: float, *arguments: str) -> Callable[[Path, float], list[str]]:
    """Return what makes a file that unpacks to `size` bytes."""

    def make(folder: Path, scale: float) -> list[str]:
        path = folder / f"bomb{ending}"
        _write_packed(path, block * (MEGABYTE // len(block)), size * scale)
        return ["count", str(path), *arguments, "--out", str(folder / "out")]

    return make


def scored_bomb(folder: Path, scale: float) -> list[str]:
    """Contexts by the thousand million."""
    _write_packed(folder / "bomb.gz", b"a b c\n" * 100_000, 2 * GIGABYTE * scale)
    return ["score", _model(folder), str(folder / "bomb.gz"), "--out", str(folder / "out.parquet"), "--quiet"]


def _model(folder: Path) -> str:
    import raregram as rg

    rg.fit(rg.Counts.from_contexts(["a b c", "d e f"], ["X", None])).save(folder / "model.rgm")
    return str(folder / "model.rgm")


def wholly_packed_parquet(folder: Path, scale: float) -> list[str]:
    """A Parquet file that is compressed as a whole and unpacks to gigabytes."""
    _write_packed(folder / "bomb.parquet.gz", b"PAR1" + bytes(MEGABYTE), 8 * GIGABYTE * scale)
    return ["count", str(folder / "bomb.parquet.gz"), "--out", str(folder / "out")]


# Archives


def _fetch(path: Path) -> list[str]:
    return ["fetch", "reuters", str(path), "--quiet"]


def tar_with_large_header(folder: Path, scale: float) -> list[str]:
    """A tar archive whose extended header has gigabytes."""
    size = int(4 * GIGABYTE * scale)
    header = tarfile.TarInfo("./PaxHeaders/x")
    header.size, header.type = size, tarfile.XHDTYPE
    with gzip.open(folder / "a.tgz", "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size // MEGABYTE + 1):
            file.write(bytes(MEGABYTE))
    return _fetch(folder / "a.tgz")


def tar_with_large_member(folder: Path, scale: float) -> list[str]:
    """A tar archive with a corpus file of gigabytes."""
    member = tarfile.TarInfo("data/full/reuters-000.json")
    member.size = int(4 * GIGABYTE * scale)
    with gzip.open(folder / "a.tgz", "wb", compresslevel=1) as file, tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(member, _Zeros())
    return _fetch(folder / "a.tgz")


class _Zeros(io.RawIOBase):
    """An endless file of zeros."""

    def read(self, size: int = -1) -> bytes:
        """Read zeros."""
        return bytes(size)


def tar_with_many_members(folder: Path, scale: float) -> list[str]:
    """A tar archive of millions of empty files."""
    with gzip.open(folder / "a.tgz", "wb", compresslevel=1) as file:
        for number in range(int(2_000_000 * scale)):
            file.write(tarfile.TarInfo(f"f{number}").tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))
    return _fetch(folder / "a.tgz")


def zip_with_large_member(folder: Path, scale: float) -> list[str]:
    """A zip archive with a corpus file of gigabytes."""
    with (
        zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("reuters-000.json", "w", force_zip64=True) as member,
    ):
        for _ in range(int(4000 * scale) + 1):
            member.write(bytes(MEGABYTE))
    return _fetch(folder / "a.zip")


def zip_with_many_members(folder: Path, scale: float) -> list[str]:
    """A zip archive of as many empty files as fit into the size that is taken."""
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for number in range(int(600_000 * scale)):
            archive.writestr(f"f{number}", b"")
    return _fetch(folder / "a.zip")


# Long lines


def _write_blocks(path: Path, blocks: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(blocks)


def line(name: str, before: bytes, block: bytes, after: bytes, *arguments: str) -> Callable[[Path, float], list[str]]:
    """Return what makes a file that has a line of 1 GB."""

    def make(folder: Path, scale: float) -> list[str]:
        path = folder / name
        megabyte = block * (MEGABYTE // len(block))
        _write_blocks(path, _chain(before, megabyte, int(1000 * scale), after))
        command = (
            ["score", _model(folder)] if arguments == ("score",) else ["count", *arguments, "--out", f"{path}.out"]
        )
        return [*command, str(path)]

    return make


def _chain(before: bytes, block: bytes, times: int, after: bytes) -> Iterator[bytes]:
    yield before
    yield from (block for _ in range(times))
    yield after


# Large documents


def _write_document(path: Path, items: pa.Array, spans: pa.Array | None = None, **options: bool) -> None:
    """Write one document of many items, spans or both."""
    columns = {"items": pa.ListArray.from_arrays([0, len(items)], items)}
    if spans is not None:
        columns["spans"] = pa.ListArray.from_arrays([0, len(spans)], spans)
    pq.write_table(pa.table(columns), path, **options)


def _words(size: int) -> pa.Array:
    """Return words of a small vocabulary."""
    numbers = np.random.default_rng(1).integers(0, 50_000, size, dtype=np.int32)
    vocabulary = pa.array([f"w{number}" for number in range(50_000)])
    return pa.DictionaryArray.from_arrays(numbers, vocabulary).dictionary_decode()


def document_of_items(folder: Path, scale: float) -> list[str]:
    """One document of a hundred million items."""
    _write_document(folder / "d.parquet", _words(int(100_000_000 * scale)))
    return ["count", str(folder / "d.parquet"), "-n", "5", "--out", str(folder / "out")]


def text_of_items(folder: Path, scale: float) -> list[str]:
    """The same as plain text."""
    block = (" ".join(_words(1_000_000).to_pylist()) + " ").encode()
    _write_blocks(folder / "d.txt", (block for _ in range(int(100 * scale))))
    return ["count", str(folder / "d.txt"), "-n", "5", "--out", str(folder / "out")]


def document_of_spans(folder: Path, scale: float) -> list[str]:
    """One document with ten million spans."""
    size = int(10_000_000 * scale)
    start = np.random.default_rng(1).integers(0, 999_999, size)
    labels = pa.DictionaryArray.from_arrays((start % 3).astype(np.int32), pa.array(["LOC", "ORG", "PER"]))
    spans = pa.StructArray.from_arrays(
        [pa.array(start), pa.array(start + 1), labels.dictionary_decode()], names=["start", "end", "label"]
    )
    _write_document(folder / "d.parquet", _words(1_000_000), spans)
    return ["count", str(folder / "d.parquet"), "-n", "5", "--out", str(folder / "out")]


def many_documents(folder: Path, scale: float) -> list[str]:
    """A million documents of one item each."""
    lines = b"".join(b'{"items": ["w%d"]}\n' % (number % 1000) for number in range(10_000))
    _write_blocks(folder / "d.jsonl", (lines for _ in range(int(100 * scale))))
    return ["count", str(folder / "d.jsonl"), "-n", "1", "--out", str(folder / "out")]


def empty_documents(folder: Path, scale: float) -> list[str]:
    """Three million documents of nothing, and one of something."""
    _write_blocks(folder / "d.jsonl", _chain(b'{"text": "a"}\n', b'{"text": ""}\n' * 10_000, int(300 * scale), b""))
    return ["count", str(folder / "d.jsonl"), "-n", "1", "--out", str(folder / "out")]


def large_item(**options: bool) -> Callable[[Path, float], list[str]]:
    """Return what makes an item of a hundred million letters."""

    def make(folder: Path, scale: float) -> list[str]:
        items = pa.array(["a", "x" * int(100_000_000 * scale), "b"])
        _write_document(folder / "d.parquet", items, **options)
        return ["count", str(folder / "d.parquet"), "-n", "2", "--out", str(folder / "out")]

    return make


def many_labels(*arguments: str) -> Callable[[Path, float], list[str]]:
    """Return what makes a million labels."""

    def make(folder: Path, scale: float) -> list[str]:
        size = int(1_000_000 * scale)
        start = np.arange(size)
        labels = pa.array([f"L{number}" for number in range(size)])
        spans = pa.StructArray.from_arrays(
            [pa.array(start), pa.array(start + 1), labels], names=["start", "end", "label"]
        )
        _write_document(folder / "d.parquet", _words(size), spans)
        return ["count", str(folder / "d.parquet"), "-n", "1", *arguments, "--out", str(folder / "out")]

    return make


def many_context_labels(folder: Path, scale: float) -> list[str]:
    """A million labels of contexts."""
    _write_blocks(folder / "c.tsv", (b"L%d\ta b c\n" % number for number in range(int(1_000_000 * scale))))
    return ["count", str(folder / "c.tsv"), "--out", str(folder / "out")]


# Tables


def false_footer(folder: Path, scale: float) -> list[str]:
    """A Parquet file whose footer claims 2**40 rows."""
    path = folder / "d.parquet"
    pq.write_table(pa.table({"text": pa.nulls(MARK, pa.string())}), path)
    data = path.read_bytes()
    (size,) = struct.unpack("<I", data[-8:-4])
    footer = data[-8 - size : -8].replace(_varint(MARK), _varint(CLAIMED))
    path.write_bytes(data[: -8 - size] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return ["count", str(path), "--out", str(folder / "out")]


def _varint(number: int) -> bytes:
    """Return a number as Parquet's footer has it."""
    left, encoded = number << 1, b""
    while left >> 7:
        encoded += bytes([left & 0x7F | 0x80])
        left >>= 7
    return encoded + bytes([left])


def large_dictionary(folder: Path, scale: float) -> list[str]:
    """A Parquet file of some kilobytes whose dictionary page unpacks to more than a gigabyte."""
    one = pa.array(["a " * int(800_000_000 * scale)])
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), one)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 2**31 - 1}
    pq.write_table(pa.table({"text": texts}), folder / "d.parquet", **options)
    return ["count", str(folder / "d.parquet"), "--out", str(folder / "out")]


def repeated_dictionary(folder: Path, scale: float) -> list[str]:
    """A Parquet file whose rows all are the same string of a few megabytes."""
    one = pa.array(["a " * int(10_000_000 * scale)])
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(int(100 * scale), np.int32)), one)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 2**31 - 1}
    pq.write_table(pa.table({"text": texts}), folder / "d.parquet", **options)
    return ["count", str(folder / "d.parquet"), "--out", str(folder / "out")]


def many_columns(ending: str) -> Callable[[Path, float], list[str]]:
    """Return what makes a table of N-grams with a million columns."""

    def make(folder: Path, scale: float) -> list[str]:
        size = int(1_000_000 * scale)
        path = folder / f"c{ending}"
        if ending == ".csv":
            names, values = (",".join(f"{kind}{number}" for number in range(size)) for kind in "cv")
            path.write_text(f"ngram,f_nu,f_de,{names}\na b,1,2,{values}\n")
        else:
            columns = {
                "ngram": ["a b"],
                "f_nu": [1],
                "f_de": [2],
                **{f"c{number}": [1] for number in range(size // 10)},
            }
            pq.write_table(pa.table(columns), path, use_dictionary=False, write_statistics=False)
        return ["count", str(path), "--out", str(folder / "out")]

    return make


# Measuring

LINE = b"the bank said in a letter to the bank that it would\n"
GIANTS = [
    *(
        Giant(f"{kind} bomb, 8 GB of one word", bomb(ending, b"x", 8 * GIGABYTE), GIGABYTE, "MiB with fewer than 10")
        for kind, ending in (("gzip", ".gz"), ("bzip2", ".bz2"), ("zstd", ".zst"), ("lz4", ".lz4"))
    ),
    Giant("gzip bomb, 2 GB of lines, counted", bomb(".gz", LINE, 2 * GIGABYTE), GIGABYTE),
    Giant("gzip bomb, 0.5 GB of lines, each a document",
          bomb(".gz", LINE, GIGABYTE / 2, "--format", "text", "--split", "lines"), GIGABYTE),
    Giant("gzip bomb, 8 GB of tagged lines, one document",
          bomb(".gz", b"a/O b/LOC c/O\n", 8 * GIGABYTE), 2 * GIGABYTE, "larger than"),
    Giant("gzip bomb, 2 GB of contexts, scored", scored_bomb, GIGABYTE),
    Giant("gzip bomb of a Parquet file, 8 GB", wholly_packed_parquet, 4 * GIGABYTE, "more than 1,024 MiB"),
    Giant("tar archive, a header of 4 GB", tar_with_large_header, GIGABYTE, "has more than"),
    Giant("tar archive, a member of 4 GB", tar_with_large_member, GIGABYTE, "has more than"),
    Giant("tar archive, 2 million members", tar_with_many_members, GIGABYTE, "has more than"),
    Giant("zip archive, a member of 4 GB", zip_with_large_member, GIGABYTE, "has more than"),
    Giant("zip archive, 600,000 members", zip_with_many_members, GIGABYTE, "has neither"),
    Giant("a line of 1 GB, plain text", line("d.txt", b"", b"the bank said it ", b"\n"), GIGABYTE),
    Giant("a line of 1 GB without a blank", line("d.txt", b"", b"x", b"\n"), GIGABYTE, "MiB with fewer than 10"),
    Giant("a line of 1 GB, JSON", line("d.jsonl", b'{"text": "', b"the bank ", b'"}\n'), GIGABYTE, "is longer than"),
    Giant("a line of 1 GB, CoNLL",
          line("d", b"a O\n", b"x", b" O\n", "--format", "conll"), GIGABYTE, "is longer than"),
    Giant("a line of 1 GB, a context", line("c.txt", b"", b"the bank ", b"\n", "score"), GIGABYTE, "is longer than"),
    Giant("a line of 1 GB, CSV", line("c.csv", b"ngram,label\n", b"the bank ", b",X\n"), GIGABYTE, "no row may"),
    Giant("a document of 1 GB of lines, CoNLL",
          line("d", b"", b"word O\n", b"", "--format", "conll"), 3 * GIGABYTE, "larger than"),
    Giant("a document of 100 million items, Parquet", document_of_items, 8 * GIGABYTE),
    Giant("a document of 100 million items, plain text", text_of_items, GIGABYTE),
    Giant("10 million spans on one document, Parquet", document_of_spans, 3 * GIGABYTE),
    Giant("a million documents of one item", many_documents, GIGABYTE),
    Giant("3 million empty documents", empty_documents, GIGABYTE),
    Giant("an item of 100 MB", large_item(use_dictionary=False), 2 * GIGABYTE),
    Giant("an item of 100 MB in a dictionary page", large_item(), 2 * GIGABYTE),
    Giant("a million labels", many_labels(), 2 * GIGABYTE, "labels, such as"),
    Giant("a million labels, one wanted", many_labels("--targets", "L7"), 2 * GIGABYTE),
    Giant("a million labels of contexts", many_context_labels, 2 * GIGABYTE, "labels, such as"),
    Giant("Parquet, a footer that claims 2**40 rows", false_footer, GIGABYTE, "d.parquet"),
    Giant("Parquet, a dictionary page of 1.6 GB", large_dictionary, GIGABYTE, "are packed into"),
    Giant("Parquet, 100 rows of the same 20 MB", repeated_dictionary, 3 * GIGABYTE),
    Giant("a table of a million columns, CSV", many_columns(".csv"), GIGABYTE, "no row may have more"),
    Giant("a table of 100,000 columns, Parquet", many_columns(".parquet"), 4 * GIGABYTE),
]  # fmt: skip


def run(giant: Giant, scale: float) -> Outcome:
    """Make an input, let the command read it, and remove it."""
    with tempfile.TemporaryDirectory(prefix="raregram-giant-") as made:
        folder = Path(made)
        arguments = made_elsewhere(giant, folder, scale)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        begun = time.perf_counter()
        code, peak, said = measured([str(RAREGRAM), *arguments], folder)
        seconds = time.perf_counter() - begun
    as_stated = giant.refused in said and code == 1 if giant.refused else code == 0
    fine = as_stated and peak <= giant.most_memory and "Traceback" not in said
    return Outcome(giant.name, size, round(seconds, 1), peak, code, said.strip().splitlines()[-1:][0][-300:], fine)


def made_elsewhere(giant: Giant, folder: Path, scale: float) -> list[str]:
    """Make an input in a process of its own: the system counts what this one holds as held by those it starts."""
    command = [
        sys.executable,
        "-m",
        "reliability.giants",
        "--make",
        giant.name,
        "--into",
        str(folder),
        "--scale",
        str(scale),
    ]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [str(argument) for argument in json.loads(printed)]


def measured(command: list[str], folder: Path) -> tuple[int, int, str]:
    """Run a command: exit code, most memory that it held, and what it said."""
    environment = {**os.environ, "RAREGRAM_HOME": str(folder / "home")}
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment)
        deadline = time.monotonic() + SECONDS
        while True:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            if found:
                break
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return process.returncode, usage.ru_maxrss * 1024, said.read() or "(nothing)"


def show(outcome: Outcome) -> str:
    """Return an outcome as a row of a Markdown table."""
    result = (
        "done" if outcome.exit_code == 0 else "refused" if outcome.exit_code == 1 else f"exit {outcome.exit_code}"
    )
    figures = (
        f"{outcome.input_bytes / MEGABYTE:,.1f} MB | {outcome.seconds:,.1f} | {outcome.peak_bytes / MEGABYTE:,.0f}"
    )
    return f"| {outcome.name} | {figures} | {result}{'' if outcome.fine else ' NOT AS STATED: ' + outcome.said} |"


def main() -> int:
    """Run all, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="names or parts of them, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/reliability"))
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        giant = next(giant for giant in GIANTS if giant.name == given.make)
        print(json.dumps(giant.make(given.into, given.scale)))
        return 0
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 6 * GIGABYTE * given.scale:
        print(f"there is not enough room in {tempfile.gettempdir()}: {free / GIGABYTE:.1f} GB")
        return 1
    wanted = [part.strip() for part in given.only.split(",") if part.strip()]
    chosen = [giant for giant in GIANTS if not wanted or any(part in giant.name for part in wanted)]
    print("| input | size | seconds | peak MB | outcome |\n|---|--:|--:|--:|---|")
    outcomes = []
    for giant in chosen:
        outcomes.append(run(giant, given.scale))
        print(show(outcomes[-1]), flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "giants.json").write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    return 0 if all(outcome.fine for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Give the real commands inputs of enormous size, made on the fly, and measure what they take.

    python -m reliability.giants [--scale 1.0] [--only "gzip bomb,a line of 1 GB"] [--out build/reliability]

Each input must be read within the memory that is stated for it, or refused with a message that says why. A command
runs in a process of its own, whose peak memory the system reports. Inputs are made in a temporary folder, one at a
time, and removed; a full run wants 6 GB of disk and of memory. `--scale` makes all of them smaller, for a trial.
The exit code is 1 if anything took more than stated, or ended in another way than stated.
"""

from __future__ import annotations

import gzip
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import GIGABYTE, MEGABYTE, RAREGRAM, parser, run_measured, write_json
from reliability.mutations import PACKINGS, pack

TIMEOUT = 1800.0  # seconds after which a command is ended
COUNT, SCORE = "count {} --out out", "score model.rgm {} --out out.parquet --quiet"


@dataclass(frozen=True)
class Giant:
    """An input, the command that reads it, and what is to come of it."""

    name: str
    file: str
    write: Callable[[Path, float], object]  # to a path, at a scale
    gigabytes: float  # of memory that the command may take
    refused: str = ""  # a part of the message; empty: the command succeeds
    command: str = COUNT


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


# Compressed corpora and archives


def bomb(block: bytes, size: float, path: Path, scale: float) -> None:
    """Write a file that unpacks to `size` bytes; all four formats may be put together from parts."""
    megabyte = block * (MEGABYTE // len(block))
    packed = pack(megabyte, PACKINGS[path.suffix[1:]])
    blocks(repeat(packed, max(int(size * scale / len(megabyte)), 1)), path)


def tar(header: tarfile.TarInfo, size: float, path: Path, scale: float) -> None:
    """Write a tar archive with a header or a corpus file of so many bytes."""
    header.size = int(size * scale)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(header.size // MEGABYTE + 1):
            file.write(bytes(MEGABYTE))


def tar_of_many(path: Path, scale: float) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number in range(int(2_000_000 * scale)):
            file.write(tarfile.TarInfo(f"f{number}").tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))


def zip_of_large(path: Path, scale: float) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("reuters-000.json", "w", force_zip64=True) as member,
    ):
        for _ in range(int(4000 * scale) + 1):
            member.write(bytes(MEGABYTE))


def zip_of_many(path: Path, scale: float) -> None:
    """Write a zip archive of as many empty files as fit into the size that is taken."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(int(600_000 * scale)):
            archive.writestr(f"f{number}", b"")


EXTENDED, CORPUS_FILE = tarfile.TarInfo("./PaxHeaders/x"), tarfile.TarInfo("data/full/reuters-000.json")
EXTENDED.type = tarfile.XHDTYPE

# Long lines and large documents


def blocks(parts: Iterable[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(parts)


def repeated(before: bytes, block: bytes, times: float, after: bytes, path: Path, scale: float) -> None:
    """Write something, a block again and again, and something else."""
    blocks(chain([before], repeat(block, int(times * scale)), [after]), path)


def line(before: bytes, block: bytes, after: bytes, path: Path, scale: float) -> None:
    repeated(before, block * (MEGABYTE // len(block)), 1000, after, path, scale)


def document(path: Path, items: pa.Array, spans: pa.Array | None = None, **options: bool) -> None:
    """Write one document of many items, spans or both."""
    columns = {"items": items} if spans is None else {"items": items, "spans": spans}
    lists = {name: pa.ListArray.from_arrays([0, len(values)], values) for name, values in columns.items()}
    pq.write_table(pa.table(lists), path, **options)


def words(size: int) -> pa.Array:
    codes = np.random.default_rng(1).integers(0, 50_000, size, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(codes, [f"w{code}" for code in range(50_000)]).dictionary_decode()


def spans_at(starts: npt.NDArray[np.int64], labels: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(starts), pa.array(starts + 1), labels], ["start", "end", "label"])


def document_of_items(path: Path, scale: float) -> None:
    document(path, words(int(100_000_000 * scale)))


def text_of_items(path: Path, scale: float) -> None:
    blocks(repeat((" ".join(words(1_000_000).to_pylist()) + " ").encode(), int(100 * scale)), path)


def document_of_spans(path: Path, scale: float) -> None:
    starts = np.random.default_rng(1).integers(0, 999_999, int(10_000_000 * scale))
    labels = pa.DictionaryArray.from_arrays((starts % 3).astype(np.int32), ["LOC", "ORG", "PER"])
    document(path, words(1_000_000), spans_at(starts, labels.dictionary_decode()))


def large_item(use_dictionary: bool, path: Path, scale: float) -> None:
    document(path, pa.array(["a", "x" * int(100_000_000 * scale), "b"]), use_dictionary=use_dictionary)


def many_labels(path: Path, scale: float) -> None:
    size = int(1_000_000 * scale)
    document(path, words(size), spans_at(np.arange(size), pa.array([f"L{number}" for number in range(size)])))


def many_context_labels(path: Path, scale: float) -> None:
    blocks((b"L%d\ta b c\n" % number for number in range(int(1_000_000 * scale))), path)


# Tables


def wide_csv(path: Path, scale: float) -> None:
    names, values = (",".join(f"{kind}{number}" for number in range(int(1_000_000 * scale))) for kind in "cv")
    path.write_text(f"ngram,f_nu,f_de,{names}\na b,1,2,{values}\n")


def wide_parquet(path: Path, scale: float) -> None:
    others = {f"c{number}": [1] for number in range(int(100_000 * scale))}
    table = pa.table({"ngram": ["a b"], "f_nu": [1], "f_de": [2], **others})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False)


LINE = b"the bank said in a letter to the bank that it would\n"
ITEMS = b"".join(b'{"items": ["w%d"]}\n' % number for number in range(1000))
EMPTY = (b'{"text": "a"}\n', b'{"text": ""}\n' * 10_000)
FETCH = "fetch reuters {} --quiet"
FIVE, ONE = "count {} -n 5 --out out", "count {} -n 1 --out out"
CONLL, BY_LINES = "count {} --format conll --out out", "count {} --format text --split lines --out out"
GIANTS = [
    *(
        Giant(f"{kind} bomb, 8 GB of one word", f"bomb.{end}", partial(bomb, b"x", 8e9), 1, "MiB with fewer than 10")
        for kind, end in (("gzip", "gz"), ("bzip2", "bz2"), ("zstd", "zst"), ("lz4", "lz4"))
    ),
    Giant("gzip bomb, 2 GB of lines, counted", "bomb.gz", partial(bomb, LINE, 2e9), 1.5),
    Giant("gzip bomb, 0.5 GB of lines, each a document", "bomb.gz", partial(bomb, LINE, 5e8), 1, command=BY_LINES),
    Giant("gzip bomb, 8 GB of tagged lines, one document",
          "bomb.gz", partial(bomb, b"a/O b/LOC c/O\n", 8e9), 2, "larger than"),
    Giant("gzip bomb, 2 GB of contexts, scored", "bomb.gz", partial(bomb, b"a b c\n", 2e9), 1, command=SCORE),
    Giant("gzip bomb of a Parquet file, 8 GB",
          "bomb.parquet.gz", partial(bomb, b"PAR1" + bytes(MEGABYTE - 4), 8e9), 4, "more than 1,024 MiB"),
    Giant("tar archive, a header of 4 GB", "a.tgz", partial(tar, EXTENDED, 4e9), 1, "has more than", FETCH),
    Giant("tar archive, a member of 4 GB", "a.tgz", partial(tar, CORPUS_FILE, 4e9), 1, "has more than", FETCH),
    Giant("tar archive, 2 million members", "a.tgz", tar_of_many, 1, "has more than", FETCH),
    Giant("zip archive, a member of 4 GB", "a.zip", zip_of_large, 1, "has more than", FETCH),
    Giant("zip archive, 600,000 members", "a.zip", zip_of_many, 1, "has neither", FETCH),
    Giant("a line of 1 GB, plain text", "d.txt", partial(line, b"", b"the bank said it ", b"\n"), 1.5),
    Giant("a line of 1 GB without a blank", "d.txt", partial(line, b"", b"x", b"\n"), 1, "MiB with fewer than 10"),
    Giant("a line of 1 GB, JSON",
          "d.jsonl", partial(line, b'{"text": "', b"the bank ", b'"}\n'), 1, "is longer than"),
    Giant("a line of 1 GB, CoNLL", "d", partial(line, b"a O\n", b"x", b" O\n"), 1, "is longer than", CONLL),
    Giant("a line of 1 GB, a context", "c.txt", partial(line, b"", b"the bank ", b"\n"), 1, "is longer than", SCORE),
    Giant("a line of 1 GB, CSV", "c.csv", partial(line, b"ngram,label\n", b"the bank ", b",X\n"), 1, "no row may"),
    Giant("a document of 1 GB of lines, CoNLL", "d", partial(line, b"", b"word O\n", b""), 3, "larger than", CONLL),
    Giant("a document of 100 million items, Parquet", "d.parquet", document_of_items, 8, command=FIVE),
    Giant("a document of 100 million items, plain text", "d.txt", text_of_items, 1.5, command=FIVE),
    Giant("10 million spans on one document, Parquet", "d.parquet", document_of_spans, 3, command=FIVE),
    Giant("a million documents of one item", "d.jsonl", partial(repeated, b"", ITEMS, 1000, b""), 1, command=ONE),
    Giant("3 million empty documents", "d.jsonl", partial(repeated, *EMPTY, 300, b""), 1, command=ONE),
    Giant("an item of 100 MB", "d.parquet", partial(large_item, False), 2, command="count {} -n 2 --out out"),
    Giant("an item of 100 MB in a dictionary page",
          "d.parquet", partial(large_item, True), 2, command="count {} -n 2 --out out"),
    Giant("a million labels", "d.parquet", many_labels, 2, "labels, such as", ONE),
    Giant("a million labels, one wanted", "d.parquet", many_labels, 2, command=f"{ONE} --targets L7"),
    Giant("a million labels of contexts", "c.tsv", many_context_labels, 2, "labels, such as"),
    Giant("a table of a million columns, CSV", "c.csv", wide_csv, 1, "no row may have more"),
    Giant("a table of 100,000 columns, Parquet", "c.parquet", wide_parquet, 4),
]  # fmt: skip


def make(giant: Giant, folder: Path, scale: float) -> None:
    """Write an input, and a model to score it with."""
    import raregram as rg

    giant.write(folder / giant.file, scale)
    rg.fit(rg.Counts.from_contexts(["a b c", "d e f"], ["X", None])).save(folder / "model.rgm")


def run(giant: Giant, scale: float) -> Outcome:
    """Make an input, let the command read it, and remove it."""
    with tempfile.TemporaryDirectory(prefix="raregram-giant-") as made:
        folder = Path(made)
        # In a process of its own: the system counts the memory of this one as that of those that it starts.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            pool.submit(make, giant, folder, scale).result()
        command = [RAREGRAM, *giant.command.format(giant.file).split()]
        options: dict[str, Any] = {"cwd": folder, "env": {**os.environ, "RAREGRAM_HOME": str(folder / "home")}}
        with (folder / "said").open("w+") as errors:
            code, seconds, peak = run_measured(command, TIMEOUT, **options, stdout=subprocess.DEVNULL, stderr=errors)
            errors.seek(0)
            said = errors.read() or "(nothing)"
        size = (folder / giant.file).stat().st_size
    as_stated = giant.refused in said and code == 1 if giant.refused else code == 0
    fine = as_stated and peak <= giant.gigabytes * GIGABYTE and "Traceback" not in said
    return Outcome(giant.name, size, round(seconds, 1), peak, code, said.strip().splitlines()[-1][-300:], fine)


def show(outcome: Outcome) -> None:
    """Print an outcome as a row of a Markdown table."""
    result = {0: "done", 1: "refused"}.get(outcome.exit_code, f"exit {outcome.exit_code}")
    result += "" if outcome.fine else f" NOT AS STATED: {outcome.said}"
    size, peak = outcome.input_bytes / MEGABYTE, outcome.peak_bytes / MEGABYTE
    print(f"| {outcome.name} | {size:,.1f} MB | {outcome.seconds:,.1f} | {peak:,.0f} | {result} |", flush=True)


def main() -> int:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", default="", help="names or parts of them, with commas")
    given = options.parse_args()
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 6 * GIGABYTE * given.scale:
        print(f"there is not enough space in {tempfile.gettempdir()}: {free / GIGABYTE:.1f} GB")
        return 1
    wanted = [part.strip() for part in given.only.split(",") if part.strip()]
    print("| input | size | seconds | peak MB | outcome |\n|---|--:|--:|--:|---|")
    outcomes = []
    for giant in GIANTS:
        if not wanted or any(part in giant.name for part in wanted):
            outcomes.append(run(giant, given.scale))
            show(outcomes[-1])
    write_json(given.out / "giants.json", [asdict(outcome) for outcome in outcomes])
    return 0 if all(outcome.fine for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

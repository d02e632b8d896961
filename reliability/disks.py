"""Let the commands that write files run out of room, and meet disks that cannot be written to.

    python reliability/disks.py [--steps 6] [--only NAME] [--older] [--out build/reliability]

First the functions of the library that write files meet disks of many sizes (tmpfs). Then each command of
`commands.py` works on a small disk of its own, whose size is swept, so that the room ends at different moments; then
on one without room for another file, and on a read-only one. It must end with exit code 1 and one line that names
what could not be written and says why, leave every file under a final name as it was (or whole), and neither drafts
nor temporary files. When the disk has grown, the command must succeed, and leave what it leaves on a large disk, bit
for bit. What it finished before is kept for that by `tag` and `reproduce` (hidden folders), as
they promise. Last come targets that cannot be written to, and standard output.

The disks are mounted in a namespace of their own, which ends with this program: as root, or where users may have
namespaces. Written is disks.json. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

import commands
import kills
import raregram as rg
from commands import Command, Tree, finals, tree
from kills import Checks, Place, Undisturbed, new_place, total
from raregram.corpus.contexts import open_contexts
from raregram.corpus.documents import Options
from raregram.corpus.fetch import fetch_reuters
from raregram.counts import storage
from raregram.counts.count import count_table
from raregram.counts.kernel import Plan
from raregram.errors import FileError
from raregram.measure.score import score_columns
from raregram.show.write import output_format, score_writer

PAGE = 4096  # bytes, of which the size of a tmpfs is a multiple
LARGE, INODES = 256 << 20, 100_000
FULL, READ_ONLY, BUSY = "No space left on device", "Read-only file system", "Device or resource busy"
REPORT = Command("report", "reproduce --report-only", commands.REPRODUCE.format(2), {"KILL_CLOCK": "1"})
NAMES = [*(command.name for command in commands.COMMANDS if command.name != "fetch by npm"), REPORT.name]
LIBRARY, TARGETS, OUTPUT = "library", "odd targets", "standard output"
EVERYTHING = [LIBRARY, *NAMES, TARGETS, OUTPUT]


@dataclass
class Figures(Checks):
    """What happened to one command."""

    refused: int = 0  # runs that ended with exit code 1, as they should
    fitted: int = 0  # runs that had room enough after all


# Disks


def namespace() -> list[str] | None:
    """Return the words before a command that let it mount disks which nobody else sees; None where it may not."""
    with tempfile.TemporaryDirectory(prefix="disks-") as folder:
        for words in (["unshare", "-m"], ["unshare", "-rm"]):
            try:
                subprocess.run([*words, *_mount(Path(folder), PAGE)], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return words
    return None


def _mount(folder: Path, size: int) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={INODES}", "tmpfs", str(folder)]


@contextmanager
def small_disk(folder: Path, saved: Path) -> Iterator[None]:
    """Mount a disk on a folder, with what was saved in it."""
    folder.mkdir(exist_ok=True)
    subprocess.run(_mount(folder, LARGE), check=True)
    try:
        shutil.copytree(saved, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def change(folder: Path, option: str) -> None:
    """Change a disk that is mounted: its size, or whether it can be written to."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def sizes(calm: Undisturbed, steps: int) -> list[int]:
    """Return sizes of a disk from one that takes a page more than is there, to about one that suffices."""
    before = sum(_pages(calm.saved / name) for name in finals(calm.before))
    need = max(calm.largest // PAGE, 1)
    return [PAGE * (before + 1 + need * step // steps) for step in range(steps)]


def _pages(path: Path) -> int:
    return -(-path.stat().st_size // PAGE)


# What is tried


def exhaust(command: Command, place: Place, calm: Undisturbed, steps: int, figures: Figures) -> None:
    """Run a command on disks of many sizes, on one without room for a file, and on a read-only one."""
    for size in sizes(calm, steps):
        _try(command, place, calm, f"size={size}", FULL, figures)
    _try(command, place, calm, f"nr_inodes={len(calm.before) + 1}", FULL, figures)  # those in use, with the folder's
    _try(command, place, calm, "ro", READ_ONLY, figures)


def _try(command: Command, place: Place, calm: Undisturbed, option: str, reason: str, figures: Figures) -> None:
    """Run a command on a disk that refuses, check what is there, and run it again on one that does not."""
    known = len(figures.faults)
    with small_disk(place.run, calm.saved):
        change(place.run, option)
        code, said = commands.run(command, place.run, place.environment())
        if code == 0:
            figures.fitted += 1
        else:
            figures.refused += 1
            figures.faults += complaints(code, said, reason, {*finals(calm.after)})
        _check_left(place, calm, figures)
        change(place.run, f"rw,size={LARGE},nr_inodes={INODES}")
        kills.rerun(command, place, calm, figures)
    figures.faults[known:] = [f"on a disk with {option}: {fault}" for fault in figures.faults[known:]]


def complaints(code: int, said: str, reason: str, names: set[str]) -> list[str]:
    """Return what is wrong with the end of a command that should have named what it could not write, and why."""
    known = {*names, *(Path(name).name for name in names), "reuters-21578", ".work"}
    wrong = []
    if code != 1:
        wrong.append(f"exit code {code}, expected 1: {said}")
    if said.count("\n") != 1 or not said.startswith("raregram: error: cannot "):
        wrong.append(f"expected one line, got {said!r}")
    if reason not in said or not any(name in said for name in known):
        wrong.append(f"expected {reason!r} and the name of a file, got {said!r}")
    return wrong


def _check_left(place: Place, calm: Undisturbed, figures: Figures) -> None:
    """See that final names are whole, and that nothing is left but what serves the next run."""
    kills.check_files(place, calm, figures)
    if litter := [*_litter(place.run), *tree(place.temporary)]:
        figures.faults.append(f"left behind: {litter}")


def exhaust_command(command: Command, place: Place, steps: int, ways: Sequence[bool]) -> Figures:
    """Let a command run out of room in an empty folder, or in one with older files."""
    begin, figures = time.perf_counter(), Figures(command.name)
    for older in ways:
        if older or command.name != REPORT.name:  # a report is about results, which must be there
            calm = kills.undisturbed(command, place, older)
            shutil.rmtree(place.run)
            exhaust(command, place, calm, steps, figures)
    figures.seconds = round(time.perf_counter() - begin, 1)
    return figures


# The library, without the cost of starting a process


def exhaust_library(place: Place, steps: int) -> Iterator[Figures]:
    """Let each function that writes files run out of room, at many sizes of a disk, most of them small."""
    for name, write in WRITERS.items():
        begin, figures = time.perf_counter(), Figures(name)
        calm = place.base / "calm"
        calm.mkdir()
        write(place.base / "inputs", calm)
        empty = place.base / "nothing"
        empty.mkdir(exist_ok=True)
        with small_disk(place.run, empty):
            enough = 64 + 8 * sum(_pages(path) for path in calm.rglob("*") if path.is_file())
            for pages in sorted({round(enough ** (step / (steps - 1))) for step in range(steps)}):
                change(place.run, f"size={PAGE * pages}")
                _write_or_refuse(write, place, finals(tree(calm)), figures)
            change(place.run, f"size={LARGE}")
            write(place.base / "inputs", place.run)
            figures.reruns, figures.reruns_equal = 1, int(tree(place.run) == tree(calm))
        shutil.rmtree(calm)
        figures.seconds = round(time.perf_counter() - begin, 1)
        yield figures


def _write_or_refuse(write: Writer, place: Place, whole: Tree, figures: Figures) -> None:
    """Write to a disk that may be too small; what is there then is whole, or there is nothing."""
    size = shutil.disk_usage(place.run).total
    try:
        write(place.base / "inputs", place.run)
        figures.fitted += 1
    except FileError as error:
        figures.refused += 1
        if FULL not in str(error) or str(place.run) not in str(error):
            figures.faults.append(f"with {size} bytes: {error}")
    found = finals(tree(place.run))
    figures.files_checked += len(found)
    if found and found != whole and not found.items() <= whole.items():
        figures.faults.append(f"with {size} bytes: not whole: {sorted(found)}")
    if litter := _litter(place.run):
        figures.faults.append(f"with {size} bytes: left behind: {litter}")
    for path in place.run.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _litter(folder: Path) -> list[str]:
    """Return what no run should leave when it fails: drafts, folders for what memory had no room for, work."""
    return [name for name in tree(folder) if re.search(r"\.[0-9a-f]{16}\.(draft|spill|lock)$|/\.work(/|$)", name)]


def _save_counts(inputs: Path, folder: Path) -> None:
    rg.Counts.load(inputs / "a.counts").save(folder / "a.counts")


def _save_model(inputs: Path, folder: Path) -> None:
    rg.Model.load(inputs / "a.rgm").save(folder / "a.rgm")


def _count_beside(inputs: Path, folder: Path) -> None:
    """Count under a limit that makes it spill, as the command does."""
    plan = Plan(n=4, spans=("suffixes:4",))
    beside, limit = folder / "c.counts", 1_000_000
    with count_table(
        (str(inputs / "a.jsonl"), None, None), plan, Options(), beside=beside, memory_limit=limit
    ) as table:
        storage.write(beside, table)


def _count_with_temporary(inputs: Path, folder: Path) -> None:
    """Count under such a limit from Python: what memory has no room for goes where the system keeps such files."""
    tempfile.tempdir = str(folder)
    try:
        rg.count(str(inputs / "a.jsonl"), n=4, spans=["suffixes:4"], memory_limit=1_000_000)
    finally:
        tempfile.tempdir = None


def _score(suffix: str, inputs: Path, folder: Path) -> None:
    model = rg.Model.load(inputs / "a.rgm")
    out = str(folder / f"scored.{suffix}")
    heads, batches = open_contexts([str(inputs / "contexts.tsv")])
    added = score_columns("log_ratio", interval=False, documents=False)
    with score_writer(out, output_format(out, as_json=False), heads, added, "words") as write:
        for batch in batches:
            ngrams = model.parse(batch.ngrams)
            write(batch, ngrams, {"log_ratio": pa.array(model.log_ratio(ngrams.lists()))})


def _fetch(inputs: Path, folder: Path) -> None:
    os.environ["RAREGRAM_HOME"] = str(folder)
    fetch_reuters(str(inputs / "a.tgz"))


Writer: TypeAlias = Callable[[Path, Path], None]
WRITERS: dict[str, Writer] = {
    "Counts.save": _save_counts,
    "Model.save": _save_model,
    "count, spilling": _count_beside,
    "count, temporary": _count_with_temporary,
    "scores, Parquet": partial(_score, "parquet"),
    "scores, CSV": partial(_score, "csv"),
    "scores, text": partial(_score, "txt"),
    "fetch_reuters": _fetch,
}


# Targets that cannot be


def refuse_targets(command: Command, place: Place, calm: Undisturbed) -> list[str]:
    """Run a command that writes one file where its folder is missing, it is a folder, or it is a mounted one."""
    (name,) = finals(calm.after)
    cases: dict[str, tuple[str, Callable[[Path], object]]] = {
        "the folder {} does not exist": ("nowhere/" + name, Path),
        "it is a folder": (name, Path.mkdir),
        BUSY: (name, _mount_over),
    }
    faults = []
    for reason, (target, prepare) in cases.items():
        place.begin(place.base / "empty")
        prepare(place.run / target)
        before = finals(tree(place.run))
        arguments = command.arguments.replace(f" {name}", f" {target}")
        code, said = commands.run(command, place.run, place.environment(), arguments)
        faults += complaints(code, said, reason.format(Path(target).parent), {target})
        if finals(tree(place.run)) != before or _litter(place.run):
            faults.append(f"{reason}: something is left behind: {sorted(tree(place.run))}")
        if reason == BUSY:
            subprocess.run(["umount", str(place.run / target)], check=True)
    return faults


def _mount_over(target: Path) -> None:
    """Let a file be in use in the one way that keeps another from taking its name."""
    target.write_text("in use")
    subprocess.run(["mount", "--bind", str(target), str(target)], check=True)


# Standard output

PRINTING = (
    "score ../inputs/a.rgm ../inputs/contexts.tsv",
    "score ../inputs/a.rgm ../inputs/contexts.tsv --json",
    "rank ../inputs/a.rgm ../inputs/contexts.tsv --top 5000",
    "info ../inputs/a.rgm",
    "info ../inputs/a.counts --json",
    "explain ../inputs/a.rgm w1-w2-w3-in",
)


def print_to_full(arguments: str, folder: Path) -> list[str]:
    """Let a command print to a full disk; return what is wrong with how it ends."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            _words(arguments), cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    if done.returncode == 1 and done.stderr.count("\n") == 1 and FULL in done.stderr:
        return []
    return [f"{arguments}: printing to a full disk ends with {done.returncode}: {done.stderr}"]


def print_to_closed(arguments: str, folder: Path) -> list[str]:
    """Let a command print to a pipe whose reader goes away after a line; return what is wrong with how it ends."""
    with subprocess.Popen(_words(arguments), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
    return [f"{arguments}: after its reader has gone: {said}"] if said else []


def _words(arguments: str) -> list[str]:
    """Return a command line; an N-gram is written with hyphens here."""
    return [str(commands.RAREGRAM), *(word.replace("w1-w2-w3-in", "w1 w2 w3 in") for word in arguments.split())]


# The program


HEADER = f"{'command':<28}{'refused':>9}{'fitted':>8}{'files':>8}{'reruns':>8}{'equal':>7}{'faults':>8}{'s':>7}"


def show(f: Figures) -> None:
    """Print a line for a command, and one for each of its faults."""
    print(
        f"{f.name:<28}{f.refused:>9}{f.fitted:>8}{f.files_checked:>8}{f.reruns:>8}{f.reruns_equal:>7}"
        f"{len(f.faults):>8}{f.seconds:>7.0f}",
        *(f"    {fault}" for fault in f.faults),
        sep="\n",
        flush=True,
    )


def try_all(names: Sequence[str], base: Path, steps: int, ways: Sequence[bool]) -> Iterator[Figures]:
    """Try the library, then commands one after the other, then targets that cannot be and standard output."""
    commands.make_inputs(base / "inputs")
    if LIBRARY in names:
        yield from exhaust_library(new_place(base), 4 * steps)
    with commands.served(base / "inputs") as url:
        for name in NAMES:
            if name in names and commands.can_run(name):
                command = REPORT if name == REPORT.name else commands.named(name, url)
                place = new_place(base)
                yield exhaust_command(command, place, steps, ways)
    if TARGETS in names:
        yield from refuse_all(base)
    if OUTPUT in names:
        figures = Figures(OUTPUT, refused=len(PRINTING))
        for arguments in PRINTING:
            figures.faults += print_to_full(arguments, base / "place") + print_to_closed(arguments, base / "place")
        yield figures


def refuse_all(base: Path) -> Iterator[Figures]:
    """Try targets that cannot be with every command that writes one file."""
    for name in ("count", "merge", "fit", "tune", "score to CSV", "tag"):
        if commands.can_run(name):
            begin, command, place = time.perf_counter(), commands.named(name), new_place(base)
            faults = refuse_targets(command, place, kills.undisturbed(command, place, older=False))
            seconds = round(time.perf_counter() - begin, 1)
            yield Figures(f"{name}, {TARGETS}", refused=3, faults=faults, seconds=seconds)


def main() -> None:
    """Enter a namespace, then try everything in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, help="sizes of the disk for each command")
    parser.add_argument("--only", action="append", choices=EVERYTHING)
    parser.add_argument("--older", action="store_true", help="only where there are older files under the same names")
    parser.add_argument("--out", type=Path, default=Path("build/reliability"))
    given = parser.parse_args()
    if "DISKS_INSIDE" not in os.environ:
        words = namespace()
        if words is None:
            sys.exit("disks cannot be mounted here: neither as root nor in a user namespace")
        os.environ["DISKS_INSIDE"] = "1"
        os.execvp(words[0], [*words, sys.executable, *sys.argv])
    done, ways = [], [True] if given.older else [False, True]
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="disks-") as base:
        for figures in try_all(given.only or EVERYTHING, Path(base), given.steps, ways):
            done.append(figures)
            show(figures)
    if not done:
        sys.exit("none of these commands can run here")
    show(total(done))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "disks.json").write_text(json.dumps([asdict(figures) for figures in done], indent=1) + "\n")
    sys.exit(any(figures.faults for figures in done))


if __name__ == "__main__":
    main()

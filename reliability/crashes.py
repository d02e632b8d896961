"""Kill the commands that write files, let them run out of space, and see that no file is broken or lost.

    python -m reliability.crashes [--seed 0] [--times 6] [--events 16] [--bytes 4] [--sizes 6] [--only NAME]

**Kills.** Each command of `commands.py` runs as a real group of processes, and is ended by SIGKILL at a random time,
right before its k-th change of a name or a file (see `hook/sitecustomize.py`), or when a file reaches its n-th byte.
One to three kills follow one another, on an empty folder or on one with older files under the same names. **Disks.**
Then it works on small disks (tmpfs) of many sizes, on one without space for another file, and on a read-only one: it
must end with exit code 1 and one line that names what could not be written and why.

After each run every file under a final name must be the older one or the finished one, to the last byte. Then the
command runs undisturbed: it must leave the files of an undisturbed run, bit for bit. At the end come
targets that cannot be written.

The disks are mounted in a namespace of their own, which ends with this program: as root, or where users may have
namespaces. Written is crashes.json. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

from benchmarks.measuring import parser, write_json
from reliability import commands
from reliability.commands import COMMANDS, Command, Tree, finals, named, tree

HOOK = Path(__file__).resolve().parent / "hook"
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)
MOST_KILLS = 3  # one after the other
PAGE = 4096  # bytes, of which the size of a tmpfs is a multiple
LARGE, INODES = 256 << 20, 100_000
FULL, READ_ONLY, BUSY = "No space left on device", "Read-only file system", "Device or resource busy"
INSIDE = "CRASHES_INSIDE"  # set where disks can be mounted


@dataclass
class Figures:
    """What happened to one command, and what was wrong."""

    name: str
    stopped: int = 0  # runs that were killed, or refused by the disk
    finished: int = 0  # runs that ended before they were killed, or had space enough
    unfinished: int = 0  # kills that left a temporary file
    files_checked: int = 0
    reruns: int = 0
    reruns_equal: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Say of the faults found inside what was done."""
        known, start = len(self.faults), time.perf_counter()
        yield
        self.faults[known:] = [f"{what}: {fault}" for fault in self.faults[known:]]
        self.seconds = round(self.seconds + time.perf_counter() - start, 2)


class Workplace:
    """A folder for one command: what it reads, where it works, and its temporary files."""

    def __init__(self, base: Path) -> None:
        self.base, self.run, self.temporary = base, base / "run", base / "tmp"
        path = os.pathsep.join([str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])])
        watched = os.pathsep.join([str(self.run), str(self.temporary)])
        self.environment = {"PYTHONPATH": path, "TMPDIR": str(self.temporary), "KILL_FOLDERS": watched}

    @classmethod
    def fresh(cls, base: Path) -> Workplace:
        place = cls(base / "place")
        shutil.rmtree(place.base, ignore_errors=True)
        place.base.mkdir()
        (place.base / "inputs").symlink_to(base / "inputs")
        return place

    def begin(self, saved: Path | None = None) -> None:
        """Let the folder be as it was saved, or empty."""
        for folder in (self.run, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        if saved is not None:
            shutil.copytree(saved, self.run, dirs_exist_ok=True)


@dataclass(frozen=True)
class Undisturbed:
    """What a command does when nobody disturbs it."""

    saved: Path  # the folder before it
    before: Tree
    after: Tree
    seconds: float
    events: int  # that the hook counts
    largest: int  # bytes of a file


def undisturbed(command: Command, place: Workplace, older: bool) -> Undisturbed:
    """Run a command to its end, on an empty folder or after its older form, and record what it does."""

    def succeed(arguments: str, **more: str) -> None:
        code, said = commands.run(command, place.run, {**place.environment, **more}, arguments)
        if code or tree(place.temporary):
            raise RuntimeError(f"{command.name} ends with {code} and leaves {[*tree(place.temporary)]}: {said}")

    saved, log = place.base / ("older" if older else "empty"), place.base / "events.log"
    place.begin()
    if older:
        succeed(command.older)
    shutil.copytree(place.run, saved, dirs_exist_ok=True)
    log.write_text("")
    start = time.perf_counter()
    succeed(command.arguments, KILL_LOG=str(log))
    seconds = time.perf_counter() - start
    after = tree(place.run)
    largest = max((place.run / name).stat().st_size for name in finals(after))
    return Undisturbed(saved, tree(saved), after, seconds, log.read_text().count("\n"), largest)


# After every run


def check_files(place: Workplace, calm: Undisturbed, figures: Figures) -> None:
    """See that each file under a final name is whole: the older one, or the finished one."""
    found, before, after = finals(tree(place.run)), finals(calm.before), finals(calm.after)
    for name in sorted({*found, *before}):
        figures.files_checked += 1
        if found.get(name) not in (before.get(name), after.get(name)) or name not in found:
            wrong = "is neither the older file nor the finished one" if name in found else "is gone"
            figures.faults.append(f"{name} {wrong}")


def rerun(command: Command, place: Workplace, calm: Undisturbed, figures: Figures) -> None:
    """Run a command to its end, and compare all files under final names with what an undisturbed run leaves."""
    figures.reruns += 1
    code, said = commands.run(command, place.run, place.environment)
    left, wanted = finals(tree(place.run)), finals(calm.after)
    if code or "Traceback" in said:
        figures.faults.append(f"the rerun ends with {code}: {said}")
    elif left != wanted:
        names = sorted(name for name in {*left, *wanted} if left.get(name) != wanted.get(name))
        figures.faults.append(f"after the rerun these are not as they should be: {names}")
    else:
        figures.reruns_equal += 1


# Kills


def kill(command: Command, place: Workplace, kind: str, at: float) -> int:
    """Start a command, kill it with all its processes at a time, an event or a byte, and return its exit code."""
    moment = {} if kind == "time" else {f"KILL_AT_{kind.upper()}": str(int(at))}
    process = commands.start(command, place.run, {**place.environment, **moment}, command.arguments)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=at if kind == "time" else commands.TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode


def choose_moments(calm: Undisturbed, source: random.Random, budget: Sequence[int]) -> list[tuple[str, float]]:
    """Choose when to kill: so many random times, events (all of them if they are few), and bytes."""
    times, events, most_bytes = budget
    chosen: list[tuple[str, float]] = [("time", source.uniform(0, calm.seconds)) for _ in range(times)]
    chosen += [("event", k) for k in source.sample(range(1, calm.events + 1), min(events, calm.events))]
    chosen += [("byte", source.randrange(calm.largest)) for _ in range(most_bytes)]
    source.shuffle(chosen)
    return chosen


def kill_often(
    command: Command, place: Workplace, ways: Sequence[Undisturbed], source: random.Random, budget: Sequence[int]
) -> Figures:
    """Kill a command at many moments, with and without older files in turns, and rerun it after each few kills."""
    figures = Figures(f"{command.name}, killed")
    moments = choose_moments(ways[0], source, budget if command.byte_kills else (*budget[:2], 0))
    for calm in cycle(ways):
        if not moments:
            return figures
        place.begin(calm.saved)
        for _ in range(min(source.randint(1, MOST_KILLS), len(moments))):
            kind, at = moments.pop()
            with figures.during(f"killed at {kind} {at:g}"):
                code = kill(command, place, kind, at)
                if code not in (0, *KILLED):
                    figures.faults.append(f"ends with {code}")
                figures.stopped += code in KILLED
                figures.finished += code == 0
                left = {*tree(place.run)} - {*calm.before} - {*calm.after} or tree(place.temporary)
                figures.unfinished += code in KILLED and bool(left)
                check_files(place, calm, figures)
        with figures.during("after kills"):
            rerun(command, place, calm, figures)
    return figures


# Disks


def namespace() -> list[str] | None:
    """Return the words before a command that let it mount disks which nobody else sees; None where it may not."""
    with tempfile.TemporaryDirectory(prefix="disks-") as folder:
        for words in (["unshare", "-m"], ["unshare", "-rm"]):
            with suppress(OSError, subprocess.CalledProcessError):
                subprocess.run([*words, *_mount(Path(folder))], check=True, capture_output=True)
                return words
    return None


def _mount(folder: Path) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={LARGE},nr_inodes={INODES}", "tmpfs", str(folder)]


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[str], object]]:
    """Mount a disk on a folder; give a function that changes its size, or whether it can be written to."""
    folder.mkdir(exist_ok=True)
    subprocess.run(_mount(folder), check=True)
    try:
        yield lambda option: subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_disks(command: Command, place: Workplace, ways: Sequence[Undisturbed], sizes: int) -> Figures:
    """Run a command on disks of many sizes, on one without space for a file, and on a read-only one."""
    figures = Figures(f"{command.name}, full disk")
    for calm in ways:
        pages = sum(_pages(calm.saved / name) for name in finals(calm.before)) + 1
        need = max(calm.largest // PAGE, 1)
        options = {f"size={PAGE * (pages + need * step // sizes)}": FULL for step in range(sizes)}
        options[f"nr_inodes={len(calm.before) + 1}"] = FULL  # those in use, with the folder's
        for option, reason in {**options, "ro": READ_ONLY}.items():
            place.begin()
            with figures.during(f"on a disk with {option}"), small_disk(place.run) as change:
                shutil.copytree(calm.saved, place.run, dirs_exist_ok=True)
                change(option)
                code, said = commands.run(command, place.run, place.environment)
                figures.stopped += code != 0
                figures.finished += code == 0
                figures.faults += complaints(code, said, reason, {*finals(calm.after)}) if code else []
                check_files(place, calm, figures)
                found = tree(place.run)  # temporary files may stay where the next run resumes with them
                left = {*found, *tree(place.temporary)} - {*calm.before, *finals(found), *calm.after}
                if left and not command.resumes:
                    figures.faults.append(f"left behind: {sorted(left)}")
                change(f"rw,size={LARGE},nr_inodes={INODES}")
                rerun(command, place, calm, figures)
    return figures


def _pages(path: Path) -> int:
    return -(-path.stat().st_size // PAGE)


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


# Targets that cannot be written

ONE_FILE = ("count", "merge", "fit", "tune", "score to CSV", "tag")


def refuse_targets(name: str, place: Workplace) -> Figures:
    """Run a command that writes one file where its folder is missing, it is a folder, or it is a mounted file."""
    command, figures = named(name), Figures(f"{name}, targets")
    (written,) = finals(undisturbed(command, place, older=False).after)
    for reason in ("the folder nowhere does not exist", "it is a folder", BUSY):
        place.begin()
        target = f"nowhere/{written}" if "nowhere" in reason else written
        path = place.run / target
        if reason == BUSY:  # in use in the one way that keeps another file from taking its name
            path.write_text("in use")
            subprocess.run(["mount", "--bind", path, path], check=True)
        elif target == written:
            path.mkdir()
        before = tree(place.run)
        arguments = command.arguments.replace(f" {written}", f" {target}")
        with figures.during(reason):
            code, said = commands.run(command, place.run, place.environment, arguments)
            figures.stopped += 1
            figures.faults += complaints(code, said, reason, {target})
            left = tree(place.run)
            if left != before and not (command.resumes and finals(left) == finals(before)):
                figures.faults.append(f"something is left behind: {sorted(left)}")
        if reason == BUSY:
            subprocess.run(["umount", path], check=True)
    return figures


# The program


def try_all(given: argparse.Namespace, base: Path) -> Iterator[Figures]:
    """Try commands one after the other, then the rest unless some commands were named."""
    commands.make_inputs(base / "inputs")
    budget = (given.times, given.events, given.bytes)
    with commands.served(base / "inputs") as url:
        for number, name in enumerate(given.only or COMMANDS):
            command, place = named(name, url), Workplace.fresh(base)
            if find_spec(command.needs) is None:
                print(f"{name}: left out, since {command.needs} is not installed")
                continue
            olders = [True] if given.older or name == "report" else [False, True]  # a report is about older results
            ways = [undisturbed(command, place, older) for older in olders]
            if any(budget) and name != "report":
                yield kill_often(command, place, ways, random.Random(given.seed * 1000 + number), budget)
            if given.sizes and name != "fetch by npm":
                yield fill_disks(command, place, ways, given.sizes)
    if given.only or not given.sizes:
        return
    for name in ONE_FILE:
        if find_spec(named(name).needs):
            yield refuse_targets(name, Workplace.fresh(base))


COLUMNS = [name for name in asdict(Figures("")) if name not in ("name", "faults")]


def show(figures: Figures) -> None:
    """Print a line for a command, and one for each of its faults."""
    cells = [f"{getattr(figures, name):>{len(name) + 2}}" for name in COLUMNS]
    print(f"{figures.name:<32}{''.join(cells)}{len(figures.faults):>8}", flush=True)
    print("".join(f"    {fault}\n" for fault in figures.faults), end="", flush=True)


def main() -> None:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--times", type=int, default=6, help="kills of each command at random times")
    options.add_argument("--events", type=int, default=16, help="kills of each command at events")
    options.add_argument("--bytes", type=int, default=4, help="kills of each command at bytes of a file")
    options.add_argument("--sizes", type=int, default=6, help="sizes of the disk for each command; 0: no disks")
    options.add_argument("--only", action="append", choices=[*COMMANDS])
    options.add_argument("--older", action="store_true", help="only where there are older files under the same names")
    given = options.parse_args()
    if given.sizes and INSIDE not in os.environ:
        words = namespace()
        if words is None:
            sys.exit("disks cannot be mounted here, neither as root nor in a user namespace; --sizes 0 does without")
        os.environ[INSIDE] = "1"
        os.execvp(words[0], [*words, sys.executable, "-m", "reliability.crashes", *sys.argv[1:]])
    done = []
    print(f"{'':<32}{''.join(f'{name:>{len(name) + 2}}' for name in COLUMNS)}  faults")
    with tempfile.TemporaryDirectory(prefix="crashes-") as base:
        for figures in try_all(given, Path(base)):
            done.append(figures)
            show(figures)
    totals = {name: sum(getattr(figures, name) for figures in done) for name in COLUMNS}
    faults = [fault for figures in done for fault in figures.faults]
    show(Figures("all", **totals, faults=faults))
    report = {"seed": given.seed, "commands": [asdict(figures) for figures in done], "all": totals}
    write_json(given.out / "crashes.json", report)
    sys.exit(not done or bool(faults))


if __name__ == "__main__":
    main()

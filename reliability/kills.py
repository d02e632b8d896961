"""Kill the commands that write files, in the middle, and see that nothing is broken and nothing lost.

    python -m reliability.kills [--seed 0] [--times 6] [--events 16] [--bytes 4] [--only NAME] [--out FOLDER]

Each command of `commands.py` runs as a real group of processes, and is ended without a word (SIGKILL) at moments of
three kinds: at a random time; right before its k-th change of a name or a file, all of them or a random sample (see
`hook/sitecustomize.py`); and when a file reaches its n-th byte, in whichever library. One to three kills follow one
another, on an empty folder or on one with older files under the same names. After each kill every file under a final
name must be the older one or the finished one, to the last byte, and the product must be able to read it. Then the
command runs undisturbed: it must succeed, leave what an undisturbed run leaves, bit for bit, and nothing else.

Measured times are the one thing that differs between runs of `reproduce` (`seconds` and `seconds_from_text` of
`targets.*.costs.*` in results.json), so its clock ticks once a reading here, and all its bytes are compared.

Written is kills.json. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

import raregram as rg
from reliability import commands
from reliability.commands import COMMANDS, Command, Tree, finals, tree

HOOK = Path(__file__).resolve().parent / "hook"
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)
KINDS = ("time", "event", "byte")
MOST_KILLS = 3  # one after the other


@dataclass(frozen=True)
class Moment:
    """When to kill: at so many seconds, or at so many events or bytes, as the hook counts them."""

    kind: str  # of KINDS
    at: float

    def environment(self) -> dict[str, str]:
        """Return what the hook is told."""
        return {} if self.kind == "time" else {f"KILL_AT_{self.kind.upper()}": str(int(self.at))}


@dataclass(frozen=True)
class Place:
    """A folder for one command: what it reads, where it works, its temporary files, and how it may begin."""

    base: Path

    @property
    def run(self) -> Path:
        """Where the command works."""
        return self.base / "run"

    @property
    def temporary(self) -> Path:
        """Where the system keeps temporary files, as far as the command knows."""
        return self.base / "tmp"

    def environment(self) -> dict[str, str]:
        """Return what lets a command work here, with the hook."""
        path = os.pathsep.join([str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])])
        watched = os.pathsep.join([str(self.run), str(self.temporary)])
        return {"PYTHONPATH": path, "TMPDIR": str(self.temporary), "KILL_FOLDERS": watched}

    def begin(self, saved: Path) -> None:
        """Let the folder be as it was saved."""
        for folder in (self.run, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(saved, self.run)
        self.temporary.mkdir()


@dataclass(frozen=True)
class Undisturbed:
    """What a command does when nobody kills it."""

    saved: Path  # the folder before it
    before: Tree
    after: Tree
    seconds: float
    events: list[str]  # as the hook tells them
    largest: int  # bytes of a file


@dataclass
class Checks:
    """What was looked at of one command, and what was wrong."""

    name: str
    files_checked: int = 0
    reruns: int = 0
    reruns_equal: int = 0
    bytes_lost: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


Some = TypeVar("Some", bound=Checks)


def total(all_checks: Sequence[Some]) -> Some:
    """Add up what was looked at of all commands."""
    added = replace(all_checks[0], name="all")
    for name in (one.name for one in fields(added) if one.name != "name"):
        values = [getattr(checks, name) for checks in all_checks]
        if isinstance(values[0], dict):
            setattr(added, name, {key: sum(value[key] for value in values) for key in values[0]})
        else:
            setattr(added, name, sum(values[1:], values[0]))
    return added


@dataclass
class Figures(Checks):
    """What happened to one command."""

    events: int = 0  # of an undisturbed run
    spilled: bool = False  # whether it wrote partial tables of a count to files
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unfinished: int = 0  # kills that left a draft or another piece of unfinished work
    too_late: int = 0  # runs that were over before their moment


def new_place(base: Path) -> Place:
    """Return a place without anything but the inputs."""
    place = Place(base / "place")
    shutil.rmtree(place.base, ignore_errors=True)
    place.base.mkdir()
    (place.base / "inputs").symlink_to(base / "inputs")
    return place


def undisturbed(command: Command, place: Place, older: bool) -> Undisturbed:
    """Run a command in peace, on an empty folder or after its older form, and take down what it does."""
    saved = place.base / ("older" if older else "empty")
    for folder in (place.run, place.temporary):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if older:
        _succeed(command, place, {}, command.older)
    shutil.copytree(place.run, saved)
    log = place.base / "events.log"
    log.write_text("")
    start = time.perf_counter()
    _succeed(command, place, {"KILL_LOG": str(log)})
    seconds = time.perf_counter() - start
    after = tree(place.run)
    if left := sorted(tree(place.temporary)):
        raise RuntimeError(f"{command.name} leaves {left} among the temporary files")
    sizes = [(place.run / name).stat().st_size for name in finals(after)]
    return Undisturbed(saved, tree(saved), after, seconds, log.read_text().splitlines(), max(sizes))


def _succeed(command: Command, place: Place, more: dict[str, str], arguments: str | None = None) -> None:
    code, said = commands.run(command, place.run, {**place.environment(), **more}, arguments)
    if code:
        raise RuntimeError(f"{command.name} ends with {code} though nobody killed it: {said}")


def kill(command: Command, place: Place, moment: Moment) -> int:
    """Start a command and kill it with all its processes; return its exit code."""
    process = commands.start(command, place.run, {**place.environment(), **moment.environment()})
    try:
        process.communicate(timeout=moment.at if moment.kind == "time" else commands.SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    else:
        _bury(process.pid)
    return process.returncode


def _bury(group: int) -> None:
    """Kill what is left of a group of processes whose first one has ended."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def check_files(place: Place, calm: Undisturbed, figures: Checks) -> None:
    """See that each file under a final name is whole: the older one, or the finished one."""
    found, before, after = finals(tree(place.run)), finals(calm.before), finals(calm.after)
    for name in sorted({*found, *before}):
        figures.files_checked += 1
        if name not in found:
            figures.bytes_lost += (calm.saved / name).stat().st_size
            figures.faults.append(f"{name} is gone")
        elif found[name] not in (before.get(name), after.get(name)):
            figures.bytes_lost += (calm.saved / name).stat().st_size if name in before else 0
            figures.faults.append(f"{name} is neither the older file nor the finished one")
        else:
            load(place.run / name, found[name])


def load(path: Path, digest: str) -> None:
    """Read a file as the product does; each content once."""
    _load(digest, path) if path.suffix in LOADERS else None


@cache
def _load(_digest: str, path: Path) -> None:
    LOADERS[path.suffix](path)


LOADERS = {
    ".counts": rg.Counts.load,
    ".rgm": rg.Model.load,
    ".parquet": pq.read_table,
    ".json": lambda path: json.loads(path.read_text()),
}


def rerun(command: Command, place: Place, calm: Undisturbed, figures: Checks) -> None:
    """Run a command to its end after kills, and compare all that is there with what an undisturbed run leaves."""
    figures.reruns += 1
    code, said = commands.run(command, place.run, place.environment())
    left = tree(place.run) | {f"TMPDIR/{name}": digest for name, digest in tree(place.temporary).items()}
    if code or "Traceback" in said:
        figures.faults.append(f"the rerun ends with {code}: {said}")
    elif left != calm.after:
        names = sorted(name for name in {*left, *calm.after} if left.get(name) != calm.after.get(name))
        figures.faults.append(f"after the rerun these are not as they should be: {names}")
    else:
        figures.reruns_equal += 1


def choose_moments(
    calm: Undisturbed, source: random.Random, times: int, events: int, most_bytes: int
) -> list[Moment]:
    """Choose when to kill: random times, events (all of them if they are few), and bytes."""
    numbers = range(1, len(calm.events) + 1)
    chosen = [
        *(Moment("time", source.uniform(0, calm.seconds)) for _ in range(times)),
        *(Moment("event", k) for k in (numbers if len(numbers) <= events else source.sample(numbers, events))),
        *(Moment("byte", source.randrange(calm.largest)) for _ in range(most_bytes)),
    ]
    source.shuffle(chosen)
    return chosen


def torment(
    command: Command,
    place: Place,
    source: random.Random,
    budget: tuple[int, int, int],
    olders: Sequence[bool] = (False, True),
) -> Figures:
    """Kill a command at moments of all kinds (times, events, bytes: so many) and rerun it after each few kills.

    `olders` says whether there are older files under the same names, in turns.
    """
    start = time.perf_counter()
    ways = [undisturbed(command, place, older) for older in olders]
    figures = Figures(command.name, events=len(ways[0].events), spilled=spills(ways[0]))
    times, events, most_bytes = budget
    moments = choose_moments(ways[0], source, times, events, most_bytes if command.byte_kills else 0)
    turn = 0
    while moments:
        calm = ways[turn % len(ways)]
        turn += 1
        place.begin(calm.saved)
        for _ in range(min(source.randint(1, MOST_KILLS), len(moments))):
            _kill_and_check(command, place, calm, moments.pop(), figures)
        rerun(command, place, calm, figures)
    figures.seconds = round(time.perf_counter() - start, 1)
    return figures


def _kill_and_check(command: Command, place: Place, calm: Undisturbed, moment: Moment, figures: Figures) -> None:
    code = kill(command, place, moment)
    known = len(figures.faults)
    if code in KILLED:
        figures.kills[moment.kind] += 1
        figures.unfinished += bool({*tree(place.run)} - {*calm.before} - {*calm.after} or tree(place.temporary))
    elif code == 0:
        figures.too_late += 1
    else:
        figures.faults.append(f"ends with {code}")
    check_files(place, calm, figures)
    figures.faults[known:] = [f"killed at {moment.kind} {moment.at:g}: {fault}" for fault in figures.faults[known:]]


def spills(calm: Undisturbed) -> bool:
    """Whether a count had to write partial tables to files."""
    return any(event.startswith("os.mkdir") and event.endswith(".spill") for event in calm.events)


HEADER = (
    f"{'command':<20}{'events':>8}{'kills':>7}{'(time, event, byte)':>21}{'unfinished':>12}{'too late':>10}"
    f"{'files':>8}{'reruns':>8}{'equal':>7}{'lost':>6}{'faults':>8}{'s':>8}"
)


def show(f: Figures) -> None:
    """Print a line for a command, and one for each of its faults."""
    kinds = ", ".join(str(f.kills[kind]) for kind in KINDS)
    print(
        f"{f.name:<20}{f.events:>8}{sum(f.kills.values()):>7}{f'({kinds})':>21}{f.unfinished:>12}{f.too_late:>10}"
        f"{f.files_checked:>8}{f.reruns:>8}{f.reruns_equal:>7}{f.bytes_lost:>6}{len(f.faults):>8}{f.seconds:>8.0f}",
        *(f"    {fault}" for fault in f.faults),
        sep="\n",
        flush=True,
    )


def main() -> None:
    """Torment the commands, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=6, help="kills of each command at random times")
    parser.add_argument("--events", type=int, default=16, help="kills of each command at events")
    parser.add_argument("--bytes", type=int, default=4, help="kills of each command at bytes of a file")
    parser.add_argument("--only", action="append", choices=[command.name for command in COMMANDS])
    parser.add_argument("--out", type=Path, default=Path("build/reliability"))
    given = parser.parse_args()
    names = [command.name for command in COMMANDS if not given.only or command.name in given.only]
    done: list[Figures] = []
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="kills-") as base:
        commands.make_inputs(Path(base, "inputs"))
        with commands.served(Path(base, "inputs")) as url:
            for number, name in enumerate(names):
                if not commands.can_run(name):
                    print(f"{name}: left out, since {commands.NEEDS[name]} is not installed")
                    continue
                source = random.Random(given.seed * 1000 + number)
                budget = (given.times, given.events, given.bytes)
                done.append(torment(commands.named(name, url), new_place(Path(base)), source, budget))
                show(done[-1])
    if not done:
        sys.exit("none of these commands can run here")
    everything = total(done)
    show(everything)
    given.out.mkdir(parents=True, exist_ok=True)
    report = {"seed": given.seed, "commands": [asdict(figures) for figures in done], "all": asdict(everything)}
    (given.out / "kills.json").write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(bool(everything.faults))


if __name__ == "__main__":
    main()

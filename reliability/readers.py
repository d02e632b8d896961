"""Feed every reader with damaged, strange and hostile files, and see that it reads or refuses them.

    python -m reliability.readers [--inputs 5000] [--seed 0] [--seconds 3600] [--only conll,csv]
    python -m reliability.readers --replay conll:17 [--seed 0]      # writes the input and shows what happens

Each input is made from a real file (`subjects.py`) by one or two mutations (`mutations.py`), the first hundred of
each file by cutting it off at every percent. Right answers are an error of raregram's that names the file, or
documents or contexts that are the same when they are written as Parquet and read again. Anything else is a fault:
another exception, more than SECONDS or MEMORY, the end of the process. The work is done in processes of its own,
which are replaced when they die.

Changes that should have no effect, such as other white space, must have none, and some of the inputs go through the
command line as well: exit code 0 or 1, and no traceback. The exit code is 1 if there was any fault.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import raregram as rg
from raregram.corpus.documents import Options
from raregram.corpus.formats import read_documents
from raregram.corpus.formats.tables import documents_table
from raregram.errors import RaregramError
from reliability.mutations import BLANKS, strange_table
from reliability.subjects import CONTEXTS, PACKINGS, Subject, make_subjects, pack

SECONDS = 60.0  # that an input may take, of which all are small
MEMORY = 512 << 20  # bytes that it may add to what the process held before
LONGEST_MESSAGE = 2000  # letters
COMMANDS = {  # for a reader; all others read documents or contexts
    "counts": ("info", "merge", "fit"),
    "models": ("info", "explain"),
    "archives": ("fetch",),
}
READING = ("count", "score", "rank", "evaluate", "tag")
RAREGRAM = Path(sys.executable).with_name("raregram")


@dataclass
class Tally:
    """What became of the inputs of a reader."""

    inputs: int = 0
    errors: int = 0
    read: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    most_memory: int = 0  # bytes added by any input


# One input


def make_input(subject: Subject, number: int, seed: int) -> tuple[str, bytes]:
    """Return the name and the content of an input, always the same for a number and a seed."""
    rng = random.Random(f"{subject.name} {seed} {number}")
    names = list(subject.files)
    file, percent = number // 101, number % 101
    if file < len(names):
        whole = subject.files[names[file]]
        return names[file], whole[: len(whole) * percent // 100]
    name = rng.choice(names)
    if subject.columns and rng.random() < 0.4:
        data = strange_table(list(subject.columns), rng)
        if rng.random() < 0.7:
            return name, data
    else:
        data = subject.files[name]
    for _ in range(rng.choice([1, 1, 2])):
        data = rng.choice(subject.mutations)(data, rng)
    return name, data


def judge(subject: Subject, path: Path, rng: random.Random) -> str:
    """Read an input: "read", "error", or what is wrong."""
    try:
        subject.read(path, rng)
    except RaregramError as error:
        if path.name not in str(error) and "in the input" not in str(error) and "long enough" not in str(error):
            return f"the error does not name the file: {error}"
        return "error" if len(str(error)) <= LONGEST_MESSAGE else f"the error has {len(str(error)):,} letters"
    except BaseException as error:  # whatever it is, it is no right answer
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:200]}"
    return "read"


def own_peak() -> int:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(subject: Subject, numbers: range, seed: int, folder: Path) -> Iterator[tuple[int, str, int]]:
    """Read inputs one after the other: number, outcome, bytes that it added to the most memory ever held."""
    for number in numbers:
        name, data = make_input(subject, number, seed)
        path = folder / name
        path.write_bytes(data)
        before = own_peak()
        signal.setitimer(signal.ITIMER_REAL, SECONDS)  # it ends this process, whatever it is doing
        outcome = judge(subject, path, random.Random(number))
        signal.setitimer(signal.ITIMER_REAL, 0)
        added = own_peak() - before
        yield number, f"it took {added >> 20} MiB" if added > MEMORY else outcome, added


def run_worker(name: str, first: int, last: int, seed: int) -> None:
    """Be a process that reads inputs and tells about each in a line."""
    (subject,) = make_subjects([name])
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    told = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory(prefix="raregram-fuzz-") as folder:
        for line in work(subject, range(first, last), seed, Path(folder)):
            print(json.dumps(line), file=told, flush=True)


# Many inputs


def fuzz(name: str, inputs: int, seed: int, until: float) -> Tally:
    """Let processes read inputs until all are done or time is over; one that dies is replaced."""
    tally, begun, number = Tally(), time.perf_counter(), 0
    while number < inputs and time.monotonic() < until:
        last = min(inputs, number + 2000)
        command = [
            sys.executable,
            "-m",
            "reliability.readers",
            "--worker",
            f"{name}:{number}:{last}",
            "--seed",
            str(seed),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                number = _note(tally, name, *json.loads(line)) + 1
                if time.monotonic() > until:
                    process.kill()
            said = process.stderr.read()
        if process.returncode and time.monotonic() <= until:
            tally.inputs += 1
            tally.faults.append(f"{name}:{number}: the process ended by {_ending(process.returncode)} {said[-300:]}")
            number += 1
    tally.seconds = round(time.perf_counter() - begun, 1)
    return tally


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _note(tally: Tally, name: str, number: int, outcome: str, added: int) -> int:
    """Count an outcome, and return the number of the input."""
    tally.inputs += 1
    tally.most_memory = max(tally.most_memory, added)
    if outcome == "read":
        tally.read += 1
    elif outcome == "error":
        tally.errors += 1
    else:
        tally.faults.append(f"{name}:{number}: {outcome}")
    return number


# What changes nothing


def contents(path: Path, format_name: str | None, split: str = "file") -> list[tuple[list[str], Any]]:
    """Return the items and spans of all documents of a file."""
    found = []
    for batch in read_documents(str(path), Options(format_name, split)):
        rows = documents_table(batch).to_pylist()
        found += [((row["items"] if "items" in row else row["text"].split()), row["spans"]) for row in rows]
    return found


def harmless(subject: Subject) -> Iterator[tuple[str, str, bytes]]:
    """Yield (what was done, file, content) for changes of a file that must not change what is read."""
    for name, data in subject.files.items():
        if subject.name in ("jsonl", "conll", "stanford-tsv", "stanford-slash", "stanford-xml", "text", "text-lines"):
            yield "byte order mark", name, b"\xef\xbb\xbf" + data
            yield "CRLF", name, data.replace(b"\n", b"\r\n")
            yield "line end at the end", name, data.rstrip(b"\n") + b"\n"
            for end, kind in PACKINGS.items():
                yield f"packed by {kind}", f"{name}.{end}", pack(data, kind)
        if subject.name in ("stanford-slash", "stanford-xml", "text", "text-lines"):
            for blank in set(BLANKS) - {"\n"}:
                yield f"white space {blank!r}", name, data.replace(b" ", blank.encode())
        if subject.name == "conll" and b" NN " in data:
            for blank in ("\t", "  "):  # any other white space may be part of an item
                yield f"white space {blank!r}", name, data.replace(b" NN ", f"{blank}NN{blank}".encode())
        if subject.name == "jsonl":
            rows = [json.loads(line) for line in data.splitlines()]
            turned = (json.dumps(dict(reversed(row.items())), ensure_ascii=False, indent=None) for row in rows)
            yield "order of keys", name, "\n".join(turned).encode()


def check_harmless(subject: Subject, folder: Path) -> list[str]:
    """Return which harmless changes had an effect."""
    split = "lines" if subject.name == "text-lines" else "file"
    kind = {"text-lines": "text"}.get(subject.name, subject.name)
    known, faults = {}, []
    for name, data in subject.files.items():
        (folder / name).write_bytes(data)
        known[name] = contents(folder / name, kind, split)
    for done, name, data in harmless(subject):
        (folder / name).write_bytes(data)
        original = next(file for file in subject.files if name.startswith(file))
        if contents(folder / name, kind, split) != known[original]:
            faults.append(f"{subject.name}: {done} changed what {original} holds")
    return faults


# The command line


def check_commands(subjects: Sequence[Subject], runs: int, seed: int, folder: Path) -> list[str]:
    """Let commands read some of the inputs; return where one did anything but succeed or say what is wrong."""
    model = folder / "model.rgm"
    rg.fit(rg.Counts.from_contexts([ngram for _, ngram in CONTEXTS], ["X", None, "X", None])).save(model)
    rng, faults = random.Random(seed), []
    environment = {**os.environ, "RAREGRAM_HOME": str(folder / "home")}
    for run in range(runs):
        subject = subjects[run % len(subjects)]
        command = rng.choice(COMMANDS.get(subject.name, READING))
        number = rng.randrange(101 * len(subject.files) * 2)
        name, data = make_input(subject, number, seed)
        (folder / name).write_bytes(data)
        done = subprocess.run(
            command_line(command, folder / name, model),
            capture_output=True,
            timeout=120,
            check=False,
            env=environment,
        )
        if done.returncode not in (0, 1) or b"Traceback" in done.stderr:
            faults.append(f"{subject.name}:{number} {command}: exit code {done.returncode}: {done.stderr[-300:]!r}")
    return faults


def command_line(command: str, path: Path, model: Path) -> list[str]:
    """Return a command that reads a file."""
    out = ["--out", str(path.with_name("out")), "--quiet"]
    arguments = {
        "count": [str(path), "-n", "2", *out],
        "score": [str(model), str(path)],
        "rank": [str(model), str(path)],
        "evaluate": [str(model), str(path)],
        "tag": [str(path), "--processes", "1", *out],
        "info": [str(path)],
        "merge": [str(path), *out],
        "fit": [str(path), "--target", "LOC", *out],
        "explain": [str(path), "a b"],
        "fetch": ["reuters", str(path), "--quiet"],
    }
    return [str(RAREGRAM), command, *arguments[command]]


# All of it


@dataclass(frozen=True)
class Findings:
    """What a run found."""

    seed: int
    tallies: dict[str, Tally]
    harmless: int
    commands: int
    faults: list[str]


def run_all(options: argparse.Namespace, say: Callable[[str], None]) -> Findings:
    """Fuzz readers, a few at a time, then see what changes nothing, then let commands read."""
    until = time.monotonic() + options.seconds
    subjects = make_subjects([name for name in options.only.split(",") if name])
    names = [subject.name for subject in subjects]
    say(f"{'reader':<18}{'inputs':>9}{'errors':>9}{'read':>9}{'faults':>8}{'seconds':>9}{'most MiB':>10}")
    tallies = {}
    with ThreadPoolExecutor(options.processes) as pool:
        each = pool.map(lambda name: fuzz(name, options.inputs, options.seed, until), names)
        for name, tally in zip(names, each, strict=True):
            tallies[name] = tally
            say(row(name, tally))
    with tempfile.TemporaryDirectory(prefix="raregram-fuzz-") as made:
        changes = list(itertools.chain.from_iterable(harmless(subject) for subject in subjects))
        touched = [subject for subject in subjects if any(harmless(subject))]
        faults = [fault for subject in touched for fault in check_harmless(subject, Path(made))]
        by_commands = [subject for subject in subjects if subject.name not in ("settings", "results")]
        commands = options.commands if by_commands else 0
        faults += check_commands(by_commands, commands, options.seed, Path(made))
    faults += [fault for tally in tallies.values() for fault in tally.faults]
    return Findings(options.seed, tallies, len(changes), commands, faults)


def row(name: str, tally: Tally) -> str:
    """Return the figures of a reader as a line."""
    figures = f"{tally.inputs:>9,}{tally.errors:>9,}{tally.read:>9,}{len(tally.faults):>8,}"
    return f"{name:<18}{figures}{tally.seconds:>9,.0f}{tally.most_memory >> 20:>10,}"


def summary(findings: Findings) -> str:
    """Return what was done in all, and the faults, those of one kind together."""
    inputs = sum(tally.inputs for tally in findings.tallies.values())
    line = f"{inputs:,} inputs in all, {findings.harmless} harmless changes, {findings.commands} commands"
    kinds = Counter(fault.split(": ", 1)[-1][:60] for fault in findings.faults)
    first = {fault.split(": ", 1)[-1][:60]: fault for fault in reversed(findings.faults)}
    return "\n".join([line, *(f"{times:>6,} x  {first[kind]}" for kind, times in kinds.most_common())])


def replay(which: str, seed: int) -> None:
    """Show what happens with one input."""
    name, number = which.rsplit(":", 1)
    (subject,) = make_subjects([name])
    file, data = make_input(subject, int(number), seed)
    path = Path(tempfile.mkdtemp(prefix="raregram-replay-")) / file
    path.write_bytes(data)
    print(path)
    subject.read(path, random.Random(int(number)))


def main() -> int:
    """Fuzz, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=5000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="in all")
    parser.add_argument("--commands", type=int, default=60, help="inputs that go through the command line")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="readers, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/reliability"))
    parser.add_argument("--replay", help="READER:NUMBER")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        name, first, last = given.worker.rsplit(":", 2)
        run_worker(name, int(first), int(last), given.seed)
        return 0
    if given.replay:
        replay(given.replay, given.seed)
        return 0
    findings = run_all(given, partial(print, flush=True))
    print(summary(findings))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "readers.json").write_text(json.dumps(asdict(findings), indent=1) + "\n")
    return 1 if findings.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Feed every reader with damaged, strange and hostile files, and see that it reads or refuses them.

    python -m reliability.fuzz [--inputs 5000] [--seed 0] [--seconds 3600] [--only conll,csv]
    python -m reliability.fuzz --replay conll:17 [--seed 0]     # writes the input and shows what happens
    python -m reliability.fuzz --guided [--seconds 3600]        # inputs led by coverage; needs requirements/trust.txt

Each input is made from a real file (`subjects.py`) by one or two mutations (`mutations.py`), the first hundred of
each file by cutting it off at every percent. Right answers are an error of raregram's that names the file, or what
the file held. Anything else is a fault: another exception, more than SECONDS or MEMORY, the end of the process. The
work is done in processes of its own, which are replaced when they die. Changes that should have no effect, such as
other white space, must have none, and some inputs go through the command line: exit code 0 or 1, and no traceback.

With `--guided` the inputs come from atheris (libFuzzer, on Linux), which keeps those that reach lines of raregram in
a new way and changes them further. All that was kept lies in OUT/guided, where the next run goes on. The exit code is
1 if there was any fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import PROJECT, RAREGRAM, own_peak_bytes, parser, write_json

SECONDS = 60.0  # that an input may take, of which all are small
MEMORY = 512 << 20  # bytes that it may add to what the process held before
GUIDED_MEMORY = 2048  # megabytes that a guided process may hold
LONGEST_MESSAGE = 2000  # characters
WORKER = (sys.executable, "-m", "reliability.fuzz", "--worker")
COMMANDS = {  # for a reader; all others read documents or contexts
    "counts": ("info", "merge", "fit"),
    "models": ("info", "explain"),
    "archives": ("fetch",),
    "settings": (),
    "results": (),
}
ARGUMENTS = {
    "count": "{path} -n 2 --out {out} --quiet", "tag": "{path} --processes 1 --out {out} --quiet",
    "score": "{model} {path}", "rank": "{model} {path}", "evaluate": "{model} {path}", "info": "{path}",
    "merge": "{path} --out {out} --quiet", "fit": "{path} --target LOC --out {out} --quiet",
    "explain": "{path} a", "fetch": "reuters {path} --quiet",
}  # fmt: skip


def make_subjects(only: Sequence[str] = ()) -> list[Any]:
    """Import the readers only now: atheris must see the imports of raregram."""
    from reliability import subjects

    return list(subjects.make_subjects(only))


@dataclass
class Tally:
    """What became of the inputs of a reader."""

    inputs: int = 0
    errors: int = 0
    read: int = 0
    most_memory: int = 0  # bytes added by any input
    faults: list[str] = field(default_factory=list)

    def add(self, which: str, outcome: str, added: int = 0) -> None:
        """Count the outcome of an input: "read", "error", or a fault."""
        self.inputs += 1
        self.most_memory = max(self.most_memory, added)
        self.read += outcome == "read"
        self.errors += outcome == "error"
        if outcome not in ("read", "error"):
            self.faults.append(f"{which}: {outcome}")


# One input


def make_input(subject: Any, number: int, seed: int) -> tuple[str, bytes]:
    """Return the name and the content of an input, always the same for a number and a seed."""
    rng = random.Random(f"{subject.name} {seed} {number}")
    names = list(subject.files)
    file, percent = divmod(number, 101)
    if file < len(names):
        whole = subject.files[names[file]]
        return names[file], whole[: len(whole) * percent // 100]
    name = rng.choice(names)
    data = subject.files[name]
    for _ in range(rng.choice([1, 1, 2])):
        data = rng.choice(subject.mutations)(data, rng)
    return name, data


def judge(subject: Any, path: Path, rng: random.Random) -> str:
    """Read an input: "read", "error", or what is wrong."""
    from raregram.errors import RaregramError

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


def run_worker(name: str, numbers: range, seed: int) -> None:
    """Be a process that reads inputs and prints of each its number, the outcome, and the bytes added to its peak."""
    (subject,) = make_subjects([name])
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory(prefix="raregram-fuzz-") as folder:
        for number in numbers:
            file, data = make_input(subject, number, seed)
            path = Path(folder, file)
            path.write_bytes(data)
            before = own_peak_bytes()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)  # it ends this process, whatever it is doing
            outcome = judge(subject, path, random.Random(number))
            signal.setitimer(signal.ITIMER_REAL, 0)
            added = own_peak_bytes() - before
            line = (number, f"it took {added >> 20} MiB" if added > MEMORY else outcome, added)
            print(json.dumps(line), file=report, flush=True)


def fuzz(name: str, inputs: int, seed: int, until: float) -> Tally:
    """Let processes read inputs until all are done or time is over; one that dies is replaced."""
    tally, number = Tally(), 0
    while number < inputs and time.monotonic() < until:
        command = [*WORKER, f"{name}:{number}:{min(inputs, number + 2000)}", "--seed", str(seed)]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            for line in process.stdout or ():
                number, outcome, added = json.loads(line)
                tally.add(f"{name}:{number}", outcome, added)
                number += 1
                if time.monotonic() > until:
                    process.kill()
            code = process.wait()
            errors.seek(0)
            said = errors.read()[-300:]
        if code and time.monotonic() <= until:
            ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            tally.add(f"{name}:{number}", f"the process ended by {ending} {said}")
            number += 1
    return tally


# Inputs led by coverage


def run_guided_worker(name: str, corpus: Path, seconds: float) -> None:
    """Be the process that libFuzzer works in, and ends."""
    import atheris

    with (
        atheris.instrument_imports(include=["raregram"]),  # those inside functions, too
        tempfile.TemporaryDirectory(prefix="raregram-guided-") as folder,
    ):
        (subject,) = make_subjects([name])
        names = list(subject.files)
        for number, whole in enumerate(subject.files.values()):
            (corpus / f"valid-{number}").write_bytes(bytes([number]) + whole)

        def test(data: bytes) -> None:
            """Read an input, whose first byte says which of the names it has."""
            if data:
                path = Path(folder, names[data[0] % len(names)])
                path.write_bytes(data[1:])
                outcome = judge(subject, path, random.Random(data[0]))
                assert outcome in ("read", "error"), outcome

        longest = 4 * max(map(len, subject.files.values()))
        limits = [f"-max_total_time={seconds:.0f}", f"-timeout={SECONDS:.0f}", f"-rss_limit_mb={GUIDED_MEMORY}"]
        atheris.Setup([sys.argv[0], *limits, f"-max_len={longest}", f"-artifact_prefix={corpus}/", str(corpus)], test)
        atheris.Fuzz()


def search(name: str, seconds: float, out: Path) -> Tally:
    """Let a process search, and return what it has found."""
    corpus = (out / "guided" / name).absolute()
    corpus.mkdir(parents=True, exist_ok=True)
    command = [*WORKER, name, "--guided", "--seconds", str(seconds), "--out", str(corpus)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, errors="replace", check=False)
    corpus.with_suffix(".log").write_text(done.stdout + done.stderr)
    tally = Tally(inputs=max(map(int, re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)), default=0))
    if done.returncode:
        said = re.search(r"AssertionError: .*|libFuzzer: .*", done.stdout + done.stderr)
        tally.faults.append(said[0] if said else f"exit code {done.returncode}: see {corpus.with_suffix('.log')}")
    return tally


# What changes nothing, and the command line


def contents(path: Path, format_name: str, split: str = "file") -> list[tuple[list[str], Any]]:
    """Return the items and spans of all documents of a file."""
    from raregram.corpus.documents import Options
    from raregram.corpus.formats import read_documents
    from raregram.corpus.formats.tables import documents_table

    batches = read_documents(str(path), Options(format_name, split))
    rows = [row for batch in batches for row in documents_table(batch).to_pylist()]
    return [((row["items"] if "items" in row else row["text"].split()), row["spans"]) for row in rows]


def harmless(subject: Any) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield (what was done, file, its new name, content) for changes that must not change what is read."""
    from reliability.mutations import BLANKS, PACKINGS, pack

    running = subject.name in ("stanford-slash", "stanford-xml", "text", "text-lines")
    for name, data in subject.files.items():
        if running or subject.name in ("jsonl", "conll", "stanford-tsv"):
            yield "byte order mark", name, name, b"\xef\xbb\xbf" + data
            yield "CRLF", name, name, data.replace(b"\n", b"\r\n")
            yield "line end at the end", name, name, data.rstrip(b"\n") + b"\n"
            for end, kind in PACKINGS.items():
                yield f"packed by {kind}", name, f"{name}.{end}", pack(data, kind)
        for blank in set(BLANKS) - {"\n"} if running else ():
            yield f"white space {blank!r}", name, name, data.replace(b" ", blank.encode())
        if subject.name == "conll" and b" NN " in data:
            yield "tabs", name, name, data.replace(b" NN ", b"\tNN\t")
        if subject.name == "jsonl":
            rows = [dict(reversed(json.loads(line).items())) for line in data.splitlines()]
            yield "order of keys", name, name, "\n".join(map(json.dumps, rows)).encode()


def check_harmless(subject: Any, folder: Path) -> Tally:
    """Return which harmless changes had an effect."""
    kind, split = ("text", "lines") if subject.name == "text-lines" else (subject.name, "file")
    tally = Tally()
    for change, name, new, data in harmless(subject):
        (folder / name).write_bytes(subject.files[name])
        expected = contents(folder / name, kind, split)
        (folder / new).write_bytes(data)
        same = contents(folder / new, kind, split) == expected
        tally.add(subject.name, "read" if same else f"{change} changed what {name} holds")
    return tally


def check_commands(subjects: Sequence[Any], runs: int, seed: int, folder: Path) -> Tally:
    """Let commands read some of the inputs; a fault is where one did anything but succeed or say what is wrong."""
    import raregram as rg

    rg.fit(rg.Counts.from_contexts(["he lives in", "she said that"], ["X", None])).save(folder / "model.rgm")
    rng, tally = random.Random(seed), Tally()
    reading = ("count", "score", "rank", "evaluate", "tag")
    subjects = [subject for subject in subjects if COMMANDS.get(subject.name, reading)]
    for run in range(runs if subjects else 0):
        subject = subjects[run % len(subjects)]
        command = rng.choice(COMMANDS.get(subject.name, reading))
        number = rng.randrange(101 * len(subject.files) * 2)
        name, data = make_input(subject, number, seed)
        (folder / name).write_bytes(data)
        places = {"path": folder / name, "out": folder / "out", "model": folder / "model.rgm"}
        words = [word.format(**places) for word in ARGUMENTS[command].split()]
        environment = {**os.environ, "RAREGRAM_HOME": str(folder / "home")}
        options: dict[str, Any] = {"capture_output": True, "timeout": 120, "env": environment}
        done = subprocess.run([str(RAREGRAM), command, *words], check=False, **options)
        wrong = done.returncode not in (0, 1) or b"Traceback" in done.stderr
        outcome = f"exit code {done.returncode}: {done.stderr[-300:]!r}" if wrong else "read"
        tally.add(f"{subject.name}:{number} {command}", outcome)
    return tally


# All of it


def replay(which: str, seed: int) -> None:
    name, number = which.rsplit(":", 1)
    (subject,) = make_subjects([name])
    file, data = make_input(subject, int(number), seed)
    path = Path(tempfile.mkdtemp(prefix="raregram-replay-")) / file
    path.write_bytes(data)
    print(path)
    subject.read(path, random.Random(int(number)))


def show(name: str, tally: Tally) -> None:
    """Print the figures of a reader, and its faults, those of one kind together."""
    figures = (tally.inputs, tally.errors, tally.read, len(tally.faults), tally.most_memory >> 20)
    print(f"{name:<18}{''.join(f'{figure:>10,}' for figure in figures)}", flush=True)
    first = {fault.split(": ", 1)[-1][:60]: fault for fault in reversed(tally.faults)}
    kinds = Counter(fault.split(": ", 1)[-1][:60] for fault in tally.faults)
    print("".join(f"{times:>6,} x  {first[kind]}\n" for kind, times in kinds.most_common()), end="", flush=True)


def run_all(given: argparse.Namespace) -> int:
    """Fuzz readers, a few at a time, and return the exit code."""
    subjects = make_subjects([name for name in given.only.split(",") if name])
    names = [subject.name for subject in subjects]
    share, until = given.seconds * given.processes / len(names), time.monotonic() + given.seconds

    def one(name: str) -> Tally:
        return search(name, share, given.out) if given.guided else fuzz(name, given.inputs, given.seed, until)

    print(f"{'reader':<18}{''.join(f'{head:>10}' for head in ('inputs', 'errors', 'read', 'faults', 'most MiB'))}")
    tallies: dict[str, Tally] = {}
    with ThreadPoolExecutor(given.processes) as pool, tempfile.TemporaryDirectory(prefix="raregram-fuzz-") as made:
        for name, tally in zip(names, pool.map(one, names), strict=True):
            tallies[name] = tally
            show(name, tally)
        if not given.guided:
            for subject in subjects:
                tallies[f"same: {subject.name}"] = check_harmless(subject, Path(made))
            tallies["commands"] = check_commands(subjects, given.commands, given.seed, Path(made))
    sums = {what: sum(getattr(tally, what) for tally in tallies.values()) for what in ("inputs", "errors", "read")}
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    show("all", Tally(**sums, most_memory=max(tally.most_memory for tally in tallies.values()), faults=faults))
    report = {"seed": given.seed, "readers": {name: asdict(tally) for name, tally in tallies.items()}}
    write_json(given.out / ("guided.json" if given.guided else "fuzz.json"), report)
    return int(bool(faults))


def main() -> int:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("--inputs", type=int, default=5000, help="for each reader")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=3600.0, help="in all")
    options.add_argument("--commands", type=int, default=60, help="inputs that go through the command line")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--only", default="", help="readers, with commas")
    options.add_argument("--guided", action="store_true", help="let coverage lead the inputs")
    options.add_argument("--replay", help="READER:NUMBER")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.replay:
        replay(given.replay, given.seed)
    elif given.worker and given.guided:
        run_guided_worker(given.worker, given.out, given.seconds)
    elif given.worker:
        name, first, last = given.worker.rsplit(":", 2)
        run_worker(name, range(int(first), int(last)), given.seed)
    else:
        return run_all(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())

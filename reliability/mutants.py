"""Change the core in small ways, and see whether the tests notice: `python -m reliability.mutants [NUMBER]`.

A mutant is a copy of the source with one small fault: a `<` that became `<=`, a number one larger, an argument left
out. mutmut makes them in the folder `mutants` and runs the tests that reach the function until one fails; what it
changes and which tests it runs is in pyproject.toml. Without NUMBER all of them are tried, and a survivor that
mutants.md does not list with a reason is printed and makes the exit code 1. With it so many of each module are tried,
always the same as long as the module is, and how many of each were killed is printed.
"""

from __future__ import annotations

import ast
import difflib
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LISTED = Path(__file__).with_suffix(".md")
KILLED, SURVIVED = (1, 3), (0, 5, 33, None)  # exit codes in mutmut's records; the others are timeouts


@dataclass(frozen=True)
class Mutant:
    """A small fault: the line of a function as it is, and as it was changed to."""

    function: str  # room.module.function or room.module.Class.function
    line: str
    changed: str


def main() -> None:
    """Try all mutants, or a sample of each module, and print what became of them."""
    if sys.argv[1:]:
        sample(int(sys.argv[1]))
        return
    mutmut()
    records = find_records()
    codes = {path: codes_of(path) for path in records}
    ends = Counter(code in KILLED for of_file in codes.values() for code in of_file.values())
    survivors = [mutant for path in records for mutant in surviving(path, codes[path])]
    reasons = listed_mutants(LISTED.read_text())
    unlisted = [mutant for mutant in survivors if mutant not in reasons]
    print(f"{ends.total():,} mutants, {ends[True]:,} killed, {len(survivors):,} survived, {len(unlisted):,} unlisted")
    for mutant in unlisted:
        print(f"@ {mutant.function}\n- {mutant.line}\n+ {mutant.changed}")
    sys.exit(bool(unlisted) or not records)


def mutmut(*names: str) -> None:
    """Make the mutants and try those that are named, or all."""
    subprocess.run([sys.executable, "-m", "mutmut", "run", "--max-children", "1", *names], check=False)


def find_records() -> list[Path]:
    """Return the files in which mutmut keeps what became of the mutants of a module."""
    return sorted(Path("mutants/src").rglob("*.py.meta"))


def codes_of(record: Path) -> dict[str, int | None]:
    return dict(json.loads(record.read_text())["exit_code_by_key"])


def sample(number: int) -> None:
    """Try so many mutants of each module, drawn by a seed."""
    mutmut("a name that no mutant has")  # makes them, and finds out which tests reach which function
    drawn = {}
    for record in find_records():
        names = sorted(codes_of(record))
        drawn[record] = random.Random(f"7 {record.stem}").sample(names, min(40, len(names)))[:number]
    mutmut(*(name for names in drawn.values() for name in names))
    tallies = {record: [codes_of(record)[name] for name in names] for record, names in drawn.items()}
    for record, codes in tallies.items():
        print(f"{record.stem}: {sum(code in KILLED for code in codes)} of {len(codes)} killed")
    every = [code for codes in tallies.values() for code in codes]
    print(f"all: {sum(code in KILLED for code in every)} of {len(every)} killed")


def surviving(record: Path, codes: dict[str, int | None]) -> Iterator[Mutant]:
    """Yield what no test killed, read from the file in which mutmut keeps every mutant as a function."""
    source = record.with_suffix("").read_text()
    lines = source.splitlines()
    functions: dict[str, list[str]] = {}
    for statement in ast.parse(source).body:
        nodes = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        functions |= {f.name: lines[f.lineno - 1 : f.end_lineno] for f in nodes if isinstance(f, ast.FunctionDef)}
    yield from (changed_line(name, functions) for name, code in codes.items() if code in SURVIVED)


def changed_line(name: str, functions: dict[str, list[str]]) -> Mutant:
    """Compare a mutant with its function."""
    mangled = name.rpartition(".")[2]
    kept = mangled.partition("__mutmut_")[0] + "__mutmut_orig"
    original, mutated = ([line.replace(each, "") for line in functions[each]] for each in (kept, mangled))
    lines = list(difflib.unified_diff(original, mutated, n=0, lineterm=""))[2:]  # without the names of the files
    before, after = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(function_name(name), before, after)


def function_name(name: str) -> str:
    """Return room.module.Class.function from mutmut's name of a mutant.

    >>> function_name("raregram.counts.table.xǁCountsǁload__mutmut_3")
    'counts.table.Counts.load'
    """
    _, *modules, rest = name.partition("__mutmut_")[0].split(".")
    return ".".join([*modules, *rest[2:].split("ǁ")])


def listed_mutants(text: str) -> dict[Mutant, str]:
    """Return the mutants of a list in Markdown, each with the heading that it stands under.

    A block of code that is marked as `diff` holds them: `@` and a function, then a `-` and a `+` line for each.
    """
    reasons: dict[Mutant, str] = {}
    heading = function = before = ""
    for line in text.splitlines():
        mark, rest = line[:1], line[1:].strip()
        if line.startswith("## "):
            heading = line[3:]
        elif mark == "@":
            function = rest
        elif mark == "-":
            before = rest
        elif mark == "+":
            reasons[Mutant(function, before, rest)] = heading
    return reasons


if __name__ == "__main__":
    main()

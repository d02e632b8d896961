"""Change the core in thousands of small ways and see whether the tests notice.

    pip install mutmut==3.8.0                # beside what the tests need, in any environment
    python reliability/mutants.py [--modules ratios selection] [--processes 2]

A mutant is a copy of the source with one small fault: a `<` that became `<=`, a number one larger, an argument left
out. mutmut makes them, one after the other, in a copy of the tree (build/mutants), and runs the tests that reach the
function until one fails. A mutant that no test kills is either listed with its reason in reliability/mutants.md, or
the tests lack something: then this program says where and ends with exit code 1.

The copy differs from the tree in two things. Properties are written as `name = property(name)` below the function,
since mutmut passes over functions with decorators; and the tests run plain examples first, then few of Hypothesis's,
always the same, which are not shrunk. A second run tries again what the first one did not kill; --again starts over.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutants"
REPORT = ROOT / "build" / "reliability" / "mutants.json"
LISTED = Path(__file__).with_suffix(".md")
TESTS = {  # of each module: those that stand beside it, so that nothing is found by accident
    "ratios": ["ratios"],
    "selection": ["selection"],
    "counts": ["counts", "files"],
    "evaluation": ["evaluation", "tuning"],
    "model": ["model", "files", "intervals", "backoff"],
}
CONFTEST = """
import numba, pyarrow.parquet  # once, not in every process that a mutant is tried in
import raregram.counts.engine, raregram.models.fit, raregram.sklearn, raregram.measure.tune
from hypothesis import Phase, is_hypothesis_test

few = {"max_examples": 12, "derandomize": True, "database": None, "phases": [Phase.explicit, Phase.generate]}
settings.register_profile("mutants", settings.get_profile("raregram"), **few)
settings.load_profile("mutants")


def pytest_collection_modifyitems(items):
    items[:] = sorted(filter(is_quick, items), key=lambda item: (item.path.stem in BORROWED, is_given(item)))
    for item in items:
        item._nodeid = item.nodeid  # mutmut 3.8 reads the name under which older versions of pytest had it


def is_quick(item):
    if item.get_closest_marker("slow") or item.path.stem not in BORROWED:
        return not item.get_closest_marker("slow")
    taken = not is_given(item) or any(word in item.name for word in ("name_the_steps", "top_hits"))
    return taken and not any(word in item.name for word in HEAVY)


def is_given(item):
    return is_hypothesis_test(getattr(item, "obj", None))


BORROWED = ("test_files", "test_intervals", "test_backoff", "test_tuning")  # of other modules: plain examples
HEAVY = ("room", "spans", "covers", "falls", "bands", "surer", "narrower", "long_context", "one_context", "claims")
"""
UNLISTED = "not listed"
KILLED, SURVIVED, UNTESTED = (1, 3), (0,), (5, 33, None)  # exit codes in mutmut's records; others are timeouts


@dataclass(frozen=True)
class Mutant:
    """A small fault: the line of a function as it is, and as it was changed to."""

    function: str  # module.function or module.Class.function
    line: str
    changed: str


@dataclass(frozen=True)
class Tally:
    """What became of the mutants of one module."""

    mutants: int
    killed: int
    timeouts: int  # a test that never ends has noticed, too
    survived: int
    untested: int  # no test reaches the function


def main() -> None:
    """Run the mutants of each module, compare the survivors with the list, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--modules", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="start over instead of going on")
    arguments = parser.parse_args()
    if arguments.again:
        shutil.rmtree(COPY, ignore_errors=True)
    started = time.monotonic()
    for module in arguments.modules:
        copy_tree(module)
        forget_survivors(module)
        run_mutmut(module, arguments.processes)
    tallies = {module: tally(exit_codes(module)) for module in arguments.modules}
    survivors = [mutant for module in arguments.modules for mutant in surviving(module)]
    reasons = listed_mutants(LISTED.read_text())
    by_reason = Counter(reasons.get(mutant, UNLISTED) for mutant in survivors)
    unlisted = [mutant for mutant in survivors if mutant not in reasons]
    show(tallies, by_reason, unlisted)
    report = {
        "mutmut": version("mutmut"),
        "seconds": round(time.monotonic() - started),
        "modules": {module: asdict(found) for module, found in tallies.items()},
        "survivors": dict(by_reason),
        "unlisted": [asdict(mutant) for mutant in unlisted],
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if unlisted else 0)


def copy_tree(module: str) -> None:
    """Bring a module's copy up to date; files that did not change keep their time, so that their results stand."""
    for folder in ("src", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                if path == ROOT / "src" / "raregram" / f"{module}.py":
                    content = without_property_decorators(content.decode()).encode()
                if path.name == "conftest.py":
                    content += CONFTEST.encode()
                write_if_changed(COPY / module / path.relative_to(ROOT), content)
    configuration = (ROOT / "pyproject.toml").read_text() + settings(module)
    write_if_changed(COPY / module / "pyproject.toml", configuration.encode())


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file unless it says this already."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def settings(module: str) -> str:
    """Return mutmut's part of pyproject.toml."""
    options = {
        "source_paths": ["src"],
        "only_mutate": [f"src/raregram/{module}.py"],
        "pytest_add_cli_args_test_selection": [f"tests/test_{name}.py" for name in TESTS[module]],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "no:xdist"],
        "process_isolation": "forkserver",  # Arrow's and DuckDB's threads do not survive a fork
        "use_git_change_detection": False,
    }
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())


def without_property_decorators(source: str) -> str:
    """Return a module whose properties are made by a statement below the function, which means the same."""
    lines = source.splitlines()
    for node in sorted(_functions(source), key=lambda node: -node.lineno):
        names = [name.id for name in node.decorator_list if isinstance(name, ast.Name)]
        if names in (["property"], ["cached_property"]):
            assert node.end_lineno is not None
            lines.insert(node.end_lineno, f"    {node.name} = {names[0]}({node.name})")
            del lines[node.decorator_list[0].lineno - 1]
    return "\n".join(lines) + "\n"


def _functions(source: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module and the methods of its classes."""
    for statement in ast.parse(source).body:
        nodes = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        yield from (node for node in nodes if isinstance(node, ast.FunctionDef))


def run_mutmut(module: str, processes: int) -> None:
    """Run the mutants that have no result yet; raise where the tests fail without any."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes)]
    subprocess.run(command, cwd=COPY / module, env=environment, check=True)


def record_of(module: str) -> Path:
    """Return the file in which mutmut keeps the results of a module."""
    return COPY / module / "mutants" / "src" / "raregram" / f"{module}.py.meta"


def forget_survivors(module: str) -> None:
    """Let a second run try again what the first one did not kill: there may be new tests."""
    if record_of(module).exists():
        record = json.loads(record_of(module).read_text())
        codes = record["exit_code_by_key"]
        record["exit_code_by_key"] = {name: code if code in KILLED else None for name, code in codes.items()}
        record_of(module).write_text(json.dumps(record))


def exit_codes(module: str) -> dict[str, int | None]:
    """Return the exit code of the tests for every mutant of a module, by mutmut's name."""
    codes: dict[str, int | None] = json.loads(record_of(module).read_text())["exit_code_by_key"]
    return codes


def tally(codes: dict[str, int | None]) -> Tally:
    """Count mutants by what became of them."""
    killed, survived, untested = (
        sum(code in some for code in codes.values()) for some in (KILLED, SURVIVED, UNTESTED)
    )
    return Tally(len(codes), killed, len(codes) - killed - survived - untested, survived, untested)


def surviving(module: str) -> list[Mutant]:
    """Return what no test killed, read from the file in which mutmut keeps every mutant as a function."""
    source = record_of(module).with_suffix("").read_text()
    lines = source.splitlines()
    functions = {node.name: lines[node.lineno - 1 : node.end_lineno] for node in _functions(source)}
    names = [name for name, code in exit_codes(module).items() if code in SURVIVED + UNTESTED]
    return [changed_line(name, functions) for name in names]


def changed_line(name: str, functions: dict[str, list[str]]) -> Mutant:
    """Compare a mutant with its function."""
    mangled = name.rpartition(".")[2]
    kept = mangled.partition("__mutmut_")[0] + "__mutmut_orig"
    original, mutated = ([line.replace(each, "") for line in functions[each]] for each in (kept, mangled))
    lines = list(difflib.unified_diff(original, mutated, n=0, lineterm=""))[2:]  # without the names of the files
    before, after = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(function_name(name), before, after)


def function_name(name: str) -> str:
    """Return module.Class.function from mutmut's name of a mutant.

    >>> function_name("raregram.counts.table.xǁCountsǁload__mutmut_3")
    'table.Counts.load'
    """
    *_, module, rest = name.partition("__mutmut_")[0].split(".")
    return ".".join([module, *(rest[2:].split("ǁ") if rest.startswith("xǁ") else [rest[2:]])])


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


def show(tallies: dict[str, Tally], by_reason: Counter[str], unlisted: list[Mutant]) -> None:
    """Print the figures, and every survivor that the list does not know."""
    for module, found in tallies.items():
        print(module, *(f"{value:,} {name}" for name, value in asdict(found).items()), sep=", ")
    for reason, number in by_reason.items():
        print(f"survived, {reason}: {number}")
    for mutant in sorted(unlisted, key=lambda mutant: mutant.function):
        print(f"{UNLISTED}: {mutant.function}\n- {mutant.line}\n+ {mutant.changed}")


if __name__ == "__main__":
    main()

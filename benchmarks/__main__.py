"""The whole benchmark, step by step, and the page that shows it.

    python -m benchmarks [STEP...]                  run what is missing; a second run goes on where this one stopped
    python -m benchmarks --page docs/benchmarks.md  only write the page and its pictures, from what was found

Each step is a process of its own, and what it finds is OUT/STEP.json as soon as it is done. The page is
`benchmarks/page.md` with the tables of one run in it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import calibration, ends, growth
from benchmarks.measuring import PROJECT, aim, measured, met, output_of, parser, write_json
from benchmarks.rivals import summary
from raregram.experiment.run import processor


class Step(NamedTuple):
    """A program of this package, with its options, and those for a small corpus."""

    title: str
    options: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    among_rivals: bool = False  # runs in the rivals' environment


TINY = ("--sizes", "150", "--targets", "LOC", "--seeds", "0,1", "--k", "200", "--warm", "0")
STEPS = {
    "speed": Step("Library and commands", small=("--articles", "300", "--rounds", "1", "--times", "1")),
    "experiment": Step("The experiment"),
    "growth": Step("How cost grows", small=("--divide", "50")),
    "spark": Step("Spark", small=("--items", "200000")),
    "serving": Step("The service"),
    "taggers": Step("Taggers", ("--seeds", "--articles", "1000"), ("--seeds", "--articles", "20", "--rounds", "1")),
    "trial": Step("Default options on a folder of text", small=("--documents", "300", "--targets", "LOC")),
    "calibration": Step("Calibration", small=("--settings", "brown", "--sizes", "50", "--seeds", "0")),
    "coverage": Step("Intervals", small=("--settings", "words before, n 2", "--seeds", "0")),
    "keyness": Step("Two corpora", small=("--only", "level", "--level-seeds", "1")),
    "contest": Step("Rivals", small=TINY),
    "ends": Step("Files in, files out", small=("--size", "150", "--targets", "LOC", "--k", "200"), among_rivals=True),
}
PICTURES: dict[str, Callable[[Mapping[str, Any], Path], None]] = {
    "growth": lambda found, path: growth.draw(found["lines"], path),
    "rivals": lambda found, path: summary.draw(found["entries"], path),
}
OF_PICTURE = {"growth": "growth", "rivals": "contest"}  # the step that a picture is of


def main() -> None:
    options = parser(__doc__, out="build/bench")
    options.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; default: all")
    options.add_argument("--force", action="store_true", help="begin anew")
    options.add_argument("--small", action="store_true", help="try everything on few articles; figures mean nothing")
    options.add_argument("--rivals", type=Path, default=PROJECT / ".venv-bench", help="the rivals' environment")
    options.add_argument("--remark", help="what else is to be known of the run, e.g. that the machine was busy")
    options.add_argument("--page", type=Path, help="write the page here, its pictures beside it, and measure nothing")
    arguments = options.parse_args()
    if unknown := set(arguments.steps) - STEPS.keys():
        options.error(f"there is no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside; a second run goes on from here"))
    out = arguments.out.absolute()
    failed = []
    if not arguments.page:
        if arguments.force:
            shutil.rmtree(out, ignore_errors=True)
        describe(out, arguments.rivals)
        failed = [name for name in arguments.steps or STEPS if not run(name, out, arguments)]
    if arguments.remark:
        machine = json.loads((out / "machine.json").read_text())
        write_json(out / "machine.json", machine | {"remark": arguments.remark})
    page = arguments.page or out / "benchmarks.md"
    write_page(out, page)
    print(f"see {page}")
    if failed:
        sys.exit(f"these steps failed: {', '.join(failed)}; a second run tries them again")


def describe(out: Path, rivals: Path) -> None:
    """Write down what a run is measured on, when it begins."""
    path = out / "machine.json"
    if path.exists():
        return
    code = "import json; from importlib.metadata import distributions as d; "
    code += "print(json.dumps({x.metadata['Name']: x.version for x in d()}))"
    packages = json.loads(output_of(rivals / "bin/python", "-c", code)) if rivals.exists() else {}
    installed = rivals / "rivals.json"
    found = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "raregram": version("raregram"),
        "packages": packages,
        "fasttext": debian_version("fasttext"),
        "missing": {k: v for k, v in json.loads(installed.read_text()).items() if v != "ok"} if packages else {},
    }
    write_json(path, found)


def debian_version(package: str) -> str:
    """Return the version of a Debian package, or that there is none."""
    if shutil.which("dpkg-query") is None:
        return "none"
    call = ["dpkg-query", "--show", "--showformat=${Version}", package]
    return subprocess.run(call, capture_output=True, text=True, check=False).stdout or "none"


def run(name: str, out: Path, arguments: Any) -> bool:
    """Run a step, unless that was done; return whether there are results."""
    path, step = out / f"{name}.json", STEPS[name]
    if path.exists():
        print(f"{name}: done before", flush=True)
        return True
    python = arguments.rivals / "bin/python" if step.among_rivals else sys.executable
    words: list[object] = [python, "-m", f"benchmarks.{name}", "--json", path]
    words += step.small if arguments.small else step.options
    if name in ("contest", "ends"):
        words += ["--out", out]
    if name == "contest":
        words += ["--python", arguments.rivals / "bin/python"]
    print(f"{time.strftime('%H:%M:%S')}  {name}", flush=True)
    process = subprocess.Popen(list(map(str, words)), cwd=PROJECT)
    try:
        process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return path.exists()


def write_page(out: Path, page: Path) -> None:
    """Write the page and its pictures, from what was found so far."""
    found = {name: json.loads(path.read_text()) for name in STEPS if (path := out / f"{name}.json").exists()}
    pictures = page.parent / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        if OF_PICTURE[name] in found:
            draw(found[OF_PICTURE[name]], pictures / f"{name}.svg")
    parts = {"run": about(json.loads((out / "machine.json").read_text()), found), "targets": targets(found)}
    parts |= {name: table(name, found[name]) if name in found else ["Not measured."] for name in STEPS}
    template = Path(__file__).with_name("page.md").read_text()
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: "\n".join(parts[match[1]]).rstrip(), template)
    page.write_text(text)


def about(machine: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return what was measured, when, on what and with which versions."""
    entries = found.get("contest", {}).get("entries", [])
    seeds = ", ".join(map(str, sorted({entry["seed"] for entry in entries})))
    packages = {name.lower(): number for name, number in machine["packages"].items()}
    names = ("numpy", "pyarrow", "scikit-learn", "fasttext-wheel", "vowpalwabbit", "kenlm")
    versions = [f"{name} {packages[name]}" for name in names if name in packages]
    lines = [
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores; seeds {seeds}; "
        f"raregram {machine['raregram']}, Python {machine['python']}, {', '.join(versions)}, "
        f"Debian's fasttext {machine['fasttext']}."
    ]
    lines += ["", machine["remark"]] if "remark" in machine else []
    if machine["missing"]:
        reasons = "; ".join(f"{name} ({why})" for name, why in machine["missing"].items())
        lines += ["", f"What could not be installed: {reasons}."]
    return lines


def targets(found: Mapping[str, Any]) -> list[str]:
    """Return the table of everything that was aimed at."""
    lines = ["| | aim | measured | |", "|---|---|--:|---|"]
    for name, step in found.items():
        above, rows = "", []
        for figure in step["figures"]:
            is_part = figure["what"].startswith("  ")
            above = above if is_part else figure["what"]
            what = f"{above}: {figure['what'].strip()}" if is_part else above
            if aim(figure):
                verdict = "met" if met(figure) else "**missed**"
                rows.append(f"| {what} | {aim(figure)} | {measured(figure)} | {verdict} |")
        lines += [f"| **{STEPS[name].title}** | | | |", *rows] if rows else []
    return lines


def table(name: str, step: Mapping[str, Any]) -> list[str]:
    """Return the tables of one step."""
    if name == "contest":
        sizes = summary.sizes_of(step["entries"])
        parts = [
            part(step["entries"], size) for size in reversed(sizes) for part in (summary.table, summary.cllr_table)
        ]
        return [line for part in parts for line in ("", *part)][1:]
    if name == "ends":
        return ends.table(step["entries"])
    if name == "calibration":
        return calibration.table(step["entries"])
    lines = ["| | measured | aim |", "|---|--:|---|"]
    return lines + [f"| {_indented(f['what'])} | {measured(f)} | {aim(f)} |" for f in step["figures"]]


def _indented(what: str) -> str:
    return what.replace("  ", "&emsp;", 1) if what.startswith("  ") else what


if __name__ == "__main__":
    main()

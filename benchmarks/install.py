"""Make the environment in which raregram is measured beside its rivals: `python -m benchmarks.install [FOLDER]`.

Everything comes by version and hash from requirements/rivals.txt, but each rival on its own, so that one that cannot
be had does not stop the others. `FOLDER/rivals.json` says for each of them "ok", or in one line why not. Nothing is
installed outside the folder.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measuring import PROJECT, parser, write_json

LIMIT = 600  # seconds for one step
REQUIREMENTS = PROJECT / "requirements"
PACKAGES = {  # the rival, and the package that brings it
    "fasttext": "fasttext-wheel",
    "vowpalwabbit": "vowpalwabbit",
    "densratio": "densratio",
    "data-selection": "data-selection",
}
MODULES = {"data-selection": "data_selection"}  # where the name to import is another one
KENLM, PROGRAMS = "kenlm", ("lmplz", "build_binary", "query")
BOOST = (
    "libboost-program-options-dev libboost-system-dev libboost-thread-dev libboost-test-dev "
    "zlib1g-dev libbz2-dev liblzma-dev"
)


class StepError(Exception):
    """A step that did not work; the message is the reason in one line."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", default=Path(".venv-bench"))
    folder = options.parse_args().folder.absolute()
    if not (folder / "bin/python").exists():
        run(sys.executable, "-m", "venv", folder)
    pip(folder, "--require-hashes", "--requirement", REQUIREMENTS / "build.txt")
    install_pinned(folder, *(pins().keys() - {*PACKAGES.values(), KENLM}))
    pip(folder, "--no-deps", "--editable", PROJECT)
    found = {"scikit-learn": "ok"}
    found |= {name: outcome(partial(package, folder, name)) for name in PACKAGES}
    found |= {"kenlm": outcome(partial(kenlm_module, folder)), "lmplz": outcome(partial(lmplz, folder))}
    write_json(folder / "rivals.json", found)
    for name, reason in found.items():
        print(f"{name:<16}{reason}")


def outcome(step: Callable[[], None]) -> str:
    """Take a step and return "ok", or the reason why it failed."""
    try:
        step()
    except StepError as error:
        return str(error)
    return "ok"


def pins() -> dict[str, str]:
    """Return the pins of the lock file by the name of their package: versions for various Pythons, with hashes."""
    found: dict[str, str] = {}
    for pin in re.findall(r"^\w.*(?:\n .*)*\n", (REQUIREMENTS / "rivals.txt").read_text(), re.MULTILINE):
        name = pin.partition("==")[0]
        found[name] = found.get(name, "") + pin
    return found


def install_pinned(folder: Path, *names: str) -> None:
    """Install just these packages by their pins; what they need is pinned too and was installed before."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("".join(pins()[name] for name in names))
        wanted.flush()
        pip(folder, "--no-deps", "--require-hashes", "--requirement", wanted.name)


def package(folder: Path, name: str) -> None:
    install_pinned(folder, PACKAGES[name])
    run(folder / "bin/python", "-c", f"import {MODULES.get(name, name)}")


def kenlm_module(folder: Path) -> None:
    """Build KenLM's Python module with the machine's own cmake; pip alone would compile cmake first."""
    need_cmake()
    install_pinned(folder, KENLM)
    run(folder / "bin/python", "-c", "import kenlm")


def lmplz(folder: Path) -> None:
    """Build the programs that estimate, pack and ask KenLM's models, and put them beside the environment's Python."""
    if all((folder / "bin" / name).exists() for name in PROGRAMS):
        return
    need_cmake()
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "pin.txt").write_text(pins()[KENLM])
        flags = ("--no-deps", "--no-build-isolation", "--no-binary", KENLM, "--require-hashes", "--requirement")
        run(folder / "bin/python", "-m", "pip", "download", "--quiet", "--dest", work, *flags, Path(work) / "pin.txt")
        with tarfile.open(next(Path(work).glob("*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
        source, build = next(Path(work).glob("kenlm-*/")), Path(work) / "build"
        try:
            run("cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release")
        except StepError as error:
            raise StepError(f"lmplz could not be configured; it needs Debian's {BOOST}: {error}") from error
        run("cmake", "--build", build, "--target", *PROGRAMS, "--parallel", "2")
        for name in PROGRAMS:
            shutil.copy2(build / "bin" / name, folder / "bin" / name)


def need_cmake() -> None:
    if shutil.which("cmake") is None:
        raise StepError("KenLM needs cmake on the PATH (Debian's cmake and g++)")


def pip(folder: Path, *arguments: str | Path) -> None:
    flags = ("--quiet", "--disable-pip-version-check", "--no-build-isolation")
    run(folder / "bin/python", "-m", "pip", "install", *flags, *arguments)


def run(*command: str | Path) -> None:
    """Run a command; raise `StepError` with its last words if it fails or takes too long."""
    words = [str(part) for part in command]
    short = f"{Path(words[0]).name} ... {Path(words[-1]).name}"
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise StepError(f"{short} took more than {LIMIT} s") from None
    except OSError as error:
        raise StepError(f"{short} could not be started: {error.strerror}") from None
    if done.returncode:  # the line that says most: the first with "error" in it, else the last one
        lines = [" ".join(line.split()) for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        wrong = [line for line in lines if "error" in line.lower()]
        raise StepError(f"{short} failed: {(wrong or lines[-1:] or ['it said nothing'])[0][:300]}")


if __name__ == "__main__":
    try:
        main()
    except StepError as reason:
        sys.exit(f"the environment could not be made: {reason}")

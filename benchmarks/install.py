"""Make the environment in which raregram is measured beside its rivals: `python benchmarks/install.py [FOLDER]`.

Each rival is installed on its own, so that one that cannot be had does not stop the others. `FOLDER/rivals.json`
says for each of them "ok", or in one line why not. Nothing is installed outside the folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LIMIT = 300  # seconds for one step
PACKAGES = {
    "fasttext": ["fasttext-wheel==0.9.2"],
    "vowpalwabbit": ["vowpalwabbit==9.11.9"],
    "densratio": ["densratio==0.4.0"],
    "data-selection": ["data-selection==1.0.3"],
}
MODULES = {"data-selection": "data_selection"}  # where the name to import is another one
SCIKIT_LEARN = "scikit-learn>=1.6"
KENLM = "kenlm==0.3.0"
BOOST = (
    "libboost-program-options-dev libboost-system-dev libboost-thread-dev libboost-test-dev "
    "zlib1g-dev libbz2-dev liblzma-dev"
)


class StepError(Exception):
    """A step that did not work; the message is the reason in one line."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".venv-bench"))
    folder = parser.parse_args().folder.absolute()
    if not (folder / "bin/python").exists():
        run(sys.executable, "-m", "venv", folder)
    pip(folder, "--editable", f"{PROJECT}[fast,paper]", SCIKIT_LEARN)
    steps: dict[str, Callable[[], None]] = {
        name: lambda name=name: packages(folder, name)  # type: ignore[misc]
        for name in PACKAGES
    }
    steps |= {"kenlm": lambda: kenlm_module(folder), "lmplz": lambda: lmplz(folder)}
    found = {"scikit-learn": "ok", **{name: outcome(step) for name, step in steps.items()}}
    (folder / "rivals.json").write_text(json.dumps(found, indent=1) + "\n")
    for name, reason in found.items():
        print(f"{name:<16}{reason}")


def outcome(step: Callable[[], None]) -> str:
    """Take a step and return "ok", or the reason why it failed."""
    try:
        step()
    except StepError as error:
        return str(error)
    return "ok"


def packages(folder: Path, name: str) -> None:
    pip(folder, *PACKAGES[name])
    run(folder / "bin/python", "-c", f"import {MODULES.get(name, name)}")


def kenlm_module(folder: Path) -> None:
    """Build KenLM's Python module with the machine's own cmake; pip alone would compile cmake first."""
    need_cmake()
    pip(folder, "setuptools", "wheel")
    pip(folder, "--no-build-isolation", KENLM)
    run(folder / "bin/python", "-c", "import kenlm")


def lmplz(folder: Path) -> None:
    """Build the programs that estimate and pack KenLM's models, and put them beside the environment's Python."""
    program = folder / "bin/build_binary"
    if program.exists():
        return
    need_cmake()
    pip(folder, "setuptools", "wheel")
    with tempfile.TemporaryDirectory() as work:
        flags = ("--no-deps", "--no-build-isolation", "--no-binary", "kenlm")
        run(folder / "bin/python", "-m", "pip", "download", "--quiet", *flags, "--dest", work, KENLM)
        with tarfile.open(next(Path(work).glob("*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
        source, build = next(Path(work).glob("kenlm-*/")), Path(work) / "build"
        try:
            run("cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release")
        except StepError as error:
            raise StepError(f"lmplz could not be configured; it needs Debian's {BOOST}: {error}") from error
        run("cmake", "--build", build, "--target", "lmplz", "build_binary", "--parallel", "2")
        for name in ("lmplz", "build_binary"):
            shutil.copy2(build / "bin" / name, folder / "bin" / name)


def need_cmake() -> None:
    if shutil.which("cmake") is None:
        raise StepError("KenLM needs cmake on the PATH (Debian's cmake and g++)")


def pip(folder: Path, *arguments: str) -> None:
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command: str | Path) -> None:
    """Run a command; raise `StepError` with its last words if it fails or takes too long."""
    words = [str(part) for part in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise StepError(f"{short(words)} took more than {LIMIT} s") from None
    except OSError as error:
        raise StepError(f"{short(words)} could not be started: {error.strerror}") from None
    if done.returncode:
        raise StepError(f"{short(words)} failed: {last_words(done.stderr or done.stdout)}")


def short(words: list[str]) -> str:
    """Name a command by its program and its last word."""
    return f"{Path(words[0]).name} ... {Path(words[-1]).name}"


def last_words(output: str) -> str:
    """Return the line that says most about a failure: the first with "error" in it, else the last one."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines[-1:] or ["it said nothing"])[0][:300]


if __name__ == "__main__":
    try:
        main()
    except StepError as reason:
        sys.exit(f"the environment could not be made: {reason}")

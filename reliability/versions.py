"""The same results from every version: `python -m reliability.versions [--folder FOLDER] [PYTHON ...]`.

For each Python from 3.11 to 3.13 on the PATH or kept by pyenv, or for those named, it makes an environment with
the newest pinned libraries and one with the oldest, runs the fixed job in both and compares all results
bit for bit. A result of its own is a fault, and so is a version that cannot do the job.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import PROJECT, parser, write_json

JOB = str(Path(__file__).resolve().with_name("fixed_job.py"))
VERSIONS = ("3.11", "3.12", "3.13")
LOCKS = {"newest": "core.txt", "oldest": "oldest.txt"}
LIMIT = 900  # seconds for one step
INSTALLED = """import importlib.metadata as m
print(*(f"{name} {m.version(name)}" for name in ("numpy", "pyarrow")), sep=", ")"""


def main() -> None:
    """Make the environments, run the job everywhere and print what came out."""
    options = parser(__doc__, out="build/reliability")
    options.add_argument("python", nargs="*", help="interpreters; all that are found unless given")
    options.add_argument("--folder", type=Path, help="where the environments are made and kept")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        rows = [row for python in arguments.python or found() for row in compare(python, folder.absolute())]
    write_json(arguments.out / "versions.json", rows)
    results = {row["result"] for row in rows}
    for row in rows:
        print(f"{row['python']:<10}{row['libraries']:<9}{row['versions']:<64}{row['result'][:12]}")
    print(f"{len(rows)} runs,", "one result" if len(results) == 1 else f"{len(results)} different results")
    sys.exit(len(results) != 1 or not rows)


def found() -> list[str]:
    """Return an interpreter of each version, as far as there are any."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"

    def works(python: str) -> bool:  # pyenv leaves commands that only say that they don't
        return bool(shutil.which(python)) and not subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL)

    several = ([f"python{v}", *map(str, sorted(kept.glob(f"{v}.*/bin/python")))] for v in VERSIONS)
    return [python for each in several if (python := next(filter(works, each), None))]


def compare(python: str, folder: Path) -> list[dict[str, str]]:
    """Run the job with the newest and the oldest libraries of one interpreter."""
    version = output(python, "-c", "import platform; print(platform.python_version())")
    rows = []
    for libraries, lock in LOCKS.items():
        environment = folder / f"{version}-{libraries}"
        make(python, environment, lock)
        own = environment / "bin" / "python"
        named = {"python": version, "libraries": libraries, "versions": output(own, "-c", INSTALLED)}
        rows.append({**named, "result": hashlib.sha256(output(own, JOB).encode()).hexdigest()})
    return rows


def make(python: str, environment: Path, lock: str) -> None:
    """Make an environment with pinned libraries and this raregram."""
    if (environment / "installed").exists():
        return
    output(python, "-m", "venv", environment)
    pip = (environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    output(*pip, "--require-hashes", "--requirement", PROJECT / "requirements" / lock)
    output(*pip, "--no-deps", "--no-build-isolation", "--editable", PROJECT)
    (environment / "installed").touch()


def output(*command: str | Path) -> str:
    """Run a command and return what it printed; end with its message if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()

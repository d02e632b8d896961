"""The same numbers from every version: `python -m reliability.versions [--folder FOLDER] [PYTHON ...]`.

For each Python from 3.11 to 3.13 on the PATH or kept by pyenv, or for those named, it makes an environment with the
newest pinned libraries and one with the oldest, and compares what they compute with the golden files of the tests:
frequencies exactly, ratios to 1e-9. A difference is a fault, and so is a version that cannot do the job.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import PROJECT, parser, write_json

VERSIONS = ("3.11", "3.12", "3.13")
LOCKS = {"newest": "core.txt", "oldest": "oldest.txt"}
LIMIT = 900  # seconds for one step
COMPARE = """import golden, importlib.metadata as m, platform
wrong = [line for name in golden.FILES if name not in ("experiment", "comparison") for line in golden.compare(name)]
print(platform.python_version(), *(f"{name} {m.version(name)}" for name in ("numpy", "scipy", "pyarrow")), sep=", ")
print(*wrong or ["as they were"], sep="; ")"""


def main() -> None:
    options = parser(__doc__, out="build/reliability")
    options.add_argument("python", nargs="*", help="interpreters; all that are found unless given")
    options.add_argument("--folder", type=Path, help="where the environments are made and kept")
    given = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        for python in given.python or interpreters():
            for libraries, lock in LOCKS.items():
                own = make(python, folder / f"{Path(python).name}-{libraries}", lock)
                versions, numbers = output(own, "-c", COMPARE, cwd=PROJECT / "tests").splitlines()
                rows.append({"libraries": libraries, "versions": versions, "numbers": numbers})
                print(f"{libraries:<8}{versions:<60}{numbers}", flush=True)
    write_json(given.out / "versions.json", rows)
    sys.exit(not rows or any(row["numbers"] != "as they were" for row in rows))


def interpreters() -> list[str]:
    """Return an interpreter of each version, as far as there are any."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"

    def works(python: str) -> bool:  # pyenv leaves commands that only say that they don't
        return bool(shutil.which(python)) and not subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL)

    several = ([f"python{v}", *map(str, sorted(kept.glob(f"{v}.*/bin/python{v}")))] for v in VERSIONS)
    return [python for each in several if (python := next(filter(works, each), None))]


def make(python: str, environment: Path, lock: str) -> Path:
    """Make an environment with pinned libraries and this raregram, and return its interpreter."""
    own = environment / "bin" / "python"
    if not (environment / "installed").exists():
        output(python, "-m", "venv", environment)
        pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation")
        output(*pip, "--require-hashes", "--requirement", PROJECT / "requirements" / lock)
        output(*pip, "--no-deps", "--editable", PROJECT)
        (environment / "installed").touch()
    return own


def output(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return what it printed; end with its message if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()

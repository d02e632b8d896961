"""Documentation is executed: the README's Python by doctest, its shell commands here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readme_s_commands_work(tmp_path):
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    commands = "".join(block for block in blocks if "raregram fit" in block)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "1\t2.0385\the met in" in done.stdout


def test_the_readme_shows_the_whole_tree():
    tree = re.search(r"```\nsrc/raregram/\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert tree is not None
    shown = {line.split()[0] for line in tree[1].splitlines()}
    package = ROOT / "src" / "raregram"
    files = {path.name for path in package.glob("*.py")}
    assert shown == files | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}

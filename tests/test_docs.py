"""The README is executed in a folder of plain text; `test_handbook.py` runs the pages of the site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from handbook.pages import GENERATED

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SENTENCES = (
    "Anna lives in Paris with her brother.",
    "They met in London in the spring of last year.",
    "The mayor of Berlin said that nothing had changed.",
    "Prices fell in May, and nobody knows why.",
    "He was born in Madrid and moved to Rome as a child.",
    "Of course it was late when the meeting ended.",
)


@pytest.fixture
def folder(tmp_path):
    """What a reader of the README has: a folder of articles, and another of new ones."""
    for name, number in (("articles", 12), ("new", 3)):
        (tmp_path / name).mkdir()
        for k in range(number):
            text = "\n".join(SENTENCES[(k * j + j) % len(SENTENCES)] for j in range(8))
            (tmp_path / name / f"{k}.txt").write_text(text)
    return tmp_path


def run(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readme_s_commands_work_on_a_folder_of_text(folder):
    (commands,) = [block for block in blocks(README, "bash") if "raregram fit" in block]
    assert len(commands.splitlines()) == 5
    out = run(["bash", "-euo", "pipefail", "-c", commands.replace("raregram serve loc.rgm", "")], folder)
    first = out.splitlines()[0].split("\t")
    assert first[0] == "1"
    assert first[2].startswith("new/")
    assert "‖" in first[4]


def test_the_readme_s_python_works_on_a_folder_of_text(folder):
    (program,) = blocks(README, "python")
    assert len([line for line in program.splitlines() if line]) <= 10
    out = run([sys.executable, "-c", program], folder)
    assert "new/" in out
    assert "LOC: log ratio" in out
    assert (folder / "loc.rgm").exists()


def test_the_readme_is_short_and_its_links_lead_somewhere():
    assert len(README.split()) <= 1000
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            target = (page.parent / link).resolve()
            there = target.exists() or target in {ROOT / "docs" / "reference" / name for name in GENERATED}
            assert link.startswith("http") or there, f"{page.name}: {link}"


def test_the_tree_of_the_package_is_shown_whole():
    tree = re.search(r"```\nsrc/raregram/\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert tree is not None
    shown = {line.split()[0] for line in tree[1].splitlines()}
    package = ROOT / "src" / "raregram"
    files = {path.name for path in package.glob("*.py")}
    assert shown == files | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}

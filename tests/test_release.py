"""What is published: small, complete, and working where nothing else is installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import raregram as rg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
README = (ROOT / "README.md").read_text("utf-8")
MEGABYTE = 1_000_000
LARGEST_WHEEL = 2 * MEGABYTE
COUNT = """
import pathlib, sys
import raregram as rg
assert "numpy" not in sys.modules and "pyarrow" not in sys.modules, "they are imported before they are needed"
pathlib.Path("tagged.jsonl").write_text('{"text": "she lives in Rome now", "spans": [[3, 4, "LOC"]]}')
counts = rg.count("tagged.jsonl", n=2, targets=["LOC"])
assert counts.totals.tolist() == [4, 1], counts.totals
assert rg.fit(counts, "LOC").ratio(["he lives in"])[0] > 1
import importlib.util
others = ("pandas", "sklearn", "spacy", "matplotlib")
print(sum(importlib.util.find_spec(name) is not None for name in others))
"""


def of_the_core() -> set[str]:
    """Return the names of the packages that raregram without extras brings along."""
    names: set[str] = set()
    wanted = [Requirement(line) for line in PROJECT["dependencies"]]
    while wanted:
        requirement = wanted.pop()
        here = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if here and requirement.name not in names:
            names.add(requirement.name)
            wanted += map(Requirement, importlib.metadata.requires(requirement.name) or ())
    return names


def files_of(name: str) -> list[importlib.metadata.PackagePath]:
    return [file for file in importlib.metadata.files(name) or () if file.size]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Build wheel and source archive, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def test_the_wheel_is_small_and_has_the_package_alone(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.stat().st_size < LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    info = f"raregram-{rg.__version__}.dist-info/"
    package = {
        path
        for path in (ROOT / "src" / "raregram").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert {name for name in inside if not name.startswith(info)} == {
        path.relative_to(ROOT / "src").as_posix() for path in package
    }
    assert f"{info}licenses/LICENSE" in inside


def test_the_source_archive_has_what_builds_and_tests_it(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        inside = {name.partition("/")[2] for name in members.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"} <= inside
    assert {"src/raregram/py.typed", "tests/test_release.py", "docs/theory.md", "Makefile"} <= inside
    assert not {name for name in inside if name.startswith(("build/", ".venv", ".git/"))}


@pytest.mark.parametrize(
    "archive", [pytest.param("*.whl", marks=pytest.mark.harness), pytest.param("*.tar.gz", marks=pytest.mark.trust)]
)
def test_it_is_installed_and_counts_where_nothing_else_is(dist, tmp_path, archive):
    """As `pip install raregram` does it, with the newest packages of the core."""
    (path,) = dist.glob(archive)
    venv.create(tmp_path / "bare", with_pip=True)
    programs = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: object) -> str:
        words = [str(programs / str(command[0])), *map(str, command[1:])]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
    assert run("python", "-I", "-W", "error", "-c", COUNT).split() == ["0"], "there is more here than the core"
    assert run("raregram", "--version").split()[-1] == rg.__version__


def test_the_core_is_as_small_as_the_readme_says():
    """The packages besides raregram, and their size on disk, on any system, at most the one that the README names."""
    stated = re.search(r"(\w+) packages, (\d+) MB", README)
    assert stated is not None
    packages = of_the_core()
    assert packages >= {"numpy", "scipy", "pyarrow", "platformdirs", "typer", "rich"}
    assert int(stated[1]) == len(packages)
    size = sum(file.size or 0 for name in packages for file in files_of(name))
    size += sum(
        path.stat().st_size
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    )
    assert size / MEGABYTE <= int(stated[2])


def test_importing_raregram_imports_one_module_of_its_own():
    """What an import costs, in modules: seconds depend on the machine."""
    code = "import sys; before = set(sys.modules); import raregram; print(*sorted(set(sys.modules) - before))"
    imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert [name for name in imported if name.split(".")[0] == "raregram"] == ["raregram"]
    assert {name.split(".")[0] for name in imported} <= {"raregram", *sys.stdlib_module_names}
    assert len(imported) < 60


def test_one_version_everywhere():
    assert PROJECT["version"] == rg.__version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [rg.__version__]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert f"{rg.__version__} (" in " ".join(headings)
    assert all(re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings)


def test_the_classifiers_name_the_versions_of_python_that_are_tested():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    (tested,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"3\.\d+", tested) == named
    assert PROJECT["requires-python"] == f">={named[0]}"

"""The site: pages run, the reference is complete, and what is wrong with a page is named."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import raregram as rg
from handbook import check, execute, pages, reference
from raregram.cli import app
from raregram.corpus.fetch import cache_folder

RUN = [path for path in sorted(pages.DOCS.rglob("*.md")) if path.relative_to(pages.DOCS).parts[0] in pages.RUN]


def run(tmp_path, text, name="page.md"):
    return execute.execute(tmp_path / name, text, tmp_path, "pictures")[0]


def test_a_block_is_followed_by_what_it_shows(tmp_path):
    page = run(
        tmp_path, "# T\n\n```python\nx = 2\nprint('so')\nx + 1\n```\n\nThen:\n\n```bash\necho $((1 + 1))\n```\n"
    )
    shown = re.findall(r"```\{ .text .output \}\n(.*?)```", page, re.DOTALL)
    assert shown == ["so\n3\n", "2\n"]
    assert page.startswith("# T\n\n```python\nx = 2\n")


def test_blocks_share_names_and_a_folder_and_only_known_languages_run(tmp_path):
    blocks = ("python\nimport pathlib\npathlib.Path('a').write_text('b')", "bash\ncat a", "sh\nexit 1")
    page = run(tmp_path, "".join(f"```{block}\n```\n" for block in blocks))
    assert "\nb\n" in page
    assert Path.cwd() != tmp_path


def test_figures_are_shown_with_their_titles(tmp_path):
    pytest.importorskip("matplotlib")
    page = run(tmp_path, '```python title="A line"\nimport matplotlib.pyplot as p\np.plot([1, 2])\n```\n')
    assert "[![A line](pictures/page-1.svg){ .figure }](pictures/page-1.svg)" in page
    assert "Line2D" not in page
    assert (tmp_path / "page-1.svg").stat().st_size > 1000


@pytest.mark.parametrize("block", ["```python\n1 / 0\n```\n", "```bash\nnot-a-command\n```\n"])
def test_a_block_that_fails_is_named_with_its_line(tmp_path, block):
    with pytest.raises(execute.PageError, match=r"page\.md, the block of line 3"):
        run(tmp_path, f"# T\n\n{block}")


def run_apart(page, pictures):
    """Run a page in a process of its own, since it may register estimators or start Spark; return what it shows."""
    program = "import pathlib, sys; from handbook.execute import execute; page = pathlib.Path(sys.argv[1])"
    program += "; print(execute(page, page.read_text('utf-8'), pathlib.Path(sys.argv[2]), 'pictures')[0])"
    command = [sys.executable, "-c", program, page, pictures]
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.harness
@pytest.mark.parametrize("page", [path for path in RUN if path.parent.name == "howto"], ids=lambda path: path.stem)
def test_how_to_pages_run(tmp_path, page):
    results = re.findall(r'\{ \.text \.output \}|<div class="output"', run_apart(page, tmp_path))
    assert bool(results) == bool(execute.BLOCK.search(page.read_text("utf-8")))


@pytest.mark.trust
@pytest.mark.parametrize("page", [path for path in RUN if path.parent.name != "howto"], ids=lambda path: path.stem)
def test_tutorials_and_the_gallery_run(tmp_path, page):
    text = page.read_text("utf-8")
    if "tagged_reuters" in text and not (cache_folder() / "reuters-21578").exists():
        pytest.skip("Reuters-21578 is not in the cache: raregram fetch reuters")
    if "import spark" in text and shutil.which("java") is None:
        pytest.skip("Spark needs Java 17")
    assert run_apart(page, tmp_path).count("![") - text.count("![") == text.count("python title=")


def test_the_gallery_has_a_dozen_pictures():
    text = (pages.DOCS / "gallery.md").read_text("utf-8")
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 12


def test_the_reference_has_every_public_name_and_every_command():
    python, commands = reference.python_page(*reference.PYTHON["python.md"]), reference.commands_page()
    for name in set(rg.__all__) - {"__version__", "errors", "ratios", "selection"}:
        assert f"### {name}\n" in python
    assert "#### Model.explain\n" in python
    for name in typer.main.get_command(app).commands:
        assert f"## {name}\n\n```text\nUsage: raregram {name} " in commands


def test_docstrings_become_markdown():
    """Arguments are a list, examples are blocks."""
    shown = reference.docstring(rg.selection.scores)
    assert "**Arguments**\n\n- `criterion`: one of `CRITERIA`." in shown
    assert '```python\n>>> scores("gss"' in shown
    assert shown.count("```") == 2


def test_tables_of_docstrings_become_tables():
    assert doctest.testmod(reference) == (0, 1)


def test_every_page_is_in_the_navigation_once():
    nav = tomllib.loads((pages.ROOT / "handbook" / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    shown = sorted(re.findall(r"'([\w/]+\.md)'", str(nav)))
    written = {path.relative_to(pages.DOCS).as_posix() for path in pages.DOCS.rglob("*.md")}
    assert shown == sorted(written | set(pages.OUTSIDE.values()) | {f"reference/{name}" for name in pages.GENERATED})


def test_links_between_the_repository_s_pages_lead_within_the_site(tmp_path):
    source = pages.DOCS / "howto" / "x.md"
    pages.write(tmp_path, "howto/x.md", "[a](../../SECURITY.md#b) [c](../theory.md) [d](https://e.org)", source)
    assert (tmp_path / "howto" / "x.md").read_text() == "[a](../security.md#b) [c](../theory.md) [d](https://e.org)"


def test_sections_of_the_readme_are_taken_over(tmp_path):
    pages.write(tmp_path, "x.md", "<!-- README: Install -->\n", pages.DOCS / "x.md")
    assert "pip install 'raregram[" in (tmp_path / "x.md").read_text()
    with pytest.raises(SystemExit, match="the README has no section 'Nothing'"):
        pages.write(tmp_path, "x.md", "<!-- README: Nothing -->\n", pages.DOCS / "x.md")


def test_faults_of_a_site_are_named(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="top">b</h1>')
    assert not check.faults(tmp_path)
    (tmp_path / "index.html").write_text(
        '<a href="b/#top">1</a><a href="b/#no">2</a><a href="c/">3</a><script src="https://x.org/y.js"></script>'
    )
    assert check.faults(tmp_path) == [
        "index.html loads https://x.org/y.js",
        "index.html links to b/#no, which has no such part",
        "index.html links to c/, which is not there",
    ]


def test_the_folder_of_the_caller_stays(tmp_path):
    before = os.getcwd()  # noqa: PTH109
    run(tmp_path, "```python\nimport os\nos.mkdir('x')\n```\n")
    assert os.getcwd() == before  # noqa: PTH109

"""Pages with code: every block is run where it stands, and what it shows is put behind it.

A `python` block shares its names with those before it on the page. What it prints, the value of its last line and its
figures are shown. A `bash` block runs in the same folder. Blocks of other languages are only shown.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|bash)(?: title=\"([^\"]*)\")?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LONGEST = 60  # lines of output
LIMIT = 300  # seconds for a bash block


class PageError(Exception):
    """A block of a page failed."""


@dataclass
class Runner:
    """Runs the blocks of one page, one after the other."""

    page: str  # its name, for messages
    pictures: Path  # where figures are kept,
    address: str  # and how the page refers to that folder
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    shown: int = 0  # figures so far

    def python(self, code: str, title: str) -> str:
        """Run Python, and return what is to be shown."""
        tree = ast.parse(code)
        last = tree.body[-1] if tree.body else None
        expression = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        if expression:
            tree.body.pop()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(tree, self.page, "exec"), self.names)
            value = eval(compile(expression, self.page, "eval"), self.names) if expression else None
        html, svg = (getattr(value, name, None) for name in ("_repr_html_", "_repr_svg_"))
        if value is not None and html is None and svg is None and not is_drawing(value):
            out.write(repr(value))
        shown = as_text(out.getvalue()) + (as_html(html()) if html else "")
        if svg:
            shown += self.picture(title, lambda path: path.write_text(svg(), "utf-8"))
        return shown + self.figures(title)

    def bash(self, code: str) -> str:
        """Run a shell, and return what is to be shown."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(
            command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        if done.returncode:
            raise PageError(f"{code}\n{done.stderr}")
        return as_text(done.stdout)

    def figures(self, title: str) -> str:
        """Save the figures that a block has drawn, and return the lines that show them."""
        if "matplotlib.pyplot" not in sys.modules:
            return ""
        from matplotlib import pyplot

        lines = ""
        for number in pyplot.get_fignums():
            lines += self.picture(title, partial(pyplot.figure(number).savefig, metadata={"Date": None}))
            pyplot.close(number)
        return lines

    def picture(self, title: str, save: Callable[[Path], object]) -> str:
        """Save a picture, and return the line that shows it."""
        self.shown += 1
        name = f"{Path(self.page).stem}-{self.shown}.svg"
        save(self.pictures / name)
        address = f"{self.address}/{name}"
        return f"\n[![{title or 'The figure that this draws'}]({address}){{ .figure }}]({address})\n"


def is_drawing(value: Any) -> bool:
    """Whether a value is a part of a figure, which is shown as a whole."""
    first = value[0] if isinstance(value, list) and value else value
    return type(first).__module__.startswith("matplotlib")


def as_text(text: str) -> str:
    """Return printed text as a block of its own; of long ones the beginning."""
    lines = text.replace(str(Path.home()), "~").expandtabs(4).rstrip().splitlines()
    if not lines:
        return ""
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"... ({len(lines) - LONGEST} more lines)"]
    shown = "\n".join(line.rstrip() for line in lines)
    return f"\n```{{ .text .output }}\n{shown}\n```\n"


def as_html(html: str) -> str:
    """Return what a notebook would show; without empty lines, which end HTML in Markdown."""
    compact = re.sub(r"\n\s*\n", "\n", html.strip())
    return f'\n<div class="output" markdown="0">\n{compact}\n</div>\n'


def execute(page: Path, source: str, pictures: Path, address: str) -> tuple[str, float]:
    """Return a page with the results of its blocks, and the seconds that they took."""
    begun = time.perf_counter()
    runner = Runner(page.name, pictures, address)
    os.environ["MPLBACKEND"] = "svg"

    def run(block: re.Match[str]) -> str:
        language, title, code = block[1], block[2] or "", block[3]
        try:
            shown = runner.python(code, title) if language == "python" else runner.bash(code)
        except Exception as error:
            line = source.count("\n", 0, block.start()) + 1
            raise PageError(f"{page}, the block of line {line}: {traceback.format_exc(limit=-3)}") from error
        return f"{block[0]}{shown}"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if page.with_suffix("").is_dir():  # what the page works with
            shutil.copytree(page.with_suffix(""), folder, dirs_exist_ok=True)
        text = BLOCK.sub(run, source)
    return text, time.perf_counter() - begun

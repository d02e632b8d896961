"""The command line: parse, call, print. Exit code 0, 1 (bad input or a failure) or 2 (a wrong call)."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from raregram import __version__
from raregram.cli import comparing, corpora, experiments, models, serving
from raregram.cli.printing import say
from raregram.errors import ParameterError, RaregramError, RaregramWarning

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


class Command(TyperCommand):
    """A command that sets Arrow up before it runs; its help does not wait for Arrow."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        _set_up_arrow()
        return super().invoke(ctx)


for room in (corpora, models, comparing, experiments, serving):
    for command in room.COMMANDS:
        app.command(cls=Command)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"raregram {__version__}")
        raise typer.Exit


@app.callback()
def raregram(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Estimate likelihood ratios of N-grams, above all of those that were seen rarely or never.

    From a folder of text to the places in other text where a name is most likely:

    raregram tag articles/ --out tagged.parquet

    raregram count tagged.parquet --out all.counts

    raregram fit all.counts --target LOC --out loc.rgm

    raregram rank loc.rgm new/ --top 20
    """


def main() -> NoReturn:
    """Run the command line; errors of raregram and of the system are one line on standard error, no traceback."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: no file that is written may get its descriptor
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives
        elif mode == "w":
            encoding = output_encoding(sys.platform, os.environ)
            getattr(sys, name).reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RaregramWarning)
            warnings.showwarning = _show_warning
            app(prog_name="raregram")
    except (RaregramError, OSError) as error:  # the system's, such as that the disk of standard output is full
        message = str(error)
        if isinstance(error, ParameterError) and error.name is not None:  # named as on the command line
            message = f"--{error.name.replace('_', '-')} {error.problem}"
        say(f"raregram: error: {message}")
        sys.exit(2 if isinstance(error, ParameterError) else 1)
    except MemoryError:
        say("raregram: error: there is not enough memory for this")
        sys.exit(1)
    sys.exit(0)


def output_encoding(platform: str, environment: Mapping[str, str]) -> str | None:
    """Return the encoding of standard output: UTF-8 on Windows too, unless Python was given one; None: as it is."""
    return "utf-8" if platform == "win32" and "PYTHONIOENCODING" not in environment else None


class _NoPandas:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("no command needs pandas", name=name)


def _set_up_arrow() -> None:
    """Keep Arrow from keeping memory that it has freed, and from importing pandas, which takes as long as the rest.

    Arrow imports pandas, where it is installed, to see whether a list is a DataFrame; it asks only once.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    sys.meta_path.insert(0, _NoPandas())
    pa.array([0])
    del sys.meta_path[0]


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning of raregram as one line, and others as Python does."""
    if issubclass(category, RaregramWarning):
        say(f"raregram: warning: {message}")
    else:
        print(warnings.formatwarning(message, category, filename, lineno), end="", file=sys.stderr)

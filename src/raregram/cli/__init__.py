"""The command line: parse, call, print. Exit code 0, 1 (bad input or a failure) or 2 (a wrong call)."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn

import click

from raregram import __version__
from raregram.cli import comparing, corpora, experiments, models, serving
from raregram.cli.command import Commands
from raregram.cli.printing import say
from raregram.cli.startup import output_encoding
from raregram.errors import ParameterError, RaregramError, RaregramWarning

HELP = """Estimate likelihood ratios of N-grams, above all of those that were seen rarely or never.

From a folder of text to the places in other text where a name is most likely:

raregram tag articles/ --out tagged.parquet

raregram count tagged.parquet --out all.counts

raregram fit all.counts --target LOC --out loc.rgm

raregram rank loc.rgm new/ --top 20
"""
WIDTH = 110  # columns of help at most

app = Commands(
    (*corpora.COMMANDS, *models.COMMANDS, *comparing.COMMANDS, *experiments.COMMANDS, *serving.COMMANDS),
    help=HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
click.version_option(__version__, message="raregram %(version)s", help="Print the version.")(app)


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


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning of raregram as one line, and others as Python does."""
    if issubclass(category, RaregramWarning):
        say(f"raregram: warning: {message}")
    else:
        print(warnings.formatwarning(message, category, filename, lineno), end="", file=sys.stderr)

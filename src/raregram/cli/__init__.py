"""The command line: parse, call, print.

Exit code 0, 1 (the input or the work failed) or 2 (the call was wrong).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from raregram import __version__
from raregram.cli import corpora, experiments, models, serving
from raregram.cli.printing import say
from raregram.errors import ParameterError, RaregramError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help comes up a third faster than one in frames and colours
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (*corpora.COMMANDS, *models.COMMANDS, *experiments.COMMANDS, *serving.COMMANDS):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line; a user's mistake gives a sentence on standard error, never a traceback."""
    _prepare_streams()
    try:
        app(prog_name="raregram")
    except ParameterError as error:
        _fail(error, code=2)
    except RaregramError as error:
        _fail(error, code=1)
    except OSError as error:  # what the system says of standard output, such as a full disk
        _fail(error, code=1)
    except MemoryError:
        _fail("there is not enough memory for this", code=1)
    sys.exit(0)


def _prepare_streams() -> None:
    """Let what goes to a stream that the caller has closed vanish, and no file that is written get its number.

    What the terminal's encoding lacks is printed as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives
        elif mode == "w":
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _fail(error: object, code: int) -> NoReturn:
    """Say what is wrong."""
    say(f"raregram: error: {error}")
    sys.exit(code)


def _version(value: bool) -> None:
    if value:
        print(f"raregram {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Likelihood ratios of N-grams, above all of those that were seen rarely or never.

    Count contexts, fit a model, then score, rank and explain N-grams:

    raregram fit contexts.tsv --target LOC --out loc.rgm

    raregram rank loc.rgm new.txt --top 20
    """

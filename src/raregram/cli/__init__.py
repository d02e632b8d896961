"""The command line: parse, call, print.

Exit code 0, 1 (the input or the work failed) or 2 (the call was wrong).
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from raregram import __version__
from raregram.cli import corpora, experiments, models, serving
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
    try:
        app(prog_name="raregram")
    except ParameterError as error:
        _fail(error, code=2)
    except RaregramError as error:
        _fail(error, code=1)
    except OSError as error:  # what the system says of standard output, such as a full disk
        _fail(error, code=1)
    sys.exit(0)


def _fail(error: Exception, code: int) -> NoReturn:
    print(f"raregram: error: {error}", file=sys.stderr)
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

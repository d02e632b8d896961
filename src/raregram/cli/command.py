"""Commands from typed functions: a parameter is an option or an argument, as its annotation says.

`Annotated[int, option("--top", "-k", help="...", min=1)]` is an option that takes a whole number from 1 on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from raregram.cli.startup import set_up_arrow

GROUPS = {
    "Input": (
        "sources", "documents", "numerator", "denominator", "format", "split", "columns", "f_de", "labels",
        "item_column", "tag_column", "sentences", "reference", "cut_by", "names", "on_error",
    ),
    "Tagger": ("tagger", "pipeline", "stanford"),
    "Contexts": ("n", "targets", "target", "side", "kind", "tokenize", "lower", "spans", "pad", "min_count",
                 "min_documents", "folds", "drop_folds"),
    "Estimator": (
        "estimator", "lam", "criterion", "size", "unseen", "seed", "tau", "unit_lam", "longest",
        "shapes", "calibrate", "bounds", "by", "k", "criteria", "sizes", "lams", "priors", "taus",
    ),
    "Output": (
        "out", "top", "width", "sort", "negative", "lockwords", "repeats", "interval", "level", "as_", "as_json",
        "quiet",
    ),  # and --help
    "Machine": ("threads", "memory_limit", "processes", "engine", "master", "spark"),
}  # fmt: skip
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
METAVARS = {int: "N", float: "X", str: "TEXT"}
LONGEST_METAVAR = 70  # characters; longer lists of choices are in the text
INTERRUPTED = 130  # the exit code after Ctrl-C


@dataclass(frozen=True)
class Declared:
    """How a parameter is given on the command line."""

    names: Sequence[str] | None  # None: it is an argument
    settings: dict[str, Any]  # of click

    def build(self, name: str, hint: Any, default: Any) -> click.Parameter:
        """Return the parameter of a command, given that of a function: its name, type and default."""
        settings = {**self.settings, "required": default is inspect.Parameter.empty}
        if not settings["required"]:
            settings["default"] = default
        bounds = {side: settings.pop(side) for side in ("min", "max") if side in settings}
        hint = get_args(hint)[0] if NoneType in get_args(hint) else hint  # X | None
        several = get_origin(hint) is list
        hint = settings["type"] = get_args(hint)[0] if several else hint
        if get_origin(hint) is Literal:
            choices = "|".join(get_args(hint))
            settings["type"] = click.Choice(get_args(hint))
            settings["metavar"] = choices if len(choices) <= LONGEST_METAVAR else "NAME"
        elif bounds:
            settings["type"] = (click.IntRange if hint is int else click.FloatRange)(**bounds)
        if self.names is None:
            del settings["help"]  # `Command` shows it: not every version of click does
            return click.Argument([name], nargs=-1 if several else 1, **settings)
        names = self.names or ["--" + name.replace("_", "-")]
        settings.setdefault("metavar", METAVARS.get(hint))
        return click.Option([name, *names], multiple=several, is_flag=hint is bool or None, **settings)


def option(*names: str, show_default: bool = True, **settings: Any) -> Declared:
    """Declare an option; without names it has that of the parameter."""
    return Declared(names, {"show_default": show_default, "show_envvar": "envvar" in settings, **settings})


def argument(**settings: Any) -> Declared:
    """Declare an argument."""
    return Declared(None, settings)


class Command(click.Command):
    """A command that runs a function, and whose help shows options in groups, if there are many of them."""

    def __init__(self, function: Callable[..., None]) -> None:
        hints, params = get_type_hints(function, include_extras=True), []
        self.argument_help: dict[str | None, str] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            hint, declared = get_args(hints[name])
            params.append(declared.build(name, hint, parameter.default))
            self.argument_help[name] = declared.settings.get("help", "")
        self.function = function
        super().__init__(function.__name__, params=params, help=inspect.getdoc(function))

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; a list of which nothing is given is None."""
        set_up_arrow()
        given = {
            name: (list(value) or None) if isinstance(value, tuple) else value for name, value in ctx.params.items()
        }
        try:
            ctx.invoke(self.function, **given)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options by group."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *GROUPS, "Other options")}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                shown = parameter.human_readable_name, self.argument_help[parameter.name]
                sections["Arguments"].append(shown)
            elif record := parameter.get_help_record(ctx):
                group = "Output" if parameter.is_eager else GROUP_OF.get(parameter.name or "", "Other options")
                sections[group].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Commands(click.Group):
    """Commands by their names; each is set up when it is asked for."""

    def __init__(self, functions: Sequence[Callable[..., None]], **settings: Any) -> None:
        super().__init__(**settings)
        self.functions = {function.__name__: function for function in functions}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.functions)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        return Command(self.functions[cmd_name]) if cmd_name in self.functions else None

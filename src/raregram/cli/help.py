"""The help of a command: its options in groups, on one screen."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

from raregram.cli.startup import set_up_arrow

WIDTH = 110  # columns at most
GROUPS = {
    "Input": (
        "sources", "documents", "numerator", "denominator", "format", "split", "columns", "f_de", "labels",
        "item_column", "tag_column", "sentences", "on_error",
    ),
    "Tagger": ("tagger", "pipeline", "stanford"),
    "Contexts": ("n", "targets", "target", "side", "kind", "tokenize", "lower", "spans", "pad", "min_count"),
    "Estimator": (
        "estimator", "lam", "criterion", "size", "unseen", "seed", "keep_seen", "tau", "unit_lam", "longest",
        "shapes", "max_bytes", "by", "k", "criteria", "sizes", "lams", "priors", "taus",
    ),
    "Output": ("out", "top", "interval", "level", "as_", "as_json", "quiet", "help"),
    "Machine": ("threads", "memory_limit", "processes", "engine", "master", "spark"),
}  # fmt: skip
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
LONGEST_METAVAR = 70  # characters; longer lists of choices are in the text


class Command(TyperCommand):
    """A command that starts fast, and whose help shows options in groups, if there are many of them."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        set_up_arrow()
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by group."""
        arguments: list[tuple[str, str]] = []
        options: dict[str, list[tuple[str, str]]] = {name: [] for name in (*GROUPS, "Other options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            shown = (re.sub(r" ?<([^>]*)>", _metavar, record[0]), record[1])
            if parameter.param_type_name == "argument":
                arguments.append(shown)
            else:
                options[GROUP_OF.get(parameter.name or "", "Other options")].append(shown)
        for title, records in {"Arguments": arguments, **options}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _metavar(match: re.Match[str]) -> str:
    """Shorten what stands behind an option: the type says little, and a long list of choices too much."""
    choices = match[1]
    if "|" in choices:
        return f" {choices}" if len(choices) <= LONGEST_METAVAR else " NAME"
    named = re.search("int|float|str", choices)
    return {"int": " N", "float": " X", "str": " TEXT"}[named[0]] if named else ""

"""What commands print when they are done."""

from __future__ import annotations

import sys
from typing import Any

from raregram.errors import printable


def say(text: str) -> None:
    """Print a line for people, on standard error; nothing in it can command the terminal or end the line."""
    print(printable(text), file=sys.stderr, flush=True)


def report(path: str, as_json: bool, quiet: bool, more: dict[str, Any] | None = None) -> None:
    """Say what was written."""
    from raregram.atomic import is_stream
    from raregram.show.describe import describe, summary

    if is_stream(path):
        return
    if as_json:
        print_facts({**describe(path), **(more or {})}, as_json)
    elif not quiet:
        say(f"{path}: {summary(path)}")


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts for people or for programs."""
    from raregram.show.describe import as_text

    if as_json:
        print_json(facts)
    else:
        print(as_text(facts))


def print_json(value: Any) -> None:
    """Print JSON on one line; where the terminal's encoding lacks a character, as an escape of JSON."""
    from raregram.show.write import to_json

    print(to_json(value, sys.stdout.encoding))

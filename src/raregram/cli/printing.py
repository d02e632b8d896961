"""What commands print: lines on standard error, JSON, and what became of a file or of documents."""

from __future__ import annotations

import sys
from typing import Any

from raregram.errors import printable


def say(text: str) -> None:
    """Print a line on standard error; control characters in it are escaped."""
    print(printable(text), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print JSON on one line; characters that the terminal's encoding lacks are escaped."""
    from raregram.show.write import to_json

    print(to_json(value, sys.stdout.encoding))


def report_file(
    path: str, as_json: bool, quiet: bool, more: dict[str, Any] | None = None, hint: str | None = None
) -> None:
    """Describe a count file or a model file that was just written; see `summary` for the hint."""
    from raregram.files import is_stream
    from raregram.show.describe import describe, summary

    if is_stream(path):  # which cannot be read back
        return
    if as_json:
        print_json({**describe(path), **(more or {})})
    elif not quiet:
        say(f"{path}: {summary(path, hint)}")


def report_skipped(skipped: int, examples: list[str]) -> None:
    """Print how many documents were skipped, and the reasons for some of them."""
    for example in examples:
        say(f"raregram: skipped: {example}")
    if skipped:
        say(f"raregram: {skipped:,} documents skipped")

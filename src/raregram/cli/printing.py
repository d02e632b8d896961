"""What commands print when they are done."""

from __future__ import annotations

import sys
from typing import Any


def report(path: str, as_json: bool, quiet: bool, more: dict[str, Any] | None = None) -> None:
    """Say what was written."""
    from raregram.describing import describe, summary

    if as_json:
        print_facts({**describe(path), **(more or {})}, as_json)
    elif not quiet:
        print(f"{path}: {summary(path)}", file=sys.stderr)


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts for people or for programs."""
    from raregram.describing import as_text
    from raregram.writing import to_json

    print(to_json(facts) if as_json else as_text(facts))

"""What makes commands start fast, keeps them small and lets them write the same everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def memory_left(limit: int) -> int:
    """Return how much of a limit of this process is left, beside the memory that it has already."""
    from raregram.counts.engine import resident_bytes

    return max(limit - resident_bytes(), limit // 4)


def output_encoding(platform: str, environment: Mapping[str, str]) -> str | None:
    """Return the encoding of standard output: UTF-8 on Windows too, unless Python was given one; None: as it is."""
    return "utf-8" if platform == "win32" and "PYTHONIOENCODING" not in environment else None


class _Refusal(Loader):
    """Finds a library and refuses to load it."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == self.library else None

    def exec_module(self, module: ModuleType) -> None:
        raise ModuleNotFoundError(f"no command needs {module.__name__}", name=module.__name__)


@contextmanager
def hidden(library: str) -> Iterator[None]:
    """Let no other library import this one, as if it were not installed."""
    finder = _Refusal(library)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def set_up_arrow() -> None:
    """Keep Arrow from importing pandas, which takes as long as all the rest, and from keeping memory it has freed.

    Arrow imports pandas, where it is installed, to see whether a list is a DataFrame; it asks only once.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    with hidden("pandas"):
        pa.array([0])

"""What makes commands start fast and keeps them small."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def memory_left(limit: int) -> int:
    """Return how much of a limit of this process is left, beside the memory that it has already."""
    from raregram.counts.engine import resident_bytes

    return max(limit - resident_bytes(), limit // 4)


@contextmanager
def hidden(library: str) -> Iterator[None]:
    """Let a library that is not imported yet seem not to be installed, so that no other one imports it."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment] # so `import` and `find_spec` find nothing
    try:
        yield
    finally:
        del sys.modules[library]


def set_up_arrow() -> None:
    """Keep Arrow from importing pandas, which takes as long as all the rest, and from keeping memory it has freed.

    Arrow imports pandas, where it is installed, to see whether a list is a DataFrame; it asks only once.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    with hidden("pandas"):
        pa.array([0])

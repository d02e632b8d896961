"""What makes commands start fast and keeps them small."""

from __future__ import annotations

import sys
from typing import Any


def memory_left(limit: int) -> int:
    """Return how much of a limit of this process is left, beside the memory that it has already."""
    from raregram.counts.engine import resident_bytes

    return max(limit - resident_bytes(), limit // 4)


class _NoPandas:
    """An import finder by which pandas is not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("no command needs pandas", name=name)


def set_up_arrow() -> None:
    """Keep Arrow from importing pandas, which takes as long as all the rest, and from keeping memory it has freed.

    Arrow imports pandas, where it is installed, to see whether a list is a DataFrame; it asks only once.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    finder: Any = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)

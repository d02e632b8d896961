"""How a service was started, and how that reaches its other processes."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "RAREGRAM_SERVE"  # environment variable by which worker processes are told


@dataclass(frozen=True)
class ServeOptions:
    """Everything that can be set."""

    models: tuple[str, ...]  # paths
    token: str | None = None  # who asks must know it
    max_bytes: int = 8_000_000  # of a request
    seconds: float = 30.0  # that a request may take, sending it and answering it each
    hosts: tuple[str, ...] = ()  # names by which the service may be called, beside localhost and numbers
    poll: float = 1.0  # seconds between looks at the model files
    workers: int = 1  # processes
    metrics: str | None = None  # a file that the processes share

    def to_environment(self) -> None:
        """Leave the options where `from_environment` of a process started from here finds them."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServeOptions:
        """Read what `to_environment` left."""
        given: dict[str, Any] = json.loads(os.environ[VARIABLE])
        return cls(**{**given, "models": tuple(given["models"]), "hosts": tuple(given["hosts"])})

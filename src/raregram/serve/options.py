"""The options of a service, which reach its worker processes by an environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "RAREGRAM_SERVE"


@dataclass(frozen=True)
class ServeOptions:
    """The options of a service."""

    models: tuple[str, ...]  # paths
    token: str | None = None  # bearer token that requests must bring
    max_bytes: int = 8_000_000  # of a request
    timeout: float = 30.0  # seconds until a response begins
    max_waiting: int = 64  # requests that wait for a thread
    hosts: tuple[str, ...] = ()  # names by which the service may be called, beside localhost and IP addresses
    poll: float = 1.0  # seconds between looks at the model files
    workers: int = 1  # processes

    def to_environment(self) -> None:
        """Pass the options on to processes started from here."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServeOptions:
        """Return the options that `to_environment` passed on."""
        given: dict[str, Any] = json.loads(os.environ[VARIABLE])
        return cls(**{**given, "models": tuple(given["models"]), "hosts": tuple(given["hosts"])})

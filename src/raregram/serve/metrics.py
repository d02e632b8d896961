"""Metrics for Prometheus; several processes share theirs in the folder of PROMETHEUS_MULTIPROC_DIR."""

from __future__ import annotations

import os
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)  # seconds
FAILURES = "Changed model files that could not be read."


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        requests = Counter("raregram_requests", "Requests.", ["route", "status"], registry=own)
        seconds = Histogram(
            "raregram_request_seconds", "Duration of requests.", ["route"], buckets=BUCKETS, registry=own
        )
        self.models = Gauge("raregram_models", "Models served.", registry=own, multiprocess_mode="max")
        self.reloads = Counter("raregram_model_reloads", "Changed model files read again.", registry=own)
        self.reload_failures = Counter("raregram_model_reload_failures", FAILURES, registry=own)
        # Cached, since looking up a label takes longer than counting, and there are few.
        self._requests, self._seconds = cache(requests.labels), cache(seconds.labels)

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests(route, status).inc()
        self._seconds(route).observe(seconds)

    def exposition(self) -> bytes:
        """Return the metrics of all processes in the text format of Prometheus."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

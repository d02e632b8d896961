"""Metrics for Prometheus; several worker processes share theirs in the folder of PROMETHEUS_MULTIPROC_DIR."""

from __future__ import annotations

import os
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it when it is imported
API = ("score", "texts", "explain", "changes", "rank", "models")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)  # seconds


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("raregram_requests", "Requests.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "raregram_request_seconds", "Duration of requests.", ["route"], buckets=BUCKETS, registry=registry
        )
        self._of = cache(self._labelled)  # there are few, and looking one up takes longer than counting
        self.models = Gauge("raregram_models", "Models served.", registry=registry, multiprocess_mode="max")
        self.reloads = Counter("raregram_model_reloads", "Changed model files read again.", registry=registry)
        self.reload_failures = Counter(
            "raregram_model_reload_failures", "Changed model files that could not be read.", registry=registry
        )

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        requests, duration = self._of(route_label(path), status)
        requests.inc()
        duration.observe(seconds)

    def _labelled(self, route: str, status: int) -> tuple[Counter, Histogram]:
        return self.requests.labels(route, status), self.seconds.labels(route)

    def exposition(self) -> bytes:
        """Return the metrics of all worker processes in the text format of Prometheus."""
        registry = self.registry
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def route_label(path: str) -> str:
    """Return the label of a path; there are few, whatever paths are requested.

    >>> [route_label(path) for path in ("/api/score", "/api/models/LOC", "/static/main.js", "/api", "/ready")]
    ['score', 'models', 'page', 'other', 'other']
    """
    _, first, *rest = path.split("/", 3) if path.startswith("/") else ("", "")
    if path in ("/", "/docs") or first == "static":
        return "page"
    return rest[0] if first == "api" and rest and rest[0] in API else "other"

"""All paths of the service, with their handlers, schemas and labels in the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from raregram.serve import handlers, schemas
from raregram.serve.registry import Registry

SMALL = 4096  # bytes of a body that is scored faster than another thread starts


@dataclass(frozen=True)
class Route:
    """A path with its handler: a POST if it has a request schema, else a GET."""

    path: str
    handler: Callable[[Registry, Any, handlers.Check], dict[str, Any]]
    request: type[schemas.RequestBody] | None
    response: type[BaseModel]
    inline: int = -1  # bytes of a body up to which the event loop runs the handler itself; others go to a thread


ROUTES = (
    Route("/api/score", handlers.score, schemas.ScoreRequest, schemas.ScoreResponse, inline=SMALL),
    Route("/api/texts", handlers.texts, schemas.TextsRequest, schemas.TextsResponse, inline=SMALL),
    Route("/api/explain", handlers.explain, schemas.ExplainRequest, schemas.ExplainResponse),
    Route("/api/changes", handlers.changes, schemas.ChangesRequest, schemas.ChangesResponse),
    Route("/api/rank", handlers.rank, schemas.RankRequest, schemas.RankResponse),
    Route("/api/models", handlers.models, None, schemas.ModelsResponse, inline=0),
    Route("/api/models/{name:path}", handlers.model, None, schemas.ModelResponse),
    Route("/live", handlers.live, None, schemas.Readiness, inline=0),
    Route("/ready", handlers.ready, None, schemas.Readiness, inline=0),
)
PAGES = {"/": "index.html", "/docs": "docs.html"}  # with their files in static/
PAGE, OTHER = "page", "other"  # labels
LABELS = {route.path.split("/")[2] for route in ROUTES if route.path.startswith("/api/")}


def route_label(path: str) -> str:
    """Return the label of a path in the metrics; there are few, whatever paths are requested.

    >>> [route_label(path) for path in ("/api/score", "/api/models/LOC", "/static/main.js", "/api", "/ready")]
    ['score', 'models', 'page', 'other', 'other']
    """
    if path in PAGES or path.startswith("/static/"):
        return PAGE
    name = path.split("/", 3)[2] if path.startswith("/api/") else OTHER
    return name if name in LABELS else OTHER


def needs_token(path: str) -> bool:
    """Whether requests for a path must send the token of the service, if it has one."""
    return path not in ("/live", "/ready") and route_label(path) != PAGE

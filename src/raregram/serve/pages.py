"""The page and its files, read once when the service starts: a request never opens a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Page:
    """A file of the page."""

    content: bytes
    kind: str
    tag: str  # changes with the content


def add_pages(app: FastAPI) -> None:
    """Add the explorer page, the page of the interface and their files."""
    pages = load_pages()

    @app.get("/", include_in_schema=False)
    async def explorer(request: Request) -> Response:
        return _sent(pages["index.html"], request)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return _sent(pages["docs.html"], request)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in pages:
            raise HTTPException(404)
        return _sent(pages[name], request)


def load_pages() -> dict[str, Page]:
    """Return all files of the page by their names."""
    found = {}
    for file in (files("raregram.serve") / "static").iterdir():
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = Page(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


def _sent(page: Page, request: Request) -> Response:
    headers = {"ETag": page.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == page.tag:
        return Response(status_code=304, headers=headers)
    return Response(page.content, media_type=page.kind, headers=headers)

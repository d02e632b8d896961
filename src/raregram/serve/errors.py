"""Error responses, all of the form `{"error": {"code", "message"}}`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from raregram.errors import RaregramError

DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The content type is not JSON.",
    422: "The request is invalid; the message says why.",
    503: "The response takes too long, or too many requests are waiting.",
}


class RequestError(HTTPException):
    """An error response: its status, a code for programs and a message for people."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code


def too_long(seconds: float) -> RequestError:
    """Return the error of a response that takes longer than its timeout."""
    return RequestError(503, "too_long", f"the response takes longer than {seconds:g} s: send less at a time")


def error_response(error: Exception) -> Response:
    """Return the response to an error of the service, of the framework or of the library."""
    headers: Mapping[str, str] | None = None
    if isinstance(error, RequestError):
        status, code, message, headers = error.status_code, error.code, error.detail, error.headers
    elif isinstance(error, HTTPException):  # of the framework, such as an unknown path
        status, message, headers = error.status_code, f"{error.detail}: see /docs for all requests", error.headers
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
    elif isinstance(error, RaregramError):
        status, code, message = 422, "wrong_input", str(error)
    else:
        status, code, message = 500, "failed", "internal error of the service"
    body = orjson.dumps({"error": {"code": code, "message": message}})
    return Response(body, status, dict(headers or {}), "application/json")


async def handle_error(_: Request, error: Exception) -> Response:
    """Respond to an error, as FastAPI's exception handler."""
    return error_response(error)

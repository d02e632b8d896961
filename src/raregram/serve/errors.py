"""Error responses, all of the form `{"error": {"code", "message"}}`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_type_hints

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from raregram.errors import RaregramError
from raregram.serve.schemas import ErrorResponse

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

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code


def too_long(seconds: float) -> RequestError:
    """Return the error of a response that takes longer than its timeout."""
    return RequestError(503, "too_long", f"the response takes longer than {seconds:g} s: send less at a time")


def error_response(error: Exception) -> Response:
    """Return the response to an error of the service, of the framework or of the library."""
    if isinstance(error, RaregramError):
        error = RequestError(422, "wrong_input", str(error))
    elif not isinstance(error, HTTPException):
        error = RequestError(500, "failed", "internal error of the service")
    elif not isinstance(error, RequestError):  # of the framework, such as an unknown path
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        error = RequestError(error.status_code, code, f"{error.detail}: see /docs for all requests", error.headers)
    content = {"error": {"code": error.code, "message": error.detail}}
    return JSONResponse(content, error.status_code, error.headers)


async def handle_error(request: Request, error: Exception) -> Response:
    """Respond to an error, as FastAPI's exception handler."""
    if isinstance(error, RequestValidationError):
        error = _validation_error(
            error.errors()[0], list(get_type_hints(request.scope["endpoint"])["body"].model_fields)
        )
    return error_response(error)


def _validation_error(first: dict[str, Any], fields: list[str]) -> RequestError:
    """Return the error of an invalid body; its message names the field and quotes nothing of the body."""
    if first["type"] == "json_invalid":
        return RequestError(400, "not_json", f"the body is not valid JSON: {first['ctx']['error']}")
    # Beside fields and indices, pydantic's location names the types that it tried.
    location = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in fields)
    message = first["msg"]
    if first["type"] == "extra_forbidden":
        message = f"there is no such field; there is {', '.join(fields)}"
    return RequestError(422, "wrong_request", f"{location or 'the request'}: {message}")


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return error responses for OpenAPI."""
    return {status: {"model": ErrorResponse, "description": DESCRIPTIONS[status]} for status in statuses}

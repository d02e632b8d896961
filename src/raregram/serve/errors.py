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


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return error responses for OpenAPI."""
    return {status: {"model": ErrorResponse, "description": DESCRIPTIONS[status]} for status in statuses}


class RequestError(HTTPException):
    """An error response: its status, a code for programs and a message for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code


def error_response(error: Exception) -> Response:
    """Return the response to an error of the service, of the framework or of the library."""
    match error:
        case RequestError(code=code):
            status, message = error.status_code, error.detail
        case HTTPException(status_code=status):  # of the framework, such as an unknown path
            code = HTTPStatus(status).phrase.lower().replace(" ", "_")
            message = f"{error.detail}: see /docs for all requests"
        case RaregramError():
            status, code, message = 422, "wrong_input", str(error)
        case _:
            status, code, message = 500, "failed", "internal error of the service"
    content = {"error": {"code": code, "message": message}}
    return JSONResponse(content, status, getattr(error, "headers", None))


async def handle_error(request: Request, error: Exception) -> Response:
    """Respond to an error, as FastAPI's exception handler."""
    if isinstance(error, RequestValidationError):
        fields = get_type_hints(request.scope["endpoint"])["body"].model_fields
        error = _invalid_body(error.errors()[0], list(fields))
    return error_response(error)


def _invalid_body(first: dict[str, Any], fields: list[str]) -> RequestError:
    """Return the error of an invalid body; its message names the field and quotes nothing of the body."""
    if first["type"] == "json_invalid":
        return RequestError(400, "not_json", f"the body is not valid JSON: {first['ctx']['error']}")
    # Beside fields and indices, pydantic's location names the types that it tried.
    location = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in fields)
    extra = first["type"] == "extra_forbidden"
    message = f"there is no such field; there is {', '.join(fields)}" if extra else first["msg"]
    return RequestError(422, "wrong_request", f"{location or 'the request'}: {message}")

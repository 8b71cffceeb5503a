"""What a reader sees of an error: one line on a page, or as JSON under /api."""

from __future__ import annotations

import logging

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vkbench.errors import NothingToDo, UnknownName, UsageError, VkbenchError
from vkbench_db.errors import DatabaseUnreachable, SchemaMissing, SchemaOutdated
from vkbench_web.errors import Busy, Forbidden, Unauthorised
from vkbench_web.shell import page

_log = logging.getLogger(__name__)
_UNAVAILABLE = (Busy, DatabaseUnreachable, SchemaMissing, SchemaOutdated)


def install(app: FastAPI) -> None:
    """Answer every error of an application in one way."""
    app.add_exception_handler(VkbenchError, _answer_known_error)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _answer_malformed)
    app.add_exception_handler(Exception, _internal)


def answer(request: Request, status: int, message: str) -> Response:
    """An error as a page, or as JSON under /api."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status)
    return page(request, "error.html", status, message=message, code=status)


def status_of(error: VkbenchError) -> int:
    """The HTTP status that says what kind of error it is."""
    match error:
        case UnknownName() | NothingToDo():
            return 404
        case Unauthorised():
            return 401
        case Forbidden():
            return 403
        case _ if isinstance(error, _UNAVAILABLE):
            return 503
        case UsageError():
            return 400
    return 500


def _answer_known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, VkbenchError)
    return answer(request, status_of(error), str(error))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: f"there is no page {request.url.path}"}
    message = messages.get(error.status_code, str(error.detail))
    return answer(request, error.status_code, message)


def _answer_malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return answer(request, 400, f"{where or 'the request'}: {first['msg'].lower()}")


def _internal(request: Request, error: Exception) -> Response:
    _log.error("error while answering %s", request.url.path, exc_info=error)
    return answer(request, 500, "an internal error; the server's log says more")

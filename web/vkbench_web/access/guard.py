"""What keeps strangers out: every request that may write passes here first, whatever its path.

A request under /api shows its token in a header, which no other site can make a browser send. Any
other one comes from a page: the browser says which site sent it, it must be this one, and the
cookie must hold a valid token. The code behind a path then asks for the scope, and for the word
that is in each of our forms.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vkbench.errors import VkbenchError
from vkbench_web import faults
from vkbench_web.access.visitor import by_bearer, by_cookie

READING = ("GET", "HEAD", "OPTIONS")
SIGN_IN = "/sign-in"  # the one form that needs no token: it brings one
MOST_BYTES = 2**20  # of a body
_SCRIPTS_NEED = "this needs a token: send the header `Authorization: Bearer TOKEN`"
_PEOPLE_NEED = "this needs a token: sign in with one"
_FOREIGN = "this came from a page of another site"


class Guard:
    """Refuses what would write without a token, before any of the body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request that may not write, or pass it on."""
        if scope["type"] == "http" and scope["method"] not in READING:
            refusal = await run_in_threadpool(_refusal, Request(scope))
            if refusal:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def install(app: FastAPI) -> None:
    """Guard the requests of an application."""
    app.add_middleware(Guard)


def _refusal(request: Request) -> Response | None:
    try:
        status, why = _check_request(request)
    except VkbenchError as error:  # no database to ask
        status, why = faults.status_of(error), str(error)
    if not status:
        return None
    answer = faults.answer(request, status, why)
    if status == 401:
        answer.headers["www-authenticate"] = 'Bearer realm="vkbench"'
    return answer


def _check_request(request: Request) -> tuple[int, str]:
    """The status to refuse with and why; 0 for what may go on."""
    if request.headers.get("transfer-encoding"):
        return 411, "send the length of the body"
    if not _is_small(request.headers.get("content-length", "0")):
        return 413, f"the body is larger than {MOST_BYTES} bytes"
    if request.url.path.startswith("/api/"):
        return (0, "") if by_bearer(request) else (401, _SCRIPTS_NEED)
    if not _is_ours(request):
        return 403, _FOREIGN
    if request.url.path == SIGN_IN or by_cookie(request):
        return 0, ""
    return 401, _PEOPLE_NEED


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdecimal() and int(length[:20]) <= MOST_BYTES


def _is_ours(request: Request) -> bool:
    """Whether the browser says that a page of this site sent the request; silence means no."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if "host" not in request.headers:
        return False
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return _place(origin) == request.headers.get("host")
    return site is not None


def _place(origin: str) -> str | None:
    """Host and port; the scheme is left out, which a proxy in front may have changed."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None

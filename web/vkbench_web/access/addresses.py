"""Refuses addresses with a null character, which no stored name can have."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from vkbench_web.faults import answer

NULL = "the address holds a null character"


class Addresses:
    """Refuses an address with a null character."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request with NUL in its address, or pass it on."""
        if scope["type"] == "http" and _has_null(scope):
            await answer(Request(scope), 400, NULL)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def install(app: FastAPI) -> None:
    """Refuse them for every page of an application."""
    app.add_middleware(Addresses)


def _has_null(scope: Scope) -> bool:
    return (
        "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]
    )

"""The addresses under which the pages answer: the names of hosts, and none with a null character.

Pages at this machine's own address are for this machine. A page of another site can have its own
name point here, and a browser would then let it read them: so the name must be one of ours.
No stored name has a null character.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from vkbench_web.faults import answer

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OTHER = "these pages do not know this name: `vkbench web --name` tells them another one"
NULL = "the address holds a null character"


class Addresses:
    """Refuses addresses of other hosts, and those with a null character."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request by its address, or pass it on."""
        if scope["type"] == "http" and _has_null(scope):
            await answer(Request(scope), 400, NULL)(scope, receive, send)
        elif scope["type"] == "http" and self._names and _name(Request(scope)) not in self._names:
            await answer(Request(scope), 421, OTHER)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def install(app: FastAPI, names: Collection[str]) -> None:
    """Answer only requests for these names; for any name if there are none."""
    app.add_middleware(Addresses, names=names)


def _has_null(scope: Scope) -> bool:
    return (
        "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]
    )


def _name(request: Request) -> str | None:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None

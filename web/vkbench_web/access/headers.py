"""What every answer carries: nothing may load from, frame or send to another place."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
RETRY_SECONDS = 5  # after which what is unavailable may be there again
STATIC_SECONDS = 31_536_000  # its URL changes with the file


class Headers:
    """Adds the headers to each answer, and says how long a browser may keep it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add headers to the answer of a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = scope["path"].startswith("/static/")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers[name] = value
                kept = f"public, max-age={STATIC_SECONDS}, immutable" if is_static else "no-store"
                headers["cache-control"] = kept
                if message["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                    headers["retry-after"] = str(RETRY_SECONDS)
            await send(message)

        await self._app(scope, receive, sending)


def install(app: FastAPI) -> None:
    """Add them to every answer of an application."""
    app.add_middleware(Headers)

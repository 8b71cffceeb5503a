"""Serves the pages until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from ipaddress import ip_address

import uvicorn

from vkbench.process import log
from vkbench.settings import Settings
from vkbench_web.access.hosts import LOOPBACK
from vkbench_web.app import application
from vkbench_web.lab import Lab


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    names: Collection[str] = (),
    began: Callable[[str], None] = print,
) -> None:
    """Answer requests on an address; calls `began` with the URL once the pages can be opened.

    At an address of this machine alone, they answer to its own names and to `names`.

    OSError if the address cannot be listened at.
    """
    log.set_up(style=settings.log_format)  # what is done by token, and errors
    with _listening(host, port) as listening:
        is_here = ip_address(listening.getsockname()[0]).is_loopback
        known = {*LOOPBACK, *(name.casefold() for name in names)} if is_here else ()
        config = uvicorn.Config(
            application(Lab(settings), known),
            log_level="warning",
            access_log=False,
            server_header=False,
        )
        began(_url(listening))
        try:
            uvicorn.Server(config).run([listening])
        except KeyboardInterrupt:
            return  # it has answered what was asked until then


def _listening(host: str, port: int) -> socket.socket:
    family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.create_server((host, port), family=family, backlog=2048)
    # Connections inherit it. asyncio would set it only where the protocol is named: without it,
    # the body of an answer waits 40 ms for the browser to have acknowledged the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"

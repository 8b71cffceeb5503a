"""Starts the web server, for `vkbench web` and `vkbench demo`."""

from __future__ import annotations

from collections.abc import Callable, Collection

from vkbench.errors import UsageError
from vkbench.settings import Settings
from vkbench_cli.show.telling import say


def pages_at(
    settings: Settings,
    host: str,
    port: int,
    *,
    names: Collection[str] = (),
    began: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve the pages until stopped; calls `began` with their URL once they can be opened.

    `names` are names that the pages answer to besides this machine's own.
    """
    from vkbench_web.serving import serve

    def tell(url: str) -> None:
        say(f"vkbench shows its pages at {url} (Ctrl-C stops it)")
        began(url)

    try:
        serve(settings, host=host, port=port, names=names, began=tell)
    except OSError as error:
        raise UsageError(f"cannot listen at {host}:{port}: {error.strerror}") from error

"""`vkbench web`: the results as pages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated

from typer import Option

from vkbench.errors import UsageError
from vkbench.settings import Settings
from vkbench_cli.options.records import Store
from vkbench_cli.patience import PATIENCE_SECONDS, Wait, patiently
from vkbench_cli.show.telling import say
from vkbench_cli.store import is_unmade, open_database


def web(
    *,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to listen at; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    port: Annotated[
        int, Option(metavar="N", min=0, max=65535, help="Port to listen at; 0 takes a free one.")
    ] = 8900,
    name: Annotated[
        list[str],
        Option(
            metavar="NAME",
            help="Answer to this name too, such as a web server's in front; may be repeated.",
        ),
    ] = [],  # noqa: B006
    wait: Wait = PATIENCE_SECONDS,
    store: Store,
) -> None:
    """Show the results as pages in a browser until stopped.

    Without a database the pages are empty, and fill as soon as `vkbench run` makes one. Everybody
    who reaches the address can read; changes need a token. At 127.0.0.1 the pages answer only to
    the names of this machine and to --name: no other site's page can read them in a browser.
    """
    settings = store.settings()
    if not is_unmade(settings):
        patiently(lambda: open_database(settings).close(), wait)
    pages_at(settings, host, port, names=name)


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

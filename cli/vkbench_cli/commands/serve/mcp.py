"""`vkbench mcp`: the results as tools of an agent."""

from __future__ import annotations

from vkbench_cli.options.records import Store


def mcp(*, store: Store) -> None:
    """Answer an agent's questions by the Model Context Protocol on stdin and stdout.

    Its tools only read: regressions, results, comparisons, and SQL within the bounds of the page
    of queries. An agent's program starts this command and stops it.

    \b
    claude mcp add vkbench -- vkbench mcp
    """
    from vkbench_web.agents.tools import make_server
    from vkbench_web.lab import Lab

    lab = Lab(store.settings())
    try:
        make_server(lab).run("stdio")
    finally:
        lab.close()

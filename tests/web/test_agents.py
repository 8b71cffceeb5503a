"""`vkbench mcp`: a real client asks it on stdin and stdout, as an agent's program does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from databases import one_engine
from planted_runs import CASES, DEVICE
from vkbench_db.database import Database

TOOLS = {"list_regressions", "show_regression", "list_results", "compare", "query", "views"}
Question = tuple[str, Mapping[str, Any]]


async def ask_all(database: Path, questions: list[Question]) -> tuple[set[str], list[Any]]:
    """The tools of a server on a database, and its answers: text of errors, else JSON."""
    words = ["mcp", "--database", str(database)]
    program = StdioServerParameters(
        command=str(Path(sys.prefix, "bin", "vkbench")), args=words, env=dict(os.environ)
    )
    answers: list[Any] = []
    async with Client(program, read_timeout_seconds=100) as client:
        tools = await client.list_tools()
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.tools)
        for name, arguments in questions:
            answer = await client.call_tool(name, dict(arguments))
            [content] = answer.content
            assert isinstance(content, TextContent)
            answers.append(content.text if answer.is_error else json.loads(content.text))
    return {tool.name for tool in tools.tools}, answers


QUESTIONS: list[Question] = [
    ("list_regressions", {"state": ["open"]}),
    ("show_regression", {"number": 1}),
    ("show_regression", {"number": 99}),
    ("list_results", {"kernel": ["mul*"], "limit": 2}),
    ("compare", {"old": "1", "new": "nothing"}),
    ("query", {"sql": "SELECT count(*) AS jobs FROM v_latest"}),
    ("query", {"sql": "DELETE FROM job"}),
    ("query", {"sql": "SELECT 1", "limit": 100_000}),
    ("views", {}),
]


@one_engine
def test_an_agent_asks_and_cannot_write(
    filled: Database, planted_regression: Callable[..., int], url: str
) -> None:
    planted_regression(DEVICE.key, CASES[1], "0a" * 32, "0b" * 32)
    database = Path(url.removeprefix("sqlite:///"))
    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have this thread's loop
        tools, answers = pool.submit(lambda: asyncio.run(ask_all(database, QUESTIONS))).result()
    opened, story, missing, results, unknown, counted, deleted, large, views = answers
    assert tools == TOOLS
    assert [row["id"] for row in opened["rows"]] == [1]
    assert story["rows"][0]["changes"]
    assert "99" in missing
    assert len(results["rows"]) == 2
    assert "nothing" in unknown
    assert counted["rows"][0]["jobs"] > 0
    assert "rows" not in deleted
    assert "less than or equal to 500" in large
    assert "seconds" in views["views"]["v_latest"]

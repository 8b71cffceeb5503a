"""Where the pages of programs and builds are, which many pages link to."""

from __future__ import annotations

from urllib.parse import quote

from vkbench.programs.build import SHA_SHOWN


def program_url(program: str) -> str:
    """The page of a program."""
    return f"/programs/{quote(program, safe='')}"


def build_url(sha: str) -> str:
    """The page of a build."""
    return f"/builds/{sha[:SHA_SHOWN]}"

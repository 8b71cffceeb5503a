"""Starts Python so that it imports nothing from the current folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

_SAFE_PATH = "PYTHONSAFEPATH"


def python(*words: str) -> list[str]:
    """The command that runs Python with these words.

    -P: without it Python looks for the modules of `-m` and `-c` in the current folder first.
    """
    return [sys.executable, "-P", *words]


@contextmanager
def safe_path(variables: MutableMapping[str, str]) -> Iterator[None]:
    """Have Python do the same in processes that get these variables, and that others start."""
    before = variables.get(_SAFE_PATH)
    variables[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del variables[_SAFE_PATH]
        else:
            variables[_SAFE_PATH] = before

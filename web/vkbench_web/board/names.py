"""Names of a board's files: of letters and digits alone, whatever an export calls its cases."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final

_OTHER: Final = re.compile(r"[^a-z0-9]+")
_MOST: Final = 60  # characters of a name that people read in an address
_DIGITS: Final = 8  # of the hash that tells alike names apart


@lru_cache(maxsize=20_000)
def file_name(name: str) -> str:
    """A name as part of an address: always the same for a name, and another for any other."""
    words = _OTHER.sub("-", name.lower())[:_MOST].strip("-")
    return f"{words}-{sha256(name.encode()).hexdigest()[:_DIGITS]}".lstrip("-")


def case_path(device: str, case: str) -> str:
    """Where the page of a class and a case lies, without its ending."""
    kernel = case.partition("/")[0]
    return f"{file_name(device)}/{file_name(kernel)}/{file_name(case)}"


def list_path(path: str, number: int) -> str:
    """The address of the n-th page of a list: the first has no number."""
    return f"{path}.html" if number == 1 else f"{path}-{number}.html"

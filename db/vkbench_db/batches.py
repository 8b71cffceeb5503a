"""Batches: many items, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

BATCH = 2000  # rows of a statement; well under SQLite's 32,766 parameters with one key a row


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """Split items into lists of at most `size`."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch

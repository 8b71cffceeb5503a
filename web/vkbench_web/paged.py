"""A table of which the database gives one page: its URL asks for the same as that of a listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from vkbench_web.listing import PAGE_ROWS, Listing, Row, ShownColumn


@dataclass(frozen=True, kw_only=True)
class Paged(Listing):
    """A table whose rows are those of one page, or all for a download."""

    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)  # values to filter by

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of this page."""
        return self.table.rows

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, ceil(self.total / PAGE_ROWS))

    @property
    def columns(self) -> list[ShownColumn]:
        """What the page shows, with the choices that the database offers."""
        return [
            replace(column, choices=self.offered.get(column.key, ())) for column in super().columns
        ]

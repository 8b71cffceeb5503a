"""What models lose, beside their size and speed: a row for each, against the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench.accuracy import Accuracy

COLUMNS = (
    Column(key="model", heading="model", rank=Rank.KEY),
    Column(key="type", heading="quantised to", rank=Rank.KEY),
    Column(key="bytes", heading="weights", kind=ValueKind.BYTES),
    Column(key="bits", heading="bits", kind=ValueKind.NUMBER),
    Column(key="tokens_per_second", heading="tokens/s", kind=ValueKind.NUMBER),
    Column(key="perplexity", heading="perplexity", kind=ValueKind.NUMBER, rank=Rank.KEY),
    Column(key="perplexity_error", heading="±", kind=ValueKind.NUMBER, joined=True),
    Column(key="loss", heading="loss", kind=ValueKind.PERCENT, rank=Rank.KEY),
    Column(key="loss_error", heading="±", kind=ValueKind.PERCENT, joined=True),
    Column(key="tokens", heading="tokens", kind=ValueKind.COUNT, lifted=True),
    Column(key="context", heading="context", kind=ValueKind.COUNT, lifted=True),
    Column(key="variant", heading="variant", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
)


def perplexity_row(file: str, type: str, found: Accuracy) -> dict[str, Cell]:
    """How well the model of a file, by its name, foresaw a text.

    A type is what the file was quantised to for that; "" if it was read as it is.
    """
    told = {column.key: getattr(found, column.key, None) for column in COLUMNS}
    return told | {"model": file, "type": type or None}

"""What formats and models lost by earlier runs: a row for each loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.accuracies import AccuracyRow

COLUMNS = (
    Column(key="subject", heading="subject", hidden=True),
    Column(key="model", heading="model", rank=Rank.KEY),
    Column(key="weights", heading="weights", rank=Rank.KEY),
    Column(key="format", heading="format", rank=Rank.KEY),
    Column(key="bits", heading="bits", kind=ValueKind.NUMBER),
    Column(key="bytes", heading="bytes", kind=ValueKind.BYTES, rank=Rank.MINOR),
    Column(key="quantiser", heading="quantised by", rank=Rank.MINOR),
    Column(key="output_error", heading="output error", kind=ValueKind.NUMBER, rank=Rank.KEY),
    Column(key="weight_error", heading="weight error", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="perplexity", heading="perplexity", kind=ValueKind.NUMBER),
    Column(key="perplexity_error", heading="±", kind=ValueKind.NUMBER, joined=True),
    Column(key="loss", heading="loss", kind=ValueKind.PERCENT, rank=Rank.KEY),
    Column(key="loss_error", heading="±", kind=ValueKind.PERCENT, joined=True),
    Column(key="base", heading="against", rank=Rank.MINOR),
    Column(key="base_format", heading="in", joined=True, rank=Rank.MINOR),
    Column(key="text_sha", heading="text", hidden=True),
    Column(key="context", heading="context", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="windows", heading="windows", kind=ValueKind.COUNT, hidden=True),
    Column(key="tokens", heading="tokens", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="cache", heading="cache", hidden=True),
    Column(key="variant", heading="variant", hidden=True),
    Column(key="tokens_per_second", heading="tokens/s", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", rank=Rank.MINOR),
    Column(key="run", heading="run", kind=ValueKind.ID),
    Column(key="run_uuid", heading="run UUID", hidden=True),
    Column(key="run_label", heading="label", hidden=True),
    Column(key="measured_at", heading="measured", kind=ValueKind.TIME),
)


def kept_row(row: AccuracyRow) -> dict[str, Cell]:
    """A loss; what its subject does not have is left empty."""
    told = {column.key: getattr(row, column.key) for column in COLUMNS}
    return {key: None if _is_none(value) else value for key, value in told.items()}


def _is_none(value: Cell) -> bool:
    """Whether a value says that its subject has none; an error of 0.0 is one that was found."""
    return value == "" or (isinstance(value, int) and value == 0)

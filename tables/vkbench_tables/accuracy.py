"""What formats lose, beside their size: a row for each kind of weights and each format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_shaders.quantisers.losses import Loss

COLUMNS = (
    Column(key="kind", heading="weights", rank=Rank.KEY),
    Column(key="format", heading="format", rank=Rank.KEY),
    Column(key="bits", heading="bits", kind=ValueKind.NUMBER),
    Column(key="ratio", heading="times smaller", kind=ValueKind.NUMBER),
    Column(key="output_error", heading="output error", kind=ValueKind.NUMBER, rank=Rank.KEY),
    Column(key="weight_error", heading="weight error", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="quantiser", heading="quantised by", rank=Rank.MINOR),
    Column(key="trouble", heading="trouble", prose=True),
)


def loss_row(loss: Loss) -> dict[str, Cell]:
    """What a format loses of one kind of weights."""
    return {
        "kind": loss.kind,
        "format": loss.format.name,
        "bits": loss.format.bits,
        "ratio": loss.format.ratio,
        "output_error": loss.output_error,
        "weight_error": loss.weight_error,
        "quantiser": loss.quantiser,
        "trouble": loss.trouble,
    }

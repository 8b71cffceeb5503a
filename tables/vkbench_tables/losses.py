"""What formats and models lose, beside their size: of products, of texts, and by earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench.accuracy import Accuracy
    from vkbench_db.ask.accuracies import AccuracyRow
    from vkbench_shaders.quantisers.losses import Loss

PRODUCT_COLUMNS = (
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


MODEL_COLUMNS = (
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


def perplexity_row(file: str, type: str, accuracy: Accuracy) -> dict[str, Cell]:
    """How well the model of a file, by its name, foresaw a text.

    A type is what the file was quantised to for that; "" if it was read as it is.
    """
    cells = {column.key: getattr(accuracy, column.key, None) for column in MODEL_COLUMNS}
    return cells | {"model": file, "type": type or None}


KEPT_COLUMNS = (
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
    cells = {column.key: getattr(row, column.key) for column in KEPT_COLUMNS}
    return {key: None if _is_none(value) else value for key, value in cells.items()}


def _is_none(value: Cell) -> bool:
    """Whether a value says that its subject has none; an error of 0.0 is one that was found."""
    return value == "" or (isinstance(value, int) and value == 0)

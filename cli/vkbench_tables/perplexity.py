"""What models lose, beside their size and speed: a row for each, against the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_shaders.gguf_file import GgufFile
    from vkbench_shaders.models.perplexity import Foreseen

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


def perplexity_row(
    file: GgufFile, type: str, context: int, found: Foreseen, base: Foreseen
) -> dict[str, Cell]:
    """How well a file's model foresaw a text; `base` is the first one, itself without a loss.

    A type is what the file was quantised to for that; "" if it was read as it is.
    """
    from vkbench_shaders.models.perplexity import perplexity, ratio

    own, risen = perplexity(found.losses), ratio(found.losses, base.losses)
    is_base = found is base
    size = sum(tensor.bytes for tensor in file.tensors.values())
    return {
        "model": file.path.name,
        "type": type or None,
        "bytes": size,
        "bits": 8 * size / sum(tensor.count for tensor in file.tensors.values()),
        "tokens_per_second": found.tokens_per_second,
        "perplexity": own.value,
        "perplexity_error": own.error,
        "loss": None if is_base else risen.value - 1,
        "loss_error": None if is_base else risen.error,
        "tokens": len(found.losses),
        "context": context,
        "variant": found.variant,
        "device_name": found.device,
    }

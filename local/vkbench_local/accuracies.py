"""What formats and models lost on this machine, as a database keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkbench.accuracy import Accuracy, Subject
from vkbench.job import Mode
from vkbench.process.user import user_name
from vkbench.run import Purpose, RunKind, RunWords
from vkbench.settings import settings
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.runs import add_accuracies
from vkbench_local.compute import Text
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.models.perplexity import Foreseen, perplexity, ratio
from vkbench_shaders.models.requantised import main_format
from vkbench_shaders.quantisers.losses import Loss


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A model that reads a text: a file's, quantised to a type unless that is ""."""

    model: str  # name and hash of the file as it is
    file: GgufFile
    type: str
    text: Text

    @property
    def format(self) -> str:
        """What it was quantised to, or the format of most of the file's weights."""
        return self.type or main_format(self.file)


def of_products(loss: Loss, model: str, now: float) -> Accuracy:
    """What a format lost of a kind of weights, of a model's file or seeded ones."""
    return Accuracy(
        subject=Subject.PRODUCTS,
        model=model,
        weights=loss.kind,
        format=loss.format.name,
        bits=loss.format.bits,
        quantiser=loss.quantiser,
        output_error=loss.output_error,
        weight_error=loss.weight_error,
        host=settings().host,
        measured_at=now,
    )


def of_model(
    reader: Reader, foreseen: Foreseen, base: Reader, base_foreseen: Foreseen, now: float
) -> Accuracy:
    """How well a model foresaw a text; `base` is the first one, itself without a loss."""
    own, risen = perplexity(foreseen.losses), ratio(foreseen.losses, base_foreseen.losses)
    is_base = reader is base
    size = sum(tensor.bytes for tensor in reader.file.tensors.values())
    windows = reader.text.windows
    return Accuracy(
        subject=Subject.MODEL,
        model=reader.model,
        format=reader.format,
        bits=8 * size / sum(tensor.count for tensor in reader.file.tensors.values()),
        bytes=size,
        quantiser="vkbench" if reader.type else "",
        perplexity=own.value,
        perplexity_error=own.error,
        base="" if is_base else base.model,
        base_format="" if is_base else base.format,
        loss=None if is_base else risen.value - 1,
        loss_error=None if is_base else risen.error,
        text_sha=hashlib.sha256(windows.astype("<i8").tobytes()).hexdigest(),
        context=windows.shape[1],
        windows=len(windows),
        tokens=len(foreseen.losses),
        cache=reader.text.cache,
        variant=foreseen.variant,
        tokens_per_second=foreseen.tokens_per_second,
        host=settings().host,
        device_name=foreseen.device,
        measured_at=now,
    )


def keep(
    database: Database,
    accuracies: Sequence[Accuracy],
    selection: Mapping[str, object],
    label: str,
    now: float,
) -> int:
    """Store what was lost as a run; its number."""
    with database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.ACCURACY,
            selection=selection,
            now=now,
            track="",
            words=RunWords(user=user_name(), label=label, purpose=Purpose(kind=RunKind.ACCURACY)),
        )
        add_accuracies(tx, run.id, dict(enumerate(accuracies)))
    return run.id

"""How well a model on a device foresees the tokens of a window, and how long reading it takes."""

from __future__ import annotations

import numpy as np

from vkbench.errors import VkbenchError
from vkbench_shaders.models.cases import parts_of
from vkbench_shaders.models.graph import LOGITS
from vkbench_shaders.models.perplexity import Losses, losses
from vkbench_worker.models.model import Ids, Model


class NotFinite(VkbenchError):
    """Logits are NaN or Inf."""


def foreseen(model: Model, window: Ids) -> tuple[Losses, float]:
    """The losses of the window's second half, and the device's seconds for all of it.

    The first half is read into the caches; only of the second one all logits are made.
    """
    half, seconds, parts = len(window) // 2, 0.0, []
    for start, end in ((0, half), (half, len(window))):
        for at, until in ((start + at, start + until) for at, until in parts_of(end - start)):
            run = model.prepare_reading(until - at, until, wanted=0 if start else 1)
            run.place(window[None, at:until], at)
            seconds += sum(run.recording.run())
            if start:
                after = window[at + 1 : until + 1]  # of the last token nobody knows what follows
                logits = run.read(LOGITS).reshape(until - at, -1)[: len(after)]
                if not np.isfinite(logits).all():
                    raise NotFinite(f"logits of positions {at} to {until - 1} are NaN or Inf")
                parts.append(losses(logits, after))
    return np.concatenate(parts), seconds

"""Peers: other programs that a case can be compared with, and what each side of that includes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A program that workers time in turns with our kernels."""

    name: str
    description: str
    includes: str  # what its time holds beside the operation, and what it does not
    models: bool = False  # whether it runs whole models too


OURS_INCLUDES: Final = (
    "Ours: launches back to back on the case's arrays, with the barrier behind each, by the "
    "device's timestamps; no upload, no submission by the host."
)

PEERS: Final = (
    Peer(
        name="numpy",
        description="numpy and its BLAS, on the same processors",
        includes=(
            "numpy: calls back to back on the same arrays, by the host's clock, with what Python "
            "takes for a call; weights that it has no format or no BLAS for are converted to f32 "
            "before."
        ),
    ),
    Peer(
        name="torch",
        description="PyTorch on the same GPU by CUDA, or on the same processors",
        includes=(
            "torch: calls back to back on the same arrays; on a GPU as a CUDA graph, by CUDA's "
            "events, on a processor by the host's clock, with what Python takes for a call. "
            "Quantised weights are converted before, to f16 on a GPU and f32 on a processor; "
            "inputs and results of other formats are converted in each call. No TF32."
        ),
    ),
    Peer(
        name="ggml",
        description="llama.cpp's Vulkan backend on the same device",
        models=True,
        includes=(
            "ggml: the operation back to back on the same arrays, a graph of many launches at a "
            "time, by the host's clock, with what the backend does for each: where its products "
            "convert x, to q8_1 or f16, every launch does. Whole models by llama-bench, by the "
            "host's clock with its work between steps, once half a second of repetitions has "
            "brought the GPU's clock up; of a generation the mean of tokens of which ours is the "
            "middle. They are not judged."
        ),
    ),
)
BY_NAME: Final[Mapping[str, Peer]] = {peer.name: peer for peer in PEERS}


def list_what_is_included(peers: Iterable[str]) -> list[str]:
    """What each side's time includes, ours first; nothing is known of other versions' peers."""
    return [OURS_INCLUDES, *(BY_NAME[name].includes for name in sorted(peers) if name in BY_NAME)]

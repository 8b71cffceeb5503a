"""The peer `torch`: its functions on the same GPU by CUDA, or on this host's processors.

On a GPU the launches of a segment are captured as a CUDA graph, so that the host's time between
them is no part of it, as with recorded commands; CUDA's events stamp its beginning and end.
Products of singles are made in singles (no TF32), and those of halves are summed in singles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Layout
from vkbench_shaders.quantisers import quants
from vkbench_worker.peers.library import Call, CannotDo, Row
from vkbench_worker.peers.numpy_library import wall_seconds
from vkbench_worker.peers.table import ROWS
from vkbench_worker.peers.torch_functions import functions
from vkbench_worker.runtime.errors import OutOfMemory

Tensor = Any  # torch is an extra, and loaded only by the process that runs it

_TYPES: Final = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
}
_EVENT_SECONDS: Final = 0.5e-6  # resolution of CUDA's events


def torch_for(facts: DeviceFacts) -> TorchLibrary:
    """torch on the device that a Vulkan driver describes; CannotDo says why it is not there."""
    try:
        import torch
    except ImportError as error:
        raise CannotDo("torch is not installed here: pip install 'vkbench[peers]'") from error
    if facts.type == "cpu":
        return TorchLibrary("cpu")
    for index in range(torch.cuda.device_count()):
        uuid = str(torch.cuda.get_device_properties(index).uuid)
        if uuid.replace("-", "") == facts.uuid.replace("-", ""):
            require_cudnn(torch)
            return TorchLibrary(f"cuda:{index}")
    raise CannotDo(f"torch does not see {facts.name} on this host")


def require_cudnn(torch: Any) -> None:
    """CannotDo where torch cannot load its cuDNN: it would go on with slower kernels, silently.

    With a path in LD_LIBRARY_PATH that held another cuDNN, attention took torch 867 us on an H100,
    and 530 us without it.
    """
    try:
        torch.backends.cudnn.version()
    except RuntimeError as error:
        why = str(error).split(". ")[0].rstrip(".")
        raise CannotDo(
            f"torch is not timed without its cuDNN, which another one hides: {why}"
        ) from error


class TorchLibrary:
    """torch on one device."""

    name: str = "torch"
    repeats: bool = False  # cuDNN's attention of few queries gave other bits, now and then

    def __init__(self, place: str) -> None:
        import torch

        self._torch: Any = torch
        self._place = place
        self._gpu = place.startswith("cuda")
        self.clock = "gpu" if self._gpu else "host"
        self.tick_seconds = _EVENT_SECONDS if self._gpu else 1e-9
        self.working = "f16" if self._gpu else "f32"
        self.widens = not self._gpu
        self.version = str(torch.__version__)
        self.rows: Mapping[str, Row] = ROWS
        self.lacks: Mapping[str, str] = {}
        self.functions: Mapping[str, Callable[..., object]] = functions(torch)
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        if self._gpu:
            torch.cuda.set_device(place)

    def takes(self, function: str, fmt: str) -> bool:
        """Whether torch has a format as a type."""
        return fmt in _TYPES

    def memory(self, nbytes: int) -> Tensor:
        """Allocate memory on the device."""
        try:
            return self._torch.zeros(nbytes, dtype=self._torch.uint8, device=self._place)
        except self._torch.OutOfMemoryError as error:
            raise OutOfMemory("torch has not enough memory for this case") from error

    def write(self, memory: Tensor, offset: int, data: np.ndarray) -> None:
        """Copy the host's bytes there."""
        given = self._torch.from_numpy(data.reshape(-1).view(np.uint8).copy())
        memory[offset : offset + data.nbytes].copy_(given)

    def read(self, memory: Tensor, start: int, end: int) -> np.ndarray:
        """A copy of bytes of the memory for the host."""
        return np.array(memory[start:end].cpu().numpy())

    def fill(self, memory: Tensor, word: int) -> None:
        """Overwrite memory with a word."""
        memory.view(self._torch.int32).fill_(int(np.uint32(word).view(np.int32)))

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Overwrite memory with other memory."""
        target.copy_(source)

    def view(self, memory: Tensor, offset: int, fmt: Format, layout: Layout) -> Tensor:
        """A tensor of a part of memory."""
        if fmt.name not in _TYPES:  # an input that the case does not read, or blocks to convert
            return None
        typed = memory[offset : offset + layout.storage * fmt.dtype.itemsize].view(
            getattr(self._torch, _TYPES[fmt.name])
        )
        return typed.as_strided(
            layout.shape, layout.strides, typed.storage_offset() + layout.offset
        )

    def array(self, values: np.ndarray, fmt: str) -> Tensor:
        """A tensor of its own in a format."""
        stored = np.ascontiguousarray(quants.quantise(fmt, values))
        return self._torch.from_numpy(stored).to(self._place)

    def bind(self, function: str, arguments: tuple[object, ...]) -> Call:
        """A call of a function with its arguments."""
        return partial(self.functions[function], *arguments)

    def time_segments(self, segments: Sequence[Sequence[Call]]) -> Callable[[], list[float]]:
        """Seconds of each segment but the first: by events on a GPU, by the host's clock else."""
        if not self._gpu:
            return partial(wall_seconds, segments)
        return _OnGpu(self._torch, segments)


class _OnGpu:
    """Segments captured as graphs, with events between them."""

    def __init__(self, torch: Any, segments: Sequence[Sequence[Call]]) -> None:
        self._torch = torch
        self._segments = segments
        self._replays: list[Callable[[], object]] = []

    def __call__(self) -> list[float]:
        cuda = self._torch.cuda
        if not self._replays:
            self._replays = self._capture_graphs()
        events = [cuda.Event(enable_timing=True) for _ in self._replays]
        for replay, event in zip(self._replays, events, strict=True):
            replay()
            event.record()
        cuda.synchronize()
        return [before.elapsed_time(after) * 1e-3 for before, after in pairwise(events)]

    def _capture_graphs(self) -> list[Callable[[], object]]:
        """A graph for each segment; those of the same calls share one."""
        graphs: dict[tuple[int, ...], Callable[[], object]] = {(): lambda: None}
        for segment in self._segments:
            key = tuple(map(id, segment))
            if key not in graphs:
                for call in dict.fromkeys(segment):  # libraries set themselves up at first
                    call()
                graphs[key] = self._graph(segment)
        return [graphs[tuple(map(id, segment))] for segment in self._segments]

    def _graph(self, segment: Sequence[Call]) -> Callable[[], object]:
        self._torch.cuda.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            for call in segment:
                call()
        replay: Callable[[], object] = graph.replay
        return replay

"""The peer `numpy`: its functions and its BLAS, on this host's processors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.library import Call, Row
from vkbench_worker.peers.table import ROWS

Memory = NDArray[np.uint8]
Array = NDArray[Any]

_NUMBERS: Final = ("f32", "f16", "f64", "i8", "i16", "i32", "i64", "u8", "u32")
# Done in several steps, or in a plain loop where there is no BLAS: in singles alone.
_IN_SINGLES: Final = ("matmul", "sigmoid", "silu", "softmax", "rms_norm", "layer_norm")


class NumpyLibrary:
    """numpy on the host's processors."""

    name: str = "numpy"
    clock: str = "host"
    tick_seconds: float = 1e-9
    working: str = "f32"
    repeats: bool = True
    widens: bool = True

    def __init__(self) -> None:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        self.version = f"{np.__version__}+{blas.get('name', 'blas')}-{blas.get('version', '')}"
        self.rows: Mapping[str, Row] = ROWS
        self.lacks: Mapping[str, str] = {}
        self.functions: Mapping[str, Callable[..., object]] = FUNCTIONS

    def takes(self, function: str, fmt: str) -> bool:
        """Whether numpy has a format as a type, and does the function in one call."""
        return fmt == "f32" if function in _IN_SINGLES else fmt in _NUMBERS

    def memory(self, nbytes: int) -> Memory:
        """Memory of the host."""
        return np.zeros(nbytes, np.uint8)

    def write(self, memory: Memory, offset: int, data: Array) -> None:
        """Copy the bytes of an array into memory."""
        memory[offset : offset + data.nbytes] = data.reshape(-1).view(np.uint8)

    def read(self, memory: Memory, start: int, end: int) -> Memory:
        """A copy of bytes of the memory."""
        return memory[start:end].copy()

    def fill(self, memory: Memory, word: int) -> None:
        """Overwrite memory with a word."""
        memory.view(np.uint32)[:] = word

    def copy(self, source: Memory, target: Memory) -> None:
        """Overwrite memory with other memory."""
        target[:] = source

    def view(self, memory: Memory, offset: int, fmt: Format, layout: Layout) -> Array:
        """An array of a part of memory."""
        size = layout.storage * fmt.dtype.itemsize
        return layout.view(memory[offset : offset + size].view(fmt.dtype))

    def array(self, values: Array, fmt: str) -> Array:
        """An array of its own in a format."""
        return np.ascontiguousarray(values, format_named(fmt).dtype)

    def bind(self, function: str, arguments: tuple[object, ...]) -> Call:
        """A call of a function with its arguments."""
        return partial(self.functions[function], *arguments)

    def time_segments(self, segments: Sequence[Sequence[Call]]) -> Callable[[], list[float]]:
        """Wall time of each segment but the first."""
        return partial(wall_seconds, segments)


def wall_seconds(segments: Sequence[Sequence[Call]]) -> list[float]:
    """Do calls in order; the host's seconds of each segment but the first."""
    stamps = []
    for segment in segments:
        for call in segment:
            call()
        stamps.append(time.perf_counter())
    return [after - before for before, after in pairwise(stamps)]


def _ufunc(function: Callable[..., object]) -> Callable[..., object]:
    """A function of arrays and its output."""

    def call(*arrays: Array) -> object:
        *inputs, out = arrays
        with np.errstate(all="ignore"):
            return function(*inputs, out=out)

    return call


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, x.dtype.type(0), out=out)


def _clamp(low: float, high: float, x: Array, out: Array) -> None:
    np.clip(x, x.dtype.type(low), x.dtype.type(high), out=out)


def _sigmoid(x: Array, out: Array) -> None:
    with np.errstate(over="ignore"):
        np.negative(x, out=out)
        np.exp(out, out=out)
        np.add(out, out.dtype.type(1), out=out)
        np.reciprocal(out, out=out)


def _silu(x: Array, out: Array) -> None:
    with np.errstate(over="ignore"):
        np.negative(x, out=out)
        np.exp(out, out=out)
        np.add(out, out.dtype.type(1), out=out)
        np.divide(x, out, out=out)


def _reduction(function: Callable[..., object]) -> Callable[..., object]:
    def call(axes: tuple[int, ...], x: Array, out: Array) -> object:
        wide = {"dtype": out.dtype} if function in (np.sum, np.mean) else {}
        return function(x, axis=axes, out=out, keepdims=True, **wide)

    return call


def _index(function: Callable[..., Array]) -> Callable[..., object]:
    def call(axes: tuple[int, ...], x: Array, out: Array) -> None:
        out[...] = function(x, axis=axes[0], keepdims=True)

    return call


def _argsort(descending: bool, x: Array, out: Array) -> None:
    out[...] = np.argsort(-x if descending else x, axis=-1, kind="stable")


def _softmax(scale: float, x: Array, out: Array) -> None:
    scaled = x if scale == 1 else x * x.dtype.type(scale)
    np.subtract(scaled, scaled.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def _fuse(weights: Array | None, biases: Array | None, out: Array) -> None:
    if weights is not None:
        np.multiply(out, weights, out=out, casting="same_kind")
    if biases is not None:
        np.add(out, biases, out=out, casting="same_kind")


def _rms_norm(
    eps: float, weights: Array | None, biases: Array | None, x: Array, out: Array
) -> None:
    mean = np.mean(np.square(x, dtype=np.float32), axis=-1, keepdims=True)
    np.multiply(x, 1 / np.sqrt(mean + np.float32(eps)), out=out, casting="same_kind")
    _fuse(weights, biases, out)


def _layer_norm(
    eps: float, weights: Array | None, biases: Array | None, x: Array, out: Array
) -> None:
    centred = x - np.mean(x, axis=-1, keepdims=True, dtype=np.float32)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    np.multiply(centred, 1 / np.sqrt(variance + np.float32(eps)), out=out, casting="same_kind")
    _fuse(weights, biases, out)


def _matmul(a: Array, b: Array, out: Array) -> None:
    np.matmul(a, b, out=out)


def _get_rows(table: Array, ids: Array, out: Array) -> None:
    np.take(table, ids, axis=0, out=out, mode="clip")


def _copy(x: Array, out: Array) -> None:
    with np.errstate(over="ignore"):  # Inf, as on a device
        np.copyto(out, x, casting="unsafe")


def _concat(axis: int, a: Array, b: Array, out: Array) -> None:
    np.concatenate((a, b), axis=axis, out=out)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "abs": _ufunc(np.abs),
    "neg": _ufunc(np.negative),
    "relu": _relu,
    "floor": _ufunc(np.floor),
    "ceil": _ufunc(np.ceil),
    "round": _ufunc(np.rint),
    "trunc": _ufunc(np.trunc),
    "clamp": _clamp,
    "sqr": _ufunc(np.square),
    "sqrt": _ufunc(np.sqrt),
    "exp": _ufunc(np.exp),
    "exp2": _ufunc(np.exp2),
    "expm1": _ufunc(np.expm1),
    "log": _ufunc(np.log),
    "log2": _ufunc(np.log2),
    "sin": _ufunc(np.sin),
    "cos": _ufunc(np.cos),
    "tanh": _ufunc(np.tanh),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "add": _ufunc(np.add),
    "sub": _ufunc(np.subtract),
    "mul": _ufunc(np.multiply),
    "div": _ufunc(np.divide),
    "minimum": _ufunc(np.minimum),
    "maximum": _ufunc(np.maximum),
    "sum": _reduction(np.sum),
    "mean": _reduction(np.mean),
    "max": _reduction(np.max),
    "min": _reduction(np.min),
    "argmax": _index(np.argmax),
    "argmin": _index(np.argmin),
    "argsort": _argsort,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "get_rows": _get_rows,
    "copy": _copy,
    "concat": _concat,
}

"""What each format loses: the error of products with weights that were quantised to it.

A product's error is the length of what it is off by, in the length of the product, for vectors of
normal numbers; so it is a loss of one layer, and none of a whole model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.formats import PLAIN, WEIGHTS, Format, format_named
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.quantisers import codecs
from vkbench_shaders.quantisers.quantiser import QUANTISERS, quantise_weights
from vkbench_shaders.quantisers.quants import dequantise

if TYPE_CHECKING:
    from vkbench_shaders.gguf_file import Tensor

Floats = NDArray[np.float32]

FORMATS: Final = (*(name for name in PLAIN if name != "f32"), *WEIGHTS)
COLUMNS: Final = 4096  # weights of a seeded row
VECTORS: Final = 64  # that are multiplied
_DEVIATION: Final = 0.02  # of seeded weights, as of a layer's matrices
_LAYER: Final = re.compile(r"^blk\.(\d+)\.")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Rows of a matrix."""

    kind: str  # such as attn_q.weight, or how seeded numbers scatter
    values: Floats


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a format loses of a sample."""

    kind: str
    format: Format
    quantiser: str = ""  # gguf | vkbench
    weight_error: float | None = None
    output_error: float | None = None
    trouble: str = ""  # why there is none


def draw_samples(rows: int, seed: int) -> list[Sample]:
    """Weights as models have them: normal, with heavy tails, and with a few large columns."""
    numbers = np.random.default_rng(seed)
    return [
        Sample(kind=kind, values=scatter(numbers, rows) * np.float32(_DEVIATION))
        for kind, scatter in _SCATTERS.items()
    ]


def of_file(path: Path, rows: int, kinds: Sequence[str] = ()) -> list[Sample]:
    """The first rows of each kind of matrix, of the middle one of all layers that have it."""
    file = open_gguf(path)
    by_kind: dict[str, list[Tensor]] = {}
    for tensor in file.tensors.values():
        is_plain = tensor.format is not None and tensor.format.name in PLAIN
        if is_plain and len(tensor.shape) > 1:
            by_kind.setdefault(_LAYER.sub("", tensor.name), []).append(tensor)
    if not by_kind:
        raise UsageError(f"{path} has no matrix in {', '.join(PLAIN)}: there is nothing to lose")
    globs = kinds or ("*",)
    chosen = {name for glob in globs for name in names.matching(glob, by_kind, "kind of matrix")}
    return [
        Sample(kind=kind, values=_rows(file, tensors[len(tensors) // 2], rows))
        for kind, tensors in by_kind.items()
        if kind in chosen
    ]


def losses(samples: Sequence[Sample], formats: Sequence[str], seed: int) -> Iterator[Loss]:
    """What each format loses of each sample."""
    for sample in samples:
        wide = sample.values.shape[1]
        vectors = np.random.default_rng(seed).standard_normal((wide, VECTORS)).astype(np.float32)
        product = sample.values @ vectors
        for name in formats:
            yield _loss(sample, format_named(name), vectors, product)


def _loss(sample: Sample, fmt: Format, vectors: Floats, product: Floats) -> Loss:
    try:
        stored = quantise_weights(fmt.name, sample.values)
    except UsageError as error:
        return Loss(kind=sample.kind, format=fmt, trouble=str(error))
    off = (sample.values - dequantise(fmt.name, stored)).astype(np.float32)
    return Loss(
        kind=sample.kind,
        format=fmt,
        quantiser=_quantiser(fmt),
        weight_error=_ratio(off, sample.values),
        output_error=_ratio(off @ vectors, product),
    )


def _quantiser(fmt: Format) -> str:
    if not fmt.quantised:
        return ""
    return "vkbench" if fmt.name in QUANTISERS or fmt.name in codecs.ENCODERS else "gguf"


def _ratio(off: Floats, whole: Floats) -> float:
    length = float(np.linalg.norm(whole))
    return float(np.linalg.norm(off)) / length if length else 0.0


def _rows(file: GgufFile, tensor: Tensor, most: int) -> Floats:
    assert tensor.format
    count = min(most, int(np.prod(tensor.shape[:-1])))
    return dequantise(tensor.format.name, file.rows(tensor.name, 0, count)).astype(np.float32)


def _normal(numbers: np.random.Generator, rows: int) -> Floats:
    return numbers.standard_normal((rows, COLUMNS), np.float32)


def _heavy_tailed(numbers: np.random.Generator, rows: int) -> Floats:
    """Student's t with four degrees of freedom, of which one in 1000 is beyond 7."""
    return numbers.standard_t(4, (rows, COLUMNS)).astype(np.float32)


def _large_columns(numbers: np.random.Generator, rows: int) -> Floats:
    """Normal numbers, of which one column in 64 is eight times as large."""
    large = numbers.permutation(COLUMNS)[: COLUMNS // 64]
    values = _normal(numbers, rows)
    values[:, large] *= 8
    return values


_SCATTERS: Final[Mapping[str, Callable[[np.random.Generator, int], Floats]]] = {
    "normal": _normal,
    "heavy tails": _heavy_tailed,
    "large columns": _large_columns,
}

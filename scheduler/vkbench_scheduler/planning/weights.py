"""Cases on a tensor of a file: the catalogue's, with the tensor as their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from vkbench.case import WEIGHTS, Case
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import Source
from vkbench.words import names
from vkbench_scheduler.planning.selection import Weights
from vkbench_shaders.formats import format_named
from vkbench_shaders.gguf_file import check_part, open_gguf, sizes_of
from vkbench_shaders.kernel import Kernel, Problem


def weights_from(path: Path, tensor: str) -> Weights:
    """A tensor of a GGUF file; UsageError if the file or the name is invalid."""
    file = open_gguf(path)
    stored = file.tensor(tensor)
    assert stored.format
    return Weights(
        source=Source(path=str(path.resolve()), tensor=tensor),
        format=stored.format.name,
        shape=stored.shape,
        sha=file.sha(tensor),
    )


def on_weights(
    kernel: Kernel, weights: Weights, listed: Iterable[Case], named_sizes: Mapping[str, int]
) -> list[Case]:
    """The `listed` cases with a tensor as their weights, each once: its format, sizes and hash.

    Sizes that the selection names cut the tensor. A case that would need more than the tensor has
    is left out; UsageError or NothingToDo says why none is left.
    """
    first = kernel.bindings[0]
    if not kernel.reads_weights:
        raise NothingToDo(f"{kernel.name} reads no weights")
    fmt = names.pick(weights.format, first.types, f"format of {kernel.name}'s {first.name}")
    sizes = sizes_of(weights.shape, first.dims)
    _check_cut(weights, sizes, named_sizes, first.dims[-1])
    items = (*weights.shape[:-1], format_named(fmt).items(weights.shape[-1]))
    cases = list(listed)
    same = [case for case in cases if case.format == fmt] or cases
    cut_cases: dict[Case, None] = {}
    complaints: list[UsageError] = []
    for case in same:
        try:
            made = kernel.case(
                {**case.types, first.name: fmt},
                {**case.shape, **sizes, **named_sizes},
                {**case.params, WEIGHTS: weights.sha},
            )
            check_part(items, Problem(kernel, made).array_shape(first.name))
        except UsageError as error:
            complaints.append(error)
            continue
        cut_cases[made] = None
    if not cut_cases and complaints:
        raise complaints[0]
    return list(cut_cases)


def _check_cut(
    weights: Weights, sizes: Mapping[str, int], named_sizes: Mapping[str, int], inner: str
) -> None:
    for dim, has in sizes.items():
        size = named_sizes.get(dim, has)
        if size > has or (dim == inner and size != has):
            may = f"is {has} there" if dim == inner else f"is {has} at most"
            raise UsageError(f"{dim}={size}: of tensor {weights.source.tensor} {dim} {may}")

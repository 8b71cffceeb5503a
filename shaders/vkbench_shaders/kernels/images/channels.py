"""Arrays of channels, and what works on each of them by itself: one array in, one out."""

from __future__ import annotations

from vkbench_shaders.kernel import Binding

FORMATS = ("f32", "f16")


def bindings(dims: tuple[str, ...], results: str) -> tuple[Binding, ...]:
    """x and y, in one format."""
    return (
        Binding(
            name="x",
            access="in",
            types=FORMATS,
            dims=dims,
            description="arrays, one for each channel of each of n",
        ),
        Binding(name="y", access="out", types=FORMATS, dims=dims, same_as="x", description=results),
    )

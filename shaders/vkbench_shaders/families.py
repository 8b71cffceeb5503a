"""Which kernels exist for each storage format: columns of the formats' grid, and docs/formats.md.

Derived from the kernels alone: a family is a kernel that takes or makes blocks, once for each
format that its vectors x may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from vkbench.case import Case
from vkbench_shaders.catalogue import KERNELS, kernel_named, problem
from vkbench_shaders.formats import FORMATS, Format, format_named
from vkbench_shaders.kernel import Binding, Kernel, Variant

VECTORS = "x"  # the binding of activations, by the name that all kernels give it


@dataclass(frozen=True)
class Family:
    """One kernel with one format of x, over all formats of the binding that it is about."""

    kernel: Kernel
    binding: str  # the one whose formats are the grid's rows
    x: str  # format of x; "" where that makes no family of its own

    @property
    def name(self) -> str:
        """Name as in the names of cases: mul_mat_vec:x=q8_1."""
        return f"{self.kernel.name}:{VECTORS}={self.x}" if self.x else self.kernel.name

    def types(self, fmt: str) -> dict[str, str] | None:
        """Formats of all bindings with this one of them; None where the kernel has none."""
        return next(
            (
                types
                for types in _choices(self.kernel.name)
                if types[self.binding] == fmt and self.x in ("", types.get(VECTORS))
            ),
            None,
        )

    def variants(self, fmt: str) -> list[Variant]:
        """The code paths for a format, best first; none where the kernel does not take it."""
        types = self.types(fmt)
        return self.kernel.variants_for(types) if types else []

    def cases(self, fmt: str) -> list[Case]:
        """The listed cases of a format, the smallest first."""
        return _checked_cases(self.kernel.name).get(frozenset((self.types(fmt) or {}).items()), [])


def families() -> tuple[Family, ...]:
    """Every family, in the catalogue's order."""
    return tuple(
        Family(kernel, subject.name, x)
        for kernel in KERNELS
        for subject in [_subject(kernel)]
        if _offers_blocks(subject)
        for x in _vectors(kernel, subject)
    )


def formats_in_use() -> list[Format]:
    """Every format that some family takes or makes, in the table's order."""
    return [fmt for fmt in FORMATS if any(family.types(fmt.name) for family in families())]


def _subject(kernel: Kernel) -> Binding:
    """The binding that a kernel is about: the one with the most formats."""
    return max(kernel.bindings, key=lambda binding: len(binding.types))


def _offers_blocks(binding: Binding) -> bool:
    """Whether there is a choice of blocks: what rounds to one format alone is about no format."""
    return sum(format_named(fmt).quantised for fmt in binding.types) > 1


def _vectors(kernel: Kernel, subject: Binding) -> tuple[str, ...]:
    if subject.access != "in":
        return ("",)
    vectors = [b for b in kernel.bindings if b.name == VECTORS and b is not subject]
    return vectors[0].types if vectors else ("",)


@cache
def _choices(kernel: str) -> list[dict[str, str]]:
    return list(kernel_named(kernel).type_choices())


@cache
def _checked_cases(kernel: str) -> Mapping[frozenset[tuple[str, str]], list[Case]]:
    """Checked cases by the formats of their bindings."""
    by_types: dict[frozenset[tuple[str, str]], list[Case]] = {}
    for case in sorted(kernel_named(kernel).cases, key=lambda case: prod(case.shape.values())):
        by_types.setdefault(frozenset(problem(case).types.items()), []).append(case)
    return by_types


_HEAD = """\
# Storage formats

How are numbers stored in each format, how small does that make them, and which kernels take it?
`make pages` writes this page from `shaders/vkbench_shaders/formats.py` and the catalogue. Layouts
are those of GGML, byte for byte. Bits are per weight, scales and minima included; the ratio is how
many times smaller than f32 a format is. `vkbench kernels --formats` prints the same with --json or
--csv, and `vkbench kernels --grid` says which code path each device takes.

| format | GGML type | block | bytes | bits | ratio | what a block holds |
|---|--:|--:|--:|--:|--:|---|
"""

_FAMILIES = """
## What can be done with each

A mark is a kernel of the catalogue, with f32, f16, q8_1 or q8_0 vectors x where it says so.

"""


def formats_page() -> str:
    """Markdown of docs/formats.md, which `make pages` writes."""
    return _HEAD + "".join(map(_line, FORMATS)) + _FAMILIES + _matrix()


def _line(fmt: Format) -> str:
    size = f"{fmt.elements} | {fmt.bytes} | {fmt.bits:g} | {fmt.ratio:.2f}"
    number = "–" if fmt.ggml is None else fmt.ggml
    return f"| {fmt.name} | {number} | {size} | {fmt.description} |\n"


def _matrix() -> str:
    columns = families()
    head = f"| format | {' | '.join(family.name for family in columns)} |\n"
    rule = "|---|" + ":-:|" * len(columns) + "\n"
    return head + rule + "".join(map(_marks, formats_in_use()))


def _marks(fmt: Format) -> str:
    marks = ("✓" if family.types(fmt.name) else "–" for family in families())
    return f"| {fmt.name} | {' | '.join(marks)} |\n"

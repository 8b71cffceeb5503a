"""`vkbench exec`: one kernel on the user's own arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.case import parse_shape
from vkbench.configuration import Configuration, parse
from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench_cli import completion
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.options.records import Gguf, KernelsOf, OneDevice, Tensor, check_pair
from vkbench_cli.show.telling import say

if TYPE_CHECKING:
    from vkbench_shaders.kernel import Kernel


def execute(
    *,
    kernel: Annotated[
        str,
        Argument(
            metavar="KERNEL",
            help="Name of the kernel; `vkbench kernels` lists them.",
            autocompletion=completion.kernels,
        ),
    ],
    output: Annotated[Path, Option(metavar="NPZ", help="Write the kernel's outputs to this file.")],
    input: Annotated[
        Path | None,
        Option(
            metavar="NPZ",
            help=(
                "File with one array per input, named as the binding; --gguf supplies the weights."
            ),
        ),
    ] = None,
    gguf: Gguf = None,
    tensor: Tensor = "",
    format: Annotated[
        str,
        Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="Format of the first binding; required if it is quantised.",
            autocompletion=completion.formats,
        ),
    ] = "",
    type: Annotated[
        list[str],
        Option(
            metavar="BINDING=FORMAT",
            help="Format of another binding, such as y=f16; may be repeated.",
        ),
    ] = [],  # noqa: B006
    shape: Annotated[
        str,
        Option(
            "--shape",
            "-s",
            metavar="m=..,k=..",
            help="Sizes that do not follow from the arrays, such as m=64,k=256.",
        ),
    ] = "",
    param: Annotated[
        list[str],
        Option(
            metavar="NAME=VALUE", help="Parameter of the kernel, such as mask=all; may be repeated."
        ),
    ] = [],  # noqa: B006
    device: OneDevice = "",
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="Variant of the kernel; 'auto' is the best one that the device supports.",
        ),
    ] = "auto",
    bundle: KernelsOf = "",
    limit: Annotated[float, Option(metavar="S", min=0.1, help="Give up after S seconds.")] = 60.0,
) -> None:
    """Run one kernel on your own arrays.

    Pass a quantised input as a uint8 array of shape (rows, bytes per row). Sizes follow from the
    shapes of the arrays; missing leading dimensions count as 1. Leave out inputs that parameters
    switch off, such as the mask of softmax. `vkbench kernels --json` lists the bindings of each
    kernel, when it reads them, and how each format is stored.

    \b
    vkbench exec dequantize --format q4_0 --input in.npz --output out.npz
    vkbench exec mul_mat_vec --format q8_0 --input in.npz --output out.npz
    vkbench exec softmax --param mask=all --input in.npz --output out.npz
    vkbench exec dequantize --gguf m.gguf --tensor output.weight --output out.npz
    """
    from vkbench_cli.arrays import Asked, fit, read_arrays, with_tensor
    from vkbench_local.compute import Errand, compute
    from vkbench_shaders.catalogue import kernel_named

    called = kernel_named(kernel)
    check_writable(output)
    check_pair(gguf, tensor)
    types = _pairs(type, "--type") | ({called.bindings[0].name: format} if format else {})
    wishes = Asked(
        types=types, shape=parse_shape(shape) if shape else {}, params=_pairs(param, "--param")
    )
    given = read_arrays(input) if input else {}
    if gguf:
        given, wishes = with_tensor(called, given, wishes, gguf, tensor)
    posed, arrays = fit(called, given, wishes)
    errand = Errand(
        case=posed.case.name,
        variant=variant if variant == "auto" else _configuration(called, variant),
        device=device or settings().device,
        bundle=bundle,
    )
    done = compute(errand, arrays, limit, settings())
    with whole_file(output) as file:
        file.write(done.outputs)
    say(f"{posed.case.name}: {done.variant} on {done.device} -> {output}")


def _configuration(kernel: Kernel, text: str) -> str:
    """A configuration's name in the kernel's spelling; UsageError if the kernel has none such."""
    parsed = parse(text)
    variant = kernel.variant(parsed.variant).name
    return Configuration(variant=variant, settings=kernel.settings(parsed.settings)).name


def _pairs(words: list[str], option: str) -> dict[str, str]:
    parts = (word.partition("=") for word in words)
    pairs = {name: value for name, _, value in parts}
    if not all(name and value for name, value in pairs.items()):
        raise UsageError(f"malformed {option} '{','.join(words)}': expected NAME=VALUE")
    return pairs

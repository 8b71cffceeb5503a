"""`vkbench exec`: one kernel on somebody's own arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vkbench.errors import UsageError
from vkbench.selector import HELP
from vkbench.settings import settings
from vkbench_cli import completion
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.options import Gguf, Tensor, check_pair


def execute(
    *,
    kernel: Annotated[
        str,
        Argument(
            metavar="KERNEL",
            help="A kernel of `vkbench kernels`.",
            autocompletion=completion.kernels,
        ),
    ],
    output: Annotated[Path, Option(metavar="NPZ", help="File to write the kernel's outputs to.")],
    input: Annotated[
        Path | None,
        Option(metavar="NPZ", help="File with an array a binding, by name; but for --gguf's."),
    ] = None,
    gguf: Gguf = None,
    tensor: Tensor = "",
    format: Annotated[
        str,
        Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="Format of the first binding; needed for quantised ones.",
            autocompletion=completion.formats,
        ),
    ] = "",
    type: Annotated[
        list[str], Option(metavar="BINDING=FORMAT", help="Format of another binding: y=f16.")
    ] = [],  # noqa: B006
    shape: Annotated[
        str,
        Option(
            "--shape",
            "-s",
            metavar="m=..,k=..",
            help="Sizes, where the arrays leave them open: m=64,k=256.",
        ),
    ] = "",
    param: Annotated[
        list[str], Option(metavar="NAME=VALUE", help="A parameter of the kernel.")
    ] = [],  # noqa: B006
    device: Annotated[
        str,
        Option(
            "--device",
            "-d",
            metavar="SELECTOR",
            help=f"{HELP} One device; default: the best of this machine.",
            autocompletion=completion.devices,
        ),
    ] = "",
    variant: Annotated[
        str, Option(metavar="V", help="Code path; auto is the device's best.")
    ] = "auto",
    bundle: Annotated[str, Option(metavar="SHA", help="Compiled kernels to use.")] = "",
    limit: Annotated[
        float, Option(metavar="S", min=0.1, help="Give up after so many seconds.")
    ] = 60.0,
) -> None:
    """Run one kernel on your own arrays.

    Quantised bindings are uint8 arrays of whole blocks, (rows, bytes per row). Sizes follow from
    the arrays; leading dimensions that an array lacks are 1. Leave out inputs that parameters
    switch off, such as the mask of softmax. `vkbench kernels --json` lists each kernel's bindings,
    when it reads them, and how formats are stored.

    \b
    vkbench exec dequantize --format q4_0 --input in.npz --output out.npz
    vkbench exec mul_mat_vec -f q8_0 --input in.npz --output out.npz --variant portable
    vkbench exec softmax --param mask=all --input in.npz --output out.npz
    vkbench exec dequantize --gguf model.gguf --tensor blk.0.attn_q.weight --output out.npz
    """
    from vkbench.case import parse_shape
    from vkbench_cli.arrays import Asked, fit, read_arrays, with_tensor
    from vkbench_cli.computing import Errand, compute
    from vkbench_shaders.catalogue import kernel_named

    asked = kernel_named(kernel)
    check_writable(output)
    check_pair(gguf, tensor)
    types = _pairs(type, "--type") | ({asked.bindings[0].name: format} if format else {})
    wanted = Asked(
        types=types, shape=parse_shape(shape) if shape else {}, params=_pairs(param, "--param")
    )
    given = read_arrays(input) if input else {}
    if gguf:
        given, wanted = with_tensor(asked, given, wanted, gguf, tensor)
    posed, arrays = fit(asked, given, wanted)
    errand = Errand(
        case=posed.case.name,
        variant=variant if variant == "auto" else asked.variant(variant).name,
        device=device or settings().device,
        bundle=bundle,
    )
    done = compute(errand, arrays, limit, settings())
    with whole_file(output) as file:
        file.write(done.outputs)
    print(f"{posed.case.name}: {done.variant} on {done.device} -> {output}")


def _pairs(words: list[str], option: str) -> dict[str, str]:
    pairs = dict(word.partition("=")[::2] for word in words)
    if not all(name and value for name, value in pairs.items()):
        raise UsageError(f"malformed {option} '{','.join(words)}': expected NAME=VALUE")
    return pairs

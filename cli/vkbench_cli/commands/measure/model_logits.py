"""`vkbench model logits`: what a model says of tokens, as an array."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench.words.visible import visible
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.options.choices import CacheFormat
from vkbench_cli.options.records import KernelsOf, OneDevice


def logits(
    file: Annotated[Path, Argument(metavar="FILE", help="GGUF file of the model.")],
    *,
    tokens: Annotated[
        str, Option(metavar="N,..", help="Numbers of the tokens that the model reads.")
    ],
    output: Annotated[
        Path, Option("--output", "-o", metavar="NPZ", help="Write the logits to this file.")
    ],
    cache: Annotated[
        CacheFormat, Option(help="Format of keys and values.", case_sensitive=False)
    ] = CacheFormat.F16,
    device: OneDevice = "",
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="plain, via_q8_1 (rounds vectors to bytes), mixed, joined, or auto: the fastest.",
        ),
    ] = "auto",
    bundle: KernelsOf = "",
    limit: Annotated[float, Option(metavar="S", min=0.1, help="Give up after S seconds.")] = 600.0,
) -> None:
    """Work out a model's logits of given tokens.

    Writes an array `logits` (tokens, vocabulary) of float32: what the model expects behind each
    token. The file needs no vocabulary: tokens are numbers.

    \b
    vkbench model logits gpt2.gguf --tokens 13,932,407 --output logits.npz
    """
    from vkbench_local.compute import LogitsErrand
    from vkbench_local.compute import logits as compute
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.hyper import predicting_hyper_of

    check_writable(output)
    read = _numbers(tokens, predicting_hyper_of(open_gguf(file)).vocabulary)
    errand = LogitsErrand(
        model=file,
        tokens=read,
        cache=cache.value,
        variant=variant,
        device=device or settings().device,
        bundle=bundle,
    )
    done = compute(errand, limit, settings())
    with whole_file(output) as written:
        written.write(done.outputs)
    line = f"{file.name}: {len(read)} tokens, {done.variant} on {done.device} -> {output}"
    print(visible(line))


def _numbers(text: str, vocabulary: int) -> tuple[int, ...]:
    try:
        tokens = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"--tokens takes whole numbers, as 13,932; got {text}") from None
    if wrong := [token for token in tokens if not 0 <= token < vocabulary]:
        raise UsageError(f"token {wrong[0]} is not in the vocabulary, which has {vocabulary}")
    return tokens

"""Operations that ggml has as several nodes, or as another node in other builds and cases.

Each takes the arrays and numbers of a row, the results last. A number that a build's function has
no argument for is passed all the same. What a function's own arguments mean has changed with some
release: there a function that came with it, or soon after, tells the builds apart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from vkbench_worker.peers.llama_cpp.api import Address, Tensor
from vkbench_worker.peers.llama_cpp.arrays import GgmlArray
from vkbench_worker.peers.llama_cpp.launches import Nodes

SINGLES: Final = 0  # ggml's type
MULTI: Final = 8  # modes of rope from here on have four positions a token
_MASK_ROWS: Final = 64  # that older builds want whole multiples of
_PARAMETERS: Final = 4  # ggml's flag of what is trained
_IS_HADAMARD: Final = 1  # ggml's hint about the first matrix of a product

_EVEN: Final = (1.0, 0.0)  # factor and bias of a softmax that has none
# The nodes that make an expert's gate of its logit, each with its numbers.
GATES: Final[Mapping[str, tuple[tuple[str, tuple[float, ...]], ...]]] = {
    "softmax": (("soft_max_ext", _EVEN),),
    "softmax_late": (),
    **dict.fromkeys(("sigmoid", "sigmoid_biased"), (("sigmoid", ()),)),
    **dict.fromkeys(("sqrt_softplus", "sqrt_softplus_biased"), (("softplus", ()), ("sqrt", ()))),
}

Numbers = tuple[float, ...]
Array = GgmlArray
Maybe = GgmlArray | None
_Turning = tuple[Array, Maybe, int, tuple[int, ...], int, int, Numbers]  # what rope takes of x


def attention(
    nodes: Nodes,
    q: Array,
    k: Array,
    v: Array,
    mask: Maybe,
    sinks: Maybe,
    numbers: Numbers,
    y: Array,
) -> None:
    """Attention with a mask and sinks; older builds want masks of more rows than there are."""
    if mask is not None and not nodes.has("softplus"):
        mask = nodes.pad_rows(mask, _MASK_ROWS)
    node = nodes.add("flash_attn_ext", q, k, v, mask, *numbers, at=y)
    if sinks is not None:
        nodes.attach("flash_attn_ext_add_sinks", node, sinks)


def soft_max(
    nodes: Nodes, x: Array, mask: Maybe, sinks: Maybe, scale: float, bias: float, y: Array
) -> None:
    """Softmax with a mask, slopes and sinks."""
    if mask is not None and mask.shape[0] > 1:
        nodes.require("add_id", "soft_max_ext with masks of a batch")
    node = nodes.add("soft_max_ext", x, mask, scale, bias, at=y)
    if sinks is not None:
        nodes.attach("soft_max_add_sinks", node, sinks)


def soft_max_back(nodes: Nodes, dy: Array, y: Array, scale: float, dx: Array) -> None:
    """The gradient of softmax, which older builds have under another name and without a scale."""
    nodes.add("soft_max_ext_back", dy, y, scale, 0.0, at=dx)


def add_numbers(nodes: Nodes, x: Array, factor: float, bias: float, y: Array) -> None:
    """A product and a sum, which older builds have without the sum."""
    if bias:
        nodes.add("scale_bias", x, factor, bias, at=y)
    else:
        nodes.add("scale", x, factor, at=y)


def _norm_and(
    function: str,
    nodes: Nodes,
    x: object,
    numbers: Numbers,
    weights: Maybe,
    biases: Maybe,
    y: Array,
) -> Address:
    """A norm, and a product and a sum behind it, as layers have them."""
    steps = [(name, by) for name, by in (("mul", weights), ("add", biases)) if by is not None]
    places = [*(nodes.lay_between("f32", *y.shape) for _ in steps), y]
    node = nodes.add(function, x, *numbers, at=places[0])
    for (name, by), place in zip(steps, places[1:], strict=True):
        node = nodes.add(name, node, by, at=place)
    return node


def add_rms_norm(
    nodes: Nodes,
    x: Array,
    residual: Array,
    numbers: Numbers,
    weights: Maybe,
    biases: Maybe,
    total: Array,
    y: Array,
) -> None:
    """A sum and its norm."""
    _norm_and(
        "rms_norm", nodes, nodes.add("add", x, residual, at=total), numbers, weights, biases, y
    )


def rope(
    nodes: Nodes,
    end: str,
    x: object,
    positions: Array,
    factors: Maybe,
    dims: int,
    sections: tuple[int, ...],
    mode: int,
    context: int,
    numbers: Numbers,
    y: Array,
) -> Address:
    """Rotary positions; `end` is that of the function's name, for the gradient."""
    place = positions.reshape(prod(positions.shape))
    if mode < MULTI:
        return nodes.add(f"rope_ext{end}", x, place, factors, dims, mode, context, *numbers, at=y)
    four = (ctypes.c_int * 4)(*sections)
    given = (x, place, factors, dims, four, mode, context, *numbers)
    return nodes.add(f"rope_multi{end}", *given, at=y)


def norm_rope(
    nodes: Nodes, x: Array, eps: float, weights: Array, turning: tuple[Any, ...], y: Array
) -> None:
    """A norm, a product with weights, and rotary positions, whose arguments end with y, too."""
    between = nodes.lay_between("f32", *x.shape)
    rope(nodes, "", _norm_and("rms_norm", nodes, x, (eps,), weights, None, between), *turning)


def turn_into_rows(
    nodes: Nodes, x: Array, norm: tuple[Numbers, Array] | None, turning: _Turning, *set_rows: Array
) -> None:
    """Rows of a table, by their numbers, set to heads by rotary positions, after a norm or none."""
    normed, turned_heads = (nodes.lay_between("f32", *x.shape) for _ in range(2))
    ids, y = set_rows
    given = _norm_and("rms_norm", nodes, x, *norm, None, normed) if norm else x
    turned = rope(nodes, "", given, *turning, turned_heads)
    tokens, width = x.shape[-3], prod(x.shape[-2:])
    flat = nodes.view("view_2d", turned, width, tokens, width * x.format.bytes, 0)
    rows = y.reshape(y.shape[0], width)
    nodes.add("set_rows", rows, flat, ids.reshape(tokens), at=rows)


def multiply_by(function: str, nodes: Nodes, a: Array, b: Array, y: Array) -> None:
    """A function of one number, then a product."""
    node = nodes.add(function, a, at=nodes.lay_between(a.format.name, *a.shape))
    nodes.add("mul", node, b, at=y)


def add_several(nodes: Nodes, arrays: tuple[Array, ...], y: Array) -> None:
    """The sum of several arrays, by an addition for each of them but the first."""
    node: object = arrays[0]
    for place, other in enumerate(arrays[1:], 2):
        node = nodes.add(
            "add", node, other, at=y if place == len(arrays) else nodes.lay_between("f32", *y.shape)
        )


def snake(nodes: Nodes, x: Array, rates: Array, shares: Array, y: Array) -> None:
    """x plus a share of the squared sine of x times a rate, in five nodes.

    Builds fuse them only if the first and the last name one tensor of x: it is made once.
    """
    between = [nodes.lay_between(x.format.name, *x.shape) for _ in range(4)]
    given = nodes.make_tensor(x)
    node = nodes.add("mul", given, rates, at=between[0])
    node = nodes.add("sin", node, at=between[1])
    node = nodes.add("sqr", node, at=between[2])
    node = nodes.add("mul", node, shares, at=between[3])
    nodes.add("add", given, node, at=y)


def multiply_hadamard(nodes: Nodes, x: Array, matrix: np.ndarray, y: Array) -> None:
    """A product with a matrix, of which the node says that it is Hadamard's."""
    nodes.require("mul_mat_set_hint", "mul_mat that is told of Hadamard matrices")
    node = nodes.add("mul_mat", nodes.lay_constant(matrix, "f32"), x, at=y)
    nodes.tell("mul_mat_set_hint", node, _IS_HADAMARD)


def multiply_experts(
    nodes: Nodes, weights: Array, x: Array, ids: Array, biases: Maybe, shares: Maybe, y: Array
) -> None:
    """Products with experts, then biases and shares if given.

    Builds fuse them only if the product and the biases name one tensor of ids.
    """
    chosen = nodes.make_tensor(ids)
    steps: list[tuple[str, tuple[object, ...]]] = []
    if biases is not None:
        steps.append(("add_id", (biases, chosen)))
    if shares is not None:
        steps.append(("mul", (shares,)))
    places = [*(nodes.lay_between("f32", *y.shape) for _ in steps), y]
    node = nodes.add("mul_mat_id", weights, x, chosen, at=places[0])
    for (name, by), place in zip(steps, places[1:], strict=True):
        node = nodes.add(name, node, *by, at=place)


def route_tokens(
    nodes: Nodes,
    logits: Array,
    bias: Maybe,
    gating: str,
    then: tuple[tuple[str, tuple[float, ...]], ...],
    ids: Array,
    weights: Array,
) -> None:
    """Experts and their weights, as a graph of llama.cpp has it; then what follows of weights.

    The backend fuses most of it. What it leaves of places are the first ones of rows of all
    experts: a copy takes them from there.
    """
    (tokens, experts), used = logits.shape, ids.shape[-1]
    gates = nodes.make_tensor(logits)
    for function, numbers in GATES[gating]:
        given = (None, *numbers) if numbers else ()
        gates = nodes.add(function, gates, *given, at=nodes.lay_between("f32", tokens, experts))
    rows = nodes.view("reshape_3d", gates, 1, experts, tokens)
    if bias is not None:
        gates = nodes.add("add", gates, bias, at=nodes.lay_between("f32", tokens, experts))
    order = nodes.add("argsort", gates, 1, at=nodes.lay_between("i32", tokens, experts))
    chosen = nodes.view("view_2d", order, used, tokens, experts * ids.format.bytes, 0)
    places = [*(nodes.lay_between("f32", tokens, used) for _ in then), weights]
    node = nodes.add("get_rows", rows, chosen, at=places[0])
    for (function, numbers), place in zip(then, places[1:], strict=True):
        flat = nodes.view("reshape_2d", node, used, tokens)
        if function == "div":
            total = nodes.add("sum_rows", flat, at=nodes.lay_between("f32", tokens, 1))
            least = nodes.add("clamp", total, *numbers, at=nodes.lay_between("f32", tokens, 1))
            node = nodes.add("div", flat, least, at=place)
        elif function == "soft_max_ext":
            node = nodes.add(function, flat, None, *numbers, at=place)
        else:
            node = nodes.add(function, flat, *numbers, at=place)
        if function != "scale":
            node = nodes.view("reshape_3d", node, 1, used, tokens)
    nodes.add("cont", chosen, at=ids)


def conv_bias(nodes: Nodes, x: Array, weights: Array, bias: Maybe, silu: bool, y: Array) -> None:
    """A convolution over time, with what follows it in a layer."""
    steps: list[tuple[str, Maybe]] = [("add", bias)] if bias is not None else []
    steps += [("silu", None)] if silu else []
    places = [*(nodes.lay_between("f32", *y.shape) for _ in steps), y]
    node = nodes.add("ssm_conv", x, weights, at=places[0])
    for (name, by), place in zip(steps, places[1:], strict=True):
        node = nodes.add(name, node, *([] if by is None else [by]), at=place)


def _recur(
    function: str, nodes: Nodes, inputs: tuple[object, ...], y: Array, next_state: Array
) -> None:
    """A recurrence, which leaves results and states side by side: copies part them."""
    if function == "rwkv_wkv6":
        nodes.require("rwkv_wkv7", "rwkv_wkv6 that takes heads of tokens")
    results, states = prod(y.shape), prod(next_state.shape)
    both = nodes.lay_between("f32", results + states)
    nodes.add(function, *inputs, at=both)
    nodes.add("cast", both.take_part(0, y.shape), SINGLES, at=y)
    nodes.add("cast", both.take_part(results, next_state.shape), SINGLES, at=next_state)


def scan(nodes: Nodes, inputs: tuple[object, ...], y: Array, next_state: Array) -> None:
    """Mamba's scan, which older builds have without the numbers of states."""
    nodes.require("add_id", "ssm_scan that is told the state of each sequence")
    _recur("ssm_scan", nodes, inputs, y, next_state)


def back(function: str, nodes: Nodes, *arguments: object) -> None:
    """A gradient, whose arguments older builds have in another order."""
    nodes.require("rope_ext_back", f"{function} whose gradient comes first")
    *inputs, result = arguments
    nodes.add(function, *inputs, at=result)


def hc_post(nodes: Nodes, x: Array, residual: Array, post: Array, comb: Maybe, y: Array) -> None:
    """Residual streams behind a layer, which older builds always mix."""
    if comb is None:
        nodes.require("dsv4_hc_pre_gated", "dsv4_hc_post without mixing")
    nodes.add("dsv4_hc_post", x, residual, post, comb, at=y)


def _train(nodes: Nodes, old: tuple[Array, ...], new: tuple[Array, ...]) -> list[Address]:
    """Tensors of what is trained in place, behind copies to where it belongs."""
    for source, place in zip(old, new, strict=True):
        nodes.add("cast", source, SINGLES, at=place)
    tensors = [nodes.make_tensor(place) for place in new]
    Tensor.from_address(tensors[0]).flags |= _PARAMETERS
    return tensors


def sgd(nodes: Nodes, x: Array, g: Array, numbers: Numbers, next_x: Array) -> None:
    """A step of gradient descent, in place on a copy."""
    [trained] = _train(nodes, (x,), (next_x,))
    constants = nodes.lay_constant(np.array(numbers), "f32")
    nodes.add("opt_step_sgd", trained, g, constants, at=next_x)


def adamw(
    nodes: Nodes, g: Array, old: tuple[Array, ...], numbers: Numbers, new: tuple[Array, ...]
) -> None:
    """A step of AdamW, in place on copies of the parameters and their moments."""
    trained, m, v = _train(nodes, old, new)
    constants = nodes.lay_constant(np.array(numbers), "f32")
    nodes.add("opt_step_adamw", trained, g, m, v, constants, at=new[0])


def im2col(
    function: str, nodes: Nodes, x: Array, taps: tuple[int, ...], rest: tuple[int, ...], y: Array
) -> None:
    """Windows as rows; the weights are asked for their shape alone."""
    fmt = "f16" if y.format.name == "f16" else "f32"
    nodes.add(function, nodes.lay_between(fmt, *taps), x, *rest, at=y)


def pad_all(
    nodes: Nodes, x: Array, mode: str, before: tuple[int, ...], after: tuple[int, ...], y: Array
) -> None:
    """Zeros, copies or reflections around an array; sizes are those along ggml's dimensions."""
    sides = [size for pair in zip(before, after, strict=True) for size in pair]
    if mode == "reflect":
        nodes.add("pad_reflect_1d", x, *sides[:2], at=y)
    elif mode == "circular":
        nodes.add("pad_ext_circular", x, *sides, at=y)
    elif any(before):
        nodes.add("pad_ext", x, *sides, at=y)
    else:
        nodes.add("pad", x, *after, at=y)


def upsample(nodes: Nodes, x: Array, mode: int, y: Array) -> None:
    """The nearest numbers (mode 0), or those between."""
    function = "interpolate" if mode else "upscale_ext"
    nodes.add(function, x, *reversed(y.shape), mode, at=y)


def repeat_by_shape(nodes: Nodes, x: Array, y: object) -> None:
    """Repeats an array to the shape of the result."""
    nodes.add("repeat", x, y, at=y)


def fill_with(nodes: Nodes, value: float, y: object) -> None:
    """One number, of which ggml asks for an array of the shape; older builds abort for halves."""
    if isinstance(y, GgmlArray) and y.format.name != "f32":
        nodes.require("gated_delta_net", f"fill of {y.format.name}")
    nodes.add("fill", y, value, at=y)


CHAINS: Final[Mapping[str, Callable[..., object]]] = {
    "attention": attention,
    "soft_max": soft_max,
    "soft_max_back": soft_max_back,
    "add_numbers": add_numbers,
    **{f"{name}_and": partial(_norm_and, name) for name in ("rms_norm", "norm", "group_norm")},
    "add_rms_norm": add_rms_norm,
    "rope": rope,
    "norm_rope": norm_rope,
    "turn_into_rows": turn_into_rows,
    **{f"{name}_mul": partial(multiply_by, name) for name in ("sigmoid", "softplus")},
    "add_several": add_several,
    "snake": snake,
    "multiply_hadamard": multiply_hadamard,
    "multiply_experts": multiply_experts,
    "route_tokens": route_tokens,
    "conv_bias": conv_bias,
    "scan": scan,
    "hc_post": hc_post,
    **{
        f"recur_{name}": partial(_recur, name)
        for name in ("rwkv_wkv6", "rwkv_wkv7", "gated_linear_attn", "gated_delta_net")
    },
    **{f"{name}_of": partial(back, name) for name in ("silu_back", "rms_norm_back")},
    "sgd": sgd,
    "adamw": adamw,
    "im2col_of": partial(im2col, "im2col"),
    "im2col3d_of": partial(im2col, "im2col_3d"),
    "pad_all": pad_all,
    "upsample": upsample,
    "repeat_to": repeat_by_shape,
    "fill_with": fill_with,
}

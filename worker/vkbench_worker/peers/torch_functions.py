"""What torch does of the operations of table.py, each as its users would write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Tensor = Any


def functions(torch: Any) -> Mapping[str, Callable[..., object]]:
    """Operations by name; the last argument of each is the output."""
    return {**_unary(torch), **_rows(torch), **_products(torch), **_moves(torch)}


def _to(function: Callable[..., Tensor]) -> Callable[..., object]:
    """A function that takes its output by name."""

    def call(*given: Tensor) -> object:
        *inputs, out = given
        return function(*inputs, out=out)

    return call


def _copy_result_of(function: Callable[..., Tensor]) -> Callable[..., object]:
    """A function that makes its own result, which is copied."""

    def call(*given: Tensor) -> object:
        *inputs, out = given
        return out.copy_(function(*inputs))

    return call


def _unary(torch: Any) -> Mapping[str, Callable[..., object]]:
    native, near = torch._C._nn, torch.nn.functional
    return {
        "abs": _to(torch.abs),
        "neg": _to(torch.neg),
        "sign": _to(torch.sign),
        "relu": lambda x, out: torch.clamp_min(x, 0, out=out),
        "floor": _to(torch.floor),
        "ceil": _to(torch.ceil),
        "round": _to(torch.round),
        "trunc": _to(torch.trunc),
        "clamp": lambda low, high, x, out: torch.clamp(x, low, high, out=out),
        "sqr": _to(torch.square),
        "sqrt": _to(torch.sqrt),
        "exp": _to(torch.exp),
        "exp2": _to(torch.exp2),
        "expm1": _to(torch.expm1),
        "log": _to(torch.log),
        "log2": _to(torch.log2),
        "sin": _to(torch.sin),
        "cos": _to(torch.cos),
        "tanh": _to(torch.tanh),
        "sigmoid": _to(torch.sigmoid),
        "softplus": _copy_result_of(near.softplus),
        "powf": lambda exponent, x, out: torch.pow(x, exponent, out=out),
        "leaky_relu": lambda slope, x, out: native.leaky_relu(x, slope, out=out),
        "silu": _to(native.silu) if hasattr(native, "silu") else _copy_result_of(near.silu),
        "gelu": lambda x, out: native.gelu(x, approximate="tanh", out=out),
        "gelu_erf": lambda x, out: native.gelu(x, out=out),
        "elu": lambda alpha, x, out: out.copy_(near.elu(x, alpha)),
        "hardsigmoid": _to(native.hardsigmoid),
        "hardswish": _copy_result_of(near.hardswish),
        "add": _to(torch.add),
        "sub": _to(torch.sub),
        "mul": _to(torch.mul),
        "div": _to(torch.div),
        "minimum": _to(torch.minimum),
        "maximum": _to(torch.maximum),
    }


def _rows(torch: Any) -> Mapping[str, Callable[..., object]]:
    near = torch.nn.functional

    def wide(function: Callable[..., Tensor]) -> Callable[..., object]:
        return lambda axes, x, out: function(x, axes, keepdim=True, dtype=out.dtype, out=out)

    def extreme(function: Callable[..., Tensor]) -> Callable[..., object]:
        return lambda axes, x, out: function(x, axes, keepdim=True, out=out)

    def index(function: Callable[..., Tensor]) -> Callable[..., object]:
        return lambda axes, x, out: out.copy_(function(x, axes[0], keepdim=True))

    def softmax(scale: float, x: Tensor, out: Tensor) -> object:
        return torch.softmax(x if scale == 1 else x * scale, -1, out=out)

    def scale_and_shift(y: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        y = y if weights is None else y * weights
        return y if biases is None else y + biases

    def are_alike(x: Tensor, *given: Tensor) -> bool:
        return all(tensor is None or tensor.dtype == x.dtype for tensor in given)

    def rms_norm(eps: float, weights: Tensor, biases: Tensor, x: Tensor, out: Tensor) -> object:
        width = (x.shape[-1],)
        if are_alike(x, weights):
            y = near.rms_norm(x, width, weights, eps)
            return out.copy_(scale_and_shift(y, None, biases))
        return out.copy_(
            scale_and_shift(near.rms_norm(x.float(), width, None, eps), weights, biases)
        )

    def layer_norm(eps: float, weights: Tensor, biases: Tensor, x: Tensor, out: Tensor) -> object:
        width = (x.shape[-1],)
        if are_alike(x, weights, biases):
            return out.copy_(near.layer_norm(x, width, weights, biases, eps))
        return out.copy_(
            scale_and_shift(near.layer_norm(x.float(), width, None, None, eps), weights, biases)
        )

    def group_norm(
        groups: int, eps: float, weights: Tensor, biases: Tensor, x: Tensor, out: Tensor
    ) -> object:
        if are_alike(x, weights, biases):
            return out.copy_(near.group_norm(x, groups, weights, biases, eps))
        columns = [None if given is None else given[:, None, None] for given in (weights, biases)]
        return out.copy_(
            scale_and_shift(near.group_norm(x.float(), groups, None, None, eps), *columns)
        )

    return {
        "sum": wide(torch.sum),
        "mean": wide(torch.mean),
        "max": extreme(torch.amax),
        "min": extreme(torch.amin),
        "argmax": index(torch.argmax),
        "argmin": index(torch.argmin),
        "cumsum": lambda x, out: torch.cumsum(x, -1, dtype=out.dtype, out=out),
        "argsort": lambda descending, x, out: out.copy_(
            torch.argsort(x, dim=-1, descending=descending, stable=True)
        ),
        "softmax": softmax,
        "rms_norm": rms_norm,
        "layer_norm": layer_norm,
        "group_norm": group_norm,
    }


def _products(torch: Any) -> Mapping[str, Callable[..., object]]:
    near = torch.nn.functional

    def common(*factors: Tensor) -> Any:
        """The type that all factors are made to be of: the narrowest on a GPU, else the widest."""
        chosen = min if factors[0].is_cuda else max
        return chosen((factor.dtype for factor in factors), key=lambda kind: kind.itemsize)

    def matmul(a: Tensor, b: Tensor, out: Tensor) -> object:
        kind = common(a, b)
        a, b = a.to(kind), b.to(kind)
        if out.dtype == kind:
            return torch.matmul(a, b, out=out)
        if out.is_cuda and out.dtype == torch.float32:  # sums in singles, as they come
            product = torch.mm if out.dim() == 2 else torch.bmm
            return out.copy_(product(a, b, out_dtype=torch.float32))
        return out.copy_(torch.matmul(a, b))

    def conv2d(
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
        x: Tensor,
        weights: Tensor,
        out: Tensor,
    ) -> object:
        kind = common(x, weights)
        result = near.conv2d(x.to(kind), weights.to(kind), None, stride, padding, dilation)
        return out.copy_(result)

    def attention(
        scale: float, causal: bool, q: Tensor, k: Tensor, v: Tensor, out: Tensor
    ) -> object:
        kind = common(q, k, v)
        result = near.scaled_dot_product_attention(
            q.to(kind),
            k.to(kind),
            v.to(kind),
            is_causal=causal,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        return out.copy_(result)

    return {"matmul": matmul, "conv2d": conv2d, "attention": attention}


def _moves(torch: Any) -> Mapping[str, Callable[..., object]]:
    return {
        "get_rows": lambda table, ids, out: out.copy_(torch.index_select(table, 0, ids)),
        "copy": lambda x, out: out.copy_(x),
        "concat": lambda axis, a, b, out: torch.cat((a, b), axis, out=out),
    }

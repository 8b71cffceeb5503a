"""Rows of recurrences over tokens, and of optimisers' steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Final

from vkbench_shaders.kernel import Problem
from vkbench_worker.peers.library import Row, Views
from vkbench_worker.peers.llama_cpp.operations.arguments import numbers_of, view_if

_ADAM: Final = frozenset({"rate", "beta1", "beta2", "epsilon", "decay", "step"})


def _conv(problem: Problem, views: Views) -> tuple[object, ...]:
    is_silu = problem.params["activation"] == "silu"
    bias = view_if(problem, views, "bias")
    return views["x"], views["weights"], bias, is_silu, views["y"]


def _scan(problem: Problem, views: Views) -> tuple[object, ...]:
    names = ("state", "v", "dt", "a", "b", "c", "ids")
    return (*(views[name] for name in names), 1), views["y"], views["next_state"]


def _of_tokens(*names: str) -> Callable[[Problem, Views], tuple[object, ...]]:
    """Arguments of a recurrence that has the tokens of all sequences behind each other."""

    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        s, t, h, d = (problem.shape[dim] for dim in "sthd")
        tokens = tuple(
            views[name] if name == "first" else views[name].reshape(s * t, h, d) for name in names
        )
        state = views["state"].reshape(s, h * d * d)
        scale: tuple[float, ...] = ()
        if "scale" in problem.params:
            scale = (numbers_of(problem, "scale")[0] or 1 / sqrt(d),)
        return (*tokens, state, *scale), views["y"], views["next_state"]

    return arguments


def _delta(problem: Problem, views: Views) -> tuple[object, ...]:
    beta = views["beta"]
    names = ("q", "k", "v", "gate")
    inputs = (*(views[name] for name in names), beta.reshape(*beta.shape, 1), views["state"], 1)
    return inputs, views["y"], views["next_state"]


def _sgd(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], views["g"], numbers_of(problem, "rate", "decay"), views["next_x"]


def _adamw(problem: Problem, views: Views) -> tuple[object, ...]:
    rate, beta1, beta2, epsilon, decay = numbers_of(
        problem, "rate", "beta1", "beta2", "epsilon", "decay"
    )
    step = int(problem.params["step"])
    raised = (1 / (1 - beta1**step), 1 / (1 - beta2**step))
    old, new = (tuple(views[f"{which}{name}"] for name in "xmv") for which in ("", "next_"))
    return views["g"], old, (rate, beta1, beta2, epsilon, decay, *raised), new


ROWS: Final[Mapping[str, Row]] = {
    "ssm_conv": Row(
        function="conv_bias", arguments=_conv, params=frozenset({"bias", "activation"})
    ),
    "ssm_scan": Row(function="scan", arguments=_scan, params=frozenset({"decay"})),
    "rwkv_wkv6": Row(
        function="recur_rwkv_wkv6", arguments=_of_tokens("k", "v", "r", "first", "decay")
    ),
    "rwkv_wkv7": Row(
        function="recur_rwkv_wkv7", arguments=_of_tokens("r", "decay", "k", "v", "a", "b")
    ),
    "gated_linear_attn": Row(
        function="recur_gated_linear_attn",
        arguments=_of_tokens("k", "v", "q", "decay"),
        params=frozenset({"scale"}),
    ),
    "gated_delta_net": Row(
        function="recur_gated_delta_net", arguments=_delta, params=frozenset({"gate"})
    ),
    "sgd": Row(function="sgd", arguments=_sgd, params=frozenset({"rate", "decay"})),
    "adamw": Row(function="adamw", arguments=_adamw, params=_ADAM),
}

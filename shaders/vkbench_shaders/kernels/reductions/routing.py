"""Routing of tokens to experts: which ones a gate favours, and how much each of them counts.

Weights of a token whose logits are all -Inf are zeros, as softmax of a row that is hidden.

Experts may lie in groups of equal sizes. A token then has only experts of its best groups, those
whose two greatest scores have the greatest sums, whatever the gating, as llama.cpp has it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data, noise
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Param,
    Problem,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.reductions.sort import order_of
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, layout, list_cases
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.quantisers import quants

_THREADS = 256
_EACH = 4  # experts a thread, where a token has all threads
_LEAST_LANES = 4  # scores that are compared at once
_MOST_EXPERTS = _THREADS * _EACH
_GATINGS = (
    *("softmax", "softmax_late", "sigmoid", "sigmoid_biased"),
    *("sqrt_softplus", "sqrt_softplus_biased"),
)
_BIASED = ("sigmoid_biased", "sqrt_softplus_biased")


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    tokens, experts, used = problem.shape.values()
    lanes = min(_THREADS, max(_LEAST_LANES, power_of_two(experts)))
    groups = grid(-(-tokens * lanes // _THREADS))
    logits, bias, ids, weights = (problem.layout(b.name) for b in problem.kernel.bindings)
    push = {
        "tokens": tokens,
        "experts": experts,
        "used": used,
        "groups_x": groups[0],
        "logits_offset": logits.offset,
        "logits_stride": logits.strides[0],
        "bias_offset": bias.offset,
        "ids_offset": ids.offset,
        "ids_stride": ids.strides[0],
        "weights_offset": weights.offset,
        "weights_stride": weights.strides[0],
        "scale": float(problem.params["scale"]),
        "least_sum": float(problem.params["least_sum"]),
    }
    constants = {
        "LANES": lanes,
        "GATING": _GATINGS.index(str(problem.params["gating"])),
        "NORMALISED": problem.params["normalise"] == "selected",
        "GROUPS": int(problem.params["groups"]),
        "GROUPS_USED": int(problem.params["groups_used"]),
    }
    return Launch(groups=groups, push=push, constants=constants)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    experts, used = problem.shape["e"], problem.shape["k"]
    if experts > _MOST_EXPERTS or used > experts:
        return f"{used} of {experts} experts: at most all, of at most {_MOST_EXPERTS}"
    groups, groups_used = (int(problem.params[name]) for name in ("groups", "groups_used"))
    if groups > 1 and (experts % groups or 2 * groups > experts or groups > _THREADS):
        return f"{experts} experts in {groups} groups: at most {_THREADS}, alike, of two or more"
    if groups_used > groups or used > groups_used * (experts // groups):
        size = experts // groups
        return f"{used} experts of {groups_used} groups, of {groups} that have {size} each"
    if problem.params["least_sum"] and str(problem.params["gating"]).startswith("softmax"):
        return "least_sum is for gates that have a sum of their own, and softmax's is 1"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Any logits; under a bias some whose scores are so far apart that rounding changes no rank.

    So are sums of two of a group, of which no two are alike: each group has another part of a rank.
    """
    tokens, experts, _ = problem.shape.values()
    groups = int(problem.params["groups"])
    bits = noise.raw(problem.seed("bias"), 2 * experts).view("<u2")
    bias = (bits / 65536 - 0.5).astype(np.float32) / 8
    gating = str(problem.params["gating"])
    if gating not in _BIASED and groups == 1:
        return {"logits": data.plain_values(problem, "logits"), "bias": bias[:1]}  # not read
    keys = noise.raw(problem.seed("logits"), 4 * tokens * experts).view("<u4")
    ranks = keys.reshape(tokens, experts).argsort(axis=1).argsort(axis=1)
    part = np.arange(experts) // (experts // groups) / (4 * groups)
    bias = bias if gating in _BIASED else np.zeros(1, np.float32)
    gates = 0.2 + 0.6 * (ranks + 0.5 + part) / experts - bias
    if gating.startswith("softmax"):
        odds = gates
    else:
        odds = gates / (1 - gates) if gating.startswith("sigmoid") else np.expm1(gates**2)
    return {"logits": quants.quantise(problem.types["logits"], np.log(odds)), "bias": bias}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    logits = (inputs["logits"] if rows is None else inputs["logits"][rows]).astype(np.float64)
    gating, used = str(problem.params["gating"]), problem.shape["k"]
    with np.errstate(over="ignore"):
        if gating.startswith("softmax"):
            most = logits.max(axis=1, keepdims=True)
            gates = np.exp(logits - np.where(np.isneginf(most), 0, most))
        elif gating.startswith("sigmoid"):
            gates = 1 / (1 + np.exp(-logits))
        else:
            gates = np.sqrt(np.logaddexp(0, logits))
    scores = gates + inputs["bias"] if gating in _BIASED else logits
    if (groups := int(problem.params["groups"])) > 1:
        sums_of = scores if gating in _BIASED else gates  # the order of logits is theirs
        scores = _hide_groups(sums_of, groups, int(problem.params["groups_used"]))
    ids = order_of(scores, descending=True)[:, :used]
    weights = np.take_along_axis(gates, ids, axis=1)
    is_normalised = problem.params["normalise"] == "selected"
    if gating == "softmax_late" or is_normalised:
        total = weights.sum(axis=1, keepdims=True)
    else:
        total = gates.sum(axis=1, keepdims=True) if gating == "softmax" else np.float64(1)
    if is_normalised:
        total = np.where(total < problem.params["least_sum"], problem.params["least_sum"], total)
    weights /= np.where(total == 0, 1, total)
    return {"ids": ids.astype(np.int32), "weights": weights * float(problem.params["scale"])}


def _hide_groups(scores: Array, groups: int, groups_used: int) -> Array:
    """Scores of experts, -Inf outside of the groups whose two best have the greatest sums."""
    by_group = scores.reshape(len(scores), groups, -1)
    sums = np.sort(by_group)[:, :, -2:].sum(axis=2)
    best = order_of(sums, descending=True)[:, :groups_used]
    hidden = np.ones_like(sums, bool)
    np.put_along_axis(hidden, best, False, axis=1)
    return np.where(hidden[:, :, None], -np.inf, by_group).reshape(scores.shape)


_ALL: tuple[tuple[int, int, int], ...] = ((1, 1, 1), (131, 8, 2), (17, 31, 5), (5, 288, 6))
_MORE = ((3, 32, 4), (2, 40, 40), (6, 71, 8), (3, 128, 128), (2, 129, 8), (2, 256, 160))
_PARAMS: tuple[dict[str, str | float], ...] = (
    {},
    {"normalise": "selected"},
    {"gating": "softmax_late"},
    {"gating": "sigmoid", "normalise": "selected"},
    {"gating": "sigmoid_biased", "scale": 2.5},
    {"gating": "sigmoid_biased", "normalise": "selected"},
    {"gating": "sqrt_softplus"},
    {"gating": "sqrt_softplus_biased", "normalise": "selected", "scale": 1.5},
)
_GROUPED: tuple[dict[str, str | float], ...] = (
    {
        "gating": "sigmoid_biased",
        "normalise": "selected",
        "scale": 2.5,
        "groups": 8,
        "groups_used": 4,
    },
    {"gating": "sigmoid_biased", "groups": 2},
    {"gating": "sigmoid", "normalise": "selected", "groups": 4, "groups_used": 3},
    {"groups": 8, "groups_used": 3, "scale": 16.0},
    {"gating": "softmax_late", "groups": 2},
    {"gating": "sqrt_softplus", "groups": 4, "groups_used": 2},
)
_IN_GROUPS = ((1, 16, 2), (131, 32, 5), (5, 256, 8), (2, 1008, 9))
_TIMED: tuple[tuple[tuple[int, int, int], dict[str, str | float]], ...] = (
    ((1, 128, 8), {"normalise": "selected"}),
    ((512, 128, 8), {"normalise": "selected"}),
    ((4096, 128, 8), {"normalise": "selected"}),
    ((512, 32, 4), {"gating": "softmax_late"}),
    ((512, 256, 8), {"gating": "sigmoid_biased", "normalise": "selected", "scale": 2.5}),
    ((512, 256, 6), {"gating": "sqrt_softplus_biased", "normalise": "selected", "scale": 1.5}),
    ((512, 256, 8), _GROUPED[0]),
)


def _case(fmt: str, sizes: tuple[int, ...], params: dict[str, str | float]) -> Case:
    shape: dict[str, int] = dict(zip("nek", sizes, strict=True))
    return Case(kernel="top_k_moe", format=fmt, shape=shape, params=params)


def _cases() -> Iterator[Case]:
    for params in _PARAMS:
        yield from (_case("f32", sizes, params) for sizes in _ALL)
    for number, sizes in enumerate(_MORE):
        yield _case("f32", sizes, _PARAMS[number])
    yield from (_case("f16", (5, 71, 8), params) for params in _PARAMS)
    for params in _GROUPED:
        yield from (_case("f32", sizes, params) for sizes in _IN_GROUPS)
        yield _case("f16", (3, 64, 6), params)
    params = {"gating": "sigmoid", "normalise": "selected", "least_sum": 4.0}
    yield _case("f32", (17, 31, 5), params)
    for fmt in ("f32", "f16"):
        yield from list_cases("top_k_moe", fmt, {}, "nek", [(9, 61, 7)], "strided")


TOP_K_MOE = Kernel(
    name="top_k_moe",
    group="routing",
    description="The k experts that a gate favours for each token, and their weights.",
    dims=("n", "e", "k"),
    forms=Forms(empty=("n",), layout=layout),
    bindings=(
        declare_input("logits", ("f32", "f16"), ("n", "e"), "what a router says of each expert"),
        declare_input(
            "bias",
            ("f32",),
            ("e",),
            "added to what experts are chosen by",
            when={"gating": _BIASED},
        ),
        declare_output(
            "ids",
            ("i32",),
            ("n", "k"),
            "experts, the favourite first; of equal ones the lower number",
            exact=True,
        ),
        declare_output("weights", ("f32",), ("n", "k"), "how much each counts"),
    ),
    params={
        "gating": Param(
            default="softmax",
            choices=_GATINGS,
            description="of logits: softmax over all experts or over those chosen, sigmoid, or "
            "the square root of softplus, log(1 + e^x)",
        ),
        "normalise": Param(
            default="none",
            choices=("none", "selected"),
            description="whether weights are divided by their sum",
        ),
        "least_sum": Param(
            default=0.0, least=0, description="what weights are divided by where their sum is less"
        ),
        "scale": Param(default=1.0, description="factor of the weights"),
        "groups": Param(default=1, least=1, description="of experts, of equal sizes"),
        "groups_used": Param(
            default=1,
            least=1,
            description="groups that a token's experts are of: those whose two best have the "
            "greatest sums",
        ),
        "layout": LAYOUT,
    },
    variants=(
        portable(
            "top_k_moe", launch, "f32", arguments=lambda types: (types["logits"],), refuses=refuses
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference, rows="n"),
    work=Work(flops=lambda problem: 4 * problem.shape["n"] * problem.shape["e"]),
    cases=CaseList(_cases),
    timed=CaseList(lambda: (_case("f32", sizes, params) for sizes, params in _TIMED)),
)

ROUTING = (TOP_K_MOE,)

"""flash_attn_token: attention of each sequence's new token, whose key and value the caches get.

A model that makes one token at a time would launch three kernels before attention: to turn the
token's queries, to turn its key into the cache, and to copy its value there. Each takes 3 to 5 us
on a large GPU whatever it does, so this kernel does it all. Cosines and sines come from `rope`,
once a token: it turns pairs (1, 0) by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.kernel import (
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Variant,
    Work,
    too_large,
)
from vkbench_shaders.kernels.attention import caches
from vkbench_shaders.kernels.attention.flash_plan import EIGHT
from vkbench_shaders.kernels.attention.token_reference import (
    DIMS,
    MODES,
    WEIGHTS,
    inputs,
    is_gated,
    reference,
    turned_numbers,
)
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.launch import power_of_two

CACHES = ("f16", "bf16", "f32")
MOST_POSITIONS = 512  # of one workgroup: more are faster shared among several
_THREADS = 512
_PORTABLE_THREADS = 128
MOST_SIZE = 256  # of a head
_MOST_EACH = 4  # eights of a head that a lane has
_MOST_SCORES = 4096  # without subgroups
_KEPT = 3  # heads that are kept without subgroups: a query, a key and a value
_ROUNDING = 8192  # bytes of shared memory where results are rounded
_SMALL = 1024  # of them beside what grows with a case


def layout(problem: Problem, binding: str) -> Layout:
    """Queries are twice as long where each has gates behind it."""
    shape = problem.full_shape(binding)
    if binding == "q" and is_gated(problem):
        shape = (*shape[:-1], 2 * shape[-1])
    return Layout.contiguous(shape)


def _eights(problem: Problem) -> int:
    return problem.shape["d"] // EIGHT


def _lanes(problem: Problem, device: DeviceFacts) -> int:
    """Threads that share a position: one for each eight, as far as a subgroup has them."""
    return min(power_of_two(_eights(problem)), device.subgroup_size)


def _lane_eights(problem: Problem, device: DeviceFacts) -> int:
    """Eights of a head that a lane has."""
    return ceil(_eights(problem) / _lanes(problem, device))


def _threads(device: DeviceFacts) -> int:
    return min(_THREADS, device.limits.get("max_workgroup_invocations", 0))


def _launch(problem: Problem, threads: int, constants: Mapping[str, int]) -> Launch:
    shape, dims = problem.shape, turned_numbers(problem)
    neighbours = problem.params["mode"] == MODES[0]
    return Launch(
        groups=(shape["h"], shape["s"], 1),
        push={
            "heads": shape["h"],
            "groups": shape["g"],
            "length": shape["n"],
            "eights": _eights(problem),
            "turned": dims // EIGHT,
            "apart": 0 if neighbours else dims // EIGHT // 2,
            "scale": caches.scale(problem),
            "cap": float(problem.params["softcap"]),
            "eps": float(problem.params["eps"]) + 0.0,  # never -0
        },
        constants={
            "THREADS": threads,
            "NORMED": problem.params["norm"] == "rms",
            "GATED": is_gated(problem),
            **constants,
        },
    )


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    """A workgroup for each head."""
    lanes, count = _lanes(problem, device), _lane_eights(problem, device)
    threads = _threads(device) // power_of_two(count)
    pool = threads // lanes * _eights(problem) * 2
    return _launch(problem, threads, {"LANES": lanes, "EACH": count, "POOL": pool})


def _launch_portable(problem: Problem, device: DeviceFacts) -> Launch:
    constants = {"POOL": _KEPT * _eights(problem) * 2, "POSITIONS": problem.shape["n"]}
    return _launch(problem, min(_PORTABLE_THREADS, _threads(device)), constants)


def _too_much_shared(launch: Launch, problem: Problem, device: DeviceFacts) -> str | None:
    """Why a launch's shared memory is too large for a device, or None."""
    sizes = launch.constants
    needed = 16 * sizes["POOL"] + 4 * sizes.get("POSITIONS", 0) + 4 * sizes["THREADS"] + _SMALL
    needed += _ROUNDING if problem.types["y"] != "f32" else 0
    return limits.too_much_shared(needed, device.limits.get("max_shared_bytes", 0))


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why lanes cannot share a position, or None."""
    if reason := _refuses(problem, device):
        return reason
    if device.subgroup_size < 4 or _lane_eights(problem, device) > _MOST_EACH:
        return (
            f"heads of {problem.shape['d']} numbers are too wide for {device.subgroup_size} lanes"
        )
    return _too_much_shared(launch(problem, device), problem, device)


def _refuses_portable(problem: Problem, device: DeviceFacts) -> str | None:
    if problem.shape["n"] > _MOST_SCORES:
        return f"{problem.shape['n']} scores; the kernel has room for {_MOST_SCORES}"
    reason = _refuses(problem, device)
    return reason or _too_much_shared(_launch_portable(problem, device), problem, device)


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    shape = problem.shape
    if shape["h"] % shape["g"]:
        return f"{shape['h']} heads cannot share {shape['g']} evenly"
    if reason := uneven(shape["d"], turned_numbers(problem), str(problem.params["mode"])):
        return reason
    return too_large(problem, device)


def uneven(size: int, dims: int, mode: str) -> str | None:
    """Why threads cannot have whole eights of heads and of what is turned of them, or None."""
    step = EIGHT if mode == MODES[0] else 2 * EIGHT
    if size % EIGHT or dims % step or dims > size:
        return f"heads of {size} numbers, {dims} of them turned: not whole steps of {step}"
    if size > MOST_SIZE:
        return f"heads of {size} numbers; the kernel has room for {MOST_SIZE}"
    return None


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the caches (s, n, g, d) and the queries (s, h, d)."""
    if len(shapes["k"]) != 4 or len(shapes["q"]) != 3:
        raise UsageError("k has four dimensions (s, n, g, d), q has three (s, h, d)")
    s, n, g, d = shapes["k"]
    return {"s": s, "h": shapes["q"][1], "g": g, "n": n, "d": d}


def bytes_moved(problem: Problem) -> int:
    """Caches are read, and rows of them written."""
    s, _, g, n, d = (problem.shape[dim] for dim in DIMS)
    cached = 2 * s * (n + 1) * g * d * problem.item_bytes("k")
    weights = WEIGHTS if problem.params["norm"] == "rms" else ()
    others = ("q", "new_k", "new_v", "turns", "ids", "mask", "y", *weights)
    return cached + sum(prod(problem.array_shape(b)) * problem.item_bytes(b) for b in others)


def flops(problem: Problem) -> int:
    """Of both products, hidden positions included."""
    return 4 * prod(problem.shape[dim] for dim in ("s", "h", "n", "d"))


def _weights(name: str, of: str) -> Binding:
    return declare_input(
        name, ("f32",), ("d",), f"what normalised {of} are multiplied by", when={"norm": ("rms",)}
    )


def _array(name: str, dims: tuple[str, ...], description: str, fmt: str = "f32") -> Binding:
    return Binding(name=name, access="in", types=(fmt,), dims=dims, description=description)


def _cache(name: str, description: str, same_as: str = "") -> Binding:
    return Binding(
        name=name,
        access="inout",
        types=CACHES,
        dims=("s", "n", "g", "d"),
        same_as=same_as,
        description=description,
    )


def _variant(name: str, requires: tuple[str, ...]) -> Variant:
    portable = name == "portable"
    return Variant(
        name=name,
        module="flash_token_portable" if portable else "flash_token",
        entry="flash_token_portable" if portable else "flash_token",
        arguments=lambda types: (types["k"], "numbers" if types["y"] == "f32" else "rounded"),
        launch=_launch_portable if portable else launch,
        refuses=_refuses_portable if portable else refuses,
        requires=requires,
        arithmetic="f32",
    )


_SHAPES = (
    "s1_h1_g1_n1_d8",
    "s1_h4_g2_n33_d64",
    "s2_h6_g2_n113_d96/mode=neox",
    "s1_h8_g2_n300_d128",
    "s3_h4_g4_n70_d80/mode=neox,n_dims=32,softcap=20.0",
    "s1_h5_g1_n130_d256/mode=neox,scale=0.0625",
    "s1_h2_g1_n40_d72/n_dims=24",
    "s2_h4_g2_n50_d72/eps=0.01,norm=rms",
    "s2_h2_g1_n30_d128/gated=yes",
    "s1_h6_g3_n90_d256/gated=yes,mode=neox,n_dims=64,norm=rms",
)
_ROUNDED = (
    "s1_h32_g8_n128_d128",
    "s1_h8_g4_n257_d256/mode=neox,softcap=50.0",
    "s1_h16_g4_n128_d256/gated=yes,mode=neox,n_dims=64,norm=rms",
    "s2_h4_g2_n64_d64/gated=yes,mode=neox,norm=rms",
    "s1_h3_g1_n600_d96/n_dims=64",
)
_TIMED = tuple(
    f"s1_h32_g8_n{n}_d{d}" for d, lengths in ((128, (128, 512)), (64, (128,))) for n in lengths
)

FLASH_ATTN_TOKEN = Kernel(
    name="flash_attn_token",
    description=(
        "Turns a new token's query and key, puts its key and value into the caches, and attends "
        "to these: one step of a model."
    ),
    group="attention",
    dims=DIMS,
    bindings=(
        _cache("k", "keys of each position, all heads in a row; the new ones are written"),
        _cache("v", "values, in the format of the keys; the new ones are written", "k"),
        _array(
            "q",
            ("s", "h", "d"),
            "queries, each before its gates if gated; neighbours share keys and values",
        ),
        _array("new_k", ("s", "g", "d"), "keys of the new tokens, not turned"),
        _array("new_v", ("s", "g", "d"), "values of the new tokens"),
        _array("turns", ("s", "d"), "what rope makes of pairs (1, 0) at the new positions"),
        _array("ids", ("s",), "rows of the caches that the new keys and values become", "i32"),
        _array("mask", ("n",), "what is added to scores; -Inf hides a position", "f16"),
        Binding(
            name="y",
            access="out",
            types=("f32", "q8_1"),
            dims=("s", "h", "d"),
            description="results, or rounded to bytes; 0 where nothing is seen",
        ),
        _weights(WEIGHTS[0], "queries"),
        _weights(WEIGHTS[1], "keys"),
    ),
    params={
        "mode": Param(default="norm", choices=MODES, description="how pairs lie, as of rope"),
        "n_dims": Param(default=0, least=0, description="numbers that are turned; 0: all"),
        "scale": Param(default=0.0, description="factor of the scores; 0: 1 / sqrt(d)"),
        "softcap": Param(
            default=0.0, description="scores s become softcap * tanh(s / softcap); 0: they stay"
        ),
        "norm": Param(
            default="none",
            choices=("none", "rms"),
            description="whether queries and keys are over their root mean square before",
        ),
        "eps": Param(default=1e-6, least=0, description="what keeps heads of 0 finite"),
        "gated": Param(
            default="no",
            choices=("no", "yes"),
            description="whether results are multiplied by the sigmoid of gates",
        ),
    },
    variants=(_variant("subgroup", ("subgroup_shuffle",)), _variant("portable", ())),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=flops, bytes_moved=bytes_moved),
    forms=Forms(infer=infer, layout=layout),
    cases=CaseList(
        lambda: (
            parse(f"flash_attn_token/{fmt}/{shape}")
            for kinds, shapes in (
                (CACHES, _SHAPES),
                (tuple(f"{fmt}:y=q8_1" for fmt in CACHES), _ROUNDED),
            )
            for fmt in kinds
            for shape in shapes
        )
    ),
    timed=CaseList(lambda: (parse(f"flash_attn_token/f16:y=q8_1/{shape}") for shape in _TIMED)),
)

"""flash_attn, sdpa: softmax(scale q k^T + mask) v for each head of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vkbench.case import Case, parse
from vkbench.errors import UsageError
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    Binding,
    Check,
    Forms,
    Kernel,
    Memory,
    Param,
    Problem,
    Shapes,
    Stage,
    Tuning,
    Variant,
    Work,
)
from vkbench_shaders.kernels.attention import caches, flash, flash_coop, flash_plan, unfused

CACHES = ("f16", "bf16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")
ROUNDED = ("f16", "bf16", "q8_0", "q4_0")  # of caches with which results may be rounded to bytes
_MIXED = {  # of keys: other formats of values; keys bear fewer bits less well
    "f16": ("q8_0", "q5_1", "q4_0"),
    "q8_0": ("f16", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"),
    "q5_1": ("q4_1", "q4_0"),
    "q5_0": ("q4_0",),
    "q4_0": ("f16", "q8_0"),
}
PAIRS = (
    *((keys, values) for keys, others in _MIXED.items() for values in others),
    *(("f16", "bf16"), ("bf16", "f16"), ("bf16", "q8_0"), ("bf16", "q4_0"), ("q8_0", "bf16")),
)
DIMS = ("s", "h", "g", "q", "n", "d", "e")


def flops(problem: Problem) -> int:
    """Of both products, hidden positions included."""
    s, h, _, q, n, d, e = (problem.shape[dim] for dim in DIMS)
    return 2 * (d + e) * s * h * q * n


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from queries, keys and values; keys and values have blocks."""
    for name in "qkv":
        if len(shapes[name]) != 4:
            raise UsageError(f"{name} has four dimensions, got {len(shapes[name])}")
    (s, h, q, _), (_, g, n, keys), (*_, values) = (shapes[name] for name in "qkv")
    d, e = (_numbers(types[name], size) for name, size in (("k", keys), ("v", values)))
    return {"s": s, "h": h, "g": g, "q": q, "n": n, "d": d, "e": e}


def _numbers(name: str, items: int) -> int:
    """How many numbers of a format so many items of its arrays hold."""
    fmt = format_named(name)
    return items * fmt.dtype.itemsize * fmt.elements // fmt.bytes


def _accepts(types: Mapping[str, str]) -> bool:
    """Values as the keys, or in one of few other formats; results may be bytes with some alone."""
    keys, values = types["k"], types["v"]
    if keys != values:
        return types["y"] == "f32" and (keys, values) in PAIRS
    return types["y"] == "f32" or keys in ROUNDED


_SPREAD = Stage(
    module="flash_spread",
    entry="flash_spread",
    arguments=lambda types: (types["k"], types["v"]),
)


def _result(types: Mapping[str, str]) -> tuple[str, ...]:
    """The Slang type by which `flash_combine` stores y."""
    return ("numbers" if types["y"] == "f32" else "rounded",)


def _variant(name: str, lanes: str, requires: tuple[str, ...]) -> Variant:
    return Variant(
        name=name,
        module="flash_split",
        entry="flash_split",
        arguments=lambda types: (types["k"], types["v"], lanes, *_result(types)),
        more=(
            _SPREAD,
            *(Stage(module="flash_tiles", entry=entry) for entry in flash_plan.ENTRIES),
            Stage(module="flash_combine", entry="flash_combine", arguments=_result),
        ),
        launch=flash.launch,
        own=Memory(scratch=flash.scratch),
        arithmetic="f32",
        requires=requires,
        refuses=flash.refuses,
    )


_BINDINGS = (
    Binding(
        name="k",
        access="in",
        types=CACHES,
        dims=("s", "g", "n", "d"),
        description="keys of each head, a position a row",
    ),
    Binding(
        name="v",
        access="in",
        types=CACHES,
        dims=("s", "g", "n", "e"),
        follows="k",
        description="values, maybe shorter, in the format of the keys or in another one",
    ),
    Binding(
        name="q",
        access="in",
        types=("f32",),
        dims=("s", "h", "q", "d"),
        description="queries; heads beside each other share keys and values",
    ),
    Binding(
        name="mask",
        access="in",
        types=("f16",),
        dims=("q", "n"),
        description="what is added to scores, for all heads; -Inf hides a position",
        when={"mask": ("causal", "blocks")},
    ),
    Binding(
        name="sinks",
        access="in",
        types=("f32",),
        dims=("h",),
        description="a score of each head that has no value",
        when={"sinks": ("yes",)},
    ),
    Binding(
        name="y",
        access="out",
        types=("f32", "q8_1"),
        dims=("s", "h", "q", "e"),
        description="results, or rounded to bytes; 0 where a query sees nothing",
    ),
)

_PARAMS = {
    "scale": Param(default=0.0, description="factor of the scores; 0: 1 / sqrt(d)"),
    "mask": Param(
        default="none",
        choices=("none", "causal", "blocks"),
        description="whether there is a mask: causal, or with hidden blocks and whole rows too",
    ),
    "sinks": Param(default="no", choices=("no", "yes"), description="whether there are sinks"),
    "softcap": Param(
        default=0.0, description="scores s become softcap * tanh(s / softcap); 0: they stay"
    ),
    "max_bias": Param(
        default=0.0, description="of ALiBi, whose slopes multiply the mask; 0: 1 for all heads"
    ),
    "layout": Param(
        default="contiguous",
        choices=("contiguous", "strided", "cache"),
        description="how rows lie: by head, with gaps, or beside those of the other heads",
    ),
}

_PATH = Param(
    default="auto",
    choices=("auto", "split", "joined", "short", "tiles"),
    description="partitions of the positions for few queries, joined by a second launch (split) or "
    "by the last of them (joined); workgroups that share values, for few positions too (short); "
    "tiles for many queries; auto: what is faster",
)

# formats of all kinds: heads of a multiple of 32 numbers
_SHAPES = (
    "s1_h8_g2_q1_n1537_d64_e64/layout=cache,mask=causal",
    "s2_h6_g2_q3_n113_d128_e96/layout=strided,mask=blocks,sinks=yes",
    "s1_h4_g1_q75_n129_d64_e128/mask=causal",
    "s1_h2_g2_q70_n65_d96_e64/layout=strided",
)
_TOKEN = "s1_h8_g2_q1_n96_d128_e128/layout=cache,mask=blocks"  # of a model's token
# formats of numbers: any head
_RAGGED = (
    "s1_h1_g1_q1_n1_d1_e1",
    "s1_h3_g3_q2_n33_d40_e40/softcap=30.0",
    "s1_h4_g4_q5_n67_d13_e7/layout=strided,mask=blocks,max_bias=8.0",
    "s1_h2_g2_q65_n71_d37_e65/layout=strided,mask=blocks,softcap=10.0",
)
_MORE = {
    "f16": (
        "s1_h4_g4_q1_n1025_d72_e72/mask=blocks",
        "s1_h32_g1_q1_n96_d80_e80/mask=causal,max_bias=8.0,sinks=yes",
        "s1_h12_g1_q8_n256_d112_e112/mask=blocks,path=split",
        "s1_h12_g1_q8_n120_d64_e64/mask=blocks,path=short",
        "s1_h12_g1_q8_n300_d64_e64/mask=blocks,path=joined",
        "s2_h8_g2_q3_n700_d128_e96/layout=strided,mask=blocks,path=joined,sinks=yes",
        "s1_h32_g2_q1_n1000_d256_e256/mask=causal",
        "s1_h20_g1_q1_n130_d576_e512/mask=causal",
        "s1_h2_g1_q3_n700_d16_e1032/mask=blocks",
        "s1_h10_g2_q32_n97_d192_e192/mask=blocks,max_bias=8.0,sinks=yes",
        "s1_h4_g4_q66_n200_d72_e72/mask=causal,softcap=30.0",
        "s1_h1_g1_q80_n1024_d40_e40/mask=causal,layout=cache",
        "s1_h16_g1_q4_n70_d576_e512/layout=cache,mask=causal",
        "s1_h16_g1_q5_n528_d576_e512/mask=blocks",
        "s1_h16_g1_q1_n130_d320_e256/layout=cache,mask=causal",
        "s1_h4_g2_q40_n65_d320_e256/mask=blocks",
        "s3_h2_g1_q33_n65_d80_e80/mask=blocks,path=tiles",
        "s1_h2_g2_q9_n3_d256_e256/mask=causal,scale=0.5",
        "s2_h2_g2_q40_n320_d128_e128",
        "s1_h4_g2_q37_n64_d64_e64/layout=cache",
        "s2_h4_g2_q256_n192_d64_e64",
        "s1_h2_g1_q256_n128_d128_e128",
        "s1_h2_g2_q128_n48_d256_e256/scale=0.25",
        "s2_h4_g2_q256_n192_d64_e64/mask=blocks,max_bias=8.0",
        "s1_h4_g4_q256_n256_d64_e64/mask=causal,softcap=10.0",
        "s1_h2_g1_q256_n256_d128_e128/mask=causal",
        "s1_h2_g1_q70_n130_d128_e128/mask=causal",
        "s1_h2_g1_q128_n128_d128_e128/softcap=10.0",
        "s1_h2_g1_q128_n64_d256_e256/mask=blocks",
    ),
    "q8_0": (
        "s1_h16_g1_q1_n300_d256_e256/mask=causal",
        "s1_h16_g1_q5_n130_d256_e256/mask=blocks,sinks=yes",
        "s1_h16_g1_q5_n530_d256_e256/mask=blocks,sinks=yes",
        "s1_h4_g2_q256_n192_d64_e64/mask=causal",
        "s1_h6_g1_q1_n65_d576_e512/layout=strided,mask=causal",
        "s1_h6_g1_q3_n65_d320_e256/layout=strided,mask=causal",
    ),
    "q4_0": (
        "s1_h8_g1_q1_n1000_d64_e64/mask=blocks,softcap=10.0",
        "s1_h8_g1_q1_n1000_d64_e64/path=joined,softcap=10.0",
    ),
}
# keys without blocks, whose rows may begin anywhere, beside values in blocks, and the reverse
_UNLIKE = {
    ("f16", "q8_0"): ("s2_h4_g2_q3_n37_d13_e96/layout=strided,mask=blocks",),
    ("q8_0", "f16"): (
        "s2_h4_g2_q3_n37_d64_e7/layout=strided,mask=blocks",
        "s1_h2_g2_q65_n71_d32_e65/layout=strided,mask=blocks",
    ),
    ("q8_0", "q4_0"): (
        "s1_h8_g2_q1_n96_d128_e128/layout=cache,mask=causal,max_bias=8.0,sinks=yes",
    ),
}


def _list_cases(kernel: str) -> Iterator[Case]:
    for fmt in CACHES:
        plain = not format_named(fmt).quantised
        for shape in (*(_RAGGED if plain else ()), *_SHAPES, *_MORE.get(fmt, ())):
            yield parse(f"{kernel}/{fmt}/{shape}")
    for number, (keys, values) in enumerate(PAIRS):
        shapes = (_SHAPES[number % len(_SHAPES)], *_UNLIKE.get((keys, values), ()))
        yield from (parse(f"{kernel}/{keys}:v={values}/{shape}") for shape in shapes)
    for fmt in ROUNDED:
        yield from (parse(f"{kernel}/{fmt}:y=q8_1/{shape}") for shape in (_TOKEN, *_SHAPES))


def _timed_as(fmt: str, h: int, g: int, q: int, n: int, d: int, mask: bool = True) -> Case:
    shape = dict(zip(DIMS, (1, h, g, q, n, d, d), strict=True))
    params = {"mask": "causal"} if mask else {}
    return Case(kernel="flash_attn", format=fmt, shape=shape, params=params)


_TIMED = (
    _timed_as("f16", 16, 16, 5776, 5776, 72, mask=False),
    *(
        _timed_as(fmt, 64, 8, q, 7680, 64)
        for fmt, q in (
            *(("f16", 1), ("f16", 4)),
            *((fmt, q) for fmt in ("q4_0", "q8_0") for q in (1, 512)),
        )
    ),
    *(_timed_as("q8_0", 32, 2, 1, n, 256) for n in (128, 512, 1024, 2048, 4096, 10000, 20000)),
    *(_timed_as("f16", 32, 2, 1, n, 256) for n in (10000, 20000)),
    *(_timed_as(fmt, 32, 2, 512, n, 256) for fmt in ("q8_0", "f16") for n in (10000, 20000)),
    *(
        _timed_as("f16", 8 * ratio, 8, 1, n, d)
        for n in (4096, 8192, 16384)
        for d in (64, 128)
        for ratio in (1, 4)
    ),
    *(_timed_as(fmt, 32, 8, 512, 4096, 128) for fmt in ("f16", "q8_0")),
    _timed_as("f16", 32, 32, 4096, 4096, 128, mask=False),
)

_PART = Param(
    default=0,
    description="positions that a workgroup of few queries takes; 0: what is faster, "
    "for path=short all of them",
)

FLASH_ATTN = Kernel(
    name="flash_attn",
    description="Attention without its scores in memory: y = softmax(scale q k^T + mask) v.",
    group="attention",
    dims=DIMS,
    bindings=_BINDINGS,
    params={**_PARAMS, "path": _PATH, "part": _PART},
    tuning=Tuning(params=("path", "part"), candidates=flash_plan.candidates),
    forms=Forms(
        layout=flash.layout,
        infer=infer,
        empty=("s", "q", "n"),
        accepts=_accepts,
    ),
    variants=(
        flash_coop.VARIANT,
        _variant("subgroup", "together", ("subgroup_shuffle",)),
        _variant("portable", "alone", ()),
    ),
    inputs=caches.inputs,
    check=Check(reference=caches.reference, deviations=caches.deviations, rows="q"),
    work=Work(flops=flops),
    cases=CaseList(lambda: _list_cases("flash_attn")),
    timed=_TIMED,
)

_UNFUSED = (
    "s1_h1_g1_q1_n1_d1_e1",
    "s2_h6_g2_q3_n113_d40_e72/layout=strided,mask=blocks,sinks=yes",
    "s1_h4_g4_q65_n67_d13_e7/layout=strided,mask=blocks,max_bias=8.0",
    "s1_h8_g2_q20_n130_d128_e128/layout=cache,mask=causal",
    "s1_h2_g1_q70_n64_d80_e256/softcap=10.0",
    "s1_h3_g1_q5_n300_d576_e512/mask=causal,scale=0.03125",
)

SDPA = replace(
    FLASH_ATTN,
    name="sdpa",
    description="Attention with its scores in memory: their softmax in place, then times values.",
    bindings=tuple(
        replace(b, types=("f32", "f16"), same_as=b.follows, follows="")
        if b.name in "kv"
        else replace(b, types=b.types[:1])
        for b in _BINDINGS
    ),
    params=_PARAMS,
    tuning=None,
    variants=(
        Variant(
            name="portable",
            module="sdpa",
            entry="sdpa_scores",
            arguments=lambda types: (),
            more=(
                _SPREAD,
                Stage(module="sdpa_weights", entry="sdpa_weights"),
                Stage(entry="sdpa_values"),
            ),
            launch=unfused.launch,
            own=Memory(scratch=unfused.scratch),
            arithmetic="f32",
            refuses=unfused.refuses,
        ),
    ),
    cases=tuple(parse(f"sdpa/{fmt}/{shape}") for fmt in ("f32", "f16") for shape in _UNFUSED),
    timed=tuple(
        parse(f"sdpa/{fmt}/{shape}")
        for fmt in ("f32", "f16")
        for shape in (
            "s1_h32_g32_q1024_n1024_d128_e128",
            "s1_h32_g8_q512_n4096_d128_e128/mask=causal",
            "s1_h8_g8_q4096_n4096_d64_e64",
        )
    ),
)

ATTENTION = (FLASH_ATTN, SDPA)

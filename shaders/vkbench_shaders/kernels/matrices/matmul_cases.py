"""Cases of matmul and out_prod: what is checked, and what is timed."""

from __future__ import annotations

from collections.abc import Iterator

from vkbench.case import parse
from vkbench_shaders.kernels.shared import dense
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles

_PAIRS = ("f16", "f16:b=f16", "f16:b=f16:y=f16", "bf16", "bf16:b=bf16", "bf16:b=bf16:y=bf16")
_SHAPES = (
    "b1_m1_n1_k1",
    "b2_m13_n9_k3",
    "b1_m128_n128_k128",
    "b3_m37_n70_k300",
    "b1_m65_n68_k40",
    "b2_m33_n31_k67/repeat_a=2",
    "b4_m12_n40_k16/repeat_b=4",
    "b6_m9_n20_k24/repeat_a=3,repeat_b=2",
    "b1_m9_n10_k0",
    "b1_m0_n10_k5",
    "b2_m9_n11_k1",
    "b1_m40_n36_k520/split=3",
    "b2_m17_n33_k100/split=2",
    "b1_m33_n37_k3100/split=1,tile=32x32_4x4",
    "b1_m32_n36_k2600/split=2,tile=32x32_4x4",
)
_LAYOUTS = ("strided", "permuted", "transposed_a", "transposed_b", "transposed")
_LAID = ("b3_m21_n27_k19", "b2_m36_n44_k20")
_VECTORS = (
    "b1_m1_n7_k1000/layout=transposed_b",
    "b1_m300_n1_k64",
    "b3_m11_n1_k37/layout=strided",
    "b1_m1_n1_k5000",
    "b1_m1_n600_k70",
    "b2_m1_n131_k600",
    "b2_m515_n1_k33/layout=transposed_a",
    "b1_m1_n90_k4100/layout=strided",
    "b1_m67_n3_k256",
    "b1_m4_n61_k130/layout=transposed_b",
    "b8_m33_n1_k128/repeat_a=4,layout=permuted",
    "b2_m1_n260_k64/repeat_b=2,layout=transposed_b",
)
_PAIRED = (
    "b2_m13_n9_k3",
    "b1_m70_n52_k300",
    "b2_m33_n35_k67/layout=transposed_b",
    "b1_m33_n1_k256",
    "b1_m1_n77_k129",
    "b1_m35_n33_k260/split=2",
)


def _cases() -> Iterator[str]:
    yield from _SHAPES
    yield from (f"{shape}/layout={how}" for how in _LAYOUTS for shape in _LAID)
    yield from _VECTORS
    for tile in dense.TILES:
        yield f"b1_m{tile.m + 5}_n{tile.n - 3}_k52/tile={tile.name}"


_SQUARES = tuple(f"b1_m{size}_n{size}_k{size}" for size in (256, 512, 1024, 2048, 4096))
_TIMED = (
    *_SQUARES,
    "b1_m4096_n512_k14336",
    "b1_m4096_n1_k14336",
    "b1_m1_n4096_k14336",
    "b32_m512_n512_k128/layout=transposed_b",
)
_TIMED_HALVES = (
    "b1_m1024_n1024_k1024",
    "b1_m4096_n4096_k4096",
    "b1_m4096_n512_k14336",
    "b32_m512_n512_k128/layout=transposed_b",
)

# How the tiles of cooperative matrices end, how factors lie for them, and parts of k.
_COOPERATIVE = (
    "b1_m1_n1_k1",
    "b1_m128_n128_k128",
    "b3_m133_n70_k64",
    "b2_m37_n70_k300",
    "b1_m65_n68_k40/layout=transposed_b",
    "b2_m130_n33_k96/layout=transposed_b",
    "b2_m36_n44_k32/layout=transposed",
    "b2_m36_n44_k20/layout=strided",
    "b3_m21_n27_k64/layout=permuted",
    "b6_m9_n20_k64/layout=transposed_b,repeat_a=3,repeat_b=2",
    "b1_m40_n36_k1100/layout=transposed_b,split=3",
    "b2_m128_n64_k96",
    "b2_m64_n128_k64/layout=transposed",
)


def _cooperative() -> Iterator[str]:
    for pair in _PAIRS:
        yield from (f"matmul/{pair}/{shape}" for shape in _COOPERATIVE)
    for name in coop_tiles.EXACT_NAMES:
        yield f"matmul/f16:b=f16/b1_m261_n253_k96/tile={name}"
        yield f"matmul/f16:b=f16/b1_m256_n512_k96/layout=transposed_a,tile={name}"


MATMUL = (
    *(parse(name) for name in _cooperative()),
    *(parse(f"matmul/f32/{shape}") for shape in _cases()),
    *(parse(f"matmul/{pair}/{shape}") for pair in _PAIRS for shape in _PAIRED),
    parse("matmul/f16:b=f16:y=f16/b1_m33_n35_k2100/split=1,tile=32x32_4x4"),
)
MATMUL_TIMED = (
    *(parse(f"matmul/f32/{shape}") for shape in _TIMED),
    *(parse(f"matmul/f16:b=f16/{shape}") for shape in _TIMED_HALVES),
    parse("matmul/f16/b32_m16416_n1_k128/layout=permuted,repeat_a=4"),
    parse("matmul/bf16:b=bf16/b1_m4096_n4096_k4096"),
)
OUT_PROD = tuple(
    parse(f"out_prod/f32/{shape}")
    for shape in (
        "b1_m1_n1_k1",
        "b1_m256_n1_k1",
        "b2_m256_n16_k1",
        "b1_m256_n16_k16",
        "b3_m13_n7_k5",
        "b2_m67_n33_k70/layout=strided",
        "b2_m40_n68_k36/layout=permuted",
        "b6_m30_n17_k9/repeat_a=3",
        "b1_m64_n3_k0",
    )
)
OUT_PROD_TIMED = tuple(
    parse(f"out_prod/f32/{shape}")
    for shape in ("b1_m4096_n4096_k1", "b1_m4096_n4096_k512", "b32_m256_n16_k16")
)

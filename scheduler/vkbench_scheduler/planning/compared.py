"""The cases of suite `peers`: well-known work of GPU libraries and llama.cpp."""

from __future__ import annotations

from typing import Final

from vkbench_shaders.formats import PLAIN, WEIGHTS

_SIDES: Final = (1024, 4096)
_STEMS: Final = ("matmul/f32", "matmul/f16:b=f16", "matmul/bf16:b=bf16")
_SQUARES: Final = tuple(f"{stem}/b1_m{n}_n{n}_k{n}" for n in _SIDES for stem in _STEMS)

# a product of a Llama-3-8B's feed-forward part, with one vector and with a prompt
_LAYERS: Final = tuple(
    f"{kernel}/{fmt}/m4096_n{n}_k14336"
    for kernel, n in (("mul_mat_vec", 1), ("mul_mat", 512))
    for fmt in (*PLAIN, *WEIGHTS)
)

_EXPERTS: Final = tuple(f"mul_mat_id/{fmt}/e8_u2_m4096_n512_k14336" for fmt in ("q4_K", "q8_0"))

# those that test-backend-ops times
_IMAGES: Final = tuple(
    f"conv2d/{fmt}/{shape}"
    for fmt in ("f32", "f16")
    for shape in (
        "n16_c256_h19_w19_o4096_r4_s4",
        "n16_c8_h19_w19_o128_r4_s4",
        "n16_c8_h19_w19_o130_r4_s4",
        "n16_c4_h19_w19_o4_r2_s2",
        "n1_c3_h224_w224_o8_r3_s3",
        "n1_c1_h224_w224_o8_r2_s2",
        "n8_c1_h224_w224_o8_r2_s2",
        "n1_c32_h58_w58_o64_r3_s3",
        "n8_c32_h58_w58_o64_r3_s3",
        "n8_c128_h16_w16_o512_r3_s3",
        "n1_c32_h1536_w1536_o64_r3_s3",
    )
)

_PROMPTS: Final = (
    *(f"flash_attn/f16/s1_h32_g32_q4096_n4096_d{d}_e{d}" for d in (64, 128, 256)),
    "flash_attn/f16/s1_h16_g16_q5776_n5776_d72_e72",
)
_SHARED: Final = tuple(
    f"flash_attn/{fmt}/s1_h{heads}_g{groups}_q{q}_n{n}_d{d}_e{d}"
    for heads, groups, d, lengths in ((64, 8, 64, (7680,)), (32, 2, 256, (512, 4096, 20000)))
    for n in lengths
    for q in (1, 512)
    for fmt in ("f16", "q8_0")
)
_TOKENS: Final = tuple(
    f"flash_attn/f16/s1_h{heads}_g8_q1_n{n}_d{d}_e{d}"
    for n in (4096, 16384)
    for d in (64, 128)
    for heads in (8, 32)
)

_ROWS: Final = (
    *(f"{name}/f32/b1_c1_h4096_w4096" for name in ("add", "mul", "silu")),
    *(f"{name}/f32/b1_c1_h8192_w8192" for name in ("sum", "mean", "max", "argmax")),
    "softmax/f32/b1_c1_h16_w131072",
    "argmax/f32/b1_c1_h512_w32000",
    "argsort/f32/h16_w65000",
    "cumsum/f32/h320_w2048",
    "add/f32/b1_c1_h1_w4096",
)
_LARGE: Final = (
    *(f"{name}/f32/b1_c1_h16384_w8192" for name in ("rms_norm", "layer_norm")),
    "softmax/f32/b1_c5_h4096_w4096",
    "transpose/f32/b256_h1024_w768",
)

COMPARED: Final = (
    *(*_SQUARES, *_LAYERS, *_EXPERTS, *_IMAGES),
    *(*_PROMPTS, *_SHARED, *_TOKENS, *_ROWS, *_LARGE),
)
COMPARED_ON_CPUS: Final = (_SQUARES[0], *_ROWS)  # others take them minutes


def kernels_of(cases: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the cases' kernels, each once."""
    return tuple(dict.fromkeys(case.partition("/")[0] for case in cases))

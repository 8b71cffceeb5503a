"""The cases of suite `ggml`: operations of models, of the sizes and formats that ggml is given.

They are those of a layer of Llama 3 8B for one token and for a prompt of 512, and what other models
have beside: experts (Qwen 3, gpt-oss), sinks, caps, slopes, recurrences and convolutions.
"""

from __future__ import annotations

from typing import Final

_PROMPT: Final = 512  # tokens

_VECTORS: Final = (
    *("f16", "q4_0", "q5_0", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"),
    *("iq2_xs", "iq3_s", "iq4_xs", "mxfp4"),
)
_MATRICES: Final = ("f16", "q4_0", "q8_0", "q4_K", "q5_K", "q6_K", "iq4_xs", "mxfp4")
_PRODUCTS: Final = (
    *(f"mul_mat_vec/{fmt}/m4096_n1_k14336" for fmt in _VECTORS),
    *(f"mul_mat_vec/q4_K/m{m}_n1_k4096" for m in (1024, 14336)),
    "mul_mat_vec/q6_K/m128256_n1_k4096",
    *(f"mul_mat_vec/q4_K/m4096_n{n}_k14336" for n in (2, 4, 8)),
    *(f"mul_mat/q4_K/m4096_n{n}_k14336" for n in (16, 64)),
    *(f"mul_mat/{fmt}/m4096_n{_PROMPT}_k14336" for fmt in _MATRICES),
    "mul_mat/bf16/m4096_n512_k4096",
    # scores and values of attention that is not fused
    f"mul_mat/f16/m4096_n{_PROMPT}_k128/batch2=8,repeat2=4",
    f"mul_mat/f16/m128_n{_PROMPT}_k4096/batch2=8,repeat2=4",
)
_EXPERTS: Final = tuple(
    f"{kernel}/{fmt}/e{e}_u{u}_m{m}_n{n}_k{k}"
    for fmt, e, u, m, k in (
        ("q4_K", 128, 8, 768, 2048),
        ("q8_0", 128, 8, 768, 2048),
        ("mxfp4", 32, 4, 2880, 2880),
    )
    for kernel, n in (("mul_mat_vec_id", 1), ("mul_mat_id", _PROMPT))
)


_FOLLOWED: Final = (
    "mul_mat_vec_id/mxfp4/e32_u4_m2880_n1_k2880/then=add_mul,x=expert",
    "mul_mat_vec_id/q4_K/e128_u8_m2048_n1_k768/then=mul,x=expert",
    *(f"top_k_moe/f32/n{n}_e128_k8/normalise=selected" for n in (1, _PROMPT)),
    f"top_k_moe/f32/n{_PROMPT}_e32_k4/gating=softmax_late",
)


def _attend(fmt: str, h: int, g: int, n: int, d: int, e: int, more: str = "") -> tuple[str, str]:
    """One query, and a prompt of them, that see n positions at most."""
    how = ",".join(sorted(filter(None, ("layout=cache", "mask=causal", more))))
    one, many = (f"flash_attn/{fmt}/s1_h{h}_g{g}_q{q}_n{n}_d{d}_e{e}/{how}" for q in (1, _PROMPT))
    return one, many


_ATTENTION: Final = (
    *_attend("f16", 32, 8, 4096, 128, 128),
    *_attend("q8_0", 32, 8, 4096, 128, 128),
    *_attend("q4_0", 32, 8, 4096, 128, 128),
    *_attend("f16", 64, 8, 4096, 64, 64, "sinks=yes"),
    *_attend("f16", 16, 8, 4096, 256, 256, "softcap=50.0"),
    *_attend("f16", 16, 1, 4096, 576, 512),
    _attend("f16", 32, 8, 32768, 128, 128)[0],
    _attend("f16", 32, 32, 4096, 128, 128, "max_bias=8.0")[0],
)


def _rows(*cases: str) -> tuple[str, ...]:
    """Cases of one row of tokens, and of a prompt of them: `{h}`."""
    return tuple(case.format(h=h) for case in cases for h in (1, _PROMPT))


_ROWS: Final = _rows(
    "rms_norm/f32/b1_c1_h{h}_w4096/fused=mul",
    "add_rms_norm/f32/b1_c1_h{h}_w4096/fused=mul",
    "layer_norm/f32/b1_c1_h{h}_w4096/fused=mul_add",
    "rms_norm/f32/b1_c32_h{h}_w128",
    "swiglu_split/f32/b1_c1_h{h}_w14336",
    "add/f32/b1_c1_h{h}_w4096",
    "softmax/f32:mask=f16/b1_c32_h{h}_w2048/mask=all",
    "rope/f32/b1_n{h}_h32_k128",
    "rope/f32/b1_n{h}_h32_k128/mode=neox",
    "set_rows/f16:ids=i64/m16384_n{h}_k1024",
    "set_rows/q8_0:ids=i64/m16384_n{h}_k1024",
    "get_rows/q4_K/m128256_n{h}_k4096",
)
_OTHERS: Final = (
    "rope/f32/b1_n512_h12_k128/mode=mrope",
    "geglu/f32/b1_c1_h512_w20480",
    "swiglu_oai_split/f32/b1_c1_h512_w2880",
    "silu/f32/b1_c1_h512_w14336",
    "gelu/f32/b1_c1_h512_w14336",
    "mul/f32/b1_c1_h512_w4096",
    "add/f32/b1_c1_h512_w4096/broadcast=row",
    "multi_add/f32/m512_k4096",
    "hadamard/f32/m4096_k128",
    "snake/f16/b1_c192_h1_w16384",
    "rms_norm_rope/f32/b1_n512_h32_k128/mode=neox",
    "scale/f32/b1_c1_h512_w4096/factor=0.125",
    "l2_norm/f32/b1_c32_h512_w128",
    "argsort/f32/h512_w128/order=descending",
    "argmax/f32/b1_c1_h1_w128256",
    "sum/f32/b1_c1_h512_w4096",
    "cont/f32/b1_c32_h512_w128/order=bhcw",
    "to_dtype/f32/b1_c1_h512_w4096",
    "quantize/q8_0/b1_m512_k4096",
    "lightning_indexer/f32:k=f16/s1_t1_h64_n32768_k128",
    "repeat_back/f32/b1_c1_h8192_w4096/times_h=8192",
    "get_rows_back/f32/m32000_n512_k4096",
    *(f"add_id/f32/n{n}_u4_m2880_e32" for n in (1, _PROMPT)),
    "add1/f32/b1_c1_h512_w4096",
    "diag_mask_inf/f32/b1_c32_h512_w512",
    "copy_blocks/q8_0/b1_c8_h4096_w128",
    "copy_blocks/q4_K/b1_c1_h4096_w4096",
    "concat_blocks/q8_0/b1_c8_h4096_w128_n64/axis=h",
    *(f"{name}/f32/b1_c1_h4096_w4096_p1_q1_r2048_v2048/at_w=1024" for name in ("set", "acc")),
)
_RECURRENT: Final = (
    *(f"ssm_scan/f32/s1_t{t}_h48_g1_p64_d128" for t in (1, _PROMPT)),
    *(f"gated_delta_net/f32/s1_t{t}_h32_g32_d128" for t in (1, _PROMPT)),
    "ssm_conv/f32/s1_c3328_t512_w4",
    "rwkv_wkv7/f32/s1_t128_h32_d64",
    # of chunks of 64 tokens that the layer of a delta net goes by where it is not fused
    "tri/f32/b8_c32_h64_w64",
    "diag/f32/b8_c32_w64",
    "solve_tri/f32/b256_n64_k64",
)
_STREAMS: Final = (
    "dsv4_hc_comb/f32/t512_s4",
    "dsv4_hc_pre/f32/t512_s4_m4096",
    "dsv4_hc_pre_gated/f32/t512_s4_m4096/scale=0.25",
    "dsv4_hc_post/f32/t512_s4_m4096",
)
_IMAGES: Final = (
    "conv2d/f16/n1_c320_h64_w64_o320_r3_s3/padding=1",
    "im2col/f32:y=f16/n1_c320_h64_w64/padding=1",
    "group_norm/f32/b1_c320_h64_w64",
    "upsample_nearest2d/f32/n1_c320_h64_w64",
    "upsample_bicubic2d/f32/n1_c320_h64_w64",
    "im2col3d/f32:y=f16/n1_c16_d8_h64_w64/padding=1",
    "timestep_embedding/f32/n512_d320",
)

ON_GPUS: Final = (
    *(*_PRODUCTS, *_EXPERTS, *_FOLLOWED, *_ATTENTION, *_ROWS),
    *(*_OTHERS, *_RECURRENT, *_STREAMS, *_IMAGES),
)
# CPU drivers compile a product of many vectors for a minute.
ON_CPUS: Final = (
    "mul_mat_vec/q4_0/m1024_n1_k4096",
    "mul_mat_vec/q4_K/m1024_n1_k4096",
    "get_rows/q4_K/m128256_n1_k4096",
    *(case for case in _ROWS if "_h1_" in case or "_n1_" in case),
)

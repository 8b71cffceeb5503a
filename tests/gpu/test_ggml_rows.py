"""Every row of ggml's table by two builds, of 2026 and of 2025: right, or skipped with a reason.

They run in the Python of scripts/new-lavapipe, as test_ggml.py does and says why. A process of a
build does all cases one after the other; they are those that ggml compiles there in no time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from planted_builds import add_shipped
from vkbench.job import ArmKind, Job, Mode, Outcome
from vkbench.programs.ggml_cases import CASES
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.store import BuildStore
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.peers.llama_cpp.operations.own import OPERATIONS
from vkbench_worker.peers.llama_cpp.operations.table import ROWS
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.vulkan.device import VulkanDevice

# Right by both builds.
SHARED = (
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("tanh", "relu", "sigmoid", "gelu", "gelu_quick")),
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("silu", "sqr", "sin", "cos")),
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("leaky_relu", "clamp", "scale")),
    "add/f32/b2_c2_h3_w4",
    "add/f32/b2_c2_h3_w4/broadcast=row",
    "mul/f32/b2_c2_h3_w4/broadcast=channel",
    "div/f32/b2_c2_h3_w4/broadcast=batch",
    "sum/f32/b1_c2_h3_w40",
    "argsort/f32/h3_w255/order=descending",
    "softmax/f32/b1_c3_h5_w77/mask=all",  # of rows that it hides one in three altogether
    "rms_norm/f32/b1_c2_h3_w64/fused=mul_add",
    "layer_norm/f32/b1_c2_h3_w64/fused=mul_add",
    "group_norm/f32/b1_c4_h3_w4/groups=2,fused=mul_add",
    "add_rms_norm/f32/b1_c2_h3_w64/fused=mul",
    "rope/f32/b1_n5_h3_k36/factors=given",
    "mul_mat_vec/q4_0/m16_n1_k256",
    "mul_mat_vec_id/q4_0/e4_u2_m16_n1_k256",
    "mul_mat_vec_id/q4_0/e4_u2_m16_n1_k256/then=add_mul",
    *(f"top_k_moe/f32/n5_e32_k4{more}" for more in ("/normalise=selected", "/gating=softmax_late")),
    "top_k_moe/f32/n5_e32_k4/gating=sigmoid_biased,normalise=selected,scale=2.5",
    "snake/f32/b1_c7_h1_w33",
    "multi_add/f32/m5_k33/count=4",
    # of other modes two nodes are one, which lavapipe compiles for over a minute
    "rms_norm_rope/f32/b1_n5_h2_k128/mode=mrope",
    "rope_set_rows/f32:ids=i64/m9_b1_n5_h2_k128/mode=mrope",
    "rms_norm_rope_set_rows/f32:ids=i64/m9_b1_n5_h2_k128/mode=mrope",
    "im2col/f32/n1_c3_h9_w8/padding=1",
    "im2col1d/f32/n1_c3_w9/padding=1",
    "max_pool2d/f32/n1_c3_h8_w8/kernel=2,stride=2",
    "avg_pool2d/f32/n2_c3_h10_w10/padding=1",
    "upsample_nearest1d/f32/n2_c3_w17",
    "upsample_nearest2d/f32/n2_c3_h5_w7",
    "copy/f32/n4097",
    "copy2d/f32/h5_w64",
    "cont/f32/b2_c3_h4_w5/order=bhcw",
    "transpose/f32/b2_h5_w7",
    "to_dtype/f32/b1_c2_h3_w64",
    "get_rows/q4_0/m9_n3_k32",
    "index_select/f32/o1_m9_n5_k33",
    "concat/f32/b2_c3_h5_w7_n4/axis=b",
    "repeat/f32/b1_c2_h3_w5/times_c=2,times_w=3",
    "pad/f32/b1_c2_h3_w5/after_h=1,after_w=2",
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("abs", "neg", "step", "exp")),
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("softplus", "gelu_erf", "floor", "ceil", "trunc")),
    *(f"{name}/f32/b1_c2_h3_w40" for name in ("sqrt", "log", "hardswish", "hardsigmoid")),
    *(
        f"{name}{end}/f32/b1_c2_h3_w4"
        for name in ("reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick")
        for end in ("", "_split")
    ),
    "swiglu/f32/b1_c2_h3_w4/gate=second",
    "swiglu_oai_split/f32/b1_c2_h3_w40",
    "sigmoid_mul/f32/b1_c2_h3_w4",
    "softplus_mul/f32/b1_c2_h3_w4",
    "silu_back/f32/b1_c2_h3_w40",
    "affine/f32/b1_c2_h3_w40/add=0.5,mul=2.0",
    "sub/f32/b2_c2_h3_w4/broadcast=scalar",
    "mean/f32/b1_c2_h3_w40",
    "argmax/f32/b1_c1_h16_w400",
    "count_equal/i32/n2000",
    "cumsum/f32/h3_w200",
    "softmax/f32/b2_c5_h7_w64/mask=batch,max_bias=8.0,sinks=heads",
    "softmax_back/f32/b1_c2_h3_w64",
    "l2_norm/f32/b1_c2_h3_w64",
    "rms_norm_back/f32/b1_c2_h3_w64",
    "rope/f32/b1_n5_h2_k128/mode=mrope",
    "rope/f32/b1_n5_h3_k128/mode=imrope,sections=24.20.20.0",
    "rope/f32/b1_n5_h4_k80/mode=vision,sections=20.20.20.20",
    "rope_back/f32/b1_n5_h3_k64",
    "rope_back/f32/b1_n5_h3_k128/mode=mrope",
    "flash_attn/f16/s1_h4_g2_q3_n64_d64_e64/mask=blocks,max_bias=8.0,sinks=yes",
    "flash_attn/f16/s1_h4_g2_q1_n64_d64_e64/layout=cache,mask=causal,softcap=10.0",
    "flash_attn/q8_0/s1_h4_g2_q1_n64_d64_e64/mask=causal",
    "sdpa/f16/s1_h4_g2_q3_n64_d64_e64",  # heads and queries change places
    "conv2d/f32/n1_c3_h9_w8_o4_r3_s2/padding=1,stride=2,stride_h=1",
    "conv2d_dw/f32/n1_c3_h9_w8_r3_s3/padding=1",
    "conv_transpose1d/f32/n1_c5_w13_o7_s4/stride=2",
    "conv_transpose2d/f16/n1_c3_h4_w5_o2_r3_s3/stride=2",
    "upsample_bilinear2d/f32/n2_c3_h5_w7",
    "upsample_bilinear2d/f32/n2_c3_h5_w7/corners=align",
    "upsample_bicubic2d/f32/n2_c3_h5_w7",
    "copy_blocks/q8_0/b1_c1_h8_w32",
    "copy_blocks/iq2_xs/b1_c1_h8_w256",
    "quantize/q4_1/b2_m5_k96",  # of codes that are as near it takes the other one
    "quantize/iq4_nl/b1_m5_k96",
    "dequantize/q8_0/m7_k512",
    "copy_from/q4_0/b2_m5_k96",
    "get_rows/q4_K/m9_n3_k256",
    "set_rows/q8_0/m11_n5_k96",
    "set_rows/f16:ids=i64/m11_n5_k96",
    "pad/f32/b1_c2_h3_w5/after_w=2,before_h=1",
    "pad/f32/b1_c2_h3_w5/after_w=2,before_h=1,mode=circular",
    "roll/f32/b2_c3_h5_w7/shift_h=-1,shift_w=2",
    *(f"tri/f32/b1_c2_h33_w33/part={part}" for part in ("below", "upper", "above")),
    "tri/f32/b2_c3_h33_w33",
    "diag_mask_inf/f32/b2_c3_h17_w33",
    "diag_mask_inf/f32/b1_c2_h17_w33/past=5",
    "acc/f32/b2_c3_h9_w40_p1_q2_r5_v19/at_b=1,at_c=1,at_h=2,at_w=5",
    "add_id/f32/n5_u2_m33_e4",
    "add1/f32/b1_c1_h5_w33",
    "round/f32/b1_c2_h3_w40/ties=away",
    "solve_tri/f32/b2_n32_k16",
    "zeros/f32/n1000",
    "arange/f32/n513",
    "ssm_conv/f32/s2_c65_t13_w4",
    "ssm_conv/f32/s1_c31_t5_w4/activation=silu,bias=yes",
    "ssm_scan/f32/s1_t9_h4_g1_p64_d128",
    "rwkv_wkv6/f32/s2_t7_h3_d64",
    "rwkv_wkv7/f32/s2_t7_h3_d64",
    "sgd/f32/n1000/decay=0.5,rate=0.1",
    "adamw/f32/n1000",
    "repeat_back/f32/b1_c1_h12_w33/times_h=3",
    "timestep_embedding/f32/n5_d64",
    "im2col3d/f32/n1_c2_d3_h4_w5/padding=1",
)
# Right by the newer one alone.
NEWER = (
    "concat/i16/b2_c3_h5_w19_n7",
    "hadamard/f32/m5_k64",
    "set/f32/b2_c3_h9_w40_p1_q2_r5_v19/at_b=1,at_c=1,at_h=2,at_w=5",
    "set/i32/b2_c3_h9_w40_p1_q2_r5_v19/at_b=1,at_c=1,at_h=2,at_w=5",
    "diag/f32/b2_c3_w33",
    "sign/f32/b1_c2_h3_w40",
    "elu/f32/b1_c2_h3_w40",
    "expm1/f32/b1_c2_h3_w40",
    "concat_blocks/q4_0/b2_c3_h5_w64_n4/axis=c",
    "upsample_bilinear2d/f32/n2_c3_h9_w7/antialias=yes,height=4,width=5",
    "flash_attn/q8_0:v=q4_0/s1_h4_g2_q1_n64_d64_e64/mask=causal",
    "xielu/f32/b1_c2_h3_w40",
    "out_prod/f32/b2_k5_m3_n4",
    "conv3d/f32/n1_c2_d3_h4_w5_o2_t2_r2_s2",
    "col2im1d/f32/n1_w7_o3_s4/padding=1,stride=2",
    "max_pool1d/f32/n2_c3_w17",
    "avg_pool1d/f32/n2_c3_w17/divisor=inside,padding=1",
    "pad/f32/b1_c1_h3_w5/after_w=2,before_w=1,mode=reflect",
    "fill/f16/n1000/value=-3.25",
    "gated_linear_attn/f32/s1_t9_h3_d64",
    "gated_delta_net/f32/s2_t7_h6_g2_d64",
    "gated_delta_net/f32/s1_t9_h2_g2_d64/gate=lane",
    "get_rows_back/f32/m4_n5_k33",
    "lightning_indexer/f32:k=f16/s1_t3_h64_n64_k128",
    "lightning_indexer/f32:k=q8_0/s1_t3_h64_n64_k128",
    "dsv4_hc_pre/f32/t5_s4_m64",
    "dsv4_hc_pre_gated/f32/t5_s4_m64/scale=0.25",
    "dsv4_hc_post/f32/t5_s4_m64",
    "dsv4_hc_post/f32/t5_s4_m64/mixing=none",
)
# The same of operations that the catalogue lacks, judged by ggml's CPU backend.
OWN = (
    "round/f32/h5_w333",
    "sum/f32/h33_w65_o1",
    "top_k/f32/h3_w200_k10",
)
LACKED = re.compile(r"(this build of ggml has no|ggml's Vulkan backend does not support) \w+")
# Products that lavapipe compiles for longer: test_ggml.py, and whoever has a GPU, runs them; and
# what the backend does not support there.
UNTRIED = {"mul_mat", "mul_mat_id", "dsv4_hc_comb"}


def test_every_row_is_tried() -> None:
    tried = {case.partition("/")[0] for case in (*SHARED, *NEWER)}
    assert tried ^ ROWS.keys() == UNTRIED


def test_every_operation_that_only_ggml_has_is_tried_and_declared() -> None:
    assert {case.partition("/")[0] for case in CASES} == OPERATIONS.keys()
    tried = {case.partition("/")[0] for case in OWN}
    assert tried == OPERATIONS.keys()


def name_own(cases: Sequence[str]) -> list[str]:
    """The whole names of cases that only ggml has."""
    return [f"{GGML_VULKAN.name}:{case}" for case in cases]


def run_cases(
    folder: Path, data: Path, settings: Settings, lavapipe: VulkanDevice
) -> dict[str, Result]:
    """What one process of a build answers, by the names of the cases."""
    if not Path(sys.prefix, "driver.json").exists():
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    host = replace(settings, data=data)
    build = add_shipped(BuildStore(host.build_folder()), folder)
    ready = Ready(facts=lavapipe.facts, environment=lavapipe.environment)
    blank = Job(
        id=7,
        token=3,
        case="",
        mode=Mode.CORRECTNESS,
        variant=GGML_VULKAN.name,
        bundle=build.sha,
        arm_kind=ArmKind.BUILD,
    )
    answers: dict[str, Result] = {}
    with ThreadPoolExecutor(1) as parent:
        peers = Peers(host, parent)
        for case in (*SHARED, *NEWER, *name_own(OWN)):
            answer = peers.do_builds(replace(blank, case=case), ready, lambda: False)
            assert answer
            answers[case] = answer
        peers.close()
    return answers


@pytest.mark.timeout(400)
def test_a_build_of_2026_is_right(
    ggml_folder: Path, tmp_path: Path, gpu_settings: Settings, lavapipe: VulkanDevice
) -> None:
    answers = run_cases(ggml_folder, tmp_path, gpu_settings, lavapipe)
    assert {case: (a.outcome, a.reason) for case, a in answers.items()} == dict.fromkeys(
        answers, (Outcome.PASSED, "")
    )


@pytest.mark.timeout(400)
def test_a_build_of_2025_is_right_or_says_what_it_lacks(
    older_ggml_folder: Path, tmp_path: Path, gpu_settings: Settings, lavapipe: VulkanDevice
) -> None:
    answers = run_cases(older_ggml_folder, tmp_path, gpu_settings, lavapipe)
    shared, newer = (*SHARED, *name_own(OWN)), NEWER
    outcomes = {
        case: (a.outcome, a.reason if case in shared else "") for case, a in answers.items()
    }
    assert outcomes == {
        **dict.fromkeys(shared, (Outcome.PASSED, "")),
        **dict.fromkeys(newer, (Outcome.SKIPPED, "")),
    }
    reasons = [answers[case].reason for case in newer]
    assert [reason for reason in reasons if not LACKED.match(reason)] == []

"""Small mistakes, each planted in one expression of a kernel by one of its paths, are seen."""

from __future__ import annotations

import pytest

from planted_edit import Edit, compile_edited_kernel
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.variants import choose
from vkbench_worker.runtime.vulkan.device import VulkanDevice

# A case, a path, what a source says, what it says wrongly, and which, if not the path's own.
WRONG = {
    "a sine keeps its sign": (
        "snake/f32/b1_c7_h1_w33",
        "portable",
        "fma(sine * sine, share, value)",
        "fma(sine * abs(sine), share, value)",
    ),
    "the last array is left out": (
        "multi_add/f32/m33_k64/count=8",
        "portable",
        "if (ADDED > 7)",
        "if (ADDED > 8)",
    ),
    "numbers half a row apart do not meet": (
        "hadamard/f32/m33_k128",
        "portable",
        "bit < min(POWER, HALF))",
        "bit < min(POWER, HALF) - 1)",
    ),
    "a head's root has no eps": (
        "rms_norm_rope/f32/b1_n33_h4_k80/eps=0.1,factors=given,mode=neox,n_dims=32",
        "portable",
        "+ push.eps",
        "+ 0",
    ),
    "a bias is the first expert's": (
        "mul_mat_vec_id/q4_0/e8_u3_m67_n4_k512/then=add",
        "portable",
        "biases[ids[pair] * push.m + row]",
        "biases[ids[0] * push.m + row]",
    ),
    "a sum is multiplied before its bias": (
        "mul_mat_vec_id/q4_0/e8_u3_m67_n4_k512/then=add_mul",
        "portable",
        "total += biases[ids[pair] * push.m + row];",
        "total += biases[ids[pair] * push.m + row] / (SHARED != 0 ? shares[pair] : 1);",
    ),
    "half a block of a tile has the other half's scale": (
        "mul_mat/q6_K:x=q8_1/m17_n9_k256",
        "int_dot",
        "w_scales.y * float(dot16<D>(w[1]",
        "w_scales.x * float(dot16<D>(w[1]",
        "byte_tiles",
    ),
    "two steps along k are one": (
        "mul_mat/f16/m17_n33_k64",
        "coopmat",
        "if (begin + 1 < end)",
        "if (begin + 2 < end)",
    ),
    "half a block has the minimum of the other half's numbers": (
        "mul_mat_vec/q2_K:x=q8_1/m5_n2_k512",
        "int_dot",
        "units[r].least[g] * float(totals[g])",
        "units[r].least[g] * float(totals[0])",
        "byte_products",
    ),
    "the last subgroup's sum is left out": (
        "mul_mat_vec/q4_0/m5_n2_k4096",
        "subgroup",
        "s < WaveGetNumWaves();",
        "s < WaveGetNumWaves() - 1;",
        "sums",
    ),
    "the last position has its neighbour's mask": (
        "flash_attn/f16/s1_h4_g2_q3_n37_d64_e64/mask=blocks",
        "subgroup",
        "(at + i * THREADS) / ROWS, part.count - 1)",
        "(at + i * THREADS) / ROWS, part.count - 2)",
    ),
    "partitions are joined without their highest scores": (
        "flash_attn/f16/s1_h4_g4_q1_n1025_d72_e72/mask=blocks",
        "portable",
        "found.y * mine",
        "found.y",
        "flash_combine",
    ),
    "every partition has the mask of the first": (
        "flash_attn/f16/s1_h8_g2_q1_n127_d64_e64/mask=blocks,part=32,path=split",
        "coopmat",
        "mask_of_vec4(query, slope, begin + four(i) * 4)",
        "mask_of_vec4(query, slope, four(i) * 4)",
        "flash_few",
    ),
    "every stretch has the weights of the first": (
        "rms_norm/f16/b1_c1_h3_w16896/fused=mul",
        "portable",
        "(words, wide, stretch.first, stretch, 0)",
        "(words, wide, 0, stretch, 0)",
    ),
    "numbers behind the turned part are turned": (
        "rope/f32/b1_n5_h3_k64/n_dims=20",
        "portable",
        "else if (columns.x < 2 * push.pairs)",
        "else if (columns.x <= 2 * push.pairs)",
    ),
    "a row of the cache is chosen by the head": (
        "rms_norm_rope_set_rows/f32/m9_b1_n9_h3_k64/mode=neox",
        "portable",
        "token = row / push.heads, chosen = row_of(token);",
        "token = row / push.heads, chosen = row_of(row % push.tokens);",
    ),
    "a sum of powers is not rescaled": (
        "softmax/f32:mask=f16/b1_c2_h3_w16896/mask=all,sinks=heads",
        "portable",
        "all.sum * fast_exp(all.largest - most) + sum_of(values)",
        "all.sum + sum_of(values)",
    ),
    "a run that is merged is taken to be as long as the other": (
        "argsort/f32/h2_w2049",
        "portable",
        "count > b_count ? count - b_count : 0",
        "count > push.run ? count - push.run : 0",
    ),
}


@pytest.mark.parametrize("mistake", WRONG, ids=lambda mistake: f"{WRONG[mistake][1]}: {mistake}")
def test_a_mistake_in_one_expression_is_seen(
    lavapipe: VulkanDevice, bundle: Bundle, mistake: str
) -> None:
    case, path, *edit = WRONG[mistake]
    if path == "coopmat" and "coopmat" not in lavapipe.facts.features:
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    planted = compile_edited_kernel(
        choose(problem(case), path, lavapipe.facts), Edit(*edit), lavapipe.facts
    )
    job = Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, variant=path)
    right, wrong = (execute(lavapipe, code, job) for code in (bundle, planted))
    assert right.outcome is Outcome.PASSED, right.reason
    assert wrong.outcome is Outcome.WRONG, wrong.reason

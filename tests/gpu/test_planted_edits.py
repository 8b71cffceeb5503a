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
    "neighbouring heads share keys that heads far apart share": (
        "gated_delta_net/f32/s3_t5_h4_g2_d64",
        "portable",
        "return head % push.key_heads;",
        "return head / (push.heads / push.key_heads);",
        "recurrence_rules",
    ),
    "heads far apart share a group that neighbouring ones share": (
        "ssm_scan/f32/s2_t7_h4_g2_p16_d16",
        "portable",
        "return head / (push.heads / push.key_heads);",
        "return head % push.key_heads;",
        "recurrence_rules",
    ),
    "a token's values go into the state as if steps were 1": (
        "ssm_scan_token/f32/s2_n5_h4_g2_p64_d16_w4",
        "portable",
        "value * numbers.x * vectors[f * LANES + lane]",
        "value * vectors[f * LANES + lane]",
    ),
    "what heads of a group share is stored of the first group alone": (
        "ssm_scan_token/f32/s1_n3_h6_g3_p20_d32_w3/eps=0.01",
        "subgroup",
        "leads = at.x == 0 && head % sharing == 0;",
        "leads = at.x == 0 && head == 0;",
    ),
    "the token before the last one is stored as the last one": (
        "ssm_conv_token/f32/s3_n7_c65_k130_w4",
        "portable",
        "tokens[(target * kept + tap - 1) * channels + channel] = x;",
        "tokens[(target * kept + tap - 1) * channels + channel] = newest;",
        "token_taps",
    ),
    "what a state is read by is what goes in": (
        "selective_scan_token/f32:y=q8_1/s2_n5_h96_d32",
        "portable",
        "shared[(sequence * 2 + 1) * width + key]",
        "shared[sequence * 2 * width + key]",
    ),
    "what a state is asked for is taken for what it gets": (
        "rwkv_wkv7/f32/s2_t7_h3_d64",
        "portable",
        "sum * token.vector(4, f)",
        "sum * token.vector(3, f)",
        "recurrence_rules",
    ),
    "the last pair of a tile is the one before it": (
        "mul_mat_id/q4_0/e4_u2_m33_n37_k256/routing=skewed",
        "portable",
        "tile[LIST + min(column, last)].x",
        "tile[LIST + min(column, last - 1)].x",
    ),
    "every stretch of a row is decoded from its beginning": (
        "get_rows/q4_0/m3_n2_k14336",
        "portable",
        "stretch.first / (N * 4) + unit)",
        "unit)",
        "rows",
    ),
    "scales have the upper bits of minima": (
        "quantize/q4_K/b2_m5_k768",
        "searched",
        "uint(scales[group + at]) | uint(scales[group + 4 + at]) >> 4 << 6",
        "uint(scales[group + at]) | uint(minima[group + 4 + at]) >> 4 << 6",
        "searched",
    ),
    "images of y are an area closer than they are": (
        "conv2d/f32/n2_c3_h7_w9_o5_r3_s3/padding=1",
        "portable",
        "* (push.results - 1) + channel",
        "* (push.results - 2) + channel",
        "conv_few",
    ),
    "rows of patches go on by the width's stride": (
        "im2col/f32/n2_c15_h6_w5/dilation_h=2,kernel_h=2,padding=1,padding_h=0,stride=2,stride_h=1",
        "portable",
        "pixels[i].p * push.height.stride",
        "pixels[i].p * push.width.stride",
    ),
    "weights are shares of all experts' sum": (
        "top_k_moe/f32/n17_e31_k5/gating=sigmoid,normalise=selected",
        "portable",
        "sum = own.sum(chosen, thread)",
        "sum = own.sum(own.is, thread)",
    ),
    "row numbers of 64 bits are read as ones of 32": (
        "set_rows/q4_0:ids=i64/m101_n13_k96",
        "portable",
        "row * push.id_words]",
        "row]",
    ),
    "a larger logit leaves what targets are below it": (
        "cross_entropy/f32/n130_k256",
        "portable",
        "seen.targets * (largest - seen.largest)",
        "seen.targets * largest",
    ),
    "groups of an image have the weights of its first one": (
        "group_norm/f32/b1_c64_h16_w16/fused=mul",
        "portable",
        "stretch.row % push.groups * push.channels",
        "stretch.row / push.groups * push.channels",
    ),
    "a mean counts the padding at the sides": (
        "avg_pool2d/f32/n2_c3_h10_w9/divisor=inside,padding=1",
        "portable",
        "push.width.inside(q)",
        "push.width.taps",
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

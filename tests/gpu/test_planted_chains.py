"""Small mistakes in kernels of several operations, each planted in one expression, are seen."""

from __future__ import annotations

import pytest

from planted_edit import compile_edited_kernel
from vkbench.job import Job, Mode, Outcome
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

# A case, what its source says, and what it says wrongly.
WRONG = {
    "a sine keeps its sign": (
        "snake/f32/b1_c7_h1_w33",
        "fma(sine * sine, share, value)",
        "fma(sine * abs(sine), share, value)",
    ),
    "the last array is left out": (
        "multi_add/f32/m33_k64/count=8",
        "if (ADDED > 7)",
        "if (ADDED > 8)",
    ),
    "numbers half a row apart do not meet": (
        "hadamard/f32/m33_k128",
        "at < POWER;",
        "at < POWER - 1;",
    ),
    "a head's root has no eps": (
        "rms_norm_rope/f32/b1_n33_h4_k80/eps=0.1,factors=given,mode=neox,n_dims=32",
        "+ push.eps",
        "+ 0",
    ),
    "a bias is the first expert's": (
        "mul_mat_vec_id/q4_0/e8_u3_m67_n4_k512/then=add",
        "biases[ids[pair] * push.m + row]",
        "biases[ids[0] * push.m + row]",
    ),
    "a sum is multiplied before its bias": (
        "mul_mat_vec_id/q4_0/e8_u3_m67_n4_k512/then=add_mul",
        "total += biases[ids[pair] * push.m + row];",
        "total += biases[ids[pair] * push.m + row] / (SHARED != 0 ? shares[pair] : 1);",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_one_expression_is_seen(lavapipe: VulkanDevice, mistake: str) -> None:
    case, right, wrong = WRONG[mistake]
    planted = compile_edited_kernel(case, "portable", right, wrong)
    job = Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, variant="portable")
    result = execute(lavapipe, planted, job)
    assert result.outcome is Outcome.WRONG, result.reason

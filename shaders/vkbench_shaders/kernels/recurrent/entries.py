"""Operations that go through tokens one after the other, with a state in and a state out."""

from __future__ import annotations

from vkbench_shaders.kernels.recurrent.delta import GATED_DELTA_NET
from vkbench_shaders.kernels.recurrent.rwkv import GATED_LINEAR_ATTN, RWKV_WKV6, RWKV_WKV7
from vkbench_shaders.kernels.recurrent.ssm import SSM_CONV, SSM_SCAN

RECURRENT = (
    SSM_CONV,
    SSM_SCAN,
    GATED_DELTA_NET,
    RWKV_WKV6,
    RWKV_WKV7,
    GATED_LINEAR_ATTN,
)

"""`vkbench shard` on a real device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Vkbench = Callable[..., Any]


def test_a_product_and_an_attention_are_divided_and_right(vkbench: Vkbench) -> None:
    for case in ("matmul/f16/b1_m64_n32_k48", "flash_attn/f16/s1_h4_g4_q5_n17_d8_e8"):
        ended = vkbench("shard", case, "--shards", "1,2,4", "--seconds", "0.02", "--json")
        assert ended.code == 0, ended.err
        rows = json.loads(ended.out)["rows"]
        assert [row["shards"] for row in rows] == [1, 2, 4]
        assert [row["how"] for row in rows] == ["alone", "simulated", "simulated"]
        assert {row["verdict"] for row in rows} == {"passed"}
        assert all(row["compute_seconds"] > 0 and row["whole_seconds"] > 0 for row in rows)
        assert rows[0]["compute_speedup"] == 1.0
        assert "simulated: one device did all shards in turn" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("copy/f32/n31",), "copy cannot be divided"),
        (("matmul/f16/b1_m6_n2_k2", "--shards", "4"), "m=6 has no 4 equal parts"),
        (("matmul/f16/b1_m6_n2_k2", "--shards", "2,x"), "malformed --shards '2,x'"),
        (("matmul/f16/b1_m6_n2_k2", "--shards", "0"), "malformed --shards '0'"),
        (("matmul/f16/b1_m6_n2_k2", "--shards", "2", "--variant", "nope"), "no variant nope"),
    ],
)
def test_what_cannot_be_is_one_line(vkbench: Vkbench, words: tuple[str, ...], said: str) -> None:
    ended = vkbench("shard", *words)
    assert ended.code
    assert said in ended.err
    assert ended.err.count("\n") == 1

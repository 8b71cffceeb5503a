"""`vkbench shard` on a real device."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
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


CASE = "matmul/f16/b1_m64_n32_k48"


def test_results_are_stored_beside_the_case_s_own_and_travel(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    own = vkbench("run", "--case", CASE, "--mode", "performance", "--seconds", "0.02")
    assert own.code == 0, own.err
    ended = vkbench("shard", CASE, "--shards", "1,2", "--seconds", "0.02", "--label", "halves")
    assert ended.code == 0, ended.err
    assert "stored as run 2" in ended.err
    stored = vkbench("results", "--run", "last", "--json").rows
    assert [row["variant"].partition(":")[2] for row in stored] == ["shards=2", "shards=1"]
    for row in stored:
        assert (row["mode"], row["verdict"], row["run_label"]) == ("sharded", "passed", "halves")
        assert row["hot_seconds"] > 0
        assert row["copies_seconds"] > 0
        assert row["hot_samples"] >= 5
        assert row["driver"]
    [undivided] = vkbench("results", "--json").rows
    assert undivided["mode"] == "performance"
    series = {row["hot_series"] for row in (*stored, undivided)}
    assert None not in series
    assert len(series) == 3
    text = vkbench("results", "--run", "last").out
    assert "with copies" in text
    assert "portable:shards=2" in text
    _travels(vkbench, stored, tmp_path)


def _travels(vkbench: Vkbench, stored: list[dict[str, Any]], folder: Path) -> None:
    """A run of shards is the same in a database that imports it."""
    file, other = str(folder / "run.jsonl"), str(folder / "other.db")
    assert vkbench("export", "last", "--output", file).code == 0
    vkbench("db", "upgrade", "--database", other)
    imported = vkbench("import", file, "--database", other)
    assert imported.code == 0, imported.err
    found = vkbench("results", "--run", "last", "--database", other, "--json").rows
    same = ("variant", "mode", "hot_seconds", "copies_seconds", "nmse", "environment", "warnings")
    assert [[row[key] for key in same] for row in found] == [
        [row[key] for key in same] for row in stored
    ]
    assert all(row["hot_series"] for row in found)


def test_pieces_of_a_shard_are_right_too(vkbench: Vkbench) -> None:
    for case in (CASE, "mul_mat/q4_0/m64_n32_k64"):
        ended = vkbench("shard", case, "--shards", "1,2", "--pieces", "4", "--seconds", "0.02")
        assert ended.code == 0, ended.err
        rows = vkbench("results", "--run", "last", "--json").rows
        assert {row["verdict"] for row in rows} == {"passed"}
        assert {row["variant"].partition(":")[2] for row in rows} == {
            "pieces=4,shards=1",
            "pieces=4,shards=2",
        }


def test_later_shards_join_the_series_and_are_compared(vkbench: Vkbench) -> None:
    for _ in range(2):
        assert vkbench("shard", CASE, "--shards", "2", "--seconds", "0.02").code == 0
    found = vkbench("results", "--mode", "sharded", "--history", "--json").rows
    assert len(found) == 2
    assert len({row["hot_series"] for row in found}) == 1
    compared = vkbench("compare", "1", "2", "--all", "--json").rows
    assert {row["metric"] for row in compared if row["metric"]} == {"hot", "copies"}


def test_what_shall_not_be_kept_is_not_stored(vkbench: Vkbench) -> None:
    words = ("shard", CASE, "--shards", "2", "--seconds", "0.02")
    ended = vkbench(*words, "--no-keep")
    assert ended.code == 0, ended.err
    assert "stored" not in ended.err
    assert vkbench("results", "--run", "last").code


def test_a_database_that_takes_no_writes_is_one_line(
    vkbench: Vkbench, asked: Vkbench, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for url in (f"sqlite:///{tmp_path}/file/results.db", f"sqlite:///{tmp_path}"):
        ended = asked("shard", CASE, "--shards", "2", "--database", url)
        assert ended.code
        assert ended.out == ""
        assert ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("copy/f32/n31",), "copy cannot be divided"),
        (("matmul/f16/b1_m6_n2_k2", "--pieces", "3", "--shards", "1"), "n=2 has no 3 equal pieces"),
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

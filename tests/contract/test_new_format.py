"""A new format is one row and one Slang struct: everything else finds it.

A copy of the packages gets q4_0 under another name, and nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from copied_packages import ROOT, VKBENCH, CopiedPackages, copy_packages
from vkbench_shaders.families import families
from vkbench_shaders.kernels.matrices.products import BYTES_ALONE
from vkbench_shaders.kernels.matrices.vectors.joined_vec import JOINED_VEC
from vkbench_shaders.kernels.moves.blocks import BLOCKS

DRIVER = ROOT / "tests/planted/planted_format.py"
NAME = "x4_0"
ROW = f'    _row("{NAME}", 2, 32, 18, {{0: 1 / 8}}, "q4_0 under another name"),\n'


@pytest.fixture
def planted(tmp_path: Path) -> CopiedPackages:
    """The packages, with one row in formats.py and one struct in blocks.slang more."""
    copy = copy_packages(tmp_path)
    shaders = tmp_path / "shaders/vkbench_shaders"
    table, blocks = shaders / "formats.py", shaders / "slang/formats/blocks.slang"
    rows = table.read_text()
    head, end, tail = rows.partition("\n)\n\nQUANTISED")
    assert end
    table.write_text(f"{head}\n{ROW.rstrip()}{end}{tail}")
    [struct] = re.findall(
        r"^public struct q4_0 : IFormat\n\{\n.*?^\}\n", blocks.read_text(), re.M | re.S
    )
    blocks.write_text(blocks.read_text() + "\n" + struct.replace("q4_0", NAME))
    return copy


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_everything_finds_a_format_that_was_planted(
    planted: CopiedPackages, tmp_path: Path, need: Callable[[str, str], NoReturn]
) -> None:
    done = planted.run(str(DRIVER), NAME, str(tmp_path / "bundle"))
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    like = {"dequantize", "get_rows", "mul_mat_vec", "mul_mat", "mul_mat_vec_id", "mul_mat_id"}
    like |= {kernel.name for kernel in JOINED_VEC if kernel.reads_weights}
    like |= {kernel.name for kernel in BLOCKS}
    assert set(said["kernels"]) == like
    [row] = said["grid"]
    assert row["format"] == NAME
    for family in families():
        if (
            family.x == BYTES_ALONE
        ):  # vectors that kernels take beside weights in q4_0 alone, by name
            continue
        if family.kernel.name in like and family.types("q4_0"):
            assert row[family.name] != "-", family.name
    assert said["sizes"][0]["ratio"] == pytest.approx(32 / 4.5)
    assert said["suites"]["quant"] > 50
    assert said["suites"]["quant-perf"] > 10
    assert said["suites"]["quick"] == 0  # few formats
    assert len(said["page"]) == 2
    of_any_blocks = [unit for unit in said["units"] if NAME not in unit]
    assert len(of_any_blocks) == len(BLOCKS), of_any_blocks  # they move bytes
    devices = planted.run("-c", VKBENCH, "devices", "--local")
    if devices.returncode:
        need("gpu", devices.stderr.strip())
    words = ["-f", NAME, "--variant", "portable", "--mode", "correctness", "--json"]
    ran = planted.run("-c", VKBENCH, "run", "--bundle", said["bundle"], *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)["rows"]
    assert {row["kernel"] for row in found} == like
    assert {row["verdict"] for row in found} == {"passed"}

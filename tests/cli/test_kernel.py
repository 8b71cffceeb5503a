"""`vkbench kernel`: what it says where a folder cannot be made, and of names with blanks."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from commands import Captured, run_command


def test_the_next_command_can_be_typed_as_it_stands(tmp_path: Path, capsys: Captured) -> None:
    words = shlex.split(run_command(capsys, "kernel", "new", str(tmp_path / "my kernel"))[0])
    assert words == ["vkbench", "kernel", "check", str(tmp_path / "my kernel" / "rms_quant.toml")]
    assert Path(words[-1]).is_file()


def test_a_pack_is_written_whole(tmp_path: Path, capsys: Captured) -> None:
    told = run_command(capsys, "kernel", "new", "--pack", "ggml-vulkan", str(tmp_path / "all"))[0]
    assert told.startswith("32 declarations of ggml-vulkan: vkbench run --kernel-file FILE")
    names = {path.name for path in (tmp_path / "all").iterdir()}
    assert {"rms_norm.toml", "flash_attn.toml", "references.py"} < names
    assert "__init__.py" not in names
    words = ("kernel", "new", str(tmp_path / "more"), "--pack")
    assert "did you mean 'ggml-vulkan'" in run_command(capsys, *words, "ggml", code=2)[1]
    asked = run_command(capsys, *words, "ggml-vulkan", "--shadow", code=2)[1]
    assert asked == "vkbench: give only one of --shadow and --pack\n"


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_half_of_a_kernel(tmp_path: Path, capsys: Captured) -> None:
    assert (
        run_command(capsys, "kernel", "new", str(tmp_path / "mine"), code=4)[1]
        == f"vkbench: cannot write {tmp_path}/mine: File too large\n"
    )
    assert not list(tmp_path.iterdir())

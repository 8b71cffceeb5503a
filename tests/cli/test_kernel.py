"""`vkbench kernel`: what it says where a folder cannot be made, and of names with blanks."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from commands import Captured, read_rows, run_command
from planted_git import commit, git
from vkbench.process.git import find_revision
from vkbench.settings import settings


def test_the_next_command_can_be_typed_as_it_stands(tmp_path: Path, capsys: Captured) -> None:
    words = shlex.split(run_command(capsys, "kernel", "new", str(tmp_path / "my kernel"))[0])
    assert words == ["vkbench", "kernel", "check", str(tmp_path / "my kernel" / "rms_quant.toml")]
    assert Path(words[-1]).is_file()


def test_a_kernel_in_a_checkout_says_of_which_revision_it_is(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()
    mine = tmp_path / "mine"
    check = ("kernel", "check", str(mine / "rms_quant.toml"))
    run_command(capsys, "kernel", "new", str(mine))
    assert " of " not in run_command(capsys, *check)[1]
    git(mine, "init", "--quiet", "--initial-branch=main")
    commit(mine, "the first one")
    sha = find_revision(mine, "HEAD").sha[:10]
    assert run_command(capsys, *check)[1].endswith(f" of {sha} the first one\n")
    (mine / "note").write_text("in no revision")
    assert run_command(capsys, *check)[1].endswith(f" of {sha} the first one, with changes\n")
    origins = [f"{sha} the first one", f"{sha} the first one, with changes"]
    commits = [row["commit"] for row in read_rows(capsys, "bundle", "ls")]
    assert list(filter(None, commits)) == [origins]
    assert "; ".join(origins) in " ".join(run_command(capsys, "bundle", "ls", "--wide")[0].split())


def test_a_pack_is_written_whole(tmp_path: Path, capsys: Captured) -> None:
    told = run_command(capsys, "kernel", "new", "--pack", "ggml-vulkan", str(tmp_path / "all"))[0]
    assert told.startswith("33 declarations of ggml-vulkan: vkbench run --kernel-file FILE")
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

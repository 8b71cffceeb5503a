"""`vkbench noise` says what cannot be seen, once there are results enough."""

from __future__ import annotations

import time

import pytest

from commands import Captured, read_rows, run_command
from planted_runs import Past
from vkbench_detection.series import placing


@pytest.fixture
def scattered(past: Past) -> Past:
    """Ten more runs, of which the second case scatters by 4 %, placed in their series."""
    for night in range(10):
        away = 1 + 0.02 * (night % 5)
        past.run(f"night {night}", *map(past.done, (1e-3, 2e-6 * away, 3e-6)))
    with past.database.transaction() as tx:
        placing.place(tx, time.time())
    return past


@pytest.mark.usefixtures("scattered")
def test_the_noisiest_comes_first(capsys: Captured) -> None:
    out, err = run_command(capsys, "noise")
    assert out == ""
    assert "none of 6 series" in err
    assert "--refresh" in err
    profiles = read_rows(capsys, "noise", "--refresh")
    assert len(profiles) == 6
    assert profiles[0]["case_name"] == "mul_mat_vec/q4_0/m64_n1_k256"
    assert profiles[0]["sigma"] > 0.02 > profiles[-1]["sigma"]
    assert profiles[0]["smallest_effect"] > 0.05
    assert profiles[-1]["smallest_effect"] == pytest.approx(0.015)
    out, err = run_command(capsys, "noise", "--sort", "case", "--kernel", "copy")
    assert "cannot see below" in out
    assert "1.5%" in out
    assert "2 of 2 series have a profile" in err
    assert read_rows(capsys, "noise", "--sort", "CASE")[0]["case_name"] == "copy/f32/n4096"
    assert (
        len(read_rows(capsys, "noise", "--limit", "1", "--device", "planted", "--case", "copy/*"))
        == 1
    )
    assert run_command(capsys, "noise", "--csv")[0].startswith("host,")


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--device", "nothing"], "unknown device 'nothing'"),
        (["--kernel", "copi"], "did you mean 'copy'"),
        (["--case", "copy"], "unknown case 'copy'"),
        (["--sort", "colour"], "colour"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(words: list[str], hint: str, capsys: Captured) -> None:
    out, err = run_command(capsys, "noise", *words, code=2)
    assert out == ""
    assert hint in err

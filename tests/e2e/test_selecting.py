"""Commands that work on this machine read selectors as those that ask the database do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Vkbench = Callable[..., Any]

CHECK = ("-k", "copy", "-f", "f32", "-s", "n=16", "--mode", "correctness")


@pytest.fixture
def devices(vkbench: Vkbench) -> list[dict[str, Any]]:
    """The devices of this machine."""
    return list(vkbench("devices", "--local", "--json").rows)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Arrays for copy."""
    np.savez(path := tmp_path / "in.npz", x=np.zeros(16, np.float32))
    return path


@pytest.mark.parametrize("form", ["{index}", "{key:.6}", "{host}/{index}", "{name}"])
def test_a_device_of_this_machine_is_named_in_any_way(
    vkbench: Vkbench, devices: list[dict[str, Any]], given: Path, form: str
) -> None:
    last = devices[-1]
    ended = vkbench(
        *("exec", "copy", "--input", str(given), "--output", str(given.with_name("out.npz"))),
        *("-d", form.format(**last)),
    )
    assert ended.code == 0, ended.err
    assert last["name"] in ended.out


def test_a_run_and_its_results_agree(vkbench: Vkbench, devices: list[dict[str, Any]]) -> None:
    every = {device["key"] for device in devices}
    assert vkbench("run", *CHECK, "-d", "host:{host}".format(**devices[0])).code == 0
    for selector in ("*", "host:{host}".format(**devices[0])):
        assert {row["device"] for row in vkbench("results", "-d", selector, "--json").rows} == every


def test_what_fits_nothing_is_one_error(vkbench: Vkbench, given: Path) -> None:
    asking = (
        ("run", *CHECK),
        ("calibrate",),
        ("exec", "copy", "--input", str(given), "--output", str(given.with_name("out.npz"))),
    )
    ended = [vkbench(*words, "-d", "no such thing") for words in asking]
    assert {each.code for each in ended} == {2}
    [said] = {each.err for each in ended}
    assert said.startswith("vkbench: unknown device 'no such thing'; ")

"""`vkbench kernels`: all of the catalogue, in enough detail to script `exec`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vkbench_cli import main as cli
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.formats import format_named

Captured = pytest.CaptureFixture[str]


def listed(capsys: Captured, *words: str) -> list[dict[str, Any]]:
    assert cli.main(["kernels", "--json", *words]) == 0
    return list(json.loads(capsys.readouterr().out)["rows"])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_told_whole(kernel: Any, capsys: Captured) -> None:
    [row] = listed(capsys, "--kernel", kernel.name.upper())
    assert row["description"] == kernel.description
    assert [b["name"] for b in row["bindings"]] == [b.name for b in kernel.bindings]
    assert [b["access"] for b in row["bindings"]] == [b.access for b in kernel.bindings]
    assert [v["name"] for v in row["variants"]] == [v.name for v in kernel.variants]
    assert set(row["params"]) == set(kernel.params)
    for binding in row["bindings"]:
        for name in binding["types"]:
            stored = row["storage"][name]
            assert stored["dtype"] == format_named(name).dtype.name
            assert stored["bytes"] == format_named(name).bytes


def test_kernels_are_chosen_by_glob_and_format(capsys: Captured) -> None:
    assert {row["name"] for row in listed(capsys, "-k", "MUL_*")} == {"mul_mat", "mul_mat_vec"}
    assert "dequantize" not in {row["name"] for row in listed(capsys, "-f", "f32")}
    assert {row["name"] for row in listed(capsys, "-k", "*", "-f", "q8_0")} == {
        "dequantize",
        "mul_mat_vec",
    }


@pytest.mark.parametrize("words", [["-k", "mulmat"], ["-f", "q4_O"]])
def test_unknown_names_get_a_suggestion(words: list[str], capsys: Captured) -> None:
    assert cli.main(["kernels", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "did you mean" in said.err


def test_the_text_has_a_line_for_each(capsys: Captured) -> None:
    assert cli.main(["kernels"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["kernel", "formats", "variants", "sizes", "description"]
    assert [line.split()[0] for line in lines] == [kernel.name for kernel in KERNELS]

"""`vkbench kernels`: all of the catalogue, in enough detail to script `exec`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import planted_runs
from commands import Captured, run_command
from vkbench.programs.ggml_operations import ALL, DATE, VERSION
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.families import families
from vkbench_shaders.formats import FORMATS, format_named
from vkbench_shaders.tuning import tables
from vkbench_shaders.tuning.classes import CLASSES, class_of
from vkbench_shaders.tuning.estimates import Peaks
from vkbench_shaders.tuning.tables import Table as TuningTable

DEVICE = replace(planted_runs.DEVICE, features=())


def listed(capsys: Captured, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(run_command(capsys, "kernels", "--json", *words)[0])["rows"])


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
    products = {kernel.name for kernel in KERNELS if kernel.name.startswith("mul_")}
    assert {row["name"] for row in listed(capsys, "-k", "MUL_*")} == products
    assert "dequantize" not in {row["name"] for row in listed(capsys, "-f", "f32")}
    takes = {kernel.name for kernel in KERNELS if "q8_0" in kernel.bindings[0].types}
    assert {row["name"] for row in listed(capsys, "-k", "*", "-f", "q8_0")} == takes


@pytest.mark.parametrize("words", [["-k", "mulmat"], ["-f", "q4_O"]])
def test_unknown_names_get_a_suggestion(words: list[str], capsys: Captured) -> None:
    out, err = run_command(capsys, "kernels", *words, code=2)
    assert out == ""
    assert "did you mean" in err


def test_the_text_has_a_line_for_each(capsys: Captured) -> None:
    heading, *lines = run_command(capsys, "kernels")[0].splitlines()
    assert heading.split() == ["kernel", "group", "formats", "variants", "sizes", "description"]
    assert [line.split()[0] for line in lines] == [kernel.name for kernel in KERNELS]


def test_the_grid_is_the_catalogue_s_where_there_is_no_device(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    out, err = run_command(capsys, "kernels", "--grid", "--json", "-f", "q4_0", "-f", "i32")
    assert err.count("\n") == 1
    assert "no device here, so this is the catalogue's own grid" in err
    rows = {row["format"]: row for row in json.loads(out)["rows"]}
    names = [family.name for family in families()]
    assert all(list(row)[-len(names) :] == names for row in rows.values())
    assert rows["q4_0"]["mul_mat_vec:x=f32"] == "subgroup"
    assert rows["q4_0"]["get_rows"] == "portable"
    assert rows["i32"]["mul_mat_vec:x=f32"] == "-"
    assert rows["q4_0"]["bits"] == 4.5
    assert (rows["q4_0"]["device"], rows["q4_0"]["bytes"]) == (None, 18)


def test_the_grid_says_what_a_device_lacks() -> None:
    from vkbench_cli.show.grid import grid_table

    [row] = grid_table([DEVICE], {"q4_0"}, {"mul_mat_vec"}).rows
    assert row["device"] == DEVICE.name
    assert row["mul_mat_vec:x=f32"] == "portable"
    small = replace(DEVICE, limits={"max_storage_range": 4})
    [row] = grid_table([small], {"q4_0"}, {"mul_mat_vec"}).rows
    assert str(row["mul_mat_vec:x=f32"]).startswith("no: variant portable: ")
    assert "the device binds 4 at most" in str(row["mul_mat_vec:x=f32"])


def test_formats_have_their_compression(capsys: Captured) -> None:
    rows = {row["format"]: row for row in listed(capsys, "--formats")}
    assert list(rows) == [fmt.name for fmt in FORMATS]
    assert rows["q4_0"]["ratio"] == pytest.approx(32 / 4.5)
    assert (rows["q8_1"]["bytes"], rows["mxfp4"]["elements"]) == (36, 32)


def test_what_ggml_has_and_we_lack_is_listed_with_reasons(capsys: Captured) -> None:
    lacking = {name: known for name, known in ALL.items() if isinstance(known, str)}
    out, err = run_command(capsys, "kernels", "--missing", "GGML", "--json")
    assert {row["operation"]: row["reason"] for row in json.loads(out)["rows"]} == lacking
    assert f"of which kernels of the catalogue compute {len(ALL) - len(lacking)}" in err
    assert (VERSION in err, DATE in err) == (True, True)
    lines = run_command(capsys, "kernels", "--missing", "ggml", "--wide")[0].splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(lacking)
    assert "no data" in next(line for line in lines if line.startswith("VIEW "))
    assert "unknown program" in run_command(capsys, "kernels", "--missing", "ggmk", code=2)[1]
    chosen = ("--missing", "ggml", "--kernel", "add")
    assert "takes no --kernel" in run_command(capsys, "kernels", *chosen, code=2)[1]


def test_one_table_at_a_time(capsys: Captured) -> None:
    assert "give only one of" in run_command(capsys, "kernels", "--grid", "--formats", code=2)[1]


def test_classes_without_a_table_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Most classes of devices have nobody yet who measured theirs."""
    monkeypatch.setattr("vkbench_local.machine.all_devices", lambda: [DEVICE])
    err = run_command(capsys, "kernels", "--kernel", "copy")[1]
    assert (
        "tuned for nvidia-hopper. Nothing was measured yet for cpu, amd-rdna, intel-xe, unknown"
        in (" ".join(err.split()))
    )
    assert "kernels --classes" not in run_command(capsys, "kernels", "--json")[1]
    rows = {row["class"]: row for row in listed(capsys, "--classes")}
    assert list(rows) == [kind.name for kind in CLASSES]
    assert (rows["nvidia-hopper"]["tuned"], rows["amd-rdna"]["tuned"]) == (3, 0)
    assert rows["amd-rdna"]["choices"] == "estimated as on an H200: not calibrated"
    assert (rows[class_of(DEVICE).name]["devices"], rows["amd-rdna"]["devices"]) == (1, 0)


def test_an_installed_calibration_is_what_a_class_is_estimated_from(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    peaks = Peaks(compute_units=60, fma=2e13, memory_bytes=8e11, launch_seconds=3e-6)
    installed = {"amd-rdna": TuningTable(device_class="amd-rdna", peaks=peaks)}
    monkeypatch.setattr("vkbench_local.machine.all_devices", list)
    monkeypatch.setattr(
        tables, "read_installed", lambda name: installed.get(name, TuningTable(device_class=name))
    )
    rows = {row["class"]: row["choices"] for row in listed(capsys, "--classes")}
    assert rows["amd-rdna"] == "estimated from its calibration"
    assert rows["intel-xe"] == "estimated as on an H200: not calibrated"
    chosen = ("kernels", "--classes", "--kernel", "add")
    assert "takes no --kernel" in run_command(capsys, *chosen, code=2)[1]

"""`vkbench calibrate --show` and --submit, the canary among the devices, and shares of the roof."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from sqlalchemy import select

import planted_runs
from commands import Captured, read_rows, run_command
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_detection.series.canaries import CanaryReading, note
from vkbench_detection.series.placing import place
from vkbench_shaders.tuning import tables
from vkbench_shaders.tuning.classes import class_of

GIGA = 10**9


@pytest.fixture
def calibrated(filled: Database) -> Database:
    """The database, its device calibrated before its results are placed."""
    with filled.transaction() as tx:
        device, environment = tx.execute(
            select(schema.device.c.id, schema.device.c.environment)
        ).one()
        values = {
            "device_id": device,
            "environment": environment,
            "measured_at": time.time(),
            "run_id": tx.execute(select(schema.run.c.id)).scalars().first(),
            "read_bytes": 4.5e12,
            "copy_bytes": 100e6,
            "fma_f32": 60e12,
            "matrices": {"f16_f16": 600e12, "bf16_f32": 590e12},
            "launch_seconds": 1.7e-6,
            "tick_seconds": 32e-9,
            "noise": 0.0012,
        }
        tx.execute(schema.calibration.insert().values(**values))
        place(tx, time.time())
    return filled


@pytest.mark.usefixtures("calibrated")
def test_what_devices_reached_is_shown(capsys: Captured) -> None:
    text = run_command(capsys, "calibrate", "--show")[0]
    heading, text_row = [line for line in text.splitlines() if line][-2:]
    assert "read TB/s" in heading
    assert "bf16>f32 TFLOP/s" in heading
    assert "fma f16" not in heading  # no device has any
    assert {"4.500", "60.00", "590.0", "600.0", "1.700", "32.00", "0.1%"} <= set(text_row.split())
    [row] = read_rows(capsys, "calibrate", "--show", "-d", "planted*")
    assert row["read_bytes_per_second"] == 4.5e12
    assert row["matrix_f16_f16_per_second"] == 600e12
    assert row["fma_f16_per_second"] is None
    assert row["launch_seconds"] == 1.7e-6
    assert row["noise"] == 0.0012


@pytest.mark.usefixtures("calibrated")
def test_an_unknown_cache_is_told(capsys: Captured) -> None:
    out, err = run_command(capsys, "calibrate", "--show", "--json")
    assert "Planted 9000 (252e5e39f6aa): its last-level cache size is unknown" in err
    assert json.loads(out)["rows"][0]["llc_bytes"] is None


@pytest.mark.usefixtures("calibrated")
def test_results_say_how_near_the_roof_they_come(capsys: Captured) -> None:
    by_case = {row["case"]: row for row in read_rows(capsys, "results")}
    copied = by_case["copy/f32/n4096"]
    assert copied["cold_roof_fraction"] == pytest.approx(10_000 / 4.5e12 / copied["cold_seconds"])
    assert copied["roof_fraction"] is None  # of hot timings: the size of the cache is not known
    assert copied["path_fraction"] is None  # it computes nothing
    assert by_case["mul_mat_vec/q8_0/m64_n1_k256"]["roof_fraction"] is None  # wrong
    assert "of roof" in run_command(capsys, "results")[0]


@pytest.mark.usefixtures("filled")
def test_without_a_calibration_none_is_shown(capsys: Captured) -> None:
    assert (
        "no device is calibrated yet: run `vkbench calibrate`"
        in run_command(capsys, "calibrate", "--show")[1]
    )
    assert read_rows(capsys, "calibrate", "--show") == []
    assert "of roof" not in run_command(capsys, "results")[0]


@pytest.mark.usefixtures("filled")
def test_the_fleet_is_asked(capsys: Captured) -> None:
    run = run_command(capsys, "calibrate", "--submit")[0].strip()
    [submitted] = [row for row in read_rows(capsys, "jobs") if str(row["id"]) == run]
    assert submitted["label"] == "calibration"
    cases = {row["case"] for row in read_rows(capsys, "jobs", run, "--limit", "0")}
    assert {"launch/u32/n1", "fma/f32/n1048576_r256", "copy/f32/n67108864"} <= cases


def test_measuring_and_showing_exclude_each_other(capsys: Captured, filled: Database) -> None:
    assert (
        "--submit or --show, not both"
        in run_command(capsys, "calibrate", "--show", "--submit", code=2)[1]
    )


def test_devices_say_whether_their_canary_is_steady(capsys: Captured, filled: Database) -> None:
    def canary() -> dict[str, Any]:
        [off] = read_rows(capsys, "devices")
        return off

    def tell(*seconds: float, begin: float) -> None:
        with filled.transaction() as tx:
            device = tx.execute(select(schema.device.c.id)).scalar_one()
            readings = [
                CanaryReading(at=begin + n, device_id=device, environment="e", seconds=value)
                for n, value in enumerate(seconds)
            ]
            note(tx, readings)

    assert (canary()["canary"], canary()["canary_at"]) == ("", None)
    tell(*[1e-3] * 10, begin=1_790_000_000.0)
    assert canary()["canary"] == "new"
    tell(1.001e-3, begin=1_790_000_100.0)
    assert canary()["canary"] == "steady"
    tell(1.1e-3, begin=1_790_000_200.0)
    off = canary()
    assert off["canary"] == "off"
    assert off["canary_sigmas"] == pytest.approx(31.77, rel=1e-3)
    assert "off" in run_command(capsys, "devices")[0].split()


@pytest.mark.usefixtures("calibrated")
def test_a_class_that_was_calibrated_lacks_only_its_table(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("vkbench_local.machine.all_devices", list)
    monkeypatch.setattr(tables, "read_shipped", lambda _: tables.Table())  # whichever ship by now
    rows = {row["class"]: row["choices"] for row in read_rows(capsys, "kernels", "--classes")}
    calibrated = rows.pop(class_of(planted_runs.DEVICE).name)
    assert calibrated == "estimated as on an H200: calibrated, but its table is not installed"
    assert set(rows.values()) == {"estimated as on an H200: not calibrated"}

"""Drivers under test on one machine, by the commands that a user types."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planted_drivers import LAVAPIPE, SWIFTSHADER, plant_driver
from vkbench.drivers.store import DriverStore
from vkbench.settings import settings

SUM = "add/f32/b1_c1_h8_w64"
Vkbench = Callable[..., Any]
Need = Callable[[str, str], None]


@pytest.fixture
def lavapipe(need: Need) -> Path:
    """The manifest of the system's CPU driver."""
    if not LAVAPIPE.exists():
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")
    return LAVAPIPE


@pytest.fixture
def swiftshader(need: Need) -> Path:
    """The manifest of another CPU driver."""
    if not SWIFTSHADER.exists():
        need("swiftshader", "SwiftShader is not installed (apt install chromium)")
    return SWIFTSHADER


def add(vkbench: Vkbench, **manifests: Path) -> None:
    for name, manifest in manifests.items():
        added = vkbench("driver", "add", name, "--icd", str(manifest))
        assert added.code == 0, added.err


def test_runs_through_two_drivers_are_of_one_device(
    vkbench: Vkbench, lavapipe: Path, swiftshader: Path, tmp_path: Path
) -> None:
    wrong = plant_driver("wrong", tmp_path / "wrong")
    add(vkbench, lavapipe=lavapipe, swift=swiftshader, wrong=wrong)
    chosen = ("--case", SUM, "--seconds", "0.05", "--device", "llvmpipe", "--track", "none")
    for name in ("lavapipe", "swift"):
        ran = vkbench("run", "--driver", name, *chosen)
        assert ran.code == 0, ran.err
    assert vkbench("run", "--driver", "wrong", "--mode", "correctness", *chosen).code == 3
    plain = vkbench("run", "--mode", "correctness", *chosen)  # nothing of the wrong one is kept
    assert plain.code == 0, plain.err
    rows = vkbench("results", "--history", "--json").rows
    assert len({row["device"] for row in rows}) == 1
    assert {row["driver"] for row in rows} == {"llvmpipe", "SwiftShader driver"}
    assert len({row["environment"] for row in rows}) == 4
    assert all("llvmpipe" in row["device_name"] for row in rows)
    compared = vkbench("compare", "driver:lavapipe", "driver:swift", "--all", "--json")
    assert compared.err.startswith("driver lavapipe, llvmpipe "), compared.err
    assert {row["case"] for row in compared.rows} == {SUM}
    judged = vkbench("compare", "driver:lavapipe", "driver:wrong", "--fail-on", "wrong")
    assert judged.code == 3
    assert "1 verdict changed (1 wrong, 0 fixed)" in judged.err


@pytest.mark.timeout(200)
@pytest.mark.usefixtures("new_lavapipe")
def test_mesa_of_two_releases_is_one_device(vkbench: Vkbench, lavapipe: Path) -> None:
    """The newer one needs a newer C library, which its runner is started with."""
    known = json.loads(Path(sys.prefix, "new-lavapipe", "driver.json").read_text())
    unpacked = Path(known["ICD"]["library_path"]).parents[3]
    store = DriverStore(settings().driver_folder())
    store.add_packages("new", "forky", "lvp_icd.json", unpacked)
    add(vkbench, old=lavapipe)
    chosen = ("--case", SUM, "--device", "llvmpipe", "--seconds", "0.02")
    for name in ("old", "new"):
        ran = vkbench("run", "--driver", name, *chosen, "--mode", "correctness")
        assert ran.code == 0, ran.err
    arms = ("--old", "old", "--new", "new", "--budget", "60", "--all", "--json")
    tried = vkbench("driver", "try", *arms, *chosen)
    assert [row["pairs"] >= 1 for row in tried.rows] == [True], tried.err
    rows = vkbench("results", "--history", "--json").rows
    compared = vkbench("compare", "driver:old", "driver:new", "--all", "--json")
    assert [row["new_results"] for row in compared.rows] == [tried.rows[0]["pairs"]]
    assert compared.rows[0]["ratio"] == pytest.approx(tried.rows[0]["ratio"])
    assert len({row["device"] for row in rows}) == 1
    assert sorted(int(row["driver_version"].partition(".")[0]) >= 26 for row in rows) == [
        False,
        True,
    ]


def test_a_stopped_run_goes_on_through_its_driver(
    vkbench: Vkbench, lavapipe: Path, tmp_path: Path
) -> None:
    add(vkbench, planted=plant_driver("none", tmp_path / "planted"))
    chosen = ("--case", SUM, "--mode", "correctness", "--repeat", "3", "--device", "llvmpipe")
    assert vkbench("run", "--driver", "planted", *chosen, "--stop-after", "0").code == 7
    assert vkbench("driver", "rm", "planted").code == 0
    gone = vkbench("run", "--resume", "last")
    assert (gone.code, "was removed: add it again" in gone.err) == (2, True)
    add(vkbench, planted=tmp_path / "planted" / "none_icd.json")
    resumed = vkbench("run", "--resume", "last")
    assert resumed.code == 0, resumed.err
    assert len({row["environment"] for row in vkbench("results", "--json").rows}) == 1
    (tmp_path / "planted" / "libnone.so").write_bytes(b"")
    changed = vkbench("run", "--driver", "planted", *chosen)
    assert changed.code == 4
    assert changed.err.startswith("vkbench: libnone.so of driver planted was changed, in ")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run", "--driver", "x"), "unknown driver 'x': none was added yet, which `vkbench driver"),
        (("run", "--driver", "x", "--peer", "numpy"), "--driver runs vkbench's own kernels"),
        (("run", "--resume", "last", "--driver", "x"), "--resume continues a run unchanged"),
        (("driver", "try", "--old", "x", "--new", "y"), "unknown driver 'x': none was added yet"),
        (("bisect", "--case", SUM, "--drivers", "x,y"), "unknown driver 'x': none was added yet"),
        (
            ("bisect", "--case", SUM, "--drivers", "x,y", "--metric", "cold"),
            "two drivers are timed",
        ),
        (
            ("bisect", "--case", SUM, "--drivers", "x,y", "--good", "x"),
            "--drivers run the packaged",
        ),
        (("bisect", "--case", SUM, "--drivers", "x,y", "--builds", "a"), "give one of --bundles, "),
        (("driver", "add", "x", "--packages", "a b"), "'a b' is no release of Debian"),
        (("driver", "add", "x", "--packages", "y", "--folder", "z"), "--packages are fetched"),
        (("submit", "--driver", "x", "--peer", "numpy"), "--driver runs vkbench's own kernels"),
        (("driver", "add", "x"), "give the driver's manifest by --icd FILE"),
        (("driver", "add", "x", "--icd", "gone.json"), "cannot read gone.json: No such file"),
        (("driver", "add", "x", "--folder", "gone"), "there is no folder gone"),
        (("driver", "show", "x"), "unknown driver 'x': none was added yet"),
        (("driver", "rm", "x"), "unknown driver 'x': none was added yet"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    asked: Vkbench, words: tuple[str, ...], complaint: str
) -> None:
    ended = asked(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"vkbench: {complaint}")
    assert ended.err.count("\n") == 1


@pytest.mark.timeout(200)
def test_the_first_bad_driver_is_found(vkbench: Vkbench, lavapipe: Path, tmp_path: Path) -> None:
    planted = {fault: plant_driver(fault, tmp_path / fault) for fault in ("none", "wrong", "slow")}
    add(vkbench, real=lavapipe, **planted)
    chosen = ("--case", SUM, "--device", "llvmpipe", "--seconds", "0.02", "--json")
    found = vkbench("bisect", "--drivers", "real,none,wrong", *chosen)
    assert found.code == 0, found.err
    assert [(row["label"], row["verdict"], row["is_first_bad"]) for row in found.rows] == [
        ("real", "taken as good", False),
        ("none", "good", False),
        ("wrong", "wrong", True),
    ]
    assert "wrong is the first bad one" in found.err
    found = vkbench("bisect", "--drivers", "real,slow", *chosen)
    assert found.code == 0, found.err
    assert [row["verdict"] for row in found.rows] == ["taken as good", "bad"]
    assert found.rows[1]["ratio"] > 1.5
    assert not vkbench("results", "--json").rows  # pairs are no results of their own


@pytest.mark.timeout(300)
def test_a_try_says_which_kernels_a_driver_spoils(
    vkbench: Vkbench, lavapipe: Path, tmp_path: Path
) -> None:
    add(vkbench, real=lavapipe, wrong=plant_driver("wrong", tmp_path / "wrong"))
    chosen = ("--case", SUM, "--device", "llvmpipe", "--seconds", "0.02")
    tried = vkbench("driver", "try", "--old", "real", "--new", "wrong", *chosen, "--json")
    assert tried.code == 3, tried.err
    assert [(row["case"], row["verdict"]) for row in tried.rows] == [(SUM, "wrong")]
    assert "real → wrong: 1 case (1 wrong)" in tried.err
    same = vkbench("driver", "try", "--old", "real", "--new", "real", *chosen)
    assert (same.code, "are one driver: there is nothing to compare" in same.err) == (7, True)

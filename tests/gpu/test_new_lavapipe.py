"""Kernels are right on Mesa's newer CPU driver, which whole commands run on: see its script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Rows = list[dict[str, Any]]


@pytest.fixture
def ran(new_lavapipe: Path) -> Callable[..., Rows]:
    """`ran("--kernel", "copy")` is what `vkbench run` says of each job."""

    def run(*words: str) -> Rows:
        command = [str(new_lavapipe / "vkbench"), "run", *words, "--variant", "all", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return list(json.loads(done.stdout)["rows"])

    return run


def other_than_passed(rows: Rows) -> Rows:
    wanted = ("case", "variant", "verdict", "cause", "reason", "remark")
    return [{name: row[name] for name in wanted} for row in rows if row["verdict"] != "passed"]


@pytest.mark.timeout(600)
def test_the_quick_suite_passes(ran: Callable[..., Rows]) -> None:
    rows = ran("--suite", "quick", "--seconds", "0.02")
    assert not other_than_passed(rows)
    assert Counter(row["mode"] for row in rows).keys() == {"correctness", "performance"}
    assert all(int(row["driver_version"].split(".")[0]) >= 26 for row in rows)


def test_products_of_cooperative_matrices_are_right(ran: Callable[..., Rows]) -> None:
    rows = ran("--kernel", "matrix_rate_8", "--seconds", "0.02")
    assert not other_than_passed(rows)
    assert {row["variant"] for row in rows} == {"f16_f16", "f16_f32", "i8_i32"}


def test_the_newer_validation_layer_has_nothing_to_say(new_lavapipe: Path) -> None:
    done = subprocess.run(
        [
            *(new_lavapipe / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "--import-mode=importlib", "tests/gpu/test_validation.py"),
        ],
        cwd=ROOT,
        env={**os.environ, "VKBENCH_REQUIRE": "gpu,validation"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_way_to_the_packages_is_one_clear_line(tmp_path: Path) -> None:
    nowhere = tmp_path / "apt.conf"
    nowhere.write_text('Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::Retries "0";\n')
    done = subprocess.run(
        [ROOT / "scripts" / "new-lavapipe", sys.prefix],
        env={**os.environ, "VKBENCH_CACHE": str(tmp_path / "cache"), "APT_CONFIG": str(nowhere)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("no newer lavapipe: ")
    assert not any((tmp_path / "cache").glob("*"))

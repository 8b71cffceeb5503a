"""Whose bundles a host runs: any, its own, or those that a file lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.policy import BundleForbidden, check

OURS, STRANGERS = "ab" * 32, "cd" * 32


def test_the_packaged_bundle_runs_under_every_policy(tmp_path: Path) -> None:
    for said in ("any", "packaged", str(tmp_path / "absent")):
        check(said, "")
        check(said, packaged_sha())
    check("any", STRANGERS)


def test_no_other_runs_where_the_policy_says_packaged() -> None:
    with pytest.raises(BundleForbidden, match=r"bundle cdcdcdcdcdcd: .* packaged bundle alone"):
        check("packaged", STRANGERS)


def test_a_list_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "bundles"
    path.write_text(f"# nightly\n\n{OURS}  # of the build of Monday\n")
    check(str(path), OURS)
    with pytest.raises(BundleForbidden, match="does not list it"):
        check(str(path), STRANGERS)
    path.write_text(f"{OURS}\n{STRANGERS}\n")
    check(str(path), STRANGERS)


@pytest.mark.parametrize("text", [f"{OURS[:12]}\n", f"{OURS.upper()}\n", f"{OURS} {OURS}\n"])
def test_a_list_that_is_none_allows_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bundles"
    path.write_text(f"{STRANGERS}\n{text}")
    for sha in (OURS, STRANGERS):
        with pytest.raises(BundleForbidden, match=r"line 2 of .* is no whole SHA-256"):
            check(str(path), sha)
    with pytest.raises(BundleForbidden, match="cannot be read"):
        check(str(tmp_path), OURS)

"""`vkbench doctor`: says what is missing, how to mend it, and whether `vkbench run` can work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from commands import Captured
from ssh_keys import allow, new_ssh_key
from vkbench.errors import VkbenchError
from vkbench.messages.keys import new_keys
from vkbench.settings import Settings, settings
from vkbench_cli import main as cli
from vkbench_local import diagnosis
from vkbench_worker.owner.probe import local_devices

Need = Callable[[str, str], NoReturn]


def examined(capsys: Captured, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code = cli.main(["doctor", "--json", *words])
    rows = json.loads(capsys.readouterr().out)["rows"]
    return code, {row["check"]: row for row in rows}


def only(check: Any, chosen: Settings | None = None) -> diagnosis.CheckResult:
    [finding] = check(chosen or settings())
    return finding


def test_every_check_says_what_it_is_for_and_how_to_mend_it(capsys: Captured) -> None:
    _, checks = examined(capsys)
    for what in ("Python", "Vulkan loader", "compiled kernels", "database", "validation layer"):
        assert what in checks
    for row in checks.values():
        assert row["detail"]
        assert row["needed_for"]
        assert row["state"] == "ok" or row["fix"]


def test_no_device_fails_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    monkeypatch.setenv("VK_DRIVER_FILES", "")
    code, checks = examined(capsys)
    assert code == 4
    assert checks["Vulkan device"]["state"] == "missing"
    assert "apt install" in checks["Vulkan device"]["fix"]


def test_a_driver_that_containment_breaks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, need: Need
) -> None:
    try:
        local_devices()
    except VkbenchError as error:
        need("gpu", str(error))
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('VKBENCH_SANDBOX') != 'off':\n"
        "    os.environ['VK_DRIVER_FILES'] = os.environ['VK_ICD_FILENAMES'] = '/nonexistent'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = only(diagnosis.uncontained_devices)
    assert not finding.ok
    assert "answers only when it is not contained" in finding.detail
    assert "VKBENCH_SANDBOX=off" in finding.fix
    monkeypatch.delenv("PYTHONPATH")
    assert list(diagnosis.uncontained_devices(settings())) == []


def test_what_only_a_fleet_needs_does_not_fail() -> None:
    nowhere = replace(settings(), redis="redis://127.0.0.1:1/0")
    finding = only(diagnosis.redis, nowhere)
    assert (finding.ok, finding.for_run) == (False, False)
    assert finding.detail == "Connection refused"


def test_what_only_a_fleet_needs_is_optional(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setenv("VKBENCH_REDIS", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("VKBENCH_STORE", str(tmp_path / "gone"))
    settings.cache_clear()
    code = cli.main(["doctor", "--wide"])
    out, notes = capsys.readouterr()
    for what in ("Redis at redis://127.0.0.1:1/0", "place of builds"):
        [line] = [line for line in out.splitlines() if what in line]
        assert line.startswith("optional")
        assert "  fleets  " in line
    assert code == (0 if "all that `vkbench run` needs is here" in notes else 4)


def test_the_place_and_the_policy_of_builds_are_told(tmp_path: Path) -> None:
    place, policy = diagnosis.builds(settings())
    assert (place.ok, policy.ok) == (True, True)
    assert place.detail.endswith(", of this machine alone (VKBENCH_STORE)")
    assert policy.detail == "none run here (VKBENCH_BUILDS)"
    key, allowed = new_ssh_key(tmp_path / "ann"), tmp_path / "allowed"
    shared = replace(settings(), store=str(tmp_path), builds=str(allow(allowed, {"ann@lab": key})))
    place, policy = diagnosis.builds(shared)
    assert (place.ok, place.detail) == (True, f"{tmp_path} answers")
    assert policy.detail == f"those run here that one of ann@lab signed ({allowed})"


@pytest.mark.parametrize(
    ("changes", "details"),
    [
        ({"store": "{tmp}/gone"}, ["there is no folder {tmp}/gone", None]),
        ({"store": "http://127.0.0.1:1", "keys": "{tmp}/keys"}, ["Connection refused", None]),
        ({"store": "http://127.0.0.1:1"}, ["`vkbench key new FOLDER` makes keys", None]),
        ({"builds": "{tmp}/none"}, [None, "{tmp}/none (VKBENCH_BUILDS) cannot be read: "]),
        ({"builds": "{tmp}/empty"}, [None, "{tmp}/empty (VKBENCH_BUILDS) has no key"]),
    ],
)
def test_what_keeps_builds_away_is_told(
    tmp_path: Path, changes: dict[str, str], details: list[str | None]
) -> None:
    new_keys(tmp_path / "keys")
    (tmp_path / "empty").write_text("# nobody\n")
    here = {name: value.format(tmp=tmp_path) for name, value in changes.items()}
    findings = list(diagnosis.builds(replace(settings(), **here)))  # type: ignore[arg-type]
    for finding, detail in zip(findings, details, strict=True):
        assert finding.ok == (detail is None)
        assert (detail or "").format(tmp=tmp_path) in finding.detail
        assert not finding.for_run


def test_a_database_that_is_none_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with_file = replace(settings(), database=f"sqlite:///{path}")
    assert only(diagnosis.database, with_file).ok  # the first run makes it
    path.write_bytes(b"not a database, and quite long enough to be looked at as one" * 20)
    finding = only(diagnosis.database, with_file)
    assert not finding.ok
    assert str(path) in finding.detail


@pytest.mark.parametrize("error", [VkbenchError("no such thing"), ImportError("no such thing")])
def test_a_check_that_fails_is_a_finding(error: Exception) -> None:
    def look() -> str:
        raise error

    finding = diagnosis.attempt("it", look, fix="get one")
    assert (finding.ok, finding.detail, finding.fix) == (False, "no such thing", "get one")


@pytest.mark.parametrize(
    ("answers", "detail"),
    [
        (
            ["LoadState=loaded", "User=", "NoNewPrivileges=no", "ProtectSystem=no"],
            "root runs it: no User=; it may gain privileges: no NoNewPrivileges=;"
            " it may write to the system: no ProtectSystem",
        ),
        (
            ["LoadState=loaded", "User=vkbench", "NoNewPrivileges=yes", "ProtectSystem=strict"],
            "its user is vkbench, who cannot write to the system",
        ),
        (["LoadState=not-found", "User=", "NoNewPrivileges=no", "ProtectSystem=no"], None),
    ],
)
def test_what_a_worker_s_unit_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: list[str], detail: str | None
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("\n".join(["#!/bin/sh", *(f"echo {line}" for line in answers)]))
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    results = list(diagnosis.service(settings()))
    assert [result.detail for result in results] == ([] if detail is None else [detail])
    assert all(result.ok == ("root" not in result.detail) for result in results)

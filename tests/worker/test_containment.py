"""A contained process is refused what it has no need of; what a driver needs goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vkbench.errors import UsageError
from vkbench.settings import Sandbox, read, settings
from vkbench_worker.containment import environment, support
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.containment.support import NotContained, Support, require_support

PLANTED = Path(__file__).parents[1] / "planted"
REFUSED = {"Operation not permitted", "Permission denied"}
# What a process that is not contained is refused as well, on some hosts.
HARD = {"traces its parent", "opens a terminal", "makes a ring of io_uring", "fills the disk"}
# Refused whatever contains it: these need a kernel that knows how.
SCOPED = {"signals its parent"}


LOADER = Path("/lib64/ld-linux-x86-64.so.2")  # of this system


def tried(folder: Path, sandbox: Sandbox, loader: Path | None = None) -> dict[str, Any]:
    """What the planted process says of its attempts to escape."""
    ours = replace(settings(), sandbox=sandbox)
    for name in ("secret", "kept", "removed"):
        (folder / name).write_text("of somebody else")
    (ours.data / "locks").mkdir(parents=True, exist_ok=True)
    (ours.data / "vkbench.db").write_text("results")
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        service = stack.enter_context(socket.socket(socket.AF_UNIX))
        service.bind(str(folder / "socket"))
        service.listen()
        place = (str(os.getpid()), str(server.getsockname()[1]), str(folder))
        done = subprocess.run(
            contained_command("planted_escape", *place, loader=loader),
            capture_output=True,
            check=False,
            env={**environment.of(ours), "PYTHONPATH": str(PLANTED)},
        )
    assert done.returncode == 0, done.stderr.decode()
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    given = {
        "VKBENCH_DATABASE": "postgresql://bench:tiger@db/bench",
        "VKBENCH_REDIS": "redis://:lion@redis/0",
        "AWS_SECRET_ACCESS_KEY": "leopard",
        "SSH_AUTH_SOCK": "/run/panther",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    yield set(given)
    settings.cache_clear()


@pytest.mark.parametrize("loader", [None, LOADER], ids=["as ever", "by a loader"])
def test_every_attempt_to_escape_is_refused(
    kernel: Support, tmp_path: Path, loader: Path | None
) -> None:
    if loader and not loader.exists():
        pytest.skip(f"this system has no {loader}")
    said = tried(tmp_path, Sandbox.REQUIRE, loader)
    ends = said["ends"]
    assert said["thread"] == "planted"  # its own threads it may name
    known = set() if kernel.landlock >= 6 else SCOPED
    assert {name: end for name, end in ends.items() if end not in REFUSED} == {
        **dict.fromkeys(known, "done"),
        "fills the disk": "File too large",
    }
    assert (tmp_path / "secret").read_text() == "of somebody else"
    assert not (tmp_path / "made").exists()


def test_a_driver_s_own_loader_is_contained(kernel: Support, tmp_path: Path) -> None:
    planted, made = tmp_path / "ld-linux.so.2", tmp_path / "made"
    planted.write_text(f"#!/bin/sh\ntouch {made} && echo escaped || echo refused\n")
    planted.chmod(0o755)
    for sandbox, said in ((Sandbox.REQUIRE, "refused"), (Sandbox.OFF, "escaped")):
        done = subprocess.run(
            contained_command("json.tool", loader=planted, reads=[tmp_path]),
            capture_output=True,
            check=True,
            text=True,
            env=environment.of(replace(settings(), sandbox=sandbox)),
        )
        assert (done.stdout.strip(), made.exists()) == (said, said == "escaped"), done.stderr


def test_the_same_attempts_succeed_where_nothing_contains_them(tmp_path: Path) -> None:
    try:
        ends = tried(tmp_path, Sandbox.OFF)["ends"]
    finally:
        (PLANTED / "planted_made.py").unlink(missing_ok=True)
    assert {name for name, end in ends.items() if end != "done"} <= HARD


def test_no_secret_is_among_its_variables(secrets: set[str], tmp_path: Path) -> None:
    variables = tried(tmp_path, Sandbox.AUTO)["variables"]
    assert not secrets & set(variables)
    assert not {"tiger", "lion", "leopard", "panther"} & set(" ".join(variables.values()).split())
    assert variables["VKBENCH_CACHE"] == str(settings().cache)


def test_the_policy_of_bundles_is_among_its_variables() -> None:
    for said, told in (("packaged", "packaged"), ("~/list", os.path.expanduser("~/list"))):
        variables = environment.hand_down_variables(replace(settings(), bundles=said), {})
        assert variables["VKBENCH_BUNDLES"] == told


def test_a_driver_keeps_what_it_compiles_in_a_folder_that_it_may_write() -> None:
    for said, told in (({}, "1"), ({"__GL_SHADER_DISK_CACHE": "0"}, "0")):
        variables = environment.hand_down_variables(settings(), said)
        assert variables["__GL_SHADER_DISK_CACHE"] == told
        kept = Path(variables["__GL_SHADER_DISK_CACHE_PATH"])
        assert kept.parent == Path(variables["HOME"])
        done = subprocess.run(
            contained_command("json.tool", "-", str(kept / "kept.json")),
            input=b"[]",
            env=environment.of(settings()),
        )
        assert done.returncode == 0
        assert (kept / "kept.json").read_text().strip() == "[]"


def test_the_list_of_bundles_can_be_read(kernel: Support, tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("[]")
    for bundles, is_read in ((str(path), True), ("any", False)):
        done = subprocess.run(
            contained_command("json.tool", str(path)),
            capture_output=True,
            env=environment.of(replace(settings(), bundles=bundles)),
        )
        assert (done.returncode == 0) == is_read, done.stderr.decode()


@pytest.mark.parametrize(
    ("found", "enough", "lacks"),
    [
        (Support(landlock=7, seccomp=True, own_user=True), True, 0),
        (Support(landlock=7, seccomp=True, own_user=False), True, 1),
        (Support(landlock=1, seccomp=True, own_user=True), True, 0),
        (Support(landlock=1, seccomp=True, own_user=False), True, 2),
        (Support(landlock=7, seccomp=False, own_user=True), False, 1),
        (Support(landlock=0, seccomp=True, own_user=True), False, 1),
    ],
)
def test_files_network_and_calls_have_to_be_guarded(
    found: Support, enough: bool, lacks: int
) -> None:
    assert found.is_enough == enough
    assert len(found.lacks) == lacks


def test_the_message_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Support(landlock=0, seccomp=True, own_user=False)
    monkeypatch.setattr(support, "support", lambda: lacking)
    with pytest.raises(NotContained, match=r"VKBENCH_SANDBOX=require.*no Landlock \(Linux 5\.13\)"):
        require_support(Sandbox.REQUIRE)
    assert require_support(Sandbox.AUTO).parts == "seccomp, limits, no new privileges"


def test_an_unknown_value_is_refused() -> None:
    with pytest.raises(UsageError, match="VKBENCH_SANDBOX='on' is none of auto, require, off"):
        read({"VKBENCH_SANDBOX": "on"})


def test_a_driver_in_a_folder_of_its_own_can_be_read(kernel: Support, tmp_path: Path) -> None:
    """As developers of drivers have them: the manifest in one folder, the library in another."""
    library = tmp_path / "build" / "driver.so"
    library.parent.mkdir()
    library.write_text("code")
    manifest = tmp_path / "icd" / "driver.json"
    manifest.parent.mkdir()
    manifest.write_text(json.dumps({"ICD": {"library_path": "../build/driver.so"}}))
    (tmp_path / "other").write_text("secret")
    code = "import sys\nfor name in sys.argv[1:]: print(open(name).read())"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "planted_reader.py").write_text(code)

    def read_by_it(*names: Path) -> subprocess.CompletedProcess[str]:
        variables = {
            **environment.of(settings()),
            "PYTHONPATH": str(tmp_path / "modules"),
            "VK_DRIVER_FILES": str(manifest),
        }
        command = contained_command("planted_reader", *map(str, names))
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)

    assert "code" in read_by_it(manifest, library).stdout
    assert "PermissionError" in read_by_it(tmp_path / "other").stderr


def test_a_process_hides_its_variables_from_others(tmp_path: Path) -> None:
    code = (
        "from vkbench_worker.containment import kernel; kernel.hide(); import ctypes;"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert said == b"0\n"

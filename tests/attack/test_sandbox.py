"""Contained code changes nothing outside of the sandbox, whoever runs the worker."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from planted_tampering import ATTEMPTS, OF_ROOT, SHARED, call
from vkbench.settings import Sandbox, settings
from vkbench_worker.containment import environment, shared_memory, user
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.containment.support import support

PLANTED = Path(__file__).parents[1] / "planted"
REFUSED = {
    "Operation not permitted",
    "Permission denied",
    "Function not implemented",
    "Invalid cross-device link",  # of Landlock, for links between folders
    "No such file or directory",  # of a /dev/shm that has nothing in it
}
# What a process that is not contained is refused as well, by some kernels, containers or users.
HARD = {
    "makes a file setuid by fchmodat2",
    "gives a file an attribute",
    "gives an open file an attribute",
    "takes an attribute away",
    "changes the flags of an open file",
    "changes the flags of a file",
    "opens a file by its number",
    "makes a device",
    "attaches another's memory",
    "makes a queue of messages",
    "types into the terminal",
    "calls the kernel as i386",
    "calls the kernel as x32",
}
State = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Tampered:
    """What became of the attempts, and of what they were made on."""

    ends: Mapping[str, str]
    facts: Mapping[str, Any]  # of the contained process
    before: State
    after: State


def state(paths: list[Path]) -> State:
    """All that can be changed of files, as far as the system tells."""
    found: dict[str, object] = {}
    for path in paths:
        seen = path.stat()
        found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, seen.st_nlink)
        found[f"{path} has"] = (sorted(os.listxattr(path)), path.read_bytes())
    return found


def tamper(folder: Path, cache: Path, sandbox: Sandbox) -> Tampered:
    """Have the planted process try it all on files and sockets that are made for that."""
    ours = replace(settings(), data=folder / "data", cache=cache, sandbox=sandbox)
    name = f"vkbench-attack-{os.getpid()}"
    outside, readable, shared = folder / "outside", cache / name, SHARED / name
    removed = shared.with_suffix(".removed")
    (ours.data / "locks").mkdir(parents=True)
    outside.mkdir()
    files = [outside / "program", outside / "moved", readable, shared, removed]
    with ExitStack() as stack:
        for path in files:
            path.write_text("of somebody else")
            path.chmod(0o600)
            stack.callback(path.unlink, missing_ok=True)
        for address in (str(outside / "socket"), f"\0{name}"):
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(address)
        memory = call(29, 194, 0, 4096, 0o600)  # shmget
        stack.callback(call, 31, 195, memory, 0, 0)  # shmctl, to remove it
        numbers = (str(memory), str(os.getpid()))
        user, terminal = os.openpty()
        before = state(files)
        done = subprocess.run(
            contained_command("planted_tampering", str(outside), str(readable), name, *numbers),
            stdin=terminal,
            capture_output=True,
            env={**environment.of(ours), "PYTHONPATH": str(PLANTED)},
        )
        os.close(user)
        os.close(terminal)
        assert done.returncode == 0, done.stderr.decode()
        after = state([path for path in files if path.exists()])
    said = json.loads(done.stdout)
    return Tampered(ends=said.pop("ends"), facts=said, before=before, after=after)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Tampered:
    found = support()
    if not found.is_enough:
        pytest.skip(f"this kernel does not contain a process: {found.lacks[0]}")
    return tamper(tmp_path_factory.mktemp("contained"), cache, Sandbox.REQUIRE)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_contained_code_does_not_get_what_it_tries(tampered: Tampered, attempt: str) -> None:
    assert tampered.ends[attempt] in REFUSED


def test_files_outside_are_what_they_were(tampered: Tampered) -> None:
    assert tampered.after == tampered.before


@pytest.mark.parametrize("attempt", OF_ROOT)
def test_code_that_root_contains_is_another_user(tampered: Tampered, attempt: str) -> None:
    if not user.can_change():
        pytest.skip("only root can become another user")
    assert tampered.ends[attempt] in REFUSED
    assert len({*tampered.facts["user"], *tampered.facts["group"]}) == 1
    assert tampered.facts["user"][0] != os.getuid()


def test_contained_code_has_shared_memory_of_its_own_or_none(tampered: Tampered) -> None:
    is_apart = shared_memory.is_possible()
    assert tampered.facts["shared"] == (["ours"] if is_apart else None)


def test_what_contained_code_starts_can_work(tampered: Tampered) -> None:
    assert tampered.facts["child"] == ""


def test_the_attempts_succeed_where_nothing_contains_them(tmp_path: Path, cache: Path) -> None:
    ends = tamper(tmp_path, cache, Sandbox.OFF).ends
    assert {name for name, end in ends.items() if end != "done"} <= HARD

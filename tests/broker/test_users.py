"""Redis with a user for each role: work is done, and nothing that a role does not need."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, ResponseError

from cluster import Lab, RedisServer, until
from vkbench.job import JobState

ROOT = Path(__file__).parents[2]
ADMIN = ("admin", "of-the-test")


class Secrets:
    """What docker/new-secrets made."""

    def __init__(self, folder: Path) -> None:
        script = ROOT / "docker" / "new-secrets"
        subprocess.run([script, folder], check=True, capture_output=True)
        self._folder = folder
        self.keys = folder / "scheduler" / "keys"
        self.users = folder / "admin.acl"
        made = (folder / "redis" / "users.acl").read_text()
        self.users.write_text(f"{made}user {ADMIN[0]} on >{ADMIN[1]} ~* &* +@all\n")

    def of(self, role: str) -> str:
        return urlsplit((self._folder / role / "redis").read_text().strip()).password or ""


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path / "made")


@pytest.fixture
def lab(make_lab: Callable[..., Lab], secrets: Secrets) -> Lab:
    return make_lab(login=ADMIN, options={"aclfile": str(secrets.users)}, keys=str(secrets.keys))


def url(redis: RedisServer, secrets: Secrets, role: str) -> str:
    return redis.url.replace("://", f"://{role}:{secrets.of(role)}@")


def refused(lab: Lab) -> list[str]:
    """What a user was denied, as Redis logged it."""
    entries = lab.redis.client.acl_log() or []
    said = {f"{entry['username']}: {entry['object']}" for entry in entries}
    return sorted(each for each in said if not each.endswith("client|setinfo"))


@pytest.mark.usefixtures("each_client")
def test_a_job_runs_with_least_rights(lab: Lab, secrets: Secrets) -> None:
    roles = {role: url(lab.redis, secrets, role) for role in ("scheduler", "worker")}
    lab.start("-m", "planted_scheduler", "", log="s", VKBENCH_REDIS=roles["scheduler"])
    worker = ("-m", "vkbench_worker.service.main", "a")
    lab.start(*worker, log="worker-a", VKBENCH_REDIS=roles["worker"])
    until(lambda: lab.device_row("a"), lambda: f"no device: {refused(lab)}", 20)
    run = lab.submit(["sleep/f32/n10"] * 5)
    lab.await_end(run)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 5}
    assert refused(lab) == []


FORBIDDEN = {
    "worker": [
        "FLUSHALL",
        "FLUSHDB",
        "CONFIG GET *",
        "KEYS *",
        "SCAN 0",
        "DEBUG SLEEP 0",
        "SHUTDOWN",
        "ACL LIST",
        "CLIENT LIST",
        "MONITOR",
        "XRANGE vk:results - +",
        "XDEL vk:results 1-1",
        "SET vk:cancel:1 1",
        "SET vk:bundle:ab x",
        "GET vk:unfit",
        "GET other",
        "PUBLISH c x",
        "REPLICAOF h 1",
        "MODULE LIST",
    ],
    "scheduler": ["FLUSHALL", "CONFIG GET *", "KEYS *", "SHUTDOWN", "EVAL return 0", "GET other"],
    "health": ["GET vk:devices", "INFO", "KEYS *", "SET vk:probe 1"],
}


def test_nobody_may_do_more(lab: Lab, secrets: Secrets) -> None:
    for user, commands in FORBIDDEN.items():
        password = "" if user == "health" else secrets.of(user)
        with Redis(port=lab.redis.port, username=user, password=password or "any") as redis:
            assert redis.ping()
            for command in commands:
                with pytest.raises(ResponseError, match=r"no permissions|not allowed"):
                    redis.execute_command(*command.split())
    with Redis(port=lab.redis.port) as redis, pytest.raises(AuthenticationError):
        redis.ping()
    stranger = Redis(port=lab.redis.port, username="worker", password="x")
    with stranger, pytest.raises(AuthenticationError):
        stranger.ping()


def test_a_restarted_redis_has_what_a_transaction_wrote(lab: Lab, secrets: Secrets) -> None:
    """Redis repeats its file as the user `default`, who can log in nowhere."""
    with Redis.from_url(url(lab.redis, secrets, "scheduler")) as redis:
        both = redis.pipeline()
        both.set("vk:first", "1")
        both.set("vk:second", "2")
        both.execute()
        lab.redis.kill()
        lab.redis.start()
        assert redis.mget("vk:first", "vk:second") == [b"1", b"2"]
    for password in ("", "any"):
        stranger = Redis(port=lab.redis.port, username="default", password=password)
        with stranger, pytest.raises(AuthenticationError):
            stranger.ping()


def test_secrets_are_made_once(tmp_path: Path) -> None:
    before = [Secrets(tmp_path).of(role) for role in ("scheduler", "worker")]
    assert [Secrets(tmp_path).of(role) for role in ("scheduler", "worker")] == before
    assert len(set(before)) == 2

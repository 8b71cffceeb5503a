"""compose.yaml holds the services that the docs name, what each depends on, and its settings.

Running it for real needs a container engine: docs/compose.md says how.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from vkbench.settings import Settings, read
from vkbench_worker.protocol import lock_folder
from vkbench_worker.service.sender import PARTING_SECONDS

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_services() -> None:
    assert set(SERVICES) == {
        "redis",
        "postgres",
        "migrate",
        "scheduler",
        "web",
        "workers",
        "workers-nvidia",
    }


@pytest.mark.parametrize(
    ("service", "needs"),
    [
        (
            "scheduler",
            {
                "redis": "service_healthy",
                "postgres": "service_healthy",
                "migrate": "service_completed_successfully",
            },
        ),
        (
            "web",
            {"postgres": "service_healthy", "migrate": "service_completed_successfully"},
        ),
        ("workers", {"redis": "service_healthy", "scheduler": "service_started"}),
        ("workers-nvidia", {"redis": "service_healthy", "scheduler": "service_started"}),
    ],
)
def test_dependencies(service: str, needs: dict[str, str]) -> None:
    found = SERVICES[service]["depends_on"]
    assert {name: how["condition"] for name, how in found.items()} == needs


@pytest.mark.parametrize("service", ["migrate", "scheduler", "web", "workers", "workers-nvidia"])
def test_services_wait_themselves_too(service: str) -> None:
    """Not every engine honours the conditions of depends_on."""
    assert "--wait" in SERVICES[service]["command"]


@pytest.mark.parametrize("service", ["redis", "postgres"])
def test_servers_tell_when_they_are_ready_and_stay_inside(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"]
    assert "ports" not in SERVICES[service]


def test_redis_never_forgets_what_it_carries() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--save"] == ""
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--maxmemory"]


@pytest.mark.parametrize("service", ["scheduler", "web", "workers", "workers-nvidia"])
def test_a_check_fails_when_a_service_is_stuck(service: str) -> None:
    command, program, *words = SERVICES[service]["healthcheck"]["test"]
    assert (command, program, words[0]) == ("CMD", "vkbench", "healthy")
    assert words[1] == SERVICES[service]["command"][0]


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_bounded(service: str) -> None:
    found = SERVICES[service]
    assert found["mem_limit"]
    assert found["pids_limit"]
    assert found["logging"]["driver"] == "json-file"
    assert set(found["logging"]["options"]) == {"max-size", "max-file"}


@pytest.mark.parametrize("service", ["workers", "workers-nvidia"])
def test_a_running_job_may_end_before_its_worker_is_killed(service: str) -> None:
    grace = float(SERVICES[service]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings().stop_seconds + PARTING_SECONDS


def filled(text: str) -> str:
    """With `${NAME:-default}` as it is where NAME is not set; what must be set is `made`."""
    return re.sub(r"\$\{\w+:\?[^}]*\}", "made", re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))


@pytest.mark.parametrize("service", ["scheduler", "migrate", "workers", "workers-nvidia"])
def test_settings_exist(service: str) -> None:
    environ = {name: filled(str(text)) for name, text in SERVICES[service]["environment"].items()}
    user = "worker" if service.startswith("workers") else "scheduler"
    ours = read(environ)
    assert ours.redis == f"redis://{user}:made@redis:6379/0"
    assert (ours.keys, ours.unsigned) == ("/run/keys", False)
    assert "./secrets/keys:/run/keys:ro" in SERVICES[service]["volumes"]


def test_no_password_has_a_default() -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert not re.search(r"\w*PASSWORD:-", text)
    made = set(re.findall(r"^(\w+)=", (ROOT / "docker/new-secrets").read_text(), re.MULTILINE))
    asked = set(re.findall(r"\$\{(\w+PASSWORD):\?docker/new-secrets makes it\}", text))
    assert asked == {"POSTGRES_PASSWORD", "REDIS_SCHEDULER_PASSWORD", "REDIS_WORKER_PASSWORD"}
    assert asked <= made


def test_who_reaches_which_server() -> None:
    reaches = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert {name for name, nets in reaches.items() if "store" in nets} == {
        "postgres", "migrate", "scheduler", "web",
    }  # fmt: skip
    assert {name for name, nets in reaches.items() if "queue" in nets} == {
        "redis", "migrate", "scheduler", "workers", "workers-nvidia",
    }  # fmt: skip
    assert "--aclfile" in SERVICES["redis"]["command"]


@pytest.mark.parametrize("service", ["workers", "workers-nvidia"])
def test_gpu_hosts_hold_no_database_credentials(service: str) -> None:
    assert "VKBENCH_DATABASE" not in SERVICES[service]["environment"]


@pytest.mark.parametrize("service", ["workers", "workers-nvidia"])
def test_workers_keep_their_name_and_come_back(service: str) -> None:
    assert SERVICES[service]["hostname"]
    assert SERVICES[service]["restart"] == "unless-stopped"


def test_workers_of_one_host_share_the_locks_by_which_they_take_turns() -> None:
    """A timed CPU driver is one service's, and the GPUs that have to wait meanwhile the other's."""
    folder = f"/var/lib/vkbench/data/{lock_folder(Settings(data=Path('data'))).name}"
    for service in ("workers", "workers-nvidia"):
        assert f"locks:{folder}" in SERVICES[service]["volumes"]
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    assert f"install -d -o vkbench -g vkbench {Path(folder).parent} {folder}\n" in dockerfile
    assert f"VKBENCH_DATA={Path(folder).parent} " in dockerfile


def test_pages_are_for_this_machine_alone() -> None:
    assert all(filled(port).startswith("127.0.0.1:") for port in SERVICES["web"]["ports"])
    assert "VKBENCH_REDIS" not in SERVICES["web"]["environment"]  # they give no work to workers


def test_nvidia_is_opt_in() -> None:
    assert SERVICES["workers-nvidia"]["profiles"] == ["nvidia"]
    assert "profiles" not in SERVICES["workers"]
    reserved = SERVICES["workers-nvidia"]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved[0]["capabilities"] == ["gpu"]


@pytest.mark.parametrize("service", ["scheduler", "web", "migrate", "workers", "workers-nvidia"])
def test_the_image_is_built_here_and_drops_rights(service: str) -> None:
    dockerfile = (ROOT / SERVICES[service]["build"]["dockerfile"]).read_text()
    assert "\nUSER vkbench\n" in dockerfile.rpartition("\nFROM ")[2]
    assert SERVICES[service]["cap_drop"] == ["ALL"]

"""compose.yaml holds the services that the docs name, what each depends on, and its settings.

Running it for real needs a container engine: docs/compose.md says how.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from sqlalchemy import make_url

from vkbench.messages.keys import read_keys
from vkbench.messages.signing import NO_KEYS
from vkbench.settings import Settings, read
from vkbench_worker.protocol import lock_folder
from vkbench_worker.service.sender import PARTING_SECONDS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_services() -> None:
    assert set(SERVICES) == {
        "secrets",
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
        ("redis", {"secrets": "service_completed_successfully"}),
        ("postgres", {"secrets": "service_completed_successfully"}),
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
    """With `${NAME:-default}` as it is where NAME is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the first service makes passwords and keys."""
    folder = tmp_path_factory.mktemp("made")
    for _ in range(2):
        subprocess.run([ROOT / "docker" / "new-secrets", folder], check=True, capture_output=True)
    return folder


def settings_of(service: str, made: Path) -> Settings:
    """What a service reads of its variables, and of the folders that are mounted for it."""
    environ = {name: filled(str(text)) for name, text in SERVICES[service]["environment"].items()}
    for volume in SERVICES[service]["volumes"]:
        name, place, *_ = volume.split(":")
        if name.startswith("secrets-"):
            folder = str(made / name.removeprefix("secrets-"))
            environ = {key: text.replace(place, folder) for key, text in environ.items()}
    return read(environ)


@pytest.mark.parametrize("service", ["scheduler", "migrate", "workers", "workers-nvidia"])
def test_settings_exist(service: str, made: Path) -> None:
    user = "worker" if service.startswith("workers") else "scheduler"
    ours = settings_of(service, made)
    assert re.fullmatch(rf"redis://{user}:[0-9a-f]{{48}}@redis:6379/0", ours.redis)
    assert read_keys(ours) != NO_KEYS
    assert not ours.unsigned


def test_the_pages_have_roles_of_their_own(made: Path) -> None:
    ours = settings_of("web", made)
    owner = make_url(settings_of("scheduler", made).database)
    users = {make_url(url).username for url in (ours.database, ours.query_database)}
    assert users == {"pages", "reader"}
    assert owner.username == SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    assert owner.password == (made / "postgres" / "password").read_text()
    command = SERVICES["migrate"]["command"]
    options = dict(zip(command[2::2], command[3::2], strict=True))
    assert options["--pages"] == "/run/pages/database"
    assert options["--reader"] == "/run/pages/query-database"
    assert "secrets-pages:/run/pages:ro" in SERVICES["migrate"]["volumes"]


def test_no_step_comes_first() -> None:
    """Nothing must be set, no file of the host is mounted, and no password stands in the file."""
    text = (ROOT / "compose.yaml").read_text()
    assert ":?" not in text
    assert not re.search(r"PASSWORD:-[^}]", text)
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    assert not [volume for volume in volumes if volume.startswith((".", "/"))]


def test_the_schema_waits_for_the_last_url() -> None:
    """Nothing has `migrate` start after `secrets`: Podman could not start the scheduler then."""
    script = (ROOT / "docker" / "new-secrets").read_text()
    urls = re.findall(r"^at_postgres .* (\S+)$", script, re.MULTILINE)
    assert urls[-1] == "pages/query-database"
    assert f"until [ -s /run/{urls[-1]} ]" in " ".join(SERVICES["migrate"]["entrypoint"])


def test_a_service_sees_its_own_secrets_alone() -> None:
    seen = {
        name: {volume.split(":")[0] for volume in service["volumes"] if "secrets-" in volume}
        for name, service in SERVICES.items()
        if name != "secrets" and "volumes" in service
    }
    assert seen == {
        "redis": {"secrets-redis"},
        "postgres": {"secrets-postgres"},
        "migrate": {"secrets-scheduler", "secrets-pages"},
        "scheduler": {"secrets-scheduler"},
        "web": {"secrets-pages"},
        "workers": {"secrets-worker"},
        "workers-nvidia": {"secrets-worker"},
    }
    read_only = [v for s in seen for v in SERVICES[s]["volumes"] if v.startswith("secrets-")]
    assert all(volume.endswith(":ro") for volume in read_only)
    assert SERVICES["secrets"]["network_mode"] == "none"


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_confined(service: str) -> None:
    found = SERVICES[service]
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found["read_only"] is True
    # the servers' images begin as root, and change to a user of their own
    to_change_user = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert set(found.get("cap_add", ())) <= (to_change_user if "build" not in found else set())


def test_what_is_not_ours_is_named_by_its_hash() -> None:
    by_digest = re.compile(r"[a-z]+:[0-9a-z.-]+@sha256:[0-9a-f]{64}")
    images = [found["image"] for found in SERVICES.values() if "build" not in found]
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(images) == 4
    assert all(by_digest.fullmatch(image) for image in images)
    assert "PIP_REQUIRE_HASHES=1" in dockerfile


def pins(name: str) -> dict[str, list[Version]]:
    """The versions of a lock file, each of which has hashes."""
    text = (ROOT / "docker" / name).read_text()
    found: dict[str, list[Version]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        package, version = re.match(r"([a-z0-9._-]+)==([^ ;]+)", block).groups()  # type: ignore[union-attr]
        assert "--hash=sha256:" in block, package
        found.setdefault(package, []).append(Version(version))
    return found


def wanted(extra: str) -> list[Requirement]:
    """What an extra of ours asks for, that of extras which it names included."""
    asked = map(Requirement, PROJECT["project"]["optional-dependencies"][extra])
    return [
        found
        for each in asked
        for found in (
            [item for name in sorted(each.extras) for item in wanted(name)]
            if each.name == "vkbench"
            else [each]
        )
    ]


def test_lock_files_have_what_is_asked_for() -> None:
    """`make lock` writes them anew."""
    asked = [*map(Requirement, PROJECT["project"]["dependencies"])]
    asked += [item for extra in ("worker", "scheduler", "web") for item in wanted(extra)]
    build = [*map(Requirement, PROJECT["build-system"]["requires"])]
    for file, requirements in (("requirements.txt", asked), ("build-requirements.txt", build)):
        locked = pins(file)
        for each in requirements:
            versions = locked[each.name.lower().replace("_", "-")]
            assert all(version in each.specifier for version in versions), each


def test_who_reaches_which_server() -> None:
    reaches = {name: set(service.get("networks", ())) for name, service in SERVICES.items()}
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
    assert "user" not in SERVICES[service]

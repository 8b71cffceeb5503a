"""What a part imports is what its role installs: a GPU host gets no database driver by accident."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from vkbench_cli.main import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {
    "vkbench",
    "vkbench_cli",
    "vkbench_db",
    "vkbench_detection",
    "vkbench_local",
    "vkbench_scheduler",
    "vkbench_shaders",
    "vkbench_tables",
    "vkbench_web",
    "vkbench_worker",
}
ROLES = {
    "vkbench": ("stores",),
    "shaders": ("worker",),  # gguf, where references are computed
    "worker": ("worker", "peers"),
    "scheduler": ("scheduler",),
    "db": ("scheduler",),  # with it the extra `detection`
    "local": (),
    "tables": ("parquet",),
    "cli": ("plot",),
    "web": ("web", "mcp"),
    "plans": ("worker", "scheduler"),
    "tests": ("worker", "scheduler", "web", "mcp", "parquet", "plot", "dev"),
}
NOT_SHIPPED = ("plans", "tests")  # these alone may import plans
# worker and scheduler share it, and install redis
OF_SERVICES = ("vkbench/messages/redis_client.py",)
UNIMPORTED = {
    "httpx2",  # of fastapi.testclient
    "import-linter",
    "mypy",
    "packaging",
    "pre-commit",
    "psycopg",
    "pyrefly",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
}


def name_of(requirement: str) -> str:
    """`psycopg[binary]>=3.2` is psycopg."""
    return requirement.partition("[")[0].partition(">")[0].strip().lower()


def extra(name: str) -> list[str]:
    """What an extra asks for, that of the extras that it names included."""
    found = []
    for requirement in PROJECT["optional-dependencies"][name]:
        own = requirement.startswith("vkbench[")
        names = requirement.partition("[")[2].rstrip("]").split(",") if own else ()
        found += [item for each in names for item in extra(each)] if own else [requirement]
    return found


def declared(roles: tuple[str, ...]) -> set[str]:
    wanted = [*PROJECT["dependencies"], *(item for role in roles for item in extra(role))]
    return {name_of(requirement) for requirement in wanted}


def imported(folder: str, *, without: Sequence[str] = ()) -> set[str]:
    """Top-level modules that any file of a folder imports, wherever in the file."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        if str(path.relative_to(ROOT)) in without:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    own = {path.stem for path in (ROOT / folder).rglob("*.py")}  # tests/planted is put on the path
    own |= {"plans"} if folder in NOT_SHIPPED else set()
    return found - set(sys.stdlib_module_names) - OURS - own


@pytest.mark.parametrize("folder", list(ROLES))
def test_imports_are_declared(folder: str) -> None:
    distributions = packages_distributions()
    modules = imported(folder, without=OF_SERVICES)
    needed = {distributions.get(module, [module])[0].lower() for module in modules}
    assert needed <= declared(ROLES[folder])


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_both_services_install_redis(role: str) -> None:
    assert "redis" in imported("vkbench") & declared((role,))


def test_only_services_import_the_client_of_redis() -> None:
    name = Path(OF_SERVICES[0]).stem
    users = {
        str(path.relative_to(ROOT))
        for folder in ROLES
        for path in (ROOT / folder).rglob("*.py")
        if f"vkbench.messages.{name} import" in path.read_text()
    }
    assert users == {
        "cli/vkbench_cli/patience.py",
        "local/vkbench_local/diagnosis.py",
        "scheduler/vkbench_scheduler/queue/broker.py",
        "scheduler/vkbench_scheduler/queue/presence.py",
        "scheduler/vkbench_scheduler/service.py",
        "tests/broker/test_half_open.py",
        "tests/broker/test_many_devices.py",
        "tests/broker/test_tls.py",
        "tests/planted/simulated_fleet.py",
        "tests/vkbench/test_urls.py",
        "worker/vkbench_worker/service/app.py",
        "worker/vkbench_worker/service/main.py",
    }


def test_what_is_declared_is_imported() -> None:
    modules = set().union(*(imported(folder) for folder in ROLES)) | {"hatchling"}
    distributions = packages_distributions()
    used = {name.lower() for module in modules for name in distributions.get(module, [])}
    wanted = declared(("worker", "scheduler", "web", "dev"))
    stubs = {name for name in wanted if name.startswith("types-") or name.endswith("-stubs")}
    assert wanted - stubs - UNIMPORTED <= used


def test_a_worker_host_installs_nothing_to_compare_results_with() -> None:
    assert declared(("detection",)) <= declared(("scheduler",))
    assert {"scipy", "ruptures"}.isdisjoint(declared(("worker",)))


@pytest.mark.parametrize(
    "role", ["worker", "detection", "scheduler", "web", "plot", "mcp", "parquet"]
)
def test_what_a_role_installs_is_named_where_it_is_missing(role: str) -> None:
    """`vkbench scheduler` on a worker's host says what to install, and is no internal error."""
    brought = {"vkbench", "pydantic", "nvidia-ml-py", "packaging", "kombu"}  # or done without
    wanted = PROJECT["optional-dependencies"][role]
    names = {re.split(r"[\[<>=]", each)[0] for each in wanted} - brought
    assert names <= EXTRAS.keys()

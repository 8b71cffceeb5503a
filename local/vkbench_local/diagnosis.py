"""Checks of what vkbench needs on this machine, one function each; none changes anything."""

from __future__ import annotations

import ctypes
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from vkbench.errors import VkbenchError
from vkbench.messages.keys import keys_for
from vkbench.messages.stamps import describe_skew
from vkbench.messages.urls import hide_password, redis_place
from vkbench.process import system
from vkbench.process.interpreter import python as python_command
from vkbench.settings import Sandbox, Settings

OLDEST_PYTHON = (3, 11)
INSTALL_DRIVER = "install the GPU's driver, or a CPU driver: apt install mesa-vulkan-drivers"
REDIS_SECONDS = 2.0
WORKER_UNIT = "vkbench-worker.service"
RUN = "run"  # needed by `vkbench run`
FLEETS = "fleets"  # several hosts: submit, scheduler, worker
CONTAINED = "strangers' kernels (VKBENCH_SANDBOX=require)"


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The outcome of one check."""

    what: str
    ok: bool
    detail: str  # what was found, or why not
    fix: str = ""  # how to install or mend it
    needed_for: str = RUN

    @property
    def for_run(self) -> bool:
        """Whether `vkbench run` needs it."""
        return self.needed_for == RUN


def examine(settings: Settings) -> Iterator[CheckResult]:
    """Every check in turn, the fundamental ones first."""
    for check in CHECKS:
        yield from check(settings)


def attempt(what: str, look: Callable[[], str], *, fix: str, needed_for: str = RUN) -> CheckResult:
    """The check result of `look`: what it returns, or the error that it raises."""
    try:
        detail, ok = look(), True
    except OSError as error:
        detail, ok = error.strerror or str(error), False
    except (VkbenchError, ImportError) as error:
        detail, ok = str(error), False
    return CheckResult(what=what, ok=ok, detail=detail, fix=fix, needed_for=needed_for)


def python(settings: Settings) -> Iterator[CheckResult]:
    """Check the version of the Python interpreter."""
    yield CheckResult(
        what="Python",
        ok=sys.version_info >= OLDEST_PYTHON,
        detail=platform.python_version(),
        fix="vkbench needs Python 3.11 or later",
    )


def packages(settings: Settings) -> Iterator[CheckResult]:
    """The packages of each role."""
    for name, extra, needed_for in PACKAGES:
        yield attempt(
            f"package {name}",
            partial(version, name),
            fix=f"pip install 'vkbench[{extra}]'",
            needed_for=needed_for,
        )


def loader(settings: Settings) -> Iterator[CheckResult]:
    """Check that the Vulkan loader is there."""
    yield attempt(
        "Vulkan loader",
        lambda: str(ctypes.CDLL("libvulkan.so.1")._name),
        fix="apt install libvulkan1",
    )


def devices(settings: Settings) -> Iterator[CheckResult]:
    """Devices, asked for in a subprocess: a driver may crash."""
    try:
        from vkbench_worker.owner.probe import local_devices

        facts_of_all = local_devices()
    except (VkbenchError, ImportError) as error:
        trouble, _, remedy = str(error).partition(": ")  # the message has both
        yield CheckResult(
            what="Vulkan device", ok=False, detail=trouble, fix=remedy or INSTALL_DRIVER
        )
        return
    for facts in facts_of_all:
        yield CheckResult(
            what=f"Vulkan device {facts.index}", ok=True, detail=f"{facts.name} ({facts.type})"
        )


def uncontained_devices(settings: Settings) -> Iterator[CheckResult]:
    """Devices that answer only uncontained: their drivers need more than they get."""
    if settings.sandbox is Sandbox.OFF:
        return
    contained = _keys_of_devices(settings)
    for key, name in _keys_of_devices(replace(settings, sandbox=Sandbox.OFF)).items():
        if key not in contained:
            yield CheckResult(
                what="containment",
                ok=False,
                detail=f"{name} answers only when it is not contained",
                fix="set VKBENCH_SANDBOX=off, and report what its driver misses",
            )


def _keys_of_devices(settings: Settings) -> Mapping[str, str]:
    from vkbench_worker.owner.probe import local_devices

    try:
        return {facts.key: facts.name for facts in local_devices(settings)}
    except VkbenchError:
        return {}


def containment(settings: Settings) -> Iterator[CheckResult]:
    """Which parts of the sandbox the kernel of this machine puts around drivers."""
    from vkbench_worker.containment.support import in_force, support

    is_off, kernel = settings.sandbox is Sandbox.OFF, support()
    lacks = () if is_off else (*kernel.lacks, *_shared_memory())
    yield CheckResult(
        what="containment",
        ok=kernel.is_enough and not is_off,
        detail="; ".join([in_force(settings.sandbox), *lacks]),
        fix="unset VKBENCH_SANDBOX" if is_off else "a kernel with Landlock and seccomp filters",
        needed_for=RUN if settings.sandbox is Sandbox.REQUIRE else CONTAINED,
    )


def _shared_memory() -> Iterator[str]:
    """What a contained process lacks without a /dev/shm of its own."""
    from vkbench_worker.containment import shared_memory

    tried = subprocess.run(python_command("-m", shared_memory.__name__), capture_output=True)
    if system.IS_LINUX and tried.returncode:
        yield "it has no /dev/shm: this system lets its user make no mount namespace"


def service(settings: Settings) -> Iterator[CheckResult]:
    """What systemd takes from the worker, if it has one."""
    properties = _properties(WORKER_UNIT)
    if properties.get("LoadState") != "loaded":
        return
    lacks = [
        words
        for words, is_lacking in (
            ("root runs it: no User=", properties.get("User", "") in ("", "root", "0")),
            ("it may gain privileges: no NoNewPrivileges=", properties["NoNewPrivileges"] != "yes"),
            (
                "it may write to the system: no ProtectSystem",
                properties["ProtectSystem"] != "strict",
            ),
        )
        if is_lacking
    ]
    yield CheckResult(
        what=WORKER_UNIT,
        ok=not lacks,
        detail="; ".join(lacks)
        or f"its user is {properties['User']}, who cannot write to the system",
        fix="take the unit of docs/howto/gpu-host.md",
        needed_for=FLEETS,
    )


def _properties(unit: str) -> Mapping[str, str]:
    """What systemd knows of a unit; nothing where there is no systemd."""
    names = "--property=LoadState,User,NoNewPrivileges,ProtectSystem"
    try:
        answer = subprocess.run(
            ["systemctl", "show", unit, names], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in answer.stdout.splitlines())
    return {name: value for name, _, value in pairs}


def validation_layer(settings: Settings) -> Iterator[CheckResult]:
    """The Khronos validation layer, which developers of kernels want."""
    folders = (
        "/usr/share/vulkan",
        "/etc/vulkan",
        "/usr/local/share/vulkan",
        "~/.local/share/vulkan",
    )
    name = "VkLayer_khronos_validation.json"
    places = [Path(folder).expanduser() / "explicit_layer.d" / name for folder in folders]
    manifests = [str(place) for place in places if place.exists()]
    yield CheckResult(
        what="validation layer",
        ok=bool(manifests),
        detail=manifests[0] if manifests else "no VK_LAYER_KHRONOS_validation in the usual places",
        fix="apt install vulkan-validationlayers",
        needed_for="developers of kernels (VKBENCH_VALIDATION=1)",
    )


def bundle(settings: Settings) -> Iterator[CheckResult]:
    """The compiled kernels of this package."""
    from vkbench_shaders.bundle import packaged
    from vkbench_shaders.compile.tree import TREE, tree_sha

    def look() -> str:
        kernels = packaged()
        if kernels.is_compiled:
            kernels.check()
        if kernels.manifest.tree != tree_sha(TREE):
            raise VkbenchError(
                f"bundle {kernels.sha[:12]} was compiled from other sources than the installed ones"
            )
        rest = "" if kernels.is_compiled else ", most of it left to its first need"
        return f"bundle {kernels.sha[:12]}{rest}"

    yield attempt("compiled kernels", look, fix="python -m vkbench_shaders.compile.build")


def slang(settings: Settings) -> Iterator[CheckResult]:
    """The Slang compiler, for those who edit kernels."""
    from vkbench_shaders.compile.compiler import find

    yield attempt(
        "Slang compiler",
        lambda: str(find()),
        fix="pip install slangtorch, or set VKBENCH_SLANGC",
        needed_for="developers of kernels (bundle build)",
    )


def database(settings: Settings) -> Iterator[CheckResult]:
    """The database and its schema."""
    from vkbench_db.database import Database

    url = settings.database_url()

    def look() -> str:
        with Database.open(url):
            return hide_password(url)

    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not file.exists():
        detail = f"{url} (the first run makes it)"
        yield CheckResult(what="database", ok=True, detail=detail)
    else:
        yield attempt("database", look, fix="vkbench db upgrade")


def redis(settings: Settings) -> Iterator[CheckResult]:
    """Redis, which carries a fleet's jobs."""

    def look() -> str:
        socket.create_connection(redis_place(settings.redis), REDIS_SECONDS).close()
        return "answers"

    yield attempt(
        f"Redis at {hide_password(settings.redis)}",
        look,
        fix="apt install redis-server, or set VKBENCH_REDIS",
        needed_for=FLEETS,
    )


def builds(settings: Settings) -> Iterator[CheckResult]:
    """Where builds of programs lie for all hosts, and whose builds this host runs."""
    from vkbench_worker.policy import describe_builds

    yield attempt(
        "place of builds",
        partial(_reach_builds, settings),
        fix="have VKBENCH_STORE name a folder or a URL that all hosts reach (docs/howto/builds.md)",
        needed_for=FLEETS,
    )
    yield attempt(
        "policy of builds",
        partial(describe_builds, settings.builds),
        fix="have VKBENCH_BUILDS name a file of the public SSH keys of those whose builds may run",
        needed_for=FLEETS,
    )


def _reach_builds(settings: Settings) -> str:
    """Where builds lie, once that has answered."""
    from vkbench.programs.places.folder import FolderPlace
    from vkbench.programs.places.opening import open_place
    from vkbench.programs.places.place import key_of_file

    place = open_place(settings)
    if not settings.store:
        return f"{place.name}, of this machine alone (VKBENCH_STORE)"
    if isinstance(place, FolderPlace) and not place.folder.is_dir():
        raise VkbenchError(f"there is no folder {place.name}: the first submission makes it")
    place.has(key_of_file("0" * 64), 0)
    return f"{place.name} answers"


def clock(settings: Settings) -> Iterator[CheckResult]:
    """Whether this host's clock is that of Redis: dates of results are by the clocks of hosts."""
    try:
        from vkbench.messages.redis_client import clock_skew

        ahead = clock_skew(settings.redis)
    except (ImportError, VkbenchError):  # the checks of packages and of Redis say so
        return
    yield CheckResult(
        what="clock",
        ok=not ahead,
        detail=describe_skew(ahead) if ahead else "that of Redis",
        fix="have this host and that of Redis keep time by NTP",
        needed_for=FLEETS,
    )


def signing(settings: Settings) -> Iterator[CheckResult]:
    """The keys that sign what crosses Redis."""

    def look() -> str:
        if not keys_for(settings).worker:
            why = " (VKBENCH_UNSIGNED)" if settings.unsigned else ": Redis is on this machine"
            return f"not signed{why}"
        return f"signed by the keys in {settings.keys}"

    yield attempt(
        "messages",
        look,
        fix="vkbench key new FOLDER, and VKBENCH_KEYS=FOLDER here and on each worker",
        needed_for=FLEETS,
    )


PACKAGES = (
    ("numpy", "worker", RUN),
    ("gguf", "worker", RUN),
    ("vulkan", "worker", RUN),
    ("scipy", "detection", "compare, regressions, bisect"),
    ("ruptures", "detection", "compare, regressions, bisect"),
    ("celery", "scheduler", FLEETS),
    ("redis", "scheduler", FLEETS),
    ("psycopg", "scheduler", "fleets with PostgreSQL"),
)

CHECKS: tuple[Callable[[Settings], Iterator[CheckResult]], ...] = (
    python,
    packages,
    loader,
    devices,
    uncontained_devices,
    containment,
    service,
    bundle,
    database,
    redis,
    clock,
    signing,
    builds,
    validation_layer,
    slang,
)

"""Every module can be imported where Python lacks what Windows and macOS lack, but for services."""

from __future__ import annotations

import json
import subprocess
import sys

MODULES = ("fcntl", "resource", "pwd", "grp", "termios")
FUNCTIONS = (
    *("sched_getaffinity", "waitid", "getuid", "geteuid", "killpg", "fork", "pread", "pwrite"),
    *("sysconf", "WEXITED", "WNOWAIT", "P_PID"),
)
SIGNALS = ("SIGKILL", "SIGSTOP", "SIGCONT", "setitimer")
# Other packages are imported before, which have versions of their own for each system.
IMPORT_ALL = f"""
import asyncio, ctypes, importlib, json, os, pkgutil, signal, socket, subprocess, sys
import alembic.context, multiprocessing, numpy, sqlalchemy, typer
for name in {MODULES}: sys.modules[name] = None
for owner, names in ((os, {FUNCTIONS}), (signal, {SIGNALS})):
    for name in names: delattr(owner, name)
failed = {{}}
for root in sys.argv[1:]:
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, root + "."):
        if ".migrations." in found.name: continue
        try: importlib.import_module(found.name)
        except Exception as error: failed[found.name] = repr(error)
print(json.dumps(failed))
"""
PACKAGES = (
    *("vkbench", "vkbench_shaders", "vkbench_worker", "vkbench_scheduler", "vkbench_db"),
    *("vkbench_detection", "vkbench_local", "vkbench_tables", "vkbench_cli"),
)
OF_CELERY = ("vkbench_worker.service.", "vkbench_scheduler.queue.", "vkbench_scheduler.service")


def test_only_services_need_what_linux_has() -> None:
    command = [sys.executable, "-c", IMPORT_ALL, *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    failed = json.loads(done.stdout.splitlines()[-1])
    assert {name: why for name, why in failed.items() if not name.startswith(OF_CELERY)} == {}

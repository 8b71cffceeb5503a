"""Entry point of contained processes: restricts this process, then runs a module in it.

    python -P -m vkbench_worker.containment.enter [--read PATH] [--write PATH] [--loader PATH] \
        MODULE ARGUMENT...

It comes before the module is imported, because Landlock binds the thread that asks for it and those
that it starts: numpy and drivers start threads as soon as they are loaded.
"""

from __future__ import annotations

import argparse
import atexit
import compileall
import gc
import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path

import vkbench_worker
from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.process.interpreter import python
from vkbench.settings import Sandbox, Settings, settings
from vkbench_worker.containment import (
    kernel,
    landlock,
    limits,
    places,
    seccomp,
    shared_memory,
    user,
)
from vkbench_worker.containment.support import Support, require_support
from vkbench_worker.protocol import FAILED_STATUS


def main() -> None:
    """Contain this process as the settings say, and become the module."""
    options = _arguments()
    try:
        current = settings()
        if current.sandbox is not Sandbox.OFF:
            contain(current, require_support(current.sandbox), options.read, options.write)
    except VkbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(FAILED_STATUS)
    except OSError as error:
        print(f"this process could not be contained: {error}", file=sys.stderr)
        sys.exit(FAILED_STATUS)
    if options.loader:
        _start_by(options.loader, python("-m", options.module, *options.arguments))
    atexit.register(gc.freeze)  # no garbage is looked for at the end: that took 0.1 s
    sys.argv[1:] = options.arguments
    runpy.run_module(options.module, run_name="__main__", alter_sys=True)


def contain(settings: Settings, parts: Support, reads: list[Path], writes: list[Path]) -> None:
    """Leave this process, and what it starts, what a driver needs; there is no way back."""
    _make_folders(settings)
    _compile()
    if not system.IS_LINUX:
        return
    # Root's right to open files stays: others' folders may hold the caches.
    kept = limits.OPEN_ALL_FILES if os.geteuid() == 0 else None
    is_apart = shared_memory.separate()
    allowed = list(places.rules(settings, reads, writes, os.environ, shared_memory=is_apart))
    kernel.forgo_privileges()
    limits.limit()
    if parts.landlock:
        # The kernel could forget the folder, and the rule with it, if nothing had it open.
        os.set_inheritable(os.open(places.THREADS, os.O_PATH), True)
        landlock.restrict(allowed, parts.landlock)
    user.change()
    limits.drop_capabilities(keep=kept)
    if parts.seccomp:
        seccomp.restrict()


def _start_by(loader: Path, command: list[str]) -> None:
    """Become a command that another C library's loader starts, with the libraries beside it."""
    started, *words = command
    libraries = ("--library-path", str(loader.parent), "--argv0", started)
    os.execv(loader, [str(loader), *libraries, os.path.realpath(started), *words])


def _make_folders(settings: Settings) -> None:
    home = places.driver_folder(settings)
    for folder in (*places.written_folders(settings), home / "tmp", home / "cache"):
        with suppress(OSError):  # what needs it says so, or does without it
            folder.mkdir(parents=True, exist_ok=True)


def _compile() -> None:
    """Write the bytecode that a contained process cannot: a source tree has none at first."""
    folder = Path(vkbench_worker.__file__).parent
    if not sys.dont_write_bytecode and not any(folder.glob("runner/__pycache__/main.*.pyc")):
        compileall.compile_dir(folder, quiet=2)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vkbench_worker.containment.enter", description=__doc__)
    parser.add_argument("--read", type=Path, action="append", default=[], help="read that too")
    parser.add_argument("--write", type=Path, action="append", default=[], help="write that too")
    parser.add_argument("--loader", type=Path, help="start Python anew by this loader")
    parser.add_argument("module", help="what to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")
    return parser.parse_args()


if __name__ == "__main__":
    main()

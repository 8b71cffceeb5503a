"""Types the commands of a page into one shell, in their order, as a reader would.

A service (`vkbench web`) runs on beside the later commands, and ends at the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster import free_port
from documented import Shown

_SERVICE = re.compile(r"(VKBENCH_\w+=\S+ )*vkbench (web|worker|scheduler|demo)\b(?!.*--no-serve)")
# what is not typed here, and the test that runs it instead
ELSEWHERE = {
    "sudo": "scripts/packages installs what tests need",
    "source .venv": "the tests have an environment",
    "python3 -m venv": "the tests have an environment",
    "git ": "tests/contract/test_wheel.py builds the wheel of a checkout",
    "docker": "tests/compose/test_compose.py",
    "podman": "tests/compose/test_compose.py",
    "make": "CI's own steps",
    "vkbench run --suite quick": "`make bench`",
    "vkbench tune": "tests/e2e/test_tune.py",
    "vkbench program add": "tests/e2e/test_programs.py",
    "g++ -O3": "tests/e2e/test_programs.py",
    "vkbench bisect --case cpu-products:copy/64m": "tests/e2e/test_programs.py",
    "vkbench program build add": "tests/e2e/test_builds.py",
    "vkbench program build make": "tests/cli/test_program_make.py",
    "vkbench bisect --program": "tests/e2e/test_bisect_program.py",
    "vkbench run --build": "tests/e2e/test_builds.py",
    "vkbench submit --build": "tests/broker/test_builds.py",
    "vkbench schedule add builds": "tests/e2e/test_builds.py",
    "npm pack": "scripts/ggml takes such a package",
    "vkbench results --build": "tests/web/test_programs.py",
    "vkbench regressions ls --program": "tests/web/test_programs.py",
    "vkbench bisect --case mul_mat_vec/q4_0/m4096_n1_k14336 --builds": "tests/e2e/test_builds.py",
    "vkbench bisect --regression": "tests/cli/test_bisect.py",
    "vkbench compare build:": "tests/e2e/test_builds.py",
    "vkbench compare main last --metric hot --fail-on": "tests/cli/test_gate.py",
    "vkbench try": "tests/e2e/test_builds.py",
    "vkbench calibrate --submit": "tests/cli/test_calibrate.py",
    "vkbench regressions scan --all": "tests/cli/test_regressions.py",
    "vkbench calibrate  ": "tests/cli/test_calibrate.py",
    "python -m vkbench_shaders.compile.build": "`make setup`",
}
_BEGUN_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A command that was typed, and what came of it."""

    shown: Shown
    code: int
    printed: str

    @property
    def trouble(self) -> str:
        """What is not as the page says; "" if all is."""
        where = f"{self.shown.page.name}: {self.shown.typed}\n"
        if self.code != self.shown.code:
            return f"{where}ended with {self.code}:\n{self.printed}"
        missing = self.shown.missing(self.printed)
        return f"{where}did not print {missing}:\n{self.printed}" if missing else ""


def type_all(
    commands: Iterable[Shown], folder: Path, seconds: float, **environ: str
) -> list[Typed]:
    """Type commands in a folder; those that another test runs are left out.

    Services listen at a port of their own: several pages are typed at once.
    """
    mine = [each for each in commands if not is_elsewhere(each.typed)]
    port = free_port()
    lines = [
        "mkdir -p .typed",
        *(_line(number, _moved(each.typed, port)) for number, each in enumerate(mine)),
        "exit 0",
    ]
    with subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=_environment(folder, environ),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            shell.wait(seconds)
        finally:
            with suppress(ProcessLookupError):  # no service ran
                os.killpg(shell.pid, signal.SIGKILL)
    return [_typed(folder, number, each) for number, each in enumerate(mine)]


def is_elsewhere(typed: str) -> bool:
    """Whether another test runs a command."""
    return typed.startswith(tuple(ELSEWHERE))


def _moved(typed: str, port: int) -> str:
    """A command whose pages have another port."""
    typed = typed.replace(":8900", f":{port}").replace("--port 8900", f"--port {port}")
    if re.match(r"vkbench (web|demo)\b", typed) and not {"--port", "--no-serve"} & set(
        typed.split()
    ):
        return f"{typed} --port {port}"
    return typed


def _environment(folder: Path, more: Mapping[str, str]) -> Mapping[str, str]:
    """The home folder is new too: what lies in the developer's changes nothing here."""
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VKBENCH_")}
    kept |= {"PATH": programs, "HOME": str(home)}
    if cache := os.environ.get("VKBENCH_CACHE"):
        kept["VKBENCH_CACHE"] = cache
    return kept | dict(more)


def _line(number: int, typed: str) -> str:
    place = f".typed/{number}"
    if _SERVICE.match(typed):
        words = typed.partition("#")[0].strip()
        sign = "http://" if re.search(r"vkbench (web|demo)\b", words) else "."
        tries = f"for i in $(seq {_BEGUN_SECONDS * 10})"
        began = f"{tries}; do grep -qs {sign} {place} && break; sleep 0.1; done"
        return f"{words} >{place} 2>&1 &\n{began}\nkill -0 $!; echo $? >{place}.code"
    return f"{{ {typed}\n}} >{place} 2>&1; echo $? >{place}.code"


def _typed(folder: Path, number: int, each: Shown) -> Typed:
    place = folder / ".typed" / str(number)
    code = place.with_suffix(".code")
    if not code.exists():
        return Typed(shown=each, code=-1, printed="the shell ended before it")
    return Typed(shown=each, code=int(code.read_text()), printed=place.read_text())

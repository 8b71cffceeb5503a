"""Programs of users that speak lines of JSON, each with a fault that was planted or none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vkbench.programs.build import Build
from vkbench.programs.program import Program
from vkbench.programs.registry import ProgramStore
from vkbench.programs.sources import open_build
from vkbench.programs.store import BuildStore
from vkbench.settings import Settings

NAME = "my-bench"
SUM = "add/f32/b1_c1_h8_w64"
COPY = f"{NAME}:copy/64m"
CASES = ("[cases]", 'names = ["copy/64m"]')
# It adds arrays, and says of other cases what a test has it say.
_SCRIPT = """\
#!{python} -S
import array, json, os, signal, socket, sys, time
def write(request, values):
    with open(request["outputs"][0]["file"], "wb") as file:
        file.write(values.tobytes())
def add(request):
    a, b = (array.array("f", open(each["file"], "rb").read()) for each in request["inputs"])
    return array.array("f", [x + y for x, y in zip(a, b)])
def say(**fields):
    answer = {{"verdict": "passed", "samples": [2e-6, 3e-6, 2e-6] * 20}} | fields
    print(json.dumps(answer), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    is_timed = request["seconds"] > 0
{body}
"""
RIGHT = "write(request, add(request)); say(clock='host', includes='one call')"


def add_program(
    settings: Settings, body: str, folder: Path, name: str = "", declared: Sequence[str] = CASES
) -> Build:
    """A build of the program, whose loop over requests has this body."""
    return add_script(settings, script_of(body), folder, name, declared=declared)


def script_of(body: str) -> str:
    """The program, whose loop over requests has this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return _SCRIPT.format(python=sys.executable, body=lines)


def add_script(
    settings: Settings,
    script: str | bytes,
    folder: Path,
    name: str = "",
    *,
    adapter: str = "lines",
    declared: Sequence[str] = (),
) -> Build:
    """A build of the program that is this file; the declaration has these lines besides."""
    folder.mkdir(exist_ok=True)
    data = script if isinstance(script, bytes) else script.encode()
    (folder / "bench").write_bytes(data)
    declaration = folder / "program.toml"
    fields = f"name = '{NAME}'\ndescription = 'planted'\nadapter = '{adapter}'\n"
    run = "needs = ['bench']\nrun = ['./bench']\n"
    declaration.write_text("\n".join((fields + run, *declared)))
    program: Program = ProgramStore(settings.program_folder()).add(declaration)
    with open_build(folder, program) as opens:
        return BuildStore(settings.build_folder()).add(program.name, opens, name)

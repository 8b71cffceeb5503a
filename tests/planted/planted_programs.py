"""A lab in which three builds of a program were run, the second of which is wrong somewhere."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from databases import Lab, timing
from vkbench.job import ArmKind, Mode, Outcome
from vkbench.programs.build import Build, BuildFile
from vkbench_db.work.builds import store_build
from vkbench_detection.steps import detect

PROGRAM = "ggml-vulkan"
CASES = ("mul_mat_vec/q4_0/m8_n1_k256", "add/f32/h2_w3")
NAMES = ("b8121", "b8390", "b8460")


def add_build(lab: Lab, name: str) -> Build:
    """A build that the database knows; its file is made up."""
    sha = hashlib.sha256(name.encode()).hexdigest()
    file = BuildFile(path="libggml-vulkan.so", sha=sha, nbytes=1000)
    build = Build(program=PROGRAM, name=name, files=(file,), added_at=lab.now)
    with lab.database.transaction() as tx:
        store_build(tx, build)
    return build


def run_build(
    lab: Lab,
    device: str,
    build: Build,
    outcome: Outcome = Outcome.PASSED,
    *,
    cases: tuple[str, ...] = CASES,
    seconds: float = 1e-3,
    mode: Mode = Mode.PERFORMANCE,
) -> int:
    """A run of a build's cases on a device, which all end so."""
    run = lab.submit(
        device, cases, mode=mode, variant=PROGRAM, bundle=build.sha, arm_kind=ArmKind.BUILD
    )
    while jobs := lab.pick(device):
        for job in jobs:
            answer = replace(lab.answer(job, outcome), variant=PROGRAM, kernel_sha=build.sha)
            timings = (timing("hot", seconds),) if answer.timings else ()
            lab.record(replace(answer, bundle=build.sha, timings=timings))
    return run


def fill_program(lab: Lab) -> list[Build]:
    """Two devices: the second build is wrong on one of them, and the third is right again."""
    here, there = lab.add_device(), lab.add_device("NVIDIA H200", "beta")
    builds: list[Build] = []
    for name in NAMES:
        lab.now += 3600
        build = add_build(lab, name)
        builds.append(build)
        run_build(lab, here, build, Outcome.WRONG if name == "b8390" else Outcome.PASSED)
        run_build(lab, there, build)
        detect(lab.database, lab.now)
    return builds

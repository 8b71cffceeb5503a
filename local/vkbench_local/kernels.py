"""Compiles the packaged kernels that a run needs, before any of its jobs begins.

In a checkout most of them wait for their first need. What is missed here, such as the kernels of
whole models, a runner compiles before it times anything; compiling ahead takes all cores, and
disturbs no timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vkbench import calibration
from vkbench.case import is_model
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench.job import ACTIVE, AUTO
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_shaders.bundle import Bundle, entry_key, packaged, packaged_sha
from vkbench_shaders.compile.cached import Progress, progress_bar
from vkbench_shaders.compile.first_need import FirstNeed
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.runner.variants import choose


def compile_kernels(
    database: Database, run: int, devices: Sequence[DeviceFacts], watch: Progress | None = None
) -> None:
    """Compile what the unfinished jobs of a run launch on devices of this machine.

    `watch` is told how many are done; without it, a bar shows that.
    """
    if not packaged_sha() or (bundle := packaged()).is_compiled:
        return
    with database.reading() as tx:
        jobs = queries.jobs(tx, run=run, states=ACTIVE, limit=None)
    works = {
        (job.device, job.case_name, job.variant) for job in jobs if not is_model(job.case_name)
    }
    works |= {(facts.key, calibration.canary_of(facts.type), AUTO) for facts in devices}
    facts_by_key = {facts.key: facts for facts in devices}
    needed = (
        blobs_of(bundle, case, variant, facts_by_key[device])
        for device, case, variant in works
        if device in facts_by_key
    )
    if isinstance(bundle.blobs, FirstNeed):
        bundle.blobs.fill({sha for shas in needed for sha in shas}, watch or progress_bar())


def blobs_of(bundle: Bundle, case: str, variant: str, device: DeviceFacts) -> Iterable[str]:
    """Hashes of the code that a case launches; none if its job will say what is wrong with it."""
    try:
        return list(_find_launched(bundle, case, variant, device))
    except VkbenchError:
        return ()


def _find_launched(bundle: Bundle, case: str, variant: str, device: DeviceFacts) -> Iterator[str]:
    chosen = choose(pose_case(bundle, case), variant, device)
    problem = chosen.problem
    for launch in chosen.variant.launches(problem, device):
        stage = chosen.variant.stage(launch.entry)
        yield bundle.entry(entry_key(stage, problem.types)).sha256

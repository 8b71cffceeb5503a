"""Prints the profiles of a run's whole models, beside what their kernels take alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkbench.case import is_model
from vkbench.errors import UsageError
from vkbench.result import MEMORY_BYTES
from vkbench.words.units import rate_column
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_db.ask import queries
from vkbench_db.ask.job_story import JobStory, hot_seconds, story
from vkbench_db.ask.model_results import model_results
from vkbench_db.database import Database
from vkbench_tables.model_profile import COLUMNS, StepCases, rows_of, steps_of
from vkbench_tables.table import Table

if TYPE_CHECKING:
    from vkbench_shaders.gguf_file import GgufFile


def show_profiles(database: Database, run: int, output: Output) -> None:
    """Print a table for each profiled model of a run; for programs one table of all."""
    tables = []
    with database.reading() as tx:
        for job in queries.jobs(tx, run=run, limit=None):
            if is_model(job.case_name) and steps_of((job_story := story(tx, job.id)).settling):
                cases = step_cases(job_story)
                alone = hot_seconds(tx, job.device, [case.main for case in cases.values()])
                tables.append(rows_of(job_story, cases, alone))
                tell(_coverage(job_story))
    if not tables:
        tell("no job of this run was profiled: that takes a timing, and timestamps of the device")
    if output.json or output.csv:
        show(Table(columns=COLUMNS, rows=[row for rows in tables for row in rows]), output)
        return
    for rows in tables:
        print()
        show(Table(columns=COLUMNS, rows=rows), output)


def tell_memory(database: Database, run: int) -> None:
    """Say how much device memory each model of a run took at most."""
    with database.reading() as tx:
        jobs = [job.id for job in queries.jobs(tx, run=run, limit=None) if is_model(job.case_name)]
        results = model_results(tx, jobs).values()
    memory = {
        result.case_name: result.telemetry[MEMORY_BYTES]
        for result in results
        if MEMORY_BYTES in result.telemetry
    }
    unit, cells = rate_column(list(memory.values()), "B")
    for case, cell in zip(memory, cells, strict=True):
        tell(f"{case}: {cell} {unit} of device memory at most")


def step_cases(job_story: JobStory) -> Mapping[str, StepCases]:
    """The kernels' cases by the step's label, from the model's file; none if the file is gone."""
    from vkbench_shaders.models.cases import model_case
    from vkbench_shaders.models.hyper import hyper_of
    from vkbench_shaders.models.wiring import graph_of

    case, settled = model_case(job_story.facts.case_name), job_story.settling
    try:
        with _file_of(job_story) as file:
            case.check_file(file)
            phases = case.timed_phases(settled.variant if settled else "")
            hyper = hyper_of(file, case.room)
            graphs = [graph_of(file, hyper, phase) for phase in phases]
    except UsageError as error:
        tell(f"the kernels' cases are not shown: {error}")
        return {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for step in (step for graph in graphs for step in graph.steps):
        counts[step.label][step.problem.case.name] += 1
    return {label: StepCases(cases=cases) for label, cases in counts.items()}


def _file_of(job_story: JobStory) -> AbstractContextManager[GgufFile]:
    """Open the file of a job's model; for a seeded model, an outline made here."""
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.making.seeded import seeded_of

    source: Mapping[str, Any] = job_story.facts.source or {}
    model = seeded_of(job_story.facts.case_name)
    if model and not source:
        return model.write_outline()
    return nullcontext(open_gguf(Path(str(source.get("path", "")))))


def _coverage(job_story: JobStory) -> str:
    """How much of a run's time the steps take: over 100 %, since timestamps take time too."""
    steps = sum(steps_of(job_story.settling).values())
    whole = next((timing.seconds for timing in job_story.timings if timing.metric == "hot"), 0.0)
    share = f", {steps / whole:.0%} of a run without timestamps" if whole else ""
    return f"{job_story.facts.case_name}: the steps take {steps * 1e3:.4g} ms{share}"

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
    """A table for each of a run's models that was profiled; one of all for programs."""
    tables = []
    with database.reading() as tx:
        for job in queries.jobs(tx, run=run, limit=None):
            if is_model(job.case_name) and steps_of((told := story(tx, job.id)).settling):
                cases = step_cases(told)
                alone = hot_seconds(tx, job.device, [each.main for each in cases.values()])
                tables.append(rows_of(told, cases, alone))
                tell(_coverage(told))
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
        found = model_results(tx, jobs).values()
    told = {
        each.case_name: each.telemetry[MEMORY_BYTES]
        for each in found
        if MEMORY_BYTES in each.telemetry
    }
    unit, cells = rate_column(list(told.values()), "B")
    for case, cell in zip(told, cells, strict=True):
        tell(f"{case}: {cell} {unit} of device memory at most")


def step_cases(told: JobStory) -> Mapping[str, StepCases]:
    """The kernels' cases of each label, from the file of the model; none where it is gone."""
    from vkbench_shaders.models.cases import model_case
    from vkbench_shaders.models.hyper import hyper_of
    from vkbench_shaders.models.wiring import graph_of

    case, settled = model_case(told.facts.case_name), told.settling
    try:
        with _file_of(told) as file:
            case.check_file(file)
            phases = case.timed_phases(settled.variant if settled else "")
            hyper = hyper_of(file, case.room)
            graphs = [graph_of(file, hyper, phase) for phase in phases]
    except UsageError as error:
        tell(f"the kernels' cases are not shown: {error}")
        return {}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for step in (step for graph in graphs for step in graph.steps):
        found[step.label][step.problem.case.name] += 1
    return {label: StepCases(cases=cases) for label, cases in found.items()}


def _file_of(told: JobStory) -> AbstractContextManager[GgufFile]:
    """The file of a job's model; of one that its worker made an outline, on any host."""
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.making.seeded import seeded_of

    source: Mapping[str, Any] = told.facts.source or {}
    model = seeded_of(told.facts.case_name)
    if model and not source:
        return model.write_outline()
    return nullcontext(open_gguf(Path(str(source.get("path", "")))))


def _coverage(told: JobStory) -> str:
    """How much of a run the steps account for: more than all of it, for timestamps take time."""
    steps = sum(steps_of(told.settling).values())
    whole = next((timing.seconds for timing in told.timings if timing.metric == "hot"), 0.0)
    share = f", {steps / whole:.0%} of a run without timestamps" if whole else ""
    return f"{told.facts.case_name}: the steps take {steps * 1e3:.4g} ms{share}"

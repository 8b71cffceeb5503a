"""Jobs of whole models through the queue, beside those of kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from cluster import Lab, until
from planted_model import Tiny, write_model
from vkbench.device import DeviceFacts
from vkbench.job import Mode
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_scheduler.planning.models import model_from
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit


def devices(lab: Lab) -> list[DeviceFacts]:
    with lab.database.reading() as tx:
        return [row.facts for row in queries.devices(tx)]


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_a_model_goes_through_the_queue(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    """The job of a file that was changed meanwhile says so, and those around it pass.

    The worker makes the model of a suite by itself.
    """
    lab = make_lab(runner="vkbench_worker.runner.main")
    good, changed = (write_model(tmp_path / f"{name}.gguf", Tiny()) for name in ("good", "changed"))
    models = [model_from(path, [20], [9]) for path in (good, changed)]
    write_model(changed, Tiny(layers=1))
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    until(lambda: devices(lab), "no device announces itself", 60)
    chosen = [
        *(Selection(model=model, measure_seconds=0.1) for model in models),
        Selection(cases=("add/f32/b1_c2_h3_w5",), mode=Mode.CORRECTNESS),
        Selection(suite="models-quick", mode=Mode.CORRECTNESS),
    ]
    runs = [submit(lab.database, selection, devices(lab)).run.id for selection in chosen]
    lab.await_end(*runs, seconds=120)
    lab.check(*runs)
    counts = [dict(lab.counts(run)) for run in runs]
    assert counts == [{"passed": 2}, {"failed": 2}, {"passed": 1}, {"passed": 2}]
    with lab.database.reading() as tx:
        reasons = [row.reason for row in queries.jobs(tx, run=runs[1])]
        series = tx.execute(select(schema.measurement.c.series_id)).scalars().all()
    assert all("is another model on this host" in reason for reason in reasons)
    assert len(series) == 2

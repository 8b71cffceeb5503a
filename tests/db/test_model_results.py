"""What results of whole models tell beside their rows, on both engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planted_runs import CASES, ENVIRONMENT, Past, filled
from vkbench.result import MEMORY_BYTES
from vkbench_db.ask import queries
from vkbench_db.ask.model_results import model_names, model_results
from vkbench_db.ask.results import ResultFilter, results
from vkbench_db.database import Database, Transaction, upgrade
from vkbench_db.transfer.exchange import export_run, import_lines

__all__ = ["filled"]  # a fixture

MODELS = ("model/a-0123456789ab/pp5", "model/b-0123456789ab/tg5")


def test_memory_is_a_column_of_results_and_travels(filled: Database, tmp_path: Path) -> None:
    past = Past(filled)
    told = replace(past.done(0.5), telemetry={MEMORY_BYTES: 7.0})
    run = past.run("models", told, past.done(1.0), cases=[MODELS[0], CASES[0]])
    with filled.reading() as tx:
        assert memory(tx, run) == {MODELS[0]: 7.0, CASES[0]: None}
        lines = list(export_run(tx, run))
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    upgrade(url)
    with Database.open(url) as elsewhere, elsewhere.transaction() as tx:
        [brought] = import_lines(tx, lines, 1.8e9).runs
        assert memory(tx, brought) == {MODELS[0]: 7.0, CASES[0]: None}


def memory(tx: Transaction, run: int) -> dict[str, float | None]:
    return {row.case_name: row.memory_bytes for row in results(tx, ResultFilter(run=run))}


def test_models_tell_what_kernels_do_not(filled: Database) -> None:
    past = Past(filled)
    timed = replace(past.done(0.5), telemetry={MEMORY_BYTES: 7.0}, bundle="ab" * 32)
    checked = replace(past.done(0.5), timings=(), telemetry={})
    run = past.run("models", timed, checked, past.done(1.0), cases=[*MODELS, CASES[0]])
    with past.database.reading() as tx:
        jobs = queries.jobs(tx, run=run, limit=None)
        found = model_results(tx, [job.id for job in jobs])
        assert model_names(tx) == ["a-0123456789ab", "b-0123456789ab"]
    first, second = (found[job] for job in sorted(found))
    assert [first.case_name, second.case_name] == list(MODELS)
    assert first.samples == pytest.approx([0.5] * 8)
    assert second.samples == []
    assert first.telemetry[MEMORY_BYTES] == 7.0
    assert (first.bundle, first.path) == ("ab" * 32, "")
    assert first.environment["driver"] == ENVIRONMENT.driver

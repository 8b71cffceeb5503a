"""The whole way of a case that begins to crash: a regression, its alert, and the end of both."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from cluster import Lab, until
from listener import SECRET, listening
from vkbench.job import JobState

CASES = ["fragile/f32/n1", "sleep/f32/n20", "fragile/f32/n2", "sleep/f32/n30"]


@pytest.mark.timeout(300)
def test_cases_that_begin_to_crash_are_a_regression_until_they_pass(
    make_lab: Callable[..., Lab],
) -> None:
    with listening() as listener:
        lab = make_lab(alert_webhook=listener.url, alert_secret=SECRET)
        lab.start_scheduler()
        lab.start_worker()
        lab.await_end(lab.submit(CASES))
        assert regressions(lab) == set()
        (lab.settings.data / "fragile").touch()
        crashing = lab.submit(CASES)
        lab.await_end(crashing)
        assert lab.counts(crashing) == {JobState.PASSED: 2, JobState.FAILED: 2}
        until(lambda: regressions(lab) == {("failed", "host", "open", 2)}, lambda: told(lab), 30)
        until(lambda: len(listener.heard) == 1, "no alert of its beginning came", 30)
        (lab.settings.data / "fragile").unlink()
        lab.await_end(lab.submit(CASES))
        until(lambda: regressions(lab) == {("failed", "host", "fixed", 2)}, lambda: told(lab), 30)
        until(lambda: len(listener.heard) == 2, lambda: f"{len(listener.heard)} alerts came", 30)
    log = (lab.folder / "scheduler.log").read_text()
    assert "Traceback" not in log


def regressions(lab: Lab) -> set[tuple[object, ...]]:
    question = """
        SELECT direction, cause, state, count(*) FROM v_regressions GROUP BY 1, 2, 3
    """
    with lab.database.reading() as tx:
        return {tuple(row) for row in tx.execute(text(question))}


def told(lab: Lab) -> str:
    with lab.database.reading() as tx:
        return str(tx.execute(text("SELECT state, cause, reason FROM job")).all())

"""The noise of each series is known once it has results, and told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from databases import Lab, one_engine, put_in_one_series
from vkbench.errors import UnknownName
from vkbench_detection.series.profiles import RENEWED_AFTER, NoiseRow, noise, refresh

CASE = "add/f32/h1_w1"


def measure(lab: Lab, values: Iterable[float]) -> None:
    """Results of one case, a day apart, all of series 1."""
    device = lab.add_device()
    for seconds in values:
        lab.submit(device, [CASE])
        [job] = lab.pick(device)
        answer = lab.answer(job, seconds=float(seconds))
        lab.record(replace(answer, timings=answer.timings[:1]))
        lab.now += 86_400
    put_in_one_series(lab)


def renew(lab: Lab) -> int:
    with lab.database.transaction() as tx:
        return refresh(tx, [1])


def told(lab: Lab, **filters: Any) -> list[NoiseRow]:
    with lab.database.reading() as tx:
        return noise(tx, **filters)


def around(sigma: float, count: int = 60) -> np.ndarray:
    return 1e-3 * np.exp(np.random.default_rng(7).normal(0, sigma, count))


@one_engine
@pytest.mark.parametrize("sigma", [0.01, 0.03])
def test_a_profile_says_what_cannot_be_seen(lab: Lab, sigma: float) -> None:
    measure(lab, around(sigma))
    [row] = told(lab)
    assert (row.sigma, row.smallest_effect, row.profiled_at) == (None, None, None)
    assert renew(lab) == 1
    [row] = told(lab)
    assert row.sigma == pytest.approx(sigma, rel=0.35)
    assert row.sigma is not None
    assert row.smallest_effect == pytest.approx(2.86 * row.sigma, rel=0.01)
    assert (row.noise_kind, row.case_name, row.kernel) == ("normal", CASE, "add")
    assert row.autocorrelation is not None
    assert abs(row.autocorrelation) < 0.4
    assert row.profiled_at == pytest.approx(lab.now - 86_400)


@one_engine
def test_few_results_have_no_profile_and_few_new_ones_no_new_one(lab: Lab) -> None:
    measure(lab, around(0.01, 7))
    assert renew(lab) == 0
    measure(lab, around(0.01, 1))
    assert renew(lab) == 1
    measure(lab, around(0.01, RENEWED_AFTER - 1))
    assert renew(lab) == 0
    measure(lab, around(0.01, 1))
    assert renew(lab) == 1


def test_what_was_before_a_confirmed_change_does_not_count(lab: Lab) -> None:
    measure(lab, around(0.01, 20))
    measure(lab, 2 * around(0.01, 20))
    with lab.database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO change_point (series_id, method, direction, before_job, after_job,"
                " before_kernel, after_kernel, before_bundle, after_bundle, before_environment,"
                " after_environment, found_at, state, cause)"
                " SELECT 1, 'screen', 'slower', 20, 21, '', '', '', '', '', '', finished_at,"
                " 'confirmed', 'kernel' FROM job WHERE id = 21"
            )
        )
    renew(lab)
    sigma = told(lab)[0].sigma
    assert sigma is not None
    assert sigma < 0.02


def test_flagged_results_do_not_count(lab: Lab) -> None:
    measure(lab, around(0.01, 7))
    measure(lab, [5.0])
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET flag = 'throttled' WHERE seconds > 1"))
    assert renew(lab) == 0


def test_filters(lab: Lab) -> None:
    measure(lab, around(0.01, 8))
    renew(lab)
    for filters in ({"devices": ["llvm"]}, {"kernel": "ADD"}, {"case": "add/*"}):
        assert len(told(lab, **filters)) == 1
    for filters in ({"devices": ["H200"]}, {"kernel": "mul*"}, {"case": "add"}):
        with pytest.raises(UnknownName):
            told(lab, **filters)

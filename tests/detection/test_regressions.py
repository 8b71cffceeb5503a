"""Regressions: which changes are one, which are chance, and how people move them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, text, update

from databases import Lab
from listener import listening, settings_for
from vkbench.device import Environment
from vkbench.errors import UnknownName, UsageError
from vkbench.job import Outcome
from vkbench.messages.wire import Announcement
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import (
    FAILED,
    OF_CODE,
    WRONG,
    Cause,
    Conclusion,
    Decision,
    Suspicion,
    cause_of,
)
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.changes.transitions import apply, suspect
from vkbench_detection.regress import inbox, news, recoveries
from vkbench_detection.regress.announcements import unannounced_news
from vkbench_detection.regress.regressions import Grouped, group, move
from vkbench_detection.regress.stages import RegressionStage
from vkbench_detection.series.placing import place
from vkbench_detection.series.points import Origin
from vkbench_scheduler.watch import alerts

NIGHT = 86_400.0
CASES = ("softmax/f32/rows1_width64", "softmax/f32/rows2_width64", "copy/f32/n8")


@pytest.fixture
def full(lab: Lab) -> Lab:
    """Two devices with two results of each case, in series."""
    for name in ("one", "other"):
        device = lab.add_device(name)
        for _ in range(2):
            lab.now += NIGHT
            lab.submit(device, CASES)
            lab.settle(device)
    with lab.database.transaction() as tx:
        place(tx, lab.now)
    return lab


def change(
    lab: Lab,
    case: str,
    *,
    device: int = 1,
    direction: str = "slower",
    cause: Cause = Cause.KERNEL,
    p: float = 1e-5,
    bundle: str = "b2",
    ratio: float | None = 1.1,
    state: ChangeState = ChangeState.CONFIRMED,
) -> int:
    """A decided change of the hot series of a case."""
    with lab.database.transaction() as tx:
        series, job = schema.series.c, schema.job.c
        found = tx.execute(
            select(series.id, series.case_id)
            .join(schema.kernel_case, schema.kernel_case.c.id == series.case_id)
            .where(
                schema.kernel_case.c.name == case,
                series.device_id == device,
                series.metric == "hot",
            )
        ).one()
        *_, before, after = tx.execute(
            select(job.id)
            .where(job.case_id == found.case_id, job.device_id == device)
            .order_by(job.id)
        ).scalars()
        suspicion = Suspicion(
            series=found.id, method=Method.HISTORY, direction=direction, before_job=before,
            after_job=after,
        )  # fmt: skip
        [made] = suspect(tx, [suspicion], lab.now)
        table = schema.change_point.c
        moved = {"after_kernel": "k2", "after_bundle": bundle} if cause in OF_CODE else {}
        if cause == Cause.BUILD:
            moved["after_kernel"] = bundle
        if moved:
            tx.execute(update(schema.change_point).where(table.id == made).values(**moved))
        figures: dict[str, float | None] = {"ratio": ratio, "low": ratio, "high": ratio, "p": p}
        conclusion = Conclusion(state=state, note="", cause=cause, figures=figures)
        apply(tx, [Decision(change=made, conclusion=conclusion)], lab.now)
    return made


def grouped(lab: Lab) -> Grouped:
    with lab.database.transaction() as tx:
        return group(tx, lab.now)


def rows(lab: Lab, question: str) -> list[tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


MEMBERS = """
    SELECT regression_id, count(*) FROM regression_member GROUP BY regression_id ORDER BY 1
"""
TITLE = "SELECT title FROM regression"
EVENTS = "SELECT state, note FROM regression_event ORDER BY id"


def test_one_bundle_is_one_regression_of_all_kernels_and_devices(full: Lab) -> None:
    for device in (1, 2):
        change(full, CASES[0], device=device)
    change(full, CASES[1])
    change(full, CASES[2])
    assert len(grouped(full).opened) == 1
    assert rows(full, MEMBERS) == [(1, 4)]
    assert ("open", "4 series of 2 kernels on 2 devices") in rows(full, EVENTS)
    assert rows(full, "SELECT title FROM regression") == [
        ("softmax and copy 10 % slower on 2 devices since b2 (23 Sep)",)
    ]
    with full.database.reading() as tx:
        [row] = inbox.regressions(tx)
        assert list(row.kernels.items()) == [("softmax", 3), ("copy", 1)]
        assert news.of_regression(tx, row.id).kernels == row.kernels
    assert grouped(full).opened == ()


def note_build(lab: Lab, sha: str, name: str) -> None:
    row = {"sha": sha, "program": "ggml-vulkan", "name": name, "files": [], "added_at": lab.now}
    with lab.database.transaction() as tx:
        tx.execute(insert(schema.build), [row])


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({CASES[0]: {"ratio": 15.7}}, "ggml-vulkan softmax f32 16 times slower on one of alpha"),
        (
            {CASES[0]: {"ratio": 2.5}, CASES[1]: {"ratio": 2.5, "device": 2}},
            "ggml-vulkan softmax f32 2.5 times slower on 2 devices",
        ),
        (
            {CASES[0]: {"ratio": 0.25, "direction": "faster"}},
            "ggml-vulkan softmax f32 4.0 times faster on one of alpha",
        ),
        (
            {CASES[0]: {"ratio": 1.5}, CASES[2]: {"ratio": 1.3}},
            "ggml-vulkan softmax and copy 40 % slower on one of alpha",
        ),
        ({CASES[0]: {"direction": WRONG}}, "ggml-vulkan softmax f32 wrong on one of alpha"),
        ({CASES[0]: {"direction": FAILED}}, "ggml-vulkan softmax f32 crashed on one of alpha"),
    ],
)
def test_a_title_names_the_program_and_its_build(
    full: Lab, changes: dict[str, dict[str, Any]], title: str
) -> None:
    note_build(full, "82201030ab12", "b8460")
    with full.database.transaction() as tx:
        tx.execute(update(schema.job).values(cause=Outcome.CRASHED))
    for case, facts in changes.items():
        figures: dict[str, Any] = {"ratio": None} if facts.get("direction") else {}
        change(full, case, cause=Cause.BUILD, bundle="82201030ab12", **{**figures, **facts})
    grouped(full)
    assert rows(full, TITLE) == [(f"{title} since b8460 (23 Sep)",)]
    assert rows(full, "SELECT cause FROM regression") == [("build",)]


def test_a_build_without_a_name_is_told_by_its_hash(full: Lab) -> None:
    note_build(full, "82201030ab12", "")
    change(full, CASES[0], cause=Cause.BUILD, bundle="82201030ab12")
    grouped(full)
    [(title,)] = rows(full, TITLE)
    assert title.endswith(" since 8220103 (23 Sep)")


def test_a_driver_that_slows_kernels_and_builds_is_one_cause(full: Lab) -> None:
    note_build(full, "82201030ab12", "b8460")
    driver = {"before_environment": "e1", "after_environment": "e2"}
    for case, bundle in ((CASES[0], "82201030ab12"), (CASES[2], "b2")):
        made = change(full, case, cause=Cause.ENVIRONMENT)
        arm = {"before_bundle": bundle, "after_bundle": bundle, "before_kernel": bundle}
        with full.database.transaction() as tx:
            table = schema.change_point.c
            moved = update(schema.change_point).where(table.id == made)
            tx.execute(moved.values(**arm, **driver, after_kernel=bundle))
    grouped(full)
    [(title,)] = rows(full, TITLE)
    assert title.startswith("ggml-vulkan softmax and copy 10 % slower on one of alpha since ")


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (Origin(kernel="a", bundle="a"), Origin(kernel="b", bundle="b"), Cause.BUILD),
        (Origin(kernel="k", bundle="a"), Origin(kernel="l", bundle="b"), Cause.KERNEL),
        (Origin(kernel="a", bundle="a"), Origin(kernel="a", bundle="a"), Cause.HOST),
        (
            Origin(kernel="a", bundle="a", environment="e"),
            Origin(kernel="b", bundle="b", environment="f"),
            Cause.UNKNOWN,
        ),
    ],
)
def test_a_build_that_moved_is_a_cause_of_its_own(old: Origin, new: Origin, cause: Cause) -> None:
    assert cause_of(old, new) == cause


def test_a_later_kernel_joins_what_an_older_vkbench_opened(full: Lab) -> None:
    """It kept a regression a family, named at the end of its key."""
    change(full, CASES[0])
    [opened] = grouped(full).opened
    with full.database.transaction() as tx:
        tx.execute(update(schema.regression).values(group_key="slower|kernel|bundle b2|softmax"))
    change(full, CASES[2])
    assert grouped(full).joined == (opened,)


def test_changes_found_in_imported_results_send_no_alert(full: Lab) -> None:
    def told() -> list[int]:
        with full.database.reading() as tx:
            return [number for number, *_ in unannounced_news(tx, ["webhook"], full.now)]

    change(full, CASES[0], device=2)  # its newest result is of now
    full.now += 13 * NIGHT
    grouped(full)
    assert told() == [1]
    change(full, CASES[2], device=2, bundle="b3")
    full.now += 2 * NIGHT
    assert len(grouped(full).opened) == 1
    assert told() == []


def test_a_regression_of_many_kernels_waits_for_all_of_them(full: Lab) -> None:
    """It is fixed when the last of its kernels is back, not when the first is."""
    slow = (CASES[0], CASES[2])
    for case in slow:
        change(full, case)
    [opened] = grouped(full).opened
    full.now += NIGHT
    [(device,), _] = rows(full, "SELECT key FROM device ORDER BY id")
    full.submit(device, CASES)
    full.settle(device)
    for case, settled in zip(slow, ([], [opened]), strict=True):
        change(full, case, direction="faster", ratio=1 / 1.1, bundle="b3")
        with full.database.transaction() as tx:
            place(tx, full.now)
            assert recoveries.settle(tx, full.now) == settled
    assert rows(full, f"SELECT state FROM regression WHERE id = {opened}") == [("fixed",)]


def test_what_grows_or_returns_is_told_as_what_it_is(full: Lab) -> None:
    """Another series of the same kernel and device is no news; a device, a kernel, a return are."""
    told: list[dict[str, Any]] = []
    with listening() as listener:
        ours = settings_for(listener)

        def hear() -> None:
            for _ in range(2):
                full.now += alerts.GATHER_SECONDS
                alerts.step(full.database, ours, full.now)
            told.extend(json.loads(body) for _, body in listener.heard[len(told) :])

        change(full, CASES[0])
        [opened] = grouped(full).opened
        hear()
        with full.database.transaction() as tx:
            move(tx, opened, RegressionStage.ACKNOWLEDGED, full.now, user="ann")
        for case, device in ((CASES[1], 1), (CASES[2], 1), (CASES[0], 2)):
            change(full, case, device=device)
            grouped(full)
            hear()
        with full.database.transaction() as tx:
            move(tx, opened, RegressionStage.FIXED, full.now)
        hear()
        [(key,)] = rows(full, "SELECT key FROM device WHERE id = 2")
        full.now += NIGHT
        full.submit(key, [CASES[1]])
        full.settle(key)
        change(full, CASES[1], device=2)
        grouped(full)
        hear()
    kinds = [each["type"].removeprefix("regression.") for each in told]
    assert kinds == ["open", "grown", "grown", "fixed", "again"]
    notes = [each["data"]["note"] for each in told]
    assert notes[1:3] == [
        "now also copy; 1 series of 1 kernel on 1 device more",
        "now also on other of alpha; 1 series of 1 kernel on 1 device more",
    ]
    assert "**open**" in told[-1]["data"]["summary"]


def test_what_pairs_confirm_after_a_fix_is_not_back(full: Lab) -> None:
    """It was slow before the fix: its pairs took longer than those of another device."""
    change(full, CASES[0])
    [opened] = grouped(full).opened
    full.now += NIGHT
    with full.database.transaction() as tx:
        move(tx, opened, RegressionStage.FIXED, full.now)
    change(full, CASES[0], device=2)
    grouped(full)
    assert rows(full, EVENTS)[-1] == (
        "grown", "now also on other of alpha; 1 series of 1 kernel on 1 device more",
    )  # fmt: skip
    assert rows(full, "SELECT state FROM regression") == [("open",)]


def test_a_regression_after_a_verified_one_says_so(full: Lab) -> None:
    change(full, CASES[0])
    [opened] = grouped(full).opened
    with full.database.transaction() as tx:
        for stage in (RegressionStage.FIXED, RegressionStage.VERIFIED):
            move(tx, opened, stage, full.now)
    change(full, CASES[1])
    assert grouped(full).opened == (2,)
    assert rows(full, EVENTS)[-1] == (
        "open", "1 series of 1 kernel on 1 device; again, after regression 1, which is verified",
    )  # fmt: skip


def test_directions_and_bundles_part(full: Lab) -> None:
    change(full, CASES[0])
    change(full, CASES[0], device=2, direction="faster", ratio=0.9)
    change(full, CASES[1], bundle="b3")
    assert len(grouped(full).opened) == 3


def test_a_host_is_one_for_all_families(full: Lab) -> None:
    for case in CASES:
        change(full, case, cause=Cause.HOST)
    change(full, CASES[0], device=2, cause=Cause.HOST)
    grouped(full)
    assert rows(full, MEMBERS) == [(1, 3), (2, 1)]


def test_hosts_updated_alike_have_one_regression(full: Lab, environment: Environment) -> None:
    """Their environments differ in more than the driver, and moved by it alone."""
    hashes = []
    for cpu in ("one", "other"):
        before = replace(environment, cpu=cpu)
        after = replace(before, driver_version="23.1")
        for each in (before, after):
            announcement = Announcement(worker="w", facts=full.facts(), environment=each, bundle="")
            with full.database.transaction() as tx:
                store.register_device(tx, announcement, full.now)
        hashes.append({"before_environment": before.hash, "after_environment": after.hash})
    for device, moved in zip((1, 2), hashes, strict=True):
        made = change(full, CASES[0], device=device, cause=Cause.ENVIRONMENT)
        with full.database.transaction() as tx:
            table = schema.change_point.c
            tx.execute(update(schema.change_point).where(table.id == made).values(**moved))
    assert len(grouped(full).opened) == 1
    [(title,)] = rows(full, "SELECT title FROM regression")
    assert title == "softmax 10 % slower on 2 devices since driver 23.1 (23 Sep)"


def test_later_members_join(full: Lab) -> None:
    change(full, CASES[0])
    [opened] = grouped(full).opened
    change(full, CASES[1])
    assert grouped(full).joined == (opened,)
    assert [state for state, _ in rows(full, EVENTS)] == ["open", "open"]


def test_a_title_tells_of_later_members_too(full: Lab) -> None:
    change(full, CASES[0])
    grouped(full)
    assert rows(full, TITLE) == [("softmax 10 % slower on one of alpha since b2 (23 Sep)",)]
    change(full, CASES[1], device=2, ratio=1.2)
    grouped(full)
    assert rows(full, TITLE) == [("softmax 15 % slower on 2 devices since b2 (23 Sep)",)]


@pytest.mark.parametrize(
    ("stage", "state", "count"),
    [
        (RegressionStage.ACKNOWLEDGED, "acknowledged", 1),
        (RegressionStage.FIXED, "open", 1),
        (RegressionStage.CLOSED, "closed", 2),
    ],
)
def test_what_a_later_member_does(
    full: Lab, stage: RegressionStage, state: str, count: int
) -> None:
    change(full, CASES[0])
    [opened] = grouped(full).opened
    with full.database.transaction() as tx:
        move(tx, opened, stage, full.now)
    change(full, CASES[1])
    grouped(full)
    states = rows(full, "SELECT state FROM regression ORDER BY id")
    assert (states[0][0], len(states)) == (state, count)


def test_a_change_is_told_whatever_else_was_dismissed_that_day(full: Lab) -> None:
    sure = change(full, CASES[0], p=0.04)
    for case in (CASES[1], CASES[2]):
        change(full, case, device=2, p=0.5, state=ChangeState.DISMISSED)
    assert len(grouped(full).opened) == 1
    [(state,)] = rows(full, f"SELECT state FROM change_point WHERE id = {sure}")
    assert state == "confirmed"


def test_steps_that_make_no_sense_are_refused(full: Lab) -> None:
    change(full, CASES[0])
    [opened] = grouped(full).opened
    for stage in (RegressionStage.OPEN, RegressionStage.VERIFIED):
        with pytest.raises(UsageError), full.database.transaction() as tx:
            move(tx, opened, stage, full.now)
    with pytest.raises(UnknownName), full.database.transaction() as tx:
        move(tx, 99, RegressionStage.CLOSED, full.now)


def test_nothing_is_ever_taken_back(full: Lab) -> None:
    change(full, CASES[0])
    [opened] = grouped(full).opened
    with full.database.transaction() as tx:
        move(tx, opened, RegressionStage.ACKNOWLEDGED, full.now, user="ann", note="mine")
        move(tx, opened, RegressionStage.CLOSED, full.now, user="ann")
        move(tx, opened, RegressionStage.OPEN, full.now, user="bob")
    story = "SELECT state, user_name FROM regression_event ORDER BY id"
    assert rows(full, story) == [
        *(("open", ""), ("acknowledged", "ann"), ("closed", "ann"), ("open", "bob")),
    ]
    [(owner,)] = rows(full, "SELECT owner FROM regression")
    assert owner == "ann"


def test_one_member_that_is_not_back_keeps_it_open(full: Lab) -> None:
    first = change(full, CASES[0])
    change(full, CASES[1])
    grouped(full)
    full.now += NIGHT
    lab_device = rows(full, "SELECT key FROM device ORDER BY id")[0][0]
    full.submit(lab_device, CASES)
    full.settle(lab_device)
    with full.database.transaction() as tx:
        place(tx, full.now)
        point, job = schema.change_point.c, schema.job.c
        row = tx.execute(select(schema.change_point).where(point.id == first)).one()
        last = tx.execute(select(job.id).order_by(job.id.desc()).limit(3)).scalars().all()[-1]
        back = row._asdict() | {
            "id": None,
            "direction": "faster",
            "ratio": 1 / 1.1,
            "after_job": last,
        }
        tx.execute(
            insert(schema.change_point),
            [{name: each for name, each in back.items() if name != "id"}],
        )
        assert recoveries.settle(tx, full.now) == []
        member = schema.regression_member
        tx.execute(delete(schema.regression_member).where(member.c.change_point_id != first))
        assert recoveries.settle(tx, full.now) == [1]
    assert rows(full, "SELECT state FROM regression") == [("fixed",)]


def test_a_message_knows_all_changes_however_many_there_are(full: Lab) -> None:
    """A driver update slows thousands of series, and the slowest may be the last."""
    change(full, CASES[0])
    full.submit(full.add_device("one"), [CASES[0]] * 1500)
    point, job = schema.change_point, schema.job.c
    with full.database.transaction() as tx:
        [regression] = group(tx, full.now).opened
        [row] = tx.execute(select(point)).mappings()
        jobs = tx.execute(select(job.id).order_by(job.id.desc()).limit(1500)).scalars().all()
        first = {str(name): value for name, value in row.items()} | {"ratio": 1.1}
        added = [{**first, "id": 100 + job, "after_job": job} for job in sorted(jobs)]
        added[-1]["ratio"] = 9.0
        tx.execute(insert(point), added)
        tx.execute(
            insert(schema.regression_member),
            [{"change_point_id": each["id"], "regression_id": regression} for each in added],
        )
    with full.database.reading() as tx:
        told = news.of_regression(tx, regression)
    assert len(told.changes) == told.kernels["softmax"] == 1501
    assert max(each.ratio or 0.0 for each in told.changes) == 9.0

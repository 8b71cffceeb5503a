"""The pages of devices, runs and jobs say what the database holds, and load in parts."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, select, update

from databases import Lab
from planted_accuracy import of_model
from vkbench.job import PEERS, Mode, Outcome
from vkbench.result import Statistic
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.ask import job_story
from vkbench_db.ask.job_story import JobStory
from vkbench_db.work import store
from vkbench_db.work.runs import add_accuracies
from vkbench_web.pages import runs
from vkbench_web.pages.jobs import histogram, replay
from vkbench_web.pages.runs import bar, describe_selection, seconds_left
from vkbench_worker.errors import BundleAwaited

EVIL = "<script>alert(1)</script>\"'"


@pytest.fixture
def busy(lab: Lab) -> Lab:
    """A device with a run of six jobs: one wrong, one skipped, two passed, two queued."""
    lab.now = time.time() - 330
    device = lab.add_device(EVIL)
    lab.submit(device, 6)
    ends = (Outcome.WRONG, Outcome.SKIPPED, Outcome.PASSED, Outcome.PASSED)
    jobs = lab.pick(device, len(ends))
    lab.record(*(lab.answer(job, end) for job, end in zip(jobs, ends, strict=True)))
    return lab


@pytest.mark.parametrize("path", ["/fleet", "/runs", "/runs/1", "/jobs/1", "/jobs/5"])
def test_nothing_of_the_database_is_html(pages: TestClient, busy: Lab, path: str) -> None:
    answer = pages.get(path)
    assert answer.status_code == 200
    assert EVIL not in answer.text
    assert "<script>alert" not in answer.text
    assert "style=" not in answer.text  # the policy forbids it


def test_a_canary_has_the_colour_of_its_state(pages: TestClient, lab: Lab) -> None:
    lab.add_device()
    with lab.database.transaction() as tx:
        device, environment = (
            tx.execute(select(column)).scalar_one()
            for column in (schema.device.c.id, schema.environment.c.hash)
        )
        row = {"device_id": device, "environment": environment, "measured_at": lab.now}
        off = {"deviation": 7.5, "is_off": True, "seconds": 1e-3}
        tx.execute(insert(schema.canary).values(**row, **off))
    page = pages.get("/fleet").text
    assert 'data-word="off">off, +7.5 sigma</td>' in page
    assert "off: the canary is not as fast as it was" in pages.get("/").text


def test_the_fleet_says_what_waits_and_why(pages: TestClient, busy: Lab) -> None:
    page = pages.get("/fleet?part=live").text
    assert "<html" not in page
    assert "2 jobs queued, 0 in flight; no scheduler has run here" in page
    assert "start `vkbench scheduler`" in page
    assert "5 min ago" in page  # since when the oldest waits, and the device was seen
    assert re.search(r"\b1 row\s*<", page)
    [row] = pages.get("/fleet?format=json").json()["rows"]
    assert (row["health"], row["queued"], row["name"]) == ("well", 2, EVIL)
    assert row["waiting_since"]


def test_the_fleet_says_which_jobs_wait_for_a_bundle(pages: TestClient, lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 3)
    reason = str(BundleAwaited("ab" * 32, "no scheduler has brought it"))
    jobs = lab.pick(device)
    lab.record(*(replace(lab.answer(job, Outcome.HANDED_BACK), reason=reason) for job in jobs))
    [row] = pages.get("/fleet?format=json").json()["rows"]
    assert row["awaits"] == "bundle abababababab is awaited: no scheduler has brought it"
    assert row["awaits"] in pages.get("/fleet?part=live").text
    lab.record(*(lab.answer(job) for job in lab.pick(device)))
    [row] = pages.get("/fleet?format=json").json()["rows"]
    assert not row["awaits"]


def test_a_job_that_ran_and_waits_again_awaits_no_bundle(pages: TestClient, lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [job] = lab.pick(device)
    crash = replace(lab.answer(job, Outcome.CRASHED), reason="bundle ab is awaited: said a shader")
    lab.record(crash)
    [row] = pages.get("/fleet?format=json").json()["rows"]
    assert (row["queued"], row["awaits"]) == (1, "")


def test_a_device_that_fails_is_not_well(pages: TestClient, lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 2)
    while jobs := lab.pick(device):  # until they have failed for good
        lab.record(*(lab.answer(job, Outcome.CRASHED) for job in jobs))
    assert "failing: 2 of its last 2 jobs" in pages.get("/fleet").text


def test_a_run_says_how_far_it_is_and_what_went_wrong(pages: TestClient, busy: Lab) -> None:
    page = pages.get("/runs/1?part=live").text
    assert "4 of 6 jobs done (66%)" in page
    assert "because wrong" in page
    assert 'href="/jobs/1"' in page
    assert "no scheduler is running" in page
    assert 'class="of-wrong"' in page
    rows = pages.get("/runs/1?state=queued&format=json").json()["rows"]
    assert {row["state"] for row in rows} == {"queued"}
    assert len(rows) == 2
    assert pages.get("/runs/1?part=jobs").text.count("/jobs/") == 12
    assert 'class="progress"' in pages.get("/runs?part=live").text


def test_a_finished_run_asks_less_often_and_names_the_one_before(
    pages: TestClient, busy: Lab
) -> None:
    busy.settle(busy.facts(EVIL).key)
    busy.submit(busy.facts(EVIL).key, 1)
    busy.settle(busy.facts(EVIL).key)
    page = pages.get("/runs/2").text
    assert "every 30s" in page
    assert "/compare?old=1&amp;new=2" in page


def test_a_wrong_job_shows_the_element_and_the_command(pages: TestClient, busy: Lab) -> None:
    page = pages.get("/jobs/1").text
    assert "y[3]: found 1, expected 2" in page
    assert "No earlier result of this case" in page
    command = "vkbench run --case mul_mat_vec/q4_0/m1_n1_k256 --variant auto --mode performance"
    assert command in page


def test_a_timed_job_shows_its_samples(pages: TestClient, busy: Lab) -> None:
    page = pages.get("/jobs/3").text
    assert 'class="histogram"' in page
    rows = pages.get("/jobs/3?format=json").json()["rows"]
    assert [row["metric"] for row in rows] == ["hot"] * 3 + ["cold"] * 3
    assert rows[0]["seconds"] == pytest.approx(1e-3)


def test_a_job_shows_what_its_driver_made_then_and_now(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device(EVIL)
    for value in (32.0, 64.0):
        lab.submit(device, 1)
        [job] = lab.pick(device)
        told = (
            Statistic(name=EVIL, value=value),
            Statistic(name="energy", value=None, note="no counter"),
        )
        lab.record(replace(lab.answer(job), statistics=told))
    page = pages.get("/jobs/2").text
    assert EVIL not in page
    assert re.search(r">32</td><td[^>]*>64, changed</td>", page)
    assert re.search(r">no counter</td><td[^>]*>no counter</td>", page)


def test_what_changed_since_the_last_good_result_is_named(pages: TestClient, busy: Lab) -> None:
    device = busy.facts(EVIL).key
    busy.now += 5
    busy.submit(device, [3])
    while jobs := busy.pick(device):
        changed = (replace(busy.answer(job), kernel_sha="ab" * 32) for job in jobs)
        busy.record(*changed)
    page = pages.get("/jobs/7").text
    assert "Job 3" in page
    assert '<th scope="row">code</th>' in page
    assert '<th scope="row">driver' not in page


@pytest.mark.parametrize("path", ["/runs/9", "/jobs/9", "/regressions/9"])
def test_what_is_not_there_is_a_page(pages: TestClient, path: str) -> None:
    assert pages.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/runs/0", "/jobs/-1", "/jobs/x", f"/regressions/{2**31}"])
def test_what_is_no_number_is_refused(pages: TestClient, path: str) -> None:
    assert pages.get(path).status_code == 400


def test_a_command_to_run_it_again_says_all_that_matters(lab: Lab) -> None:
    device = lab.add_device()
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now, track="").id
        planned = lab.planned(device, mode=Mode.CORRECTNESS, variant="a b", bundle="5a" * 32)
        store.add_jobs(tx, run, [planned, replace(planned, mode=Mode.PAIRED)])
    with lab.database.reading() as tx:
        story, paired = (job_story.story(tx, number) for number in (1, 2))
    facts = story.facts
    words = shlex.split(replay(story))
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert words[:2] == ["vkbench", "run"]
    assert options == {
        "--case": facts.case_name,
        "--variant": "a b",
        "--mode": "correctness",
        "--device": device,
        "--bundle": "5a" * 32,
        "--track": "none",
    }
    assert replay(paired) == ""
    assert replay(of_job(story, track=PEERS)) == ""  # others timed it: nothing runs it here
    assert "--property batch --device" in replay(of_job(story, mode="batch"))
    assert "--property compile --device" in replay(of_job(story, mode="compile"))
    compared = replay(of_job(story, mode="peer", variant="torch"))
    assert "--peer torch --mode performance" in compared
    assert "--variant" not in compared
    divided = of_job(story, mode="sharded", variant="auto:pieces=2,shards=4", bundle="")
    assert replay(divided) == (
        f"vkbench shard {facts.case_name} --shards 4 --pieces 2 --variant auto --device {device}"
    )
    among = of_job(story, mode="sharded", variant="auto:devices=2-1f3e9a,shards=2")
    assert replay(among) == ""
    source = {"path": "/models/a b.gguf", "tensor": ""}
    case = "model/a-b-0123456789ab/tg128/batch=8,cache=q8_0"
    model = shlex.split(replay(of_job(story, case_name=case, source=source, mode="performance")))
    assert model[2:14] == [
        *("--model", "/models/a b.gguf", "--prompt", "0", "--generate", "128"),
        *("--batch", "8", "--cache", "q8_0", "--variant", "a b"),
    ]


def test_it_names_the_bundle_that_ran_where_none_was_asked_for(lab: Lab) -> None:
    """Another version brings another packaged bundle."""
    device = lab.add_device()
    lab.submit(device, 1)
    [job] = lab.pick(device, 1)
    lab.record(replace(lab.answer(job), bundle="5a" * 32))
    with lab.database.reading() as tx:
        story = job_story.story(tx, 1)
    assert story.facts.bundle == ""
    assert f"--bundle {'5a' * 32}" in replay(story)
    ran = story.settling
    assert ran
    through = {ran.environment: {"driver": "radv", "extra": {"driver_name": "mesa-26.1"}}}
    assert "--driver mesa-26.1" in replay(replace(story, environments=through))


def test_what_is_gone_is_said_beside_the_command(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [job] = lab.pick(device, 1)
    lab.record(replace(lab.answer(job), bundle="5a" * 32))
    page = pages.get("/jobs/1").text
    assert f"The bundle {'5a' * 6} is gone: this database has no copy" in page
    assert "The driver" not in page
    with lab.database.transaction() as tx:
        tx.execute(update(schema.device).values(bundle="5a" * 32))
        facts = tx.execute(select(schema.environment.c.facts)).scalars().first()
        newer = {"hash": "newer", "driver": "llvmpipe", "driver_version": "99.0", "facts": facts}
        tx.execute(insert(schema.environment).values(**newer))
        tx.execute(update(schema.device).values(environment="newer"))
    page = pages.get("/jobs/1").text
    assert "The bundle" not in page
    assert "is gone: alpha has llvmpipe 99.0 now, and the line runs on that." in page


def test_a_device_that_nothing_serves_says_how_old_its_results_are(
    pages: TestClient, lab: Lab
) -> None:
    lab.now = time.time() - 19.5 * 3600
    device = lab.add_device()
    lab.submit(device, 1)
    lab.settle(device)
    with lab.database.transaction() as tx:
        tx.execute(update(schema.device).values(worker="alpha:1"))
    assert ">offline</a>" in pages.get("/fleet").text
    with lab.database.transaction() as tx:
        tx.execute(update(schema.device).values(worker=""))
    assert ">last results 19 h ago</a>" in pages.get("/fleet").text


def of_job(story: JobStory, **changes: Any) -> JobStory:
    return replace(story, facts=replace(story.facts, **changes))


@pytest.mark.parametrize(
    ("samples", "heights"),
    [([], []), ([1.0], [100]), ([2.0, 2.0], [100]), ([1.0, 1.0, 2.0, 4.0], [100, 50, 50])],
)
def test_a_histogram_has_a_bar_for_what_was_measured(
    samples: Sequence[float], heights: Sequence[float]
) -> None:
    bars = histogram(samples)
    assert [bar.height for bar in bars] == heights
    assert all(0 <= bar.x < bar.x + bar.width <= 100.001 for bar in bars)


def test_a_bar_is_as_wide_as_the_whole(lab: Lab) -> None:
    run = lab.submit(lab.add_device(), 3)
    with lab.database.reading() as tx:
        counts = store.run_progress(tx, run).counts
    assert bar(counts) == [("queued", 0.0, 100.0)]
    assert bar({}) == []
    assert seconds_left([]) is None


def test_a_selection_is_told_without_what_it_leaves_open() -> None:
    selection = {"suite": "", "kernels": ["a", "b"], "shapes": [{"m": 1, "n": 2}], "bundle": None}
    assert describe_selection(selection) == [("kernels", "a, b"), ("shapes", "m=1,n=2")]


def test_a_kernel_of_a_user_is_told_by_its_name_and_cases() -> None:
    own = {"kernel": "lab.rms", "cases": ["lab.rms/f32/m1", "lab.rms/f32/m3"], "timed": []}
    assert describe_selection({"own": own}) == [
        ("own kernel", "lab.rms"),
        ("its cases", "lab.rms/f32/m1, lab.rms/f32/m3"),
    ]


def test_a_model_is_told_by_its_file_and_cases() -> None:
    source = {"path": "/models/a.gguf", "tensor": ""}
    model = {"source": source, "cases": ["model/a-1/pp8", "model/a-1/tg2"], "bytes": 818560}
    assert describe_selection({"model": model}) == [
        ("model", "/models/a.gguf"),
        ("cases of the model", "model/a-1/pp8, model/a-1/tg2"),
    ]
    weights = {"source": source | {"tensor": "w"}, "sha256": "ab", "format": "q4_0"}
    assert ("weights", "tensor w of /models/a.gguf") in describe_selection({"weights": weights})


def test_older_runs_are_a_page_of_their_own(
    pages: TestClient, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = lab.add_device()
    for _ in range(3):
        lab.submit(device, 1)
    monkeypatch.setattr(runs, "MOST", 2)
    assert 'href="/runs?before=2"' in pages.get("/runs").text
    rows = pages.get("/runs?before=2&format=json").json()["rows"]
    assert [row["id"] for row in rows] == [1]
    assert "Older ones" not in pages.get("/runs?before=2").text
    assert pages.get("/runs?before=x").status_code == 400


def test_the_line_that_takes_a_run_along_does_so(
    pages: TestClient, busy: Lab, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [line] = re.findall("<code>(vkbench export .*?)</code>", pages.get("/runs/1").text)
    file = tmp_path / "run.jsonl"
    monkeypatch.setenv("VKBENCH_DATABASE", url)
    settings.cache_clear()
    assert cli.main(shlex.split(line.replace("FILE", str(file)))[1:]) == 0
    assert file.read_text().count('{"job":') == 6


def test_a_run_of_accuracy_shows_what_was_lost(lab: Lab, pages: TestClient) -> None:
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.ACCURACY, selection={"context": 512}, now=lab.now)
        add_accuracies(tx, run.id, dict(enumerate((of_model("f16"), of_model("q4_0", 0.031)))))
    page = pages.get(f"/runs/{run.id}").text
    for text in ("What was lost", "tiny-f16-0123456789ab", "3.1%", "<dt>Context</dt><dd>512</dd>"):
        assert text in page
    for text in ("jobs done", "no jobs", "Its results"):
        assert text not in page
    rows = pages.get(f"/runs/{run.id}?format=json").json()["rows"]
    assert [row["loss"] for row in rows] == [None, 0.031]

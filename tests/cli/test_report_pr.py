"""`vkbench report pr`: the comment of a change, once on a forge and then edited, and its status."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from commands import Captured, run_command
from databases import Lab
from fake_forge import TOKEN, FakeForge, forge_running
from planted_runs import Past
from planted_tryout import Trial
from vkbench.job import Mode, PlannedJob
from vkbench.run import RunWords
from vkbench_db.database import Database
from vkbench_detection.steps import detect
from vkbench_scheduler.planning.tryouts import add_round

TO = ("--repository", "a/b", "--number", "7", "--commit", "c0ffee")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    with forge_running() as forge:
        for kind, url in (("GITHUB", "GITHUB_API_URL"), ("GITLAB", "CI_API_V4_URL")):
            monkeypatch.setenv(f"{kind}_TOKEN", TOKEN)
            monkeypatch.setenv(url, forge.url)
        yield forge


def test_a_slower_run_is_a_comment_with_the_exit_code_of_the_gate(
    past: Past, capsys: Captured
) -> None:
    past.run("slow", past.done(2e-3), past.done(2e-6), past.done(3e-6))
    out, _ = run_command(capsys, "report", "pr", "slow", "--against", "before", code=1)
    assert out.index("**Slower") < out.index("<details><summary>Within noise")
    run_command(capsys, "report", "pr", "before", "--against", "before", code=0)


def test_a_row_that_changed_has_its_history_in_letters(past: Past, capsys: Captured) -> None:
    for _ in range(3):
        past.run("more", past.done(1e-3), past.done(2e-6), past.done(3e-6))
    past.run("slow", past.done(2e-3), past.done(2e-6), past.done(3e-6))
    detect(past.database, time.time())  # as `vkbench run` does at its end
    out, _ = run_command(capsys, "report", "pr", "slow", "--against", "before", code=1)
    slower, rest = out[out.index("**Slower") :].split("<details>", 1)
    assert "history" in slower
    assert re.search("[▁▂]{3,}█ ", slower)
    assert "history" not in rest


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_status_is_pending_before_and_a_forge_that_is_away_stops_nothing(
    past: Past,
    capsys: Captured,
    fake: FakeForge,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    words = ("report", "pr", "to come", "--pending", "--post", kind, *TO)
    assert run_command(capsys, *words) == ("", "")
    (status,) = fake.statuses
    assert status["state"] == {"github": "pending", "gitlab": "running"}[kind]
    assert fake.comments == {}
    monkeypatch.setenv(f"{kind.upper()}_TOKEN", "hunter2")
    assert "no status that it is measured: " in run_command(capsys, *words)[1]


def test_what_is_refused_of_a_fork_is_printed_and_fails_nothing(
    past: Past, capsys: Captured, fake: FakeForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.readers.append("reads")
    monkeypatch.setenv("GITHUB_TOKEN", "reads")
    words = ("report", "pr", "before", "--against", "before", "--post", "github", *TO)
    _, err = run_command(capsys, *words, code=8)
    assert "403" in err
    out, err = run_command(capsys, *words, "--from-fork")
    assert out.startswith("### No change")
    assert "may only read" in err
    assert (fake.comments, fake.statuses) == ({}, [])
    monkeypatch.setenv("GITHUB_TOKEN", "unknown")  # that is no fork's token
    run_command(capsys, *words, "--from-fork", code=8)
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "posting needs a token" in run_command(capsys, *words, "--from-fork")[1]
    run_command(capsys, *words, code=2)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_forge_has_one_comment_which_is_edited(
    past: Past, capsys: Captured, fake: FakeForge, kind: str
) -> None:
    past.run("slow", past.done(2e-3), past.done(2e-6), past.done(3e-6))
    past.run("wrong", past.wrong("NMSE"), past.done(2e-6), past.done(3e-6))
    for run, code in (("slow", 1), ("wrong", 3)):
        words = ("report", "pr", run, "--against", "before", "--post", kind, *TO)
        out, err = run_command(capsys, *words, code=code)
        assert out == ""
        assert err.startswith("comment: ")
    (comment,) = fake.comments[7]
    assert comment["edits"] == 1
    assert comment["body"].startswith("<!-- vkbench pr vkbench -->\n### 1 wrong")
    assert len(fake.statuses) == 2
    assert {status["state"] for status in fake.statuses} <= {"failure", "failed"}


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("run", "ended", "code"),
    [
        ("ci-c0ffee-5", "7", 2),
        ("ci-c0ffee-5", "0", 2),
        ("before", "130", 130),
        ("half", "4", 7),
        ("elsewhere", "0", 2),  # on another device, of which nothing says that it is slower
        ("others", "0", 7),  # no case in common
    ],
)
def test_what_was_not_measured_is_no_success(
    past: Past, capsys: Captured, fake: FakeForge, kind: str, run: str, ended: str, code: int
) -> None:
    """A run of before is there, and is fine; that of this job is missing, broken off or another."""
    there = replace(past.device, key="0123456789ab", index=1, name="Planted 1")
    past.add_device(there)
    past.run("elsewhere", *[past.done(1e-9)] * 3, device=there.key)
    past.run("others", past.done(1e-9), cases=["copy/f32/n8192"])
    planned = PlannedJob(device=past.device.key, case="copy/f32/n4096", mode=Mode.PERFORMANCE)
    Lab(past.database).submit_run([planned], words=RunWords(label="half"))
    told = ("--against", "before", "--ended", ended, "--post", kind, *TO)
    run_command(capsys, "report", "pr", run, *told, code=code)
    (status,) = fake.statuses
    assert status["state"] == {"github": "error", "gitlab": "failed"}[kind]
    assert status["description"].startswith("not measured: ")
    assert "### not measured: " in fake.comments[7][0]["body"]


def test_a_tryout_is_a_comment_with_the_names_of_its_builds(
    database: Database, capsys: Captured, fake: FakeForge
) -> None:
    lab = Lab(database)
    trial = Trial(lab, label="ci c0ffee 5")
    posted = ("ci c0ffee 5", "--post", "github", *TO)
    trial.do_round()
    add_round(database, trial.run)  # not measured: it was broken off
    _, err = run_command(capsys, "report", "pr", *posted, code=7)
    assert "has not ended" in err
    while trial.do_round():
        add_round(database, trial.run)
    run_command(capsys, "report", "pr", *posted, code=3)
    (comment,) = fake.comments[7]
    assert "### b1 → b2: 1 wrong, 1 slower, 1 faster\n" in comment["body"]
    assert [status["state"] for status in fake.statuses] == ["error", "failure"]


def test_a_forge_that_refuses_hides_no_verdict(
    past: Past, capsys: Captured, fake: FakeForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    past.run("slow", past.done(2e-3), past.done(2e-6), past.done(3e-6))
    monkeypatch.setenv("GITHUB_TOKEN", "hunter2")
    posted = ("--against", "before", "--post", "github", *TO)
    _, err = run_command(capsys, "report", "pr", "slow", *posted, code=1)
    assert "401" in err
    _, err = run_command(capsys, "report", "pr", "before", *posted, code=8)
    assert "it does not know the token" in err
    assert "hunter2" not in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("before", "--post", "github"), "--post needs --repository"),
        (("before", "--number", "3"), "need --post"),
        (("before", "--pending", "--post", "github", *TO[:4]), "--pending needs --commit"),
        (("before",), "is none of `vkbench try`: give --against OLD"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    past: Past, capsys: Captured, words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in run_command(capsys, "report", "pr", *words, code=2)[1]

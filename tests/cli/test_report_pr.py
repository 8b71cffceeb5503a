"""`vkbench report pr`: the comment of a change, once on a forge and then edited, and its status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from commands import Captured, run_command
from fake_forge import TOKEN, FakeForge, forge_running
from planted_runs import Past

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
        (("before",), "is none of `vkbench try`: give --against OLD"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    past: Past, capsys: Captured, words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in run_command(capsys, "report", "pr", *words, code=2)[1]

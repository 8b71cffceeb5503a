"""GitHub and GitLab, as a fake forge on this machine: one comment, a status, issues, troubles."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from fake_forge import TOKEN, FakeForge, forge_running
from vkbench.errors import UsageError
from vkbench.forges.forge import CommitState, CommitStatus, Forge, ForgeError
from vkbench.forges.github import GitHub
from vkbench.forges.opening import ForgeKind, forge_of_runner, open_forge

KINDS = list(ForgeKind)


def opened(fake: FakeForge, kind: ForgeKind, token: str = TOKEN) -> Forge:
    """The fake forge's repository, without waits between tries."""
    forge = cast(GitHub, open_forge(kind, "a/b", token=token, url=fake.url))
    return replace(forge, connection=replace(forge.connection, pause=lambda seconds: None))


@pytest.mark.parametrize("kind", KINDS)
def test_the_comment_of_a_marker_is_written_once_and_then_edited(kind: ForgeKind) -> None:
    with forge_running() as fake:
        fake.comments[7] = [{"id": n, "body": f"a person's {n}", "edits": 0} for n in range(1, 131)]
        forge = opened(fake, kind)
        forge.write_comment(7, "pr x", "first")
        forge.write_comment(7, "pr x", "second")
        forge.write_comment(7, "pr y", "of another job")
    ours = [comment for comment in fake.comments[7] if "person" not in comment["body"]]
    assert [(comment["body"], comment["edits"]) for comment in ours] == [
        ("<!-- vkbench pr x -->\nsecond", 1),
        ("<!-- vkbench pr y -->\nof another job", 0),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_comment_whose_answer_was_lost_is_not_written_twice(kind: ForgeKind) -> None:
    with forge_running() as fake:
        fake.lost = 1
        place = opened(fake, kind).write_comment(7, "pr x", "text")
    (comment,) = fake.comments[7]
    assert comment["body"] == "<!-- vkbench pr x -->\ntext"
    assert str(comment["id"]) in place


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_says_how_a_commit_is(kind: ForgeKind) -> None:
    status = CommitStatus(
        commit="c0ffee", state=CommitState.FAILURE, name="vkbench", description="d" * 999
    )
    with forge_running() as fake:
        opened(fake, kind).set_status(status)
    (shown,) = fake.statuses
    assert shown["commit"] == "c0ffee"
    assert shown["state"] == {"github": "failure", "gitlab": "failed"}[kind]
    assert shown.get("context", shown.get("name")) == "vkbench"
    assert len(shown["description"]) <= 255


@pytest.mark.parametrize("kind", KINDS)
def test_an_issue_is_opened_found_noted_and_closed(kind: ForgeKind) -> None:
    with forge_running() as fake:
        forge = opened(fake, kind)
        assert forge.find_issue("regression 1") is None
        issue = forge.open_issue("slower", "regression 1", "text")
        found = forge.find_issue("regression 1")
        assert found
        assert found.number == issue.number == 1
        for _ in range(2):
            forge.note_issue(1, "msg 1", "now also elsewhere")
        forge.move_issue(1, is_open=False)
    assert fake.issues[0]["state"] == "closed"
    assert len(fake.comments[1]) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (401, "does not know the token"),
        (403, "the token may not do this"),
        (404, "nothing of this name that the token may see"),
        (301, "redirects are not followed"),
        (422, "it says: planted 422"),
    ],
)
def test_what_no_other_try_mends_is_one_line_at_once(code: int, words: str) -> None:
    with forge_running(code) as fake, pytest.raises(ForgeError, match=words) as failed:
        opened(fake, ForgeKind.GITHUB).write_comment(1, "pr x", "text")
    assert len(fake.requests) == 1
    assert f"GitHub: GET /repos/a/b/issues/1/comments: {code} " in str(failed.value)
    assert failed.value.exit_code == 8


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass_is_tried_three_times(code: int) -> None:
    with forge_running(code, code) as fake:
        opened(fake, ForgeKind.GITLAB).write_comment(1, "pr x", "text")
    assert len(fake.comments[1]) == 1
    with forge_running(*[code] * 9) as fake, pytest.raises(ForgeError, match=r"\(3 tries\)"):
        opened(fake, ForgeKind.GITLAB).write_comment(1, "pr x", "text")
    assert len(fake.requests) == 3


def test_a_forge_that_is_down_and_a_wrong_token_are_lines_without_the_token() -> None:
    with forge_running() as fake:
        with pytest.raises(ForgeError, match="401") as failed:
            opened(fake, ForgeKind.GITHUB, "hunter2").find_issue("x")
        assert "hunter2" not in str(failed.value)
    forge = opened(fake, ForgeKind.GITHUB, "hunter2")
    with pytest.raises(ForgeError, match="cannot be reached") as down:
        forge.find_issue("x")
    assert "hunter2" not in str(down.value) + repr(forge)


@pytest.mark.parametrize("name", ["", "a", "a/b/c", "a/..", "../a", "a b/c", "a/b?x", "a/b#c"])
def test_what_is_no_repository_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="write OWNER/NAME"):
        open_forge(ForgeKind.GITHUB, name, token=TOKEN)


def test_a_runner_without_a_token_is_told_which_variable() -> None:
    with pytest.raises(UsageError, match="GITLAB_TOKEN is not set"):
        forge_of_runner(ForgeKind.GITLAB, "a/b", {"GITHUB_TOKEN": "x"})

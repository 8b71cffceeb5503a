"""The Action and the GitLab template: their own shell, on lavapipe, beside a fake forge."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fake_forge import TOKEN, FakeForge, forge_running
from planted_lines import NAME, RIGHT, SUM, add_program
from vkbench.settings import settings

ROOT = Path(__file__).parents[2]
CASE = "copy/f32/n1048576"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a job that has a shell of its own."""

    script: str
    variables: Mapping[str, str] = field(default_factory=dict)
    is_last_word: bool = False  # it is run whatever became of the steps before


def action_steps(inputs: Mapping[str, str], *, is_fork: bool = False) -> list[Step]:
    """The shell of each step of action.yml that has some."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    known = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}

    def fill(text: str) -> str:
        filled = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: {**known, **inputs}[m[1]], text)
        return re.sub(r"\$\{\{ github\..*full_name.* \}\}", str(is_fork).lower(), filled)

    return [
        Step(
            script=step["run"],
            variables={name: fill(text) for name, text in step.get("env", {}).items()},
            is_last_word=step.get("if") == "always()",
        )
        for step in action["runs"]["steps"]
        if "run" in step
    ]


def template_steps(words: Mapping[str, str]) -> list[Step]:
    """The scripts of the GitLab template, as one shell takes each."""
    file = ROOT / "docs/examples/forges/gitlab-ci.yml"
    job: dict[str, Any] = yaml.safe_load(file.read_text())[".vkbench"]
    variables = job["variables"] | words
    scripts = [("script", False), ("after_script", True)]
    return [
        Step(script="\n".join(job[name]), variables=variables, is_last_word=is_last)
        for name, is_last in scripts
    ]


def run_steps(steps: Sequence[Step], folder: Path, more: Mapping[str, str]) -> tuple[int, str]:
    """Run steps by sh as a runner does; the first code that is not 0, and all that was printed."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = ""
    code = 0
    for step in steps:
        if code and not step.is_last_word:
            continue
        done = subprocess.run(
            ["sh", "-ec", step.script],
            cwd=folder,
            env={**os.environ, "PATH": programs, **more, **step.variables},
            capture_output=True,
            text=True,
            timeout=200,
        )
        said += done.stdout + done.stderr
        code = code or done.returncode
    return code, said


def kill_step(step: Step, folder: Path) -> Step:
    """A step whose shell is killed as it begins to measure."""
    killer = folder / "killer"
    killer.mkdir(exist_ok=True)
    (killer / "vkbench").write_text("#!/bin/sh\nkill -9 $PPID\n")
    (killer / "vkbench").chmod(0o755)
    killing = f'PATH="{killer}:$PATH" vkbench'
    script = re.sub(r"(env -u GITLAB_TOKEN )?vkbench (run|try)", rf"{killing} \2", step.script)
    return replace(step, script=script)


def runner(fake: FakeForge, folder: Path) -> dict[str, str]:
    """The variables that the runners of both forges set."""
    return {
        "VKBENCH_DATA": str(folder / "data"),
        "GITHUB_API_URL": fake.url,
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "5",
        "GITHUB_RUN_ATTEMPT": "1",
        "RUNNER_TEMP": str(folder),
        "CI_API_V4_URL": fake.url,
        "CI_PROJECT_PATH": "a/b",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_PROJECT_PATH": "a/b",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "a/b",
        "CI_COMMIT_SHA": "c0ffee",
        "CI_JOB_ID": "5",
        "CI_JOB_URL": "https://gitlab.com/a/b/-/jobs/5",
        "GITLAB_TOKEN": TOKEN,
    }


@pytest.mark.timeout(300)
def test_action_and_template_comment_once_and_set_the_status(
    vkbench: object, tmp_path: Path
) -> None:
    options = f"--case {CASE}"
    inputs = {
        "old": "main",
        "options": options,
        "token": TOKEN,
        "number": "7",
        "commit": "c0ffee",
        "name": "vkbench action",
    }
    begin = [Step(script=f"vkbench run --mode performance {options} --label main")]
    with forge_running() as fake:
        words = runner(fake, tmp_path)
        code, said = run_steps(begin, tmp_path, words)
        assert code == 0, said
        for _ in range(2):
            code, said = run_steps(action_steps(inputs), tmp_path, words)
            assert code in (0, 1, 7), said  # a busy machine may be slower, or too noisy
        code, said = run_steps(template_steps({"VK_OPTIONS": options}), tmp_path, words)
        assert code in (0, 1, 7), said
        # runs of before are in the database, and the step that measures fails: no success
        with_trouble = action_steps(inputs | {"options": "--case no/such/case --label main"})
        code, said = run_steps(with_trouble, tmp_path, words)
        assert code == 2, said
        unmeasured = template_steps({"VK_OPTIONS": "--case no/such/case", "CI_JOB_ID": "6"})
        code, said = run_steps(unmeasured, tmp_path, words)
        assert code == 2, said
    action, template = fake.comments[7]
    assert action["edits"] == 2
    assert action["body"].startswith("<!-- vkbench pr vkbench action -->\n### not measured: ")
    assert "[The whole report](https://github.com/a/b/actions/runs/5)" in action["body"]
    assert "jobs/5/artifacts/browse" in template["body"]
    assert {status["commit"] for status in fake.statuses} == {"c0ffee"}
    states = [status["state"] for status in fake.statuses]
    assert states[::2] == ["pending", "pending", "running", "pending", "running"]
    assert states[7::2] == ["error", "failed"]
    assert {"pending", "running"}.isdisjoint(states[1::2])
    assert "<svg" in (tmp_path / "vkbench.html").read_text()


@pytest.mark.timeout(500)
def test_two_builds_are_timed_and_a_job_that_dies_or_is_of_a_fork_is_told(
    vkbench: object, tmp_path: Path
) -> None:
    here = replace(settings(), data=tmp_path / "data")
    add_program(here, RIGHT, tmp_path / "old", "old")
    slow = RIGHT.replace("say(", "say(samples=[8e-6, 9e-6, 8e-6] * 20, ")
    add_program(here, slow, tmp_path / "new", "new")
    options = f"--case {SUM} --budget 150s"
    inputs = {
        "program": NAME,
        "old": "old",
        "new": "new",
        "options": options,
        "token": TOKEN,
        "number": "7",
        "commit": "c0ffee",
    }
    template = {"VK_PROGRAM": NAME, "VK_OLD": "new", "VK_NEW": "old", "VK_OPTIONS": options}
    with forge_running() as fake:
        words = runner(fake, tmp_path)
        code, said = run_steps(action_steps(inputs), tmp_path, words)
        assert code == 1, said
        (comment,) = fake.comments[7]
        assert "### old → new: 1 slower\n" in comment["body"]
        assert "**Slower: 1**" in comment["body"]
        # the measuring shell is killed: the last word is still said
        pending, measure, settle = action_steps(inputs)
        code, said = run_steps((pending, kill_step(measure, tmp_path), settle), tmp_path, words)
        assert code == -9, said
        script, after = template_steps({**template, "CI_JOB_ID": "6"})
        code, said = run_steps((kill_step(script, tmp_path), after), tmp_path, words)
        assert code == -9, said
        posted = [(one["state"], one["description"]) for one in fake.statuses]
        assert posted[::2] == [
            *[("pending", "being measured")] * 2,
            ("running", "being measured"),
        ]
        assert [state for state, _ in posted[1::2]] == ["failure", "error", "failed"]
        assert "ended with 137" in posted[-1][1]
        # a fork's token may only read, or there is none: the comment is printed, and fails nothing
        fake.readers.append("reads")
        pending, measure, settle = action_steps({**inputs, "token": "reads"}, is_fork=True)
        killed = (pending, kill_step(measure, tmp_path), settle)
        said = run_steps(killed, tmp_path, words)[1]
        assert "Resource not accessible by integration" in said
        assert "may only read" in said
        fork = {"CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "stranger/b", "GITLAB_TOKEN": ""}
        code, said = run_steps(template_steps(template), tmp_path, {**words, **fork})
        assert code == 0, said
        assert "### new → old: 1 faster" in said
        assert "GITLAB_TOKEN is not set" in said
        assert len(fake.statuses) == len(posted)

"""The Action and the GitLab template: their own shell, on lavapipe, beside a fake forge."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fake_forge import TOKEN, FakeForge, forge_running

ROOT = Path(__file__).parents[2]
CASE = "copy/f32/n1048576"


def action_steps(inputs: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """The shell of each step of action.yml that has some, and its variables."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    known = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}

    def fill(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: {**known, **inputs}[m[1]], text)

    return [
        (step["run"], {name: fill(text) for name, text in step.get("env", {}).items()})
        for step in action["runs"]["steps"]
        if "run" in step
    ]


def template_steps(words: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """The script of the GitLab template, as one shell takes it, and its variables."""
    job: dict[str, Any] = yaml.safe_load((ROOT / "docs/examples/forges/gitlab-ci.yml").read_text())
    variables = job[".vkbench"]["variables"] | words
    return [("\n".join(job[".vkbench"]["script"]), variables)]


def run_steps(
    steps: list[tuple[str, dict[str, str]]], folder: Path, more: Mapping[str, str]
) -> tuple[int, str]:
    """Run steps by sh until one fails; the code of the last, and all that was printed."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = ""
    code = 0
    for script, variables in steps:
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=folder,
            env={**os.environ, "PATH": programs, **more, **variables},
            capture_output=True,
            text=True,
            timeout=200,
        )
        said += done.stdout + done.stderr
        code = done.returncode
        if code:
            break
    return code, said


def runner(fake: FakeForge, folder: Path) -> dict[str, str]:
    """The variables that the runners of both forges set."""
    return {
        "VKBENCH_DATA": str(folder / "data"),
        "GITHUB_API_URL": fake.url,
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "5",
        "GITHUB_RUN_ATTEMPT": "1",
        "CI_API_V4_URL": fake.url,
        "CI_PROJECT_PATH": "a/b",
        "CI_MERGE_REQUEST_IID": "7",
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
    begin = [(f"vkbench run --mode performance {options} --label main", dict[str, str]())]
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
    assert [status["commit"] for status in fake.statuses] == ["c0ffee"] * 5
    assert [status["state"] for status in fake.statuses[3:]] == ["error", "failed"]
    assert "<svg" in (tmp_path / "vkbench.html").read_text()

"""Commands tell of builds by their names: results, regressions, completion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from databases import Lab, one_engine
from planted_build_runs import PROGRAM, fill_program
from vkbench.programs.build import Build
from vkbench_cli import completion
from vkbench_cli.main import main
from vkbench_cli.options.bisect_options import BisectOptions, check

pytestmark = one_engine


@pytest.fixture
def builds(lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch) -> list[Build]:
    monkeypatch.setenv("VKBENCH_DATABASE", url)
    return fill_program(lab)


def read_rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main([*words, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out)["rows"])


def test_results_of_a_build_and_of_a_program(
    builds: list[Build], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = read_rows(capsys, "results", "--build", "b8390", "--state", "wrong")
    assert {row["build"] for row in rows} == {f"b8390 ({builds[1].sha[:12]})"}
    assert len(rows) == 2
    assert len(read_rows(capsys, "results", "--program", "ggml*")) == 4
    assert main(["results", "--build", "b8391"]) == 2
    assert "unknown build 'b8391'; did you mean 'b8390'" in capsys.readouterr().err


def test_a_regression_shows_what_to_type(
    builds: list[Build], capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = read_rows(capsys, "regressions", "ls", "--all", "--program", PROGRAM)
    assert main(["regressions", "ls", "--program", "torch"]) == 2
    capsys.readouterr()
    assert main(["regressions", "show", str(row["id"])]) == 0
    shown = capsys.readouterr().out
    old, new = (build.sha[:12] for build in builds[:2])
    for line in (
        f"old build: b8121 ({old})",
        f"new build: b8390 ({new})",
        f"compare both builds: vkbench compare build:{old} build:{new}",
        f"find the first bad build: vkbench bisect --regression {row['id']}",
        f"run it again: vkbench run --build {new} --case ",
    ):
        assert line in shown
    assert "bundle" not in shown
    assert main(["regressions", "show", str(row["id"]), "--markdown"]) == 0
    assert f"| {PROGRAM} | `b8121 ({old})` | `b8390 ({new})` |" in capsys.readouterr().out
    assert main(["compare", f"build:{old}", f"build:{new}"]) == 0
    assert "build b8121 → build b8390" in capsys.readouterr().err


def test_a_regression_of_builds_is_filled_in_once(
    lab: Lab, builds: list[Build], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bisection on this machine asks a regression twice: for the device, and for the order."""
    [row] = read_rows(capsys, "regressions", "ls", "--all", "--program", PROGRAM)
    with lab.database.reading() as tx:
        filled = BisectOptions(regression=row["id"]).fill_from_regression(tx)
        assert filled.fill_from_regression(tx) == filled
    assert filled.builds == ",".join(build.sha for build in builds[:2])
    check(filled)
    drivers = ("--drivers", "mesa-25.0,mesa-25.1")
    assert main(["bisect", "--regression", str(row["id"]), *drivers]) == 7
    assert "is of builds, and drivers run kernels" in capsys.readouterr().err


def test_a_build_is_a_baseline(builds: list[Build], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "set", "release", "--build", "b8121"]) == 0
    assert capsys.readouterr().out == f"release is build {builds[0].sha}\n"
    assert main(["compare", "release", "build:b8390"]) == 0
    assert "baseline release: build b8121 → build b8390" in capsys.readouterr().err


def test_names_of_builds_are_completed(builds: list[Build]) -> None:
    assert [word for word, _ in completion.builds("b8")] == ["b8121", "b8390", "b8460"]
    assert completion.programs("gg") == [PROGRAM]


def test_sql_names_builds(builds: list[Build], capsys: pytest.CaptureFixture[str]) -> None:
    asked = "SELECT DISTINCT program, before_build, after_build FROM v_regressions"
    assert read_rows(capsys, "query", asked) == [
        {"program": PROGRAM, "before_build": "b8121", "after_build": "b8390"}
    ]
    asked = "SELECT build, count(*) AS n FROM v_latest GROUP BY build"
    assert read_rows(capsys, "query", asked) == [{"build": "b8460", "n": 4}]

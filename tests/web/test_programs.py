"""Programs and builds: what came with each build, on the pages and by the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser

from browser import DESKTOP, PHONE, Scheme, served, visiting
from databases import Lab, one_engine
from planted_build_runs import CASES, NAMES, PROGRAM, add_build, fill_program, run_build
from vkbench.job import Mode, Outcome
from vkbench.programs.build import Build
from vkbench_detection.steps import detect


@pytest.fixture
def builds(lab: Lab) -> list[Build]:
    return fill_program(lab)


def rows(pages: TestClient, path: str) -> list[dict[str, Any]]:
    answer = pages.get(path)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["rows"])


def test_programs_are_listed_with_their_newest_build(
    pages: TestClient, builds: list[Build]
) -> None:
    [row] = rows(pages, "/api/programs")
    assert (row["program"], row["builds"], row["devices"]) == (PROGRAM, 3, 2)
    assert (row["newest"], row["newest_sha"]) == ("b8460", builds[2].sha)
    page = pages.get("/programs").text
    assert f'href="/programs/{PROGRAM}"' in page
    assert f"b8460 ({builds[2].sha[:12]})" in page
    assert [row["name"] for row in rows(pages, "/api/builds")] == list(NAMES)
    assert pages.get("/api/builds?program=other").status_code == 404  # as of other pages
    assert "did you mean" in pages.get("/api/builds?program=ggml-vulcan").text
    assert rows(pages, f"/api/builds?program={PROGRAM}") == rows(pages, "/api/builds")


def test_a_program_says_what_came_with_each_build_on_each_device(
    pages: TestClient, builds: list[Build]
) -> None:
    listed = rows(pages, f"/programs/{PROGRAM}?format=json")
    assert [row["build"].split()[0] for row in listed] == [
        name for name in reversed(NAMES) for _ in range(2)
    ]
    [wrong] = [row for row in listed if row["became_wrong"]]
    assert (wrong["sha"], wrong["host"], wrong["wrong"]) == (builds[1].sha, "alpha", 2)
    assert (wrong["became_wrong"], wrong["against_sha"]) == (2, builds[0].sha)
    assert pages.get("/programs/ggml").status_code == 404
    assert "did you mean" in pages.get("/programs/ggml-vulcan").text


def test_a_build_has_a_page_with_its_files_changes_and_commands(
    pages: TestClient, builds: list[Build]
) -> None:
    page = pages.get("/builds/b8390").text
    assert pages.get(f"/builds/{builds[1].sha[:12]}").status_code == 200
    old, new = (f"build%3A{build.sha[:12]}" for build in builds[:2])
    for part in (
        builds[1].sha,
        "libggml-vulkan.so",
        f"/compare?old={old}&amp;new={new}",
        "vkbench run --build b8390",
        "vkbench bisect --regression 1",
    ):
        assert part in page
    answer = pages.get("/api/builds/b8390").json()
    assert [file["path"] for file in answer["files"]] == ["libggml-vulkan.so"]
    assert {(row["direction"], row["cause"]) for row in answer["changes"]} == {("wrong", "build")}
    assert [row["became_wrong"] for row in answer["devices"]] == [2, 0]
    assert pages.get("/builds/b84").status_code == 404


@one_engine
def test_what_a_build_brought_is_told_by_its_name(pages: TestClient, builds: list[Build]) -> None:
    [row] = rows(pages, "/api/regressions")
    assert row["title"].startswith("ggml-vulkan mul_mat_vec and add wrong on llvmpipe of alpha")
    assert " since b8390 (" in row["title"]
    page = pages.get(f"/regressions/{row['id']}").text
    for part in (
        f"b8121 ({builds[0].sha[:12]})",
        f"b8390 ({builds[1].sha[:12]})",
        f"vkbench compare build:{builds[0].sha[:12]} build:{builds[1].sha[:12]}",
        f"vkbench run --build {builds[1].sha[:12]} --case ",
    ):
        assert part in page
    assert "undle" not in page
    [wrong] = rows(pages, "/api/results?state=wrong&build=b8390&sort=case&limit=1")
    job = pages.get(f"/jobs/{wrong['job']}").text
    assert f'<a href="/builds/{builds[1].sha[:12]}">b8390</a>' in job
    assert f"vkbench run --build {builds[1].sha[:12]} --case {wrong['case']}" in job
    assert f"b8121 ({builds[0].sha[:12]})" in job  # what differs from the last good result


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("build=b8121", [("b8121", "passed")] * 4),
        ("build=b8390&state=wrong", [("b8390", "wrong")] * 2),
        ("program=ggml-*", [("b8460", "passed")] * 4),
        ("build=b8121&build=b8460&kernel=add", [("b8460", "passed"), ("b8121", "passed")] * 2),
        ("variant=auto", []),
    ],
)
def test_results_are_those_of_a_build_or_a_program(
    pages: TestClient, builds: list[Build], query: str, found: list[tuple[str, str]]
) -> None:
    named = {
        (row["build"].split()[0], row["verdict"]) for row in rows(pages, f"/api/results?{query}")
    }
    assert named == set(found)
    assert len(rows(pages, f"/api/results?{query}")) == len(found)


@one_engine
def test_a_build_that_runs_again_has_its_latest_results_once(
    lab: Lab, pages: TestClient, builds: list[Build]
) -> None:
    [device, _] = [row["key"] for row in rows(pages, "/api/devices?format=json")]
    lab.now += 60
    run_build(lab, device, builds[0], Outcome.CRASHED)
    again = rows(pages, f"/api/results?build=b8121&device={device}")
    assert [row["verdict"] for row in again] == ["failed"] * 2


@one_engine
def test_filters_of_no_build_say_so(pages: TestClient, builds: list[Build]) -> None:
    for query, words in (("build=b84", "unknown build"), ("program=torch", "unknown program")):
        answer = pages.get(f"/api/results?{query}")
        assert (answer.status_code, words in answer.text) == (404, True)


@one_engine
def test_heat_maps_keep_programs_apart_and_hold_two_builds_against_each_other(
    lab: Lab, pages: TestClient, builds: list[Build]
) -> None:
    [device, _] = [row["key"] for row in rows(pages, "/api/devices?format=json")]
    lab.submit(device, ["softmax/f32/rows1_width64"])
    lab.settle(device)
    ours = rows(pages, f"/heatmap?device={device}&format=json")
    assert {row["kernel"] for row in ours} == {"softmax"}
    assert pages.get(f"/heatmap?device={device}&build=b84").status_code == 404
    theirs = rows(pages, f"/heatmap?device={device}&program={PROGRAM}&format=json")
    assert {row["kernel"] for row in theirs} == {"mul_mat_vec", "add"}
    lab.now += 3600
    slow = add_build(lab, "b9000")
    for seconds in (2e-3, 2.01e-3, 2e-3):
        run_build(lab, device, slow, seconds=seconds)
    query = f"device={device}&program={PROGRAM}&show=change&build=b9000&against=build:b8460"
    changed = rows(pages, f"/heatmap?{query}&format=json")
    assert [round(row["ratio"], 2) for row in changed] == [2.0, 2.0]
    assert "ggml-vulkan b9000 than build:b8460" in " ".join(
        pages.get(f"/heatmap?{query}").text.split()
    )


@one_engine
def test_a_series_marks_its_builds(pages: TestClient, builds: list[Build]) -> None:
    [series, *_] = [row for row in rows(pages, "/api/series") if row["host"] == "beta"]
    page = pages.get(f"/series/{series['series']}").text
    assert '"build": ["b8121", "b8390", "b8460"]' in page
    assert "build b8121 \u2192 b8390" in page or "build b8121 → b8390" in page
    assert f'href="/programs/{PROGRAM}"' in page


@one_engine
def test_a_build_that_crashes_where_it_was_right_is_its_own_cause(lab: Lab) -> None:
    device = lab.add_device()
    good = add_build(lab, "b8121")
    run_build(lab, device, good, mode=Mode.CORRECTNESS)
    lab.now += 60
    bad = add_build(lab, "b8390")
    run_build(lab, device, bad, Outcome.CRASHED, cases=CASES[:1], mode=Mode.CORRECTNESS)
    lab.now += 60
    run_build(lab, device, good, cases=CASES[1:], mode=Mode.CORRECTNESS)
    detect(lab.database, lab.now)
    with lab.database.reading() as tx:
        from vkbench_detection.regress.inbox import regressions

        [row] = regressions(tx)
    assert (row.cause, row.direction) == ("build", "failed")
    assert row.title.startswith(
        "ggml-vulkan mul_mat_vec q4_0 crashed on llvmpipe of alpha since b8390"
    )


@one_engine
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_pages_of_builds_in_a_browser(
    chromium: Browser,
    lab: Lab,
    url: str,
    builds: list[Build],
    size: tuple[int, int],
    scheme: Scheme,
) -> None:
    with (
        served(Path(url.removeprefix("sqlite:///"))) as origin,
        visiting(chromium, origin, size=size, scheme=scheme) as visit,
    ):
        for path in ("/programs", f"/programs/{PROGRAM}", "/builds/b8390", "/regressions/1"):
            page = visit.open(path)
            assert not visit.barriers(), path
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} scrolls sideways by {wide} px"
        assert not visit.faults

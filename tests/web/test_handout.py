"""`vkbench report html`: one file with everything in it, which asks nothing of any machine."""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route
from sqlalchemy import update

import browser
from databases import Lab
from planted_history import Plan, Step, file_lines
from planted_peers import compare
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_cli.exporting import import_file
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_detection.steps import detect
from vkbench_web.small import EDGE, HEIGHT, WIDTH, small

Captured = pytest.CaptureFixture[str]
EVIL = "<script>alert(1)</script>\"'><img src=http://evil.example/x>"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two devices, one case of which became slower."""
    folder = tmp_path_factory.mktemp("history")
    lines = folder / "history.jsonl"
    steps = [Step(case=0, run=25, factor=1.2, cause="kernel"),
             Step(case=2, run=38, factor=0.0, cause="kernel")]  # fmt: skip
    plan = Plan(cases=4, runs=40, devices=2, steps=steps)
    lines.write_text("".join(file_lines(plan)))
    with Database.open(f"sqlite:///{folder}/lab.db", create=True) as database:
        import_file(database, lines)
        detect(database, time.time(), all_at_once=True)
    return folder / "lab.db"


@pytest.fixture
def lab(history: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{history}")
    settings.cache_clear()
    return history


def written(tmp_path: Path, *words: str) -> str:
    file = tmp_path / "lab.html"
    assert cli.main(["report", "html", str(file), *words]) == 0
    return file.read_text()


def test_the_file_has_maps_series_and_regressions(lab: Path, tmp_path: Path) -> None:
    text = written(tmp_path)
    assert text.startswith("<!doctype html>")
    assert text.count('<section class="sheet"') == 2
    assert text.count('class="heat-map"') == 2  # nothing is calibrated: correctness alone
    assert 'class="is-wrong first"><span title="copy f32: wrong 1' in text
    assert "% slower on " in text
    first = text.index("<figure>")
    assert "mul_mat_vec/q4_0/m1_n1_k256" in text[first : first + 200]  # what changed comes first
    assert '<line class="slower"' in text


def test_the_file_has_a_map_of_each_peer(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"sqlite:///{shutil.copy(history, tmp_path)}"
    monkeypatch.setenv("VKBENCH_DATABASE", own)
    settings.cache_clear()
    with Database.open(own) as database:
        planted = Lab(database, now=time.time())
        with database.reading() as tx:
            device = queries.devices(tx)[0].key
        compare(planted, device, 4e-3, 2e-3, peer="ggml")
    text = written(tmp_path)
    assert text.count('class="heat-map"') == 3
    assert "<h2>Ratio to ggml</h2>" in text
    assert "How many times as fast as ggml" in text


def test_the_file_names_no_other_place(lab: Path, tmp_path: Path) -> None:
    text = written(tmp_path)
    links = re.findall(r"""(?:href|src|action|srcset)\s*=\s*["']([^"']*)""", text)
    assert links
    assert [link for link in links if not link.startswith("#")] == []
    assert not re.search(r"<script|@import|url\(|<link|<iframe", text)


def test_a_browser_that_is_offline_shows_it(lab: Path, tmp_path: Path, chromium: Browser) -> None:
    written(tmp_path)
    window = chromium.new_context(viewport={"width": 390, "height": 844})
    requests: list[str] = []

    def refuse(route: Route) -> None:
        requests.append(route.request.url)
        route.abort()

    window.route(re.compile("^(?!file:)"), refuse)
    page = window.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.goto((tmp_path / "lab.html").as_uri())
    visit = browser.Visit(page=page, origin="")
    assert page.locator("circle").count() > 100
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert (requests, faults, visit.barriers()) == ([], [], [])
    window.close()


def test_names_of_others_stay_text(history: Path, tmp_path: Path) -> None:
    file = tmp_path / "evil.db"
    with closing(sqlite3.connect(history)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    with Database.open(f"sqlite:///{file}") as database, database.transaction() as tx:
        tx.execute(update(schema.device).values(name=EVIL))
        tx.execute(update(schema.kernel_case).values(kernel=EVIL, format=EVIL))
    text = written(tmp_path, "--database", str(file))
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_devices_and_series_can_be_chosen(lab: Path, tmp_path: Path) -> None:
    text = written(tmp_path, "--device", "host:lab1", "--series", "1", "--metric", "cold")
    assert text.count('<section class="sheet"') == 1
    assert text.count("<figure>") == 1
    assert "<figure>" not in written(tmp_path, "--series", "0")


def test_without_results_the_file_says_what_makes_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path / "new"))
    monkeypatch.delenv("VKBENCH_DATABASE", raising=False)
    settings.cache_clear()
    assert "<code>vkbench run</code> makes some" in written(tmp_path)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["/nowhere/x.html"], "there is no folder"),
        (["x.html", "--metric", "warm"], "'hot' or 'cold'"),
        (["x.html", "--device", "H900"], "unknown device"),
    ],
)
def test_bad_input_writes_nothing(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
    words: list[str], hint: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", "html", *words]) == 2
    assert hint in capsys.readouterr().err
    assert list(tmp_path.glob("*.html")) == []


def test_a_small_picture_stays_within_its_edges(lab: Path) -> None:
    from vkbench_db.ask import series

    with Database.open(f"sqlite:///{lab}") as database, database.reading() as tx:
        points, changes = series.points(tx, 2, 300), series.changes(tx, 2)
    drawn = small(points, changes)
    assert drawn
    assert len(drawn.spots) == 40
    assert {drawn.spots[0][0], drawn.spots[-1][0]} == {EDGE, WIDTH - EDGE}
    assert all(EDGE <= y <= HEIGHT - EDGE for _, y in drawn.spots)
    assert small([], []) is None
    [level] = {y for _, y in small(points[:1], []).spots}  # type: ignore[union-attr]
    assert level == HEIGHT / 2

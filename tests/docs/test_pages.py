"""Every command and every SQL statement of the documentation runs, and ends as its page says."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from cluster import RedisServer
from documented import Shown, blocks, shown
from planted_accuracy import of_model
from postgres_server import PostgresServer
from typist import is_elsewhere, type_all
from vkbench.device import device_key
from vkbench.result import Statistic
from vkbench_db.ask.sql.readonly import query
from vkbench_db.database import Database
from vkbench_db.schema import attempt, statistic
from vkbench_db.transfer.exchange import import_lines
from vkbench_db.work.results import statistic_row
from vkbench_local.accuracies import keep

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
WITH_COMMANDS = [page for page in PAGES if any(shown(page))]
OF_A_LAB = (  # they ask about results of others
    *("driver-update.md", "heat-map.md", "operations.md"),
    *("regressions.md", "triage.md", "web.md"),
)
OF_SERVERS = ("compose.md", "gpu-host.md", "postgresql.md", "small-lab.md")
FOLLOWED_ALONE = ("tutorial.md",)
WITH_SQL = [page for page in PAGES if blocks(page, "sql")]
SECONDS = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def page_named(name: str) -> Path:
    [page] = [page for page in WITH_COMMANDS if page.name == name]
    return page


def follow(commands: list[Shown], folder: Path, **environ: str) -> None:
    """Type commands in a folder of their own, and look at what came of it."""
    where = {"VKBENCH_DATA": str(folder / "data"), "VKBENCH_DEVICE": "llvmpipe*"}
    typed = type_all(commands, folder, SECONDS, **where | environ)
    assert [each.trouble for each in typed if each.trouble] == []


def test_each_page_is_followed_once() -> None:
    names = [page.name for page in WITH_COMMANDS]
    assert len(names) == len(set(names)) > 10
    assert {*OF_A_LAB, *OF_SERVERS, *FOLLOWED_ALONE} <= set(names)


ON_A_MACHINE = [
    page for page in WITH_COMMANDS if page.name not in (*OF_A_LAB, *OF_SERVERS, *FOLLOWED_ALONE)
]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("page", ON_A_MACHINE, ids=lambda page: page.name)
def test_a_page_on_one_machine(
    page: Path, tmp_path: Path, demonstrated: Path, after_a_run: Path
) -> None:
    """The README's machine is new to vkbench; the others have run kernels before."""
    (tmp_path / "data").mkdir()
    if page.name != "README.md":
        shutil.copy(after_a_run, tmp_path / "data" / "vkbench.db")
    shutil.copy(demonstrated, tmp_path / "data" / "demonstration.db")
    for device in ("H100", "H200"):
        (tmp_path / f"{device.lower()}.jsonl").write_text(export_of(device))
    if page.name == "README.md":
        have_two_runs(tmp_path)
        shutil.copy(demonstrated, tmp_path / "lab.db")
    follow(list(shown(page)), tmp_path)


def have_two_runs(folder: Path) -> None:
    """What `vkbench run` leaves that was typed twice."""
    with Database.open(f"sqlite:///{folder}/data/vkbench.db", create=True) as database:
        for run in ("1", "2"):
            with database.transaction() as tx:
                import_lines(tx, export_of("H200", run).splitlines(keepends=True), 1_795_300_000.0)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", OF_A_LAB)
def test_a_page_about_a_lab(name: str, tmp_path: Path, demonstrated: Path) -> None:
    shutil.copy(demonstrated, tmp_path / "lab.db")
    follow(list(shown(page_named(name))), tmp_path, VKBENCH_DATABASE=f"sqlite:///{tmp_path}/lab.db")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", OF_SERVERS)
def test_a_page_about_a_fleet(
    name: str, tmp_path: Path, redis: RedisServer, postgres: PostgresServer
) -> None:
    places = {
        r"redis://(:PASSWORD@)?[\w-]+:6379/0": redis.url,
        r"postgresql://[\w:]+@db-host/\w+": postgres.url("vkbench"),
    }
    commands = []
    for each in shown(page_named(name)):
        typed = each.typed
        for pattern, place in places.items():
            typed = re.sub(pattern, place, typed)
        commands.append(replace(each, typed=typed))
    follow(commands, tmp_path)


@pytest.mark.parametrize("page", WITH_SQL, ids=lambda page: page.name)
def test_sql_of_a_page_finds_rows(page: Path, demonstrated: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{shutil.copy(demonstrated, tmp_path / 'lab.db')}"
    with Database.open(url) as database:
        keep(database, [of_model("f16"), of_model("q4_0", 0.031)], {}, "", time.time())
        with database.transaction() as tx:
            [job, token] = tx.execute(select(attempt.c.job_id, attempt.c.token).limit(1)).one()
            told = Statistic(name="registers", value=32.0)
            tx.execute(insert(statistic), statistic_row(job, token, told))
    for statement in blocks(page, "sql"):
        _, rows = query(url, statement)
        assert rows


def test_most_commands_are_typed_here() -> None:
    typed = [each.typed for page in WITH_COMMANDS for each in shown(page)]
    elsewhere = [each for each in typed if is_elsewhere(each)]
    assert len(elsewhere) < len(typed) / 3


def export_of(device: str, run: str = "") -> str:
    """An export of a few results of an H100: also under another device's name, as another run."""
    with lzma.open(DOCS / "results" / "h100-quant-perf.jsonl.xz", "rt") as export:
        lines = export.readlines()
    jobs = [line for line in lines if re.search(r'"case":"mul_mat_vec/q[36]_K[/:].*"passed"', line)]
    others = [line for line in lines[1:-1] if not line.startswith('{"job":')]
    header = re.sub(r'"jobs":\d+', f'"jobs":{len(jobs)}', lines[0])
    text = "".join([header, *others, *jobs])
    [known] = re.findall(r'\{"device":\{"key":"(\w+)"', text)
    [uuid] = re.findall(r'\{"device":.*?"uuid":"(\w+)"', text)
    text = text.replace(known, device_key(device.lower(), uuid))
    text = text.replace("NVIDIA H100 80GB HBM3", f"NVIDIA {device}")
    text = text.replace('"host":"vm"', f'"host":"{device.lower()}"')
    text = re.sub(r'"uuid":"\w', f'"uuid":"{run or device[-3]}', text, count=1)
    digest = hashlib.sha256(text.encode()).hexdigest()
    end = {"jobs": len(jobs), "sha256": digest}
    return text + json.dumps({"end": end}, separators=(",", ":")) + "\n"

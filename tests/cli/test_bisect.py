"""`vkbench bisect --submit`: what is stored for the scheduler, how it is shown, what is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from commands import Captured, run_command
from planted_git import commit, git
from planted_own import TIMED, write_own
from planted_runs import ENVIRONMENT
from vkbench.device import DeviceFacts, device_key
from vkbench.messages.wire import Announcement
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.upkeep import bisections
from vkbench_db.work import store
from vkbench_scheduler.bundles import keep
from vkbench_scheduler.watch.bisect import step
from vkbench_shaders.bundle import Bundle, Entry, manifest_text
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.build import units_for

CASE = "copy/f32/n4096"

Say = Callable[..., str]


@pytest.fixture
def say(capsys: Captured) -> Say:
    """What `vkbench bisect` says."""

    def run(*words: str, code: int = 0) -> str:
        status = cli.main(["bisect", *words])
        out, err = capsys.readouterr()
        assert status == code, out + err
        return out or err

    return run


def rows(say: Say, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(say(*words, "--json"))["rows"])


def bundle(word: str) -> Bundle:
    """A bundle whose code for the case is made of a word."""
    code = word.encode()
    sha = hashlib.sha256(code).hexdigest()
    entries = tuple(
        Entry(
            key=unit.key,
            module=unit.module,
            entry=unit.entry,
            arguments=unit.arguments,
            sha256=sha,
            bytes=len(code),
            local_size=None,
            capabilities=(),
        )
        for unit in units_for(problem(CASE))
    )
    return Bundle(
        text=manifest_text("1", word, entries, {}), blobs={sha: code}, name=f"build {word}"
    )


@pytest.fixture
def kept(database: Database) -> list[str]:
    """Bundles in the database, in the order of their coming."""
    bundles = [bundle(word) for word in "abcde"]
    with database.transaction() as tx:
        for place, one in enumerate(bundles):
            keep(tx, one, 1_000_000.0 + place)
    return [one.sha for one in bundles]


def add_device(database: Database, name: str, *, host: str = "here", version: str = "1.2") -> str:
    facts = DeviceFacts(
        key=device_key(host, name + version),
        host=host,
        index=0,
        name=name,
        uuid="0" * 32,
        vendor_id=0,
        device_id=0,
        type="discrete",
        memory_bytes=1 << 30,
        subgroup_size=32,
        features=(),
        limits={},
    )
    word = Announcement(
        worker="w",
        facts=facts,
        environment=replace(ENVIRONMENT, driver_version=version),
        bundle="",
    )
    with database.transaction() as tx:
        store.register_device(tx, word, time.time())
    return facts.key


def test_a_submitted_one_is_begun_by_the_scheduler_on_devices_alike(
    say: Say, database: Database, kept: list[str]
) -> None:
    keys = [add_device(database, "RTX", host=host) for host in ("a", "b")]
    order = ",".join(sha[:8] for sha in kept)
    number = int(say("--case", CASE, "--bundles", order, "--submit").split()[0])
    step(database, time.time())
    with database.reading() as tx:
        bisection = bisections.find(tx, number)
        runs = queries.runs(tx)
        jobs = queries.jobs(tx, states=("queued",), limit=None)
    assert sorted(bisection.devices) == sorted(keys)
    assert [part.sha for part in bisection.candidates] == kept
    assert {part.position for part in bisection.steps} == {2, 4}
    assert len(runs) == 2
    assert {job.device for job in jobs} == set(keys)

    (row,) = rows(say, "ls")
    assert (row["id"], row["state"], row["bundles"], row["steps"]) == (number, "running", 5, 2)
    shown = rows(say, "show", str(number))
    assert [shown_row["verdict"] for shown_row in shown] == [
        "taken as good",
        "",
        "running",
        "",
        "running",
    ]
    assert [shown_row["label"] for shown_row in shown] == [f"build {word}" for word in "abcde"]
    say("stop", str(number))
    assert rows(say, "ls")[0]["state"] == "failed"
    say("show", str(number), code=4)


def test_good_and_bad_say_which_part_of_the_order(
    say: Say, database: Database, kept: list[str]
) -> None:
    add_device(database, "RTX")
    words = ("--bundles", ",".join(kept), "--good", kept[1][:8], "--bad", kept[3][:8])
    say("--case", CASE, *words, "--submit", "--metric", "cold", "--seconds", "0.5")
    with database.reading() as tx:
        (bisection,) = bisections.list_bisections(tx)
    assert [candidate.sha for candidate in bisection.candidates] == kept[1:4]
    assert (bisection.metric, bisection.measure_seconds) == ("cold", 0.5)


def test_a_regression_says_all_of_it(
    say: Say, database: Database, kept: list[str], planted_regression: Callable[..., int]
) -> None:
    key = add_device(database, "RTX")
    add_device(database, "another")
    regression = planted_regression(key, CASE, kept[1], kept[4])
    say("--regression", str(regression), "--submit")
    with database.reading() as tx:
        (bisection,) = bisections.list_bisections(tx)
    assert (bisection.case, bisection.variant, bisection.metric) == (CASE, "portable", "hot")
    assert (bisection.devices, bisection.regression) == ((key,), regression)
    assert [candidate.sha for candidate in bisection.candidates] == kept[1:]

    same = planted_regression(key, CASE, kept[1], kept[1])
    assert "are the same before and after" in say("--regression", str(same), "--submit", code=7)
    assert "unknown regression '99'" in say("--regression", "99", "--submit", code=2)


@pytest.mark.parametrize("moved", [True, False])
def test_a_regression_says_what_is_searched_among_drivers(
    say: Say, database: Database, kept: list[str], planted_regression: Callable[..., int],
    moved: bool, tmp_path: Path,
) -> None:  # fmt: skip
    """That the kernel is the same before and after leaves its driver to blame."""
    key = add_device(database, "RTX")
    regression = str(planted_regression(key, CASE, kept[1], kept[4 if moved else 1]))
    gone = str(tmp_path / "mesa.toml")
    made = ("--driver-file", gone, "--revisions", "A..B")
    assert f"cannot read {gone}" in say("--regression", regression, *made, code=2)
    named = ("--drivers", "mesa-25.0,mesa-26.1")
    assert "unknown driver 'mesa-25.0'" in say("--regression", regression, *named, code=2)
    assert "--case NAME is missing" in say(*named, code=2)


def test_a_regression_of_cases_that_fail_says_all_of_it(
    say: Say, database: Database, kept: list[str], planted_regression: Callable[..., int]
) -> None:
    key = add_device(database, "RTX")
    regression = planted_regression(key, CASE, kept[1], kept[4])
    with database.transaction() as tx:
        tx.execute(update(schema.change_point).values(direction="failed", ratio=None))
        tx.execute(update(schema.series).values(metric="verdict"))
        tx.execute(update(schema.regression).values(direction="failed"))
    say("--regression", str(regression), "--submit")
    with database.reading() as tx:
        (bisection,) = bisections.list_bisections(tx)
    assert (bisection.case, bisection.metric, bisection.devices) == (CASE, "hot", (key,))
    assert [candidate.sha for candidate in bisection.candidates] == kept[1:]


def test_unlike_devices_do_not_share_one(say: Say, database: Database, kept: list[str]) -> None:
    add_device(database, "RTX")
    add_device(database, "RTX", version="1.3")
    words = ("--case", CASE, "--bundles", ",".join(kept), "--submit")
    assert "devices are not alike" in say(*words, code=2)
    say(*words, "--device", device_key("here", "RTX1.3"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--case", CASE), "nothing to search"),
        (("--case", CASE, "--good", "a"), "nothing to search"),
        (("--bundles", "a,b"), "--case NAME is missing"),
        (
            ("--case", CASE, "--bundles", "a,b", "--revisions", "a..b"),
            "give one of --bundles, --builds, --drivers and --revisions",
        ),
        (("--case", CASE, "--bundles", ",a,b"), "--bundles has an empty name: ',a,b'"),
        (("--case", CASE, "--bundles", "a, ,b"), "--bundles has an empty name: 'a, ,b'"),
        (("--case", CASE, "--bundles", "a,b,"), "--bundles has an empty name: 'a,b,'"),
        (("--case", "copi/f32/n1", "--bundles", "a,b"), "did you mean 'copy'"),
        (("--case", CASE, "--bundles", "a", "--metric", "warm"), "is hot or cold"),
        (("--case", CASE, "--revisions", "a"), "needs two ends"),
        (("--resume", "1", "--case", CASE), "leave out the other options"),
    ],
)
def test_what_cannot_be_searched_says_so(
    say: Say, database: Database, words: tuple[str, ...], why: str
) -> None:
    add_device(database, "RTX")
    assert why in say(*words, "--submit", code=2)


def test_what_bundles_cannot_be_searched(say: Say, database: Database, kept: list[str]) -> None:
    add_device(database, "RTX")
    for order, why in (
        (kept[0], "needs at least two bundles"),
        (f"{kept[0]},{kept[0]}", "not the kernel that changed"),
        (f"{kept[0]},beef", "unknown bundle 'beef'"),
    ):
        assert why in say("--case", CASE, "--bundles", order, "--submit", code=2)
    words = ("--bundles", ",".join(kept), "--good", "beef")
    assert "'beef' does not name one of --bundles" in say(
        "--case", CASE, *words, "--submit", code=2
    )


def test_revisions_come_from_a_repository(say: Say, database: Database, tmp_path: Path) -> None:
    add_device(database, "RTX")
    words = ("--case", CASE, "--revisions", "a..b", "--repository", str(tmp_path), "--submit")
    assert "git in" in say(*words, code=2)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert "there is no revision 'a' in" in say(*words, code=2)


def test_an_unknown_one(say: Say, database: Database) -> None:
    assert "unknown bisection '7'" in say("show", "7", code=2)
    assert "unknown bisection '7'" in say("stop", "7", code=2)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three revisions; the second has the declaration of a kernel in own/, the third changes it."""
    (tmp_path / "note").write_text("first")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "bare")
    path = write_own(tmp_path / "own")
    commit(tmp_path, "declared")
    path.write_text(path.read_text().replace('groups = ["m"]', 'groups = ["m", 2]'))
    commit(tmp_path, "wider")
    return tmp_path


def of_declaration(repository: Path, file: str, revisions: str, case: str = TIMED) -> list[str]:
    options = ["--case", case, "--revisions", revisions, "--repository", str(repository)]
    return [*options, "--kernel-file", file, "--submit"]


@pytest.mark.parametrize(
    ("file", "revisions"),
    [
        ("rms_quant.toml", "HEAD~1..HEAD"),  # a path from another folder than the root
        ("own/slip.toml", "HEAD~1..HEAD"),
        ("own/rms_quant.toml", "HEAD~2..HEAD"),
    ],
)
def test_a_declaration_that_is_not_there_is_said_before_anything_is_compiled(
    say: Say, database: Database, repository: Path, file: str, revisions: str
) -> None:
    add_device(database, "RTX")
    complaint = say(*of_declaration(repository, file, revisions), code=2)
    assert complaint.count("\n") == 1  # no word of revisions compiled
    assert f"{file} is not in {repository} at " in complaint
    assert ": --kernel-file is the path of the declaration" in complaint


def test_a_case_that_is_not_declared_is_said_after_one_revision(
    say: Say, database: Database, repository: Path
) -> None:
    add_device(database, "RTX")
    words = of_declaration(repository, "own/rms_quant.toml", "HEAD~1..HEAD", f"{TIMED}0")
    complaint = say(*words, code=2)
    assert complaint.count("\n") == 1
    assert "the good bundle, " in complaint
    assert f"declares no case {TIMED}0" in complaint


def test_revisions_of_a_declaration_are_compiled(
    say: Say, database: Database, repository: Path
) -> None:
    add_device(database, "RTX")
    words = of_declaration(repository, "own/rms_quant.toml", "HEAD~1..HEAD")
    assert say(*words) == "1\n"
    labels = [row["label"].split()[-1] for row in rows(say, "show", "1")]
    assert labels == ["declared", "wider"]


def test_kernel_check_names_a_bundle_that_can_be_bisected(
    say: Say, database: Database, capsys: Captured, tmp_path: Path
) -> None:
    add_device(database, "RTX")
    path = write_own(tmp_path / "own")
    hashes = [checked(capsys, path)]
    path.write_text(path.read_text().replace('groups = ["m"]', 'groups = ["m", 2]'))
    hashes.append(checked(capsys, path))
    assert say("--case", TIMED, "--bundles", ",".join(hashes), "--submit") == "1\n"
    shown = rows(say, "show", "1")
    assert [row["sha"][:12] for row in shown] == hashes


def checked(capsys: Captured, path: Path) -> str:
    """The bundle that `vkbench kernel check` prints."""
    return run_command(capsys, "kernel", "check", str(path))[1].split()[-1]

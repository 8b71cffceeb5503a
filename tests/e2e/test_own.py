"""`vkbench kernel` and `run --kernel-file`: a kernel of one's own, from its file to results."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planted_git import commit, git
from planted_own import (
    CASE,
    NAME,
    SHADOWED,
    TIMED,
    slower,
    write_blocks,
    write_doubling,
    write_flaky,
    write_own,
    write_shadow,
    write_sums,
)
from vkbench.case import with_seed
from vkbench.settings import settings
from vkbench_db.ask import job_story
from vkbench_db.database import Database
from vkbench_shaders.own.building import build
from vkbench_shaders.own.posing import pose_case
from vkbench_web.pages.jobs import replay

from .conftest import Vkbench

FLAKY = "lab.flaky/f32/n200"


def test_one_s_own_kernel_is_checked_and_timed(vkbench: Vkbench, tmp_path: Path) -> None:
    path = write_own(tmp_path / "own")
    git(path.parent, "init", "--quiet", "--initial-branch=main")
    commit(path.parent, "the first one")
    ended = vkbench("run", "--kernel-file", str(path), "--seconds", "0.05", "--all", "--json")
    assert ended.code == 0, ended.err
    assert {row["made_of"][0][10:] for row in ended.rows} == {" the first one"}
    assert "4 passed" in ended.err
    timed = [row for row in ended.rows if row["hot_seconds"]]
    assert [row["case"] for row in timed] == [TIMED]
    assert timed[0]["flops_per_second"] == pytest.approx(4 * 16 * 1024 / timed[0]["hot_seconds"])
    (row, *_) = vkbench("results", "--kernel", NAME, "--json").rows
    assert row["variant"] == "slang"
    assert row["made_of"] == ended.rows[0]["made_of"]
    assert not list(path.parent.glob("__pycache__"))


def test_a_wrong_kernel_is_found(vkbench: Vkbench, tmp_path: Path) -> None:
    path = write_own(tmp_path / "own")
    source = path.parent / "rms_quant.slang"
    source.write_text(source.read_text().replace("largest / 127", "largest / 126"))
    words = ("--case", CASE, "--mode", "correctness", "--json")
    ended = vkbench("run", "--kernel-file", str(path), *words)
    assert ended.code == 3
    [row] = ended.rows
    assert row["variant"] == "slang"
    assert "of codes" in row["reason"] or "of scales" in row["reason"]


def test_a_kernel_that_changes_its_input_is_timed(vkbench: Vkbench, tmp_path: Path) -> None:
    """Each launch finds the input that the reference was worked out for, hot and cold."""
    path = write_doubling(tmp_path / "own")
    words = ("--seconds", "0.05", "--mode", "performance", "--json")
    ended = vkbench("run", "--kernel-file", str(path), *words)
    assert ended.code == 0, [row["reason"] for row in ended.rows]
    [row] = ended.rows
    assert row["hot_seconds"]
    assert row["cold_seconds"]


def test_a_flaky_kernel_is_told_with_the_seeds_that_repeat_it(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    """It is wrong with inputs whose first number is positive."""
    path = write_flaky(tmp_path / "own")
    spoilt = [seed for seed, first in enumerate(first_inputs(path, 10)) if first > 0]
    assert 1 < len(spoilt) < 9
    words = ("--kernel-file", str(path), "--mode", "correctness", "--json")
    ended = vkbench("run", *words, "--repeat", "10", "--all")
    assert ended.code == 3
    assert len(ended.rows) == 10
    seeds = ", ".join(map(str, spoilt))
    again = f"{FLAKY}/seed={spoilt[0]}".removesuffix("/seed=0")
    assert ended.err.splitlines() == [
        f"{FLAKY}, auto: wrong in {len(spoilt)} of 10, with seeds {seeds}; "
        f"`--case {again}` has the inputs of one",
        f"run 1: {10 - len(spoilt)} passed, {len(spoilt)} wrong",
    ]
    for seed in (spoilt[-1], next(seed for seed in range(1, 10) if seed not in spoilt)):
        case = f"{FLAKY}/seed={seed}"
        ended = vkbench("run", *words, "--case", case, "--repeat", "2")
        assert [row["case"] for row in ended.rows] == [case, case]
        assert ended.code == (3 if seed in spoilt else 0)
        assert ("wrong in 2 of 2, with seed" in ended.err) == (seed in spoilt)


def test_a_kernel_whose_rows_depend_on_their_number_is_found(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    path = write_sums(tmp_path / "own")
    words = ("--kernel-file", str(path), "--property", "batch")
    ended = vkbench("run", *words, "--json")
    assert ended.code == 3, ended.err
    rows = {row["case"]: row for row in ended.rows}
    assert {case: row["verdict"] for case, row in rows.items()} == {
        "lab.sums/f32/m3_k300": "passed",
        "lab.sums/f32/m7_k300": "wrong",
    }
    reason = rows["lab.sums/f32/m7_k300"]["reason"]
    assert "elements of y have other bits with m" in reason
    assert "than with m 7 (slang)" in reason
    ended = vkbench("run", *words)
    assert ended.code == 3
    [row] = [line.split() for line in ended.out.splitlines() if "lab.sums" in line]
    assert row[-5:] == ["slang", "no", "2", "1", "f32"]
    assert not vkbench("query", "SELECT * FROM v_regressions", "--json").rows


def test_the_size_of_batches_has_to_be_said(asked: Vkbench, tmp_path: Path) -> None:
    path = write_sums(tmp_path / "own")
    text = path.read_text()
    for declared, complaint in (
        ("", "it does not say which size is a batch's: give batch = 'SIZE'"),
        ('batch = "k"', "batch = 'k' is no size of all of its outputs"),
    ):
        path.write_text(text.replace('batch = "m"', declared))
        ended = asked("run", "--kernel-file", str(path), "--property", "batch")
        assert (ended.code, ended.err) == (2, f"vkbench: {path}: {complaint}\n")


def first_inputs(declaration: Path, count: int) -> list[float]:
    """The first number of x with each of so many seeds."""
    bundle = build(declaration, "somebody", seeds=range(1, count)).bundle
    cases = [pose_case(bundle, with_seed(FLAKY, seed)) for seed in range(count)]
    return [float(case.kernel.inputs(case)["x"][0]) for case in cases]


def test_a_feature_that_the_device_lacks_is_said(vkbench: Vkbench, tmp_path: Path) -> None:
    path = write_own(
        tmp_path / "own", {'groups = ["m"]': 'groups = ["m"]\nfeatures = ["antigravity"]'}
    )
    ended = vkbench("kernel", "check", str(path), "--json")
    assert ended.code == 0
    assert "lacks antigravity" in ended.rows[0]["lacking"]
    ended = vkbench("run", "--kernel-file", str(path), "--mode", "correctness", "--json", "--all")
    assert ended.code == 7
    assert {row["verdict"] for row in ended.rows} == {"skipped"}
    assert "slang: needs antigravity, which" in ended.rows[0]["reason"]


def test_a_kernel_to_begin_with_is_written_once(asked: Vkbench, tmp_path: Path) -> None:
    folder = tmp_path / "norm"
    assert asked("kernel", "new", str(folder)).code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        f"rms_quant.{ending}" for ending in ("comp", "py", "slang", "toml")
    ]
    ended = asked("kernel", "new", str(folder))
    assert (ended.code, ended.err) == (
        2,
        f"vkbench: {folder} exists already: give another folder\n",
    )


def test_options_beside_a_kernel_file_are_checked(asked: Vkbench, tmp_path: Path) -> None:
    path = str(write_own(tmp_path / "own"))
    for words, complaint in (
        (("--suite", "quick"), "leave out --suite"),
        (("--bundle", "0123"), "leave out --suite"),
        (("--variant", "slow"), "unknown variant of lab.rms_quant 'slow'"),
        (("--case", f"{CASE}0"), f"did you mean '{CASE}'"),
        (("--shape", "m=3"), "a shape has the sizes m, k; got m"),
    ):
        ended = asked("run", "--kernel-file", path, *words)
        assert ended.code == 2
        assert complaint in ended.err
        assert ended.err.count("\n") == 1


def test_several_declarations_are_a_run_each(vkbench: Vkbench, tmp_path: Path) -> None:
    """Those of a folder, with one table of results; what cannot be run is named in a line."""
    folder = tmp_path / "own"
    shadow, own = write_shadow(folder), write_own(folder)
    slip = folder / "slip.toml"
    slip.write_text(own.read_text().replace('groups = ["m"]', 'groups = ["n"]'))
    (folder / "other.toml").write_text("name = 'other'")
    words = ("--mode", "correctness", "--label", "new", "--json", "--all")
    ended = vkbench("run", "--kernel-file", str(folder), *words)
    assert ended.code == 2
    assert ended.err.splitlines() == [
        f"skipped {folder}/other.toml: it declares no kernel: it has no [[variants]]",
        f"skipped {slip}: {CASE}, variant slang: a formula names n, which is none of eps, m, k, b",
        "run 1: 2 passed",
        "run 2: 3 passed",
    ]
    assert {(row["run"], row["case"].partition("/")[0]) for row in ended.rows} == {
        (1, "rms_norm"),
        (2, NAME),
    }
    labels = vkbench("query", "SELECT label, track FROM run ORDER BY id", "--json").rows
    assert [(row["label"], row["track"]) for row in labels] == [
        ("new/lab.one_pass", "lab.one_pass"),
        ("new/lab.rms_quant", "main"),
    ]
    files = ("--kernel-file", str(own), "--kernel-file", str(shadow))
    ended = vkbench("submit", *files, "--mode", "correctness")
    assert (ended.code, ended.out.split()) == (0, ["3", "4"])
    ended = vkbench("run", *files, "--case", SHADOWED, "--mode", "correctness", "--json", "--all")
    assert ended.code == 2
    assert ended.err.splitlines()[0].startswith(f"skipped {own}: unknown case of {NAME}")
    assert {row["case"] for row in ended.rows} == {SHADOWED}


def test_several_declarations_are_checked(asked: Vkbench, tmp_path: Path) -> None:
    own, shadow = write_own(tmp_path / "own"), write_shadow(tmp_path / "shadow")
    ended = asked("kernel", "check", str(own), str(shadow), "--json")
    assert ended.code == 0
    assert [row["kernel"] for row in ended.rows] == [NAME, "lab.one_pass"]
    own.write_text("name = 3")
    (own.parent / shadow.name).unlink()
    ended = asked("kernel", "check", str(own.parent), str(shadow))
    assert ended.code == 2
    assert f"vkbench: the folder {own.parent} has no TOML file that declares a kernel" in ended.err
    ended = asked("kernel", "check", str(own), str(shadow), "--json")
    assert (ended.code, len(ended.rows)) == (2, 1)
    assert ended.err.startswith(f"skipped {own}: ")
    ended = asked("run", "--kernel-file", str(own), "--kernel-file", str(own.parent / "x.toml"))
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "vkbench: none of 2 declarations can be run"
    ended = asked("run", "--kernel-file", str(own), "--kernel-file", str(shadow), "--driver", "x")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "each declaration has a run of its own" in ended.err


def test_a_kernel_of_the_catalogue_is_shadowed(vkbench: Vkbench, tmp_path: Path) -> None:
    """The same case by both, side by side; the catalogue's history does not hear of it."""
    path = str(write_shadow(tmp_path / "own"))
    words = ("--seconds", "0.05", "--json", "--all")
    theirs = vkbench("run", "--kernel-file", path, "--label", "theirs", *words)
    ours = vkbench("run", "--case", SHADOWED, "--label", "ours", *words)
    assert [ended.code for ended in (theirs, ours)] == [0, 0], theirs.err + ours.err
    assert {row["variant"] for row in theirs.rows} == {"lab.one_pass.slang"}
    assert {row["case"] for row in theirs.rows if row["hot_seconds"]} == {SHADOWED}
    compared = vkbench("compare", "ours", "theirs", "--json", "--all").rows
    assert {row["variant"] for row in compared} == {"portable \u2192 lab.one_pass.slang"}
    tracks = vkbench("query", "SELECT DISTINCT track FROM v_results ORDER BY track", "--json").rows
    assert [row["track"] for row in tracks] == ["lab.one_pass", "main"]


def test_a_shadow_may_write_blocks(vkbench: Vkbench, tmp_path: Path) -> None:
    """A code may round to its neighbour there; blocks of one's own are compared bit for bit."""
    path = write_blocks(tmp_path / "own")
    words = ("run", "--kernel-file", str(path), "--mode", "correctness", "--json")
    ended = vkbench(*words)
    assert ended.code == 0, ended.err
    assert [row["verdict"] for row in ended.rows] == ["passed"]
    source = path.parent / "rms_blocks.slang"
    source.write_text(source.read_text().replace("codes += code;", "codes += 1;"))
    ended = vkbench(*words)
    assert ended.code == 3
    assert "wrong sums of their codes" in ended.rows[0]["reason"]


def test_own_kernels_are_listed_with_their_owners(vkbench: Vkbench, tmp_path: Path) -> None:
    words = ("--mode", "correctness")
    for path in (write_own(tmp_path / "own"), write_shadow(tmp_path / "shadow")):
        assert vkbench("run", "--kernel-file", str(path), *words).code == 0
    rows = {row["name"]: row for row in vkbench("kernels", "--own", "--json").rows}
    assert {name: row["owner"] for name, row in rows.items()} == {
        NAME: "lab",
        "lab.one_pass": "lab",
    }
    assert rows["lab.one_pass"]["shadows"] == "rms_norm"
    assert rows[NAME]["cases"] == 3
    assert [row["name"] for row in vkbench("kernels", "--own", "-k", "*one*", "--json").rows] == [
        "lab.one_pass"
    ]
    assert NAME in vkbench("bundle", "ls").out


@pytest.mark.parametrize("write", [write_own, write_shadow])
def test_the_command_of_a_job_runs_its_bundle_again(
    vkbench: Vkbench, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    """Also after a newer version of the kernel has run."""
    path = write(tmp_path / "own")
    run = ("run", "--kernel-file", str(path), "--mode", "correctness")
    assert vkbench(*run).code == 0
    launch = next(line for line in path.read_text().splitlines() if line.startswith("groups = "))
    path.write_text(path.read_text().replace(launch, f"{launch[:-1]}, 2]"))
    assert vkbench(*run).code == 0
    bundles = [row["bundle"] for row in bundles_of_jobs(vkbench)]
    assert len(set(bundles)) == 2
    with Database.open(settings().database_url()) as database, database.reading() as tx:
        command = replay(job_story.story(tx, 1))
    ended = vkbench(*shlex.split(command)[1:])
    assert ended.code == 0, ended.err
    again = bundles_of_jobs(vkbench)
    assert [row["bundle"] for row in again[len(bundles) :]] == bundles[:1]
    assert again[-1]["track"] == again[0]["track"]


def bundles_of_jobs(vkbench: Vkbench) -> list[dict[str, Any]]:
    """The bundle that each job ran, and the history that it joined."""
    words = (
        "SELECT attempt.bundle, run.track FROM attempt JOIN job ON job.id = attempt.job_id "
        "JOIN run ON run.id = job.run_id ORDER BY job.id"
    )
    return vkbench("query", words, "--json").rows


@pytest.mark.timeout(300)
def test_a_slow_version_is_found(vkbench: Vkbench, tmp_path: Path) -> None:
    """Of three versions the second only changes what is launched, and the third is slow."""
    bundles = []
    path = write_own(tmp_path / "own")
    changes: list[Callable[[Path], None]] = [lambda path: None, wider, slower]
    for change in changes:
        change(path)
        run = ("--kernel-file", str(path), "--mode", "correctness", "--json")
        assert vkbench("run", *run).code == 0
        bundles.append(vkbench("kernels", "--own", "--json").rows[0]["bundle"])
    assert len(set(bundles)) == 3
    words = ("--case", TIMED, "--bundles", ",".join(bundles), "--seconds", "0.05", "--json")
    ended = vkbench("bisect", *words)
    assert ended.code == 0, ended.err
    assert len(ended.rows) == 3
    [first_bad] = [row for row in ended.rows if row["is_first_bad"]]
    assert first_bad["sha"] == bundles[2]
    assert first_bad["ratio"] > 1.3


@pytest.mark.timeout(300)
def test_the_revision_that_made_a_kernel_slow_is_found(vkbench: Vkbench, tmp_path: Path) -> None:
    """The second does not compile, and the third is slow."""
    path = write_own(tmp_path / "repository" / "norms")
    broken = path.parent / "rms_quant.slang"
    git(path.parent, "init", "--quiet", "..")
    commit(path.parent, "plain")
    right = broken.read_text()
    broken.write_text(right.replace("float sum = 0", "float sum = zero"))
    commit(path.parent, "broken")
    broken.write_text(right)
    slower(path)
    commit(path.parent, "slow")
    where = ("--repository", str(path.parents[1]), "--kernel-file", "norms/rms_quant.toml")
    words = ("--case", TIMED, "--revisions", "HEAD~2..HEAD", "--seconds", "0.05", "--json")
    ended = vkbench("bisect", *where, *words)
    assert ended.code == 0, ended.err
    assert [row["label"].split()[-1] for row in ended.rows] == ["plain", "broken", "slow"]
    assert "undefined identifier" in ended.rows[1]["note"]
    assert [row["is_first_bad"] for row in ended.rows] == [False, False, True]
    measured = vkbench("results", "--kernel", NAME, "--mode", "paired", "--json").rows
    assert [row["made_of"][0][11:] for row in measured] == ["slow"]


def test_what_declares_no_case_is_not_bisected(vkbench: Vkbench, tmp_path: Path) -> None:
    path = write_own(tmp_path / "own")
    git(path.parent, "init", "--quiet")
    for subject in ("first", "second"):
        (path.parent / "note").write_text(subject)
        commit(path.parent, subject)
    words = ("--case", f"{NAME}/f32/m2_k32_b1", "--revisions", "HEAD~1..HEAD")
    ended = vkbench("bisect", "--repository", str(path.parent), *words)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "give --bundles, or --kernel-file" in ended.err
    words = ("--repository", str(path.parent), "--kernel-file", "rms_quant.toml")
    ended = vkbench("bisect", "--case", TIMED, "--revisions", "HEAD~1..HEAD", *words)
    assert ended.code == 2
    assert "has the same code in" in ended.err


def wider(path: Path) -> None:
    """Have a declaration launch a workgroup more along y, which does what the first does."""
    path.write_text(path.read_text().replace('groups = ["m"]', 'groups = ["m", 2]'))

"""`--gguf FILE --tensor NAME` where work is submitted: rows, or one line and none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, select

from commands import Captured, run_command
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_shaders.gguf_file import open_gguf

Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]


@pytest.fixture
def model(gguf_file: Written) -> Path:
    values = np.ones((8, 64), np.float32)
    return gguf_file({"w": ("q4_0", values), "ids": ("f16", values)})


def jobs(database: Database) -> int:
    with database.reading() as tx:
        return tx.execute(select(func.count()).select_from(schema.job)).scalar_one()


def test_submitted_jobs_name_the_tensor_and_its_hash(
    filled: Database, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)  # workers need the path from the root
    words = ["--gguf", model.name, "--tensor", "w", "-k", "mul_mat_vec", "--mode", "correctness"]
    before = jobs(filled)
    assert cli.main(["submit", *words]) == 0
    job, case = schema.job.c, schema.kernel_case.c
    with filled.reading() as tx:
        stored = tx.execute(
            select(case.name, job.source)
            .join(schema.kernel_case, case.id == job.case_id)
            .where(job.id > before)
        ).all()
    assert stored
    assert {tuple(sorted(row.source.items())) for row in stored} == {
        (("path", str(model)), ("tensor", "w"))
    }
    sha = open_gguf(model).sha("w")
    assert all(f"weights={sha}" in row.name for row in stored)


FILES = [
    (["--tensor", "w"], "--gguf FILE is missing"),
    (["--gguf", "model.gguf"], "--tensor NAME is missing"),
    (["--gguf", "model.gguf", "--tensor", "W"], "did you mean 'w'?"),
    (["--gguf", "modell.gguf", "--tensor", "w"], "cannot read modell.gguf: No such file"),
    (["--gguf", "cut.gguf", "--tensor", "w"], "truncated"),
]
SIZES = [
    (["--gguf", "model.gguf", "--tensor", "w", "-s", "k=32"], "k is 64 there"),
    (["--gguf", "model.gguf", "--tensor", "w", "-s", "m=9"], "m is 8 at most"),
]


@pytest.mark.parametrize(
    ("command", "words", "hint"),
    [
        *(("submit", *row) for row in FILES + SIZES),
        *(("run", *row) for row in FILES),  # before it looks for a device
    ],
)
def test_what_is_wrong_is_one_line_and_makes_no_rows(
    filled: Database,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    command: str,
    words: list[str],
    hint: str,
) -> None:
    monkeypatch.chdir(model.parent)
    Path("cut.gguf").write_bytes(model.read_bytes()[:-100])
    before = jobs(filled)
    out, err = run_command(capsys, command, "-k", "mul_mat_vec", *words, code=2)
    assert (out, err.count("\n"), hint in err) == ("", 1, True), err
    assert jobs(filled) == before

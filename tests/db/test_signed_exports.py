"""Who exports results can vouch for them, and nobody else's signature passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from databases import Lab, one_engine
from exported import sealed
from ssh_keys import new_ssh_key
from vkbench.job import Mode, Outcome
from vkbench.programs.ssh_keygen import sign_text
from vkbench_db.database import Database
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.transfer.lines import SignatureLine
from vkbench_db.transfer.transcript import read_records
from vkbench_db.work import store

pytestmark = one_engine


@pytest.fixture
def signed(lab: Lab, tmp_path: Path) -> list[str]:
    """The lines of an export of one result that somebody signed."""
    device = lab.add_device()
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        store.add_jobs(tx, run, [lab.planned(device, 1)])
    [job] = lab.pick(device)
    lab.record(lab.answer(job, Outcome.PASSED))
    with lab.database.reading() as tx:
        return list(export_run(tx, run, new_ssh_key(tmp_path / "ann")))


def test_the_reader_names_the_key(signed: list[str]) -> None:
    [line] = [line for line in read_records(signed) if line.kind == "signature"]
    assert isinstance(line.record, SignatureLine)
    assert line.record.key.startswith("ED25519 SHA256:")


def test_an_import_takes_what_is_signed(signed: list[str], elsewhere: Database) -> None:
    with elsewhere.transaction() as tx:
        assert import_lines(tx, signed, 0.0).new == 1


def test_a_signature_of_other_lines_is_refused(signed: list[str]) -> None:
    forged = [line.replace('"state":"passed"', '"state":"wrong"') for line in signed[:-1]]
    with pytest.raises(ImportRefused, match=r"line \d+: the signature is not of these lines"):
        list(read_records([*sealed(forged), signed[-1]]))


def test_a_signature_for_something_else_is_refused(signed: list[str], tmp_path: Path) -> None:
    [*lines, _] = signed
    end = next(line.record for line in read_records(lines) if line.kind == "end")
    other = sign_text(end.statement, tmp_path / "ann", "vkbench-build", "it")
    words = json.dumps({"signature": {"signature": other}}) + "\n"
    with pytest.raises(ImportRefused, match="the signature is not of these lines"):
        list(read_records([*lines, words]))


def test_a_signature_follows_an_end(signed: list[str]) -> None:
    for lines in ([signed[-1]], [*signed, signed[-1]], [*signed[:-2], signed[-1]]):
        with pytest.raises(ImportRefused, match="a line 'signature' cannot follow"):
            list(read_records(lines))

"""`vkbench token`: made once, shown without its secret, revoked."""

from __future__ import annotations

import json
import time

import pytest

from commands import Captured, run_command
from vkbench_cli import main as cli
from vkbench_db.database import Database
from vkbench_db.upkeep import tokens


def test_a_token_is_made_listed_and_revoked(capsys: Captured, url: str) -> None:
    made = ["token", "add", "ann", "--scope", "triage", "--scope", "submit", "--days", "30"]
    out, err = run_command(capsys, *made, "--database", url)
    secret = out.strip()
    assert secret.startswith(tokens.SIGN)
    assert "only its hash is stored" in err
    with Database.open(url) as database, database.reading() as tx:
        token = tokens.recognise(tx, secret, time.time())
        assert token
        assert token.scopes == ("submit", "triage")
    listed = run_command(capsys, "token", "ls", "--json", "--database", url)[0]
    [row] = json.loads(listed)["rows"]
    assert (row["name"], row["state"], row["prefix"]) == ("ann", "valid", secret[: tokens.SHOWN])
    assert secret not in listed
    assert cli.main(["token", "revoke", "ann", "--database", url]) == 0
    with Database.open(url) as database, database.reading() as tx:
        assert tokens.recognise(tx, secret, time.time()) is None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["add", "ann", "--scope", "everything"], "everything"),
        (["add", " ", "--scope", "read"], "no name for a token"),
        (["add", "ann"], "--scope"),
        (["revoke", "bob"], "unknown token 'bob'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: Captured, url: str, words: list[str], hint: str
) -> None:
    assert hint in run_command(capsys, "token", *words, "--database", url, code=2)[1]

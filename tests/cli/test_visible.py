"""No text of a stranger reaches a terminal as it is; JSON and CSV give it exactly."""

from __future__ import annotations

import csv
import io
import json
import logging
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from planted_lab import WORDS, make_lab, make_strange
from vkbench.process import log
from vkbench.settings import settings
from vkbench.words import markdown
from vkbench.words.visible import visible, visible_lines
from vkbench_cli import completion
from vkbench_cli import main as cli
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_tables.table import Cell, Column, Table

EVIL = "\x1b[2J\x9b31m\u202egnp.exe\r\x07\x00\x7f\u2066"
HIDDEN = ("Cc", "Cs", "Zl", "Zp")
TURNS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

texts = st.text(
    st.one_of(st.characters(), st.sampled_from(EVIL), st.characters(categories=["Cc", "Cf"]))
)
storable = texts.filter(lambda text: not any(unicodedata.category(c) == "Cs" for c in text))


def is_tame(text: str) -> bool:
    """Whether nothing in a text, beside line breaks, moves a cursor or turns a line."""
    return all(
        char == "\n" or (unicodedata.category(char) not in HIDDEN and char not in TURNS)
        for char in text
    )


def printed(table: Table, **how: bool) -> str:
    stream = io.StringIO(newline="")
    show(table, Output(**how), stream)
    return stream.getvalue()


@given(storable, storable, storable)
def test_a_table_prints_no_control_character(heading: str, cell: str, other: str) -> None:
    columns = (Column(key="a", heading=heading, lifted=True), Column(key="b", heading="b"))
    rows: list[dict[str, Cell]] = [{"a": cell, "b": [other, cell]}, {"a": cell, "b": other}]
    table = Table(columns=columns, rows=rows)
    assert is_tame(printed(table))
    assert is_tame(printed(table, wide=True))
    assert is_tame(markdown.escape_text(cell))
    assert json.loads(printed(table, json=True))["rows"][0]["a"] == cell


@given(st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1))
def test_csv_is_exact(cell: str) -> None:
    table = Table(columns=(Column(key="a", heading="a"),), rows=[{"a": cell}])
    assert list(csv.reader(io.StringIO(printed(table, csv=True))))[1] == [cell]


@given(texts)
def test_every_hidden_character_is_spelled_out(text: str) -> None:
    assert is_tame(visible(text))
    assert "\n" not in visible(text)
    assert is_tame(visible_lines(text).replace("\t", ""))
    assert visible_lines(text).count("\n") == text.count("\n")


def test_what_is_plain_stays_as_it_is() -> None:
    for text in ("NVIDIA H200", "±3 µs, 2×", "日本語 — ünï", "🙂", "a\\x1b"):
        assert visible(text) == text
    assert visible("\x1b[2J") == "\\x1b[2J"
    assert visible("\u202e") == "\\u202e"


def test_lines_and_logs_are_tame(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tell(f"device {EVIL}\nsecond")
    say(f"schedule {EVIL}")
    printed = capsys.readouterr()
    assert is_tame(printed.out)
    assert is_tame(printed.err)
    assert printed.err.count("\n") == 2
    logger = logging.getLogger("test")
    with caplog.at_level(logging.INFO):
        log.event(logger, "seen", device=EVIL)
        try:
            raise ValueError(EVIL)
        except ValueError:
            logger.exception("failed %s", EVIL)
    lines = [log.KeyValue().format(record) for record in caplog.records]
    assert all(map(is_tame, lines))
    assert "\\x1b[2J" in lines[0]


WRITTEN = f"&rlm;&#27;{EVIL}".replace("\0", "")  # Markdown has names for characters too
RENAMED = {"nightly": f"nightly{WRITTEN}", "long": "42", "sweep": "43"}
TABLES = {
    name: [RENAMED.get(word, word) for word in words]
    for name, words in WORDS.items()
    if not name.startswith("selftest")
}
TEXTS = {
    "report run": ["report", "run", "20"],
    "report run --markdown": ["report", "run", "20", "--markdown"],
    "regressions show --markdown": ["regressions", "show", "1", "--markdown"],
    "compare --markdown": ["compare", "20", "40", "--all", "--markdown"],
    "results --as md": ["results", "--as", "md"],
    "plot": ["plot", "1"],
    "pause": ["pause", "*"],
    "resume": ["resume", "*"],
    "token revoke": ["token", "revoke", f"nightly-of-a-long-name{WRITTEN}"],
    "results of an unknown device": ["results", "--device", "no-such-device"],
}


@pytest.fixture(scope="module")
def strange_lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab in which all that others wrote holds control characters."""
    path = make_lab(tmp_path_factory.mktemp("strange"), time.time())
    with Database.open(f"sqlite:///{path}") as database, database.transaction() as tx:
        make_strange(tx, WRITTEN)
    return path


# say nothing that others wrote
OURS = (
    "kernels",
    "bundle ls",
    "program ls",
    "program show",
    "doctor",
    "accuracy",
    "model ls",
    "kernel check",
    "shard",
    "try",  # builds of this machine, whose names are plain
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TABLES, *TEXTS])
def test_no_command_prints_them(
    name: str,
    strange_lab: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{strange_lab}")
    settings.cache_clear()
    cli.main({**TABLES, **TEXTS}[name])
    printed = "".join(capsys.readouterr())
    assert [char for char in printed if not is_tame(char)] == []
    assert ("x1b" in printed) != name.startswith(OURS)


@pytest.mark.slow
def test_a_shell_completes_nothing_that_it_would_run(
    strange_lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{strange_lab}")
    settings.cache_clear()
    with Database.open(f"sqlite:///{strange_lab}") as database, database.transaction() as tx:
        tx.execute(update(schema.device).values(name=schema.device.c.name + "\\\";$(id)`id`'"))
    completions = completion.devices("")
    assert len(completions) == 2
    assert not set("".join(map("".join, completions))) & set("\\\"'`$;&|<>\x1b")

"""What formats and models lost is kept by runs, read by a view, and travels with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from exported import sealed
from planted_accuracy import of_model, of_products
from vkbench.accuracy import Accuracy
from vkbench.job import Mode
from vkbench.run import RunWords
from vkbench_db.ask import queries
from vkbench_db.ask.accuracies import AccuracyRow, accuracies
from vkbench_db.database import Database
from vkbench_db.errors import ImportRefused
from vkbench_db.rows import record_of
from vkbench_db.transfer.exchange import Imported, export_run, import_lines
from vkbench_db.work import store
from vkbench_db.work.runs import add_accuracies
from vkbench_tables.losses import kept_row

FOUND = (of_model("f16"), of_model("q4_0", 0.031), of_products("q4_0", 0.085))


def keep(database: Database, found: Sequence[Accuracy], label: str = "") -> int:
    selection = {"context": 512}
    with database.transaction() as tx:
        run = store.create_run(
            tx, mode=Mode.ACCURACY, selection=selection, now=1.7e9, words=RunWords(label=label)
        ).id
        add_accuracies(tx, run, dict(enumerate(found)))
    return run


def read(database: Database, run: int | None = None) -> list[AccuracyRow]:
    with database.reading() as tx:
        return accuracies(tx, run=run)


def test_a_run_keeps_what_was_lost(database: Database) -> None:
    run = keep(database, FOUND, "night")
    found = read(database, run)
    assert [record_of(vars(row), Accuracy) for row in found] == list(FOUND)
    assert {(row.run, row.run_label) for row in found} == {(run, "night")}
    assert [row.position for row in found] == [0, 1, 2]
    with database.reading() as tx:
        stored = queries.find_run(tx, "last")
    assert (stored.mode, stored.progress.state, stored.progress.total) == (
        "accuracy",
        "finished",
        0,
    )
    assert stored.selection == {"context": 512}


def test_what_loses_nothing_has_an_error_of_zero(database: Database) -> None:
    keep(database, [of_products("f32", 0.0)])
    row = kept_row(read(database)[0])
    assert row["output_error"] == 0.0
    assert (row["perplexity"], row["context"], row["model"]) == (None, None, None)


def test_the_newest_of_each_loss_counts(database: Database) -> None:
    """The same again is one loss; of another text, base or device it is another."""
    keep(database, FOUND)
    later = 1_700_000_100.0
    again = replace(FOUND[1], loss=0.05, measured_at=later)
    others = (
        replace(again, text_sha="cd" * 32),
        replace(again, base_format="q8_0"),
        replace(again, device_name="Planted 8000"),
    )
    second = keep(database, [again, *others])
    newest = read(database)
    assert [row.loss for row in newest[:4]] == [0.05] * 4
    assert {row.run for row in newest[:4]} == {second}
    assert [(row.subject, row.format) for row in newest[4:]] == [
        ("model", "f16"),
        ("products", "q4_0"),
    ]


def export(database: Database, run: int) -> list[str]:
    with database.reading() as tx:
        return list(export_run(tx, run))


def take(database: Database, lines: Sequence[str]) -> Imported:
    with database.transaction() as tx:
        return import_lines(tx, lines, 1.8e9)


def test_it_travels_with_its_run(database: Database, elsewhere: Database) -> None:
    lines = export(database, keep(database, FOUND, "night"))
    assert [next(iter(json.loads(line))) for line in lines] == [
        *("header", "run", "accuracy", "accuracy", "accuracy", "end"),
    ]
    for _ in range(2):
        assert take(elsewhere, lines).losses == 3
    brought = read(elsewhere)
    assert [record_of(vars(row), Accuracy) for row in brought] == list(FOUND)
    assert export(elsewhere, 1) == lines


def test_a_run_of_this_database_gets_no_rows_from_a_file(database: Database) -> None:
    run = keep(database, FOUND)
    lines = export(database, run)
    forged = [line.replace('"position":2', '"position":7') for line in lines[:-1]]
    assert forged != lines[:-1]
    take(database, sealed(forged))
    assert [row.position for row in read(database, run)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"subject":"products"', '"subject":"dreams"', "line 5: malformed"),
        ('"weights":"normal"', '"weights":"nor\\u0007mal"', "line 5: weights has the control"),
        ('"measured_at":1700000000.0', '"measured_at":1e18', "line 3: measured_at is 1e"),
        ('"format":"q4_0"', f'"format":"{"q" * 2000}"', "line 4: format has 2000 bytes"),
    ],
)
def test_what_no_database_should_hold_is_refused(
    old: str, new: str, complaint: str, database: Database, elsewhere: Database
) -> None:
    lines = export(database, keep(database, FOUND))
    forged = [line.replace(old, new) for line in lines[:-1]]
    assert forged != lines[:-1]
    with pytest.raises(ImportRefused, match=complaint):
        take(elsewhere, sealed(forged))
    assert read(elsewhere) == []

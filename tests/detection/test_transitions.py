"""Change points move from state to state with event and screen; nothing is ever half written."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Row, select

from databases import Lab, one_engine
from vkbench_db import schema
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import Cause, Conclusion, Decision, Reopening, Suspicion
from vkbench_detection.changes.states import DECIDED, REACHED_FROM, ChangeState
from vkbench_detection.changes.transitions import apply, begin, reopen, suspect
from vkbench_detection.errors import ImpossibleTransition
from vkbench_detection.find.screening import screen
from vkbench_detection.series import screens
from vkbench_detection.series.placing import place
from vkbench_detection.series.screens import Screen
from vkbench_detection.statistics.screen import SKIPPED

RESULTS = 40
FIGURES = {"ratio": 1.1, "low": 1.05, "high": 1.15, "p": 1e-4}
WAYS = {  # to each state, from a new suspicion
    ChangeState.SUSPECTED: (),
    ChangeState.CONFIRMING: (ChangeState.CONFIRMING,),
    **{state: (state,) for state in DECIDED},
}


@dataclass
class Line:
    """A series of results, and change points in it."""

    lab: Lab
    device: str
    series: int = 0

    def measure(self, *levels: float) -> None:
        """One result at each of these levels, placed and screened."""
        for level in levels:
            self.lab.now += 60.0
            self.lab.submit(self.device, 1)
            jobs = self.lab.pick(self.device)
            self.lab.record(*(self.lab.answer(job, seconds=level) for job in jobs))
        with self.lab.database.transaction() as tx:
            placed = place(tx, self.lab.now)
            screen(tx, placed.series, self.lab.now)
            table = schema.series.c
            hot = select(table.id).where(table.metric == "hot")
            self.series = tx.execute(hot).scalar_one()

    def suspect(self, place: int, conclusion: Conclusion | None = None) -> int:
        """A change point before the result at a place, which begins with 1."""
        suspicion = Suspicion(
            series=self.series,
            method=Method.HISTORY,
            direction="slower",
            before_job=place - 1,
            after_job=place,
            conclusion=conclusion,
        )
        with self.lab.database.transaction() as tx:
            return next(iter(suspect(tx, [suspicion], self.lab.now)), 0)

    def move(self, change: int, state: ChangeState) -> None:
        with self.lab.database.transaction() as tx:
            if state == ChangeState.CONFIRMING:
                begin(tx, change, "4 pairs", self.lab.now)
            elif state == ChangeState.SUSPECTED:
                reopen(tx, [Reopening(change=change, note="again", ratio=1.1)], self.lab.now)
            else:
                apply(tx, [Decision(change=change, conclusion=conclusion(state))], self.lab.now)

    def changes(self) -> dict[int, Row[Any]]:
        table = schema.change_point.c
        with self.lab.database.reading() as tx:
            rows = tx.execute(select(schema.change_point).where(table.series_id == self.series))
            return {row.id: row for row in rows}

    def events(self, change: int) -> list[str]:
        event = schema.change_point_event.c
        asked = select(event.state).where(event.change_point_id == change).order_by(event.id)
        with self.lab.database.reading() as tx:
            return list(tx.execute(asked).scalars())

    def screen(self) -> Screen:
        with self.lab.database.reading() as tx:
            return screens.load(tx, [self.series])[self.series]

    def level_jobs(self) -> tuple[int, ...]:
        """The jobs whose results are the level that new ones are held against."""
        screen = self.screen()
        first = screen.state.count - len(screen.jobs)
        return tuple(screen.jobs[index - first] for index in screen.state.indices if index >= first)


def conclusion(state: ChangeState, cause: Cause | None = Cause.HOST) -> Conclusion:
    return Conclusion(state=state, note=f"it is {state}", cause=cause, figures=FIGURES)


def wobble(count: int, level: float = 1e-3, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.gauss(1, 0.002) for _ in range(count)]


@pytest.fixture
def line(lab: Lab) -> Line:
    """Forty results of one level; the last one is slower and waits to be decided."""
    made = Line(lab, lab.add_device())
    made.measure(*wobble(RESULTS - 1), 1.2e-3)
    assert made.screen().state.skip == SKIPPED
    return made


def raised(line: Line) -> int:
    """The suspicion that the last result raised."""
    [change] = line.changes()
    return change


@one_engine
def test_a_suspicion_is_stored_once_with_its_event(line: Line) -> None:
    made = line.suspect(10)
    assert line.changes()[made].state == ChangeState.SUSPECTED
    assert line.events(made) == ["suspected"]
    assert line.suspect(10) == 0
    assert line.events(made) == ["suspected"]


@one_engine
def test_measuring_again_leaves_the_screen_waiting(line: Line) -> None:
    before = line.screen()
    line.move(raised(line), ChangeState.CONFIRMING)
    assert line.events(raised(line)) == ["suspected", "confirming"]
    assert line.screen() == before


@one_engine
def test_a_confirmed_change_begins_a_segment(line: Line) -> None:
    line.move(raised(line), ChangeState.CONFIRMED)
    row = line.changes()[raised(line)]
    assert (row.state, row.cause, row.ratio, row.p) == ("confirmed", "host", 1.1, 1e-4)
    assert line.events(row.id) == ["suspected", "confirmed"]
    assert line.level_jobs() == (RESULTS,)


@one_engine
@pytest.mark.parametrize("state", [ChangeState.DISMISSED, ChangeState.AMBIGUOUS])
def test_other_decisions_let_the_screen_go_on(line: Line, state: ChangeState) -> None:
    before = line.level_jobs()
    line.move(raised(line), state)
    assert line.changes()[raised(line)].state == state
    assert line.events(raised(line)) == ["suspected", state]
    assert line.screen().state.skip == 0  # the next result may raise an alarm again
    assert line.level_jobs() == before


@one_engine
def test_a_screen_restarts_at_the_last_confirmed_change(line: Line) -> None:
    """Whichever is confirmed first, an earlier change does not bring old results back."""
    late, early = line.suspect(30), line.suspect(20)
    line.move(late, ChangeState.CONFIRMED)
    line.move(early, ChangeState.CONFIRMED)
    assert min(line.level_jobs()) == 30


@one_engine
def test_one_batch_of_decisions_restarts_last(line: Line) -> None:
    decided = [
        Decision(change=line.suspect(20), conclusion=conclusion(ChangeState.CONFIRMED)),
        Decision(change=line.suspect(30), conclusion=conclusion(ChangeState.DISMISSED)),
    ]
    with line.lab.database.transaction() as tx:
        apply(tx, decided, line.lab.now)
    assert min(line.level_jobs()) == 20


@one_engine
def test_a_suspicion_with_a_conclusion_is_decided_at_once(line: Line) -> None:
    made = line.suspect(25, conclusion(ChangeState.CONFIRMED))
    assert line.events(made) == ["suspected", "confirmed"]
    assert min(line.level_jobs()) == 25


def test_a_decision_says_where_the_change_lies(line: Line) -> None:
    made = line.suspect(25)
    moved = Decision(
        change=made, conclusion=conclusion(ChangeState.CONFIRMED, cause=None), between=(26, 27)
    )
    with line.lab.database.transaction() as tx:
        apply(tx, [moved], line.lab.now)
    row = line.changes()[made]
    assert (row.before_job, row.after_job, row.cause) == (26, 27, "")
    assert line.events(made) == ["suspected", "suspected", "confirmed"]
    assert min(line.level_jobs()) == 27


@one_engine
def test_a_change_that_is_suspected_again_may_lie_elsewhere(line: Line) -> None:
    """Its events keep where it was and what was decided; its row says what is known now."""
    made = line.suspect(25)
    line.move(made, ChangeState.DISMISSED)
    again = Reopening(change=made, note="again", ratio=1.2, between=(26, 27))
    before = line.screen()
    with line.lab.database.transaction() as tx:
        reopen(tx, [again], line.lab.now)
    row = line.changes()[made]
    assert (row.state, row.before_job, row.after_job, row.ratio) == ("suspected", 26, 27, 1.2)
    assert (row.cause, row.low, row.high, row.p) == ("", None, None, None)
    assert line.events(made) == ["suspected", "dismissed", "dismissed", "suspected"]
    assert line.screen() == before


WANTED = list(ChangeState)


@one_engine
@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (state, wanted)
        for wanted in WANTED
        for state in ChangeState
        if state in REACHED_FROM[wanted]
    ],
)
def test_a_state_is_reached_from_some(line: Line, state: ChangeState, wanted: ChangeState) -> None:
    made = line.suspect(25)
    for step in (*WAYS[state], wanted):
        line.move(made, step)
    assert line.changes()[made].state == wanted


@one_engine
@pytest.mark.parametrize("state", list(ChangeState))
def test_a_state_is_reached_from_no_other(line: Line, state: ChangeState) -> None:
    made = line.suspect(25)
    for step in WAYS[state]:
        line.move(made, step)
    before = (line.changes()[made], line.events(made), line.screen())
    for wanted in WANTED:
        if state not in REACHED_FROM[wanted]:
            with pytest.raises(
                ImpossibleTransition, match=f"is {state}: it cannot become {wanted}"
            ):
                line.move(made, wanted)
    assert (line.changes()[made], line.events(made), line.screen()) == before


@pytest.mark.parametrize("seed", range(3))
def test_change_and_screen_agree_after_any_sequence(lab: Lab, seed: int) -> None:
    line, rng = Line(lab, lab.add_device()), random.Random(seed)
    line.measure(*wobble(30, seed=seed))
    for step in range(40):
        changes = line.changes()
        if step % 3 == 0:
            line.measure(*wobble(2, 1e-3 * rng.choice((1, 1, 1.1)), step))
        elif not changes or rng.random() < 0.3:
            line.suspect(rng.randint(2, len(line.screen().jobs)))
        else:
            _try(line, rng.choice(list(changes.values())), rng.choice(list(ChangeState)))
        _check(line)


def _try(line: Line, change: Row[Any], state: ChangeState) -> None:
    is_allowed = change.state in REACHED_FROM[state]
    try:
        line.move(change.id, state)
    except ImpossibleTransition:
        assert not is_allowed
        return
    assert is_allowed
    if state in DECIDED:
        assert line.screen().state.skip == 0


def _check(line: Line) -> None:
    """The last event says the state; no result before a confirmed change is in the level."""
    changes = line.changes()
    for change in changes.values():
        assert line.events(change.id)[-1] == change.state
    confirmed = [row.after_job for row in changes.values() if row.state == ChangeState.CONFIRMED]
    assert min(line.level_jobs(), default=10**9) >= max(confirmed, default=0)

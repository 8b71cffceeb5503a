"""Alerts: each state told once through each channel, to real listeners that fail first."""

from __future__ import annotations

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from listener import SECRET, Listener, listening, settings_for
from planted_news import NOW, deliveries, happens, moves
from vkbench.settings import read
from vkbench_db.database import Database
from vkbench_db.upkeep import alerts
from vkbench_detection.regress.announcements import unannounced_news
from vkbench_scheduler.errors import AlertFailed
from vkbench_scheduler.watch import webhook
from vkbench_scheduler.watch.alerts import (
    AT_ONCE,
    FIRST_RETRY_SECONDS,
    GATHER_SECONDS,
    MOST_APART,
    MOST_TRIES,
    channels_of,
    retry_seconds,
    step,
)

# what apprise imports is its own affair
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise", "ignore:'imghdr'")

PAGE = Path(__file__).parents[2] / "docs/alerts.md"


def said(listener: Listener) -> list[dict[str, Any]]:
    """The messages that a listener heard."""
    return [json.loads(body) for _, body in listener.heard]


def verifier() -> dict[str, Any]:
    """What the documentation tells receivers to do, as it stands there."""
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0], names)
    return names


def test_a_state_is_told_after_two_failures_and_recorded_once(database: Database) -> None:
    regression = happens(database)
    with listening(500, 503) as listener:
        ours = settings_for(listener)
        step(database, ours, NOW)
        (delivery,) = deliveries(database, regression)
        assert (delivery.tries, delivery.delivered_at) == (1, None)
        assert delivery.error == "the webhook answered 500 Internal Server Error"
        step(database, ours, NOW + 1)  # too early
        assert len(listener.heard) == 1
        step(database, ours, NOW + FIRST_RETRY_SECONDS)
        step(database, ours, NOW + 5 * FIRST_RETRY_SECONDS)
        step(database, ours, NOW + 3600)
        assert len(listener.heard) == 3
    (delivery,) = deliveries(database, regression)
    assert (delivery.tries, delivery.error) == (3, "")
    assert delivery.delivered_at == NOW + 5 * FIRST_RETRY_SECONDS
    assert len({headers["webhook-id"] for headers, _ in listener.heard}) == 1


def test_the_signature_is_what_the_documentation_says(database: Database) -> None:
    regression = happens(database)
    with listening() as listener:
        step(database, settings_for(listener), NOW)
    ((headers, body),) = listener.heard
    verify = verifier()["verified"]
    told = verify(SECRET, headers, body, NOW + 60)
    assert told["type"] == "regression.open"
    assert told["id"] == headers["webhook-id"]
    assert told["data"]["id"] == regression
    assert "copy f32 is 10 % slower" in told["data"]["summary"]
    for off in (
        ("whsec_" + "A" * 32, headers, body, NOW),
        (SECRET, headers | {"webhook-id": "msg_other"}, body, NOW),
        (SECRET, headers | {"webhook-timestamp": str(int(NOW) + 1)}, body, NOW),
        (SECRET, headers, body.replace(b"open", b"shut"), NOW),
        (SECRET, headers, body, NOW + 600),
    ):
        with pytest.raises(ValueError, match=r"signature|old"):
            verify(*off)


def test_each_state_that_counts_is_told_once(database: Database) -> None:
    regression = happens(database)
    improvement = happens(database, direction="faster")
    old = happens(database, at=NOW - 2 * 86_400)
    with listening() as listener:
        ours = settings_for(listener)
        step(database, ours, NOW)
        for state in ("acknowledged", "fixed", "open", "verified", "closed"):
            with database.transaction() as tx:
                moves(tx, regression, state)
            step(database, ours, NOW + 1)
            step(database, ours, NOW + 2)
    told = [json.loads(body)["type"] for _, body in listener.heard]
    assert told == ["regression.open", "regression.fixed", "regression.verified"]
    assert deliveries(database, improvement) == deliveries(database, old) == []


def test_what_returns_and_grows_is_told_each_time_as_what_it_is(database: Database) -> None:
    regression = happens(database)
    with listening() as listener:
        ours = settings_for(listener)
        moment = NOW
        for event in ("open", "grown", "fixed", "again", "open", "grown", "fixed", "verified"):
            with database.transaction() as tx:
                moves(tx, regression, event, moment)
            for _ in range(2):
                moment += GATHER_SECONDS
                step(database, ours, moment)
    told = [each["type"].removeprefix("regression.") for each in said(listener)]
    assert told == ["open", "grown", "fixed", "again", "grown", "fixed", "verified"]
    assert len({each["id"] for each in said(listener)}) == len(told)
    names = {each.state for each in deliveries(database, regression)}
    assert {"grown", "grown 2", "fixed", "fixed 2", "again"} < names


def test_growths_within_half_an_hour_are_one_message(database: Database) -> None:
    regression = happens(database)
    with listening() as listener:
        ours = settings_for(listener)
        step(database, ours, NOW)
        for minute in range(9):
            with database.transaction() as tx:
                moves(tx, regression, "grown", NOW + 60 * minute, f"now also on B{minute}")
            step(database, ours, NOW + 60 * minute)
        assert len(listener.heard) == 1
        for _ in range(2):
            step(database, ours, NOW + GATHER_SECONDS)
    _, grown = said(listener)
    assert grown["type"] == "regression.grown"
    assert grown["data"]["note"] == "; ".join(f"now also on B{n}" for n in range(9))


def test_many_regressions_at_once_are_a_digest(database: Database) -> None:
    """It is sent again as it was, though more came up meanwhile."""
    numbers = [happens(database) for _ in range(12)]
    with database.transaction() as tx:
        moves(tx, numbers[3], "again", note="1 series of 1 kernel on 1 device more")
    with listening(500) as listener:
        ours = settings_for(listener)
        step(database, ours, NOW)
        numbers += [happens(database, at=NOW + 1) for _ in range(2)]
        for after in (FIRST_RETRY_SECONDS, GATHER_SECONDS, GATHER_SECONDS + 1):
            step(database, ours, NOW + after)
    first, again, *others = said(listener)
    assert first == again
    assert first["type"] == "regressions.digest"
    told = first["data"]["regressions"]
    assert (told[0]["id"], told[0]["type"]) == (numbers[3], "regression.again")
    assert sorted(each["id"] for each in told) == numbers[:12]
    summary = first["data"]["summary"]
    assert "12 regressions: 1 is back, 11 became open" in summary
    assert "1 series of 1 kernel on 1 device more" in summary
    assert [each["data"]["id"] for each in others] == numbers[12:]
    assert all(deliveries(database, number)[0].delivered_at for number in numbers)


def test_a_trickle_becomes_a_digest(database: Database) -> None:
    """Twenty regressions, one each minute: five messages, and then one of all the others."""
    with listening() as listener:
        ours = settings_for(listener)
        began = NOW - NOW % GATHER_SECONDS
        for minute in range(20):
            happens(database, at=began + 60 * minute)
            step(database, ours, began + 60 * minute)
        assert len(listener.heard) == MOST_APART
        step(database, ours, began + GATHER_SECONDS)
    assert [each["type"] for each in said(listener)] == [
        *(["regression.open"] * MOST_APART), "regressions.digest",
    ]  # fmt: skip
    assert said(listener)[-1]["data"]["regression_count"] == 20 - MOST_APART


def test_schedulers_at_once_tell_it_once(database: Database) -> None:
    for _ in range(5):
        happens(database)
    together = Barrier(4)
    with listening() as listener:
        ours = settings_for(listener)

        def tell(_: int) -> None:
            together.wait()
            step(database, ours, NOW)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(tell, range(4)))
            step(database, ours, NOW)
    assert len(listener.heard) == len({body for _, body in listener.heard}) == 5


def test_a_process_that_died_of_sending_is_followed_by_another_try(database: Database) -> None:
    regression = happens(database)
    with listening() as listener:
        ours = settings_for(listener)
        with database.transaction() as tx:
            alerts.expect(tx, unannounced_news(tx, ["webhook"], NOW), NOW, NOW)
            (due,) = alerts.due_deliveries(tx, ["webhook"], NOW, most_tries=9, limit=9)
            assert alerts.claim(tx, due, NOW + 30)
            assert not alerts.claim(tx, due, NOW + 30)
        step(database, ours, NOW + 29)
        assert listener.heard == []
        step(database, ours, NOW + 30)
    assert len(listener.heard) == 1
    assert deliveries(database, regression)[0].tries == 2


def test_it_is_given_up_after_a_day(database: Database) -> None:
    regression = happens(database)
    with listening(*[500] * 99) as listener:
        ours = settings_for(listener)
        moment = NOW
        for tries in range(1, MOST_TRIES + 3):
            step(database, ours, moment)
            moment += retry_seconds(tries)
    assert len(listener.heard) == MOST_TRIES
    assert deliveries(database, regression)[0].tries == MOST_TRIES
    assert 12 * 3600 < sum(map(retry_seconds, range(1, MOST_TRIES))) < 86_400


def test_a_broken_channel_costs_one_try_a_step_and_stops_no_other(database: Database) -> None:
    for _ in range(3):
        happens(database)
    with listening(*[500] * 99) as broken, listening() as other:
        urls = f"{other.url.replace('http', 'json')}"
        step(database, settings_for(broken, alert_urls=urls), NOW)
    assert len(broken.heard) == 1
    assert len(other.heard) == 3 <= AT_ONCE
    _, body = other.heard[0]
    said = json.loads(body)
    assert "became open" in said["title"]
    assert "copy f32 is 10 % slower" in said["message"]


def test_a_redirect_is_not_followed(database: Database) -> None:
    regression = happens(database)
    with listening(302) as listener:
        step(database, settings_for(listener), NOW)
    assert len(listener.heard) == 1
    assert "302" in deliveries(database, regression)[0].error


def test_errors_of_a_dead_server_and_a_bad_url_give_no_secret_away(
    database: Database,
) -> None:
    regression = happens(database)
    with listening() as listener:
        pass
    ours = settings_for(listener, alert_urls="nonsense://user:hunter2@x")
    step(database, ours, NOW)
    found = {each.channel: each.error for each in deliveries(database, regression)}
    assert "Connection refused" in found["webhook"]
    assert any("apprise does not understand" in error for error in found.values())
    assert "hunter2" not in repr(found) + repr(ours)
    assert SECRET not in repr(ours)


@pytest.mark.parametrize("url", ["http://[bad", "http://a b/", "http://host:port/", "http://"])
def test_a_url_that_is_none_fails_as_a_receiver_does(url: str) -> None:
    with pytest.raises(AlertFailed, match="cannot be reached"):
        webhook.post(url, SECRET, "msg_1", b"{}", 1)


def test_without_channels_nothing_is_noted(database: Database) -> None:
    regression = happens(database)
    step(database, read({}), NOW)
    assert deliveries(database, regression) == []


def test_channels_have_names_of_their_own() -> None:
    found = list(channels_of(replace(read({}), alert_urls="mailto://a:b@c  mailto://a:b@d")))
    assert len(set(found)) == 2
    assert all(re.fullmatch(r"mailto-[0-9a-f]{8}", name) for name in found)


def test_a_receiver_that_answers_byte_by_byte_holds_no_alert_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte comes in time, and the answer never; the connection is broken then."""
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 0.5)
    broken = Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            while not broken.wait(0.05):
                try:
                    connection.sendall(b"H")
                except OSError:
                    broken.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=drip, args=[server], daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(AlertFailed, match="did not answer within"):
            webhook.post(url, SECRET, "msg_1", b"{}", 1)
        assert broken.wait(20)

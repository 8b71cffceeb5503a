"""Alerts: a regression's states told once through each channel, again until it is heard.

    channel        is set by
    webhook        VKBENCH_ALERT_WEBHOOK, signed with VKBENCH_ALERT_SECRET
    scheme-digest  one of VKBENCH_ALERT_URLS, through apprise

A delivery is recorded once. On the wire it may come twice, when this process dies between sending
and recording: the message's id is the same then.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from vkbench import log
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep import alerts
from vkbench_db.upkeep.alerts import Delivery
from vkbench_detection.regress import news
from vkbench_detection.regress.announcements import unannounced
from vkbench_detection.regress.news import RegressionNews
from vkbench_scheduler.errors import AlertFailed
from vkbench_scheduler.watch import summaries, webhook

FIRST_RETRY_SECONDS = 30.0  # after the first try; each wait is four times the one before
LONGEST_RETRY_SECONDS = 6 * 3600.0
MOST_TRIES = 9  # over about 21 hours
AT_ONCE = 20  # deliveries of a step
MOST_CHANGES = 50  # told in a message; the count says of how many

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is said of one state of a regression."""

    id: str  # the same in every try and channel: who heard it before can tell
    title: str
    text: str  # Markdown
    body: Mapping[str, Any]  # for programs


Send: TypeAlias = Callable[[Message, float], None]  # raises AlertFailed


def step(database: Database, ours: Settings, now: float) -> None:
    """Tell what has not been told. A channel that fails is left alone until its next try."""
    channels = channels_of(ours)
    if not channels:
        return
    with database.reading() as tx:
        missing = unannounced(tx, list(channels), now)
    if missing:
        with database.transaction() as tx:
            alerts.expect(tx, missing, now)
    with database.reading() as tx:
        due = alerts.due(tx, list(channels), now, most_tries=MOST_TRIES, limit=AT_ONCE)
    broken: set[str] = set()
    for delivery in due:
        if delivery.channel not in broken and not _deliver(database, delivery, channels, now):
            broken.add(delivery.channel)


def channels_of(ours: Settings) -> dict[str, Send]:
    """The channels that are set, by names that give no secret away."""
    channels: dict[str, Send] = {}
    if ours.alert_webhook:
        channels["webhook"] = partial(_post, ours)
    for url in ours.alert_urls.split():
        digest = hashlib.sha256(url.encode()).hexdigest()[:8]
        channels[f"{url.partition(':')[0]}-{digest}"] = partial(_notify, url)
    return channels


def heard_by_all(
    channels: Mapping[str, Send], message: Message, now: float, **about: object
) -> bool:
    """Tell all channels; False if one fails, so that all have to hear it again."""
    try:
        for send in channels.values():
            send(message, now)
    except AlertFailed as error:
        log.warn(_log, "alert_failed", **about, error=error)
        return False
    log.event(_log, "alert_sent", logging.INFO, **about)
    return True


def message_of(told: RegressionNews, state: str) -> Message:
    """The message about one state of a regression."""
    identity = f"{told.id} {told.opened_at} {told.title} {state}"
    shown = told.changes[:MOST_CHANGES]
    return Message(
        id=f"msg_{hashlib.sha256(identity.encode()).hexdigest()[:32]}",
        title=f"vkbench: regression {told.id} became {state}: {told.title}",
        text=summaries.of_regression(told),
        body={
            "type": f"regression.{state}",
            "timestamp": datetime.fromtimestamp(told.changed_at, UTC).isoformat(),
            "data": asdict(told)
            | {"changes": [asdict(change) for change in shown]}
            | {"change_count": len(told.changes), "summary": summaries.of_regression(told)},
        },
    )


def retry_seconds(tries: int) -> float:
    """How long to wait after so many tries."""
    return min(FIRST_RETRY_SECONDS * 4.0 ** (tries - 1), LONGEST_RETRY_SECONDS)


def _deliver(
    database: Database, delivery: Delivery, channels: Mapping[str, Send], now: float
) -> bool:
    """Whether the channel is fit for more."""
    tries = delivery.tries + 1
    with database.transaction() as tx:
        if not alerts.claim(tx, delivery, now + retry_seconds(tries)):
            return True  # another scheduler's
        message = message_of(news.of_regression(tx, delivery.regression), delivery.state)
    error = ""
    try:
        channels[delivery.channel](message, now)
    except AlertFailed as failure:
        error = str(failure)
    with database.transaction() as tx:
        alerts.settle(tx, delivery, None if error else now, error)
    _note(delivery, tries, error)
    return not error


def _note(delivery: Delivery, tries: int, error: str) -> None:
    name = "alert_sent"
    if error:
        name = "alert_given_up" if tries >= MOST_TRIES else "alert_failed"
    log.event(
        _log,
        name,
        logging.WARNING if error else logging.INFO,
        regression=delivery.regression,
        state=delivery.state,
        channel=delivery.channel,
        tries=tries,
        error=error or None,
    )


def _post(ours: Settings, message: Message, now: float) -> None:
    body = json.dumps({"id": message.id, **message.body}, default=str).encode()
    webhook.post(ours.alert_webhook, ours.alert_secret, message.id, body, int(now))


def _notify(url: str, message: Message, now: float) -> None:
    from apprise import Apprise, NotifyFormat  # loads a hundred modules

    channel = Apprise()
    if not channel.add(url):
        raise AlertFailed("apprise does not understand this URL of VKBENCH_ALERT_URLS")
    try:
        heard = channel.notify(
            title=message.title, body=message.text, body_format=NotifyFormat.MARKDOWN
        )
    except Exception as error:  # a plugin's; the library catches what it knows
        raise AlertFailed(f"{type(error).__name__}: {error}") from error
    if not heard:
        raise AlertFailed("apprise could not deliver it; its log says why")

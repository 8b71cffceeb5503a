"""Alerts: news of regressions, told once through each channel, again until they are heard.

    channel        is set by
    webhook        VKBENCH_ALERT_WEBHOOK, signed with VKBENCH_ALERT_SECRET
    scheme-digest  one of VKBENCH_ALERT_URLS, through apprise
    issues-digest  VKBENCH_ISSUES: an issue of each regression, by `watch/issues.py`

A delivery is recorded once. On the wire it may come twice, when this process dies between sending
and recording: the message's id is the same then.

A flood becomes a digest: many regressions at once are one message. What grows is told at the end of
GATHER_SECONDS, and so is everything that comes after MOST_APART messages within so long.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Connection

from vkbench.process import log
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep import alerts
from vkbench_db.upkeep.alerts import Delivery
from vkbench_detection.regress import news
from vkbench_detection.regress.announcements import announcements, unannounced_news
from vkbench_detection.regress.stages import GROWN
from vkbench_scheduler.errors import AlertFailed
from vkbench_scheduler.watch import issues, webhook
from vkbench_scheduler.watch.messages import Message, RegressionAlert, digest_of, message_of

FIRST_RETRY_SECONDS = 30.0  # after the first try; each wait is four times the one before
LONGEST_RETRY_SECONDS = 6 * 3600.0
MOST_TRIES = 9  # over about 21 hours
AT_ONCE = 20  # messages of a step
MOST_DUE = 1000  # deliveries of a step
MOST_APART = 5  # regressions that have messages of their own at once; more are a digest
GATHER_SECONDS = 1800.0  # what comes up in so long, and can wait or has to, is told together

_log = logging.getLogger(__name__)


Send: TypeAlias = Callable[[Message, float], None]  # raises AlertFailed


def step(database: Database, settings: Settings, now: float) -> None:
    """Send what is due to each channel; one that fails waits for its next try."""
    issues_here = issues.channels_of(database, settings)
    channels = channels_of(settings) | issues_here
    if not channels:
        return
    with database.reading() as tx:
        missing = unannounced_news(tx, list(channels), now)
    if missing:
        with database.transaction() as tx:
            _expect(tx, missing, now)
    with database.reading() as tx:
        due = alerts.due_deliveries(tx, list(channels), now, most_tries=MOST_TRIES, limit=MOST_DUE)
    broken: set[str] = set()
    for together in islice(_messages(due, issues_here), AT_ONCE):
        channel = together[0].channel
        if channel not in broken and not _deliver(database, together, channels[channel], now):
            broken.add(channel)


def channels_of(settings: Settings) -> dict[str, Send]:
    """The configured channels, by names that reveal no secret."""
    channels: dict[str, Send] = {}
    if settings.alert_webhook:
        channels["webhook"] = partial(_post, settings)
    for url in settings.alert_urls.split():
        digest = hashlib.sha256(url.encode()).hexdigest()[:8]
        channels[f"{url.partition(':')[0]}-{digest}"] = partial(_notify, url)
    return channels


def heard_by_all(
    channels: Mapping[str, Send], message: Message, now: float, **about: object
) -> bool:
    """Send a message to all channels; False if one fails, and then all get it again."""
    try:
        for send in channels.values():
            send(message, now)
    except AlertFailed as error:
        log.warn(_log, "alert_failed", **about, error=error)
        return False
    log.event(_log, "alert_sent", logging.INFO, **about)
    return True


def retry_seconds(tries: int) -> float:
    """How long to wait after so many tries."""
    return min(FIRST_RETRY_SECONDS * 4.0 ** (tries - 1), LONGEST_RETRY_SECONDS)


def _expect(tx: Connection, missing: Sequence[tuple[int, str, str]], now: float) -> None:
    """Store deliveries: due at once, or gathered with others of the next GATHER_SECONDS."""
    lately = alerts.counts(tx, now - GATHER_SECONDS)
    gathered = now - now % GATHER_SECONDS + GATHER_SECONDS

    def waits(key: tuple[int, str, str]) -> bool:
        _, name, channel = key
        return name.startswith(GROWN) or lately.get(channel, 0) >= MOST_APART

    alerts.expect(tx, [key for key in missing if not waits(key)], now, now)
    alerts.expect(tx, [key for key in missing if waits(key)], now, gathered)


def _messages(due: Sequence[Delivery], apart: Container[str]) -> Iterator[list[Delivery]]:
    """The deliveries of each message: those of a regression, or all of many regressions.

    Channels that take each regression `apart` have no digests.

    What was told together and failed is told together again, with the same id.
    """
    groups: dict[tuple[str, float, int], list[Delivery]] = {}
    for delivery in due:
        groups.setdefault((delivery.channel, delivery.next_try_at, delivery.tries), []).append(
            delivery
        )
    for together in groups.values():
        by_regression: dict[int, list[Delivery]] = {}
        for delivery in together:
            by_regression.setdefault(delivery.regression, []).append(delivery)
        is_digest = len(by_regression) > MOST_APART and together[0].channel not in apart
        yield from [together] if is_digest else by_regression.values()


def _deliver(database: Database, together: Sequence[Delivery], send: Send, now: float) -> bool:
    """Deliver a message; whether the channel can take more."""
    tries = together[0].tries + 1
    with database.transaction() as tx:
        next_try_at = now + retry_seconds(tries)
        claimed = [delivery for delivery in together if alerts.claim(tx, delivery, next_try_at)]
        if not claimed:
            return True  # another scheduler's
        message = _message(tx, claimed)
    error = ""
    try:
        send(message, now)
    except AlertFailed as failure:
        error = str(failure)
    with database.transaction() as tx:
        for delivery in claimed:
            alerts.settle(tx, delivery, None if error else now, error)
    for delivery in claimed:
        _note(delivery, tries, error)
    return not error


def _message(tx: Connection, deliveries: Sequence[Delivery]) -> Message:
    names: dict[int, set[str]] = {}
    for delivery in deliveries:
        names.setdefault(delivery.regression, set()).add(delivery.state)
    known = announcements(tx, list(names))
    to_tell = [
        RegressionAlert(
            news=news.of_regression(tx, regression),
            announcements=[
                announcement for announcement in known[regression] if announcement.name in states
            ],
        )
        for regression, states in names.items()
    ]
    return message_of(to_tell[0]) if len(to_tell) == 1 else digest_of(to_tell)


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


def _post(settings: Settings, message: Message, now: float) -> None:
    body = json.dumps({"id": message.id, **message.body}, default=str).encode()
    webhook.post(settings.alert_webhook, settings.alert_secret, message.id, body, int(now))


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

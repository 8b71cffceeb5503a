"""Attempts on announcements whose text was heard before: what is checked once is checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planted_runner
from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.signing import SPOKEN, Keys, Untrusted, seal
from vkbench.messages.stamps import Stamp
from vkbench.messages.wire import Announcement, MalformedMessage
from vkbench.settings import Settings
from vkbench_scheduler.queue.announced import Announced

KEYS = Keys(scheduler=(b"s" * 32,), worker=(b"w" * 32,))
FACTS = planted_runner.facts("a", Settings(host="lab"))
SAID = Announcement(
    worker="lab:1",
    facts=FACTS,
    environment=planted_runner.environment(),
    bundle="b",
    speaks=SPOKEN,
    stamp=Stamp(sent=1000.0, number=1),
)


@pytest.fixture
def announced() -> Announced:
    """A scheduler that has heard the device once."""
    announced = Announced(KEYS)
    announced.read(FACTS.key, word(SAID))
    return announced


def word(said: Announcement, keys: Keys = KEYS) -> bytes:
    return wire.pack(said, keys, FACTS.key)


def test_the_same_text_is_read_with_each_new_stamp(announced: Announced) -> None:
    first, _ = announced.read(FACTS.key, word(SAID))
    later = Stamp(sent=1001.0, number=2)
    again, stamp = announced.read(FACTS.key, word(replace(SAID, stamp=later)))
    assert again is first
    assert stamp == later
    changed, _ = announced.read(FACTS.key, word(replace(SAID, bundle="c")))
    assert changed.bundle == "c"


@pytest.mark.parametrize("keys", [Keys(), Keys(scheduler=KEYS.scheduler, worker=(b"x" * 32,))])
def test_the_same_text_without_the_key_is_refused(announced: Announced, keys: Keys) -> None:
    with pytest.raises(Untrusted):
        announced.read(FACTS.key, word(SAID, keys))


@pytest.mark.parametrize(
    "end",
    [
        b"",
        b"}",
        b"{}",
        b'{"sent":"now","number":2}}',
        b'{"sent":1001.0,"number":%d}}' % 2**70,
        b'{"sent":1001.0,"number":2}},"worker":"other"}',
        b'{"sent":1001.0,"number":2}]',
        b'{"sent":1001.0,"number":2}}}',
    ],
)
def test_the_same_text_with_another_end_is_no_announcement(
    announced: Announced, end: bytes
) -> None:
    text, mark, _ = wire.encode(SAID).rpartition(b',"stamp":')
    sealed = seal(text + mark + end, wire.about(Announcement, FACTS.key), KEYS)
    with pytest.raises(MalformedMessage):
        announced.read(FACTS.key, sealed)


def test_another_device_with_the_same_text_is_refused(announced: Announced) -> None:
    other = planted_runner.facts("b", Settings(host="lab")).key
    with pytest.raises(VkbenchError):
        announced.read(other, wire.pack(SAID, KEYS, other))


def test_a_second_stamp_within_the_text_is_none(announced: Announced) -> None:
    """A text whose words look like the end of another stays what it is."""
    tricky = replace(SAID, lacking={"x": '","stamp":{"sent":1.0,"number":9}}'})
    for stamp in (SAID.stamp, Stamp(sent=1001.0, number=2)):
        said, found = announced.read(FACTS.key, word(replace(tricky, stamp=stamp)))
        assert found == stamp
        assert said.lacking == tricky.lacking

"""Who has no key can write no message, and make none pass for another."""

from __future__ import annotations

import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbench.errors import UsageError
from vkbench.messages import signing
from vkbench.messages.keys import keys_for, new_keys, read_keys
from vkbench.messages.signing import (
    NO_KEYS,
    PROTOCOL,
    Keys,
    OtherProtocol,
    Role,
    Subject,
    Untrusted,
    seal,
    unseal,
)
from vkbench.settings import Settings

KEYS = Keys(scheduler=(b"s" * 32,), worker=(b"w" * 32,))
SUBJECT = Subject(role=Role.SCHEDULER, kind="Chunk", place="0123456789ab")
OTHERS = [
    Subject(role=Role.WORKER, kind="Chunk", place="0123456789ab"),
    Subject(role=Role.SCHEDULER, kind="cancel", place="0123456789ab"),
    Subject(role=Role.SCHEDULER, kind="Chunk", place="ba9876543210"),
    Subject(role=Role.SCHEDULER, kind="Chunk\x000123456789ab", place=""),
]
PAYLOADS = st.binary(max_size=40)


@given(PAYLOADS)
def test_what_was_signed_comes_back(payload: bytes) -> None:
    for keys in (KEYS, NO_KEYS):
        message = seal(payload, SUBJECT, keys)
        assert unseal(message, SUBJECT, keys) == payload


@pytest.mark.parametrize("other", OTHERS)
def test_a_message_passes_for_no_other(other: Subject) -> None:
    with pytest.raises(Untrusted, match="wrong signature"):
        unseal(seal(b"{}", SUBJECT, KEYS), other, KEYS)


@given(PAYLOADS, st.data())
def test_a_changed_message_is_refused(payload: bytes, data: st.DataObject) -> None:
    message = bytearray(seal(payload, SUBJECT, KEYS))
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Untrusted):
        unseal(bytes(message), SUBJECT, KEYS)


@given(st.binary(max_size=80) | st.binary(max_size=20).map(lambda end: b"vk2 " + end))
def test_what_nobody_signed_is_refused(message: bytes) -> None:
    with pytest.raises(Untrusted):
        unseal(message, SUBJECT, KEYS)


def test_who_lacks_keys_is_told_so() -> None:
    with pytest.raises(Untrusted, match="not signed: its sender has no keys"):
        unseal(seal(b"{}", SUBJECT, NO_KEYS), SUBJECT, KEYS)
    with pytest.raises(Untrusted, match="this host has no keys: set VKBENCH_KEYS"):
        unseal(seal(b"{}", SUBJECT, KEYS), SUBJECT, NO_KEYS)


def test_the_key_of_one_role_does_not_sign_for_the_other() -> None:
    swapped = Keys(scheduler=KEYS.worker, worker=KEYS.scheduler)
    with pytest.raises(Untrusted):
        unseal(seal(b"{}", SUBJECT, swapped), SUBJECT, KEYS)


def test_keys_change_while_hosts_have_old_or_new_ones() -> None:
    old, new = b"o" * 32, b"n" * 32
    steps = [(old,), (old, new), (new, old), (new,)]
    for before, after in pairwise(steps):
        for one, other in ((before, after), (after, before)):
            sent = seal(b"{}", SUBJECT, Keys(scheduler=one, worker=one))
            assert unseal(sent, SUBJECT, Keys(scheduler=other, worker=other)) == b"{}"


def test_another_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for keys in (KEYS, NO_KEYS):
        with pytest.raises(OtherProtocol, match=r"it speaks protocol 7, this host (1 or )?2") as it:
            unseal(seal(b"{}", SUBJECT, keys, 7), SUBJECT, keys)
        assert (it.value.version, it.value.payload) == (7, b"{}")
    monkeypatch.setattr(signing, "SPOKEN", (PROTOCOL, 7))
    newer = replace(KEYS)  # which protocols keys speak is worked out once
    assert unseal(seal(b"{}", SUBJECT, newer, 7), SUBJECT, newer) == b"{}"


def test_bare_messages_are_read_only_where_nothing_is_signed() -> None:
    assert unseal(b'{"a": "b c"}', SUBJECT, NO_KEYS) == b'{"a": "b c"}'
    assert seal(b"{}", SUBJECT, NO_KEYS, signing.BARE) == b"{}"
    assert (NO_KEYS.protocols, KEYS.protocols) == ((1, 2), (2,))


def test_keys_are_files_for_their_owner_alone(tmp_path: Path) -> None:
    settings = Settings(keys=str(tmp_path / "keys"))
    files = new_keys(tmp_path / "keys")
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    keys = read_keys(settings)
    assert keys.scheduler != keys.worker
    with pytest.raises(UsageError, match="exists: --add"):
        new_keys(tmp_path / "keys")
    new_keys(tmp_path / "keys", add=True)
    more = read_keys(settings)
    assert (more.worker[:1], len(more.worker)) == (keys.worker, 2)
    assert keys.worker[0].hex() not in repr(keys)
    with pytest.raises(UsageError, match="there are no keys in"):
        new_keys(tmp_path / "none", add=True)


@pytest.mark.parametrize("text", ["", "zz", "abcd", "ab" * 32 + " 12"])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    new_keys(tmp_path)
    (tmp_path / "worker.key").write_text(text)
    with pytest.raises(UsageError, match=r"worker\.key holds no keys"):
        read_keys(Settings(keys=str(tmp_path)))
    (tmp_path / "worker.key").unlink()
    with pytest.raises(UsageError, match="No such file"):
        read_keys(Settings(keys=str(tmp_path)))


def test_messages_cross_a_network_signed_or_by_order(tmp_path: Path) -> None:
    far = Settings(redis="redis://:hunter2@redis-host/0")
    with pytest.raises(UsageError, match="vkbench key new") as error:
        keys_for(far)
    assert "hunter2" not in str(error.value)
    assert keys_for(replace(far, unsigned=True)) == NO_KEYS
    assert keys_for(Settings()) == NO_KEYS
    new_keys(tmp_path)
    assert keys_for(replace(far, keys=str(tmp_path))).worker

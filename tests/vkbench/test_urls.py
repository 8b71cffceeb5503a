"""A password is in no message, whatever it is made of and however malformed its URL is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vkbench.errors import UsageError
from vkbench.messages.redis_client import connect
from vkbench.messages.urls import hide_password, is_local, redis_place
from vkbench_db.database import parse_url

SECRET = "Zq7"  # begins and ends each password, and is nowhere else
PASSWORDS = st.text(st.sampled_from("ab1:/?#@%[] &=\\é\n"), max_size=8).map(
    lambda middle: SECRET + middle + SECRET
)
USERS = st.sampled_from(["", "ann", "a%40b"])
PLACES = st.sampled_from(
    ["h", "h:1", "h:port", "127.0.0.1:99999", "[::1]:6379", "[::1", "", "h:1/0?ssl_ca_certs=/a"]
)


def urls(*schemes: str) -> st.SearchStrategy[str]:
    parts = st.tuples(st.sampled_from(schemes), USERS, PASSWORDS, PLACES)
    return parts.map(lambda part: f"{part[0]}{part[1]}:{part[2]}@{part[3]}/0")


@given(urls("redis://", "rediss://", "postgresql://", "unix://", "redis:/", ""))
@example(f"redis://h/0?password={SECRET}")
@example(f"postgresql://h/d?user=x&sslpassword={SECRET}&sslmode=require")
def test_a_password_is_never_shown(url: str) -> None:
    assert SECRET not in hide_password(url)


@given(urls("redis://", "rediss://", "postgres://", "http://"))
def test_errors_of_clients_show_no_password(url: str) -> None:
    for opens in (redis_place, connect, is_local, parse_url):
        assert SECRET not in complaint(opens, url)


def complaint(opens: Callable[[str], object], url: str) -> str:
    """What a client says of a URL, with what it says was the cause."""
    try:
        opens(url)
    except UsageError as error:
        return f"{error} {error.__cause__}"
    return ""


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://redis-host:port/0",
        "sqlite:////home/ann/lab.db",
        "postgresql://vkbench@db-host/vkbench?sslmode=verify-full",
        "nonsense",
    ],
)
def test_the_rest_is_shown(url: str) -> None:
    assert hide_password(url) == url


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("redis://:pw@h", ("h", 6379)),
        ("rediss://h:7/1", ("h", 7)),
        ("redis:///1", ("127.0.0.1", 6379)),
        ("unix:///run/redis.sock", ("", 0)),
    ],
)
def test_where_redis_is(url: str, where: tuple[str, int]) -> None:
    assert redis_place(url) == where


@pytest.mark.parametrize("url", ["redis://h:port/0", "http://h", "", "redis://u:a/b@h", "h:6379"])
def test_what_is_no_url_of_redis(url: str) -> None:
    with pytest.raises(UsageError, match=r"malformed Redis URL .*expected redis://"):
        redis_place(url)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("[::1]", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("redis", False),
    ],
)
def test_a_server_of_this_machine(host: str, local: bool) -> None:
    assert is_local(f"redis://{host}:6379/0") is local

"""How PostgreSQL is reached: at one of several servers, that which takes writes at the moment.

A server that fails is left within seconds, and so is one that takes no writes any more: another may
have taken its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import ExceptionContext

from vkbench.messages.urls import hide_password

READ_ONLY: Final = "25006"  # SQLSTATE of a standby, or a server that takes no writes for now
CONNECT_SECONDS: Final = 5
# of each of several servers: every new connection asks those before the right one, in their order
CONNECT_SECONDS_EACH: Final = 2
# Statements that a connection has prepared. The server keeps a plan of each, 50 KB; a list of
# values makes another statement for each length, which would fill psycopg's usual 100.
PREPARED: Final = 32
# A host that loses its power resets no connection. The kernel would wait for hours for its answer.
_SILENCE: Final[Mapping[str, int]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds, of what was sent and not acknowledged
}
_TARGET: Final = "target_session_attrs"
_WRITABLE: Final = ("read-write", "primary")
# what a server tells by itself whenever it changes, from version 14 on
_TOLD: Final = ("in_hot_standby", "default_transaction_read_only")
_SEVERAL: Final = re.compile(
    r"(?P<before>postgres(?:ql)?(?:\+\w+)?://(?:[^/?#]*@)?)"
    r"(?P<places>[^/?#@]*,[^/?#@]*)(?P<after>.*)",
    re.DOTALL,
)
_PLACE: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>\d*))?")


def parse(text: str) -> URL:
    """A URL of any database; ArgumentError or ValueError if it is malformed.

    Several servers may be named as libpq does, `//a:5432,b:5432/name`, or as SQLAlchemy does,
    `///name?host=a:5432&host=b:5432`. Unless it says otherwise, it is of the one that takes writes.
    """
    several = _SEVERAL.fullmatch(text)
    if several:
        places = several["places"].split(",")
        url = make_url(several["before"] + several["after"])
    else:
        url = make_url(text)
        hosts = url.query.get("host", ())
        places = [] if isinstance(hosts, str) else [*hosts]
    if places:
        url = url.update_query_dict(_hosts_and_ports(places))
    if is_of_several(url):
        url = url.update_query_dict({_TARGET: url.query.get(_TARGET, "read-write")})
    return url


def is_of_several(url: URL) -> bool:
    """Whether a URL that was parsed names several servers."""
    return "," in str(url.query.get("host", ""))


def connect_seconds(url: URL) -> int:
    """How long one server has to answer."""
    return CONNECT_SECONDS_EACH if is_of_several(url) else CONNECT_SECONDS


def place(url: URL) -> str:
    """Where a URL leads, as messages say it: no password, no options."""
    at = ""
    if is_of_several(url):
        hosts, ports = (str(url.query.get(name, "")).split(",") for name in ("host", "port"))
        pairs = zip_longest(hosts, ports, fillvalue="")
        at = " at " + ",".join(f"{host}:{port}" if port else host for host, port in pairs)
    return hide_password(str(url.set(query={}))) + at


def engine(url: URL) -> Engine:
    """What makes connections; ImportError without psycopg."""
    options: dict[str, Any] = {"connect_timeout": connect_seconds(url), **_SILENCE}
    options = {name: value for name, value in options.items() if name not in url.query} | {
        "options": "-c timezone=UTC -c jit=off",  # its compiling takes longer than our statements
        "client_encoding": "utf8",  # a database in SQL_ASCII otherwise gives bytes for text
    }
    made = create_engine(url, connect_args=options, pool_pre_ping=True)
    event.listen(made, "connect", _bound_plans)
    event.listen(made, "checkin", _leave_mode_to_server)
    event.listen(made, "handle_error", _leave_if_read_only)
    if url.query.get(_TARGET) in _WRITABLE:
        event.listen(made, "checkout", _require_writable)
    return made


def _hosts_and_ports(places: list[str]) -> dict[str, str]:
    """Places as libpq's options have them."""
    matches = [_PLACE.fullmatch(place) for place in places]
    if not all(matches):
        raise ValueError("malformed hosts")  # without their names: they may be of a password
    hosts = [match["host"].strip("[]") for match in matches if match]
    ports = [match["port"] or "" for match in matches if match]
    return {"host": ",".join(hosts)} | ({"port": ",".join(ports)} if any(ports) else {})


def _bound_plans(connection: Any, record: object) -> None:
    connection.prepared_max = PREPARED


def _leave_mode_to_server(connection: Any, record: object) -> None:
    """Have the next transaction begin as the server has it.

    After one that read, it would ask for writes as it begins. A standby refuses that as a feature
    that it does not have, and not as a server that takes no writes.
    """
    if connection is not None and not connection.closed:
        connection.read_only = None


def _leave_if_read_only(context: ExceptionContext) -> None:
    """Have the pool drop its connections to a server that refused to write."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _require_writable(connection: Any, record: object, proxy: object) -> None:
    """Drop a connection whose server takes no writes any more, before it reads what is old."""
    if "on" in (connection.info.parameter_status(name) for name in _TOLD):
        raise exc.InvalidatePoolError("the server takes no writes any more")

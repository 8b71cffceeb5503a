"""A primary of PostgreSQL and its standby, which take each other's place as often as one likes."""

from __future__ import annotations

from cluster import until
from postgres_server import PostgresServer


class PostgresPair:
    """Two servers: the standby has whatever was committed, for commits wait until it has it."""

    def __init__(self, primary: PostgresServer) -> None:
        """A pair with a server that runs, which its owner closes."""
        self.primary, self.standby = primary, PostgresServer()
        self._places = f"{primary.place},{self.standby.place}"
        self._added = self.standby
        self.add_standby()

    def url(self, name: str) -> str:
        """The URL of a database, wherever it may be written at the time."""
        return f"postgresql://vk@{self._places}/{name}?target_session_attrs=read-write"

    def add_standby(self) -> None:
        """Make the standby anew, as a copy of the primary; from now on commits wait for it."""
        self.standby.make_standby_of(self.primary)
        self.standby.start()
        until(self._is_followed, "the standby does not follow", 30)
        self.primary.set("synchronous_standby_names = '*'")

    def fail_over(self) -> None:
        """The primary loses its power; the standby takes its place, and has no standby itself."""
        self.primary.kill()
        self.primary, self.standby = self.standby, self.primary
        self.primary.execute("SELECT pg_promote()")
        self.primary.set("synchronous_standby_names = ''")  # or its commits would wait for one

    def close(self) -> None:
        """Stop and remove the server that this pair has added."""
        self._added.close()

    def _is_followed(self) -> bool:
        question = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        return self.primary.ask(question) == 1

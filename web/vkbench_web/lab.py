"""What the pages read: the settings, and the database as it is when a page is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from vkbench.settings import Settings
from vkbench_db.blank import blank_database
from vkbench_db.database import Database, Transaction, parse_url
from vkbench_db.demonstration import is_demonstration, read_stories


class Lab:
    """The database of these settings, opened when the first page needs it.

    Where no setting names a database and this machine has none yet, pages show an empty one, and
    the real one as soon as it exists.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = Lock()
        self._database: Database | None = None
        self._is_demonstration = False

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that reads."""
        if database := self.database():
            with database.reading() as tx:
                yield tx
        else:
            with blank_database() as nothing, nothing.reading() as tx:
                yield tx

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that writes, to a database that exists or is made now."""
        with (self.database() or self._open_database(create=True)).transaction() as tx:
            yield tx

    def database(self) -> Database | None:
        """The database; None while this machine has none."""
        if self._database is None and not self._is_unmade():
            return self._open_database(create=False)
        return self._database

    def is_demonstration(self) -> bool:
        """Whether the results are made up; once they are, they stay so."""
        if not self._is_demonstration:
            with self.reading() as tx:
                self._is_demonstration = is_demonstration(tx)
        return self._is_demonstration

    def stories(self, tx: Transaction) -> Mapping[int, str]:
        """What was planted for each regression of a demonstration; nothing of real results."""
        return read_stories(tx) if self.is_demonstration() else {}

    def now(self) -> float:
        """The moment that ages are counted from."""
        return time.time()

    def close(self) -> None:
        """Close every connection to the database."""
        with self._lock:
            if self._database:
                self._database.close()
                self._database = None

    def _open_database(self, *, create: bool) -> Database:
        with self._lock:
            if self._database is None:
                url = self.settings.database_url()
                self._database = Database.open(url, create=create, watch=True)
            return self._database

    def _is_unmade(self) -> bool:
        if self.settings.database:
            return False
        return not os.path.lexists(str(parse_url(self.settings.database_url()).database))

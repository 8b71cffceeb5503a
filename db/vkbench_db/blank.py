"""A blank database in memory: what a reader asks where no database was made yet.

It has every table and view, and no row in any of them, so that each question has its usual answer.
Nothing is written to disk.
"""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, create_engine, select
from sqlalchemy.pool import StaticPool

from vkbench_db.database import Database
from vkbench_db.views import ALL_SERIES, REGRESSIONS, RESULTS, RUN

LATEST = "v_latest"  # the columns of v_results


def blank() -> Database:
    """A database of this version's schema without a row."""
    from vkbench_db.models import Model  # loads SQLAlchemy's ORM, which other readers do without

    engine = create_engine("sqlite://", poolclass=StaticPool)  # one connection: it is the database
    Model.metadata.create_all(engine)
    _views().create_all(engine)
    return Database(engine)


def is_blank(tx: Connection) -> bool:
    """Whether nothing was recorded: without a run there are no jobs, results nor series."""
    return tx.execute(select(RUN.c.id).limit(1)).first() is None


def _views() -> MetaData:
    """The public views as tables: without rows, a view and a table answer alike."""
    views = MetaData()
    for view in (RESULTS, ALL_SERIES, REGRESSIONS):
        view.to_metadata(views)
    RESULTS.to_metadata(views, name=LATEST)
    return views

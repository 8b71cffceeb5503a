"""The schema's history; runs from the installed package, without an alembic.ini."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(tx: Connection) -> None:
    """Apply within `tx` every migration that the database lacks."""
    command.upgrade(config(tx), "head")


def config(tx: Connection) -> Config:
    """Alembic's configuration for one connection."""
    settings = Config(attributes={"connection": tx})
    settings.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return settings

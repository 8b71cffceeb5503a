"""Errors of the database part; each message is one line."""

from __future__ import annotations

from vkbench.errors import ServiceUnreachable, UsageError, VkbenchError


class DatabaseUnreachable(ServiceUnreachable):
    """The database cannot be reached."""


class DatabaseBusy(DatabaseUnreachable):
    """Another process writes to the database, and does not end."""


class SchemaMissing(ServiceUnreachable):
    """The database holds no vkbench tables."""


class SchemaOutdated(ServiceUnreachable):
    """The database's tables are of another version of vkbench."""


class MalformedUrl(UsageError):
    """The database URL is malformed."""


class ImportRefused(UsageError):
    """The file is no export of vkbench, or it is damaged."""


class QueryRefused(UsageError):
    """The query cannot be run: only one reading statement is."""


class BundleRefused(VkbenchError):
    """The bundle's contents do not fit their hashes."""

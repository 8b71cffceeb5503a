"""SQL that makes a role of PostgreSQL for people who query: it reads the public views, no more.

A read-only transaction does not keep a session from functions with effects outside of it: ending
other sessions of the role, locks that outlive statements, large objects, other databases. Every
role may call them, through PUBLIC, until a superuser takes that away.
"""

from __future__ import annotations

from vkbench.errors import UsageError
from vkbench_db import schema

LONGEST_NAME = 63  # bytes
_SQL = """\
-- Run this in the database of vkbench, as a superuser: only one may change functions of the system
-- and temp_file_limit. Run it again after an upgrade of PostgreSQL, which forgets the functions.
BEGIN;
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal}) THEN
        CREATE ROLE {name} LOGIN;
    END IF;
END
$do$;
ALTER ROLE {name} NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 8;
ALTER ROLE {name} SET default_transaction_read_only = on;
ALTER ROLE {name} SET statement_timeout = '60s';
ALTER ROLE {name} SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE {name} SET temp_file_limit = '1GB';
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO {name};
GRANT SELECT ON {views} TO {name};
DO $do$
DECLARE
    function regprocedure;
    owner name := (SELECT tableowner FROM pg_tables WHERE tablename = 'alembic_version');
BEGIN
    FOR function IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace
        AND (proname IN ('pg_terminate_backend', 'pg_cancel_backend', 'pg_notify', 'set_config')
            OR proname IN ('loread', 'lowrite') OR proname LIKE 'lo\\_%'
            OR proname LIKE 'pg\\_advisory%' OR proname LIKE 'pg\\_try\\_advisory%')
        OR proname LIKE 'dblink%'
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', function);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function, owner);
    END LOOP;
END
$do$;
COMMIT;
"""


def reader_role_sql(name: str) -> str:
    """Statements that make the role, or bring one that exists to the same state."""
    if not name or "\0" in name or len(name.encode(errors="replace")) > LONGEST_NAME:
        raise UsageError(f"'{name}' is no name for a role of PostgreSQL")
    quoted = name.replace('"', '""')
    literal = name.replace("'", "''")
    if "$do$" in name or "\\" in name:
        raise UsageError(f"'{name}' is no name for a role: leave out $do$ and backslashes")
    return _SQL.format(
        name=f'"{quoted}"', literal=f"'{literal}'", views=", ".join(sorted(schema.VIEWS.tables))
    )

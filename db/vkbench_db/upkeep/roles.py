"""SQL that makes roles of PostgreSQL: one for people who query, one for the pages.

Who queries reads the public views and no more, and takes no more of the server's disk than the
role may. The pages read all and write what people do there: runs, triage, schedules. They can hand
in no bundle, no result and no token, and change no table.

A read-only transaction does not keep a session from functions with effects outside of it: ending
other sessions of the role, locks that outlive statements, large objects, other databases. Every
role may call them, through PUBLIC, until a superuser takes that away.
"""

from __future__ import annotations

from vkbench.errors import UsageError
from vkbench_db import schema
from vkbench_db.database import parse_url

LONGEST_NAME = 63  # bytes
_READER = """\
-- Run this in the database of vkbench, as a superuser: only one may change functions of the system
-- and temp_file_limit. Run it again after an upgrade of PostgreSQL, which forgets the functions.
BEGIN;
{made}
ALTER ROLE {name} CONNECTION LIMIT 8;
ALTER ROLE {name} SET default_transaction_read_only = on;
ALTER ROLE {name} SET statement_timeout = '60s';
ALTER ROLE {name} SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE {name} SET temp_file_limit = '256MB';
ALTER ROLE {name} SET work_mem = '16MB';
ALTER ROLE {name} SET hash_mem_multiplier = 1;
ALTER ROLE {name} SET max_parallel_workers_per_gather = 0;
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


_MADE = """\
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal}) THEN
        CREATE ROLE {name} LOGIN;
    END IF;
END
$do$;
ALTER ROLE {name} NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;"""
_PAGES = """\
-- Run this in the database of vkbench, as its owner or a superuser, after each upgrade of vkbench.
BEGIN;
{made}
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO {name};
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name};
{grants}
COMMIT;
"""
# What people do on the pages: submit and cancel runs, plan schedules, triage regressions.
_WRITTEN_BY_PAGES = {
    "run": "INSERT, UPDATE",
    "job": "INSERT, UPDATE",
    "kernel_case": "INSERT",
    "schedule": "INSERT",
    "regression": "UPDATE",
    "regression_event": "INSERT",
    "token": "UPDATE (last_used_at)",
}


def reader_role_sql(name: str) -> str:
    """Statements that make the role of who queries, or bring it to the same state again."""
    views = ", ".join(sorted(schema.VIEWS.tables))
    return _READER.format(name=_quote_name(name), made=_sql_to_make(name), views=views)


def pages_role_sql(name: str) -> str:
    """Statements that make the role of the pages, or bring it to the same state again."""
    quoted = _quote_name(name)
    grants = [f"GRANT {what} ON {table} TO {quoted};" for table, what in _WRITTEN_BY_PAGES.items()]
    return _PAGES.format(name=quoted, made=_sql_to_make(name), grants="\n".join(grants))


def give_roles(url: str, *, pages: str = "", reader: str = "") -> None:
    """Make the roles of these URLs of the database, with their passwords, or renew their rights."""
    import psycopg  # only hosts with a PostgreSQL database have it
    from psycopg import sql

    owner = parse_url(url)
    if owner.get_backend_name() != "postgresql":
        raise UsageError("only a database of PostgreSQL has roles")
    place = owner.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(place, autocommit=True) as connection:
        for role_url, sql_of in ((pages, pages_role_sql), (reader, reader_role_sql)):
            if role_url:
                role = parse_url(role_url)
                connection.execute(sql_of(role.username or "").encode())
                password = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(role.username or ""), sql.Literal(role.password)
                )
                connection.execute(password)


def _sql_to_make(name: str) -> str:
    literal = name.replace("'", "''")
    return _MADE.format(name=_quote_name(name), literal=f"'{literal}'")


def _quote_name(name: str) -> str:
    if not name or "\0" in name or len(name.encode(errors="replace")) > LONGEST_NAME:
        raise UsageError(f"'{name}' is no name for a role of PostgreSQL")
    if "$do$" in name or "\\" in name:
        raise UsageError(f"'{name}' is no name for a role: leave out $do$ and backslashes")
    doubled = name.replace('"', '""')
    return f'"{doubled}"'

"""Builds of programs as the database knows them: names and files, which a store of builds keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Text, bindparam, select, update

from vkbench.errors import UnknownName
from vkbench.job import ArmKind
from vkbench.programs.build import Build, BuildFile, build_of_name
from vkbench.words.names import pick_sha
from vkbench_db import schema
from vkbench_db.rows import insert_missing


def store_build(tx: Connection, build: Build) -> None:
    """Note a build, or the new name of one that is known."""
    files = [asdict(file) for file in build.files]
    row = {"sha": build.sha, "program": build.program, "name": build.name, "files": files}
    insert_missing(tx, schema.build, [row | {"added_at": build.added_at}])
    if build.name:
        known = schema.build.c
        tx.execute(update(schema.build).where(known.sha == build.sha).values(name=build.name))


def is_of_build(job: FromClause) -> ColumnElement[bool]:
    """Whether jobs are of builds, in the words of the index that has these alone."""
    build = bindparam("build", ArmKind.BUILD, Text(), unique=True, literal_execute=True)
    return job.c.arm_kind == build


def find_build(tx: Connection, word: str, program: str = "") -> Build | None:
    """The one build that a name or a hash means; None where none is, UsageError of several."""
    build = schema.build.c
    try:
        sha = find_build_sha(tx, word, program)
    except UnknownName:
        return None
    query = select(build.name, build.program, build.files).where(build.sha == sha)
    row = tx.execute(query).one()
    return Build(program=row.program, files=files_of(row.files), name=row.name)


def files_of(stored: Iterable[Mapping[str, Any]]) -> tuple[BuildFile, ...]:
    """The files of a build from the JSON that a row has of them."""
    return tuple(BuildFile(**file) for file in stored)


def is_build(tx: Connection, sha: str) -> bool:
    """Whether a hash names a build, and no bundle."""
    build = schema.build.c
    return tx.execute(select(build.sha).where(build.sha == sha)).first() is not None


def has_files(tx: Connection, sha: str) -> bool:
    """Whether a hash names a build whose files are known, so that some host may run it."""
    build = schema.build.c
    row = tx.execute(select(build.program, build.files).where(build.sha == sha)).first()
    if not row:
        return False
    return not Build(program=row.program, files=files_of(row.files)).is_name_alone


def find_build_sha(tx: Connection, word: str, program: str = "") -> str:
    """The hash of the build that a name, or the beginning of a hash, means.

    A name means the build whose files came to be known, and not what is known by that name alone
    since results of it were imported before.
    """
    build = schema.build.c
    query = select(build.sha, build.name, build.program).order_by(build.added_at, build.sha)
    rows = tx.execute(query.where(build.program == program) if program else query).all()
    alone = {row.sha for row in rows if build_of_name(row.program, row.name).sha == row.sha}
    whole = {(row.program, row.name) for row in rows if row.sha not in alone}
    names = {
        row.sha: "" if row.sha in alone and (row.program, row.name) in whole else row.name
        for row in rows
    }
    return pick_sha(word, names, "build")


def find_all_build_shas(tx: Connection, word: str) -> list[str]:
    """The hash of the build that a word means, and that of its name alone, if that is known too."""
    build = schema.build.c
    sha = find_build_sha(tx, word)
    row = tx.execute(select(build.program, build.name).where(build.sha == sha)).one()
    alone = build_of_name(row.program, row.name).sha if row.name == word.strip() else sha
    return [sha, alone] if alone != sha and is_build(tx, alone) else [sha]


def builds_between(tx: Connection, first: str, last: str) -> list[str]:
    """The hashes of a program's builds from one up to another, in the order of their adding."""
    build = schema.build.c
    rows = tx.execute(select(build.sha, build.program).order_by(build.added_at, build.sha)).all()
    programs = {row.sha: row.program for row in rows}
    shas = [row.sha for row in rows if row.program == programs.get(last)]
    if first not in shas or shas.index(first) > shas.index(last):
        return [first, last]
    return shas[shas.index(first) : shas.index(last) + 1]


def names_of_builds(tx: Connection) -> dict[str, str]:
    """What people call each build, by its hash."""
    build = schema.build.c
    return {row.sha: row.name for row in tx.execute(select(build.sha, build.name))}

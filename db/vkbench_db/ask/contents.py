"""What differs between two bundles, or two builds: which code or files changed, came and went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench import decoding
from vkbench_db import schema
from vkbench_db.work.builds import files_of


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What two sets of code differ in: how many parts of each kernel, or the files themselves."""

    changed: Mapping[str, int]
    added: Mapping[str, int]
    removed: Mapping[str, int]
    same: int  # parts that both have
    noun: str  # what a part is


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A compiled kernel, as far as a difference needs it."""

    key: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _Manifest:
    """A bundle's manifest, without what its code takes."""

    entries: tuple[_Entry, ...] = ()


def differ_bundles(tx: Connection, jobs: tuple[int, int]) -> Difference | None:
    """What two jobs' bundles differ in: by their manifests, or by the cases that both runs had.

    An import has no manifest, and runs say of the kernels alone that they ran.
    """
    attempt, job = schema.attempt.c, schema.job.c
    query = select(attempt.bundle).join(schema.job, job.id == attempt.job_id)
    shas = [
        tx.execute(query.where(job.id == one, attempt.token == job.settled_token)).scalar()
        for one in jobs
    ]
    old, new = (_read_manifest(tx, sha or "") for sha in shas)
    if old and new:
        return _differ(old, new, "compiled kernel")
    old, new = (_read_run(tx, one) for one in jobs)
    both = old.keys() & new.keys()
    return _differ({key: old[key] for key in both}, {key: new[key] for key in both}, "case")


def differ_builds(tx: Connection, old: str, new: str) -> Difference | None:
    """What two builds differ in, file by file; None where one is known by its name alone."""
    build = schema.build.c
    query = select(build.sha, build.files).where(build.sha.in_((old, new)))
    stored = {row.sha: files_of(row.files) for row in tx.execute(query)}
    if stored.keys() != {old, new}:
        return None
    before, after = ({file.path: file.sha for file in stored[sha]} for sha in (old, new))
    return _differ(before, after, "file")


def _read_manifest(tx: Connection, sha: str) -> Mapping[str, str]:
    """The hash of each compiled kernel of a bundle; none where the bundle is not kept."""
    bundle = schema.bundle.c
    text = tx.execute(select(bundle.manifest).where(bundle.sha == sha)).scalar()
    manifest = decoding.decode(text, _Manifest) if text else _Manifest()
    return {entry.key: entry.sha256 for entry in manifest.entries}


def _read_run(tx: Connection, number: int) -> Mapping[str, str]:
    """The hash of the code that computed each case of a job's run, on the job's device."""
    job, attempt, case = schema.job.c, schema.attempt.c, schema.kernel_case.c
    one = schema.job.alias("one")
    rows = tx.execute(
        select(case.name, attempt.variant, attempt.kernel_sha)
        .select_from(one)
        .join(schema.job, (job.run_id == one.c.run_id) & (job.device_id == one.c.device_id))
        .join(schema.attempt, schema.is_settling)
        .join(schema.kernel_case, case.id == job.case_id)
        .where(one.c.id == number, attempt.kernel_sha != "")
    )
    return {f"{name} {variant}": sha for name, variant, sha in rows}


def _differ(old: Mapping[str, str], new: Mapping[str, str], noun: str) -> Difference:
    both = old.keys() & new.keys()
    changed = [key for key in sorted(both) if old[key] != new[key]]
    return Difference(
        changed=_count(changed, noun),
        added=_count(sorted(new.keys() - both), noun),
        removed=_count(sorted(old.keys() - both), noun),
        same=len(both) - len(changed),
        noun=noun,
    )


def _count(keys: list[str], noun: str) -> Mapping[str, int]:
    """How many parts each kernel has, most first; a file counts once."""
    names = keys if noun == "file" else [key.partition("/")[0] for key in keys]
    return dict(Counter(names).most_common())

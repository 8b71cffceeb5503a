"""What two bundles or two builds differ in, as their manifests, files or runs tell it."""

from __future__ import annotations

import json

from sqlalchemy import insert, update

from databases import Lab
from vkbench.job import Outcome
from vkbench.programs.build import Build, BuildFile
from vkbench_db import schema
from vkbench_db.ask.contents import differ_builds, differ_bundles
from vkbench_db.work.builds import store_build


def test_builds_differ_in_files(lab: Lab) -> None:
    builds = [
        Build(
            program="p",
            files=tuple(BuildFile(path=path, sha=sha * 64, nbytes=1) for path, sha in files),
        )
        for files in ((("a.so", "a"), ("b.so", "b"), ("c", "c")), (("a.so", "a"), ("b.so", "d")))
    ]
    with lab.database.transaction() as tx:
        for build in builds:
            store_build(tx, build)
        found = differ_builds(tx, builds[0].sha, builds[1].sha)
        assert differ_builds(tx, builds[0].sha, "e" * 64) is None
    assert found
    assert (found.changed, found.added, found.removed) == ({"b.so": 1}, {}, {"c": 1})
    assert (found.same, found.noun) == (1, "file")


def test_bundles_differ_in_their_code_or_in_what_their_runs_ran(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    lab.submit(device, 1)
    old, new = lab.pick(device)
    lab.record(lab.answer(old, Outcome.PASSED), lab.answer(new, Outcome.PASSED))
    attempt = schema.attempt
    for job, sha in ((old, "a"), (new, "b")):
        with lab.database.transaction() as tx:
            changed = {"kernel_sha": sha * 64, "bundle": sha * 64}
            tx.execute(update(attempt).where(attempt.c.job_id == job.id).values(**changed))
    with lab.database.transaction() as tx:
        by_runs = differ_bundles(tx, (old.id, new.id))
        for sha, entries in (("a", {"copy/x": "1", "sum/x": "1"}), ("b", {"copy/x": "2"})):
            listed = [{"key": key, "sha256": code} for key, code in entries.items()]
            row = {"sha": sha * 64, "name": sha, "manifest": json.dumps({"entries": listed})}
            tx.execute(insert(schema.bundle).values(**row, created_at=0.0))
        by_code = differ_bundles(tx, (old.id, new.id))
    assert by_runs
    assert (sum(by_runs.changed.values()), by_runs.same, by_runs.noun) == (1, 0, "case")
    assert by_code
    assert (by_code.changed, by_code.removed) == ({"copy": 1}, {"sum": 1})

"""What a job ran on that is gone, so that running it again does something else."""

from __future__ import annotations

from sqlalchemy import Connection, select

from vkbench.device import DRIVER_NAME
from vkbench.job import ArmKind
from vkbench.programs.build import SHA_SHOWN
from vkbench_db import schema
from vkbench_db.ask.devices.drivers import drivers_of_devices
from vkbench_db.ask.job_story import JobStory
from vkbench_db.work.builds import has_files


def list_gone(tx: Connection, story: JobStory) -> list[str]:
    """Sentences about the bundle, build or driver of a job that is not there any more."""
    sentences = [_describe_code(tx, story), _describe_driver(tx, story)]
    return [sentence for sentence in sentences if sentence]


def _describe_code(tx: Connection, story: JobStory) -> str:
    """Say that the bundle or the build is gone, as far as this database knows."""
    facts, ran = story.facts, story.settling
    sha = (ran.bundle if ran else "") or facts.bundle
    if not sha:
        return ""
    if facts.arm_kind == ArmKind.BUILD:
        if has_files(tx, sha):
            return ""
        return f"Of the build {sha[:SHA_SHOWN]} no files are known: hand it in again to run it."
    bundle, device = schema.bundle.c, schema.device.c
    is_stored = tx.execute(select(bundle.sha).where(bundle.sha == sha)).first()
    packaged = tx.execute(select(device.bundle).where(device.key == facts.device)).scalar()
    if is_stored or packaged == sha:
        return ""
    return (
        f"The bundle {sha[:SHA_SHOWN]} is gone: this database has no copy, and {facts.host} has "
        "another one installed."
    )


def _describe_driver(tx: Connection, story: JobStory) -> str:
    """Say that the driver is gone: an added one is not there, or the installed one is another."""
    facts, ran = story.facts, story.settling
    then = story.environments.get(ran.environment, {}) if ran else {}
    if name := (then.get("extra") or {}).get(DRIVER_NAME):
        added = drivers_of_devices(tx, [facts.device]).get(facts.device)
        if added is None or name in {driver.name for driver in added}:
            return ""
        return f"The driver {name} is gone: {facts.host} does not have it any more."
    device, environment = schema.device.c, schema.environment.c
    now = tx.execute(
        select(environment.driver, environment.driver_version)
        .join(schema.device, device.environment == environment.hash)
        .where(device.key == facts.device)
    ).first()
    ran_on = (then.get("driver") or "", then.get("driver_version") or "")
    if not now or not any(ran_on) or tuple(now) == ran_on:
        return ""
    old, new = (" ".join(filter(None, words)) for words in (ran_on, now))
    return f"The driver {old} is gone: {facts.host} has {new} now, and the line runs on that."

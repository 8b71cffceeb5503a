"""Notes on each regression of the demonstration that it was planted, and what was.

Detection found the regressions from the results alone, before it had any note.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from vkbench_db import demonstration
from vkbench_db.database import Database
from vkbench_detection.regress import inbox, regressions
from vkbench_detection.regress.inbox import MemberRow
from vkbench_local.demo import releases, story
from vkbench_local.demo.nights import Lab


def tell_stories(database: Database, lab: Lab, now: float) -> None:
    """Note of each regression which planted story it shows; one without a story has no note."""
    with database.transaction() as tx:
        for row in inbox.regressions(tx):
            members = inbox.story(tx, row.id).members
            if words := next(filter(None, (find_words(lab, member) for member in members)), ""):
                note = f"{demonstration.PLANTED}: {words}"
                regressions.annotate(tx, row.id, now, user=demonstration.TELLER, note=note)


def find_words(lab: Lab, member: MemberRow) -> str:
    """What was planted where a change is; "" if nothing was."""
    if member.program:
        return releases.WORDS
    stories = [
        planted
        for planted in story.PLANTED
        if fnmatchcase(member.case_name, planted.cases)
        and any(lab.facts(machine).key == member.device for machine in planted.machines)
    ]
    return stories[0].words if stories else ""

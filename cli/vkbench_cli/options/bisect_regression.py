"""What `vkbench bisect --regression` searches: the largest change of a regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.configuration import is_divided
from vkbench.errors import NothingToDo
from vkbench.result import UNPAIRED

if TYPE_CHECKING:
    from vkbench_db.database import Transaction
    from vkbench_detection.regress.news import ChangedCase


def find_change(tx: Transaction, regression: int, *, of_drivers: bool = False) -> ChangedCase:
    """The largest change of a regression that pairs can measure; NothingToDo if there is none.

    Unless drivers are searched, changes that came without another bundle or build do not count;
    where they are, those of a program's builds do not, for drivers run kernels.
    """
    from vkbench_detection.regress import news

    regression_news = news.of_regression(tx, regression)
    if regression_news.direction == "faster":
        raise NothingToDo(
            f"regression {regression} is an improvement: there is no bad bundle to find"
        )
    moved = [
        change
        for change in regression_news.changes
        if (not change.program if of_drivers else change.before_bundle != change.after_bundle)
    ]
    if of_drivers and not moved:
        raise NothingToDo(f"regression {regression} is of builds, and drivers run kernels")
    if not moved:
        raise NothingToDo(
            f"the kernels of regression {regression} are the same before and after: "
            f"its cause is {regression_news.cause}, so that no bundle is to blame"
        )
    paired = [
        change
        for change in moved
        if not is_divided(change.variant) and change.metric not in UNPAIRED
    ]
    if not paired:
        what = "shards" if is_divided(moved[0].variant) else f"the metric {moved[0].metric}"
        raise NothingToDo(f"regression {regression} is of {what}, which pairs do not measure")
    return max(paired, key=lambda change: (change.direction == "wrong", change.ratio or 0.0))


def order_of(tx: Transaction, change: ChangedCase) -> tuple[str, str]:
    """The bundles or the builds that came between the arms of a change, in their order."""
    from vkbench_db.upkeep.bisections import bundles_between
    from vkbench_db.work.builds import builds_between, is_build

    ends = change.before_bundle, change.after_bundle
    if is_build(tx, change.after_bundle):
        return "", ",".join(builds_between(tx, *ends))
    return ",".join(bundles_between(tx, *ends)), ""
